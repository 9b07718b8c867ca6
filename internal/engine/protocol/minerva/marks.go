package minerva

import (
	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Coverage marks that the explorer tries to reach: see package coverage.
var (
	batchFetched         = coverage.New("minerva.batch-fetched", "A replica asks for batches of a cut that it lacks")
	staleChainMet        = coverage.New("minerva.stale-chain", "A chain has read from a transaction of an earlier epoch that is executed again")
	staleReadMet         = coverage.New("minerva.stale-read", "A chain has read what an earlier epoch has changed")
	inConflictMet        = coverage.New("minerva.in-conflict", "A chain is not in the independent set")
	cutRepeated          = coverage.New("minerva.cut-repeated", "A cut is agreed on that holds nothing new")
	holderUnknown        = coverage.New("minerva.holder-unknown", "No replica lives that might have a batch, and its origin is asked")
	conflictsSolved      = coverage.New("minerva.conflicts-solved", "An epoch's chains are in conflict with each other")
	chained              = coverage.New("minerva.chained", "A transaction has read from another one of its epoch")
	executedLate         = coverage.New("minerva.executed-late", "A transaction of the high-contention mode is executed by all")
	batchPassedOn        = coverage.New("minerva.batch-passed-on", "A replica passes on a batch of another one")
	batchLost            = coverage.New("minerva.batch-lost", "A replica gives up, since a batch is discarded everywhere")
	submittedBehind      = coverage.New("minerva.submitted-behind", "A replica that is too far behind refuses a client")
	batchLate            = coverage.New("minerva.batch-late", "A batch comes that has been committed")
	batchFull            = coverage.New("minerva.batch-full", "A batch leaves before its time is up")
	doomedMet            = coverage.New("minerva.doomed", "A transaction is known to be executed again before its epoch is committed")
	reexecutedOwn        = coverage.New("minerva.reexecuted-own", "A client is answered with the outcome of the second execution")
	coordinatorNew       = coverage.New("minerva.coordinator-new", "A replica leads, or hears who does, and proposes again what may be lost")
	progressLate         = coverage.New("minerva.progress-late", "Proofs have waited for a cut, and the others are told")
	contentionMode       = coverage.New("minerva.contention-mode", "Most transactions are executed again, and new ones are not executed at first")
	batchesVoid          = coverage.NewReplaced("minerva.batches-void", "Batches of a lost replica are in no cut, and void")
	predecessorCommitted = coverage.NewReplaced("minerva.predecessor-committed", "A new incarnation commits what its predecessor has executed")
	rowsRefused          = coverage.NewReplaced("minerva.rows-refused", "A replica is asked for rows that it does not have, or not yet")
	rowsEarly            = coverage.NewReplaced("minerva.rows-early", "A new incarnation has rows of an epoch whose cut it does not know yet")
	submittedEarly       = coverage.NewReplaced("minerva.submitted-early", "A transaction is refused at a new incarnation that has not caught up")
)

// Rare behaviors that simulators can force: see package buggify.
var (
	sendsEarly    = buggify.New("minerva.batch-early", "A batch is sent before its time")
	followsSlowly = buggify.NewReplaced("minerva.follow-slowly", "A new incarnation is sent one batch of a log at a time")
	fetchesEarly  = buggify.New("minerva.fetch-early", "Batches are asked for that are still on their way")
)
