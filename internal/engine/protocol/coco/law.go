package coco

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
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
	interval := p.Duration("epoch")
	epochs := newCycles(t, interval)
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
			execution := reads + locks
			empty := epochs.length(node, 0)
			for i := range time.Duration(phases) {
				after := empty * i / phases // since the node has heard of the epoch's begin
				if after < interval {
					all = append(all, epochs.length(node, after+execution)-after)
				} else {
					all = append(all, empty-after+epochs.length(node, execution))
				}
			}
		}
	}
	slices.Sort(all)
	return t.RTT(c, c) + all[len(all)/2]
}

// cycles are the epochs of a system in which one node at most executes.
type cycles struct {
	topology *geo.Topology
	interval time.Duration
	// back is, by node, how long it takes from when the node is drained until the coordinator has the votes of all that hear of it.
	back []time.Duration
}

// firstCoordinator is the node that begins epochs and ends them, as long as it lives.
const firstCoordinator = geo.NodeID(0)

func newCycles(t *geo.Topology, interval time.Duration) *cycles {
	c := &cycles{t, interval, make([]time.Duration, t.Nodes())}
	for x := range c.back {
		for y := range geo.NodeID(t.Nodes()) {
			c.back[x] = max(c.back[x], way(t, geo.NodeID(x), y)+way(t, y, firstCoordinator))
		}
	}
	return c
}

// length returns the time from the begin of an epoch to that of the next, if a node executes for a while, and no other
// one does.
func (c *cycles) length(node geo.NodeID, busy time.Duration) (end time.Duration) {
	for x := range geo.NodeID(c.topology.Nodes()) {
		executing := c.interval
		if x == node {
			executing = max(executing, busy)
		}
		end = max(end, way(c.topology, firstCoordinator, x)+executing+c.back[x])
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
