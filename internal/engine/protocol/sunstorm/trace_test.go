package sunstorm_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/protocol/sunstorm"
)

// The scripts in testdata show what nodes say to each other; "go test -run TestTrace -rewrite" writes what they do now.
func TestTrace(t *testing.T) { protocoltest.Traces(t, sunstorm.Engine, nil) }
