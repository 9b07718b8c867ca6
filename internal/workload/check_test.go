package workload

import "testing"

// Messages of checks say how many copies there are, and do not count to one.
func TestChecksCountCopies(t *testing.T) {
	sums := map[string]int64{"total": 5}
	regions := []string{"a", "b"}
	for name, tc := range map[string]struct {
		copies        []map[string]int64
		agree, within string
	}{
		"one": {[]map[string]int64{sums}, "the only copy has no other to agree with", "initial 5 and committed +0 make 5, and the only copy holds it"},
		"two": {[]map[string]int64{sums, sums}, "2 copies have equal sums", "initial 5 and committed +0 make 5, and 2 of 2 copies hold it"},
	} {
		if got := CopiesAgree(regions, tc.copies); !got.Passed || got.Message != tc.agree {
			t.Errorf("%s: %+v", name, got)
		}
		if got := WithinLedger("total", "total", regions, 5, tc.copies, Interval{}); !got.Passed || got.Message != tc.within {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
