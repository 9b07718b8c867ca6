package experiment

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// sweptBoard returns the board of an experiment that has one system with this number of points.
func sweptBoard(points int) *board {
	p := Parameter{Path: "spec.load.clientsPerRegion", Name: "clientsPerRegion"}
	e := &Experiment{Name: "e", Systems: []string{"s"}}
	for i := range points {
		p.Values = append(p.Values, intstr.FromInt(i))
		e.Points = append(e.Points, &Point{System: "s", Values: p.Values[i : i+1], Label: fmt.Sprint("s ", i)})
	}
	e.Parameters = []Parameter{p}
	return dryBoard(e)
}

// hostile are expressions that a malicious tenant might write. told is a substring of the expected error; empty if the
// expression is accepted.
var hostile = map[string]struct{ expression, told string }{
	"a text that is replaced":    {"'aaaaaaaaaa'" + strings.Repeat(".replace('a', '"+strings.Repeat("a", 200)+"')", 15) + ".size() > 0", "bytes"},
	"a range without doubles":    {"lists.range(1000).distinct().size() > 0", "no function distinct"},
	"a large range":              {"lists.range(1000000000).size() > 0", "bytes"},
	"a range of negatives":       {"lists.range(-3000 * -1000000).size() > 0", "bytes"},
	"a range as long as figures": {"lists.range(int(tput('s', 1))).size() > 0", "bytes"},
	"a range of a range":         {"lists.range(20000).map(x, lists.range(20000).size()).size() > 0", "steps"},
	"a product of sizes":         {"lists.range(size(lists.range(9999)) * size(lists.range(9999))).size() > 0", "bytes"},
	"sorted":                     {"lists.range(1000).sort().size() > 0", "no function sort"},
	"sorted by":                  {"lists.range(1000).sortBy(x, -x).size() > 0", "no function"},
	"a long format":              {"'%.999999999f'.format([1.0]).size() > 0", "precision"},
	"a regular expression":       {"'aaaa'.matches('((a{1000}){1000}){1000}')", "no function matches"},
	"four loops":                 {"values('clientsPerRegion').all(a, values('clientsPerRegion').all(b, values('clientsPerRegion').all(c, values('clientsPerRegion').all(d, a + b + c + d > 0.0))))", "steps"},
	"loops of figures":           {"values('clientsPerRegion').all(a, values('clientsPerRegion').all(b, max(tput('s')) > 0.0))", "steps"},
	"a list that doubles":        {"[[1.0]]" + strings.Repeat(".map(x, x + x)", 30) + ".size() > 0", "bytes"},
	"a list that holds itself":   {doubled("[1.0]", "[%[1]s, %[1]s]", 60) + ".size() > 0", "bytes"},
	"an empty list that doubles": {doubled("[]", "%[1]s + %[1]s", 60) + " == []", "bytes"},
	"a text that doubles":        {doubled("'a'", "%[1]s + %[1]s", 60) + ".size() > 0", "bytes"},
	"a joined text":              {"[" + strings.TrimSuffix(strings.Repeat("'aaaaaaaa',", 100), ",") + "].join('" + strings.Repeat("a", 1000) + "')" + strings.Repeat(".split('').join('aaaaaaaa')", 12) + ".size() > 0", "bytes"},
	"sets":                       {"sets.contains(lists.range(100000), lists.range(100000))", "steps"},
	"in a list, in a loop":       {"lists.range(30000).all(x, x in lists.range(30000))", "steps"},
	"maps of maps":               {doubled("{'a': 1}", "{%[1]s: %[1]s}", 60) + ".size() > 0", "not a literal"},
	"maps with values of maps":   {doubled("{'a': 1}", "{'a': %[1]s, 'b': %[1]s}", 60) + ".size() > 0", "bytes"},
	"lists compared":             {"lists.range(40000).all(x, lists.range(40000) == lists.range(40000))", "steps"},
	"flattened":                  {"lists.range(3000).map(x, lists.range(3000)).flatten().size() > 0", "bytes"},
	"many lists":                 {"[" + strings.TrimSuffix(strings.Repeat("lists.range(90000),", 9), ",") + "].size() > 0", "bytes"},
	"many lists, one by one":     {strings.Repeat("lists.range(90000).size() > 0 || ", 20) + "true", "bytes of memory"},
	"a message":                  {"google.protobuf.Value{} == null", "do not support"},
	"a time":                     {"timestamp('2026-01-01T00:00:00Z').getFullYear('../../etc/passwd') > 0", "no function"},
	"parentheses":                {strings.Repeat("(", 2000) + "true" + strings.Repeat(")", 2000), "does not compile"},
	"a long sum of lists":        {"lists.range(50000)" + strings.Repeat(" + [1]", 600) + strings.Repeat(" + [1]", 50) + ".map(x, x).size() > 0", ""},
	"a joined list":              {"lists.range(18000).map(x, string(x)).join(',').size() > 0", "steps"},
	"texts in a loop":            {"lists.range(40000).map(x, 'a'.replace('a', '" + strings.Repeat("a", 1000) + "')).size() > 0", "bytes"},
	"errors that nobody sees":    {"values('clientsPerRegion').all(a, values('clientsPerRegion').all(b, tput('s', 'none') > 0.0 || true))", "steps"},
	"a name as long as can be":   {"tput('" + strings.Repeat("s", 4000) + "', 1) > 0.0", "no system is called"},
}

// doubled returns an expression with deeply nested bindings, each of which combines copies of the previous value.
func doubled(first, next string, deep int) string {
	out, end := "", ""
	name := first
	for i := range deep {
		out += fmt.Sprintf("cel.bind(x%d, %s, ", i, fmt.Sprintf(next, name))
		if i == 0 {
			out = fmt.Sprintf("cel.bind(x0, %s, ", first)
		}
		end += ")"
		name = fmt.Sprintf("x%d", i)
	}
	return out + name + end
}

// TestHostileExpressions checks that the author of an Experiment cannot make the operator use unbounded time or memory.
// The bounds of an expression are computed before its evaluation.
func TestHostileExpressions(t *testing.T) {
	b := sweptBoard(1000)
	for name, tc := range hostile {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := b.check(t.Context(), tc.expression, true)
			runtime.ReadMemStats(&after)
			if tc.told != "" && (err == nil || !strings.Contains(err.Error(), tc.told)) {
				t.Errorf("%v, want something with %q", err, tc.told)
			}
			if err != nil && len(err.Error()) > 2*longestText {
				t.Errorf("a text of %d bytes", len(err.Error()))
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 256<<20 {
				t.Errorf("%d MB were allocated", allocated>>20)
			}
		})
	}
}

// TestBounds checks that the computed number of steps is between a lower and an upper limit for each expression.
func TestBounds(t *testing.T) {
	b := sweptBoard(1000)
	for expression, within := range map[string][2]uint64{
		"1 < 2":                   {0, 100},
		"[1, 2, 3].all(x, x > 0)": {20, 300},
		"max(tput('s')) > 0.0":    {5_000, 300_000},
		"values('clientsPerRegion').all(x, x >= 0.0)":                  {10_000, 200_000},
		"lists.range(100).all(x, lists.range(100).all(y, x * y >= 0))": {100_000, 1_000_000},
	} {
		if err := b.check(t.Context(), expression, true); err != nil {
			t.Errorf("%s: %v", expression, err)
		}
		if b.steps < within[0] || b.steps > within[1] {
			t.Errorf("%s can take %d steps, want %d to %d", expression, b.steps, within[0], within[1])
		}
	}
	names := []string{}
	for name := range calls {
		names = append(names, name)
	}
	for _, f := range functions {
		if slices.Contains(names, f.name) {
			t.Errorf("%s is a function of CEL and of Geobench", f.name)
		}
	}
}
