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

// injectorOf selects the injector of a fault. Link faults are merged into the emulation of the links. Without
// emulation, only Chaos Mesh can inject them.
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
	// Only Chaos Mesh can kill a single container or fill a container's memory.
	case chaos, f.Kind == fault.NetworkPartition, f.Kind == fault.ContainerKill, f.Kind == fault.MemoryStress:
		return v1alpha1.InjectorChaosMesh
	case f.Kills():
		return v1alpha1.InjectorKubernetes
	}
	return v1alpha1.InjectorBuiltIn
}

// clusterInjector is the fault.Injector of a run. Nodes and sidecars receive their schedules in advance. For all other
// faults, each call brings the cluster into the combined state of the current faults.
type clusterInjector struct {
	*scope
	timeline *fault.Timeline
	// clocks caches the nodes' clocks that were read in this reconciliation.
	clocks map[geo.NodeID]podclient.Clock
	// nodeTracks and sidecarTracks compare the logged disturbances of nodes and sidecars with their instructions. They are
	// nil until the logs are read in this reconciliation.
	nodeTracks    []*fault.Track[*admin.Disturbance]
	sidecarTracks []*fault.Track[*wan.Config]
	// logs contains the nodes' logs. losses contains the deviations that are not part of a track, for example periods that
	// a log no longer covers.
	logs   []nodeLog
	losses []fault.Deviation
	// sidecarLate is the lateness of each sidecar, by pod name.
	sidecarLate map[string]sidecarLate
}

// injector returns the injector of the run's faults, or nil if the run has none.
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

// now returns the time since the start of measuring.
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

// errNotWritten means that the stored status does not contain the targets of a fault yet.
var errNotWritten = errors.New("its targets are being written down")

// Setup implements fault.Injector. It selects the injector of the fault and records the processes that a kill must
// stop. It also sends the schedule to injectors that start and stop faults themselves. These injectors receive the
// schedule only once the status contains the fault, because the database's reconciliation uses the status.
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
	// A retry of Setup must record the current processes, because processes may have been replaced after the previous
	// attempt.
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
	// Nodes react to the planned loss as soon as they are notified. So the stored status must contain it first: an
	// operator that restarts must know about the loss.
	if !in.written(l) {
		return errNotWritten
	}
	return in.applyNodes(ctx)
}

// written reports whether the stored status contains the targets and the injector of a fault.
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

// closeGates ensures that pods which a fault shuts down do not start again. It returns an error until the StatefulSet
// controller has observed the new scheduling gates.
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
		// Until it observes the new generation, the StatefulSet controller may still create pods from the template without
		// gates.
		if set.Status.ObservedGeneration < set.Generation {
			return fmt.Errorf("the StatefulSet %s is being told to keep new pods down", set.Name)
		}
	}
	return nil
}

// comesBack reports whether the targets of a kill recover from their journals. A journal exists as long as its pod.
// Without a journal, a node keeps its data only in memory.
func comesBack(db *v1alpha1.GeoDatabase, l *fault.Life) bool {
	return db.Spec.Durability == v1alpha1.DurabilityJournal &&
		(l.Fault.Kind == fault.ContainerKill || l.Fault.Kind == fault.NodeShutdown && l.Injector == string(v1alpha1.InjectorChaosMesh))
}

// mark identifies a process, and distinguishes it from its replacement: pod UID, process name, number of container
// restarts, and incarnation of the node.
func mark(n *database.Node) string {
	restarts := int32(0)
	for _, c := range n.Pod.Status.ContainerStatuses {
		restarts += c.RestartCount
	}
	return fmt.Sprintf("%s/%s/%d/%d", n.Pod.UID, n.Status.Process, restarts, n.Status.NodeIncarnation)
}

// Inject implements fault.Injector. A fault that the operator injects starts when Inject succeeds.
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

// errBeforeItsTime means that the operator must inject the fault itself, and that its planned time has not been
// reached.
var errBeforeItsTime = errors.New("its time has not come")

// errKillsInTime means that a background job is deleting the pods. The job wakes up the run when it has finished.
var errKillsInTime = errors.New("its pods are being deleted")

// kill deletes the pods of a kill fault at the planned time, in a background job. So no reconciliation blocks until
// that time, and a slow reconciliation does not delay the kill. kill returns the time of the deletion, relative to the
// start of measuring.
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

// marked returns the pods that a fault kills, excluding pods that have already been replaced.
func (in *clusterInjector) marked(l *fault.Life) (pods []*corev1.Pod) {
	for i, id := range l.Targets.From {
		uid, _, _ := strings.Cut(l.Marks[i], "/")
		// A pod with this name but another UID is already the replacement.
		if pod := in.node(id).Pod; pod != nil && string(pod.UID) == uid {
			pods = append(pods, pod.DeepCopy())
		}
	}
	return pods
}

// deletePods deletes pods concurrently, without a grace period.
func deletePods(ctx context.Context, c client.Client, pods []*corev1.Pod) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(podclient.AtOnce)
	for _, pod := range pods {
		group.Go(func() error { return deletePod(ctx, c, pod) })
	}
	return group.Wait()
}

// Propagated implements fault.Injector. It relies on the reports of nodes, sidecars, Chaos Mesh and Kubernetes. If the
// injectors start the fault themselves, their logs contain the actual time.
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

// lives reports whether the marked process is still running. A deleted pod does not prove that: Kubernetes may report
// the deletion of a pod before it reports that the process has exited.
func (in *clusterInjector) lives(was string, n *database.Node, by string) bool {
	uid, _, _ := strings.Cut(was, "/")
	switch {
	case n.Pod == nil || string(n.Pod.UID) != uid:
		return false
	// While a pod that Kubernetes is deleting still exists, its process may still be running. After kills by other
	// injectors, the pod remains, and a node that does not answer has stopped.
	case by == string(v1alpha1.InjectorKubernetes) || n.Status == nil:
		return by == string(v1alpha1.InjectorKubernetes)
	}
	return was == mark(n)
}

// Recover implements fault.Injector. Injectors that start faults themselves also stop them, unless the fault was
// abandoned.
func (in *clusterInjector) Recover(ctx context.Context, l *fault.Life, _ *fault.Conditions) error {
	if faultstatus.ByItself(l) && l.Problem == "" {
		return nil
	}
	return in.orWithoutChaos(l, in.apply(ctx))
}

// Recovered implements fault.Injector. A restarted node has recovered once it has replayed its journal, found its
// peers, and received its instructions again. If a new incarnation has replaced the node, every row must also have its
// full number of copies again.
func (in *clusterInjector) Recovered(ctx context.Context, l *fault.Life, _ *fault.Conditions) (bool, error) {
	if faultstatus.ByItself(l) {
		begun, ended, err := in.observe(ctx, l)
		// An abandoned fault that never started has nothing to recover from.
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
		// A restarted process has lost its agenda, but still needs it for the remaining faults.
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

// Cleanup implements fault.Injector. It removes an object that has killed its targets, and cancels the instructions for
// a fault that was abandoned before it started.
func (in *clusterInjector) Cleanup(ctx context.Context, l *fault.Life) error {
	// Nodes and sidecars may still have instructions for the abandoned fault.
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

// orWithoutChaos turns the error that Chaos Mesh is not installed into a problem of the fault: Chaos Mesh was removed
// while the fault was active. There is then no object left to delete, and no component can report whether the effect is
// gone.
func (in *clusterInjector) orWithoutChaos(l *fault.Life, err error) error {
	if l.Injector != string(v1alpha1.InjectorChaosMesh) || !errors.Is(err, chaosmesh.ErrNotInstalled) {
		return err
	}
	if l.Problem == "" {
		l.Problem = "Chaos Mesh was removed while the fault lasted: nobody can tell when its effect ended"
	}
	return nil
}

// lease returns the time after which Chaos Mesh removes the current faults on its own if no operator does. The time is
// faultLease after the planned end of the last of these faults.
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

// nodeFaults reports whether the nodes themselves inject the fault.
func nodeFaults(l *fault.Life) bool { return l.Injector == string(v1alpha1.InjectorBuiltIn) }

// reachable returns the nodes that can receive instructions: nodes that are neither lost nor down because of a fault.
func (in *clusterInjector) reachable() (out []geo.NodeID) {
	lost, away := in.timeline.Lost(), faultstatus.Down(in.timeline)
	for i := range in.nodes {
		n := &in.nodes[i]
		// A node that is down according to plan but answers, for example before its shutdown, must still receive
		// instructions.
		if slices.Contains(lost, n.ID) || n.Status == nil && slices.Contains(away, n.ID) {
			continue
		}
		out = append(out, n.ID)
	}
	return out
}

// applyNodes sends all reachable nodes their agendas.
func (in *clusterInjector) applyNodes(ctx context.Context) error {
	if !slices.ContainsFunc(in.timeline.Lives, func(l *fault.Life) bool { return nodeFaults(l) || l.Lasting }) {
		return nil // no instruction was ever sent
	}
	return in.tell(ctx, in.reachable())
}

// tell sends agendas to the given nodes, with times converted to each node's clock. An agenda also contains the planned
// losses of other nodes. So a node learns of a loss at the time of the kill even if the operator is unavailable.
// Programs detect losses themselves, and the probes next to them accept no instructions.
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
		// The agenda is meant for this process only. A process that has replaced it must reject the agenda.
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

// readClocks reads the clocks of the given nodes, once per reconciliation.
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

// applyPhases sends the sidecars their phases. It returns an error that names a sidecar which does not have them yet.
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

// observe sets the actual times of a fault that nodes or sidecars inject.
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

// network returns the database's network with the faults that are merged into it. It returns nil if the backend does
// not configure the links of pods.
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

// settled reports whether the injector of l has established the combined state of all faults. The error names a part of
// the state that is missing.
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

// knowsLost reports whether a node has been informed of all other nodes that are permanently lost.
func (in *clusterInjector) knowsLost(n *database.Node) bool {
	var lost []int
	for _, id := range in.timeline.Lost() {
		if id != n.ID {
			lost = append(lost, int(id))
		}
	}
	return len(lost) == 0 || in.db.Spec.RunsPrograms() || n.Status.Disturbance != nil && slices.Equal(n.Status.Disturbance.Lost, lost)
}

// hold keeps active faults in effect, and records a problem if an effect did not last.
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
			// While another link fault starts or stops, all NetworkChaos objects are recreated, which is not a problem of
			// this fault.
			if !f.Leaving && in.injects(f.Object, l) && !in.turning(l) {
				l.Problem = fmt.Sprintf("it did not last: %s %s %s", f.Object.GetKind(), f.Object.GetName(), f.Problem)
			}
		}
	}
	return nil
}
