package acceptance_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/acceptance"
	"github.com/geobench/geobench/internal/bench/manifest"
)

// TestRunsAreComplete checks that the API server's defaulting would not change the runs.
func TestRunsAreComplete(t *testing.T) {
	t.Parallel()
	run := &v1alpha1.BenchmarkRun{}
	run.Name = "r"
	run.Spec.DatabaseRef.Name = "d"
	run.Spec.FunctionalTests = []v1alpha1.FunctionalTest{v1alpha1.FunctionalGlobalSnapshot, v1alpha1.FunctionalGlobalDeadlock}
	runs := acceptance.Runs(run)
	if len(runs) != 2 || runs[0].Name != "r-snapshot" || runs[1].Name != "r-deadlock" {
		t.Fatalf("the runs are %+v", runs)
	}
	for _, r := range runs {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		docs, problems := manifest.Split(r.Name, text)
		if len(problems) > 0 || len(docs) != 1 {
			t.Fatalf("%s: %v", r.Name, problems)
		}
		delete(docs[0].Object, "status")
		delete(docs[0].Object["spec"].(map[string]any)["load"].(map[string]any), "resources")
		if problems := manifest.Default(docs[0]); len(problems) > 0 {
			t.Fatalf("%s: %v", r.Name, problems)
		}
		text, err = json.Marshal(docs[0].Object)
		if err != nil {
			t.Fatal(err)
		}
		defaulted := &v1alpha1.BenchmarkRun{}
		if err := json.Unmarshal(text, defaulted); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r.Spec, defaulted.Spec); diff != "" {
			t.Errorf("%s is not complete (-made +defaulted):\n%s", r.Name, diff)
		}
	}
}
