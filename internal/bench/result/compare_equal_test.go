package result

import (
	"slices"
	"strings"
	"testing"
)

// TestCopiesOfAResultAreOneSample checks that copies of a result count only once.
func TestCopiesOfAResultAreOneSample(t *testing.T) {
	one := func(throughput int64) *Document {
		d := repeated(throughput)
		d.Simulated, d.Seed = true, 1
		return d
	}
	a, b := slices.Repeat([]*Document{one(1000)}, 6), slices.Repeat([]*Document{one(1100)}, 6)
	if c := Compare(a, b, CompareOptions{}); c.Verdict != Undecided || !strings.Contains(strings.Join(c.Warnings, "\n"), "same result") {
		t.Errorf("6 copies of one simulation on each side: %s: %s (%q)", c.Verdict, c.Message, c.Warnings)
	}
}
