package attach_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target/etcd/etcdtest"
	"github.com/geobench/geobench/internal/run/attach"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// etcdText returns the manifests of a run on an etcd cluster, with a region for each member.
func etcdText(members []*etcdtest.Member, reads, workload, load, verify string) string {
	var regions, endpoints []string
	for i, m := range members {
		regions = append(regions, fmt.Sprintf("{name: r%d}", i))
		endpoints = append(endpoints, fmt.Sprintf("{region: r%d, address: %q}", i, m.Address))
	}
	return fmt.Sprintf(`apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: own}
spec:
  engine: {name: etcd, parameters: {reads: %s, tls: disable, connections: "8", dropPrefix: "true"}}
  regions: [%s]
  external:
    endpoints: [%s]
---
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: own}
spec:
  databaseRef: {name: own}
  workload: %s
  load: %s
  verify: %s
`, reads, strings.Join(regions, ", "), strings.Join(endpoints, ", "), workload, load, verify)
}

// playEtcd plays a workload on an etcd cluster. If the machine is so busy that no transaction commits in a window, it
// repeats the run, up to four times.
func playEtcd(t *testing.T, members []*etcdtest.Member, reads, workload, verify string) (*result.Document, error) {
	t.Helper()
	var d *result.Document
	var err error
	idle := func(r result.Reason) bool { return r.Reason == result.ReasonNoTransactions }
	for plays := 0; plays == 0 || plays < 5 && d != nil && slices.ContainsFunc(d.Reasons, idle); plays++ {
		d, err = attach.Play(t.Context(), planned(t, etcdText(members, reads, workload, load, verify)), "", func(inprocess.Progress) {})
	}
	if d != nil {
		for _, c := range d.Checks {
			t.Logf("%s: passed %v: %s", c.Name, c.Passed, c.Message)
		}
		t.Logf("verdict %s %v: %d committed, causes %v", d.Verdict, d.Reasons, d.Summary.Committed, d.Summary.Causes)
	}
	return d, err
}

// With three members, etcd satisfies its promised isolation level. Reads that etcd calls serializable may be stale if a
// member lags, which depends on the machine. They show no other anomaly.
func TestReadsOfEtcd(t *testing.T) {
	members := etcdtest.Start(t, 3)
	const registers = "{ycsb: {records: 60, fieldCount: 1, fieldBytes: 8, operationsPerTransaction: 2, preset: B, multiHomePercent: 100}}"
	for reads, stale := range map[string]bool{"Linearizable": false, "Serializable": true} {
		t.Run(reads, func(t *testing.T) {
			d, err := playEtcd(t, members, reads, registers, "[Invariants, Serializable, StrictSerializable]")
			if err != nil {
				t.Fatal(err)
			}
			why := message(d, "strict-serializable")
			if message(d, "serializable") != "" || why != "" && (!stale || !strings.Contains(why, "realtime")) {
				t.Errorf("verdict %s %v: %q", d.Verdict, d.Reasons, why)
			}
			if d.Target == nil || !strings.HasPrefix(d.Target.Server, "etcd 3.") || len(d.Target.Endpoints) != 3 || d.Summary.Committed < 10 {
				t.Errorf("target %+v", d.Target)
			}
		})
	}
	t.Run("micro", func(t *testing.T) {
		if d, err := playEtcd(t, members[:1], "Linearizable", "{micro: {itemsPerPartition: 1000}}", "[Invariants, Isolation]"); err != nil || d.Verdict != v1alpha1.VerdictPassed {
			t.Error(err)
		}
	})
	t.Run("social", func(t *testing.T) {
		if d, err := playEtcd(t, members[:2], "Linearizable", "{social: {usersPerPartition: 300}}", "[Invariants, Isolation]"); err != nil || d.Verdict != v1alpha1.VerdictPassed {
			t.Error(err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		_, err := playEtcd(t, members[:1], "Linearizable", "{rmw: {records: 400, recordsPerTransaction: 200, writesPerTransaction: 2, valueBytes: 16}}", "[Invariants]")
		if ps, ok := check.As(err); !ok || !strings.HasPrefix(ps[0].String(), "BenchmarkRun own: spec.workload.rmw: ") {
			t.Errorf("%v", err)
		}
	})
	if left := members[0].Keys(t, ""); len(left) > 0 {
		t.Errorf("the keys %q are left", left)
	}
}
