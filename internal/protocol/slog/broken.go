package slog

import "github.com/geobench/geobench/internal/protocol"

// MergedOnArrival is SLOG with a mistake: each region merges the local logs in the order in which they arrive there. It is
// in no table of engines, and there to test those who should notice (package broken).
var MergedOnArrival = func() *protocol.Engine {
	e := *Engine
	e.Name = "slog-merged-on-arrival"
	e.New = func(c protocol.Config) protocol.Replica { return newReplica(c, true) }
	return &e
}()
