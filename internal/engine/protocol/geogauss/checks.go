package geogauss

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/invariant"
)

var (
	epochsGrow = invariant.New("geogauss.epochs-grow",
		"a server's last merged epoch and its frontier in a view never decrease, and only complete epochs are merged")
	sameMerges = invariant.New("geogauss.same-merges",
		"servers that have merged up to the same epoch have merged the same number of non-empty epochs")
	viewGrows = invariant.New("geogauss.view-grows", "the view number that a server knows never decreases")
	boundary  = invariant.New("geogauss.same-boundary",
		"servers agree on the last epoch that counts before a new incarnation")
)

// frontierIn names the frontier in one view, for checks that it never decreases. A change of the view may move the
// frontier back (rewind).
type frontierIn uint64

func (v frontierIn) String() string { return fmt.Sprintf("the frontier in view %d", uint64(v)) }

// successor is a new incarnation of a server.
type successor struct {
	server      geo.NodeID
	incarnation uint32
}

// Check implements protocol.Checked.
func (r *Replica) Check(c *invariant.Checker) {
	e := &r.epochs
	c.Grows(epochsGrow, frontierIn(r.members.view), e.frontier)
	c.Grows(epochsGrow, "the last epoch merged", e.base)
	c.That(epochsGrow, e.base <= e.frontier, "epoch %d is merged, and %d is complete", e.base, e.frontier)
	c.Agree(sameMerges, e.base, r.merge.number)
	c.Grows(viewGrows, "the view", r.members.view)
	for n := range e.servers {
		if s := &e.servers[n]; s.settled > 0 {
			c.Agree(boundary, successor{geo.NodeID(n), s.settled}, s.boundary)
		}
	}
	if r.members.group != nil {
		r.members.group.Check(c, "the group of servers")
	}
}
