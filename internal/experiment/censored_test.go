package experiment_test

import (
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/result"
)

// All that is known of a p99 is that it is longer than 140 ms. What holds for some such values and not for others has no
// result; what holds for all of them does.
func TestClaimsOverLowerBounds(t *testing.T) {
	for expression, want := range map[string]string{
		"p99('near', 2) > 100.0":                          "holds",
		"p99('near', 2) < 100.0":                          "differs",
		"p99('near', 2) > 3600000.0":                      "no result",
		"ratio(p50('near', 2), p99('near', 2)) < 0.00001": "no result",
		"p99('near', 2) == p99('near', 4)":                "no result",
		"falls(p99('near'))":                              "no result",
		"grows(p99('near'))":                              "no result",
		"!grows(ratio(p99('near'), p99('near')))":         "no result",
		"ratio(p99('near', 2), p99('near', 4)) != 1.0":    "no result",
		"max(ci('p99', 'near')) < 1.0":                    "no result",
	} {
		e := mustRead(t, claimed(t, expression))
		full := invented(e, 1000)
		each(t, e, full, func(d *result.Document) {
			d.Summary.LatencyMicroseconds.P99 = v1alpha1.MoreThan(140_000)
		})
		if f := judge(t, e, full); f.Answer() != want {
			t.Errorf("%s: %s (%s, measured %q), want %s", expression, f.Answer(), f.Error, f.Measured, want)
		}
	}
}
