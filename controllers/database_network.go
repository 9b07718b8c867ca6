package controllers

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/result"
)

const (
	// minSamples is how many round trips a link needs before its median is believed.
	minSamples = 10
)

// measuredLink is the round trip from one region to another as declared and as its nodes see it.
type measuredLink struct {
	from, to string
	// declared, p50 and p99 are round trips; p50 and p99 are 0 without samples.
	declared, p50, p99 time.Duration
	samples            int64
}

// measureLinks merges what the nodes of each region measured, for each pair of regions, in the order of the topology.
// A region with one node has no link to itself.
func measureLinks(t *geo.Topology, nodes []nodeState) ([]measuredLink, error) {
	merged := map[[2]string]*hdrhistogram.Histogram{}
	for i := range nodes {
		if nodes[i].status == nil {
			continue
		}
		for _, l := range nodes[i].status.Links {
			h, err := l.Histogram()
			if err != nil {
				return nil, fmt.Errorf("node %s: %w", nodes[i].podName, err)
			}
			if h == nil {
				continue
			}
			key := [2]string{nodes[i].region, l.To}
			if merged[key] == nil {
				merged[key] = result.NewHistogram()
			}
			merged[key].Merge(h)
		}
	}
	var links []measuredLink
	for a, from := range t.Regions {
		for b, to := range t.Regions {
			if a == b && t.Partitions*t.Replicas == 1 {
				continue
			}
			l := measuredLink{from: from, to: to, declared: t.RTT(geo.Region(a), geo.Region(b))}
			if h := merged[[2]string{from, to}]; h != nil {
				l.samples = h.TotalCount()
				l.p50 = time.Duration(h.ValueAtPercentile(50)) * time.Microsecond
				l.p99 = time.Duration(h.ValueAtPercentile(99)) * time.Microsecond
			}
			links = append(links, l)
		}
	}
	return links, nil
}

// tolerance is how far the measured median may be from the declared round trip.
func (l *measuredLink) tolerance() time.Duration {
	return time.Duration(result.RTTTolerance(l.declared.Microseconds())) * time.Microsecond
}

// off is how far the measured median is from the declared round trip.
func (l *measuredLink) off() time.Duration { return (l.p50 - l.declared).Abs() }

func (l *measuredLink) verified() bool { return l.samples >= minSamples && l.off() <= l.tolerance() }

// verifyNetwork judges the links: the reason and message are those of the condition NetworkVerified.
func verifyNetwork(links []measuredLink, emulation v1alpha1.Emulation) (verified bool, reason, message string) {
	if len(links) == 0 {
		return true, "NoLinks", "the database has one node: there is no link to measure"
	}
	var worst *measuredLink
	for i := range links {
		l := &links[i]
		if l.samples < minSamples {
			return false, "Measuring", fmt.Sprintf("link %s -> %s has %d round trips measured, of at least %d", l.from, l.to, l.samples, minSamples)
		}
		// The worst link is the one that uses most of its tolerance.
		if worst == nil || l.off()*worst.tolerance() > worst.off()*l.tolerance() {
			worst = l
		}
	}
	figures := fmt.Sprintf("link %s -> %s: declared %s, measured p50 %s", worst.from, worst.to,
		v1alpha1.DurationOf(worst.declared), v1alpha1.DurationOf(roundRTT(worst.p50)))
	if !worst.verified() {
		hint := ""
		if emulation == v1alpha1.EmulationNone {
			hint = "; nothing is injected, so the profile must declare the round trips of the real network"
		}
		return false, "OutOfTolerance", fmt.Sprintf("%s, which is %s off; at most %s (5%% + 1ms) is allowed%s", figures,
			v1alpha1.DurationOf(roundRTT(worst.off())), v1alpha1.DurationOf(roundRTT(worst.tolerance())), hint)
	}
	return true, "Verified", fmt.Sprintf("all %d links are within 5%% + 1ms of the profile; worst is %s", len(links), figures)
}

// roundRTT rounds for people.
func roundRTT(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(100 * time.Microsecond)
}

// linkStatuses is what the status shows. A link that moved by less than anybody cares about keeps what it showed, so
// that a quiet database is not written every few seconds.
func linkStatuses(links []measuredLink, shown []v1alpha1.LinkStatus) []v1alpha1.LinkStatus {
	byKey := make(map[[2]string]v1alpha1.LinkStatus, len(shown))
	for _, s := range shown {
		byKey[[2]string{s.From, s.To}] = s
	}
	var out []v1alpha1.LinkStatus
	for i := range links {
		l := &links[i]
		s := v1alpha1.LinkStatus{
			From: l.from, To: l.to,
			DeclaredRTTMicroseconds: l.declared.Microseconds(),
			MeasuredRTTMicroseconds: v1alpha1.RTTMicroseconds{P50: l.p50.Microseconds(), P99: l.p99.Microseconds()},
			Samples:                 l.samples,
		}
		if was, ok := byKey[[2]string{l.from, l.to}]; ok && similar(&was, &s) {
			s = was
		}
		out = append(out, s)
	}
	return out
}

func similar(a, b *v1alpha1.LinkStatus) bool {
	return a.DeclaredRTTMicroseconds == b.DeclaredRTTMicroseconds &&
		(a.Samples >= minSamples) == (b.Samples >= minSamples) &&
		near(a.MeasuredRTTMicroseconds.P50, b.MeasuredRTTMicroseconds.P50, 50, 100) &&
		near(a.MeasuredRTTMicroseconds.P99, b.MeasuredRTTMicroseconds.P99, 5, 1000)
}

// near tells whether b is within a/share + base of a.
func near(a, b, share, base int64) bool {
	d := b - a
	if d < 0 {
		d = -d
	}
	return d <= a/share+base
}

// networkConditions sets NetworkEmulated and NetworkVerified.
func (s *databaseScope) networkConditions(links []measuredLink, running bool) {
	emulated := metav1.Condition{Type: v1alpha1.ConditionNetworkEmulated, Status: metav1.ConditionTrue, Reason: string(s.plan.emulation)}
	switch {
	case s.plan.emulation == v1alpha1.EmulationNone:
		emulated.Reason, emulated.Message = "NotInjected", "nothing is injected: "+s.plan.why
	case running:
		emulated.Message = "every node delays what it sends as the profile declares"
	default:
		emulated.Status, emulated.Reason, emulated.Message = metav1.ConditionFalse, "NodesNotReady", "not every node runs"
	}
	s.condition(emulated)

	verified := metav1.Condition{Type: v1alpha1.ConditionNetworkVerified, Status: metav1.ConditionFalse}
	if !running {
		verified.Reason, verified.Message = "NodesNotReady", "links are measured once every node is ready"
	} else {
		ok, reason, message := verifyNetwork(links, s.plan.emulation)
		if ok {
			verified.Status = metav1.ConditionTrue
		}
		verified.Reason, verified.Message = reason, message
	}
	// Figures in the message move all the time: while the verdict stays, they follow the links that are shown.
	if was := s.conditionOf(verified.Type); was != nil && was.Status == verified.Status && was.Reason == verified.Reason &&
		was.ObservedGeneration == s.db.Generation && !s.linksMoved {
		verified.Message = was.Message
	}
	s.condition(verified)
}
