package locallog

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	forwarded         = coverage.New("locallog.forwarded", "A transaction is forwarded to the home region of its rows")
	forwardedTogether = coverage.New("locallog.forwarded-together",
		"Several transactions share a message to another region")
	lateSorted = coverage.New("locallog.late-sorted",
		"Parts of a batch arrive out of timestamp order and are sorted")
	lockOnly = coverage.New("locallog.lock-only",
		"A partition receives only the locks with one part of a transaction, and the transaction with another part")
	moveBegun = coverage.New("locallog.move-begun",
		"Repeated accesses from another region start the remastering of a row")
	moveVoid = coverage.New("locallog.move-void",
		"A remastering is void because another remastering has already moved the row")
	moved      = coverage.New("locallog.moved", "A row leaves its home region")
	movedKnown = coverage.New("locallog.moved-known",
		"Both parts of a remastering are read, and coordinators use the new home")
	arrivedFirst = coverage.New("locallog.arrived-first",
		"A node reads a move in the log of the new home before the log of the old home")
	requestWaits  = coverage.New("locallog.request-waits", "A request for a row waits until the row has arrived")
	requestGoesOn = coverage.New("locallog.request-goes-on", "A waiting request continues because its row has arrived")
	restarted     = coverage.New("locallog.restarted", "A transaction is sent again because its rows have moved")
	movedAhead    = coverage.New("locallog.knows-moved", "A coordinator sends a transaction to the new home of a row")
	mastersAsked  = coverage.New("locallog.masters-asked",
		"A coordinator asks other partitions for the homes of a transaction's rows")
	mastersOfSeveral = coverage.New("locallog.masters-of-several",
		"A coordinator waits for the homes of rows from several other partitions")
	partTaken = coverage.New("locallog.part-taken",
		"A reader derives a home log's part of a multi-home transaction from a multi-home order")
	batchAgain = coverage.New("locallog.batch-again",
		"A coordinator puts the entries of a void batch into a new batch")
	mastersAskedAgain = coverage.NewReplaced("locallog.masters-asked-again",
		"A coordinator asks a new incarnation for homes of rows that the predecessor has not reported")
	marksCross = coverage.NewReplaced("locallog.marks-cross",
		"Several multi-home orders reach a cut with reset marks of different nodes")
	outcomeForgotten = coverage.NewReplaced("locallog.outcome-forgotten",
		"A client gets an unknown outcome because its transaction precedes a reset of the copy")
	answeredLate = coverage.NewReplaced("locallog.answered-late",
		"An outcome arrives after the client has received an unknown outcome")
	toldAhead = coverage.NewReplaced("locallog.told-ahead",
		"A message arrives from a node of the copy that has reset at a later cut")
	toldBehind = coverage.NewReplaced("locallog.told-behind",
		"A message arrives from a node of the copy that had not reset at this node's cut")
	batchSentAgain = coverage.NewReplaced("locallog.batch-sent-again",
		"A batch without a log position is resent to the new incarnation of a reader")
	submittedEarly = coverage.NewReplaced("locallog.submitted-early",
		"A new incarnation without rows receives a transaction")
	mastersBehind = coverage.New("locallog.masters-behind",
		"A partition that reports a row's home has read fewer of its moves than the coordinator")
)

// Behaviours that the explorer can force at replicas: see package buggify.
var (
	closesEarly = buggify.New("locallog.batch-early", "A batch is closed before its interval has passed")
	movesEarly  = buggify.New("locallog.row-moves-early",
		"A single transaction from another region moves the home of a row")
)
