package slog_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/locallog"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/protocol/slog"
	"github.com/geobench/geobench/internal/engine/sim"
)

// For every topology and network, the copies stay equal and the total balance is constant. A reader sees either all of
// a transaction's writes or none. Every transaction is answered exactly once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	protocoltest.Serializable(t, slog.Engine, nil, 4)
}

// The database stays correct while links between regions fail and recover at random.
func TestCuts(t *testing.T) {
	protocoltest.Cuts(t, slog.Engine, nil, 6)
}

// Rows of groups are inserted, deleted and scanned. Transactions use rows whose keys depend on earlier reads.
func TestGroups(t *testing.T) {
	protocoltest.Groups(t, slog.Engine, nil)
}

// Two runs with the same seed produce identical traces.
func TestReproducible(t *testing.T) {
	protocoltest.Reproducible(t, slog.Engine, nil)
}

// On an unloaded system, the median latency of every class and region is within 5% of the latency model.
func TestLaw(t *testing.T) {
	protocoltest.Law(t, slog.Engine, nil)
}

// The database works with extreme values of parameters and with topologies of unusual shape.
func TestShapes(t *testing.T) {
	protocoltest.Shapes(t, slog.Engine, []map[string]string{
		nil,
		{"batch": "0s", "forward": "0s", "multiHomeBatch": "0s"},
		{"batch": "200ms", "forward": "50ms", "multiHomeBatch": "100ms"},
	})
}

// The global order survives the loss of its leader if its log has three members, unless the remaining nodes need the
// lost node's data.
func TestOrdererLost(t *testing.T) {
	topology := simload.Topology(1, 3, [][]float64{{0, 20}, {20, 0}})
	s := sim.New(sim.Config{
		Topology: topology, Engine: slog.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts,
		Params: protocoltest.Params(t, slog.Engine, nil),
	})
	simload.Fill(topology, 100, 50, s.Store)
	load := simload.Add(s, 1, 1, simload.Load{
		Clients: 20, Until: 6 * time.Second,
		// Use rows whose home is region b: transactions on rows of region a stop with the first node of region a.
		Next: func(r *rand.Rand) string { return fmt.Sprintf("a%d+1", 1+2*r.IntN(50)) },
	})
	s.At(time.Second, func() { s.Crash(0) })
	s.Run(10 * time.Second)
	if load.Open() > 0 || load.Outcomes[txn.Committed] < 1000 {
		t.Errorf("%d of %d transactions have no answer: %v", load.Open(), load.Sent(), load.Outcomes)
	}
	term := int64(0)
	for _, c := range s.Readings(5) {
		if c.Name == "orderer_term" {
			term = c.Value
		}
	}
	if term < 2 {
		t.Errorf("the orderer's term is %d: nobody has followed its first leader", term)
	}
}

// A local transaction does not wait for other regions, even if they are unreachable.
func TestLocalWithoutOthers(t *testing.T) {
	topology := simload.TwoRegions(2)
	s := sim.New(sim.Config{
		Topology: topology, Engine: slog.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts,
		Params: protocoltest.Params(t, slog.Engine, nil),
	})
	simload.Fill(topology, 100, 50, s.Store)
	load := simload.Add(s, 1, 1, simload.Load{
		Clients: 5, Until: 2 * time.Second,
		Next: func(r *rand.Rand) string { n := 4*r.IntN(25) + 2; return fmt.Sprintf("a%d+1 a%d-1", n, n+1) },
	})
	s.At(0, func() { s.Cut(0, 1) })
	s.At(4*time.Second, func() { s.Heal(0, 1) })
	s.Run(3 * time.Second)
	if load.Open() > 0 || load.Outcomes[txn.Committed] < 500 {
		t.Errorf("%d of %d transactions have no answer: %v", load.Open(), load.Sent(), load.Outcomes)
	}
	s.Run(10 * time.Second)
	protocoltest.CheckCopies(t, s, topology.Full(), 100*50)
}

// Rows move to the regions that use them, and all guarantees still hold.
func TestRemastering(t *testing.T) {
	protocoltest.Remastering(t, slog.Engine, nil)
}

// A row that only one other region uses is soon remastered to that region.
func TestRemasteringPays(t *testing.T) {
	protocoltest.RemasteringPays(t, slog.Engine)
}

// With rows replicated only in their home region, all guarantees still hold, and latencies match the latency model.
func TestHomeOnly(t *testing.T) {
	protocoltest.HomeOnly(t, slog.Engine, nil)
}

func TestHomeOnlyLaw(t *testing.T) {
	protocoltest.Law(t, slog.Engine, map[string]string{"replication": "homeOnly"})
}

// Remastering is refused if rows are replicated only in their home region.
func TestHomeOnlyDoesNotRemaster(t *testing.T) {
	_, errs := slog.Engine.Resolve(map[string]string{"replication": "homeOnly", "remaster": "3"})
	if len(errs) != 1 || errs[0].Name != "remaster" {
		t.Errorf("homeOnly with remaster 3: %v", errs)
	}
}

// A read-only transaction, or a transaction without a key at its coordinator, does not wait for an answer from another
// home.
func TestHomeOnlyAnswers(t *testing.T) {
	protocoltest.HomeOnlyAnswers(t, slog.Engine)
}

// All guarantees hold if nodes look up the homes of another partition's rows at that partition.
func TestMasters(t *testing.T) {
	protocoltest.Masters(t, slog.Engine)
}

func TestMastersLaw(t *testing.T) {
	protocoltest.MastersLaw(t, slog.Engine, locallog.LookupLaw)
}

// Consensus groups replicate the home logs, within a region or across regions.
func TestReplicatedLogs(t *testing.T)        { protocoltest.ReplicatedLogs(t, slog.Engine) }
func TestReplicatedLogsLaw(t *testing.T)     { protocoltest.ReplicatedLogsLaw(t, slog.Engine) }
func TestReplicatedLogsSurvive(t *testing.T) { protocoltest.ReplicatedLogsSurvive(t, slog.Engine) }
