package batchlog

import (
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// CopiesParameter is the parameter of engines whose batches may need proof.
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

// Bear is what a database with so many copies survives that otherwise, without what is on its way, survives s: with
// more than one it loses nothing that is on its way, as long as one region is left that holds it, and enough regions
// for batches to come.
func Bear(s protocol.Tolerance, t *geo.Topology, copies int) protocol.Tolerance {
	if copies > 1 {
		s.InFlight = true
		if s.Most = min(s.Most, copies-1, len(t.Regions)-copies); s.Most <= 0 {
			s.Most, s.Regions = 0, nil
		}
	}
	return s
}

// Settles is how long after the loss of regions the log's readers may need for what those have left behind: for the
// abandonment of batches without a place, and, of those that have one, until all other readers of a partition have been
// asked for the data.
func Settles(t *geo.Topology, p protocol.Params) (d time.Duration) {
	d = 2 * abandonedAfter
	if Copies(p) > 1 {
		d += time.Duration(len(t.Regions)*t.Replicas)*fetchAfter + 2*t.LongestRTT()
	}
	return d
}

// PlaceLaw is how long after a sequencer in region c has sent a batch's data and the request for its place the leader
// of the log knows both, in region l: of so many regions as batches need copies, with c, the data has come to the
// readers and word of that to the leader. Inside the leader's region it takes ask to ask it.
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
