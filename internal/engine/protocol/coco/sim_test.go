package coco_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/coco"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/sim"
	"github.com/geobench/geobench/internal/run/explore"
)

var (
	// measured selects the behavior of the authors' code where it differs from the paper.
	measured = map[string]string{"retry": "Node"}
	// physical validates reads as Silo does.
	physical = map[string]string{"f": "0", "concurrency": "Physical"}
	// home keeps each row in its home region only.
	home = map[string]string{"f": "0", "copies": "Majority", "interactive": "true"}
)

// For every topology and network, the copies stay equal and the total balance is constant. A reader sees either all of
// a transaction's writes or none. Every transaction is answered exactly once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	t.Run("default", func(t *testing.T) { protocoltest.Serializable(t, coco.Engine, nil, 3) })
	t.Run("measured", func(t *testing.T) { protocoltest.Serializable(t, coco.Engine, measured, 2) })
	t.Run("physical", func(t *testing.T) { protocoltest.Serializable(t, coco.Engine, physical, 2) })
	t.Run("home", func(t *testing.T) { protocoltest.Serializable(t, coco.Engine, home, 1) })
}

// The database stays correct while links between regions fail and recover at random.
func TestCuts(t *testing.T) {
	t.Run("default", func(t *testing.T) { protocoltest.Cuts(t, coco.Engine, nil, 12) })
	t.Run("measured", func(t *testing.T) { protocoltest.Cuts(t, coco.Engine, measured, 4) })
}

// Two runs with the same seed produce identical traces.
func TestReproducible(t *testing.T) {
	protocoltest.Reproducible(t, coco.Engine, nil)
	protocoltest.Reproducible(t, coco.Engine, measured)
}

// On an unloaded system, the median latency of every class and region is within 5% of the latency model. The load must
// be light, because each transaction prolongs the epoch for all others.
func TestLaw(t *testing.T) {
	t.Run("default", func(t *testing.T) { protocoltest.LoneLaw(t, coco.Engine, nil) })
	t.Run("physical", func(t *testing.T) {
		protocoltest.LoneLaw(t, coco.Engine, map[string]string{"concurrency": "Physical", "epoch": "40ms"})
	})
	t.Run("interactive", func(t *testing.T) { protocoltest.LoneLaw(t, coco.Engine, map[string]string{"interactive": "true"}) })
}

// The database works with extreme values of parameters and with topologies of unusual shape.
func TestShapes(t *testing.T) {
	protocoltest.Shapes(t, coco.Engine, []map[string]string{
		nil, measured, physical, home, {"f": "1", "copies": "Majority", "epoch": "1ms", "heartbeat": "50ms"},
	})
}

// Rows of groups are inserted, deleted and scanned. Transactions use rows whose keys depend on earlier reads.
func TestGroups(t *testing.T) {
	t.Run("default", func(t *testing.T) { protocoltest.Groups(t, coco.Engine, nil) })
	t.Run("measured", func(t *testing.T) { protocoltest.Groups(t, coco.Engine, measured) })
	t.Run("physical", func(t *testing.T) { protocoltest.Groups(t, coco.Engine, physical) })
	t.Run("home", func(t *testing.T) { protocoltest.Groups(t, coco.Engine, home) })
}

// A coordinator that restarts with its log has received no messages for a while. It does not omit nodes for that
// reason.
func TestCoordinatorStoodStill(t *testing.T) {
	topology := simload.TwoRegions(1)
	p := protocoltest.Params(t, coco.Engine, map[string]string{"f": "0"})
	s := sim.New(sim.Config{Topology: topology, Engine: coco.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Params: p, Durable: true})
	simload.FillLayout(coco.Engine.Layout(topology, p), 4, 10, s.Store)
	s.At(5*time.Second, func() { s.Crash(0) })
	s.At(9*time.Second, func() { s.Restart(0) })
	s.Run(9 * time.Second)
	before := protocoltest.Counter(s, topology, "epochs")
	s.Run(15 * time.Second)
	for _, name := range []string{"exclusions", "epochs_aborted"} {
		if n := protocoltest.Counter(s, topology, name); n != 0 {
			t.Errorf("%s: %d, want none", name, n)
		}
	}
	if after := protocoltest.Counter(s, topology, "epochs"); after == before {
		t.Errorf("no epoch was committed after the coordinator had started again: %d", after)
	}
}

// Two transactions of different regions that write the same rows do not conflict indefinitely. Slow disks may make an
// epoch longer than all backoffs of a few round trips. If both backoffs ended in that epoch, both transactions would
// start together in the next one and conflict again.
func TestConflictsEndWhereEpochsAreLong(t *testing.T) {
	topology := simload.Topology(1, 1, [][]float64{{0, 0.5}, {0.5, 0}})
	p := protocoltest.Params(t, coco.Engine, measured)
	for seed := range uint64(10) {
		s := sim.New(sim.Config{Topology: topology, Engine: coco.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: seed, Params: p})
		simload.FillLayout(coco.Engine.Layout(topology, p), 2, 10, s.Store)
		var loads []*simload.Clients
		for r := range topology.Regions {
			s.HoldOutput(geo.NodeID(r), 50*time.Millisecond, 100)
			loads = append(loads, simload.Add(s, geo.Region(r), seed, simload.Load{
				Clients: 1, Next: func(*rand.Rand) string { return "a0+1 a1+1" }, Until: 100 * time.Millisecond,
			}))
		}
		s.Run(time.Minute)
		if open := loads[0].Open() + loads[1].Open(); open > 0 {
			t.Errorf("seed %d: %d have no answer after a minute and %d attempts", seed, open, protocoltest.Counter(s, topology, "retries"))
		}
	}
}

// manyPieces makes transfers to new incarnations use pieces of a few bytes. It counts votes of nodes that still wait
// for rows.
type manyPieces struct {
	protocol.Env
	has   bool
	votes *int
}

func (e *manyPieces) Buggify(p *buggify.Point) bool {
	return p.Name == "statetransfer.small-pieces" || e.Env.Buggify(p)
}

func (e *manyPieces) Send(to geo.NodeID, m protocol.Message) {
	switch m.(type) {
	case *coco.Ready:
		e.has = true
	case *coco.Vote:
		if !e.has {
			*e.votes++
		}
	}
	e.Env.Send(to, m)
}

// Lost nodes are replaced while epochs continue and write the same rows that are being transferred.
func TestReplacedInManyPieces(t *testing.T) {
	votes := 0
	e := coco.Engine.Variant("coco", func(c protocol.Config) protocol.Replica {
		c.Env = &manyPieces{c.Env, c.Incarnation == 0, &votes}
		return coco.Engine.New(c)
	})
	sum := explore.Soak(t.Context(), explore.Config{Engine: e, Replace: true, Invariants: true}, explore.Seeds{First: 1, Count: 40}, func(r *explore.Result) {
		if !r.Passed() {
			t.Error(r)
		}
	})
	if t.Logf("%v, %d votes without rows", &sum, votes); sum.Replaced < 30 || votes < 10 {
		t.Errorf("%d nodes were replaced, and have voted %d times without their rows", sum.Replaced, votes)
	}
}
