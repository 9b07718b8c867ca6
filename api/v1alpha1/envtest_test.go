package v1alpha1_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/apiservertest"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/wrong"
	"github.com/geobench/geobench/internal/ops/presets"
)

// TestAPIServer runs all tests that need a real API server, on a single server.
func TestAPIServer(t *testing.T) {
	config := apiservertest.New(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	c = client.WithFieldValidation(c, metav1.FieldValidationStrict)
	t.Run("refuses what the local validator refuses", func(t *testing.T) { testAgreement(t, c) })
	t.Run("defaults as the local validator does", func(t *testing.T) { testDefaults(t, c) })
	t.Run("accepts the presets", func(t *testing.T) { testPresets(t, c) })
	t.Run("says that nobody has seen an object", func(t *testing.T) { testUnseen(t, c) })
	t.Run("keeps runs immutable", func(t *testing.T) { testImmutableRun(t, c) })
	t.Run("holds searches to their rules", func(t *testing.T) { testSearches(t, c) })
	t.Run("keeps a database's engine", func(t *testing.T) { testImmutableEngine(t, c) })
}

func testAgreement(t *testing.T, c client.Client) {
	cases, err := wrong.Cases()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			docs, problems := manifest.Split("-", []byte(tc.YAML))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			for _, d := range docs {
				o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(d.Object)}
				o.SetNamespace("default")
				err := c.Create(t.Context(), o, client.DryRunAll)
				local := manifest.Default(d)
				if (err != nil) != (len(local) > 0) {
					t.Errorf("the API server says %v, the local validator %v", err, local)
				}
				if tc.RefusedBy != wrong.APIServer || d.Object["kind"] != tc.Kind {
					if err != nil {
						t.Errorf("the API server must accept this, but says %v", err)
					}
					continue
				}
				if err == nil {
					t.Errorf("the API server accepts it; it must name %s and say %q", tc.Field, tc.Server)
				} else if !names(err, tc.Field, tc.Server) {
					t.Errorf("the API server must name %s and say %q; it says %v", tc.Field, tc.Server, err)
				}
			}
		})
	}
}

// testSearches changes one field of an experiment with a search, and checks the error message.
func testSearches(t *testing.T, c client.Client) {
	text, err := os.ReadFile("../../experiments/peak.yaml")
	if err != nil {
		t.Fatal(err)
	}
	docs, problems := manifest.Split("-", text)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for name, tc := range map[string]struct {
		change      func(spec, search, load map[string]any)
		field, want string // no field if the object must be accepted
	}{
		"as it is":   {func(_, _, _ map[string]any) {}, "", ""},
		"no maximum": {func(_, search, _ map[string]any) { delete(search, "maxRatePerSecond") }, "spec.search.maxRatePerSecond", "Required"},
		"a small maximum": {func(_, search, _ map[string]any) { search["maxRatePerSecond"] = int64(20) }, "spec.search.maxRatePerSecond",
			"maxRatePerSecond 20 is not more than ratePerSecond of the run (20)"},
		"a closed loop": {func(_, _, load map[string]any) { load["arrival"], load["ratePerSecond"] = "Closed", int64(0) }, "spec.run.spec.load.arrival",
			"set arrival to Constant or Poisson"},
		"an even number of probes": {func(_, search, _ map[string]any) { search["bestOf"] = int64(4) }, "spec.search.bestOf", `"1", "3", "5"`},
		"more than the peak":       {func(_, search, _ map[string]any) { search["peakPercents"] = []any{int64(101)} }, "spec.search.peakPercents[0]", "less than or equal to 100"},
		"nothing to keep": {func(spec, search, _ map[string]any) {
			search["committedPercent"] = int64(0)
			delete(spec["run"].(map[string]any)["spec"].(map[string]any), "objectives")
		}, "spec.search.committedPercent", "every rate would do"},
		"the least throughput": {func(spec, _, _ map[string]any) {
			spec["run"].(map[string]any)["spec"].(map[string]any)["objectives"] = []any{map[string]any{"metric": "throughput", "min": int64(5)}}
		}, "spec.run.spec.objectives", "give every objective a max"},
		"a swept rate": {func(spec, _, _ map[string]any) {
			spec["sweep"] = []any{map[string]any{"path": "spec.load.ratePerSecond", "values": []any{int64(5)}}}
		}, "spec.sweep", "which search chooses"},
		"a rate in step with a swept field": {func(spec, _, _ map[string]any) {
			spec["sweep"].([]any)[0].(map[string]any)["with"] = []any{map[string]any{"path": "spec.load.ratePerSecond", "values": []any{int64(1), int64(2), int64(3)}}}
		}, "spec.sweep", "which search chooses"},
		"fields in step with a swept one": {func(spec, _, _ map[string]any) {
			spec["sweep"].([]any)[0].(map[string]any)["with"] = []any{map[string]any{"path": "spec.load.clientsPerRegion", "values": []any{int64(1), int64(2), int64(3)}}}
		}, "", ""},
		"fields out of step with a swept one": {func(spec, _, _ map[string]any) {
			spec["sweep"].([]any)[0].(map[string]any)["with"] = []any{map[string]any{"path": "spec.load.clientsPerRegion", "values": []any{int64(1)}}}
		}, "spec.sweep[0].with", "list one value for each"},
	} {
		t.Run(name, func(t *testing.T) {
			object := runtime.DeepCopyJSON(docs[0].Object)
			spec := object["spec"].(map[string]any)
			tc.change(spec, spec["search"].(map[string]any), spec["run"].(map[string]any)["spec"].(map[string]any)["load"].(map[string]any))
			o := &unstructured.Unstructured{Object: object}
			o.SetNamespace("default")
			err := c.Create(t.Context(), o, client.DryRunAll)
			switch {
			case tc.field == "" && err != nil:
				t.Errorf("the API server must accept it, but says %v", err)
			case tc.field != "" && (err == nil || !names(err, tc.field, tc.want)):
				t.Errorf("the API server must name %s and say %q; it says %v", tc.field, tc.want, err)
			}
		})
	}
}

// names reports whether a cause of err contains the field and the text. Errors about unknown fields have no causes.
func names(err error, field, text string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	if d := status.Status().Details; d != nil {
		for _, cause := range d.Causes {
			if (cause.Field == field || strings.Contains(cause.Message, field)) && strings.Contains(cause.Message, text) {
				return true
			}
		}
	}
	return strings.Contains(err.Error(), `unknown field "`+field+`"`) && strings.Contains(err.Error(), text)
}

func testDefaults(t *testing.T, c client.Client) {
	texts := []string{wrong.Valid}
	for _, file := range []string{"../../experiments/quickstart.yaml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(data))
	}
	for _, text := range texts {
		docs, problems := manifest.Split("-", []byte(text))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		for _, d := range docs {
			o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(d.Object)}
			o.SetNamespace("default")
			if err := c.Create(t.Context(), o, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			if problems := manifest.Default(d); len(problems) > 0 {
				t.Fatal(problems)
			}
			for _, part := range []string{"spec", "status"} {
				if diff := cmp.Diff(o.Object[part], d.Object[part]); diff != "" {
					t.Errorf("%s: %s: API server (-), local (+):\n%s", o.GetName(), part, diff)
				}
			}
		}
	}
}

func testPresets(t *testing.T, c client.Client) {
	for _, name := range presets.Names() {
		p, _ := presets.Lookup(name)
		p.Namespace = "default"
		if err := c.Create(t.Context(), p, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// testUnseen checks that a new object has observedGeneration -1. Otherwise generic tools would count it as reconciled
// before the operator has processed it. A profile has no such default, because no controller reconciles it.
func testUnseen(t *testing.T, c client.Client) {
	docs, problems := manifest.Split("-", []byte(wrong.Valid))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	experiment, err := os.ReadFile("../../experiments/smallbank-cluster/baseline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	more, problems := manifest.Split("-", experiment)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	seen := map[string]bool{}
	for _, d := range append(docs, more...) {
		o := &unstructured.Unstructured{Object: d.Object}
		o.SetNamespace("default")
		if err := c.Create(t.Context(), o, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		seen[o.GetKind()] = true
		observed, found, err := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		if profile := o.GetKind() == "NetworkProfile"; err != nil || found == profile || found && observed != -1 {
			t.Errorf("%s: observedGeneration is %d, %v, %v", o.GetKind(), observed, found, err)
		}
	}
	if len(seen) != 4 {
		t.Errorf("only %v were tried", seen)
	}
}

const runYAML = `
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: immutable, namespace: default}
spec:
  databaseRef: {name: db}
  workload: {smallbank: {}}
  load: {warmup: 60s, duration: 120s, thinkTime: 500us}
  objectives: [{metric: throughput, min: 10}]
`

func testImmutableRun(t *testing.T, c client.Client) {
	run := &v1alpha1.BenchmarkRun{}
	if err := yaml.UnmarshalStrict([]byte(runYAML), run); err != nil {
		t.Fatal(err)
	}
	raw := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(runYAML), &raw.Object); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), raw); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.BenchmarkRun)
		want   string // substring of the expected error; empty if the change is accepted
	}{
		"nothing, though durations are rewritten": {func(*v1alpha1.BenchmarkRun) {}, ""},
		"labels":  {func(r *v1alpha1.BenchmarkRun) { r.Labels = map[string]string{"a": "b"} }, ""},
		"runID":   {func(r *v1alpha1.BenchmarkRun) { r.Spec.RunID = "second" }, ""},
		"cancel":  {func(r *v1alpha1.BenchmarkRun) { r.Spec.Cancel = true }, ""},
		"suspend": {func(r *v1alpha1.BenchmarkRun) { r.Spec.Suspend = true }, ""},
		"time to live": {func(r *v1alpha1.BenchmarkRun) {
			r.Spec.TTLSecondsAfterFinished = &v1alpha1.TTLSecondsAfterFinished{Passed: ptr.To[int32](60)}
		}, ""},
		"seed":               {func(r *v1alpha1.BenchmarkRun) { r.Spec.Seed = 7 }, "cannot change"},
		"database":           {func(r *v1alpha1.BenchmarkRun) { r.Spec.DatabaseRef.Name = "other" }, "cannot change"},
		"workload":           {func(r *v1alpha1.BenchmarkRun) { r.Spec.Workload.SmallBank.Customers = 5 }, "cannot change"},
		"load":               {func(r *v1alpha1.BenchmarkRun) { r.Spec.Load.ClientsPerRegion = 5 }, "cannot change"},
		"think time to zero": {func(r *v1alpha1.BenchmarkRun) { r.Spec.Load.ThinkTime = v1alpha1.DurationOf(0) }, "cannot change"},
		"objectives":         {func(r *v1alpha1.BenchmarkRun) { r.Spec.Objectives = nil }, "cannot change"},
		"verify":             {func(r *v1alpha1.BenchmarkRun) { r.Spec.Verify = []v1alpha1.Verification{v1alpha1.VerifyInvariants} }, "cannot change"},
		"deadline":           {func(r *v1alpha1.BenchmarkRun) { d := v1alpha1.DurationOf(time.Hour); r.Spec.Deadline = &d }, "cannot change"},
		"faults": {func(r *v1alpha1.BenchmarkRun) {
			r.Spec.Faults = []v1alpha1.Fault{{Name: "f", PodKill: &v1alpha1.PodKillFault{}}}
		}, "cannot change"},
	} {
		t.Run(name, func(t *testing.T) {
			got := &v1alpha1.BenchmarkRun{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(run), got); err != nil {
				t.Fatal(err)
			}
			tc.change(got)
			expect(t, c.Update(t.Context(), got, client.DryRunAll), tc.want)
		})
	}
	if t.Failed() {
		return
	}
	// A typed update of the status must not touch the spec.
	got := &v1alpha1.BenchmarkRun{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(run), got); err != nil {
		t.Fatal(err)
	}
	base := got.DeepCopy()
	got.Status.Stage = v1alpha1.StagePreflight
	got.Status.Summary = &v1alpha1.RunSummary{Committed: 1}
	if err := c.Status().Patch(context.Background(), got, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(raw), raw); err != nil {
		t.Fatal(err)
	}
	if w, _, _ := unstructured.NestedString(raw.Object, "spec", "load", "warmup"); w != "60s" {
		t.Errorf("warmup is %q after a status patch, want 60s as written", w)
	}
}

func testImmutableEngine(t *testing.T, c client.Client) {
	docs, problems := manifest.Split("-", []byte(wrong.Valid))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	o := &unstructured.Unstructured{Object: docs[1].Object}
	o.SetNamespace("default")
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.GeoDatabase)
		want   string
	}{
		"partitions": {func(d *v1alpha1.GeoDatabase) { d.Spec.PartitionsPerRegion = 3 }, ""},
		"regions":    {func(d *v1alpha1.GeoDatabase) { d.Spec.Regions = d.Spec.Regions[:1] }, ""},
		"engine":     {func(d *v1alpha1.GeoDatabase) { d.Spec.Engine.Name = "slog" }, "engine.name cannot change from calvin to slog"},
		"external": {func(d *v1alpha1.GeoDatabase) {
			d.Spec.External = &v1alpha1.External{Endpoints: []v1alpha1.ExternalEndpoint{{Region: "a", Address: "h:1"}}}
		}, "external cannot be added or removed"},
	} {
		t.Run(name, func(t *testing.T) {
			got := &v1alpha1.GeoDatabase{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), got); err != nil {
				t.Fatal(err)
			}
			tc.change(got)
			expect(t, c.Update(t.Context(), got, client.DryRunAll), tc.want)
		})
	}
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want a refusal that says %q", err, want)
	}
}
