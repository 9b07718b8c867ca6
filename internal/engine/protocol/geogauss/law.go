package geogauss

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// law is Engine.Law, which is the same for all transactions. It adds the client's round trip to its server, half an
// epoch, and the delay of the farthest server's write sets. On average, an epoch ends half an epoch after a transaction
// arrives. With acknowledgements, the last part is the time until a majority of the servers, or all servers, have the
// write sets and have reported that. law returns the mean over the region's servers.
func law(t *geo.Topology, p protocol.Params, c geo.Region, _ []geo.Region) time.Duration {
	each := t.Partitions * t.Replicas
	var sum time.Duration
	for i := range each {
		// The nodes of a region have consecutive numbers.
		n := t.Node(c, 0, 0) + geo.NodeID(i)
		sum += merged(t, p.Word("acks"), n)
	}
	return t.RTT(c, c) + p.Duration("epoch")/2 + sum/time.Duration(each)
}

// merged returns the time from an epoch's end until it is merged at a server.
func merged(t *geo.Topology, acks string, n geo.NodeID) time.Duration {
	own := complete(t, n)
	if acks == acksNone {
		return own
	}
	var told []time.Duration // when each server's report arrives
	for m := range geo.NodeID(t.Nodes()) {
		if m == n {
			told = append(told, own)
		} else {
			told = append(told, complete(t, m)+t.Link(m, n).Delay)
		}
	}
	slices.Sort(told)
	if acks == acksAll {
		return told[len(told)-1]
	}
	// The element at index len(told)/2 completes a majority. The epoch must also be complete at the server itself.
	return max(own, told[len(told)/2])
}

// complete returns the time from an epoch's end until it is complete at a server.
func complete(t *geo.Topology, n geo.NodeID) (d time.Duration) {
	for m := range geo.NodeID(t.Nodes()) {
		if m != n {
			d = max(d, t.Link(m, n).Delay)
		}
	}
	return d
}
