package sdur

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	deliveredPrevented = coverage.New("sdur.delivered-prevented",
		"A transaction is delivered after its group has voted to abort it")
	leapt         = coverage.New("sdur.leapt", "A local transaction leaps over pending global transactions")
	conflict      = coverage.New("sdur.conflict", "Certification finds a conflict")
	falsePositive = coverage.New("sdur.false-positive",
		"Certification aborts a transaction because of a false positive of its Bloom filters")
	tooOld     = coverage.New("sdur.too-old", "A snapshot is older than the filters that certification has kept")
	localWaits = coverage.New("sdur.local-waits",
		"A local transaction waits for an earlier global transaction to complete")
	prevented = coverage.New("sdur.prevented",
		"A group logs a vote to abort a transaction that it has not received")
	decidedLoggedAgain = coverage.New("sdur.decided-logged-again",
		"A new leader proposes a known decision again because it is missing from the log")
	submittedPending = coverage.New("sdur.submitted-pending", "A pending transaction is submitted again")
	submittedEnded   = coverage.New("sdur.submitted-ended", "A finished transaction is submitted again")
	paced            = coverage.New("sdur.paced", "A group delivers a tick so that a global transaction can complete")
	voteEarly        = coverage.New("sdur.vote-early", "A vote arrives before its transaction is delivered")
	voteLate         = coverage.New("sdur.vote-late", "A vote arrives after its transaction has been decided")
	voteFinal        = coverage.New("sdur.vote-final", "A group learns the outcome of a transaction from another group")
	voteDemanded     = coverage.New("sdur.vote-demanded",
		"A group requests outstanding votes after the recovery timeout")
	askedAboutDecided = coverage.New("sdur.asked-about-decided",
		"A group receives a request for its vote on a transaction that it has decided")
	readTooOld        = coverage.New("sdur.read-too-old", "A read needs row versions that the member has discarded")
	readWaits         = coverage.New("sdur.read-waits", "A read waits until the member has reached the requested state")
	readBeforeJoining = coverage.NewReplaced("sdur.read-before-joining",
		"A new incarnation receives a read before it has the rows")
	allSilent = coverage.New("sdur.all-silent",
		"All members of a group are suspected, so a read tries them in turn")
	memberSuspected = coverage.New("sdur.member-suspected", "A member that does not answer a read is suspected")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	demandsEarly = buggify.New("sdur.demand-early", "A group requests votes that are only delayed")
	asksAnother  = buggify.New("sdur.asks-another", "A member is suspected before it has had time to answer")
)
