package calvin

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// law is Engine.Law, the same for all transactions. All orderings begin with the client's hop to its node and back
// and the batch. Then:
//
// leader: the request goes to the log's leader and the position returns, while the data goes directly to all nodes.
// Inside the first region only the clients of the leader's node save the hop, and law is the mean. A log of three
// members takes a round trip between them.
//
// consensus: the same, plus the leader's round trip to its nearest majority.
//
// Where a batch needs copies, the leader waits until enough regions have the data and have reported that to it.
//
// epochs: the slowest sequencer's batch of the same epoch arrives.
func law(t *geo.Topology, p protocol.Params, c geo.Region, _ []geo.Region) time.Duration {
	interval := p.Duration("batch")
	d := t.RTT(c, c)
	ordering := p.Word("ordering")
	if ordering == orderingEpochs {
		var slowest time.Duration
		for r := range t.Regions {
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
		n := time.Duration(t.Partitions * t.Replicas)
		there, back = there*(n-1)/n, back*(n-1)/n
	}
	return d + batchlog.PlaceLaw(t, batchlog.Copies(p), c, leader, there) + back + batchlog.MajorityLaw(t, members)
}
