package spanner

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/probe"
)

// What the explorer wants to see happen: see package probe.
var (
	readBeforeJoining  = probe.NewReplaced("spanner.read-before-joining", "A new incarnation is asked for rows of the past that it does not have yet")
	predecessorsLocks  = probe.NewReplaced("spanner.predecessors-locks", "A transaction has locks, or is prepared, whose coordinator's node was replaced")
	lockReinstated     = probe.New("spanner.lock-reinstated", "A new leaseholder gives a prepared transaction its locks back")
	readLost           = probe.New("spanner.read-lost", "A transaction reads again where a leaseholder has lost its locks")
	committedBefore    = probe.New("spanner.committed-before", "A repeated request finds that an earlier leaseholder has committed the transaction")
	effectsLost        = probe.New("spanner.effects-lost", "A transaction is to be prepared where its locks are lost or it was prevented")
	preparedBefore     = probe.New("spanner.prepared-before", "A repeated request finds the transaction prepared")
	leaseAwaited       = probe.New("spanner.lease-awaited", "A leaseholder answers no read until its lease is known to hold")
	lockNarrowed       = probe.New("spanner.lock-narrowed", "A scan gives up its locks on rows behind the last that it may have")
	wounded            = probe.New("spanner.wounded", "An older transaction takes the locks of a younger one")
	contendedPrepared  = probe.New("spanner.contended-prepared", "An older transaction waits for a younger one that is prepared")
	cancelled          = probe.New("spanner.cancelled", "A transaction gives up where it still waits for locks, since an older one waits where it is prepared")
	preparePrevented   = probe.New("spanner.prepare-prevented", "A transaction was prevented before the log had prepared it")
	recoveryBegun      = probe.New("spanner.recovery-begun", "A group finds out how a transaction ends whose coordinator is silent")
	givenUp            = probe.New("spanner.given-up", "A silent coordinator's transaction is given up where it is not prepared")
	askedAboutEnded    = probe.New("spanner.asked-about-ended", "A group is asked about a transaction that has ended there")
	askedAboutDoubtful = probe.New("spanner.asked-about-doubtful", "A group is asked about a transaction that is prepared there")
	prevention         = probe.New("spanner.prevention", "A group that is asked about a transaction it has not prepared makes sure that it never will")
	allPreparedAsked   = probe.New("spanner.all-prepared-asked", "The anchor of a transaction hears from a group that has prepared it")
	restarted          = probe.New("spanner.restarted", "A transaction whose locks were lost with a leaseholder starts again")
	refused            = probe.New("spanner.refused", "A group refuses a transaction")
	snapshotTooOld     = probe.New("spanner.snapshot-too-old", "A snapshot is older than the versions that are kept")
	snapshotEarly      = probe.New("spanner.snapshot-early", "A member waits until a snapshot's time is closed")
	snapshotRetried    = probe.New("spanner.snapshot-retried", "A snapshot is read from another member since the nearest one is silent")
)

// What replicas may be told to do: see package buggify.
var (
	impatient = buggify.New("spanner.impatient", "A node that speaks is taken for lost")
)
