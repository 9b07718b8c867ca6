package slog

import "github.com/geobench/geobench/internal/protocol"

// MergedOnArrival is SLOG with a mistake: each region merges the local logs in the order in which they arrive there. It is
// in no table of engines, and there to test those who should notice (package broken).
var MergedOnArrival = Engine.Variant("slog-merged-on-arrival", func(c protocol.Config) protocol.Replica { return newReplica(c, true) })
