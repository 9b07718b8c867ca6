package run

import (
	"cmp"
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
	"github.com/geobench/geobench/controllers/background"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/faultstatus"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/net/emulation"
	"github.com/geobench/geobench/internal/net/emulation/chaosmesh"
	"github.com/geobench/geobench/internal/net/wan"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// injectorOf selects the injector of a fault. Link faults are merged into the emulation of the links; without emulation
// only Chaos Mesh can inject them.
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

// clusterInjector is the fault.Injector of a run. Nodes and sidecars receive their schedules in advance. Each call
// establishes the combined state of all faults that the operator itself injects.
type clusterInjector struct {
	*scope
	timeline *fault.Timeline
	// clocks has the clocks of the nodes that were queried in this reconciliation.
	clocks map[geo.NodeID]podclient.Clock
	// nodeTracks and sidecarTracks are what nodes and sidecars have done, once they were asked in this reconciliation.
	nodeTracks    []*fault.Track[*admin.Disturbance]
	sidecarTracks []*fault.Track[*wan.Config]
	// logs are the nodes' logs, and losses are the losses that they show.
	logs   []nodeLog
	losses []fault.Deviation
	// sidecarLate is the lateness of sidecars, by pod.
	sidecarLate map[string]sidecarLate
}

// injector returns the injector of the run's faults; nil when there are none.
func (s *scope) injector() *clusterInjector {
	tl := faultstatus.Timeline(s.run, &s.current.Database.Topology)
	if tl == nil {
		return nil
	}
	return newInjector(s, tl)
}

func newInjector(s *scope, tl *fault.Timeline) *clusterInjector {
	return &clusterInjector{scope: s, timeline: tl, clocks: map[geo.NodeID]podclient.Clock{}}
}

// now counts from the start of measuring.
func (in *clusterInjector) now() time.Duration { return in.Clock.Now().Sub(in.timeline.Start) }

// Roles implements fault.Injector.
func (in *clusterInjector) Roles(context.Context) (fault.Roles, error) {
	return func(n geo.NodeID) ([]string, error) {
		if in.node(n).Status == nil {
			return nil, fmt.Errorf("node %s: %s", in.node(n).PodName, in.node(n).Problem)
		}
		return in.node(n).Status.Roles, nil
	}, nil
}

// errNotWritten means that the targets of a fault are not in the run's status yet.
var errNotWritten = errors.New("its targets are being written down")

// Setup implements fault.Injector: it chooses the injector of the fault, records the processes that a kill must stop,
// and notifies injectors that keep the time themselves. They are notified once the status has the fault, because the
// database's reconciliation uses the status.
func (in *clusterInjector) Setup(ctx context.Context, l *fault.Life) error {
	l.Injector = string(injectorOf(l.Fault, in.current.Emulation(), in.run.Spec.FaultInjection))
	if !l.Fault.Kills() {
		if !faultstatus.ByItself(l) {
			return nil
		}
		if !in.written(l) {
			return errNotWritten
		}
		if l.Injector == string(v1alpha1.InjectorBuiltIn) {
			return in.applyNodes(ctx)
		}
		return in.applyPhases(ctx)
	}
	l.Marks = nil
	for _, id := range l.Targets.From {
		n := in.node(id)
		if n.Pod == nil || n.Status == nil {
			return fmt.Errorf("node %s: %s", n.PodName, n.Problem)
		}
		l.Marks = append(l.Marks, mark(n))
	}
	if d := in.database(); d != nil {
		l.Replaced = d.Replaces(l.Fault)
		if err := d.CanLose(l); err != nil {
			return err
		}
	}
	l.Lasting = !l.Replaced && !comesBack(in.db, l)
	if err := in.closeGates(ctx, l); err != nil || !l.Lasting {
		return err
	}
	if !in.written(l) {
		return errNotWritten
	}
	return in.applyNodes(ctx)
}

// written reports whether the status has the targets and the injector of a fault.
func (in *clusterInjector) written(l *fault.Life) bool {
	was := faultstatus.Find(in.before, l.Fault.Name)
	names := func(nodes []geo.NodeID) (out []string) {
		for _, n := range nodes {
			out = append(out, in.timeline.Plan.Topology.NodeName(n))
		}
		return out
	}
	return was != nil && string(was.Injector) == l.Injector && slices.Equal(was.Targets, names(l.Targets.From)) && slices.Equal(was.OtherSide, names(l.Targets.To))
}

// closeGates makes sure that the pods which a fault shuts down do not start again.
func (in *clusterInjector) closeGates(ctx context.Context, l *fault.Life) error {
	gates, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"schedulingGates": faultstatus.ShutdownGates}}}})
	if err != nil {
		return err
	}
	closed := map[string]bool{}
	for _, pod := range deploy.Pods(in.db) {
		if closed[pod.Set] || !faultstatus.Closes(l, in.timeline.Plan.Topology, pod.Region) {
			continue
		}
		closed[pod.Set] = true
		set := &appsv1.StatefulSet{}
		if err := in.Live.Get(ctx, types.NamespacedName{Namespace: in.run.Namespace, Name: pod.Set}, set); err != nil {
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

// comesBack reports whether the targets of a kill continue from their journals. A journal lives as long as its pod;
// without a journal, a node keeps its data in memory.
func comesBack(db *v1alpha1.GeoDatabase, l *fault.Life) bool {
	return db.Spec.Durability == v1alpha1.DurabilityJournal &&
		(l.Fault.Kind == fault.ContainerKill || l.Fault.Kind == fault.NodeShutdown && l.Injector == string(v1alpha1.InjectorChaosMesh))
}

// mark distinguishes a process from its replacement: by the pod, its container and the process's name.
func mark(n *database.Node) string {
	restarts := int32(0)
	for _, c := range n.Pod.Status.ContainerStatuses {
		restarts += c.RestartCount
	}
	return fmt.Sprintf("%s/%s/%d/%d", n.Pod.UID, n.Status.Process, restarts, n.Status.NodeIncarnation)
}

// Inject implements fault.Injector. A fault that the operator injects starts when Inject has succeeded.
func (in *clusterInjector) Inject(ctx context.Context, l *fault.Life, _ *fault.Conditions) error {
	switch {
	case faultstatus.ByItself(l):
		return nil
	case l.Injector == string(v1alpha1.InjectorKubernetes):
		at, err := in.kill(l)
		if err == nil {
			l.Injecting = &at
		}
		return err
	}
	if wait := l.Fault.At - in.now(); wait > 0 {
		in.again = min(in.again, wait)
		return errBeforeItsTime
	}
	if err := in.applyNetwork(ctx); err != nil {
		return err
	}
	if err := in.applyChaos(ctx); err != nil {
		return err
	}
	now := in.now()
	l.Injecting = &now
	return nil
}

// errBeforeItsTime means that the operator has taken over a fault that is not due yet.
var errBeforeItsTime = errors.New("its time has not come")

// errKillsInTime says that pods are deleted by a job, which wakes the run up.
var errKillsInTime = errors.New("its pods are being deleted")

// kill deletes the pods that a fault kills at its time, in a job: neither does a reconciliation wait for an
// instant, nor an instant for a reconciliation. It returns when they were deleted, counted from the start of measuring.
func (in *clusterInjector) kill(l *fault.Life) (at time.Duration, err error) {
	key := in.job("kill " + l.Fault.Name)
	at, state, err := background.Outcome[time.Duration](in.Jobs, key)
	switch state {
	case background.Done:
		return at, err
	case background.None:
		pods, start, due := in.marked(l), in.timeline.Start, in.timeline.Start.Add(l.Fault.At)
		r := in.Reconciler
		background.Go(r.Jobs, key, nil, 0, func(ctx context.Context) (time.Duration, error) {
			if wait := due.Sub(r.Clock.Now()); wait > 0 {
				if err := r.Wait(ctx, wait); err != nil {
					return 0, err
				}
			}
			err := deletePods(ctx, r.Client, pods)
			return r.Clock.Now().Sub(start), err
		})
	}
	return 0, errKillsInTime
}

// marked returns the pods that a fault kills; not their replacements.
func (in *clusterInjector) marked(l *fault.Life) (pods []*corev1.Pod) {
	for i, id := range l.Targets.From {
		uid, _, _ := strings.Cut(l.Marks[i], "/")
		if pod := in.node(id).Pod; pod != nil && string(pod.UID) == uid {
			pods = append(pods, pod.DeepCopy())
		}
	}
	return pods
}

// deletePods deletes pods side by side, without grace.
func deletePods(ctx context.Context, c client.Client, pods []*corev1.Pod) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(podclient.AtOnce)
	for _, pod := range pods {
		group.Go(func() error { return deletePod(ctx, c, pod) })
	}
	return group.Wait()
}

// Propagated implements fault.Injector: it uses the reports of nodes, sidecars, Chaos Mesh and Kubernetes about
// themselves. If injectors keep the time themselves, their logs have the true time of the fault.
func (in *clusterInjector) Propagated(ctx context.Context, l *fault.Life, _ *fault.Conditions) (bool, error) {
	if faultstatus.ByItself(l) {
		begun, _, err := in.observe(ctx, l)
		return begun, err
	}
	if ok, err := in.settled(ctx, l); !ok {
		return false, err
	}
	for i, id := range l.Targets.From {
		if l.Fault.Kills() && in.lives(l.Marks[i], in.node(id), l.Injector) {
			return false, fmt.Errorf("node %s still runs", in.node(id).PodName)
		}
	}
	return true, nil
}

// lives reports whether the marked process still runs. Kubernetes may report that a pod is deleted before it reports
// that its process has exited.
func (in *clusterInjector) lives(was string, n *database.Node, by string) bool {
	uid, _, _ := strings.Cut(was, "/")
	switch {
	case n.Pod == nil || string(n.Pod.UID) != uid:
		return false
	case by == string(v1alpha1.InjectorKubernetes) || n.Status == nil:
		return by == string(v1alpha1.InjectorKubernetes)
	}
	return was == mark(n)
}

// Recover implements fault.Injector. Injectors that keep the time themselves also stop the fault, unless it was
// abandoned.
func (in *clusterInjector) Recover(ctx context.Context, l *fault.Life, _ *fault.Conditions) error {
	if faultstatus.ByItself(l) && l.Problem == "" {
		return nil
	}
	return in.orWithoutChaos(l, in.apply(ctx))
}

// Recovered implements fault.Injector. A restarted node has recovered when it has replayed its journal, found its
// peers, and applies its instructions again. If a new incarnation replaces the node, no data may lack a copy any more.
func (in *clusterInjector) Recovered(ctx context.Context, l *fault.Life, _ *fault.Conditions) (bool, error) {
	if faultstatus.ByItself(l) {
		begun, ended, err := in.observe(ctx, l)
		return ended || !begun && l.Problem != "", err
	}
	if l.Replaced {
		if err := in.replace(ctx, l); err != nil {
			return false, err
		}
	}
	if l.Fault.Kills() {
		for _, id := range l.Targets.From {
			n := in.node(id)
			if !n.Ready {
				return false, fmt.Errorf("node %s: %s", n.PodName, cmp.Or(n.Problem, "it is not ready yet"))
			}
		}
		if err := in.tell(ctx, l.Targets.From); err != nil {
			return false, err
		}
	}
	if l.Replaced {
		if lacks := in.mending(); lacks != "" {
			return false, errors.New(lacks)
		}
	}
	ok, err := in.settled(ctx, l)
	if err != nil && in.orWithoutChaos(l, err) == nil {
		return true, nil
	}
	return ok, err
}

// Cleanup implements fault.Injector: it removes an object that has killed its targets, and cancels the instructions for
// a fault that was abandoned before it started.
func (in *clusterInjector) Cleanup(ctx context.Context, l *fault.Life) error {
	if (faultstatus.ByItself(l) || l.Lasting) && l.Injecting == nil {
		return in.apply(ctx)
	}
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

// orWithoutChaos records that Chaos Mesh was removed while the fault lasted. There is then no object left to delete,
// and no component can report whether its effect is gone.
func (in *clusterInjector) orWithoutChaos(l *fault.Life, err error) error {
	if l.Injector != string(v1alpha1.InjectorChaosMesh) || !errors.Is(err, chaosmesh.ErrNotInstalled) {
		return err
	}
	if l.Problem == "" {
		l.Problem = "Chaos Mesh was removed while the fault lasted: nobody can tell when its effect ended"
	}
	return nil
}

// lease is until faultLease after the last fault that has begun shall be over: Chaos Mesh ends it when no operator
// does.
func (in *clusterInjector) lease() time.Duration {
	d := faultLease
	for _, l := range in.timeline.Lives {
		if l.Touches() {
			d = max(d, l.Fault.End()-in.now()+faultLease)
		}
	}
	return d
}

// apply sends nodes and sidecars their schedules, and updates the network and Chaos Mesh to the combined state of all
// current faults.
func (in *clusterInjector) apply(ctx context.Context) error {
	if err := in.applyNodes(ctx); err != nil {
		return err
	}
	if err := in.applyNetwork(ctx); err != nil {
		return err
	}
	return in.applyChaos(ctx)
}

// nodeFaults reports whether nodes inject a fault into themselves.
func nodeFaults(l *fault.Life) bool { return l.Injector == string(v1alpha1.InjectorBuiltIn) }

// reachable returns the nodes that can receive instructions: nodes that are neither lost nor down.
func (in *clusterInjector) reachable() (out []geo.NodeID) {
	lost, away := in.timeline.Lost(), faultstatus.Down(in.timeline)
	for i := range in.nodes {
		n := &in.nodes[i]
		if slices.Contains(lost, n.ID) || n.Status == nil && slices.Contains(away, n.ID) {
			continue
		}
		out = append(out, n.ID)
	}
	return out
}

// applyNodes gives all nodes their agendas.
func (in *clusterInjector) applyNodes(ctx context.Context) error {
	if !slices.ContainsFunc(in.timeline.Lives, func(l *fault.Life) bool { return nodeFaults(l) || l.Lasting }) {
		return nil // no instruction was ever sent
	}
	return in.tell(ctx, in.reachable())
}

// tell sends some nodes their agendas, each in terms of its own clock. From the time of a kill, the remaining nodes
// know the lost nodes, even if the operator is unavailable. Programs detect losses themselves, and the probes next to
// them accept no instructions.
func (in *clusterInjector) tell(ctx context.Context, nodes []geo.NodeID) error {
	if in.db.Spec.RunsPrograms() {
		return nil
	}
	if err := in.readClocks(ctx, nodes); err != nil {
		return err
	}
	departures := in.timeline.Departures()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(podclient.AtOnce)
	for _, id := range nodes {
		n := in.node(id)
		a := fault.Agenda(in.timeline.NodePlan(id, nodeFaults), in.clocks[id].Zero.Sub(in.timeline.Start), departures, id)
		a.Process = n.Status.Process
		group.Go(func() error {
			if err := in.Pods.Nodes(in.db.UID).Disturb(ctx, n.Address, a); err != nil {
				return fmt.Errorf("node %s: %w", n.PodName, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// readClocks reads the clocks of some nodes, once in a reconciliation.
func (in *clusterInjector) readClocks(ctx context.Context, nodes []geo.NodeID) error {
	clocks := make([]podclient.Clock, len(nodes))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(podclient.AtOnce)
	for i, id := range nodes {
		n := in.node(id)
		if _, ok := in.clocks[id]; ok {
			clocks[i] = in.clocks[id]
			continue
		}
		group.Go(func() (err error) {
			if n.Status == nil {
				return fmt.Errorf("node %s: %s", n.PodName, n.Problem)
			}
			if clocks[i], err = in.Pods.Nodes(in.db.UID).Clock(ctx, n.Address); err != nil {
				return fmt.Errorf("the clock of node %s: %w", n.PodName, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, id := range nodes {
		in.clocks[id] = clocks[i]
	}
	return nil
}

// applyPhases sends the sidecars their phases; the error names a sidecar that does not have them yet.
func (in *clusterInjector) applyPhases(ctx context.Context) error {
	if err := in.applyNetwork(ctx); err != nil {
		return err
	}
	n, err := in.network(ctx)
	if err != nil {
		return err
	}
	state, err := in.backend().Observe(ctx, n)
	if err == nil && !state.Injected {
		err = errors.New(state.Message)
	}
	return err
}

// observe sets the true times of a fault that is injected by nodes or sidecars.
func (in *clusterInjector) observe(ctx context.Context, l *fault.Life) (begun, ended bool, err error) {
	if l.Injector == string(v1alpha1.InjectorSidecar) {
		if err := in.readSidecars(ctx); err != nil {
			return false, false, err
		}
		begun, ended = fault.Observe(l, in.sidecarTracks)
		return begun, ended, nil
	}
	if err := in.readLogs(ctx); err != nil {
		return false, false, err
	}
	begun, ended = fault.Observe(l, in.nodeTracks)
	return begun, ended, nil
}

// network returns the database's network, with the faults that are merged into it; nil if its backend sends pods
// nothing.
func (in *clusterInjector) network(ctx context.Context) (*emulation.Network, error) {
	if !in.current.TellsPods() {
		return nil, nil
	}
	n, err := database.FindNetwork(ctx, in.Client, in.db, in.current)
	if err == nil {
		faultstatus.Disturb(n, in.timeline, in.db, in.current.Emulation())
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

// settled reports whether the combined state of all faults is in effect, as far as the injectors of l are concerned;
// the error names a part that is not.
func (in *clusterInjector) settled(ctx context.Context, l *fault.Life) (bool, error) {
	for _, id := range in.reachable() {
		n := in.node(id)
		switch {
		case n.Status == nil:
			return false, fmt.Errorf("node %s: %s", n.PodName, n.Problem)
		case !in.knowsLost(n):
			return false, fmt.Errorf("node %s does not know yet who is lost", n.PodName)
		}
	}
	if faultstatus.Merged(l, in.current.Emulation()) {
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
			if in.injects(f.Object, l) {
				return false, fmt.Errorf("%s %s %s", f.Object.GetKind(), f.Object.GetName(), f.Problem)
			}
		}
	}
	return true, nil
}

// knowsLost reports whether a node knows which other nodes are permanently lost.
func (in *clusterInjector) knowsLost(n *database.Node) bool {
	var lost []int
	for _, id := range in.timeline.Lost() {
		if id != n.ID {
			lost = append(lost, int(id))
		}
	}
	return len(lost) == 0 || in.db.Spec.RunsPrograms() || n.Status.Disturbance != nil && slices.Equal(n.Status.Disturbance.Lost, lost)
}

// hold keeps up what active faults do, and notes what did not hold.
func (in *clusterInjector) hold(ctx context.Context) error {
	var active []*fault.Life
	chaos := false
	for _, l := range in.timeline.Lives {
		if l.State == fault.Active {
			active = append(active, l)
			chaos = chaos || l.Injector == string(v1alpha1.InjectorChaosMesh) && !faultstatus.Merged(l, in.current.Emulation())
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
		if l.Injector != string(v1alpha1.InjectorChaosMesh) || faultstatus.Merged(l, in.current.Emulation()) || l.Problem != "" {
			continue
		}
		if err != nil {
			_ = in.orWithoutChaos(l, err)
			continue
		}
		for _, f := range flaws {
			if !f.Leaving && in.injects(f.Object, l) && !in.turning(l) {
				l.Problem = fmt.Sprintf("it did not last: %s %s %s", f.Object.GetKind(), f.Object.GetName(), f.Problem)
			}
		}
	}
	return nil
}
