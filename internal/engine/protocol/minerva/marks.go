package minerva

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer tries to reach: see package coverage.
var (
	batchFetched  = coverage.New("minerva.batch-fetched", "A replica requests batches of a cut that it is missing")
	staleChainMet = coverage.New("minerva.stale-chain",
		"A chain has read from a transaction of an earlier epoch that is re-executed")
	staleReadMet  = coverage.New("minerva.stale-read", "A chain has read a row that an earlier epoch has changed")
	inConflictMet = coverage.New("minerva.in-conflict",
		"A chain is outside the independent set of the conflict graph")
	cutRepeated   = coverage.New("minerva.cut-repeated", "The replicas agree on a cut that contains nothing new")
	holderUnknown = coverage.New("minerva.holder-unknown",
		"No live replica is known to have a missing batch, so the replica asks its origin")
	conflictsSolved = coverage.New("minerva.conflicts-solved",
		"Chains of an epoch conflict, so the replica computes an independent set")
	chained      = coverage.New("minerva.chained", "A transaction has read from another transaction of its epoch")
	executedLate = coverage.New("minerva.executed-late",
		"A transaction of the high-contention mode is executed at all replicas after its epoch is agreed on")
	batchPassedOn = coverage.New("minerva.batch-passed-on", "A replica forwards a batch of another replica")
	batchLost     = coverage.New("minerva.batch-lost",
		"A replica cannot continue because all replicas have discarded a batch that it needs")
	submittedBehind = coverage.New("minerva.submitted-behind",
		"A replica that is too far behind refuses a transaction")
	batchLate = coverage.New("minerva.batch-late", "A batch arrives after it was committed or became void")
	batchFull = coverage.New("minerva.batch-full", "A batch is sent before its timer fires")
	doomedMet = coverage.New("minerva.doomed",
		"A replica detects before an epoch commits that a transaction must be re-executed")
	reexecutedOwn  = coverage.New("minerva.reexecuted-own", "A client receives the outcome of a re-execution")
	coordinatorNew = coverage.New("minerva.coordinator-new",
		"A change of the coordinator makes a replica repeat proposals that may be lost")
	progressLate = coverage.New("minerva.progress-late",
		"Proofs have waited too long for a cut, so the replica sends them to the other replicas")
	contentionMode = coverage.New("minerva.contention-mode",
		"A high rate of re-execution switches a replica to the high-contention mode")
	batchesVoid = coverage.NewReplaced("minerva.batches-void",
		"Batches of a lost replica are in no cut and become void")
	predecessorCommitted = coverage.NewReplaced("minerva.predecessor-committed",
		"A new incarnation commits transactions that its predecessor executed")
	rowsRefused = coverage.NewReplaced("minerva.rows-refused",
		"A replica refuses a request for rows that it does not have or does not have yet")
	rowsEarly = coverage.NewReplaced("minerva.rows-early",
		"A new incarnation receives rows of an epoch whose cut it does not know yet")
	submittedEarly = coverage.NewReplaced("minerva.submitted-early",
		"A new incarnation that has not caught up refuses a transaction")
)

// Rare behaviors that simulators can force: see package buggify.
var (
	sendsEarly    = buggify.New("minerva.batch-early", "A batch is sent before its timeout although it is not full")
	followsSlowly = buggify.NewReplaced("minerva.follow-slowly", "A new incarnation receives a log one batch at a time")
	fetchesEarly  = buggify.New("minerva.fetch-early", "A replica requests batches that are still in flight")
)
