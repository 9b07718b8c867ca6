//go:build full

package experiment

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/geobench/geobench/internal/result"
)

// band is the colour of the time in which a fault has its effect.
var band = color.RGBA{255, 224, 178, 255}

// courses draws the throughput over the time of measuring, one line per point, with the faults as bands; nil when no run has
// a fault. Of the repetitions of a point the first is shown.
func (e *Experiment) courses(r *Results) (*figurePlot, error) {
	p := &figurePlot{plot.New(), plot.NewLegend()}
	p.Title.Text = e.Name + ": throughput over time"
	if r.Simulated {
		p.Title.Text += " (SIMULATED)"
	}
	p.Title.Padding = 2 * vg.Millimeter
	p.X.Label.Text = "seconds since the start of measuring"
	p.Y.Label.Text = "committed transactions/s"
	p.legend.Top = true
	p.legend.Padding = vg.Millimeter
	p.Y.Tick.Marker = plainTicks{}

	type course struct {
		label string
		line  plotter.XYs
	}
	var courses []course
	var faults []result.Fault
	top, end := 0.0, 0.0
	for _, point := range e.Points {
		d, err := r.Document(point.Runs[0])
		if err != nil || len(d.Faults) == 0 {
			continue // a point that could not run is told beside the claims
		}
		line := smooth(d)
		for _, xy := range line {
			top, end = max(top, xy.Y), max(end, xy.X)
		}
		courses = append(courses, course{point.Label, line})
		for _, f := range d.Faults {
			same := func(g result.Fault) bool {
				return g.Name == f.Name && g.AtMicroseconds == f.AtMicroseconds && g.DurationMicroseconds == f.DurationMicroseconds
			}
			if !slices.ContainsFunc(faults, same) {
				faults = append(faults, f)
			}
		}
	}
	if len(courses) == 0 {
		return nil, nil
	}
	top *= 1.1
	for _, f := range faults {
		from, to := float64(f.AtMicroseconds)/1e6, float64(f.AtMicroseconds+f.DurationMicroseconds)/1e6
		if f.Lasting {
			to = end
		}
		area, err := plotter.NewPolygon(plotter.XYs{{X: from, Y: 0}, {X: from, Y: top}, {X: to, Y: top}, {X: to, Y: 0}})
		if err != nil {
			return nil, err
		}
		area.Color, area.LineStyle.Width = band, 0
		p.Add(area)
		p.legend.Add(f.Name, area)
	}
	p.Add(plotter.NewGrid())
	for i, c := range courses {
		drawn, err := plotter.NewLine(c.line)
		if err != nil {
			return nil, err
		}
		drawn.Color, drawn.Width = palette[i%len(palette)], vg.Points(1.3)
		if i >= len(palette) {
			drawn.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
		}
		p.Add(drawn)
		p.legend.Add(c.label, drawn)
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, max(end, 1), 0, max(top, 1e-9)
	return p, nil
}

// smooth is the throughput of a document over its first window, each tenth of a second the mean of the five around it.
func smooth(d *result.Document) plotter.XYs {
	var tenths []float64
	for _, t := range d.Timeline {
		if t.Repetition > 1 {
			break
		}
		for k := range 10 {
			n := 0.0
			if t.Tenths != nil {
				n = float64(t.Tenths.Committed[k])
			}
			tenths = append(tenths, n)
		}
	}
	out := make(plotter.XYs, len(tenths))
	for i := range tenths {
		from, to := max(0, i-2), min(len(tenths), i+3)
		sum := 0.0
		for _, n := range tenths[from:to] {
			sum += n
		}
		out[i] = plotter.XY{X: (float64(i) + 0.5) / 10, Y: sum / float64(to-from) * 10}
	}
	return out
}
