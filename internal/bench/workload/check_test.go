package workload

import (
	"fmt"
	"testing"
)

// The message of a check states the number of copies, unless there is only one.
func TestChecksCountCopies(t *testing.T) {
	sums := map[string]int64{"total": 5}
	for name, tc := range map[string]struct {
		copies        []Copy
		agree, within string
	}{
		"one": {[]Copy{{"a", sums}}, "the only copy has no other to agree with", "initial 5 and committed +0 make 5, and the only copy holds it"},
		"two": {[]Copy{{"a", sums}, {"b", sums}}, "2 copies have equal sums", "initial 5 and committed +0 make 5, and 2 of 2 copies hold it"},
	} {
		if got := CopiesAgree(tc.copies); !got.Passed || got.Message != tc.agree {
			t.Errorf("%s: %+v", name, got)
		}
		if got := WithinLedger("total", "total", 5, tc.copies, Interval{}); !got.Passed || got.Message != tc.within {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A copy may have no sums.
func TestCopiesWithoutSums(t *testing.T) {
	none, some := Copy{Name: "a"}, Copy{"b", map[string]int64{"total": 5}}
	for _, copies := range [][]Copy{{none, some}, {some, none}} {
		if got := CopiesAgree(copies); got.Passed {
			t.Errorf("%+v", got)
		}
	}
	if got := CopiesAgree([]Copy{none, none}); !got.Passed {
		t.Errorf("%+v", got)
	}
}

// A check without copies fails.
func TestChecksWithoutCopies(t *testing.T) {
	for _, got := range []Check{CopiesAgree(nil), WithinLedger("total", "total", 5, nil, Interval{})} {
		if got.Passed || got.Message != NoCopy {
			t.Errorf("%+v", got)
		}
	}
}

// Even if a database lost many rows, the message stays readable: it lists only the first differences, ordered by copy
// and name.
func TestChecksSayTheFirstDifferences(t *testing.T) {
	full, empty := map[string]int64{}, map[string]int64{}
	for i := range 20 {
		full[fmt.Sprintf("s%02d", i)] = 1
		empty[fmt.Sprintf("s%02d", i)] = 0
	}
	got := CopiesAgree([]Copy{{"a", full}, {"b", full}, {"c", empty}, {"d", nil}})
	if want := "s00 is 1 in a and 0 in c; s01 is 1 in a and 0 in c; s02 is 1 in a and 0 in c; and at 37 more places"; got.Passed || got.Message != want {
		t.Errorf("copies agree: %+v, want %s", got, want)
	}
	copies := []Copy{{"a", nil}, {"b", nil}, {"c", nil}, {"d", nil}}
	got = WithinLedger("total", "total", 5, copies, Interval{})
	if want := "a holds 0 (-5), b holds 0 (-5), c holds 0 (-5); and at 1 more place; initial 5 and committed +0 make 5"; got.Passed || got.Message != want {
		t.Errorf("ledger: %+v, want %s", got, want)
	}
}
