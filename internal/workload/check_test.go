package workload

import "testing"

// Messages of checks say how many copies there are, and do not count to one.
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

// A copy may have no sums at all.
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

// A check that has no copy to look at fails.
func TestChecksWithoutCopies(t *testing.T) {
	for _, got := range []Check{CopiesAgree(nil), WithinLedger("total", "total", 5, nil, Interval{})} {
		if got.Passed || got.Message != NoCopy {
			t.Errorf("%+v", got)
		}
	}
}
