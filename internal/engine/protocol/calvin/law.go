package calvin

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// law is Engine.Law. The latency is the same for all transactions of region c. With every ordering it includes the
// client's round trip to its node and the batch interval. To these the orderings add:
//
// leader: the request travels to the log's leader and the position returns, while the data goes directly to all nodes.
// Within the first region, only clients of the leader's node save this hop, and law returns the mean. A log of three
// members adds a round trip between them.
//
// consensus: the same, plus the leader's round trip to its nearest majority.
//
// If a batch needs copies, the leader also waits until enough regions have reported that they have the data.
//
// epochs: the slowest link that carries a batch of the same epoch to c.
func law(t *geo.Topology, p protocol.Params, c geo.Region, _ []geo.Region) time.Duration {
	interval := p.Duration("batch")
	d := t.RTT(c, c)
	ordering := p.Word("ordering")
	if ordering == orderingEpochs {
		var slowest time.Duration
		for r := range t.Regions {
			// A region with a single node sends no batch to itself.
			if geo.Region(r) != c || t.Partitions*t.Replicas > 1 {
				slowest = max(slowest, t.Links[r][c].Delay)
			}
		}
		return d + interval + slowest
	}
	d += interval
	members := logMembers(t, ordering)
	leader := t.RegionOf(members[0])
	there, back := t.Links[c][leader].Delay, t.Links[leader][c].Delay
	if c == leader {
		// One of the region's n nodes is the leader and has no hop; this is the mean over the nodes.
		n := time.Duration(t.Partitions * t.Replicas)
		there, back = there*(n-1)/n, back*(n-1)/n
	}
	return d + batchlog.PlaceLaw(t, batchlog.Copies(p), c, leader, there) + back + batchlog.MajorityLaw(t, members)
}
