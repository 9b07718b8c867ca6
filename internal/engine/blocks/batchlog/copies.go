package batchlog

import (
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// CopiesParameter is the parameter of engines whose batches may need proof of availability.
var CopiesParameter = protocol.Parameter{
	Name: "batchCopies", Default: "1", Integer: true, MinInt: 1, MaxInt: 3,
	Doc: "How many regions must hold a batch's data, for each partition that it touches, before the batch gets a place in the log; the region of the node that " +
		"has collected it is one of them. 1, as the papers measured, asks for no proof, and what was sent may be lost with its node after it has its place.",
}

// Copies returns the value of CopiesParameter.
func Copies(p protocol.Params) int { return int(p.Int(CopiesParameter.Name)) }

// CheckCopies is an engine's CheckTopology. It requires at least as many regions as copies.
func CheckCopies(t *geo.Topology, p protocol.Params) *protocol.TopologyError {
	if copies := Copies(p); copies > len(t.Regions) {
		return &protocol.TopologyError{Field: "spec.regions", Value: fmt.Sprint(len(t.Regions)), Message: fmt.Sprintf(
			"batches that need the data of spec.engine.parameters.batchCopies %d regions never get a place in fewer: add regions, or lower batchCopies", copies)}
	}
	return nil
}

// Bear adapts a tolerance s, which does not cover transactions in flight, to the number of copies of each batch. With
// more than one copy, transactions in flight survive as long as one region with the batch survives. In addition, enough
// regions must remain to hold new batches.
func Bear(s protocol.Tolerance, t *geo.Topology, copies int) protocol.Tolerance {
	if copies > 1 {
		s.InFlight = true
		// A batch survives copies-1 lost regions, and new batches need at least copies regions.
		if s.Most = min(s.Most, copies-1, len(t.Regions)-copies); s.Most <= 0 {
			s.Most, s.Regions = 0, nil
		}
	}
	return s
}

// Settles returns the time that readers may need to settle the batches of lost regions. Batches without a position must
// become void. For batches with a position, a reader may have to ask every other reader of its partition for the data.
func Settles(t *geo.Topology, p protocol.Params) (d time.Duration) {
	// The first check finds the batch, and only the second check can find it abandoned.
	d = 2 * abandonedAfter
	if Copies(p) > 1 {
		d += time.Duration(len(t.Regions)*t.Replicas)*fetchAfter + 2*t.LongestRTT()
	}
	return d
}

// PlaceLaw returns the time until the leader in region l can order a batch. The time starts when a sequencer in region
// c sends the batch's data and position request. At the end of this time, readers in enough regions, including c, have
// received the data and reported it to the leader. The argument ask is the time that the request takes.
func PlaceLaw(t *geo.Topology, copies int, c, l geo.Region, ask time.Duration) time.Duration {
	// The first element is the sequencer's own region: it needs no report, only the request.
	proofs := []time.Duration{ask}
	for r := range t.Regions {
		if r := geo.Region(r); r != c {
			proofs = append(proofs, max(ask, t.Links[c][r].Delay+t.Links[r][l].Delay))
		}
	}
	slices.Sort(proofs)
	return proofs[min(copies, len(proofs))-1]
}

// MajorityLaw returns the round-trip time from a log's leader, the first of members, to its nearest majority; 0 for a
// single member.
func MajorityLaw(t *geo.Topology, members []geo.NodeID) time.Duration {
	if len(members) == 1 {
		return 0
	}
	leader := t.RegionOf(members[0])
	var others []time.Duration
	for _, m := range members[1:] {
		others = append(others, t.RTT(leader, t.RegionOf(m)))
	}
	slices.Sort(others)
	// The leader itself is in the majority, so it needs len/2 other members.
	return others[len(members)/2-1]
}
