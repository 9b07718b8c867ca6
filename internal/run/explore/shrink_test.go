package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol/broken"
	"github.com/geobench/geobench/internal/engine/protocol/calvin"
)

// configOf returns the configuration of a faulty variant with this seed.
func configOf(t *testing.T, name string, seed uint64) Config {
	t.Helper()
	i := slices.IndexFunc(broken.All(), func(d broken.Database) bool { return d.Name == name })
	if i < 0 {
		t.Fatalf("there is no broken database %s", name)
	}
	c := ConfigOf(broken.All()[i])
	c.Seed = seed
	return c
}

// leastWorlds caches minimal scenarios by variant and seed, because each search runs hundreds of scenarios.
var leastWorlds = map[string]*Least{}

// leastOf returns the minimal scenario of a faulty variant with a seed.
func leastOf(t *testing.T, name string, seed uint64) *Least {
	t.Helper()
	key := fmt.Sprint(name, seed)
	if leastWorlds[key] == nil {
		leastWorlds[key] = Shrink(t.Context(), configOf(t, name, seed), 0)
	}
	return leastWorlds[key]
}

// Failing scenarios shrink to small scenarios with the same problem. The minimal scenario is deterministic.
func TestShrink(t *testing.T) {
	for name, tc := range map[string]struct {
		seed  uint64
		wrong Failure
		least Sizes // maximum sizes
	}{
		"read-committed":                 {2, Anomalous, Sizes{2, 2, 2, 0}},
		"nearby-reads":                   {2, Anomalous, Sizes{2, 2, 2, 0}},
		"calvin-acknowledged-everywhere": {2, Late, Sizes{3, 3, 2, 2}},
		"coco-unextended":                {8, Anomalous, Sizes{3, 3, 3, 2}},
		"janus-without-read-write-edges": {4, Unanswered, Sizes{3, 6, 4, 2}},
		"primary-unasked-writer":         {5, Anomalous, Sizes{2, 2, 4, 1}},
		"spanner-lost-resolution":        {2, Anomalous, Sizes{3, 3, 3, 2}},
		"sdur-newest-cut":                {6, Anomalous, Sizes{3, 3, 4, 1}},
		"sunstorm-nobody-dies":           {10, Unanswered, Sizes{3, 4, 4, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			l := leastOf(t, name, tc.seed)
			if l == nil {
				t.Fatal("the seed passes")
			}
			least, first := l.Sizes()
			t.Logf("%+v instead of %+v, %d worlds", least, first, l.Runs)
			if !l.Has(tc.wrong) || l.Anomaly != l.First.Anomaly {
				t.Errorf("it is wrong otherwise than the seed:\n%s", l)
			}
			if m := tc.least; least.Regions > m.Regions || least.Nodes > m.Nodes || least.Transactions > m.Transactions || least.Faults > m.Faults {
				t.Errorf("%+v is more than %+v:\n%s", least, m, l)
			}
			if name != "read-committed" && name != "primary-unasked-writer" { // two variants suffice to test that the result is deterministic
				return
			}
			if again := Shrink(t.Context(), configOf(t, name, tc.seed), 0); again.String() != l.String() {
				t.Errorf("another time the least world is\n%sand not\n%s", again, l)
			}
		})
	}
}

// When its event budget is used up, the search stops and reports this. A seed that passes has no minimal scenario.
func TestShrinkEnds(t *testing.T) {
	if l := Shrink(t.Context(), Config{Engine: calvin.Engine, Seed: 1}, 0); l != nil {
		t.Errorf("a least world of a seed that passes:\n%s", l)
	}
	l := Shrink(t.Context(), configOf(t, "read-committed", 2), 1000)
	if l == nil || !l.Exhausted || !strings.Contains(l.String(), "there may be lesser ones") {
		t.Errorf("with 1000 events:\n%v", l)
	}
}

// Clients with a script send the scripted transactions at the scripted times. So a script of all drawn transactions
// yields the same execution as the original scenario.
func TestScriptsAreWhatWasDrawn(t *testing.T) {
	for _, e := range engines.All() {
		for seed := uint64(1); seed <= 6; seed++ {
			c := Config{Engine: e, Seed: seed, Core: seed%2 == 0}
			w := worldOf(t, c)
			_, drawn := w.clone().run(c)
			w.calls = slices.Clone(drawn.submitted)
			_, told := w.run(c)
			if !slices.EqualFunc(drawn.submitted, told.submitted, func(x, y call) bool { return x.id == y.id && x.at == y.at }) ||
				!maps.Equal(drawn.answers, told.answers) {
				t.Errorf("%s, seed %d: a script of %d transactions is not played as it was drawn", e.Name, seed, len(w.calls))
			}
		}
	}
}

// If a region is removed, its nodes, clients, faults and group members are removed as well. All other regions keep
// theirs.
func TestLeaveOut(t *testing.T) {
	links := make([][]geo.Link, 3)
	for a := range links {
		for b := range 3 {
			links[a] = append(links[a], geo.Link{Delay: time.Duration(10*a + b)})
		}
	}
	w := &world{
		topology: &geo.Topology{
			Regions: []string{"a", "b", "c"}, Homes: 2, Partitions: 2, Replicas: 2, Links: links,
			Groups: []geo.CellGroup{
				{Cell: geo.Cell{Home: 0, Partition: 1}, Replicas: []int{2, 1, 1}, Leader: 2},
				{Cell: geo.Cell{Home: 0, Partition: 0}, Replicas: []int{1, 1, 0}, Leader: 1},
				{Cell: geo.Cell{Home: 1, Partition: 0}, Replicas: []int{1, 1, 0}, Leader: 0},
			},
		},
		offsets: []time.Duration{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
		faults: []fault{
			{at: 1, kind: cut, a: 0, b: 1}, {at: 2, kind: cut, a: 0, b: 2}, {at: 3, kind: crash, node: 5}, {at: 4, kind: crash, node: 11},
			{at: 5, kind: heal, a: 0, b: 2}, {at: 6, kind: restart, node: 11}, {at: 7, kind: lose, a: 2}, {at: 8, kind: heal, a: 0, b: 1},
		},
		calls: []call{{region: 0, id: 1}, {region: 1, id: 2}, {region: 2, id: 3}},
	}
	if pairs := w.pairs(); !slices.EqualFunc(pairs, [][]int{{0, 7}, {1, 4}, {2}, {3, 5}, {6}}, slices.Equal) {
		t.Errorf("the pairs of faults are %v", pairs)
	}
	w.leaveOut(1)
	top := w.topology
	if !slices.Equal(top.Regions, []string{"a", "c"}) || top.Homes != 1 || top.Links[0][1].Delay != 2 || top.Links[1][0].Delay != 20 {
		t.Errorf("the topology is %+v", top)
	}
	if len(top.Groups) != 1 || top.Groups[0].Leader != 1 || !slices.Equal(top.Groups[0].Replicas, []int{2, 1}) {
		t.Errorf("the groups are %+v", top.Groups)
	}
	if !slices.Equal(w.offsets, []time.Duration{0, 1, 2, 3, 8, 9, 10, 11}) {
		t.Errorf("the clocks are ahead by %v", w.offsets)
	}
	want := []fault{{at: 2, kind: cut, a: 0, b: 1}, {at: 4, kind: crash, node: 7}, {at: 5, kind: heal, a: 0, b: 1}, {at: 6, kind: restart, node: 7}, {at: 7, kind: lose, a: 1}}
	if !slices.Equal(w.faults, want) || w.calm != 7 {
		t.Errorf("the faults are %+v until %v", w.faults, w.calm)
	}
	if len(w.calls) != 2 || w.calls[1].region != 1 || w.calls[1].id != 3 {
		t.Errorf("the calls are %+v", w.calls)
	}
	w.reshape(nil, 1, 1)
	if !slices.Equal(w.offsets, []time.Duration{0, 8}) || len(w.faults) != 3 || len(w.topology.Groups) != 0 {
		t.Errorf("with one node per region: clocks %v, faults %+v, groups %+v", w.offsets, w.faults, w.topology.Groups)
	}
}

// The shrinker skips scenarios about which the engine promises nothing, because a failure there would not be a defect
// of the engine.
func TestLegal(t *testing.T) {
	whole := func() *world {
		w := worldOf(t, Config{Engine: calvin.Engine, Seed: 2})
		w.faults, w.durable, w.calls = nil, false, []call{{id: 1}}
		return w
	}
	for name, tc := range map[string]struct {
		change func(*world)
		legal  bool
	}{
		"as it is":              {func(*world) {}, true},
		"no transaction":        {func(w *world) { w.calls = nil }, false},
		"crash without a log":   {func(w *world) { w.faults = []fault{{kind: crash}, {at: 1, kind: restart}} }, false},
		"crash with a log":      {func(w *world) { w.durable, w.faults = true, []fault{{kind: crash}, {at: 1, kind: restart}} }, true},
		"restart of the living": {func(w *world) { w.durable, w.faults = true, []fault{{kind: restart}} }, false},
		"every region lost": {func(w *world) {
			for r := range w.topology.Regions {
				w.faults = append(w.faults, fault{kind: lose, a: geo.Region(r)})
			}
		}, false},
		"jump of clocks that nothing depends on": {func(w *world) { w.faults = []fault{{kind: jump, by: 1}} }, false},
		"parameter out of bounds":                {func(w *world) { w.params["epoch"] = "1h" }, false},
		"groups":                                 {func(w *world) { w.topology.Groups = []geo.CellGroup{{Replicas: []int{1, 1, 1}}} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := whole()
			tc.change(w)
			if got := w.legal(calvin.Engine); got != tc.legal {
				t.Errorf("legal: %v", got)
			}
		})
	}
}

// Renaming the rows of a transaction yields the same effects on the renamed rows.
func TestRename(t *testing.T) {
	rows := []int{2, 0, 1}
	kv, bank := &load{rows: 3}, &load{rows: 3, bank: true}
	for name, tc := range map[string]struct {
		load *load
		call call
		want string
	}{
		"rows":       {kv, call{args: []byte("r0 w1=40 d2 a0+1 s1-100 x2 j0+1")}, "r2 w0=40 d1 a2+1 s0-100 x1 j2+1"},
		"groups":     {kv, call{args: []byte("l1.0-2 p0.1=7 q2.1 g1.2+1 o0 t1 e2+1")}, "l1.0-2 p0.1=7 q2.1 g1.2+1 o0 t1 e2+1"},
		"no such":    {kv, call{args: []byte("r7")}, "r7"},
		"lookup":     {bank, call{proc: bankNumbers["lookup"], args: lookupArgs(1)}, "lookup of Client0"},
		"amalgamate": {bank, call{proc: bankNumbers["amalgamate"], args: bankArgs(0, 2)}, "amalgamate of customers 2 and 1"},
		"writeCheck": {bank, call{proc: bankNumbers["writeCheck"], args: bankArgs(1, 1, 30)}, "writeCheck of customers 0 and 0, amount 30"},
	} {
		t.Run(name, func(t *testing.T) {
			c := tc.call
			c.args = tc.load.rename(&c, rows)
			if got := tc.load.describe(&c); got != tc.want {
				t.Errorf("%q is not %q", got, tc.want)
			}
		})
	}
}

// The minimal scenario of a lost update shows both clients, the row, and both answers.
func TestLeastWorldIsTold(t *testing.T) {
	l := Shrink(t.Context(), configOf(t, "read-committed", 2), 0)
	if l == nil || l.Anomaly != history.LostUpdate {
		t.Fatalf("the seed's failure is no lost update: %v", l)
	}
	text := l.String()
	for _, want := range []string{
		"read-committed, seed 2: the minimal failing scenario has ", " has 2 of 166 transactions, 0 of 8 faults, 2 of 3 regions, 2 of 3 nodes (",
		" sends ", " is committed\n", "WRONG: not strict-serializable", "replay: geobench explore --broken --engine read-committed --seed 2 --shrink --trace\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	var lines []string
	l.Trace(func(line string) { lines = append(lines, line) })
	if submits := len(slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, " submit t") })); submits != 2 {
		t.Errorf("%d transactions are traced", submits)
	}
}

// The page of a minimal scenario shows its transactions, messages and faults, and the cycle of an anomaly. It omits the
// minutes during which the database only waits.
func TestPages(t *testing.T) {
	for name, tc := range map[string]struct {
		seed uint64
		want []string
	}{
		"sdur-newest-cut":                {6, []string{`class="edge"`, ">rw<", `class="bar committed marked"`, `class="message"`, "clients of "}},
		"janus-without-read-write-edges": {4, []string{">cut a-d<", "heal a-d", `class="bar doubtful open"`, " has no answer by 310194.143 ms"}},
		"calvin-acknowledged-everywhere": {2, []string{">lose region b<", "b/0/0 is lost for good", `class="lost"`, "core: a transaction of "}},
	} {
		t.Run(name, func(t *testing.T) {
			var page strings.Builder
			if err := leastOf(t, name, tc.seed).WritePage(&page); err != nil {
				t.Fatal(err)
			}
			for _, want := range append(tc.want, ">simulated<", "geobench explore --broken --engine "+name+" --seed ") {
				if !strings.Contains(page.String(), want) {
					t.Errorf("%q is not in the page", want)
				}
			}
			if page.Len() > 300_000 {
				t.Errorf("the page has %d bytes", page.Len())
			}
		})
	}
}
