package attach_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/acceptance"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/run/attach"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// own describes a GeoDatabase on the tests' PostgreSQL server, and a run on this database.
type own struct {
	address, isolation, workload, load, verify string
	parameters                                 string
}

func (o own) text() string {
	if o.isolation == "" {
		o.isolation = "Serializable"
	}
	return fmt.Sprintf(`apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: own}
spec:
  engine: {name: postgres, parameters: {isolation: %s, tls: disable, connections: "8", dropSchema: "true"%s}}
  regions: [{name: east}, {name: west}]
  external:
    endpoints: [{region: west, address: "%s"}, {region: east, address: "%[3]s"}]
    database: postgres
    secretRef: {name: pg}
---
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: own}
spec:
  databaseRef: {name: own}
  workload: %[4]s
  load: %s
  verify: %s
`, o.isolation, o.parameters, o.address, o.workload, o.load, o.verify)
}

// load is the spec.load of a short run.
const load = "{clientsPerRegion: 8, warmup: 200ms, duration: 1s}"

// planned returns the plan of the first run in a manifest.
func planned(t *testing.T, text string) *plan.Plan {
	t.Helper()
	bundle, err := manifest.Load(strings.NewReader(text), check.Process(nil), "-")
	if err != nil {
		t.Fatal(err)
	}
	p, err := attach.Plan(bundle.Runs[0], bundle.Databases["own"])
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// secrets returns a folder that contains the login of the PostgreSQL server as Secret pg.
func secrets(t *testing.T) string {
	t.Helper()
	return keys(t, map[string]string{"username": postgrestest.User + "\n", "password": postgrestest.Password + "\n"})
}

func play(t *testing.T, o own) *result.Document {
	t.Helper()
	d, err := attach.Play(t.Context(), planned(t, o.text()), secrets(t), func(inprocess.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Every workload runs on PostgreSQL, and its history satisfies the isolation level that PostgreSQL promises. The
// document describes the server, but does not contain the password.
func TestWorkloadsOnPostgres(t *testing.T) {
	s := postgrestest.Start(t)
	for name, tc := range map[string]struct{ workload, verify string }{
		"smallbank": {"{smallbank: {customers: 500}}", "[Invariants, Isolation]"},
		"rmw":       {"{rmw: {records: 200, recordsPerTransaction: 3, writesPerTransaction: 1, valueBytes: 16}}", "[Invariants, Isolation]"},
		"ycsb":      {"{ycsb: {records: 500, fieldCount: 2, fieldBytes: 8, operationsPerTransaction: 2, preset: A}}", "[Invariants, Isolation]"},
		"micro":     {"{micro: {}}", "[Invariants, Isolation]"},
		"social":    {"{social: {}}", "[Invariants, Isolation]"},
		"tpcc":      {"{tpcc: {}}", "[Invariants]"},
	} {
		t.Run(name, func(t *testing.T) {
			d := play(t, own{address: s.Address, isolation: "Serializable", workload: tc.workload, load: load, verify: tc.verify})
			if d.Verdict != v1alpha1.VerdictPassed || d.Summary.Committed < 10 {
				t.Errorf("verdict %s %v, %d committed", d.Verdict, d.Reasons, d.Summary.Committed)
			}
			if d.Target == nil || !strings.HasPrefix(d.Target.Server, "PostgreSQL ") || d.Target.Isolation != "serializable" || d.Target.Promises != "serializable" ||
				len(d.Target.Endpoints) != 2 || d.Target.Endpoints[0].Region != "east" || d.Target.ConnectionsPerRegion != 8 {
				t.Errorf("target %+v", d.Target)
			}
			if d.Manifests.Database == nil || d.Manifests.Database.External == nil || d.Manifests.Network != nil {
				t.Errorf("manifests %+v", d.Manifests)
			}
			var text strings.Builder
			for _, format := range result.Formats {
				if err := result.Print(&text, []*result.Document{d}, format); err != nil {
					t.Error(err)
				}
			}
			if strings.Contains(text.String(), postgrestest.Password) {
				t.Error("the password is in the result")
			}
			t.Log(d.Target, d.Target.Where())
			if !strings.Contains(text.String(), d.Target.Server) {
				t.Error("the table does not tell of the server")
			}
		})
	}
	if rows := s.Query(t, "postgres", "select nspname from pg_namespace where nspname like 'geobench%'"); len(rows) > 0 {
		t.Errorf("the schemas %v are left", rows)
	}
	s.AwaitNoSessions(t, "geobench-")
	if strings.Contains(s.Log(t), postgrestest.Password) {
		t.Error("the password is in the server's log of statements")
	}
}

// At READ COMMITTED, SmallBank loses money, and the minimal history that the check reports shows this. At SERIALIZABLE
// it does not lose money.
func TestReadCommittedLosesMoney(t *testing.T) {
	s := postgrestest.Start(t)
	hot := own{
		address: s.Address, workload: "{smallbank: {customers: 200, hotPercent: 90}}", load: load,
		verify: "[Invariants, ReadCommitted, Serializable]",
	}
	for level, loses := range map[string]bool{"ReadCommitted": true, "Serializable": false} {
		t.Run(level, func(t *testing.T) {
			hot.isolation = level
			d := play(t, hot)
			failed := map[string]string{}
			for _, c := range d.Checks {
				t.Logf("%s: passed %v: %s", c.Name, c.Passed, c.Message)
				if !c.Passed {
					failed[c.Name] = c.Message
				}
			}
			if !loses {
				if len(failed) > 0 || d.Verdict != v1alpha1.VerdictPassed {
					t.Errorf("verdict %s %v", d.Verdict, d.Reasons)
				}
				return
			}
			if d.Verdict != v1alpha1.VerdictFailed || len(failed) == 0 {
				t.Fatalf("verdict %s %v: money was not lost", d.Verdict, d.Reasons)
			}
			if why := failed["serializable"]; failed["smallbank-total"] == "" || failed["read-committed"] != "" ||
				!strings.Contains(why, "lost-update: two transactions read the same version and replaced it") || !strings.Contains(why, "T2 is ") {
				t.Errorf("%v", failed)
			}
		})
	}
}

// descriptors returns the number of open files and sockets of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// await waits until condition returns true.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	const within, poll = 30 * time.Second, 50 * time.Millisecond
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for begin := time.Now(); !condition(); <-tick.C {
		if time.Since(begin) > within {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

// An error in a GeoDatabase that only the server can detect is reported like any other error: with the object, field,
// value and a correction.
func TestWrongExternalDatabases(t *testing.T) {
	s := postgrestest.Start(t)
	good := own{address: s.Address, isolation: "Serializable", workload: "{smallbank: {customers: 100}}", load: load, verify: "[Invariants]"}
	wrongPassword := secrets(t)
	const other = "not-the-password-at-all"
	if err := os.WriteFile(filepath.Join(wrongPassword, "pg", "password"), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGUSER", "")
	for name, tc := range map[string]struct {
		change  func(string) string
		secrets string
		want    string
	}{
		"no secrets":      {nil, "", "GeoDatabase own: spec.external.secretRef.name: there are no Secrets here: put username and password into files pg/username and pg/password"},
		"a missing key":   {nil, t.TempDir(), "GeoDatabase own: spec.external.secretRef.name: the key username cannot be read"},
		"wrong password":  {nil, wrongPassword, "GeoDatabase own: spec.external.secretRef: 127.0.0.1"},
		"wrong database":  {func(s string) string { return strings.Replace(s, "database: postgres", "database: nope", 1) }, secrets(t), "GeoDatabase own: spec.external.database: there is no such database at 127.0.0.1"},
		"TLS is required": {func(s string) string { return strings.Replace(s, "tls: disable", "tls: require", 1) }, secrets(t), "GeoDatabase own: spec.engine.parameters.tls: require: "},
	} {
		t.Run(name, func(t *testing.T) {
			text := good.text()
			if tc.change != nil {
				text = tc.change(text)
			}
			d, err := attach.Play(t.Context(), planned(t, text), tc.secrets, func(inprocess.Progress) {})
			ps, ok := check.As(err)
			if !ok || d != nil || !strings.HasPrefix(ps[0].String(), tc.want) {
				t.Errorf("%v\nnot %s", err, tc.want)
			}
			for _, secret := range []string{postgrestest.Password, other} {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("a password is in the message: %v", err)
				}
			}
		})
	}
	if rows := s.Query(t, "postgres", "select nspname from pg_namespace where nspname like 'geobench%'"); len(rows) > 0 {
		t.Errorf("the schemas %v are left", rows)
	}
}

// Errors in the manifest of an external database are reported before the first connection.
func TestWrongManifestsOfExternalDatabases(t *testing.T) {
	good := own{address: "db.example:5432", isolation: "Serializable", workload: "{smallbank: {customers: 100}}", load: load, verify: "[Invariants]"}.text()
	replace := func(old, replacement string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s is not in the manifests", old)
		}
		return strings.Replace(good, old, replacement, 1)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"isolation":         {replace("isolation: Serializable", "isolation: Chaos"), `spec.engine.parameters.isolation: "Chaos" is not one of ReadCommitted, RepeatableRead, Serializable`},
		"connections":       {replace(`connections: "8"`, `connections: "0"`), `"0" is not a whole number from 1 to 4096`},
		"tls":               {replace("tls: disable", "tls: prefer"), `"prefer" is not one of disable, require, verify-ca, verify-full`},
		"schema":            {replace("tls: disable", "schema: public"), `"public" is not one of geobench`},
		"parameter":         {replace("tls: disable", "isolatoin: x"), "did you mean isolation?"},
		"engine":            {replace("name: postgres", "name: postgers"), "did you mean postgres?"},
		"own engine":        {replace("engine: {name: postgres, parameters: {isolation: Serializable, tls: disable, connections: \"8\", dropSchema: \"true\"}}", "engine: {name: calvin}"), "leave external out to deploy it"},
		"network":           {replace("  external:\n", "  network: {profileRef: {name: aws}}\n  external:\n"), "spec.network: the links to a database that is there already are real"},
		"region":            {replace("region: west", "region: wset"), "did you mean west?"},
		"no endpoint":       {replace(`{region: west, address: "db.example:5432"}, `, ""), "region west has no endpoint that its clients could connect to: add {region: west"},
		"port":              {replace("db.example:5432", "db.example:65536"), "spec.external.endpoints[0].address: db.example:65536 is not host:port"},
		"IPv6":              {replace("db.example:5432", "::1:5432"), "an IPv6 address in brackets"},
		"address":           {replace("db.example:5432", "db.example"), "spec.external.endpoints[0].address"},
		"replicas":          {replace("  external:\n", "  replicasPerPartition: 3\n  external:\n"), "leave replicasPerPartition out"},
		"durability":        {replace("  external:\n", "  durability: Journal\n  external:\n"), "leave durability out"},
		"homes":             {replace("  external:\n", "  homes: [east]\n  external:\n"), "leave homes out"},
		"pods":              {replace("  external:\n", "  pods: {image: x, ports: [{name: sql, port: 5432}]}\n  external:\n"), "pods and external are both set"},
		"a password":        {replace("secretRef: {name: pg}", "password: x"), "spec.external.password"},
		"a fault":           {good + "  faults: [{name: kill, at: 100ms, podKill: {target: {regions: [east], count: 1}}}]\n", "which is not supported by a target"},
		"unknown objective": {good + "  objectives: [{metric: P99Latency, region: north, max: 1s}]\n", "spec.objectives[0]"},
		"neither of both":   {replace("  external:\n    endpoints: [{region: west, address: \"db.example:5432\"}, {region: east, address: \"db.example:5432\"}]\n    database: postgres\n    secretRef: {name: pg}\n", ""), "network is required"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := manifest.Load(strings.NewReader(tc.text), check.Process(nil), "-")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v\nnot %s", err, tc.want)
			}
		})
	}
	for name, tc := range map[string]struct {
		place      check.Abilities
		text, want string // want is the expected error; empty if the manifest is accepted
	}{
		"cluster":             {check.Default(nil), good, ""},
		"simulator":           {check.Simulator(nil), good, "spec.external: a database that runs already cannot be simulated"},
		"a pod's own address": {check.Default(nil), replace("db.example:5432", "127.0.0.1:5432"), "spec.external.endpoints[0].address: 127.0.0.1:5432: 127.0.0.1 leads a worker to its own pod or machine"},
		"a link's address":    {check.Default(nil), replace("db.example:5432", "[fe80::1%eth0]:5432"), "its own pod or machine"},
		"a cloud's metadata":  {check.Default(nil), replace("db.example:5432", "[64:ff9b::a9fe:a9fe]:5432"), "a cloud's metadata"},
		"another cloud's":     {check.Default(nil), replace("db.example:5432", "100.100.100.200:5432"), "a cloud's metadata"},
		"a pod's own name":    {check.Default(nil), replace("db.example:5432", "localhost:5432"), "its own pod or machine"},
		"its own address":     {check.Process(nil), replace("db.example:5432", "127.0.0.1:5432"), ""},
		"too many workers":    {check.Default(nil), strings.Replace(good, "clientsPerRegion: 8", "clientsPerRegion: 9, workersPerRegion: 9", 1), "spec.load.workersPerRegion: 9 workers share the 8 connections"},
	} {
		if _, err := manifest.Load(strings.NewReader(tc.text), tc.place, "-"); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v\nnot %s", name, err, tc.want)
		}
	}
}

// A database that fails the functional test of global snapshots is not measured. At READ COMMITTED, the test fails:
// balances that always change together diverge, because transactions overwrite each other's updates.
func TestFunctionalTestsOfPostgres(t *testing.T) {
	s := postgrestest.Start(t, "deadlock_timeout=10ms") // a short timeout, so that a short test has many transactions
	for level, passes := range map[string]bool{"ReadCommitted": false, "Serializable": true} {
		t.Run(level, func(t *testing.T) {
			text := own{address: s.Address, isolation: level, workload: "{smallbank: {customers: 200}}", load: load, verify: "[Invariants]"}.text()
			p := planned(t, text+"  functionalTests: [GlobalDeadlock, GlobalSnapshot]\n")
			for _, test := range p.Tests {
				test.Run.Spec.Load.Duration = v1alpha1.DurationOf(time.Second)
				if len(test.Run.Spec.Objectives) == 0 {
					// The test of snapshots needs more transactions. On a busy machine, the server may also pause for one of the
					// seconds.
					test.Run.Spec.Load.Duration = v1alpha1.DurationOf(3 * time.Second)
					half := intstr.FromInt32(500_000)
					test.Run.Spec.Objectives = []v1alpha1.Objective{{Metric: v1alpha1.MetricUnknownPPM, Max: &half}}
				}
			}
			docs, err := inprocess.Tested(p, func(one *plan.Plan) (*result.Document, error) {
				return attach.Play(t.Context(), one, secrets(t), func(inprocess.Progress) {})
			})
			var names []string
			for _, d := range docs {
				names = append(names, fmt.Sprintf("%s %s", d.Name, d.Verdict))
			}
			t.Log(names, err)
			if passes {
				if err != nil || len(docs) != 3 || docs[2].Verdict != v1alpha1.VerdictPassed || len(docs[2].FunctionalTests) != 2 {
					t.Fatalf("%v, and %v", names, err)
				}
				return
			}
			var unfit *acceptance.NotPassedError
			if !errors.As(err, &unfit) || len(docs) != 2 || len(unfit.Tests) != 1 || docs[0].Verdict != v1alpha1.VerdictPassed {
				t.Fatalf("%v, and %v", names, err)
			}
			if d := unfit.Tests[0]; d.Run != "own-snapshot" || d.Verdict != v1alpha1.VerdictFailed || !strings.Contains(err.Error(), "equal to the others of their group") {
				t.Errorf("%s is %s: %v", d.Run, d.Verdict, err)
			}
		})
	}
}
