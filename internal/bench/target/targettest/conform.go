// Package targettest tests databases against the contract of target.Database. It loads a database, runs the clients of
// two regions, audits the rows, and checks the history.
package targettest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// A busy test machine must not invalidate runs.
func init() { load.IgnoreLateness() }

// Within is the timeout of each run of Conform.
const Within = 2 * time.Minute

// Topology returns a topology of two regions, with one partition and one replica each.
func Topology() geo.Topology {
	return geo.Topology{Regions: []string{"east", "west"}, Partitions: 1, Replicas: 1}
}

const traced = "[Invariants, Isolation]"

// workloads are the workloads of Conform, as in spec.workload, with their verifications. TPC-C runs twice: it is the
// only workload that deletes rows, and it does so only if no history is recorded.
var workloads = map[string]struct{ spec, verify string }{
	"tpcc":      {`{tpcc: {rowsPercent: 2}}`, "[Invariants]"},
	"recorded":  {`{tpcc: {rowsPercent: 2}}`, traced},
	"smallbank": {`{smallbank: {customers: 200, multiHomePercent: 30, hotPercent: 50}}`, traced},
	"rmw":       {`{rmw: {records: 100, recordsPerTransaction: 4, writesPerTransaction: 2, valueBytes: 64, multiHomePercent: 30}}`, traced},
	"ycsb": {`{ycsb: {records: 200, fieldCount: 2, fieldBytes: 8, operationsPerTransaction: 3, multiHomePercent: 30, ` +
		`mix: {read: 30, update: 20, readModifyWrite: 15, insert: 15, scan: 20}}}`, traced},
}

// Conform runs Statements and Workloads on a database whose clients are of type target.Statements. The function open
// creates the database, and closes it at the end of its test.
func Conform(t *testing.T, engine string, promises isolation.Level, open func(*testing.T, *plan.Plan) target.Database) {
	if promises == 0 {
		t.Fatalf("promises: level 0 is none, and every history has it; the least that can be checked is %v", isolation.ReadCommitted)
	}
	t.Run("statements", func(t *testing.T) {
		p := Plan(t, engine, workloads["smallbank"].spec, promises)
		if err := Statements(t.Context(), p, open(t, p)); err != nil {
			t.Error(err)
		}
	})
	Workloads(t, engine, promises, open)
}

// Workloads runs each workload on a database that open creates. It fails unless every run is valid, the data matches
// the transactions that clients know to be committed, and histories satisfy the promised level. Call Workloads directly
// for a database with its own target.Target, which executes whole transactions instead of statements.
func Workloads(t *testing.T, engine string, promises isolation.Level, open func(*testing.T, *plan.Plan) target.Database) {
	for name, w := range workloads {
		t.Run(name, func(t *testing.T) {
			p := verified(t, engine, w.spec, w.verify, promises)
			ctx, cancel := context.WithTimeout(t.Context(), Within)
			defer cancel()
			d, err := inprocess.On(ctx, p, open(t, p), nil)
			if err != nil {
				t.Fatal(err)
			}
			Judge(t, d)
		})
	}
}

// Plan returns a plan for a run of one second with 20 clients in each of two regions, whose invariants and history are
// verified. spec is a manifest's spec.workload.
func Plan(t *testing.T, engine, spec string, promises isolation.Level) *plan.Plan {
	t.Helper()
	return verified(t, engine, spec, traced, promises)
}

func verified(t *testing.T, engine, spec, verify string, promises isolation.Level) *plan.Plan {
	t.Helper()
	text := fmt.Sprintf(`apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: conform}
spec:
  databaseRef: {name: %s}
  workload: %s
  load: {clientsPerRegion: 20, thinkTime: 5ms, warmup: 200ms, duration: 1s}
  verify: %s
`, engine, spec, verify)
	documents, problems := manifest.Split("conform", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	bundle, problems := manifest.Build(documents)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	p, err := inprocess.PlanOn(bundle.Runs[0], engine, promises, Topology())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Judge fails the test unless the run passed with at least 10 committed transactions. No transaction may fail because
// of the database, because the test provokes no failures. It logs the checks, and the uncommitted transactions by
// reason.
func Judge(t *testing.T, d *result.Document) {
	t.Helper()
	if d.Verdict != v1alpha1.VerdictPassed || d.Summary.Committed < 10 {
		t.Errorf("verdict %s %v, %d committed", d.Verdict, d.Reasons, d.Summary.Committed)
	}
	if n := d.Summary.Causes[txn.CauseNode.String()]; n > 0 {
		t.Errorf("%d transactions failed for the sake of the database (cause %v), which nothing has happened to", n, txn.CauseNode)
	}
	for _, x := range d.Transactions {
		if len(x.Aborted)+len(x.Refused)+len(x.Unknown) > 0 {
			t.Logf("%s %s %s: %d committed, aborted %v, refused %v, unknown %v", x.Region, x.Type, x.Class, x.Committed, x.Aborted, x.Refused, x.Unknown)
		}
	}
	for _, c := range d.Checks {
		t.Logf("%s: passed %v: %s", c.Name, c.Passed, c.Message)
	}
}
