package sunstorm_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/protocol/sunstorm"
)

var (
	// interactive asks for one row after the other.
	interactive = map[string]string{"interactive": "true"}
	// acknowledged waits for the others to have the votes.
	acknowledged = map[string]string{"votes": "acknowledged"}
	// paged has index pages of four keys.
	paged = map[string]string{"keysPerPage": "4", "pageUpdates": "all"}
	// lagging has copies that are a round trip and more behind.
	lagging = map[string]string{"copyLag": "250ms"}
	// patient lets multi-region transactions wait before they die.
	patient = map[string]string{"waitDie": "timeout", "deadlockTimeout": "300ms"}
)

// Whatever the shape and the network, the copies stay equal, no money is made or lost, readers see all of a transaction
// or nothing, and every transaction is answered once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	t.Run("hinted", func(t *testing.T) { protocoltest.Serializable(t, sunstorm.Engine, nil, 3) })
	t.Run("interactive", func(t *testing.T) { protocoltest.Serializable(t, sunstorm.Engine, interactive, 2) })
	t.Run("patient", func(t *testing.T) { protocoltest.Serializable(t, sunstorm.Engine, patient, 2) })
	t.Run("lagging", func(t *testing.T) { protocoltest.Serializable(t, sunstorm.Engine, lagging, 2) })
}

// Links between regions break and come back at random.
func TestCuts(t *testing.T) {
	t.Run("direct", func(t *testing.T) { protocoltest.Cuts(t, sunstorm.Engine, nil, 6) })
	t.Run("acknowledged", func(t *testing.T) { protocoltest.Cuts(t, sunstorm.Engine, acknowledged, 4) })
	t.Run("patient", func(t *testing.T) { protocoltest.Cuts(t, sunstorm.Engine, patient, 4) })
}

// Two runs with the same seed are the same, line by line.
func TestReproducible(t *testing.T) { protocoltest.Reproducible(t, sunstorm.Engine, nil) }

// The median latency of every class and region is the law's, within 5%, on an unloaded system.
func TestLaw(t *testing.T) { protocoltest.Law(t, sunstorm.Engine, nil) }

// Edges of the parameters and of the topology.
func TestShapes(t *testing.T) {
	protocoltest.Shapes(t, sunstorm.Engine, []map[string]string{nil, interactive, acknowledged, paged, patient, lagging})
}

// Rows of groups are inserted, deleted and scanned, and rows are used whose keys depend on what is read.
func TestGroups(t *testing.T) {
	t.Run("hinted", func(t *testing.T) { protocoltest.Groups(t, sunstorm.Engine, nil) })
	t.Run("interactive", func(t *testing.T) { protocoltest.Groups(t, sunstorm.Engine, interactive) })
	t.Run("acknowledged", func(t *testing.T) { protocoltest.Groups(t, sunstorm.Engine, acknowledged) })
	t.Run("pages", func(t *testing.T) { protocoltest.Groups(t, sunstorm.Engine, paged) })
}
