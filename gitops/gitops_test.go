// Package gitops contains files for GitOps and CI tools, which use them to create Geobench's resources and to evaluate
// their status. The tests use the tools' own evaluators.
package gitops

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/ops/health/healthtest"
	"github.com/geobench/geobench/internal/run/experiment"
)

var update = flag.Bool("update", false, "write Argo CD's health_test.yaml, actions' expected objects and argocd-cm.yaml")

const group = "argocd/resource_customizations/geobench.dev"

// object is the expected result of each tool for an object that the controllers' tests have recorded.
type object struct {
	// kstatus is the status that Flux and Helm show, and argo the status that Argo CD shows.
	kstatus, argo string
	// workflow is the status that Argo Workflows shows. Argo Workflows considers only the verdict, and only runs that it
	// has created.
	workflow string
	// message is the start of the message that Argo CD shows.
	message string
	// conditions lists the four generic conditions with their status, omitting absent conditions.
	conditions string
}

// Expectations for the common states in the table.
var (
	unseen    = object{"InProgress", "Progressing", "Running", "the operator has not seen", ""}
	suspended = object{"InProgress", "Suspended", "Running", "Suspended: ", "Ready=False"}
)

func working(message string) object {
	return object{"InProgress", "Progressing", "Running", message, "Ready=False Reconciling=True"}
}

func ended(message string) object {
	if strings.HasPrefix(message, "Passed") {
		return object{"Current", "Healthy", "Succeeded", message, "Ready=True Succeeded=True"}
	}
	return object{"Failed", "Degraded", "Failed", message, "Ready=False Stalled=True Succeeded=False"}
}

func stalled(message string) object {
	return object{"Failed", "Degraded", "Running", message, "Ready=False Stalled=True"}
}

// before returns the expectation for an object with a new spec whose conditions still describe state o. now has the
// tools' expected results.
func (o object) before(now object) object { now.conditions = o.conditions; return now }

// deleted returns the expectation for an object in state o that is being deleted.
func (o object) deleted() object {
	o.kstatus, o.argo, o.message = "Terminating", "Progressing", "Pending deletion"
	return o
}

var objects = map[string]object{
	"BenchmarkRun/unseen":                    unseen,
	"BenchmarkRun/stage-preflight":           working("Preflight"),
	"BenchmarkRun/stage-provision":           working("Provision"),
	"BenchmarkRun/stage-emulate":             working("Emulate"),
	"BenchmarkRun/stage-load":                working("Load"),
	"BenchmarkRun/stage-warmup":              working("Warmup"),
	"BenchmarkRun/stage-measure":             working("Measure"),
	"BenchmarkRun/stage-recover":             working("Recover"),
	"BenchmarkRun/stage-collect":             working("Collect"),
	"BenchmarkRun/stage-evaluate":            working("Evaluate"),
	"BenchmarkRun/database-busy":             working("DatabaseBusy: waiting for BenchmarkRun r"),
	"BenchmarkRun/database-not-found-yet":    working("Preflight: waiting for GeoDatabase nowhere"),
	"BenchmarkRun/suspended":                 suspended,
	"BenchmarkRun/passed":                    ended("Passed: ObjectivesHold: "),
	"BenchmarkRun/failed-objective":          ended("Failed: ObjectiveMissed: "),
	"BenchmarkRun/failed-refused":            ended("Invalid: InvalidSpec: "),
	"BenchmarkRun/failed-database-not-found": ended("Invalid: DatabaseNotFound: "),
	"BenchmarkRun/invalid-no-result":         ended("Invalid: "),
	"BenchmarkRun/invalid-cancelled":         ended("Invalid: Cancelled: "),
	"BenchmarkRun/failed-another-run-id":     ended("Invalid: ").before(object{"InProgress", "Progressing", "Failed", "the operator has not seen", ""}),
	"BenchmarkRun/starts-again":              working("Preflight"),
	"BenchmarkRun/deleted":                   working("Measure").deleted(),
	"Experiment/unseen":                      unseen,
	"Experiment/running":                     working("Running: 0 of 1 points"),
	"Experiment/suspended":                   suspended,
	"Experiment/refused":                     stalled("InvalidSpec: "),
	"Experiment/reference-may-come":          working("ReferenceNotFound: "),
	"Experiment/reference-came-not":          stalled("ReferenceNotFound: "),
	"Experiment/claims-hold":                 ended("Passed: ClaimsHold: "),
	"Experiment/claims-differ":               ended("Passed: ClaimsDiffer: "),
	"Experiment/claims-differ-gate":          ended("Failed: ClaimsDiffer: "),
	"Experiment/another-spec":                ended("Passed: ").before(unseen),
	"Experiment/points-failed":               ended("Failed: PointsFailed: "),
	"Experiment/deleted":                     working("Running: ").deleted(),
	"GeoDatabase/unseen":                     unseen,
	"GeoDatabase/nodes-not-ready":            working("NodesNotReady: "),
	"GeoDatabase/network-not-verified":       working("OutOfTolerance: "),
	"GeoDatabase/serving":                    {"Current", "Healthy", "", "Serving: all 2 nodes serve", "Ready=True"},
	"GeoDatabase/change-waits":               working("RunActive: BenchmarkRun second"),
	"GeoDatabase/refused":                    stalled("InvalidSpec: "),
	"GeoDatabase/profile-may-come":           working("ProfileNotFound: "),
	"GeoDatabase/profile-came-not":           stalled("ProfileNotFound: "),
	"GeoDatabase/deleted":                    working("NodesNotReady: ").deleted(),
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func recorded(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(read(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return u
}

// fluxChecks returns the health checks in flux/healthchecks.yaml by kind.
func fluxChecks(t *testing.T) map[string]healthtest.Expressions {
	t.Helper()
	var k struct {
		Spec struct {
			HealthCheckExprs []healthtest.Expressions `json:"healthCheckExprs"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "flux/healthchecks.yaml")), &k); err != nil {
		t.Fatal(err)
	}
	out := map[string]healthtest.Expressions{}
	for _, e := range k.Spec.HealthCheckExprs {
		out[e.Kind] = e
	}
	return out
}

// workflowConditions returns the conditions in workflows/benchmark.yaml.
func workflowConditions(t *testing.T) (success, failure string) {
	t.Helper()
	var w struct {
		Spec struct {
			Templates []struct {
				Resource struct {
					SuccessCondition string `json:"successCondition"`
					FailureCondition string `json:"failureCondition"`
				} `json:"resource"`
			} `json:"templates"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "workflows/benchmark.yaml")), &w); err != nil {
		t.Fatal(err)
	}
	r := w.Spec.Templates[0].Resource
	return r.SuccessCondition, r.FailureCondition
}

// TestJudges evaluates every recorded object with every tool.
func TestJudges(t *testing.T) {
	files, err := filepath.Glob(group + "/*/testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	checks := fluxChecks(t)
	success, failure := workflowConditions(t)
	seen := map[string]bool{}
	for _, file := range files {
		kind := filepath.Base(filepath.Dir(filepath.Dir(file)))
		name := kind + "/" + strings.TrimSuffix(filepath.Base(file), ".yaml")
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			want, ok := objects[name]
			if !ok {
				t.Fatalf("nobody says what is to be made of %s", file)
			}
			u := recorded(t, file)
			if u.GetKind() != kind {
				t.Fatalf("it is a %s", u.GetKind())
			}
			if got := conditions(u); got != want.conditions {
				t.Errorf("it says %s, want %s", got, want.conditions)
			}
			k, err := healthtest.KStatus(u)
			if err != nil || k.Status != want.kstatus {
				t.Errorf("kstatus makes %+v of it, %v; want %s", k, err, want.kstatus)
			}
			a, err := healthtest.ArgoCD(read(t, group, kind, "health.lua"), u)
			if err != nil || a.Status != want.argo || !strings.HasPrefix(a.Message, want.message) {
				t.Errorf("Argo CD makes %+v of it, %v; want %s: %s", a, err, want.argo, want.message)
			}
			// Flux's expressions ignore deletion, so an object in deletion still has its earlier state.
			flux := want.kstatus
			if flux == "Terminating" {
				flux = "InProgress"
			}
			f, err := healthtest.Flux(checks[kind], u)
			if err != nil && conditions(u) != "" || err == nil && f.Status != flux {
				t.Errorf("Flux makes %+v of it, %v; want %s", f, err, flux)
			}
			if kind != "BenchmarkRun" {
				return
			}
			w, err := healthtest.Workflow(success, failure, u)
			if err != nil || w.Status != want.workflow {
				t.Errorf("Argo Workflows makes %+v of it, %v; want %s", w, err, want.workflow)
			}
		})
	}
	for name := range objects {
		if !seen[name] {
			t.Errorf("%s was not recorded: go test -run TestRecordedObjects -update in the controllers", name)
		}
	}
	t.Logf("%d objects", len(seen))
}

// conditions returns the object's conditions in table order, and omits absent conditions.
func conditions(u *unstructured.Unstructured) string {
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	var out []string
	for _, kind := range []string{"Ready", "Reconciling", "Stalled", "Succeeded"} {
		for _, c := range all {
			if c := c.(map[string]any); c["type"] == kind {
				out = append(out, fmt.Sprintf("%s=%s", kind, c["status"]))
			}
		}
	}
	return strings.Join(out, " ")
}

// kstatus reports an object without conditions as Current. Flux's expressions fail on such an object, and Argo CD's
// script reports Progressing.
func TestJudgesOfWhatSaysNothing(t *testing.T) {
	profile := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "geobench.dev/v1alpha1", "kind": "NetworkProfile",
		"metadata": map[string]any{"name": "two", "generation": int64(1)}, "spec": map[string]any{}}}
	if k, err := healthtest.KStatus(profile); err != nil || k.Status != "Current" {
		t.Errorf("kstatus makes %+v of a profile, %v", k, err)
	}
	// An entry for the whole group would wait forever for profiles, so each kind has a separate entry.
	if f, err := healthtest.Flux(fluxChecks(t)["GeoDatabase"], profile); err == nil {
		t.Errorf("Flux makes %+v of a profile", f)
	}
	bare := profile.DeepCopy()
	bare.SetKind("BenchmarkRun")
	if err := unstructured.SetNestedField(bare.Object, "Invalid", "status", "verdict"); err != nil {
		t.Fatal(err)
	}
	if k, err := healthtest.KStatus(bare); err != nil || k.Status != "Current" {
		t.Errorf("kstatus makes %+v of a run without conditions, %v", k, err)
	}
	if a, err := healthtest.ArgoCD(read(t, group, "BenchmarkRun", "health.lua"), bare); err != nil || a.Status != "Progressing" {
		t.Errorf("Argo CD makes %+v of a run without conditions, %v", a, err)
	}
}

// kinds lists the kinds that have health scripts for Argo CD.
var kinds = []string{"BenchmarkRun", "Experiment", "GeoDatabase"}

// TestHealthTests writes and checks the list of test cases in the layout of Argo CD's repository.
func TestHealthTests(t *testing.T) {
	for _, kind := range kinds {
		var out struct {
			Tests []map[string]any `json:"tests"`
		}
		files, err := filepath.Glob(filepath.Join(group, kind, "testdata", "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			u := recorded(t, file)
			u.SetDeletionTimestamp(nil) // Argo CD's tests use only the script
			v, err := healthtest.ArgoCD(read(t, group, kind, "health.lua"), u)
			if err != nil {
				t.Fatal(err)
			}
			out.Tests = append(out.Tests, map[string]any{"healthStatus": map[string]any{"status": v.Status, "message": v.Message}, "inputPath": "testdata/" + filepath.Base(file)})
		}
		golden(t, filepath.Join(group, kind, "health_test.yaml"), asYAML(t, out))
	}
}

// golden checks that a file contains text. With -update, it writes the file first.
func golden(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, file); got != text {
		t.Errorf("%s is not up to date: go test ./gitops -update writes it", file)
	}
}

// TestConfigMap compares the fragment for argocd-cm with the separate files. All kinds have the same health script.
func TestConfigMap(t *testing.T) {
	data := map[string]string{}
	for _, kind := range kinds {
		health := read(t, group, kind, "health.lua")
		if health != read(t, group, kinds[0], "health.lua") {
			t.Errorf("%s has another health.lua than %s", kind, kinds[0])
		}
		data["resource.customizations.health.geobench.dev_"+kind] = health
		names := actions(t, kind)
		if len(names) == 0 {
			continue
		}
		all := map[string]any{"discovery.lua": read(t, group, kind, "actions", "discovery.lua")}
		var definitions []any
		for _, name := range names {
			definitions = append(definitions, map[string]any{"name": name, "action.lua": read(t, group, kind, "actions", name, "action.lua")})
		}
		all["definitions"] = definitions
		data["resource.customizations.actions.geobench.dev_"+kind] = asYAML(t, all)
	}
	golden(t, "argocd/argocd-cm.yaml", `# Health checks and actions of Geobench's kinds, for the ConfigMap argocd-cm of Argo CD's namespace:
#   kubectl patch configmap argocd-cm -n argocd --patch-file gitops/argocd/argocd-cm.yaml
# It is made from what is below resource_customizations.
`+asYAML(t, map[string]any{"data": data}))
}

// actions returns the names of a kind's actions, sorted.
func actions(t *testing.T, kind string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(group, kind, "actions", "*", "action.lua"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		names = append(names, filepath.Base(filepath.Dir(file)))
	}
	slices.Sort(names)
	return names
}

// TestActions executes Argo CD's resource actions, and checks the offered actions and their changes. The results must
// satisfy the validation rules of the kinds. The cases are in action_test.yaml, in the layout of Argo CD's repository.
func TestActions(t *testing.T) {
	tests := map[string]map[string][]any{"BenchmarkRun": {}, "Experiment": {}}
	cases := map[string]struct {
		object  string
		offered []string
		changes map[string]map[string]any // maps each action to the fields of spec that it sets
	}{
		"over":       {"BenchmarkRun/failed-objective", []string{"rerun"}, map[string]map[string]any{"rerun": {"runID": "rerun-1", "cancel": false}}},
		"over again": {"BenchmarkRun/invalid-cancelled", []string{"rerun"}, map[string]map[string]any{"rerun": {"runID": "rerun-3", "cancel": false}}},
		"under way":  {"BenchmarkRun/stage-measure", []string{"cancel"}, map[string]map[string]any{"cancel": {"cancel": true}}},
		"waiting":    {"BenchmarkRun/database-busy", []string{"cancel", "suspend"}, map[string]map[string]any{"suspend": {"suspend": true}}},
		"held":       {"BenchmarkRun/suspended", []string{"cancel", "resume"}, map[string]map[string]any{"resume": {"suspend": false}}},
		"unseen":     {"BenchmarkRun/unseen", []string{"cancel", "suspend"}, nil},
		"sweep":      {"Experiment/running", []string{"suspend"}, map[string]map[string]any{"suspend": {"suspend": true}}},
		"held sweep": {"Experiment/suspended", []string{"resume"}, map[string]map[string]any{"resume": {"suspend": false}}},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		tc := cases[name]
		t.Run(name, func(t *testing.T) {
			kind, file, _ := strings.Cut(tc.object, "/")
			u := recorded(t, filepath.Join(group, kind, "testdata", file+".yaml"))
			answer, err := healthtest.Lua(read(t, group, kind, "actions", "discovery.lua"), u)
			if err != nil {
				t.Fatal(err)
			}
			var offered []string
			var result []any
			all := answer.(map[string]any)
			for _, action := range slices.Sorted(maps.Keys(all)) {
				how := all[action]
				result = append(result, map[string]any{"name": action, "disabled": how.(map[string]any)["disabled"]})
				if !slices.Contains(actions(t, kind), action) {
					t.Errorf("there is no action %s", action)
				}
				if how.(map[string]any)["disabled"] != true {
					offered = append(offered, action)
				}
			}
			input := "../testdata/" + file + ".yaml"
			tests[kind]["discoveryTests"] = append(tests[kind]["discoveryTests"], map[string]any{"inputPath": input, "result": result})
			if !slices.Equal(offered, tc.offered) {
				t.Errorf("%v are offered, want %v", offered, tc.offered)
			}
			for _, action := range slices.Sorted(maps.Keys(tc.changes)) {
				fields := tc.changes[action]
				changed, err := healthtest.Lua(read(t, group, kind, "actions", action, "action.lua"), u)
				if err != nil {
					t.Fatal(err)
				}
				want := u.DeepCopy().Object["spec"].(map[string]any)
				for field, value := range fields {
					want[field] = value
				}
				if got := changed.(map[string]any)["spec"]; !reflect.DeepEqual(got, any(want)) {
					t.Errorf("%s makes\n%s\nwant\n%s", action, text(t, got), text(t, want))
				}
				made := map[string]any{"apiVersion": u.GetAPIVersion(), "kind": kind, "metadata": map[string]any{"name": u.GetName()}, "spec": changed.(map[string]any)["spec"]}
				if problems := manifest.Default(manifest.Document{Source: action, Object: made}); len(problems) > 0 {
					t.Errorf("%s makes what is refused: %v", action, problems)
				}
				expected := action + "-" + file + ".yaml"
				tests[kind]["actionTests"] = append(tests[kind]["actionTests"], map[string]any{"action": action, "inputPath": input, "expectedOutputPath": "testdata/" + expected})
				output := u.DeepCopy()
				output.Object["spec"] = want
				golden(t, filepath.Join(group, kind, "actions", "testdata", expected), asYAML(t, output.Object))
			}
		})
	}
	for kind, all := range tests {
		golden(t, filepath.Join(group, kind, "actions", "action_test.yaml"), asYAML(t, all))
	}
}

func asYAML(t *testing.T, value any) string {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func text(t *testing.T, value any) string {
	t.Helper()
	b, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestManifests validates the objects that the templates and the example repository create.
func TestManifests(t *testing.T) {
	var w struct {
		Spec struct {
			Templates []struct {
				Resource struct {
					Manifest string `json:"manifest"`
				} `json:"resource"`
			} `json:"templates"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "workflows/benchmark.yaml")), &w); err != nil {
		t.Fatal(err)
	}
	run := strings.NewReplacer("{{inputs.parameters.database}}", "calvin", "generateName: candidate-", "name: candidate").Replace(w.Spec.Templates[0].Resource.Manifest)
	problems := manifest.Problems{}
	docs, ps := manifest.Split("workflows/benchmark.yaml", []byte(run))
	problems = append(problems, ps...)
	for _, d := range docs {
		problems = append(problems, manifest.Default(d)...)
	}
	if len(docs) != 1 || len(problems) > 0 {
		t.Errorf("%d documents: %v", len(docs), problems)
	}
	for _, files := range [][]string{
		{"repository/databases/base/network.yaml", "repository/databases/base/calvin.yaml", "repository/runs/nightly/smallbank.yaml"},
		{"repository/databases/base/network.yaml", "repository/experiments/multi-home/experiment.yaml"},
	} {
		bundle, err := manifest.Load(nil, check.Default(nil), files...)
		if err != nil {
			t.Errorf("%v: %v", files, err)
			continue
		}
		for _, e := range bundle.Experiments { // all claims compile, and every point is valid
			if _, err := experiment.New(t.Context(), bundle, e, check.Default(nil)); err != nil {
				t.Errorf("%v: %v", files, err)
			}
		}
	}
}

// Kubernetes can parse every file as YAML, and no file has duplicate fields.
func TestEveryFileIsYAML(t *testing.T) {
	n := 0
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		n++
		_, problems := manifest.Split(path, []byte(read(t, path)))
		if len(problems) > 0 {
			t.Errorf("%v", problems)
		}
		return nil
	})
	if err != nil || n < 20 {
		t.Errorf("%d files, %v", n, err)
	}
}

// The evaluators are dependencies of tests only: the program geobench must not include them.
func TestProgramHasNoEvaluators(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", "full", "../cmd/geobench")
	list.Env = append(list.Environ(), "GOPROXY=off", "GOTOOLCHAIN=local")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imported := strings.Fields(string(out))
	if !slices.Contains(imported, "github.com/geobench/geobench/internal/ops/health") {
		t.Errorf("go list names %d packages, and not internal/ops/health: the list is not what this test takes it for", len(imported))
	}
	for _, path := range imported {
		for _, unwanted := range []string{"github.com/fluxcd/", "github.com/yuin/gopher-lua", "github.com/tidwall/gjson", "sigs.k8s.io/kustomize/", "github.com/geobench/geobench/internal/ops/health/healthtest"} {
			if strings.HasPrefix(path, unwanted) {
				t.Errorf("the program depends on %s", path)
			}
		}
	}
}
