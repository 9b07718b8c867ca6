package spanner

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/geobench/geobench/internal/base/invariant"
	"github.com/geobench/geobench/internal/base/txn"
)

var (
	closedGrows = invariant.New("spanner.closed-grows",
		"a member's closed timestamp and latest timestamp never decrease")
	preparedLater = invariant.New("spanner.prepared-later",
		"the timestamp of every prepared transaction is above the closed timestamp")
	exclusive = invariant.New("spanner.exclusive", "an exclusive lock on a row excludes all other locks on the row")
)

// Check implements protocol.Checked.
func (r *Replica) Check(c *invariant.Checker) {
	for _, g := range r.groups {
		if g == nil {
			continue
		}
		g.Member.Check(c)
		c.Grows(closedGrows, fmt.Sprintf("closed in shard %d", g.Shard), g.closed)
		c.Grows(closedGrows, fmt.Sprintf("latest in shard %d", g.Shard), g.latest)
		earliest := uint64(math.MaxUint64)
		for _, e := range g.prepared {
			earliest = min(earliest, e.timestamp)
		}
		c.That(preparedLater, g.closed < earliest, "shard %d is closed up to %d, and has prepared %d", g.Shard, g.closed, earliest)
		for _, key := range slices.SortedFunc(maps.Keys(g.locks.units), func(a, b txn.Key) int { return cmp.Compare(a, b) }) {
			u := g.locks.units[key]
			for i, a := range u.granted {
				for _, b := range u.granted[:i] {
					c.That(exclusive, !a.conflicts(b), "%v and %v both have locks of %v", b.h.name, a.h.name, key)
				}
			}
		}
	}
}
