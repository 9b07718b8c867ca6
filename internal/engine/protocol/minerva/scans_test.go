package minerva

import (
	"fmt"
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// A transaction that has scanned a range is a neighbor of every transaction that writes a row in the range, including
// the first row.
func TestNeighborsOfScans(t *testing.T) {
	key := func(n uint8) txn.Key { return simload.GroupKey(0, n) }
	scans := &Record{Reads: optimistic.Reads{Ranges: []optimistic.Range{{From: key(2), To: key(9)}}}}
	writes := func(n uint8) *Record { return &Record{Writes: []txn.WriteEntry{{Key: key(n)}}} }
	for name, tc := range map[string]struct {
		chains []*Record // each of a different replica
		want   string
	}{
		"its first row":           {[]*Record{writes(2), scans}, "[[1] [0]]"},
		"a row in it":             {[]*Record{scans, writes(5)}, "[[1] [0]]"},
		"the row behind it":       {[]*Record{writes(9), scans}, "[]"},
		"the row before it":       {[]*Record{writes(1), scans}, "[]"},
		"two who write a row":     {[]*Record{writes(5), writes(5), scans}, "[[1 2] [0 2] [0 1]]"},
		"two who write two rows":  {[]*Record{writes(5), writes(6), scans}, "[[2] [2] [0 1]]"},
		"two who have scanned it": {[]*Record{scans, scans, writes(5)}, "[[2] [2] [0 1]]"},
	} {
		c := &conflicts{}
		c.init(none)
		c.reset()
		for origin, r := range tc.chains {
			c.begin(int32(origin))
			c.add(r)
		}
		c.build(0)
		for _, n := range c.graph.Neighbors {
			slices.Sort(n)
		}
		if got := fmt.Sprint(c.graph.Neighbors); got != tc.want {
			t.Errorf("%s: neighbors %s, want %s", name, got, tc.want)
		}
	}
}

// A transaction that has scanned an uncommitted row follows the row's writer. It does not see rows of a transaction
// that will be re-executed.
func TestScansOfUncommittedRows(t *testing.T) {
	for doom, want := range map[bool]int{false: 1, true: 0} {
		r, _ := alone(t, 0, nil)
		r.Submit(simload.Txn(1, "p0.1=1"))
		if doom {
			r.local.open.Front().status = doomed
		}
		r.Submit(simload.Txn(2, "l0.0-9 a2+1"))
		var x *transaction
		r.local.open.Each(func(last *transaction) { x = last })
		if len(x.after) != want {
			t.Errorf("doomed %t: the scan comes after %d others, want %d", doom, len(x.after), want)
		}
	}
}

// A new incarnation without rows sends no rows. Once it has joined, it accepts batches of its predecessor from other
// replicas, but no batches of its own incarnation. The later of two incarnations counts, regardless of the order of
// messages.
func TestRowsOfTheLacking(t *testing.T) {
	r, w := reborn(t, 1, nil)
	w.sent = nil
	if r.Receive(0, &Join{}); len(w.take(0)) > 0 {
		t.Error("it gives rows that it does not have")
	}
	r.rejoin.joined = true
	for number, want := range map[uint64]bool{1: true, protocol.NumbersBefore(1) + 1: false} {
		r.Receive(0, (&Batch{Origin: 1, Number: number, First: number, Records: []Record{{Txn: simload.Txn(9, "a1+10"), Unexecuted: true}}}).seal())
		r.logs.all[1].open(0)
		if got := r.logs.all[1].get(number) != nil; got != want {
			t.Errorf("it takes batch %d of node 1 from another one: %t", number, got)
		}
	}
	r.Replaced(2, 2)
	if r.Replaced(2, 1); r.rejoin.incarnations[2] != 2 {
		t.Errorf("the last incarnation is %d, want 2", r.rejoin.incarnations[2])
	}
}
