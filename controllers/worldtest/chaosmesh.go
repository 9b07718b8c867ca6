package worldtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/apiservertest"
	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/net/emulation"
	"github.com/geobench/geobench/internal/net/emulation/chaosmesh"
	"github.com/geobench/geobench/internal/net/wan"
	"github.com/geobench/geobench/internal/ops/admin"
)

// fakeSidecars simulates the sidecars. Each applies the configuration in its pod's volume, or an older generation if
// Behind is set.
type fakeSidecars struct {
	w      *World
	Behind int64
	gone   bool
	// Late is the delay of each change from one phase to the next.
	Late time.Duration
	// files and Logs are indexed by the pod's UID. mu protects them, because the operator queries several sidecars
	// concurrently.
	mu    sync.Mutex
	files map[types.UID]*wan.Config
	Logs  map[types.UID]*wan.Log
	// Zero is the time at which the monotonic clocks of all sidecars were 0. Records are lateness records, by pod name.
	Zero    time.Time
	Records map[string]*late.Record
}

// follow makes all sidecars read their configuration and enter the phases that are due.
func (f *fakeSidecars) follow() {
	pods := &corev1.PodList{}
	f.w.Must(f.w.Client.List(f.w.Ctx, pods, client.InNamespace(f.w.Namespace)))
	now := f.w.FakeClock.Now()
	for i := range pods.Items {
		pod := &pods.Items[i]
		if c, err := f.w.SidecarConfig(pod); err == nil && pod.Status.PodIP != "" && !f.w.ShutDown[pod.Name] {
			f.read(pod.UID, c, now)
		}
	}
}

func (f *fakeSidecars) read(uid types.UID, file *wan.Config, now time.Time) wan.Log {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.Logs[uid]
	if l == nil {
		l = &wan.Log{Process: string(uid), Since: now}
		f.Logs[uid], f.files[uid] = l, file
	}
	was := f.files[uid]
	for i := range was.Phases {
		// A phase that is older than the last entry was already recorded or replaced.
		if at := was.Phases[i].From.Add(f.Late); !at.After(now) && len(l.Entries) > 0 && at.After(l.Entries[len(l.Entries)-1].From) {
			c, _ := was.At(was.Phases[i].From)
			l.Change(at, c)
		}
	}
	c, _ := file.At(now.Add(-f.Late))
	l.Change(now, c)
	f.files[uid] = file
	seen := *l
	// Clone the entries, because a later call changes them while the caller still reads the result.
	seen.Entries = slices.Clone(l.Entries)
	return seen
}

func (f *fakeSidecars) Log(ctx context.Context, addr string) (*wan.Log, time.Duration, time.Duration, error) {
	pod, c, err := f.pod(ctx, addr)
	if err != nil {
		return nil, 0, 0, err
	}
	l := f.read(pod.UID, c, f.w.FakeClock.Now())
	l.Now, l.Monotonic = f.w.FakeClock.Now(), f.w.FakeClock.Since(f.Zero)
	l.Late = f.Records[pod.Name]
	return &l, 0, time.Millisecond, nil
}

func (f *fakeSidecars) Status(ctx context.Context, addr string) (*wan.Status, error) {
	pod, c, err := f.pod(ctx, addr)
	if err != nil {
		return nil, err
	}
	f.read(pod.UID, c, f.w.FakeClock.Now())
	return &wan.Status{Pod: pod.Name, Region: c.Region, Generation: c.Generation - f.Behind, Ready: true}, nil
}

// pod returns the pod at an address and the configuration of its sidecar.
func (f *fakeSidecars) pod(ctx context.Context, addr string) (*corev1.Pod, *wan.Config, error) {
	if f.gone {
		return nil, nil, errors.New("connection refused")
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, nil, err
	}
	pods := &corev1.PodList{}
	if err := f.w.Client.List(ctx, pods, client.InNamespace(f.w.Namespace)); err != nil {
		return nil, nil, err
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Status.PodIP == host && !f.w.ShutDown[pod.Name] {
			c, err := f.w.SidecarConfig(pod)
			return pod, c, err
		}
	}
	return nil, nil, errors.New("no pod has this address")
}

// SidecarConfig returns the configuration that a pod's sidecar reads.
func (w *World) SidecarConfig(pod *corev1.Pod) (*wan.Config, error) {
	if len(pod.Spec.InitContainers) == 0 || pod.Spec.InitContainers[0].Name != emulation.SidecarName {
		return nil, errors.New("the pod has no sidecar")
	}
	for _, v := range pod.Spec.Volumes {
		if v.Name != emulation.SidecarName {
			continue
		}
		cm := &corev1.ConfigMap{}
		if err := w.Client.Get(w.Ctx, client.ObjectKey{Namespace: w.Namespace, Name: v.ConfigMap.Name}, cm); err != nil {
			return nil, err
		}
		args := pod.Spec.InitContainers[0].Args
		_, file := path.Split(args[slices.Index(args, "--config")+1])
		return wan.ParseConfig([]byte(cm.Data[strings.ReplaceAll(file, "$(POD_NAME)", pod.Name)]))
	}
	return nil, errors.New("the sidecar has no volume")
}

// playProbes simulates the kubelet for the pods that probe kernels.
func (w *World) playProbes() {
	w.T.Helper()
	pods := &corev1.PodList{}
	w.Must(w.Client.List(w.Ctx, pods, client.InNamespace(w.Namespace), client.MatchingLabels{kube.LabelRole: kube.RoleNetwork}))
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "probe", Image: TestImage, ImageID: "x",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", Message: w.Kernel}}}}
		w.Must(w.Client.Status().Update(w.Ctx, pod))
	}
}

func (w *World) NetworkChaos() *unstructured.UnstructuredList { return w.Chaos(chaosmesh.NetworkChaos) }

func (w *World) Chaos(kind string) *unstructured.UnstructuredList {
	w.T.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(chaosmesh.GroupVersion.WithKind(kind + "List"))
	w.Must(w.Client.List(w.Ctx, list, client.InNamespace(w.Namespace)))
	return list
}

// PlayChaosMesh simulates Chaos Mesh: it injects existing objects and releases deleted objects.
func (w *World) PlayChaosMesh() {
	w.T.Helper()
	if !w.ChaosMesh {
		return
	}
	for _, kind := range apiservertest.ChaosMeshKinds {
		list := w.Chaos(kind)
		for i := range list.Items {
			o := &list.Items[i]
			switch {
			case o.GetDeletionTimestamp() != nil:
				o.SetFinalizers(nil)
				if isPodFailure(o) {
					w.startAgain(w.Chosen(o))
				}
			case w.ChaosWaits != nil && w.ChaosWaits(o):
				continue
			// The finalizer marks objects that were already injected.
			case len(o.GetFinalizers()) == 0:
				o.SetFinalizers([]string{"chaos-mesh/records"})
				conditions := []any{map[string]any{"type": "Selected", "status": "True"}, map[string]any{"type": "AllInjected", "status": "True"}}
				w.Must(unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions"))
				var records []any
				for _, name := range w.Chosen(o) {
					records = append(records, map[string]any{"id": w.Namespace + "/" + name + "/node", "phase": "Injected"})
				}
				w.Must(unstructured.SetNestedSlice(o.Object, records, "status", "experiment", "containerRecords"))
				w.chaosActs(o)
			default:
				continue
			}
			w.Must(client.IgnoreNotFound(w.Client.Update(w.Ctx, o)))
		}
	}
}

// Chosen returns the names of the pods that a Chaos Mesh object selects.
func (w *World) Chosen(o *unstructured.Unstructured) []string {
	w.T.Helper()
	names, _, err := unstructured.NestedStringSlice(o.Object, "spec", "selector", "pods", w.Namespace)
	w.Must(err)
	return names
}

func isPodFailure(o *unstructured.Unstructured) bool {
	action, _, _ := unstructured.NestedString(o.Object, "spec", "action")
	return action == "pod-failure"
}

// startAgain restarts pods that were shut down: nodes recover from their journals, and sidecars start without state.
func (w *World) startAgain(pods []string) {
	w.T.Helper()
	for _, name := range pods {
		delete(w.ShutDown, name)
		// A restarted sidecar starts an empty log.
		delete(w.PlayedSidecars.Logs, w.Get(name, &corev1.Pod{}).(*corev1.Pod).UID)
	}
}

// chaosActs kills the pods, or their containers, that a Chaos Mesh object selects.
func (w *World) chaosActs(o *unstructured.Unstructured) {
	w.T.Helper()
	w.ChaosMade = append(w.ChaosMade, o)
	action, _, _ := unstructured.NestedString(o.Object, "spec", "action")
	if action != "pod-kill" && action != "container-kill" && !isPodFailure(o) {
		return
	}
	for _, name := range w.Chosen(o) {
		pod := w.Get(name, &corev1.Pod{}).(*corev1.Pod)
		if action != "pod-kill" {
			pod.Status.ContainerStatuses[0].RestartCount++
			pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 137, FinishedAt: metav1.NewTime(w.FakeClock.Now())}
			w.Must(w.Client.Status().Update(w.Ctx, pod))
			n := w.PlayedNodes[pod.Status.PodIP]
			// Without a journal, the new process has no data, so it must differ from the old process.
			if !slices.Contains(pod.Spec.Containers[0].Args, "--journal") && !n.program {
				w.Ended = append(w.Ended, n)
				w.StartNode(pod.Status.PodIP, fmt.Sprintf("%s-%d", pod.UID, pod.Status.ContainerStatuses[0].RestartCount), pod)
				continue
			}
			now := w.FakeClock.Since(n.Zero)
			n.follow(now)
			n.Do(now, &admin.Disturbance{}) // the node continues from its journal
			n.taken = 0
			if isPodFailure(o) {
				w.ShutDown[name] = true
			}
			continue
		}
		w.Must(w.Client.Delete(w.Ctx, pod, client.GracePeriodSeconds(0)))
	}
}

// ChaosLeft returns the names of the remaining Chaos Mesh objects.
func (w *World) ChaosLeft() (out []string) {
	for _, kind := range apiservertest.ChaosMeshKinds {
		for _, o := range w.Chaos(kind).Items {
			out = append(out, kind+" "+o.GetName())
		}
	}
	return out
}
