package explore

import (
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol/broken"
	"github.com/geobench/geobench/internal/engine/protocol/janus"
)

// Every engine passes all checks on faulty disks: no answer depends on inputs that are not synced.
func TestDisks(t *testing.T) {
	unread := 0
	for _, e := range engines.All() {
		t.Run(e.Name, func(t *testing.T) {
			c, seeds, losing := Config{Engine: e, Disk: true}, Seeds{First: 1, Count: 60}, 0
			for c.Seed = 1; c.Seed <= seeds.Count; c.Seed++ {
				if slices.ContainsFunc(worldOf(t, c).faults, func(f fault) bool { return f.kind == unreadable }) {
					losing++
				}
			}
			if losing > 0 {
				unread++
			}
			sum := Soak(t.Context(), c, seeds, func(r *Result) {
				if !r.Passed() {
					t.Error(r)
				}
			})
			t.Log(&sum)
			if sum.Committed < 1000 || sum.Restarted < 40 || sum.Torn < 3 || sum.Unread != losing {
				t.Errorf("little was explored: %v; %d worlds have a log that cannot be read", &sum, losing)
			}
		})
	}
	if unread < 10 {
		t.Errorf("%d engines go on without a log that cannot be read", unread)
	}
}

// Except for faults of disks and nodes, a scenario with faulty disks equals the usual scenario of the seed. If a node
// cannot read its log, its region is lost with all its nodes, even if one of them was already down.
func TestWorldsOfBadDisks(t *testing.T) {
	unread, torn := 0, 0
	for seed := range uint64(300) {
		w := worldOf(t, Config{Engine: janus.Engine, Seed: seed, Disk: true})
		usual := worldOf(t, Config{Engine: janus.Engine, Seed: seed})
		if usual.disks != (disks{}) || slices.ContainsFunc(usual.faults, func(f fault) bool { return f.loses > 0 || f.kind == unreadable }) {
			t.Fatalf("seed %d: a usual world has a bad disk:\n%s", seed, usual)
		}
		first := func(w *world) string { text, _, _ := strings.Cut(w.String(), "\n"); return text }
		if first(w) != first(usual) || w.load.String() != usual.load.String() {
			t.Fatalf("seed %d: another world:\n%s\n%s", seed, w, usual)
		}
		w.calls = []call{{}}
		if !w.legal(janus.Engine) {
			t.Errorf("seed %d: the engine promises nothing of\n%s", seed, w)
		}
		down := map[geo.NodeID]bool{}
		gone := map[geo.Region]bool{}
		for _, f := range w.faults {
			switch f.kind {
			case crash:
				down[f.node] = true
				if f.loses > 0 {
					torn++
				}
			case restart:
				down[f.node] = false
			case unreadable:
				if unread++; !down[f.node] || w.topology.RegionOf(f.node) != f.a {
					t.Errorf("seed %d: a node that is not down starts again:\n%s", seed, w)
				}
				gone[f.a] = true
			}
			if (f.kind == crash || f.kind == restart) && gone[w.topology.RegionOf(f.node)] {
				t.Errorf("seed %d: a node of a lost region lives:\n%s", seed, w)
			}
		}
	}
	if unread < 20 || torn < 100 {
		t.Errorf("%d logs cannot be read, %d have lost their ends", unread, torn)
	}
}

// A failing scenario with faulty disks can be shrunk, and its report contains the command that replays it.
func TestShrinkOnBadDisks(t *testing.T) {
	all := broken.All()
	c := ConfigOf(all[slices.IndexFunc(all, func(d broken.Database) bool { return d.Name == "janus-without-read-write-edges" })])
	c.Disk, c.Broken = true, false
	for c.Seed = 1; Run(c).Passed(); c.Seed++ {
	}
	l := Shrink(t.Context(), c, 6_000_000)
	if l == nil || l.Passed() || !strings.Contains(l.First.Replay(), " --disk ") || len(l.execution.submitted) > 6 {
		t.Errorf("%v", l)
	}
}
