package janus

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	slowPath             = coverage.New("janus.slow-path", "Replicas have named different dependencies, and a proposal is written to majorities")
	patienceOver         = coverage.New("janus.patience-over", "A coordinator goes on without replicas that have not answered in time")
	rowClosedFirst       = coverage.New("janus.row-closed-first", "So many replicas refuse an instance because its row is closed that its coordinator takes it over itself")
	preAcceptRefused     = coverage.New("janus.pre-accept-refused", "A replica refuses to pre-accept since somebody has taken the instance over, or its row is closed")
	acceptOutbid         = coverage.New("janus.accept-outbid", "A proposal meets a higher ballot and is abandoned")
	prepareOutbid        = coverage.New("janus.prepare-outbid", "Who takes an instance over meets a higher ballot and leaves it")
	prepareRefused       = coverage.New("janus.prepare-refused", "A replica refuses to promise since it has promised a higher ballot")
	takenOver            = coverage.New("janus.taken-over", "A replica takes over an instance whose coordinator is silent, or that it has given up once")
	recoveredProposal    = coverage.New("janus.recovered-proposal", "Who takes over finds a proposal that somebody has accepted")
	recoveredPreAccepted = coverage.New("janus.recovered-pre-accepted", "Who takes over finds that majorities have pre-accepted, and proposes the union")
	noop                 = coverage.New("janus.noop", "Who takes over proposes that the instance never happened")
	restarted            = coverage.New("janus.restarted", "The transaction of a no-op starts again as a new instance")
	decisionKnown        = coverage.New("janus.decision-known", "Who takes over is told what has been decided")
	decisionForwarded    = coverage.New("janus.decision-forwarded", "Who takes over hears the decision meanwhile and tells all")
	allPartitionsTold    = coverage.New("janus.all-partitions-told", "Who took over without knowing the transaction tells the decision to all partitions")
	decisionPassedOn     = coverage.New("janus.decision-passed-on", "A replica that has not heard of a decision gets it from another one (anti-entropy)")
	rejoined             = coverage.NewReplaced("janus.rejoined", "A new incarnation has what others know, and votes from now on")
	abstained            = coverage.NewReplaced("janus.abstained", "A new incarnation is asked about an instance that its predecessor may have voted for, and does not answer")
	votesDropped         = coverage.NewReplaced("janus.votes-dropped", "Who decides an instance has counted a vote of a lost node, and asks the others again")
	orphanTakenOver      = coverage.NewReplaced("janus.orphan-taken-over", "A replica takes over an instance whose owner has lost what it knew")
	executedFor          = coverage.NewReplaced("janus.executed-for", "A new incarnation executes what was ordered at the node that it has its rows from, and not executed")
	inquiryPassedOn      = coverage.NewReplaced("janus.inquiry-passed-on", "A new incarnation is asked for dependencies of before its time, and says that others know")
	toldFormer           = coverage.NewReplaced("janus.told-former", "A replica tells the others of its partition decisions about what a lost coordinator had under way")
	answerLost           = coverage.NewReplaced("janus.answer-lost", "A new incarnation tells a coordinator that the answer it may wait for is lost")
	stateSentAgain       = coverage.NewReplaced("janus.state-sent-again", "A state for a new incarnation was given up on its way, and is sent again")
	forgottenAskedFor    = coverage.New("janus.forgotten-asked-for", "A node speaks of an instance that everybody has ordered")
	cycle                = coverage.New("janus.cycle", "Several instances depend on each other and are ordered by their names")
	askedAgain           = coverage.New("janus.asked-again", "A node asks a second time about an instance of another partition")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	votesDoubted = buggify.New("janus.votes-doubted", "Replicas have named the same dependencies, which are written to majorities first all the same")
	impatient    = buggify.New("janus.impatient", "An undecided instance is taken over from an owner that speaks")
)
