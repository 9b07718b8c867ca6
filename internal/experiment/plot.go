//go:build full

package experiment

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

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/result"
)

// CanDraw tells whether this build draws plots.
const CanDraw = true

// plotted are the figures that are drawn, one plot each.
var plotted = []string{"tput", "p50", "p90", "bytes", "cost"}

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

// Draw writes plots of the figures over the first parameter that has several values, one line per system and combination
// of the other parameters, into a folder: EXPERIMENT-FIGURE.svg and .png; and of the throughput over time where runs have
// faults: EXPERIMENT-timeline. An experiment that sweeps nothing and has no faults has no plots. It returns the files. The same
// results give the same bytes.
func (e *Experiment) Draw(r *Results, folder string) ([]string, error) {
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
	courses, err := e.courses(r)
	if err != nil {
		return nil, err
	}
	if courses != nil {
		if err := save("timeline", courses); err != nil {
			return nil, err
		}
	}
	if x := slices.IndexFunc(e.Parameters, func(p Parameter) bool { return len(p.Values) > 1 }); x >= 0 {
		for _, name := range plotted {
			m, err := metricNamed(name)
			if err != nil {
				return nil, err
			}
			p, err := e.plot(r, m, x)
			if err != nil {
				return nil, err
			}
			if err := save(name, p); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(files)
	return files, nil
}

// line is one line of a plot.
type line struct {
	label  string
	system int
	points []*Point
	at     []float64
}

// lines of a plot over parameter x, and the numbers of its axis.
func (e *Experiment) lines(x int) ([]*line, []float64, bool) {
	numbers, err := e.Parameters[x].numbers()
	named := err != nil
	if named {
		numbers = nil
		for i := range e.Parameters[x].Values {
			numbers = append(numbers, float64(i))
		}
	}
	byLabel := map[string]*line{}
	var all []*line
	for _, p := range e.Points {
		label := p.System
		for i, parameter := range e.Parameters {
			if i != x && len(parameter.Values) > 1 {
				label += fmt.Sprintf(", %s %s", parameter.Name, p.Values[i].String())
			}
		}
		l, ok := byLabel[label]
		if !ok {
			l = &line{label: label, system: slices.Index(e.Systems, p.System)}
			byLabel[label], all = l, append(all, l)
		}
		l.points = append(l.points, p)
		l.at = append(l.at, numbers[slices.Index(e.Parameters[x].Values, p.Values[x])])
	}
	return all, numbers, named
}

// figurePlot is a plot with its legend beside it, where it hides no line.
type figurePlot struct {
	*plot.Plot
	legend plot.Legend
}

func (p *figurePlot) draw(c draw.Canvas) {
	c = draw.Crop(c, 2*vg.Millimeter, -2*vg.Millimeter, vg.Millimeter, -vg.Millimeter)
	width := p.legend.Rectangle(c).Size().X + 4*vg.Millimeter
	p.Plot.Draw(draw.Crop(c, 0, -width, 0, 0))
	p.legend.Draw(draw.Crop(c, 0, 0, 0, -12*vg.Millimeter))
}

func (e *Experiment) plot(r *Results, m *metric, x int) (*figurePlot, error) {
	p := &figurePlot{plot.New(), plot.NewLegend()}
	p.Title.Text = e.Name + ": " + m.title
	if r.Simulated {
		p.Title.Text += " (SIMULATED)"
	}
	p.Title.Padding = 2 * vg.Millimeter
	p.X.Label.Text = e.Parameters[x].Name
	p.Y.Label.Text = m.unit
	p.legend.Top = true
	p.legend.Padding = vg.Millimeter
	p.Add(plotter.NewGrid())

	lines, numbers, named := e.lines(x)
	logarithmic := !named && slices.Min(numbers) > 0 && slices.Max(numbers)/slices.Min(numbers) >= 100
	switch {
	case logarithmic:
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, logTicks{}
	case named || isDurations(&e.Parameters[x]):
		p.X.Tick.Marker = plot.ConstantTicks(ticks(&e.Parameters[x], numbers))
	}
	p.Y.Tick.Marker = plainTicks{}
	top, bottom, positive := 0.0, math.Inf(1), true
	for i, l := range lines {
		points, err := e.figures(r, m, l)
		if err != nil {
			return nil, err
		}
		if len(points.XYs) == 0 {
			continue
		}
		for _, xy := range points.XYs {
			top, bottom = max(top, xy.Y), min(bottom, xy.Y)
			positive = positive && xy.Y > 0
		}
		drawn, dots, err := plotter.NewLinePoints(points.XYs)
		if err != nil {
			return nil, err
		}
		drawn.Color, dots.Color = palette[l.system%len(palette)], palette[l.system%len(palette)]
		drawn.Width = vg.Points(1.5)
		dots.Shape = marks[i%len(marks)]
		dots.Radius = vg.Points(3)
		p.Add(drawn, dots)
		p.legend.Add(l.label, drawn, dots)
		if points.uncertain {
			bars, err := plotter.NewYErrorBars(points)
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
		margin := (slices.Max(numbers) - slices.Min(numbers)) / 40
		p.X.Min, p.X.Max = slices.Min(numbers)-margin, slices.Max(numbers)+margin
	} else {
		p.X.Min, p.X.Max = slices.Min(numbers)/1.2, slices.Max(numbers)*1.2
	}
	return p, nil
}

// ticks are the values of a parameter. Where they lie close together, some have no label, so that none hides another.
func ticks(p *Parameter, numbers []float64) []plot.Tick {
	var out []plot.Tick
	for i, v := range p.Values {
		out = append(out, plot.Tick{Value: numbers[i], Label: v.String()})
	}
	slices.SortFunc(out, func(a, b plot.Tick) int { return cmp.Compare(a.Value, b.Value) })
	least := (slices.Max(numbers) - slices.Min(numbers)) / 10
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

// isDurations is true for a parameter whose values carry units.
func isDurations(p *Parameter) bool {
	return slices.ContainsFunc(p.Values, func(v v1alpha1.SweepValue) bool { return v.StrVal != "" })
}

// measured are the points of a line and their confidence intervals.
type measured struct {
	plotter.XYs
	plotter.YErrors
	uncertain bool
}

// figures of a line in the order of its axis, without points that have none.
func (e *Experiment) figures(r *Results, m *metric, l *line) (*measured, error) {
	out := &measured{}
	order := make([]int, len(l.points))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.at[a], l.at[b]) })
	for _, i := range order {
		f, err := r.figure(l.points[i], m, "")
		if err != nil || math.IsInf(f.Median, 0) {
			continue // a point that could not run is told beside the claims
		}
		out.XYs = append(out.XYs, plotter.XY{X: l.at[i], Y: f.Median})
		out.YErrors = append(out.YErrors, struct{ Low, High float64 }{f.HalfWidth, f.HalfWidth})
		out.uncertain = out.uncertain || f.HalfWidth > 0
	}
	return out, nil
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
		ticks[i].Label = formatNumber(v) + suffix
		if v == 0 {
			ticks[i].Label = "0"
		}
	}
	return ticks
}
