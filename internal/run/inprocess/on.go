package inprocess

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/judge"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// PlanOn plans a run for On on a database without a manifest. engine is the database's name in results. promises is the
// isolation level that its histories must satisfy; 0 for none. t contains the regions of the clients. The links of t
// must be omitted or zero, because real links are not delayed artificially. PlanOn returns check.Problems if the run
// requires something that is impossible on such a database, for example a fault.
func PlanOn(run *v1alpha1.BenchmarkRun, engine string, promises isolation.Level, t geo.Topology) (*plan.Plan, error) {
	// Results are compared by engine name, so reject the names of Geobench's own engines.
	if _, own := engines.Lookup(engine); own || engine == "" {
		return nil, fmt.Errorf("engine: %q does not tell the target from the engines of geobench (%s): give it the database's own name", engine, strings.Join(engines.Names(), ", "))
	}
	db := &v1alpha1.GeoDatabase{}
	db.Name = engine
	db.Spec.Engine.Name = engine
	db.Spec.Network.Emulation = v1alpha1.EmulationNone
	for _, r := range t.Regions {
		db.Spec.Regions = append(db.Spec.Regions, v1alpha1.Region{Name: r})
	}
	db.Spec.PartitionsPerRegion, db.Spec.ReplicasPerPartition = int32(t.Partitions), int32(t.Replicas)
	return planOn(&plan.Plan{
		Run: run, Database: db, Topology: t, Params: protocol.Params{},
		Engine: &protocol.Engine{Name: engine, Isolation: func(protocol.Params) isolation.Level { return promises }},
	})
}

// PlanExternal plans a run for On on an external database. db is its GeoDatabase, which has spec.external and has
// already been checked. Errors are as in PlanOn.
func PlanExternal(run *v1alpha1.BenchmarkRun, db *v1alpha1.GeoDatabase, engine *protocol.Engine) (*plan.Plan, error) {
	params, errs := engine.Resolve(db.Spec.Engine.Parameters)
	if len(errs) > 0 {
		return nil, fmt.Errorf("spec.engine.parameters.%w", errs[0])
	}
	return planOn(&plan.Plan{
		Run: run, Database: db, Engine: engine, Params: params,
		Topology: geo.Topology{Regions: db.Spec.RegionNames(), Partitions: int(db.Spec.PartitionsPerRegion), Replicas: int(db.Spec.ReplicasPerPartition)},
	})
}

// planOn checks a plan for a database without emulated links, and creates the workload.
func planOn(p *plan.Plan) (*plan.Plan, error) {
	run, engine, promises, t := p.Run, p.Engine.Name, p.Engine.Promises(p.Params), p.Topology
	p.Profile = &v1alpha1.NetworkProfileSpec{}
	// A zero link is a link without emulated delay.
	if t.Links == nil {
		for range t.Regions {
			p.Topology.Links = append(p.Topology.Links, make([]geo.Link, len(t.Regions)))
		}
	}
	if err := p.Topology.Validate(); err != nil {
		return nil, err
	}
	for i, row := range t.Links {
		for j, link := range row {
			if link != (geo.Link{}) {
				return nil, fmt.Errorf("links[%s][%s]: %+v is declared, but the links to %s are real and nobody delays them: leave out links",
					t.Regions[i], t.Regions[j], link, engine)
			}
		}
	}
	problems := check.Run(run, p.Database, check.Target())
	if i := slices.Index(run.Spec.Verify, v1alpha1.VerifyIsolation); i >= 0 && promises == 0 {
		problems = append(problems, check.Problem{Object: "BenchmarkRun " + run.Name, Field: fmt.Sprintf("spec.verify[%d]", i), Value: string(v1alpha1.VerifyIsolation),
			Message: fmt.Sprintf("%s promises no isolation level that could be checked: name the level, for example %s", engine, v1alpha1.VerifySerializable)})
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	var err error
	if p.Workload, err = catalog.New(run.Spec.Workload, p.Seed(), &p.Topology); err != nil {
		return nil, err
	}
	// Functional tests run on the same database, so plan them in the same way.
	return p, p.PlanTests(func(test *v1alpha1.BenchmarkRun) (*plan.Plan, error) {
		return planOn(&plan.Plan{Run: test, Database: p.Database, Engine: p.Engine, Params: p.Params, Topology: p.Topology})
	})
}

// On runs a plan from PlanOn or PlanExternal on an existing database. It loads the plan's data set, plays the clients
// in real time, and evaluates the result. The plan's topology contains the regions of the clients. On handles
// cancellation like Run.
func On(ctx context.Context, p *plan.Plan, db target.Database, report Report) (*result.Document, error) {
	if report == nil {
		report = func(Progress) {}
	}
	report(Progress{Stage: "loading the data"})
	data, err := dataset(p)
	if err != nil {
		return nil, err
	}
	told := time.Now()
	data.Progress = func(rows int64) {
		if now := time.Now(); now.Sub(told) >= reportEvery {
			told = now
			report(Progress{Stage: fmt.Sprintf("loading the data: %d rows", rows)})
		}
	}
	if err := db.Load(ctx, data); err != nil {
		return nil, err
	}
	m := measurement{facts: judge.Facts{Plan: p}, db: db, report: report, live: newLive(p, nil)}
	m.facts.Emulation, m.facts.Target = "None", &result.Target{}
	if described, ok := db.(target.Described); ok {
		*m.facts.Target = described.Describe()
	}
	if level := p.Engine.Promises(p.Params); level != 0 {
		m.facts.Target.Promises = level.String()
	}
	return m.run(ctx)
}
