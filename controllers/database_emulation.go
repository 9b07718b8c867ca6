package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/emulation"
	"github.com/geobench/geobench/internal/emulation/chaosmesh"
	"github.com/geobench/geobench/internal/geo"
)

// emulated makes the backend of a database's network.
func emulated(c client.Client, live client.Reader, pods PodClients, clock clock.PassiveClock, db *v1alpha1.GeoDatabase, image string, name v1alpha1.Emulation, why string) emulation.Backend {
	switch name {
	case v1alpha1.EmulationChaosMesh:
		return &chaosmesh.Backend{
			Cluster: &ownedBy{client: c, live: live, owner: db}, Labels: databaseLabels(db, RoleNetwork),
			PodLabels: map[string]string{LabelDatabase: db.Name, LabelManagedBy: ManagedBy}, RegionLabel: LabelRegion, Now: clock.Now,
		}
	case v1alpha1.EmulationSidecar:
		return &emulation.Sidecar{
			Cluster: &ownedBy{client: c, live: live, owner: db}, Sidecars: pods.Sidecars(db.UID), Image: image,
			Credentials: credentialsVolume(db, serverFiles),
			ConfigName:  func(_ *emulation.Network, region string) string { return networkName(db, region) },
			Hosts: func(_ *emulation.Network, region string) (map[string]string, string) {
				nodes := map[string]string{}
				for ordinal := range nodesPerRegion(db) {
					nodes[podName(db, region, ordinal)] = nodeHost(db, region, ordinal)
				}
				return nodes, fmt.Sprintf("%s.%s.svc", generatorsName(db, region), db.Namespace)
			},
			Labels: func(*emulation.Network) map[string]string { return databaseLabels(db, RoleNetwork) },
		}
	case v1alpha1.EmulationNone:
		return emulation.None{Why: why}
	}
	return emulation.BuiltIn{}
}

// ownedBy is the API server as a backend sees it: what it makes belongs to the database.
type ownedBy struct {
	client client.Client
	live   client.Reader
	owner  client.Object
}

func (o *ownedBy) Get(ctx context.Context, namespace, name string, into emulation.Object) error {
	return o.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, into)
}

func (o *ownedBy) List(ctx context.Context, namespace string, labels map[string]string, into runtime.Object) error {
	return o.live.List(ctx, into.(client.ObjectList), client.InNamespace(namespace), client.MatchingLabels(labels))
}

func (o *ownedBy) Ensure(ctx context.Context, obj emulation.Object) error {
	return ensure(ctx, liveReads{o.client, o.live}, o.live, o.owner, obj)
}

func (o *ownedBy) Create(ctx context.Context, obj emulation.Object) error {
	return ensureCreated(ctx, o.client, o.live, o.owner, obj)
}

func (o *ownedBy) Delete(ctx context.Context, obj emulation.Object) error {
	return o.client.Delete(ctx, obj)
}

func (o *ownedBy) Patch(ctx context.Context, obj emulation.Object, patch []byte) error {
	return o.client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch))
}

// liveReads is a client that reads from the API server itself: the cache keeps no data of ConfigMaps.
type liveReads struct {
	client.Client
	live client.Reader
}

// Get reads from the API server itself.
func (l liveReads) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return l.live.Get(ctx, key, obj, opts...)
}

// backend is that of the present incarnation.
func (s *databaseScope) backend() emulation.Backend {
	return emulated(s.Client, s.Live, s.Pods, s.Clock, s.db, s.Image, s.current.emulation(), s.current.why)
}

// findNetwork finds the network that a database has now: what was declared, and the pods that play.
func findNetwork(ctx context.Context, reader client.Reader, db *v1alpha1.GeoDatabase, current *incarnation) (*emulation.Network, error) {
	n := emulation.NewNetwork(db.Namespace, db.Name, string(db.UID), &current.database.Topology)
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.InNamespace(db.Namespace), client.MatchingLabels{LabelDatabase: db.Name, LabelManagedBy: ManagedBy}); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		role := pod.Labels[LabelRole]
		if role != RoleNode && role != RoleWorker || role == RoleNode && pod.Labels[LabelIncarnation] != current.id() ||
			pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil {
			continue
		}
		n.Pods = append(n.Pods, networkPod(pod))
	}
	slices.SortFunc(n.Pods, func(a, b emulation.Pod) int { return strings.Compare(a.Name, b.Name) })
	return n, nil
}

func networkPod(pod *corev1.Pod) emulation.Pod {
	p := emulation.Pod{
		Name: pod.Name, UID: string(pod.UID), Region: pod.Labels[LabelRegion], Node: pod.Spec.NodeName,
		Running: pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "", Since: pod.CreationTimestamp.Time,
		Generation: emulation.GenerationOf(pod),
	}
	for _, ip := range pod.Status.PodIPs {
		p.IPs = append(p.IPs, ip.IP)
	}
	for _, c := range pod.Status.ContainerStatuses {
		if r := c.State.Running; r != nil && r.StartedAt.After(p.Since) {
			p.Since = r.StartedAt.Time
		}
	}
	return p
}

// emulate brings the network about.
func (s *databaseScope) emulate(ctx context.Context) error {
	var err error
	if s.network, err = findNetwork(ctx, s.Client, s.db, s.current); err != nil {
		return err
	}
	disturb(s.network, s.faults, s.db, s.current.emulation())
	b := s.backend()
	if err := b.Check(s.network); err != nil {
		return refuse("EmulationUnsupported", "%s", err)
	}
	if err := b.Ensure(ctx, s.network); err != nil {
		return err
	}
	s.state, err = b.Observe(ctx, s.network)
	return err
}

// prepare changes the pod that a region's nodes or load generators are made from.
func prepare(b emulation.Backend, db *v1alpha1.GeoDatabase, t *geo.Topology, region string, pod *corev1.PodSpec) {
	b.Prepare(emulation.NewNetwork(db.Namespace, db.Name, string(db.UID), t), region, pod)
}

// holdForRelease keeps a database from going away before what Chaos Mesh does to its pods is undone.
func (s *databaseScope) holdForRelease(ctx context.Context) error {
	if s.current.emulation() != v1alpha1.EmulationChaosMesh || controllerutil.ContainsFinalizer(s.db, Finalizer) {
		return nil
	}
	return s.patchFinalizer(ctx, controllerutil.AddFinalizer)
}

func (s *databaseScope) patchFinalizer(ctx context.Context, change func(client.Object, string) bool) error {
	status := s.db.Status.DeepCopy()
	base := s.db.DeepCopy()
	change(s.db, Finalizer)
	err := s.Client.Patch(ctx, s.db, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	s.db.Status = *status
	return err
}

// release takes away what Chaos Mesh does for the database, and lets the database go once nothing is left. It does not
// wait for ever: what cannot be taken away is shown, and left to a person.
func (s *databaseScope) release(ctx context.Context) error {
	b := emulated(s.Client, s.Live, s.Pods, s.Clock, s.db, s.Image, v1alpha1.EmulationChaosMesh, "")
	done, err := b.Release(ctx, &emulation.Network{Namespace: s.db.Namespace, Database: s.db.Name, UID: string(s.db.UID)})
	var stuck *emulation.StuckError
	if errors.As(err, &stuck) {
		if !s.isTrue(v1alpha1.ConditionCleanupFailed) {
			s.events = append(s.events, eventCleanupFailed(stuck.What))
		}
		s.condition(metav1.Condition{Type: v1alpha1.ConditionCleanupFailed, Status: metav1.ConditionTrue, Reason: "ObjectRemains", Message: truncate(stuck.What, 1024)})
		s.again = pollSlow
		return nil
	}
	if err != nil || !done {
		s.again = pollFast
		return err
	}
	return s.patchFinalizer(ctx, controllerutil.RemoveFinalizer)
}

// maxGaps is how many gaps the status keeps.
const maxGaps = 32

// recordGaps notes when pods ran without all of their links: a program's pod that was replaced begins while the others do
// not know it yet. When its links were there, its probe knows.
func (s *databaseScope) recordGaps() {
	if s.db.Spec.Pods == nil || s.current.emulation() == v1alpha1.EmulationNone {
		return
	}
	gaps := s.db.Status.EmulationGaps
	latest := func(uid string) *v1alpha1.EmulationGap {
		for i := len(gaps) - 1; i >= 0; i-- {
			if gaps[i].UID == uid {
				return &gaps[i]
			}
		}
		return nil
	}
	live := map[string]bool{}
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.pod == nil || n.address == "" || n.pod.DeletionTimestamp != nil {
			continue
		}
		p := networkPod(n.pod)
		live[p.UID] = true
		var complete *time.Time
		if n.status != nil {
			complete = n.status.LinksComplete
		}
		g := latest(p.UID)
		switch {
		case complete == nil && (g == nil || g.To != nil):
			// A link that was complete and is short again is another gap; it is found out now.
			from := p.Since
			if g != nil {
				from = s.Clock.Now()
			}
			gaps = append(gaps, v1alpha1.EmulationGap{Pod: p.Name, UID: p.UID, Region: p.Region, From: metav1.NewMicroTime(from)})
		case complete != nil && g == nil && complete.After(p.Since):
			gaps = append(gaps, v1alpha1.EmulationGap{Pod: p.Name, UID: p.UID, Region: p.Region, From: metav1.NewMicroTime(p.Since), To: ptr.To(metav1.NewMicroTime(*complete))})
		case complete != nil && g != nil && g.To == nil:
			end := *complete
			if end.Before(g.From.Time) {
				end = g.From.Time
			}
			g.To = ptr.To(metav1.NewMicroTime(end))
		}
	}
	for i := range gaps {
		if gaps[i].To == nil && !live[gaps[i].UID] {
			gaps[i].To = ptr.To(metav1.NewMicroTime(s.Clock.Now()))
		}
	}
	s.db.Status.EmulationGaps = gaps[max(0, len(gaps)-maxGaps):]
}

// buildGeneratorsService makes the headless Service whose name stands for the addresses of a region's load generators.
func buildGeneratorsService(db *v1alpha1.GeoDatabase, region string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: generatorsName(db, region), Namespace: db.Namespace, Labels: with(databaseLabels(db, RoleNetwork), LabelRegion, region)},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 map[string]string{LabelDatabase: db.Name, LabelRegion: region, LabelRole: RoleWorker},
		},
	}
}
