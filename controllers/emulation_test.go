package controllers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/apiservertest"
	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/net/emulation"
	"github.com/geobench/geobench/internal/net/emulation/chaosmesh"
	"github.com/geobench/geobench/internal/net/wan"
	"github.com/geobench/geobench/internal/ops/admin"
)

// fakeSidecars play the sidecars: each runs the configuration that its pod's volume shows, unless behind says how many
// generations it lags.
type fakeSidecars struct {
	w      *world
	behind int64
	gone   bool
	// late is how late they change from one phase to the next.
	late time.Duration
	// files and logs by the pod's UID; the operator asks several sidecars at once.
	mu    sync.Mutex
	files map[types.UID]*wan.Config
	logs  map[types.UID]*wan.Log
	// zero is when their monotonic clocks showed 0, and records are what those of some pods tell of their lateness.
	zero    time.Time
	records map[string]*late.Record
}

// follow lets all sidecars do what is due by their files, and read them.
func (f *fakeSidecars) follow() {
	pods := &corev1.PodList{}
	f.w.must(f.w.client.List(f.w.ctx, pods, client.InNamespace(f.w.namespace)))
	now := f.w.clock.Now()
	for i := range pods.Items {
		pod := &pods.Items[i]
		if c, err := f.w.sidecarConfig(pod); err == nil && pod.Status.PodIP != "" && !f.w.shutDown[pod.Name] {
			f.read(pod.UID, c, now)
		}
	}
}

func (f *fakeSidecars) read(uid types.UID, file *wan.Config, now time.Time) wan.Log {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.logs[uid]
	if l == nil {
		l = &wan.Log{Process: string(uid), Since: now}
		f.logs[uid], f.files[uid] = l, file
	}
	was := f.files[uid]
	for i := range was.Phases {
		if at := was.Phases[i].From.Add(f.late); !at.After(now) && len(l.Entries) > 0 && at.After(l.Entries[len(l.Entries)-1].From) {
			c, _ := was.At(was.Phases[i].From)
			l.Change(at, c)
		}
	}
	c, _ := file.At(now.Add(-f.late))
	l.Change(now, c)
	f.files[uid] = file
	seen := *l
	seen.Entries = slices.Clone(l.Entries)
	return seen
}

func (f *fakeSidecars) Log(ctx context.Context, addr string) (*wan.Log, time.Duration, time.Duration, error) {
	pod, c, err := f.pod(ctx, addr)
	if err != nil {
		return nil, 0, 0, err
	}
	l := f.read(pod.UID, c, f.w.clock.Now())
	l.Now, l.Monotonic = f.w.clock.Now(), f.w.clock.Since(f.zero)
	l.Late = f.records[pod.Name]
	return &l, 0, time.Millisecond, nil
}

func (f *fakeSidecars) Status(ctx context.Context, addr string) (*wan.Status, error) {
	pod, c, err := f.pod(ctx, addr)
	if err != nil {
		return nil, err
	}
	f.read(pod.UID, c, f.w.clock.Now())
	return &wan.Status{Pod: pod.Name, Region: c.Region, Generation: c.Generation - f.behind, Ready: true}, nil
}

// pod finds the pod at an address, and what its sidecar reads.
func (f *fakeSidecars) pod(ctx context.Context, addr string) (*corev1.Pod, *wan.Config, error) {
	if f.gone {
		return nil, nil, errors.New("connection refused")
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, nil, err
	}
	pods := &corev1.PodList{}
	if err := f.w.client.List(ctx, pods, client.InNamespace(f.w.namespace)); err != nil {
		return nil, nil, err
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Status.PodIP == host && !f.w.shutDown[pod.Name] {
			c, err := f.w.sidecarConfig(pod)
			return pod, c, err
		}
	}
	return nil, nil, errors.New("no pod has this address")
}

// sidecarConfig reads what a pod's sidecar reads.
func (w *world) sidecarConfig(pod *corev1.Pod) (*wan.Config, error) {
	if len(pod.Spec.InitContainers) == 0 || pod.Spec.InitContainers[0].Name != emulation.SidecarName {
		return nil, errors.New("the pod has no sidecar")
	}
	for _, v := range pod.Spec.Volumes {
		if v.Name != emulation.SidecarName {
			continue
		}
		cm := &corev1.ConfigMap{}
		if err := w.client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: v.ConfigMap.Name}, cm); err != nil {
			return nil, err
		}
		args := pod.Spec.InitContainers[0].Args
		_, file := path.Split(args[slices.Index(args, "--config")+1])
		return wan.ParseConfig([]byte(cm.Data[strings.ReplaceAll(file, "$(POD_NAME)", pod.Name)]))
	}
	return nil, errors.New("the sidecar has no volume")
}

// playProbes plays the kubelet for probe pods.
func (w *world) playProbes() {
	w.t.Helper()
	pods := &corev1.PodList{}
	w.must(w.client.List(w.ctx, pods, client.InNamespace(w.namespace), client.MatchingLabels{kube.LabelRole: kube.RoleNetwork}))
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "probe", Image: testImage, ImageID: "x",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", Message: w.kernel}}}}
		w.must(w.client.Status().Update(w.ctx, pod))
	}
}

func (w *world) networkChaos() *unstructured.UnstructuredList { return w.chaos(chaosmesh.NetworkChaos) }

func (w *world) chaos(kind string) *unstructured.UnstructuredList {
	w.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(chaosmesh.GroupVersion.WithKind(kind + "List"))
	w.must(w.client.List(w.ctx, list, client.InNamespace(w.namespace)))
	return list
}

// playChaosMesh injects what is there and lets go of what is deleted.
func (w *world) playChaosMesh() {
	w.t.Helper()
	if !w.chaosMesh {
		return
	}
	for _, kind := range apiservertest.ChaosMeshKinds {
		list := w.chaos(kind)
		for i := range list.Items {
			o := &list.Items[i]
			switch {
			case o.GetDeletionTimestamp() != nil:
				o.SetFinalizers(nil)
				if isPodFailure(o) {
					w.startAgain(w.chosen(o))
				}
			case w.chaosWaits != nil && w.chaosWaits(o):
				continue
			case len(o.GetFinalizers()) == 0:
				o.SetFinalizers([]string{"chaos-mesh/records"})
				conditions := []any{map[string]any{"type": "Selected", "status": "True"}, map[string]any{"type": "AllInjected", "status": "True"}}
				w.must(unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions"))
				var records []any
				for _, name := range w.chosen(o) {
					records = append(records, map[string]any{"id": w.namespace + "/" + name + "/node", "phase": "Injected"})
				}
				w.must(unstructured.SetNestedSlice(o.Object, records, "status", "experiment", "containerRecords"))
				w.chaosActs(o)
			default:
				continue
			}
			w.must(client.IgnoreNotFound(w.client.Update(w.ctx, o)))
		}
	}
}

// chosen are the pods that an object names.
func (w *world) chosen(o *unstructured.Unstructured) []string {
	w.t.Helper()
	names, _, err := unstructured.NestedStringSlice(o.Object, "spec", "selector", "pods", w.namespace)
	w.must(err)
	return names
}

func isPodFailure(o *unstructured.Unstructured) bool {
	action, _, _ := unstructured.NestedString(o.Object, "spec", "action")
	return action == "pod-failure"
}

// startAgain gives pods their images back: nodes go on from their journals, sidecars know of nothing.
func (w *world) startAgain(pods []string) {
	w.t.Helper()
	for _, name := range pods {
		delete(w.shutDown, name)
		delete(w.sidecars.logs, w.get(name, &corev1.Pod{}).(*corev1.Pod).UID)
	}
}

// chaosActs kills the pods, or their containers, that an object names.
func (w *world) chaosActs(o *unstructured.Unstructured) {
	w.t.Helper()
	w.chaosMade = append(w.chaosMade, o)
	action, _, _ := unstructured.NestedString(o.Object, "spec", "action")
	if action != "pod-kill" && action != "container-kill" && !isPodFailure(o) {
		return
	}
	for _, name := range w.chosen(o) {
		pod := w.get(name, &corev1.Pod{}).(*corev1.Pod)
		if action != "pod-kill" {
			pod.Status.ContainerStatuses[0].RestartCount++
			pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 137, FinishedAt: metav1.NewTime(w.clock.Now())}
			w.must(w.client.Status().Update(w.ctx, pod))
			n := w.nodes[pod.Status.PodIP]
			if !slices.Contains(pod.Spec.Containers[0].Args, "--journal") && !n.program {
				w.ended = append(w.ended, n)
				w.startNode(pod.Status.PodIP, fmt.Sprintf("%s-%d", pod.UID, pod.Status.ContainerStatuses[0].RestartCount), pod)
				continue
			}
			now := w.clock.Since(n.zero)
			n.follow(now)
			n.do(now, &admin.Disturbance{}) // it goes on from its journal
			n.taken = 0
			if isPodFailure(o) {
				w.shutDown[name] = true
			}
			continue
		}
		w.must(w.client.Delete(w.ctx, pod, client.GracePeriodSeconds(0)))
	}
}

// With Chaos Mesh and a kernel that can delay, Auto takes it; objects are made once pods run, follow the pods, and are
// gone before the database is.
func TestChaosMesh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.kernel, w.chaosMesh = `{}`, true
	w.create(makeDatabase("d").program().obj())
	db := w.untilReady("d")
	if db.Status.Emulation != v1alpha1.EmulationChaosMesh || db.Status.EmulationReason != "Auto: Chaos Mesh is installed, and the kernel of every node can delay packets" {
		t.Errorf("emulation %s: %s", db.Status.Emulation, db.Status.EmulationReason)
	}
	names := func() (out []string) {
		for _, o := range w.networkChaos().Items {
			out = append(out, o.GetName())
		}
		return out
	}
	first := names()
	if len(first) != 2 {
		t.Errorf("objects %q", first)
	}
	pod := w.nodePod("d", "us-west-2", 0)
	if len(pod.Spec.InitContainers) != 1 || pod.Spec.InitContainers[0].Name != "geobench-probe" {
		t.Errorf("sidecars %+v", pod.Spec.InitContainers)
	}
	w.must(w.client.Delete(w.ctx, pod, client.GracePeriodSeconds(0)))
	w.until("the objects were made anew", func() bool {
		now := names()
		return len(now) == 2 && !slices.Contains(first, now[0]) && !slices.Contains(first, now[1])
	})
	w.untilReady("d")

	// Without Chaos Mesh's answer the objects remain, and so does the database, until they are forced.
	w.chaosMesh = false
	w.must(w.client.Delete(w.ctx, w.getDatabase("d")))
	for range 5 {
		w.step()
	}
	if w.getDatabase("d").DeletionTimestamp == nil || len(names()) != 2 {
		t.Errorf("left: %q", names())
	}
	w.until("it is gone", func() bool {
		err := w.client.Get(w.ctx, client.ObjectKeyFromObject(db), &v1alpha1.GeoDatabase{})
		return apierrors.IsNotFound(err) && len(names()) == 0
	})
}

// A backend that was asked for by name and does not work is refused with the reason and a way out.
func TestChaosMeshWithoutNetem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").emulation(v1alpha1.EmulationChaosMesh).obj())
	w.until("it is refused", func() bool {
		for _, c := range w.getDatabase("d").Status.Conditions {
			if c.Type == v1alpha1.ConditionNodesReady && c.Reason == "EmulationUnsupported" {
				return strings.Contains(c.Message, "no queueing discipline netem: no such file or directory; choose Sidecar, or Auto")
			}
		}
		return false
	})
	if n := len(w.networkChaos().Items); n > 0 {
		t.Errorf("%d objects were made before the probe said no", n)
	}
	pods := &corev1.PodList{}
	w.must(w.client.List(w.ctx, pods, client.InNamespace(w.namespace)))
	if len(pods.Items) > 0 {
		t.Errorf("pods are left: %s", pods.Items[0].Name)
	}
}

// A program that knows nothing of Geobench meets the declared network by a sidecar.
func TestProgramBehindSidecars(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").program().emulation(v1alpha1.EmulationAuto).obj())
	db := w.untilReady("d")
	if db.Status.Emulation != v1alpha1.EmulationSidecar || !strings.Contains(db.Status.EmulationReason, "Auto: not ChaosMesh, because the kernel of node n1 cannot delay packets: no queueing discipline netem") {
		t.Errorf("emulation %s: %s", db.Status.Emulation, db.Status.EmulationReason)
	}
	if len(db.Status.EmulationGaps) != 0 {
		t.Errorf("gaps %+v", db.Status.EmulationGaps)
	}
	pod := w.nodePod("d", "us-west-2", 0)
	config, err := w.sidecarConfig(pod)
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
		"ap-northeast-1 d-ap-northeast-1-0.d-ap-northeast-1." + w.namespace + ".svc", "ap-northeast-1 d-ap-northeast-1-workers." + w.namespace + ".svc",
		"us-west-2 d-us-west-2-workers." + w.namespace + ".svc",
	}
	if !slices.Equal(hosts, want) {
		t.Errorf("peers %q, want %q", hosts, want)
	}
	w.get("d-us-west-2-workers", &corev1.Service{})
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
	if env["GEOBENCH_REGIONS"] != "us-west-2,ap-northeast-1" || env["GEOBENCH_HOSTS"] != "d-us-west-2-0.d-us-west-2."+w.namespace+".svc,d-ap-northeast-1-0.d-ap-northeast-1."+w.namespace+".svc" {
		t.Errorf("environment %v", env)
	}

	// A quiet database is not written again.
	objects := []client.Object{w.getDatabase("d"), w.get("d-us-west-2", &appsv1.StatefulSet{}), w.get("d-us-west-2-workers", &corev1.Service{}), w.get("d-network-us-west-2", &corev1.ConfigMap{}), pod}
	for range 5 {
		w.step()
	}
	for _, was := range objects {
		if now := w.get(was.GetName(), was.DeepCopyObject().(client.Object)); now.GetResourceVersion() != was.GetResourceVersion() {
			t.Errorf("%s %s was written again", kube.KindOf(was), was.GetName())
		}
	}
}

// A program's pod that is replaced is neither a new incarnation nor without a trace: the gap is there.
func TestReplacedPodLeavesAGap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.linksShort = map[string]bool{}
	w.create(makeDatabase("d").program().emulation(v1alpha1.EmulationSidecar).obj())
	before := w.untilReady("d")
	pod := w.nodePod("d", "us-west-2", 0)
	w.linksShort[pod.Name] = true
	w.must(w.client.Delete(w.ctx, pod, client.GracePeriodSeconds(0)))
	w.until("the gap is open", func() bool { return len(w.getDatabase("d").Status.EmulationGaps) == 1 })
	g := w.getDatabase("d").Status.EmulationGaps[0]
	replaced := w.nodePod("d", "us-west-2", 0)
	if g.Pod != pod.Name || g.UID != string(replaced.UID) || g.Region != "us-west-2" || g.To != nil || !g.From.Time.Equal(replaced.CreationTimestamp.Time) {
		t.Errorf("gap %+v, pod of %s", g, replaced.CreationTimestamp)
	}
	at := replaced.CreationTimestamp.Add(2500 * time.Millisecond).UTC()
	w.mu.Lock()
	w.nodes[replaced.Status.PodIP].complete = at
	w.mu.Unlock()
	w.until("the gap is closed", func() bool { return w.getDatabase("d").Status.EmulationGaps[0].To != nil })
	db := w.untilReady("d")
	if g := db.Status.EmulationGaps; len(g) != 1 || g[0].To.Sub(g[0].From.Time) != 2500*time.Millisecond {
		t.Errorf("gaps %+v", g)
	}
	// The same pod's links are lost once more: one more gap, however often it is looked at.
	w.mu.Lock()
	w.nodes[replaced.Status.PodIP].complete = time.Time{}
	w.mu.Unlock()
	for range 4 {
		w.step()
	}
	if g := w.getDatabase("d").Status.EmulationGaps; len(g) != 2 || g[1].To != nil {
		t.Errorf("gaps %+v", g)
	}
	if db.Status.Incarnation != before.Status.Incarnation {
		t.Errorf("incarnation %s became %s", before.Status.Incarnation, db.Status.Incarnation)
	}
}

// The network counts as emulated only once each sidecar says so.
func TestSidecarsThatLag(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sidecars.behind = 1
	w.create(makeDatabase("d").emulation(v1alpha1.EmulationSidecar).obj())
	w.until("nodes are ready", func() bool {
		return conditionIs(w.getDatabase("d").Status.Conditions, v1alpha1.ConditionNodesReady, metav1.ConditionTrue)
	})
	for range 3 {
		w.step()
	}
	db := w.getDatabase("d")
	for _, kind := range []string{v1alpha1.ConditionNetworkEmulated, v1alpha1.ConditionNetworkVerified} {
		for _, c := range db.Status.Conditions {
			if c.Type == kind && (c.Status != metav1.ConditionFalse || c.Reason != "SidecarNotReady" || !strings.Contains(c.Message, "generation 0 of its configuration, of 1")) {
				t.Errorf("%s is %+v", kind, c)
			}
		}
	}
	w.sidecars.behind = 0
	w.untilReady("d")
	// The operator's nodes are native ones: the pods delay nothing by themselves.
	if d := w.nodes[w.nodePod("d", "us-west-2", 0).Status.PodIP].database; d.Emulate {
		t.Error("nodes and sidecars would both delay")
	}
	// Another backend is another incarnation, and the old one leaves nothing behind.
	w.patchDatabase("d", func(db *v1alpha1.GeoDatabase) { db.Spec.Network.Emulation = v1alpha1.EmulationBuiltIn })
	w.until("the sidecars are gone", func() bool {
		left := 0
		for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &corev1.ServiceList{}} {
			w.must(w.client.List(w.ctx, list, client.InNamespace(w.namespace), client.MatchingLabels{kube.LabelRole: kube.RoleNetwork}))
			switch l := list.(type) {
			case *corev1.ConfigMapList:
				left += len(l.Items)
			case *corev1.ServiceList:
				left += len(l.Items)
			}
		}
		return left == 0 && len(w.nodePod("d", "us-west-2", 0).Spec.InitContainers) == 0
	})
	w.untilReady("d")
}

// Workers of a run get a sidecar too, and the run waits for the network that the sidecars make.
func TestRunBehindSidecars(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").emulation(v1alpha1.EmulationSidecar).obj(), makeRun("r").database("d").obj())
	w.untilStage("r", v1alpha1.StageMeasure)
	pods := &corev1.PodList{}
	w.must(w.client.List(w.ctx, pods, client.InNamespace(w.namespace), client.MatchingLabels{kube.LabelRole: kube.RoleWorker}))
	if len(pods.Items) != 2 {
		t.Fatalf("%d workers", len(pods.Items))
	}
	for i := range pods.Items {
		config, err := w.sidecarConfig(&pods.Items[i])
		if err != nil {
			t.Fatal(err)
		}
		if config.Region != pods.Items[i].Labels[kube.LabelRegion] || len(config.Peers) != 4 {
			t.Errorf("config of a worker %+v", config)
		}
	}
	if run := w.untilOver("r"); run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("%s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	if doc := w.document("r"); doc.Emulation != string(v1alpha1.EmulationSidecar) {
		t.Errorf("the result says emulation %q", doc.Emulation)
	}
}

// Where pods may not change their network, Sidecar is refused with a way out, and Auto injects nothing and says why.
func TestSidecarsAreForbidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("violates PodSecurity restricted"))
	inner, ok := w.client.(client.WithWatch)
	if !ok {
		t.Fatalf("the client is a %T", w.client)
	}
	c := interceptor.NewClient(inner, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		if pod, ok := obj.(*corev1.Pod); ok && len(pod.Spec.Containers[0].SecurityContext.Capabilities.Add) > 0 {
			return forbidden
		}
		return c.Create(ctx, obj, opts...)
	}})
	w.operatorClient = func() client.Client { return c }
	w.restartOperator()
	w.create(makeDatabase("d").emulation(v1alpha1.EmulationSidecar).obj(), makeDatabase("p").program().obj())
	w.until("it is refused", func() bool {
		for _, c := range w.getDatabase("d").Status.Conditions {
			if c.Type == v1alpha1.ConditionNodesReady && c.Reason == "EmulationUnsupported" {
				return strings.Contains(c.Message, "violates PodSecurity") && strings.Contains(c.Message, "choose BuiltIn")
			}
		}
		return false
	})
	w.until("auto has chosen", func() bool { return w.getDatabase("p").Status.Emulation != "" })
	if st := w.getDatabase("p").Status; st.Emulation != v1alpha1.EmulationNone || !strings.Contains(st.EmulationReason, "violates PodSecurity") {
		t.Errorf("emulation %s: %s", st.Emulation, st.EmulationReason)
	}
}

// A namespace whose quota is used up takes no pod at all: that says nothing of sidecars, so a database waits, and Auto
// does not settle for an undelayed network.
func TestQuotaIsUsedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
	w.create(quota)
	quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	w.must(w.client.Status().Update(w.ctx, quota))
	w.create(makeDatabase("d").emulation(v1alpha1.EmulationSidecar).obj(), makeDatabase("p").program().obj())
	for _, name := range []string{"d", "p"} {
		for range 3 {
			w.reconcile(w.database, w.getDatabase(name))
		}
		db := w.getDatabase(name)
		c := meta.FindStatusCondition(db.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Reason != "Probing" || !strings.Contains(c.Message, "takes no pod, whatever it may do") || !strings.Contains(c.Message, "exceeded quota") || db.Status.Emulation != "" {
			t.Errorf("%s: emulation %q, condition %+v", name, db.Status.Emulation, c)
		}
	}
	w.must(w.client.Delete(w.ctx, quota))
	for _, name := range []string{"d", "p"} {
		w.until(name+" has chosen", func() bool { return w.getDatabase(name).Status.Emulation == v1alpha1.EmulationSidecar })
	}
}
