package spanner_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/protocol/spanner"
)

var (
	// interactive requests rows one at a time.
	interactive = map[string]string{"interactive": "true"}
	// stale reads snapshots. The snapshots of the test suites are so recent that reads must wait for them.
	stale = map[string]string{"reads": "followerStale", "staleness": "1ms"}
)

// On every topology and network, the copies stay equal, the total balance is constant, and readers see a transaction
// completely or not at all. Every transaction is answered exactly once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	t.Run("hinted", func(t *testing.T) { protocoltest.Serializable(t, spanner.Engine, nil, 3) })
	t.Run("interactive", func(t *testing.T) { protocoltest.Serializable(t, spanner.Engine, interactive, 2) })
	t.Run("stale", func(t *testing.T) { protocoltest.Serializable(t, spanner.Engine, stale, 2) })
}

// Links between regions fail and recover at random.
func TestCuts(t *testing.T) {
	t.Run("hinted", func(t *testing.T) { protocoltest.Cuts(t, spanner.Engine, nil, 12) })
	t.Run("stale", func(t *testing.T) { protocoltest.Cuts(t, spanner.Engine, stale, 4) })
}

// Two runs with the same seed produce the same events.
func TestReproducible(t *testing.T) {
	protocoltest.Reproducible(t, spanner.Engine, nil)
	protocoltest.Reproducible(t, spanner.Engine, stale)
}

// On an unloaded system, the median latency of every class and region is within 5% of the latency model. The topologies
// have leaseholders in home regions and in other regions.
func TestLaw(t *testing.T) { protocoltest.Law(t, spanner.Engine, nil) }

// Transactions commit on small and asymmetric topologies, with several sets of parameters.
func TestShapes(t *testing.T) {
	protocoltest.Shapes(t, spanner.Engine, []map[string]string{nil, interactive, stale, {"election": "50ms", "clockBound": "1ms", "recovery": "100ms"}})
}

// Rows of groups are inserted, deleted and scanned. Transactions use rows whose keys depend on earlier reads.
func TestGroups(t *testing.T) {
	t.Run("hinted", func(t *testing.T) { protocoltest.Groups(t, spanner.Engine, nil) })
	t.Run("interactive", func(t *testing.T) { protocoltest.Groups(t, spanner.Engine, interactive) })
	t.Run("stale", func(t *testing.T) { protocoltest.Groups(t, spanner.Engine, stale) })
}
