package sunstorm

import (
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// Each case compares the pages of two keys, with four keys per page.
func TestPageOf(t *testing.T) {
	p := geo.Placement{Regions: 3, Partitions: 2}
	order := func(shard, n byte) txn.Key { return txn.OrderedKey(2, uint64(shard), []byte{7}, []byte{0, 0, n}) }
	composite := func(shard, n byte) txn.Key { return txn.CompositeKey(2, uint64(shard), []byte{n}) }
	for name, tc := range map[string]struct {
		a, b txn.Key
		same bool
	}{
		"rows 1 and 4 of a cell":                {txn.IntKey(1, 7), txn.IntKey(1, 19), true},
		"rows 3 and 4 of a cell":                {txn.IntKey(1, 19), txn.IntKey(1, 25), false},
		"the same rows of two tables":           {txn.IntKey(1, 7), txn.IntKey(2, 7), false},
		"rows of a group":                       {order(1, 4), order(1, 7), true},
		"rows of a group, further apart":        {order(1, 7), order(1, 8), false},
		"rows of two groups":                    {order(1, 4), order(2, 4), false},
		"a group and its first row":             {txn.OrderedKey(2, 1, []byte{7}, nil), order(1, 3), true},
		"rows of a shard number":                {composite(1, 4), composite(1, 7), true},
		"rows of a shard number, further apart": {composite(1, 7), composite(1, 8), false},
		"rows of two shard numbers":             {composite(1, 4), composite(7, 4), false},
		"names":                                 {txn.StringKey(1, "Client16"), txn.StringKey(1, "Client17"), true},
		"names, further apart":                  {txn.StringKey(1, "Client17"), txn.StringKey(1, "Client18"), false},
		"long names that differ at their start": {txn.StringKey(1, "a Client17"), txn.StringKey(1, "b Client17"), false},
	} {
		if a, b := pageOf(tc.a, p, 4), pageOf(tc.b, p, 4); (a == b) != tc.same {
			t.Errorf("%s: %v is in %v, and %v in %v", name, tc.a, a, tc.b, b)
		}
	}
}

// Invalid values are refused. The error names the parameter and the values that are allowed.
func TestParametersOfPages(t *testing.T) {
	for _, tc := range []struct {
		given map[string]string
		want  string
	}{
		{map[string]string{"keysPerPage": "-1"}, `keysPerPage: "-1" is not a whole number from 0 to 10000`},
		{map[string]string{"keysPerPage": "many"}, `keysPerPage: "many" is not a whole number from 0 to 10000`},
		{map[string]string{"keysPerPage": "8", "pageUpdates": "some"}, `pageUpdates: "some" is not one of inserts, all`},
		{map[string]string{"pageUpdates": "all"}, `pageUpdates: "all" needs pages: set keysPerPage to 1 or more, or leave pageUpdates out`},
	} {
		if _, errs := Engine.Resolve(tc.given); len(errs) != 1 || errs[0].Error() != tc.want {
			t.Errorf("%v: %v, want %s", tc.given, errs, tc.want)
		}
	}
	if _, errs := Engine.Resolve(map[string]string{"keysPerPage": "10000", "pageUpdates": "all"}); len(errs) > 0 {
		t.Errorf("refused: %v", errs)
	}
}
