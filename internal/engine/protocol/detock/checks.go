package detock

import (
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/invariant"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
)

var (
	sameDeadlocks = invariant.New("detock.same-deadlocks", "all copies find the same deadlock for a transaction")
	settledWaits  = invariant.New("detock.settled-waits-for-nobody",
		"a transaction that can be in no further deadlock waits for no other transaction in the graph")
	partTimer = invariant.New("detock.part-has-timer",
		"a timer is set for the earliest part that a home holds, and parts leave in timestamp order")
)

// Check implements protocol.Checked.
func (r *Replica) Check(c *invariant.Checker) {
	r.Node.Check(c)
	g := &r.resolver.graph
	for _, deadlock := range g.found {
		members := make([]uint64, 0, 2*len(deadlock))
		for _, at := range deadlock {
			members = append(members, at.Position, at.Index)
		}
		for _, at := range deadlock {
			c.Agree(sameDeadlocks, at, invariant.Hash(members...))
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(g.numbers), deterministic.Place.Compare) {
		t := &g.table[g.numbers[at]]
		c.That(settledWaits, !t.settled || t.ahead == none && t.watch == none, "%v does", at)
	}
	held := r.inserter.held
	if len(held) > 0 {
		first := held[0].NotBefore
		c.That(partTimer, r.inserter.waiting && r.inserter.armed <= first, "the first is due at %v, and the timer is set: %v, for %v", first, r.inserter.waiting, r.inserter.armed)
	}
	for i := range held {
		c.That(partTimer, !held[i].less(&held[0]) || i == 0, "%v is held behind %v", held[i].NotBefore, held[0].NotBefore)
	}
}
