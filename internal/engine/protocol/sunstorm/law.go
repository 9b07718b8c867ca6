package sunstorm

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// law is Engine.Law. It adds the client's hop and the mean hop from a node of the client's region to the writer: one of
// a partition's replicas is the writer and needs no hop. A single-region transaction is committed when its entry is
// durable. A multi-region transaction is prepared at home first, if it has rows there, then at the farthest of the
// other regions. It is committed at home when that region's vote has arrived.
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
