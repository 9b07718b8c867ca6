package janus

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	slowPath = coverage.New("janus.slow-path",
		"Replicas report different dependencies, so the coordinator takes the slow path")
	patienceOver = coverage.New("janus.patience-over",
		"A coordinator continues without replicas that have not answered in time")
	rowClosedFirst = coverage.New("janus.row-closed-first",
		"Too many replicas refuse to pre-accept an instance, so its own coordinator starts its recovery")
	preAcceptRefused = coverage.New("janus.pre-accept-refused",
		"A replica refuses to pre-accept an instance that was taken over or whose row is closed")
	acceptOutbid  = coverage.New("janus.accept-outbid", "A proposal meets a higher ballot and is abandoned")
	prepareOutbid = coverage.New("janus.prepare-outbid",
		"A recovery attempt meets a higher ballot and is abandoned")
	prepareRefused = coverage.New("janus.prepare-refused",
		"A replica refuses a ballot because it has promised a higher one")
	takenOver         = coverage.New("janus.taken-over", "A replica takes over an undecided instance to recover it")
	recoveredProposal = coverage.New("janus.recovered-proposal",
		"Recovery finds a proposal that a replica has accepted")
	recoveredPreAccepted = coverage.New("janus.recovered-pre-accepted",
		"Recovery finds that majorities have pre-accepted, and proposes the union of the dependencies")
	noop      = coverage.New("janus.noop", "Recovery proposes a no-op for an instance")
	restarted = coverage.New("janus.restarted",
		"A transaction restarts as a new instance because its first instance became a no-op")
	decisionKnown     = coverage.New("janus.decision-known", "A replica answers a recovery attempt with the decision")
	decisionForwarded = coverage.New("janus.decision-forwarded",
		"A node that recovers an instance receives the decision from another node and forwards it")
	allPartitionsTold = coverage.New("janus.all-partitions-told",
		"A node that recovered an instance without its transaction sends the decision to all partitions")
	decisionPassedOn = coverage.New("janus.decision-passed-on",
		"A replica receives a missing decision by anti-entropy")
	rejoined = coverage.NewReplaced("janus.rejoined",
		"A new incarnation has received the other replicas' state and starts to vote")
	abstained = coverage.NewReplaced("janus.abstained",
		"A new incarnation abstains on an instance for which its predecessor may have voted")
	votesDropped = coverage.NewReplaced("janus.votes-dropped",
		"A coordinator has counted a vote of a lost node and asks the other replicas again")
	orphanTakenOver = coverage.NewReplaced("janus.orphan-taken-over",
		"A replica takes over an instance whose owner has lost its state")
	executedFor = coverage.NewReplaced("janus.executed-for",
		"A new incarnation executes instances that its donor had ordered but not executed")
	inquiryPassedOn = coverage.NewReplaced("janus.inquiry-passed-on",
		"A new incarnation redirects an inquiry about dependencies from before its start to other replicas")
	toldFormer = coverage.NewReplaced("janus.told-former",
		"A replica sends its partition's decisions on a lost coordinator's open instances to the other replicas")
	answerLost = coverage.NewReplaced("janus.answer-lost",
		"A new incarnation reports to a coordinator that the answer of its predecessor may be lost")
	stateSentAgain = coverage.NewReplaced("janus.state-sent-again",
		"A state transfer to a new incarnation failed and is repeated")
	forgottenAskedFor = coverage.New("janus.forgotten-asked-for",
		"A message concerns an instance that all replicas have already ordered")
	cycle = coverage.New("janus.cycle",
		"Several instances depend on each other and are ordered by their names")
	askedAgain = coverage.New("janus.asked-again",
		"A node repeats an inquiry about an instance of another partition")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	votesDoubted = buggify.New("janus.votes-doubted",
		"A coordinator takes the slow path although all replicas report the same dependencies")
	impatient = buggify.New("janus.impatient", "A replica takes over an undecided instance although its owner is alive")
)
