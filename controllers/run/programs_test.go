package run_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/worldtest"
)

// A program that exits during the measurement and restarts in its pod makes the run Invalid, because no fault declares
// the outage.
func TestProgramRestarts(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Program().Client().Emulation(v1alpha1.EmulationSidecar).Obj(), worldtest.MakeRun("r").Database("d").Obj())
	w.UntilStage("r", v1alpha1.StageMeasure)
	w.RunsOutOfMemory()
	invalid(t, w.UntilOver("r"), "NodeLost", "d-ap-northeast-1-0", "OOMKilled")
}

// A node that recovers from its journal counts as the same process. The run is still Invalid, because the node was
// unavailable and its counters start at 0 again.
func TestNodeWithAJournalRestarts(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	db := worldtest.MakeDatabase("d").Obj()
	db.Spec.Durability = v1alpha1.DurabilityJournal
	w.Create(db, worldtest.MakeRun("r").Database("d").Obj())
	w.UntilStage("r", v1alpha1.StageMeasure)
	w.RunsOutOfMemory()
	invalid(t, w.UntilOver("r"), "NodeLost", "d-ap-northeast-1-0", "OOMKilled", "no fault of the manifest declares")
}

// If a configuration is edited while no run is in progress, all pods are replaced and read it before the next run
// measures. The result names the configuration.
func TestConfigurationIsEditedBeforeARun(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Mounts("fsync = on")
	w.Create(worldtest.MakeDatabase("d").Program().Client().Emulation(v1alpha1.EmulationSidecar).Obj(), worldtest.MakeRun("r").Database("d").Obj())
	if run := w.UntilOver("r"); run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	before := w.GetDatabase("d").Status.Incarnation
	w.Rewrite(func(cm *corev1.ConfigMap) { cm.Data["db.conf"] = "fsync = off" })
	w.Create(worldtest.MakeRun("s").Database("d").Obj())
	if run := w.UntilOver("s"); run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	if now := w.GetDatabase("d").Status.Incarnation; now == before {
		t.Errorf("the pods of incarnation %s go on with what they have read", now)
	}
	a, b := w.Document("r").Manifests.ConfigMaps, w.Document("s").Manifests.ConfigMaps
	if len(a) != 1 || len(b) != 1 || a["c"] == "" || a["c"] == b["c"] {
		t.Errorf("the results have ConfigMaps %v and %v", a, b)
	}
}

// An edit of a configuration during a run makes the run Invalid. The files in the pods change, and it is unknown which
// programs read them. After a write that changes nothing, the run stays valid.
func TestConfigurationIsEditedDuringARun(t *testing.T) {
	for name, tt := range map[string]struct {
		attack func(w *worldtest.World)
		reason string
		says   string // expected in the condition ManifestsUnchanged, if the run passes
	}{
		"edited": {attack: func(w *worldtest.World) { w.Rewrite(func(cm *corev1.ConfigMap) { cm.Data["db.conf"] = "fsync = off" }) }, reason: "ManifestEdited"},
		"a file more": {attack: func(w *worldtest.World) {
			w.Rewrite(func(cm *corev1.ConfigMap) { cm.BinaryData = map[string][]byte{"x": {1}} })
		}, reason: "ManifestEdited"},
		"deleted": {attack: func(w *worldtest.World) { w.Must(w.Client.Delete(w.Ctx, w.Get("c", &corev1.ConfigMap{}))) }, reason: "ManifestEdited"},
		"edited, and edited back": {attack: func(w *worldtest.World) {
			w.Rewrite(func(cm *corev1.ConfigMap) { cm.Data["db.conf"] = "fsync = off" })
			w.Rewrite(func(cm *corev1.ConfigMap) { cm.Data["db.conf"] = "fsync = on" })
		}, says: "ConfigMap c (it was written, and says what it did before)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Mounts("fsync = on")
			w.Create(worldtest.MakeDatabase("d").Program().Client().Emulation(v1alpha1.EmulationSidecar).Obj(), worldtest.MakeRun("r").Database("d").Obj())
			w.UntilStage("r", v1alpha1.StageMeasure)
			tt.attack(w)
			run := w.UntilOver("r")
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

// The resources and the containers of a node's pod can change while it runs, by hand or by an autoscaler.
func TestPodsAreChangedDuringARun(t *testing.T) {
	cpu := func(n string) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}}
	}
	for name, tt := range map[string]struct {
		change func(pod *corev1.Pod)
		says   []string // nil if the run passes
	}{
		"resized": {func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Resources = cpu("4") }, []string{`container node may use {"limits":{"cpu":"4"}`, `no longer {"limits":{"cpu":"2"}`}},
		"looked into": {func(pod *corev1.Pod) {
			pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debugger-x", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}, []string{"container debugger-x was put into it"}},
		"nothing is told of it": {func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Resources = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			db := worldtest.MakeDatabase("d").Obj()
			db.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
			w.Create(db)
			w.UntilReady("d")
			change := func(f func(pod *corev1.Pod)) {
				pod := w.NodePod("d", "ap-northeast-1", 0)
				f(pod)
				w.Must(w.Client.Status().Update(w.Ctx, pod))
			}
			change(func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Resources = cpu("2") })
			w.Create(worldtest.MakeRun("r").Database("d").Obj())
			w.UntilStage("r", v1alpha1.StageMeasure)
			change(tt.change)
			run := w.UntilOver("r")
			if tt.says != nil {
				invalid(t, run, "PodChanged", append(tt.says, "d-ap-northeast-1-0")...)
			} else if run.Status.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
			}
		})
	}
}
