package plan

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/acceptance"
	targets "github.com/geobench/geobench/internal/bench/target/catalog"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// Plan is a run with all its references resolved.
type Plan struct {
	Run      *v1alpha1.BenchmarkRun
	Database *v1alpha1.GeoDatabase
	Profile  *v1alpha1.NetworkProfileSpec

	Topology geo.Topology
	Engine   *protocol.Engine
	Params   protocol.Params
	Workload workload.Workload
	// Tests are the plans of spec.functionalTests, which run before this plan.
	Tests []*Plan
}

// PlanTests plans the functional tests of the run. plan plans any run on the same database.
func (p *Plan) PlanTests(plan func(*v1alpha1.BenchmarkRun) (*Plan, error)) error {
	for i, run := range acceptance.Runs(p.Run) {
		t, err := plan(run)
		if err != nil {
			return fmt.Errorf("spec.functionalTests[%d]: %s: %w", i, p.Run.Spec.FunctionalTests[i], err)
		}
		p.Tests = append(p.Tests, t)
	}
	return nil
}

// New plans a run. The objects must have their defaults and must have been checked. New returns an error that names the
// field for conditions that the checks do not cover, such as too few customers for the topology.
func New(run *v1alpha1.BenchmarkRun, db *v1alpha1.GeoDatabase, profile *v1alpha1.NetworkProfileSpec) (*Plan, error) {
	p := &Plan{Run: run, Database: db, Profile: profile}
	var err error
	if p.Engine, err = engine(db.Spec.Engine.Name, db.Spec.External != nil || db.Spec.Talked()); err != nil {
		return nil, fmt.Errorf("spec.engine.name: %w", err)
	}
	var errs []*protocol.ParamError
	if p.Params, errs = p.Engine.Resolve(db.Spec.Engine.Parameters); len(errs) > 0 {
		return nil, fmt.Errorf("spec.engine.parameters.%w", errs[0])
	}
	if p.Topology, err = Topology(&db.Spec, profile); err != nil {
		return nil, fmt.Errorf("spec.network: %w", err)
	}
	// An engine may refuse a layout that the schema allows.
	if err := p.Engine.Accepts(&p.Topology, p.Params); err != nil {
		return nil, err
	}
	if p.Workload, err = catalog.New(run.Spec.Workload, p.Seed(), &p.Topology); err != nil {
		return nil, err
	}
	return p, p.PlanTests(func(test *v1alpha1.BenchmarkRun) (*Plan, error) { return New(test, db, profile) })
}

// engine returns the engine with a name: one of Geobench's own, or a database for which it has a client.
func engine(name string, client bool) (*protocol.Engine, error) {
	lookup, names := engines.Lookup, engines.Names
	if client {
		lookup, names = targets.Targets{}.Lookup, targets.Targets{}.Names
	}
	if e, ok := lookup(name); ok {
		return e, nil
	}
	return nil, fmt.Errorf("%q is not one of %v", name, names())
}

// Deployed plans a run on a deployed database. spec and profile are the manifests from which it was deployed. The plan
// follows the actual state d of the database, even if the manifests would now produce a different state.
func Deployed(run *v1alpha1.BenchmarkRun, d *deploy.Database, spec *v1alpha1.GeoDatabaseSpec, profile *v1alpha1.NetworkProfileSpec) (*Plan, error) {
	p := &Plan{Run: run, Database: &v1alpha1.GeoDatabase{Spec: *spec}, Profile: profile, Topology: d.Topology}
	p.Database.Name = d.Name
	var err error
	if p.Engine, err = engine(d.Engine, d.Client != nil); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	var errs []*protocol.ParamError
	if p.Params, errs = p.Engine.Resolve(d.Parameters); len(errs) > 0 {
		return nil, fmt.Errorf("parameters.%w", errs[0])
	}
	p.Workload, err = catalog.New(run.Spec.Workload, p.Seed(), &p.Topology)
	return p, err
}

// Seed returns the seed of all random choices.
func (p *Plan) Seed() uint64 { return uint64(p.Run.Spec.Seed) }

// Emulated reports whether the delays of links are emulated.
func (p *Plan) Emulated() bool {
	return p.Database.Spec.External == nil && p.Database.Spec.Network.Emulation != v1alpha1.EmulationNone
}

// Journals reports whether the nodes of a real run write journals of their inputs.
func (p *Plan) Journals() bool { return p.Database.Spec.Durability == v1alpha1.DurabilityJournal }

// Deployment describes the database to nodes in this process. The addresses of the nodes are added once the nodes
// listen.
func (p *Plan) Deployment(epoch time.Time, incarnation string) *deploy.Database {
	return &deploy.Database{
		Name: p.Database.Name, Engine: p.Engine.Name, Parameters: p.Params, Topology: p.Topology, Emulate: p.Emulated(),
		Seed: p.Seed(), Epoch: epoch, Incarnation: incarnation,
	}
}

// WorkloadJSON returns the workload with its defaults, in the form that nodes and workers read.
func (p *Plan) WorkloadJSON() (json.RawMessage, error) { return json.Marshal(p.Run.Spec.Workload) }
