package coco_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/coco"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// The scripts in testdata show the messages between nodes; "go test -run TestTrace -rewrite" updates the scripts.
func TestTrace(t *testing.T) {
	protocoltest.Traces(t, coco.Engine, map[uint8]string{
		1: "the epoch's interval ends", 2: "raft timer", 3: "looks for silent nodes", 4: "heartbeat", 5: "tries again", 6: "sends rows",
	})
}
