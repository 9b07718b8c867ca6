package janus

import "github.com/geobench/geobench/internal/engine/protocol"

// WithoutReadWriteEdges is Janus with a mistake that is easily made: a write does not depend on the reads before it. It is
// in no table of engines, and there to test those who should notice (package broken).
var WithoutReadWriteEdges = Engine.Variant("janus-without-read-write-edges", func(c protocol.Config) protocol.Replica {
	r := newReplica(c)
	r.conflicts.blind = true
	return r
})
