package result

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/geobench/geobench/internal/bench/workload"
)

// drawn returns a document with realised shares of n requests each, drawn with the probabilities in actual, and with
// the configured shares in asked.
func drawn(r *rand.Rand, n int64, asked, actual []float64) *Document {
	d := &Document{}
	for i, p := range actual {
		s, hits := workload.Share{Name: "x", Of: "transactions", ConfiguredPPM: int64(asked[i] * 1e6)}, int64(0)
		for range n {
			if r.Float64() < p {
				hits++
			}
		}
		d.Summary.Realised.Shares = append(d.Summary.Realised.Shares,
			Share{Name: s.Name, Of: s.Of, Count: n, RealisedPPM: ratio(n, 1, hits, 1e6),
				ConfiguredPPM: s.ConfiguredPPM})
	}
	return d
}

// TestHonestSharesPass simulates 3,000 runs with few and with many requests, each with 24 small and large shares. None
// of the shares may be reported as a mismatch.
func TestHonestSharesPass(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 26))
	var asked []float64
	for range 4 {
		asked = append(asked, 0.001, 0.01, 0.04, 0.2, 0.5, 0.99)
	}
	for run := range 3000 {
		n := []int64{5, 17, 40, 100, 250, 600}[run%6]
		if found := shareMismatch(drawn(r, n, asked, asked), nil, nil); len(found) > 0 {
			t.Errorf("run %d of %d requests: %v", run, n, found)
		}
	}
}

// TestSharesThatAreOffAreNamed checks that a share is reported if requests are drawn with a probability other than the
// configured one.
func TestSharesThatAreOffAreNamed(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 26))
	for _, c := range []struct {
		n             int64
		asked, actual float64
	}{
		{30, 0, 0.95}, {30, 1, 0.3}, {100, 0.01, 0.25}, {100, 0.5, 0.05}, {1000, 0.2, 0.35}, {4000, 0.29,
			0.22}, {20_000, 0.01, 0.03}, {100_000, 0.5, 0.52},
		{100, 0, 0.3}, {1000, 1, 0.95},
	} {
		asked, actual := []float64{c.asked, 0.2, 0.5}, []float64{c.actual, 0.2, 0.5}
		for range 100 {
			if found := shareMismatch(drawn(r, c.n, asked, actual), nil, nil); len(found) != 1 {
				t.Errorf("%d requests with a share of %v where %v was asked for: %v", c.n, c.actual, c.asked, found)
				break
			}
		}
	}
}

// TestChanceRange checks that the exact binomial tails beyond the range are improbable, and that the range is not much
// wider than necessary.
func TestChanceRange(t *testing.T) {
	for _, n := range []int64{1, 10, 60, 300} {
		for _, p := range []float64{0, 0.002, 0.05, 0.3, 0.5, 0.97, 1} {
			low, high := chanceRange(float64(n), p, 10)
			outside, probability := 0.0, math.Pow(1-p, float64(n)) // probability of no hit
			for hits := range n + 1 {
				if x := float64(hits); x < low || x > high {
					outside += probability
				}
				if p < 1 {
					probability *= float64(n-hits) / float64(hits+1) * p / (1 - p)
				} else if probability = 0; hits+1 == n {
					probability = 1
				}
			}
			if outside > falseAlarmRate/10 {
				t.Errorf("%d trials of %v: outside of %.1f to %.1f with probability %g", n, p, low, high, outside)
			}
			// For a normal distribution, the range would be 5.6 standard deviations; rare hits need about ln(2e7) more.
			if mean := float64(n) * p; high > mean+5.6*1.5*math.Sqrt(mean*(1-p))+17 || low > mean || high < mean {
				t.Errorf("%d trials of %v: %.1f to %.1f", n, p, low, high)
			}
		}
	}
}
