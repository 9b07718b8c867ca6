package result

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/base/compress"
)

// beforeFaults and afterFaults are numbers of seconds. A timeline keeps its resolution from beforeFaults before the
// start of a fault to afterFaults after its end; other parts are coarsened.
const (
	beforeFaults = 15
	afterFaults  = 60
)

// shortening is a step that makes a document shorter. No step changes the summary, regions, transactions, faults,
// objectives, checks or evidence.
type shortening struct {
	// of names the part that the step shortens. The note of a later step for the same part replaces the earlier note.
	of string
	// do shortens the document and returns a description of the change.
	do func(*Document) string
}

// shortenings are applied in order until the document fits.
var shortenings = []shortening{
	{"timeline", func(d *Document) string { return d.coarsen(1, true) }},
	{"timeline", func(d *Document) string { return d.coarsen(10, true) }},
	{"timeline", func(d *Document) string { return d.coarsen(60, true) }},
	{"timeline", func(d *Document) string { return d.coarsen(60, false) }},
	{"timeline", func(d *Document) string { return d.coarsen(600, false) }},
	{"histograms", (*Document).roundHistograms},
	{"counters", (*Document).sumCounters},
	{"timeline", func(d *Document) string { d.Timeline = []Tick{}; return "the timeline is omitted" }},
	{"repetitions", func(d *Document) string {
		for i := range d.Repetitions {
			d.Repetitions[i].Regions = nil
		}
		return "regions of single repetitions are omitted"
	}},
	{"histograms", func(d *Document) string {
		d.Histograms.Series = []HistogramSeries{}
		return "histograms are omitted"
	}},
}

// Fit returns the document as text if it has at most plain bytes. Otherwise it also returns the gzipped text, with at
// most compress.MaxPacked bytes. If neither fits, Fit shortens the document and notes the changes. It starts with the
// parts of the timeline that are far from faults. It does not modify d.
func (d *Document) Fit(plain int) (text, packed []byte, err error) {
	c := *d
	c.Timeline, c.Nodes, c.Repetitions = slices.Clone(d.Timeline), slices.Clone(d.Nodes), slices.Clone(d.Repetitions)
	c.Histograms.Series = slices.Clone(d.Histograms.Series)
	var made, notes []string
	// Apply one step at a time and then check the size again, so that no more information is lost than necessary.
	for step := 0; ; step++ {
		var b bytes.Buffer
		if err := c.Write(&b); err != nil {
			return nil, nil, err
		}
		if b.Len() <= plain {
			return b.Bytes(), nil, nil
		}
		if packed, err := compress.Text(b.Bytes()); err == nil && len(packed) <= compress.MaxPacked {
			return b.Bytes(), packed, nil
		}
		if step == len(shortenings) {
			return nil, nil, fmt.Errorf("result %s: its %d bytes do not fit into a ConfigMap even without its timeline and histograms: choose fewer regions, nodes or workers", d.Name, b.Len())
		}
		s := &shortenings[step]
		note := s.do(&c)
		if at := slices.Index(made, s.of); at >= 0 {
			notes[at] = note
		} else {
			made, notes = append(made, s.of), append(notes, note)
		}
		// The note lengthens the document, so it must be in place before the size is checked again.
		c.Notes = append(slices.Clone(d.Notes), "this result did not fit into a ConfigMap of 1 MiB: "+strings.Join(notes, "; "))
	}
}

// coarsen merges the ticks in each interval of the given number of seconds, and drops their tenths. If keepFaults is
// set, ticks near a fault stay unchanged. Each percentile of a merged tick is the largest of the ticks that were
// merged.
func (d *Document) coarsen(seconds int, keepFaults bool) string {
	var out []Tick
	merged := false // whether the last tick of out may absorb more ticks
	for i := range d.Timeline {
		t := d.Timeline[i]
		if keepFaults && d.nearFault(&t) {
			out, merged = append(out, t), false
			continue
		}
		t.Tenths = nil
		if n := len(out); merged && out[n-1].Repetition == t.Repetition && out[n-1].Second/seconds == t.Second/seconds {
			out[n-1].merge(&t)
			continue
		}
		// merge changes these slices, and d shares them with the original document.
		t.Regions, t.Faults = slices.Clone(t.Regions), slices.Clone(t.Faults)
		out, merged = append(out, t), true
	}
	d.Timeline = out
	text := "the timeline has no tenths of seconds"
	if seconds > 1 {
		text = fmt.Sprintf("ticks of the timeline have up to %d s, with the largest percentiles of their seconds", seconds)
	}
	if keepFaults && len(d.Faults) > 0 {
		text += fmt.Sprintf(", but for the time from %d s before to %d s after faults", beforeFaults, afterFaults)
	}
	return text
}

// nearFault reports whether a tick is near a fault, by its planned or its actual times.
func (d *Document) nearFault(t *Tick) bool {
	if t.Repetition > 1 { // times of faults count from the start of measuring, that is, within the first repetition
		return false
	}
	return slices.ContainsFunc(d.Faults, func(f Fault) bool {
		from, to := f.AtMicroseconds, f.AtMicroseconds+f.DurationMicroseconds
		for _, at := range []*int64{f.FromMicroseconds, f.RecoveringMicroseconds, f.ToMicroseconds} {
			if at != nil {
				from, to = min(from, *at), max(to, *at)
			}
		}
		return int64(t.Second) < to/second+afterFaults && int64(t.end()) > from/second-beforeFaults
	})
}

// merge adds the following tick o to t.
func (t *Tick) merge(o *Tick) {
	t.Seconds = t.Length() + o.Length()
	t.Committed += o.Committed
	t.Aborted += o.Aborted
	t.Failed += o.Failed
	t.Attempts += o.Attempts
	t.Offered += o.Offered
	// Percentiles cannot be added; the largest is at least an upper bound of the merged percentile.
	if t.P50.Compare(o.P50) < 0 {
		t.P50 = o.P50
	}
	if t.P99.Compare(o.P99) < 0 {
		t.P99 = o.P99
	}
	for i := range t.Regions {
		t.Regions[i] += o.Regions[i]
	}
	for _, name := range o.Faults {
		if !slices.Contains(t.Faults, name) {
			t.Faults = append(t.Faults, name)
		}
	}
	t.Gap = t.Gap || o.Gap
}

// roundHistograms rounds the values of all histograms to 3.2%, as in the timeline.
func (d *Document) roundHistograms() string {
	d.Histograms.Rounded = true
	for i := range d.Histograms.Series {
		s := &d.Histograms.Series[i]
		for _, text := range []*string{&s.Histogram, &s.Unfinished} {
			if h, err := DecodeHistogram(*text); err == nil {
				*text = EncodeHistogram(roundHistogram(h))
			}
		}
	}
	return "values of histograms are within 3.2%"
}

// sumCounters replaces the engine's counters of all nodes with their sums, stored at the first node.
func (d *Document) sumCounters() string {
	sum := map[string]int64{}
	for i := range d.Nodes {
		sum = addNamed(sum, d.Nodes[i].Counters)
		d.Nodes[i].Counters = nil
	}
	if len(d.Nodes) > 0 {
		d.Nodes[0].Counters = sum
	}
	return "the first of the nodes has the counters of all"
}
