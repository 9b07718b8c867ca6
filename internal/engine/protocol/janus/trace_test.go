package janus_test

import (
	"testing"

	"github.com/geobench/geobench/internal/engine/protocol/janus"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

func TestTrace(t *testing.T) {
	protocoltest.Traces(t, janus.Engine, map[uint8]string{1: "the clock ticks", 3: "sends a piece"})
}
