package raftgroup

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/invariant"
)

var oneServing = invariant.New("raftgroup.one-serving", "a group has at most one serving member in a term")

type termOf struct {
	Shard int
	Term  uint64
}

// Check checks the invariants of the member of a group on this node.
func (m *Member) Check(c *invariant.Checker) {
	m.Raft.Check(c, fmt.Sprintf("the group of shard %d", m.Shard))
	if m.Serving {
		c.Agree(oneServing, termOf{m.Shard, m.Term}, m.node.Self)
	}
}
