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

// Faulty variants with plausible defects. No engine table lists them; tests use them to verify that the checker finds
// the defects (package broken).
var (
	// LateWrites promises a timestamp one gossip interval ahead of its clock, and later issues timestamps below that
	// promise.
	LateWrites = mistaken("oceanvista-late-writes", lateWrites)
	// VisibleBeforeStable lets the watermark pass functors that are not yet stored by a majority of their replicas.
	VisibleBeforeStable = mistaken("oceanvista-visible-before-stable", visibleBeforeStable)
	// EvaluatedOnArrival evaluates visible functors in arrival order.
	EvaluatedOnArrival = mistaken("oceanvista-evaluated-on-arrival", arrivalOrder)
	// ForgottenFunctors treats all unfinished functors of a lost server as never written.
	ForgottenFunctors = mistaken("oceanvista-forgotten-functors", forgottenFunctors)
	// LateSPhase still stores functors of a server after the group has decided about them.
	LateSPhase = mistaken("oceanvista-late-s-phase", lateSPhase)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, m) })
}
