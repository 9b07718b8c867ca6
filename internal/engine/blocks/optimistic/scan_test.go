package optimistic_test

import (
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
)

// A scan records uncommitted rows, including deleted ones, as point reads, whose writers must commit. It records
// committed rows as rows of its range.
func TestScanNotesUncommittedRows(t *testing.T) {
	s := store.NewHash()
	for _, n := range []uint8{2, 4, 6} {
		s.Put(simload.GroupKey(0, n), nil, 5)
	}
	written := func(n uint8, deleted bool, back uint64) optimistic.Written {
		return optimistic.Written{WriteEntry: txn.WriteEntry{Key: simload.GroupKey(0, n), Deleted: deleted}, Writer: txn.ID(90 + n), Back: back}
	}
	x := &optimistic.Execution{Committed: s, Uncommitted: overlay{written(3, false, 2), written(4, true, 1), written(9, false, 1)}}
	if _, err := x.Run(simload.Procedures, simload.Txn(1, "l0.0-9")); err != nil {
		t.Fatal(err)
	}
	reads := x.Reads()
	want := []optimistic.Point{{Key: simload.GroupKey(0, 3), Writer: 93, Back: 2}, {Key: simload.GroupKey(0, 4), Writer: 94, Back: 1, Absent: true}}
	if !slices.Equal(reads.Points, want) || len(reads.Ranges) != 1 || len(reads.Ranges[0].Rows) != 3 {
		t.Errorf("it notes %+v and %+v, want %+v and a range with three rows", reads.Points, reads.Ranges, want)
	}
}
