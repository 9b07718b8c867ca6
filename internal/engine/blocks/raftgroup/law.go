package raftgroup

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Distance returns the round-trip time between two nodes; 0 for a node and itself.
func Distance(t *geo.Topology, a, b geo.NodeID) time.Duration {
	if a == b {
		return 0
	}
	return t.RTT(t.RegionOf(a), t.RegionOf(b))
}

// Quorum returns the round-trip time from a group's leader to its nearest majority.
func Quorum(t *geo.Topology, g *geo.Group) time.Duration {
	var all []time.Duration
	for _, m := range g.Members {
		all = append(all, Distance(t, g.Leader, m))
	}
	slices.Sort(all)
	// The list includes the leader at distance 0, so this element completes a majority.
	return all[len(all)/2]
}

// Nearest returns the members of each group, sorted by their distance from the given node.
func Nearest(t *geo.Topology, l *geo.Layout, to geo.NodeID) (members [][]geo.NodeID) {
	for shard := range l.Shards() {
		m := slices.Clone(l.Group(shard).Members)
		slices.SortStableFunc(m, func(a, b geo.NodeID) int { return int(Distance(t, to, a) - Distance(t, to, b)) })
		members = append(members, m)
	}
	return members
}

// Replaces returns the nodes that new incarnations can replace: nodes without which each of their groups keeps a
// majority.
func Replaces(t *geo.Topology, layout geo.Layout) (nodes []geo.NodeID) {
	needed := make([]bool, t.Nodes())
	for shard := range layout.Shards() {
		// A group of one or two members has no majority without one of them.
		if group := layout.Group(shard).Members; len(group) < 3 {
			for _, n := range group {
				needed[n] = true
			}
		}
	}
	for n, yes := range needed {
		if !yes {
			nodes = append(nodes, geo.NodeID(n))
		}
	}
	return nodes
}

// Settles returns the time that groups may need to return to normal operation after a loss of regions. It includes
// leader elections, some of which fail and double the timeout of the next one. It also includes the recovery of the
// transactions of lost coordinators.
func Settles(election, recovery, rtt time.Duration) time.Duration {
	return 8*(election+rtt) + 2*(recovery+rtt) + 10*rtt
}

// Tolerates returns the regions whose loss leaves a majority in every group, and how many of them may be lost together.
func Tolerates(t *geo.Topology, layout geo.Layout) protocol.Tolerance {
	s := protocol.Tolerance{Most: len(t.Regions), InFlight: true}
	members := make([][]int, layout.Shards()) // by shard and region
	spare := make([]int, layout.Shards())     // by shard: the members beyond a majority
	for shard := range members {
		members[shard] = make([]int, len(t.Regions))
		group := layout.Group(shard).Members
		for _, m := range group {
			members[shard][t.RegionOf(m)]++
		}
		spare[shard] = (len(group) - 1) / 2
	}
	for region := range t.Regions {
		alone := true
		for shard := range members {
			alone = alone && members[shard][region] <= spare[shard]
		}
		if alone {
			s.Regions = append(s.Regions, geo.Region(region))
		}
	}
	for shard := range members {
		var counts []int
		for _, region := range s.Regions {
			counts = append(counts, members[shard][region])
		}
		// The loss of any set of this size must be tolerable, so regions with the most members are counted first.
		slices.Sort(counts)
		slices.Reverse(counts)
		most, sum := 0, 0
		for most < len(counts) && sum+counts[most] <= spare[shard] {
			sum += counts[most]
			most++
		}
		s.Most = min(s.Most, most)
	}
	return s
}
