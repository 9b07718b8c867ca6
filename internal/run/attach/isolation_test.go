package attach_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/anomalies"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/target/etcd/etcdtest"
	"github.com/geobench/geobench/internal/bench/target/mysql/mysqltest"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/run/attach"
)

// geoDatabase returns the GeoDatabase named own from a manifest.
func geoDatabase(t *testing.T, text string) *v1alpha1.GeoDatabase {
	t.Helper()
	bundle, err := manifest.Load(strings.NewReader(text), check.Isolation(nil), "-")
	if err != nil {
		t.Fatal(err)
	}
	return bundle.Databases["own"]
}

// isolated plays the cases at a level and returns the names of the cases in which the anomaly was observed. It fails
// the test if an anomaly violates the promised level, or if the transactions of a case did not conflict.
func isolated(t *testing.T, db *v1alpha1.GeoDatabase, secrets, level string, plays int) (seen []string, r *anomalies.Result) {
	t.Helper()
	r, err := attach.PlayIsolation(t.Context(), db, secrets, level, true, plays)
	if err != nil {
		t.Fatal(err)
	}
	report := &anomalies.Report{Databases: []anomalies.Result{*r}}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	for _, f := range r.Cases {
		if f.Seen > 0 {
			seen = append(seen, f.Case)
		} else if f.Overlapped == 0 {
			t.Errorf("%s: the transactions never met: %v", f.Case, &f)
		}
	}
	var b strings.Builder
	_ = report.Print(&b, "table")
	t.Log(b.String())
	return seen, r
}

// In every play, PostgreSQL shows exactly the anomalies that its isolation level permits. No rows remain.
func TestIsolationOfPostgres(t *testing.T) {
	s := postgrestest.Start(t)
	db := geoDatabase(t, own{address: s.Address, workload: "{smallbank: {customers: 100}}", load: load, verify: "[Invariants]"}.text())
	db.Spec.Engine.Parameters["writes"] = "Together" // PlayIsolation overrides this value, because it needs an answer to each write
	db.Spec.Engine.Parameters["form"] = "SQL"        // PlayIsolation overrides this value, because its cases use rows
	for level, want := range map[string]string{
		"ReadCommitted":  "predicate-many-preceders lost-update read-skew causal-reverse write-skew predicate-write-skew",
		"RepeatableRead": "write-skew predicate-write-skew",
		"Serializable":   "",
	} {
		t.Run(level, func(t *testing.T) {
			seen, r := isolated(t, db, secrets(t), level, 2)
			if got := strings.Join(seen, " "); got != want {
				t.Errorf("seen: %s\nwant: %s", got, want)
			}
			if r.Target == nil || !strings.HasPrefix(r.Target.Server, "PostgreSQL ") || len(r.Target.Endpoints) != 2 || r.Simulated {
				t.Errorf("%+v", r.Target)
			}
		})
	}
	if rows := s.Query(t, "postgres", "select nspname from pg_namespace where nspname like 'geobench%'"); len(rows) > 0 {
		t.Errorf("the schemas %v are left", rows)
	}
	s.AwaitNoSessions(t, "geobench-")
}

// MariaDB shows the anomalies that InnoDB permits at each isolation level. No rows remain.
func TestIsolationOfMariaDB(t *testing.T) {
	s := mysqltest.Start(t)
	db := geoDatabase(t, ownMySQL{servers: []*mysqltest.Server{s}, isolation: "Serializable", workload: "{smallbank: {customers: 100}}", load: load, verify: "[Invariants]"}.text())
	folder := keys(t, map[string]string{"username": mysqltest.User, "password": mysqltest.Password})
	for level, want := range map[string]string{
		"ReadCommitted":     "predicate-many-preceders lost-update read-skew causal-reverse write-skew predicate-write-skew",
		"RepeatableRead":    "lost-update write-skew predicate-write-skew",
		"SnapshotIsolation": "write-skew predicate-write-skew",
		"Serializable":      "",
	} {
		t.Run(level, func(t *testing.T) {
			seen, _ := isolated(t, db, folder, level, 2)
			if got := strings.Join(seen, " "); got != want {
				t.Errorf("seen: %s\nwant: %s", got, want)
			}
		})
	}
	if rows := s.Query(t, mysqltest.Database, "show tables like 'geobench%'"); len(rows) > 0 {
		t.Errorf("the tables %v are left", rows)
	}
	s.AwaitNoSessions(t)
}

// If a user may not see the server's locks, the test of isolation returns an error and drops all objects that it has
// created.
func TestIsolationNeedsPrivilege(t *testing.T) {
	s := mysqltest.Start(t)
	s.Query(t, "mysql", "create user few@'%' identified by 'few-rights'", "grant all on "+mysqltest.Database+".* to few@'%'")
	db := geoDatabase(t, ownMySQL{servers: []*mysqltest.Server{s}, isolation: "ReadCommitted", workload: "{smallbank: {customers: 100}}", load: load, verify: "[Invariants]"}.text())
	_, err := attach.PlayIsolation(t.Context(), db, keys(t, map[string]string{"username": "few", "password": "few-rights"}), "ReadCommitted", true, 1)
	const want = "GeoDatabase own: spec.external.secretRef: user few may not see who waits for whose locks"
	if ps, ok := check.As(err); !ok || !strings.HasPrefix(ps[0].String(), want) || !strings.Contains(err.Error(), "grant process on *.* to this user") {
		t.Errorf("%v\nnot %s", err, want)
	}
	if rows := s.Query(t, mysqltest.Database, "show tables like 'geobench%'"); len(rows) > 0 {
		t.Errorf("the tables %v are left", rows)
	}
}

// Galera with two nodes loses updates at REPEATABLE READ. With snapshots, it permits write skew if the second node has
// already received the commits of the first node. Whether the second node lags, so that reads are stale, depends on the
// machine.
func TestIsolationOfGalera(t *testing.T) {
	nodes := mysqltest.StartGalera(t, 2)
	db := geoDatabase(t, ownMySQL{servers: nodes, isolation: "ReadCommitted", workload: "{smallbank: {customers: 100}}", load: load, verify: "[Invariants]"}.text())
	folder := keys(t, map[string]string{"username": mysqltest.User, "password": mysqltest.Password})
	for level, want := range map[string]string{
		"ReadCommitted":     "predicate-many-preceders lost-update read-skew write-skew predicate-write-skew",
		"RepeatableRead":    "lost-update write-skew predicate-write-skew",
		"SnapshotIsolation": "write-skew predicate-write-skew",
	} {
		t.Run(level, func(t *testing.T) {
			seen, _ := isolated(t, db, folder, level, 2)
			seen = slices.DeleteFunc(seen, func(c string) bool { return c == "stale-read" || c == "causal-reverse" })
			if got := strings.Join(seen, " "); got != want {
				t.Errorf("seen: %s\nwant: %s", got, want)
			}
		})
	}
	t.Run("Serializable", func(t *testing.T) {
		r, err := attach.PlayIsolation(t.Context(), db, folder, "Serializable", false, 1)
		if err != nil || len(r.Cases) > 0 || !strings.Contains(r.Refused, "the locks of SERIALIZABLE are of one node") {
			t.Errorf("%v: %+v", err, r)
		}
		if _, err := attach.PlayIsolation(t.Context(), db, folder, "Serializable", true, 1); err == nil {
			t.Error("a level that was picked is left out")
		}
	})
}

// Committed transactions of etcd are serializable, and with linearizable reads they are strictly serializable. Reads
// that etcd calls serializable may be stale if a member lags.
func TestIsolationOfEtcd(t *testing.T) {
	members := etcdtest.Start(t, 3)
	db := geoDatabase(t, etcdText(members, "Linearizable", "{smallbank: {customers: 100}}", load, "[Invariants]"))
	for _, level := range []string{"Linearizable", "Serializable"} {
		t.Run(level, func(t *testing.T) {
			seen, r := isolated(t, db, "", level, 2)
			stale := slices.DeleteFunc(seen, func(c string) bool {
				return level == "Serializable" && (c == "stale-read" || c == "causal-reverse" || c == "long-fork")
			})
			if len(stale) > 0 {
				t.Errorf("seen: %s", seen)
			}
			for _, f := range r.Cases {
				if strings.Contains("lost-update write-skew predicate-write-skew", f.Case) && f.Aborted != f.Plays {
					t.Errorf("%s: %d of %d plays have an abort", f.Case, f.Aborted, f.Plays)
				}
			}
		})
	}
	if left := members[0].Keys(t, ""); len(left) > 0 {
		t.Errorf("the keys %q are left", left)
	}
}

// The test of isolation leaves no objects in the database, even if it is interrupted at any time.
func TestIsolationIsInterrupted(t *testing.T) {
	s := postgrestest.Start(t)
	db := geoDatabase(t, own{address: s.Address, workload: "{smallbank: {customers: 100}}", load: load, verify: "[Invariants]"}.text())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	folder := secrets(t)
	const never = 1_000_000 // a number of plays that would take hours
	ended := make(chan error, 1)
	go func() {
		_, err := attach.PlayIsolation(ctx, db, folder, "ReadCommitted", true, never)
		ended <- err
	}()
	await(t, "rows of a play", func() bool {
		there := s.Query(t, "postgres", "select count(*) from pg_stat_user_tables where schemaname = 'geobench' and n_tup_ins > 0")
		return len(there) == 1 && there[0][0] != "0"
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
	if rows := s.Query(t, "postgres", "select nspname from pg_namespace where nspname like 'geobench%'"); len(rows) > 0 {
		t.Errorf("the schemas %v are left", rows)
	}
	s.AwaitNoSessions(t, "geobench-")
}
