package detock_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/locallog"
	"github.com/geobench/geobench/internal/engine/protocol/detock"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/sim"
)

// arrivalOrder is Detock without opportunistic ordering.
var arrivalOrder = map[string]string{"opportunistic": "false"}

// For every topology and network, the copies stay equal and the total balance is constant. A reader sees either all of
// a transaction's writes or none. Every transaction is answered exactly once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	t.Run("opportunistic", func(t *testing.T) { protocoltest.Serializable(t, detock.Engine, nil, 4) })
	t.Run("arrival order", func(t *testing.T) { protocoltest.Serializable(t, detock.Engine, arrivalOrder, 4) })
	t.Run("a core for the resolver", func(t *testing.T) { protocoltest.Serializable(t, detock.Engine, ownCore, 1) })
}

// ownCore is Detock with a separate core for the resolver.
var ownCore = map[string]string{"resolverCore": "own"}

// If steps of the resolver take long, a separate core for the resolver leaves the node's core to transactions. If steps
// take no time, both variants commit about the same number of transactions.
func TestResolverCore(t *testing.T) {
	const rows, each = 2400, 1000
	run := func(given map[string]string, step time.Duration) (committed int64) {
		topology, costs := simload.TwoRegions(2), sim.DefaultCosts
		costs.Step = step
		p := protocoltest.Params(t, detock.Engine, given)
		s := sim.New(sim.Config{Topology: topology, Engine: detock.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: costs, Params: p})
		simload.Fill(topology, rows, each, s.Store)
		var loads []*simload.Clients
		for r := range topology.Regions {
			loads = append(loads, simload.Add(s, geo.Region(r), 1, simload.Load{Clients: 200, From: time.Second, Until: 3 * time.Second, Next: protocoltest.Transfers(rows)}))
		}
		s.Run(time.Minute)
		protocoltest.CheckCopies(t, s, detock.Engine.Layout(topology, p), rows*each)
		if s.Pending() != 0 || protocoltest.Counter(s, topology, "deadlocks_resolved") == 0 {
			t.Errorf("%v: %d pending, %d deadlocks resolved", given, s.Pending(), protocoltest.Counter(s, topology, "deadlocks_resolved"))
		}
		for _, l := range loads {
			committed += int64(l.Outcomes[txn.Committed])
		}
		return committed
	}
	shared, own := run(nil, 50*time.Microsecond), run(ownCore, 50*time.Microsecond)
	idle, ownIdle := run(nil, 0), run(ownCore, 0)
	t.Logf("with steps of 50 us %d and %d, without %d and %d", shared, own, idle, ownIdle)
	if own*10 < shared*12 {
		t.Errorf("%d committed with a core of its own, %d with a shared one", own, shared)
	}
	if diff := ownIdle - idle; diff*50 > idle || diff*50 < -idle {
		t.Errorf("%d and %d committed where steps take no time", idle, ownIdle)
	}
}

// The database stays correct while links between regions fail and recover at random.
func TestCuts(t *testing.T) {
	t.Run("opportunistic", func(t *testing.T) { protocoltest.Cuts(t, detock.Engine, nil, 6) })
	t.Run("arrival order", func(t *testing.T) { protocoltest.Cuts(t, detock.Engine, arrivalOrder, 6) })
}

// Rows of groups are inserted, deleted and scanned. Transactions use rows whose keys depend on earlier reads.
func TestGroups(t *testing.T) {
	protocoltest.Groups(t, detock.Engine, nil)
}

// Two runs with the same seed produce identical traces.
func TestReproducible(t *testing.T) {
	t.Run("opportunistic", func(t *testing.T) { protocoltest.Reproducible(t, detock.Engine, nil) })
	t.Run("arrival order", func(t *testing.T) { protocoltest.Reproducible(t, detock.Engine, arrivalOrder) })
}

// On an unloaded system, the median latency of every class and region is within 5% of the latency model.
func TestLaw(t *testing.T) {
	t.Run("opportunistic", func(t *testing.T) { protocoltest.Law(t, detock.Engine, nil) })
	t.Run("arrival order", func(t *testing.T) { protocoltest.Law(t, detock.Engine, arrivalOrder) })
}

// The database works with extreme values of parameters and with topologies of unusual shape.
func TestShapes(t *testing.T) {
	protocoltest.Shapes(t, detock.Engine, []map[string]string{
		nil,
		arrivalOrder,
		{"batch": "0s", "forward": "0s", "resolver": "1ms", "opportunistic": "false"},
		{"batch": "200ms", "forward": "50ms", "resolver": "500ms"},
	})
}

// With contended rows, opportunistic ordering avoids most deadlocks, and all copies resolve the same deadlocks.
func TestHotRows(t *testing.T) {
	for name, topology := range map[string]*geo.Topology{
		"2x1": simload.TwoRegions(1),
		"3x2": simload.ThreeRegions(2),
		"8x1": simload.EightRegions(1),
	} {
		t.Run(name, func(t *testing.T) {
			run := func(given map[string]string) (resolved, committed int64) {
				s := sim.New(sim.Config{
					Topology: topology, Engine: detock.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts,
					Params: protocoltest.Params(t, detock.Engine, given),
				})
				const rows, each = 24, 1000
				simload.Fill(topology, rows, each, s.Store)
				var loads []*simload.Clients
				for r := range topology.Regions {
					loads = append(loads, simload.Add(s, geo.Region(r), 1, simload.Load{
						Clients: 20, From: time.Second, Until: 8 * time.Second,
						Next: func(r *rand.Rand) string {
							p := r.Perm(rows)
							return fmt.Sprintf("s%d-1 a%d+1", p[0], p[1])
						},
					}))
				}
				s.Run(30 * time.Second)
				for r, l := range loads {
					committed += int64(l.Outcomes[txn.Committed])
					if l.Open() > 0 {
						t.Errorf("region %d: %d of %d transactions have no answer", r, l.Open(), l.Sent())
					}
				}
				protocoltest.CheckCopies(t, s, topology.Full(), rows*each)
				var first [2]int64
				for r := range topology.Regions {
					var found [2]int64
					for _, c := range s.Readings(locallog.First(topology, geo.Region(r))) {
						switch c.Name {
						case "deadlocks_resolved":
							found[0] = c.Value
						case "deadlocked":
							found[1] = c.Value
						}
					}
					if r == 0 {
						first = found
					} else if found != first {
						t.Errorf("region %d has resolved %d deadlocks of %d transactions, the first region %d of %d",
							r, found[0], found[1], first[0], first[1])
					}
				}
				return first[0], committed
			}
			with, committedWith := run(nil)
			without, committedWithout := run(arrivalOrder)
			t.Logf("deadlocks with opportunistic ordering %d, without %d; committed %d, %d", with, without, committedWith, committedWithout)
			if without < 20 || with*5 > without {
				t.Errorf("%d deadlocks with opportunistic ordering, %d without", with, without)
			}
		})
	}
}

// All guarantees hold while rows are remastered to the regions that use them.
func TestRemastering(t *testing.T) {
	protocoltest.Remastering(t, detock.Engine, nil)
}

// A row that only one other region uses is soon remastered to that region.
func TestRemasteringPays(t *testing.T) {
	protocoltest.RemasteringPays(t, detock.Engine)
}

// All guarantees hold while rows are remastered and transactions deadlock.
func TestRemasteringWithDeadlocks(t *testing.T) {
	protocoltest.Remastering(t, detock.Engine, map[string]string{"opportunistic": "false"})
}

// All guarantees hold if only the home region keeps a row, and latencies match the latency model.
func TestHomeOnly(t *testing.T) {
	protocoltest.HomeOnly(t, detock.Engine, nil)
}

func TestHomeOnlyLaw(t *testing.T) {
	protocoltest.Law(t, detock.Engine, map[string]string{"replication": "homeOnly"})
}

// Home-only replication does not support remastering.
func TestHomeOnlyDoesNotRemaster(t *testing.T) {
	_, errs := detock.Engine.Resolve(map[string]string{"replication": "homeOnly", "remaster": "3"})
	if len(errs) != 1 || errs[0].Name != "remaster" {
		t.Errorf("homeOnly with remaster 3: %v", errs)
	}
}

// Deadlocks that span several regions are resolved by one node for all regions.
func TestHomeOnlyWithDeadlocks(t *testing.T) {
	protocoltest.HomeOnly(t, detock.Engine, map[string]string{"opportunistic": "false"})
	protocoltest.Law(t, detock.Engine, map[string]string{"replication": "homeOnly", "opportunistic": "false"})
}

// A transaction that only reads, or has no key at its coordinator, does not wait for another home to answer.
func TestHomeOnlyAnswers(t *testing.T) {
	protocoltest.HomeOnlyAnswers(t, detock.Engine)
}

// All guarantees hold when nodes ask other partitions for the homes of rows.
func TestMasters(t *testing.T) {
	protocoltest.Masters(t, detock.Engine)
}

func TestMastersLaw(t *testing.T) {
	protocoltest.MastersLaw(t, detock.Engine, locallog.LookupLaw)
}

// Consensus groups replicate the home logs, within their region or across regions.
func TestReplicatedLogs(t *testing.T)        { protocoltest.ReplicatedLogs(t, detock.Engine) }
func TestReplicatedLogsLaw(t *testing.T)     { protocoltest.ReplicatedLogsLaw(t, detock.Engine) }
func TestReplicatedLogsSurvive(t *testing.T) { protocoltest.ReplicatedLogsSurvive(t, detock.Engine) }
