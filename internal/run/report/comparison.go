package report

import (
	"fmt"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/chart"
	"github.com/geobench/geobench/internal/bench/result"
)

// comparison compares one result, or a sample of several results, with the baseline.
type comparison struct {
	*result.Comparison
	ID, Name string
	Figure   *Figure
}

// comparisons compares results with the baseline. If the results differ only in their seeds, they form a single sample.
// Otherwise each result is compared separately.
func comparisons(baseline, docs []*result.Document) []comparison {
	if len(baseline) == 0 || len(docs) == 0 {
		return nil
	}
	groups := [][]*result.Document{docs}
	// Results of different configurations must not form a sample.
	if !alike(docs) {
		groups = nil
		for _, d := range docs {
			groups = append(groups, []*result.Document{d})
		}
	}
	var out []comparison
	for i, group := range groups {
		c := comparison{Comparison: result.Compare(baseline, group, result.CompareOptions{}), ID: "comparison"}
		if len(groups) > 1 {
			c.ID = fmt.Sprintf("comparison-%d", i+1)
		}
		c.Name = c.B + " against " + c.A
		c.Figure = changes(c.ID+"-changes", c.Comparison)
		out = append(out, c)
	}
	return out
}

// alike reports whether all results have the same engine, parameters, workload, load and topology, and are all
// simulated or all real.
func alike(docs []*result.Document) bool {
	of := func(d *result.Document) string {
		return fmt.Sprint(d.Engine, d.Parameters, d.Spec.WorkloadHash, d.Spec.LoadHash, d.Spec.TopologyHash, d.Simulated)
	}
	for _, d := range docs[1:] {
		if of(d) != of(docs[0]) {
			return false
		}
	}
	return true
}

// changes returns a chart of the change of every figure with its confidence interval.
func changes(id string, c *result.Comparison) *Figure {
	level := fmt.Sprintf("%.4g%%", 100-float64(c.AlphaPPM)/1e4)
	f := &Figure{ID: id, Title: "Change of each figure", Open: true,
		Caption: fmt.Sprintf("Upright stroke: change of the median; bar: its %s interval (Hodges and Lehmann), where there are repetitions enough. Only throughput, p50, p99 and aborts of all regions are judged, by a "+
			"Mann-Whitney test with Holm's correction, and a change of up to %s does not count.", level, percent(c.ThresholdPPM)),
		Header: []string{"figure", "region", "A", "B", "change", "from", "to", "p", "judged"}}
	rows := &chart.Rows{Title: f.Title, XLabel: "change in %, B against A", Signed: true}
	region := "all regions"
	rows.Rows = append(rows.Rows, chart.Row{Name: region, Head: true})
	for i := range c.Figures {
		d := &c.Figures[i]
		in := d.Region
		if in == "" {
			in = "all regions"
		}
		change, low, high, p := "", "", "", ""
		line := chart.Row{Name: d.Name, Class: classOf(d.Change), Value: fmt.Sprintf("%s → %s", d.Format(d.A), d.Format(d.B))}
		if d.ChangePPM != nil {
			at := float64(*d.ChangePPM) / 1e4
			line.Box = []float64{at, at, at, at, at}
			change = fmt.Sprintf("%+.1f%%", at)
			line.Value += " (" + change + ")"
		}
		if d.LowPPM != nil && d.ChangePPM != nil {
			// The interval is for the shift between the two samples, so it need not contain the change of the medians.
			line.Box[0], line.Box[1] = float64(*d.LowPPM)/1e4, float64(*d.LowPPM)/1e4
			line.Box[3], line.Box[4] = float64(*d.HighPPM)/1e4, float64(*d.HighPPM)/1e4
			low, high = fmt.Sprintf("%+.1f%%", line.Box[0]), fmt.Sprintf("%+.1f%%", line.Box[4])
		}
		if d.PPPM != nil {
			p = fmt.Sprintf("%.3f", float64(*d.PPPM)/1e6)
		}
		if in != region {
			region = in
			rows.Rows = append(rows.Rows, chart.Row{Name: region, Head: true})
		}
		rows.Rows = append(rows.Rows, line)
		f.row(d.Name, in, valueIn(d, d.A), valueIn(d, d.B), change, low, high, p, d.Change)
	}
	rows.About = fmt.Sprintf("%s: %s.", c.Verdict, c.Message)
	f.scene = rows.Draw()
	return f
}

// valueIn formats a value of a figure for a table; empty if there is no value.
func valueIn(d *result.Difference, q v1alpha1.Quantile) string {
	if !d.Has(q) {
		return ""
	}
	return d.Format(q)
}

// classOf returns the color class of a change: red if the figure is worse, green if it is better, and gray otherwise.
func classOf(c result.Change) int {
	switch c {
	case result.Regression:
		return 7
	case result.Improvement:
		return 2
	}
	return 6
}
