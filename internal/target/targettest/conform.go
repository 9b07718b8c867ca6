// Package targettest holds databases to the contract of target.Database: whatever speaks it is loaded, played on by the
// clients of two regions, audited, and its history is checked.
package targettest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/local"
	"github.com/geobench/geobench/internal/manifest"
	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/result"
	"github.com/geobench/geobench/internal/target"
)

// Within bounds each run of Conform.
const Within = 2 * time.Minute

// Topology is two regions.
func Topology() geo.Topology {
	return geo.Topology{Regions: []string{"east", "west"}, Partitions: 1, Replicas: 1}
}

// workloads are what Conform runs, as in spec.workload.
var workloads = map[string]string{
	"smallbank": `{smallbank: {customers: 200, multiHomePercent: 30, hotPercent: 50}}`,
	"rmw":       `{rmw: {records: 100, recordsPerTransaction: 4, writesPerTransaction: 2, valueBytes: 64, multiHomePercent: 30}}`,
	"ycsb": `{ycsb: {records: 200, fieldCount: 2, fieldBytes: 8, operationsPerTransaction: 3, multiHomePercent: 30, ` +
		`mix: {read: 30, update: 20, readModifyWrite: 15, insert: 15, scan: 20}}}`,
}

// Conform runs each workload on a database that open makes, and fails unless every run is valid, the data is what the clients
// know to have been committed, and histories have the level that the database promises.
func Conform(t *testing.T, engine string, promises isolation.Level, open func(*testing.T, *plan.Plan) target.Database) {
	for name, spec := range workloads {
		t.Run(name, func(t *testing.T) {
			p := Plan(t, engine, spec, promises)
			ctx, cancel := context.WithTimeout(t.Context(), Within)
			defer cancel()
			d, err := local.On(ctx, p, open(t, p), nil)
			if err != nil {
				t.Fatal(err)
			}
			Judge(t, d)
		})
	}
}

// Plan plans a run of 20 clients in each of two regions for a second: spec is a manifest's spec.workload.
func Plan(t *testing.T, engine, spec string, promises isolation.Level) *plan.Plan {
	t.Helper()
	text := fmt.Sprintf(`apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: conform}
spec:
  databaseRef: {name: %s}
  workload: %s
  load: {clientsPerRegion: 20, thinkTime: 5ms, warmup: 200ms, duration: 1s}
  verify: [Invariants, Isolation]
`, engine, spec)
	documents, problems := manifest.Split("conform", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	bundle, problems := manifest.Build(documents)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	p, err := plan.External(bundle.Runs[0], engine, promises, Topology())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Judge fails unless a run passed with work done.
func Judge(t *testing.T, d *result.Document) {
	t.Helper()
	if d.Verdict != v1alpha1.VerdictPassed || d.Summary.Committed < 10 {
		t.Errorf("verdict %s %v, %d committed", d.Verdict, d.Reasons, d.Summary.Committed)
	}
	for _, c := range d.Checks {
		t.Logf("%s: passed %v: %s", c.Name, c.Passed, c.Message)
	}
}
