package sdur

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/invariant"
)

var (
	sameState     = invariant.New("sdur.same-state", "members of a group that have come to the same time of its log have delivered as many transactions and ticks")
	countersGrow  = invariant.New("sdur.counters-grow", "the delivery counter, the snapshot counter and the horizon of a member never go back")
	completedLess = invariant.New("sdur.completed", "no more transactions complete than were delivered, and those that are pending have not")
)

type timeOf struct {
	Shard   int
	Horizon uint64
}

// Check implements protocol.Checked.
func (r *Replica) Check(c *invariant.Checker) {
	for _, g := range r.groups {
		if g == nil {
			continue
		}
		g.Member.Check(c)
		c.Grows(countersGrow, fmt.Sprintf("deliveries of shard %d", g.Shard), g.deliveries)
		c.Grows(countersGrow, fmt.Sprintf("completions of shard %d", g.Shard), g.completed)
		c.Grows(countersGrow, fmt.Sprintf("the horizon of shard %d", g.Shard), g.horizon)
		c.That(completedLess, g.completed+uint64(len(g.pending)) <= g.deliveries, "of %d deliveries of shard %d, %d have completed and %d are pending",
			g.deliveries, g.Shard, g.completed, len(g.pending))
		c.Agree(sameState, timeOf{g.Shard, g.horizon}, g.deliveries)
	}
}
