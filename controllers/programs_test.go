package controllers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
)

// A program that ends while it is measured, and is started again in its pod, has been away: no fault says so.
func TestProgramRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").program().client().emulation(v1alpha1.EmulationSidecar).obj(), makeRun("r").database("d").obj())
	w.untilStage("r", v1alpha1.StageMeasure)
	pod := w.nodePod("d", "ap-northeast-1", 0)
	c := &pod.Status.ContainerStatuses[0]
	c.RestartCount++
	c.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}
	w.must(w.client.Status().Update(w.ctx, pod))
	invalid(t, w.untilOver("r"), "NodeLost", "d-ap-northeast-1-0", "OOMKilled")
}

// mounts gives the pods of the program() database a ConfigMap with their configuration.
func (w *world) mounts(text string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"db.conf": text}}
	w.create(cm)
	return cm
}

func (w *world) rewrite(change func(cm *corev1.ConfigMap)) {
	w.t.Helper()
	cm := w.get("c", &corev1.ConfigMap{}).(*corev1.ConfigMap)
	change(cm)
	w.must(w.client.Update(w.ctx, cm))
}

// A configuration that is edited while no run goes on is read by all pods, made anew, before the next run measures; the result tells which one
// that was.
func TestConfigurationIsEditedBeforeARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mounts("fsync = on")
	w.create(makeDatabase("d").program().client().emulation(v1alpha1.EmulationSidecar).obj(), makeRun("r").database("d").obj())
	if run := w.untilOver("r"); run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	before := w.getDatabase("d").Status.Incarnation
	w.rewrite(func(cm *corev1.ConfigMap) { cm.Data["db.conf"] = "fsync = off" })
	w.create(makeRun("s").database("d").obj())
	if run := w.untilOver("s"); run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	if now := w.getDatabase("d").Status.Incarnation; now == before {
		t.Errorf("the pods of incarnation %s go on with what they have read", now)
	}
	a, b := w.document("r").Manifests.ConfigMaps, w.document("s").Manifests.ConfigMaps
	if len(a) != 1 || len(b) != 1 || a["c"] == "" || a["c"] == b["c"] {
		t.Errorf("the results have ConfigMaps %v and %v", a, b)
	}
}

// A configuration that is edited while a run goes on makes it Invalid: the files in the pods change, and nobody knows who reads them. One that
// is only written to does not.
func TestConfigurationIsEditedDuringARun(t *testing.T) {
	for name, tt := range map[string]struct {
		attack func(w *world)
		reason string
		says   string // of the condition ManifestsUnchanged, where the run passes
	}{
		"edited":      {attack: func(w *world) { w.rewrite(func(cm *corev1.ConfigMap) { cm.Data["db.conf"] = "fsync = off" }) }, reason: "ManifestEdited"},
		"a file more": {attack: func(w *world) { w.rewrite(func(cm *corev1.ConfigMap) { cm.BinaryData = map[string][]byte{"x": {1}} }) }, reason: "ManifestEdited"},
		"deleted":     {attack: func(w *world) { w.must(w.client.Delete(w.ctx, w.get("c", &corev1.ConfigMap{}))) }, reason: "ManifestEdited"},
		"edited, and edited back": {attack: func(w *world) {
			w.rewrite(func(cm *corev1.ConfigMap) { cm.Data["db.conf"] = "fsync = off" })
			w.rewrite(func(cm *corev1.ConfigMap) { cm.Data["db.conf"] = "fsync = on" })
		}, says: "ConfigMap c (it was written, and says what it did before)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.mounts("fsync = on")
			w.create(makeDatabase("d").program().client().emulation(v1alpha1.EmulationSidecar).obj(), makeRun("r").database("d").obj())
			w.untilStage("r", v1alpha1.StageMeasure)
			tt.attack(w)
			run := w.untilOver("r")
			if tt.reason != "" {
				invalid(t, run, tt.reason, "ConfigMap c")
				return
			}
			c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionManifestsUnchanged)
			if run.Status.Verdict != v1alpha1.VerdictPassed || c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, tt.says) {
				t.Errorf("the run ended %s %s: %s; %+v", run.Status.Verdict, run.Status.Reason, run.Status.Message, c)
			}
		})
	}
}
