// Package chaosaudit records in memory the effects of Chaos Mesh on pods, regardless of who created the Chaos Mesh
// objects. An object that was created and soon deleted leaves no other trace. The package reads the records in the
// status of each object, which name the affected pods. So it also finds objects in namespaces other than the pods'
// namespace.
package chaosaudit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/geobench/geobench/internal/net/emulation/chaosmesh"
)

// The operator may read all kinds of Chaos Mesh objects that affect pods.
// +kubebuilder:rbac:groups=chaos-mesh.org,resources=networkchaos;podchaos;stresschaos;timechaos;iochaos;httpchaos;dnschaos;jvmchaos;kernelchaos;blockchaos,verbs=list;watch

// Kinds lists the kinds of Chaos Mesh objects that affect pods.
var Kinds = []string{
	chaosmesh.NetworkChaos, chaosmesh.PodChaos, chaosmesh.StressChaos, chaosmesh.TimeChaos, chaosmesh.IOChaos,
	"HTTPChaos", "DNSChaos", "JVMChaos", "KernelChaos", "BlockChaos",
}

const (
	// again is the pause before a kind that is not installed, or that the operator may not read, is listed again.
	again = 30 * time.Second
	// watchLife is the lifetime of a watch. After this time, the operator lists the objects and opens a new watch.
	watchLife = 2 * time.Minute
	// page is the number of objects per list request. It is small, because an object can be as large as a megabyte.
	page = 20
	// most is the maximum number of recorded effects. When it is exceeded, the effect that stopped first is dropped.
	most = 10_000
	// grain is the resolution of the times in the objects' records.
	grain = time.Second
	// fewLabels is an upper bound of the number of labels that the operator sets on an object.
	fewLabels = 16
)

// Effect is the effect of an object on a pod.
type Effect struct {
	// Kind, Namespace and Name identify the object. Action is its declared action, if its kind has several.
	Kind, Namespace, Name, Action string
	// Owner is the UID of the object's controller, or empty. Labels are the object's labels, or nil if it has more labels
	// than the operator sets.
	Owner  types.UID
	Labels map[string]string
	// Pod is namespace/name of the affected pod.
	Pod string
	// From and To are the start and the end of the effect, by the clocks of Chaos Mesh and the operator. To is zero while
	// the effect lasts.
	From, To time.Time
}

func (e *Effect) String() string {
	action := ""
	if e.Action != "" {
		action = " (" + e.Action + ")"
	}
	return fmt.Sprintf("%s %s/%s%s", e.Kind, e.Namespace, e.Name, action)
}

// key identifies an effect.
type key struct {
	object types.UID
	pod    string
}

// Log records effects; it is a manager.Runnable. Standby operators also keep a log, so that an operator that takes over
// knows past effects.
type Log struct {
	Client client.WithWatch
	// Namespace is the only namespace that is watched; empty for all namespaces.
	Namespace string
	Clock     clock.PassiveClock
	// Wait blocks for duration d or until ctx is done.
	Wait func(ctx context.Context, d time.Duration) error

	mu      sync.Mutex
	effects map[key]*Effect
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Log) NeedLeaderElection() bool { return false }

// Start follows all kinds until ctx is done.
func (l *Log) Start(ctx context.Context) error {
	var kinds sync.WaitGroup
	for _, kind := range Kinds {
		kinds.Go(func() { l.follow(ctx, kind) })
	}
	kinds.Wait()
	return nil
}

// Between returns the effects on pods (namespace/name) that overlap the given period, sorted by start. It omits effects
// for which own returns true.
func (l *Log) Between(pods []string, from, to time.Time, own func(*Effect) bool) []Effect {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Effect
	for _, e := range l.effects {
		if slices.Contains(pods, e.Pod) && !e.From.After(to) && (e.To.IsZero() || !e.To.Before(from)) && !own(e) {
			out = append(out, *e)
		}
	}
	slices.SortFunc(out, func(a, b Effect) int {
		return cmp.Or(a.From.Compare(b.From), strings.Compare(a.String(), b.String()), strings.Compare(a.Pod, b.Pod))
	})
	return out
}

// follow lists and watches the objects of a kind until ctx is done.
func (l *Log) follow(ctx context.Context, kind string) {
	for ctx.Err() == nil {
		err := l.look(ctx, kind)
		switch {
		case err == nil:
			continue
		case apierrors.IsForbidden(err):
			log.FromContext(ctx).V(1).Info("objects of Chaos Mesh cannot be seen", "kind", kind, "error", err.Error())
		case !notInstalled(err) && ctx.Err() == nil:
			log.FromContext(ctx).Info("objects of Chaos Mesh cannot be followed", "kind", kind, "error", err.Error())
		}
		_ = l.Wait(ctx, again)
	}
}

func notInstalled(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// look lists the objects of a kind, and watches them until the watch expires.
func (l *Log) look(ctx context.Context, kind string) error {
	version, err := l.list(ctx, kind)
	if err != nil {
		return err
	}
	seconds := int64(watchLife / time.Second)
	w, err := l.Client.Watch(ctx, listOf(kind), &client.ListOptions{Namespace: l.Namespace, Raw: &metav1.ListOptions{ResourceVersion: version, TimeoutSeconds: &seconds}})
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			switch o := e.Object.(type) {
			case *unstructured.Unstructured:
				// The last version of a deleted object can show an effect that no earlier event showed.
				if l.see(o); e.Type == watch.Deleted {
					l.gone(kind, func(uid types.UID) bool { return uid == o.GetUID() })
				}
			case *metav1.Status:
				return errors.New(o.Message)
			}
		}
	}
}

func listOf(kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(chaosmesh.GroupVersion.WithKind(kind + "List"))
	return list
}

// list records the effects of all objects of a kind, and sets the end of effects whose objects no longer exist. It
// returns the resource version of the list.
func (l *Log) list(ctx context.Context, kind string) (string, error) {
	there := map[types.UID]bool{}
	next := ""
	for {
		list := listOf(kind)
		if err := l.Client.List(ctx, list, client.InNamespace(l.Namespace), client.Limit(page), client.Continue(next)); err != nil {
			return "", err
		}
		for i := range list.Items {
			there[list.Items[i].GetUID()] = true
			l.see(&list.Items[i])
		}
		if next = list.GetContinue(); next == "" {
			l.gone(kind, func(uid types.UID) bool { return !there[uid] })
			return list.GetResourceVersion(), nil
		}
	}
}

// see records the effects of an object.
func (l *Log) see(o *unstructured.Unstructured) {
	now := l.Clock.Now()
	of := Effect{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
	of.Action, _, _ = unstructured.NestedString(o.Object, "spec", "action")
	if c := metav1.GetControllerOf(o); c != nil {
		of.Owner = c.UID
	}
	if labels := o.GetLabels(); len(labels) <= fewLabels {
		of.Labels = labels
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.effects == nil {
		l.effects = map[key]*Effect{}
	}
	for pod, r := range byPod(o) {
		e := of
		e.Pod = pod
		k := key{o.GetUID(), pod}
		was := l.effects[k]
		lasted := was != nil && was.To.IsZero()
		e.From = now
		switch {
		case r.Injected && lasted, !r.Injected && !lasted && !r.InjectedAt.After(over(was)):
			continue // nothing has changed
		case !r.Injected && lasted:
			was.To = now
			continue
		case !r.Injected: // the effect started and stopped between two observations
			e.To = now
			if !r.RecoveredAt.IsZero() {
				e.To = r.RecoveredAt.Add(grain)
			}
		}
		if !r.InjectedAt.IsZero() {
			e.From = earlier(now, r.InjectedAt)
		}
		if was != nil { // repeated effects are recorded as one, including the time between them
			e.From = earlier(was.From, e.From)
		}
		l.keep(k, &e)
	}
}

// over returns the end of an effect, or zero if e is nil or still lasts.
func over(e *Effect) time.Time {
	if e == nil {
		return time.Time{}
	}
	return e.To
}

// keep stores an effect. If the log is full, it first drops the effect that stopped first. If no effect has stopped,
// the new effect is dropped.
func (l *Log) keep(k key, e *Effect) {
	if _, known := l.effects[k]; !known && len(l.effects) >= most {
		var first key
		var at time.Time
		for k, e := range l.effects {
			if !e.To.IsZero() && (at.IsZero() || e.To.Before(at)) {
				first, at = k, e.To
			}
		}
		if at.IsZero() {
			return
		}
		delete(l.effects, first)
	}
	l.effects[k] = e
}

// gone sets the end of the lasting effects of deleted objects of a kind.
func (l *Log) gone(kind string, is func(types.UID) bool) {
	now := l.Clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, e := range l.effects {
		if e.Kind == kind && e.To.IsZero() && is(k.object) {
			e.To = now
		}
	}
}

// byPod returns the records of an object by pod, merging the records of a pod's containers. IDs have the form
// namespace/pod or namespace/pod/container.
func byPod(o *unstructured.Unstructured) map[string]chaosmesh.Record {
	out := map[string]chaosmesh.Record{}
	for _, r := range chaosmesh.ReadStatus(o).Records {
		parts := strings.SplitN(r.ID, "/", 3)
		pod := strings.Join(parts[:min(2, len(parts))], "/")
		was := out[pod]
		out[pod] = chaosmesh.Record{ID: pod, Injected: r.Injected || was.Injected, InjectedAt: later(r.InjectedAt, was.InjectedAt), RecoveredAt: later(r.RecoveredAt, was.RecoveredAt)}
	}
	return out
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
