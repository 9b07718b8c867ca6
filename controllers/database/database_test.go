package database_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/ops/deploy"
)

func TestDatabaseIsDeployed(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Partitions(2).Replicas(2).Obj())
	db := w.UntilReady("d")
	if db.Status.ReadyNodes != "8/8" || db.Status.Emulation != v1alpha1.EmulationBuiltIn || db.Status.RegionNames != "us-west-2,ap-northeast-1" ||
		db.Status.ObservedGeneration != db.Generation {
		t.Errorf("status is %+v", db.Status)
	}
	if len(db.Status.Links) != 4 {
		t.Errorf("links are %+v", db.Status.Links)
	}
	for _, l := range db.Status.Links {
		if l.From != l.To && (l.DeclaredRTTMicroseconds != 100_000 || l.MeasuredRTTMicroseconds.P50 < 99_000 || l.Samples == 0) {
			t.Errorf("link is %+v", l)
		}
	}
	for _, c := range []string{v1alpha1.ConditionNodesReady, v1alpha1.ConditionNetworkEmulated, v1alpha1.ConditionNetworkVerified} {
		if !worldtest.ConditionIs(db.Status.Conditions, c, metav1.ConditionTrue) {
			t.Errorf("condition %s is not true", c)
		}
	}
	cm := w.Get(kube.TopologyName(db, db.Status.Incarnation), &corev1.ConfigMap{}).(*corev1.ConfigMap)
	var d deploy.Database
	w.Must(json.Unmarshal([]byte(cm.Data[database.TopologyKey]), &d))
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
	if want := "d-ap-northeast-1-3.d-ap-northeast-1." + w.Namespace + ".svc:7000"; d.Nodes[7].Address != want {
		t.Errorf("the last node is at %s, want %s", d.Nodes[7].Address, want)
	}
	if d.Topology.Links[0][1].Delay != 50*time.Millisecond || !d.Emulate {
		t.Errorf("the link is %+v", d.Topology.Links[0][1])
	}
	// The status of an idle database is not written again, not even with unchanged values.
	w.OperatorClient = func() client.Client {
		return interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
			Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
				t.Errorf("%s %s is patched for ever", kube.KindOf(obj), obj.GetName())
				return nil
			},
		})
	}
	w.RestartOperator()
	objects := []client.Object{db, w.Get("d-us-west-2", &appsv1.StatefulSet{}), w.Get("d-us-west-2", &corev1.Service{}), cm}
	for range 5 {
		w.Step()
	}
	for _, was := range objects {
		now := w.Get(was.GetName(), was.DeepCopyObject().(client.Object))
		if now.GetResourceVersion() != was.GetResourceVersion() {
			t.Errorf("%s %s was written again:\n%s", kube.KindOf(was), was.GetName(), cmp.Diff(was, now))
		}
	}
}

func TestChangeRestartsTheDatabase(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj())
	before := w.UntilReady("d")
	pod := w.NodePod("d", "us-west-2", 0)
	w.PatchDatabase("d", func(db *v1alpha1.GeoDatabase) { db.Spec.PartitionsPerRegion = 2 })
	w.Until("the new topology serves", func() bool { return w.GetDatabase("d").Status.ReadyNodes == "4/4" })
	after := w.UntilReady("d")
	if after.Status.Incarnation == before.Status.Incarnation || after.Status.TopologyHash == before.Status.TopologyHash {
		t.Errorf("incarnation %s, hash %s did not change", after.Status.Incarnation, after.Status.TopologyHash)
	}
	if now := w.NodePod("d", "us-west-2", 0); now.UID == pod.UID {
		t.Error("a pod of the old topology lives on")
	}
	w.PatchDatabase("d", func(db *v1alpha1.GeoDatabase) { db.Spec.Regions = db.Spec.Regions[:1] })
	w.Until("only one region is left", func() bool {
		sets := &appsv1.StatefulSetList{}
		w.Must(w.Client.List(w.Ctx, sets, client.InNamespace(w.Namespace)))
		cms := &corev1.ConfigMapList{}
		w.Must(w.Client.List(w.Ctx, cms, client.InNamespace(w.Namespace), client.MatchingLabels{kube.LabelRole: kube.RoleTopology}))
		return len(sets.Items) == 1 && len(cms.Items) == 1
	})
}

func TestChangeWaitsForTheRun(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
	w.UntilStage("r", v1alpha1.StageMeasure)
	before := w.GetDatabase("d").Status.Incarnation
	w.PatchDatabase("d", func(db *v1alpha1.GeoDatabase) { db.Spec.PartitionsPerRegion = 2 })
	w.Create(worldtest.MakeRun("s").Database("d").Obj())
	w.Until("the change is seen to wait", func() bool {
		for _, c := range w.GetDatabase("d").Status.Conditions {
			if c.Type == v1alpha1.ConditionProgressing && c.Reason == "RunActive" && strings.Contains(c.Message, "BenchmarkRun r") {
				return true
			}
		}
		return false
	})
	if run := w.UntilOver("r"); run.Status.Verdict != v1alpha1.VerdictPassed || run.Status.DatabaseIncarnation != before {
		t.Errorf("the run ended %s: %s", run.Status.Verdict, run.Status.Message)
	}
	// The waiting run measures the new topology.
	run := w.UntilOver("s")
	if db := w.GetDatabase("d"); run.Status.Verdict != v1alpha1.VerdictPassed || run.Status.DatabaseIncarnation == before || db.Status.ReadyNodes != "4/4" {
		t.Errorf("the second run ended %s on %s: %s", run.Status.Verdict, run.Status.DatabaseIncarnation, run.Status.Message)
	}
}

func TestEngineCannotChange(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj())
	db := w.GetDatabase("d")
	base := db.DeepCopy()
	db.Spec.Engine.Name = "slog"
	if err := w.Client.Patch(w.Ctx, db, client.MergeFrom(base)); err == nil || !strings.Contains(err.Error(), "engine.name cannot change") {
		t.Errorf("the API server says %v", err)
	}
}

func TestLostStateMakesTheDatabaseAnew(t *testing.T) {
	tests := map[string]func(*worldtest.World){
		"broken": func(w *worldtest.World) { w.PlayedNodes[w.NodePod("d", "us-west-2", 0).Status.PodIP].Broken = true },
		"process": func(w *worldtest.World) {
			w.PlayedNodes[w.NodePod("d", "us-west-2", 0).Status.PodIP].Process = "another"
		},
		"restart": func(w *worldtest.World) {
			pod := w.NodePod("d", "us-west-2", 0)
			pod.Status.ContainerStatuses[0].RestartCount = 1
			w.Must(w.Client.Status().Update(w.Ctx, pod))
		},
		"pod replaced": func(w *worldtest.World) {
			w.Must(w.Client.Delete(w.Ctx, w.NodePod("d", "us-west-2", 0), client.GracePeriodSeconds(0)))
		},
	}
	for name, lose := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(worldtest.MakeDatabase("d").Obj())
			before := w.UntilReady("d").Status.Incarnation
			survivor := w.NodePod("d", "ap-northeast-1", 0).UID
			lose(w)
			w.Until("the database is made anew", func() bool { return w.GetDatabase("d").Status.Incarnation != before })
			w.Until("it serves again", func() bool {
				return worldtest.ConditionIs(w.GetDatabase("d").Status.Conditions, v1alpha1.ConditionNodesReady, metav1.ConditionTrue)
			})
			if w.NodePod("d", "ap-northeast-1", 0).UID == survivor {
				t.Error("a node of the lost incarnation lives on")
			}
			if !w.HasEvent("StateLost") {
				t.Error("no event tells of the loss")
			}
		})
	}
}

// TestJournalOutlivesTheContainer checks that a node with a journal continues when its container restarts, and that a
// replaced pod has lost its journal.
func TestJournalOutlivesTheContainer(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	db := worldtest.MakeDatabase("d")
	db.Spec.Durability = v1alpha1.DurabilityJournal
	w.Create(db.Obj())
	before := w.UntilReady("d").Status.Incarnation
	pod := w.NodePod("d", "us-west-2", 0)
	node := pod.Spec.Containers[0]
	const folder = "/var/lib/geobench"
	if !slices.Contains(node.Args, folder) || node.VolumeMounts[2].MountPath != folder || pod.Spec.Volumes[2].EmptyDir == nil {
		t.Errorf("args %q, mounts %+v, volumes %+v", node.Args, node.VolumeMounts, pod.Spec.Volumes)
	}
	pod.Status.ContainerStatuses[0].RestartCount = 1
	w.Must(w.Client.Status().Update(w.Ctx, pod))
	for range 5 {
		w.Step()
	}
	if d := w.GetDatabase("d"); d.Status.Incarnation != before || !worldtest.ConditionIs(d.Status.Conditions, v1alpha1.ConditionNodesReady, metav1.ConditionTrue) {
		t.Errorf("incarnation %s, before %s; %+v", d.Status.Incarnation, before, d.Status.Conditions)
	}
	w.Must(w.Client.Delete(w.Ctx, w.NodePod("d", "us-west-2", 0), client.GracePeriodSeconds(0)))
	w.Until("the database is made anew", func() bool { return w.GetDatabase("d").Status.Incarnation != before })
}

func TestDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	tests := map[string]struct {
		db              *worldtest.DatabaseBuilder
		reason, message string
	}{
		"engine": {func() *worldtest.DatabaseBuilder {
			b := worldtest.MakeDatabase("engine")
			b.Spec.Engine.Name = "oracle"
			return b
		}(), "InvalidSpec", "oracle"},
		"parameter": {worldtest.MakeDatabase("parameter").Parameter("colour", "red"), "InvalidSpec", "colour"},
		"profile":   {worldtest.MakeDatabase("profile").ProfileRef("nowhere"), "ProfileNotFound", "nowhere"},
		"emulation": {worldtest.MakeDatabase("emulation").Program().Emulation(v1alpha1.EmulationBuiltIn), "InvalidSpec", "choose Sidecar"},
	}
	for name, tt := range tests {
		w.Create(tt.db.Obj())
		w.Step()
		found := false
		for _, c := range w.GetDatabase(name).Status.Conditions {
			if c.Type == v1alpha1.ConditionNodesReady {
				found = true
				if c.Status != metav1.ConditionFalse || c.Reason != tt.reason || !strings.Contains(c.Message, tt.message) {
					t.Errorf("%s: condition is %s %s: %s", name, c.Status, c.Reason, c.Message)
				}
			}
		}
		if !found {
			t.Errorf("%s: there is no condition Ready", name)
		}
	}
	sets := &appsv1.StatefulSetList{}
	w.Must(w.Client.List(w.Ctx, sets, client.InNamespace(w.Namespace)))
	if len(sets.Items) > 0 {
		t.Errorf("%d StatefulSets were made", len(sets.Items))
	}
}

func TestPresetProfile(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	db := worldtest.MakeDatabase("d").ProfileRef("smallbank-two-regions")
	resolved, err := database.ResolveProfile(w.Ctx, w.Client, db.In(w.Namespace).Obj())
	w.Must(err)
	profile := resolved.Spec
	db.Spec.Regions = []v1alpha1.Region{{Name: profile.Links[0].From}, {Name: profile.Links[0].To}}
	w.Create(db.Obj())
	w.UntilReady("d")
	// A profile of the same name in the namespace takes precedence.
	own := &v1alpha1.NetworkProfile{ObjectMeta: metav1.ObjectMeta{Name: "smallbank-two-regions"}, Spec: *profile}
	own.Spec.Links = []v1alpha1.Link{{From: profile.Links[0].From, To: profile.Links[0].To, RTT: v1alpha1.DurationOf(30 * time.Millisecond)}}
	w.Create(own)
	w.Until("the namespace's profile is used", func() bool {
		for _, l := range w.GetDatabase("d").Status.Links {
			if l.From != l.To && l.DeclaredRTTMicroseconds == 30_000 {
				return true
			}
		}
		return false
	})
}
