// Package plot draws the curves, box plots and timeline of an experiment as SVG and PNG. It does not depend on specific
// metrics or claims.
package plot

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/geobench/geobench/internal/base/chart"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/experiment"
)

// Dimensions of a plot. Plots are used on their own, in a paper or on a slide, so they are larger than the charts of a
// report.
const (
	width  = 600
	height = 280
)

// Draw writes plots of an experiment's results into a folder and returns the names of the files. Equal results yield
// identical files.
//
// Each figure has a plot EXPERIMENT-METRIC.svg and .png. EXPERIMENT-METRIC-TYPE shows a single transaction type, and
// EXPERIMENT-METRIC-in-REGION the clients of a region. EXPERIMENT-reasons shows the reasons of aborted attempts, if
// there are any. EXPERIMENT-nodes-FIGURE contains box plots of a node figure that claims use. EXPERIMENT-timeline shows
// the throughput over time if runs have faults.
//
// An experiment without swept values has no curves.
func Draw(e *experiment.Experiment, r *experiment.Results, folder string) ([]string, error) {
	var files []string
	save := func(name string, drawing *chart.Drawing) error {
		id := e.Name + "-" + name
		picture, err := drawing.PNG()
		if err != nil {
			return fmt.Errorf("plot %s: %w", id, err)
		}
		for extension, content := range map[string][]byte{".svg": []byte(drawing.File(id)), ".png": picture} {
			file := filepath.Join(folder, id+extension)
			write := func(w io.Writer) error {
				_, err := w.Write(content)
				return err
			}
			if err := result.WriteFile(file, write); err != nil {
				return err
			}
			files = append(files, file)
		}
		return nil
	}
	if t := e.Timeline(r); t != nil {
		if err := save("timeline", alone(timeline(t))); err != nil {
			return nil, err
		}
	}
	if a := e.Reasons(r); a != nil {
		if err := save("reasons", reasons(a)); err != nil {
			return nil, err
		}
	}
	of := e.Nodes(r)
	for i := range of {
		if err := save("nodes-"+of[i].Figure, boxes(&of[i])); err != nil {
			return nil, err
		}
	}
	all := e.Curves(r)
	for i := range all {
		name := all[i].Metric
		if all[i].Type != "" {
			name += "-" + all[i].Type
		}
		if all[i].Region != "" {
			name += "-in-" + all[i].Region
		}
		if err := save(name, alone(curves(&all[i]))); err != nil {
			return nil, err
		}
	}
	// Sort, because the loop over the map of extensions has a random order.
	slices.Sort(files)
	return files, nil
}

// alone draws a chart with a heading, in the dimensions of a plot.
func alone(c *chart.Lines) *chart.Drawing {
	c.Heading, c.Width, c.Height = true, width, height
	return c.Draw()
}

// leastShown is the smallest share of attempts, in percent, that has a bar. A smaller share would be shown as 0.00%.
const leastShown = 0.005

// reasons draws a bar for each point, with one color for each abort reason. Points with almost no aborted attempts have
// no bar; their number is in the heading of the system.
func reasons(a *experiment.Reasons) *chart.Drawing {
	out := &chart.Rows{Title: a.Title, About: a.Unit + " that were aborted, by reason, at each point.", XLabel: a.Unit, Heading: true, Width: width}
	for i, reason := range a.Reasons {
		out.Legend = append(out.Legend, chart.Series{Name: reason, Class: i})
	}
	// The points of a system are adjacent.
	for from := 0; from < len(a.Points); {
		system, to := a.Points[from].System, from
		var bars []chart.Row
		for ; to < len(a.Points) && a.Points[to].System == system; to++ {
			p := a.Points[to]
			all := 0.0
			for _, percent := range p.Percent {
				all += percent
			}
			if all >= leastShown {
				bars = append(bars, chart.Row{Name: p.Label, Stack: p.Percent, Value: fmt.Sprintf("%.2f%%", all)})
			}
		}
		head := system
		if without := to - from - len(bars); without > 0 {
			head += fmt.Sprintf(": %d of %d points without a bar, below %v%%", without, to-from, leastShown)
		}
		out.Rows = append(append(out.Rows, chart.Row{Head: true, Name: head}), bars...)
		from = to
	}
	return out.Draw()
}

// boxes draws a box plot over the nodes of each point, with a dot for each node.
func boxes(n *experiment.Nodes) *chart.Drawing {
	out := &chart.Rows{Title: n.Title, About: fmt.Sprintf("Box plots of %s over the nodes of each point: least, quartiles and most.", n.Unit), XLabel: n.Unit, Heading: true, Width: width}
	colours := map[string]int{}
	for i, p := range n.Points {
		if i == 0 || n.Points[i-1].System != p.System {
			colours[p.System] = len(colours)
			out.Rows = append(out.Rows, chart.Row{Head: true, Name: p.System})
		}
		box := result.Quartiles(p.Values)
		row := chart.Row{Name: p.Label, Class: colours[p.System], Dots: p.Values, Box: box}
		// The ratio is undefined if the figure is 0 at all nodes.
		if mean := avg(p.Values); mean > 0 {
			row.Value = fmt.Sprintf("most / mean %.2f", box[4]/mean)
		}
		out.Rows = append(out.Rows, row)
	}
	return out.Draw()
}

func avg(values []float64) (mean float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	return mean
}

func seriesOf(l *experiment.Line, class int) chart.Series {
	s := chart.Series{Name: l.Label, Half: l.HalfWidth, LowerBound: l.LowerBound, Class: class}
	for i := range l.X {
		s.Points = append(s.Points, chart.Point{X: l.X[i], Y: l.Y[i]})
	}
	return s
}

// curves draws the lines of each system in one color, with different dashes.
func curves(c *experiment.Curves) *chart.Lines {
	out := &chart.Lines{Title: c.Title, About: fmt.Sprintf("%s over %s.", c.Unit, c.Axis.Parameter), XLabel: c.Axis.Parameter, YLabel: c.Unit}
	if c.Axis.Labels != nil {
		out.XTicks = map[float64]string{}
		for i, label := range c.Axis.Labels {
			out.XTicks[c.Axis.At[i]] = label
		}
	}
	lines := map[int]int{} // number of lines so far, by system
	for i := range c.Lines {
		l := &c.Lines[i]
		nth := lines[l.System]
		// Count lines without figures as well, so that each line has the same color and dashes in all plots.
		lines[l.System]++
		if len(l.X)+len(l.Infinite) == 0 {
			continue
		}
		s := seriesOf(l, chart.Class(l.System, nth))
		s.Marks = true
		if len(l.Infinite) > 0 {
			s.Name += experiment.InfiniteAt(c.Axis.Words(l.Infinite))
		}
		out.Series = append(out.Series, s)
	}
	out.Scale()
	return out
}

// timeline draws each line in its own color, and the faults as vertical bands.
func timeline(t *experiment.Timeline) *chart.Lines {
	out := &chart.Lines{Title: t.Title, About: fmt.Sprintf("%s over %s.", t.Unit, t.Axis), XLabel: t.Axis, YLabel: t.Unit}
	for i := range t.Lines {
		out.Series = append(out.Series, seriesOf(&t.Lines[i], i))
	}
	for _, f := range t.Faults {
		out.Bands = append(out.Bands, chart.Band{From: f.From, To: f.To, Name: f.Name})
	}
	return out
}
