package janus

import (
	"github.com/geobench/geobench/internal/buggify"
	"github.com/geobench/geobench/internal/probe"
)

// What the explorer wants to see happen: see package probe.
var (
	slowPath             = probe.New("janus.slow-path", "Replicas have named different dependencies, and a proposal is written to majorities")
	patienceOver         = probe.New("janus.patience-over", "A coordinator goes on without replicas that have not answered in time")
	rowClosedFirst       = probe.New("janus.row-closed-first", "So many replicas refuse an instance because its row is closed that its coordinator takes it over itself")
	preAcceptRefused     = probe.New("janus.pre-accept-refused", "A replica refuses to pre-accept since somebody has taken the instance over, or its row is closed")
	acceptOutbid         = probe.New("janus.accept-outbid", "A proposal meets a higher ballot and is abandoned")
	prepareOutbid        = probe.New("janus.prepare-outbid", "Who takes an instance over meets a higher ballot and leaves it")
	prepareRefused       = probe.New("janus.prepare-refused", "A replica refuses to promise since it has promised a higher ballot")
	takenOver            = probe.New("janus.taken-over", "A replica takes over an instance whose coordinator is silent, or that it has given up once")
	recoveredProposal    = probe.New("janus.recovered-proposal", "Who takes over finds a proposal that somebody has accepted")
	recoveredPreAccepted = probe.New("janus.recovered-pre-accepted", "Who takes over finds that majorities have pre-accepted, and proposes the union")
	noop                 = probe.New("janus.noop", "Who takes over proposes that the instance never happened")
	restarted            = probe.New("janus.restarted", "The transaction of a no-op starts again as a new instance")
	decisionKnown        = probe.New("janus.decision-known", "Who takes over is told what has been decided")
	decisionForwarded    = probe.New("janus.decision-forwarded", "Who takes over hears the decision meanwhile and tells all")
	allPartitionsTold    = probe.New("janus.all-partitions-told", "Who took over without knowing the transaction tells the decision to all partitions")
	decisionPassedOn     = probe.New("janus.decision-passed-on", "A replica that has not heard of a decision gets it from another one (anti-entropy)")
	forgottenAskedFor    = probe.New("janus.forgotten-asked-for", "A node speaks of an instance that everybody has ordered")
	cycle                = probe.New("janus.cycle", "Several instances depend on each other and are ordered by their names")
	askedAgain           = probe.New("janus.asked-again", "A node asks a second time about an instance of another partition")
)

// What replicas may be told to do: see package buggify.
var (
	votesDoubted = buggify.New("janus.votes-doubted", "Replicas have named the same dependencies, which are written to majorities first all the same")
	impatient    = buggify.New("janus.impatient", "An undecided instance is taken over from an owner that speaks")
)
