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

// fillGaps marks the ticks of the timeline that a gap touches, and those whose latencies are merged with theirs.
func (d *Document) fillGaps(r *Report) {
	cell := int64(max(1, r.Resolution.LatencySeconds)) * second
	for i := range d.Timeline {
		t := &d.Timeline[i]
		from := int64(t.Second) * second / cell * cell
		t.Gap = slices.ContainsFunc(d.EmulationGaps, func(g Gap) bool {
			return g.Repetition == max(1, t.Repetition) && g.FromMicroseconds < from+cell && g.ToMicroseconds >= from
		})
		if t.Gap {
			d.EmulationGapSeconds += int64(t.Length())
		}
	}
}

// clearSeconds is what the seconds without gaps have of the transactions of a region, or of all when it is empty.
type clearSeconds struct {
	committed, aborted, ended int64
	// unanswered transactions were under way, hung, or never sent when the window closed.
	unanswered   int64
	microseconds int64
	latency      SecondHistogram
}

func (d *Document) clear(r *Report, region string) *clearSeconds {
	c := &clearSeconds{}
	gap := map[[2]int]bool{}
	for i := range d.Timeline {
		t := &d.Timeline[i]
		gap[[2]int{max(1, t.Repetition), t.Second}] = t.Gap
		if !t.Gap {
			c.microseconds += min(int64(t.Length())*second, r.DurationMicroseconds-int64(t.Second)*second)
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
	for i := range d.Regions {
		if x := &d.Regions[i]; region == "" || x.Name == region {
			c.unanswered += x.Hung + x.Unsent()
		}
	}
	return c
}

// measure measures the metric.
func (c *clearSeconds) measure(m v1alpha1.Metric) measured {
	failed := c.ended - c.committed - c.aborted
	switch p, isLatency := percentiles[m]; {
	case c.microseconds == 0:
		return measured{}
	case isLatency:
		samples := c.committed + failed + c.unanswered
		return measured{value: c.latency.Percentile(p, failed+c.unanswered), ok: samples > 0, samples: samples}
	case m == v1alpha1.MetricThroughput:
		return measuredValue(ratio(c.microseconds, 1, c.committed, 1e6))
	case c.ended == 0:
		return measured{}
	}
	return measuredValue(ratio(c.ended, 1, c.aborted, 1_000_000))
}
