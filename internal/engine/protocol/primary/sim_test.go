package primary_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol/primary"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/sim"
)

var (
	eventual   = map[string]string{"reads": "Eventual", "primary": "1", "overhead": "1"}
	session    = map[string]string{"reads": "Session"}
	procedures = map[string]string{"reads": "Session", "forward": "Procedures"}
	// measured sets the behavior of Aurora with reads: Global, as measured in the paper.
	measured = map[string]string{"barrier": "Statement", "barrierRoundTrips": "2"}
	managed  = map[string]string{"failover": "Managed", "failoverAt": "500ms"}
	// instances sets up an Aurora database: an instance in each region, with the region's other nodes as its storage.
	instances = map[string]string{"reads": "Eventual", "readers": "Instance", "shippedBy": "Storage"}
)

// each runs a test with several sets of parameters.
func each(t *testing.T, sets map[string]map[string]string, test func(t *testing.T, given map[string]string)) {
	for name, given := range sets {
		t.Run(name, func(t *testing.T) { test(t, given) })
	}
}

// In every topology and network, the copies stay equal, the total balance is constant, and readers see either all of a
// transaction or nothing. Every transaction is answered exactly once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	each(t, map[string]map[string]string{"global": nil, "procedures": procedures}, func(t *testing.T, given map[string]string) {
		protocoltest.Serializable(t, primary.Engine, given, 1)
	})
}

// Links between regions break and recover at random.
func TestCuts(t *testing.T) {
	each(t, map[string]map[string]string{"procedures": procedures, "managed": managed}, func(t *testing.T, given map[string]string) {
		protocoltest.Cuts(t, primary.Engine, given, 1)
	})
}

// Two runs with the same seed produce the same events.
func TestReproducible(t *testing.T) {
	each(t, map[string]map[string]string{"procedures": procedures, "managed": managed}, func(t *testing.T, given map[string]string) {
		protocoltest.Reproducible(t, primary.Engine, given)
	})
}

// On an unloaded system, the median latency of every class and region matches the latency model within 5%.
func TestLaw(t *testing.T) {
	for name, given := range map[string]map[string]string{
		"global": nil, "eventual": {"reads": "Eventual"}, "session": session, "procedures": procedures, "measured": measured,
		"first statement begins": {"reads": "Eventual", "overhead": "1"},
		"another primary":        {"primary": "1"},
	} {
		t.Run(name, func(t *testing.T) { protocoltest.LoneNodeLaw(t, primary.Engine, given) })
	}
}

// One of the three nodes in each region is the writer, or handles the region's sessions. The latency model is the mean
// over the nodes.
func TestLawOfStorage(t *testing.T) {
	for name, given := range map[string]map[string]string{"global": nil, "session": session, "procedures": procedures, "instances": instances} {
		t.Run(name, func(t *testing.T) {
			topology := simload.Topology(1, 3, [][]float64{{0, 5, 10}, {5, 0, 7}, {10, 7, 0}})
			p := protocoltest.Params(t, primary.Engine, given)
			s := sim.New(sim.Config{Topology: topology, Engine: primary.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Params: p, Costs: sim.DefaultCosts})
			simload.FillLayout(primary.Engine.Layout(topology, p), 9000, 0, s.Store)
			var loads []*simload.Clients
			for c := range topology.Regions {
				loads = append(loads, simload.Add(s, geo.Region(c), 1, simload.Load{
					Clients: 3, Think: 50 * time.Millisecond, From: 3 * time.Second, Until: 20 * time.Second,
					Next: func(r *rand.Rand) string { return fmt.Sprintf("a%d+1", r.IntN(9000)) },
				}))
			}
			s.Run(22 * time.Second)
			for c, l := range loads {
				law := primary.Engine.Law(topology, p, geo.Region(c), []geo.Region{0})
				got := (l.Percentile(17) + 2*l.Percentile(67)) / 3 // median of the fastest third, and twice the median of the other two thirds
				if off := 100 * (float64(got)/float64(law) - 1); off > 5 || off < -5 {
					t.Errorf("region %d: mean %v, law %v: %+.1f%%", c, got, law, off)
				}
			}
		})
	}
}

// Edge cases of the parameters and of the topology.
func TestShapes(t *testing.T) {
	protocoltest.Shapes(t, primary.Engine, []map[string]string{
		nil, {"reads": "Eventual"}, session, procedures, measured, instances, {"shipping": "0s", "reconnect": "50ms", "overhead": "1"},
	})
}

// Rows of groups are inserted, deleted and scanned. Transactions use rows whose keys depend on earlier reads.
func TestGroups(t *testing.T) {
	each(t, map[string]map[string]string{"global": nil, "eventual": eventual, "session": session, "managed": managed}, func(t *testing.T, given map[string]string) {
		protocoltest.Groups(t, primary.Engine, given)
	})
}
