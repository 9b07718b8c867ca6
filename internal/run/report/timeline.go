package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/chart"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/result"
)

// bin aggregates consecutive seconds of a timeline.
type bin struct {
	at        float64 // middle of the bin in seconds, counted over all repetitions
	from      int     // first second, counted from the start of the repetition's window
	seconds   int
	committed []int64 // by region
	failed    int64
	attempts  int64
	offered   int64
	p50, p99  v1alpha1.Quantile // maximum over the ticks of the bin
}

// binned aggregates the timeline of every repetition into bins. It also returns the starts of all repetitions except
// the first, in seconds.
func binned(d *result.Document) (bins [][]bin, starts []float64) {
	width := binWidth(d)
	var current []bin
	offset, length := 0, 0
	for i, t := range d.Timeline {
		// A bin must not span two repetitions, because they are separated by a warm-up.
		if i > 0 && t.Repetition != d.Timeline[i-1].Repetition {
			bins, current = append(bins, current), nil
			offset += length
			starts = append(starts, float64(offset))
		}
		// The end of the last tick is the length of this repetition, and thus the start of the next repetition.
		length = t.Second + t.Length()
		// A tick belongs to the bin that contains its first second, even if it extends beyond the end of the bin.
		if n := len(current); n == 0 || t.Second/width != current[n-1].from/width {
			current = append(current, bin{from: t.Second, committed: make([]int64, len(d.Regions))})
		}
		b := &current[len(current)-1]
		b.seconds += t.Length()
		b.at = float64(offset+t.Second+t.Length()) - float64(b.seconds)/2
		for k := range b.committed {
			if k < len(t.Regions) {
				b.committed[k] += t.Regions[k]
			}
		}
		b.failed += t.Aborted + t.Failed
		b.attempts += t.Attempts
		b.offered += t.Offered
		// Quantiles cannot be added or averaged, so keep the maximum.
		b.p50, b.p99 = larger(b.p50, t.P50), larger(b.p99, t.P99)
	}
	if current != nil {
		bins = append(bins, current)
	}
	return bins, starts
}

// seconds returns the length of the timeline in seconds, over all repetitions.
func seconds(d *result.Document) (n int) {
	for i := range d.Timeline {
		n += d.Timeline[i].Length()
	}
	return n
}

// binWidth returns the minimum length of a bin in seconds. A bin that contains a longer tick is longer.
func binWidth(d *result.Document) int { return max(1, (seconds(d)+maxBins-1)/maxBins) }

// bands returns the bands of the faults in a result, at their actual times. A fault that was not injected has no band.
func bands(d *result.Document, end float64) []chart.Band {
	var out []chart.Band
	for i := range d.Faults {
		f := &d.Faults[i]
		if f.FromMicroseconds == nil {
			continue
		}
		b := chart.Band{From: float64(*f.FromMicroseconds) / 1e6, To: end, Name: f.Name}
		if f.ToMicroseconds != nil {
			b.To = float64(*f.ToMicroseconds) / 1e6
		}
		out = append(out, b)
	}
	return out
}

// instant formats microseconds as seconds with one decimal. It returns the text never if us is nil.
func instant(us *int64, never string) string {
	if us == nil {
		return never
	}
	return fmt.Sprintf("%.1f", float64(*us)/1e6)
}

func timeline(d *result.Document, f *Figure, c *chart.Lines) (bins [][]bin, end float64) {
	bins, c.Divides = binned(d)
	end = float64(seconds(d))
	f.Caption = "One point per second."
	if n := binWidth(d); n > 1 {
		f.Caption = fmt.Sprintf("One point per %d seconds.", n)
	}
	if len(bins) > 1 {
		f.Caption += " Dotted lines divide the repetitions, whose warm-ups are left out."
	}
	if len(d.Faults) > 0 {
		f.Caption += " Shaded: faults, when they really were."
	}
	c.Title, c.XLabel, c.XTop = f.Title, "measured time in s", end
	c.Bands = bands(d, end)
	return bins, end
}

func timelineThroughput(d *result.Document) *Figure {
	f := &Figure{ID: "timeline-throughput", Title: "Throughput over time", Header: []string{"second"}}
	c := &chart.Lines{YLabel: "committed transactions per second"}
	bins, _ := timeline(d, f, c)
	if len(bins) == 0 {
		return nil
	}
	curve, arrivals := loadOverTime(d)
	if curve != nil && arrivals {
		f.Caption += " Configured: the arrivals of a region, as spec.load has them."
		c.Series = append(c.Series, configuredLoad(bins, func(b *bin) float64 { return curve(b) / float64(len(d.Regions)) })...)
	}
	var about []string
	for i, r := range d.Regions {
		f.Header = append(f.Header, r.Name)
		low, high := math.Inf(1), 0.0
		for k, repetition := range bins {
			line := chart.Series{Class: i}
			// Only the first repetition has a legend entry, because all lines of a region have the same color.
			if k == 0 {
				line.Name = r.Name
			}
			for _, b := range repetition {
				v := float64(b.committed[i]) / float64(b.seconds)
				low, high = min(low, v), max(high, v)
				line.Points = append(line.Points, chart.Point{X: b.at, Y: v})
			}
			c.Series = append(c.Series, line)
		}
		about = append(about, fmt.Sprintf("%s: %.0f to %.0f per second", r.Name, low, high))
	}
	f.Header = append(f.Header, "not committed")
	if d.Spec.Load.Retry != nil {
		f.Header = append(f.Header, "attempts")
	}
	for _, repetition := range bins {
		for _, b := range repetition {
			cells := []any{fmt.Sprintf("%g", b.at)}
			for _, n := range b.committed {
				cells = append(cells, fmt.Sprintf("%.0f", float64(n)/float64(b.seconds)))
			}
			cells = append(cells, b.failed)
			if d.Spec.Load.Retry != nil {
				cells = append(cells, b.attempts)
			}
			f.row(cells...)
		}
	}
	c.About = words(about...)
	f.scene = c.Draw()
	return f
}

// loadOverTime returns a function that computes the configured load of all regions in a bin: arrivals per second or,
// for a closed loop, clients. arrivals is false for a closed loop. The function is nil if the load has no curve.
func loadOverTime(d *result.Document) (configured func(*bin) float64, arrivals bool) {
	curve := load.NewCurve(&d.Spec.Load)
	if curve == nil {
		return nil, false
	}
	arrivals = d.Spec.Load.Arrival != v1alpha1.ArrivalClosed
	whole := float64(d.Spec.Load.ClientsPerRegion)
	if arrivals {
		whole = float64(d.Spec.Load.RatePerSecond)
	}
	whole *= float64(len(d.Regions))
	return func(b *bin) float64 {
		from := time.Duration(b.from) * time.Second
		return whole * curve.Mean(from, from+time.Duration(b.seconds)*time.Second)
	}, arrivals
}

// configuredLoad returns the lines of the configured load, one for each repetition.
func configuredLoad(bins [][]bin, at func(*bin) float64) (lines []chart.Series) {
	for k, repetition := range bins {
		line := chart.Series{Class: configuredClass}
		if k == 0 {
			line.Name = "configured"
		}
		for _, b := range repetition {
			line.Points = append(line.Points, chart.Point{X: b.at, Y: at(&b)})
		}
		lines = append(lines, line)
	}
	return lines
}

// timelineLoad returns a chart that compares the actual load with the configured load. It returns nil if the load has
// no curve.
func timelineLoad(d *result.Document) *Figure {
	configured, arrivals := loadOverTime(d)
	if configured == nil {
		return nil
	}
	f := &Figure{ID: "timeline-load", Title: "Load over time", Header: []string{"second", "configured", "realised"}}
	c := &chart.Lines{YLabel: "clients that take part, in all regions"}
	unit := 1000.0 // an active client offers 1,000 client-milliseconds per second
	if arrivals {
		c.YLabel, unit = "transactions due per second, in all regions", 1
	}
	bins, _ := timeline(d, f, c)
	if len(bins) == 0 {
		return nil
	}
	c.Series = configuredLoad(bins, configured)
	highest := 0.0
	for k, repetition := range bins {
		line := chart.Series{Class: 0}
		if k == 0 {
			line.Name = "realised"
		}
		for _, b := range repetition {
			v := float64(b.offered) / unit / float64(b.seconds)
			highest = max(highest, v)
			line.Points = append(line.Points, chart.Point{X: b.at, Y: v})
			f.row(fmt.Sprintf("%g", b.at), fmt.Sprintf("%.1f", configured(&b)), fmt.Sprintf("%.1f", v))
		}
		c.Series = append(c.Series, line)
	}
	c.About = fmt.Sprintf("The realised load beside the configured one, up to %.0f; the table below has the numbers.", highest)
	f.scene = c.Draw()
	return f
}

func timelineLatency(d *result.Document) *Figure {
	f := &Figure{ID: "timeline-latency", Title: "Latency over time", Header: []string{"second", "p50 ms", "p99 ms"}}
	c := &chart.Lines{YLabel: "latency in ms", LogY: true}
	bins, _ := timeline(d, f, c)
	if len(bins) == 0 {
		return nil
	}
	lowest, highest, none, bounded := int64(math.MaxInt64), int64(0), false, false
	for _, repetition := range bins {
		for _, b := range repetition {
			f.row(fmt.Sprintf("%g", b.at), quantileMS(b.p50), quantileMS(b.p99))
			none, bounded = none || b.p99 == (v1alpha1.Quantile{}), bounded || b.p99.IsBound()
			for _, q := range []v1alpha1.Quantile{b.p50, b.p99} {
				// A bound of 0 means that every transaction in the bin failed, so ignore it when choosing the scale.
				if us := q.Least(); us > 0 {
					lowest, highest = min(lowest, us), max(highest, us)
				}
			}
		}
	}
	if highest == 0 {
		return nil
	}
	for k, repetition := range bins {
		p50, p99 := overTime(repetition, lowest, 0,
			func(b *bin) v1alpha1.Quantile { return b.p50 }), overTime(repetition, lowest, 1, func(b *bin) v1alpha1.Quantile { return b.p99 })
		if k == 0 {
			p50[0].Name, p99[0].Name = "p50", "p99"
		}
		c.Series = append(c.Series, slices.Concat(p50, p99)...)
	}
	if none {
		f.note("Lines have gaps where no transaction ended.")
	}
	if bounded {
		f.note("Open dots with an arrow are lower bounds: more transactions had no answer than the percentile " +
			"leaves out.")
	}
	// Use a linear axis for a narrow range.
	c.LogY = highest/max(lowest, 1) >= 20
	if c.LogY {
		c.YLabel += " (logarithmic)"
	}
	c.About = fmt.Sprintf("p50 from %s ms on, p99 up to %s ms.", ms(lowest), ms(highest))
	f.scene = c.Draw()
	return f
}

// overTime returns the lines of a percentile over a repetition. Bins in which no transaction finished leave a gap. If
// all transactions of a bin failed, the percentile is a lower bound of 0. No point is drawn below least (in
// microseconds), because the axis may be logarithmic.
func overTime(repetition []bin, least int64, class int, of func(*bin) v1alpha1.Quantile) []chart.Series {
	lines, gap := []chart.Series{{Class: class}}, false
	for i := range repetition {
		q := of(&repetition[i])
		if q == (v1alpha1.Quantile{}) {
			gap = true
			continue
		}
		line := &lines[len(lines)-1]
		// A gap before the first point needs no new line.
		if gap && len(line.Points) > 0 {
			lines = append(lines, chart.Series{Class: class})
			line = &lines[len(lines)-1]
		}
		gap = false
		line.Points = append(line.Points, chart.Point{X: repetition[i].at, Y: float64(max(q.Least(), least)) / 1000})
		line.LowerBound = append(line.LowerBound, q.IsBound())
	}
	return lines
}
