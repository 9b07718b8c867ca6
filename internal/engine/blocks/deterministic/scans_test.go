package deterministic

import (
	"encoding/binary"
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
)

// If a transaction scans a range or writes a row outside its footprint, it commits nothing.
func TestUndeclaredUsesOfGroups(t *testing.T) {
	for found, want := range map[bool]string{true: "t0.1 refused ", false: "t0.1 aborted "} {
		s := newScene(false, false)
		u := simload.Txn(1, "w0=3 l0.0-9")
		u.Ranges, u.Found = nil, found
		s.x.Run(Place{Position: 1}, u, 0)
		s.expect(t, "scans a group of which it names no range", want)
		u = simload.Txn(1, "w0=3 p0.1=3")
		u.Accesses, u.Found = u.Accesses[:1], found
		s.x.Run(Place{Position: 2}, u, 0)
		s.expect(t, "writes a row of a group that it does not name", want)
		for _, k := range []txn.Key{simload.Key(0), simload.GroupKey(0, 1)} {
			if r, there := s.x.c.Store.Get(k); there && r.Writer != 0 {
				t.Errorf("found %v: row %v is written", found, k)
			}
		}
	}
}

// The reads of another partition for several ranges arrive in the order of the footprint.
func TestRangesOfAnotherPartition(t *testing.T) {
	s := newScene(false, false)
	s.x.Run(Place{Position: 1}, simload.Txn(1, "r0 l1.0-9 l3.0-9"), 0)
	s.said()
	found := func(group uint64, row uint8) Value {
		return Value{Range: true, rows: rows{{Key: simload.GroupKey(group, row), Value: binary.BigEndian.AppendUint64(nil, uint64(row))}}}
	}
	s.x.Reads(1, &Reads{Reads: []Read{{Place{Position: 1}, 2, false, false}}, Values: []Value{found(1, 4), found(3, 5)}})
	s.expect(t, "has scanned two groups", "t0.1 committed 0=10 1.4=4 3.5=5")
}
