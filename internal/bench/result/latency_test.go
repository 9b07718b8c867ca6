package result

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/txn"
)

// tallied returns the latencies of transactions that committed, were in flight, or timed out.
func tallied(committed, waiting, timedOut []int64) (t tally) {
	for _, x := range []struct {
		outcome   string
		latencies []int64
	}{{txn.Committed.String(), committed}, {Unfinished, waiting}, {txn.Unknown.String(), timedOut}} {
		s, h := series(txn.Committed, x.latencies...)
		t.add(x.outcome, &s.Latency, h)
	}
	return t
}

// repeat returns a slice of n times v.
func repeat(v int64, n int) []int64 { return slices.Repeat([]int64{v}, n) }

// TestQuantiles checks that unobserved transactions raise percentiles or turn them into lower bounds.
func TestQuantiles(t *testing.T) {
	value, bound := v1alpha1.Observed, v1alpha1.MoreThan
	for name, c := range map[string]struct {
		of        tally
		p50, p99  v1alpha1.Quantile
		max, mean v1alpha1.Quantile
	}{
		"nothing":              {tally{}, value(0), value(0), value(0), value(0)},
		"all committed":        {tallied(repeat(100, 100), nil, nil), value(100), value(100), value(100), value(100)},
		"one in a hundred":     {tallied(repeat(100, 99), nil, repeat(400, 1)), value(100), value(100), bound(400), bound(103)},
		"two in a hundred":     {tallied(repeat(100, 98), nil, repeat(400, 2)), value(100), bound(400), bound(400), bound(106)},
		"most of them":         {tallied(repeat(100, 40), nil, repeat(400, 60)), bound(400), bound(400), bound(400), bound(280)},
		"refused at once":      {tallied(repeat(100, 40), nil, repeat(1, 60)), bound(100), bound(100), bound(100), bound(100)},
		"none committed":       {tallied(nil, nil, repeat(400, 3)), bound(400), bound(400), bound(400), bound(400)},
		"young at the end":     {tallied(repeat(100, 100), repeat(50, 30), nil), value(100), value(100), value(100), value(100)},
		"old at the end":       {tallied(repeat(100, 100), repeat(9000, 30), nil), value(100), bound(9000), bound(9000), bound(100)},
		"few old, many fast":   {tallied(repeat(100, 10_000), repeat(9000, 10), nil), value(100), value(100), bound(9000), bound(100)},
		"nothing but waiting":  {tallied(nil, repeat(9000, 10), nil), bound(9000), bound(9000), bound(9000), bound(0)},
		"waiting between them": {tallied(append(repeat(100, 50), repeat(300, 50)...), repeat(200, 100), nil), value(300), value(300), value(300), value(200)},
	} {
		l := c.of.latency()
		for what, x := range map[string][2]v1alpha1.Quantile{"p50": {l.P50, c.p50}, "p99": {l.P99, c.p99}, "max": {l.Max, c.max}, "mean": {l.Mean, c.mean}} {
			if x[0] != x[1] {
				t.Errorf("%s: %s is %+v, want %+v", name, what, x[0], x[1])
			}
		}
	}
}

// TestNoPercentileFalls removes random answers and checks that no percentile falls.
func TestNoPercentileFalls(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 41))
	percents := []float64{1, 25, 50, 75, 90, 95, 99, 99.9, 100}
	for range 500 {
		var committed, waiting []int64
		for range 1 + rng.IntN(300) {
			committed = append(committed, 1+int64(rng.ExpFloat64()*1e5))
		}
		for range rng.IntN(50) {
			waiting = append(waiting, 1+int64(rng.ExpFloat64()*1e5))
		}
		before := tallied(committed, waiting, nil)
		was := before.quantiles(percents...)
		gone := 1 + rng.IntN(len(committed))
		rng.Shuffle(len(committed), func(i, j int) { committed[i], committed[j] = committed[j], committed[i] })
		lost, kept := committed[:gone], committed[gone:]
		for what, after := range map[string]tally{
			"timed out early":     tallied(kept, waiting, repeat(1, gone)),
			"timed out late":      tallied(kept, waiting, repeat(1e7, gone)),
			"waiting from then":   tallied(kept, append(slices.Clone(waiting), lost...), nil),
			"waiting for longer":  tallied(kept, append(slices.Clone(waiting), repeat(1e7, gone)...), nil),
			"never sent":          neverSent(tallied(kept, waiting, nil), int64(gone)),
			"longer than it held": clipped(kept, waiting, gone),
		} {
			for i, is := range after.quantiles(percents...) {
				// A lower bound may be below a value that is no longer known.
				least := was[i].Least()
				if what == "timed out early" || what == "never sent" {
					// A value is the upper end of its bucket, a thousandth above the lower end, or the longest known time. If the
					// answer with the longest time is removed, this time is known only if the client waits at least as long.
					least -= least / 1000
				}
				if v, ok := is.Value(); ok && (v < least || was[i].IsBound()) {
					t.Fatalf("%d of %d answers %s: the %v-th percentile was %+v and is %+v", gone, len(committed), what, percents[i], was[i], is)
				}
			}
		}
	}
}

func neverSent(t tally, n int64) tally {
	t.addNever(n, 0)
	return t
}

func clipped(kept, waiting []int64, n int) tally {
	t := tallied(kept, waiting, nil)
	t.add(txn.Committed.String(), &Distribution{Count: int64(n), SumMicroseconds: int64(n) * 2 * HistogramHighest,
		MaxMicroseconds: 2 * HistogramHighest, Clipped: int64(n)}, NewHistogram())
	return t
}

func TestQuantileInJSON(t *testing.T) {
	for text, want := range map[string]v1alpha1.Quantile{"0": {}, "105400": v1alpha1.Observed(105_400), `"> 140000"`: v1alpha1.MoreThan(140_000)} {
		b, err := json.Marshal(want)
		if err == nil { // json.Marshal escapes >
			var s any
			if err = json.Unmarshal(b, &s); err == nil && strings.HasPrefix(text, `"`) && s != strings.Trim(text, `"`) {
				t.Errorf("%+v is written as %s", want, b)
			}
		}
		var got v1alpha1.Quantile
		if err != nil || json.Unmarshal([]byte(text), &got) != nil || got != want {
			t.Errorf("%s is read as %+v, want %+v (%v)", text, got, want, err)
		}
	}
	for _, wrong := range []string{"-1", `"140000"`, `">140000"`, `"> -3"`, `"> 1.5"`, "{}", "1.5", `"> "`} {
		if err := json.Unmarshal([]byte(wrong), new(v1alpha1.Quantile)); err == nil {
			t.Errorf("%s is read", wrong)
		}
	}
}
