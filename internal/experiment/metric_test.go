package experiment

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestRepetitions(t *testing.T) {
	tests := map[string]struct {
		values            []float64
		median, halfWidth float64
	}{
		"one":   {[]float64{7}, 7, 0},
		"two":   {[]float64{1, 3}, 2, 12.7062},                  // t(1) = 12.7062, s/sqrt(n) = 1
		"five":  {[]float64{5, 1, 4, 2, 3}, 3, 2.7764 * 0.7071}, // t(4) = 2.7764, s = 1.5811
		"equal": {[]float64{2, 2, 2}, 2, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := summarise(tc.values)
			if got.Median != tc.median || math.Abs(got.HalfWidth-tc.halfWidth) > 0.001 {
				t.Errorf("%+v, want median %v, half-width %v", got, tc.median, tc.halfWidth)
			}
		})
	}
	if got := summarise([]float64{1, 2, math.Inf(1)}); got.Median != 2 || got.HalfWidth != 0 {
		t.Errorf("%+v of a repetition that committed nothing", got)
	}
}

// An expression with loops within loops ends soon, on every machine after the same number of steps.
func TestEndlessClaims(t *testing.T) {
	loops := func(body string, deep int) string {
		for i := range deep {
			body = fmt.Sprintf("[%s].all(x%d, %s)", strings.TrimSuffix(strings.Repeat("1,", 100), ","), i, body)
		}
		return body
	}
	b := &board{Experiment: &Experiment{Points: make([]*Point, 1000)}, results: NewResults("here")}
	for name, tc := range map[string]struct {
		expression string
		refused    bool
	}{
		"a loop":               {loops("1 == 1", 1), false},
		"a loop in a loop":     {loops("1 == 1", 2), false},
		"four deep":            {loops("1 == 1", 4), true},
		"a list that doubles":  {"max([[1.0]]" + strings.Repeat(".map(x, x + x)", 23) + "[0]) == 1.0", true},
		"two deep, of figures": {loops("max([1.0]) == 1.0", 2), true},
	} {
		_, _, err := b.evaluate(tc.expression)
		if refused := err != nil && strings.Contains(err.Error(), "cost limit exceeded"); refused != tc.refused || err != nil && !refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
