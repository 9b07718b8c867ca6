package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/emulation"
	"github.com/geobench/geobench/internal/emulation/chaosmesh"
	"github.com/geobench/geobench/internal/fault"
	"github.com/geobench/geobench/internal/geo"
)

// injectorOf chooses who injects a fault. Faults of links are merged into what emulates the links; without emulation there
// is only Chaos Mesh.
func injectorOf(f *fault.Fault, emulated v1alpha1.Emulation, how v1alpha1.FaultInjection) v1alpha1.Injector {
	chaos := how == v1alpha1.FaultInjectionChaosMesh
	switch {
	case f.Between() != nil, f.Kind == fault.NetworkPartition && !chaos:
		switch emulated {
		case v1alpha1.EmulationBuiltIn:
			return v1alpha1.InjectorBuiltIn
		case v1alpha1.EmulationSidecar:
			return v1alpha1.InjectorSidecar
		}
		return v1alpha1.InjectorChaosMesh
	case chaos, f.Kind == fault.NetworkPartition, f.Kind == fault.ContainerKill, f.Kind == fault.MemoryStress:
		return v1alpha1.InjectorChaosMesh
	case f.Kills():
		return v1alpha1.InjectorKubernetes
	}
	return v1alpha1.InjectorBuiltIn
}

// tellsPods says whether the backend tells pods what their links are, so that faults of links are another network.
func (i *incarnation) tellsPods() bool {
	return i.emulation() == v1alpha1.EmulationSidecar || i.emulation() == v1alpha1.EmulationChaosMesh
}

// merged tells whether a fault is merged into the network that the backend of a database brings about.
func merged(l *fault.Life, emulated v1alpha1.Emulation) bool {
	return slices.Contains(fault.NetworkKinds, l.Fault.Kind) && l.Injector == string(emulated) && l.Injector != string(v1alpha1.InjectorBuiltIn)
}

// disturb merges faults into the network of a database. timeline may be nil.
func disturb(n *emulation.Network, timeline *fault.Timeline, db *v1alpha1.GeoDatabase, emulated v1alpha1.Emulation) {
	if timeline != nil {
		change(n, timeline.Packets(func(l *fault.Life) bool { return merged(l, emulated) }), timeline.Plan.Topology, db)
	}
}

// change makes the links of a network those of the conditions.
func change(n *emulation.Network, c *fault.Conditions, t *geo.Topology, db *v1alpha1.GeoDatabase) {
	for a, row := range c.Links {
		for b, l := range row {
			n.Links[a][b].Link, n.Links[a][b].LossCorrelationPercent = l, c.Correlation[a][b]
		}
	}
	for _, s := range c.Separated() {
		n.Cuts = append(n.Cuts, emulation.Cut{From: podNames(db, t, s.From), To: podNames(db, t, s.To)})
	}
}

func podNames(db *v1alpha1.GeoDatabase, t *geo.Topology, nodes []geo.NodeID) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, nodePodName(db, t, n))
	}
	return out
}

// clusterInjector injects the faults of a run: its fault.Injector. Whatever is called, it brings everything to what all
// faults together shall do.
type clusterInjector struct {
	*runScope
	timeline *fault.Timeline
	now      time.Duration
}

// injector returns the injector of the run's faults; nil when there are none.
func (s *runScope) injector() *clusterInjector {
	tl := timelineOf(s.run, &s.current.database.Topology)
	if tl == nil {
		return nil
	}
	return &clusterInjector{runScope: s, timeline: tl, now: s.Clock.Now().Sub(s.run.Status.MeasureStartTime.Time)}
}

// Roles implements fault.Injector.
func (in *clusterInjector) Roles(context.Context) (fault.Roles, error) {
	return func(n geo.NodeID) ([]string, error) {
		if in.nodes[n].status == nil {
			return nil, fmt.Errorf("node %s: %s", in.nodes[n].podName, in.nodes[n].problem)
		}
		return in.nodes[n].status.Roles, nil
	}, nil
}

// Setup implements fault.Injector: it chooses who injects the fault and notes which processes a kill is to end.
func (in *clusterInjector) Setup(ctx context.Context, l *fault.Life) error {
	l.Injector = string(injectorOf(l.Fault, in.current.emulation(), in.run.Spec.FaultInjection))
	if !l.Fault.Kills() {
		return nil
	}
	l.Marks = nil
	for _, id := range l.Targets.From {
		n := &in.nodes[id]
		if n.pod == nil || n.status == nil {
			return fmt.Errorf("node %s: %s", n.podName, n.problem)
		}
		l.Marks = append(l.Marks, mark(n))
	}
	l.Lasting = !comesBack(in.db, l)
	return in.closeGates(ctx, l)
}

// shutdownGates, in the template of a region's pods, keep a pod that takes the place of one which was shut down from being
// given a machine.
var shutdownGates = []corev1.PodSchedulingGate{{Name: "geobench.dev/shutdown"}}

// closes tells whether a fault keeps pods of a region down.
func closes(l *fault.Life, t *geo.Topology, region string) bool {
	return l.Fault.Kind == fault.NodeShutdown && l.Injector == string(v1alpha1.InjectorKubernetes) &&
		slices.ContainsFunc(l.Targets.From, func(n geo.NodeID) bool { return t.Regions[t.RegionOf(n)] == region })
}

// staysDown tells whether a pod of a region that is made now is to stay down: a node that was shut down has lost its data, so
// that is until the run is over.
func staysDown(tl *fault.Timeline, region string) bool {
	return tl != nil && slices.ContainsFunc(tl.Lives, func(l *fault.Life) bool { return closes(l, tl.Plan.Topology, region) })
}

// closeGates makes sure that the pods which a fault shuts down do not start again.
func (in *clusterInjector) closeGates(ctx context.Context, l *fault.Life) error {
	gates, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"schedulingGates": shutdownGates}}}})
	if err != nil {
		return err
	}
	for _, region := range in.timeline.Plan.Topology.Regions {
		if !closes(l, in.timeline.Plan.Topology, region) {
			continue
		}
		set := &appsv1.StatefulSet{}
		if err := in.Live.Get(ctx, types.NamespacedName{Namespace: in.run.Namespace, Name: regionName(in.db, region)}, set); err != nil {
			return err
		}
		if len(set.Spec.Template.Spec.SchedulingGates) == 0 {
			if err := in.Client.Patch(ctx, set, client.RawPatch(types.MergePatchType, gates)); err != nil {
				return err
			}
		}
		if set.Status.ObservedGeneration < set.Generation {
			return fmt.Errorf("the StatefulSet %s is being told to keep new pods down", set.Name)
		}
	}
	return nil
}

// comesBack tells whether the targets of a kill go on from their journals. A journal lives as long as its pod; without one,
// a node keeps its data in memory.
func comesBack(db *v1alpha1.GeoDatabase, l *fault.Life) bool {
	return db.Spec.Durability == v1alpha1.DurabilityJournal &&
		(l.Fault.Kind == fault.ContainerKill || l.Fault.Kind == fault.NodeShutdown && l.Injector == string(v1alpha1.InjectorChaosMesh))
}

// mark tells a process from the one that takes its place: by the pod, its container and the process's own name.
func mark(n *nodeState) string {
	restarts := int32(0)
	for _, c := range n.pod.Status.ContainerStatuses {
		restarts += c.RestartCount
	}
	return fmt.Sprintf("%s/%s/%d", n.pod.UID, n.status.Process, restarts)
}

// down are the nodes that faults keep from running now, or have just let go: nobody can tell them anything.
func down(tl *fault.Timeline) (out []geo.NodeID) {
	if tl == nil {
		return nil
	}
	for _, l := range tl.Lives {
		if l.Fault.Kills() && !l.Lasting && l.Touches() {
			out = append(out, l.Targets.From...)
		}
	}
	return out
}

// Inject implements fault.Injector.
func (in *clusterInjector) Inject(ctx context.Context, l *fault.Life, _ *fault.Conditions) error {
	if err := in.apply(ctx, true); err != nil {
		return err
	}
	if l.Injector == string(v1alpha1.InjectorKubernetes) {
		return in.deletePods(ctx, l)
	}
	return nil
}

// Propagated implements fault.Injector: what nodes, sidecars, Chaos Mesh and Kubernetes say of themselves counts.
func (in *clusterInjector) Propagated(ctx context.Context, l *fault.Life, _ *fault.Conditions) (bool, error) {
	if ok, err := in.settled(ctx, l); !ok {
		return false, err
	}
	for i, id := range l.Targets.From {
		if l.Fault.Kills() && in.lives(l.Marks[i], &in.nodes[id], l.Injector) {
			return false, fmt.Errorf("node %s still runs", in.nodes[id].podName)
		}
	}
	return true, nil
}

// lives tells whether the process that was marked still runs. Kubernetes may say that a pod is gone before it says so of
// its process.
func (in *clusterInjector) lives(was string, n *nodeState, by string) bool {
	uid, _, _ := strings.Cut(was, "/")
	switch {
	case n.pod == nil || string(n.pod.UID) != uid:
		return false
	case by == string(v1alpha1.InjectorKubernetes) || n.status == nil:
		return by == string(v1alpha1.InjectorKubernetes)
	}
	return was == mark(n)
}

// Recover implements fault.Injector.
func (in *clusterInjector) Recover(ctx context.Context, l *fault.Life, _ *fault.Conditions) error {
	if late := in.now - l.Fault.End(); late > faultLease && l.Injected != nil && l.Problem == "" {
		l.Problem = fmt.Sprintf("the operator was away when it was to end, and came back %s later: nodes end faults by themselves after %s",
			v1alpha1.DurationOf(late.Round(time.Second)), v1alpha1.DurationOf(faultLease))
	}
	return in.orWithoutChaos(l, in.apply(ctx, true))
}

// Recovered implements fault.Injector: a node that was started again has replayed its journal, found its peers, and does
// what it was told before.
func (in *clusterInjector) Recovered(ctx context.Context, l *fault.Life, _ *fault.Conditions) (bool, error) {
	if l.Fault.Kills() {
		if err := in.applyNodes(ctx, false); err != nil {
			return false, err
		}
		for _, id := range l.Targets.From {
			if n := &in.nodes[id]; !n.ready || !in.obeys(n) {
				return false, fmt.Errorf("node %s: %s", n.podName, firstOf(n.problem, "it does not do yet what it was told"))
			}
		}
	}
	ok, err := in.settled(ctx, l)
	if err != nil && in.orWithoutChaos(l, err) == nil {
		return true, nil
	}
	return ok, err
}

// Cleanup implements fault.Injector: an object that has killed has no more to do.
func (in *clusterInjector) Cleanup(ctx context.Context, l *fault.Life) error {
	if l.Injector != string(v1alpha1.InjectorChaosMesh) {
		return nil
	}
	if err := in.orWithoutChaos(l, in.applyChaos(ctx)); err != nil {
		return err
	}
	flaws, err := in.flaws(ctx)
	if err = in.orWithoutChaos(l, err); err != nil {
		return err
	}
	for _, f := range flaws {
		if f.Leaving {
			return fmt.Errorf("%s %s is not gone yet", f.Object.GetKind(), f.Object.GetName())
		}
	}
	return nil
}

// orWithoutChaos notes that Chaos Mesh went while the fault lasted: then there is nothing to take away any more, and nobody
// who could tell whether its effect is.
func (in *clusterInjector) orWithoutChaos(l *fault.Life, err error) error {
	if l.Injector != string(v1alpha1.InjectorChaosMesh) || !errors.Is(err, chaosmesh.ErrNotInstalled) {
		return err
	}
	if l.Problem == "" {
		l.Problem = "Chaos Mesh was removed while the fault lasted: nobody can tell when its effect ended"
	}
	return nil
}

// lease is until faultLease after the last fault that has begun shall be over: nodes heal themselves when no operator does.
func (in *clusterInjector) lease() time.Duration {
	d := faultLease
	for _, l := range in.timeline.Lives {
		if l.Touches() {
			d = max(d, l.Fault.End()-in.now+faultLease)
		}
	}
	return d
}

// apply brings nodes, network and Chaos Mesh to what all faults together shall do. Nodes that stay learn first whom they
// have lost. renew begins the nodes' leases anew.
func (in *clusterInjector) apply(ctx context.Context, renew bool) error {
	if err := in.applyNodes(ctx, renew); err != nil {
		return err
	}
	if err := in.applyNetwork(ctx); err != nil {
		return err
	}
	return in.applyChaos(ctx)
}

// disturbed are the conditions that nodes bring about by themselves.
func (in *clusterInjector) disturbed() *fault.Conditions {
	return in.timeline.Part(func(l *fault.Life) bool { return l.Injector == string(v1alpha1.InjectorBuiltIn) })
}

func (in *clusterInjector) applyNodes(ctx context.Context, renew bool) error {
	c, lost, away := in.disturbed(), in.timeline.Lost(), down(in.timeline)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxAsk)
	for i := range in.nodes {
		n := &in.nodes[i]
		d := c.Disturbance(n.id, in.timeline.Plan.Topology, lost, in.lease())
		if slices.Contains(lost, n.id) || n.status == nil && slices.Contains(away, n.id) || n.status != nil && d.Same(n.status.Disturbance) && (!renew || d.Same(nil)) {
			continue
		}
		group.Go(func() error {
			if n.address == "" {
				return fmt.Errorf("node %s: %s", n.podName, n.problem)
			}
			if err := in.Nodes.Disturb(ctx, n.address, d); err != nil {
				return fmt.Errorf("node %s: %w", n.podName, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// network is the database's, with the faults that are merged into it; nil when its backend tells pods nothing.
func (in *clusterInjector) network(ctx context.Context) (*emulation.Network, error) {
	if !in.current.tellsPods() {
		return nil, nil
	}
	n, err := findNetwork(ctx, in.Client, in.db, in.current)
	if err == nil {
		disturb(n, in.timeline, in.db, in.current.emulation())
	}
	return n, err
}

func (in *clusterInjector) applyNetwork(ctx context.Context) error {
	n, err := in.network(ctx)
	if n == nil || err != nil {
		return err
	}
	if err := in.backend().Check(n); err != nil {
		return err
	}
	return in.backend().Ensure(ctx, n)
}

// deletePods deletes the pods that a fault kills, without grace; those that have taken their places stay.
func (in *clusterInjector) deletePods(ctx context.Context, l *fault.Life) error {
	for i, id := range l.Targets.From {
		uid, _, _ := strings.Cut(l.Marks[i], "/")
		pod := in.nodes[id].pod
		if pod == nil || string(pod.UID) != uid {
			continue
		}
		if err := deletePod(ctx, in.Client, pod); err != nil {
			return err
		}
	}
	return nil
}

// settled tells whether what all faults together shall do is the case, as far as those are concerned who inject l; the
// error says what is not.
func (in *clusterInjector) settled(ctx context.Context, l *fault.Life) (bool, error) {
	skip := append(in.timeline.Lost(), down(in.timeline)...)
	for i := range in.nodes {
		n := &in.nodes[i]
		switch {
		case slices.Contains(skip, n.id):
		case n.status == nil:
			return false, fmt.Errorf("node %s: %s", n.podName, n.problem)
		case !in.obeys(n):
			return false, fmt.Errorf("node %s does not do yet what it was told", n.podName)
		}
	}
	if merged(l, in.current.emulation()) {
		n, err := in.network(ctx)
		if err != nil {
			return false, err
		}
		state, err := in.backend().Observe(ctx, n)
		if err != nil {
			return false, err
		}
		if !state.Injected {
			return false, errors.New(state.Message)
		}
	} else if l.Injector == string(v1alpha1.InjectorChaosMesh) {
		flaws, err := in.flaws(ctx)
		if err != nil {
			return false, err
		}
		for _, f := range flaws {
			return false, fmt.Errorf("%s %s %s", f.Object.GetKind(), f.Object.GetName(), f.Problem)
		}
	}
	return true, nil
}

// obeys tells whether a node does what it was told.
func (in *clusterInjector) obeys(n *nodeState) bool {
	return n.status.Disturbance.Same(in.disturbed().Disturbance(n.id, in.timeline.Plan.Topology, in.timeline.Lost(), 0))
}

// hold keeps up what active faults do, and notes what did not hold.
func (in *clusterInjector) hold(ctx context.Context) error {
	var active []*fault.Life
	chaos := false
	for _, l := range in.timeline.Lives {
		if l.State == fault.Active {
			active = append(active, l)
			chaos = chaos || l.Injector == string(v1alpha1.InjectorChaosMesh) && !merged(l, in.current.emulation())
		}
	}
	if len(active) == 0 {
		return nil
	}
	if err := in.applyNetwork(ctx); err != nil || !chaos {
		return err
	}
	flaws, err := in.flaws(ctx)
	if err != nil && !errors.Is(err, chaosmesh.ErrNotInstalled) {
		return err
	}
	for _, l := range active {
		if l.Injector != string(v1alpha1.InjectorChaosMesh) || merged(l, in.current.emulation()) || l.Problem != "" {
			continue
		}
		if err != nil {
			_ = in.orWithoutChaos(l, err)
			continue
		}
		for _, f := range flaws {
			if !f.Leaving {
				l.Problem = fmt.Sprintf("it did not last: %s %s %s", f.Object.GetKind(), f.Object.GetName(), f.Problem)
			}
		}
	}
	return nil
}
