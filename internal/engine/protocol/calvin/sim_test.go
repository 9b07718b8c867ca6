package calvin_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol/calvin"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/sim"
)

// settings are the parameters of the test suites: each ordering, and copies of the batches' data in two regions.
var settings = map[string]map[string]string{
	"leader":       {"ordering": "leader"},
	"consensus":    {"ordering": "consensus"},
	"epochs":       {"ordering": "epochs"},
	"leader, 2":    {"ordering": "leader", "batchCopies": "2"},
	"consensus, 2": {"ordering": "consensus", "batchCopies": "2"},
}

// For every topology, network and ordering, the copies stay equal, the total balance is constant, and the history is
// strictly serializable. Every transaction is answered exactly once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	for name, given := range settings {
		t.Run(name, func(t *testing.T) { protocoltest.Serializable(t, calvin.Engine, given, 2) })
	}
}

// Rows of groups are inserted, deleted and scanned. Transactions use rows whose keys depend on earlier reads.
func TestGroups(t *testing.T) {
	protocoltest.Groups(t, calvin.Engine, nil)
}

// Two runs with the same seed produce identical traces.
func TestReproducible(t *testing.T) {
	for name, given := range settings {
		t.Run(name, func(t *testing.T) { protocoltest.Reproducible(t, calvin.Engine, given) })
	}
}

// On an unloaded system, the median latency of every class and region is within 5% of the latency model.
func TestLaw(t *testing.T) {
	for name, given := range settings {
		t.Run(name, func(t *testing.T) { protocoltest.Law(t, calvin.Engine, given) })
	}
}

// With ordering consensus, the log survives the loss of its leader, and the copies survive the loss of a region.
func TestRegionLost(t *testing.T) {
	for seed := range uint64(10) {
		topology := simload.ThreeRegions(2)
		s := sim.New(sim.Config{
			Topology: topology, Engine: calvin.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: seed, Costs: sim.DefaultCosts,
			Params: protocoltest.Params(t, calvin.Engine, map[string]string{"ordering": "consensus"}),
		})
		const rows, each = 100, 50
		simload.Fill(topology, rows, each, s.Store)
		var loads []*simload.Clients
		for r := range topology.Regions {
			loads = append(loads, simload.Add(s, geo.Region(r), seed, simload.Load{
				Clients: 10, Next: protocoltest.Transfers(rows), Until: 8 * time.Second,
			}))
		}
		lost := geo.Region(seed % 3)
		s.At(time.Second+time.Duration(seed)*77*time.Millisecond, func() {
			for p := range topology.Partitions {
				s.Crash(topology.Node(lost, p, 0))
			}
		})
		s.Run(20 * time.Second)
		var digests [][2]uint64
		for r, l := range loads {
			if l.Open() > 0 {
				t.Errorf("seed %d, region %d: %d of %d transactions have no answer", seed, r, l.Open(), l.Sent())
			}
			if geo.Region(r) == lost {
				if l.Outcomes[txn.Unknown] == 0 || l.Outcomes[txn.Refused] == 0 {
					t.Errorf("seed %d: clients of the lost region saw %v", seed, l.Outcomes)
				}
				continue
			}
			if l.Outcomes[txn.Unknown]+l.Outcomes[txn.Refused] > 0 || l.Outcomes[txn.Committed] < 100 {
				t.Errorf("seed %d, region %d: %v", seed, r, l.Outcomes)
			}
			digests = append(digests, [2]uint64{
				store.Digest(s.Store(topology.Node(geo.Region(r), 0, 0))), store.Digest(s.Store(topology.Node(geo.Region(r), 1, 0))),
			})
		}
		if digests[0] != digests[1] {
			t.Errorf("seed %d: the copies that are left differ", seed)
		}
		if s.Pending() != 0 {
			t.Errorf("seed %d: %d pending", seed, s.Pending())
		}
	}
}

// The database stays correct while links between regions fail and recover at random.
func TestCuts(t *testing.T) {
	for name, given := range settings {
		t.Run(name, func(t *testing.T) { protocoltest.Cuts(t, calvin.Engine, given, 4) })
	}
}

// The database works with extreme values of parameters and with topologies of unusual shape.
func TestShapes(t *testing.T) {
	t.Run("leader", func(t *testing.T) {
		protocoltest.Shapes(t, calvin.Engine, []map[string]string{nil, {"batch": "0s"}, {"batch": "500ms"}})
	})
	t.Run("consensus", func(t *testing.T) {
		protocoltest.Shapes(t, calvin.Engine, []map[string]string{{"ordering": "consensus"}, {"ordering": "consensus", "batch": "0s"}})
	})
	t.Run("epochs", func(t *testing.T) {
		protocoltest.Shapes(t, calvin.Engine, []map[string]string{{"ordering": "epochs", "batch": "50ms"}, {"ordering": "epochs", "batch": "1ms"}})
	})
}

// A lost region leaves batches whose data has arrived but whose log position was never requested. They become void, so
// nothing stays pending, and the other regions continue.
func TestAbandonedBatchesBecomeVoid(t *testing.T) {
	for _, ordering := range []string{"leader", "consensus"} {
		t.Run(ordering, func(t *testing.T) {
			topology := simload.ThreeRegions(2)
			s := sim.New(sim.Config{
				Topology: topology, Engine: calvin.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts, CheckCodec: true,
				Params: protocoltest.Params(t, calvin.Engine, map[string]string{"ordering": ordering}),
			})
			simload.Fill(topology, 40, 50, s.Store)
			var loads []*simload.Clients
			for r := range geo.Region(3) {
				loads = append(loads, simload.Add(s, r, 1, simload.Load{
					Clients: 20, Think: 30 * time.Millisecond, Next: protocoltest.Transfers(40), Until: 2 * time.Second,
				}))
			}
			// The position requests do not reach the leader, but the data reaches the third region.
			s.At(900*time.Millisecond, func() { s.Cut(0, 1) })
			s.At(time.Second, func() { s.Crash(2); s.Crash(3) })
			s.Run(4 * time.Second)
			if open := loads[0].Open() + loads[2].Open(); s.Pending() <= open {
				t.Errorf("%d are pending and %d have no answer: what was left behind does not count", s.Pending(), open)
			}
			s.Run(20 * time.Second)
			if n := s.Pending(); n > 0 || loads[0].Open()+loads[2].Open() > 0 {
				t.Errorf("%d transactions are pending, %d and %d have no answer", n, loads[0].Open(), loads[2].Open())
			}
			if protocoltest.Counter(s, topology, "void_batches") == 0 {
				t.Error("no batch became void")
			}
			for p := range geo.NodeID(2) {
				if store.Digest(s.Store(p)) != store.Digest(s.Store(4+p)) {
					t.Errorf("the copies of partition %d differ", p)
				}
			}
		})
	}
}

// Batches also become void when a region is disconnected from the leader for a long time. Their transactions are then
// ordered in later batches: each is executed and answered once.
func TestCutOffBatchesComeAgain(t *testing.T) {
	topology := simload.ThreeRegions(2)
	s := sim.New(sim.Config{
		Topology: topology, Engine: calvin.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts, CheckCodec: true,
		Params: protocoltest.Params(t, calvin.Engine, nil),
	})
	simload.Fill(topology, 40, 50, s.Store)
	var loads []*simload.Clients
	for r := range geo.Region(3) {
		loads = append(loads, simload.Add(s, r, 1, simload.Load{
			Clients: 5, Until: 20 * time.Second, Think: 10 * time.Millisecond,
			Next: func(r *rand.Rand) string { return fmt.Sprintf("a%d+1", r.IntN(40)) },
		}))
	}
	for _, at := range []time.Duration{time.Second, 14 * time.Second} {
		s.At(at, func() { s.Cut(0, 1) })
		s.At(at+11*time.Second, func() { s.Heal(0, 1) })
	}
	s.Run(60 * time.Second)
	committed := 0
	for r, l := range loads {
		committed += l.Outcomes[txn.Committed]
		if l.Open() > 0 || l.Outcomes[txn.Committed] != l.Sent() {
			t.Errorf("region %d: %d of %d transactions have no answer: %v", r, l.Open(), l.Sent(), l.Outcomes)
		}
	}
	if n := s.Pending(); n > 0 || protocoltest.Counter(s, topology, "void_batches") == 0 {
		t.Errorf("%d transactions are pending; batches became void: %d", n, protocoltest.Counter(s, topology, "void_batches"))
	}
	protocoltest.CheckCopies(t, s, topology.Full(), int64(40*50+committed))
}

// A region is lost while a cut link delays its messages to another region, including batches with a log position. With
// copies of batches in two regions no node stops: a node without the data fetches it from the other region.
func TestNothingIsLostOnItsWay(t *testing.T) {
	protocoltest.RegionLost(t, calvin.Engine, map[string]string{"ordering": "consensus", "batchCopies": "2"})
}

// Incompatible parameters are refused, and the number of copies determines the tolerance.
func TestCopies(t *testing.T) {
	if _, errs := calvin.Engine.Resolve(map[string]string{"ordering": "epochs", "batchCopies": "2"}); len(errs) != 1 || errs[0].Name != "batchCopies" {
		t.Errorf("copies with epochs: %v", errs)
	}
	five := simload.Topology(1, 1, [][]float64{{0, 9, 9, 9, 9}, {9, 0, 9, 9, 9}, {9, 9, 0, 9, 9}, {9, 9, 9, 0, 9}, {9, 9, 9, 9, 0}})
	for name, tc := range map[string]struct {
		topology         *geo.Topology
		ordering, copies string
		refused          bool
		survives         string
	}{
		"one copy":                       {simload.ThreeRegions(1), "consensus", "1", false, "1 of 3 regions, except for data in flight"},
		"two copies":                     {simload.ThreeRegions(1), "consensus", "2", false, "1 of 3 regions"},
		"two copies, a leader's log":     {five, "leader", "2", false, "1 of b, c, d, e"},
		"three copies, a leader's log":   {five, "leader", "3", false, "2 of b, c, d, e"},
		"three copies of five":           {five, "consensus", "3", false, "2 of 5 regions"},
		"as many copies as regions":      {simload.ThreeRegions(1), "consensus", "3", false, "no region"},
		"more copies than there are":     {simload.TwoRegions(1), "consensus", "3", true, ""},
		"one copy, as the papers had it": {simload.TwoRegions(1), "leader", "1", false, "b, except for data in flight"},
	} {
		p := protocoltest.Params(t, calvin.Engine, map[string]string{"ordering": tc.ordering, "batchCopies": tc.copies})
		if err := calvin.Engine.Accepts(tc.topology, p); (err != nil) != tc.refused {
			t.Errorf("%s: %v", name, err)
		} else if got := calvin.Engine.Tolerance(tc.topology, p).Describe(tc.topology); err == nil && got != tc.survives {
			t.Errorf("%s: survives %q, want %q", name, got, tc.survives)
		}
	}
}
