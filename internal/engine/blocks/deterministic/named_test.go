package deterministic

import (
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
)

// gone implements Moves for rows that have all left their initial homes.
type gone struct{}

func (gone) Count(txn.Key) uint64        { return 1 }
func (gone) Later(txn.Key, uint64, Late) {}

// A transaction with moved rows has no lock. It is unfinished until the other participants know that it is stale, so
// its executor is not idle. If places are not log positions, a reset discards all reads.
func TestIdleWithoutLocks(t *testing.T) {
	s := &scene{}
	s.x = New(Config{
		Self: 0, Layout: simload.TwoRegions(2).Full(), Procedures: simload.Procedures, Store: store.NewHash(), Env: s, KeepLocks: true, Moves: gone{},
		Answer: func(txn.Outcome) {},
	})
	if !s.x.Idle() {
		t.Error("an executor is idle before it has begun anything")
	}
	late := PlaceOf(txn.MakeID(9, 9), 0)
	s.x.Reads(1, &Reads{Reads: []Read{{Place: late}}})
	if !s.x.Idle() {
		t.Error("reads that come early are nothing to wait for")
	}
	s.x.Part(PlaceOf(1, 0), simload.Txn(1, "a0+1 a1+1"), false, geo.NodeID(3), 0, nil)
	if s.x.Idle() || !s.x.locks.empty() || s.x.Foreign() != 1 || s.x.Parted() != 1 {
		t.Errorf("a stale transaction waits for the other partition: idle %v, %d locks, %d of others, %d in parts", s.x.Idle(), len(s.x.locks.locks), s.x.Foreign(), s.x.Parted())
	}
	s.x.Reset(5)
	if !s.x.Idle() || len(s.x.running) > 0 || s.x.Foreign() != 0 || s.x.Parted() != 0 {
		t.Errorf("after it has forgotten everything: idle %v, %d are running, %d of others, %d in parts", s.x.Idle(), len(s.x.running), s.x.Foreign(), s.x.Parted())
	}
	if s.x.Reads(1, &Reads{Reads: []Read{{Place: PlaceOf(2, 0)}}}); len(s.x.running) != 1 {
		t.Errorf("%d are running, want the one that reads have come for: a name is behind no place", len(s.x.running))
	}
}
