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
	// AnsweredEarly answers a transaction once it is executed, before its epoch is committed.
	AnsweredEarly = mistaken("coco-answered-early", early)
	// ForgottenCopy rolls back an aborted epoch on the first node only; the other nodes apply its writes.
	ForgottenCopy = mistaken("coco-forgotten-copy", forgottenCopy)
	// Unextended validates that the rows read have not changed, without extending the time up to which the read is valid.
	Unextended = mistaken("coco-unextended", unextended)
	// Unchecked locks rows without checking whether they have changed since the transaction read them.
	Unchecked = mistaken("coco-unchecked", unchecked)
	// RowsOnly validates the rows that a scan has returned, but not that the range contains no other rows.
	RowsOnly = mistaken("coco-rows-only", rowsOnly)
	// AppliedOnArrival applies writes in order of arrival, instead of keeping the write with the latest time.
	AppliedOnArrival = mistaken("coco-applied-on-arrival", arrival)
	// Undrained votes for an epoch before the other nodes have executed their transactions.
	Undrained = mistaken("coco-undrained", undrained)
)

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, m) })
}
