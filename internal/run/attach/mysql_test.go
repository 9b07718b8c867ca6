package attach_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target/mysql/mysqltest"
	"github.com/geobench/geobench/internal/run/attach"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// ownMySQL describes a GeoDatabase on the tests' MariaDB servers, and a run on it. Each server has a region; a single
// server has two.
type ownMySQL struct {
	servers                                      []*mysqltest.Server
	isolation, workload, load, verify, parameter string
}

func (o ownMySQL) text() string {
	servers := o.servers
	if len(servers) == 1 {
		servers = append(servers[:1:1], servers[0])
	}
	var regions, endpoints []string
	for i, s := range servers {
		regions = append(regions, fmt.Sprintf("{name: r%d}", i))
		endpoints = append(endpoints, fmt.Sprintf("{region: r%d, address: %q}", i, s.Address))
	}
	return fmt.Sprintf(`apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: own}
spec:
  engine: {name: mysql, parameters: {isolation: %s, tls: disable, connections: "8", dropTable: "true"%s}}
  regions: [%s]
  external:
    endpoints: [%s]
    database: %s
    secretRef: {name: pg}
---
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: own}
spec:
  databaseRef: {name: own}
  workload: %s
  load: %s
  verify: %s
`, o.isolation, o.parameter, strings.Join(regions, ", "), strings.Join(endpoints, ", "), mysqltest.Database, o.workload, o.load, o.verify)
}

func playMySQL(t *testing.T, o ownMySQL) *result.Document {
	t.Helper()
	folder := keys(t, map[string]string{"username": mysqltest.User, "password": mysqltest.Password})
	d, err := attach.Play(t.Context(), planned(t, o.text()), folder, func(inprocess.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range d.Checks {
		t.Logf("%s: passed %v: %s", c.Name, c.Passed, c.Message)
	}
	t.Logf("verdict %s %v: %d committed, causes %v", d.Verdict, d.Reasons, d.Summary.Committed, d.Summary.Causes)
	return d
}

// message returns the message of a check that failed, or "" if the check passed.
func message(d *result.Document, check string) string {
	for _, c := range d.Checks {
		if c.Name == check && !c.Passed {
			return c.Message
		}
	}
	return ""
}

// Workloads run on MariaDB at each level. Their histories satisfy the isolation that InnoDB promises for the level.
// Documents do not contain the password.
func TestWorkloadsOnMySQL(t *testing.T) {
	s := mysqltest.Start(t)
	for name, tc := range map[string]struct{ isolation, workload, verify string }{
		"smallbank":        {"Serializable", "{smallbank: {customers: 500}}", "[Invariants, Isolation]"},
		"ycsb":             {"Serializable", "{ycsb: {records: 500, fieldCount: 2, fieldBytes: 8, operationsPerTransaction: 2, preset: A}}", "[Invariants, Isolation]"},
		"tpcc":             {"Serializable", "{tpcc: {}}", "[Invariants]"},
		"snapshots":        {"SnapshotIsolation", "{ycsb: {records: 500, fieldCount: 2, fieldBytes: 8, operationsPerTransaction: 2, preset: A}}", "[Invariants, Isolation]"},
		"what RC promises": {"ReadCommitted", "{ycsb: {records: 500, fieldCount: 2, fieldBytes: 8, operationsPerTransaction: 2, preset: A}}", "[Isolation]"},
		"what RR promises": {"RepeatableRead", "{ycsb: {records: 500, fieldCount: 2, fieldBytes: 8, operationsPerTransaction: 2, preset: A}}", "[Isolation]"},
	} {
		t.Run(name, func(t *testing.T) {
			d := playMySQL(t, ownMySQL{servers: []*mysqltest.Server{s}, isolation: tc.isolation, workload: tc.workload, load: load, verify: tc.verify})
			if d.Verdict != v1alpha1.VerdictPassed || d.Summary.Committed < 10 {
				t.Errorf("verdict %s %v, %d committed", d.Verdict, d.Reasons, d.Summary.Committed)
			}
			if d.Target == nil || !strings.HasPrefix(d.Target.Server, "MariaDB ") || len(d.Target.Endpoints) != 2 || d.Target.ConnectionsPerRegion != 8 {
				t.Errorf("target %+v", d.Target)
			}
			var text strings.Builder
			for _, format := range result.Formats {
				if err := result.Print(&text, []*result.Document{d}, format); err != nil {
					t.Error(err)
				}
			}
			if strings.Contains(text.String(), mysqltest.Password) {
				t.Error("the password is in the result")
			}
		})
	}
	if rows := s.Query(t, mysqltest.Database, "show tables like 'geobench%'"); len(rows) > 0 {
		t.Errorf("the tables %v are left", rows)
	}
	s.AwaitNoSessions(t)
}

// hotBank is a SmallBank with so few contended customers that transactions conflict.
const hotBank = "{smallbank: {customers: 200, hotPercent: 90}}"

// At REPEATABLE READ, InnoDB loses updates, and the minimal history that the check reports shows this. With
// innodb_snapshot_isolation it does not lose updates.
func TestRepeatableReadLosesUpdates(t *testing.T) {
	s := mysqltest.Start(t)
	for level, loses := range map[string]bool{"RepeatableRead": true, "SnapshotIsolation": false} {
		t.Run(level, func(t *testing.T) {
			d := playMySQL(t, ownMySQL{servers: []*mysqltest.Server{s}, isolation: level, workload: hotBank, load: load, verify: "[ReadCommitted, SnapshotIsolation]"})
			why := message(d, "snapshot-isolation")
			if message(d, "read-committed") != "" || loses != strings.Contains(why, "lost-update: two transactions read the same version and replaced it") || !loses && why != "" {
				t.Errorf("verdict %s %v", d.Verdict, d.Reasons)
			}
		})
	}
}

// Galera with three nodes loses updates at REPEATABLE READ. With snapshots it is not serializable and serves stale
// reads, unless reads wait for the commits of other nodes.
func TestGaleraAnomalies(t *testing.T) {
	nodes := mysqltest.StartGalera(t, 3)
	// All regions use the same customers and records, so that clients of different nodes conflict.
	const bank = "{smallbank: {customers: 60, multiHomePercent: 100}}"
	const registers = "{ycsb: {records: 60, fieldCount: 1, fieldBytes: 8, operationsPerTransaction: 2, preset: A, multiHomePercent: 100}}"
	for name, tc := range map[string]struct{ isolation, parameter, workload, verify, check, anomaly string }{
		"lost update":  {"RepeatableRead", "", bank, "[ReadCommitted, SnapshotIsolation]", "snapshot-isolation", "lost-update"},
		"cycles":       {"SnapshotIsolation", "", bank, "[SnapshotIsolation, Serializable]", "serializable", "G2-item"},
		"stale read":   {"SnapshotIsolation", "", registers, "[SnapshotIsolation, StrongSnapshotIsolation]", "strong-snapshot-isolation", "realtime"},
		"none of them": {"SnapshotIsolation", ", syncWait: \"true\"", registers, "[SnapshotIsolation, StrongSnapshotIsolation]", "strong-snapshot-isolation", ""},
	} {
		t.Run(name, func(t *testing.T) {
			// Whether transactions conflict depends on the machine, so repeat the run until the anomaly occurs.
			d := playMySQL(t, ownMySQL{servers: nodes, isolation: tc.isolation, parameter: tc.parameter, workload: tc.workload, load: load, verify: tc.verify})
			for plays := 1; plays < 5 && tc.anomaly != "" && message(d, tc.check) == ""; plays++ {
				d = playMySQL(t, ownMySQL{servers: nodes, isolation: tc.isolation, parameter: tc.parameter, workload: tc.workload, load: load, verify: tc.verify})
			}
			if why := message(d, tc.check); (tc.anomaly == "") != (why == "") || !strings.Contains(why, tc.anomaly) {
				t.Errorf("verdict %s %v: not %q", d.Verdict, d.Reasons, tc.anomaly)
			}
		})
	}
	for _, s := range nodes {
		s.AwaitNoSessions(t)
	}
}
