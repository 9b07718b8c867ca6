package run

import (
	"context"
	"slices"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/faultstatus"
	"github.com/geobench/geobench/internal/bench/fault"
)

// stage describes a stage that is not final.
type stage struct {
	name v1alpha1.Stage
	// step performs the action of the stage. It either leaves the run in the stage, moves it to the next stage, or fails
	// it. The step of Load can also return to Provision.
	step func(*scope, context.Context) error
	// condition is the type of the condition that the stage waits for.
	condition string
	// deadline returns the maximum time that a run may spend in the stage.
	deadline func(*v1alpha1.BenchmarkRun) time.Duration
}

// stages returns the stages in the order in which a run passes through them.
func stages() []stage {
	within := func(d time.Duration) func(*v1alpha1.BenchmarkRun) time.Duration {
		return func(*v1alpha1.BenchmarkRun) time.Duration { return d }
	}
	return []stage{
		// The function preflight enforces its own deadline, which excludes the time in the queue.
		{v1alpha1.StagePreflight, (*scope).preflight, v1alpha1.ConditionAccepted, runDeadline},
		{v1alpha1.StageProvision, (*scope).provision, v1alpha1.ConditionDatabaseReady, within(10 * time.Minute)},
		{v1alpha1.StageEmulate, (*scope).emulate, v1alpha1.ConditionNetworkVerified, within(5 * time.Minute)},
		{v1alpha1.StageLoad, (*scope).load, v1alpha1.ConditionDataLoaded, within(30 * time.Minute)},
		{v1alpha1.StageWarmup, (*scope).warmup, v1alpha1.ConditionMeasured, func(run *v1alpha1.BenchmarkRun) time.Duration {
			return readyDeadline + faultstatus.StartLead + run.Spec.Load.Warmup.Duration + measureGrace
		}},
		{v1alpha1.StageMeasure, (*scope).measure, v1alpha1.ConditionMeasured, func(run *v1alpha1.BenchmarkRun) time.Duration {
			return measuredTime(&run.Spec.Load) + measureGrace
		}},
		{v1alpha1.StageRecover, (*scope).recover, v1alpha1.ConditionMeasured, func(run *v1alpha1.BenchmarkRun) time.Duration {
			if slices.ContainsFunc(run.Status.Faults, func(f v1alpha1.FaultStatus) bool { return f.Replaced }) {
				return recoverDeadline + fault.MendingPatience
			}
			return recoverDeadline
		}},
		{v1alpha1.StageCollect, (*scope).collect, v1alpha1.ConditionMeasured, func(run *v1alpha1.BenchmarkRun) time.Duration {
			return run.Spec.Load.RequestTimeout.Duration + collectGrace
		}},
		{v1alpha1.StageEvaluate, (*scope).evaluate, v1alpha1.ConditionDatabaseQuiet, func(run *v1alpha1.BenchmarkRun) time.Duration {
			if recorded(run) { // workers' histories are fetched one after another
				return v1alpha1.DeadlineMargin
			}
			return 5 * time.Minute
		}},
	}
}

// stageOf returns the current stage of a run, which must be neither new nor over.
func stageOf(run *v1alpha1.BenchmarkRun) stage { return stages()[order(run.Status.Stage)] }

// order returns the position of a stage, from 0, or -1 for a stage from which no run continues.
func order(name v1alpha1.Stage) int {
	return slices.IndexFunc(stages(), func(s stage) bool { return s.name == name })
}
