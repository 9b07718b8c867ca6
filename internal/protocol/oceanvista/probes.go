package oceanvista

import (
	"github.com/geobench/geobench/internal/buggify"
	"github.com/geobench/geobench/internal/probe"
)

// What the explorer wants to see happen: see package probe.
var (
	writeOfSuspect    = probe.New("oceanvista.write-of-suspect", "A functor comes from a server whose functors are being decided on")
	functorDropped    = probe.New("oceanvista.functor-dropped", "A functor of a lost server is taken for one that was never written")
	functorLearned    = probe.New("oceanvista.functor-learned", "A replica learns of a lost server's functor with the decision")
	writeWaits        = probe.New("oceanvista.write-waits", "A transaction waits until its server is active")
	writeAgain        = probe.New("oceanvista.write-again", "A transaction whose functor was decided not to be written is written again")
	watermarkCapped   = probe.New("oceanvista.watermark-capped", "A sponsor's watermark stands still")
	gossipHeldBack    = probe.New("oceanvista.gossip-held-back", "A server has sent all the gossip that it may")
	gossipOfSuspect   = probe.New("oceanvista.gossip-of-suspect", "A watermark comes from a server that is not active")
	stoodStill        = probe.New("oceanvista.stood-still", "A server finds that it stood still, and suspects nobody")
	suspicionProposed = probe.New("oceanvista.suspicion-proposed", "The leader suspects a silent server")
	serverSuspected   = probe.New("oceanvista.server-suspected", "The group agrees that a server is suspected")
	serverClosed      = probe.New("oceanvista.server-closed", "The functors of a suspected server are decided on")
	serverJoined      = probe.New("oceanvista.server-joined", "A server that was closed is active again")
	closedItself      = probe.New("oceanvista.closed-itself", "A server learns that it was suspected and closed")
	sponsorAsked      = probe.New("oceanvista.sponsor-asked", "A closed server asks an active one to be its sponsor")
	sponsored         = probe.New("oceanvista.sponsored", "A server sponsors another one that joins")
	reportsMissing    = probe.New("oceanvista.reports-missing", "The leader has too few reports to decide on a server")
	functorReported   = probe.New("oceanvista.functor-reported", "A report names a functor of a suspected server")
	functorSurvives   = probe.New("oceanvista.functor-survives", "A functor of a suspected server is taken for written")
	proposalSent      = probe.New("oceanvista.proposal-sent", "A proposal goes to the leader")
)

// What replicas may be told to do: see package buggify.
var (
	impatient     = buggify.New("oceanvista.impatient", "A server that speaks is suspected")
	gossipLeftOut = buggify.New("oceanvista.gossip-left-out", "A server does not tell another its watermarks although it is time")
)
