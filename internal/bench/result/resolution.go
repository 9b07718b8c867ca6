package result

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/internal/base/compress"
)

// Resolution is the resolution of a report's timeline and histograms. The zero value is the resolution at which load
// generators count. Counts over the windows are exact at any resolution. Percentiles of the summary are exact unless
// Rounded is set; percentiles of single repetitions are exact unless Apart or Rounded is set.
type Resolution struct {
	// LatencySeconds is the length of the timeline's cells for latencies, and Seconds the length of its cells for counts;
	// 0 means one second. The first cell starts when the window opens. Each length is a multiple of all shorter lengths,
	// and LatencySeconds is a multiple of Seconds.
	LatencySeconds int `json:"latencySeconds,omitzero"`
	Seconds        int `json:"seconds,omitzero"`
	// Apart is set if the series per type and class are not split by repetition. Each repetition then has its own
	// series over all types and classes together, with latencies accurate to 3.2%.
	Apart bool `json:"apart,omitzero"`
	// Rounded is set if the latencies of all series are accurate only to 3.2%.
	Rounded bool `json:"rounded,omitzero"`
}

// resolutions are tried in order; a report uses the first resolution at which it fits.
var resolutions = []Resolution{
	{},
	{LatencySeconds: 10},
	{LatencySeconds: 60},
	{LatencySeconds: 60, Apart: true},
	{LatencySeconds: 600, Apart: true},
	{LatencySeconds: 600, Seconds: 10, Apart: true},
	{LatencySeconds: 600, Seconds: 60, Apart: true},
	{LatencySeconds: 3600, Seconds: 600, Apart: true, Rounded: true},
	{LatencySeconds: 3600, Seconds: 3600, Apart: true, Rounded: true},
}

// coarser returns the finest resolution that is at least as coarse as x and y.
func (x Resolution) coarser(y Resolution) Resolution {
	r := Resolution{max(x.LatencySeconds, y.LatencySeconds), max(x.Seconds, y.Seconds), x.Apart || y.Apart, x.Rounded || y.Rounded}
	// Cells of latencies must not be shorter than cells of counts: see valid.
	r.LatencySeconds = max(r.LatencySeconds, r.Seconds)
	return r
}

// valid returns an error for cell lengths that cannot be merged with other reports' cells.
func (x Resolution) valid() error {
	for _, n := range []int{x.LatencySeconds, x.Seconds} {
		// Merging requires that each length is a multiple of all shorter lengths, which holds only for the lengths in the
		// table.
		if n != 0 && !slices.ContainsFunc(resolutions, func(r Resolution) bool { return n == r.LatencySeconds || n == r.Seconds }) {
			return fmt.Errorf("resolution: cells of %d s are not among those of %s", n, ReportKind)
		}
	}
	if x.LatencySeconds < x.Seconds {
		return fmt.Errorf("resolution: cells of %d s with latencies are shorter than the cells of %d s with counts", x.LatencySeconds, x.Seconds)
	}
	return nil
}

// String describes the resolution in words; empty for the zero value.
func (x Resolution) String() string {
	text := ""
	add := func(format string, args ...any) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf(format, args...)
	}
	if x.Seconds > 1 {
		add("the timeline has counts of %d s", x.Seconds)
	}
	if x.LatencySeconds > 1 {
		add("percentiles of its seconds are over %d s", x.LatencySeconds)
	}
	if x.Apart {
		add("percentiles of single repetitions are within 3.2%%")
	}
	if x.Rounded {
		add("all percentiles are within 3.2%%")
	}
	return text
}

// Encode encodes the report as gzipped JSON, at the finest resolution at which it fits into a ConfigMap. It does not
// modify the report.
func (r *Report) Encode() ([]byte, error) {
	var problem error
	for _, x := range resolutions {
		// Once the report's own resolution has failed, finer entries of the list would encode the same bytes again.
		if x = x.coarser(r.Resolution); x == r.Resolution && problem != nil {
			continue
		}
		c, err := r.at(x)
		if err != nil {
			return nil, err
		}
		b, err := compress.JSON(c)
		if err == nil && len(b) <= compress.MaxPacked {
			return b, nil
		}
		if err == nil {
			err = fmt.Errorf("worker report: it has %d bytes at the coarsest resolution, and a ConfigMap has room for %d: "+
				"choose fewer transaction types in spec.workload, or fewer spec.load.repetitions", len(b), compress.MaxPacked)
		}
		problem = err
	}
	return nil, problem
}

// at returns the report at resolution x, which must be at least as coarse as the resolution of r. The result shares its
// unchanged parts with r.
func (r *Report) at(x Resolution) (*Report, error) {
	if x == r.Resolution {
		return r, nil
	}
	c := *r
	c.Resolution = x
	var err error
	if c.Timeline, err = cells(r.Timeline, x); err != nil {
		return nil, err
	}
	// setApart must not run twice: series that are already apart cannot be split again.
	if x.Apart && !r.Resolution.Apart {
		if c.Series, err = setApart(r.Series); err != nil {
			return nil, err
		}
	}
	if x.Rounded && !r.Resolution.Rounded {
		c.Series = slices.Clone(c.Series)
		for i := range c.Series {
			if err := c.Series[i].round(); err != nil {
				return nil, err
			}
		}
	}
	return &c, nil
}

// cells merges the seconds of a timeline into the cells of x. A cell with data becomes one entry, at the first second
// of the cell. Tenths are kept only if the counts of seconds are not merged.
func cells(timeline []Second, x Resolution) ([]Second, error) {
	sorted := slices.Clone(timeline)
	slices.SortStableFunc(sorted, func(a, b Second) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Repetition, b.Repetition), cmp.Compare(a.Second, b.Second))
	})
	counts, latencies := max(1, x.Seconds), max(1, x.LatencySeconds)
	var out []Second
	var latency SecondHistogram
	first := 0 // index in out of the second that holds the latencies of the current cell
	begin := func(at Second, second int) {
		out = append(out, Second{Region: at.Region, Repetition: at.Repetition, Second: second})
	}
	for i, s := range sorted {
		same := i > 0 && s.Region == sorted[i-1].Region && s.Repetition == sorted[i-1].Repetition
		if !same || s.Second/latencies != sorted[i-1].Second/latencies {
			if i > 0 {
				out[first].Latency = latency.AppendTo(nil)
			}
			latency, first = SecondHistogram{}, len(out)
			begin(s, s.Second/latencies*latencies)
		}
		// Cells of counts are shorter than cells of latencies, so several of them can start within one cell of latencies.
		if at := s.Second / counts * counts; out[len(out)-1].Second != at {
			begin(s, at)
		}
		if err := latency.Add(s.Latency); err != nil {
			return nil, err
		}
		c := &out[len(out)-1]
		c.Committed += s.Committed
		c.Aborted += s.Aborted
		c.Failed += s.Failed
		c.Attempts += s.Attempts
		c.Offered += s.Offered
		if counts == 1 {
			c.Tenths = c.Tenths.plus(s.Tenths)
		}
	}
	if len(sorted) > 0 {
		out[first].Latency = latency.AppendTo(nil)
	}
	return out, nil
}

// setApart splits series into two kinds. Series of types and classes cover all repetitions; their Repetition is 0.
// Series of single repetitions cover all types and classes; their Type and Class are empty.
func setApart(series []Series) ([]Series, error) {
	var out []Series
	index := map[seriesKey]int{}
	for i := range series {
		over, single := series[i], series[i]
		over.Repetition, single.Type, single.Class = 0, "", ""
		if err := single.round(); err != nil {
			return nil, err
		}
		for _, s := range []Series{over, single} {
			j, ok := index[s.key()]
			if !ok {
				index[s.key()] = len(out)
				out = append(out, s.clone())
				continue
			}
			if err := out[j].merge(&s); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// round rounds the latencies of the series to 3.2%. It does not modify parts that the series shares with other series.
func (s *Series) round() error {
	for _, d := range []**Distribution{ref(&s.Latency), &s.Service} {
		if *d == nil {
			continue
		}
		h, err := DecodeHistogram((*d).Histogram)
		if err != nil {
			return err
		}
		rounded := **d
		rounded.Histogram = EncodeHistogram(roundHistogram(h))
		// Distributions may be shared with the original report, so a rounded copy replaces them.
		if *d == s.Service {
			s.Service = &rounded
		} else {
			s.Latency = rounded
		}
	}
	return nil
}

func ref[T any](v *T) **T { return &v }

// roundHistogram returns h with every value moved to the middle of its bucket in a SecondHistogram.
func roundHistogram(h *hdrhistogram.Histogram) *hdrhistogram.Histogram {
	out := NewHistogram()
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			// The value is within the range of the histogram, so RecordValues cannot fail.
			_ = out.RecordValues(min(secondValue(secondBucket(bar.From)), HistogramHighest), bar.Count)
		}
	}
	return out
}
