package controllers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
)

// runsOutOfMemory ends the container of the second region's first node, which is started again in its pod.
func (w *world) runsOutOfMemory() {
	w.t.Helper()
	pod := w.nodePod("d", "ap-northeast-1", 0)
	c := &pod.Status.ContainerStatuses[0]
	c.RestartCount++
	c.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}
	w.must(w.client.Status().Update(w.ctx, pod))
}

// A program that ends while it is measured, and is started again in its pod, has been away: no fault says so.
func TestProgramRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").program().client().emulation(v1alpha1.EmulationSidecar).obj(), makeRun("r").database("d").obj())
	w.untilStage("r", v1alpha1.StageMeasure)
	w.runsOutOfMemory()
	invalid(t, w.untilOver("r"), "NodeLost", "d-ap-northeast-1-0", "OOMKilled")
}

// A node that goes on from its journal is the process that it was, but it was away, and its counters begin at 0.
func TestNodeWithAJournalRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := makeDatabase("d").obj()
	db.Spec.Durability = v1alpha1.DurabilityJournal
	w.create(db, makeRun("r").database("d").obj())
	w.untilStage("r", v1alpha1.StageMeasure)
	w.runsOutOfMemory()
	invalid(t, w.untilOver("r"), "NodeLost", "d-ap-northeast-1-0", "OOMKilled", "no fault of the manifest declares")
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

// A configuration that is edited while no run goes on is read by all pods, made anew, before the next run measures; the
// result tells which one that was.
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

// A configuration that is edited while a run goes on makes it Invalid: the files in the pods change, and nobody knows
// who reads them. One that is only written to does not.
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

// What a node's pod may use can be changed while it runs, and so can who else is in it: by hand, or by an autoscaler.
func TestPodsAreChangedDuringARun(t *testing.T) {
	cpu := func(n string) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}}
	}
	for name, tt := range map[string]struct {
		change func(pod *corev1.Pod)
		says   []string // nothing where the run passes
	}{
		"resized": {func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Resources = cpu("4") }, []string{`container node may use {"limits":{"cpu":"4"}`, `no longer {"limits":{"cpu":"2"}`}},
		"looked into": {func(pod *corev1.Pod) {
			pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debugger-x", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}, []string{"container debugger-x was put into it"}},
		"nothing is told of it": {func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Resources = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			db := makeDatabase("d").obj()
			db.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
			w.create(db)
			w.untilReady("d")
			change := func(f func(pod *corev1.Pod)) {
				pod := w.nodePod("d", "ap-northeast-1", 0)
				f(pod)
				w.must(w.client.Status().Update(w.ctx, pod))
			}
			change(func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Resources = cpu("2") })
			w.create(makeRun("r").database("d").obj())
			w.untilStage("r", v1alpha1.StageMeasure)
			change(tt.change)
			run := w.untilOver("r")
			if tt.says != nil {
				invalid(t, run, "PodChanged", append(tt.says, "d-ap-northeast-1-0")...)
			} else if run.Status.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
			}
		})
	}
}
