package coco

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	coordinatorDeposed = coverage.New("coco.coordinator-deposed", "A coordinator learns that it no longer leads")
	statesCollected    = coverage.New("coco.states-collected",
		"A coordinator requests the states of all nodes to form a view")
	memberAwaited = coverage.New("coco.member-awaited",
		"A coordinator waits for the state of a member that may be alive before it forms a view")
	stateLacking = coverage.New("coco.state-lacking",
		"A node of the next view is missing the rows of the last committed epoch")
	notCovered    = coverage.New("coco.not-covered", "Too few regions hold a shard to form a view")
	viewOfAnother = coverage.New("coco.view-of-another", "The group agrees on a view that this node did not propose")
	nodeReturns   = coverage.New("coco.node-returns", "A node outside the view asks to join")
	memberSilent  = coverage.New("coco.member-silent",
		"A member is silent, so the coordinator starts to form a view without it")
	viewWithJoiners = coverage.New("coco.view-with-joiners",
		"An epoch ends, and the coordinator forms a view in which nodes join with the next epoch")
	messageHeld   = coverage.New("coco.message-held", "A message of a later epoch arrives and waits for that epoch")
	excluded      = coverage.New("coco.excluded", "A node learns that the new view excludes it")
	epochAborted  = coverage.New("coco.epoch-aborted", "A view change aborts an epoch")
	collectOutbid = coverage.New("coco.collect-outbid",
		"A node ignores a request for its state because it has promised a higher ballot")
	rowsSent    = coverage.New("coco.rows-sent", "A node sends the rows of a shard to a joining node")
	joined      = coverage.New("coco.joined", "A joining node has received all rows")
	settled     = coverage.New("coco.settled", "A new view commits or aborts the epoch in progress")
	awaitsEpoch = coverage.New("coco.awaits-epoch", "A transaction waits for the next epoch")
	lockRefused = coverage.New("coco.lock-refused",
		"A transaction fails because a row that it writes is locked or has changed")
	validationFailed = coverage.New("coco.validation-failed",
		"A transaction fails validation because a row that it has read is locked or has changed")
	voteNotCounted = coverage.NewReplaced("coco.vote-not-counted",
		"A coordinator does not count a new incarnation as its predecessor, which was a member of the last view")
	sentToPredecessor = coverage.NewReplaced("coco.sent-to-predecessor",
		"A node has sent messages for a new incarnation in its view to the predecessor")
	retried = coverage.New("coco.retried", "A transaction is retried after a conflict")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	impatient = buggify.New("coco.impatient",
		"A coordinator requests the states of all nodes although no member is silent")
)
