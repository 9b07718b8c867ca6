package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// CopiesAgree checks that every region's copy has the same sums.
func CopiesAgree(regions []string, copies []map[string]int64) Check {
	c := Check{Name: "copies-agree", Passed: true}
	for i := 1; i < len(copies); i++ {
		names := slices.Sorted(maps.Keys(copies[0]))
		for name := range copies[i] {
			if _, ok := copies[0][name]; !ok {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			if a, b := copies[0][name], copies[i][name]; a != b {
				c.Passed = false
				c.Message += fmt.Sprintf("%s is %d in %s and %d in %s; ", name, a, RegionName(regions, 0), b, RegionName(regions, i))
			}
		}
	}
	c.Message = strings.TrimSuffix(c.Message, "; ")
	switch {
	case c.Passed && len(copies) == 1:
		c.Message = "the only copy has no other to agree with"
	case c.Passed:
		c.Message = fmt.Sprintf("%d copies have equal sums", len(copies))
	}
	return c
}

// WithinLedger checks, for the copy of every region, that the sum called name has moved from initial by what the
// clients know to have been committed.
func WithinLedger(check, name string, regions []string, initial int64, copies []map[string]int64, effect Interval) Check {
	c := Check{Name: check, Passed: len(copies) > 0}
	low, high := initial+effect.Low, initial+effect.High
	expected := fmt.Sprintf("initial %d and committed %+d make %d", initial, effect.Low, low)
	if low != high {
		expected = fmt.Sprintf("initial %d and committed between %+d and %+d (some outcomes are unknown) make %d to %d",
			initial, effect.Low, effect.High, low, high)
	}
	var wrong []string
	for i, copied := range copies {
		if got := copied[name]; got < low || got > high {
			off := got - high
			if got < low {
				off = got - low
			}
			wrong = append(wrong, fmt.Sprintf("%s holds %d (%+d)", RegionName(regions, i), got, off))
		}
	}
	switch {
	case len(copies) == 0:
		c.Message = "no copy was audited"
	case len(wrong) > 0:
		c.Passed = false
		c.Message = strings.Join(wrong, ", ") + "; " + expected
	case len(copies) == 1:
		c.Message = expected + ", and the only copy holds it"
	default:
		c.Message = fmt.Sprintf("%s, and %d of %d copies hold it", expected, len(copies), len(copies))
	}
	return c
}

// RegionName names the i-th region, by number when it has no name.
func RegionName(regions []string, i int) string {
	if i < len(regions) {
		return regions[i]
	}
	return fmt.Sprintf("region %d", i)
}
