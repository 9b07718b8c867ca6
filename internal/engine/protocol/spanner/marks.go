package spanner

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	readBeforeJoining = coverage.NewReplaced("spanner.read-before-joining",
		"A new incarnation receives a snapshot read before it has the rows")
	predecessorsLocks = coverage.NewReplaced("spanner.predecessors-locks",
		"A group has locks or prepared transactions of a coordinator whose node was replaced")
	lockReinstated = coverage.New("spanner.lock-reinstated",
		"A new leaseholder restores the locks of a prepared transaction")
	readLost = coverage.New("spanner.read-lost",
		"A transaction reads again at a leaseholder that has lost its locks")
	committedBefore = coverage.New("spanner.committed-before",
		"A repeated request finds that an earlier leaseholder has committed the transaction")
	effectsLost = coverage.New("spanner.effects-lost",
		"A transaction cannot be prepared because its locks are lost or it was prevented")
	preparedBefore = coverage.New("spanner.prepared-before",
		"A repeated request finds the transaction already prepared")
	leaseAwaited = coverage.New("spanner.lease-awaited",
		"A read waits until the lease of the leaseholder is confirmed")
	lockNarrowed = coverage.New("spanner.lock-narrowed",
		"A limited scan releases its locks on the rows beyond the last one that it can return")
	wounded           = coverage.New("spanner.wounded", "An older transaction wounds a younger one and takes its locks")
	contendedPrepared = coverage.New("spanner.contended-prepared",
		"An older transaction waits for a younger prepared transaction")
	cancelled = coverage.New("spanner.cancelled",
		"A transaction's waiting prepare is cancelled because an older transaction waits for it in another group")
	preparePrevented = coverage.New("spanner.prepare-prevented",
		"A prevent command precedes the prepare command of the same transaction in the log")
	recoveryBegun = coverage.New("spanner.recovery-begun",
		"A group starts to recover a prepared transaction whose coordinator is silent")
	givenUp = coverage.New("spanner.given-up",
		"A group drops an unprepared transaction whose coordinator is silent")
	askedAboutEnded    = coverage.New("spanner.asked-about-ended", "A group receives a query about a finished transaction")
	askedAboutDoubtful = coverage.New("spanner.asked-about-doubtful",
		"A group receives a query about a prepared transaction")
	prevention = coverage.New("spanner.prevention",
		"A group that receives a query about an unprepared transaction logs that it will never prepare it")
	allPreparedAsked = coverage.New("spanner.all-prepared-asked",
		"The anchor learns during recovery that another group has prepared the transaction")
	restarted = coverage.New("spanner.restarted",
		"A transaction restarts because its locks were lost with a leaseholder")
	refused = coverage.New("spanner.refused",
		"A coordinator learns that its transaction was wounded or has lost its locks in a group")
	snapshotTooOld = coverage.New("spanner.snapshot-too-old",
		"A snapshot read needs versions that have been discarded")
	snapshotEarly   = coverage.New("spanner.snapshot-early", "A snapshot read waits until its timestamp is closed")
	snapshotRetried = coverage.New("spanner.snapshot-retried",
		"A snapshot read is retried at another member because the nearest one is silent")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	impatient = buggify.New("spanner.impatient", "A node that still sends messages is suspected")
)
