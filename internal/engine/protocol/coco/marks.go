package coco

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	coordinatorDeposed = coverage.New("coco.coordinator-deposed", "A coordinator learns that another one leads")
	statesCollected    = coverage.New("coco.states-collected", "A coordinator asks all nodes for their states")
	memberAwaited      = coverage.New("coco.member-awaited", "No view is formed since a member that lives has not answered")
	stateLacking       = coverage.New("coco.state-lacking", "A node of the next view lacks the rows of the last epoch")
	notCovered         = coverage.New("coco.not-covered", "Too few regions hold a shard for a view")
	viewOfAnother      = coverage.New("coco.view-of-another", "The group agrees on a view that this node has not proposed")
	nodeReturns        = coverage.New("coco.node-returns", "A node that is outside of the view wants to join")
	memberSilent       = coverage.New("coco.member-silent", "A member is silent, and a view without it is formed")
	viewWithJoiners    = coverage.New("coco.view-with-joiners", "An epoch has ended, and nodes join with the next one")
	messageHeld        = coverage.New("coco.message-held", "A message of a later epoch comes")
	excluded           = coverage.New("coco.excluded", "A node learns that it is not in the view")
	epochAborted       = coverage.New("coco.epoch-aborted", "An epoch is aborted")
	collectOutbid      = coverage.New("coco.collect-outbid", "A node is asked for its state by a coordinator that is none any more")
	rowsSent           = coverage.New("coco.rows-sent", "A node that joins is sent the rows of a shard")
	joined             = coverage.New("coco.joined", "A node that joins has all rows")
	settled            = coverage.New("coco.settled", "A view ends an epoch that was under way")
	awaitsEpoch        = coverage.New("coco.awaits-epoch", "A transaction waits for the next epoch")
	lockRefused        = coverage.New("coco.lock-refused", "A row that a transaction writes is locked or has changed")
	validationFailed   = coverage.New("coco.validation-failed", "A row that a transaction has read is locked or has changed")
	voteNotCounted     = coverage.NewReplaced("coco.vote-not-counted", "A new incarnation tells its state whose predecessor is a member of the last view")
	sentToPredecessor  = coverage.NewReplaced("coco.sent-to-predecessor", "A node learns of a new incarnation that is in its view, and has sent messages for it to its predecessor")
	retried            = coverage.New("coco.retried", "A transaction is tried again after a conflict")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	impatient = buggify.New("coco.impatient", "A coordinator asks all nodes for their states although none is silent")
)
