package coco

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
)

// phases is how many times of an epoch law looks at.
const phases = 400

// law is Engine.Law: the median over all times at which a transaction that reads what it writes, a row of each home,
// may come, on a system that executes no other one. A cycle begins when the coordinator starts an epoch and ends when
// it has the votes. A transaction that comes while the epoch runs at its node begins at once, and may prolong the
// epoch; any other one begins with the next epoch. It is answered when the node hears of the end of the epoch that it
// was in.
func law(t *geo.Topology, p protocol.Params, c geo.Region, homes []geo.Region) time.Duration {
	if len(homes) == 0 {
		homes = []geo.Region{c}
	}
	var all []time.Duration
	for partition := range t.Partitions {
		for replica := range t.Replicas {
			node := t.Node(c, partition, replica)
			var farthest, oneByOne time.Duration
			for _, home := range homes {
				primary := t.Node(home, partition, 0)
				round := way(t, node, primary) + way(t, primary, node)
				farthest, oneByOne = max(farthest, round), oneByOne+round
			}
			reads, locks := farthest, farthest
			if p.Word("interactive") == "true" {
				reads = oneByOne
			}
			execution, interval := reads+locks, p.Duration("epoch")
			empty := cycle(t, interval, node, 0)
			for i := range time.Duration(phases) {
				after := empty * i / phases // since the node has heard of the epoch's begin
				if after < interval {
					all = append(all, cycle(t, interval, node, after+execution)-after)
				} else {
					all = append(all, empty-after+cycle(t, interval, node, execution))
				}
			}
		}
	}
	slices.Sort(all)
	return t.RTT(c, c) + all[len(all)/2]
}

// cycle returns the time from the begin of an epoch to that of the next, if a node executes for a while, and no other
// one does.
func cycle(t *geo.Topology, interval time.Duration, node geo.NodeID, busy time.Duration) (end time.Duration) {
	const coordinator = geo.NodeID(0)
	for x := range geo.NodeID(t.Nodes()) {
		drained := way(t, coordinator, x) + interval
		if x == node {
			drained = way(t, coordinator, x) + max(interval, busy)
		}
		for y := range geo.NodeID(t.Nodes()) {
			end = max(end, drained+way(t, x, y)+way(t, y, coordinator))
		}
	}
	return end
}

// way is the time from one node to another.
func way(t *geo.Topology, a, b geo.NodeID) time.Duration {
	if a == b {
		return 0
	}
	return t.Link(a, b).Delay
}
