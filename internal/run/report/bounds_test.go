package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
)

// doubtful returns a result in which a tenth of the last region's transactions were not answered. The p99 of every
// second is only a lower bound. In the first second of the timeline, no transaction finished.
func doubtful(t *testing.T) *result.Document {
	d := *document(t)
	d.Histograms.Series, d.Timeline = slices.Clone(d.Histograms.Series), slices.Clone(d.Timeline)
	last := d.Regions[len(d.Regions)-1].Name
	for i := range d.Histograms.Series {
		if s := &d.Histograms.Series[i]; s.Region == last {
			s.Never, s.LongestMicroseconds = 1_000, 5_000_000
		}
	}
	for i := range d.Timeline {
		d.Timeline[i].P99 = v1alpha1.MoreThan(140_000)
	}
	d.Timeline[0].P50, d.Timeline[0].P99 = v1alpha1.Quantile{}, v1alpha1.Quantile{}
	d.Summary.LatencyMicroseconds.P99 = v1alpha1.MoreThan(140_000)
	return &d
}

// The charts of a result mark lower bounds, and the captions explain these marks.
func TestChartsMarkLowerBounds(t *testing.T) {
	honest, bounded := figures("", document(t)), figures("", doubtful(t))
	for id, says := range map[string]string{"latency-cdf": "not known beyond", "latency-box": "lower bound",
		"timeline-latency": "lower bound"} {
		if svg := bounded[id].scene.SVG("x"); !strings.Contains(svg, says) {
			t.Errorf("%s does not say %q", id, says)
		}
		if svg := honest[id].scene.SVG("x"); strings.Contains(svg, says) {
			t.Errorf("%s says %q of a result without bounds", id, says)
		}
	}
	f := bounded["timeline-latency"]
	if !strings.Contains(f.Caption, "gaps") || !strings.Contains(f.Caption, "lower bounds") || f.Rows[0][2] != "" ||
		!strings.HasPrefix(f.Rows[1][2], "> ") {
		t.Errorf("%q, rows %v", f.Caption, f.Rows)
	}
	over := overview([]*result.Document{document(t), doubtful(t)})[1]
	if svg := over.scene.SVG("x"); !strings.Contains(svg, "lower bound") {
		t.Error("the overview of runs does not mark a lower bound")
	}
}

// A line has a gap where no transaction completed. A bound of 0 is drawn at the bottom of the chart.
func TestSeriesOverTime(t *testing.T) {
	us, bound := v1alpha1.Observed, v1alpha1.MoreThan
	bins := []bin{{at: 1, p99: us(1000)}, {at: 2}, {at: 3, p99: bound(0)}, {at: 4, p99: bound(3000)},
		{at: 5, p99: us(2000)}}
	lines := overTime(bins, 500, 1, func(b *bin) v1alpha1.Quantile { return b.p99 })
	if len(lines) != 2 || len(lines[0].Points) != 1 || len(lines[1].Points) != 3 ||
		!slices.Equal(lines[1].LowerBound, []bool{true, true, false}) || lines[1].Points[0].Y != 0.5 {
		t.Errorf("%+v", lines)
	}
}

// Points of a sweep that are infinite or only lower bounds appear both in the chart and in its table.
func TestSweepsMarkLowerBounds(t *testing.T) {
	r := swept()
	points := r.Experiments[0].Points
	points[0].Median, points[0].LowerBound = map[string]float64{"tput": 1000}, map[string]float64{"p50": 140}
	points[1].Median, points[1].Infinite = map[string]float64{"tput": 1000}, []string{"p50"}
	for _, f := range sweeps(r)[0].Figures {
		if f.ID != "skew-p50" {
			continue
		}
		svg, column := f.scene.SVG("x"), len(f.Header)-2
		if !strings.Contains(svg, "lower bound") || !strings.Contains(svg, "infinite at 0") ||
			!strings.Contains(f.Caption, "lower bounds") {
			t.Errorf("caption %q, chart %s", f.Caption, svg)
		}
		if len(f.Rows) != len(points) || f.Rows[0][column] != "> 140" || f.Rows[1][column] != "infinite" {
			t.Errorf("rows %v", f.Rows)
		}
	}
}

// The cell of a figure without a value is empty rather than 0. For example, a region without transactions has no
// latency.
func TestCellsWithoutValues(t *testing.T) {
	silent := *document(t)
	silent.Regions, silent.Repetitions = slices.Clone(silent.Regions), slices.Clone(silent.Repetitions)
	last := len(silent.Regions) - 1
	name := silent.Regions[last].Name
	silent.Regions[last].LatencyMicroseconds = result.Latency{}
	for i := range silent.Repetitions {
		r := &silent.Repetitions[i]
		r.Regions = slices.Clone(r.Regions)
		for k := range r.Regions {
			if r.Regions[k].Name == name {
				r.Regions[k].LatencyMicroseconds = result.Latency{}
			}
		}
	}
	rows := figures("", &silent)["latency-cdf"].Rows
	if row := rows[last]; row[0] != name || strings.Join(row[1:], "") != "" {
		t.Errorf("latencies of a silent region: %q", row)
	}
	c := comparisons([]*result.Document{document(t)}, []*result.Document{&silent})[0]
	found := 0
	for _, row := range c.Figure.Rows {
		if row[1] == name && strings.HasPrefix(row[0], "p") {
			if found++; row[2] == "" || row[3] != "" {
				t.Errorf("compared with a silent region: %q", row)
			}
		}
	}
	if found == 0 {
		t.Errorf("no latency of %s is compared: %q", name, c.Figure.Rows)
	}
	var table strings.Builder
	if err := c.Table(&table); err != nil || strings.Contains(table.String(), "> 0us") {
		t.Errorf("%v: the table has a latency of > 0us:\n%s", err, table.String())
	}
}

// Pages and CSV files mark lower bounds.
func TestCellsOfLowerBounds(t *testing.T) {
	d := *doubtful(t)
	bound := v1alpha1.MoreThan(140_000)
	d.Regions = slices.Clone(d.Regions)
	d.Regions[0].LatencyMicroseconds.P99 = bound
	if text := functions["ms"].(func(v1alpha1.Quantile) string)(bound); text != "> 140.0 ms" {
		t.Errorf("a page shows %q", text)
	}
	f := figures("", &d)["latency-cdf"]
	files := map[string][]byte{}
	if err := f.files(files); err != nil {
		t.Fatal(err)
	}
	if csv := string(files["csv/"+f.ID+".csv"]); !strings.Contains(csv, ",> 140.000") {
		t.Errorf("the CSV file has no lower bound:\n%s", csv)
	}
}
