package minerva_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/minerva"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// The scripts in testdata show the messages between nodes. "go test -run TestTrace -rewrite" updates them with the
// current messages.
func TestTrace(t *testing.T) {
	protocoltest.Traces(t, minerva.Engine, map[uint8]string{
		1: "the batch closes", 2: "the interval ends", 3: "raft timer", 4: "looks for missing batches", 5: "reports its progress",
		6: "sends a piece of the rows", 7: "asks for rows",
	})
}
