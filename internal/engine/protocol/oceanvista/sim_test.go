package oceanvista_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol/oceanvista"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/sim"
)

var (
	// snapshot answers local reads immediately, from a snapshot.
	snapshot = map[string]string{"reads": "Snapshot"}
	// hasty makes servers suspect live servers when links are cut.
	hasty = map[string]string{"failureTimeout": "100ms", "gossip": "20ms"}
)

// In every topology and network, the copies stay equal, the total balance is constant, and readers see either all of a
// transaction or nothing. Every transaction is answered exactly once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	t.Run("strict", func(t *testing.T) { protocoltest.Serializable(t, oceanvista.Engine, nil, 3) })
	t.Run("snapshot", func(t *testing.T) { protocoltest.Serializable(t, oceanvista.Engine, snapshot, 2) })
}

// Links between regions break and recover at random.
func TestCuts(t *testing.T) {
	t.Run("patient", func(t *testing.T) { protocoltest.Cuts(t, oceanvista.Engine, nil, 6) })
	t.Run("hasty", func(t *testing.T) { protocoltest.Cuts(t, oceanvista.Engine, hasty, 12) })
}

// Two runs with the same seed produce the same events.
func TestReproducible(t *testing.T) {
	protocoltest.Reproducible(t, oceanvista.Engine, nil)
	protocoltest.Reproducible(t, oceanvista.Engine, hasty)
}

// On an idle system, the median latency of every class and region matches the latency model within 5%. The system must
// be idle, because every S-phase holds back the watermark.
func TestLaw(t *testing.T) {
	t.Run("5ms", func(t *testing.T) { protocoltest.IdleLaw(t, oceanvista.Engine, nil) })
	t.Run("20ms", func(t *testing.T) { protocoltest.IdleLaw(t, oceanvista.Engine, map[string]string{"gossip": "20ms"}) })
}

// Edge cases of the parameters and of the topology.
func TestShapes(t *testing.T) {
	protocoltest.Shapes(t, oceanvista.Engine, []map[string]string{
		nil, snapshot, hasty, {"gossip": "1ms"}, {"gossip": "1s", "failureTimeout": "1m", "reconnaissances": "1"},
	})
}

// Rows of groups are inserted, deleted and scanned. Transactions use rows whose keys depend on earlier reads.
func TestGroups(t *testing.T) {
	t.Run("strict", func(t *testing.T) { protocoltest.Groups(t, oceanvista.Engine, nil) })
	t.Run("snapshot", func(t *testing.T) { protocoltest.Groups(t, oceanvista.Engine, snapshot) })
}

// Clocks jump back and forth, by up to an hour. The order of transactions stays correct, and transactions do not wait
// for long, because servers whose clocks are behind promise the watermarks that they receive.
func TestClocksJump(t *testing.T) {
	const rows, each, until = 40, 50, 10 * time.Second
	for seed := range uint64(4) {
		topology := simload.ThreeRegions(2)
		s := sim.New(sim.Config{
			Topology: topology, Engine: oceanvista.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: seed, Costs: sim.DefaultCosts,
			Params: protocoltest.Params(t, oceanvista.Engine, hasty),
		})
		simload.FillLayout(topology.Full(), rows, each, s.Store)
		var loads []*simload.Clients
		var audits []*protocoltest.Auditor
		for r := range topology.Regions {
			loads = append(loads, simload.Add(s, geo.Region(r), seed, simload.Load{Clients: 10, Next: protocoltest.Transfers(rows), Until: until}))
			audits = append(audits, protocoltest.AddAuditor(t, s, geo.Region(r), rows, rows*each, until))
		}
		r := rand.New(rand.NewPCG(seed, 7))
		for range 12 {
			n, by := geo.NodeID(r.IntN(topology.Nodes())), time.Hour>>r.IntN(22)
			if r.IntN(2) == 0 {
				by = -by
			}
			s.At(time.Duration(r.Int64N(int64(until))), func() { s.SetClock(n, by) })
		}
		s.Run(until + 10*time.Second)
		sum := int64(rows * each)
		for region, a := range audits {
			sum += int64(a.Seen)
			if a.Seen < 40 {
				t.Errorf("seed %d, region %d: %d audits in %v", seed, region, a.Seen, until)
			}
			if n := loads[region].Open(); n > 0 {
				t.Errorf("seed %d, region %d: %d transactions have no answer", seed, region, n)
			}
		}
		protocoltest.CheckCopies(t, s, topology.Full(), sum)
	}
}

// Under load, every server has S-phases in flight. Its watermark lags its clock by the time until a majority has stored
// a functor, plus the gossip interval. The latency depends on the later of two events: the server's own majority, and
// the watermark of the slowest other server.
func TestLoadedLaw(t *testing.T) {
	topology := simload.EightRegions(1)
	const gossip = 5 * time.Millisecond
	s := sim.New(sim.Config{
		Topology: topology, Engine: oceanvista.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts,
		Params: protocoltest.Params(t, oceanvista.Engine, nil),
	})
	const rows = 100_000
	simload.FillLayout(topology.Full(), rows, 0, s.Store)
	var loads []*simload.Clients
	for r := range topology.Regions {
		loads = append(loads, simload.Add(s, geo.Region(r), 1, simload.Load{
			Clients: 300, Think: 300 * time.Millisecond, From: 2 * time.Second, Until: 4 * time.Second,
			Next: func(r *rand.Rand) string { return fmt.Sprintf("a%d+1", r.IntN(rows)) },
		}))
	}
	s.Run(5 * time.Second)
	for c, l := range loads {
		want := time.Duration(0)
		for x := range topology.Regions {
			stable := quorum(topology, geo.Region(x))
			if x != c {
				stable += gossip/2 + topology.Links[x][c].Delay
			}
			want = max(want, stable)
		}
		want += topology.RTT(geo.Region(c), geo.Region(c))
		got := l.Percentile(50)
		t.Logf("region %d: idle %v, loaded law %v, measured %v", c, oceanvista.Engine.Law(topology, protocoltest.Params(t, oceanvista.Engine, nil), geo.Region(c), nil), want, got)
		if off := float64(got)/float64(want) - 1; off > 0.05 || off < -0.05 {
			t.Errorf("region %d: median %v, law %v: %+.1f%%", c, got, want, 100*off)
		}
	}
}

// quorum returns the round trip of a region to the nearest majority of all regions, which includes the region itself.
func quorum(topology *geo.Topology, from geo.Region) time.Duration {
	var round []time.Duration
	for r := range topology.Regions {
		if geo.Region(r) != from {
			round = append(round, topology.RTT(from, geo.Region(r)))
		}
	}
	slices.Sort(round)
	return round[len(topology.Regions)/2-1]
}
