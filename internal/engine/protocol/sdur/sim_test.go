package sdur_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/protocol/sdur"
)

var (
	// interactive requests rows one at a time.
	interactive = map[string]string{"interactive": "true"}
	// certified makes read-only transactions strictly serializable, too.
	certified = map[string]string{"readOnly": "certified"}
	// reordered lets local transactions leap over global ones, and delays the submission of a global transaction to the
	// nearest group.
	reordered = map[string]string{"reorderThreshold": "8", "tick": "5ms", "delay": "20ms", "readOnly": "certified"}
	// small has so few and so small filters that false positives and old snapshots also abort transactions.
	small = map[string]string{"history": "64", "filterBits": "64"}
)

// On every topology and network, the copies stay equal, the total balance is constant, and readers see a transaction
// completely or not at all. Every transaction is answered exactly once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	t.Run("hinted", func(t *testing.T) { protocoltest.Serializable(t, sdur.Engine, nil, 3) })
	t.Run("interactive", func(t *testing.T) { protocoltest.Serializable(t, sdur.Engine, interactive, 1) })
	t.Run("certified", func(t *testing.T) { protocoltest.Serializable(t, sdur.Engine, certified, 1) })
	t.Run("reordered", func(t *testing.T) { protocoltest.Serializable(t, sdur.Engine, reordered, 2) })
}

// Links between regions fail and recover at random.
func TestCuts(t *testing.T) {
	t.Run("hinted", func(t *testing.T) { protocoltest.Cuts(t, sdur.Engine, nil, 12) })
	t.Run("reordered", func(t *testing.T) { protocoltest.Cuts(t, sdur.Engine, reordered, 4) })
}

// Two runs with the same seed produce the same events.
func TestReproducible(t *testing.T) {
	protocoltest.Reproducible(t, sdur.Engine, nil)
	protocoltest.Reproducible(t, sdur.Engine, reordered)
}

// The median latency of every class and region matches the latency model within 5%, on an unloaded system. The
// topologies have leaders in home regions and in other regions. One case delays submissions, as in the paper.
// Transactions wait for each other even without common rows, so the load is sparse.
func TestLaw(t *testing.T) {
	t.Run("default", func(t *testing.T) { protocoltest.SparseLaw(t, sdur.Engine, nil) })
	t.Run("delayed", func(t *testing.T) { protocoltest.SparseLaw(t, sdur.Engine, map[string]string{"delay": "40ms"}) })
}

// Transactions commit on small and asymmetric topologies, with several sets of parameters.
func TestShapes(t *testing.T) {
	protocoltest.Shapes(t, sdur.Engine, []map[string]string{nil, interactive, certified, reordered, small, {"election": "50ms", "recovery": "100ms"}})
}

// Rows of groups are inserted, deleted and scanned. Transactions use rows whose keys depend on earlier reads.
func TestGroups(t *testing.T) {
	t.Run("hinted", func(t *testing.T) { protocoltest.Groups(t, sdur.Engine, nil) })
	t.Run("interactive", func(t *testing.T) { protocoltest.Groups(t, sdur.Engine, interactive) })
	t.Run("certified", func(t *testing.T) { protocoltest.Groups(t, sdur.Engine, certified) })
	t.Run("reordered", func(t *testing.T) { protocoltest.Groups(t, sdur.Engine, reordered) })
}
