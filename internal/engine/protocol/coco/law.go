package coco

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// phases is the number of points of an epoch that law samples.
const phases = 400

// law is Engine.Law: the median latency, over all arrival times, on an otherwise idle system. The transaction reads and
// writes a row of each home. A cycle lasts from the coordinator's start of an epoch until the coordinator has all
// votes.
//
// A transaction that arrives while the epoch runs at its node starts immediately, and may prolong the epoch. Any other
// transaction starts with the next epoch. The client is answered when the node learns that the transaction's epoch is
// committed.
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
				after := empty * i / phases // time from the start of the epoch at the node to the arrival
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

// cycles models the epochs of a system in which at most one node executes transactions.
type cycles struct {
	topology *geo.Topology
	interval time.Duration
	// back[x] is the time from node x's notification that it is drained until the coordinator has the votes that
	// wait for this notification.
	back []time.Duration
}

// firstCoordinator is the coordinator of a database without failures.
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

// length returns the time from the start of an epoch to the start of the next. Only the given node executes, for the
// duration busy.
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

// way returns the one-way delay between two nodes.
func way(t *geo.Topology, a, b geo.NodeID) time.Duration {
	if a == b {
		return 0
	}
	return t.Link(a, b).Delay
}
