package experiment_test

import (
	"context"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/experiment"
)

// The p99 is known only to be at least 140 ms. A claim has no result if it holds for some values above this bound but
// not for others. It has a result if its answer is the same for all these values.
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

// Of 1,200 transactions, none timed out, and 100 still hung when the window closed. So between 0 and 100 transactions
// timed out.
func TestClaimsOverHungTransactions(t *testing.T) {
	for expression, want := range map[string]string{
		"timeouts('near', 2) < 1.0":                                     "no result",
		"timeouts('near', 2) > 1.0":                                     "no result",
		"timeouts('near', 2) < 9.0":                                     "holds",
		"timeouts('near', 2) > 9.0":                                     "differs",
		"timeoutsIn('a', 'near', 2) < 1.0":                              "no result",
		"timeoutsIn('b', 'near', 2) < 1.0":                              "holds",
		"timeouts('near', 2) <= timeouts('near', 4)":                    "no result",
		"timeouts('near', 2) >= timeouts('near', 4)":                    "no result",
		"timeouts('near', 2) <= 9.0 && tput('near', 2) > 1.0":           "holds",
		"max(timeouts('near')) < 1.0 && false || tput('near', 2) > 1.0": "holds",
	} {
		e := mustRead(t, claimed(t, expression))
		full := invented(e, 1000)
		each(t, e, full, func(d *result.Document) {
			d.Summary.Hung, d.Regions[0].Hung = 100, 100
		})
		if f := judge(t, e, full); f.Answer() != want {
			t.Errorf("%s: %s (%s, measured %q), want %s", expression, f.Answer(), f.Error, f.Measured, want)
		}
	}
}

// Transactions that still hung when the window closed may have aborted later, so between 110 and 210 of 1,200 aborted.
// A share has no value if no transaction ended.
func TestClaimsOverAborts(t *testing.T) {
	for expression, want := range map[string]string{
		"aborts('near', 2) < 10.0":            "no result",
		"aborts('near', 2) > 9.0":             "holds",
		"aborts('near', 2) < 18.0":            "holds",
		"abortsIn('a', 'near', 2) > 50.0":     "no result",
		"timeoutsIn('a', 'near', 2) > 50.0":   "no result",
		"abortsIn('a', 'near', 2) < 50.0":     "no result",
		"attemptAbortsIn('a', 'near', 2) > 1": "no result",
	} {
		e := mustRead(t, claimed(t, expression))
		full := invented(e, 1000)
		each(t, e, full, func(d *result.Document) {
			d.Summary.Counts = result.Counts{Committed: 990, Aborted: 110}
			d.Summary.Hung = 100
			d.Regions[0].Counts, d.Regions[0].Attempts, d.Regions[0].Hung = result.Counts{}, result.Attempts{}, 0
		})
		if f := judge(t, e, full); f.Answer() != want {
			t.Errorf("%s: %s (%s, measured %q), want %s", expression, f.Answer(), f.Error, f.Measured, want)
		}
	}
}

// If the latencies of two of five repetitions are lower bounds, the median of all five is between 100 and 120 ms. A p99
// requires at least 100 transactions.
func TestClaimsOverRepetitions(t *testing.T) {
	for expression, want := range map[string]string{
		"p99('near', 2) > 99.0":  "holds",
		"p99('near', 2) > 110.0": "no result",
		"p99('near', 2) < 121.0": "holds",
		"p50('near', 2) < 60.0":  "holds",
		"p95('near', 2) < 60.0":  "holds",
		"p99('far', 2) > 0.0":    "no result",
		"p95('far', 2) > 0.0":    "holds",
	} {
		e := mustRead(t, strings.Replace(claimed(t, expression), "  sweep:", "  repetitions: 5\n  sweep:", 1))
		full, n := invented(e, 1000), 0
		each(t, e, full, func(d *result.Document) {
			p99 := []v1alpha1.Quantile{v1alpha1.Observed(100_000), v1alpha1.MoreThan(50_000),
				v1alpha1.Observed(110_000), v1alpha1.MoreThan(50_000), v1alpha1.Observed(120_000)}
			d.Summary.LatencyMicroseconds.P99 = p99[n%5]
			d.Summary.LatencyMicroseconds.P50, d.Summary.LatencyMicroseconds.P95 = v1alpha1.Observed(50_000),
				v1alpha1.Observed(50_000)
			if n >= 10 { // the results of the database far
				d.Summary.Counts = result.Counts{Committed: 99}
			}
			n++
		})
		if f := judge(t, e, full); f.Answer() != want {
			t.Errorf("%s: %s (%s, measured %q), want %s", expression, f.Answer(), f.Error, f.Measured, want)
		}
	}
}

// Reports show the share of timeouts as a lower bound if some transactions hung, and as infinite if no transaction
// ended or hung.
func TestHungTransactionsInReports(t *testing.T) {
	e := mustRead(t, small)
	r, n := invented(e, 1000), 0
	each(t, e, r, func(d *result.Document) {
		switch n++; n {
		case 1:
			d.Summary.Timeouts, d.Summary.Unknown, d.Summary.Hung = 10, 10, 100
		case 2:
			d.Summary.Timeouts, d.Summary.Unknown = 10, 10
		case 3:
			d.Summary.Counts = result.Counts{}
		}
	})
	points := experiment.NewReport(context.Background(), []*experiment.Experiment{e}, r).Experiments[0].Points
	for i, want := range []string{"> 0.8264", "0.9009", "infinite", "0"} {
		if got := points[i].Shown("timeouts"); got != want {
			t.Errorf("point %d shows %s, want %s", i, got, want)
		}
	}
}
