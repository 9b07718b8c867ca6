package detock_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/detock"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

func TestTrace(t *testing.T) {
	protocoltest.Traces(t, detock.Engine, map[uint8]string{
		1: "the batch closes", 2: "requests are proposed", 4: "the forwarder sends", 5: "rows move, stale transactions go again",
		8: "parts are due", 9: "probes", 10: "the resolver looks", 11: "the resolver has heard",
		100: "the batch closes", 101: "requests are proposed", 102: "raft timer", 103: "looks for abandoned batches", 104: "looks for missing data",
		105: "tells what it holds", 106: "asks to join", 120: "a piece is due", 121: "looks for what is owed",
	})
}
