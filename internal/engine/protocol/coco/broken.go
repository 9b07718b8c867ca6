package coco

import "github.com/geobench/geobench/internal/engine/protocol"

// mistake identifies the defect of a deliberately faulty variant.
type mistake uint8

const (
	none mistake = iota
	ownRegion
	early
	forgottenCopy
	unextended
	unchecked
	rowsOnly
	arrival
	undrained
)

// Faulty variants with plausible defects. They are in no table of engines; they test that the checks find such defects
// (package broken).
var (
	// CommittedInOneRegion commits an epoch when the nodes of the coordinator's region have voted.
	CommittedInOneRegion = mistaken("coco-committed-in-one-region", ownRegion)
	// AnsweredEarly answers a transaction when it was executed, and not when its epoch is committed.
	AnsweredEarly = mistaken("coco-answered-early", early)
	// ForgottenCopy rolls an epoch that is aborted back on the first node alone.
	ForgottenCopy = mistaken("coco-forgotten-copy", forgottenCopy)
	// Unextended validates that the rows read have not changed, without extending the time up to which the read is valid.
	Unextended = mistaken("coco-unextended", unextended)
	// Unchecked locks rows whether they have changed since they were read or not.
	Unchecked = mistaken("coco-unchecked", unchecked)
	// RowsOnly validates of a scan the rows that it has met, and not that there are no others.
	RowsOnly = mistaken("coco-rows-only", rowsOnly)
	// AppliedOnArrival writes what transactions have written in the order in which it arrives.
	AppliedOnArrival = mistaken("coco-applied-on-arrival", arrival)
	// Undrained votes for an epoch before the other nodes have executed their transactions.
	Undrained = mistaken("coco-undrained", undrained)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, m) })
}
