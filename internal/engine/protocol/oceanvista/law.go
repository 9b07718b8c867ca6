package oceanvista

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// law is Engine.Law, the same for all transactions of an idle system: the client's round trip to its server, then the
// later of two events. In the first event, a majority of the partition has stored the functor. In the second, the
// farthest server reports a watermark above the functor; its next gossip is half an interval away on average.
func law(t *geo.Topology, p protocol.Params, c geo.Region, _ []geo.Region) time.Duration {
	var round []time.Duration // to the replicas of a partition
	var furthest time.Duration
	for r := range t.Regions {
		for k := range t.Replicas {
			if geo.Region(r) == c && k == 0 {
				round = append(round, 0)
				continue
			}
			round = append(round, t.RTT(c, geo.Region(r)))
		}
		if geo.Region(r) != c || t.Replicas*t.Partitions > 1 {
			furthest = max(furthest, t.Links[r][c].Delay)
		}
	}
	slices.Sort(round)
	if t.Nodes() == 1 {
		return t.RTT(c, c)
	}
	return t.RTT(c, c) + max(round[len(round)/2], p.Duration("gossip")/2+furthest)
}
