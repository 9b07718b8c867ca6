package oceanvista

import (
	"testing"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// sampleMessages returns messages and log entries of every kind, both empty and with all fields set.
func sampleMessages() map[string]protocol.Message {
	first := Functor{makeTimestamp(1_000_000, 3), simload.Txn(txn.MakeID(1, 1), "a1+5 r2")}
	found := *simload.Txn(txn.MakeID(1, 2), "g3.9+5 w300=1")
	found.Found, found.Exact = true, true
	second := Functor{makeTimestamp(1<<48-1, maxNode), &found}
	return map[string]protocol.Message{
		"write":                       &Write{View: 300, Epoch: 7, Functor: first},
		"write with found footprint":  &Write{Functor: second},
		"stored":                      &Stored{first.Timestamp},
		"gossip":                      &Gossip{300, 7, second.Timestamp, first.Timestamp, 1 << 40, 299},
		"no gossip":                   &Gossip{},
		"report":                      &Report{3, 7, 300, true, first.Timestamp, []Functor{first, second}},
		"empty report":                &Report{},
		"join request":                &JoinRequest{300},
		"proposal of a suspicion":     &Proposal{(&suspicion{3, 300}).append(nil)},
		"proposal of a decision":      &Proposal{(&decision{3, 7, 300, true, first.Timestamp, []Functor{first, second}}).append(nil)},
		"proposal of a join":          &Proposal{(&join{3, 7, 300, 1, first.Timestamp, 0}).append(nil)},
		"proposal of an abandonment":  &Proposal{(&abandonment{3, 7}).append(nil)},
		"proposal without a survivor": &Proposal{(&decision{}).append(nil)},
		"proposal of a loss":          &Proposal{(&loss{3, 1<<32 - 1}).append(nil)},
		"proposal of a mark":          &Proposal{(&join{3, 7, 300, 1, first.Timestamp, 2}).append(nil)},
		"proposal of replenishment":   &Proposal{(&replenishment{3, 300}).append(nil)},
		"proposal of a gap":           &Proposal{(&gap{3, 300}).append(nil)},
		"state request":               &StateRequest{300},
	}
}

func TestCodec(t *testing.T) {
	protocoltest.Codec(t, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}

// decode refuses bodies that no valid message encodes to.
func TestRefusedMessages(t *testing.T) {
	for name, m := range map[string]protocol.Message{
		"a transaction that cannot be prepared": &Write{Functor: Functor{1, &txn.Transaction{ID: 1, Proc: 9}}},
		"an empty entry":                        &Proposal{},
		"an unknown entry":                      &Proposal{[]byte{9, 0, 0}},
		"a loss of an impossible incarnation":   &Proposal{codec.AppendUvarint([]byte{entryLoss, 3}, 1<<32)},
		"an entry with something left over":     &Proposal{append((&suspicion{3, 300}).append(nil), 0)},
		"a survivor that cannot be prepared":    &Proposal{(&decision{survivors: []Functor{{1, &txn.Transaction{ID: 1, Proc: 9}}}}).append(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := decode(m.Kind(), m.AppendTo(nil), simload.Procedures); err == nil {
				t.Errorf("taken for %v", got)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	protocoltest.FuzzCodec(f, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}
