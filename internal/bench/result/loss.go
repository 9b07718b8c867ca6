package result

import (
	"fmt"
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/ops/admin"
)

// ReasonLossDiffers is the reason if a link's packet loss in the measured time differed from the declared loss.
const ReasonLossDiffers = "LossDiffers"

// fillLoss adds the number of lost probe packets to the links: the difference between the statuses of the probes after
// and before the run.
func (d *Document) fillLoss(in *Inputs) {
	count := func(statuses []admin.Status, sign int64) {
		for i := range statuses {
			s := &statuses[i]
			// A new process counts from zero, so subtracting the counters of its predecessor would be meaningless.
			if s.ID < 0 || s.ID >= in.Topology.Nodes() || !sameProcess(in, s.Node) {
				continue
			}
			from := in.Topology.Regions[in.Topology.RegionOf(geo.NodeID(s.ID))]
			for _, l := range s.Links {
				if at := slices.IndexFunc(d.Links, func(x Link) bool { return x.From == from && x.To == l.To }); at >= 0 {
					d.Links[at].Probes += sign * l.Probes
					d.Links[at].LostProbes += sign * (l.Probes - l.Answered)
				}
			}
		}
	}
	count(in.After, 1)
	count(in.Before, -1)
	for i := range d.Links {
		// Replies to packets that were sent before the run may arrive during the run, which makes the difference negative.
		d.Links[i].LostProbes = max(0, d.Links[i].LostProbes)
	}
}

// sameProcess reports whether a node was the same process before and after the run.
func sameProcess(in *Inputs, node string) bool {
	of := func(statuses []admin.Status) string {
		for i := range statuses {
			if statuses[i].Node == node {
				return statuses[i].Process
			}
		}
		return ""
	}
	return of(in.Before) == of(in.After)
}

// lossInFlight is the number of packets of each probe that may be in flight when its status is read.
const lossInFlight = 2

// lossDiffers compares the loss that the probes measured with the declared loss of both directions. The measured loss
// can be higher: netem, for example, also drops packets when its queue of 1000 is full. Links that a declared fault
// changes are exempt.
func lossDiffers(d *Document, in *Inputs, _ *Report) (out []Reason) {
	if in.Simulated {
		return nil
	}
	t := in.Topology
	changed := changedLinks(in)
	for i := range d.Links {
		l := &d.Links[i]
		a, b := t.Index(l.From), t.Index(l.To)
		if l.Probes == 0 || a < 0 || b < 0 || changed(a, b) {
			continue
		}
		passes := func(x, y geo.Region) float64 { return 1 - float64(t.Links[x][y].LossPPM)/1e6 }
		// A probe receives a reply only if neither its packet nor the reply is lost.
		p, n := 1-passes(a, b)*passes(b, a), float64(l.Probes)
		low, high := chanceRange(n, p, len(d.Links))
		inFlight := lossInFlight*float64(t.Partitions*t.Replicas*t.Partitions*t.Replicas) + 1
		// A packet in flight at a reading counts as lost, although its reply may still arrive.
		low, high = max(0, low-inFlight), high+inFlight
		if lost := float64(l.LostProbes); lost < low || lost > high {
			out = append(out, Reason{ReasonLossDiffers, fmt.Sprintf(
				"%s to %s and back: %d of %d packets of the probes were lost (%s), declared is %s, which is %.0f, "+
					"with chance %.0f to %.0f: the queue of what emulates the network, or the network below it, %s",
				l.From, l.To, l.LostProbes, l.Probes, formatPPM(ratio(l.Probes, 1, l.LostProbes,
					1e6)), formatPPM(int64(p*1e6)), n*p, low, high, map[bool]string{true: "drops " +
					"packets", false: "does not lose what it was told to"}[lost > high])})
		}
	}
	return out
}

// changedLinks returns a function that reports whether a declared fault may have changed a link or stopped a node at
// one of its ends.
func changedLinks(in *Inputs) func(a, b geo.Region) bool {
	if in.Manifests == nil || in.Manifests.Run == nil {
		return func(geo.Region, geo.Region) bool { return false }
	}
	var pairs []fault.Link
	all := false
	for _, f := range fault.NewPlan(in.Manifests.Run.Faults, in.Topology, 0).Faults {
		switch between := f.Between(); {
		case between != nil:
			pairs = append(pairs, fault.Links(between, in.Topology)...)
		case f.Kills() || f.Kind == fault.NetworkPartition:
			all = true
		}
	}
	return func(a, b geo.Region) bool {
		return all || slices.ContainsFunc(pairs, func(l fault.Link) bool { return l == fault.Link{From: a, To: b} || l == fault.Link{From: b, To: a} })
	}
}
