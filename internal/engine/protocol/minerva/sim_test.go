package minerva_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/minerva"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

var (
	// measured sets the behavior of the authors' code where it differs from the paper.
	measured = map[string]string{"commit": "Proposed", "acrossEpochs": "Valid", "highContention": "Immediate", "solver": "Exact"}
	// snapshot answers reads immediately, from a snapshot.
	snapshot = map[string]string{"reads": "Snapshot", "solver": "Greedy", "highContention": "Off"}
)

// In every topology and network, the copies stay equal, the total balance is constant, and readers see either all of a
// transaction or nothing. Every transaction is answered exactly once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	t.Run("paper", func(t *testing.T) { protocoltest.Serializable(t, minerva.Engine, nil, 3) })
	t.Run("measured", func(t *testing.T) { protocoltest.Serializable(t, minerva.Engine, measured, 2) })
	t.Run("snapshot", func(t *testing.T) { protocoltest.Serializable(t, minerva.Engine, snapshot, 2) })
}

// Links between regions break and recover at random.
func TestCuts(t *testing.T) {
	t.Run("paper", func(t *testing.T) { protocoltest.Cuts(t, minerva.Engine, nil, 12) })
	t.Run("measured", func(t *testing.T) { protocoltest.Cuts(t, minerva.Engine, measured, 4) })
}

// Two runs with the same seed produce the same events.
func TestReproducible(t *testing.T) {
	protocoltest.Reproducible(t, minerva.Engine, nil)
	protocoltest.Reproducible(t, minerva.Engine, measured)
}

// On an unloaded system, the median latency of every class and region matches the latency model within 5%.
func TestLaw(t *testing.T) {
	t.Run("replicated", func(t *testing.T) { protocoltest.Law(t, minerva.Engine, nil) })
	t.Run("proposed", func(t *testing.T) {
		protocoltest.Law(t, minerva.Engine, map[string]string{"commit": "Proposed", "epoch": "2ms", "batchTimeout": "0s"})
	})
}

// Edge cases of the parameters and of the topology.
func TestShapes(t *testing.T) {
	protocoltest.Shapes(t, minerva.Engine, []map[string]string{
		nil, measured, snapshot, {"batchTimeout": "0s", "epoch": "1ms", "heartbeat": "50ms", "batchSize": "1000"},
	})
}

// Rows of groups are inserted, deleted and scanned. Transactions use rows whose keys depend on earlier reads.
func TestGroups(t *testing.T) {
	t.Run("paper", func(t *testing.T) { protocoltest.Groups(t, minerva.Engine, nil) })
	t.Run("measured", func(t *testing.T) { protocoltest.Groups(t, minerva.Engine, measured) })
	t.Run("snapshot", func(t *testing.T) { protocoltest.Groups(t, minerva.Engine, snapshot) })
}
