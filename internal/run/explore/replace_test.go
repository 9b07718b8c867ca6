package explore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol/janus"
	"github.com/geobench/geobench/internal/engine/protocol/sdur"
)

// Every engine that replaces lost nodes passes all checks while nodes lose their state, one at a time or a region at a
// time. All transactions are answered, histories are correct, and new incarnations have the same data as the other
// copies.
func TestReplacements(t *testing.T) {
	replacing := 0
	for _, e := range engines.All() {
		if e.Replaces == nil {
			continue
		}
		replacing++
		t.Run(e.Name, func(t *testing.T) {
			sum := Soak(t.Context(), Config{Engine: e, Replace: true, Invariants: true}, Seeds{First: 1, Count: 40}, func(r *Result) {
				if !r.Passed() {
					t.Error(r)
				}
			})
			t.Log(&sum)
			if sum.Committed < 1000 || sum.Replaced < 30 || sum.Lost > 0 || sum.Mended == 0 {
				t.Errorf("little was explored: %v", &sum)
			}
		})
	}
	if replacing < 2 {
		t.Errorf("%d engines replace lost nodes", replacing)
	}
}

// Scenarios with losses that failed with earlier versions of the engines pass.
func TestReplacementsThatFailed(t *testing.T) {
	for _, tc := range []struct {
		what, engine  string
		hostile, rare bool
		wide          bool
		seed          uint64
	}{
		{"a node of a copy that had begun anew went on before what it sent reached the new incarnation", "calvin", false, false, false, 1610},
		{"the next node was lost while a new incarnation lacked data that it alone had", "calvin", false, false, false, 7263},
		{"the next node was lost while a new incarnation lacked data that it alone had", "calvin", true, false, false, 3476},
		{"a log was to take more of an order than a new incarnation would ever read", "slog", false, false, false, 996},
		{"new incarnations of a region outbid each other for ever", "janus", false, false, false, 10969},
		{"a new incarnation never reported on servers that were closed when it joined", "oceanvista", true, false, false, 17},
		{"a node of a copy that had begun anew went on before what it sent reached the new incarnation", "oceanvista", false, false, false, 3627},
		{"a new incarnation led a group whose snapshots give up what others lack", "oceanvista", true, false, false, 4461},
		{"a new incarnation lacked an epoch that only its own server had, and asked all others for it", "geogauss", false, true, false, 127},
		{"epochs were forgotten that had been complete elsewhere in an earlier view, without a server that counts in them in this one", "geogauss", false, true, false, 3394},
		{"a new incarnation led a group in which its predecessor had prepared a transaction", "spanner", false, true, false, 1323},
		{"a server with a late clock joined, and sent a write set in an epoch that was complete without the server", "geogauss", false, true, true, 1001856},
		{"the group chose a donor that had skipped entries of the log", "oceanvista", false, true, true, 1000026},
	} {
		t.Run(fmt.Sprintf("%s %d", tc.engine, tc.seed), func(t *testing.T) {
			t.Parallel()
			e, _ := engines.Lookup(tc.engine)
			if r := Run(Config{Engine: e, Seed: tc.seed, Hostile: tc.hostile, Buggify: tc.rare, Wide: tc.wide, Replace: true}); !r.Passed() || r.Replaced == 0 {
				t.Errorf("%s: %d nodes were replaced\n%v", tc.what, r.Replaced, r)
			}
		})
	}
}

// Config.Replace changes only the faults of a scenario. It changes nothing for engines that cannot replace nodes. All
// lost data has a copy at another node.
func TestWorldsOfLosses(t *testing.T) {
	nodes, regions := 0, 0
	none := *janus.Engine
	none.Replaces = nil
	for seed := range uint64(200) {
		if w, usual := worldOf(t, Config{Engine: &none, Seed: seed, Replace: true}), worldOf(t, Config{Engine: &none, Seed: seed}); w.String() != usual.String() {
			t.Fatalf("seed %d: the engine replaces nothing, and its world is\n%s, not\n%s", seed, w, usual)
		}
		w, usual := worldOf(t, Config{Engine: sdur.Engine, Seed: seed, Replace: true}), worldOf(t, Config{Engine: sdur.Engine, Seed: seed})
		if w.load.String() != usual.load.String() || w.seed != usual.seed {
			t.Fatalf("seed %d: another world:\n%s\n%s", seed, w, usual)
		}
		w.calls = []call{{}}
		if !w.legal(sdur.Engine) {
			t.Errorf("seed %d: the engine promises nothing of\n%s", seed, w)
		}
		may := sdur.Engine.Replaceable(w.topology, w.params)
		for _, f := range w.faults {
			if f.kind != vanish {
				continue
			}
			if nodes++; f.region {
				regions++
			}
			if w.durable || len(w.lost()) > 0 || w.calm < f.at+f.by {
				t.Errorf("seed %d: logs %v, %d regions lost, faults over at %v in\n%s", seed, w.durable, len(w.lost()), w.calm, w)
			}
			for _, n := range w.vanishing(f) {
				if !slices.Contains(may, n) {
					t.Errorf("seed %d: %s has what nobody else has in\n%s", seed, w.topology.NodeName(n), w)
				}
			}
		}
	}
	if nodes < 200 || regions < 20 {
		t.Errorf("of %d losses %d are those of a region", nodes, regions)
	}
}
