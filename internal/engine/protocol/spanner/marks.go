package spanner

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer must reach: see package coverage.
var (
	readBeforeJoining  = coverage.NewReplaced("spanner.read-before-joining", "A new incarnation is asked for rows of the past that it does not have yet")
	predecessorsLocks  = coverage.NewReplaced("spanner.predecessors-locks", "A transaction has locks, or is prepared, whose coordinator's node was replaced")
	lockReinstated     = coverage.New("spanner.lock-reinstated", "A new leaseholder gives a prepared transaction its locks back")
	readLost           = coverage.New("spanner.read-lost", "A transaction reads again where a leaseholder has lost its locks")
	committedBefore    = coverage.New("spanner.committed-before", "A repeated request finds that an earlier leaseholder has committed the transaction")
	effectsLost        = coverage.New("spanner.effects-lost", "A transaction is to be prepared where its locks are lost or it was prevented")
	preparedBefore     = coverage.New("spanner.prepared-before", "A repeated request finds the transaction prepared")
	leaseAwaited       = coverage.New("spanner.lease-awaited", "A leaseholder answers no read until its lease is known to hold")
	lockNarrowed       = coverage.New("spanner.lock-narrowed", "A scan gives up its locks on rows behind the last that it may have")
	wounded            = coverage.New("spanner.wounded", "An older transaction takes the locks of a younger one")
	contendedPrepared  = coverage.New("spanner.contended-prepared", "An older transaction waits for a younger one that is prepared")
	cancelled          = coverage.New("spanner.cancelled", "A transaction gives up where it still waits for locks, since an older one waits where it is prepared")
	preparePrevented   = coverage.New("spanner.prepare-prevented", "A transaction was prevented before the log had prepared it")
	recoveryBegun      = coverage.New("spanner.recovery-begun", "A group finds out how a transaction ends whose coordinator is silent")
	givenUp            = coverage.New("spanner.given-up", "A silent coordinator's transaction is given up where it is not prepared")
	askedAboutEnded    = coverage.New("spanner.asked-about-ended", "A group is asked about a transaction that has ended there")
	askedAboutDoubtful = coverage.New("spanner.asked-about-doubtful", "A group is asked about a transaction that is prepared there")
	prevention         = coverage.New("spanner.prevention", "A group that is asked about a transaction it has not prepared makes sure that it never will")
	allPreparedAsked   = coverage.New("spanner.all-prepared-asked", "The anchor of a transaction hears from a group that has prepared it")
	restarted          = coverage.New("spanner.restarted", "A transaction whose locks were lost with a leaseholder starts again")
	refused            = coverage.New("spanner.refused", "A group refuses a transaction")
	snapshotTooOld     = coverage.New("spanner.snapshot-too-old", "A snapshot is older than the versions that are kept")
	snapshotEarly      = coverage.New("spanner.snapshot-early", "A member waits until a snapshot's time is closed")
	snapshotRetried    = coverage.New("spanner.snapshot-retried", "A snapshot is read from another member since the nearest one is silent")
)

// Points at which the explorer may make replicas deviate: see package buggify.
var (
	impatient = buggify.New("spanner.impatient", "A node that speaks is taken for lost")
)
