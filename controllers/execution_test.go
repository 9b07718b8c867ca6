package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
)

// rerun changes the runID of run r and waits until the run that follows is over.
func (w *world) rerun(runID string, change ...func(*v1alpha1.BenchmarkRunSpec)) *v1alpha1.BenchmarkRun {
	w.t.Helper()
	was := w.getRun("r").Status.Execution
	w.changeRun(func(s *v1alpha1.BenchmarkRunSpec) {
		s.RunID, s.Cancel = runID, false
		for _, c := range change {
			c(s)
		}
	})
	w.until("run r is over for runID "+runID, func() bool {
		run := w.getRun("r")
		return run.Status.ObservedGeneration == run.Generation && kube.Settled(run) && run.Status.Execution != was
	})
	return w.getRun("r")
}

// keep returns an object as it can be created again, by a user who may write ConfigMaps.
func keep(cm *corev1.ConfigMap) *corev1.ConfigMap {
	kept := cm.DeepCopy()
	kept.ResourceVersion, kept.UID, kept.ManagedFields = "", "", nil
	return kept
}

// putBack creates a ConfigMap in place of the one that has its name.
func (w *world) putBack(cm *corev1.ConfigMap) {
	w.t.Helper()
	old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: cm.Name, Namespace: cm.Namespace}}
	_ = w.client.Delete(w.ctx, old) // there may be none
	w.must(w.client.Create(w.ctx, cm))
}

// A run that returns to an earlier runID, as Flux does when it takes a patch back, is another execution: what is left
// of the earlier one is not its result.
func TestEarlierRunIDIsAnotherExecution(t *testing.T) {
	for name, again := range map[string]func(w *world){
		"the execution between them is cancelled": func(w *world) {
			w.rerun("two", func(s *v1alpha1.BenchmarkRunSpec) { s.Cancel = true })
		},
		"the execution between them has a result": func(w *world) { w.rerun("two") },
		"it is suspended between them": func(w *world) {
			w.changeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.RunID, s.Suspend = "two", true })
			w.until("it is held", func() bool { return w.getRun("r").Status.Stage == "" })
			w.changeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.RunID, s.Suspend = "", false })
			w.until("it has started", func() bool { return w.getRun("r").Status.Stage != "" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
			first := w.untilOver("r")
			passed(t, first)
			loads := w.loads
			again(w)
			w.committed = 70
			second := w.getRun("r")
			if second.Spec.RunID != "" {
				second = w.rerun("")
			} else {
				second = w.untilOver("r")
			}
			passed(t, second)
			if got := second.Status.Summary.Committed; got != 2*70 {
				t.Errorf("%d transactions committed, want %d: these are the figures of an earlier execution", got, 2*70)
			}
			if second.Status.Execution == first.Status.Execution || second.Status.Execution == "" {
				t.Errorf("execution %q follows %q", second.Status.Execution, first.Status.Execution)
			}
			if w.loads < loads+2 {
				t.Errorf("the data was loaded %d times before and %d times in all: rows of an earlier execution were used", loads, w.loads)
			}
			at := w.document("r").Execution
			if at == nil || at.ID != second.Status.Execution || !at.WarmupStartTime.Equal(second.Status.WarmupStartTime.Time) || len(at.Windows) != 1 || !at.Windows[0].Opened.Equal(second.Status.MeasureStartTime.Time) ||
				at.Windows[0].Closed.Sub(at.Windows[0].Opened) != second.Spec.Load.Duration.Duration {
				t.Errorf("the document is of %+v, and the status says %s, %s", at, second.Status.Execution, second.Status.MeasureStartTime)
			}
		})
	}
}

// A functional test that an earlier execution played says nothing of the database of a later one.
func TestTestsOfAnEarlierExecutionAreNotTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").tests().obj())
	passed(t, w.untilOver("r"))
	was := w.getRun("r-snapshot")
	w.rerun("two", func(s *v1alpha1.BenchmarkRunSpec) { s.Cancel = true })
	passed(t, w.rerun(""))
	if now := w.getRun("r-snapshot"); now.Status.Execution == was.Status.Execution {
		t.Errorf("functional test %s of %s was not played again", now.Name, was.Status.CompletionTime)
	}
}

// snapshot returns the ConfigMap with the operator's notes on a run.
func snapshot(w *world, run *v1alpha1.BenchmarkRun) *corev1.ConfigMap {
	return w.get(kube.SnapshotName(run), &corev1.ConfigMap{}).(*corev1.ConfigMap)
}

// putBackSnapshot puts an earlier execution's snapshot in place of this one's.
func putBackSnapshot(w *world, run *v1alpha1.BenchmarkRun, kept *corev1.ConfigMap) {
	kept.Name, kept.Labels = kube.SnapshotName(run), kube.RunLabels(run, kube.RoleSnapshot)
	w.putBack(kept)
}

// A user who may write ConfigMaps keeps those of a good execution and puts them back in a later one with the same
// runID.
func TestConfigMapsOfAnEarlierExecutionAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		kept   func(w *world, run *v1alpha1.BenchmarkRun) *corev1.ConfigMap // while the first execution judges
		attack func(w *world, run *v1alpha1.BenchmarkRun, kept *corev1.ConfigMap)
		stage  v1alpha1.Stage
		reason string // empty: the run passes, with its own figures
	}{
		"the result, as it was": {stage: v1alpha1.StageMeasure, attack: func(w *world, _ *v1alpha1.BenchmarkRun, kept *corev1.ConfigMap) { w.putBack(kept) }},
		"the result, labelled": {stage: v1alpha1.StageMeasure, reason: "ResultForged", attack: func(w *world, run *v1alpha1.BenchmarkRun, kept *corev1.ConfigMap) {
			kept.Labels = kube.RunLabels(run, kube.RoleResult)
			w.putBack(kept)
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
			attack: func(w *world, run *v1alpha1.BenchmarkRun, kept *corev1.ConfigMap) {
				cm := snapshot(w, run)
				cm.BinaryData["clocks-end.json.gz"], cm.Data["clocks-end.json.gz.seal"] = kept.BinaryData["clocks-end.json.gz"], kept.Data["clocks-end.json.gz.seal"]
				w.must(w.client.Update(w.ctx, cm))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.pending = 1 // so that stage Evaluate waits
			w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
			run := w.untilStage("r", v1alpha1.StageEvaluate)
			var kept *corev1.ConfigMap
			if tt.kept != nil {
				kept = keep(tt.kept(w, run))
			}
			w.pending = 0
			passed(t, w.untilOver("r"))
			if kept == nil {
				kept = keep(w.get("r-result", &corev1.ConfigMap{}).(*corev1.ConfigMap))
			}
			w.rerun("two", func(s *v1alpha1.BenchmarkRunSpec) { s.Cancel = true })
			w.changeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.RunID, s.Cancel = "", false })
			w.committed = 70
			w.until("it has started", func() bool { return w.getRun("r").Status.Stage == tt.stage })
			kept.OwnerReferences[0].Controller = ptr.To(true)
			tt.attack(w, w.getRun("r"), kept)
			run = w.untilOver("r")
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

// What was put in place of the result after the end is not what the run has left.
func TestEarlierResultPutBackAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
	w.untilOver("r")
	kept := keep(w.get("r-result", &corev1.ConfigMap{}).(*corev1.ConfigMap))
	w.clock.Step(time.Minute)
	w.rerun("two")
	w.rerun("")
	kept.Labels = kube.RunLabels(w.getRun("r"), kube.RoleResult)
	w.putBack(kept)
	second := makeRun("s").database("d")
	second.Spec.BaselineRef = &v1alpha1.LocalReference{Name: "r"}
	w.create(second.obj())
	st := w.untilOver("s").Status
	if st.Baseline == nil || st.Baseline.Verdict != v1alpha1.ChangeUndecided || meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionNotRegressed) {
		t.Errorf("baseline %+v", st.Baseline)
	}
}
