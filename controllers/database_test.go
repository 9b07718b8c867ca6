package controllers

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
	"github.com/geobench/geobench/internal/ops/deploy"
)

func TestDatabaseIsDeployed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").partitions(2).replicas(2).obj())
	db := w.untilReady("d")
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
		if !conditionIs(db.Status.Conditions, c, metav1.ConditionTrue) {
			t.Errorf("condition %s is not true", c)
		}
	}
	cm := w.get(kube.TopologyName(db, db.Status.Incarnation), &corev1.ConfigMap{}).(*corev1.ConfigMap)
	var d deploy.Database
	w.must(json.Unmarshal([]byte(cm.Data[database.TopologyKey]), &d))
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
	if want := "d-ap-northeast-1-3.d-ap-northeast-1." + w.namespace + ".svc:7000"; d.Nodes[7].Address != want {
		t.Errorf("the last node is at %s, want %s", d.Nodes[7].Address, want)
	}
	if d.Topology.Links[0][1].Delay != 50*time.Millisecond || !d.Emulate {
		t.Errorf("the link is %+v", d.Topology.Links[0][1])
	}
	// A quiet database is not written again, not even with what it has already.
	w.operatorClient = func() client.Client {
		return interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
			Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
				t.Errorf("%s %s is patched for ever", kube.KindOf(obj), obj.GetName())
				return nil
			},
		})
	}
	w.restartOperator()
	objects := []client.Object{db, w.get("d-us-west-2", &appsv1.StatefulSet{}), w.get("d-us-west-2", &corev1.Service{}), cm}
	for range 5 {
		w.step()
	}
	for _, was := range objects {
		now := w.get(was.GetName(), was.DeepCopyObject().(client.Object))
		if now.GetResourceVersion() != was.GetResourceVersion() {
			t.Errorf("%s %s was written again:\n%s", kube.KindOf(was), was.GetName(), cmp.Diff(was, now))
		}
	}
}

func TestChangeRestartsTheDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj())
	before := w.untilReady("d")
	pod := w.nodePod("d", "us-west-2", 0)
	w.patchDatabase("d", func(db *v1alpha1.GeoDatabase) { db.Spec.PartitionsPerRegion = 2 })
	w.until("the new topology serves", func() bool { return w.getDatabase("d").Status.ReadyNodes == "4/4" })
	after := w.untilReady("d")
	if after.Status.Incarnation == before.Status.Incarnation || after.Status.TopologyHash == before.Status.TopologyHash {
		t.Errorf("incarnation %s, hash %s did not change", after.Status.Incarnation, after.Status.TopologyHash)
	}
	if now := w.nodePod("d", "us-west-2", 0); now.UID == pod.UID {
		t.Error("a pod of the old topology lives on")
	}
	w.patchDatabase("d", func(db *v1alpha1.GeoDatabase) { db.Spec.Regions = db.Spec.Regions[:1] })
	w.until("only one region is left", func() bool {
		sets := &appsv1.StatefulSetList{}
		w.must(w.client.List(w.ctx, sets, client.InNamespace(w.namespace)))
		cms := &corev1.ConfigMapList{}
		w.must(w.client.List(w.ctx, cms, client.InNamespace(w.namespace), client.MatchingLabels{kube.LabelRole: kube.RoleTopology}))
		return len(sets.Items) == 1 && len(cms.Items) == 1
	})
}

func (w *world) patchDatabase(name string, change func(*v1alpha1.GeoDatabase)) {
	w.t.Helper()
	db := w.getDatabase(name)
	base := db.DeepCopy()
	change(db)
	w.must(w.client.Patch(w.ctx, db, client.MergeFrom(base)))
}

func TestChangeWaitsForTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
	w.untilStage("r", v1alpha1.StageMeasure)
	before := w.getDatabase("d").Status.Incarnation
	w.patchDatabase("d", func(db *v1alpha1.GeoDatabase) { db.Spec.PartitionsPerRegion = 2 })
	w.create(makeRun("s").database("d").obj())
	w.until("the change is seen to wait", func() bool {
		for _, c := range w.getDatabase("d").Status.Conditions {
			if c.Type == v1alpha1.ConditionProgressing && c.Reason == "RunActive" && strings.Contains(c.Message, "BenchmarkRun r") {
				return true
			}
		}
		return false
	})
	if run := w.untilOver("r"); run.Status.Verdict != v1alpha1.VerdictPassed || run.Status.DatabaseIncarnation != before {
		t.Errorf("the run ended %s: %s", run.Status.Verdict, run.Status.Message)
	}
	// The run that waited measures the new topology.
	run := w.untilOver("s")
	if db := w.getDatabase("d"); run.Status.Verdict != v1alpha1.VerdictPassed || run.Status.DatabaseIncarnation == before || db.Status.ReadyNodes != "4/4" {
		t.Errorf("the second run ended %s on %s: %s", run.Status.Verdict, run.Status.DatabaseIncarnation, run.Status.Message)
	}
}

func TestEngineCannotChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj())
	db := w.getDatabase("d")
	base := db.DeepCopy()
	db.Spec.Engine.Name = "slog"
	if err := w.client.Patch(w.ctx, db, client.MergeFrom(base)); err == nil || !strings.Contains(err.Error(), "engine.name cannot change") {
		t.Errorf("the API server says %v", err)
	}
}

func TestLostStateMakesTheDatabaseAnew(t *testing.T) {
	tests := map[string]func(*world){
		"broken":  func(w *world) { w.nodes[w.nodePod("d", "us-west-2", 0).Status.PodIP].broken = true },
		"process": func(w *world) { w.nodes[w.nodePod("d", "us-west-2", 0).Status.PodIP].process = "another" },
		"restart": func(w *world) {
			pod := w.nodePod("d", "us-west-2", 0)
			pod.Status.ContainerStatuses[0].RestartCount = 1
			w.must(w.client.Status().Update(w.ctx, pod))
		},
		"pod replaced": func(w *world) {
			w.must(w.client.Delete(w.ctx, w.nodePod("d", "us-west-2", 0), client.GracePeriodSeconds(0)))
		},
	}
	for name, lose := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(makeDatabase("d").obj())
			before := w.untilReady("d").Status.Incarnation
			survivor := w.nodePod("d", "ap-northeast-1", 0).UID
			lose(w)
			w.until("the database is made anew", func() bool { return w.getDatabase("d").Status.Incarnation != before })
			w.until("it serves again", func() bool {
				return conditionIs(w.getDatabase("d").Status.Conditions, v1alpha1.ConditionNodesReady, metav1.ConditionTrue)
			})
			if w.nodePod("d", "ap-northeast-1", 0).UID == survivor {
				t.Error("a node of the lost incarnation lives on")
			}
			if !w.hasEvent("StateLost") {
				t.Error("no event tells of the loss")
			}
		})
	}
}

// A node with a journal goes on when its container is started again; a pod that is replaced has lost it.
func TestJournalOutlivesTheContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := makeDatabase("d")
	db.Spec.Durability = v1alpha1.DurabilityJournal
	w.create(db.obj())
	before := w.untilReady("d").Status.Incarnation
	pod := w.nodePod("d", "us-west-2", 0)
	node := pod.Spec.Containers[0]
	const folder = "/var/lib/geobench"
	if !slices.Contains(node.Args, folder) || node.VolumeMounts[2].MountPath != folder || pod.Spec.Volumes[2].EmptyDir == nil {
		t.Errorf("args %q, mounts %+v, volumes %+v", node.Args, node.VolumeMounts, pod.Spec.Volumes)
	}
	pod.Status.ContainerStatuses[0].RestartCount = 1
	w.must(w.client.Status().Update(w.ctx, pod))
	for range 5 {
		w.step()
	}
	if d := w.getDatabase("d"); d.Status.Incarnation != before || !conditionIs(d.Status.Conditions, v1alpha1.ConditionNodesReady, metav1.ConditionTrue) {
		t.Errorf("incarnation %s, before %s; %+v", d.Status.Incarnation, before, d.Status.Conditions)
	}
	w.must(w.client.Delete(w.ctx, w.nodePod("d", "us-west-2", 0), client.GracePeriodSeconds(0)))
	w.until("the database is made anew", func() bool { return w.getDatabase("d").Status.Incarnation != before })
}

// hasEvent tells whether an event with this reason was emitted, and forgets the events so far.
func (w *world) hasEvent(reason string) bool {
	found := false
	for {
		select {
		case e := <-w.recorder.Events:
			found = found || strings.Contains(e, " "+reason+" ")
		default:
			return found
		}
	}
}

func TestDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tests := map[string]struct {
		db              *databaseBuilder
		reason, message string
	}{
		"engine":    {func() *databaseBuilder { b := makeDatabase("engine"); b.Spec.Engine.Name = "oracle"; return b }(), "InvalidSpec", "oracle"},
		"parameter": {makeDatabase("parameter").parameter("colour", "red"), "InvalidSpec", "colour"},
		"profile":   {makeDatabase("profile").profileRef("nowhere"), "ProfileNotFound", "nowhere"},
		"emulation": {makeDatabase("emulation").program().emulation(v1alpha1.EmulationBuiltIn), "InvalidSpec", "choose Sidecar"},
	}
	for name, tt := range tests {
		w.create(tt.db.obj())
		w.step()
		found := false
		for _, c := range w.getDatabase(name).Status.Conditions {
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
	w.must(w.client.List(w.ctx, sets, client.InNamespace(w.namespace)))
	if len(sets.Items) > 0 {
		t.Errorf("%d StatefulSets were made", len(sets.Items))
	}
}

func TestPresetProfile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := makeDatabase("d").profileRef("smallbank-two-regions")
	resolved, err := database.ResolveProfile(w.ctx, w.client, db.in(w.namespace).obj())
	w.must(err)
	profile := resolved.Spec
	db.Spec.Regions = []v1alpha1.Region{{Name: profile.Links[0].From}, {Name: profile.Links[0].To}}
	w.create(db.obj())
	w.untilReady("d")
	// A profile of the same name in the namespace comes first.
	own := &v1alpha1.NetworkProfile{ObjectMeta: metav1.ObjectMeta{Name: "smallbank-two-regions"}, Spec: *profile}
	own.Spec.Links = []v1alpha1.Link{{From: profile.Links[0].From, To: profile.Links[0].To, RTT: v1alpha1.DurationOf(30 * time.Millisecond)}}
	w.create(own)
	w.until("the namespace's profile is used", func() bool {
		for _, l := range w.getDatabase("d").Status.Links {
			if l.From != l.To && l.DeclaredRTTMicroseconds == 30_000 {
				return true
			}
		}
		return false
	})
}
