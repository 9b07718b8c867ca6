package sunstorm_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/protocol/sunstorm"
)

// The scripts in testdata show the messages between nodes; "go test -run TestTrace -rewrite" writes the current
// messages.
func TestTrace(t *testing.T) { protocoltest.Traces(t, sunstorm.Engine, nil) }
