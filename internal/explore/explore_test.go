package explore

import (
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/engines"
	"github.com/geobench/geobench/internal/history"
	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/protocol/broken"
	"github.com/geobench/geobench/internal/protocol/janus"
)

// Every engine keeps its promises with 100 seeds. make soak runs more.
func TestEngines(t *testing.T) {
	for _, e := range engines.All() {
		t.Run(e.Name, func(t *testing.T) {
			sum := Soak(t.Context(), Config{Engine: e, Seed: 1}, 100, func(r *Result) {
				if !r.Passed() {
					t.Error(r)
				}
			})
			t.Log(&sum)
			if sum.Committed < 5000 || sum.Restarted < 20 || len(worldsThatLose(e)) > 0 && sum.Lost == 0 {
				t.Errorf("little was explored: %v", &sum)
			}
		})
	}
}

// Seeds that once failed keep passing.
func TestSeedsThatFailed(t *testing.T) {
	failed := map[string][]uint64{
		// A participant let go of its locks before the others had theirs.
		"slog": {163, 208, 313, 499, 516, 636, 989, 1062, 1070, 1331, 1505, 1514, 1944, 3007, 3520, 5339, 6315},
		// A frame sent when a healed link spoke again overtook the held ones.
		"calvin": {239, 288, 775, 1393, 1437},
		// Nodes took instances over from each other faster than any of them had waited for a lost region's answers.
		"janus": {1250},
	}
	for name, seeds := range failed {
		e, ok := engines.Lookup(name)
		if !ok {
			t.Fatalf("no engine %s", name)
		}
		for _, seed := range seeds {
			if r := Run(Config{Engine: e, Seed: seed}); !r.Passed() {
				t.Error(r)
			}
		}
	}
}

// In these worlds of Janus a region is lost when others know its decisions and some do not, and a coordinator may be silent for
// 8 s. Who takes an instance over and is told the decision tells the rest, so that not everybody has to do so in turn.
func TestRecoveryTakesOneTurn(t *testing.T) {
	for _, seed := range []uint64{16923, 18293} {
		r := Run(Config{Engine: janus.Engine, Seed: seed})
		if !r.Lost || !r.Passed() {
			t.Errorf("seed %d:\n%s", seed, r)
		}
		if r.Virtual > 20*time.Second {
			t.Errorf("seed %d: everything is answered and quiet after %v", seed, r.Virtual)
		}
	}
}

// worldsThatLose are the first seeds that lose a region.
func worldsThatLose(e *protocol.Engine) (seeds []uint64) {
	for seed := range uint64(100) {
		if newWorld(Config{Engine: e, Seed: 1 + seed}).losesRegion() >= 0 {
			seeds = append(seeds, 1+seed)
		}
	}
	return seeds
}

// Databases that are wrong on purpose are caught, for what is wrong with them and not for more. The table is that of
// docs/correctness.md, and geobench explore --broken prints it.
func TestBrokenEnginesAreCaught(t *testing.T) {
	for name, tc := range map[string]struct {
		within int      // that many seeds
		wrong  []string // the problems that there may be, the first of which must be found
	}{
		"read-committed":                 {20, []string{"not strict-serializable (the history is read-committed): lost-update", "convergence", "not strict-serializable"}},
		"snapshot":                       {30, []string{"not strict-serializable (the history is strong-snapshot-isolation)", "convergence", "not strict-serializable"}},
		"arrival-order":                  {20, []string{"convergence", "not strict-serializable"}},
		"nearby-reads":                   {20, []string{"not strict-serializable (the history is session-serializable)"}},
		"forgetful":                      {20, []string{"completion"}},
		"janus-without-read-write-edges": {100, []string{"not strict-serializable", "convergence", "completion"}},
		"slog-merged-on-arrival":         {20, []string{"not strict-serializable", "convergence", "completion"}},
	} {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(broken.All(), func(d broken.Database) bool { return d.Name == name })
			if i < 0 {
				t.Fatal("there is no such broken database")
			}
			first := 0
			c := Hunt(t.Context(), broken.All()[i], max(50, uint64(tc.within)), func(r *Result) {
				for _, p := range r.Problems {
					if !slices.ContainsFunc(tc.wrong, func(w string) bool { return strings.HasPrefix(p, w) }) {
						t.Errorf("seed %d finds what is not wrong: %s", r.Seed, p)
					}
					if first == 0 && strings.HasPrefix(p, tc.wrong[0]) {
						first = int(r.Seed)
						t.Logf("seed %d: %s", r.Seed, p)
					}
				}
			})
			t.Logf("\n%v", &c)
			if first == 0 || first > tc.within {
				t.Errorf("%q is found by seed %d, 0 for never; it must be among the first %d", tc.wrong[0], first, tc.within)
			}
		})
	}
}

// All broken databases are hunted above, and no manifest can name one.
func TestBrokenEnginesCannotBeChosen(t *testing.T) {
	if n := len(broken.All()); n != 7 {
		t.Errorf("there are %d broken databases", n)
	}
	for _, d := range broken.All() {
		if _, ok := engines.Lookup(d.Name); ok {
			t.Errorf("%s is in the table of engines", d.Name)
		}
	}
}

// An engine that panics fails its seed, and the description says how to see it again.
func TestPanicIsAFailure(t *testing.T) {
	e := *broken.ReadCommitted
	e.New = func(c protocol.Config) protocol.Replica { return panicking{broken.ReadCommitted.New(c)} }
	r := Run(Config{Engine: &e, Seed: 7, OnePartition: true})
	s := r.String()
	for _, want := range []string{"read-committed, seed 7\n", "WRONG: panic: out of ideas", "replay: geobench explore --engine read-committed --seed 7 --trace"} {
		if r.Passed() || !strings.Contains(s, want) {
			t.Errorf("%q is not in %s", want, s)
		}
	}
}

// What is promised less than by default is replayed with the same promise.
func TestReplaySaysTheLevel(t *testing.T) {
	r := Run(Config{Engine: broken.Snapshot, Broken: true, Seed: 2, OnePartition: true, Level: isolation.SnapshotIsolation})
	if want := "geobench explore --broken --engine snapshot --seed 2 --level snapshot-isolation --trace"; r.Replay() != want {
		t.Errorf("the replay is %s", r.Replay())
	}
	if r.Anomaly != history.LostUpdate || !slices.ContainsFunc(r.Problems, func(p string) bool {
		return strings.HasPrefix(p, "not snapshot-isolation (the history is read-committed): lost-update")
	}) {
		t.Errorf("two regions that do not hear of each other in time have snapshot isolation: %s", r)
	}
}

type panicking struct{ protocol.Replica }

func (panicking) Pending() int { panic("out of ideas") }

// The same seed gives the same execution, line by line, and another seed another one.
func TestReproducible(t *testing.T) {
	run := func(e *protocol.Engine, seed uint64) (sum uint64, lines int) {
		h := fnv.New64a()
		r := Run(Config{Engine: e, Seed: seed, Trace: func(line string) { h.Write([]byte(line)); lines++ }})
		h.Write([]byte(r.String()))
		return h.Sum64(), lines
	}
	for _, e := range engines.All() {
		t.Run(e.Name, func(t *testing.T) {
			for seed := range uint64(3) {
				one, lines := run(e, seed)
				again, _ := run(e, seed)
				if other, _ := run(e, seed+1); one != again || one == other || lines < 100 {
					t.Errorf("seed %d: %x, again %x, the next seed %x, %d lines", seed, one, again, other, lines)
				}
			}
		})
	}
}

// Seeds make worlds of all kinds, the same for all engines but for what engines decide.
func TestWorlds(t *testing.T) {
	all := engines.All()
	seen := map[string]int{}
	for seed := range uint64(300) {
		worlds := make([]*world, len(all))
		for i, e := range all {
			worlds[i] = newWorld(Config{Engine: e, Seed: seed})
			if a, b := worlds[0], worlds[i]; a.topology.Nodes() != b.topology.Nodes() || a.load != b.load {
				t.Fatalf("seed %d makes different worlds for %s and %s", seed, all[0].Name, e.Name)
			}
		}
		w := worlds[0]
		top := w.topology
		if err := top.Validate(); err != nil || top.Nodes() > maxNodes {
			t.Fatalf("seed %d: %d nodes, %v", seed, top.Nodes(), err)
		}
		open, down := 0, 0
		for _, f := range w.faults {
			switch f.kind {
			case cut:
				open++
			case heal:
				open--
			case lose:
				seen["lost region"]++
			case crash:
				seen["crashes"]++
				down++
			case restart:
				down--
			}
			if f.at > w.calm {
				t.Errorf("seed %d: a fault at %v, after the last one at %v", seed, f.at, w.calm)
			}
		}
		if open != 0 {
			t.Errorf("seed %d: %d cuts are not healed", seed, open)
		}
		if down != 0 {
			t.Errorf("seed %d: %d nodes do not start again", seed, down)
		}
		note := func(what string, is bool) {
			if is {
				seen[what]++
			}
		}
		note("one region", len(top.Regions) == 1)
		note("four regions", len(top.Regions) == 4)
		note("three partitions", top.Partitions == 3)
		note("replicas", top.Replicas > 1)
		note("loss", top.Links[0][0].LossPPM > 0)
		note("jitter", top.Links[0][0].Jitter > 0)
		note("clocks", slices.Max(w.offsets) > 0)
		note("cuts", len(w.faults) > 0)
		note("codec", w.codec)
		note("restarts", w.durable)
		note("SmallBank", w.load.bank)
		note("key-value", !w.load.bank)
	}
	t.Log(seen)
	if len(seen) != 14 {
		t.Errorf("some kinds of worlds were not made: %v", seen)
	}
	delete(seen, "crashes") // several in a world
	for what, n := range seen {
		if n < 10 || n == 300 {
			t.Errorf("%s: %d of 300 worlds", what, n)
		}
	}
}
