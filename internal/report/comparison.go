package report

import (
	"fmt"
	"math"

	"github.com/geobench/geobench/internal/result"
)

// comparison is how one or more results compare with the baseline.
type comparison struct {
	*result.Comparison
	ID, Name string
	Figure   *Figure
}

// comparisons sets results beside the baseline: as one sample when they are of the same thing, that is differ in their seeds
// at most, else one by one.
func comparisons(baseline, docs []*result.Document) []comparison {
	if len(baseline) == 0 || len(docs) == 0 {
		return nil
	}
	groups := [][]*result.Document{docs}
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

// alike tells whether all results are of the same database, workload and load.
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

// changes draws the change of every figure with its interval.
func changes(id string, c *result.Comparison) *Figure {
	level := fmt.Sprintf("%.4g%%", 100-float64(c.AlphaPPM)/1e4)
	f := &Figure{ID: id, Title: "Change of each figure", Open: true,
		Caption: fmt.Sprintf("Upright stroke: change of the median; bar: its %s interval (Hodges and Lehmann), where there are repetitions enough. Only throughput, p50, p99 and aborts of all regions are judged, by a "+
			"Mann-Whitney test with Holm's correction, and a change of up to %s does not count.", level, percent(c.ThresholdPPM)),
		Header: []string{"figure", "region", "A", "B", "change", "from", "to", "p", "judged"}}
	chart := &rowChart{title: f.Title, xLabel: "change in %, B against A", signed: true}
	region := "all regions"
	chart.rows = append(chart.rows, row{name: region, head: true})
	for i := range c.Figures {
		d := &c.Figures[i]
		in := d.Region
		if in == "" {
			in = "all regions"
		}
		change, low, high, p := "", "", "", ""
		line := row{name: d.Name, class: classOf(d.Change), value: fmt.Sprintf("%s → %s", d.Format(d.A), d.Format(d.B))}
		if d.ChangePPM != nil {
			at := float64(*d.ChangePPM) / 1e4
			line.box = []float64{at, at, at, at, at}
			change = fmt.Sprintf("%+.1f%%", at)
			line.value += " (" + change + ")"
		}
		if d.LowPPM != nil && d.ChangePPM != nil {
			// The interval is that of the shift between the samples, which need not hold the change of the medians.
			line.box[0], line.box[1] = float64(*d.LowPPM)/1e4, float64(*d.LowPPM)/1e4
			line.box[3], line.box[4] = float64(*d.HighPPM)/1e4, float64(*d.HighPPM)/1e4
			low, high = fmt.Sprintf("%+.1f%%", line.box[0]), fmt.Sprintf("%+.1f%%", line.box[4])
		}
		if d.PPPM != nil {
			p = fmt.Sprintf("%.3f", float64(*d.PPPM)/1e6)
		}
		if in != region {
			region = in
			chart.rows = append(chart.rows, row{name: region, head: true})
		}
		chart.rows = append(chart.rows, line)
		f.row(d.Name, in, d.Format(d.A), d.Format(d.B), change, low, high, p, d.Change)
	}
	chart.about = fmt.Sprintf("%s: %s.", c.Verdict, c.Message)
	f.scene = chart.draw()
	return f
}

// classOf is the colour of a change: red for worse, green for better, grey for the rest.
func classOf(c result.Change) int {
	switch c {
	case result.Regression:
		return 7
	case result.Improvement:
		return 2
	}
	return 6
}

// around is an axis from a round number at or below bottom, which is at most 0, to one at or above top.
func around(bottom, top float64) (*axis, []float64) {
	a, _ := linear(max(top, -bottom), 4)
	step := niceStep(a.hi / 4)
	a.lo, a.hi = -step*math.Ceil(-bottom/step*(1-1e-9)), step*math.Ceil(top/step*(1-1e-9))
	if a.lo == a.hi {
		a.hi = step
	}
	var at []float64
	for i := math.Round(a.lo / step); i <= math.Round(a.hi/step); i++ {
		at = append(at, i*step)
	}
	return a, at
}
