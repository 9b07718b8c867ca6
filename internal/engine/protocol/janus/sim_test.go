package janus_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
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

func jitter(topology *geo.Topology, share time.Duration, lossPPM int64) *geo.Topology {
	for _, row := range topology.Links {
		for c := range row {
			row[c].Jitter, row[c].LossPPM = row[c].Delay/share, lossPPM
		}
	}
	return topology
}

// impatient makes nodes take over instances quickly, so that recoveries run concurrently with live coordinators.
var impatient = map[string]string{"patience": "10ms", "recovery": "100ms"}

// In every topology and network, the copies stay equal, the total balance is constant, and the history is strictly
// serializable. Every transaction is answered exactly once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	t.Run("default", func(t *testing.T) { protocoltest.Serializable(t, janus.Engine, nil, 3) })
	t.Run("impatient", func(t *testing.T) { protocoltest.Serializable(t, janus.Engine, impatient, 2) })
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

// Two runs with the same seed produce the same events.
func TestReproducible(t *testing.T) {
	protocoltest.Reproducible(t, janus.Engine, nil)
	protocoltest.Reproducible(t, janus.Engine, impatient)
}

// On an unloaded system, the median latency of every class and region matches the latency model within 5%.
func TestLaw(t *testing.T) { protocoltest.Law(t, janus.Engine, nil) }

// Without contention, at most one transaction in fifty takes the slow path.
func TestFastPathWithoutContention(t *testing.T) {
	topology := simload.ThreeRegions(2)
	s := sim.New(sim.Config{
		Topology: topology, Engine: janus.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts, Params: params(t, nil),
	})
	const rows = 30_000
	simload.Fill(topology, rows, 50, s.Store)
	for r := range topology.Regions {
		simload.Add(s, geo.Region(r), 1, simload.Load{Clients: 3, Until: 10 * time.Second, Next: func(r *rand.Rand) string {
			i := r.IntN(rows / 2)
			return fmt.Sprintf("a%d+1 a%d-1", i, i+rows/2)
		}})
	}
	s.Run(12 * time.Second)
	fast, slow := protocoltest.Counter(s, topology, "fast_path"), protocoltest.Counter(s, topology, "slow_path")
	if fast < 500 || slow*50 > fast {
		t.Errorf("%d of %d transactions took the slow path", slow, fast+slow)
	}
}

// When a region is lost, the other copies finish its instances and continue.
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
				Clients: 10, Next: protocoltest.Transfers(rows), Until: 8 * time.Second,
			}))
		}
		lost := geo.Region(seed % 3)
		at := time.Second + time.Duration(seed)*77*time.Millisecond
		if seed%2 == 1 { // some messages of the lost region have not reached all replicas
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
		t.Logf("seed %d: %d recoveries, %d no-ops", seed, protocoltest.Counter(s, topology, "recoveries"), protocoltest.Counter(s, topology, "noops"))
	}
}

// Decisions of a lost coordinator reach the replicas that were disconnected from it, even if no later instance needs
// them. The other replicas know the decisions, and in a quiescent system all replicas know every decision.
func TestLostCoordinatorsDecisionsReachAll(t *testing.T) {
	for seed := range uint64(12) {
		topology := jitter(fiveRegions(1+int(seed%3)), 10, int64(seed%2)*1000)
		s := sim.New(sim.Config{
			Topology: topology, Engine: janus.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: seed, Costs: sim.DefaultCosts,
			Params: params(t, map[string]string{"patience": "50ms"}), CheckCodec: true,
		})
		const rows, each = 100_000, 1 // few transactions conflict
		simload.Fill(topology, rows, each, s.Store)
		lost, away := geo.Region(seed%5), geo.Region((seed+1+seed/5)%5)
		simload.Add(s, lost, seed, simload.Load{Clients: 10, Next: protocoltest.Transfers(rows), Until: 2 * time.Second})
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
		executed := protocoltest.Counter(s, topology, "executed")
		t.Logf("seed %d: %d executed, quiet after %v", seed, executed, s.Now())
		if executed < 250 {
			t.Errorf("seed %d: only %d executions", seed, executed)
		}
	}
}

// A node that waits for the reads of a lost node is not quiescent, but the nodes of the other copies are. Drivers
// therefore omit such a node when they compare copies.
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

// checkEqual fails unless the live copies are equal.
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

// Links between regions break and recover at random. At the end, no node keeps records of instances.
func TestCuts(t *testing.T) {
	t.Run("default", func(t *testing.T) { protocoltest.Cuts(t, janus.Engine, nil, 4) })
	t.Run("impatient", func(t *testing.T) { protocoltest.Cuts(t, janus.Engine, impatient, 8) })
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
		simload.Add(s, geo.Region(r), 1, simload.Load{Clients: 30, Next: protocoltest.Transfers(1000), Until: 3 * time.Minute})
	}
	var most int64
	for at := 5 * time.Second; at <= 3*time.Minute; at += 5 * time.Second {
		s.Run(at)
		n := protocoltest.Counter(s, topology, "records") + protocoltest.Counter(s, topology, "keys")
		if at == 20*time.Second {
			most = n
		} else if at > 20*time.Second && n > 3*most {
			t.Fatalf("after %v the nodes keep %d records and keys, after 20 s %d", at, n, most)
		}
	}
	s.Run(4 * time.Minute)
	if n := protocoltest.Counter(s, topology, "records") + protocoltest.Counter(s, topology, "keys"); n > 0 {
		t.Errorf("%d records and keys are kept on a quiet system", n)
	}
	if executed := protocoltest.Counter(s, topology, "executed"); executed < 50_000 {
		t.Errorf("only %d executions", executed)
	}
}

// Edge cases of the parameters and of the topology.
func TestShapes(t *testing.T) {
	protocoltest.Shapes(t, janus.Engine, []map[string]string{nil, impatient})
}
