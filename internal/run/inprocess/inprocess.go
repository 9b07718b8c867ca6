// Package inprocess runs a plan without a cluster. Simulate uses virtual time. Run uses real time, with all nodes and
// load generators in this process. On runs a plan on an existing database. All three pass the same kinds of facts to
// package judge as the operator does.
package inprocess

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
)

// Progress is the progress of a run.
type Progress struct {
	// Stage describes the current activity in a few words.
	Stage string
	// Elapsed and Total are the elapsed and the total time on the run's clock, which is virtual in a simulation. Both are
	// 0 before the load starts.
	Elapsed, Total time.Duration
	// Regions contains the progress of the load generators, in the order of the topology; nil before the load starts.
	Regions []load.Progress
}

// Report is a function that is called periodically with the progress. Calls are never concurrent.
type Report func(Progress)

// schedule returns the schedule of the plan's load. Its times count from the start of the first warm-up.
func schedule(p *plan.Plan) load.Schedule { return load.PlanOf(p.Run.Spec.Load, 0) }

// workerConfig returns the configuration of a region's only worker, which runs in this process.
func workerConfig(p *plan.Plan, r geo.Region, start time.Duration, shards int, rec *recording) load.WorkerConfig {
	return load.WorkerConfig{
		Workload: p.Workload, Topology: &p.Topology, Region: r, Workers: 1, Load: p.Run.Spec.Load, Seed: p.Seed(),
		Start: start, Shards: shards, Shared: true, Trace: rec.of(r), Fine: len(p.Run.Spec.Faults) > 0,
	}
}

// dataset returns the initial rows of the plan's run.
func dataset(p *plan.Plan) (target.Dataset, error) {
	spec, err := p.WorkloadJSON()
	return target.Dataset{Name: p.Run.Name, Workload: p.Workload, Spec: spec, Seed: p.Seed(), Traced: traced(p)}, err
}
