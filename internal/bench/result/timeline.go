package result

import (
	"cmp"
	"slices"
)

// fillTimeline creates a tick for each second of the windows, or for each cell if the report merged the counts of
// seconds.
func (d *Document) fillTimeline(regions []string, r *Report) {
	// A window may end within a second, and its last part gets a tick, too.
	whole, length := int((r.DurationMicroseconds+999_999)/1_000_000), max(1, r.Resolution.Seconds)
	ticks := (whole + length - 1) / length
	d.Timeline = make([]Tick, ticks*r.Repetitions)
	for i := range d.Timeline {
		t := &d.Timeline[i]
		t.Second, t.Regions = i%ticks*length, make([]int64, len(regions))
		if seconds := min(length, whole-t.Second); seconds > 1 {
			t.Seconds = seconds
		}
		if r.Repetitions > 1 {
			t.Repetition = i/ticks + 1
		}
	}
	// Cells are processed in order, so that one histogram at a time suffices.
	sorted := slices.Clone(r.Timeline)
	slices.SortStableFunc(sorted, func(a, b Second) int {
		return cmp.Or(cmp.Compare(a.Repetition, b.Repetition), cmp.Compare(a.Second, b.Second))
	})
	var latency SecondHistogram
	var failed int64
	cell := max(1, r.Resolution.LatencySeconds) / length // in ticks
	first := -1                                          // index of the first tick of the current cell
	quantiles := func() {
		if first < 0 {
			return
		}
		p50, p99 := latency.Percentile(50, failed), latency.Percentile(99, failed)
		// The last cell of a repetition may be shorter.
		for i := first; i < min(first+cell, (first/ticks+1)*ticks); i++ {
			d.Timeline[i].P50, d.Timeline[i].P99 = p50, p99
		}
	}
	for _, s := range sorted {
		i := slices.Index(regions, s.Region)
		if s.Second >= whole || i < 0 {
			continue // cannot happen: no second is beyond the window, and aggregate rejects unknown regions
		}
		tick := s.Second / length
		if at := (s.Repetition-1)*ticks + tick/cell*cell; at != first {
			quantiles()
			latency, failed, first = SecondHistogram{}, 0, at
		}
		t := &d.Timeline[(s.Repetition-1)*ticks+tick]
		t.Committed += s.Committed
		t.Aborted += s.Aborted
		t.Failed += s.Failed
		t.Attempts += s.Attempts
		t.Offered += s.Offered
		t.Regions[i] += s.Committed
		t.Tenths = t.Tenths.plus(s.Tenths)
		failed += s.Failed
		_ = latency.Add(s.Latency) // validated when the report was decoded
	}
	quantiles()
	if text := r.Resolution.String(); text != "" {
		d.Notes = append(d.Notes, "reports of load generators did not fit into ConfigMaps as they were: "+text)
	}
}

// Length returns the length of the tick in seconds.
func (t *Tick) Length() int { return max(1, t.Seconds) }

// end returns the second at which the tick ends, counted from the start of the window.
func (t *Tick) end() int { return t.Second + t.Length() }
