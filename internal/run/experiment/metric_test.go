package experiment

import (
	"math"
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
