package workload

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Mix draws one of several kinds, in proportion to their shares.
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

// PartOf returns which of n equal parts of the measured time contains an instant: 0 before the measured time, and the
// last part after it.
func PartOf(elapsed, measured time.Duration, n int) int {
	if n <= 1 || elapsed < 0 || measured <= 0 {
		return 0
	}
	return min(n-1, int(float64(elapsed)/float64(measured)*float64(n)))
}

// Mixes are consecutive mixes of the same kinds in equal parts of the measured time; a single mix never changes.
type Mixes struct {
	Of       [][]int32 // shares of kinds, in percent
	measured time.Duration
	draw     []Mix
}

// NewMixes returns these mixes over the measured time.
func NewMixes(measured time.Duration, of ...[]int32) *Mixes {
	m := &Mixes{Of: of, measured: measured}
	for _, shares := range of {
		m.draw = append(m.draw, NewMix(shares...))
	}
	return m
}

// CheckMixes checks the shares of mixes, in percent. Errors name field, such as spec.workload.smallbank.mixPhases, and
// the place there.
func CheckMixes(field string, of ...[]int32) error {
	for i, shares := range of {
		if err := CheckMix(fmt.Sprintf("%s[%d]", field, i), shares...); err != nil {
			return err
		}
	}
	return nil
}

// MixShares is the part of Shares for a workload with such mixes; Mixes.Draw makes the counts.
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

// Draw returns a kind at an instant. It counts the kind in counts, the counts of MixShares, unless the instant is
// before measuring or counts is nil.
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

// Draw returns a kind.
func (m Mix) Draw(rng *rand.Rand) int {
	x := rng.Int32N(m[len(m)-1])
	kind := 0
	for x >= m[kind] {
		kind++
	}
	return kind
}
