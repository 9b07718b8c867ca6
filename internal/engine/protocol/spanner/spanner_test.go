package spanner

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/sim"
)

// A lease needs time for its renewal. If the user has chosen only one of the two parameters, the error names that
// parameter.
func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		given map[string]string
		want  string
	}{
		"default":        {nil, ""},
		"at the limit":   {map[string]string{"clockBound": "750ms"}, ""},
		"too far":        {map[string]string{"clockBound": "751ms"}, "clockBound: 751ms leaves too little of a lease"},
		"too short":      {map[string]string{"election": "300ms"}, "election: 300ms is too short"},
		"both":           {map[string]string{"election": "300ms", "clockBound": "225ms"}, ""},
		"no staleness":   {map[string]string{"staleness": "0s"}, "staleness"},
		"unknown reads":  {map[string]string{"reads": "nearest"}, "reads"},
		"long recovery":  {map[string]string{"recovery": "11m"}, "recovery"},
		"short recovery": {map[string]string{"recovery": "100ms"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := Engine.Resolve(tc.given)
			got := ""
			for _, err := range errs {
				got += fmt.Sprintf("%s: %s\n", err.Name, err.Message)
			}
			if (tc.want == "") != (got == "") || !strings.HasPrefix(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// If the log entries that a member needs were discarded, the member receives a snapshot with rows and prepared
// transactions.
func TestSnapshots(t *testing.T) {
	for name, given := range map[string]map[string]string{"leader": nil, "stale": {"reads": readsFollowerStale, "staleness": "1ms"}} {
		t.Run(name, func(t *testing.T) {
			var replicas []*Replica
			forgetful := *Engine
			forgetful.New = func(c protocol.Config) protocol.Replica {
				r := newReplica(c, options{keep: 1})
				replicas = append(replicas, r)
				return r
			}
			protocoltest.Cuts(t, &forgetful, given, 6)
			var restored int64
			for _, r := range replicas {
				restored += r.counters.restored
			}
			if t.Logf("%d snapshots", restored); restored < 10 {
				t.Errorf("%d snapshots are few", restored)
			}
		})
	}
}

// An idle database stores only the outcomes of each coordinator's most recent transactions, and holds no locks.
func TestBoundedMemory(t *testing.T) {
	topology := simload.ThreeRegions(2)
	var replicas []*Replica
	e := *Engine
	e.New = func(c protocol.Config) protocol.Replica {
		r := newReplica(c, options{})
		replicas = append(replicas, r)
		return r
	}
	s := sim.New(sim.Config{
		Topology: topology, Engine: &e, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Params: protocoltest.Params(t, &e, nil), Costs: sim.DefaultCosts,
	})
	const rows = 5000
	simload.FillLayout(topology.Placed(), rows, 100, s.Store)
	next := func(r *rand.Rand) string { return fmt.Sprintf("a%d+1 a%d-1", r.IntN(rows/2), rows/2+r.IntN(rows/2)) }
	committed := 0
	var loads []*simload.Clients
	for r := range topology.Regions {
		loads = append(loads, simload.Add(s, geo.Region(r), 1, simload.Load{Clients: 30, Next: next, Until: 30 * time.Second}))
	}
	s.Run(time.Minute)
	for _, l := range loads {
		committed += l.Outcomes[txn.Committed]
	}
	remembered := 0
	for _, r := range replicas {
		if len(r.open) > 0 || r.Pending() > 0 {
			t.Errorf("node %d has %d transactions open and %d pending", r.self, len(r.open), r.Pending())
		}
		for _, g := range r.groups {
			if g == nil {
				continue
			}
			left := len(g.holders) + len(g.locks.units) + len(g.preparing) + len(g.queries) + len(g.recoveries) + len(g.snapshots)
			if left > 0 || len(g.prepared) > 0 || len(g.prevented) > 0 || !g.Idle() {
				t.Errorf("node %d, group %d: %+v", r.self, g.Shard, g.leaseholder)
			}
			remembered += g.ended.Len()
		}
	}
	t.Logf("%d transactions, of which the %d members remember %d", committed, 6*3, remembered)
	if committed < 3000 || remembered > 18*6*20 {
		t.Errorf("of %d transactions, %d are remembered", committed, remembered)
	}
}

func TestIsolation(t *testing.T) {
	for reads, want := range map[string]isolation.Level{readsLeader: isolation.StrictSerializable, readsFollowerStale: isolation.Serializable} {
		if got := Engine.Promises(protocoltest.Params(t, Engine, map[string]string{"reads": reads})); got != want {
			t.Errorf("reads %s promise %v, want %v", reads, got, want)
		}
	}
}

// The database tolerates the loss of regions whose members are a minority of every group.
func TestSurvives(t *testing.T) {
	in := func(members ...int) []geo.CellGroup { // partition 0 of the first region
		leader := geo.Region(0)
		for members[leader] == 0 {
			leader++
		}
		return []geo.CellGroup{{Replicas: members, Leader: leader}}
	}
	for name, tc := range map[string]struct {
		regions, replicas int
		groups            []geo.CellGroup
		want              string
	}{
		"one region":            {1, 3, nil, "[] 0"},
		"two regions":           {2, 1, nil, "[] 0"},
		"three regions":         {3, 1, nil, "[0 1 2] 1"},
		"three of three":        {3, 3, nil, "[0 1 2] 1"},
		"four regions":          {4, 1, nil, "[0 1 2 3] 1"},
		"five regions":          {5, 1, nil, "[0 1 2 3 4] 2"},
		"a group in one region": {3, 3, in(3, 0, 0), "[1 2] 1"},
		"most in one region":    {3, 3, in(3, 1, 1), "[1 2] 1"},
		"a group of one":        {5, 1, in(0, 0, 1, 0, 0), "[0 1 3 4] 2"},
		"a group in three":      {5, 1, in(1, 1, 1, 0, 0), "[0 1 2 3 4] 1"},
	} {
		t.Run(name, func(t *testing.T) {
			delays := make([][]float64, tc.regions)
			for i := range delays {
				delays[i] = make([]float64, tc.regions)
			}
			topology := simload.Topology(1, tc.replicas, delays)
			topology.Groups = tc.groups
			if err := topology.Validate(); err != nil {
				t.Fatal(err)
			}
			s := Engine.Tolerance(topology, protocoltest.Params(t, Engine, nil))
			if got := fmt.Sprint(s.Regions, " ", s.Most); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}
