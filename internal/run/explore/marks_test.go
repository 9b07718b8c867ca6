package explore

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/invariant"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol/janus"
)

// Counting the hits of marks does not change a scenario.
func TestMarksChangeNothing(t *testing.T) {
	c := Config{Engine: janus.Engine, Seed: 5, Hostile: true, MaxEvents: 50_000_000, MaxBytes: maxBytes}
	run := func(hits *coverage.Hits) (r Result) {
		e := newExecution(c, worldOf(t, c), hits)
		e.run(c, &r)
		e.judge(c, &r)
		return r
	}
	var hits coverage.Hits
	counted, plain := run(&hits), run(nil)
	if counted.Events != plain.Events || counted.Virtual != plain.Virtual || counted.Committed != plain.Committed {
		t.Errorf("%d events in %v and %d in %v", counted.Events, counted.Virtual, plain.Events, plain.Virtual)
	}
	n := int64(0)
	for _, p := range coverage.All() {
		n += hits.Of(p)
	}
	if n == 0 {
		t.Error("nothing was counted")
	}
}

// Config.Buggify changes a scenario deterministically, and the result lists the rare actions that were taken. No engine
// fails.
func TestPoints(t *testing.T) {
	fired, differ := map[*buggify.Point]bool{}, false
	for _, e := range engines.All() {
		for seed := range uint64(6) {
			c := Config{Engine: e, Seed: seed + 1, Buggify: true, Hostile: seed%2 == 1}
			r := Run(c)
			if !r.Passed() {
				t.Errorf("%s", r)
			}
			if !strings.Contains(r.Replay(), " --buggify") {
				t.Errorf("%q replays another world", r.Replay())
			}
			for _, p := range buggify.All() {
				if n := r.Marks.Of(p.Mark); n > 0 {
					fired[p] = true
					if line := fmt.Sprintf("  on purpose: %s, %d times\n", p.Name, n); !strings.Contains(r.String(), line) {
						t.Errorf("%q does not tell that %s", r, line)
					}
				}
			}
			if seed == 0 {
				if again := Run(c); again.Events != r.Events || again.Virtual != r.Virtual {
					t.Errorf("%s: %d events, and %d the second time", e.Name, r.Events, again.Events)
				}
				c.Buggify = false
				if plain := Run(c); plain.Events != r.Events {
					differ = true
				}
			}
		}
	}
	if !differ {
		t.Error("points make no difference")
	}
	if len(fired) < 15 {
		t.Errorf("%d points have fired", len(fired))
	}
}

// Unhit returns the marks that no scenario has hit. It includes marks of shared packages only if all is set.
func TestUnhitMarksAreNamed(t *testing.T) {
	reach := NewReach([]string{"janus"}, false, false)
	var missed *coverage.Mark
	r := &Result{Engine: "janus"}
	for _, p := range coverage.All() {
		switch {
		case p.Part() != "janus" || p.Replaced:
		case missed == nil:
			missed = p
		default:
			r.Marks.Hit(p)
		}
	}
	reach.Add(r)
	reach.Add(&Result{Engine: "janus"})
	if got := reach.Unhit(false); len(got) != 1 || got[0] != missed {
		t.Errorf("unhit are %v, want %s alone", got, missed.Name)
	}
	shared := false
	for _, p := range reach.Unhit(true) {
		shared = shared || p.Part() == "consensus"
	}
	if !shared {
		t.Error("with all engines consensus counts")
	}
	if table := reach.Table(false); !strings.Contains(table, "| `"+missed.Name+"` | "+missed.Doc+" | 0 | 0 |\n") ||
		!strings.Contains(table, " | 500 | 500 |\n") {
		t.Errorf("the table is\n%s", table)
	}
}

// docs/correctness.md contains the table of all marks, which geobench explore --probes prints.
func TestMarksAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/correctness.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, i := range invariant.All() { // invariants have their own table
		known[i.Name] = true
	}
	for _, p := range coverage.All() {
		known[p.Name] = true
		if !strings.Contains(string(text), "\n| `"+p.Name+"` | "+p.Doc+" | ") {
			t.Errorf("the table lacks %s, or says something else of it than: %s", p.Name, p.Doc)
		}
	}
	for _, m := range regexp.MustCompile("\n\\| `([a-z]+\\.[a-z0-9-]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		if !known[m[1]] {
			t.Errorf("there is no mark %s", m[1])
		}
	}
	parts := map[string]int{}
	for _, p := range coverage.All() {
		if !buggify.Is(p) {
			parts[p.Part()]++
		}
	}
	for _, e := range engines.All() {
		n := parts[e.Name]
		if e.Name == "slog" { // slog consists mostly of code that it shares with Detock
			n += parts["locallog"]
		}
		if e.Name == "calvin" { // the log of Calvin is in its own package
			n += parts["batchlog"]
		}
		if n < 10 {
			t.Errorf("engine %s has %d marks", e.Name, n)
		}
	}
	if n := parts["consensus"] + parts["raftgroup"]; n < 10 {
		t.Errorf("consensus has %d marks", n)
	}
}
