package coco

import (
	"math"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// sampleMessages returns messages of every kind, both empty and with all fields set.
func sampleMessages() map[string]protocol.Message {
	k, ordered := simload.Key(300), simload.GroupKey(3, 9)
	// Run has no bound: the counter takes any value of its type.
	a, turn := Attempt{1 << 40, math.MaxUint64}, Turn{7 << roundBits, 300}
	expected := []Expected{{Key: k, Version: 300, Known: true}, {Key: ordered}}
	first := txn.Range{From: ordered, To: ordered.Unit().End(), Limit: 2}
	return map[string]protocol.Message{
		"read":        &Read{a, []txn.Range{txn.Point(k), first}},
		"empty read":  &Read{},
		"rows":        &Rows{a, []raftgroup.Found{{{Value: []byte("v")}}, nil, {{Key: ordered, Value: []byte("w")}}}, []uint64{0, 300}},
		"no rows":     &Rows{},
		"lock":        &Lock{a, expected},
		"empty lock":  &Lock{},
		"locked":      &Locked{a, Valid, 1 << 50},
		"not locked":  &Locked{a, WriteChanged, 0},
		"validate":    &Validate{a, 300, expected, []ExpectedRange{{first, expected}, {Range: txn.Range{From: ordered, To: ordered + "\x00"}}}},
		"validate no": &Validate{},
		"validated":   &Validated{a, ReadChanged},
		"write":       &Write{a, txn.MakeID(1, 2), 300, []txn.WriteEntry{{Key: k, Value: []byte("v")}, {Key: ordered, Deleted: true}}},
		"no write":    &Write{},
		"unlock":      &Unlock{a},
		"done":        &Done{300},
		"snapshot":    &Snapshot{300, 70000, true, []SnapshotRow{{k, txn.MakeID(1, 2), []byte("v")}, {Key: ordered}}},
		"a piece":     &Snapshot{300, 70000, false, []SnapshotRow{{Key: ordered}}},
		"no snapshot": &Snapshot{},
		"start":       &Start{turn},
		"stop":        &Stop{turn},
		"vote":        &Vote{turn},
		"collect":     &Collect{turn.Ballot},
		"state":       &State{turn, 299},
		"view":        &View{turn.Ballot, 300, 302, []geo.NodeID{0, 2, 65535}, nil, []geo.NodeID{2}, []uint64{1, 301}},
		"later view":  &View{turn.Ballot, 300, 302, []geo.NodeID{0, 2, 65535}, []uint32{0, 1, 1<<32 - 1}, []geo.NodeID{2}, nil},
		"no view":     &View{},
		"alive":       &Alive{turn.Ballot},
		"ready":       &Ready{turn.Ballot},
		"missed":      &Missed{turn.Ballot},
	}
}

func TestCodec(t *testing.T) {
	protocoltest.Codec(t, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}

// decode refuses bodies that no valid message encodes to.
func TestRefusedMessages(t *testing.T) {
	k := simload.Key(1)
	for name, m := range map[string]protocol.Message{
		"a verdict that there is not":       &Validated{Attempt{1, 1}, lastVerdict + 1},
		"no verdict":                        &Locked{Attempt{1, 1}, 0, 1},
		"an epoch without a successor":      &Done{maxEpoch + 1},
		"a malformed key":                   &Lock{Attempt{1, 1}, []Expected{{Key: "short"}}},
		"a single row as a range":           &Validate{Attempt{1, 1}, 1, nil, []ExpectedRange{{Range: txn.Point(k)}}},
		"a range of no group":               &Validate{Attempt{1, 1}, 1, nil, []ExpectedRange{{Range: txn.Range{From: k, To: simload.Key(2)}}}},
		"a snapshot with a malformed key":   &Snapshot{1, 1, true, []SnapshotRow{{Key: "short"}}},
		"a shard that no layout can have":   &Snapshot{1, raftgroup.MaxShard + 1, true, nil},
		"a ballot that nobody can outbid":   &Alive{maxEpoch + 1},
		"a view that commits such an epoch": &View{Committed: maxEpoch + 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := decode(m.Kind(), m.AppendTo(nil), simload.Procedures); err == nil {
				t.Errorf("taken for %v", got)
			}
		})
	}
	if m, err := decode(99, nil, nil); err == nil {
		t.Errorf("a kind that there is not is taken for %v", m)
	}
}

func FuzzDecode(f *testing.F) {
	protocoltest.FuzzCodec(f, sampleMessages(), protocoltest.All(decode, simload.Procedures))
}
