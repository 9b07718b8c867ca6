package explore

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	faults "github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/broken"
	"github.com/geobench/geobench/internal/engine/protocol/calvin"
	"github.com/geobench/geobench/internal/engine/protocol/sdur"
	"github.com/geobench/geobench/internal/engine/protocol/slog"
	"github.com/geobench/geobench/internal/engine/protocol/spanner"
)

// In scenarios that resemble measured runs, every engine passes all checks, including the invariants of the workload.
func TestRunWorlds(t *testing.T) {
	for _, e := range engines.All() {
		t.Run(e.Name, func(t *testing.T) {
			sum := Soak(t.Context(), Config{Engine: e, Runs: true}, Seeds{First: 1, Count: 25}, func(r *Result) {
				if !r.Passed() {
					t.Error(r)
				}
			})
			t.Log(&sum)
			if sum.Committed < 1000 || sum.Restarted < 2 {
				t.Errorf("little was explored: %v", &sum)
			}
		})
	}
}

// The timelines contain every kind of fault that a simulation supports, and every kind of target that a manifest can
// name. All their faults are injected. The loads include open and closed loops with every workload.
func TestWorldsOfRuns(t *testing.T) {
	kinds, loads, aims := map[string]int{}, map[string]int{}, map[string]int{}
	for seed := range uint64(300) {
		c := Config{Engine: sdur.Engine, Seed: seed, Runs: true}
		w := worldOf(t, c)
		if len(w.faults) > 0 {
			t.Fatalf("seed %d: there are faults beside the timeline in\n%s", seed, w)
		}
		plan := faults.NewPlan(w.timeline, w.topology, w.seed)
		for _, f := range plan.Faults {
			kinds[f.Kind]++
			if f.End() > w.calm {
				t.Errorf("seed %d: %s ends at %v, and all is calm at %v", seed, f.Name, f.End(), w.calm)
			}
			if target := f.Target(); target != nil {
				for aim, is := range map[string]bool{
					"regions": len(target.Regions) > 0, "partitions": len(target.Partitions) > 0, "role": target.Role != "",
					"count": target.Count != nil, "percent": target.Percent != nil,
				} {
					if is {
						aims[aim]++
					}
				}
			}
		}
		name := "own"
		if w.load.run != nil {
			name = w.load.run.Name()
		}
		loads[name]++
		if w.load.every > 0 {
			loads["open"]++
		}
		w.calls = []call{{}}
		if !w.legal(sdur.Engine) {
			t.Errorf("seed %d: the engine promises nothing of\n%s", seed, w)
		}
	}
	for _, kind := range faults.SimulatorKinds {
		if kinds[kind] < 5 {
			t.Errorf("%d faults are of kind %s", kinds[kind], kind)
		}
	}
	for _, load := range []string{"own", "open", "smallbank", "rmw", "ycsb", "tpcc"} {
		if loads[load] < 5 {
			t.Errorf("%d worlds have the load %s: %v", loads[load], load, loads)
		}
	}
	if len(aims) != 5 || slices.Min(slices.Collect(maps.Values(aims))) < 30 {
		t.Errorf("faults aim at %v", aims)
	}
}

// Even if all skews of a timeline affect the same clocks, clocks never differ by more than the engine tolerates.
func TestTimelineWithinTheClockBound(t *testing.T) {
	skews := 0
	for seed := range uint64(200) {
		w := worldOf(t, Config{Engine: spanner.Engine, Seed: seed, Runs: true})
		least, most := time.Duration(0), time.Duration(0)
		for i := range w.timeline {
			if s := w.timeline[i].ClockSkew; s != nil {
				skews++
				least, most = least+min(0, s.Offset.Duration), most+max(0, s.Offset.Duration)
			}
		}
		if bound := spanner.Engine.ClockBound(w.params); most-least > bound {
			t.Errorf("seed %d: clocks jump %v apart, the bound is %v, in\n%s", seed, most-least, bound, w)
		}
	}
	if skews < 50 {
		t.Errorf("%d clocks are set", skews)
	}
}

// If the engine does not replace nodes, a node that a timeline kills stays down, and the database tolerates the loss of
// that node's region. If the engine replaces nodes, new incarnations replace the killed nodes.
func TestTimelinesThatKill(t *testing.T) {
	lost := 0
	for seed := range uint64(200) {
		for _, e := range []*protocol.Engine{calvin.Engine, slog.Engine} {
			w := worldOf(t, Config{Engine: e, Seed: seed, Runs: true})
			survival := e.Tolerance(w.topology, w.params)
			for _, region := range w.lost() {
				lost++
				if !slices.Contains(survival.Regions, region) {
					t.Errorf("seed %d: %s does not survive without %s", seed, e.Name, w.topology.Regions[region])
				}
				for i := range w.timeline {
					if w.timeline[i].NetworkPartition != nil && !survival.InFlight {
						t.Errorf("seed %d: what the lost region has sent is lost with it in\n%s", seed, w)
					}
				}
			}
		}
	}
	if lost < 10 {
		t.Errorf("%d regions are lost", lost)
	}
	replaced := 0
	Soak(t.Context(), Config{Engine: sdur.Engine, Runs: true}, Seeds{First: 1, Count: 60}, func(r *Result) {
		if replaced += r.Replaced; r.Replaced > 0 && r.Mended == 0 {
			t.Errorf("seed %d: %d nodes were replaced in no time", r.Seed, r.Replaced)
		}
	})
	if replaced < 5 {
		t.Errorf("%d nodes were replaced", replaced)
	}
}

// The invariants of the workloads also reveal faulty variants.
func TestInvariantsOfRunWorlds(t *testing.T) {
	i := slices.IndexFunc(broken.All(), func(d broken.Database) bool { return d.Name == "read-committed" })
	unsound := 0
	Soak(t.Context(), Config{Engine: broken.All()[i].Engine, Broken: true, Runs: true, OnePartition: true}, Seeds{First: 1, Count: 60}, func(r *Result) {
		if r.Has(Unsound) {
			unsound++
		}
	})
	if unsound < 5 {
		t.Errorf("invariants of %d of 60 worlds do not hold", unsound)
	}
}

// A failing scenario with a workload of runs can be shrunk like any other scenario: few transactions remain, and
// irrelevant faults are removed.
func TestShrinkRunWorld(t *testing.T) {
	c := configOf(t, "sdur-completed-at-first-vote", 0)
	c.Runs = true
	for c.Seed = 1; c.Seed < 400; c.Seed++ {
		w, err := newWorld(c)
		if err != nil || w.load.run == nil || Run(c).Anomaly == "" {
			continue
		}
		l := Shrink(t.Context(), c, 0)
		least, first := l.Sizes()
		if least.Transactions > 6 || least.Faults > 2 || first.Transactions < 20 {
			t.Errorf("%+v instead of %+v:\n%s", least, first, l)
		}
		if !strings.Contains(l.String(), "the workload "+w.load.run.Name()) || !strings.Contains(l.String(), " --runs ") {
			t.Errorf("it is not told what clients run, and how to replay it:\n%s", l)
		}
		return
	}
	t.Error("no seed fails")
}

// If a region or partition is removed from a scenario, the faults that target it are removed as well.
func TestTimelineOfFewerNodes(t *testing.T) {
	one := int32(1)
	w := &world{
		topology: &geo.Topology{Regions: []string{"a", "b"}, Partitions: 1, Replicas: 1},
		timeline: []v1alpha1.Fault{
			{Name: "kept", CPUStress: &v1alpha1.CPUStressFault{Target: v1alpha1.NodeTarget{Regions: []string{"a"}, Count: &one}}},
			{Name: "in c", CPUStress: &v1alpha1.CPUStressFault{Target: v1alpha1.NodeTarget{Regions: []string{"c"}}}},
			{Name: "partition 1", NodeShutdown: &v1alpha1.NodeShutdownFault{Target: v1alpha1.NodeTarget{Partitions: []int32{1}}}},
			{Name: "to c", NetworkDelay: &v1alpha1.NetworkDelayFault{Between: v1alpha1.RegionPair{From: []string{"a"}, To: []string{"c"}}}},
			{Name: "from c", NetworkLoss: &v1alpha1.NetworkLossFault{Between: v1alpha1.RegionPair{From: []string{"c"}}}},
			{Name: "off c", NetworkPartition: &v1alpha1.NetworkPartitionFault{From: v1alpha1.NodeTarget{Regions: []string{"a"}}, To: &v1alpha1.NodeTarget{Regions: []string{"c"}}}},
			{Name: "kept too", NetworkPartition: &v1alpha1.NetworkPartitionFault{From: v1alpha1.NodeTarget{Regions: []string{"b"}}}},
		},
	}
	w.keepTimeline()
	if len(w.timeline) != 2 || w.timeline[0].Name != "kept" || w.timeline[1].Name != "kept too" {
		t.Errorf("what is left: %v", w.timeline)
	}
	w.timeline[1].Duration = &v1alpha1.Duration{Duration: time.Second}
	if got, want := Describe(&w.timeline[1]), `networkPartition {"from":{"regions":["b"]}} for 1s`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
