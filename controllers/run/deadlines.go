package run

import (
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/ops/health"
)

// Deadlines and intervals of runs, in addition to the deadlines of the stages.
const (
	// runsAtOnce is the number of runs that are reconciled concurrently. It is high, because a run with unresponsive
	// nodes must not delay the faults of another run.
	runsAtOnce = 32
	// LoadsAtOnce is the number of runs that load their data concurrently.
	LoadsAtOnce = 64

	// failureDelay is the maximum backoff after failed reconciliations. It is short, because faults may be overdue when
	// the API server is available again.
	failureDelay = time.Second

	// historyTimeout bounds the time to fetch the history of one worker.
	historyTimeout = time.Minute

	// preflightDeadline bounds the wait for a database that does not exist yet. The wait for another run to finish is not
	// bounded.
	preflightDeadline = health.Patience
	// readyDeadline bounds the time from the creation of the worker Jobs until all workers are ready.
	readyDeadline = 5 * time.Minute
	// startSlack is the minimum part of faultstatus.StartLead that must be left when the last worker has received the
	// start time.
	startSlack = 2 * time.Second
	// collectGrace plus requestTimeout is the time, after the last measured second, within which workers must submit their
	// reports.
	collectGrace = 2 * time.Minute
	// measureGrace is how long workers may overrun the end of their schedule before they count as stuck.
	measureGrace = 30 * time.Second
	// recoverDeadline bounds the time from the last measured second until all faults are removed and every node serves
	// again.
	recoverDeadline = 2 * time.Minute
	// faultLease is the time after a fault's planned end at which Chaos Mesh removes the fault on its own.
	faultLease = 60 * time.Second

	// stalledPatience applies if faults have removed nodes permanently. Once the number of unfinished transactions has not
	// changed for this time, they are considered permanently unfinished.
	stalledPatience = 10 * time.Second

	// cleanupPatience is the time after which an object that still exists is reported.
	cleanupPatience = 2 * time.Minute
)

// runDeadline returns the maximum duration of a run, from its start to its end.
func runDeadline(run *v1alpha1.BenchmarkRun) time.Duration {
	if run.Spec.Deadline != nil {
		return run.Spec.Deadline.Duration
	}
	return measuredTime(&run.Spec.Load) + v1alpha1.DeadlineMargin
}

// podsLife returns the maximum lifetime of a run's pods from the start of the run: the run's deadline plus the time to
// collect their measurements.
func podsLife(run *v1alpha1.BenchmarkRun) time.Duration {
	life := runDeadline(run)
	for _, s := range stages()[order(v1alpha1.StageRecover):] {
		life += s.deadline(run)
	}
	return life
}

// measuredTime returns the time for which the clients run: all warm-ups, measured windows and the pauses between them.
func measuredTime(l *v1alpha1.Load) time.Duration { return load.PlanOf(*l, 0).LastWindow() }
