package janus_test

import (
	"flag"
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
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/janus"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/sim"
)

var (
	seeds = flag.Uint64("seeds", 24, "the number of seeds of TestStrictlySerializable")
	first = flag.Uint64("first", 0, "the first of them")
)

func params(t testing.TB, given map[string]string) protocol.Params {
	t.Helper()
	p, errs := janus.Engine.Resolve(given)
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	return p
}

// transfers move money between rows, half of the time one of the first, contended rows. They also read some rows, and
// occasionally abort or fail. They keep the sum of all rows.
func transfers(rows, hot int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		row := func() int {
			if r.IntN(2) == 0 {
				return r.IntN(hot)
			}
			return r.IntN(rows)
		}
		var used []int
		fresh := func() int {
		again:
			n := row()
			for _, u := range used {
				if u == n {
					goto again
				}
			}
			used = append(used, n)
			return n
		}
		amount := 1 + r.IntN(20)
		switch r.IntN(10) {
		case 0:
			return fmt.Sprintf("r%d r%d r%d", fresh(), fresh(), fresh())
		case 1:
			return fmt.Sprintf("r%d", fresh())
		case 2:
			return fmt.Sprintf("x%d a%d+1", fresh(), fresh())
		case 3:
			return fmt.Sprintf("r%d s%d-%d a%d+%d", fresh(), fresh(), amount, fresh(), amount)
		case 4:
			return fmt.Sprintf("s%d-%d a%d+%d a%d+%d r%d", fresh(), 2*amount, fresh(), amount, fresh(), amount, fresh())
		default:
			return fmt.Sprintf("s%d-%d a%d+%d", fresh(), amount, fresh(), amount)
		}
	}
}

// checkCopies fails unless the living copies are equal and hold the sum.
func checkCopies(t *testing.T, s *sim.Sim, topology *geo.Topology, sum int64) {
	t.Helper()
	want := make([]uint64, topology.Partitions)
	first := true
	for r := range topology.Regions {
		for k := range topology.Replicas {
			var got int64
			if s.Node(topology.Node(geo.Region(r), 0, k)).Dead {
				continue
			}
			for p := range topology.Partitions {
				n := topology.Node(geo.Region(r), p, k)
				st := s.Store(n)
				if d := store.Digest(st); first {
					want[p] = d
				} else if d != want[p] {
					t.Errorf("partition %s differs from its copy in the first region", topology.NodeName(n))
				}
				got += simload.Sum(st)
			}
			first = false
			if got != sum {
				t.Errorf("copy %s/%d holds %d, want %d", topology.Regions[r], k, got, sum)
			}
		}
	}
}

// count sums up a counter over all nodes, or takes the largest for scc_max.
func count(s *sim.Sim, topology *geo.Topology, name string) (sum int64) {
	for n := range topology.Nodes() {
		for _, c := range s.Readings(geo.NodeID(n)) {
			if c.Name == name {
				if name == "scc_max" {
					sum = max(sum, c.Value)
				} else {
					sum += c.Value
				}
			}
		}
	}
	return sum
}

func jitter(topology *geo.Topology, share time.Duration, lossPPM int64) *geo.Topology {
	for _, row := range topology.Links {
		for c := range row {
			row[c].Jitter, row[c].LossPPM = row[c].Delay/share, lossPPM
		}
	}
	return topology
}

// Whatever the shape and however hot the rows, the copies stay equal, no money is made or lost, and every transaction
// is answered once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	shapes := map[string]func() *geo.Topology{
		"2x1":   func() *geo.Topology { return simload.TwoRegions(1) },
		"2x3":   func() *geo.Topology { return simload.TwoRegions(3) },
		"3x2":   func() *geo.Topology { return simload.ThreeRegions(2) },
		"5x2":   func() *geo.Topology { return fiveRegions(2) },
		"8x2":   func() *geo.Topology { return simload.EightRegions(2) },
		"2x2x2": func() *geo.Topology { return simload.Topology(2, 2, [][]float64{{0, 20}, {20, 0}}) },
		"1x4":   func() *geo.Topology { return simload.Topology(4, 1, [][]float64{{0}}) },
		"1x4x3": func() *geo.Topology { return simload.Topology(4, 3, [][]float64{{0}}) },
	}
	for shape, make := range shapes {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%s/%d", shape, seed), func(t *testing.T) {
				topology := jitter(make(), 10, int64(seed)*2000)
				s := sim.New(sim.Config{
					Topology: topology, Engine: janus.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: seed,
					Params: params(t, nil), Costs: sim.DefaultCosts, CheckCodec: seed != 2,
				})
				const rows, each = 100, 50
				simload.Fill(topology, rows, each, s.Store)
				length := 2 * time.Second
				if len(topology.Regions) == 1 {
					length = 400 * time.Millisecond // answers come fast
				}
				var loads []*simload.Clients
				for r := range topology.Regions {
					loads = append(loads, simload.Add(s, geo.Region(r), seed, simload.Load{
						Clients: 30, Next: transfers(rows, 2+2*int(seed)), Until: length,
					}))
				}
				s.Run(20 * time.Second)
				for _, l := range loads {
					if l.Open() > 0 || l.Sent() < 40 {
						t.Errorf("%d of %d transactions have no answer", l.Open(), l.Sent())
					}
					if l.Outcomes[txn.Committed] == 0 || l.Reasons["procedure-error"] == 0 {
						t.Errorf("outcomes %v, reasons %v: not all kinds occur", l.Outcomes, l.Reasons)
					}
				}
				t.Logf("%d fast, %d slow, %d recoveries, largest component %d", count(s, topology, "fast_path"),
					count(s, topology, "slow_path"), count(s, topology, "recoveries"), count(s, topology, "scc_max"))
				if n := s.Pending(); n > 0 {
					t.Errorf("%d transactions are pending on a quiet system", n)
				}
				if n, k := count(s, topology, "records"), count(s, topology, "keys"); n+k > 0 {
					t.Errorf("%d records and %d keys are kept on a quiet system", n, k)
				}
				checkCopies(t, s, topology, rows*each)
			})
		}
	}
}

func fiveRegions(partitions int) *geo.Topology {
	return simload.Topology(partitions, 1, [][]float64{
		{0, 30, 40, 70, 90},
		{30, 0, 20, 80, 100},
		{40, 20, 0, 60, 110},
		{70, 80, 60, 0, 35},
		{90, 100, 110, 35, 0},
	})
}

// Rows of groups are inserted, deleted and scanned. Transactions use rows whose keys depend on earlier reads.
func TestGroups(t *testing.T) {
	protocoltest.Groups(t, janus.Engine, nil)
}

// Two runs with the same seed are the same, line by line.
func TestReproducible(t *testing.T) {
	run := func(seed uint64) uint64 {
		topology := jitter(simload.ThreeRegions(2), 20, 1000)
		h := fnv.New64a()
		s := sim.New(sim.Config{
			Topology: topology, Engine: janus.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: seed,
			Params: params(t, nil), Costs: sim.DefaultCosts, ProbeEvery: 100 * time.Millisecond,
			Trace: func(o sim.Observation) { fmt.Fprintln(h, o) },
		})
		simload.Fill(topology, 100, 50, s.Store)
		for r := range topology.Regions {
			simload.Add(s, geo.Region(r), seed, simload.Load{Clients: 20, Next: transfers(100, 8), Until: 2 * time.Second})
		}
		s.At(time.Second, func() { s.Cut(0, 1) })
		s.At(1500*time.Millisecond, func() { s.Heal(0, 1) })
		s.At(1700*time.Millisecond, func() { s.Crash(4) })
		s.Run(8 * time.Second)
		return h.Sum64()
	}
	if a, b := run(1), run(1); a != b {
		t.Errorf("two runs with one seed differ: %x, %x", a, b)
	}
	if run(1) == run(2) {
		t.Error("the seed changes nothing")
	}
}

// The median latency of every region is the law's, within 5%, on an unloaded system, for every class.
func TestLaw(t *testing.T) {
	topologies := []struct {
		name string
		t    *geo.Topology
	}{
		{"2 regions", simload.TwoRegions(2)},
		{"3 regions", simload.ThreeRegions(2)},
		{"8 regions", simload.EightRegions(2)},
	}
	var table strings.Builder
	for _, topo := range topologies {
		for _, class := range []txn.Class{txn.SingleHomeSinglePartition, txn.SingleHomeMultiPartition,
			txn.MultiHomeSinglePartition, txn.MultiHomeMultiPartition} {
			t.Run(topo.name+"/"+class.String(), func(t *testing.T) {
				p := params(t, nil)
				s := sim.New(sim.Config{
					Topology: topo.t, Engine: janus.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Params: p,
					Costs: sim.DefaultCosts, ProbeEvery: time.Second,
				})
				rows := 5000 * 2 * len(topo.t.Regions)
				simload.Fill(topo.t, uint64(rows), 0, s.Store)
				place := topo.t.Placement()
				var loads []*simload.Clients
				for r := range topo.t.Regions {
					loads = append(loads, simload.Add(s, geo.Region(r), 1, simload.Load{
						Clients: 3, From: 2 * time.Second, Until: 20 * time.Second,
						Next: func(r *rand.Rand) string {
							for {
								i, j := r.IntN(rows), r.IntN(rows)
								a := []txn.Access{{Key: simload.Key(uint64(i))}, {Key: simload.Key(uint64(j))}}
								if i != j && place.Class(a) == class {
									return fmt.Sprintf("a%d+1 a%d-1", i, j)
								}
							}
						},
					}))
				}
				s.Run(22 * time.Second)
				for r, l := range loads {
					law := janus.Engine.Law(topo.t, p, geo.Region(r), nil)
					got := l.Percentile(50)
					off := 100 * (float64(got)/float64(law) - 1)
					fmt.Fprintf(&table, "%-10s %-6v %-2s law %8.2fms measured %8.2fms %+5.1f%%\n", topo.name, class,
						topo.t.Regions[r], float64(law)/1e6, float64(got)/1e6, off)
					if off > 5 || off < -5 {
						t.Errorf("region %s: median %v, law %v: %+.1f%%", topo.t.Regions[r], got, law, off)
					}
				}
				fast, slow := count(s, topo.t, "fast_path"), count(s, topo.t, "slow_path")
				if slow*50 > fast {
					t.Errorf("%d of %d transactions took the slow path on an uncontended system", slow, fast+slow)
				}
			})
		}
	}
	t.Logf("\n%s", &table)
}

// The other copies finish the instances of a lost region, and continue.
func TestRegionLost(t *testing.T) {
	for seed := range uint64(12) {
		topology := simload.ThreeRegions(2)
		if seed%3 == 1 {
			topology = fiveRegions(2)
		}
		s := sim.New(sim.Config{
			Topology: topology, Engine: janus.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: seed, Costs: sim.DefaultCosts,
			Params: params(t, nil), CheckCodec: true,
		})
		const rows, each = 100, 50
		simload.Fill(topology, rows, each, s.Store)
		var loads []*simload.Clients
		for r := range topology.Regions {
			loads = append(loads, simload.Add(s, geo.Region(r), seed, simload.Load{
				Clients: 10, Next: transfers(rows, 8), Until: 8 * time.Second,
			}))
		}
		lost := geo.Region(seed % 3)
		at := time.Second + time.Duration(seed)*77*time.Millisecond
		if seed%2 == 1 { // some of its messages have not reached all replicas
			s.At(at-30*time.Millisecond, func() { s.Cut(lost, (lost+1)%3) })
		}
		s.At(at, func() {
			for p := range topology.Partitions {
				s.Crash(topology.Node(lost, p, 0))
			}
		})
		s.Run(40 * time.Second)
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
			if l.Outcomes[txn.Unknown]+l.Outcomes[txn.Refused] > 0 || l.Outcomes[txn.Committed] < 50 {
				t.Errorf("seed %d, region %d: %v", seed, r, l.Outcomes)
			}
		}
		if s.Pending() != 0 {
			t.Errorf("seed %d: %d pending", seed, s.Pending())
		}
		checkEqual(t, s, topology, seed)
		t.Logf("seed %d: %d recoveries, %d no-ops", seed, count(s, topology, "recoveries"), count(s, topology, "noops"))
	}
}

// Decisions of a lost coordinator reach the replicas that were disconnected from it, although no later instance needs
// them. The other replicas know the decisions, and in a quiescent system all replicas know every decision.
func TestLostCoordinatorsDecisionsReachAll(t *testing.T) {
	for seed := range uint64(12) {
		topology := jitter(fiveRegions(1+int(seed%3)), 10, int64(seed%2)*1000)
		s := sim.New(sim.Config{
			Topology: topology, Engine: janus.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: seed, Costs: sim.DefaultCosts,
			Params: params(t, map[string]string{"patience": "50ms"}), CheckCodec: true,
		})
		const rows, each = 100_000, 1 // few transactions meet
		simload.Fill(topology, rows, each, s.Store)
		lost, away := geo.Region(seed%5), geo.Region((seed+1+seed/5)%5)
		simload.Add(s, lost, seed, simload.Load{Clients: 10, Next: transfers(rows, rows), Until: 2 * time.Second})
		s.At(500*time.Millisecond, func() { s.Cut(lost, away) })
		s.At(2500*time.Millisecond, func() {
			for p := range topology.Partitions {
				s.Crash(topology.Node(lost, p, 0))
			}
		})
		s.Run(2500 * time.Millisecond)
		if s.Pending() == 0 {
			t.Errorf("seed %d: nothing is pending when one region has not heard of many decisions", seed)
		}
		for s.Pending() > 0 && s.Now() < 30*time.Second {
			s.Run(s.Now() + 10*time.Millisecond)
		}
		checkEqual(t, s, topology, seed)
		if s.Pending() > 0 || s.Now() > 10*time.Second {
			t.Errorf("seed %d: %d pending after %v", seed, s.Pending(), s.Now())
		}
		executed := count(s, topology, "executed")
		t.Logf("seed %d: %d executed, quiet after %v", seed, executed, s.Now())
		if executed < 250 {
			t.Errorf("seed %d: only %d executions", seed, executed)
		}
	}
}

// A node that waits for the reads of a lost node is not quiescent, and the other copies are: drivers omit the node when
// they compare copies.
func TestHalfACopyIsNotQuiet(t *testing.T) {
	topology := simload.ThreeRegions(2)
	s := sim.New(sim.Config{
		Topology: topology, Engine: janus.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts, Params: params(t, nil),
	})
	simload.Fill(topology, 10, 50, s.Store)
	s.Crash(topology.Node(0, 1, 0))
	simload.Add(s, 1, 1, simload.Load{Clients: 1, Next: func(*rand.Rand) string { return "s0-1 a1+1" }, Until: time.Second})
	s.Run(30 * time.Second)
	for n := range geo.NodeID(topology.Nodes()) {
		pending := s.Node(n).Pending
		if waits := topology.RegionOf(n) == 0; !s.Node(n).Dead && waits != (pending > 0) {
			t.Errorf("node %s has %d pending", topology.NodeName(n), pending)
		}
	}
}

// checkEqual compares the living copies.
func checkEqual(t *testing.T, s *sim.Sim, topology *geo.Topology, seed uint64) {
	t.Helper()
	for p := range topology.Partitions {
		digests := map[uint64]bool{}
		for r := range topology.Regions {
			if n := topology.Node(geo.Region(r), p, 0); !s.Node(n).Dead {
				digests[store.Digest(s.Store(n))] = true
			}
		}
		if len(digests) > 1 {
			t.Errorf("seed %d: the copies that are left differ in partition %d", seed, p)
		}
	}
}

// Links between regions break and come back at random.
func TestCuts(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			topology := simload.ThreeRegions(2)
			if seed%3 == 2 {
				topology = fiveRegions(2)
			}
			s := sim.New(sim.Config{
				Topology: topology, Engine: janus.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: seed, Costs: sim.DefaultCosts,
				Params: params(t, map[string]string{"patience": "100ms", "recovery": "300ms"}),
			})
			const rows, each = 100, 50
			simload.Fill(topology, rows, each, s.Store)
			var loads []*simload.Clients
			for r := range topology.Regions {
				loads = append(loads, simload.Add(s, geo.Region(r), seed, simload.Load{
					Clients: 10, Next: transfers(rows, 8), Until: 10 * time.Second,
				}))
			}
			r := rand.New(rand.NewPCG(seed, 99))
			regions := len(topology.Regions)
			for range 6 {
				a := r.IntN(regions)
				b := (a + 1 + r.IntN(regions-1)) % regions
				from := time.Duration(r.Int64N(int64(8 * time.Second)))
				s.At(from, func() { s.Cut(geo.Region(a), geo.Region(b)) })
				s.At(from+time.Duration(r.Int64N(int64(3*time.Second))), func() { s.Heal(geo.Region(a), geo.Region(b)) })
			}
			s.At(12*time.Second, func() {
				for a := range regions {
					for b := range a {
						s.Heal(geo.Region(a), geo.Region(b))
					}
				}
			})
			s.Run(60 * time.Second)
			for r, l := range loads {
				if l.Open() > 0 || l.Outcomes[txn.Committed] < 20 {
					t.Errorf("region %d: %d of %d transactions have no answer, %v", r, l.Open(), l.Sent(), l.Outcomes)
				}
			}
			checkCopies(t, s, topology, rows*each)
			if n := s.Pending(); n > 0 {
				t.Errorf("%d transactions are pending on a quiet system", n)
			}
			if n, k := count(s, topology, "records"), count(s, topology, "keys"); n+k > 0 {
				t.Errorf("%d records and %d keys are kept on a quiet system", n, k)
			}
			t.Logf("%d recoveries, %d no-ops, %d restarts, %d slow, scc max %d", count(s, topology, "recoveries"),
				count(s, topology, "noops"), count(s, topology, "restarts"), count(s, topology, "slow_path"), count(s, topology, "scc_max"))
		})
	}
}

// A node's memory does not grow with time.
func TestBoundedMemory(t *testing.T) {
	topology := jitter(simload.ThreeRegions(2), 10, 0)
	s := sim.New(sim.Config{
		Topology: topology, Engine: janus.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts,
		Params: params(t, nil),
	})
	simload.Fill(topology, 1000, 50, s.Store)
	for r := range topology.Regions {
		simload.Add(s, geo.Region(r), 1, simload.Load{Clients: 30, Next: transfers(1000, 20), Until: 3 * time.Minute})
	}
	var most int64
	for at := 5 * time.Second; at <= 3*time.Minute; at += 5 * time.Second {
		s.Run(at)
		n := count(s, topology, "records") + count(s, topology, "keys")
		if at == 20*time.Second {
			most = n
		} else if at > 20*time.Second && n > 3*most {
			t.Fatalf("after %v the nodes keep %d records and keys, after 20 s %d", at, n, most)
		}
	}
	s.Run(4 * time.Minute)
	if n := count(s, topology, "records") + count(s, topology, "keys"); n > 0 {
		t.Errorf("%d records and keys are kept on a quiet system", n)
	}
	if executed := count(s, topology, "executed"); executed < 50_000 {
		t.Errorf("only %d executions", executed)
	}
}

// Edges of the parameters and of the topology.
func TestShapes(t *testing.T) {
	for name, tc := range map[string]struct {
		topology *geo.Topology
		params   map[string]string
	}{
		"no patience":                        {simload.ThreeRegions(2), map[string]string{"patience": "10ms", "recovery": "100ms"}},
		"many partitions":                    {simload.TwoRegions(70), nil},
		"one node":                           {simload.Topology(1, 1, [][]float64{{0}}), nil},
		"three copies in each of two places": {simload.Topology(2, 3, [][]float64{{0, 10}, {10, 0}}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := sim.New(sim.Config{
				Topology: tc.topology, Engine: janus.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts,
				Params: params(t, tc.params), CheckCodec: true,
			})
			const rows, each = 200, 50
			simload.Fill(tc.topology, rows, each, s.Store)
			var loads []*simload.Clients
			for r := range tc.topology.Regions {
				loads = append(loads, simload.Add(s, geo.Region(r), 1, simload.Load{
					Clients: 5, Next: transfers(rows, 8), Until: time.Second,
				}))
			}
			s.Run(6 * time.Second)
			for r, l := range loads {
				if l.Open() > 0 || l.Outcomes[txn.Committed] == 0 {
					t.Errorf("region %d: %d of %d transactions have no answer", r, l.Open(), l.Sent())
				}
			}
			checkCopies(t, s, tc.topology, rows*each)
			if n := s.Pending(); n > 0 {
				t.Errorf("%d transactions are pending on a quiet system", n)
			}
		})
	}
}
