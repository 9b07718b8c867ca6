// Package local runs a plan without a cluster: Simulate in virtual time, Run in real time with all nodes and all load
// generators in this process. Both hand the same inputs to package result that the operator does.
package local

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/history"
	"github.com/geobench/geobench/internal/load"
	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/result"
	"github.com/geobench/geobench/internal/workload"
)

// Progress is how far a run is.
type Progress struct {
	// Stage names what happens, in a word or a few.
	Stage string
	// Elapsed of Total on the run's own clock: virtual for a simulation. Both are 0 before the load starts.
	Elapsed, Total time.Duration
	// Regions are the load generators' figures, in the order of the topology; nil before the load starts.
	Regions []load.Progress
}

// Report is called now and then with the progress, from one goroutine at a time.
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

// inputs fills in what follows from the plan.
func inputs(p *plan.Plan) result.Inputs {
	mh, mp := p.Workload.Configured()
	return result.Inputs{
		Name: p.Run.Name, Database: p.Database.Name, Engine: p.Engine.Name, Parameters: p.Params, Seed: p.Run.Spec.Seed,
		Manifests: &result.Manifests{Run: &p.Run.Spec, Database: &p.Database.Spec, Network: p.Profile},
		Topology:  &p.Topology, Workload: p.Run.Spec.Workload, Load: p.Run.Spec.Load,
		MultiHomePercent: mh, MultiPartitionPercent: mp,
		Prices: plan.Prices(p.Profile.Prices), Objectives: p.Run.Spec.Objectives,
	}
}

// verify carries out spec.verify on the audits of all nodes, by geo.NodeID, and on the history, if there is one. out says
// for each node why it is left out; empty when it is not.
func verify(p *plan.Plan, rec *recording, audits []admin.Audit, out []string, reports []*result.Report) []workload.Check {
	var checks []workload.Check
	wanted := p.Run.Spec.Verify
	for _, v := range wanted {
		switch v {
		case v1alpha1.VerifyInvariants:
			checks = append(checks, Invariants(p.Engine.Layout(&p.Topology, p.Params), p.Workload, audits, out, reports)...)
		case v1alpha1.VerifyConvergence:
			if !slices.Contains(wanted, v1alpha1.VerifyInvariants) { // which it is part of
				checks = append(checks, converged(p.Engine.Layout(&p.Topology, p.Params), audits, out))
			}
		default:
			if level, ok := history.LevelOf(v); ok {
				checks = append(checks, history.Check(&rec.history, level).Check())
			}
		}
	}
	return checks
}

// Invariants checks the workload's invariants on the audits of all nodes, by geo.NodeID: on the sums over the partitions
// of each copy, and that the copies of each partition are equal. out says for each node why it is left out, with the copy that
// it belongs to; empty, or nil for all, when it is not.
func Invariants(l geo.Layout, w workload.Workload, audits []admin.Audit, out []string, reports []*result.Report) []workload.Check {
	ledger := workload.Ledger{}
	for _, r := range reports {
		ledger.Merge(r.Ledger)
	}
	var copies []map[string]int64
	missing := ""
	for c := range l.Copies() {
		sums := map[string]int64{}
		for site := range l.Sites() {
			n := l.Node(c, site)
			if len(out) > 0 && out[n] != "" {
				sums, missing = nil, fmt.Sprintf("node %s %s", l.Topology.NodeName(n), out[n])
				break
			}
			for name, v := range audits[n].Sums {
				sums[name] += v
			}
		}
		if sums != nil {
			copies = append(copies, sums)
		}
	}
	if len(copies) == 0 {
		return []workload.Check{{Name: "invariants", Message: "no copy is complete, so that nothing can be said about the data: " + missing}, converged(l, audits, out)}
	}
	checks := w.Verify(copies, ledger)
	if left := l.Copies() - len(copies); left > 0 {
		for i := range checks {
			checks[i].Message += fmt.Sprintf(" (%d of %d copies are left out: %s)", left, l.Copies(), missing)
		}
	}
	return append(checks, converged(l, audits, out))
}

// converged checks that all copies of a partition hold the same rows. With home-only replication those in different regions are
// not copies of each other.
func converged(l geo.Layout, audits []admin.Audit, out []string) workload.Check {
	var copies []history.Copy
	for i, a := range audits {
		n := geo.NodeID(i)
		if len(out) > 0 && out[n] != "" {
			continue
		}
		copies = append(copies, history.Copy{Name: l.Topology.NodeName(n), Partition: l.SiteOf(n), Digest: a.Digest, Rows: a.Rows, Sums: a.Sums})
	}
	return history.Converged(copies)
}

// loadRequest asks a node to load the plan's data set.
func loadRequest(p *plan.Plan) (*admin.LoadRequest, error) {
	spec, err := p.WorkloadJSON()
	return &admin.LoadRequest{Dataset: p.Run.Name, Workload: json.RawMessage(spec), Seed: p.Seed(), Traced: traced(p)}, err
}
