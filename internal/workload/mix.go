package workload

import (
	"fmt"
	"math/rand/v2"
)

// Mix draws one of several kinds, each as often as its share in percent says.
type Mix []int32 // the sums of the shares up to each kind

// CheckMix checks the shares of a mix. field, such as spec.workload.tpcc.mix, holds them in the manifest.
func CheckMix(field string, shares ...int32) error {
	sum, least := int64(0), int32(0)
	for _, share := range shares {
		sum += int64(share)
		least = min(least, share)
	}
	if least < 0 || sum != 100 {
		return fmt.Errorf("%s: the shares sum to %d; they must be 0 or more and sum to 100", field, sum)
	}
	return nil
}

// NewMix returns the mix of kinds 0, 1, ... with these shares, which CheckMix finds right.
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
