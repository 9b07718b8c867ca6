package manifest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/manifest/wrong"
)

func TestQuickstartAndSamplesAreValid(t *testing.T) {
	for _, path := range []string{"../../../experiments/quickstart.yaml", "../../../config/samples"} {
		t.Run(path, func(t *testing.T) {
			b, err := manifest.Load(nil, check.Default(nil), path)
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Runs) == 0 {
				t.Fatal("no BenchmarkRun")
			}
			for _, run := range b.Runs {
				db, profile, err := b.Resolve(run)
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := profile.Link(db.Spec.Regions[0].Name, db.Spec.Regions[1].Name); !ok {
					t.Errorf("no link between the first two regions of %s", db.Name)
				}
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	b, ps := validate(t, wrong.Valid)
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	seconds := func(n int) v1alpha1.Duration { return v1alpha1.DurationOf(time.Duration(n) * time.Second) }
	wantLoad := v1alpha1.Load{
		ClientsPerRegion: 10, WorkersPerRegion: 1, Arrival: v1alpha1.ArrivalClosed, RequestTimeout: seconds(30),
		Warmup: seconds(1), Duration: seconds(5), Repetitions: 1,
	}
	run := b.Runs[0]
	if diff := cmp.Diff(wantLoad, run.Spec.Load); diff != "" {
		t.Errorf("load: want -, got +\n%s", diff)
	}
	wantMix := v1alpha1.SmallBankMix{Balance: 40, WriteCheck: 25, DepositChecking: 15, TransactSavings: 15, Amalgamate: 5}
	if got := run.Spec.Workload.SmallBank.Mix; got != wantMix {
		t.Errorf("mix is %+v, want %+v", got, wantMix)
	}
	if run.Spec.Seed != 1 {
		t.Errorf("seed is %d, want 1", run.Spec.Seed)
	}
	db := b.Databases["db"]
	if db.Spec.ReplicasPerPartition != 1 || db.Spec.Network.Emulation != v1alpha1.EmulationAuto || db.Spec.Placement != v1alpha1.PlacementPreferred {
		t.Errorf("database defaults: %+v", db.Spec)
	}
}

func TestExplicitZerosStay(t *testing.T) {
	text := strings.Replace(wrong.Valid, "warmup: 1s", "warmup: 0s", 1)
	text = strings.Replace(text, "databaseRef: {name: db}", "databaseRef: {name: db}\n  seed: 0", 1)
	b, ps := validate(t, text)
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	if s := b.Runs[0].Spec; s.Load.Warmup.Duration != 0 || s.Seed != 0 {
		t.Errorf("warmup %s and seed %d, want 0s and 0", s.Load.Warmup, s.Seed)
	}
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	text := strings.NewReplacer("rtt: 100ms", "rtt: -1ms", "batch: 5ms", "batsch: 5ms", "duration: 5s", "duration: 0s, thinktime: 1s").Replace(wrong.Valid)
	_, ps := validate(t, text)
	var got []string
	for _, p := range ps {
		got = append(got, p.Object+" "+p.Field)
	}
	// The parameter of the database is checked only once its profile is correct.
	for _, want := range []string{"NetworkProfile two spec.links[0].rtt", "BenchmarkRun run spec.load.duration", "BenchmarkRun run spec.load.thinktime"} {
		if !slices.Contains(got, want) {
			t.Errorf("missing %q in %q", want, got)
		}
	}
}

// TestValuesOfSweeps checks that a value that must be a number or a string, but is neither, yields a single message.
func TestValuesOfSweeps(t *testing.T) {
	for value, want := range map[string]string{
		"0.99": "0.99: must be a whole number or a string, not a fraction",
		"true": "true: must be a whole number or a string, not true or false: put it in quotes",
		"[5]":  "must be a whole number or a string, not a list",
	} {
		text := `apiVersion: geobench.dev/v1alpha1
kind: Experiment
metadata: {name: x}
spec:
  databases:
  - {name: db, template: {spec: {engine: {name: calvin}, regions: [{name: us}], network: {profileRef: {name: sdur}}}}}
  run: {spec: {workload: {rmw: {}}, load: {clientsPerRegion: 1, duration: 1s}}}
  sweep:
  - {path: spec.workload.rmw.hotRecords, values: [0, ` + value + `]}
`
		_, ps := validate(t, text)
		if got := ps.Error(); !strings.HasSuffix(got, ": Experiment x: spec.sweep[0].values[1]: "+want) || len(ps) != 1 {
			t.Errorf("%s: %d problems: %s\nwant one: %s", value, len(ps), got, want)
		}
	}
}

func TestSplit(t *testing.T) {
	for name, tc := range map[string]struct {
		text    string
		objects []string // source and kind
		problem string
	}{
		"nothing":            {text: "", objects: nil},
		"only comments":      {text: "# hello\n---\n# world\n", objects: nil},
		"one":                {text: "kind: A\n", objects: []string{"f:1 A"}},
		"leading marker":     {text: "---\nkind: A\n", objects: []string{"f:2 A"}},
		"marker and comment": {text: "--- # first\nkind: A\n---\n\n\nkind: B\n", objects: []string{"f:2 A", "f:6 B"}},
		"content on marker":  {text: "kind: A\n--- {kind: B}\n", objects: []string{"f:1 A", "f:2 B"}},
		"carriage returns":   {text: "kind: A\r\n---\r\nkind: B\r\n", objects: []string{"f:1 A", "f:3 B"}},
		"marker in scalar":   {text: "kind: A\ntext: |\n  ---\n  x\n", objects: []string{"f:1 A"}},
		"JSON":               {text: `{"kind": "A"}`, objects: []string{"f:1 A"}},
		"list":               {text: "apiVersion: v1\nkind: List\nitems: [{kind: A}, {kind: B}]\n", objects: []string{"f:1 A", "f:1 B"}},
		"list of scalars":    {text: "apiVersion: v1\nkind: List\nitems: [1]\n", problem: "items[0]: is no object"},
		"scalar":             {text: "hello\n", problem: "f:1: (document): is no object"},
		"duplicate key":      {text: "kind: A\nkind: B\n", problem: `key "kind" already set`},
		"broken":             {text: "kind: A\n---\nkind: [\n", objects: []string{"f:1 A"}, problem: "f:3: (document): is no valid YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			docs, ps := manifest.Split("f", []byte(tc.text))
			var got []string
			for _, d := range docs {
				kind, _ := d.Object["kind"].(string)
				got = append(got, d.Source+" "+kind)
			}
			if !slices.Equal(got, tc.objects) {
				t.Errorf("objects %q, want %q", got, tc.objects)
			}
			if s := ps.Error(); (tc.problem == "") != (s == "") || !strings.Contains(s, tc.problem) {
				t.Errorf("problems %q, want %q", s, tc.problem)
			}
		})
	}
}

func TestKinds(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"misspelt kind":                         {"{apiVersion: geobench.dev/v1alpha1, kind: BenchmarkRuns}", "kind: BenchmarkRuns is not one of BenchmarkRun, Experiment, GeoDatabase, NetworkProfile (did you mean BenchmarkRun?)"},
		"wrong version":                         {"{apiVersion: geobench.dev/v1, kind: BenchmarkRun}", "apiVersion: geobench.dev/v1 is not known for kind BenchmarkRun: write geobench.dev/v1alpha1"},
		"wrong group":                           {"{apiVersion: geobensch.dev/v1alpha1, kind: BenchmarkRun}", "write geobench.dev/v1alpha1"},
		"no kind":                               {"{apiVersion: geobench.dev/v1alpha1}", "kind: is required"},
		"no apiVersion":                         {"{kind: BenchmarkRun}", "apiVersion: is required"},
		"only foreign ones":                     {"{apiVersion: v1, kind: Namespace, metadata: {name: n}}", "no NetworkProfile, GeoDatabase, BenchmarkRun or Experiment"},
		"no name":                               {"{apiVersion: geobench.dev/v1alpha1, kind: NetworkProfile, spec: {links: [{from: a, to: b, rtt: 1ms}]}}", "metadata.name: is required"},
		"no spec":                               {"{apiVersion: geobench.dev/v1alpha1, kind: NetworkProfile, metadata: {name: np}}", "spec: is required"},
		"misspelt metadata":                     {"{apiVersion: geobench.dev/v1alpha1, kind: NetworkProfile, metadata: {name: np, label: {a: b}}, spec: {links: [{from: a, to: b, rtt: 1ms}]}}", "metadata.label: unknown field; did you mean labels?"},
		"labels not strings":                    {"{apiVersion: geobench.dev/v1alpha1, kind: NetworkProfile, metadata: {name: np, labels: {a: 1}}, spec: {links: [{from: a, to: b, rtt: 1ms}]}}", "metadata"},
		"name that YAML reads as a truth value": {"{apiVersion: geobench.dev/v1alpha1, kind: NetworkProfile, metadata: {name: no}, spec: {links: [{from: a, to: b, rtt: 1ms}]}}", "metadata.name: must be a string, not true or false: put it in quotes"},
		"region that YAML reads as a truth value": {"{apiVersion: geobench.dev/v1alpha1, kind: NetworkProfile, metadata: {name: np}, spec: {links: [{from: no, to: b, rtt: 1ms}]}}", "spec.links[0].from: false: must be a string, not true or false: put it in quotes"},
		"spec is a list":     {"{apiVersion: geobench.dev/v1alpha1, kind: NetworkProfile, metadata: {name: np}, spec: []}", "spec: must be an object, not a list"},
		"metadata is a list": {"{apiVersion: geobench.dev/v1alpha1, kind: NetworkProfile, metadata: [], spec: {links: [{from: a, to: b, rtt: 1ms}]}}", "metadata"},
		"same name twice":    {wrong.Valid + "---\n" + wrong.Valid, "GeoDatabase db: metadata.name: db is used twice: -:9 has the same kind and name"},
		"upper case name":    {strings.ReplaceAll(wrong.Valid, "name: run", "name: Run"), "metadata.name"},
		"name with dots":     {strings.ReplaceAll(wrong.Valid, "name: run", "name: a.b"), "at most 32 lower-case letters"},
		"name from a digit":  {strings.ReplaceAll(wrong.Valid, "name: run", "name: 1run"), "start with a letter"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, ps := validate(t, tc.text); !strings.Contains(ps.Error(), tc.want) {
				t.Errorf("got\n%s\nwant %q", ps.Error(), tc.want)
			}
		})
	}
}

func TestForeignObjectsAreIgnored(t *testing.T) {
	b, ps := validate(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: demo}\n---\n"+wrong.Valid)
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	if want := []string{"v1 Namespace demo"}; !slices.Equal(b.Ignored, want) {
		t.Errorf("ignored %q, want %q", b.Ignored, want)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	parts := strings.Split(wrong.Valid, "---\n")
	for name, text := range map[string]string{"b.yaml": parts[0], "a.yml": parts[1], "notes.txt": "no manifest", "c.json": toJSON(t, parts[2])} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := manifest.Load(nil, check.Default(nil), dir); err != nil {
		t.Errorf("a folder: %v", err)
	}
	if _, err := manifest.Load(strings.NewReader(parts[2]), check.Default(nil), filepath.Join(dir, "a.yml"), "-", filepath.Join(dir, "b.yaml")); err != nil {
		t.Errorf("files and standard input: %v", err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "missing.yaml"): "missing.yaml: (file): no such file or directory",
		t.TempDir():                        "no *.yaml, *.yml or *.json file in it",
		"-":                                "there is no standard input",
	} {
		if _, err := manifest.Load(nil, check.Default(nil), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}

func toJSON(t *testing.T, text string) string {
	t.Helper()
	docs, ps := manifest.Split("f", []byte(text))
	if len(ps) > 0 || len(docs) != 1 {
		t.Fatalf("%d documents, %v", len(docs), ps)
	}
	b, err := json.Marshal(docs[0].Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestResolvePrefersTheFiles(t *testing.T) {
	text := strings.ReplaceAll(wrong.Valid, "name: two}", "name: smallbank-two-regions}")
	b, ps := validate(t, strings.Replace(text, "rtt: 100ms", "rtt: 77ms", 1))
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	_, profile, err := b.Resolve(b.Runs[0])
	if err != nil {
		t.Fatal(err)
	}
	if l, _ := profile.Link("ap-northeast-1", "us-west-2"); l.RTT.Duration != 77*time.Millisecond {
		t.Errorf("rtt %s, want the file's 77ms", l.RTT)
	}
	delete(b.Profiles, "smallbank-two-regions")
	_, profile, err = b.Resolve(b.Runs[0])
	if err != nil {
		t.Fatal(err)
	}
	if l, _ := profile.Link("us-west-2", "ap-northeast-1"); l.RTT.Duration != 100*time.Millisecond {
		t.Errorf("rtt %s, want the preset's 100ms", l.RTT)
	}
	delete(b.Databases, "db")
	if _, _, err := b.Resolve(b.Runs[0]); err == nil || !strings.Contains(err.Error(), "there is no GeoDatabase db") {
		t.Errorf("got %v", err)
	}
}

// FuzzRead checks that no input causes a panic. If an input is accepted, the resulting objects must be accepted again
// when they are written, and must not change.
func FuzzRead(f *testing.F) {
	f.Add([]byte(wrong.Valid))
	cases, err := wrong.Cases()
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		f.Add([]byte(c.YAML))
	}
	f.Add([]byte("apiVersion: v1\nkind: List\nitems: [{apiVersion: geobench.dev/v1alpha1, kind: NetworkProfile, metadata: {name: np}, spec: {links: [{from: a, to: a, rtt: 1us}]}}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, _ := manifest.Split("fuzz", data)
		b, _ := manifest.Build(docs)
		_ = b.Check(check.Default(nil)).Error()
		var text []byte
		for _, o := range objects(b) {
			j, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			text = append(append(text, j...), "\n---\n"...)
		}
		docs, problems := manifest.Split("again", text)
		if len(problems) > 0 {
			t.Fatalf("written manifests cannot be read: %v\n%s", problems, text)
		}
		again, problems := manifest.Build(docs)
		if len(problems) > 0 {
			t.Fatalf("written manifests are refused: %v\n%s", problems, text)
		}
		was, err := json.Marshal(objects(b))
		if err != nil {
			t.Fatal(err)
		}
		is, err := json.Marshal(objects(again))
		if err != nil {
			t.Fatal(err)
		}
		if string(was) != string(is) {
			t.Fatalf("changed by writing and reading:\n%s\n%s", was, is)
		}
	})
}

// objects returns the objects of a bundle in a fixed order.
func objects(b *manifest.Bundle) []any {
	var out []any
	var names []string
	for name := range b.Profiles {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		out = append(out, b.Profiles[name])
	}
	names = nil
	for name := range b.Databases {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		out = append(out, b.Databases[name])
	}
	for _, run := range b.Runs {
		out = append(out, run)
	}
	return out
}
