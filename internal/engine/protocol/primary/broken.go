package primary

import "github.com/geobench/geobench/internal/engine/protocol"

// mistake is what is wrong with a database that is wrong on purpose.
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

// These are the database with mistakes that are easily made. They are in no table of engines, and there to test those
// who should notice (package broken).
var (
	// AppliedTwice executes what a coordinator sends again after it has connected again, whether it was executed or not.
	AppliedTwice = mistaken("primary-applied-twice", appliedTwice)
	// OutOfOrder applies the entries that are shipped together from the last to the first.
	OutOfOrder = mistaken("primary-out-of-order", outOfOrder)
	// UnaskedWriter reads from the copy with reads: Global, and does not ask the writer how far the log has come.
	UnaskedWriter = mistaken("primary-unasked-writer", unaskedWriter)
	// ForgottenSession reads as with reads: Session, and does not wait for what the session has written.
	ForgottenSession = mistaken("primary-forgotten-session", forgottenSession)
	// Unvalidated commits forwarded transactions whether what they have read has changed or not.
	Unvalidated = mistaken("primary-unvalidated", unvalidated)
	// EarlyHandover hands the writer's role over before the last entries of the log are shipped.
	EarlyHandover = mistaken("primary-early-handover", earlyHandover)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, m) })
}
