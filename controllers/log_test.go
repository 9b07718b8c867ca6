package controllers_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/worldtest"
)

// The log describes the progress of a run with the keys that docs/operator.md documents.
func TestLog(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	var lines []map[string]any
	w.Ctx = log.IntoContext(w.Ctx, funcr.NewJSON(func(text string) {
		line := map[string]any{}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		lines = append(lines, line)
	}, funcr.Options{}))
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Duration(20*time.Second).
		Faults("[{name: cut, at: 5s, duration: 4s, networkPartition: {from: {regions: [us-west-2]}}}]").Obj())
	if st := w.UntilOver("r").Status; st.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s: %s", st.Verdict, st.Message)
	}
	has := func(want map[string]any) {
		t.Helper()
		if !slices.ContainsFunc(lines, func(line map[string]any) bool {
			for key, value := range want {
				if line[key] != value {
					return false
				}
			}
			return true
		}) {
			t.Errorf("nothing in the log has %v", want)
		}
	}
	has(map[string]any{"msg": "incarnation made", "database": "d", "incarnation": w.GetDatabase("d").Status.Incarnation, "reason": "the first one"})
	for i, stage := range worldtest.ActiveStages {
		want := map[string]any{"msg": "stage entered", "run": "r", "stage": string(stage)}
		if i > 0 {
			want["from"] = string(worldtest.ActiveStages[i-1])
		}
		has(want)
	}
	has(map[string]any{"msg": "stage entered", "stage": "Load", "reason": "Verified"})
	has(map[string]any{"msg": "fault injected", "run": "r", "stage": "Measure", "fault": "cut", "kind": "networkPartition", "injector": "BuiltIn"})
	has(map[string]any{"msg": "fault over", "run": "r", "stage": "Measure", "fault": "cut", "reason": "is over"})
	has(map[string]any{"msg": "run ended", "run": "r", "stage": "Completed", "verdict": "Passed"})
	for _, line := range lines {
		if reason, _ := line["reason"].(string); reason == "" || line["msg"] != "incarnation made" && line["run"] != "r" {
			t.Errorf("%v says neither of what nor why", line)
		}
	}
}
