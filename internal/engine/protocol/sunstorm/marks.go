package sunstorm

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	indexPageOutdated = coverage.New("sunstorm.index-page-outdated", "An index page that a scan has used has changed")
	tupleOutdated     = coverage.New("sunstorm.tuple-outdated", "A row that was read from a copy has changed")
	readerRefused     = coverage.New("sunstorm.reader-refused",
		"The reader rule aborts a transaction that has read a row which a prepared transaction writes")
	writerRefused = coverage.New("sunstorm.writer-refused",
		"The writer rule aborts a transaction that writes a row which a prepared transaction has read")
	singleWaits = coverage.New("sunstorm.single-waits",
		"A single-region transaction waits for a prepared transaction")
	singleAgain = coverage.New("sunstorm.single-again",
		"A single-region transaction is executed again because the prepared transaction that it waited for aborts")
	multiWaits = coverage.New("sunstorm.multi-waits",
		"A multi-region transaction waits for a prepared transaction, up to a timeout")
	patienceOver = coverage.New("sunstorm.patience-over",
		"A multi-region transaction that waits for a prepared transaction times out and aborts")
	judgedAgain    = coverage.New("sunstorm.judged-again", "A transaction that has waited is validated again")
	ownRowsChanged = coverage.New("sunstorm.own-rows-changed",
		"The initiator's own rows have changed since the snapshot of its transaction")
	neighbourChanged = coverage.New("sunstorm.neighbour-changed",
		"An index page has changed, but the rows that the scan has read have not")
	voteNo     = coverage.New("sunstorm.vote-no", "A participant receives the no vote of another participant")
	overBefore = coverage.New("sunstorm.over-before",
		"A participant receives Prepare after the no vote of another participant")
	preparedAborted  = coverage.New("sunstorm.prepared-aborted", "A prepared transaction aborts")
	voteAcknowledged = coverage.New("sunstorm.vote-acknowledged", "A participant acknowledges a vote")
	updatedFirst     = coverage.New("sunstorm.updated-first",
		"A transaction aborts because the prepared transaction that it has waited for commits")
)

// Coverage marks that the explorer must reach where nodes are replaced.
var (
	logBeforeRows = coverage.NewReplaced("sunstorm.log-before-rows",
		"Log entries arrive at a new incarnation before its rows")
	preparedCopied = coverage.NewReplaced("sunstorm.prepared-copied",
		"A new incarnation receives prepared transactions with its rows")
	copyWaits = coverage.NewReplaced("sunstorm.copy-waits",
		"A copy for another region waits until its log entries are durable")
	logRecovered = coverage.NewReplaced("sunstorm.log-recovered",
		"A new incarnation of a writer continues the log of its predecessor")
	logLost     = coverage.NewReplaced("sunstorm.log-lost", "A copy is missing log entries that a lost writer has sent")
	forwardLost = coverage.NewReplaced("sunstorm.forward-lost",
		"The outcome of a transaction is unknown because it was forwarded to a lost writer")
	readWaits = coverage.NewReplaced("sunstorm.read-waits",
		"A transaction waits for rows of another region that a new incarnation has not received yet")
	readAgain = coverage.NewReplaced("sunstorm.read-again",
		"A node repeats a read that a lost writer has not answered")
	voteAsked = coverage.NewReplaced("sunstorm.vote-asked",
		"A participant asks a new incarnation for the vote of its predecessor")
	voteFound = coverage.NewReplaced("sunstorm.vote-found",
		"The log of a new incarnation shows that its predecessor has voted yes")
	endFound = coverage.NewReplaced("sunstorm.end-found",
		"A transaction that is prepared at a new incarnation was committed elsewhere")
	votedAgain = coverage.NewReplaced("sunstorm.voted-again",
		"A participant repeats a vote to a new incarnation because the first one went to the predecessor")
	preparedAhead = coverage.NewReplaced("sunstorm.prepared-ahead",
		"The initiator of a Prepare knows of a new incarnation that the receiver does not know")
	preparedLate = coverage.NewReplaced("sunstorm.prepared-late",
		"The receiver of a Prepare knows of a new incarnation that the initiator does not know")
	orphanRefused = coverage.NewReplaced("sunstorm.orphan-refused",
		"A writer rejects a transaction because it has no Prepare from the lost initiator")
	endHeard = coverage.NewReplaced("sunstorm.end-heard",
		"A new incarnation learns the outcome of a transaction that was open elsewhere")
	doubtAborted = coverage.NewReplaced("sunstorm.doubt-aborted",
		"A new incarnation aborts a prepared transaction that no other writer has open or has committed")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	refuses   = buggify.New("sunstorm.refuses", "A writer rejects a transaction that it could have accepted")
	diesEarly = buggify.New("sunstorm.dies-early", "A transaction aborts although it could have waited")
)
