// Package inprocess runs a plan without a cluster: Simulate in virtual time, Run in real time with all nodes and all
// load generators in this process. Both, and On on a database that is there already, hand package judge the facts that
// the operator does.
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
	// Stage names what happens, in a word or a few.
	Stage string
	// Elapsed of Total on the run's own clock: virtual for a simulation. Both are 0 before the load starts.
	Elapsed, Total time.Duration
	// Regions are the load generators' figures, in the order of the topology; nil before the load starts.
	Regions []load.Progress
}

// Report is called periodically with the progress, from one goroutine at a time.
type Report func(Progress)

// schedule of the plan's load, on a clock that starts with the first warm-up.
func schedule(p *plan.Plan) load.Schedule { return load.PlanOf(p.Run.Spec.Load, 0) }

// workerConfig is the only worker of a region, in this process.
func workerConfig(p *plan.Plan, r geo.Region, start time.Duration, shards int, rec *recording) load.WorkerConfig {
	return load.WorkerConfig{
		Workload: p.Workload, Topology: &p.Topology, Region: r, Workers: 1, Load: p.Run.Spec.Load, Seed: p.Seed(),
		Start: start, Shards: shards, Shared: true, Trace: rec.of(r), Fine: len(p.Run.Spec.Faults) > 0,
	}
}

// dataset is the rows that the plan's run begins with.
func dataset(p *plan.Plan) (target.Dataset, error) {
	spec, err := p.WorkloadJSON()
	return target.Dataset{Name: p.Run.Name, Workload: p.Workload, Spec: spec, Seed: p.Seed(), Traced: traced(p)}, err
}
