package sunstorm

import (
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// mistake identifies the defect of a deliberately faulty variant.
type mistake uint8

const (
	none mistake = iota
	noReaderRule
	noWriterRule
	votesCountedTwice
	outOfOrder
	unvalidated
	rowsOnly
	nobodyDies
)

// Faulty variants with plausible defects. They are in no table of engines; they test that the checks find such defects
// (package broken).
var (
	// WithoutReaderRule lets transactions read rows that prepared transactions will write.
	WithoutReaderRule = mistaken("sunstorm-without-reader-rule", noReaderRule)
	// WithoutWriterRule lets transactions write rows that prepared transactions have read.
	WithoutWriterRule = mistaken("sunstorm-without-writer-rule", noWriterRule)
	// VotesCountedTwice counts every vote twice.
	VotesCountedTwice = mistaken("sunstorm-votes-counted-twice", votesCountedTwice)
	// AppliedOutOfOrder applies each log entry to a copy after a random delay, so that the order of entries is random.
	AppliedOutOfOrder = mistaken("sunstorm-applied-out-of-order", outOfOrder)
	// Unvalidated prepares transactions without validating their reads of stale copies against the current rows.
	Unvalidated = mistaken("sunstorm-unvalidated", unvalidated)
	// RowsOnly validates only the rows that a scan has returned, and does not detect inserted rows.
	RowsOnly = mistaken("sunstorm-rows-only", rowsOnly)
	// NobodyDies lets a multi-region transaction wait for another transaction that is prepared to write the same row, as a
	// single-region transaction does. Two transactions that have each prepared the row that the other wants then wait
	// indefinitely.
	NobodyDies = mistaken("sunstorm-nobody-dies", nobodyDies)
)

// lateEntry is a log entry that AppliedOutOfOrder has delayed.
type lateEntry struct {
	home  geo.Region
	entry Entry
}

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, m) })
}
