package chart

import (
	"bytes"
	"image/png"
	"math"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/chart/charttest"
)

func TestAxes(t *testing.T) {
	for top, want := range map[float64]float64{0: 1, 7: 8, 18_970: 20_000, 100: 100, 0.03: 0.03, 949: 1000} {
		if a, at := linear(top, 5); math.Abs(a.hi-want) > 1e-9*want || len(at) < 2 || len(at) > 7 {
			t.Errorf("an axis up to %v ends at %v with %d ticks, want %v", top, a.hi, len(at), want)
		}
	}
	for ends, want := range map[[2]float64][2]float64{{3, 110}: {2, 200}, {1, 1}: {0.5, 2}, {0.4, 60_000}: {0.2, 100_000}} {
		if a, at := logarithmic(ends[0], ends[1]); math.Abs(a.lo-want[0]) > 1e-9 || math.Abs(a.hi-want[1]) > 1e-9*want[1] || len(at) < 2 {
			t.Errorf("%v: an axis from %v to %v with ticks %v, want %v", ends, a.lo, a.hi, at, want)
		}
	}
}

func TestAxisAroundZero(t *testing.T) {
	for _, tc := range []struct{ bottom, top, lo, hi, ticks float64 }{{-70, 1690, -500, 2000, 6}, {-12, 5, -15, 5, 5}, {-40, 0, -40, 0, 5}, {0, 0, 0, 0.5, 2}} {
		a, at := around(tc.bottom, tc.top)
		if a.lo != tc.lo || a.hi != tc.hi || float64(len(at)) != tc.ticks || at[0] != a.lo || at[len(at)-1] != a.hi {
			t.Errorf("from %v to %v: an axis from %v to %v with ticks at %v, want %v to %v with %v ticks", tc.bottom, tc.top, a.lo, a.hi, at, tc.lo, tc.hi, tc.ticks)
		}
	}
}

// TestContrast requires a contrast of 4.5:1 for text and 3:1 for all other meaningful elements (WCAG 2.2, 1.4.3 and
// 1.4.11).
func TestContrast(t *testing.T) {
	for name, s := range styles {
		least := 3.0
		if s.size > 0 {
			least = 4.5
		}
		if name == "grid" || s.opacity > 0 {
			continue // decoration: values are at the ticks, and bands and boxes have edges
		}
		for ground, colour := range map[string]string{"#ffffff": s.light, "#14181f": s.dark} {
			if c := charttest.Contrast(t, ground, colour); c < least {
				t.Errorf("%s: %s on %s has a contrast of %.1f, less than %v", name, colour, ground, c, least)
			}
		}
	}
}

// busy returns a chart that uses every feature of a line chart.
func busy() *Lines {
	c := &Lines{
		Title: "busy: throughput", About: "Lines.", Heading: true, XLabel: "clients", YLabel: "transactions/s", Width: 600, Height: 280,
		Bands: []Band{{1, 2, "cut"}, {2.5, 9, "kill"}}, Divides: []float64{3},
	}
	for i := range 20 {
		c.Series = append(c.Series, Series{
			Name: strings.Repeat("a line with a long name ", 1+i%3), Class: i, Marks: i%2 == 0,
			Points: []Point{{1, float64(10 + i)}, {2, float64(20 - i)}, {4, 15}}, Half: []float64{1, 0, 30},
		})
	}
	return c
}

func TestDrawings(t *testing.T) {
	labels := map[float64]string{0.001: "1ms", 0.01: "10ms", 10: "10s"}
	for name, c := range map[string]*Lines{
		"busy": busy(),
		"lower bounds": {Title: "lower bounds", About: "Lower bounds.", LogY: true, Series: []Series{
			{Name: "one", Points: []Point{{1, 3}, {2, 140}}, LowerBound: []bool{false, true},
				Marks: true}, {Name: "two", Points: []Point{{1, 3}, {2, 9}}, Open: true}}},
		"nothing":                 {Title: "nothing", About: "Nothing."},
		"a point":                 {Title: "a point", About: "A point.", Series: []Series{{Name: "one", Points: []Point{{7, 3}}}}},
		"words":                   {Title: "words", About: "Words.", XTicks: map[float64]string{0: "leader", 1: "epochs"}, Series: []Series{{Points: []Point{{0, 1}, {1, 2}}}}},
		"durations apart by much": {Title: "durations", About: "Durations.", LogX: true, XTicks: labels, Series: []Series{{Points: []Point{{0.001, 1}, {0.01, 2}, {10, 3}}}}},
		"logarithmic":             {Title: "logarithmic", About: "Both.", LogX: true, LogY: true, Series: []Series{{Points: []Point{{1, 1}, {1000, 100_000}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			drawing := c.Draw()
			charttest.Inside(t, name, drawing.File("id"))
			first, err := drawing.PNG()
			if err != nil {
				t.Fatal(err)
			}
			second, err := c.Draw().PNG()
			if err != nil || !bytes.Equal(first, second) || drawing.File("id") != c.Draw().File("id") {
				t.Errorf("the same chart gave other bytes, %v", err)
			}
			picture, err := png.Decode(bytes.NewReader(first))
			if err != nil {
				t.Fatal(err)
			}
			if got := float64(picture.Bounds().Dx()); got != pngScale*drawing.width {
				t.Errorf("%v dots wide, want %v", got, pngScale*drawing.width)
			}
		})
	}
	if svg := (&Lines{LogX: true, XTicks: labels, Series: []Series{{Points: []Point{{0.001, 1}, {10, 3}}}}}).Draw().File("id"); !strings.Contains(svg, ">10ms<") {
		t.Errorf("on a logarithmic axis 10ms has room between 1ms and 10s:\n%s", svg)
	}
}

// TestLinesDiffer checks that up to 64 lines are distinguishable, and that a line that consists of several parts has a
// single legend entry.
func TestLinesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for colour := range 8 {
		for nth := range 8 {
			l := &Series{Class: Class(colour, nth)}
			looks := class("s", l.Class) + spaced(dashes[l.dash()])
			if seen[looks] {
				t.Errorf("colour %d, line %d looks as another one: %s", colour, nth, looks)
			}
			seen[looks] = true
		}
	}
	svg := (&Lines{Series: []Series{{Name: "eu", Points: []Point{{1, 1}, {2, 1}}}, {Points: []Point{{3, 1}, {4, 1}}}}}).Draw().SVG("id")
	if n := strings.Count(svg, `class="c-s0"`); n != 3 {
		t.Errorf("%d strokes of the one line, want its two parts and one in the legend:\n%s", n, svg)
	}
}

func TestScale(t *testing.T) {
	for name, tc := range map[string]struct {
		points     []Point
		logX, logY bool
		xLabel     string
	}{
		"none":     {},
		"near":     {points: []Point{{1, 1}, {99, 29}}},
		"far":      {points: []Point{{1, 1}, {100, 30}}, logX: true, logY: true, xLabel: "x (logarithmic)"},
		"from 0":   {points: []Point{{0, 0}, {100, 30}}},
		"one axis": {points: []Point{{1, 1}, {2, 1000}}, logY: true},
	} {
		c := &Lines{XLabel: "x", Series: []Series{{}, {Points: tc.points}}}
		c.Scale()
		if want := tc.xLabel; c.LogX != tc.logX || c.LogY != tc.logY || want != "" && c.XLabel != want {
			t.Errorf("%s: logX %t, logY %t, x is called %s", name, c.LogX, c.LogY, c.XLabel)
		}
	}
}

func TestStrokesOfDashes(t *testing.T) {
	line := []place{{0, 0}, {5, 0}, {5, 10}}
	if parts := dashed(line, nil); len(parts) != 1 || len(parts[0]) != 3 {
		t.Errorf("a line without dashes is %v", parts)
	}
	covered := 0.0
	parts := dashed(line, []float64{4, 2})
	for _, part := range parts {
		for i := 1; i < len(part); i++ {
			covered += math.Hypot(part[i].x-part[i-1].x, part[i].y-part[i-1].y)
		}
	}
	// A line of length 15 has strokes at 0 to 4, 6 to 10 and 12 to 15.
	if len(parts) != 3 || math.Abs(covered-11) > 1e-9 {
		t.Errorf("%d strokes of %v in all, want 3 of 11: %v", len(parts), covered, parts)
	}
}

// TestClassesDiffer checks that sixteen subjects are distinguishable by colour and dashes.
func TestClassesDiffer(t *testing.T) {
	seen := map[[2]int]int{}
	for thing := range 2 * len(seriesColours) {
		l := Series{Class: Class(thing, 0)}
		look := [2]int{l.Class % len(seriesColours), l.dash()}
		if other, taken := seen[look]; taken {
			t.Errorf("%d looks like %d", thing, other)
		}
		seen[look] = thing
	}
}
