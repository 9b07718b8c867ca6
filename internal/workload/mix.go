package workload

import (
	"fmt"
	"math/rand/v2"
)

// Mix draws one of several kinds, each as often as its share of all shares says.
type Mix []int32 // the sums of the shares up to each kind

// CheckMix checks the shares of a mix, in percent. field, such as spec.workload.tpcc.mix, holds them in the manifest.
func CheckMix(field string, shares ...int32) error { return CheckMixOf(100, field, shares...) }

// CheckMixOf is CheckMix of shares that sum to whole, such as 1000 where they are per mille.
func CheckMixOf(whole int64, field string, shares ...int32) error {
	sum, least := int64(0), int32(0)
	for _, share := range shares {
		sum += int64(share)
		least = min(least, share)
	}
	if least < 0 || sum != whole {
		return fmt.Errorf("%s: the shares sum to %d; they must be 0 or more and sum to %d", field, sum, whole)
	}
	return nil
}

// NewMix returns the mix of kinds 0, 1, ... with these shares, which CheckMix or CheckMixOf finds right.
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
	x := rng.Int32N(m[len(m)-1])
	kind := 0
	for x >= m[kind] {
		kind++
	}
	return kind
}
