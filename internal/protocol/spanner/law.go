package spanner

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
)

// law is Engine.Law, for a transaction that reads what it writes: the client's hop, a round trip to the farthest
// leaseholder of its homes to read, and one to the farthest to commit, which takes that one's round trip to a majority
// of its group. Where leaseholders depend on the partition, or coordinator and leaseholder may be the same node, it is
// the mean.
func law(t *geo.Topology, _ protocol.Params, c geo.Region, homes []geo.Region) time.Duration {
	if len(homes) == 0 {
		homes = []geo.Region{c}
	}
	layout := t.Placed()
	var sum time.Duration
	for partition := range t.Partitions {
		for replica := range t.Replicas {
			var read, commit time.Duration
			for _, home := range homes {
				g := layout.Group(int(home)*t.Partitions + partition)
				d := distance(t, t.Node(c, partition, replica), g.Leader)
				read = max(read, d)
				commit = max(commit, d+quorum(t, g))
			}
			sum += read + commit
		}
	}
	return t.RTT(c, c) + sum/time.Duration(t.Partitions*t.Replicas)
}

// distance is the round trip between two nodes.
func distance(t *geo.Topology, a, b geo.NodeID) time.Duration {
	if a == b {
		return 0
	}
	return t.RTT(t.RegionOf(a), t.RegionOf(b))
}

// quorum is the round trip from a group's leader to the nearest majority.
func quorum(t *geo.Topology, g *geo.Group) time.Duration {
	var all []time.Duration
	for _, m := range g.Members {
		all = append(all, distance(t, g.Leader, m))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
