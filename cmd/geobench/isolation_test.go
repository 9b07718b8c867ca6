package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/bench/anomalies"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
)

func runIsolation(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := newRootCommand()
	root.SetArgs(append([]string{"isolation"}, args...))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = execute(t.Context(), root)
	return code, stdout.String(), stderr.String()
}

func TestIsolation(t *testing.T) {
	code, out, errs := runIsolation(t, "-f", "../../experiments/quickstart.yaml", "--plays", "2", "-o", "json")
	var r anomalies.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatal(code, err, errs)
	}
	if len(r.Databases) != 1 || r.Databases[0].Database != "calvin" || len(r.Databases[0].Cases) != len(anomalies.Cases()) || !r.Databases[0].Simulated || r.Databases[0].Plays != 2 ||
		r.Databases[0].Network.LinksMs["us-west-2 to ap-northeast-1"] == 0 {
		t.Errorf("%+v", r)
	}
	own := filepath.Join(t.TempDir(), "own.yaml")
	const manifest = `{apiVersion: geobench.dev/v1alpha1, kind: GeoDatabase, metadata: {name: own}, spec: {engine: {name: postgres}, regions: [{name: here}],
		external: {endpoints: [{region: here, address: "127.0.0.1:1"}], database: bench, secretRef: {name: pg}}}}`
	if err := os.WriteFile(own, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		`--engine: "postgres" is not one of`:                   {"--engine", "postgres"},
		"--plays: 0 is not from 1":                             {"--plays", "0"},
		`--output: "xml" is not one of`:                        {"-o", "xml"},
		"--levels: there is no GeoDatabase with spec.external": {"-f", "../../experiments/quickstart.yaml", "--levels", "Serializable"},
		`--levels: "SnapshotIsolation" is not one of ReadCommitted, RepeatableRead, Serializable`: {"-f", "../../experiments/own-postgres.yaml", "--levels", "SnapshotIsolation"},
		"spec.external.secretRef.name: the key username cannot be read":                           {"-f", own, "--secrets", t.TempDir()},
	} {
		if code, _, errs := runIsolation(t, args...); code != exit.Usage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}

// The command tests an existing PostgreSQL at the requested levels and a simulated engine, and prints the results of
// both in one table.
func TestIsolationOfPostgres(t *testing.T) {
	server := postgrestest.Start(t)
	t.Setenv("PGUSER", postgrestest.User)
	t.Setenv("PGPASSWORD", postgrestest.Password)
	own := filepath.Join(t.TempDir(), "own.yaml")
	manifest := fmt.Sprintf(`{apiVersion: geobench.dev/v1alpha1, kind: GeoDatabase, metadata: {name: own}, spec: {engine: {name: postgres, parameters: {isolation: Serializable, tls: disable}},
		regions: [{name: here}], external: {endpoints: [{region: here, address: %q}], database: postgres}}}`, server.Address)
	if err := os.WriteFile(own, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := runIsolation(t, "-f", own, "--levels", "ReadCommitted,Serializable", "--engine", "calvin", "--plays", "1", "-o", "markdown")
	for _, want := range []string{"| `own isolation=ReadCommitted` | read-committed | prevented 1 |", "| **allowed** 1 | **allowed** 1 |\n| `own isolation=Serializable` | serializable | ", "| `calvin` | strict-serializable | "} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is not in\n%s", want, out)
		}
	}
	if code != 0 || strings.Count(out, "\n") != 5 || errs != "own: isolation ReadCommitted\nown: isolation Serializable\n" {
		t.Errorf("exit code %d, %d lines, %s", code, strings.Count(out, "\n"), errs)
	}
	if code, out, errs = runIsolation(t, "-f", own, "--plays", "1", "-o", "markdown"); code != 0 || strings.Contains(out, "ReadCommitted") {
		t.Errorf("without --levels, exit code %d: %s\n%s", code, out, errs)
	}
}
