package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// chiSquare draws from n ranks with theta, and compares the counts with the exact probabilities for the theta in other.
// Ranks with few expected draws are pooled. chiSquare returns how many standard deviations the chi-squared statistic is
// above its mean, by Wilson and Hilferty's approximation.
func chiSquare(theta, other float64, n uint64, draws int, seed uint64) float64 {
	z := NewZipf(theta)
	rng := rand.New(rand.NewPCG(seed, 0))
	got := make([]float64, n+1)
	for range draws {
		got[z.Draw(rng, n)]++
	}
	weight := func(k uint64) float64 { return math.Pow(float64(k), -other) }
	sum := 0.0
	for k := n; k >= 1; k-- {
		sum += weight(k)
	}
	var chi, expected, seen float64
	bins := 0
	for k := uint64(1); k <= n; k++ {
		expected += weight(k) / sum * float64(draws)
		seen += got[k]
		if expected >= 50 || k == n {
			chi += (seen - expected) * (seen - expected) / expected
			bins++
			expected, seen = 0, 0
		}
	}
	free := float64(bins - 1)
	return (math.Cbrt(chi/free) - (1 - 2/(9*free))) / math.Sqrt(2/(9*free))
}

// TestZipfIsExact compares draws with the exact probabilities. It also shows that the comparison would detect a theta
// that is wrong by 0.05.
func TestZipfIsExact(t *testing.T) {
	for _, theta := range []float64{0, 0.5, 0.99, 1, 1.3, 3} {
		for _, n := range []uint64{2, 1000, 200_000} {
			t.Run(fmt.Sprintf("theta %v of %d", theta, n), func(t *testing.T) {
				for seed := range uint64(2) {
					if off := chiSquare(theta, theta, n, 500_000, seed); off > 4 {
						t.Errorf("seed %d: chi-square is %.1f standard deviations too large", seed, off)
					}
				}
				if off := chiSquare(theta, theta+0.05, n, 500_000, 1); off < 5 {
					t.Errorf("draws with theta %v pass for theta %v: %.1f", theta, theta+0.05, off)
				}
			})
		}
	}
}

func TestZipfOfOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, theta := range []float64{0, 0.5, 1, 10} {
		z := NewZipf(theta)
		if k := z.Draw(rng, 1); k != 1 {
			t.Errorf("theta %v: rank %d of 1", theta, k)
		}
	}
}

func BenchmarkZipf(b *testing.B) {
	for _, theta := range []float64{0.5, 0.99, 1, 1.3} {
		b.Run(fmt.Sprint(theta), func(b *testing.B) {
			z := NewZipf(theta)
			rng := rand.New(rand.NewPCG(1, 1))
			for b.Loop() {
				z.Draw(rng, 1_000_000)
			}
		})
	}
}
