package minerva

import (
	"reflect"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// sampleMessages returns messages of every kind, both empty and with all fields set.
func sampleMessages() map[string]protocol.Message {
	k, ordered := simload.Key(300), simload.GroupKey(3, 9)
	return map[string]protocol.Message{
		"batch": (&Batch{Origin: 3, Number: 1 << 40, First: 7, Epoch: 300, Records: []Record{
			{Txn: simload.Txn(txn.MakeID(1, 1), "a1+5 r2")},
			{Txn: simload.Txn(txn.MakeID(1, 2), "g3.9+5 w300=1"), Reads: optimistic.Reads{
				Points: []optimistic.Point{{Key: k, Writer: txn.MakeID(2, 9)}, {Key: ordered, Absent: true}, {Key: k, Writer: 5, Back: 300, Absent: true}},
				Ranges: []optimistic.Range{
					{From: ordered, To: ordered + "\x00", Rows: []optimistic.Version{{Key: ordered, Writer: 7}}},
					{From: ordered.Unit(), To: ordered.Unit().End()},
				},
			}, Writes: []txn.WriteEntry{{Key: k, Value: []byte("v")}, {Key: ordered, Deleted: true}}},
			{Txn: simload.Txn(txn.MakeID(1, 3), "r1"), Unexecuted: true},
		}}).seal(),
		"empty batch":        (&Batch{}).seal(),
		"acknowledgement":    &Acknowledgement{300},
		"no acknowledgement": &Acknowledgement{},
		"proof":              &Proof{1 << 40},
		"request":            &Request{65535, 1, 300},
		"forgotten":          &Forgotten{65535, 300},
		"cut":                &Cut{Heads{0, 1, 300, maxNumber}},
		"no cut":             &Cut{},
		"progress":           &Progress{300, Heads{1, 2}},
		"no progress":        &Progress{},
		"join":               &Join{300},
		"cuts":               &Cuts{[]byte("state")},
		"follow":             &Follow{1<<40 + 1},
		"followed":           &Followed{1<<40 + 1, 1<<40 + 300},
		"piece":              &statetransfer.Piece{ID: 300, Part: statetransfer.Part{At: 2, Size: 3, Data: []byte("s")}},
		"piece acknowledged": &statetransfer.Ack{ID: 300, Got: 3},
	}
}

func TestCodec(t *testing.T) {
	protocoltest.Codec(t, sampleMessages(), protocoltest.All(decode, simload.Procedures))
	kind := raftpb.MsgHeartbeat
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(&raftpb.Message{Type: &kind, To: new(uint64(1)), From: new(uint64(2)), Term: new(uint64(3))})
	if err != nil {
		t.Fatal(err)
	}
	m := &consensus.Message{Body: body, Type: kind} // decode handles consensus messages separately
	if got, err := decode(m.Kind(), m.AppendTo(nil), nil); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%v comes back as %v, %v", m, got, err)
	}
}

// decode refuses bodies that no valid message encodes to.
func TestRefusedMessages(t *testing.T) {
	for name, m := range map[string]protocol.Message{
		"a range of no group": (&Batch{Records: []Record{{Txn: simload.Txn(1, "r1"), Reads: optimistic.Reads{
			Ranges: []optimistic.Range{{From: simload.Key(1), To: simload.Key(2)}},
		}}}}).seal(),
		"a row with a malformed key": (&Batch{Records: []Record{{Txn: simload.Txn(1, "r1"), Reads: optimistic.Reads{
			Points: []optimistic.Point{{Key: "short"}},
		}}}}).seal(),
		"a transaction that cannot be prepared": (&Batch{Records: []Record{{Txn: &txn.Transaction{ID: 1, Proc: 9}}}}).seal(),
		"a number that is too large":            &Proof{maxNumber + 1},
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
