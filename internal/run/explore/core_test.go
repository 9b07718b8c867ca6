package explore

import (
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/calvin"
	"github.com/geobench/geobench/internal/engine/protocol/geogauss"
	"github.com/geobench/geobench/internal/engine/protocol/oceanvista"
)

// In these two scenarios the remaining regions once answered too late. With geogauss, the leader proposed the removal
// of a node again for every report of its failure, over links with little bandwidth. With Ocean Vista, the bound
// ignored that false suspicions double the time until a node is suspected.
func TestLateAnswersOfTheCore(t *testing.T) {
	for _, c := range []Config{{Engine: geogauss.Engine, Seed: 5}, {Engine: oceanvista.Engine, Seed: 4}} {
		c.Hostile, c.Slow, c.Core, c.Buggify = true, true, true, true
		if r := Run(c); !r.Passed() || !r.Cored {
			t.Error(r)
		}
	}
}

// After the permanent loss of regions, the remaining database answers within its bound. A variant of Calvin waits half
// a minute for the acknowledgements of all regions. Without a second phase, the variant passes. It answers too late if
// the second phase of the same scenario loses a region.
func TestCoreAnswersInTime(t *testing.T) {
	cored, late := 0, 0
	for seed := range uint64(30) {
		right := Run(Config{Engine: calvin.Engine, Seed: 1 + seed, Core: true})
		if !right.Passed() {
			t.Error(right)
		}
		if old := Run(Config{Engine: calvin.AcknowledgedEverywhere, Seed: 1 + seed}); !old.Passed() {
			t.Errorf("without a second phase it should pass: %v", old)
		}
		if !right.Cored {
			continue
		}
		cored++
		if right.Slowest == 0 {
			t.Errorf("seed %d: nothing was sent in the second phase", right.Seed)
		}
		wrong := Run(Config{Engine: calvin.AcknowledgedEverywhere, Seed: 1 + seed, Core: true})
		if wrong.Passed() {
			continue
		}
		late++
		if p := wrong.Problems; len(p) == 0 || p[0].Failure != Late {
			t.Errorf("seed %d: it fails for something else: %v", wrong.Seed, wrong)
		}
	}
	if cored < 5 || late != cored {
		t.Errorf("%d of %d worlds with a second phase show the mistake", late, cored)
	}
}

// The explorer checks the bound of every protocol that promises one. If the bound is replaced by one that no protocol
// can meet, each of these protocols is reported as late.
func TestPromisesAreKept(t *testing.T) {
	var promise []string
	for _, e := range engines.All() {
		params, errs := e.Resolve(nil)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if e.Tolerance(simload.ThreeRegions(1), params).Answers == 0 {
			continue
		}
		promise = append(promise, e.Name)
		hasty, late := *e, false
		hasty.Tolerates = func(t *geo.Topology, p protocol.Params) protocol.Tolerance {
			s := e.Tolerates(t, p)
			s.Answers = time.Microsecond
			return s
		}
		for seed := uint64(1); seed <= 20 && !late; seed++ {
			r := Run(Config{Engine: &hasty, Seed: seed, Core: true})
			late = slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Failure == Late })
		}
		if !late {
			t.Errorf("%s is not held to its bound", e.Name)
		}
	}
	if want := []string{"calvin", "coco", "geogauss", "janus", "minerva", "oceanvista", "primary", "sdur", "spanner"}; !slices.Equal(promise, want) {
		t.Errorf("%v promise answers in time, want %v", promise, want)
	}
}

// After the permanent loss of regions, databases with a promised bound answer within the bound, and all other databases
// answer eventually. All histories are correct, and all copies are equal.
func TestCoresGoOn(t *testing.T) {
	for _, e := range engines.All() {
		t.Run(e.Name, func(t *testing.T) {
			const seeds = 20
			cored := 0
			Soak(t.Context(), Config{Engine: e, Core: true}, Seeds{First: 1, Count: seeds}, func(r *Result) {
				if !r.Passed() {
					t.Error(r)
				}
				if r.Cored {
					cored++
				}
			})
			if losing := losesSome(t, Config{Engine: e}, 100); losing != (cored > 0) {
				t.Errorf("%d worlds have a second phase, and the database survives a loss: %v", cored, losing)
			}
		})
	}
}
