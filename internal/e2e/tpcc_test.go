//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestTPCC runs the five transactions of TPC-C on an engine that orders transactions before their execution, and on an
// engine that locks rows. The histories that the workers record must satisfy the isolation level that each engine
// promises.
func TestTPCC(t *testing.T) {
	for _, engine := range []string{"detock", "spanner"} {
		t.Run(engine, func(t *testing.T) {
			c := newCluster(t)
			name := engine + "-tpcc"
			c.apply(t, database(engine)+separator+`apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: `+name+`}
spec:
  databaseRef: {name: `+engine+`}
  workload: {tpcc: {remote: {newOrderPercent: 20, paymentPercent: 20, multiHomePercent: 100}}}
  load: {clientsPerRegion: 10, warmup: 2s, duration: 8s, requestTimeout: 5s, retry: {attempts: 10}}
  verify: [Isolation, Invariants, Convergence]
`)
			r := c.awaitEnd(t, name, 6*time.Minute)
			c.mustPass(t, r)
			checks := map[string]string{}
			for _, check := range r.Status.Checks {
				checks[check.Name] = check.Message
				t.Logf("%s, %s: %s", engine, check.Name, check.Message)
			}
			for _, name := range []string{"strict-serializable", "tpcc-3.3.2.1", "tpcc-3.3.2.12", "convergence"} {
				if checks[name] == "" {
					t.Errorf("%s was not checked", name)
				}
			}
			if message := checks["strict-serializable"]; !strings.Contains(message, "committed transactions with") {
				t.Errorf("strict-serializable: %s", message)
			}
			d := c.document(t, r)
			if d.Summary.TpmC == nil || *d.Summary.TpmC == 0 {
				t.Error("no new order was committed")
			}
			ran := map[string]int64{}
			for _, x := range d.Transactions {
				ran[x.Type] += x.Committed
			}
			t.Logf("%s: %d/s, tpmC %d, committed by type %v, failed attempts by cause %v", engine, d.Summary.ThroughputPerSecond, *d.Summary.TpmC, ran,
				d.Summary.Attempts.Causes)
			c.deleteRun(t, name)
		})
	}
}
