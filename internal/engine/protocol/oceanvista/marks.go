package oceanvista

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	writeOfSuspect    = coverage.New("oceanvista.write-of-suspect", "A functor comes from a server whose functors are being decided on")
	functorDropped    = coverage.New("oceanvista.functor-dropped", "A functor of a lost server is taken for one that was never written")
	functorLearned    = coverage.New("oceanvista.functor-learned", "A replica learns of a lost server's functor with the decision")
	writeWaits        = coverage.New("oceanvista.write-waits", "A transaction waits until its server is active")
	writeAgain        = coverage.New("oceanvista.write-again", "A transaction whose functor was decided not to be written is written again")
	watermarkCapped   = coverage.New("oceanvista.watermark-capped", "A sponsor's watermark stands still")
	gossipHeldBack    = coverage.New("oceanvista.gossip-held-back", "A server has sent all the gossip that it may")
	gossipOfSuspect   = coverage.New("oceanvista.gossip-of-suspect", "A watermark comes from a server that is not active")
	stoodStill        = coverage.New("oceanvista.stood-still", "A server finds that it stood still, and suspects nobody")
	suspicionProposed = coverage.New("oceanvista.suspicion-proposed", "The leader suspects a silent server")
	serverSuspected   = coverage.New("oceanvista.server-suspected", "The group agrees that a server is suspected")
	serverClosed      = coverage.New("oceanvista.server-closed", "The functors of a suspected server are decided on")
	serverJoined      = coverage.New("oceanvista.server-joined", "A server that was closed is active again")
	closedItself      = coverage.New("oceanvista.closed-itself", "A server learns that it was suspected and closed")
	sponsorAsked      = coverage.New("oceanvista.sponsor-asked", "A closed server asks an active one to be its sponsor")
	sponsored         = coverage.New("oceanvista.sponsored", "A server sponsors another one that joins")
	reportsMissing    = coverage.New("oceanvista.reports-missing", "The leader has too few reports to decide on a server")
	functorReported   = coverage.New("oceanvista.functor-reported", "A report names a functor of a suspected server")
	functorSurvives   = coverage.New("oceanvista.functor-survives", "A functor of a suspected server is taken for written")
	proposalSent      = coverage.New("oceanvista.proposal-sent", "A proposal goes to the leader")

	newIncarnationJoined = coverage.NewReplaced("oceanvista.new-incarnation-joined", "A new incarnation joins")
	lossWaits            = coverage.NewReplaced("oceanvista.loss-waits", "A lost server is not closed yet since as many are inactive as may be")
	beforeMark           = coverage.NewReplaced("oceanvista.before-mark", "A message comes that is from before the mark of its receiver or its sender")
	copyReset            = coverage.NewReplaced("oceanvista.copy-reset", "A node begins anew since one of its copy has lost what it knew")
	outcomeForgotten     = coverage.NewReplaced("oceanvista.outcome-forgotten", "A node that begins anew cannot tell a client what became of its transaction")
	readBeforeRows       = coverage.NewReplaced("oceanvista.read-before-rows", "A read waits until its node has rows")
	donorDrains          = coverage.NewReplaced("oceanvista.donor-drains", "A donor stands at a mark, and something before it is not over yet")
	rowsOutdated         = coverage.NewReplaced("oceanvista.rows-outdated", "Rows come that are not those of the last mark")
	rowsWait             = coverage.NewReplaced("oceanvista.rows-wait", "Rows come at a node that was not told yet of the new incarnation in its copy")
	functorGiven         = coverage.NewReplaced("oceanvista.functor-given", "A functor comes with the rows, which was decided on before the mark and is not visible yet")
	functorResent        = coverage.NewReplaced("oceanvista.functor-resent", "A server sends a new incarnation a functor that not all replicas have")
	functorsToCome       = coverage.NewReplaced("oceanvista.functors-to-come", "A new incarnation has rows, and not yet all functors of the others")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	impatient     = buggify.New("oceanvista.impatient", "A server that speaks is suspected")
	gossipLeftOut = buggify.New("oceanvista.gossip-left-out", "A server does not tell another its watermarks although it is time")
)
