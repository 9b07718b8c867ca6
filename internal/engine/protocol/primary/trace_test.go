package primary_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/primary"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// The scripts in testdata show the messages between nodes. "go test -run TestTrace -rewrite" updates them with the
// current messages.
func TestTrace(t *testing.T) {
	protocoltest.Traces(t, primary.Engine, map[uint8]string{1: "ships the log", 2: "looks for lost connections", 3: "the operator fails over", 5: "asks again", 6: "sends the next pieces"})
}
