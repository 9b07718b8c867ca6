package primary_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/primary"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/sim"
	"github.com/geobench/geobench/internal/run/explore"
)

// only returns the engine with a single value of a parameter, so that all scenarios use this value.
func only(parameter, value string) *protocol.Engine {
	e := *primary.Engine
	e.Parameters = with(e.Parameters, parameter, value)
	return &e
}

// with returns the parameters, with one of them limited to a single value.
func with(all []protocol.Parameter, parameter, value string) []protocol.Parameter {
	all = slices.Clone(all)
	i := slices.IndexFunc(all, func(p protocol.Parameter) bool { return p.Name == parameter })
	all[i].Default, all[i].OneOf = value, []string{value}
	return all
}

// Each read mode provides its isolation level and no stronger level: the checker finds two transactions that rule out
// the stronger level.
func TestLevels(t *testing.T) {
	for reads, tc := range map[string]struct {
		level    isolation.Level
		stronger isolation.Level // 0 for none
	}{
		"Eventual": {isolation.Serializable, isolation.SessionSerializable},
		"Session":  {isolation.SessionSerializable, isolation.StrictSerializable},
		"Global":   {isolation.StrictSerializable, 0},
	} {
		t.Run(reads, func(t *testing.T) {
			e := only("reads", reads)
			if got := e.Promises(protocoltest.Params(t, e, nil)); got != tc.level {
				t.Errorf("promises %v, want %v", got, tc.level)
			}
			refused, smallest := 0, ""
			for seed := range uint64(60) {
				if r := explore.Run(explore.Config{Engine: e, Seed: 1 + seed}); !r.Passed() {
					t.Errorf("is not %v: %v", tc.level, r)
				}
				if tc.stronger == 0 {
					continue
				}
				if r := explore.Run(explore.Config{Engine: e, Seed: 1 + seed, Level: tc.stronger}); !r.Passed() {
					refused++
					if s := r.String(); strings.Contains(s, "these 2 transactions") && smallest == "" {
						smallest = s
					}
				}
			}
			if tc.stronger != 0 && smallest == "" {
				t.Errorf("%d of 60 histories are not %v, none of them for the sake of two transactions", refused, tc.stronger)
			}
			t.Logf("%d of 60 histories are not %v, for example\n%s", refused, tc.stronger, smallest)
		})
	}
}

// failingOver runs transfers on three regions, disconnects the first region for a while, and fails over to the second.
// It returns the number of lost transactions. Each region has one node, or three nodes if the storage ships the log.
func failingOver(t *testing.T, engine *protocol.Engine, kind, shippedBy string) (lost int64) {
	topology := simload.ThreeRegions(1)
	if shippedBy == "Storage" {
		topology = simload.ThreeRegions(3)
	}
	p := protocoltest.Params(t, engine, map[string]string{"failover": kind, "failoverAt": "1s", "shippedBy": shippedBy})
	s := sim.New(sim.Config{Topology: topology, Engine: engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Params: p, Costs: sim.DefaultCosts})
	layout := engine.Layout(topology, p)
	simload.FillLayout(layout, 300, 100, s.Store)
	for r := range topology.Regions {
		simload.Add(s, geo.Region(r), 1, simload.Load{Clients: 4, Think: 5 * time.Millisecond, Until: 3 * time.Second, Next: protocoltest.Transfers(300)})
	}
	s.At(800*time.Millisecond, func() { s.Cut(0, 1); s.Cut(0, 2) })
	s.At(2*time.Second, func() { s.Heal(0, 1); s.Heal(0, 2) })
	s.Run(time.Minute)
	protocoltest.CheckCopies(t, s, layout, 300*100)
	count := func(name string) int64 { return protocoltest.Counter(s, topology, name) }
	next := topology.Node(1, 0, 0)
	at := func(n geo.NodeID, name string) int64 { return protocoltest.CounterOf(s, n, name) }
	// beyond is the number of the first writer's entries after the entry at which the next writer's log starts.
	if beyond := at(topology.Node(0, 0, 0), "commits") - (at(next, "entries_applied") - at(next, "commits")); count("lost_transactions") != beyond {
		t.Errorf("%d lost, want %d", count("lost_transactions"), beyond)
	}
	if count("failovers") != 1 || !slices.Contains(s.Roles(next), primary.RoleWriter) {
		t.Errorf("%d failovers, and the roles of the next region's node are %v", count("failovers"), s.Roles(next))
	}
	if s.Pending() != 0 {
		t.Errorf("%d are pending", s.Pending())
	}
	return count("lost_transactions")
}

// A managed failover waits for a cut link and loses nothing. An unplanned failover continues without the writer's
// region, and reports the number of lost transactions. In both cases, the copies are equal at the end.
func TestFailover(t *testing.T) {
	lost := int64(0)
	for _, shippedBy := range []string{"Storage", "Writer"} {
		if lost := failingOver(t, primary.Engine, "Managed", shippedBy); lost != 0 {
			t.Errorf("the managed failover has lost %d, shipped by %s", lost, shippedBy)
		}
		lost = failingOver(t, primary.Engine, "Unplanned", shippedBy)
		if lost == 0 {
			t.Errorf("the unplanned failover has lost nothing, and shows nothing, shipped by %s", shippedBy)
		}
	}
	t.Logf("the unplanned failover has lost %d", lost)
}

// An unplanned failover loses transactions that were answered, so its histories have no isolation level, and the
// checker reports that. The explorer therefore refuses such parameters.
func TestUnplannedShows(t *testing.T) {
	e := only("failover", "Unplanned")
	r := explore.Run(explore.Config{Engine: e, Seed: 1})
	if r.Passed() || !strings.Contains(r.String(), "may lose what it has answered") {
		t.Errorf("is explored: %v", r)
	}
	e.Loses = nil
	wrong := 0
	for seed := range uint64(60) {
		if r := explore.Run(explore.Config{Engine: e, Seed: 1 + seed}); r.Anomaly != "" {
			if wrong == 0 {
				t.Logf("%v", r)
			}
			wrong++
		}
	}
	if wrong == 0 {
		t.Error("no history shows that committed writes have vanished")
	}
	t.Logf("%d of 60 histories are wrong", wrong)
}

// These scenarios have found defects. In the first, a transaction at the old writer was missing in its region's
// session. In the second, a transaction that waited at the next writer read uncommitted rows. In the third, a
// transaction that the old writer had committed was sent to the next writer twice. The next writer executed it, because
// its answer was still waiting for the log.
func TestRegressions(t *testing.T) {
	for _, seed := range []uint64{304, 634, 6582} {
		if r := explore.Run(explore.Config{Engine: primary.Engine, Seed: seed, Hostile: true}); !r.Passed() {
			t.Errorf("%v", r)
		}
	}
}

// This scenario with lost nodes has found a defect. An instance learned of the next writer from nodes other than its
// feeder, and did not pass the announcement on.
func TestRegressionsOfLosses(t *testing.T) {
	if r := explore.Run(explore.Config{Engine: primary.Engine, Seed: 7045, Replace: true}); !r.Passed() {
		t.Errorf("%v", r)
	}
}
