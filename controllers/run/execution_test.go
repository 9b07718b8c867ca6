package run_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
)

// keep returns a copy of an object that a user can create again.
func keep(cm *corev1.ConfigMap) *corev1.ConfigMap {
	kept := cm.DeepCopy()
	kept.ResourceVersion, kept.UID, kept.ManagedFields = "", "", nil
	return kept
}

// A run that is set back to an earlier runID, as Flux does when it reverts a patch, is a new execution. Objects of the
// earlier execution do not count for the new execution.
func TestEarlierRunIDIsAnotherExecution(t *testing.T) {
	for name, again := range map[string]func(w *worldtest.World){
		"the execution between them is cancelled": func(w *worldtest.World) {
			w.Rerun("two", func(s *v1alpha1.BenchmarkRunSpec) { s.Cancel = true })
		},
		"the execution between them has a result": func(w *worldtest.World) { w.Rerun("two") },
		"it is suspended between them": func(w *worldtest.World) {
			w.ChangeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.RunID, s.Suspend = "two", true })
			w.Until("it is held", func() bool { return w.GetRun("r").Status.Stage == "" })
			w.ChangeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.RunID, s.Suspend = "", false })
			w.Until("it has started", func() bool { return w.GetRun("r").Status.Stage != "" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
			first := w.UntilOver("r")
			passed(t, first)
			loads := w.Loads
			again(w)
			w.Committed = 70
			second := w.GetRun("r")
			if second.Spec.RunID != "" {
				second = w.Rerun("")
			} else {
				second = w.UntilOver("r")
			}
			passed(t, second)
			if got := second.Status.Summary.Committed; got != 2*70 {
				t.Errorf("%d transactions committed, want %d: these are the figures of an earlier execution", got, 2*70)
			}
			if second.Status.Execution == first.Status.Execution || second.Status.Execution == "" {
				t.Errorf("execution %q follows %q", second.Status.Execution, first.Status.Execution)
			}
			if w.Loads < loads+2 {
				t.Errorf("the data was loaded %d times before and %d times in all: rows of an earlier execution were used", loads, w.Loads)
			}
			at := w.Document("r").Execution
			if at == nil || at.ID != second.Status.Execution || !at.WarmupStartTime.Equal(second.Status.WarmupStartTime.Time) || len(at.Windows) != 1 || !at.Windows[0].Opened.Equal(second.Status.MeasureStartTime.Time) ||
				at.Windows[0].Closed.Sub(at.Windows[0].Opened) != second.Spec.Load.Duration.Duration {
				t.Errorf("the document is of %+v, and the status says %s, %s", at, second.Status.Execution, second.Status.MeasureStartTime)
			}
		})
	}
}

// A functional test of an earlier execution does not count for a later execution.
func TestTestsOfAnEarlierExecutionAreNotTaken(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Tests().Obj())
	passed(t, w.UntilOver("r"))
	was := w.GetRun("r-snapshot")
	w.Rerun("two", func(s *v1alpha1.BenchmarkRunSpec) { s.Cancel = true })
	passed(t, w.Rerun(""))
	if now := w.GetRun("r-snapshot"); now.Status.Execution == was.Status.Execution {
		t.Errorf("functional test %s of %s was not played again", now.Name, was.Status.CompletionTime)
	}
}

// snapshot returns the ConfigMap with the data that the operator records during a run.
func snapshot(w *worldtest.World, run *v1alpha1.BenchmarkRun) *corev1.ConfigMap {
	return w.Get(kube.SnapshotName(run), &corev1.ConfigMap{}).(*corev1.ConfigMap)
}

// putBackSnapshot replaces this execution's snapshot with the snapshot of an earlier execution.
func putBackSnapshot(w *worldtest.World, run *v1alpha1.BenchmarkRun, kept *corev1.ConfigMap) {
	kept.Name, kept.Labels = kube.SnapshotName(run), kube.RunLabels(run, kube.RoleSnapshot)
	w.PutBack(kept)
}

// A user who may write ConfigMaps saves the ConfigMaps of a good execution, and restores them in a later execution with
// the same runID. The later execution must not accept them.
func TestConfigMapsOfAnEarlierExecutionAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		// called while the first execution is evaluated
		kept   func(w *worldtest.World, run *v1alpha1.BenchmarkRun) *corev1.ConfigMap
		attack func(w *worldtest.World, run *v1alpha1.BenchmarkRun, kept *corev1.ConfigMap)
		stage  v1alpha1.Stage
		reason string // empty if the run passes with its own figures
	}{
		"the result, as it was": {stage: v1alpha1.StageMeasure, attack: func(w *worldtest.World, _ *v1alpha1.BenchmarkRun, kept *corev1.ConfigMap) { w.PutBack(kept) }},
		"the result, labelled": {stage: v1alpha1.StageMeasure, reason: "ResultForged", attack: func(w *worldtest.World, run *v1alpha1.BenchmarkRun, kept *corev1.ConfigMap) {
			kept.Labels = kube.RunLabels(run, kube.RoleResult)
			w.PutBack(kept)
		}},
		"the notes": {
			stage: v1alpha1.StageMeasure, reason: "SnapshotForged",
			kept:   snapshot,
			attack: putBackSnapshot,
		},
		"the notes, before there are any": {
			stage: v1alpha1.StageLoad, reason: "SnapshotForged",
			kept:   snapshot,
			attack: putBackSnapshot,
		},
		"the clocks alone, under the notes of now": {
			stage: v1alpha1.StageMeasure, reason: "SnapshotForged",
			kept: snapshot,
			attack: func(w *worldtest.World, run *v1alpha1.BenchmarkRun, kept *corev1.ConfigMap) {
				cm := snapshot(w, run)
				cm.BinaryData["clocks-end.json.gz"], cm.Data["clocks-end.json.gz.seal"] = kept.BinaryData["clocks-end.json.gz"], kept.Data["clocks-end.json.gz.seal"]
				w.Must(w.Client.Update(w.Ctx, cm))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Pending = 1 // so that stage Evaluate waits
			w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
			run := w.UntilStage("r", v1alpha1.StageEvaluate)
			var kept *corev1.ConfigMap
			if tt.kept != nil {
				kept = keep(tt.kept(w, run))
			}
			w.Pending = 0
			passed(t, w.UntilOver("r"))
			if kept == nil {
				kept = keep(w.Get("r-result", &corev1.ConfigMap{}).(*corev1.ConfigMap))
			}
			w.Rerun("two", func(s *v1alpha1.BenchmarkRunSpec) { s.Cancel = true })
			w.ChangeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.RunID, s.Cancel = "", false })
			w.Committed = 70
			w.Until("it has started", func() bool { return w.GetRun("r").Status.Stage == tt.stage })
			kept.OwnerReferences[0].Controller = ptr.To(true)
			tt.attack(w, w.GetRun("r"), kept)
			run = w.UntilOver("r")
			if tt.reason != "" {
				invalid(t, run, tt.reason)
				if run.Status.Summary != nil {
					t.Errorf("the status shows %+v", run.Status.Summary)
				}
				return
			}
			passed(t, run)
			if got := run.Status.Summary.Committed; got != 2*70 {
				t.Errorf("%d transactions committed, want %d", got, 2*70)
			}
		})
	}
}

// A ConfigMap that replaces the result after the end of the run is not accepted as the run's result.
func TestEarlierResultPutBackAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
	w.UntilOver("r")
	kept := keep(w.Get("r-result", &corev1.ConfigMap{}).(*corev1.ConfigMap))
	w.FakeClock.Step(time.Minute)
	w.Rerun("two")
	w.Rerun("")
	kept.Labels = kube.RunLabels(w.GetRun("r"), kube.RoleResult)
	w.PutBack(kept)
	second := worldtest.MakeRun("s").Database("d")
	second.Spec.BaselineRef = &v1alpha1.LocalReference{Name: "r"}
	w.Create(second.Obj())
	st := w.UntilOver("s").Status
	if st.Baseline == nil || st.Baseline.Verdict != v1alpha1.ChangeUndecided || meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionNotRegressed) {
		t.Errorf("baseline %+v", st.Baseline)
	}
}
