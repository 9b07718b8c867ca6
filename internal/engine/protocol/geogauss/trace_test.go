package geogauss_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/geogauss"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// The scripts in testdata show the messages between nodes; "go test -run TestTrace -rewrite" updates the scripts.
func TestTrace(t *testing.T) {
	protocoltest.Traces(t, geogauss.Engine, map[uint8]string{1: "its epoch ends", 2: "raft timer", 3: "looks for what is missing", 4: "may send another piece"})
}
