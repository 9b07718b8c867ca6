package sdur

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/invariant"
)

var (
	sameState = invariant.New("sdur.same-state",
		"members of a group with the same horizon have delivered the same number of transactions and ticks")
	countersGrow = invariant.New("sdur.counters-grow",
		"a member's delivery counter, snapshot counter and horizon never decrease")
	completedLess = invariant.New("sdur.completed",
		"the completed and pending transactions of a group together never exceed its deliveries")
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
