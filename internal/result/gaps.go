package result

import (
	"slices"

	"github.com/geobench/geobench/api/v1alpha1"
)

// Gap is a time in which the emulated network was not as it should be: a pod was replaced and ran before its links were
// there, or a link was made anew to change it. Times count from the start of the measured window of the repetition.
type Gap struct {
	// Repetition counts from 1.
	Repetition       int   `json:"repetition"`
	FromMicroseconds int64 `json:"fromMicroseconds"`
	ToMicroseconds   int64 `json:"toMicroseconds"`
	// Cause says what was missing, and why.
	Cause string `json:"cause"`
}

const second = int64(1_000_000) // microseconds

// fillGaps marks the seconds of the timeline that a gap touches.
func (d *Document) fillGaps() {
	for i := range d.Timeline {
		t := &d.Timeline[i]
		from := int64(t.Second) * second
		t.Gap = slices.ContainsFunc(d.EmulationGaps, func(g Gap) bool {
			return g.Repetition == max(1, t.Repetition) && g.FromMicroseconds < from+second && g.ToMicroseconds >= from
		})
		if t.Gap {
			d.EmulationGapSeconds++
		}
	}
}

// clearSeconds is what the seconds without gaps have of the transactions of a region, or of all when it is empty.
type clearSeconds struct {
	committed, aborted, ended int64
	microseconds              int64
	latency                   SecondHistogram
}

func (d *Document) clear(r *Report, region string) *clearSeconds {
	c := &clearSeconds{}
	gap := map[[2]int]bool{}
	for i := range d.Timeline {
		t := &d.Timeline[i]
		gap[[2]int{max(1, t.Repetition), t.Second}] = t.Gap
		if !t.Gap {
			c.microseconds += min(second, r.DurationMicroseconds-int64(t.Second)*second)
		}
	}
	for _, s := range r.Timeline {
		if region != "" && s.Region != region || gap[[2]int{s.Repetition, s.Second}] {
			continue
		}
		c.committed += s.Committed
		c.aborted += s.Aborted
		c.ended += s.Committed + s.Aborted + s.Failed
		_ = c.latency.Add(s.Latency) // checked when the report was decoded
	}
	return c
}

// measure returns the metric's value; false when there is nothing to measure it on.
func (c *clearSeconds) measure(m v1alpha1.Metric) (int64, bool) {
	percentile := map[v1alpha1.Metric]float64{
		v1alpha1.MetricLatencyP50: 50, v1alpha1.MetricLatencyP90: 90, v1alpha1.MetricLatencyP95: 95, v1alpha1.MetricLatencyP99: 99,
	}
	switch p, isLatency := percentile[m]; {
	case c.microseconds == 0:
		return 0, false
	case isLatency:
		return c.latency.Percentile(p), c.committed > 0
	case m == v1alpha1.MetricThroughput:
		return ratio(c.microseconds, 1, c.committed, 1e6), true
	case c.ended == 0:
		return 0, false
	}
	return ratio(c.ended, 1, c.aborted, 1_000_000), true
}
