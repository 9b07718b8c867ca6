package workload

import "math/rand/v2"

// Mix draws one of several kinds, each as often as its share in percent says.
type Mix []int32 // the sums of the shares up to each kind

// NewMix returns the mix of kinds 0, 1, ... with these shares, which are 0 or more and sum to 100.
func NewMix(shares ...int32) Mix {
	m := make(Mix, len(shares))
	sum := int32(0)
	for kind, share := range shares {
		sum += share
		m[kind] = sum
	}
	return m
}

// Draw returns a kind.
func (m Mix) Draw(rng *rand.Rand) int {
	x := rng.Int32N(100)
	kind := 0
	for x >= m[kind] {
		kind++
	}
	return kind
}
