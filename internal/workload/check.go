package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// NoCopy is the message of a check that has nothing to look at.
const NoCopy = "no copy was audited"

// CopiesAgree checks that every copy has the same sums. Without any it fails.
func CopiesAgree(copies []Copy) Check {
	c := Check{Name: "copies-agree", Passed: len(copies) > 0}
	for i := 1; i < len(copies); i++ {
		first, other := &copies[0], &copies[i]
		names := maps.Clone(first.Sums)
		maps.Copy(names, other.Sums)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if a, b := first.Sums[name], other.Sums[name]; a != b {
				c.Passed = false
				c.Message += fmt.Sprintf("%s is %d in %s and %d in %s; ", name, a, first.Name, b, other.Name)
			}
		}
	}
	c.Message = strings.TrimSuffix(c.Message, "; ")
	switch {
	case len(copies) == 0:
		c.Message = NoCopy
	case c.Passed && len(copies) == 1:
		c.Message = "the only copy has no other to agree with"
	case c.Passed:
		c.Message = fmt.Sprintf("%d copies have equal sums", len(copies))
	}
	return c
}

// WithinLedger checks, in every copy, that the sum called name has moved from initial by what the clients know to have been
// committed.
func WithinLedger(check, name string, initial int64, copies []Copy, effect Interval) Check {
	c := Check{Name: check, Passed: len(copies) > 0}
	low, high := initial+effect.Low, initial+effect.High
	expected := fmt.Sprintf("initial %d and committed %+d make %d", initial, effect.Low, low)
	if low != high {
		expected = fmt.Sprintf("initial %d and committed between %+d and %+d (some outcomes are unknown) make %d to %d",
			initial, effect.Low, effect.High, low, high)
	}
	var wrong []string
	for i := range copies {
		if got := copies[i].Sums[name]; got < low || got > high {
			off := got - high
			if got < low {
				off = got - low
			}
			wrong = append(wrong, fmt.Sprintf("%s holds %d (%+d)", copies[i].Name, got, off))
		}
	}
	switch {
	case len(copies) == 0:
		c.Message = NoCopy
	case len(wrong) > 0:
		c.Passed = false
		c.Message = strings.Join(wrong, ", ") + "; " + expected
	default:
		c.Message = expected + ", and " + Held(copies)
	}
	return c
}

// Held says that all copies hold what a check looks for.
func Held(copies []Copy) string {
	if len(copies) == 1 {
		return "the only copy holds it"
	}
	return fmt.Sprintf("%d of %d copies hold it", len(copies), len(copies))
}
