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

// Faulty variants with plausible defects. No engine table lists them; they test that the checks find such defects
// (package broken).
var (
	// LateWrites promises the clock's reading of one interval later, and then issues timestamps below that promise.
	LateWrites = mistaken("oceanvista-late-writes", lateWrites)
	// VisibleBeforeStable lets the watermark pass functors that a majority of their replicas has not stored yet.
	VisibleBeforeStable = mistaken("oceanvista-visible-before-stable", visibleBeforeStable)
	// EvaluatedOnArrival evaluates visible functors in arrival order.
	EvaluatedOnArrival = mistaken("oceanvista-evaluated-on-arrival", arrivalOrder)
	// ForgottenFunctors decides about a lost server as if none of its unfinished functors had been written.
	ForgottenFunctors = mistaken("oceanvista-forgotten-functors", forgottenFunctors)
	// LateSPhase still stores functors of a server after the decision about them.
	LateSPhase = mistaken("oceanvista-late-s-phase", lateSPhase)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, m) })
}
