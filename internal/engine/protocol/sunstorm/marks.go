package sunstorm

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	indexPageOutdated = coverage.New("sunstorm.index-page-outdated", "An index page that a scan has used has changed")
	tupleOutdated     = coverage.New("sunstorm.tuple-outdated", "A row that was read of a copy has changed")
	readerRefused     = coverage.New("sunstorm.reader-refused", "A transaction has read what a prepared one will write")
	writerRefused     = coverage.New("sunstorm.writer-refused", "A transaction writes what a prepared one has read")
	singleWaits       = coverage.New("sunstorm.single-waits", "A single-region transaction waits for one that is prepared")
	singleAgain       = coverage.New("sunstorm.single-again", "The prepared transaction aborts, and who has waited for it is executed again")
	multiWaits        = coverage.New("sunstorm.multi-waits", "A multi-region transaction waits for one that is prepared, for a while")
	patienceOver      = coverage.New("sunstorm.patience-over", "A multi-region transaction has waited too long and dies")
	judgedAgain       = coverage.New("sunstorm.judged-again", "A transaction that has waited is judged again")
	ownRowsChanged    = coverage.New("sunstorm.own-rows-changed", "The initiator's own rows have changed since its snapshot")
	neighbourChanged  = coverage.New("sunstorm.neighbour-changed", "An index page has changed and the rows of the scan have not")
	voteNo            = coverage.New("sunstorm.vote-no", "A participant hears that another one votes no")
	overBefore        = coverage.New("sunstorm.over-before", "Prepare comes to a participant that knows of another one's no")
	preparedAborted   = coverage.New("sunstorm.prepared-aborted", "A prepared transaction aborts")
	voteAcknowledged  = coverage.New("sunstorm.vote-acknowledged", "A vote is acknowledged")
	updatedFirst      = coverage.New("sunstorm.updated-first", "A transaction aborts since the prepared one that it has waited for commits")
)

// Coverage marks that the explorer must reach where nodes are replaced.
var (
	logBeforeRows  = coverage.NewReplaced("sunstorm.log-before-rows", "A part of a log comes to a new incarnation that has no rows yet")
	preparedCopied = coverage.NewReplaced("sunstorm.prepared-copied", "A new incarnation is sent transactions that are prepared with the rows")
	copyWaits      = coverage.NewReplaced("sunstorm.copy-waits", "A copy for another region waits until its entries are durable")
	logRecovered   = coverage.NewReplaced("sunstorm.log-recovered", "A new incarnation of a writer goes on with its predecessor's log")
	logLost        = coverage.NewReplaced("sunstorm.log-lost", "A copy lacks entries that a lost writer has sent")
	forwardLost    = coverage.NewReplaced("sunstorm.forward-lost", "A storage copy has handed a transaction to a writer that is lost")
	readWaits      = coverage.NewReplaced("sunstorm.read-waits", "A transaction waits for rows of another region that a new incarnation does not have yet")
	readAgain      = coverage.NewReplaced("sunstorm.read-again", "Rows that a lost writer was asked for are asked for again")
	voteAsked      = coverage.NewReplaced("sunstorm.vote-asked", "A new incarnation is asked how its predecessor has voted")
	voteFound      = coverage.NewReplaced("sunstorm.vote-found", "The predecessor's vote was yes, as its log shows")
	endFound       = coverage.NewReplaced("sunstorm.end-found", "What is prepared at a new incarnation was committed elsewhere")
	votedAgain     = coverage.NewReplaced("sunstorm.voted-again", "A vote on a transaction that a new incarnation knows was sent to its predecessor")
	preparedAhead  = coverage.NewReplaced("sunstorm.prepared-ahead", "Prepare comes from one who knows of a new incarnation to one who does not")
	preparedLate   = coverage.NewReplaced("sunstorm.prepared-late", "Prepare comes from one who does not know of a new incarnation to one who does")
	orphanRefused  = coverage.NewReplaced("sunstorm.orphan-refused", "A writer has no Prepare from an initiator that is lost")
	endHeard       = coverage.NewReplaced("sunstorm.end-heard", "A new incarnation hears how a transaction has ended that was open elsewhere")
	doubtAborted   = coverage.NewReplaced("sunstorm.doubt-aborted", "A new incarnation aborts what is prepared, since nobody else has it open or has committed it")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	refuses   = buggify.New("sunstorm.refuses", "A writer finds against a transaction that it could have taken")
	diesEarly = buggify.New("sunstorm.dies-early", "A transaction dies that might have waited")
)
