package workload

import (
	"fmt"
	"maps"
	"slices"
)

// NoCopy is the message of a check that received no copies.
const NoCopy = "no copy was audited"

// Judge returns a check of copies. The check fails with NoCopy if there is no copy, and with the message wrong if wrong
// is not empty. Otherwise it passes with the message right.
func Judge(check string, copies []Copy, wrong, right string) Check {
	switch {
	case len(copies) == 0:
		return Check{Name: check, Message: NoCopy}
	case wrong != "":
		return Check{Name: check, Message: wrong}
	}
	return Check{Name: check, Passed: true, Message: right}
}

// SumNames returns the sorted union of the names in a and b.
func SumNames(a, b map[string]int64) []string {
	names := make(map[string]int64, len(a)+len(b))
	maps.Copy(names, a)
	maps.Copy(names, b)
	return slices.Sorted(maps.Keys(names))
}

// CopiesAgree returns a check that passes if every copy has the same sums as the first copy. The message names the
// first few differences, ordered by copy and name. The check fails if there is no copy.
func CopiesAgree(copies []Copy) Check {
	var wrong []string
	for i := 1; i < len(copies); i++ {
		first, other := &copies[0], &copies[i]
		for _, name := range SumNames(first.Sums, other.Sums) {
			if a, b := first.Sums[name], other.Sums[name]; a != b {
				wrong = append(wrong, fmt.Sprintf("%s is %d in %s and %d in %s", name, a, first.Name, b, other.Name))
			}
		}
	}
	right := fmt.Sprintf("%d copies have equal sums", len(copies))
	if len(copies) == 1 {
		right = "the only copy has no other to agree with"
	}
	return Judge("copies-agree", copies, FirstOf(wrong), right)
}

// WithinLedger returns a check that passes if, in every copy, the sum called name is initial plus the effects that
// clients know to be committed.
func WithinLedger(check, name string, initial int64, copies []Copy, effect Interval) Check {
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
	return JudgeHeld(check, copies, wrong, expected)
}

// JudgeHeld is Judge for copies whose contents should all equal expected. wrong describes the actual contents of each
// copy that differs. The message contains the first few entries of wrong.
func JudgeHeld(check string, copies []Copy, wrong []string, expected string) Check {
	said := ""
	if len(wrong) > 0 {
		said = firstOf(wrong, ", ") + "; " + expected
	}
	held := fmt.Sprintf("%d of %d copies hold it", len(copies), len(copies))
	if len(copies) == 1 {
		held = "the only copy holds it"
	}
	return Judge(check, copies, said, expected+", and "+held)
}
