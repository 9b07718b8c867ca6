package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// input is a section of testdata/forty.txt: manifests, and the expected exit code and output of the command that runs
// them.
type input struct {
	name, manifests string
	code            string
	expect, reject  []string
}

// databaseOf returns the spec of a database for words such as "calvin 100ms partitions=2".
func databaseOf(t *testing.T, words []string, indent string) string {
	t.Helper()
	engine := "{name: " + words[0] + "}"
	if words[0] == "calvin" {
		engine = "{name: calvin, parameters: {ordering: leader, batch: 5ms}}"
	}
	lines := []string{"engine: " + engine, "regions: [{name: north}, {name: south}]",
		"network: {profile: {links: [{from: north, to: south, rtt: " + words[1] + "}]}}"}
	for _, w := range words[2:] {
		switch name, value, _ := strings.Cut(w, "="); name {
		case "partitions":
			lines = append(lines, "partitionsPerRegion: "+value)
		case "cpu", "memory":
			lines = append(lines, fmt.Sprintf("resources: {limits: {%s: %s}}", name, value))
		default:
			t.Fatalf("testdata/forty.txt: %s is no option of a database", w)
		}
	}
	return indent + strings.Join(lines, "\n"+indent) + "\n"
}

// experimentOf returns an Experiment up to its run, for words such as "exp calvin 100ms sweep=1,2".
func experimentOf(t *testing.T, words []string) string {
	t.Helper()
	spec, sweep := "", "  sweep: [{path: spec.load.clientsPerRegion, values: [10]}]\n"
	for _, w := range words[3:] {
		switch name, value, _ := strings.Cut(w, "="); name {
		case "allow":
			spec += "  allowInvalid: [" + value + "]\n"
		case "sweep":
			sweep = "  sweep: [{path: spec.load.clientsPerRegion, values: [" + value + "]}]\n"
		case "search":
			sweep = "  search: {maxRatePerSecond: 400, committedPercent: " + value +
				", bestOf: 1, peakPercents: [100]}\n"
		default:
			t.Fatalf("testdata/forty.txt: %s is no option of an experiment", w)
		}
	}
	return "apiVersion: geobench.dev/v1alpha1\nkind: Experiment\nmetadata: {name: " + words[0] + "}\nspec:\n" + spec +
		sweep +
		"  databases:\n    - name: c\n      template:\n        spec:\n" + databaseOf(t, words[1:3], "          ") +
		"  run:\n    spec:\n      seed: 7\n"
}

func fortyInputs(t *testing.T) (all []*input) {
	t.Helper()
	text, err := os.ReadFile("testdata/forty.txt")
	if err != nil {
		t.Fatal(err)
	}
	var in *input
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		word, rest, _ := strings.Cut(line, " ")
		words := strings.Fields(rest)
		switch {
		case word == "--":
			in = &input{name: strings.TrimSuffix(rest, " --")}
			all = append(all, in)
		case in == nil: // the introduction
		case word == "RC":
			in.code = rest
		case word == "EXPECT":
			in.expect = append(in.expect, rest)
		case word == "REJECT":
			in.reject = append(in.reject, rest)
		case word == "DB":
			in.manifests += "apiVersion: geobench.dev/v1alpha1\nkind: GeoDatabase\nmetadata: {name: " + words[0] +
				"}\nspec:\n" + databaseOf(t, words[1:], "  ")
		case word == "RUN":
			in.manifests += "---\napiVersion: geobench.dev/v1alpha1\nkind: BenchmarkRun\nmetadata: {name: " + words[0] +
				"}\nspec:\n  databaseRef: {name: " + words[1] + "}\n  seed: 7\n"
		case word == "EXPERIMENT":
			in.manifests += experimentOf(t, words)
		default:
			in.manifests += line + "\n"
		}
	}
	return all
}

var spaces = regexp.MustCompile(`\s+`)

// play runs the command for the input and returns its exit code and output. Results are written to folder.
func (in *input) play(t *testing.T, folder string) (code, output string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "in.yaml")
	if err := os.WriteFile(file, []byte(in.manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"simulate", "-q", "-f", file, "--save", folder}
	switch {
	case strings.HasPrefix(in.name, "32"):
		args = []string{"validate", "-f", file}
	case strings.Contains(in.manifests, "kind: Experiment"):
		args = []string{"verify", "-q", "--results", folder, file}
	}
	status, stdout, stderr := geobench(t, "", args...)
	return fmt.Sprint(status), spaces.ReplaceAllString(stdout+stderr, " ")
}

// For the inputs of docs/lab/forty-inputs.md, no run with a wrong figure has the verdict Passed.
func TestForty(t *testing.T) {
	for _, in := range fortyInputs(t) {
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			code, output := in.play(t, folder)
			if code != in.code {
				t.Errorf("exit code %s, want %s", code, in.code)
			}
			for _, want := range in.expect {
				if !strings.Contains(output, want) {
					t.Errorf("the output lacks %q:\n%s", want, output)
				}
			}
			for _, wrong := range in.reject {
				if strings.Contains(output, wrong) {
					t.Errorf("the output has %q:\n%s", wrong, output)
				}
			}
			switch in.name[:2] {
			case "28":
				copiesCountOnce(t, folder)
			case "40":
				editsAreNoticed(t, filepath.Join(folder, "run.json"))
			}
		})
	}
}

// copiesCountOnce checks that five copies of a result under other names count as a single sample.
func copiesCountOnce(t *testing.T, folder string) {
	t.Helper()
	for _, name := range []string{"a1", "b1"} {
		text, err := os.ReadFile(filepath.Join(folder, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var d map[string]any
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			d["name"] = fmt.Sprintf("%s-%d", name, i)
			write(t, filepath.Join(folder, name, fmt.Sprintf("%d.json", i)), d, i)
		}
	}
	code, stdout, _ := geobench(t, "", "compare", filepath.Join(folder, "a1"), filepath.Join(folder, "b1"))
	if code != 3 || !strings.Contains(stdout, "Undecided: 1 and 1 repetitions") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
}

func write(t *testing.T, file string, d any, indent int) {
	t.Helper()
	text, err := json.MarshalIndent(d, "", strings.Repeat(" ", indent))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// editsAreNoticed checks that show reports which figures of an edited result contradict its other figures.
func editsAreNoticed(t *testing.T, file string) {
	t.Helper()
	if _, stdout, stderr := geobench(t, "", "show", file); strings.Contains(stdout+stderr, "WARNING") {
		t.Errorf("an honest result: %s", stdout+stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for path, value := range map[string]any{
		"seed": 99, "engine": "slog", "summary.tpmC": 900_000, "summary.latencyMicroseconds.max": 5000,
		"summary.latencyMicroseconds.mean": 5000,
		"summary.attempts.abortPPM":        0, "regions.1.due": 5000, "regions.1.unfinished": 0,
		"regions.1.throughputPerSecond": 500, "regions.1.abortPPM": 999_999,
		"regions.1.latencyMicroseconds.p99": 106_000, "transactions.0.latencyMicroseconds.p99": 5_000_000,
		"links.1.measuredRTTMicroseconds.p50": 50_000,
		"faults.0.availability.rPPM":          999_999, "faults.0.availability.faultPerSecond": 1,
		"regions.1.faults.0.availability.rPPM": 999_000,
	} {
		var d any
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		at := d
		steps := strings.Split(path, ".")
		for _, s := range steps[:len(steps)-1] {
			switch x := at.(type) {
			case map[string]any:
				at = x[s]
			case []any:
				at = x[slices.Index([]string{"0", "1"}, s)]
			}
		}
		at.(map[string]any)[steps[len(steps)-1]] = value
		edited := filepath.Join(t.TempDir(), "edited.json")
		write(t, edited, d, 1)
		if _, stdout, stderr := geobench(t, "", "show", edited); !strings.Contains(stdout+stderr, "WARNING: edited") {
			t.Errorf("%s = %v is not noticed", path, value)
		}
	}
}
