package controllers

import (
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/health"
	"github.com/geobench/geobench/internal/load"
)

// Every deadline and interval of the operator is here.
const (
	// pollFast is how often nodes are asked while something is expected to change, pollRun while a run uses the database
	// and pollSlow when all is well and nobody is watching.
	pollFast = 2 * time.Second
	pollRun  = 5 * time.Second
	pollSlow = 30 * time.Second

	// runsAtOnce is how many runs are led at the same time: one that loads its data, or checks a history, holds up no other whose faults
	// are due.
	runsAtOnce = 32

	// nodeTimeout bounds a question to a node, loadTimeout the loading of its data.
	nodeTimeout = 3 * time.Second
	loadTimeout = 10 * time.Minute
	// historyTimeout bounds the fetching of a worker's history.
	historyTimeout = time.Minute

	// preflightDeadline bounds the waiting for a database that does not exist yet. Waiting for another run to finish is
	// bounded by the run's own deadline only.
	preflightDeadline = health.Patience
	provisionDeadline = 10 * time.Minute
	emulateDeadline   = 5 * time.Minute
	loadDeadline      = 30 * time.Minute
	// readyDeadline bounds the time from the creation of the worker Jobs until all workers are ready.
	readyDeadline = 5 * time.Minute
	// startLead is how far ahead of time the common start is announced: workers poll for it.
	startLead = 5 * time.Second
	// startSlack is the least that must be left of startLead when the last worker is told.
	startSlack      = 2 * time.Second
	recoverDeadline = 2 * time.Minute
	// collectGrace is added to requestTimeout: how long workers may take, after the last measured second, to
	// hand in their reports.
	collectGrace     = 2 * time.Minute
	evaluateDeadline = 5 * time.Minute
	// measureGrace is added to the workers' schedule before they are held for stuck.
	measureGrace = 30 * time.Second
	// lossBackoff is how long an incarnation is left alone before a lost state makes the next one; it doubles, up to
	// lossBackoffMax, while incarnations keep dying younger than lossForgiven.
	lossBackoff    = 5 * time.Second
	lossBackoffMax = 5 * time.Minute
	lossForgiven   = 10 * time.Minute

	// faultPoll is how often a step of a fault that is not done is tried again, faultPatience after how long the fault is given
	// up, and faultLease how long after its end Chaos Mesh undoes a fault by itself.
	faultPoll     = 500 * time.Millisecond
	faultPatience = 20 * time.Second
	faultLease    = 60 * time.Second
	// roleAhead is how long before a fault the nodes that have a role are looked up, so that all can be told in time, and killAhead how
	// long before a kill the processes that it is to end. Other faults are set up once the start is known.
	roleAhead = 3 * time.Second
	killAhead = time.Second
	// injectEarly is how long before its time the operator turns to a fault that it injects itself; then it waits for that time.
	injectEarly = 500 * time.Millisecond

	// stalledPatience is how long transactions stay unfinished, once faults have taken nodes, before they are held to stay so.
	stalledPatience = 10 * time.Second

	// authorityFresh is how long the operator goes by its credentials before it looks whether another one has renewed them.
	authorityFresh = 10 * time.Minute

	// cleanupPatience is after how long an object that does not go away is reported.
	cleanupPatience = 2 * time.Minute
)

// runDeadline returns how long a run may take from its start to its end.
func runDeadline(run *v1alpha1.BenchmarkRun) time.Duration {
	if run.Spec.Deadline != nil {
		return run.Spec.Deadline.Duration
	}
	return measuredTime(&run.Spec.Load) + v1alpha1.DeadlineMargin
}

// measuredTime is how long the clients run: all warm-ups, measured windows and the pauses between them.
func measuredTime(l *v1alpha1.Load) time.Duration { return load.PlanOf(*l, 0).LastWindow() }

// stageDeadline returns how long a run may stay in a stage.
func stageDeadline(run *v1alpha1.BenchmarkRun, stage v1alpha1.Stage) time.Duration {
	l := &run.Spec.Load
	switch stage {
	case v1alpha1.StageProvision:
		return provisionDeadline
	case v1alpha1.StageEmulate:
		return emulateDeadline
	case v1alpha1.StageLoad:
		return loadDeadline
	case v1alpha1.StageWarmup:
		return readyDeadline + startLead + l.Warmup.Duration + measureGrace
	case v1alpha1.StageMeasure:
		return measuredTime(l) + measureGrace
	case v1alpha1.StageRecover:
		return recoverDeadline
	case v1alpha1.StageCollect:
		return l.RequestTimeout.Duration + collectGrace
	case v1alpha1.StageEvaluate:
		return evaluateDeadline
	}
	return runDeadline(run)
}
