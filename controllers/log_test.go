package controllers

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/geobench/geobench/api/v1alpha1"
)

// The log tells what a run went through, with the keys that docs/operator.md names.
func TestLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	var lines []map[string]string
	w.ctx = log.IntoContext(w.ctx, funcr.NewJSON(func(text string) {
		mu.Lock()
		defer mu.Unlock()
		line := map[string]string{}
		if err := json.Unmarshal([]byte(text), &line); err != nil && !strings.Contains(err.Error(), "number") { // logr counts levels
			t.Errorf("%s: %v", text, err)
		}
		lines = append(lines, line)
	}, funcr.Options{}))
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").duration(20*time.Second).
		faults("[{name: cut, at: 5s, duration: 4s, networkPartition: {from: {regions: [us-west-2]}}}]").obj())
	if st := w.untilOver("r").Status; st.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s: %s", st.Verdict, st.Message)
	}
	has := func(want map[string]string) {
		t.Helper()
		if !slices.ContainsFunc(lines, func(line map[string]string) bool {
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
	mu.Lock()
	defer mu.Unlock()
	has(map[string]string{"msg": "incarnation made", "database": "d", "incarnation": w.getDatabase("d").Status.Incarnation, "reason": "the first one"})
	for i, stage := range activeStages {
		want := map[string]string{"msg": "stage entered", "run": "r", "stage": string(stage)}
		if i > 0 {
			want["from"] = string(activeStages[i-1])
		}
		has(want)
	}
	has(map[string]string{"msg": "stage entered", "stage": "Load", "reason": "Verified"})
	has(map[string]string{"msg": "fault injected", "run": "r", "stage": "Measure", "fault": "cut", "kind": "networkPartition", "injector": "BuiltIn"})
	has(map[string]string{"msg": "fault over", "run": "r", "stage": "Measure", "fault": "cut", "reason": "is over"})
	has(map[string]string{"msg": "run ended", "run": "r", "stage": "Completed", "verdict": "Passed"})
	for _, line := range lines {
		if line["msg"] != "incarnation made" && line["run"] != "r" || line["reason"] == "" {
			t.Errorf("%v says neither of what nor why", line)
		}
	}
}
