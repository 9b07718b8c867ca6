package locallog

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	forwarded         = coverage.New("locallog.forwarded", "A transaction goes to another region, which its rows call home")
	forwardedTogether = coverage.New("locallog.forwarded-together", "Several transactions share a message to another region")
	lateSorted        = coverage.New("locallog.late-sorted", "Parts of one batch have come in another order than that of their times")
	lockOnly          = coverage.New("locallog.lock-only", "A partition gets the locks of a part alone, and the transaction with another one")
	moveBegun         = coverage.New("locallog.move-begun", "A row has been used so often from another region that it is to move there")
	moveVoid          = coverage.New("locallog.move-void", "A row was to be moved that another remastering has moved before")
	moved             = coverage.New("locallog.moved", "A row has left its home")
	movedKnown        = coverage.New("locallog.moved-known", "Both parts of a remastering are read, and coordinators count on it")
	arrivedFirst      = coverage.New("locallog.arrived-first", "The new home of a row knows of a move before the old one's log says so")
	requestWaits      = coverage.New("locallog.request-waits", "A request for a row waits until the row has come")
	requestGoesOn     = coverage.New("locallog.request-goes-on", "A request for a row goes on since the row has come")
	restarted         = coverage.New("locallog.restarted", "A transaction whose rows have moved is sent again")
	movedAhead        = coverage.New("locallog.knows-moved", "A coordinator sends a transaction to where a row has moved")
	mastersAsked      = coverage.New("locallog.masters-asked", "A coordinator asks other partitions for the homes of a transaction's rows")
	mastersOfSeveral  = coverage.New("locallog.masters-of-several", "A coordinator waits for the homes of rows of several other partitions")
	partTaken         = coverage.New("locallog.part-taken", "A reader makes the part of a multi-home transaction that a home log takes from a multi-home order")
	batchAgain        = coverage.New("locallog.batch-again", "A coordinator learns that its batch for a home log or an order is void, and puts the entries into a new one")
	mastersAskedAgain = coverage.NewReplaced("locallog.masters-asked-again", "A new incarnation is asked for the homes of rows that its predecessor has not told")
	marksCross        = coverage.NewReplaced("locallog.marks-cross", "Two orders come to a cut with marks of different nodes")
	outcomeForgotten  = coverage.NewReplaced("locallog.outcome-forgotten", "A copy begins anew behind a transaction whose client waits for it there")
	answeredLate      = coverage.NewReplaced("locallog.answered-late", "An outcome comes of a transaction whose client was told that it is unknown")
	toldAhead         = coverage.NewReplaced("locallog.told-ahead", "A node of the copy has gone on from a later cut than this one has come to")
	toldBehind        = coverage.NewReplaced("locallog.told-behind", "A node of the copy has not come to the cut from which this one has gone on, or had not")
	batchSentAgain    = coverage.NewReplaced("locallog.batch-sent-again", "A batch without a place is sent to the new incarnation of a reader")
	submittedEarly    = coverage.NewReplaced("locallog.submitted-early", "A new incarnation without rows gets a transaction")
	mastersBehind     = coverage.New("locallog.masters-behind", "A partition that was asked for a row's home has read less of its moves than who asks")
)

// Behaviours that the explorer can force at replicas: see package buggify.
var (
	closesEarly = buggify.New("locallog.batch-early", "A batch is closed before its time")
	movesEarly  = buggify.New("locallog.row-moves-early", "A row moves its home for one transaction from elsewhere")
)
