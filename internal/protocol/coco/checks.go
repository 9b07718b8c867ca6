package coco

import (
	"slices"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/invariant"
)

var (
	oneCoordinator = invariant.New("coco.one-coordinator", "a ballot has one coordinator")
	ballotGrows    = invariant.New("coco.ballot-grows", "the ballot that a node has heard of, and that of its view, never go back")
	oneView        = invariant.New("coco.one-view", "a ballot has one view: its members, and the epoch that it goes on from")
	votesGrow      = invariant.New("coco.votes-grow", "a node votes for no epoch before one that it has voted for")
)

// Check implements protocol.Checked.
func (r *Replica) Check(c *invariant.Checker) {
	c.Grows(ballotGrows, "the ballot", r.ballot)
	c.Agree(oneCoordinator, r.ballot, r.coordinator)
	c.Grows(votesGrow, "the epoch voted for", r.voted)
	if v := r.view; v != nil {
		c.Grows(ballotGrows, "the view", v.Ballot)
		c.Agree(oneView, v.Ballot, [3]uint64{v.Committed, v.First, members(v.Members)})
	}
}

func members(nodes []geo.NodeID) uint64 {
	var all []uint64
	for _, n := range slices.Sorted(slices.Values(nodes)) {
		all = append(all, uint64(n))
	}
	return invariant.Hash(all...)
}
