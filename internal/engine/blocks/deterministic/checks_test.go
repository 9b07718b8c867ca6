package deterministic

import (
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/invariant"
	"github.com/geobench/geobench/internal/bench/simload"
)

var (
	testOrder  = invariant.New("test.order", "requests are queued in log order")
	testPairs  = invariant.New("test.pairs", "two transactions that arrive in parts have the same order everywhere")
	testCircle = invariant.New("test.circle", "no transactions wait for each other in a cycle")
)

// Queues that must never occur violate the invariants, and all other queues do not. A word is the queue of one row. w1
// and r1 are the requests of transaction 1 to write and to read. p1 is w1 of a transaction that arrives in parts. 0 is
// a reader without a position.
func TestChecksOfQueues(t *testing.T) {
	for name, tc := range map[string]struct{ queues, broken string }{
		"none":                          {"", ""},
		"in order":                      {"w1,r2,r3,w4 r2,w3", ""},
		"out of order":                  {"w1,w3,w2", "test.order"},
		"a reader without a place":      {"w1,r0,w2", ""},
		"out of order around it":        {"w2,r0,w1", "test.order"},
		"parts in one order":            {"p1,p2 p1,w3,p4", ""},
		"parts in two":                  {"p1,w2,p3 p3,p1", "test.order test.pairs test.circle"},
		"parts in one, which is not up": {"p3,p1 p3,p1", "test.order"},
		"a circle of two":               {"w1,w2 w2,w1", "test.order test.circle"},
		"a circle of three":             {"w1,r2 w2,w3 w3,w1", "test.order test.circle"},
		"readers share":                 {"r1,r2 r2,r1", "test.order"},
		"a reader in a circle":          {"w1,r3,r2 w2,w1", "test.order test.circle"},
		"behind a circle":               {"w1,w2,r4 w2,w1 w4,w5", "test.order test.circle"},
	} {
		t.Run(name, func(t *testing.T) {
			x := &Executor{locks: newLockTable()}
			all := map[byte]*execution{}
			row := uint64(0)
			for queue := range strings.FieldsSeq(tc.queues) {
				row++
				for request := range strings.SplitSeq(queue, ",") {
					e := all[request[1]]
					if e == nil {
						e = &execution{at: Place{Index: uint64(request[1] - '0')}, parted: request[0] == 'p'}
						all[request[1]] = e
					}
					x.locks.acquire(e, simload.Key(row), request[0] != 'r')
				}
			}
			var broken []string
			for _, check := range []struct {
				i *invariant.Invariant
				f func(*invariant.Checker, *invariant.Invariant)
			}{{testOrder, x.CheckOrder}, {testPairs, x.CheckPairs}, {testCircle, x.CheckCircles}} {
				c := invariant.NewChecker("test", simload.TwoRegions(1))
				if check.f(c, check.i); c.Broken() != nil {
					broken = append(broken, c.Broken().Name)
				}
			}
			if got := strings.Join(broken, " "); got != tc.broken {
				t.Errorf("%q are broken, want %q", got, tc.broken)
			}
		})
	}
}
