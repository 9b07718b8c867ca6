package spanner

import (
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
)

// Replaced implements protocol.Rejoiner.
func (r *Replica) Replaced(n geo.NodeID, incarnation uint32) {
	r.hear(n)
	r.incarnations[n] = incarnation
	r.node.Replaced(n, incarnation)
	r.tickLater()
	r.node.Finish()
}

// FullyReplicated implements protocol.Rejoiner.
func (r *Replica) FullyReplicated() bool { return r.node.FullyReplicated() }

// sweepReplaced does the work of sweep for transactions that earlier incarnations have coordinated. The new
// incarnations are not silent, but do not know these transactions.
func (g *group) sweepReplaced() {
	if !g.Leads() {
		return
	}
	met := make([]bool, g.r.nodes)
	for n := range g.holders {
		met[n.Coordinator] = met[n.Coordinator] || n.Number < raftgroup.First(g.r.incarnations[n.Coordinator])
	}
	for c, stale := range met {
		if stale {
			g.r.env.Mark(predecessorsLocks)
			g.abandon(geo.NodeID(c), raftgroup.First(g.r.incarnations[c]))
		}
	}
}
