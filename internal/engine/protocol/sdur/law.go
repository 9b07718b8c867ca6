package sdur

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// tolerates is Engine.Tolerates. The database tolerates the loss of any regions without which every group has a
// majority. It settles once groups have elected leaders and settled the transactions of lost coordinators.
//
// After that, a transaction reads, is delivered by majorities, collects votes and receives its outcome. It may wait
// equally long for the transactions before it. In addition, it may first send a read to a lost member, and wait for
// another transaction that has done the same.
func tolerates(t *geo.Topology, p protocol.Params) protocol.Tolerance {
	s, rtt := raftgroup.Tolerates(t, t.Placed()), t.LongestRTT()
	s.Settles = raftgroup.Settles(p.Duration("election"), p.Duration("recovery"), rtt)
	s.Answers = protocol.InTime(4*rtt+p.Duration("delay")+time.Duration(p.Int("reorderThreshold"))*p.Duration("tick")) + 2*(patience+rtt)
	return s
}

// law is Engine.Law, for a transaction that reads the rows that it writes. The latency is the sum of the client's round
// trip, the reads, and termination. The reads take a round trip to the nearest member of each group, in parallel. With
// one group, termination is a round trip to its leader, and the leader's round trip to a majority. With several groups,
// the leader that is nearest to the coordinator must deliver the transaction and the threshold's ticks after it. It
// must also receive the votes of all other groups before it answers. law returns the mean over all coordinators in the
// client's region, since the distance to the leaders may differ between them.
func law(t *geo.Topology, p protocol.Params, c geo.Region, homes []geo.Region) time.Duration {
	if len(homes) == 0 {
		homes = []geo.Region{c}
	}
	layout := t.Placed()
	var sum time.Duration
	for partition := range t.Partitions {
		for replica := range t.Replicas {
			node := t.Node(c, partition, replica)
			members := raftgroup.Nearest(t, &layout, node)
			var groups []int
			var read time.Duration
			for _, home := range homes {
				shard := int(home)*t.Partitions + partition
				groups = append(groups, shard)
				read = max(read, raftgroup.Distance(t, node, members[shard][0]))
			}
			sum += read + termination(t, p, &layout, node, groups)
		}
	}
	return t.RTT(c, c) + sum/time.Duration(t.Partitions*t.Replicas)
}

// termination returns the time from a coordinator's submission of a transaction to the answer.
func termination(t *geo.Topology, p protocol.Params, l *geo.Layout, node geo.NodeID, groups []int) time.Duration {
	leader := func(group int) geo.NodeID { return l.Group(group).Leader }
	anchor := groups[0]
	for _, g := range groups {
		near, nearest := raftgroup.Distance(t, node, leader(g)), raftgroup.Distance(t, node, leader(anchor))
		if near < nearest || near == nearest && g < anchor {
			anchor = g
		}
	}
	var decided time.Duration
	for _, g := range groups {
		d := way(t, node, leader(g)) + raftgroup.Quorum(t, l.Group(g))
		if len(groups) == 1 {
			return d + way(t, leader(g), node)
		}
		if g == anchor {
			d += p.Duration("delay")
			if ticks := time.Duration(p.Int("reorderThreshold")); ticks > 0 {
				decided = max(decided, d+ticks*p.Duration("tick")+raftgroup.Quorum(t, l.Group(g)))
			}
		}
		decided = max(decided, d+way(t, leader(g), leader(anchor)))
	}
	return decided + way(t, leader(anchor), node)
}

// way returns the one-way delay between two nodes.
func way(t *geo.Topology, a, b geo.NodeID) time.Duration {
	if a == b {
		return 0
	}
	return t.Link(a, b).Delay
}
