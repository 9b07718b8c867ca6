package sdur

import "github.com/geobench/geobench/internal/engine/protocol"

// mistake is what is wrong with a database that is wrong on purpose.
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

// These are the database with mistakes that are easily made. They are in no table of engines, and there to test those
// who should notice (package broken).
var (
	// LeapsOverReads lets a local transaction leap over others that have read what it writes.
	LeapsOverReads = mistaken("sdur-leaps-over-reads", leapReads)
	// LeapsOverWrites lets a local transaction leap over others that write what it has read, and certifies it against
	// those alone that it does not leap over.
	LeapsOverWrites = mistaken("sdur-leaps-over-writes", overtaking)
	// CompletedAtFirstVote completes a global transaction when the first of the other groups has voted.
	CompletedAtFirstVote = mistaken("sdur-completed-at-first-vote", firstVote)
	// ForgetsPending certifies against completed transactions alone, and not against those that are delivered and
	// pending.
	ForgetsPending = mistaken("sdur-forgets-pending", forgetPending)
	// CertifiedOneWay certifies global transactions like local ones: what they have read, and not what they write.
	CertifiedOneWay = mistaken("sdur-certified-one-way", oneWay)
	// NewestCut answers transactions that only read with the newest rows of each group, and certifies nothing.
	NewestCut = mistaken("sdur-newest-cut", newestCut)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, options{mistake: m}) })
}
