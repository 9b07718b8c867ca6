package calvin_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
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

var orderings = []string{"leader", "consensus", "epochs"}

// Whatever the ordering and shape, the copies stay equal, no money is made or lost, and every transaction is answered
// once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	shapes := map[string]*geo.Topology{
		"2x1":   simload.TwoRegions(1),
		"2x3":   simload.TwoRegions(3),
		"3x2":   simload.ThreeRegions(2),
		"2x2x2": simload.Topology(2, 2, [][]float64{{0, 20}, {20, 0}}),
		"1x4":   simload.Topology(4, 1, [][]float64{{0}}),
	}
	for shape, topology := range shapes {
		for _, ordering := range append(orderings, "leader, 2") {
			ordering, copies, _ := strings.Cut(ordering, ", ")
			if copies == "" || len(topology.Regions) < 2 {
				copies = "1"
			}
			for seed := range uint64(3) {
				t.Run(fmt.Sprintf("%s/%s, %s/%d", shape, ordering, copies, seed), func(t *testing.T) {
					for _, row := range topology.Links {
						for c := range row {
							row[c].Jitter = row[c].Delay / 10
							row[c].LossPPM = int64(seed) * 2000
						}
					}
					s := sim.New(sim.Config{
						Topology: topology, Engine: calvin.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: seed,
						Params: protocoltest.Params(t, calvin.Engine, map[string]string{"ordering": ordering, "batchCopies": copies}),
						Costs:  sim.DefaultCosts, CheckCodec: seed != 2,
					})
					const rows, each = 100, 50
					simload.Fill(topology, rows, each, s.Store)
					var loads []*simload.Clients
					for r := range topology.Regions {
						loads = append(loads, simload.Add(s, geo.Region(r), seed, simload.Load{
							Clients: 30, Next: protocoltest.Transfers(rows), Until: 2 * time.Second,
						}))
					}
					s.Run(12 * time.Second)
					for _, l := range loads {
						if l.Open() > 0 || l.Sent() < 100 {
							t.Errorf("%d of %d transactions have no answer", l.Open(), l.Sent())
						}
						if l.Outcomes[txn.Committed] == 0 || l.Reasons["funds"] == 0 || l.Reasons["procedure-error"] == 0 {
							t.Errorf("outcomes %v, reasons %v: not all kinds occur", l.Outcomes, l.Reasons)
						}
					}
					if n := s.Pending(); n > 0 {
						t.Errorf("%d transactions are pending on a quiet system", n)
					}
					protocoltest.CheckCopies(t, s, topology.Full(), rows*each)
				})
			}
		}
	}
}

// Rows of groups are inserted, deleted and scanned. Transactions use rows whose keys depend on earlier reads.
func TestGroups(t *testing.T) {
	protocoltest.Groups(t, calvin.Engine, nil)
}

// Two runs with the same seed are the same, line by line.
func TestReproducible(t *testing.T) {
	for _, ordering := range orderings {
		t.Run(ordering, func(t *testing.T) {
			run := func(seed uint64) uint64 {
				topology := simload.ThreeRegions(2)
				for _, row := range topology.Links {
					for c := range row {
						row[c].Jitter, row[c].LossPPM = row[c].Delay/20, 1000
					}
				}
				h := fnv.New64a()
				s := sim.New(sim.Config{
					Topology: topology, Engine: calvin.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: seed,
					Params: protocoltest.Params(t, calvin.Engine, map[string]string{"ordering": ordering}), Costs: sim.DefaultCosts,
					ProbeEvery: 100 * time.Millisecond,
					Trace:      func(o sim.Observation) { fmt.Fprintln(h, o) },
				})
				simload.Fill(topology, 100, 50, s.Store)
				for r := range topology.Regions {
					simload.Add(s, geo.Region(r), seed, simload.Load{Clients: 20, Next: protocoltest.Transfers(100), Until: 2 * time.Second})
				}
				s.At(time.Second, func() { s.Cut(0, 1) })
				s.At(1500*time.Millisecond, func() { s.Heal(0, 1) })
				s.Run(5 * time.Second)
				return h.Sum64()
			}
			if a, b := run(1), run(1); a != b {
				t.Errorf("two runs with one seed differ: %x, %x", a, b)
			}
			if run(1) == run(2) {
				t.Error("the seed changes nothing")
			}
		})
	}
}

// The median latency of every region is the law's, within 5%, on an unloaded system.
func TestLaw(t *testing.T) {
	topologies := []struct {
		name string
		t    *geo.Topology
	}{
		{"2 regions", simload.TwoRegions(1)},
		{"3 regions", simload.ThreeRegions(2)},
		{"8 regions", simload.EightRegions(1)},
	}
	var table strings.Builder
	for _, topo := range topologies {
		for _, setting := range []struct {
			ordering string
			copies   int
		}{
			{"leader", 1}, {"consensus", 1}, {"epochs", 1}, {"leader", 2}, {"consensus", 2}, {"leader", 3},
		} {
			if setting.copies > len(topo.t.Regions) {
				continue
			}
			name := fmt.Sprintf("%s, %d", setting.ordering, setting.copies)
			t.Run(topo.name+"/"+name, func(t *testing.T) {
				p := protocoltest.Params(t, calvin.Engine, map[string]string{"ordering": setting.ordering, "batchCopies": fmt.Sprint(setting.copies)})
				s := sim.New(sim.Config{
					Topology: topo.t, Engine: calvin.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Params: p,
					Costs: sim.DefaultCosts, ProbeEvery: time.Second,
				})
				const rows = 10_000
				simload.Fill(topo.t, rows, 0, s.Store)
				var loads []*simload.Clients
				for r := range topo.t.Regions {
					loads = append(loads, simload.Add(s, geo.Region(r), 1, simload.Load{
						Clients: 3, From: 2 * time.Second, Until: 20 * time.Second,
						Next: func(r *rand.Rand) string {
							i := r.IntN(rows / 2)
							return fmt.Sprintf("a%d+1 a%d-1", i, i+rows/2)
						},
					}))
				}
				s.Run(22 * time.Second)
				for r, l := range loads {
					law := calvin.Engine.Law(topo.t, p, geo.Region(r), nil)
					got := l.Percentile(50)
					off := 100 * (float64(got)/float64(law) - 1)
					fmt.Fprintf(&table, "%-10s %-12s %-2s law %8.2fms measured %8.2fms %+5.1f%%\n", topo.name, name,
						topo.t.Regions[r], float64(law)/1e6, float64(got)/1e6, off)
					if off > 5 || off < -5 {
						t.Errorf("region %s: median %v, law %v: %+.1f%%", topo.t.Regions[r], got, law, off)
					}
				}
			})
		}
	}
	t.Logf("\n%s", &table)
}

// The log survives its leader, and copies survive the loss of a region, with ordering consensus.
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

// Links between regions break and come back at random.
func TestCuts(t *testing.T) {
	for _, ordering := range orderings {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%s/%d", ordering, seed), func(t *testing.T) {
				topology := simload.ThreeRegions(2)
				s := sim.New(sim.Config{
					Topology: topology, Engine: calvin.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: seed, Costs: sim.DefaultCosts,
					Params: protocoltest.Params(t, calvin.Engine, map[string]string{"ordering": ordering}),
				})
				const rows, each = 100, 50
				simload.Fill(topology, rows, each, s.Store)
				var loads []*simload.Clients
				for r := range topology.Regions {
					loads = append(loads, simload.Add(s, geo.Region(r), seed, simload.Load{
						Clients: 10, Next: protocoltest.Transfers(rows), Until: 10 * time.Second,
					}))
				}
				r := rand.New(rand.NewPCG(seed, 99))
				for range 6 {
					a := geo.Region(r.IntN(3))
					b := (a + 1 + geo.Region(r.IntN(2))) % 3
					from := time.Duration(r.Int64N(int64(8 * time.Second)))
					s.At(from, func() { s.Cut(a, b) })
					s.At(from+time.Duration(r.Int64N(int64(3*time.Second))), func() { s.Heal(a, b) })
				}
				s.At(12*time.Second, func() { s.Heal(0, 1); s.Heal(0, 2); s.Heal(1, 2) })
				s.Run(40 * time.Second)
				for r, l := range loads {
					if l.Open() > 0 || l.Outcomes[txn.Committed] < 50 {
						t.Errorf("region %d: %d of %d transactions have no answer, %v", r, l.Open(), l.Sent(), l.Outcomes)
					}
				}
				protocoltest.CheckCopies(t, s, topology.Full(), rows*each)
			})
		}
	}
}

// Edges of the parameters and of the topology.
func TestShapes(t *testing.T) {
	for name, tc := range map[string]struct {
		topology *geo.Topology
		params   map[string]string
	}{
		"no batching":                        {simload.TwoRegions(1), map[string]string{"batch": "0s"}},
		"no batching, consensus":             {simload.ThreeRegions(1), map[string]string{"batch": "0s", "ordering": "consensus"}},
		"shortest epochs":                    {simload.TwoRegions(1), map[string]string{"batch": "1ms", "ordering": "epochs"}},
		"long batches":                       {simload.TwoRegions(2), map[string]string{"batch": "500ms"}},
		"more partitions than a set tells":   {simload.TwoRegions(70), nil},
		"the same, in epochs":                {simload.TwoRegions(70), map[string]string{"ordering": "epochs", "batch": "50ms"}},
		"one node":                           {simload.Topology(1, 1, [][]float64{{0}}), nil},
		"one node, consensus":                {simload.Topology(1, 1, [][]float64{{0}}), map[string]string{"ordering": "consensus"}},
		"one node, epochs":                   {simload.Topology(1, 1, [][]float64{{0}}), map[string]string{"ordering": "epochs"}},
		"three copies in each of two places": {simload.Topology(2, 3, [][]float64{{0, 10}, {10, 0}}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := sim.New(sim.Config{
				Topology: tc.topology, Engine: calvin.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts,
				Params: protocoltest.Params(t, calvin.Engine, tc.params), CheckCodec: true,
			})
			const rows, each = 200, 50
			simload.Fill(tc.topology, rows, each, s.Store)
			var loads []*simload.Clients
			for r := range tc.topology.Regions {
				loads = append(loads, simload.Add(s, geo.Region(r), 1, simload.Load{
					Clients: 5, Next: protocoltest.Transfers(rows), Until: time.Second,
				}))
			}
			s.Run(3 * time.Second)
			for r, l := range loads {
				if l.Open() > 0 || l.Outcomes[txn.Committed] == 0 {
					t.Errorf("region %d: %d of %d transactions have no answer", r, l.Open(), l.Sent())
				}
			}
			protocoltest.CheckCopies(t, s, tc.topology.Full(), rows*each)
			if n := s.Pending(); n > 0 {
				t.Errorf("%d transactions are pending on a quiet system", n)
			}
		})
	}
}

// The loss of a region orphans batches whose data has arrived and whose log position was never requested. They become
// void, so nothing stays pending, and the other regions continue.
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
			// The requests for a place don't reach the leader; the data reaches the third region.
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

// Batches also become void when a region is merely disconnected from the leader for long. Its transactions then return
// in other batches: each is executed once, and answered.
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
// copies of their data in two regions no node stops: a node without the data fetches it from the other region.
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
		"one copy":                       {simload.ThreeRegions(1), "consensus", "1", false, "1 of 3 regions, but for what is on its way"},
		"two copies":                     {simload.ThreeRegions(1), "consensus", "2", false, "1 of 3 regions"},
		"two copies, a leader's log":     {five, "leader", "2", false, "1 of b, c, d, e"},
		"three copies, a leader's log":   {five, "leader", "3", false, "2 of b, c, d, e"},
		"three copies of five":           {five, "consensus", "3", false, "2 of 5 regions"},
		"as many copies as regions":      {simload.ThreeRegions(1), "consensus", "3", false, "no region"},
		"more copies than there are":     {simload.TwoRegions(1), "consensus", "3", true, ""},
		"one copy, as the papers had it": {simload.TwoRegions(1), "leader", "1", false, "b, but for what is on its way"},
	} {
		p := protocoltest.Params(t, calvin.Engine, map[string]string{"ordering": tc.ordering, "batchCopies": tc.copies})
		if err := calvin.Engine.Accepts(tc.topology, p); (err != nil) != tc.refused {
			t.Errorf("%s: %v", name, err)
		} else if got := calvin.Engine.Tolerance(tc.topology, p).Describe(tc.topology); err == nil && got != tc.survives {
			t.Errorf("%s: survives %q, want %q", name, got, tc.survives)
		}
	}
}
