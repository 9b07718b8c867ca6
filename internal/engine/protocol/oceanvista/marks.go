package oceanvista

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	writeOfSuspect = coverage.New("oceanvista.write-of-suspect",
		"A functor arrives from a server that is suspected or closed")
	functorDropped = coverage.New("oceanvista.functor-dropped",
		"A functor of a lost server is discarded as never written")
	functorLearned = coverage.New("oceanvista.functor-learned",
		"A replica first receives a lost server's functor with the decision about the server")
	writeWaits = coverage.New("oceanvista.write-waits", "A transaction waits until its server is active")
	writeAgain = coverage.New("oceanvista.write-again",
		"A transaction is written again because its first functor was discarded as never written")
	watermarkCapped = coverage.New("oceanvista.watermark-capped",
		"The watermark of a sponsor stops advancing during a join")
	gossipHeldBack = coverage.New("oceanvista.gossip-held-back",
		"A server sends no gossip to a peer because its gossip window is full")
	gossipOfSuspect = coverage.New("oceanvista.gossip-of-suspect",
		"A watermark arrives from a server that is not active")
	stoodStill = coverage.New("oceanvista.stood-still",
		"A server detects that it was paused, and suspects no other server")
	suspicionProposed = coverage.New("oceanvista.suspicion-proposed", "The leader proposes to suspect a silent server")
	serverSuspected   = coverage.New("oceanvista.server-suspected", "The group agrees to suspect a server")
	serverClosed      = coverage.New("oceanvista.server-closed",
		"The group decides on the functors of a suspected server and closes the server")
	serverJoined = coverage.New("oceanvista.server-joined", "A closed server becomes active again")
	closedItself = coverage.New("oceanvista.closed-itself",
		"A server learns that the group has suspected and closed it")
	sponsorAsked = coverage.New("oceanvista.sponsor-asked",
		"A closed server asks an active server to sponsor its join")
	sponsored      = coverage.New("oceanvista.sponsored", "A server sponsors the join of another server")
	reportsMissing = coverage.New("oceanvista.reports-missing",
		"The leader has too few reports to decide on a suspected server")
	functorReported = coverage.New("oceanvista.functor-reported", "A report contains a functor of a suspected server")
	functorSurvives = coverage.New("oceanvista.functor-survives",
		"The leader decides that a functor of a suspected server counts as written")
	proposalSent = coverage.New("oceanvista.proposal-sent", "A server sends a proposal to the leader")

	newIncarnationJoined = coverage.NewReplaced("oceanvista.new-incarnation-joined", "A new incarnation joins the group")
	lossWaits            = coverage.NewReplaced("oceanvista.loss-waits",
		"A lost server is not closed yet because too many servers are inactive")
	beforeMark = coverage.NewReplaced("oceanvista.before-mark",
		"A message is dropped because it predates the reset of its receiver or the join of its sender")
	copyReset = coverage.NewReplaced("oceanvista.copy-reset",
		"A node discards its state because another node of its copy has lost its state")
	outcomeForgotten = coverage.NewReplaced("oceanvista.outcome-forgotten",
		"A node that resets its state reports an unknown outcome to a client")
	readBeforeRows = coverage.NewReplaced("oceanvista.read-before-rows",
		"A read waits until its node has received its rows")
	donorDrains = coverage.NewReplaced("oceanvista.donor-drains",
		"A donor waits until all functors up to the timestamp of a reset have executed")
	rowsOutdated = coverage.NewReplaced("oceanvista.rows-outdated",
		"A node receives rows that do not belong to its latest reset")
	rowsWait = coverage.NewReplaced("oceanvista.rows-wait",
		"Received rows wait until the node is notified of all new incarnations in its copy")
	functorGiven = coverage.NewReplaced("oceanvista.functor-given",
		"The rows for a new incarnation include a decided functor that is not visible yet")
	functorResent = coverage.NewReplaced("oceanvista.functor-resent",
		"A server resends a functor to a new incarnation because not all replicas have it")
	functorsToCome = coverage.NewReplaced("oceanvista.functors-to-come",
		"A new incarnation has its rows but is missing functors of other servers")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	impatient     = buggify.New("oceanvista.impatient", "A server that still sends messages is suspected")
	gossipLeftOut = buggify.New("oceanvista.gossip-left-out", "A server skips gossip to another server although it is due")
)
