package run

import (
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/ops/health"
)

// The deadlines and intervals of runs, in addition to the deadlines of their stages.
const (
	// runsAtOnce is the number of runs that are reconciled concurrently: a run with unresponsive nodes does not delay the
	// due faults of another run.
	runsAtOnce = 32
	// LoadsAtOnce is the number of runs that load their data concurrently.
	LoadsAtOnce = 64

	// failureDelay is the longest that a run is left alone after failures: once an API server is back, its faults are due.
	failureDelay = time.Second

	// historyTimeout bounds the fetching of a worker's history.
	historyTimeout = time.Minute

	// preflightDeadline bounds the waiting for a database that does not exist yet. Waiting for another run to finish is
	// not bounded.
	preflightDeadline = health.Patience
	// readyDeadline bounds the time from the creation of the worker Jobs until all workers are ready.
	readyDeadline = 5 * time.Minute
	// startSlack is the minimum time that must remain of faultstatus.StartLead when the last worker is notified.
	startSlack = 2 * time.Second
	// collectGrace is added to requestTimeout: how long workers may take, after the last measured second, to
	// hand in their reports.
	collectGrace = 2 * time.Minute
	// measureGrace is added to the workers' schedule before they are held for stuck.
	measureGrace = 30 * time.Second
	// recoverDeadline bounds the time from the last measured second until nothing is left of faults and every node serves
	// again.
	recoverDeadline = 2 * time.Minute
	// faultLease is the time after a fault's end at which Chaos Mesh removes it by itself.
	faultLease = 60 * time.Second

	// stalledPatience is the time after which transactions that are unfinished because faults have removed nodes count as
	// permanently unfinished.
	stalledPatience = 10 * time.Second

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

// podsLife returns the maximum lifetime of a run's pods from its start: until its deadline, plus the time to collect
// their measurements.
func podsLife(run *v1alpha1.BenchmarkRun) time.Duration {
	life := runDeadline(run)
	for _, s := range stages()[order(v1alpha1.StageRecover):] {
		life += s.deadline(run)
	}
	return life
}

// measuredTime returns the time for which the clients run: all warm-ups, measured windows and the pauses between them.
func measuredTime(l *v1alpha1.Load) time.Duration { return load.PlanOf(*l, 0).LastWindow() }
