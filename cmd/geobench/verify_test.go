package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/run/experiment"
)

// sweep is an experiment with two points that simulates quickly; tests replace CLAIM.
const sweep = `apiVersion: geobench.dev/v1alpha1
kind: Experiment
metadata: {name: clients}
spec:
  databases:
    - name: calvin
      template:
        spec:
          engine: {name: calvin}
          regions: [{name: us-west-2}, {name: ap-northeast-1}]
          network: {profileRef: {name: smallbank-two-regions}}
  run:
    spec:
      workload: {smallbank: {customers: 1000}}
      load: {warmup: 200ms, duration: 1s}
      verify: [Invariants]
  sweep: [{path: spec.load.clientsPerRegion, values: [2, 4]}]
  claims: [{id: c-1, source: us, says: more clients do more, expression: "CLAIM"}]
`

func withClaim(expression string) string { return strings.Replace(sweep, "CLAIM", expression, 1) }

type verifyCase struct {
	stdin string
	args  []string
	code  int
	// want is expected on standard output if the code is 0 or 1, otherwise on standard error.
	want string
}

func TestVerifyExitCodes(t *testing.T) {
	tests := map[string]verifyCase{
		"holds":             {withClaim("tput('calvin', 4) > tput('calvin', 2)"), []string{"-"}, 0, "1 of 1 claim hold"},
		"differs":           {withClaim("tput('calvin', 4) < tput('calvin', 2)"), []string{"-"}, exit.Failed, "differs"},
		"differs, json":     {withClaim("tput('calvin', 4) < tput('calvin', 2)"), []string{"-", "-o", "json"}, exit.Failed, `"holds": false`},
		"yaml":              {withClaim("tput('calvin', 4) > tput('calvin', 2)"), []string{"-", "-o", "yaml"}, 0, "kind: ExperimentReport"},
		"unknown system":    {withClaim("max(tput('calivn')) > 1.0"), []string{"-"}, exit.Usage, "did you mean calvin?"},
		"does not compile":  {withClaim("max(tput('calvin') >"), []string{"-"}, exit.Usage, "does not compile"},
		"wrong sweep path":  {strings.Replace(sweep, "clientsPerRegion", "clientPerRegion", 1), []string{"-"}, exit.Usage, "did you mean clientsPerRegion?"},
		"no experiment":     {"", []string{"../../experiments/quickstart.yaml"}, exit.Usage, "there is no Experiment"},
		"no file":           {"", nil, exit.Usage, "requires at least 1 arg"},
		"missing folder":    {"", []string{"no-such-folder"}, exit.Usage, "no-such-folder"},
		"two ways":          {withClaim("true"), []string{"-", "--simulate", "--run"}, exit.Usage, "keep one of them"},
		"unknown format":    {withClaim("true"), []string{"-", "-o", "wide"}, exit.Usage, `"wide" is not one of table, json, yaml`},
		"minus one at once": {withClaim("true"), []string{"-", "--parallel", "-1"}, exit.Usage, "write 1 or more"},
		"results in a file": {withClaim("true"), []string{"-", "--results", "main.go"}, exit.Broken, "the folder of results"},
	}
	// No transaction finishes within such a short time, so the runs are Invalid (NoTransactions).
	invalid := func(allow string) string {
		text := strings.Replace(withClaim("max(tput('calvin')) < 1.0"), "warmup: 200ms, duration: 1s", "warmup: 0s, duration: 1ms", 1)
		return strings.Replace(text, "  sweep:", allow+"  sweep:", 1)
	}
	tests["over Invalid runs"] = verifyCase{invalid(""), []string{"-"}, exit.Failed, "NoTransactions: no transaction was committed"}
	tests["another reason is allowed"] = verifyCase{invalid("  allowInvalid: [DriverBound]\n"), []string{"-"}, exit.Failed, "no result"}
	tests["the reason is allowed"] = verifyCase{invalid("  allowInvalid: [NoTransactions]\n"), []string{"-"}, 0, "spec.allowInvalid"}
	tests["Invalid runs without claims"] = verifyCase{invalid("")[:strings.Index(invalid(""), "  claims:")], []string{"-"}, exit.Failed, "runs in doubt"}
	tests["an unknown reason"] = verifyCase{invalid("  allowInvalid: [DriverBond]\n"), []string{"-"}, exit.Usage, "did you mean DriverBound?"}
	tests["a reason that never counts"] = verifyCase{invalid("  allowInvalid: [ResultForged]\n"), []string{"-"}, exit.Usage, "never counts"}
	results := t.TempDir()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"verify", "-q", "--results", results}, tc.args...)
			code, stdout, stderr := geobench(t, tc.stdin, args...)
			text := stderr
			if tc.code <= exit.Failed {
				text = stdout
			}
			if code != tc.code || !strings.Contains(text, tc.want) {
				t.Errorf("exit code %d, want %d with %q; stdout %s; stderr %s", code, tc.code, tc.want, stdout, stderr)
			}
		})
	}
}

func TestVerifyWritesPlotsAndGoesOn(t *testing.T) {
	out := t.TempDir()
	text := withClaim("tput('calvin', 4) > tput('calvin', 2)")
	_, first, stderr := geobench(t, text, "verify", "-", "--out", out, "-o", "json")
	if !strings.Contains(stderr, "2 of 2: calvin clientsPerRegion=") {
		t.Errorf("progress: %s", stderr)
	}
	for _, name := range []string{"clients-tput.svg", "clients-p50.png", "clients-p90.svg", "clients-bytes.svg", "clients-cost.png", "clients-sentPerMinute.svg", "report.json"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	var report experiment.Report
	if err := json.Unmarshal([]byte(first), &report); err != nil || len(report.Claims) != 1 || len(report.Experiments[0].Points) != 2 {
		t.Errorf("report %+v, error %v", report, err)
	}
	_, again, stderr := geobench(t, text, "verify", "-", "--out", out, "-o", "json")
	if again != first {
		t.Errorf("the second report differs:\n%s\n%s", first, again)
	}
	if !strings.Contains(stderr, "(2 kept from before)") {
		t.Errorf("the second time computed something: %s", stderr)
	}
}

func TestValidateCountsExperiments(t *testing.T) {
	code, stdout, stderr := geobench(t, withClaim("true"), "validate", "-f", "-")
	if code != 0 || !strings.Contains(stdout, "1 Experiment of 2 points") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	code, _, stderr = geobench(t, withClaim("tput('x')[0] > 1.0"), "validate", "-f", "-")
	if code != exit.Usage || !strings.Contains(stderr, "spec.claims[0].expression") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// The cost of an expression is bounded as in the operator, and an interrupted command exits.
func TestHostileExperiments(t *testing.T) {
	for name, expression := range map[string]string{
		"memory": "'aaaaaaaaaa'" + strings.Repeat(".replace('a', '"+strings.Repeat("a", 200)+"')", 15) + ".size() > 0",
		"CPU":    "lists.range(1000000).distinct().size() > 0",
	} {
		for _, args := range [][]string{{"validate", "-f", "-"}, {"verify", "-"}} {
			if code, _, stderr := geobench(t, withClaim(expression), args...); code != exit.Usage || !strings.Contains(stderr, "spec.claims[0].expression") {
				t.Errorf("%s, %s: exit code %d: %s", args[0], name, code, stderr)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{"validate", "-f", "-"}, {"verify", "-"}} {
		root := newRootCommand()
		root.SetIn(strings.NewReader(withClaim("true")))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		root.SetArgs(args)
		if code := execute(ctx, root); code != exit.Interrupted {
			t.Errorf("%s that was interrupted ends with exit code %d, want %d", args[0], code, exit.Interrupted)
		}
	}
}
