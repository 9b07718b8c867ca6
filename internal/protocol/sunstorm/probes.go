package sunstorm

import (
	"github.com/geobench/geobench/internal/buggify"
	"github.com/geobench/geobench/internal/probe"
)

// What the explorer wants to see happen: see package probe.
var (
	indexPageOutdated = probe.New("sunstorm.index-page-outdated", "An index page that a scan has used has changed")
	tupleOutdated     = probe.New("sunstorm.tuple-outdated", "A row that was read of a copy has changed")
	readerRefused     = probe.New("sunstorm.reader-refused", "A transaction has read what a prepared one will write")
	writerRefused     = probe.New("sunstorm.writer-refused", "A transaction writes what a prepared one has read")
	singleWaits       = probe.New("sunstorm.single-waits", "A single-region transaction waits for one that is prepared")
	singleAgain       = probe.New("sunstorm.single-again", "The prepared transaction aborts, and who has waited for it is executed again")
	multiWaits        = probe.New("sunstorm.multi-waits", "A multi-region transaction waits for one that is prepared, for a while")
	patienceOver      = probe.New("sunstorm.patience-over", "A multi-region transaction has waited too long and dies")
	judgedAgain       = probe.New("sunstorm.judged-again", "A transaction that has waited is judged again")
	ownRowsChanged    = probe.New("sunstorm.own-rows-changed", "The initiator's own rows have changed since its snapshot")
	neighbourChanged  = probe.New("sunstorm.neighbour-changed", "An index page has changed and the rows of the scan have not")
	voteNo            = probe.New("sunstorm.vote-no", "A participant hears that another one votes no")
	overBefore        = probe.New("sunstorm.over-before", "Prepare comes to a participant that knows of another one's no")
	preparedAborted   = probe.New("sunstorm.prepared-aborted", "A prepared transaction aborts")
	voteAcknowledged  = probe.New("sunstorm.vote-acknowledged", "A vote is acknowledged")
	updatedFirst      = probe.New("sunstorm.updated-first", "A transaction aborts since the prepared one that it has waited for commits")
)

// What the explorer wants to see happen where nodes are replaced.
var (
	logBeforeRows  = probe.NewReplaced("sunstorm.log-before-rows", "A part of a log comes to a new incarnation that has no rows yet")
	preparedCopied = probe.NewReplaced("sunstorm.prepared-copied", "A new incarnation is sent transactions that are prepared with the rows")
)

// What replicas may be told to do: see package buggify.
var (
	refuses   = buggify.New("sunstorm.refuses", "A writer finds against a transaction that it could have taken")
	diesEarly = buggify.New("sunstorm.dies-early", "A transaction dies that might have waited")
)
