package primary

import (
	"reflect"
	"testing"

	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// sampleMessages has messages of every kind, empty and full.
func sampleMessages() map[string]protocol.Message {
	writes := []txn.WriteEntry{{Key: simload.Key(300), Value: []byte("v")}, {Key: simload.GroupKey(3, 9), Deleted: true}}
	reads := optimistic.Reads{Points: []optimistic.Point{{Key: simload.Key(300), Writer: txn.MakeID(1, 2)}}}
	committed := txn.Outcome{ID: txn.MakeID(1, 2), Status: txn.Committed, Result: []byte("r"), Class: 1}
	return map[string]protocol.Message{
		"relay":             &Relay{Number: 300, Oldest: 299, Transaction: simload.Txn(txn.MakeID(1, 2), "r1 a2+1")},
		"call":              &Call{Term: 1, Number: 300, Oldest: 299, Transaction: simload.Txn(txn.MakeID(1, 2), "r1 a2+1")},
		"begin":             &Request{Term: 1, Number: 300, Oldest: 299, Step: 1, First: true},
		"statement":         &Request{Term: 1, Number: 300, Oldest: 299, Step: 200, Writes: writes},
		"barrier":           &Request{Number: maxNumber, Barrier: true},
		"commit":            &Commit{Term: 1, Number: 300, Oldest: 299, ID: txn.MakeID(1, 2), Reads: reads},
		"empty commit":      &Commit{},
		"reply":             &Reply{1, 300, 200, 1 << 40},
		"answer":            &Answer{Term: 1, Number: 300, Entry: 1 << 40, Outcome: committed},
		"answer to a relay": &Answer{Relayed: true, Outcome: txn.Outcome{Status: txn.Aborted, Cause: txn.CauseConflict, Reason: ReasonStaleRead}},
		"log": &Append{Term: 1, First: 300, Committed: 200, Entries: []Entry{
			{raftgroup.Name{Coordinator: 3, Number: 300}, 299, committed, writes}, {Outcome: txn.Outcome{Status: txn.Committed}},
		}},
		"empty log":  &Append{},
		"ack":        &Ack{1, 300},
		"takeover":   &Takeover{Term: 1, Writer: 65535, Base: 300, Planned: true},
		"recovered":  &Takeover{Term: 1, Base: 300, Recovered: true},
		"behind":     &Behind{1, 300},
		"ahead":      &Ahead{1, 300},
		"survey":     &Survey{},
		"standing":   &Standing{1, 299, 300},
		"a piece":    &statetransfer.Piece{ID: 300, Part: statetransfer.Part{At: 1, Size: 3, Data: []byte("v")}},
		"of a piece": &statetransfer.Ack{ID: 300, Got: 2},
	}
}

func TestCodec(t *testing.T) {
	protocoltest.Codec(t, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}

// The decoder refuses bodies that are not valid encodings of a message.
func TestRefusedMessages(t *testing.T) {
	for name, m := range map[string]protocol.Message{
		"a row with a malformed key":       &Request{Writes: []txn.WriteEntry{{Key: "short"}}},
		"a number that is too large":       &Ack{Last: maxNumber + 1},
		"a procedure that nobody knows":    &Call{Transaction: &txn.Transaction{ID: 1, Proc: 999}},
		"an answer that never is a status": &Answer{Outcome: txn.Outcome{Status: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := decode(m.Kind(), m.AppendTo(nil), simload.Procedures); err == nil {
				t.Errorf("taken for %v", got)
			}
		})
	}
	if got, err := decode(kindStanding+1, nil, nil); err == nil {
		t.Errorf("an unknown kind is taken for %v", got)
	}
}

// A decoded copy equals the encoded copy, and a copy that cannot be restored is refused.
func TestCopy(t *testing.T) {
	name := raftgroup.Name{Coordinator: 3, Number: raftgroup.First(2)}
	committed := txn.Outcome{ID: txn.MakeID(1, 2), Status: txn.Committed, Result: []byte("r"), Class: 1}
	endings := raftgroup.Endings[txn.Outcome]{}
	endings.Finish(name, committed)
	for what, m := range map[string]*Copy{
		"empty": {Endings: raftgroup.Endings[txn.Outcome]{}},
		"full": {
			Term: 1, Last: 300, Committed: 299, Rows: []store.Row{{Key: simload.Key(300), Record: store.Record{Writer: txn.MakeID(1, 2), Value: []byte("v")}}}, Endings: endings,
			Tail: []Entry{{name, name.Number, committed, []txn.WriteEntry{{Key: simload.Key(300), Value: []byte("v")}}}},
		},
	} {
		data := m.appendTo(nil)
		if got, err := readCopy(data); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s: %+v comes back as %+v: %v", what, m, got, err)
		}
		for n := range data {
			if got, err := readCopy(data[:n]); err == nil {
				t.Errorf("%s: %d of %d bytes are taken for %+v", what, n, len(data), got)
			}
		}
		if _, err := readCopy(append(data, 0)); err == nil {
			t.Errorf("%s: is taken with something behind", what)
		}
	}
	if _, err := readCopy((&Copy{Rows: []store.Row{{Key: "short"}}}).appendTo(nil)); err == nil {
		t.Error("a malformed key is taken")
	}
}

func FuzzDecode(f *testing.F) {
	protocoltest.FuzzCodec(f, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}
