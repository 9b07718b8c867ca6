package workload

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Mix draws one of several kinds with probabilities in proportion to their shares.
type Mix []int32 // cumulative shares, by kind

// CheckMix checks that the shares of a mix, in percent, are not negative and sum to 100. The argument field is the path
// of the mix in the manifest, such as spec.workload.tpcc.mix.
func CheckMix(field string, shares ...int32) error { return CheckMixOf(100, field, shares...) }

// CheckMixOf is CheckMix for shares that sum to whole, such as 1000 for shares per mille.
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

// NewMix returns the mix of kinds 0, 1, ... with these shares. The shares must have passed CheckMix or CheckMixOf.
func NewMix(shares ...int32) Mix {
	m := make(Mix, len(shares))
	sum := int32(0)
	for kind, share := range shares {
		sum += share
		m[kind] = sum
	}
	return m
}

// PartOf returns the index of the part that contains the instant elapsed, if the measured time is divided into n equal
// parts. It returns 0 before the measured time and n-1 after it.
func PartOf(elapsed, measured time.Duration, n int) int {
	if n <= 1 || elapsed < 0 || measured <= 0 {
		return 0
	}
	return min(n-1, int(float64(elapsed)/float64(measured)*float64(n)))
}

// Mixes is a sequence of mixes of the same kinds. Each mix applies to an equal part of the measured time.
type Mixes struct {
	Of       [][]int32 // shares of the kinds in each mix, in percent
	measured time.Duration
	draw     []Mix
}

// NewMixes returns a Mixes with the given shares over the measured time.
func NewMixes(measured time.Duration, of ...[]int32) *Mixes {
	m := &Mixes{Of: of, measured: measured}
	for _, shares := range of {
		m.draw = append(m.draw, NewMix(shares...))
	}
	return m
}

// CheckMixes checks the shares of each mix like CheckMix. Errors name the mix by field and index, such as
// spec.workload.smallbank.mixPhases[1].
func CheckMixes(field string, of ...[]int32) error {
	for i, shares := range of {
		if err := CheckMix(fmt.Sprintf("%s[%d]", field, i), shares...); err != nil {
			return err
		}
	}
	return nil
}

// MixShares returns the entries of Workload.Shares for a workload with these mixes. Mixes.Draw updates their counts.
func MixShares(names []string, of ...[]int32) (out []Share) {
	for i, shares := range of {
		all := "transactions"
		if len(of) > 1 {
			all = fmt.Sprintf("transactions of mix %d", i+1)
		}
		for kind, percent := range shares {
			out = append(out, Percent(names[kind], all, percent))
		}
	}
	return out
}

// Draw returns a kind for the instant elapsed, and counts the kind in counts, which has the layout of MixShares. It
// counts nothing if elapsed is before the measured time or if counts is nil.
func (m *Mixes) Draw(rng *rand.Rand, elapsed time.Duration, counts []Count) int {
	part := PartOf(elapsed, m.measured, len(m.Of))
	kind := m.draw[part].Draw(rng)
	if elapsed >= 0 && counts != nil {
		kinds := len(m.Of[0])
		for i := range kinds {
			counts[part*kinds+i].Add(i == kind)
		}
	}
	return kind
}

// Draw returns a random kind.
func (m Mix) Draw(rng *rand.Rand) int {
	x := rng.Int32N(m[len(m)-1])
	kind := 0
	// A kind with share 0 has the same cumulative share as its predecessor, so the loop never stops there.
	for x >= m[kind] {
		kind++
	}
	return kind
}
