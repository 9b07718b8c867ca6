package geogauss

import "github.com/geobench/geobench/internal/invariant"

var (
	epochsGrow = invariant.New("geogauss.epochs-grow", "what a server has complete and merged never goes back, and nothing is merged that is not complete")
	sameMerges = invariant.New("geogauss.same-merges", "servers that have merged the epochs up to one have merged as many with write sets")
	viewGrows  = invariant.New("geogauss.view-grows", "the view that a server knows never goes back")
)

// Check implements protocol.Checked.
func (r *Replica) Check(c *invariant.Checker) {
	e := &r.epochs
	c.Grows(epochsGrow, "the frontier", e.frontier)
	c.Grows(epochsGrow, "the last epoch merged", e.base)
	c.That(epochsGrow, e.base <= e.frontier, "epoch %d is merged, and %d is complete", e.base, e.frontier)
	c.Agree(sameMerges, e.base, r.merge.number)
	c.Grows(viewGrows, "the view", r.members.view)
	if r.members.group != nil {
		r.members.group.Check(c, "the group of servers")
	}
}
