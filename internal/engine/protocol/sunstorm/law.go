package sunstorm

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// law is Engine.Law. The latency includes the round trip of the client, and the mean round trip between the client's
// node and the writer. The client's node may be the writer itself.
//
// A single-region transaction commits when its entry is durable. A multi-region transaction is first prepared at home,
// if it has rows there, and then at the other regions. It commits at home when the vote of the farthest region has
// arrived.
func law(t *geo.Topology, p protocol.Params, c geo.Region, homes []geo.Region) time.Duration {
	var quorum time.Duration
	// With one replica per partition, the writer alone is the majority, and no round trip is needed.
	if t.Replicas > 1 {
		quorum = t.RTT(c, c)
	}
	forwarded := t.RTT(c, c) * time.Duration(t.Replicas-1) / time.Duration(t.Replicas)
	latency := t.RTT(c, c) + forwarded
	local := len(homes) == 0 || slices.Contains(homes, c)
	if local {
		latency += quorum
	}
	var furthest time.Duration
	for _, h := range homes {
		if h == c {
			continue
		}
		prepare := t.RTT(c, h)
		if t.Replicas > 1 {
			prepare += t.RTT(h, h)
		}
		// All Prepares are sent at the same time, so only the slowest region counts.
		furthest = max(furthest, prepare)
	}
	// The second write at home is the CommitPrepared entry. An initiator without rows appends no entry.
	if local && furthest > 0 {
		latency += quorum
	}
	return latency + furthest
}
