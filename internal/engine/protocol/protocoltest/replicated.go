package protocoltest

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

// RegionLost loses one of three regions under load, while one of the region's links is cut; each region is lost in some
// seeds. The messages of the lost region on the cut link are lost with it. The other regions continue, even with rows
// whose home is the lost region, and their copies are equal. The engine must tolerate the loss of a region with these
// parameters.
func RegionLost(t *testing.T, engine *protocol.Engine, given map[string]string) {
	for seed := range uint64(6) {
		topology := simload.ThreeRegions(2)
		p := Params(t, engine, given)
		mustAccept(t, engine, topology, p)
		s := sim.New(sim.Config{
			Topology: topology, Engine: engine, Figures: Figures(t), Procedures: simload.Procedures, Seed: seed, Costs: sim.DefaultCosts, Params: p, CheckCodec: true,
		})
		const rows, each = 96, 50
		simload.Fill(topology, rows, each, s.Store)
		var loads []*simload.Clients
		for r := range geo.Region(3) {
			loads = append(loads, simload.Add(s, r, seed, simload.Load{
				Clients: 10, Think: 50 * time.Millisecond, Next: Transfers(rows), Until: 12 * time.Second,
			}))
		}
		lost := geo.Region(seed % 3)
		held, other := (lost+1)%3, (lost+2)%3
		// Seeds 3 to 5 lose the same regions as seeds 0 to 2, but cut the other link.
		if seed > 2 {
			held, other = other, held
		}
		// The cut delays messages from lost to held, and the crash then discards them. Region other has received its
		// messages.
		s.At(time.Second, func() { s.Cut(min(lost, held), max(lost, held)) })
		s.At(1200*time.Millisecond, func() {
			for q := range topology.Partitions {
				s.Crash(topology.Node(lost, q, 0))
			}
		})
		s.Run(12 * time.Second)
		before := []int{loads[held].Outcomes[txn.Committed], loads[other].Outcomes[txn.Committed]}
		s.Run(30 * time.Second)
		// Clients of the lost region are not checked, because their outcomes are Unknown or Refused.
		for i, r := range []geo.Region{held, other} {
			if l := loads[r]; l.Open() > 0 || before[i] < 100 {
				t.Errorf("seed %d, region %d: %d of %d transactions have no answer, %d were committed: %v", seed, r, l.Open(), l.Sent(), before[i], l.Outcomes)
			}
		}
		for q := range topology.Partitions {
			a, b := topology.Node(held, q, 0), topology.Node(other, q, 0)
			if store.Digest(s.Store(a)) != store.Digest(s.Store(b)) {
				t.Errorf("seed %d: the copies of partition %d differ", seed, q)
			}
		}
		if n := s.Pending(); n > 0 {
			t.Errorf("seed %d: %d pending", seed, n)
		}
	}
}

// Settings in which consensus groups store the home logs, either in the home region or in several regions.
var (
	localLogs    = map[string]string{"homeLogs": "Local"}
	regionsLogs  = map[string]string{"homeLogs": "Regions"}
	regionsProof = map[string]string{"homeLogs": "Regions", "batchCopies": "2"}
)

// ReplicatedLogs checks the guarantees of an engine whose home logs can be stored by consensus groups, for every
// placement of the groups. It includes the loss of a region together with its messages in flight.
func ReplicatedLogs(t *testing.T, engine *protocol.Engine) {
	t.Run("serializable, local", func(t *testing.T) { Serializable(t, engine, localLogs, 2) })
	t.Run("serializable, regions", func(t *testing.T) { Serializable(t, engine, regionsProof, 2) })
	t.Run("cuts", func(t *testing.T) { Cuts(t, engine, regionsProof, 2) })
	t.Run("reproducible", func(t *testing.T) { Reproducible(t, engine, regionsProof) })
	t.Run("remastering", func(t *testing.T) { Remastering(t, engine, localLogs) })
	t.Run("a region is lost", func(t *testing.T) { RegionLost(t, engine, regionsProof) })
}

// ReplicatedLogsLaw compares latencies with the engine's latency model for each of these settings.
func ReplicatedLogsLaw(t *testing.T, engine *protocol.Engine) {
	t.Run("local", func(t *testing.T) { Law(t, engine, localLogs) })
	t.Run("local, two copies", func(t *testing.T) {
		Law(t, engine, map[string]string{"homeLogs": "Local", "batchCopies": "2"})
	})
	t.Run("regions", func(t *testing.T) { Law(t, engine, regionsLogs) })
	t.Run("regions, two copies", func(t *testing.T) { Law(t, engine, regionsProof) })
}

// ReplicatedLogsSurvive checks which losses of regions a database tolerates with given logs and copies. It also checks
// that incompatible parameters are refused.
func ReplicatedLogsSurvive(t *testing.T, engine *protocol.Engine) {
	far := func(regions int) *geo.Topology {
		delays := make([][]float64, regions)
		for a := range delays {
			delays[a] = make([]float64, regions)
			for b := range delays {
				delays[a][b] = 10 * math.Abs(float64(a-b))
			}
		}
		return simload.Topology(1, 1, delays)
	}
	for name, tc := range map[string]struct {
		regions            int
		homeLogs, copies   string
		refused, tolerates string
	}{
		"as the papers measured":      {3, "First", "1", "", "no region"},
		"in the region":               {3, "Local", "2", "", "no region"},
		"three members":               {4, "Regions", "1", "", "1 of 4 regions, except for data in flight"},
		"three members, two copies":   {3, "Regions", "2", "", "1 of 3 regions"},
		"five members":                {5, "Regions", "1", "", "2 of 5 regions, except for data in flight"},
		"five members, three copies":  {5, "Regions", "3", "", "2 of 5 regions"},
		"as many copies as regions":   {3, "Regions", "3", "", "no region"},
		"two regions":                 {2, "Regions", "1", "spec.regions", ""},
		"more copies than regions":    {2, "Local", "3", "spec.regions", ""},
		"copies of what one node has": {3, "First", "2", "batchCopies", ""},
	} {
		p, errs := engine.Resolve(map[string]string{"homeLogs": tc.homeLogs, "batchCopies": tc.copies})
		topology := far(tc.regions)
		var refused *protocol.TopologyError
		// Check errors in the parameters first, because the result of Accepts for invalid parameters has no meaning.
		switch err := engine.Accepts(topology, p); {
		case len(errs) > 0:
			if errs[0].Name != tc.refused {
				t.Errorf("%s: %v", name, errs[0])
			}
		case errors.As(err, &refused):
			if refused.Field != tc.refused {
				t.Errorf("%s: %v", name, err)
			}
		case engine.Tolerance(topology, p).Describe(topology) != tc.tolerates || tc.refused != "":
			t.Errorf("%s: survives %s, want %q, or a refusal of %q", name, engine.Tolerance(topology, p).Describe(topology), tc.tolerates, tc.refused)
		}
	}
	if _, errs := engine.Resolve(map[string]string{"homeLogs": "Regions", "replication": "homeOnly"}); len(errs) != 1 || errs[0].Name != "replication" {
		t.Errorf("logs that all read, and rows at home only: %v", errs)
	}
}
