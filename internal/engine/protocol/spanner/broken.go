package spanner

import "github.com/geobench/geobench/internal/engine/protocol"

// mistake identifies the defect of a deliberately faulty variant.
type mistake uint8

const (
	none mistake = iota
	earlyRelease
	earlyCommit
	lostResolution
	staleLease
	earlySnapshot
)

// Faulty variants with plausible defects. They are in no table of engines; they test that the checks find such defects
// (package broken).
var (
	// ReleasedAtPrepare releases a transaction's locks when it is prepared, before it is committed.
	ReleasedAtPrepare = mistaken("spanner-released-at-prepare", earlyRelease)
	// CommittedAtFirstVote commits when the first group has prepared, without waiting for the other groups.
	CommittedAtFirstVote = mistaken("spanner-committed-at-first-vote", earlyCommit)
	// LostResolution aborts a committed transaction in a group whose leaseholder has changed after the preparation.
	LostResolution = mistaken("spanner-lost-resolution", lostResolution)
	// StaleLease answers reads even if another node may be the leaseholder.
	StaleLease = mistaken("spanner-stale-lease", staleLease)
	// EarlySnapshot answers snapshot reads before their timestamp is closed.
	EarlySnapshot = mistaken("spanner-early-snapshot", earlySnapshot)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, options{mistake: m}) })
}
