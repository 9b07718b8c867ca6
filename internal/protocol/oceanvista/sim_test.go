package oceanvista_test

import (
	"testing"

	"github.com/geobench/geobench/internal/protocol/oceanvista"
	"github.com/geobench/geobench/internal/protocol/protocoltest"
)

var (
	// snapshot answers local reads at once.
	snapshot = map[string]string{"reads": "Snapshot"}
	// hasty servers are suspected for nothing when links are cut.
	hasty = map[string]string{"failureTimeout": "100ms", "gossip": "20ms"}
)

// Whatever the shape and the network, the copies stay equal, no money is made or lost, readers see all of a transaction
// or nothing, and every transaction is answered once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	t.Run("strict", func(t *testing.T) { protocoltest.Serializable(t, oceanvista.Engine, nil, 3) })
	t.Run("snapshot", func(t *testing.T) { protocoltest.Serializable(t, oceanvista.Engine, snapshot, 2) })
}

// Links between regions break and come back at random.
func TestCuts(t *testing.T) {
	t.Run("patient", func(t *testing.T) { protocoltest.Cuts(t, oceanvista.Engine, nil, 6) })
	t.Run("hasty", func(t *testing.T) { protocoltest.Cuts(t, oceanvista.Engine, hasty, 12) })
}

// Two runs with the same seed are the same, line by line.
func TestReproducible(t *testing.T) {
	protocoltest.Reproducible(t, oceanvista.Engine, nil)
	protocoltest.Reproducible(t, oceanvista.Engine, hasty)
}

// The median latency of every class and region is the law's, within 5%, on an idle system: an S-phase
// anywhere holds the watermark.
func TestLaw(t *testing.T) {
	t.Run("5ms", func(t *testing.T) { protocoltest.IdleLaw(t, oceanvista.Engine, nil) })
	t.Run("20ms", func(t *testing.T) { protocoltest.IdleLaw(t, oceanvista.Engine, map[string]string{"gossip": "20ms"}) })
}

// Edges of the parameters and of the topology.
func TestShapes(t *testing.T) {
	protocoltest.Shapes(t, oceanvista.Engine, []map[string]string{
		nil, snapshot, hasty, {"gossip": "1ms"}, {"gossip": "1s", "failureTimeout": "1m", "reconnaissances": "1"},
	})
}

// Rows of groups are inserted, deleted and scanned, and rows are used whose keys depend on what is read.
func TestGroups(t *testing.T) {
	t.Run("strict", func(t *testing.T) { protocoltest.Groups(t, oceanvista.Engine, nil) })
	t.Run("snapshot", func(t *testing.T) { protocoltest.Groups(t, oceanvista.Engine, snapshot) })
}
