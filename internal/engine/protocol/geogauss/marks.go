package geogauss

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	epochsMissed         = coverage.New("geogauss.epochs-missed", "A server asks others for epochs that it has waited for")
	serverSuspected      = coverage.New("geogauss.server-suspected", "The leader begins to find out which epochs of a silent server count")
	leaderRejoins        = coverage.New("geogauss.leader-rejoins", "The leader itself has been left out and rejoins")
	rejoinAsked          = coverage.New("geogauss.rejoin-asked", "A server that was left out asks to be a member again")
	reportedAgain        = coverage.New("geogauss.reported-again", "A server tells the leader again which epochs of another one it has")
	limited              = coverage.New("geogauss.limited", "A server stops counting the epochs of another one")
	inquiryOfAnotherView = coverage.New("geogauss.inquiry-of-another-view", "An inquiry comes from a server in another view")
	roundInherited       = coverage.New("geogauss.round-inherited", "A report comes for a server that the leader has not begun to ask about")
	leaderLacksEpochs    = coverage.New("geogauss.leader-lacks-epochs", "The leader lacks epochs of a lost server that others have")
	joined               = coverage.New("geogauss.joined", "A server is a member again")
	left                 = coverage.New("geogauss.left", "A server leaves, as the group has agreed")
	epochPassedOn        = coverage.New("geogauss.epoch-passed-on", "A server passes on an epoch of another one")
	walkResumed          = coverage.New("geogauss.walk-resumed", "No server counts behind an epoch until one joins")
	rewound              = coverage.New("geogauss.rewound", "Epochs that were complete are looked at again in a new view")
	epochRepeated        = coverage.New("geogauss.epoch-repeated", "An epoch comes that is here, or behind a gap")
	leftOut              = coverage.New("geogauss.left-out", "A transaction is aborted since the epochs of its server do not count")
	transactionHeld      = coverage.New("geogauss.transaction-held", "A transaction waits until its server is a member")
	transactionReleased  = coverage.New("geogauss.transaction-released", "A transaction that has waited goes on")
	inquiryWithoutState  = coverage.NewReplaced("geogauss.inquiry-without-state", "A new incarnation that has no state is asked what it has of another server")
	askedWithoutRows     = coverage.NewReplaced("geogauss.asked-without-rows", "A transaction comes to a new incarnation that has no rows")
	stateOfAnotherView   = coverage.NewReplaced("geogauss.state-of-another-view", "A new incarnation has received state from a view that it does not know yet")
	stateRefused         = coverage.NewReplaced("geogauss.state-refused", "A server that is asked for the rows cannot give them")
	predecessorsForgot   = coverage.NewReplaced("geogauss.predecessors-epochs-forgotten", "A server has epochs of a lost one that do not count")
	gapBehindState       = coverage.NewReplaced("geogauss.gap-behind-state", "A new incarnation lacks epochs between its state and what was sent to it")
	rowChanged           = coverage.New("geogauss.row-changed", "An earlier epoch has changed a row that a transaction writes")
	rowLost              = coverage.New("geogauss.row-lost", "Another write set of the epoch has won a row")
	rowTaken             = coverage.New("geogauss.row-taken", "A write set takes a row from one that had won it")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	impatient   = buggify.New("geogauss.impatient", "A server is left out whose epoch is merely late")
	asksAnother = buggify.NewReplaced("geogauss.asks-another", "A new incarnation asks another server for its state although one has had no time to give it")
)
