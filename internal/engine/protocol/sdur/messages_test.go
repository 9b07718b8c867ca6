package sdur

import (
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// sampleMessages returns messages of every kind, with and without content.
func sampleMessages() map[string]protocol.Message {
	k, ordered := simload.Key(300), simload.GroupKey(3, 9)
	writes := []txn.WriteEntry{{Key: k, Value: []byte("v")}, {Key: ordered, Deleted: true}}
	found := []raftgroup.Found{{{Value: []byte("v")}}, nil, {{Key: ordered, Value: []byte("w")}, {Key: simload.GroupKey(3, 10)}}}
	rows := txn.Range{From: ordered, To: simload.GroupKey(3, 20)}
	local := Update{ID: txn.MakeID(1, 7), Done: 12, Snapshot: Snapshot{Count: 300, At: 1 << 60}, Reads: []uint64{1 << 63, 5}, Ranges: []txn.Range{rows}, Writes: writes}
	global := local
	global.Participants, global.Floor, global.Anchor = []int{0, 7, 300}, 1<<60, 7
	name := raftgroup.Name{Coordinator: 65535, Number: 9}
	return map[string]protocol.Message{
		"lead":          &raftgroup.Lead{Group: 7, Term: 3},
		"read":          &Read{Group: 7, Number: 1 << 40, Round: 2, View: Newest, Ranges: []txn.Range{txn.Point(k), rows}},
		"read again":    &Read{Group: 7, Number: 1, Round: 3, View: Same, Snapshot: Snapshot{Count: 300, At: 1 << 60}},
		"read a cut":    &Read{Number: 1, Round: 1, View: Cut, Snapshot: Snapshot{At: 1 << 60}},
		"rows":          &Rows{Group: 7, Number: 1, Round: 2, Snapshot: Snapshot{Count: 1, At: 2}, Found: found},
		"too old":       &Rows{Number: 1, Round: 2, TooOld: true},
		"submit":        &Submit{Group: 7, Term: 3, Number: 9, Update: local},
		"submit again":  &Submit{Group: 7, Term: 3, Number: 9, Again: true, Update: global},
		"submit less":   &Submit{},
		"vote":          &Vote{Group: 7, Term: 3, About: 300, Of: name, Verdict: Commit, Timestamp: 1 << 60},
		"vote to abort": &Vote{Group: 7, Term: 3, About: 300, Of: name, Verdict: FalsePositive, Final: true},
		"ask":           &Vote{Group: 7, Of: name, Request: Ask},
		"demand":        &Vote{Group: 7, Of: name, Verdict: Commit, Request: Demand},
		"answer":        &Answer{Group: 7, Number: 9, Verdict: Commit},
		"last answer":   &Answer{Group: 7, Number: 9, Verdict: Prevented, Final: true},
	}
}

func TestCodec(t *testing.T) {
	protocoltest.Codec(t, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}

func FuzzDecode(f *testing.F) {
	protocoltest.FuzzCodec(f, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}
