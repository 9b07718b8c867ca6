package geogauss

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	epochsMissed = coverage.New("geogauss.epochs-missed",
		"A server waits too long for the epochs of another server and requests them")
	serverSuspected = coverage.New("geogauss.server-suspected",
		"The leader suspects a silent server and starts to determine which of its epochs count")
	leaderRejoins = coverage.New("geogauss.leader-rejoins",
		"The leader itself is no longer in the view and rejoins")
	rejoinAsked   = coverage.New("geogauss.rejoin-asked", "A server outside the view asks to rejoin")
	reportedAgain = coverage.New("geogauss.reported-again",
		"A server reports again to the leader which epochs of a suspected server it has")
	limited              = coverage.New("geogauss.limited", "A server stops counting further epochs of a suspected server")
	inquiryOfAnotherView = coverage.New("geogauss.inquiry-of-another-view",
		"A server receives an inquiry from a server in a different view")
	roundInherited = coverage.New("geogauss.round-inherited",
		"The leader receives a report about a server before it has started an inquiry itself")
	leaderLacksEpochs = coverage.New("geogauss.leader-lacks-epochs",
		"The leader is missing epochs of a lost server and requests them from another server")
	joined = coverage.New("geogauss.joined", "A server becomes a member of the view again")
	left   = coverage.New("geogauss.left",
		"A server leaves the view after the group has agreed on its removal")
	epochPassedOn = coverage.New("geogauss.epoch-passed-on", "A server forwards an epoch of another server")
	walkResumed   = coverage.New("geogauss.walk-resumed",
		"The view has no members after an epoch, and merging resumes when a server joins")
	rewound = coverage.New("geogauss.rewound",
		"A view change makes a server re-evaluate epochs that were complete but not merged")
	epochRepeated = coverage.New("geogauss.epoch-repeated", "An epoch arrives twice or after a gap")
	leftOut       = coverage.New("geogauss.left-out",
		"A transaction aborts because the epochs of its server do not count")
	transactionHeld = coverage.New("geogauss.transaction-held",
		"A transaction waits until its server is a member of the view")
	transactionReleased = coverage.New("geogauss.transaction-released",
		"A waiting transaction starts because its server has rejoined")
	inquiryWithoutState = coverage.NewReplaced("geogauss.inquiry-without-state",
		"A new incarnation without state receives an inquiry about the epochs of another server")
	askedWithoutRows = coverage.NewReplaced("geogauss.asked-without-rows",
		"A new incarnation without rows receives a transaction")
	stateOfAnotherView = coverage.NewReplaced("geogauss.state-of-another-view",
		"A new incarnation receives state from a view that it does not know yet")
	stateRefused = coverage.NewReplaced("geogauss.state-refused",
		"A server cannot serve a new incarnation's request for its state")
	predecessorsForgot = coverage.NewReplaced("geogauss.predecessors-epochs-forgotten",
		"A server discards stored epochs of a lost incarnation that do not count")
	gapBehindState = coverage.NewReplaced("geogauss.gap-behind-state",
		"A new incarnation has a gap between the received state and the epochs sent to it")
	rowChanged = coverage.New("geogauss.row-changed",
		"A transaction writes a row that an earlier epoch has changed")
	rowLost = coverage.New("geogauss.row-lost",
		"A write set loses a row to another write set of the same epoch")
	rowTaken = coverage.New("geogauss.row-taken",
		"A write set replaces another write set as the winner of a row")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	impatient   = buggify.New("geogauss.impatient", "The leader suspects a server whose epoch is only delayed")
	asksAnother = buggify.NewReplaced("geogauss.asks-another",
		"A new incarnation requests state from a second server before the first has had time to answer")
)
