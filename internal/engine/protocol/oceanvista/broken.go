package oceanvista

import "github.com/geobench/geobench/internal/engine/protocol"

// mistake identifies the defect of a deliberately faulty variant.
type mistake uint8

const (
	none mistake = iota
	lateWrites
	visibleBeforeStable
	arrivalOrder
	forgottenFunctors
	lateSPhase
)

// Faulty variants with plausible defects. They are in no table of engines; they test that the checks find such defects
// (package broken).
var (
	// LateWrites promises what its clock will show an interval later, and issues timestamps below that.
	LateWrites = mistaken("oceanvista-late-writes", lateWrites)
	// VisibleBeforeStable lets the watermark pass functors that are not on a majority of their replicas.
	VisibleBeforeStable = mistaken("oceanvista-visible-before-stable", visibleBeforeStable)
	// EvaluatedOnArrival evaluates visible functors in the order in which they have arrived.
	EvaluatedOnArrival = mistaken("oceanvista-evaluated-on-arrival", arrivalOrder)
	// ForgottenFunctors decides about a lost server that none of its unfinished functors was written.
	ForgottenFunctors = mistaken("oceanvista-forgotten-functors", forgottenFunctors)
	// LateSPhase stores functors of a server after the decision about its functors.
	LateSPhase = mistaken("oceanvista-late-s-phase", lateSPhase)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, m) })
}
