package sdur

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	deliveredPrevented = coverage.New("sdur.delivered-prevented", "A transaction is delivered that its group has voted to abort unseen")
	leapt              = coverage.New("sdur.leapt", "A local transaction leaps over global ones that are pending")
	conflict           = coverage.New("sdur.conflict", "Certification finds a conflict")
	falsePositive      = coverage.New("sdur.false-positive", "Certification aborts a transaction for what its filters say and its rows do not")
	tooOld             = coverage.New("sdur.too-old", "A snapshot is older than the filters that are kept")
	localWaits         = coverage.New("sdur.local-waits", "A local transaction waits behind a global one")
	prevented          = coverage.New("sdur.prevented", "A group puts into its log that it will not pass a transaction that it has not seen")
	decidedLoggedAgain = coverage.New("sdur.decided-logged-again", "A new leader finds a transaction whose end is known here and not in the log")
	submittedPending   = coverage.New("sdur.submitted-pending", "A transaction is submitted again that is pending")
	submittedEnded     = coverage.New("sdur.submitted-ended", "A transaction is submitted again that has ended")
	paced              = coverage.New("sdur.paced", "A group delivers nothing so that a global transaction may complete")
	voteEarly          = coverage.New("sdur.vote-early", "A vote comes before its transaction is delivered")
	voteLate           = coverage.New("sdur.vote-late", "A vote comes when the end of its transaction is known")
	voteFinal          = coverage.New("sdur.vote-final", "A group learns how a transaction ends from another one")
	voteDemanded       = coverage.New("sdur.vote-demanded", "A group demands votes for which it has waited too long")
	askedAboutDecided  = coverage.New("sdur.asked-about-decided", "A group asks for a vote on a transaction that is decided here")
	readTooOld         = coverage.New("sdur.read-too-old", "A member has forgotten the versions that a transaction wants to read")
	readWaits          = coverage.New("sdur.read-waits", "A member waits until it has the state that a transaction wants to read")
	readBeforeJoining  = coverage.NewReplaced("sdur.read-before-joining", "A new incarnation is asked for rows that it does not have yet")
	allSilent          = coverage.New("sdur.all-silent", "No member of a group is known to live, and they are asked in turn")
	memberSuspected    = coverage.New("sdur.member-suspected", "A member that does not answer is not asked any more")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	demandsEarly = buggify.New("sdur.demand-early", "Votes are demanded that are merely late")
	asksAnother  = buggify.New("sdur.asks-another", "A member is taken for silent that has had no time to answer")
)
