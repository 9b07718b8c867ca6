package run_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/net/emulation"
)

// With Chaos Mesh and a kernel that can delay packets, Auto selects Chaos Mesh. Its objects are created once pods run,
// are updated with the pods, and are deleted before the database.
func TestChaosMesh(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Kernel, w.ChaosMesh = `{}`, true
	w.Create(worldtest.MakeDatabase("d").Program().Obj())
	db := w.UntilReady("d")
	if db.Status.Emulation != v1alpha1.EmulationChaosMesh || db.Status.EmulationReason != "Auto: Chaos Mesh is installed, and the kernel of every node can delay packets" {
		t.Errorf("emulation %s: %s", db.Status.Emulation, db.Status.EmulationReason)
	}
	names := func() (out []string) {
		for _, o := range w.NetworkChaos().Items {
			out = append(out, o.GetName())
		}
		return out
	}
	first := names()
	if len(first) != 2 {
		t.Errorf("objects %q", first)
	}
	pod := w.NodePod("d", "us-west-2", 0)
	if len(pod.Spec.InitContainers) != 1 || pod.Spec.InitContainers[0].Name != "geobench-probe" {
		t.Errorf("sidecars %+v", pod.Spec.InitContainers)
	}
	w.Must(w.Client.Delete(w.Ctx, pod, client.GracePeriodSeconds(0)))
	w.Until("the objects were made anew", func() bool {
		now := names()
		return len(now) == 2 && !slices.Contains(first, now[0]) && !slices.Contains(first, now[1])
	})
	w.UntilReady("d")

	// While Chaos Mesh does not respond, the objects and the database remain, until the objects are removed by force.
	w.ChaosMesh = false
	w.Must(w.Client.Delete(w.Ctx, w.GetDatabase("d")))
	for range 5 {
		w.Step()
	}
	if w.GetDatabase("d").DeletionTimestamp == nil || len(names()) != 2 {
		t.Errorf("left: %q", names())
	}
	w.Until("it is gone", func() bool {
		err := w.Client.Get(w.Ctx, client.ObjectKeyFromObject(db), &v1alpha1.GeoDatabase{})
		return apierrors.IsNotFound(err) && len(names()) == 0
	})
}

// A backend that is requested by name but does not work is refused, with the reason and an alternative.
func TestChaosMeshWithoutNetem(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Emulation(v1alpha1.EmulationChaosMesh).Obj())
	w.Until("it is refused", func() bool {
		for _, c := range w.GetDatabase("d").Status.Conditions {
			if c.Type == v1alpha1.ConditionNodesReady && c.Reason == "EmulationUnsupported" {
				return strings.Contains(c.Message, "no queueing discipline netem: no such file or directory; choose Sidecar, or Auto")
			}
		}
		return false
	})
	if n := len(w.NetworkChaos().Items); n > 0 {
		t.Errorf("%d objects were made before the probe said no", n)
	}
	pods := &corev1.PodList{}
	w.Must(w.Client.List(w.Ctx, pods, client.InNamespace(w.Namespace)))
	if len(pods.Items) > 0 {
		t.Errorf("pods are left: %s", pods.Items[0].Name)
	}
}

// Sidecars provide the declared network for a program that is not part of Geobench.
func TestProgramBehindSidecars(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Program().Emulation(v1alpha1.EmulationAuto).Obj())
	db := w.UntilReady("d")
	if db.Status.Emulation != v1alpha1.EmulationSidecar || !strings.Contains(db.Status.EmulationReason, "Auto: not ChaosMesh, because the kernel of node n1 cannot delay packets: no queueing discipline netem") {
		t.Errorf("emulation %s: %s", db.Status.Emulation, db.Status.EmulationReason)
	}
	if len(db.Status.EmulationGaps) != 0 {
		t.Errorf("gaps %+v", db.Status.EmulationGaps)
	}
	pod := w.NodePod("d", "us-west-2", 0)
	config, err := w.SidecarConfig(pod)
	if err != nil {
		t.Fatal(err)
	}
	if config.Region != "us-west-2" || config.Generation != 1 || len(config.Links) != 2 {
		t.Errorf("config %+v", config)
	}
	for _, l := range config.Links {
		want := map[string]int64{"us-west-2": 0, "ap-northeast-1": 50_000}[l.From]
		if l.DelayMicros != want {
			t.Errorf("link from %s has %d us, want %d", l.From, l.DelayMicros, want)
		}
	}
	var hosts []string
	for _, p := range config.Peers {
		hosts = append(hosts, p.Region+" "+p.Host)
	}
	slices.Sort(hosts)
	want := []string{
		"ap-northeast-1 d-ap-northeast-1-0.d-ap-northeast-1." + w.Namespace + ".svc", "ap-northeast-1 d-ap-northeast-1-workers." + w.Namespace + ".svc",
		"us-west-2 d-us-west-2-workers." + w.Namespace + ".svc",
	}
	if !slices.Equal(hosts, want) {
		t.Errorf("peers %q, want %q", hosts, want)
	}
	w.Get("d-us-west-2-workers", &corev1.Service{})
	var names []string
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, []string{emulation.SidecarName, "geobench-probe"}) {
		t.Errorf("sidecars %q", names)
	}
	env := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	if env["GEOBENCH_REGIONS"] != "us-west-2,ap-northeast-1" || env["GEOBENCH_HOSTS"] != "d-us-west-2-0.d-us-west-2."+w.Namespace+".svc,d-ap-northeast-1-0.d-ap-northeast-1."+w.Namespace+".svc" {
		t.Errorf("environment %v", env)
	}

	// The objects of an idle database are not written again.
	objects := []client.Object{w.GetDatabase("d"), w.Get("d-us-west-2", &appsv1.StatefulSet{}), w.Get("d-us-west-2-workers", &corev1.Service{}), w.Get("d-network-us-west-2", &corev1.ConfigMap{}), pod}
	for range 5 {
		w.Step()
	}
	for _, was := range objects {
		if now := w.Get(was.GetName(), was.DeepCopyObject().(client.Object)); now.GetResourceVersion() != was.GetResourceVersion() {
			t.Errorf("%s %s was written again", kube.KindOf(was), was.GetName())
		}
	}
}

// A replaced pod of a program does not start a new incarnation, but its replacement is recorded as a gap.
func TestReplacedPodLeavesAGap(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.LinksShort = map[string]bool{}
	w.Create(worldtest.MakeDatabase("d").Program().Emulation(v1alpha1.EmulationSidecar).Obj())
	before := w.UntilReady("d")
	pod := w.NodePod("d", "us-west-2", 0)
	w.LinksShort[pod.Name] = true
	w.Must(w.Client.Delete(w.Ctx, pod, client.GracePeriodSeconds(0)))
	w.Until("the gap is open", func() bool { return len(w.GetDatabase("d").Status.EmulationGaps) == 1 })
	g := w.GetDatabase("d").Status.EmulationGaps[0]
	replaced := w.NodePod("d", "us-west-2", 0)
	if g.Pod != pod.Name || g.UID != string(replaced.UID) || g.Region != "us-west-2" || g.To != nil || !g.From.Time.Equal(replaced.CreationTimestamp.Time) {
		t.Errorf("gap %+v, pod of %s", g, replaced.CreationTimestamp)
	}
	at := replaced.CreationTimestamp.Add(2500 * time.Millisecond).UTC()
	w.Mu.Lock()
	w.PlayedNodes[replaced.Status.PodIP].Complete = at
	w.Mu.Unlock()
	w.Until("the gap is closed", func() bool { return w.GetDatabase("d").Status.EmulationGaps[0].To != nil })
	db := w.UntilReady("d")
	if g := db.Status.EmulationGaps; len(g) != 1 || g[0].To.Sub(g[0].From.Time) != 2500*time.Millisecond {
		t.Errorf("gaps %+v", g)
	}
	// The same pod loses its links once more. This adds exactly one gap, no matter how often the operator observes the
	// pod.
	w.Mu.Lock()
	w.PlayedNodes[replaced.Status.PodIP].Complete = time.Time{}
	w.Mu.Unlock()
	for range 4 {
		w.Step()
	}
	if g := w.GetDatabase("d").Status.EmulationGaps; len(g) != 2 || g[1].To != nil {
		t.Errorf("gaps %+v", g)
	}
	if db.Status.Incarnation != before.Status.Incarnation {
		t.Errorf("incarnation %s became %s", before.Status.Incarnation, db.Status.Incarnation)
	}
}

// The network counts as emulated only once every sidecar reports it.
func TestSidecarsThatLag(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.PlayedSidecars.Behind = 1
	w.Create(worldtest.MakeDatabase("d").Emulation(v1alpha1.EmulationSidecar).Obj())
	w.Until("nodes are ready", func() bool {
		return worldtest.ConditionIs(w.GetDatabase("d").Status.Conditions, v1alpha1.ConditionNodesReady, metav1.ConditionTrue)
	})
	for range 3 {
		w.Step()
	}
	db := w.GetDatabase("d")
	for _, kind := range []string{v1alpha1.ConditionNetworkEmulated, v1alpha1.ConditionNetworkVerified} {
		for _, c := range db.Status.Conditions {
			if c.Type == kind && (c.Status != metav1.ConditionFalse || c.Reason != "SidecarNotReady" || !strings.Contains(c.Message, "generation 0 of its configuration, of 1")) {
				t.Errorf("%s is %+v", kind, c)
			}
		}
	}
	w.PlayedSidecars.Behind = 0
	w.UntilReady("d")
	// Nodes of Geobench's own engines with sidecars do not delay messages themselves.
	if d := w.PlayedNodes[w.NodePod("d", "us-west-2", 0).Status.PodIP].Database; d.Emulate {
		t.Error("nodes and sidecars would both delay")
	}
	// A change of the backend requires a new incarnation, and the old backend leaves no objects.
	w.PatchDatabase("d", func(db *v1alpha1.GeoDatabase) { db.Spec.Network.Emulation = v1alpha1.EmulationBuiltIn })
	w.Until("the sidecars are gone", func() bool {
		left := 0
		for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &corev1.ServiceList{}} {
			w.Must(w.Client.List(w.Ctx, list, client.InNamespace(w.Namespace), client.MatchingLabels{kube.LabelRole: kube.RoleNetwork}))
			switch l := list.(type) {
			case *corev1.ConfigMapList:
				left += len(l.Items)
			case *corev1.ServiceList:
				left += len(l.Items)
			}
		}
		return left == 0 && len(w.NodePod("d", "us-west-2", 0).Spec.InitContainers) == 0
	})
	w.UntilReady("d")
}

// Workers of a run also have sidecars, and the run waits for the network that the sidecars emulate.
func TestRunBehindSidecars(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Emulation(v1alpha1.EmulationSidecar).Obj(), worldtest.MakeRun("r").Database("d").Obj())
	w.UntilStage("r", v1alpha1.StageMeasure)
	pods := &corev1.PodList{}
	w.Must(w.Client.List(w.Ctx, pods, client.InNamespace(w.Namespace), client.MatchingLabels{kube.LabelRole: kube.RoleWorker}))
	if len(pods.Items) != 2 {
		t.Fatalf("%d workers", len(pods.Items))
	}
	for i := range pods.Items {
		config, err := w.SidecarConfig(&pods.Items[i])
		if err != nil {
			t.Fatal(err)
		}
		if config.Region != pods.Items[i].Labels[kube.LabelRegion] || len(config.Peers) != 4 {
			t.Errorf("config of a worker %+v", config)
		}
	}
	if run := w.UntilOver("r"); run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("%s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	if doc := w.Document("r"); doc.Emulation != string(v1alpha1.EmulationSidecar) {
		t.Errorf("the result says emulation %q", doc.Emulation)
	}
}

// If pods may not change their network, Sidecar is refused with an alternative. Auto then injects nothing and states
// the reason.
func TestSidecarsAreForbidden(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("violates PodSecurity restricted"))
	inner, ok := w.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("the client is a %T", w.Client)
	}
	c := interceptor.NewClient(inner, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		if pod, ok := obj.(*corev1.Pod); ok && len(pod.Spec.Containers[0].SecurityContext.Capabilities.Add) > 0 {
			return forbidden
		}
		return c.Create(ctx, obj, opts...)
	}})
	w.OperatorClient = func() client.Client { return c }
	w.RestartOperator()
	w.Create(worldtest.MakeDatabase("d").Emulation(v1alpha1.EmulationSidecar).Obj(), worldtest.MakeDatabase("p").Program().Obj())
	w.Until("it is refused", func() bool {
		for _, c := range w.GetDatabase("d").Status.Conditions {
			if c.Type == v1alpha1.ConditionNodesReady && c.Reason == "EmulationUnsupported" {
				return strings.Contains(c.Message, "violates PodSecurity") && strings.Contains(c.Message, "choose BuiltIn")
			}
		}
		return false
	})
	w.Until("auto has chosen", func() bool { return w.GetDatabase("p").Status.Emulation != "" })
	if st := w.GetDatabase("p").Status; st.Emulation != v1alpha1.EmulationNone || !strings.Contains(st.EmulationReason, "violates PodSecurity") {
		t.Errorf("emulation %s: %s", st.Emulation, st.EmulationReason)
	}
}

// A namespace with an exhausted quota accepts no pod at all. That says nothing about sidecars, so a database waits, and
// Auto does not fall back to a network without delay.
func TestQuotaIsUsedUp(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
	w.Create(quota)
	quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	w.Must(w.Client.Status().Update(w.Ctx, quota))
	w.Create(worldtest.MakeDatabase("d").Emulation(v1alpha1.EmulationSidecar).Obj(), worldtest.MakeDatabase("p").Program().Obj())
	for _, name := range []string{"d", "p"} {
		for range 3 {
			w.Reconcile(w.Database, w.GetDatabase(name))
		}
		db := w.GetDatabase(name)
		c := meta.FindStatusCondition(db.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Reason != "Probing" || !strings.Contains(c.Message, "takes no pod, whatever it may do") || !strings.Contains(c.Message, "exceeded quota") || db.Status.Emulation != "" {
			t.Errorf("%s: emulation %q, condition %+v", name, db.Status.Emulation, c)
		}
	}
	w.Must(w.Client.Delete(w.Ctx, quota))
	for _, name := range []string{"d", "p"} {
		w.Until(name+" has chosen", func() bool { return w.GetDatabase(name).Status.Emulation == v1alpha1.EmulationSidecar })
	}
}
