package workload

import (
	"math"
	"reflect"
	"testing"
)

func TestFindings(t *testing.T) {
	sums := map[string]int64{"rows": 5, FindingName("9", "", 10, 4): 1, FindingName("9", "", 9, 4): -2, FindingName("9", "first", 9, 4): 7,
		FindingName("10", "", 9): 3, FindingName("11", "", 9): 0, FindingName("bids", "highest", math.MaxUint64, 0): 1}
	want := map[string][]Finding{
		"9":    {{[]uint64{9, 4}, map[string]int64{"": -2, "first": 7}}, {[]uint64{10, 4}, map[string]int64{"": 1}}},
		"10":   {{[]uint64{9}, map[string]int64{"": 3}}},
		"bids": {{[]uint64{math.MaxUint64, 0}, map[string]int64{"highest": 1}}},
	}
	for _, rule := range []string{"9", "10", "11", "bids", "rows"} {
		if got := findings(sums, rule); !reflect.DeepEqual(got, want[rule]) {
			t.Errorf("%s: %+v, want %+v", rule, got, want[rule])
		}
	}
	if got := FindingName("9", "", 1, 4); got != "9/1/4/" {
		t.Error(got)
	}
}

func TestNoFindings(t *testing.T) {
	says := func(f Finding) (string, string) { return "item " + string(rune('0'+f.Place[0])), "it is wrong" }
	wrong := map[string]int64{}
	for i := range uint64(5) {
		wrong[FindingName("r", "", i)] = 1
	}
	for name, c := range map[string]struct {
		copies []Copy
		want   Check
	}{
		"no copy": {nil, Check{Name: "c", Passed: false, Message: NoCopy}},
		"right":   {[]Copy{{"a", nil}, {"b", map[string]int64{"other/1/": 1}}}, Check{Name: "c", Passed: true, Message: "all is well in 2 of 2 copies"}},
		"a copy":  {[]Copy{{"a", nil}, {"b", map[string]int64{"r/1/": 1}}}, Check{Name: "c", Passed: false, Message: "item 1 in b: it is wrong"}},
		"many": {[]Copy{{"a", wrong}}, Check{
			Name: "c", Message: "item 0 in a: it is wrong; item 1 in a: it is wrong; item 2 in a: it is wrong; and at 2 more places",
		}},
	} {
		if got := NoFindings("c", "r", c.copies, says, "all is well"); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// An imbalance is summed over shards, and identifies a row if only this row is wrong.
func TestImbalance(t *testing.T) {
	for name, c := range map[string]struct {
		off   [][2]int64 // number and difference
		alone int64      // or -1
		found bool
	}{
		"nothing":           {nil, -1, false},
		"two that make up":  {[][2]int64{{7, 5}, {7, -5}}, -1, false},
		"one":               {[][2]int64{{7, 5}}, 7, true},
		"number 0":          {[][2]int64{{0, 5}}, 0, true},
		"one, in parts":     {[][2]int64{{7, 5}, {7, -8}, {3, 2}, {3, -2}}, 7, true},
		"two":               {[][2]int64{{7, 5}, {9, 5}}, -1, true}, // the first two sums equal the sums of number 8 alone
		"two that sum to 0": {[][2]int64{{7, 5}, {9, -5}}, -1, true},
		"three, byNumber 0": {[][2]int64{{1, 1}, {2, -2}, {3, 1}}, -1, true},
	} {
		sums := map[string]int64{}
		for _, o := range c.off { // each in a different shard
			var b Imbalance
			b.Add(uint64(o[0]), o[1])
			b.Each(func(what string, v int64) { sums[FindingName("r", what, 1)] += v })
		}
		found := findings(sums, "r")
		if len(found) > 0 != c.found {
			t.Errorf("%s: found %+v", name, found)
		}
		for _, f := range found {
			if n, alone := f.OffAlone(); alone != (c.alone >= 0) || alone && n != uint64(c.alone) {
				t.Errorf("%s: row %d, alone: %v", name, n, alone)
			}
		}
	}
}
