package batchlog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// still is an environment that ignores all calls.
type still struct{ protocol.Env }

func (still) Now() time.Duration                { return 0 }
func (still) Send(geo.NodeID, protocol.Message) {}
func (still) Mark(*coverage.Mark)               {}

// newStill returns a member of a log with three members. The member is not the leader.
func newStill() *member {
	nodes := []geo.NodeID{0, 1, 2}
	return New(Config{Self: 2, Nodes: 3, Members: nodes, Audience: nodes, Env: still{}, Advance: func() {}}).member
}

func entry(all ...Ordered) []byte { return (*batches)(&all).appendTo(nil) }

func placed(sequencer geo.NodeID, number uint64) Ordered {
	return Ordered{BatchID{sequencer, number}, Set(0).With(0)}
}

// A member restored from a snapshot assigns the same positions as a member that has applied every entry.
func TestSnapshotRestoresThePosition(t *testing.T) {
	a, b := newStill(), newStill()
	a.apply(entry(placed(0, 1), placed(1, 1)))
	a.apply(entry(placed(0, 2), Ordered{Batch: BatchID{1, 3}}))
	b.apply(entry(placed(0, 1)))
	b.restore(a.snapshot())
	if b.count != 4 || !cmp.Equal(a.recent, b.recent) || !cmp.Equal(a.next, b.next) {
		t.Errorf("after the snapshot %d positions are given, %v are known, and next are %v; want 4, %v, and %v", b.count, b.recent, b.next, a.recent, a.next)
	}
	more := entry(placed(0, 2), placed(0, 3), placed(1, 3), placed(1, 4)) // the first and third are repetitions
	a.apply(more)
	b.apply(more)
	if a.count != 6 || b.count != 6 || !cmp.Equal(a.next, b.next) || !cmp.Equal(a.recent, b.recent) {
		t.Errorf("one has given %d positions and the other %d, next are %v and %v", a.count, b.count, a.next, b.next)
	}
}

// Batches of a sequencer get positions in the order of their numbers, each once. A batch that overtakes a lost batch
// waits for it.
func TestPlacesInOrder(t *testing.T) {
	m := newStill()
	m.apply(entry(placed(0, 2)))
	m.apply(entry(placed(0, 1), placed(0, 1)))
	m.apply(entry(placed(0, 3), placed(0, 2)))
	m.apply(entry(placed(0, 3)))
	if want := []Ordered{placed(0, 1), placed(0, 2), placed(0, 3)}; !cmp.Equal(m.recent, want) {
		t.Errorf("places have %v, want %v", m.recent, want)
	}
}

// The leader of the highest term is the current leader, regardless of the order of messages.
func TestLatestLeader(t *testing.T) {
	l := &Log{}
	l.follow(2, 5)
	if l.follow(1, 4); l.leader != 2 || l.term != 5 {
		t.Errorf("after the late news of term 4 node %d leads in term %d, want node 2 in term 5", l.leader, l.term)
	}
}
