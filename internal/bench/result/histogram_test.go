package result

import (
	"math"
	"math/rand/v2"
	"testing"
)

// latencies returns n random latencies with two modes: one for local transactions, and one for transactions across a
// wide-area link.
func latencies(rng *rand.Rand, n int) (d tally) {
	d.histogram = NewHistogram()
	for range n {
		us := 2000 * math.Exp(0.3*rng.NormFloat64())
		if rng.IntN(4) == 0 {
			us += 100_000 + 3000*rng.ExpFloat64()
		}
		v := int64(us)
		_ = d.histogram.RecordValue(v)
		d.count++
		d.sum += v
		d.max = max(d.max, v)
	}
	return d
}

func (t *tally) distribution() Distribution {
	return Distribution{Count: t.count, SumMicroseconds: t.sum, MaxMicroseconds: t.max, Histogram: EncodeHistogram(t.histogram)}
}

func BenchmarkEncodeHistogram(b *testing.B) {
	d := latencies(rand.New(rand.NewPCG(1, 1)), 100_000)
	for b.Loop() {
		EncodeHistogram(d.histogram)
	}
}

func BenchmarkDecodeHistogram(b *testing.B) {
	d := latencies(rand.New(rand.NewPCG(1, 1)), 100_000)
	s := EncodeHistogram(d.histogram)
	for b.Loop() {
		if _, err := DecodeHistogram(s); err != nil {
			b.Fatal(err)
		}
	}
}
