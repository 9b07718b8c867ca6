package result

import (
	"fmt"
	"maps"
	"slices"

	"github.com/geobench/geobench/api/v1alpha1"
)

// Gap is a period in which the emulated network was not as declared. Either a pod was replaced and ran before its links
// were ready, or a link was recreated because its properties changed. Times count from the start of the repetition's
// measured window.
type Gap struct {
	// Repetition counts from 1.
	Repetition       int   `json:"repetition"`
	FromMicroseconds int64 `json:"fromMicroseconds"`
	ToMicroseconds   int64 `json:"toMicroseconds"`
	// Cause describes the missing part of the network, and why it was missing.
	Cause string `json:"cause"`
	// Fault is the fault of the manifest that required recreating links; empty for other causes.
	Fault string `json:"fault,omitempty"`
}

// ReasonTooManyGaps is the reason if gaps cover too large a part of the measured time. The remaining seconds then do
// not represent the run.
const ReasonTooManyGaps = "TooManyGaps"

// These constants limit the measured time that gaps may cover. The links of a replaced pod take a few seconds to become
// ready. Chaos Mesh needs a few seconds for each fault of a link.
const (
	gapSeconds        = 5  // regardless of the length of the run
	gapPercent        = 1  // of the measured time
	gapPercentOfFault = 20 // of the measured time, including the gaps that faults of links need
	gapPercentOfOne   = 50 // of one repetition
)

const second = int64(1_000_000) // microseconds

// gapOf returns a function that reports whether a gap overlaps a tick, or another tick in the same interval of
// Resolution.LatencySeconds.
func (r *Report) gapOf(gaps []Gap) func(*Tick) bool {
	cell := int64(max(1, r.Resolution.LatencySeconds)) * second
	return func(t *Tick) bool {
		from := int64(t.Second) * second / cell * cell
		return slices.ContainsFunc(gaps, func(g Gap) bool {
			return g.Repetition == max(1, t.Repetition) && g.FromMicroseconds < from+cell && g.ToMicroseconds >= from
		})
	}
}

// fillGaps marks the ticks of the timeline that overlap a gap.
func (d *Document) fillGaps(r *Report) {
	touched := r.gapOf(d.EmulationGaps)
	for i := range d.Timeline {
		if t := &d.Timeline[i]; touched(t) {
			t.Gap = true
			d.EmulationGapSeconds += int64(t.Length())
		}
	}
}

// tooManyGaps returns a reason if gaps cover too much of the run. Objectives omit the seconds of gaps, so their figures
// would come from few remaining seconds.
func tooManyGaps(d *Document, _ *Inputs, r *Report) []Reason {
	unexplained := r.gapOf(slices.DeleteFunc(slices.Clone(d.EmulationGaps), func(g Gap) bool { return g.Fault != "" }))
	var all, gaps, own int64
	of, in := map[int]int64{}, map[int]int64{} // by repetition
	for i := range d.Timeline {
		t := &d.Timeline[i]
		n := int64(t.Length())
		all, of[t.Repetition] = all+n, of[t.Repetition]+n
		if !t.Gap {
			continue
		}
		gaps, in[t.Repetition] = gaps+n, in[t.Repetition]+n
		if unexplained(t) {
			own += n
		}
	}
	say := func(format string, args ...any) []Reason {
		first := d.EmulationGaps[0]
		return []Reason{{ReasonTooManyGaps, fmt.Sprintf(format, args...) + fmt.Sprintf(" (the first from %s of repetition %d: %s)", moment(first.FromMicroseconds), first.Repetition, first.Cause)}}
	}
	// Declared faults of links are expected to cause gaps, so they have a higher limit than unexplained gaps.
	for _, x := range []struct {
		seconds, percent int64
		which            string
	}{{own, gapPercent, "that no fault of a link explains"}, {gaps, gapPercentOfFault, "altogether"}} {
		if limit := max(gapSeconds, all*x.percent/100); x.seconds > limit {
			return say("the emulated network had gaps in %d of %d measured seconds %s, and %d are allowed", x.seconds, all, x.which, limit)
		}
	}
	// The total can be within its limit while one repetition has hardly any seconds left.
	for _, repetition := range slices.Sorted(maps.Keys(in)) {
		if n := in[repetition]; n*100 > of[repetition]*gapPercentOfOne {
			return say("the emulated network had gaps in %d of the %d seconds of repetition %d, and half of them are allowed", n, of[repetition], max(1, repetition))
		}
	}
	return nil
}

// clearSeconds counts the transactions of a region, or of all regions together, in the seconds without gaps.
type clearSeconds struct {
	committed, aborted, ended int64
	// unanswered counts the transactions that hung when a window closed or that were never sent. hung counts only the
	// transactions that hung.
	unanswered, hung int64
	microseconds     int64
	latency          SecondHistogram
}

func (d *Document) clear(r *Report, region string) *clearSeconds {
	c := &clearSeconds{}
	gap := map[[2]int]bool{}
	for i := range d.Timeline {
		t := &d.Timeline[i]
		gap[[2]int{max(1, t.Repetition), t.Second}] = t.Gap
		if !t.Gap {
			// The last tick may extend beyond the end of the window.
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
		_ = c.latency.Add(s.Latency) // validated when the report was decoded
	}
	for i := range d.Regions {
		if x := &d.Regions[i]; region == "" || x.Name == region {
			// Transactions without an answer belong to no second, so all of them count.
			c.unanswered += x.Hung + x.Unsent()
			c.hung += x.Hung
		}
	}
	return c
}

// measure returns the value of a metric over the seconds without gaps.
func (c *clearSeconds) measure(m v1alpha1.Metric) measured {
	failed := c.ended - c.committed - c.aborted
	switch p, isLatency := percentiles[m]; {
	// Gaps cover the whole measured time, so nothing was measured.
	case c.microseconds == 0:
		return measured{}
	case isLatency:
		samples := c.committed + failed + c.unanswered
		return measured{value: c.latency.Percentile(p, failed+c.unanswered), ok: samples > 0, samples: samples,
			transactions: samples, cause: c.boundCause()}
	case m == v1alpha1.MetricThroughput:
		return measuredRate(c.committed, c.microseconds)
	case c.ended == 0:
		return measured{}
	}
	return measuredAborts(c.aborted, c.ended, c.hung)
}
