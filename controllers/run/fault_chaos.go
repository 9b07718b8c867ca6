package run

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/faultstatus"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/net/emulation"
	"github.com/geobench/geobench/internal/net/emulation/chaosmesh"
	"github.com/geobench/geobench/internal/net/emulation/kernel"
)

// chaosKinds lists the kinds of Chaos Mesh objects that runs create.
var chaosKinds = []string{chaosmesh.NetworkChaos, chaosmesh.PodChaos, chaosmesh.StressChaos, chaosmesh.TimeChaos}

// chaosKind returns the kind of Chaos Mesh object that injects a kind of fault.
func chaosKind(kind string) string {
	switch kind {
	case fault.PodKill, fault.ContainerKill, fault.NodeShutdown:
		return chaosmesh.PodChaos
	case fault.CPUStress, fault.MemoryStress:
		return chaosmesh.StressChaos
	case fault.ClockSkew:
		return chaosmesh.TimeChaos
	}
	return chaosmesh.NetworkChaos
}

// chaosSet returns the set of Chaos Mesh objects that the run owns.
func (s *scope) chaosSet() *chaosmesh.Set {
	return &chaosmesh.Set{Cluster: &kube.OwnedBy{Client: s.Client, Live: s.Live, Owner: s.run}, Kinds: chaosKinds, Labels: kube.RunLabels(s.run, kube.RoleFault), Now: s.Clock.Now, Abandon: s.replacePods}
}

// replacePods deletes the named pods that were created at or before the given time. The remaining effects of a fault on
// their network namespaces and processes disappear with them.
func (s *scope) replacePods(ctx context.Context, namespace string, names []string, before time.Time) error {
	for _, name := range names {
		pod := &corev1.Pod{}
		err := s.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, pod)
		// A pod that was created later is already the replacement.
		if err == nil && (pod.DeletionTimestamp != nil || pod.CreationTimestamp.After(before)) {
			continue
		}
		if err == nil {
			err = deletePod(ctx, s.Client, pod)
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// replaceNodes deletes all nodes of the run's incarnation, so that the database is recreated. It is needed if it is no
// longer known which nodes a fault affects.
func (s *scope) replaceNodes(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := s.Live.List(ctx, pods, client.InNamespace(s.run.Namespace), client.MatchingLabels{
		kube.LabelDatabase: s.run.Spec.DatabaseRef.Name, kube.LabelRole: kube.RoleNode, kube.LabelIncarnation: s.run.Status.DatabaseIncarnation,
	}); err != nil {
		return err
	}
	for i := range pods.Items {
		if err := deletePod(ctx, s.Client, &pods.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// deletePod deletes exactly this pod, not a replacement with the same name, and without a grace period.
func deletePod(ctx context.Context, c client.Client, pod *corev1.Pod) error {
	err := c.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	// The UID did not match: the pod has already been replaced.
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// chaosUID identifies this attempt among all attempts in the cluster.
func (s *scope) chaosUID() string { return string(s.run.UID) + "/" + kube.Attempt(s.run) }

// objects returns the objects that Chaos Mesh must have now, except for faults that are merged into the network
// emulation of Chaos Mesh. The objects expire on their own, in case no operator deletes them.
func (in *clusterInjector) objects(ctx context.Context) ([]*unstructured.Unstructured, error) {
	own := func(l *fault.Life) bool {
		return l.Injector == string(v1alpha1.InjectorChaosMesh) && !faultstatus.Merged(l, in.current.Emulation())
	}
	network, err := in.bare(ctx, own)
	if err != nil {
		return nil, err
	}
	b := &chaosmesh.Backend{
		Labels:    kube.RunLabels(in.run, kube.RoleFault),
		PodLabels: kube.WithLabel(kube.DatabaseLabels(in.db, kube.RoleNode), kube.LabelIncarnation, in.current.ID()), RegionLabel: kube.LabelRegion, Ceiling: in.lease(),
	}
	out := b.Objects(network)
	for _, l := range in.timeline.Lives {
		if !own(l) || slices.Contains(fault.NetworkKinds, l.Fault.Kind) {
			continue
		}
		if o := in.object(l); o != nil {
			out = append(out, o)
		}
	}
	return out, nil
}

// bare returns the network without emulated links but with the selected faults.
func (in *clusterInjector) bare(ctx context.Context, is func(*fault.Life) bool) (*emulation.Network, error) {
	n, err := database.FindNetwork(ctx, in.Client, in.db, in.current)
	if err != nil {
		return nil, err
	}
	n.Pods = slices.DeleteFunc(n.Pods, func(p emulation.Pod) bool {
		return !slices.ContainsFunc(in.nodes, func(s database.Node) bool { return s.PodName == p.Name })
	})
	n.UID = in.chaosUID()
	faultstatus.Change(n, in.timeline.Alone(is), in.timeline.Plan.Topology, in.db)
	return n, nil
}

// object returns the object for a node fault, or nil while no object should exist. An object for a kill exists until
// its targets are dead. An object that keeps nodes down exists until the run is over if the nodes' data is lost.
func (in *clusterInjector) object(l *fault.Life) *unstructured.Unstructured {
	f := l.Fault
	lasts := l.State == fault.Inject && in.now() >= f.At || l.State == fault.WaitPropagated || l.State == fault.Active && f.Duration > 0 ||
		f.Kind == fault.NodeShutdown && l.Lasting && l.Injecting != nil && in.now() >= f.At
	if !lasts {
		return nil
	}
	m := chaosmesh.Meta{
		Namespace: in.run.Namespace, Name: in.objectName(l), Labels: kube.RunLabels(in.run, kube.RoleFault),
		Ceiling: f.Duration + faultstatus.Patience + faultLease,
	}
	pods := chaosmesh.Pods{Namespace: in.run.Namespace, Named: faultstatus.PodNames(in.db, in.timeline.Plan.Topology, l.Targets.From)}
	switch s := f.Spec; {
	case s.PodKill != nil:
		return chaosmesh.PodKill(m, pods)
	case s.ContainerKill != nil:
		return chaosmesh.ContainerKill(m, pods, database.NodeContainer)
	case s.NodeShutdown != nil:
		return chaosmesh.PodFailure(m, pods)
	case s.CPUStress != nil:
		return chaosmesh.StressCPU(m, pods, s.CPUStress.Workers, s.CPUStress.LoadPercent, database.NodeContainer)
	case s.MemoryStress != nil:
		return chaosmesh.StressMemory(m, pods, s.MemoryStress.Size.Value(), database.NodeContainer)
	case s.ClockSkew != nil:
		return chaosmesh.ClockSkew(m, pods, s.ClockSkew.Offset.Duration, database.NodeContainer)
	}
	return nil
}

// objectName returns the name of the object that injects a node fault.
func (in *clusterInjector) objectName(l *fault.Life) string {
	return chaosmesh.ObjectName(in.chaosUID(), l.Fault.Name)
}

// injects reports whether o injects fault l. All link faults are injected by the NetworkChaos objects together.
func (in *clusterInjector) injects(o *unstructured.Unstructured, l *fault.Life) bool {
	if slices.Contains(fault.NetworkKinds, l.Fault.Kind) {
		return o.GetKind() == chaosmesh.NetworkChaos
	}
	return o.GetName() == in.objectName(l)
}

// turning reports whether the objects of link fault l must change now because another link fault starts or stops.
func (in *clusterInjector) turning(l *fault.Life) bool {
	isLinks := func(l *fault.Life) bool { return slices.Contains(fault.NetworkKinds, l.Fault.Kind) }
	return isLinks(l) && slices.ContainsFunc(in.timeline.Lives, func(other *fault.Life) bool {
		return isLinks(other) && other.Touches() && other.State != fault.Active
	})
}

func ofKind(o *unstructured.Unstructured) string { return o.GetKind() }

// applyChaos updates the objects of Chaos Mesh to the current faults.
func (in *clusterInjector) applyChaos(ctx context.Context) error {
	if !in.usesChaos() {
		return nil
	}
	objects, err := in.objects(ctx)
	if err != nil {
		return err
	}
	return in.chaosSet().Ensure(ctx, in.run.Namespace, objects, ofKind, false)
}

// flaws returns the problems of the Chaos Mesh objects, for example objects that are not injected.
func (in *clusterInjector) flaws(ctx context.Context) ([]chaosmesh.Flaw, error) {
	objects, err := in.objects(ctx)
	if err != nil {
		return nil, err
	}
	return in.chaosSet().Flaws(ctx, in.run.Namespace, objects)
}

func (in *clusterInjector) usesChaos() bool {
	return slices.ContainsFunc(in.timeline.Lives, func(l *fault.Life) bool {
		return l.Injector == string(v1alpha1.InjectorChaosMesh) && !faultstatus.Merged(l, in.current.Emulation())
	})
}

// checkInjection refuses faults for which no injector is available. The error names the field and an alternative.
func (s *scope) checkInjection(ctx context.Context, p *database.Plan) error {
	plan := fault.NewPlan(s.run.Spec.Faults, &p.Database.Topology, uint64(s.run.Spec.Seed))
	for i := range s.run.Spec.Faults {
		spec := &s.run.Spec.Faults[i]
		at := slices.IndexFunc(plan.Faults, func(f *fault.Fault) bool { return f.Name == spec.Name })
		f := plan.Faults[at]
		by := injectorOf(f, p.Emulation, s.run.Spec.FaultInjection)
		// Nodes, sidecars and Kubernetes are always available as injectors.
		if by != v1alpha1.InjectorChaosMesh {
			continue
		}
		// A kernel without the queueing discipline would reject the object only when the fault is already due.
		var qdiscs []string
		switch f.Kind {
		case fault.NetworkDelay, fault.NetworkLoss:
			qdiscs = kernel.Delay
		case fault.NetworkBandwidth:
			qdiscs = kernel.Bandwidth
		}
		why, err := s.Unfit(ctx, s.db, chaosKind(f.Kind), qdiscs)
		if err != nil {
			return err
		}
		if why != "" {
			return kube.Refuse("FaultUnsupported", "spec.faults[%d].%s: fault %s needs Chaos Mesh on a database with emulation %s, and %s; %s",
				i, f.Kind, f.Name, p.Emulation, why, otherWay(f, s.run.Spec.FaultInjection))
		}
	}
	return s.checkNetworks(plan, p)
}

// otherWay suggests how to inject the fault without Chaos Mesh.
func otherWay(f *fault.Fault, how v1alpha1.FaultInjection) string {
	switch {
	case f.Kind == fault.MemoryStress:
		return "geobench simulate can inject it"
	case f.Kind == fault.ContainerKill:
		return "a podKill does the same to a node that holds its data in memory"
	case slices.Contains(fault.NetworkKinds, f.Kind):
		return "with spec.network.emulation BuiltIn or Sidecar the database's own links can do it"
	case how == v1alpha1.FaultInjectionChaosMesh:
		return "leave spec.faultInjection out"
	}
	return "install Chaos Mesh"
}

// checkNetworks refuses faults that need more distinct links than the network's backend can represent.
func (s *scope) checkNetworks(plan *fault.Plan, p *database.Plan) error {
	b := database.NewBackend(s.Client, s.Live, s.Pods, s.Clock, s.db, s.Image, p.Emulation, p.Why)
	for _, f := range plan.Faults {
		tl := fault.NewTimeline(plan, faultstatus.Poll, faultstatus.Patience)
		for _, l := range tl.Lives {
			if l.Fault.Between() != nil && l.Fault.At <= f.At && f.At < l.Fault.End() {
				l.State, l.Injector = fault.Active, string(p.Emulation)
			}
		}
		n := emulation.NewNetwork(s.db.Namespace, s.db.Name, string(s.db.UID), &p.Database.Topology)
		faultstatus.Disturb(n, tl, s.db, p.Emulation)
		if err := b.Check(n); err != nil {
			return kube.Refuse("FaultUnsupported", "spec.faults: while %s lasts: %s", f.Name, err)
		}
	}
	return nil
}
