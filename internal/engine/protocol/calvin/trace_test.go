package calvin_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/calvin"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

func TestTrace(t *testing.T) {
	protocoltest.Traces(t, calvin.Engine, map[uint8]string{
		1: "the batch closes", 2: "requests are proposed", 3: "the epoch ends", 4: "raft timer", 5: "looks for abandoned batches", 6: "looks again for stale footprints",
		7: "tells what it holds", 8: "looks for missing data", 9: "asks to join", 10: "a piece is due", 11: "looks for what is owed",
	})
}
