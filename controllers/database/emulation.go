package database

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/faultstatus"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/net/emulation"
	"github.com/geobench/geobench/internal/net/emulation/chaosmesh"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// NewBackend returns the backend with the given name for the network of db. why is the reason for the backend None.
func NewBackend(c client.Client, live client.Reader, pods podclient.Clients, clock clock.PassiveClock, db *v1alpha1.GeoDatabase, image string, name v1alpha1.Emulation, why string) emulation.Backend {
	switch name {
	case v1alpha1.EmulationChaosMesh:
		return &chaosmesh.Backend{
			Cluster: &kube.OwnedBy{Client: c, Live: live, Owner: db}, Labels: kube.DatabaseLabels(db, kube.RoleNetwork),
			PodLabels: map[string]string{kube.LabelDatabase: db.Name, kube.LabelManagedBy: kube.ManagedBy}, RegionLabel: kube.LabelRegion, Now: clock.Now,
		}
	case v1alpha1.EmulationSidecar:
		return &emulation.Sidecar{
			Cluster: &kube.OwnedBy{Client: c, Live: live, Owner: db}, Sidecars: pods.Sidecars(db.UID), Image: image,
			Credentials: CredentialsVolume(db, ServerFiles),
			ConfigName:  func(_ *emulation.Network, region string) string { return kube.NetworkName(db, region) },
			Hosts: func(_ *emulation.Network, region string) (map[string][]string, string) {
				nodes := map[string][]string{}
				for _, pod := range deploy.PodsIn(db, region) {
					nodes[pod.Name] = pod.Hosts()
				}
				return nodes, fmt.Sprintf("%s.%s.svc", kube.GeneratorsName(db, region), db.Namespace)
			},
			Labels: func(*emulation.Network) map[string]string { return kube.DatabaseLabels(db, kube.RoleNetwork) },
		}
	case v1alpha1.EmulationNone:
		return emulation.None{Why: why}
	}
	return emulation.BuiltIn{}
}

// backend returns the backend of the current incarnation.
func (s *scope) backend() emulation.Backend {
	return NewBackend(s.Client, s.Live, s.Pods, s.Clock, s.db, s.Image, s.current.Emulation(), s.current.Why)
}

// FindNetwork returns the current network of a database: the declared links, and the pods that they connect.
func FindNetwork(ctx context.Context, reader client.Reader, db *v1alpha1.GeoDatabase, current *Incarnation) (*emulation.Network, error) {
	n := emulation.NewNetwork(db.Namespace, db.Name, string(db.UID), &current.Database.Topology)
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.InNamespace(db.Namespace), client.MatchingLabels{kube.LabelDatabase: db.Name, kube.LabelManagedBy: kube.ManagedBy}); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		role := pod.Labels[kube.LabelRole]
		// The status of a finished pod still contains addresses that other pods may have received in the meantime.
		if role != kube.RoleNode && role != kube.RoleWorker || role == kube.RoleNode && pod.Labels[kube.LabelIncarnation] != current.ID() ||
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
		Name: pod.Name, UID: string(pod.UID), Region: pod.Labels[kube.LabelRegion], Node: pod.Spec.NodeName,
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

// emulate updates the emulated network, and observes its state.
func (s *scope) emulate(ctx context.Context) error {
	var err error
	if s.network, err = FindNetwork(ctx, s.Client, s.db, s.current); err != nil {
		return err
	}
	faultstatus.Disturb(s.network, s.faults, s.db, s.current.Emulation())
	b := s.backend()
	if err := b.Check(s.network); err != nil {
		return kube.Refuse("EmulationUnsupported", "%s", err)
	}
	if err := b.Ensure(ctx, s.network); err != nil {
		return err
	}
	s.state, err = b.Observe(ctx, s.network)
	return err
}

// Prepare adds the parts that backend b needs, for example a sidecar, to the pod template of a region's nodes or load
// generators.
func Prepare(b emulation.Backend, db *v1alpha1.GeoDatabase, t *geo.Topology, region string, pod *corev1.PodSpec) {
	b.Prepare(emulation.NewNetwork(db.Namespace, db.Name, string(db.UID), t), region, pod)
}

// holdForRelease adds a finalizer to a database whose network Chaos Mesh emulates. The database is then deleted only
// after the effects of Chaos Mesh on its pods are removed.
func (s *scope) holdForRelease(ctx context.Context) error {
	if s.current.Emulation() != v1alpha1.EmulationChaosMesh || controllerutil.ContainsFinalizer(s.db, kube.Finalizer) {
		return nil
	}
	return s.patchFinalizer(ctx, controllerutil.AddFinalizer)
}

func (s *scope) patchFinalizer(ctx context.Context, change func(client.Object, string) bool) error {
	// Patch overwrites the object with the API server's response, which contains the original spec instead of the rendered
	// spec.
	status, spec := s.db.Status.DeepCopy(), s.db.Spec.DeepCopy()
	base := s.db.DeepCopy()
	change(s.db, kube.Finalizer)
	err := s.Client.Patch(ctx, s.db, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	s.db.Status, s.db.Spec = *status, *spec
	return err
}

// release removes the Chaos Mesh objects of the database, and then the finalizer. It does not wait indefinitely: an
// object that cannot be removed is reported, so that a user can remove it.
func (s *scope) release(ctx context.Context) error {
	b := NewBackend(s.Client, s.Live, s.Pods, s.Clock, s.db, s.Image, v1alpha1.EmulationChaosMesh, "")
	done, err := b.Release(ctx, &emulation.Network{Namespace: s.db.Namespace, Database: s.db.Name, UID: string(s.db.UID)})
	var stuck *emulation.StuckError
	if errors.As(err, &stuck) {
		if !s.isTrue(v1alpha1.ConditionCleanupFailed) {
			s.events = append(s.events, kube.CleanupFailed(stuck.What))
		}
		s.condition(metav1.Condition{Type: v1alpha1.ConditionCleanupFailed, Status: metav1.ConditionTrue, Reason: "ObjectRemains", Message: kube.Truncate(stuck.What, 1024)})
		s.again = kube.PollSlow
		return nil
	}
	if err != nil || !done {
		s.again = kube.PollFast
		return err
	}
	return s.patchFinalizer(ctx, controllerutil.RemoveFinalizer)
}

// maxGaps is the maximum number of gaps in the status.
const maxGaps = 32

// recordGaps records the periods in which a pod ran before all its emulated links were in place. For example, a
// replaced pod of a program starts before the other pods know its address. The probe in the pod reports the time at
// which the links were in place.
func (s *scope) recordGaps() {
	if !s.db.Spec.RunsPrograms() || s.current.Emulation() == v1alpha1.EmulationNone {
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
		if n.Pod == nil || n.Address == "" || n.Pod.DeletionTimestamp != nil {
			continue
		}
		p := networkPod(n.Pod)
		live[p.UID] = true
		var complete *time.Time
		if n.Status != nil {
			complete = n.Status.LinksComplete
		}
		g := latest(p.UID)
		switch {
		case complete == nil && (g == nil || g.To != nil):
			// A link that was complete and is incomplete again opens another gap, which starts at the time of detection.
			from := p.Since
			if g != nil {
				from = s.Clock.Now()
			}
			gaps = append(gaps, v1alpha1.EmulationGap{Pod: p.Name, UID: p.UID, Region: p.Region, From: metav1.NewMicroTime(from)})
		case complete != nil && g == nil && complete.After(p.Since):
			gaps = append(gaps, v1alpha1.EmulationGap{Pod: p.Name, UID: p.UID, Region: p.Region, From: metav1.NewMicroTime(p.Since), To: ptr.To(metav1.NewMicroTime(*complete))})
		case complete != nil && g != nil && g.To == nil:
			end := *complete
			// The start may be the operator's time of detection, which can be later than the end that the probe reports.
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

// buildGeneratorsService returns the headless Service that resolves to the addresses of a region's load generators.
func buildGeneratorsService(db *v1alpha1.GeoDatabase, region string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: kube.GeneratorsName(db, region), Namespace: db.Namespace, Labels: kube.WithLabel(kube.DatabaseLabels(db, kube.RoleNetwork), kube.LabelRegion, region)},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 map[string]string{kube.LabelDatabase: db.Name, kube.LabelRegion: region, kube.LabelRole: kube.RoleWorker},
		},
	}
}
