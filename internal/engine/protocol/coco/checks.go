package coco

import (
	"slices"

	"github.com/geobench/geobench/internal/base/invariant"
)

var (
	oneCoordinator = invariant.New("coco.one-coordinator", "a ballot has at most one coordinator")
	ballotGrows    = invariant.New("coco.ballot-grows",
		"the highest ballot that a node knows and the ballot of its view never decrease")
	oneEnd  = invariant.New("coco.one-end", "an epoch is either committed at all nodes or aborted at all nodes")
	oneView = invariant.New("coco.one-view",
		"nodes agree on the view of a ballot: its members, last committed epoch and first epoch")
	primariesHave = invariant.New("coco.primaries-have-rows", "a primary has all rows of its shards")
	votesGrow     = invariant.New("coco.votes-grow", "the last epoch that a node has voted for never decreases")
)

// Check implements protocol.Checked.
func (r *Replica) Check(c *invariant.Checker) {
	c.Grows(ballotGrows, "the ballot", r.ballot)
	c.Agree(oneCoordinator, r.ballot, r.coordinator)
	c.Grows(votesGrow, "the epoch voted for", r.voted)
	if r.base > 0 {
		c.Agree(oneEnd, r.base, true)
	}
	if r.aborted > 0 {
		c.Agree(oneEnd, r.aborted, false)
	}
	for _, shard := range r.Leads() {
		c.That(primariesHave, r.base > 0 && len(r.awaiting) == 0, "shard %d: the store shows epoch %d, %d shards are awaited", shard, r.base, len(r.awaiting))
	}
	if v := r.view; v != nil {
		c.Grows(ballotGrows, "the view", v.Ballot)
		c.Agree(oneView, v.Ballot, [3]uint64{v.Committed, v.First, members(v)})
	}
}

func members(v *View) uint64 {
	var all []uint64
	for _, n := range slices.Sorted(slices.Values(v.Members)) {
		all = append(all, uint64(n), uint64(v.incarnation(n)))
	}
	return invariant.Hash(all...)
}
