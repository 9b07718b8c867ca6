package janus

import "github.com/geobench/geobench/internal/engine/protocol"

// WithoutReadWriteEdges is a faulty variant of Janus in which a write does not depend on earlier reads. No engine table
// lists it; tests use it to verify that the checker finds the defect (package broken).
var WithoutReadWriteEdges = Engine.Variant("janus-without-read-write-edges", func(c protocol.Config) protocol.Replica {
	r := newReplica(c)
	r.conflicts.blind = true
	return r
})
