package external_test

import (
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/external"
	"github.com/geobench/geobench/internal/hermitage"
	"github.com/geobench/geobench/internal/manifest"
	"github.com/geobench/geobench/internal/manifest/check"
	"github.com/geobench/geobench/internal/target/postgres/postgrestest"
)

// geoDatabase is that of manifests.
func geoDatabase(t *testing.T, text string) *v1alpha1.GeoDatabase {
	t.Helper()
	bundle, err := manifest.Load(strings.NewReader(text), check.Isolation(nil), "-")
	if err != nil {
		t.Fatal(err)
	}
	return bundle.Databases["own"]
}

// isolated plays the cases at a level, and returns those that are seen. None may break the promise, and all must have met.
func isolated(t *testing.T, db *v1alpha1.GeoDatabase, secrets, level string, plays int) (seen []string, r *hermitage.Result) {
	t.Helper()
	r, err := external.PlayIsolation(t.Context(), db, secrets, level, true, plays)
	if err != nil {
		t.Fatal(err)
	}
	report := &hermitage.Report{Databases: []hermitage.Result{*r}}
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

// PostgreSQL lets happen what its levels allow, each time, and leaves nothing behind.
func TestIsolationOfPostgres(t *testing.T) {
	s := postgrestest.Start(t)
	db := geoDatabase(t, own{address: s.Address, workload: "{smallbank: {customers: 100}}", load: load, verify: "[Invariants]"}.text())
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
