package sunstorm

import (
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// mistake is what is wrong with a database that is wrong on purpose.
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

// These are the database with mistakes that are easily made. They are in no table of engines, and there to test those
// who should notice (package broken).
var (
	// WithoutReaderRule lets transactions read what others that are prepared will write.
	WithoutReaderRule = mistaken("sunstorm-without-reader-rule", noReaderRule)
	// WithoutWriterRule lets transactions write what others that are prepared have read.
	WithoutWriterRule = mistaken("sunstorm-without-writer-rule", noWriterRule)
	// VotesCountedTwice counts every vote twice.
	VotesCountedTwice = mistaken("sunstorm-votes-counted-twice", votesCountedTwice)
	// AppliedOutOfOrder applies the entries of a log at its copies each a while after it came, in an order of chance.
	AppliedOutOfOrder = mistaken("sunstorm-applied-out-of-order", outOfOrder)
	// Unvalidated prepares what was read of stale copies without a look at what the rows are now.
	Unvalidated = mistaken("sunstorm-unvalidated", unvalidated)
	// RowsOnly validates of a scan the rows that it has met, and not that there are no others.
	RowsOnly = mistaken("sunstorm-rows-only", rowsOnly)
	// NobodyDies lets a multi-region transaction wait for another one that is prepared to write the same row, as a single-region
	// one does, so that two that have prepared each the row that the other wants wait for ever.
	NobodyDies = mistaken("sunstorm-nobody-dies", nobodyDies)
)

// lateEntry is an entry of a log that a copy which applies them out of order has not applied yet.
type lateEntry struct {
	home  geo.Region
	entry Entry
}

func mistaken(name string, m mistake) *protocol.Engine {
	return Engine.Variant(name, func(c protocol.Config) protocol.Replica { return newReplica(c, m) })
}
