package oceanvista_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/oceanvista"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// The scripts in testdata show the messages between nodes. "go test -run TestTrace -rewrite" updates them with the
// current messages.
func TestTrace(t *testing.T) {
	protocoltest.Traces(t, oceanvista.Engine, map[uint8]string{
		1: "the interval ends", 2: "looks after servers", 3: "raft timer", 4: "looks for footprints again", 5: "sends rows",
	})
}
