//go:build full

package plot

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/geobench/geobench/internal/experiment"
)

// band is the colour of the time in which a fault has its effect.
var band = color.RGBA{255, 224, 178, 255}

// timeline draws the lines over time, with the faults as bands. Each line has its own colour, and dashes when colours
// come again: the points of one system are told apart, too.
func timeline(t *experiment.Timeline) (*figurePlot, error) {
	p := newFigurePlot(t.Title, t.Axis, t.Unit)
	top, end := 0.0, 0.0
	for _, l := range t.Lines {
		top, end = max(top, slices.Max(l.Y)), max(end, slices.Max(l.X))
	}
	top *= 1.1
	for _, f := range t.Faults {
		area, err := plotter.NewPolygon(plotter.XYs{{X: f.From, Y: 0}, {X: f.From, Y: top}, {X: f.To, Y: top}, {X: f.To, Y: 0}})
		if err != nil {
			return nil, err
		}
		area.Color, area.LineStyle.Width = band, 0
		p.Add(area)
		p.legend.Add(f.Name, area)
	}
	p.Add(plotter.NewGrid())
	for i := range t.Lines {
		drawn, err := plotter.NewLine(samples{&t.Lines[i]})
		if err != nil {
			return nil, err
		}
		drawn.Color, drawn.Width = palette[i%len(palette)], vg.Points(1.3)
		if i >= len(palette) {
			drawn.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
		}
		p.Add(drawn)
		p.legend.Add(t.Lines[i].Label, drawn)
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, max(end, 1), 0, max(top, 1e-9)
	return p, nil
}
