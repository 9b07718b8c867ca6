package result_test

import (
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/bench/result"
)

func TestQuartiles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ values, want []float64 }{
		"none":      {nil, nil},
		"one":       {[]float64{3}, []float64{3, 3, 3, 3, 3}},
		"two":       {[]float64{4, 0}, []float64{0, 1, 2, 3, 4}},
		"any order": {[]float64{50, 10, 40, 20, 30}, []float64{10, 20, 30, 40, 50}},
	} {
		given := slices.Clone(tc.values)
		if got := result.Quartiles(given); !slices.Equal(got, tc.want) || !slices.Equal(given, tc.values) {
			t.Errorf("%s: %v, want %v; the values are %v now", name, got, tc.want, given)
		}
	}
}
