package primary

import "github.com/geobench/geobench/internal/engine/protocol"

// mistake identifies the defect of a deliberately faulty variant.
type mistake uint8

const (
	none mistake = iota
	appliedTwice
	outOfOrder
	unaskedWriter
	forgottenSession
	unvalidated
	earlyHandover
)

// Faulty variants with plausible defects. They are in no table of engines; they test that the checks find such defects
// (package broken).
var (
	// AppliedTwice executes a request that a coordinator sends again after it has reconnected, even if the request was
	// executed before.
	AppliedTwice = mistaken("primary-applied-twice", appliedTwice)
	// OutOfOrder applies the entries that are shipped together from the last to the first.
	OutOfOrder = mistaken("primary-out-of-order", outOfOrder)
	// UnaskedWriter reads from the copy with reads: Global, without asking the writer for its log position.
	UnaskedWriter = mistaken("primary-unasked-writer", unaskedWriter)
	// ForgottenSession reads as with reads: Session, without waiting for the session's writes.
	ForgottenSession = mistaken("primary-forgotten-session", forgottenSession)
	// Unvalidated commits forwarded transactions even if their reads have changed.
	Unvalidated = mistaken("primary-unvalidated", unvalidated)
	// EarlyHandover hands the writer's role over before the last entries of the log are shipped.
	EarlyHandover = mistaken("primary-early-handover", earlyHandover)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, m) })
}
