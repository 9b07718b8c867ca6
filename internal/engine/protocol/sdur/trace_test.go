package sdur_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/protocol/sdur"
)

// The scripts in testdata show the messages between nodes; "go test -run TestTrace -rewrite" writes the current
// messages.
func TestTrace(t *testing.T) {
	protocoltest.Traces(t, sdur.Engine, map[uint8]string{
		1: "consensus timer", 2: "proposes", 3: "paces", 4: "submits what was delayed", 5: "closes", 6: "looks around",
	})
}
