package locallog

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/probe"
)

// What the explorer wants to see happen: see package probe.
var (
	forwarded         = probe.New("locallog.forwarded", "A transaction goes to another region, which its rows call home")
	forwardedTogether = probe.New("locallog.forwarded-together", "Several transactions share a message to another region")
	lateSorted        = probe.New("locallog.late-sorted", "Parts of one batch have come in another order than that of their times")
	lockOnly          = probe.New("locallog.lock-only", "A partition gets the locks of a part alone, and the transaction with another one")
	moveBegun         = probe.New("locallog.move-begun", "A row has been used so often from another region that it is to move there")
	moveVoid          = probe.New("locallog.move-void", "A row was to be moved that another remastering has moved before")
	moved             = probe.New("locallog.moved", "A row has left its home")
	movedKnown        = probe.New("locallog.moved-known", "Both parts of a remastering are read, and coordinators count on it")
	arrivedFirst      = probe.New("locallog.arrived-first", "The new home of a row knows of a move before the old one's log says so")
	requestWaits      = probe.New("locallog.request-waits", "A request for a row waits until the row has come")
	requestGoesOn     = probe.New("locallog.request-goes-on", "A request for a row goes on since the row has come")
	restarted         = probe.New("locallog.restarted", "A transaction whose rows have moved is sent again")
	movedAhead        = probe.New("locallog.knows-moved", "A coordinator sends a transaction to where a row has moved")
	mastersAsked      = probe.New("locallog.masters-asked", "A coordinator asks other partitions for the homes of a transaction's rows")
	mastersOfSeveral  = probe.New("locallog.masters-of-several", "A coordinator waits for the homes of rows of several other partitions")
	partTaken         = probe.New("locallog.part-taken", "A reader makes the part of a multi-home transaction that a home log takes from a multi-home order")
	batchAgain        = probe.New("locallog.batch-again", "A coordinator learns that its batch for a home log or an order is void, and puts the entries into a new one")
	mastersAskedAgain = probe.NewReplaced("locallog.masters-asked-again", "A new incarnation is asked for the homes of rows that its predecessor has not told")
	marksCross        = probe.NewReplaced("locallog.marks-cross", "Two orders come to a cut with marks of different nodes")
	outcomeForgotten  = probe.NewReplaced("locallog.outcome-forgotten", "A copy begins anew behind a transaction whose client waits for it there")
	answeredLate      = probe.NewReplaced("locallog.answered-late", "An outcome comes of a transaction whose client was told that it is unknown")
	toldAhead         = probe.NewReplaced("locallog.told-ahead", "A node of the copy has gone on from a later cut than this one has come to")
	toldBehind        = probe.NewReplaced("locallog.told-behind", "A node of the copy has not come to the cut from which this one has gone on, or had not")
	batchSentAgain    = probe.NewReplaced("locallog.batch-sent-again", "A batch without a place is sent to the new incarnation of a reader")
	submittedEarly    = probe.NewReplaced("locallog.submitted-early", "A new incarnation without rows gets a transaction")
	mastersBehind     = probe.New("locallog.masters-behind", "A partition that was asked for a row's home has read less of its moves than who asks")
)

// What replicas may be told to do: see package buggify.
var (
	closesEarly = buggify.New("locallog.batch-early", "A batch is closed before its time")
	movesEarly  = buggify.New("locallog.row-moves-early", "A row moves its home for one transaction from elsewhere")
)
