package batchlog

import (
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// CopiesParameter is the parameter of engines whose batches may need a proof of availability.
var CopiesParameter = protocol.Parameter{
	Name: "batchCopies", Default: "1", Integer: true, MinInt: 1, MaxInt: 3,
	Doc: "How many regions must hold a batch's data, for each partition that it touches, before the batch gets a place in the log; the region of the node that " +
		"has collected it is one of them. 1, as the papers measured, asks for no proof, and what was sent may be lost with its node after it has its place.",
}

// Copies is CopiesParameter of a database.
func Copies(p protocol.Params) int { return int(p.Int(CopiesParameter.Name)) }

// CheckCopies is an engine's CheckTopology: there must be as many regions as copies.
func CheckCopies(t *geo.Topology, p protocol.Params) *protocol.TopologyError {
	if copies := Copies(p); copies > len(t.Regions) {
		return &protocol.TopologyError{Field: "spec.regions", Value: fmt.Sprint(len(t.Regions)), Message: fmt.Sprintf(
			"batches that need the data of spec.engine.parameters.batchCopies %d regions never get a place in fewer: add regions, or lower batchCopies", copies)}
	}
	return nil
}

// Bear returns the tolerance of a database whose batches have the given number of copies; s is the tolerance apart from
// transactions in flight. With more than one copy the database loses no transaction in flight. This holds as long as
// one region that has the batch survives, and enough regions are left to receive new batches.
func Bear(s protocol.Tolerance, t *geo.Topology, copies int) protocol.Tolerance {
	if copies > 1 {
		s.InFlight = true
		if s.Most = min(s.Most, copies-1, len(t.Regions)-copies); s.Most <= 0 {
			s.Most, s.Regions = 0, nil
		}
	}
	return s
}

// Settles returns the time that the log's readers may need after a loss of regions to settle the batches of those
// regions. Batches without a position must be abandoned. For batches with a position, all other readers of a partition
// must have been asked for the data.
func Settles(t *geo.Topology, p protocol.Params) (d time.Duration) {
	d = 2 * abandonedAfter
	if Copies(p) > 1 {
		d += time.Duration(len(t.Regions)*t.Replicas)*fetchAfter + 2*t.LongestRTT()
	}
	return d
}

// PlaceLaw returns the time from when a sequencer in region c sends a batch's data and position request until the
// leader in region l can order the batch. By then the readers of as many regions as the batch needs copies, including
// c, have received the data, and the leader has been notified. Inside the leader's region a request to the leader takes
// ask.
func PlaceLaw(t *geo.Topology, copies int, c, l geo.Region, ask time.Duration) time.Duration {
	proofs := []time.Duration{ask}
	for r := range t.Regions {
		if r := geo.Region(r); r != c {
			proofs = append(proofs, max(ask, t.Links[c][r].Delay+t.Links[r][l].Delay))
		}
	}
	slices.Sort(proofs)
	return proofs[min(copies, len(proofs))-1]
}

// MajorityLaw is the round trip from the leader of a log to the nearest members that are a majority with it.
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
	return others[len(members)/2-1]
}
