package slog_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/protocol/slog"
)

func TestTrace(t *testing.T) {
	protocoltest.Traces(t, slog.Engine, map[uint8]string{
		1: "the batch closes", 2: "requests are proposed", 4: "the forwarder sends", 5: "rows move, stale transactions go again", 7: "questions for homes are sent",
		8: "the orderer's batch closes", 9: "the orderer's requests are proposed", 10: "raft timer",
		100: "the batch closes", 101: "requests are proposed", 102: "raft timer", 103: "looks for abandoned batches", 104: "looks for missing data",
		105: "tells what it holds", 106: "asks to join", 120: "a piece is due", 121: "looks for what is owed",
	})
}
