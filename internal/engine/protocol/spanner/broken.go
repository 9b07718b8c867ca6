package spanner

import "github.com/geobench/geobench/internal/engine/protocol"

// mistake is what is wrong with a database that is wrong on purpose.
type mistake uint8

const (
	none mistake = iota
	earlyRelease
	earlyCommit
	lostResolution
	staleLease
	earlySnapshot
)

// These are the database with mistakes that are easily made. They are in no table of engines, and there to test those
// who should notice (package broken).
var (
	// ReleasedAtPrepare gives up a transaction's locks when it is prepared, before it is committed.
	ReleasedAtPrepare = mistaken("spanner-released-at-prepare", earlyRelease)
	// CommittedAtFirstVote commits when the first group has prepared, and does not wait for the others.
	CommittedAtFirstVote = mistaken("spanner-committed-at-first-vote", earlyCommit)
	// LostResolution takes the commitment of a transaction that was prepared under another leaseholder for its
	// abortion.
	LostResolution = mistaken("spanner-lost-resolution", lostResolution)
	// StaleLease answers reads whether there may be another leaseholder or not.
	StaleLease = mistaken("spanner-stale-lease", staleLease)
	// EarlySnapshot reads the past before it is certain.
	EarlySnapshot = mistaken("spanner-early-snapshot", earlySnapshot)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, options{mistake: m}) })
}
