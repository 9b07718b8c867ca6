package inprocess

import (
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/plan"
)

// faultsOf returns the plan of the run's faults.
func faultsOf(p *plan.Plan) *fault.Plan {
	return fault.NewPlan(p.Run.Spec.Faults, &p.Topology, p.Seed())
}

// database adapts the run's database for fault injection.
func database(p *plan.Plan) *fault.Database {
	return &fault.Database{Engine: p.Engine, Params: p.Params, Topology: &p.Topology, Journals: p.Journals()}
}
