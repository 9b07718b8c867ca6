package minerva

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// law is Engine.Law, the same for all transactions. It is the mean over the replicas of region c, and adds up:
//
//   - the client's round trip to its replica
//   - the batch's round trip to the nearest replicas that make it available
//   - the proof's delay to the coordinator
//   - half an interval, until the coordinator proposes a cut
//   - the coordinator's round trip to a majority
//   - the delay of the cut on its way back
func law(t *geo.Topology, p protocol.Params, c geo.Region, _ []geo.Region) time.Duration {
	const coordinator = geo.NodeID(0)
	each := t.Partitions * t.Replicas
	var sum time.Duration
	for i := range each {
		n := t.Node(c, 0, 0) + geo.NodeID(i)
		sum += nearest(t, n, (t.Nodes()-1)/2)
		if n != coordinator {
			sum += t.RTT(c, t.RegionOf(coordinator))
		}
	}
	d := t.RTT(c, c) + p.Duration("epoch")/2 + sum/time.Duration(each)
	if p.Word("commit") == commitReplicated {
		d += nearest(t, coordinator, t.Nodes()/2)
	}
	return d
}

// nearest returns the round trip between node n and the kth nearest of the other nodes, counted from 1. It returns 0
// for k = 0.
func nearest(t *geo.Topology, n geo.NodeID, k int) time.Duration {
	if k == 0 {
		return 0
	}
	var others []time.Duration
	for m := range geo.NodeID(t.Nodes()) {
		if m != n {
			others = append(others, t.RTT(t.RegionOf(n), t.RegionOf(m)))
		}
	}
	slices.Sort(others)
	return others[k-1]
}
