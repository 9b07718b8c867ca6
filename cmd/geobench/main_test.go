package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/manifest/wrong"
	"github.com/geobench/geobench/internal/bench/result"
)

// geobench runs a command line and returns its exit code and output.
func geobench(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := newRootCommand()
	var out, errs bytes.Buffer
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	code = execute(t.Context(), root)
	return code, out.String(), errs.String()
}

func TestValidateNamesEveryMistake(t *testing.T) {
	cases, err := wrong.Cases()
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < 30 {
		t.Fatalf("only %d wrong manifests", len(cases))
	}
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			code, stdout, stderr := geobench(t, tc.YAML, "validate", "--for", "cluster", "-f", "-")
			if code != exit.Usage || stdout != "" {
				t.Errorf("exit code %d, stdout %q", code, stdout)
			}
			if !strings.Contains(stderr, tc.Field) || !strings.Contains(stderr, tc.Want) {
				t.Errorf("must name %s and say %q; says %s", tc.Field, tc.Want, stderr)
			}
		})
	}
}

// TestValidateForAPlace: manifests with a fault that only the simulator supports are valid only for the simulator.
func TestValidateForAPlace(t *testing.T) {
	text := strings.Replace(wrong.Valid, "workload:", "faults: [{name: f, at: 1s, duration: 1s, clockSkew: {target: {regions: [us-west-2]}, offset: 10ms}}, {name: g, at: 1s, duration: 1s, ioDelay: {target: {regions: [us-west-2]}, delay: 10ms}}]\n  workload:", 1)
	tests := map[string]struct {
		args []string
		code int
		want []string
	}{
		"any":      {nil, 0, []string{", 1 BenchmarkRun, for geobench simulate\n", "not for geobench run:\n  -:", "spec.faults[1].ioDelay"}},
		"simulate": {[]string{"--for", "simulate"}, 0, []string{"valid: 1 NetworkProfile, 1 GeoDatabase, 1 BenchmarkRun\n"}},
		"run":      {[]string{"--for", "run"}, exit.Usage, []string{"spec.faults[1].ioDelay", "not supported by geobench run"}},
		"nowhere":  {[]string{"--for", "moon"}, exit.Usage, []string{`--for: "moon" is not one of any, cluster, run, simulate`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := geobench(t, text, append([]string{"validate", "-f", "-"}, tc.args...)...)
			for _, want := range tc.want {
				if code != tc.code || !strings.Contains(stdout+stderr, want) {
					t.Errorf("exit code %d, want %d with %q: %s%s", code, tc.code, want, stdout, stderr)
				}
			}
		})
	}
}

// A run on another vendor's database that the operator deploys by name is valid only on a cluster.
func TestValidateDatabasesByName(t *testing.T) {
	for _, engine := range []string{
		"{name: galera, parameters: {image: 'r.example/i:1'}}", "{name: galera, parameters: {image: 'r.example/i:1', form: SQL}}", "{name: postgres, parameters: {image: 'r.example/i:1'}}",
		"{name: etcd, parameters: {image: 'r.example/i:1'}}", "{name: cockroachdb}", "{name: yugabytedb}", "{name: tidb}", "{name: citus}",
	} {
		code, stdout, stderr := geobench(t, `apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: d}
spec:
  engine: `+engine+`
  regions: [{name: us-west-2}, {name: us-east-1}, {name: ap-northeast-1}]
  network: {profileRef: {name: aws}}
---
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: r}
spec:
  databaseRef: {name: d}
  workload: {smallbank: {customers: 1000, mix: {balance: 50, writeCheck: 50}}}
  load: {clientsPerRegion: 10, warmup: 1s, duration: 5s}
`, "validate", "-f", "-")
		if code != 0 || !strings.Contains(stdout, "1 GeoDatabase, 1 BenchmarkRun, for a cluster\n") {
			t.Errorf("%s: exit code %d: %s%s", engine, code, stdout, stderr)
		}
	}
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"misspelt command":   {[]string{"simualte", "-f", "x"}, "Did you mean this?"},
		"misspelt flag":      {[]string{"run", "--filname", "x"}, "unknown flag: --filname; did you mean --filename?"},
		"no manifest":        {[]string{"run"}, "name one with -f"},
		"missing file":       {[]string{"simulate", "-f", "../../experiments/quickstar.yaml"}, "there is no such file; did you mean ../../experiments/quickstart.yaml?"},
		"no flag":            {[]string{"run", "x.yaml"}, `"x.yaml" is no flag; manifests are named with -f: geobench run -f x.yaml`},
		"unknown format":     {[]string{"run", "-f", "x", "-o", "xml"}, `"xml" is not one of table, wide, json, yaml`},
		"stray argument":     {[]string{"validate", "x"}, "geobench validate -f x"},
		"compare one":        {[]string{"compare", "a"}, "compare A B: accepts 2 arg(s), received 1"},
		"compare no result":  {[]string{"compare", "main.go", "main.go"}, "it is no RunResult document"},
		"show a missing one": {[]string{"show", "no-such-file.json"}, "no-such-file.json"},
		"save into a file":   {[]string{"simulate", "-f", "../../experiments/quickstart.yaml", "--save", "main.go"}, "--save: main.go is a file: name a folder"},
		"nothing to run":     {[]string{"simulate", "-f", "-"}, "there is no BenchmarkRun"},
	}
	profile := wrong.Valid[:strings.Index(wrong.Valid, "---")]
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := geobench(t, profile, tc.args...)
			if code != exit.Usage || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d, want %d; stderr %q, want %q", code, exit.Usage, stderr, tc.want)
			}
		})
	}
}

// A load curve in a manifest changes the measured load: the arrivals of an open loop, or the active clients of a closed
// loop.
func TestLoadOverTime(t *testing.T) {
	const curve = ", warmup: 1s, duration: 4s, curve: {shape: Steps, stepsPercent: [20, 100]}}"
	for name, tc := range map[string]struct {
		load  string
		least [4]int64 // bounds of the offered load in each second
		most  [4]int64
	}{
		"arrivals": {"{arrival: Constant, ratePerSecond: 100, clientsPerRegion: 100", [4]int64{38, 38, 198, 198}, [4]int64{42, 42, 202, 202}},
		"clients":  {"{clientsPerRegion: 10", [4]int64{4000, 4000, 20000, 20000}, [4]int64{4000, 4000, 20000, 20000}},
	} {
		t.Run(name, func(t *testing.T) {
			at := strings.Index(wrong.Valid, "  load: {")
			line, rest, _ := strings.Cut(wrong.Valid[at:], "\n")
			code, stdout, stderr := geobench(t, wrong.Valid[:at]+"  load: "+tc.load+curve+"\n"+rest, "simulate", "-q", "-f", "-", "-o", "json")
			d, err := result.Parse([]byte(stdout))
			if code != 0 || err != nil {
				t.Fatalf("exit code %d, %v, in place of %s: %s", code, err, line, stderr)
			}
			if d.Verdict != v1alpha1.VerdictPassed || len(d.Timeline) != 4 {
				t.Fatalf("%s %v, %d seconds", d.Verdict, d.Reasons, len(d.Timeline))
			}
			for i, tick := range d.Timeline {
				if tick.Offered < tc.least[i] || tick.Offered > tc.most[i] {
					t.Errorf("second %d is offered %d, want %d to %d", i, tick.Offered, tc.least[i], tc.most[i])
				}
			}
			var parts []int64
			for _, s := range d.Summary.Realised.Shares {
				if strings.HasPrefix(s.Name, "in part") {
					parts = append(parts, s.ConfiguredPPM)
				}
			}
			if !slices.Equal(parts, []int64{166667, 833333}) {
				t.Errorf("configured shares %v", parts)
			}
		})
	}
}

func TestSimulateShowCompare(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{}
	for _, clients := range []string{"10", "20"} {
		code, stdout, stderr := geobench(t, strings.Replace(wrong.Valid, "clientsPerRegion: 10", "clientsPerRegion: "+clients, 1),
			"simulate", "-f", "-", "-o", "json")
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		if !strings.Contains(stderr, "simulating") {
			t.Errorf("no progress on stderr: %q", stderr)
		}
		files[clients] = filepath.Join(dir, clients+".json")
		if err := os.WriteFile(files[clients], []byte(stdout), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, _ := geobench(t, "", "show", files["10"])
	if code != 0 || !strings.Contains(stdout, "run: Passed  SIMULATED") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	code, stdout, _ = geobench(t, "", "compare", files["10"], files["20"])
	if code != exit.Broken || !strings.Contains(stdout, "load differs") || !strings.HasPrefix(stdout, "Undecided: 1 and 1 repetitions") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	code, stdout, _ = geobench(t, "", "compare", files["10"], files["20"], "-o", "json")
	var c result.Comparison
	if err := json.Unmarshal([]byte(stdout), &c); code != exit.Broken || err != nil || c.Kind != result.ComparisonKind {
		t.Errorf("exit code %d, %v: %s", code, err, stdout)
	}
}

// TestCompareExitCodes compares folders with five seeds each: a folder with itself, and with results from a tenth of
// the clients.
func TestCompareExitCodes(t *testing.T) {
	dir := t.TempDir()
	for _, clients := range []string{"10", "1"} {
		if err := os.Mkdir(filepath.Join(dir, clients), 0o755); err != nil {
			t.Fatal(err)
		}
		for seed := range 5 {
			text := strings.Replace(wrong.Valid, "clientsPerRegion: 10", "clientsPerRegion: "+clients, 1)
			text = strings.Replace(text, "workload:", fmt.Sprintf("seed: %d\n  workload:", seed), 1)
			code, stdout, stderr := geobench(t, text, "simulate", "-q", "-f", "-", "-o", "json")
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			if err := os.WriteFile(filepath.Join(dir, clients, fmt.Sprintf("%d.json", seed)), []byte(stdout), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	ten, one := filepath.Join(dir, "10"), filepath.Join(dir, "1")
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"the same":            {[]string{ten, ten}, 0, "NoDifference: "},
		"fewer":               {[]string{ten, one}, exit.Failed, "Regression: worse: throughput -"},
		"more":                {[]string{one, ten, "--threshold", "20"}, 0, "Improvement: better: throughput +"},
		"a region is slower":  {[]string{one, ten}, exit.Failed, "worse: p99 of us-west-2 +"},
		"one seed each":       {[]string{filepath.Join(ten, "0.json"), filepath.Join(one, "0.json")}, exit.Broken, "Undecided: "},
		"more than it may be": {[]string{ten, one, "--threshold", "99"}, 0, "NoDifference: "},
		"no probability":      {[]string{ten, one, "--alpha", "5"}, exit.Usage, "--alpha: 5 is not a probability"},
		"negative threshold":  {[]string{ten, one, "--threshold", "-1"}, exit.Usage, "--threshold: -1 is not a change in percent"},
		"nothing there":       {[]string{dir, one}, exit.Usage, "there is no result document"},
		"misspelt folder":     {[]string{ten, filepath.Join(dir, "11")}, exit.Usage, "there is no such file; did you mean"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := geobench(t, "", append([]string{"compare"}, tc.args...)...)
			if code != tc.code || !strings.Contains(stdout+stderr, tc.want) {
				t.Errorf("exit code %d, want %d with %q: %s%s", code, tc.code, tc.want, stdout, stderr)
			}
		})
	}
}

// TestBaseline compares runs with the results that --baseline or spec.baselineRef names.
func TestBaseline(t *testing.T) {
	dir := t.TempDir()
	save := filepath.Join(dir, "kept")
	of := func(name, baseline, more string) string {
		text := strings.Replace(wrong.Valid, "{name: run}\n", "{name: "+name+"}\n", 1)
		text = strings.Replace(text, "clientsPerRegion: 10", "repetitions: 5, "+more, 1)
		if baseline != "" {
			text = strings.Replace(text, "workload:", "baselineRef: {name: "+baseline+"}\n  workload:", 1)
		}
		return text
	}
	const ten, one = "clientsPerRegion: 10", "clientsPerRegion: 1"
	runOf := func(text string) string { return text[strings.LastIndex(text, "---"):] }
	if code, _, stderr := geobench(t, of("base", "", ten), "simulate", "-q", "-f", "-", "--save", save); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	file := filepath.Join(save, "base.json")
	tests := map[string]struct {
		text string
		args []string
		code int
		want string
	}{
		"kept before":       {of("run", "base", one), []string{"--save", save}, exit.Failed, "Regression: worse: throughput -"},
		"by flag":           {of("run", "base", ten), []string{"--baseline", file}, 0, "NoDifference: "},
		"flag alone":        {of("run", "", one), []string{"--baseline", file}, exit.Failed, "Regression: "},
		"json":              {of("run", "", one), []string{"--baseline", file, "-o", "json"}, exit.Failed, "run against base (SIMULATED): Regression: "},
		"the same manifest": {of("run", "second", one) + runOf(of("second", "", ten)), nil, exit.Failed, "A: second (SIMULATED), 5 repetitions"},
		"nowhere":           {of("run", "base", one), nil, exit.Usage, "spec.baselineRef.name: there is no result of BenchmarkRun base here: name one with --baseline"},
		"itself":            {of("run", "run", one), nil, exit.Usage, "there is no result of BenchmarkRun run here"},
		"no such file":      {of("run", "", one), []string{"--baseline", filepath.Join(save, "bas.json")}, exit.Usage, "--baseline: " + filepath.Join(save, "bas.json") + ": there is no such file; did you mean"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := geobench(t, tc.text, append([]string{"simulate", "-q", "-f", "-"}, tc.args...)...)
			if code != tc.code || !strings.Contains(stdout+stderr, tc.want) {
				t.Errorf("exit code %d, want %d with %q: %s%s", code, tc.code, tc.want, stdout, stderr)
			}
			if name == "json" {
				var d result.Document
				if err := json.Unmarshal([]byte(stdout), &d); err != nil {
					t.Errorf("standard output holds more than the document: %v", err)
				}
			}
		})
	}
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := geobench(t, wrong.Valid, "simulate", "-q", "-f", "-", "--save", filepath.Join(dir, "results")); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	code, stdout, stderr := geobench(t, "", "report", filepath.Join(dir, "results"), "-o", filepath.Join(dir, "report"))
	page := filepath.Join(dir, "report", "index.html")
	if code != 0 || stdout != page+"\n" {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "<h1>Run run</h1>") {
		t.Errorf("%v", err)
	}
	code, _, stderr = geobench(t, "", "report", filepath.Join(dir, "results"), "--baseline", filepath.Join(dir, "results", "run.json"), "-o", filepath.Join(dir, "report"))
	if text, err := os.ReadFile(page); code != 0 || err != nil || !strings.Contains(string(text), "run (SIMULATED) against run (SIMULATED)") {
		t.Errorf("no comparison: exit code %d, %v: %s", code, err, stderr)
	}
	for want, args := range map[string][]string{
		"--baseline: main.go: ":          {filepath.Join(dir, "results"), "--baseline", "main.go", "-o", dir},
		"name one with -o":               {filepath.Join(dir, "results")},
		"there is no such file; did you": {filepath.Join(dir, "result"), "-o", dir},
		"requires at least 1 arg":        {"-o", dir},
		"nor a result document":          {dir, "-o", dir},
		"is no RunResult document":       {"main.go", "-o", dir},
		"main.go is a file: name a":      {filepath.Join(dir, "results"), "-o", "main.go"},
	} {
		if code, _, stderr := geobench(t, "", append([]string{"report"}, args...)...); code != exit.Usage || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, want %q: %s", args, code, want, stderr)
		}
	}
}

func TestMissedObjectiveExitsWithFailed(t *testing.T) {
	text := strings.Replace(wrong.Valid, "workload:", "objectives: [{metric: throughput, min: 100000000}]\n  workload:", 1)
	code, stdout, _ := geobench(t, text, "simulate", "-q", "-f", "-")
	if code != exit.Failed || !strings.Contains(stdout, "run: Failed") {
		t.Errorf("exit code %d, want %d: %s", code, exit.Failed, stdout)
	}
}

// The result document of a run with a wrong history is shown as a page.
func TestTrace(t *testing.T) {
	folder := t.TempDir()
	manifest, page := filepath.Join(folder, "stale.yaml"), filepath.Join(folder, "trace.html")
	stale := `apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: stale}
spec:
  engine: {name: primary, parameters: {reads: Eventual}}
  regions: [{name: us-west-2}, {name: ap-northeast-1}]
  network: {profileRef: {name: smallbank-two-regions}}
---
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: stale}
spec:
  databaseRef: {name: stale}
  workload: {smallbank: {customers: 20}}
  load: {clientsPerRegion: 2, duration: 2s, warmup: 1s}
  verify: [LEVEL]
`
	simulate := func(level string) (path string) {
		t.Helper()
		if err := os.WriteFile(manifest, []byte(strings.Replace(stale, "LEVEL", level, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, stdout, stderr := geobench(t, "", "simulate", "-f", manifest, "--save", filepath.Join(folder, level))
		if stdout == "" {
			t.Fatal(stderr)
		}
		return filepath.Join(folder, level, "stale.json")
	}
	wrong, right := simulate("StrictSerializable"), simulate("Serializable")
	if code, stdout, stderr := geobench(t, "", "trace", wrong, "-o", page); code != 0 || stdout != page+"\n" {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h1>stale: not strict-serializable</h1>", ">simulated<", ">rw<", "clients of ap-northeast-1"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	for want, args := range map[string][]string{
		"no file is given":             {wrong},
		"no check of isolation failed": {right, "-o", page},
		"none.json: there is no such":  {"none.json", "-o", page},
		"--output: open " + page:       {wrong, "-o", page + "/x"},
	} {
		if code, _, stderr := geobench(t, "", append([]string{"trace"}, args...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d: %q is not in %q", code, want, stderr)
		}
	}
}

func TestExplore(t *testing.T) {
	code, stdout, stderr := geobench(t, "", "explore", "--engine", "calvin", "--seed", "5", "--seeds", "3")
	if code != 0 || !strings.HasPrefix(stdout, "calvin: seeds 5 to 7, ") || !strings.HasSuffix(stdout, ": 3 passed, 0 failed\n") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, _ = geobench(t, "", "explore", "--engine", "calvin", "--seed", "5", "--trace")
	if code != 0 || !strings.Contains(stdout, "ms a/0/0 submit t1.") || !strings.Contains(stdout, "calvin, seed 5\n") {
		t.Errorf("exit code %d, a trace of %d bytes", code, len(stdout))
	}
	code, stdout, _ = geobench(t, "", "explore", "--hostile", "--engine", "janus", "--seed", "11", "--trace")
	if code != 0 || !strings.Contains(stdout, "janus, seed 11\n  5 regions") {
		t.Errorf("exit code %d, a trace of %d bytes", code, len(stdout))
	}
	code, stdout, _ = geobench(t, "", "explore", "--broken", "--engine", "nearby-reads", "--seeds", "5")
	if code != 0 || !strings.Contains(stdout, "caught by seed 2") || !strings.Contains(stdout, "a contradiction") ||
		!strings.Contains(stdout, "replay: geobench explore --broken --engine nearby-reads --seed 2 --trace") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	code, stdout, _ = geobench(t, "", "explore", "--broken", "--engine", "nearby-reads", "--seed", "2", "--shrink")
	if code != 0 || !strings.Contains(stdout, "\nnearby-reads, seed 2: the minimal failing scenario has ") || !strings.Contains(stdout, " has 2 of 105 transactions, 0 of 8 faults, 2 of 3 regions") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	page := filepath.Join(t.TempDir(), "least.html")
	code, _, stderr = geobench(t, "", "explore", "--broken", "--engine", "nearby-reads", "--seed", "2", "--shrink", "--page", page)
	if text, err := os.ReadFile(page); code != 0 || err != nil || !strings.Contains(string(text), "<h1>nearby-reads, seed 2: the minimal failing scenario</h1>") {
		t.Errorf("exit code %d, %v: %s", code, err, stderr)
	}
	code, _, stderr = geobench(t, "", "explore", "--broken", "--engine", "nearby-reads", "--seed", "2", "--shrink", "--page", filepath.Join(page, "none"))
	if code != exit.Broken || !strings.Contains(stderr, "--page: open ") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	code, stdout, _ = geobench(t, "", "explore", "--broken", "--engine", "nearby-reads", "--seed", "2", "--shrink", "--trace")
	if code != exit.Failed || strings.Count(stdout, " submit t") != 2 {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	code, stdout, _ = geobench(t, "", "explore", "--broken", "--engine", "nearby-reads", "--seeds", "1")
	if code != exit.Failed || !strings.Contains(stdout, "NOT CAUGHT with 1 seeds") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	state := filepath.Join(t.TempDir(), "state.json")
	shard := []string{"explore", "--engine", "calvin", "--seeds", "9", "--shard", "1/4", "--state", state}
	_, first, _ := geobench(t, "", shard...)
	if want := "calvin: seeds 2, 6, ... to 6, "; !strings.HasPrefix(first, want) || !strings.HasSuffix(first, ": 2 passed, 0 failed\n") {
		t.Errorf("%q is not at the beginning of %q", want, first)
	}
	code, stdout, _ = geobench(t, "", shard...)
	if want := "calvin: 2 of seeds 2, 6, ... to 6 have been run before\n" + first; code != 0 || stdout != want {
		t.Errorf("exit code %d: %q is not %q", code, stdout, want)
	}
	for want, args := range map[string][]string{
		"is of another exploration":     {"--seeds", "12", "--shard", "1/4", "--state", state},
		`"4/4" is not I/N`:              {"--shard", "4/4"},
		`"1of4" is not I/N`:             {"--shard", "1of4"},
		`"3/4" has none of 2 seeds`:     {"--seeds", "2", "--shard", "3/4"},
		"leave --probes, --broken":      {"--seeds", "2", "--shard", "0/2", "--probes"},
		`"oracle" is not one of calvin`: {"--engine", "oracle"},
		`"calvin" is not one of read-`:  {"--engine", "calvin", "--broken"},
		`"nearby-reads" is not one of`:  {"--engine", "nearby-reads"},
		"--seeds: 0 is not at least 1":  {"--seeds", "0"},
		`"snapshot" is not one of`:      {"--level", "snapshot"},
		"--trace: it shows one seed":    {"--trace", "--seeds", "2", "--engine", "calvin"},
		"leave these or --broken out":   {"--hostile", "--broken"},
		"--page: it shows the minimal":  {"--page", "x.html"},
		"--hostile, --slow":             {"--slow", "--broken"},
		"--core, --buggify, --disk":     {"--disk", "--broken"},
	} {
		if code, _, stderr := geobench(t, "", append([]string{"explore"}, args...)...); code != exit.Usage || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	for _, c := range newRootCommand().Commands() {
		if c.Short == "" || c.Name() != "completion" && c.Name() != "help" && c.Long == "" {
			t.Errorf("%s has no help text", c.Name())
		}
	}
}

func TestNodeOf(t *testing.T) {
	top := &geo.Topology{Regions: []string{"a", "b"}, Partitions: 2, Replicas: 2}
	tests := map[string]struct {
		region, pod string
		want        geo.NodeID
		bad         bool
	}{
		"first":           {"a", "db-a-0", 0, false},
		"second replica":  {"a", "db-a-1", 1, false},
		"last":            {"b", "db-b-3", 7, false},
		"unknown region":  {"c", "db-c-0", 0, true},
		"ordinal too big": {"a", "db-a-4", 0, true},
		"no ordinal":      {"a", "node", 0, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := nodeOf(top, tc.region, tc.pod)
			if (err != nil) != tc.bad || err == nil && got != tc.want {
				t.Errorf("nodeOf = %d, %v; want %d, error %v", got, err, tc.want, tc.bad)
			}
		})
	}
}
