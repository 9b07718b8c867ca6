package minerva

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// law is Engine.Law, the same for all transactions. It adds the client's hop, a batch's round trip to the nearest
// replicas that make it available, and the proof's delay to the coordinator. Half an interval until the coordinator
// proposes a cut, its round trip to a majority, and the cut's delay back follow. law is the mean over the region's
// replicas.
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

// nearest returns the round trip of a node to the kth nearest other node, from 1; 0 for k = 0.
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
