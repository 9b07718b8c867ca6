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

// Faulty variants with plausible defects. No engine table lists them; tests use them to verify that the checker finds
// the defects (package broken).
var (
	// AppliedTwice executes a repeated request of a coordinator again, even if the writer has executed it before.
	AppliedTwice = mistaken("primary-applied-twice", appliedTwice)
	// OutOfOrder applies the entries that arrive in one message from the last to the first.
	OutOfOrder = mistaken("primary-out-of-order", outOfOrder)
	// UnaskedWriter reads from the copy with reads: Global, but does not ask the writer for its log position.
	UnaskedWriter = mistaken("primary-unasked-writer", unaskedWriter)
	// ForgottenSession reads from the copy with reads: Session, but does not wait for the session's writes.
	ForgottenSession = mistaken("primary-forgotten-session", forgottenSession)
	// Unvalidated commits forwarded transactions even if their reads have changed.
	Unvalidated = mistaken("primary-unvalidated", unvalidated)
	// EarlyHandover hands over the writer's role before the last entries of the log are shipped.
	EarlyHandover = mistaken("primary-early-handover", earlyHandover)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, m) })
}
