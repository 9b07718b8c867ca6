package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/exit"
	"github.com/geobench/geobench/internal/hermitage"
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
	var r hermitage.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatal(code, err, errs)
	}
	if len(r.Databases) != 1 || r.Databases[0].Database != "calvin" || len(r.Databases[0].Cases) != len(hermitage.Cases()) || !r.Simulated ||
		r.Databases[0].Network.LinksMs["us-west-2 to ap-northeast-1"] == 0 {
		t.Errorf("%+v", r)
	}
	for want, args := range map[string][]string{
		`--engine: "postgres" is not one of`: {"--engine", "postgres"},
		"--plays: 0 is not from 1":           {"--plays", "0"},
		`--output: "xml" is not one of`:      {"-o", "xml"},
		"leave one of both out":              {"-f", "../../experiments/quickstart.yaml", "--engine", "calvin"},
		"spec.external":                      {"-f", "../../experiments/own-postgres.yaml"},
	} {
		if code, _, errs := runIsolation(t, args...); code != exit.Usage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}
