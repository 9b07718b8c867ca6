package explore

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/invariant"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/broken"
	"github.com/geobench/geobench/internal/engine/protocol/primary"
)

// Every engine's replicas implement protocol.Checked.
func TestEveryEngineIsChecked(t *testing.T) {
	for _, e := range engines.All() {
		c := Config{Engine: e, Seed: 1, Invariants: true}
		x := newExecution(c, worldOf(t, c), nil)
		if !x.sim.Checked(0) {
			t.Errorf("the replicas of %s are no protocol.Checked", e.Name)
		}
	}
}

// The checks of invariants do not change a scenario.
func TestChecksChangeNothing(t *testing.T) {
	for _, e := range engines.All() {
		c := Config{Engine: e, Seed: 7, Invariants: true}
		checked := Run(c)
		if !strings.Contains(checked.Replay(), " --invariants") {
			t.Errorf("%q checks nothing", checked.Replay())
		}
		c.Invariants = false
		plain := Run(c)
		if checked.Events != plain.Events || checked.Virtual != plain.Virtual || checked.Committed != plain.Committed || !checked.Passed() {
			t.Errorf("%s: %d events in %v and %d in %v; %v", e.Name, checked.Events, checked.Virtual, plain.Events, plain.Virtual, checked.Problems)
		}
	}
}

// shy is a primary whose replicas violate an invariant: all nodes should report the same number, but each reports its
// own.
type shy struct {
	*primary.Replica
	self uint64
}

func (s shy) Check(c *invariant.Checker) { c.Agree(lie, "the number of everybody", s.self) }

var lie = invariant.New("test.everybody-is-one", "all nodes have the same number")

// A violated invariant is the first problem of a result. Its text contains the engine, the node, the time, the
// invariant and the values.
func TestBrokenInvariantIsTold(t *testing.T) {
	e := primary.Engine.Variant("shy", func(c protocol.Config) protocol.Replica {
		return shy{primary.Engine.New(c).(*primary.Replica), uint64(c.Self)}
	})
	c := Config{Engine: e, Seed: 3, Invariants: true}
	r := Run(c)
	if r.Passed() || r.Problems[0].Failure != Violated || r.Invariant != lie.Name {
		t.Fatalf("%v", r)
	}
	if ok, _ := regexp.MatchString(`^invariant: \S+ of shy at \S+ breaks test\.everybody-is-one \(all nodes .*\): the number of everybody is \d here, and was \d on a/0/0$`, r.Problems[0].Text); !ok {
		t.Errorf("%q", r.Problems[0].Text)
	}
	l := Shrink(t.Context(), c, 2_000_000)
	if l == nil || l.Invariant != lie.Name || !strings.Contains(l.String(), "breaks test.everybody-is-one") {
		t.Fatalf("%v", l)
	}
	var page strings.Builder
	if err := l.WritePage(&page); err != nil || !strings.Contains(page.String(), "breaks test.everybody-is-one") {
		t.Errorf("the page does not tell of the invariant: %v", err)
	}
}

// If the defect of a faulty variant affects a copy or a counter, an invariant is violated. This reveals the defect
// without a check of the history.
func TestBrokenDatabasesBreakInvariants(t *testing.T) {
	all := broken.All()
	for name, tc := range map[string]struct {
		seed      uint64
		invariant string
	}{
		"coco-forgotten-copy":              {1, "store.one-value"},
		"geogauss-early-merge":             {1, "geogauss.same-merges"},
		"geogauss-won-on-arrival":          {3, "store.not-aborted"},
		"geogauss-own-last":                {6, "geogauss.same-merges"},
		"janus-without-read-write-edges":   {4, "store.one-value"},
		"minerva-reexecuted-on-arrival":    {3, "store.one-value"},
		"minerva-own-numbering":            {3, "store.one-value"},
		"oceanvista-forgotten-functors":    {3, "store.one-value"},
		"oceanvista-late-writes":           {2, "oceanvista.promise"},
		"oceanvista-visible-before-stable": {1, "oceanvista.promise"},
		"primary-applied-twice":            {3, "store.never-back"},
		"slog-merged-on-arrival":           {6, "store.one-value"},
	} {
		c := ConfigOf(all[slices.IndexFunc(all, func(d broken.Database) bool { return d.Name == name })])
		c.Seed, c.Invariants = tc.seed, true
		if r := Run(c); r.Invariant != tc.invariant {
			t.Errorf("%s, seed %d: breaks %q, not %s", name, tc.seed, r.Invariant, tc.invariant)
		}
	}
}

// The table in docs/correctness.md contains exactly the program's invariants, in the same order.
func TestInvariantsAreInTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../../docs/correctness.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, i := range invariant.All() {
		if !strings.HasPrefix(i.Name, "test.") {
			want = append(want, "| `"+i.Name+"` | "+i.Doc+" |")
		}
	}
	if table := strings.Join(want, "\n"); !strings.Contains(string(text), table) {
		t.Errorf("docs/correctness.md should have this table:\n%s", table)
	}
}
