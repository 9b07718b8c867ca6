package sdur

import (
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// A group's snapshot contains the complete state that the group's log has produced.
func TestSnapshotOfTheWholeState(t *testing.T) {
	replicas := idle(t)
	from, to := replicas[0].groups[1], replicas[1].groups[1]
	name := func(number uint64) raftgroup.Name { return raftgroup.Name{Coordinator: 1, Number: number} }
	pending := &delivery{
		Update: Update{
			ID: 5, Done: 3, Snapshot: Snapshot{Count: 1, At: 9}, Participants: []int{0, 1}, Floor: 11, Anchor: 1,
			Reads: []uint64{7}, Ranges: []txn.Range{txn.Prefix(simload.GroupKey(1, 0).Unit())}, Writes: []txn.WriteEntry{{Key: simload.GroupKey(1, 2), Value: []byte("new")}},
		},
		name: name(4), number: 12, earliest: 30, decided: true, logged: true, verdict: Commit, timestamp: 40,
	}
	pending.footprint = footprintOf(&pending.Update)
	completed := &delivery{name: name(6), decided: true, verdict: Commit, timestamp: 20, completed: 2}
	completed.Participants, completed.Anchor = []int{0, 1}, 1
	from.pending = append(from.pending, pending)
	from.unfinished.add(pending)
	from.globals[pending.name], from.globals[completed.name] = pending, completed
	for n := uint64(1); n <= 2; n++ {
		from.history.add(n, footprint{reads: []uint64{n}, writes: []uint64{10 * n}, ranges: pending.Ranges, ordered: []txn.Key{simload.GroupKey(1, 2)}})
	}
	from.ended.Forget(1, 3, nil)
	from.ended.Finish(name(7), ending{Prevented, 0})
	from.prevented[name(7)] = true
	from.deliveries, from.completed, from.last, from.horizon = 13, 2, 20, 35
	to.Restore(from.Snapshot())
	protocoltest.Restored(t, &from.state, &to.state)
	if got := to.pending; len(got) == 1 {
		protocoltest.Restored(t, pending, got[0], "completed", "at", "votes", "since", "readFilter", "writeFilter")
		protocoltest.Restored(t, &pending.Update, &got[0].Update)
	}
	if got := to.globals[completed.name]; got != nil {
		protocoltest.Restored(t, completed, got, "Update", "footprint", "number", "earliest", "logged", "at", "votes", "since", "readFilter", "writeFilter")
	}
	if to.oldest != 20 {
		t.Errorf("versions from %d on are there, want 20", to.oldest)
	}
}
