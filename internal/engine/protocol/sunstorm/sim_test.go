package sunstorm_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/protocol/sunstorm"
)

var (
	// interactive requests rows one at a time.
	interactive = map[string]string{"interactive": "true"}
	// acknowledged lets a writer decide only after the other writers have confirmed its vote.
	acknowledged = map[string]string{"votes": "acknowledged"}
	// paged has index pages of four keys.
	paged = map[string]string{"keysPerPage": "4", "pageUpdates": "all"}
	// lagging lets copies lag by more than a round trip.
	lagging = map[string]string{"copyLag": "250ms"}
	// patient lets multi-region transactions wait before they die.
	patient = map[string]string{"waitDie": "timeout", "deadlockTimeout": "300ms"}
)

// On every topology and network, the copies stay equal, the total balance is constant, and readers see a transaction
// completely or not at all. Every transaction is answered exactly once: the simulator panics on a second answer.
func TestSerializable(t *testing.T) {
	t.Run("hinted", func(t *testing.T) { protocoltest.Serializable(t, sunstorm.Engine, nil, 3) })
	t.Run("interactive", func(t *testing.T) { protocoltest.Serializable(t, sunstorm.Engine, interactive, 2) })
	t.Run("patient", func(t *testing.T) { protocoltest.Serializable(t, sunstorm.Engine, patient, 2) })
	t.Run("lagging", func(t *testing.T) { protocoltest.Serializable(t, sunstorm.Engine, lagging, 2) })
}

// Links between regions fail and recover at random.
func TestCuts(t *testing.T) {
	t.Run("direct", func(t *testing.T) { protocoltest.Cuts(t, sunstorm.Engine, nil, 6) })
	t.Run("acknowledged", func(t *testing.T) { protocoltest.Cuts(t, sunstorm.Engine, acknowledged, 4) })
	t.Run("patient", func(t *testing.T) { protocoltest.Cuts(t, sunstorm.Engine, patient, 4) })
}

// Two runs with the same seed produce the same events.
func TestReproducible(t *testing.T) { protocoltest.Reproducible(t, sunstorm.Engine, nil) }

// On an unloaded system, the median latency of every class and region is within 5% of the latency model.
func TestLaw(t *testing.T) { protocoltest.Law(t, sunstorm.Engine, nil) }

// Transactions commit on small and asymmetric topologies, with several sets of parameters.
func TestShapes(t *testing.T) {
	protocoltest.Shapes(t, sunstorm.Engine, []map[string]string{nil, interactive, acknowledged, paged, patient, lagging})
}

// Rows of groups are inserted, deleted and scanned. Transactions use rows whose keys depend on earlier reads.
func TestGroups(t *testing.T) {
	t.Run("hinted", func(t *testing.T) { protocoltest.Groups(t, sunstorm.Engine, nil) })
	t.Run("interactive", func(t *testing.T) { protocoltest.Groups(t, sunstorm.Engine, interactive) })
	t.Run("acknowledged", func(t *testing.T) { protocoltest.Groups(t, sunstorm.Engine, acknowledged) })
	t.Run("pages", func(t *testing.T) { protocoltest.Groups(t, sunstorm.Engine, paged) })
}
