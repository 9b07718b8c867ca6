package geogauss_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/geogauss"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

var (
	// shipped is the behavior of the authors' code: no acknowledgements, and read committed.
	shipped = map[string]string{"acks": "None", "isolation": "ReadCommitted"}
	none    = map[string]string{"acks": "None"}
	all     = map[string]string{"acks": "All", "epoch": "3ms"}
)

// For every topology and network, the copies stay equal and the total balance is constant. A reader sees either all of
// a transaction's writes or none. Every transaction is answered exactly once: the simulator panics on a second answer.
func TestSnapshotIsolation(t *testing.T) {
	t.Run("majority", func(t *testing.T) { protocoltest.Serializable(t, geogauss.Engine, nil, 3) })
	t.Run("none", func(t *testing.T) { protocoltest.Serializable(t, geogauss.Engine, none, 2) })
	t.Run("all", func(t *testing.T) { protocoltest.Serializable(t, geogauss.Engine, all, 2) })
}

// The database stays correct while links between regions fail and recover at random.
func TestCuts(t *testing.T) {
	t.Run("majority", func(t *testing.T) { protocoltest.Cuts(t, geogauss.Engine, nil, 12) })
	t.Run("none", func(t *testing.T) { protocoltest.Cuts(t, geogauss.Engine, none, 4) })
	t.Run("all", func(t *testing.T) { protocoltest.Cuts(t, geogauss.Engine, all, 4) })
}

// Two runs with the same seed produce identical traces.
func TestReproducible(t *testing.T) {
	protocoltest.Reproducible(t, geogauss.Engine, nil)
	protocoltest.Reproducible(t, geogauss.Engine, shipped)
}

// On an unloaded system, the median latency of every class and region is within 5% of the latency model.
func TestLaw(t *testing.T) {
	t.Run("majority", func(t *testing.T) { protocoltest.Law(t, geogauss.Engine, nil) })
	t.Run("none", func(t *testing.T) { protocoltest.Law(t, geogauss.Engine, none) })
	t.Run("all", func(t *testing.T) { protocoltest.Law(t, geogauss.Engine, all) })
}

// The database works with extreme values of parameters and with topologies of unusual shape.
func TestShapes(t *testing.T) {
	protocoltest.Shapes(t, geogauss.Engine, []map[string]string{
		nil, none, all, {"epoch": "1ms", "heartbeat": "50ms"},
	})
}

// Rows of groups are inserted, deleted and scanned. Transactions use rows whose keys depend on earlier reads.
func TestGroups(t *testing.T) {
	t.Run("majority", func(t *testing.T) { protocoltest.Groups(t, geogauss.Engine, nil) })
	t.Run("none", func(t *testing.T) { protocoltest.Groups(t, geogauss.Engine, none) })
}
