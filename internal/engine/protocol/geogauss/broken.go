package geogauss

import "github.com/geobench/geobench/internal/engine/protocol"

// mistake identifies the defect of a deliberately faulty variant.
type mistake uint8

const (
	none mistake = iota
	earlyMerge
	arrivalOrder
	partialAbort
	overwrites
	ownLast
)

// Faulty variants with plausible defects. They are in no table of engines; they test that the checks find such defects
// (package broken).
var (
	// EarlyMerge merges an epoch when a majority of the servers has ended it, without the write sets of the remaining
	// servers.
	EarlyMerge = mistaken("geogauss-early-merge", earlyMerge)
	// WonOnArrival gives a row to the write set that has arrived first.
	WonOnArrival = mistaken("geogauss-won-on-arrival", arrivalOrder)
	// PartialAbort discards only a transaction's writes to rows that another transaction has won, and commits its other
	// writes.
	PartialAbort = mistaken("geogauss-partial-abort", partialAbort)
	// Overwrites compares write sets only with write sets of the same epoch, regardless of the parameter isolation.
	Overwrites = mistaken("geogauss-overwrites", overwrites)
	// OwnLast counts the epochs of a departing server up to a wrong epoch. Each server uses the last epoch that it had
	// received when the leader asked, instead of the last epoch in the change.
	OwnLast = mistaken("geogauss-own-last", ownLast)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, m) })
}
