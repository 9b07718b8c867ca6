package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// chartWidth is such that two charts stand side by side on a screen, and one can be read on a phone.
const chartWidth = 420.0

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// axis maps values to places.
type axis struct {
	lo, hi   float64
	from, to float64 // places of lo and hi
	log      bool
}

func (a *axis) at(v float64) float64 {
	lo, hi := a.lo, a.hi
	if a.log {
		v, lo, hi = math.Log(max(v, a.lo)), math.Log(lo), math.Log(hi)
	}
	if hi == lo {
		return (a.from + a.to) / 2
	}
	return a.from + (v-lo)/(hi-lo)*(a.to-a.from)
}

// linear is an axis from 0 to a round number at or above top.
func linear(top float64, ticks int) (*axis, []float64) {
	if top <= 0 {
		top = 1
	}
	step := niceStep(top / float64(ticks))
	a := &axis{hi: step * math.Ceil(top/step*(1-1e-9))}
	var at []float64
	for i := 0; float64(i)*step <= a.hi*(1+1e-9); i++ {
		at = append(at, float64(i)*step)
	}
	return a, at
}

// niceStep is the least of 1, 2, 5 x 10^n that is at least v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// logarithmic is an axis whose ends are 1, 2 or 5 x 10^n.
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
	if a.lo == a.hi {
		a.lo, a.hi = a.lo/2, a.hi*2
	}
	multiples := []float64{1, 2, 5}
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

// short writes a number for an axis: 1500 as 1.5k.
func short(v float64) string {
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

// series is one line of a chart.
type series struct {
	name   string
	points []point
	// half is the half-width of each point's confidence interval; empty for none.
	half  []float64
	marks bool
	class int
}

// band is a time at which something was wrong, in the unit of the x axis.
type band struct {
	from, to float64
	name     string
}

// lineChart describes a chart of lines.
type lineChart struct {
	title, about   string
	xLabel, yLabel string
	series         []series
	bands          []band
	// divides are places on the x axis where something new begins.
	divides    []float64
	logX, logY bool
	// xTicks are words for places on the x axis; nil for numbers.
	xTicks map[float64]string
	// top of the y axis; 0 is that of the values.
	top float64
	// xTop is the end of the x axis; 0 is that of the values.
	xTop float64
}

func newScene(height float64, title, about string) *scene {
	return &scene{width: chartWidth, height: height, title: title, about: about}
}

// legend lists the names of series in rows from y on, and returns where it ends.
func (s *scene) legend(y float64, all []series, line bool) float64 {
	if len(all) < 2 && (len(all) == 0 || all[0].name == "") {
		return y
	}
	x := 8.0
	for _, l := range all {
		name := clip(l.name, 48)
		w := 26 + textWidth(name) + 12
		if x > 8 && x+w > s.width {
			x, y = 8, y+18
		}
		if line {
			s.line(fmt.Sprintf("s%d", l.class%8), point{x, y - 4}, point{x + 20, y - 4})
			if l.marks {
				s.circle(fmt.Sprintf("f%d", l.class%8), x+10, y-4, 3)
			}
		} else {
			s.rect(fmt.Sprintf("f%d", l.class%8), x+6, y-10, x+18, y+1)
		}
		s.text("label", "start", x+26, y, name)
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

// draw makes the scene.
func (c *lineChart) draw() *scene {
	s := newScene(0, c.title, c.about)
	top := s.legend(18, c.series, true)
	const height, left, right = 190.0, 56.0, 14.0
	plotTop, plotBottom := top+26, top+26+height
	s.height = plotBottom + 44
	loX, hiX, loY, hiY := math.Inf(1), math.Inf(-1), math.Inf(1), c.top
	for _, l := range c.series {
		for i, p := range l.points {
			h := 0.0
			if len(l.half) > 0 {
				h = l.half[i]
			}
			loX, hiX = min(loX, p.x), max(hiX, p.x)
			if p.y-h > 0 {
				loY = min(loY, p.y-h)
			}
			hiY = max(hiY, p.y+h)
		}
	}
	if math.IsInf(loX, 1) {
		loX, hiX = 0, 1
	}
	var y *axis
	var yAt []float64
	if c.logY && !math.IsInf(loY, 1) {
		y, yAt = logarithmic(loY, hiY)
	} else {
		y, yAt = linear(hiY, 5)
	}
	y.from, y.to = plotBottom, plotTop
	x := &axis{lo: loX, hi: max(hiX, c.xTop)}
	var xAt []float64
	switch {
	case c.logX:
		x, xAt = logarithmic(max(loX, 1e-9), hiX)
	case c.xTicks != nil:
		x.lo, x.hi = loX, hiX
		for v := range c.xTicks {
			xAt = append(xAt, v)
		}
		slices.Sort(xAt)
	default:
		if x.lo > 0 && x.lo < x.hi/3 {
			x.lo = 0
		}
		step := niceStep(max(x.hi-x.lo, 1e-9) / 6)
		for v := math.Ceil(x.lo/step) * step; v <= x.hi*(1+1e-9); v += step {
			xAt = append(xAt, math.Round(v/step)*step)
		}
	}
	x.from, x.to = left, s.width-right
	if c.xTicks != nil {
		x.from, x.to = left+14, s.width-right-14
	}
	for _, v := range yAt {
		s.line("grid", point{left, y.at(v)}, point{s.width - right, y.at(v)})
		s.text("tick", "end", left-6, y.at(v)+4, short(v))
	}
	last := math.Inf(-1)
	for _, v := range xAt {
		label := short(v)
		if c.xTicks != nil {
			label = c.xTicks[v]
		}
		at := x.at(v)
		s.line("axis", point{at, plotBottom}, point{at, plotBottom + 4})
		if w := textWidth(label) / 2; at-w > last+4 {
			s.text("tick", "middle", min(at, s.width-w-2), plotBottom+18, label)
			last = at + w
		}
	}
	row := 0.0
	for _, b := range c.bands {
		from, to := x.at(max(b.from, x.lo)), x.at(min(b.to, x.hi))
		s.rect("band", from, plotTop, max(to, from+1), plotBottom)
		s.line("bandend", point{from, plotTop}, point{from, plotBottom})
		s.line("bandend", point{to, plotTop}, point{to, plotBottom})
		s.text("bandtag", "start", min(from+3, s.width-right-textWidth(b.name)), plotTop+12+14*row, b.name)
		row = math.Mod(row+1, 4)
	}
	for _, v := range c.divides {
		s.line("divide", point{x.at(v), plotTop}, point{x.at(v), plotBottom})
	}
	for _, l := range c.series {
		var places []point
		for i, p := range l.points {
			at := point{x.at(p.x), y.at(p.y)}
			places = append(places, at)
			if len(l.half) > 0 && l.half[i] > 0 {
				low, high := y.at(max(p.y-l.half[i], y.lo)), y.at(p.y+l.half[i])
				class := fmt.Sprintf("e%d", l.class%8)
				s.line(class, point{at.x, low}, point{at.x, high})
				s.line(class, point{at.x - 3, low}, point{at.x + 3, low})
				s.line(class, point{at.x - 3, high}, point{at.x + 3, high})
			}
		}
		s.line(fmt.Sprintf("s%d", l.class%8), places...)
		if l.marks || len(places) == 1 {
			for _, p := range places {
				s.circle(fmt.Sprintf("f%d", l.class%8), p.x, p.y, 3)
			}
		}
	}
	s.line("axis", point{left, plotTop}, point{left, plotBottom}, point{s.width - right, plotBottom})
	s.text("label", "start", 8, plotTop-14, c.yLabel)
	s.text("label", "middle", (left+s.width-right)/2, s.height-6, c.xLabel)
	return s
}

// row is one row of a chart of bars, boxes or ranges.
type row struct {
	name  string
	class int
	// bar is a length with a value in words at its end.
	bar   float64
	value string
	// box is five numbers in ascending order: whisker, quartile, median, quartile, whisker. Nil for none.
	box []float64
	// dots are single values.
	dots []float64
	// mark is a value that is aimed at; nil for none.
	mark *float64
	// thin is a lighter second range: its median and its end.
	thin []float64
	// head starts a group: it has a name and nothing else.
	head bool
}

// rowChart describes a chart of horizontal rows.
type rowChart struct {
	title, about, xLabel string
	rows                 []row
	log                  bool
	// signed values may be negative: the axis reaches to both sides of 0.
	signed bool
	legend []series
}

// values of a row that the axis must hold.
func (r *row) values() []float64 {
	v := slices.Concat(r.box, r.dots, r.thin)
	if r.bar > 0 {
		v = append(v, r.bar)
	}
	if r.mark != nil {
		v = append(v, *r.mark)
	}
	return v
}

// draw makes the scene. Names stand above their row, so that long ones have room on a phone.
func (c *rowChart) draw() *scene {
	s := newScene(0, c.title, c.about)
	top := s.legend(18, c.legend, false)
	if len(c.legend) == 0 {
		top = 4
	}
	const left, right, lineHeight = 12.0, 20.0, 34.0
	headless := 0
	lo, hi, least := math.Inf(1), 0.0, 0.0
	for i := range c.rows {
		if c.rows[i].head {
			headless++
		}
		for _, v := range c.rows[i].values() {
			hi, least = max(hi, v), min(least, v)
			if v > 0 {
				lo = min(lo, v)
			}
		}
	}
	bottom := top + 6 + lineHeight*float64(len(c.rows)-headless) + 22*float64(headless)
	s.height = bottom + 44
	x, at := linear(hi, 5)
	if c.log && hi > 0 {
		x, at = logarithmic(lo, hi)
	}
	if c.signed {
		x, at = around(least, hi)
	}
	x.from, x.to = left, s.width-right
	for _, v := range at {
		s.line("grid", point{x.at(v), top}, point{x.at(v), bottom})
	}
	if c.signed {
		s.line("axis", point{x.at(0), top}, point{x.at(0), bottom})
	}
	last := math.Inf(-1)
	for _, v := range at {
		label := short(v)
		w := textWidth(label) / 2
		if at := x.at(v); at-w > last+4 {
			s.text("tick", "middle", max(w, min(at, s.width-w-2)), bottom+16, label)
			last = at + w
		}
	}
	y := top + 6
	for i := range c.rows {
		r := &c.rows[i]
		if r.head {
			s.text("strong", "start", left, y+14, r.name)
			y += 22
			continue
		}
		s.text("label", "start", left, y+12, clip(r.name, int((s.width-left-right-10-textWidth(r.value))/textWidth("x"))))
		if r.value != "" {
			s.text("label", "end", s.width-right, y+12, r.value)
		}
		mid := y + 23
		fill, soft, edge := fmt.Sprintf("f%d", r.class%8), fmt.Sprintf("b%d", r.class%8), fmt.Sprintf("t%d", r.class%8)
		if r.bar > 0 {
			s.rect(fill, x.at(x.lo), mid-5, x.at(r.bar), mid+5)
		}
		if r.thin != nil {
			s.line("whisker", point{x.at(r.thin[0]), mid + 4}, point{x.at(r.thin[1]), mid + 4})
			s.circle("whisker", x.at(r.thin[0]), mid+4, 3)
		}
		if r.box != nil {
			s.line(edge, point{x.at(r.box[0]), mid}, point{x.at(r.box[1]), mid})
			s.line(edge, point{x.at(r.box[3]), mid}, point{x.at(r.box[4]), mid})
			for _, v := range []float64{r.box[0], r.box[4]} {
				s.line(edge, point{x.at(v), mid - 4}, point{x.at(v), mid + 4})
			}
			s.rect(soft, x.at(r.box[1]), mid-6, max(x.at(r.box[3]), x.at(r.box[1])+1), mid+6)
			s.line(edge, point{x.at(r.box[2]), mid - 7}, point{x.at(r.box[2]), mid + 7})
		}
		for _, v := range r.dots {
			s.circle(fill, x.at(v), mid, 3)
		}
		if r.mark != nil {
			s.line("mark", point{x.at(*r.mark), mid - 8}, point{x.at(*r.mark), mid + 8})
		}
		y += lineHeight
	}
	s.line("axis", point{left, bottom}, point{s.width - right, bottom})
	s.text("label", "middle", s.width/2, s.height-6, c.xLabel)
	return s
}

// words joins parts to a sentence for those who do not see a chart.
func words(parts ...string) string { return strings.Join(parts, "; ") + "." }
