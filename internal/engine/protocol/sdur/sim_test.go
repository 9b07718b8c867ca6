package sdur_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/protocol/sdur"
)

var (
	// interactive requests rows one at a time.
	interactive = map[string]string{"interactive": "true"}
	// certified promises strict serializability of transactions that only read, too.
	certified = map[string]string{"readOnly": "certified"}
	// reordered lets local transactions leap over global ones, and delays the nearest submission of a global transaction.
	reordered = map[string]string{"reorderThreshold": "8", "tick": "5ms", "delay": "20ms", "readOnly": "certified"}
	// small keeps so few and so small filters that transactions are aborted for these reasons, too.
	small = map[string]string{"history": "64", "filterBits": "64"}
)

// For every topology and network, the copies stay equal, the sum of all money is constant, and readers see all of a
// transaction or nothing. Every transaction is answered exactly once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	t.Run("hinted", func(t *testing.T) { protocoltest.Serializable(t, sdur.Engine, nil, 3) })
	t.Run("interactive", func(t *testing.T) { protocoltest.Serializable(t, sdur.Engine, interactive, 1) })
	t.Run("certified", func(t *testing.T) { protocoltest.Serializable(t, sdur.Engine, certified, 1) })
	t.Run("reordered", func(t *testing.T) { protocoltest.Serializable(t, sdur.Engine, reordered, 2) })
}

// Links between regions break and come back at random.
func TestCuts(t *testing.T) {
	t.Run("hinted", func(t *testing.T) { protocoltest.Cuts(t, sdur.Engine, nil, 12) })
	t.Run("reordered", func(t *testing.T) { protocoltest.Cuts(t, sdur.Engine, reordered, 4) })
}

// Two runs with the same seed are the same, line by line.
func TestReproducible(t *testing.T) {
	protocoltest.Reproducible(t, sdur.Engine, nil)
	protocoltest.Reproducible(t, sdur.Engine, reordered)
}

// The median latency of every class and region matches the latency model within 5%, on an unloaded system. The test has
// leaders at home and elsewhere, and includes the paper's additions for a loaded system. A transaction waits for others
// even without common rows, so the load is sparse.
func TestLaw(t *testing.T) {
	t.Run("default", func(t *testing.T) { protocoltest.SparseLaw(t, sdur.Engine, nil) })
	t.Run("delayed", func(t *testing.T) { protocoltest.SparseLaw(t, sdur.Engine, map[string]string{"delay": "40ms"}) })
}

// Edges of the parameters and of the topology.
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
