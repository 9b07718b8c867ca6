package geogauss

import "github.com/geobench/geobench/internal/engine/protocol"

// mistake is what is wrong with a database that is wrong on purpose.
type mistake uint8

const (
	none mistake = iota
	earlyMerge
	arrivalOrder
	partialAbort
	overwrites
	ownLast
)

// These are the database with mistakes that are easily made. They are in no table of engines, and there to test those
// who should notice (package broken).
var (
	// EarlyMerge merges an epoch when a majority of the servers has ended it, without the write sets of the others.
	EarlyMerge = mistaken("geogauss-early-merge", earlyMerge)
	// WonOnArrival gives a row to the write set that has arrived first.
	WonOnArrival = mistaken("geogauss-won-on-arrival", arrivalOrder)
	// PartialAbort undoes of a transaction the rows that it has lost, and commits the others.
	PartialAbort = mistaken("geogauss-partial-abort", partialAbort)
	// Overwrites compares write sets with those of their epoch alone, whatever the parameter isolation says.
	Overwrites = mistaken("geogauss-overwrites", overwrites)
	// OwnLast counts of a server that leaves the epochs that were here when the leader has asked.
	OwnLast = mistaken("geogauss-own-last", ownLast)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, m) })
}
