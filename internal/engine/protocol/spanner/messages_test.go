package spanner

import (
	"reflect"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// sampleMessages returns messages of every kind, with and without content.
func sampleMessages() map[string]protocol.Message {
	h := Header{Group: 7, Term: 3, Number: 1 << 40, Clock: 1_700_000_000_000_000_000}
	age := Age{Attempt: 2, Start: 1 << 60, ID: txn.MakeID(1, 7)}
	k, ordered := simload.Key(300), simload.GroupKey(3, 9)
	writes := []txn.WriteEntry{{Key: k, Value: []byte("v")}, {Key: ordered, Deleted: true}}
	found := []raftgroup.Found{{{Value: []byte("v")}}, nil, {{Key: ordered, Value: []byte("w")}, {Key: simload.GroupKey(3, 10)}}}
	rows := txn.Range{From: ordered, To: simload.GroupKey(3, 20), Limit: 5, Reverse: true}
	kind := raftpb.MsgHeartbeat
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(&raftpb.Message{Type: &kind, To: new(uint64(1)), From: new(uint64(2)), Term: new(uint64(3))})
	if err != nil {
		panic(err)
	}
	return map[string]protocol.Message{
		"raft":             &raftgroup.Raft{Group: 300, Message: &consensus.Message{Body: body, Type: kind}},
		"lead":             &raftgroup.Lead{Group: 7, Term: 3},
		"read":             &Read{Header: h, Age: age, Again: true, Wants: []rerun.Need{{Range: txn.Point(k), Mode: txn.ReadWrite}, {Range: rows, Mode: txn.Read}}},
		"last read":        &Read{Last: true},
		"rows":             &Rows{h, found},
		"no rows":          &Rows{},
		"commit":           &Commit{Effects{Header: h, Age: age, Held: 3, Done: 12, Writes: writes}},
		"commit again":     &Commit{Effects{Header: h, Again: true}},
		"prepare":          &Prepare{Effects{Header: h, Age: age, Held: 3, Done: 12, Writes: writes}, 7, []int{0, 7, 300}},
		"prepare of reads": &Prepare{Effects: Effects{Header: h}, Anchor: 1},
		"resolve":          &Resolve{h, 65535, 12, Outcome{true, 1 << 60}},
		"abort":            &Resolve{Header: h},
		"release":          &Ask{h, Release},
		"cancel":           &Ask{h, Cancel},
		"prepared":         &Answer{h, Prepared, 1 << 60},
		"lost":             &Answer{h, Lost, 0},
		"query":            &Query{7, 3, raftgroup.Name{Coordinator: 65535, Number: 9}, 8},
		"status":           &Status{7, 8, raftgroup.Name{Coordinator: 1, Number: 9}, true, Outcome{true, 5}},
		"in doubt":         &Status{7, 8, raftgroup.Name{Coordinator: 1, Number: 9}, false, Outcome{false, 5}},
		"ping":             &Ping{},
		"pong":             &Ping{Answer: true},
		"snapshot read":    &SnapshotRead{7, 9, 2, 1 << 60, []txn.Range{txn.Point(k), rows}},
		"snapshot rows":    &SnapshotRows{7, 9, 2, false, found},
		"too old":          &SnapshotRows{Group: 7, Number: 9, Round: 2, TooOld: true},
	}
}

func TestCodec(t *testing.T) {
	messages := sampleMessages()
	m := messages["raft"]
	delete(messages, "raft") // the Raft message is tested separately below
	protocoltest.Codec(t, messages, protocoltest.All(decode, simload.Procedures))
	body := m.AppendTo(nil)
	if got, err := decode(m.Kind(), body, nil); err != nil || len(body) != m.Size() || !reflect.DeepEqual(got, m) {
		t.Errorf("%v in %d bytes comes back as %v, %v", m, m.Size(), got, err)
	}
}

func FuzzDecode(f *testing.F) {
	protocoltest.FuzzCodec(f, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}
