package spanner

import (
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// A group's snapshot contains the complete state that the group's log has produced.
func TestSnapshotOfTheWholeState(t *testing.T) {
	from, to := newLone(t).groups[0], newLone(t).groups[0]
	name := func(number uint64) raftgroup.Name { return raftgroup.Name{Coordinator: 1, Number: number} }
	prepared := &effect{
		name: name(4), id: 5, done: 3, timestamp: 70, writes: []txn.WriteEntry{{Key: simload.Key(0), Value: []byte("new")}},
		promise: promise{reads: []txn.Range{txn.Point(simload.Key(2))}, anchor: 1, participants: []int{0, 1}},
	}
	from.prepared[prepared.name] = prepared
	from.ended.Forget(1, 3, nil)
	from.ended.Finish(name(6), Outcome{Committed: true, Timestamp: 60})
	from.ended.Finish(name(7), Outcome{})
	from.prevented[name(7)] = true
	from.closed, from.latest = 50, 80
	to.Restore(from.Snapshot())
	protocoltest.Restored(t, &from.state, &to.state)
	if got := to.prepared[prepared.name]; got != nil {
		protocoltest.Restored(t, prepared, got)
	}
	if to.oldest != 80 {
		t.Errorf("versions from %d on are there, want 80", to.oldest)
	}
}

// If a group has refused to prepare a transaction, a member that was restored from a snapshot also refuses.
func TestPreventedBySnapshotIsNotPrepared(t *testing.T) {
	l, other := newLone(t), newLone(t)
	l.Receive(1, &Query{Group: 0, Term: 1, Of: raftgroup.Name{Coordinator: 1, Number: 1}, For: 1})
	other.groups[0].Restore(l.groups[0].Snapshot())
	other.prepare(1, 0, simload.Key(0))
	other.hears(t, "lost 1")
}
