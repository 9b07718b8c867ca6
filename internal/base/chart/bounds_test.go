package chart

import (
	"strings"
	"testing"
)

// TestLowerBounds checks that a value that is only a lower bound is drawn as an open dot with an arrow. The legend must
// explain the arrow.
func TestLowerBounds(t *testing.T) {
	lines := func(bound, open bool) string {
		c := &Lines{Title: "t", Series: []Series{{Name: "p99", Points: []Point{{1, 3}, {2, 140}},
			LowerBound: []bool{false, bound}, Open: open, Marks: true}}}
		return c.Draw().SVG("x")
	}
	rows := func(bound bool) string {
		c := &Rows{Title: "t", Rows: []Row{{Name: "a", Box: []float64{1, 2, 3, 4, 140}, LowerBound: bound},
			{Name: "b", Bar: 3}}}
		return c.Draw().SVG("x")
	}
	for name, tc := range map[string]struct{ with, without, says string }{
		"point":     {lines(true, false), lines(false, false), boundName},
		"last":      {lines(false, true), lines(false, false), openName},
		"box":       {rows(true), rows(false), boundName},
		"all bound": {lines(true, true), lines(false, false), boundName},
	} {
		if !strings.Contains(tc.with, tc.says) || strings.Contains(tc.without, tc.says) {
			t.Errorf("%s: the legend says %q in a chart without, or does not in one with", name, tc.says)
		}
		// The arrow adds at least six strokes: dot, stem and head, both in the chart and in the legend.
		if with, without := strings.Count(tc.with, "c-t"), strings.Count(tc.without, "c-t"); with < without+6 {
			t.Errorf("%s: %d strokes with the arrow, %d without", name, with, without)
		}
	}
}
