package geogauss

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/probe"
)

// What the explorer wants to see happen: see package probe.
var (
	epochsMissed         = probe.New("geogauss.epochs-missed", "A server asks others for epochs that it has waited for")
	serverSuspected      = probe.New("geogauss.server-suspected", "The leader begins to find out which epochs of a silent server count")
	leaderRejoins        = probe.New("geogauss.leader-rejoins", "The leader itself has been left out and rejoins")
	rejoinAsked          = probe.New("geogauss.rejoin-asked", "A server that was left out asks to be a member again")
	reportedAgain        = probe.New("geogauss.reported-again", "A server tells the leader again which epochs of another one it has")
	limited              = probe.New("geogauss.limited", "A server stops counting the epochs of another one")
	inquiryOfAnotherView = probe.New("geogauss.inquiry-of-another-view", "An inquiry comes from a server in another view")
	roundInherited       = probe.New("geogauss.round-inherited", "A report comes for a server that the leader has not begun to ask about")
	leaderLacksEpochs    = probe.New("geogauss.leader-lacks-epochs", "The leader lacks epochs of a lost server that others have")
	joined               = probe.New("geogauss.joined", "A server is a member again")
	left                 = probe.New("geogauss.left", "A server leaves, as the group has agreed")
	epochPassedOn        = probe.New("geogauss.epoch-passed-on", "A server passes on an epoch of another one")
	walkResumed          = probe.New("geogauss.walk-resumed", "No server counts behind an epoch until one joins")
	rewound              = probe.New("geogauss.rewound", "Epochs that were complete are looked at again in a new view")
	epochRepeated        = probe.New("geogauss.epoch-repeated", "An epoch comes that is here, or behind a gap")
	leftOut              = probe.New("geogauss.left-out", "A transaction is aborted since the epochs of its server do not count")
	transactionHeld      = probe.New("geogauss.transaction-held", "A transaction waits until its server is a member")
	transactionReleased  = probe.New("geogauss.transaction-released", "A transaction that has waited goes on")
	inquiryWithoutState  = probe.NewReplaced("geogauss.inquiry-without-state", "A new incarnation that has no state is asked what it has of another server")
	askedWithoutRows     = probe.NewReplaced("geogauss.asked-without-rows", "A transaction comes to a new incarnation that has no rows")
	stateOfAnotherView   = probe.NewReplaced("geogauss.state-of-another-view", "A new incarnation has got a state of a view that it does not know yet")
	stateRefused         = probe.NewReplaced("geogauss.state-refused", "A server that is asked for the rows cannot give them")
	predecessorsForgot   = probe.NewReplaced("geogauss.predecessors-epochs-forgotten", "A server has epochs of a lost one that do not count")
	gapBehindState       = probe.NewReplaced("geogauss.gap-behind-state", "A new incarnation lacks epochs between its state and what was sent to it")
	rowChanged           = probe.New("geogauss.row-changed", "An earlier epoch has changed a row that a transaction writes")
	rowLost              = probe.New("geogauss.row-lost", "Another write set of the epoch has won a row")
	rowTaken             = probe.New("geogauss.row-taken", "A write set takes a row from one that had won it")
)

// What replicas may be told to do: see package buggify.
var (
	impatient   = buggify.New("geogauss.impatient", "A server is left out whose epoch is merely late")
	asksAnother = buggify.NewReplaced("geogauss.asks-another", "A new incarnation asks another server for its state although one has had no time to give it")
)
