package consensus

import (
	"hash/fnv"

	"github.com/geobench/geobench/internal/base/invariant"
)

// Properties of Raft (Ongaro and Ousterhout 2014, figure 3) that a member can check.
var (
	oneLeader = invariant.New("consensus.one-leader", "a term has at most one leader: election safety")
	sameEntry = invariant.New("consensus.same-entry",
		"members that have applied the same index have applied the same entry there: state machine safety")
	termGrows    = invariant.New("consensus.term-grows", "the term that a member knows never decreases")
	appliedGrows = invariant.New("consensus.applied-grows",
		"the applied index of a member never decreases and never exceeds its commit index")
)

type termOf struct {
	Group any
	Term  uint64
}

type indexOf struct {
	Group any
	Index uint64
}

// Check checks the invariants of a member of a group. group identifies the group and is the same at all members.
func (g *Group) Check(c *invariant.Checker, group any) {
	if g.node == nil {
		return
	}
	st := g.node.BasicStatus()
	c.Grows(termGrows, group, g.term)
	c.Grows(appliedGrows, group, g.applied)
	c.That(appliedGrows, g.applied <= st.HardState.GetCommit(), "%v has applied %d of %d committed entries", group, g.applied, st.HardState.GetCommit())
	if g.hasLeader {
		c.Agree(oneLeader, termOf{group, g.term}, g.leader)
	}
	if entries, err := g.storage.Entries(g.applied, g.applied+1, 1<<40); err == nil && len(entries) == 1 {
		h := fnv.New64a()
		_, _ = h.Write(entries[0].GetData()) // it never fails
		c.Agree(sameEntry, indexOf{group, g.applied}, [2]uint64{entries[0].GetTerm(), h.Sum64()})
	}
}
