package chart

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Width is the default width of a chart. With this width, two charts fit next to each other on a screen, and a single
// chart is readable on a phone.
const Width = 420.0

// axis maps values to positions.
type axis struct {
	lo, hi   float64
	from, to float64 // positions of lo and hi
	log      bool
}

func (a *axis) at(v float64) float64 {
	lo, hi := a.lo, a.hi
	if a.log {
		// A logarithmic axis cannot show values of 0 or less, so draw them at its lower end.
		v, lo, hi = math.Log(max(v, a.lo)), math.Log(lo), math.Log(hi)
	}
	// An axis with a single value shows it in the middle.
	if hi == lo {
		return (a.from + a.to) / 2
	}
	return a.from + (v-lo)/(hi-lo)*(a.to-a.from)
}

// linear returns an axis from 0 to a round number at or above top, and the values of its ticks.
func linear(top float64, ticks int) (*axis, []float64) {
	// The axis needs a range even if all values are 0.
	if top <= 0 {
		top = 1
	}
	step := niceStep(top / float64(ticks))
	// The factor 1 - 1e-9 prevents a rounding error from adding a step. The similar factors below have the same purpose.
	a := &axis{hi: step * math.Ceil(top/step*(1-1e-9))}
	var at []float64
	for i := 0; float64(i)*step <= a.hi*(1+1e-9); i++ {
		at = append(at, float64(i)*step)
	}
	return a, at
}

// niceStep returns the smallest number of the form 1, 2 or 5 x 10^n that is at least v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// logarithmic returns an axis with bounds of the form 1, 2 or 5 x 10^n, and the values of its ticks.
func logarithmic(bottom, top float64) (*axis, []float64) {
	a := &axis{log: true, lo: bottom, hi: top}
	nice := func(v float64, up bool) float64 {
		power := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
		steps := []float64{1, 2, 5, 10}
		if up {
			for _, m := range steps {
				if m*power >= v*(1-1e-9) {
					return m * power
				}
			}
		}
		for _, m := range slices.Backward(steps) {
			if m*power <= v*(1+1e-9) {
				return m * power
			}
		}
		return power
	}
	a.lo, a.hi = nice(bottom, false), nice(top, true)
	// The axis needs a range even if all values are equal.
	if a.lo == a.hi {
		a.lo, a.hi = a.lo/2, a.hi*2
	}
	multiples := []float64{1, 2, 5}
	// On a long axis, there is room only for the labels of the powers of 10.
	if a.hi/a.lo > 500 {
		multiples = multiples[:1]
	}
	var at []float64
	for power := math.Pow(10, math.Floor(math.Log10(a.lo)+1e-9)); power <= a.hi*(1+1e-9); power *= 10 {
		for _, m := range multiples {
			if v := m * power; v >= a.lo*(1-1e-9) && v <= a.hi*(1+1e-9) {
				at = append(at, v)
			}
		}
	}
	return a, at
}

// around returns an axis that includes 0, and the values of its ticks. It extends from a round number at or below
// bottom, which is at most 0, to a round number at or above top.
func around(bottom, top float64) (*axis, []float64) {
	a, _ := linear(max(top, -bottom), 4)
	step := niceStep(a.hi / 4)
	a.lo, a.hi = -step*math.Ceil(-bottom/step*(1-1e-9)), step*math.Ceil(top/step*(1-1e-9))
	// The axis needs a range even if all values are 0.
	if a.lo == a.hi {
		a.hi = step
	}
	var at []float64
	for i := math.Round(a.lo / step); i <= math.Round(a.hi/step); i++ {
		at = append(at, i*step)
	}
	return a, at
}

// Short formats a number for an axis: 1500 as 1.5k.
func Short(v float64) string {
	for _, u := range []struct {
		of   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= u.of {
			return strconv.FormatFloat(v/u.of, 'g', 4, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// Point is a point of a series, in the units of the axes.
type Point struct{ X, Y float64 }

// Series is a line of a chart.
type Series struct {
	// Name is the text in the legend. A series without a name has no legend entry. For example, only the first part of a
	// line with gaps has a name.
	Name   string
	Points []Point
	// Half contains the half-width of each point's confidence interval; empty for none.
	Half []float64
	// Marks is set if a dot is drawn at each point.
	Marks bool
	// LowerBound marks the points whose value is only a lower bound; empty for none. Such a point is drawn as an open dot
	// with an upward arrow.
	LowerBound []bool
	// Open is set if the values after the last point are unknown. The last point is then drawn with an arrow to the right.
	Open bool
	// Class selects the colour and the dashes: see the function Class.
	Class int
}

// Class returns the style of a line. colour is the number of the line's subject, for example a database, and nth is the
// number of the line within its subject. Both start at 0. Lines of the same subject differ in their dashes. Lines of
// different subjects differ in colour and, if nth is the same, also in dashes. Subjects beyond the eighth reuse the
// colours with different dashes.
func Class(colour, nth int) int {
	n := len(seriesColours)
	return colour%n + (nth+colour/n*len(dashes)/2)*n
}

// isBound reports whether the value of a point is only a lower bound.
func (l *Series) isBound(point int) bool { return point < len(l.LowerBound) && l.LowerBound[point] }

// bounded reports whether the value of any point is only a lower bound.
func bounded(l Series) bool { return slices.Contains(l.LowerBound, true) }

func (l *Series) dash() int { return (l.Class + l.Class/len(seriesColours)) % len(dashes) }

// class returns a style class of a series; the kinds include "s" for a line and "f" for a fill, as in s0 and f0.
func class(kind string, number int) string {
	return fmt.Sprintf("%s%d", kind, number%len(seriesColours))
}

// Band is a shaded interval of the x axis with a label, for example for a fault. From and To are in the unit of the
// axis.
type Band struct {
	From, To float64
	Name     string
}

// Cell is a rectangle whose shade is given by Share, from 0 to 1 (darkest).
type Cell struct{ Left, Right, Bottom, Top, Share float64 }

// Lines is a line chart, with optional shaded cells below the lines.
type Lines struct {
	// About describes the chart for blind readers. Heading is set if the title is drawn, for use as a stand-alone picture.
	Title, About   string
	Heading        bool
	XLabel, YLabel string
	Series         []Series
	Cells          []Cell
	Bands          []Band
	// Divides lists the x values of vertical dividing lines, for example between phases.
	Divides    []float64
	LogX, LogY bool
	// XTicks maps x values to their labels; nil for numbers.
	XTicks map[float64]string
	// YTick formats a number next to the y axis; nil means Short.
	YTick func(float64) string
	// Top is the upper end of the y axis. If it is 0, the values determine the upper end.
	Top float64
	// XTop is a value that a linear x axis must include. If it is 0, only the values determine the upper end of the axis.
	XTop float64
	// Width is the width of the drawing, and Height the height of the area between its axes, in CSS pixels. 0 selects the
	// size used in reports.
	Width, Height float64
}

func newDrawing(width float64, title, about string) *Drawing {
	return &Drawing{width: width, Title: title, about: about}
}

// swatch is the length of a line in the legend. It is long enough to distinguish the dashes.
const swatch = 34.0

// Names of arrows in legends.
const (
	boundName = "lower bound: the value is larger"
	openName  = "not known beyond"
)

// arrowRoom is the factor by which an axis exceeds a lower bound, so that the arrow fits.
const arrowRoom = 1.1

// arrowLength is the length of the arrow of a lower bound, in CSS pixels.
const arrowLength = 15.0

// arrow draws an open dot at a position, with an arrow upwards or to the right.
func (s *Drawing) arrow(number int, at place, right bool) {
	along := func(forward, aside float64) place {
		if right {
			return at.plus(forward, aside)
		}
		return at.plus(aside, -forward)
	}
	style := class("t", number)
	s.circle(style, at.x, at.y, 3)
	s.line(style, along(4, 0), along(arrowLength, 0))
	s.line(style, along(arrowLength-5, -4), along(arrowLength, 0), along(arrowLength-5, 4))
}

// arrows returns the legend entries for the arrows of a chart.
func arrows(bound, open bool) (entries []Series) {
	if bound {
		entries = append(entries, Series{Name: boundName, Class: Grey, LowerBound: []bool{true}})
	}
	if open {
		entries = append(entries, Series{Name: openName, Class: Grey, Open: true})
	}
	return entries
}

// legend draws the names of series in rows, starting at y, followed by the entries for arrows. It returns the y
// position below the legend.
func (s *Drawing) legend(y float64, all, arrows []Series, line bool) float64 {
	all = slices.DeleteFunc(slices.Clone(all), func(l Series) bool { return l.Name == "" })
	series := len(all)
	if all = append(all, arrows...); len(all) == 0 {
		return y
	}
	x := 8.0
	for i, l := range all {
		name := clip(l.Name, int((s.width-swatch-24)/textWidth("x")))
		w := swatch + 6 + textWidth(name) + 12
		// An entry that is too wide for any line is drawn at the start of a line.
		if x > 8 && x+w > s.width {
			x, y = 8, y+18
		}
		switch {
		case i >= series && (l.Open || !line):
			s.arrow(l.Class, place{x + 8, y - 4}, true)
		case i >= series:
			s.arrow(l.Class, place{x + swatch/2, y + 2}, false)
		case line:
			s.dashed(class("s", l.Class), l.dash(), place{x, y - 4}, place{x + swatch, y - 4})
			if l.Marks {
				s.circle(class("f", l.Class), x+swatch/2, y-4, 3)
			}
		default:
			s.rect(class("f", l.Class), x+swatch/2-6, y-10, x+swatch/2+6, y+1)
		}
		s.text("label", "start", x+swatch+6, y, name)
		x += w
	}
	return y + 12
}

func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// Scale makes an axis logarithmic if all its values are positive and the largest is a large multiple of the smallest.
// The multiple is at least 100 for the x axis and 30 for the y axis. On a linear axis, the small values would be
// indistinguishable.
func (c *Lines) Scale() {
	var x, y []float64
	for _, l := range c.Series {
		for _, p := range l.Points {
			x, y = append(x, p.X), append(y, p.Y)
		}
	}
	differ := func(v []float64, times float64) bool {
		return len(v) > 0 && slices.Min(v) > 0 && slices.Max(v) >= times*slices.Min(v)
	}
	const hint = " (logarithmic)"
	if differ(x, 100) {
		c.LogX, c.XLabel = true, c.XLabel+hint
	}
	if differ(y, 30) {
		c.LogY, c.YLabel = true, c.YLabel+hint
	}
}

// Within returns a drawing of the given height. The drawing is taller if the parts around the plot area need more room.
func (c *Lines) Within(height float64) *Drawing {
	const least = 40
	c.Height = least
	// The parts around the plot area have a fixed height, so a trial drawing shows how much is left for the plot area.
	c.Height += max(height-c.Draw().height, 0)
	return c.Draw()
}

// Draw returns the drawing.
func (c *Lines) Draw() *Drawing {
	s := newDrawing(cmp.Or(c.Width, Width), c.Title, c.About)
	top := 18.0
	if c.Heading {
		s.text("strong", "start", 8, top, c.Title)
		top += 24
	}
	top = s.legend(top, c.Series, arrows(slices.ContainsFunc(c.Series, bounded),
		slices.ContainsFunc(c.Series, func(l Series) bool { return l.Open })), true)
	left, right := 56.0, 14.0
	plotTop := top + 8
	if c.YLabel != "" {
		plotTop += 18
	}
	plotBottom := plotTop + cmp.Or(c.Height, 190)
	s.height = plotBottom + 44
	loX, hiX, loY, hiY := math.Inf(1), math.Inf(-1), math.Inf(1), c.Top
	for _, l := range c.Series {
		for i, p := range l.Points {
			h := 0.0
			if len(l.Half) > 0 {
				h = l.Half[i]
			}
			loX, hiX = min(loX, p.X), max(hiX, p.X)
			// A logarithmic axis cannot show values of 0 or less.
			if p.Y-h > 0 {
				loY = min(loY, p.Y-h)
			}
			hiY = max(hiY, p.Y+h)
			// The arrow of a lower bound needs room above the point.
			if l.isBound(i) && c.Top == 0 {
				hiY = max(hiY, p.Y*arrowRoom)
			}
		}
	}
	for _, cell := range c.Cells {
		loX, hiX, hiY = min(loX, cell.Left), max(hiX, cell.Right), max(hiY, cell.Top)
		if cell.Bottom > 0 {
			loY = min(loY, cell.Bottom)
		}
	}
	// Without points and cells, any range will do.
	if math.IsInf(loX, 1) {
		loX, hiX = 0, 1
	}
	var y *axis
	var yAt []float64
	if c.LogY && !math.IsInf(loY, 1) {
		y, yAt = logarithmic(loY, hiY)
	} else {
		y, yAt = linear(hiY, 5)
	}
	y.from, y.to = plotBottom, plotTop
	yTick := c.YTick
	if yTick == nil {
		yTick = Short
	}
	for _, v := range yAt {
		left = max(left, textWidth(yTick(v))+8)
	}
	x := &axis{lo: loX, hi: max(hiX, c.XTop)}
	var xAt []float64
	switch {
	case c.XTicks != nil:
		x.log = c.LogX
		x.lo, x.hi = loX, hiX
		xAt = slices.Sorted(maps.Keys(c.XTicks))
	case c.LogX:
		x, xAt = logarithmic(max(loX, 1e-9), hiX)
	default:
		// An axis that starts at 0 shows proportions. Do not start at 0 if this would waste much of the width.
		if x.lo > 0 && x.lo < x.hi/3 {
			x.lo = 0
		}
		step := niceStep(max(x.hi-x.lo, 1e-9) / 6)
		for v := math.Ceil(x.lo/step) * step; v <= x.hi*(1+1e-9); v += step {
			xAt = append(xAt, math.Round(v/step)*step)
		}
	}
	x.from, x.to = left, s.width-right
	if c.XTicks != nil || slices.ContainsFunc(c.Series, func(l Series) bool { return l.Marks }) {
		x.from, x.to = left+14, s.width-right-14 // room for labels and marks
	}
	for _, v := range yAt {
		s.line("grid", place{left, y.at(v)}, place{s.width - right, y.at(v)})
		s.text("tick", "end", left-6, y.at(v)+4, yTick(v))
	}
	for _, cell := range c.Cells {
		shade := min(max(int(cell.Share*shades), 0), shades-1)
		s.rect(fmt.Sprintf("h%d", shade), x.at(cell.Left), y.at(cell.Bottom), x.at(cell.Right), y.at(cell.Top))
	}
	last := math.Inf(-1)
	for _, v := range xAt {
		label := Short(v)
		if c.XTicks != nil {
			label = c.XTicks[v]
		}
		at := x.at(v)
		s.line("axis", place{at, plotBottom}, place{at, plotBottom + 4})
		// Skip a label that would overlap the previous one.
		if w := textWidth(label) / 2; at-w > last+4 {
			s.text("tick", "middle", min(at, s.width-w-2), plotBottom+18, label)
			last = at + w
		}
	}
	row := 0.0
	for _, b := range c.Bands {
		from, to := x.at(max(b.From, x.lo)), x.at(min(b.To, x.hi))
		s.rect("band", from, plotTop, max(to, from+1), plotBottom)
		s.line("bandend", place{from, plotTop}, place{from, plotBottom})
		s.line("bandend", place{to, plotTop}, place{to, plotBottom})
		s.text("bandtag", "start", min(from+3, s.width-right-textWidth(b.Name)), plotTop+12+14*row, b.Name)
		// Cycle through four rows, so that the labels of adjacent bands do not overlap.
		row = math.Mod(row+1, 4)
	}
	for _, v := range c.Divides {
		s.line("divide", place{x.at(v), plotTop}, place{x.at(v), plotBottom})
	}
	for _, l := range c.Series {
		var places []place
		for i, p := range l.Points {
			at := place{x.at(p.X), y.at(p.Y)}
			places = append(places, at)
			if len(l.Half) > 0 && l.Half[i] > 0 {
				low, high := y.at(max(p.Y-l.Half[i], y.lo)), y.at(p.Y+l.Half[i])
				class := class("e", l.Class)
				s.line(class, place{at.x, low}, place{at.x, high})
				s.line(class, place{at.x - 3, low}, place{at.x + 3, low})
				s.line(class, place{at.x - 3, high}, place{at.x + 3, high})
			}
		}
		s.dashed(class("s", l.Class), l.dash(), places...)
		for i, p := range places {
			switch {
			case l.isBound(i):
				s.arrow(l.Class, p, false)
			case l.Open && i == len(places)-1:
				s.arrow(l.Class, p, true)
			// A single point has no line, so it would be invisible without a mark.
			case l.Marks || len(places) == 1:
				s.circle(class("f", l.Class), p.x, p.y, 3)
			}
		}
	}
	s.line("axis", place{left, plotTop}, place{left, plotBottom}, place{s.width - right, plotBottom})
	if c.YLabel != "" {
		s.text("label", "start", 8, plotTop-14, c.YLabel)
	}
	s.text("label", "middle", (left+s.width-right)/2, s.height-6, c.XLabel)
	return s
}

// Row is a row of a chart of bars, boxes or ranges.
type Row struct {
	Name  string
	Class int
	// Bar is the length of a bar, and Value the text next to it.
	Bar   float64
	Value string
	// Stack contains the lengths of consecutive parts of a bar that starts at 0. Part i has the colour of class i, so the
	// series of the legend need the classes 0, 1 and so on.
	Stack []float64
	// Box contains five numbers in ascending order: whisker, quartile, median, quartile, whisker; nil for none.
	Box []float64
	// Dots are single values.
	Dots []float64
	// Mark is a target value; nil for none.
	Mark *float64
	// Thin is a second range, which is drawn as a thinner line. It contains the median, where the line starts, and the
	// upper end; nil for none.
	Thin []float64
	// Spans contains the start and the end of each interval during which the row's state lasts.
	Spans [][2]float64
	// LowerBound is set if the largest value of the bar or box is only a lower bound. It is then drawn with an arrow to
	// the right.
	LowerBound bool
	// Head is set if the row starts a group. Such a row has only a name.
	Head bool
}

// Rows is a chart of horizontal rows.
type Rows struct {
	// About describes the chart for blind readers.
	Title, About, XLabel string
	Rows                 []Row
	Log                  bool
	// Signed is set if values may be negative: the axis then extends to both sides of 0.
	Signed bool
	Legend []Series
	// Heading is set if the title is drawn, for use as a stand-alone picture.
	Heading bool
	// Width is the width of the drawing in CSS pixels; 0 means the width used in reports.
	Width float64
}

// values returns the row's values that the axis must include.
func (r *Row) values() []float64 {
	v := slices.Concat(r.Box, r.Dots, r.Thin)
	for _, span := range r.Spans {
		v = append(v, span[1])
	}
	if r.Bar > 0 {
		v = append(v, r.Bar)
	}
	if r.Mark != nil {
		v = append(v, *r.Mark)
	}
	all := 0.0
	for _, part := range r.Stack {
		all += part
		v = append(v, all)
	}
	return v
}

// Draw returns the drawing. The name of a row is above the row, so that long names fit on a phone.
func (c *Rows) Draw() *Drawing {
	s := newDrawing(cmp.Or(c.Width, Width), c.Title, c.About)
	top := 18.0
	if c.Heading {
		s.text("strong", "start", 8, top, c.Title)
		top += 24
	}
	if bound := slices.ContainsFunc(c.Rows, func(r Row) bool { return r.LowerBound }); bound || len(c.Legend) > 0 {
		top = s.legend(top, c.Legend, arrows(bound, false), false)
	} else {
		top -= 14
	}
	const left, right, lineHeight = 12.0, 20.0, 34.0
	headless := 0
	lo, hi, least := math.Inf(1), 0.0, 0.0
	for i := range c.Rows {
		if c.Rows[i].Head {
			headless++
		}
		for _, v := range c.Rows[i].values() {
			hi, least = max(hi, v), min(least, v)
			if v > 0 {
				lo = min(lo, v)
			}
		}
	}
	bottom := top + 6 + lineHeight*float64(len(c.Rows)-headless) + 22*float64(headless)
	s.height = bottom + 44
	x, at := linear(hi, 5)
	if c.Log && hi > 0 {
		x, at = logarithmic(lo, hi)
	}
	if c.Signed {
		x, at = around(least, hi)
	}
	x.from, x.to = left, s.width-right
	for _, v := range at {
		s.line("grid", place{x.at(v), top}, place{x.at(v), bottom})
	}
	if c.Signed {
		s.line("axis", place{x.at(0), top}, place{x.at(0), bottom})
	}
	last := math.Inf(-1)
	for _, v := range at {
		label := Short(v)
		w := textWidth(label) / 2
		if at := x.at(v); at-w > last+4 {
			s.text("tick", "middle", max(w, min(at, s.width-w-2)), bottom+16, label)
			last = at + w
		}
	}
	y := top + 6
	for i := range c.Rows {
		r := &c.Rows[i]
		if r.Head {
			s.text("strong", "start", left, y+14, r.Name)
			y += 22
			continue
		}
		s.text("label", "start", left, y+12, clip(r.Name, int((s.width-left-right-10-textWidth(r.Value))/textWidth("x"))))
		if r.Value != "" {
			s.text("label", "end", s.width-right, y+12, r.Value)
		}
		mid := y + 23
		fill, soft, edge := class("f", r.Class), class("b", r.Class), class("t", r.Class)
		if r.Bar > 0 {
			s.rect(fill, x.at(x.lo), mid-5, x.at(r.Bar), mid+5)
		}
		from := 0.0
		for i, part := range r.Stack {
			if part > 0 {
				s.rect(class("f", i), x.at(from), mid-5, x.at(from+part), mid+5)
			}
			from += part
		}
		if r.Thin != nil {
			s.line("whisker", place{x.at(r.Thin[0]), mid + 4}, place{x.at(r.Thin[1]), mid + 4})
			s.circle("whisker", x.at(r.Thin[0]), mid+4, 3)
		}
		if r.Box != nil {
			s.line(edge, place{x.at(r.Box[0]), mid}, place{x.at(r.Box[1]), mid})
			s.line(edge, place{x.at(r.Box[3]), mid}, place{x.at(r.Box[4]), mid})
			for _, v := range []float64{r.Box[0], r.Box[4]} {
				s.line(edge, place{x.at(v), mid - 4}, place{x.at(v), mid + 4})
			}
			s.rect(soft, x.at(r.Box[1]), mid-6, max(x.at(r.Box[3]), x.at(r.Box[1])+1), mid+6)
			s.line(edge, place{x.at(r.Box[2]), mid - 7}, place{x.at(r.Box[2]), mid + 7})
		}
		for _, span := range r.Spans {
			s.rect(fill, x.at(span[0]), mid-5, x.at(span[1]), mid+5)
		}
		for _, v := range r.Dots {
			s.circle(fill, x.at(v), mid, 3)
		}
		if r.LowerBound {
			s.arrow(r.Class, place{x.at(slices.Max(append(slices.Clone(r.Box), r.Bar))), mid}, true)
		}
		if r.Mark != nil {
			s.line("mark", place{x.at(*r.Mark), mid - 8}, place{x.at(*r.Mark), mid + 8})
		}
		y += lineHeight
	}
	s.line("axis", place{left, bottom}, place{s.width - right, bottom})
	s.text("label", "middle", s.width/2, s.height-6, c.XLabel)
	return s
}
