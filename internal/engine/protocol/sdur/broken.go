package sdur

import "github.com/geobench/geobench/internal/engine/protocol"

// mistake identifies the defect of a deliberately faulty variant.
type mistake uint8

const (
	none mistake = iota
	leapReads
	overtaking
	firstVote
	forgetPending
	oneWay
	newestCut
)

// Faulty variants with plausible defects. They are in no table of engines; they test that the checks find such defects
// (package broken).
var (
	// LeapsOverReads lets a local transaction leap over transactions that have read the rows that it writes.
	LeapsOverReads = mistaken("sdur-leaps-over-reads", leapReads)
	// LeapsOverWrites lets a local transaction leap over transactions that write rows that it has read. It certifies the
	// transaction only against transactions that it does not leap over.
	LeapsOverWrites = mistaken("sdur-leaps-over-writes", overtaking)
	// CompletedAtFirstVote completes a global transaction as soon as one other group has voted.
	CompletedAtFirstVote = mistaken("sdur-completed-at-first-vote", firstVote)
	// ForgetsPending certifies only against completed transactions, and not against delivered transactions that are
	// pending.
	ForgetsPending = mistaken("sdur-forgets-pending", forgetPending)
	// CertifiedOneWay certifies global transactions like local ones: it checks their reads, but not their writes.
	CertifiedOneWay = mistaken("sdur-certified-one-way", oneWay)
	// NewestCut answers read-only transactions with the newest rows of each group, without certification.
	NewestCut = mistaken("sdur-newest-cut", newestCut)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, options{mistake: m}) })
}
