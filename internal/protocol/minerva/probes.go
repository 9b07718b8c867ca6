package minerva

import (
	"github.com/geobench/geobench/internal/buggify"
	"github.com/geobench/geobench/internal/probe"
)

// What the explorer wants to see happen: see package probe.
var (
	batchFetched         = probe.New("minerva.batch-fetched", "A replica asks for batches of a cut that it lacks")
	staleChainMet        = probe.New("minerva.stale-chain", "A chain has read from a transaction of an earlier epoch that is executed again")
	staleReadMet         = probe.New("minerva.stale-read", "A chain has read what an earlier epoch has changed")
	inConflictMet        = probe.New("minerva.in-conflict", "A chain is not in the independent set")
	cutRepeated          = probe.New("minerva.cut-repeated", "A cut is agreed on that holds nothing new")
	holderUnknown        = probe.New("minerva.holder-unknown", "No replica lives that might have a batch, and its origin is asked")
	conflictsSolved      = probe.New("minerva.conflicts-solved", "An epoch's chains are in conflict with each other")
	chained              = probe.New("minerva.chained", "A transaction has read from another one of its epoch")
	executedLate         = probe.New("minerva.executed-late", "A transaction of the high-contention mode is executed by all")
	batchPassedOn        = probe.New("minerva.batch-passed-on", "A replica passes on a batch of another one")
	batchLost            = probe.New("minerva.batch-lost", "A replica gives up, since a batch is discarded everywhere")
	submittedBehind      = probe.New("minerva.submitted-behind", "A replica that is too far behind refuses a client")
	batchLate            = probe.New("minerva.batch-late", "A batch comes that has been committed")
	batchFull            = probe.New("minerva.batch-full", "A batch leaves before its time is up")
	doomedMet            = probe.New("minerva.doomed", "A transaction is known to be executed again before its epoch is committed")
	reexecutedOwn        = probe.New("minerva.reexecuted-own", "A client is answered with the outcome of the second execution")
	coordinatorNew       = probe.New("minerva.coordinator-new", "A replica leads, or hears who does, and proposes again what may be lost")
	progressLate         = probe.New("minerva.progress-late", "Proofs have waited for a cut, and the others are told")
	contentionMode       = probe.New("minerva.contention-mode", "Most transactions are executed again, and new ones are not executed at first")
	batchesVoid          = probe.NewReplaced("minerva.batches-void", "Batches of a lost replica are in no cut, and void")
	predecessorCommitted = probe.NewReplaced("minerva.predecessor-committed", "A new incarnation commits what its predecessor has executed")
	rowsRefused          = probe.NewReplaced("minerva.rows-refused", "A replica is asked for rows that it does not have, or not yet")
	rowsEarly            = probe.NewReplaced("minerva.rows-early", "A new incarnation has rows of an epoch whose cut it does not know yet")
	submittedEarly       = probe.NewReplaced("minerva.submitted-early", "A transaction is refused at a new incarnation that has not caught up")
)

// What replicas may be told to do: see package buggify.
var (
	sendsEarly    = buggify.New("minerva.batch-early", "A batch is sent before its time")
	followsSlowly = buggify.NewReplaced("minerva.follow-slowly", "A new incarnation is sent one batch of a log at a time")
	fetchesEarly  = buggify.New("minerva.fetch-early", "Batches are asked for that are still on their way")
)
