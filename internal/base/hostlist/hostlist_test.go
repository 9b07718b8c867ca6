package hostlist

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestNamesAreFolded(t *testing.T) {
	for name, tc := range map[string]struct {
		names  string
		folded string
	}{
		"none":                       {"", ""},
		"one":                        {"d-eu-0.d", "d-eu-0.d"},
		"over a power of ten":        {"d-9.d d-10.d d-11.d", "d-[9-11].d"},
		"several runs":               {"d-eu-0.d d-eu-1.d d-us-0.d d-us-1.d", "d-eu-[0-1].d d-us-[0-1].d"},
		"a gap":                      {"d-0 d-1 d-3 d-4", "d-[0-1] d-[3-4]"},
		"numbers elsewhere":          {"d1-eu-2-7.s2:7000 d1-eu-2-8.s2:7000", "d1-eu-2-[7-8].s2:7000"},
		"another suffix":             {"d-0.a d-1.b", "d-0.a d-1.b"},
		"counting down":              {"d-2 d-1 d-0", "d-2 d-1 d-0"},
		"leading zeros":              {"d-08 d-09 d-10", "d-08 d-09 d-10"},
		"the same twice":             {"d-1 d-1", "d-1 d-1"},
		"no numbers":                 {"a b", "a b"},
		"a number too many":          {"d-0-0 d-1-1", "d-0-0 d-1-1"},
		"a name that ends the other": {"d-1 d-", "d-1 d-"},
		"addresses":                  {"10.0.0.1:7000 10.0.0.2:7000 [::1]:7000 [::2]:7000", "10.0.0.[1-2]:7000 [::[1-2]]:7000"},
		"numbers that are too long":  {"d-9999999999 d-10000000000", "d-9999999999 d-10000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			names := Names(strings.Fields(tc.names))
			b, err := json.Marshal(names)
			if err != nil {
				t.Fatal(err)
			}
			var folded []string
			if err := json.Unmarshal(b, &folded); err != nil || strings.Join(folded, " ") != tc.folded {
				t.Errorf("%v, %v; want %s", folded, err, tc.folded)
			}
			var again Names
			if err := json.Unmarshal(b, &again); err != nil || !slices.Equal(again, names) {
				t.Errorf("%v, %v; want what was folded, %v", again, err, names)
			}
		})
	}
}

type pair struct{ a, b, kind string }

func pairNames(p *pair) []*string { return []*string{&p.a, &p.b} }

func TestItemsAreFolded(t *testing.T) {
	var items []pair
	for i := range 12 {
		items = append(items, pair{fmt.Sprintf("d-%d:1", i), fmt.Sprintf("d-%d:2", i), "x"})
	}
	items = append(items, pair{"d-12:1", "d-12:2", "y"}, pair{"d-13:1", "", "y"}, pair{"d-14:1", "", "y"}, pair{"", "", "y"}, pair{"", "", "y"})
	folded := Fold(items, pairNames)
	want := []pair{{"d-[0-11]:1", "d-[0-11]:2", "x"}, {"d-12:1", "d-12:2", "y"}, {"d-[13-14]:1", "", "y"}, {"", "", "y"}, {"", "", "y"}}
	if !slices.Equal(folded, want) {
		t.Errorf("%v\nwant %v", folded, want)
	}
	if again, err := Unfold(folded, pairNames); err != nil || !slices.Equal(again, items) {
		t.Errorf("%v, %v\nwant what was folded, %v", again, err, items)
	}
}

// TestWrongExpressionsAreRefused checks that invalid expressions are rejected, and that a crafted expression cannot
// exhaust the reader's memory.
func TestWrongExpressionsAreRefused(t *testing.T) {
	half := fmt.Sprintf("d-[1-%d]", Most/2)
	for name, tc := range map[string]struct {
		items []pair
		says  string
	}{
		"too long":         {[]pair{{a: "d-[0-999999999]"}}, `"d-[0-999999999]" stands for 1000000000 names, more than 16384`},
		"too many":         {[]pair{{a: half}, {a: half}, {a: "d"}}, "16385 names are more than 16384"},
		"backwards":        {[]pair{{a: "d-[7-3]"}}, `"d-[7-3]": 3 is not more than 7; a range ends after it begins`},
		"of other lengths": {[]pair{{a: "d-[0-3]", b: "d-[0-4]"}}, `"d-[0-4]" stands for 5 names, and another name beside it for 4: they must be as many`},
	} {
		if out, err := Unfold(tc.items, pairNames); err == nil || err.Error() != tc.says {
			t.Errorf("%s: %d items, %v; want %s", name, len(out), err, tc.says)
		}
	}
	if out, err := Unfold([]pair{{a: half}, {a: half}}, pairNames); err != nil || len(out) != Most {
		t.Errorf("%d items, %v; want %d", len(out), err, Most)
	}
}
