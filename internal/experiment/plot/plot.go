//go:build full

package plot

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/geobench/geobench/internal/experiment"
	"github.com/geobench/geobench/internal/result"
)

// CanDraw tells whether this build draws plots.
const CanDraw = true

// palette is that of Okabe and Ito, which people of all colour vision can tell apart.
var palette = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255}, color.RGBA{204, 121, 167, 255},
	color.RGBA{230, 159, 0, 255}, color.RGBA{86, 180, 233, 255}, color.RGBA{0, 0, 0, 255},
}

var marks = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.CrossGlyph{},
}

const (
	plotWidth  = 16 * vg.Centimeter
	plotHeight = 10 * vg.Centimeter
	plotDPI    = 150
)

// Draw writes plots of an experiment's curves into a folder, one per figure: EXPERIMENT-METRIC.svg and .png; and where
// runs have faults, of the throughput over time: EXPERIMENT-timeline. An experiment that sweeps nothing and has no
// faults has no plots. It returns the files. The same results give the same bytes.
func Draw(e *experiment.Experiment, r *experiment.Results, folder string) ([]string, error) {
	var files []string
	save := func(name string, p *figurePlot) error {
		on := func(c vg.CanvasSizer) { p.draw(draw.New(c)) }
		for ext, content := range map[string]func(io.Writer) error{
			"svg": func(w io.Writer) error {
				c := vgsvg.New(plotWidth, plotHeight)
				on(c)
				_, err := c.WriteTo(w)
				return err
			},
			"png": func(w io.Writer) error {
				c := vgimg.NewWith(vgimg.UseWH(plotWidth, plotHeight), vgimg.UseDPI(plotDPI))
				on(c)
				_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
				return err
			},
		} {
			file := filepath.Join(folder, fmt.Sprintf("%s-%s.%s", e.Name, name, ext))
			if err := result.WriteFile(file, content); err != nil {
				return err
			}
			files = append(files, file)
		}
		return nil
	}
	if t := e.Timeline(r); t != nil {
		p, err := timeline(t)
		if err != nil {
			return nil, err
		}
		if err := save("timeline", p); err != nil {
			return nil, err
		}
	}
	all := e.Curves(r)
	for i := range all {
		p, err := curves(&all[i])
		if err != nil {
			return nil, err
		}
		if err := save(all[i].Metric, p); err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	return files, nil
}

// figurePlot is a plot with its legend beside it, where it hides no line.
type figurePlot struct {
	*plot.Plot
	legend plot.Legend
}

func newFigurePlot(title, x, y string) *figurePlot {
	p := &figurePlot{plot.New(), plot.NewLegend()}
	p.Title.Text = title
	p.Title.Padding = 2 * vg.Millimeter
	p.X.Label.Text = x
	p.Y.Label.Text = y
	p.Y.Tick.Marker = plainTicks{}
	p.legend.Top = true
	p.legend.Padding = vg.Millimeter
	return p
}

func (p *figurePlot) draw(c draw.Canvas) {
	c = draw.Crop(c, 2*vg.Millimeter, -2*vg.Millimeter, vg.Millimeter, -vg.Millimeter)
	width := p.legend.Rectangle(c).Size().X + 4*vg.Millimeter
	p.Plot.Draw(draw.Crop(c, 0, -width, 0, 0))
	p.legend.Draw(draw.Crop(c, 0, 0, 0, -12*vg.Millimeter))
}

// samples are what plotters take of a line.
type samples struct{ *experiment.Line }

// Len of XYer.
func (s samples) Len() int { return len(s.X) }

// XY of XYer.
func (s samples) XY(i int) (x, y float64) { return s.X[i], s.Y[i] }

// YError of YErrorer.
func (s samples) YError(i int) (low, high float64) { return s.HalfWidth[i], s.HalfWidth[i] }

func curves(c *experiment.Curves) (*figurePlot, error) {
	p := newFigurePlot(c.Title, c.Axis.Parameter, c.Unit)
	p.Add(plotter.NewGrid())

	left, right := slices.Min(c.Axis.At), slices.Max(c.Axis.At)
	logarithmic := !c.Axis.Ordinal && left > 0 && right/left >= 100
	switch {
	case logarithmic:
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, logTicks{}
	case c.Axis.Labels != nil:
		p.X.Tick.Marker = plot.ConstantTicks(ticks(&c.Axis))
	}
	top, bottom, positive := 0.0, math.Inf(1), true
	for i := range c.Lines {
		l := &c.Lines[i]
		if len(l.X) == 0 {
			continue
		}
		top, bottom = max(top, slices.Max(l.Y)), min(bottom, slices.Min(l.Y))
		positive = positive && slices.Min(l.Y) > 0
		drawn, dots, err := plotter.NewLinePoints(samples{l})
		if err != nil {
			return nil, err
		}
		drawn.Color, dots.Color = palette[l.System%len(palette)], palette[l.System%len(palette)]
		drawn.Width = vg.Points(1.5)
		dots.Shape = marks[i%len(marks)]
		dots.Radius = vg.Points(3)
		p.Add(drawn, dots)
		p.legend.Add(l.Label, drawn, dots)
		if l.HalfWidth != nil {
			bars, err := plotter.NewYErrorBars(samples{l})
			if err != nil {
				return nil, err
			}
			bars.Color = drawn.Color
			p.Add(bars)
		}
	}
	// Figures of different orders, as one region's latency against two, need a logarithmic axis; others start at 0.
	if positive && top/bottom >= 30 {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
		p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(bottom))), math.Pow(10, math.Ceil(math.Log10(top*1.01)))
	} else {
		p.Y.Min, p.Y.Max = 0, max(top*1.15, 1e-9)
	}
	if !logarithmic {
		margin := (right - left) / 40
		p.X.Min, p.X.Max = left-margin, right+margin
	} else {
		p.X.Min, p.X.Max = left/1.2, right*1.2
	}
	return p, nil
}

// ticks are the values of an axis. Where they lie close together, some have no label, so that none hides another.
func ticks(a *experiment.Axis) []plot.Tick {
	var out []plot.Tick
	for i, label := range a.Labels {
		out = append(out, plot.Tick{Value: a.At[i], Label: label})
	}
	slices.SortFunc(out, func(a, b plot.Tick) int { return cmp.Compare(a.Value, b.Value) })
	least := (slices.Max(a.At) - slices.Min(a.At)) / 10
	for i, last := 1, out[0].Value; i < len(out); i++ {
		if out[i].Value-last < least {
			out[i].Label = ""
			continue
		}
		last = out[i].Value
	}
	return out
}

// logTicks are those of a logarithmic axis, and none beyond its ends.
type logTicks struct{}

// Ticks of an axis.
func (logTicks) Ticks(lo, hi float64) []plot.Tick {
	return slices.DeleteFunc(plot.LogTicks{Prec: -1}.Ticks(lo, hi), func(t plot.Tick) bool { return t.Value < lo || t.Value > hi })
}

// plainTicks are the default ones, with large numbers in thousands and millions.
type plainTicks struct{}

// Ticks of an axis.
func (plainTicks) Ticks(lo, hi float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(lo, hi)
	for i := range ticks {
		if ticks[i].Label == "" {
			continue
		}
		v, suffix := ticks[i].Value, ""
		switch {
		case hi >= 2e6:
			v, suffix = v/1e6, "M"
		case hi >= 2e3:
			v, suffix = v/1e3, "k"
		}
		ticks[i].Label = experiment.FormatNumber(v) + suffix
		if v == 0 {
			ticks[i].Label = "0"
		}
	}
	return ticks
}
