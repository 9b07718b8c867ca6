package sunstorm

import (
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
)

// inGroup returns the key of row n of a group whose home is region b.
func inGroup(n uint8) txn.Key { return simload.GroupKey(1, n) }

func scanned(from, to uint8, rows ...uint8) Part {
	g := optimistic.Range{From: inGroup(from), To: inGroup(to)}
	for _, n := range rows {
		g.Rows = append(g.Rows, optimistic.Version{Key: inGroup(n)})
	}
	return Part{Reads: optimistic.Reads{Ranges: []optimistic.Range{g}}}
}

func writing(n uint8) Part { return Part{Writes: []txn.WriteEntry{{Key: inGroup(n)}}} }

// A prepared transaction conflicts with a write into its scanned range, and with a scan of its writes.
func TestRulesOfScans(t *testing.T) {
	for name, tc := range map[string]struct {
		prepared, x Part
		want        bool
	}{
		"a row of a scan is prepared":         {writing(5), scanned(2, 9), false},
		"its first row is prepared":           {writing(2), scanned(2, 9), false},
		"the row behind a scan is prepared":   {writing(9), scanned(2, 9), true},
		"a row is written that was scanned":   {scanned(2, 9), writing(5), false},
		"the first row is written of a scan":  {scanned(2, 9), writing(2), false},
		"the row behind is written of a scan": {scanned(2, 9), writing(9), true},
		"both have scanned":                   {scanned(2, 9), scanned(2, 9), true},
	} {
		r, _ := newWriter(t, votesDirect)
		w := &r.writer
		p, other := &participation{id: 1, part: tc.prepared}, &participation{id: 2, part: writing(20)}
		w.keep(p)
		w.keep(other)
		w.release(other)
		if got := w.checkSerializable(&tc.x); got != tc.want {
			t.Errorf("%s: allowed %t, want %t", name, got, tc.want)
		}
		w.release(p)
		if !w.checkSerializable(&tc.x) || w.ranged != 0 {
			t.Errorf("%s: it is not allowed when the other one has ended", name)
		}
	}
}

// A scan is stale if its first page has changed, or the page of any returned row.
func TestPagesOfScans(t *testing.T) {
	for changed, want := range map[uint8]bool{2: true, 4: false, 5: true, 9: false} {
		r, _ := newNodeOf(t, simload.TwoRegions(1), 0, 0, map[string]string{"keysPerPage": "1"})
		g := &r.writer.pages
		g.changed[pageOf(inGroup(changed), r.placement, g.keys)] = 7
		p := scanned(2, 9, 5)
		if got := g.outdated(&p.Reads, 6); got != want {
			t.Errorf("the page of row %d has changed, and a scan from row 2 on that has met row 5 is outdated: %t", changed, got)
		}
	}
}

// A scan covers its whole range unless it reached its limit.
func TestSeenByAScan(t *testing.T) {
	for limit, want := range map[int]txn.Key{0: inGroup(9), 2: inGroup(5) + "\x00", 3: inGroup(9)} {
		read := &rerun.Read{Range: txn.Range{From: inGroup(2), To: inGroup(9), Limit: limit}, Rows: []rerun.Row{{Key: inGroup(3)}, {Key: inGroup(5)}}}
		if g := seen(read); g.To != want || g.From != inGroup(2) {
			t.Errorf("with limit %d it has looked from %v to %v, want to %v", limit, g.From, g.To, want)
		}
	}
}
