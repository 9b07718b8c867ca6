// Package rtt verifies an emulated or real network. It merges the round trips that nodes have measured and compares
// their medians with the declarations of the profile. The operator and geobench run use the same verdict.
package rtt

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/admin"
)

// MinSamples is the minimum number of round trips from which the median of a link is computed.
const MinSamples = 10

// Link is the round trip between two regions, as declared and as measured by the nodes of region From.
type Link struct {
	From, To string
	// Declared, P50 and P99 are round trips; P50 and P99 are 0 without samples.
	Declared, P50, P99 time.Duration
	Samples            int64
	// Tolerance is the maximum allowed difference between P50 and Declared: see geo.Topology.RTTTolerance.
	Tolerance time.Duration
	// Mesh is the delay that a service mesh adds to the link. It is nil if there is no mesh or there are too few
	// measurements.
	Mesh *v1alpha1.MeshLink
}

// MeshLink returns the delay that a mesh adds to a link. It is computed from the round trips below the mesh and through
// it, in microseconds. MeshLink returns nil if either has fewer than MinSamples samples.
func MeshLink(below, through *hdrhistogram.Histogram) *v1alpha1.MeshLink {
	if below == nil || through == nil {
		return nil
	}
	samples := min(below.TotalCount(), through.TotalCount())
	// A median of fewer round trips would be unreliable.
	if samples < MinSamples {
		return nil
	}
	b, t := below.ValueAtPercentile(50), through.ValueAtPercentile(50)
	return &v1alpha1.MeshLink{BelowRTTMicroseconds: b, ThroughRTTMicroseconds: t, AddedRTTMicroseconds: t - b, Samples: samples}
}

// Measure merges the nodes' measurements for each pair of regions, in topology order. The function alone reports
// whether a region has only one node, in which case it has no link to itself. If alone is nil, Measure uses the
// topology's number of nodes per region.
func Measure(t *geo.Topology, nodes []admin.Status, alone func(geo.Region) bool) ([]Link, error) {
	if alone == nil {
		alone = func(geo.Region) bool { return t.Partitions*t.Replicas == 1 }
	}
	n := len(t.Regions)
	merged, below, through := make([]*hdrhistogram.Histogram, n*n), make([]*hdrhistogram.Histogram, n*n), make([]*hdrhistogram.Histogram, n*n)
	merge := func(into []*hdrhistogram.Histogram, at int, h *hdrhistogram.Histogram) {
		switch {
		case h == nil:
		case into[at] == nil:
			into[at] = h
		default:
			into[at].Merge(h)
		}
	}
	for i := range nodes {
		s := &nodes[i]
		if s.ID < 0 || s.ID >= t.Nodes() {
			return nil, fmt.Errorf("node %s: number %d is not one of the database's %d", s.Node, s.ID, t.Nodes())
		}
		from := int(t.RegionOf(geo.NodeID(s.ID)))
		for j := range s.Links {
			l := &s.Links[j]
			to := int(t.Index(l.To))
			if to < 0 {
				continue
			}
			h, err := l.Histogram()
			if err != nil {
				return nil, fmt.Errorf("node %s: round trips to %s: %w", s.Node, l.To, err)
			}
			merge(merged, from*n+to, h)
			b, over, err := l.MeshHistograms()
			if err != nil {
				return nil, fmt.Errorf("node %s: %w", s.Node, err)
			}
			merge(below, from*n+to, b)
			merge(through, from*n+to, over)
		}
	}
	var links []Link
	for a, from := range t.Regions {
		for b, to := range t.Regions {
			// A region with a single node has no link to itself.
			if a == b && alone(geo.Region(a)) {
				continue
			}
			l := Link{From: from, To: to, Declared: t.RTT(geo.Region(a), geo.Region(b)), Mesh: MeshLink(below[a*n+b], through[a*n+b])}
			if h := merged[a*n+b]; h != nil {
				l.Samples = h.TotalCount()
				l.P50 = time.Duration(h.ValueAtPercentile(50)) * time.Microsecond
				l.P99 = time.Duration(h.ValueAtPercentile(99)) * time.Microsecond
			}
			l.Tolerance = t.RTTTolerance(geo.Region(a), geo.Region(b), l.Samples)
			links = append(links, l)
		}
	}
	return links, nil
}

// Off returns the absolute difference between the measured median and the declared round trip.
func (l *Link) Off() time.Duration { return (l.P50 - l.Declared).Abs() }

// Verified reports whether the link has enough samples and its median is within the tolerance.
func (l *Link) Verified() bool { return l.Samples >= MinSamples && l.Off() <= l.Tolerance }

// Reasons of a verdict.
const (
	NoLinks        = "NoLinks"
	Measuring      = "Measuring"
	OutOfTolerance = "OutOfTolerance"
	Verified       = "Verified"
)

// Verdict states whether all links are as declared: a CamelCase reason, and a sentence about the worst link.
type Verdict struct {
	Verified        bool
	Reason, Message string
}

// Judge returns the verdict on the links.
func Judge(links []Link) Verdict {
	if len(links) == 0 {
		return Verdict{true, NoLinks, "the database has one node: there is no link to measure"}
	}
	var worst *Link
	for i := range links {
		l := &links[i]
		if l.Samples < MinSamples {
			return Verdict{false, Measuring, fmt.Sprintf("link %s -> %s has %d round trips measured, of at least %d", l.From, l.To, l.Samples, MinSamples)}
		}
		// The worst link uses the largest share of its tolerance. Cross-multiply to avoid a division by 0.
		if worst == nil || l.Off()*worst.Tolerance > worst.Off()*l.Tolerance {
			worst = l
		}
	}
	figures := fmt.Sprintf("link %s -> %s: declared %s, measured p50 %s", worst.From, worst.To, worst.Declared, Round(worst.P50))
	if !worst.Verified() {
		return Verdict{false, OutOfTolerance, fmt.Sprintf("%s, which is %s off; at most %s is allowed (5%% + 1ms and the sampling error of %d round trips)",
			figures, Round(worst.Off()), Round(worst.Tolerance), worst.Samples)}
	}
	return Verdict{true, Verified, fmt.Sprintf("all %d links are within the tolerance of the profile (5%% + 1ms and the sampling error); worst is %s", len(links), figures)}
}

// Round rounds a round trip for display.
func Round(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(100 * time.Microsecond)
}
