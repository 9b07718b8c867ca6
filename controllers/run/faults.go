package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/faultstatus"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/net/emulation"
	"github.com/geobench/geobench/internal/net/emulation/chaosmesh"
	"github.com/geobench/geobench/internal/ops/admin"
)

// playFaults executes the next step of each fault whose step is due. over is true once all faults are over. Each change
// of state is written to the status before any action of the new state. So if the operator is killed, the next operator
// can continue.
func (s *scope) playFaults(ctx context.Context) (over bool, err error) {
	in := s.injector()
	if in == nil {
		return true, nil
	}
	if err := in.hold(ctx); err != nil {
		return false, err
	}
	next, err := in.timeline.Step(ctx, in.now(), in, true)
	if err != nil {
		return false, err
	}
	s.events = append(s.events, in.changes(s.run)...)
	faultstatus.Keep(s.run, in.timeline)
	// The next step is due at a fixed time, so the run must wake up earlier than it would for polling. A delay of 0 would
	// mean no wake-up.
	if next != fault.Forever {
		s.again = min(s.again, max(time.Millisecond, next-in.now()))
	}
	return in.timeline.Over(), nil
}

// changes returns the events for faults that have changed their state since the status was written.
func (in *clusterInjector) changes(run *v1alpha1.BenchmarkRun) (out []kube.Event) {
	for _, l := range in.timeline.Lives {
		was := faultstatus.Find(run, l.Fault.Name)
		if was != nil && was.State == string(l.State) {
			continue
		}
		switch l.State {
		case fault.Active:
			out = append(out, eventFault(run, l, "FaultInjected", "fault injected", "is injected by "+l.Injector))
		case fault.Done:
			what := "is over"
			switch {
			case l.Problem != "":
				what = l.Problem
			case l.Lasting:
				what = "has taken its nodes for good: they held their data in memory"
			case l.Replaced:
				what = "is over: new incarnations have taken the places of its nodes, and got what those had lost from the others"
			}
			out = append(out, eventFault(run, l, "FaultOver", "fault over", what))
		}
	}
	return out
}

// taken returns the nodes that faults have removed permanently, as planned, and nodes whose planned removal is overdue.
func (s *scope) taken() []geo.NodeID {
	tl := faultstatus.Timeline(s.run, &s.current.Database.Topology)
	if tl == nil {
		return nil
	}
	return tl.Departed(s.Clock.Now().Sub(tl.Start))
}

// actedOn reports whether a fault of the run affects a node now, including the time until it is removed.
func (s *scope) actedOn(id geo.NodeID) bool {
	tl := faultstatus.Timeline(s.run, &s.current.Database.Topology)
	if tl == nil {
		return false
	}
	now := s.Clock.Now().Sub(tl.Start)
	return slices.ContainsFunc(tl.Hits(id), func(i fault.Interval) bool { return i.From <= now && now <= i.To })
}

// explained reports whether a fault of the run explains the last exit of a container of the node. The fault must have
// affected the node at the time of the exit.
func (s *scope) explained(n *database.Node) bool {
	// Without the time of the exit, only a fault that is active now can explain it.
	if n.EndedAt.IsZero() {
		return s.actedOn(n.ID)
	}
	tl := faultstatus.Timeline(s.run, &s.current.Database.Topology)
	if tl == nil {
		return false
	}
	from := n.EndedAt.Sub(tl.Start) // Kubernetes rounds times to seconds
	to := from + time.Second
	return slices.ContainsFunc(tl.Hits(n.ID), func(i fault.Interval) bool { return i.From <= to && from <= i.To })
}

// endFaults removes the remaining effects of faults when a run is over or being deleted, and reports whether none is
// left. It inspects the actual objects instead of the recorded states of the faults, and tolerates missing parts of the
// database.
func (s *scope) endFaults(ctx context.Context) (bool, error) {
	// Faults are recorded in the status before any injection, so nothing was injected.
	if len(s.run.Status.Faults) == 0 {
		return true, nil
	}
	if clean, err := s.endChaos(ctx); err != nil || !clean {
		return false, err
	}
	if clean, err := s.endDisturbances(ctx); err != nil || !clean {
		return false, err
	}
	now := metav1.NewMicroTime(s.Clock.Now())
	for i := range s.run.Status.Faults {
		f := &s.run.Status.Faults[i]
		if f.State == string(fault.Done) {
			continue
		}
		if f.InjectingTime != nil && f.RecoveredTime == nil && !f.Lasting {
			f.RecoveredTime = &now
		}
		f.Message = cmp.Or(f.Message, "taken away because the run ended; it was in state "+f.State)
		f.State, f.StateStartTime = string(fault.Done), &now
	}
	return true, nil
}

// endChaos deletes the Chaos Mesh objects that the run owns.
func (s *scope) endChaos(ctx context.Context) (bool, error) {
	if !slices.ContainsFunc(s.run.Status.Faults, func(f v1alpha1.FaultStatus) bool { return f.Injector == v1alpha1.InjectorChaosMesh }) {
		return true, nil
	}
	set := s.chaosSet()
	if _, err := set.List(ctx, s.run.Namespace); errors.Is(err, chaosmesh.ErrNotInstalled) && s.unrecovered() {
		// The objects were deleted with Chaos Mesh, but their effects may still be in the pods.
		if err := s.replaceNodes(ctx); err != nil {
			return false, err
		}
	}
	done, err := set.Release(ctx, s.run.Namespace)
	var stuck *emulation.StuckError
	if errors.As(err, &stuck) {
		s.cleanupFailed(stuck.What)
		return false, nil
	}
	if !done && err == nil {
		s.cleanupPending("what Chaos Mesh does for the run")
	}
	return done, err
}

// unrecovered reports whether Chaos Mesh started an injection that did not end as planned.
func (s *scope) unrecovered() bool {
	return slices.ContainsFunc(s.run.Status.Faults, func(f v1alpha1.FaultStatus) bool {
		return f.Injector == v1alpha1.InjectorChaosMesh && f.InjectingTime != nil && !f.Lasting && (f.RecoveredTime == nil || f.Message != "")
	})
}

// endDisturbances restores the declared state of the database's nodes and network. A node that does not answer recovers
// on its own at the end of its agenda. A pod that does not run has no network to restore.
func (s *scope) endDisturbances(ctx context.Context) (bool, error) {
	db := &v1alpha1.GeoDatabase{}
	err := s.Live.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: s.run.Spec.DatabaseRef.Name}, db)
	// Another run may already use the database, whose nodes must then not be touched any more.
	if err != nil || db.Status.ActiveRun != s.run.Name || db.DeletionTimestamp != nil {
		return client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
	}
	if _, err := database.Render(ctx, s.Client, db); err != nil {
		return false, err
	}
	current, _, err := database.FindIncarnations(ctx, s.Live, s.Credentials, db)
	// The nodes of another incarnation never had these faults.
	if err != nil || current == nil || current.Foreign || current.ID() != s.run.Status.DatabaseIncarnation {
		return err == nil, err
	}
	nodes, err := database.ObserveNodes(ctx, s.Client, s.Pods, db, &current.Database)
	if err != nil {
		return false, err
	}
	clean := true
	for i := range nodes {
		n := &nodes[i]
		if n.Status == nil || n.Status.Disturbance == nil && n.Status.Ahead == 0 {
			continue
		}
		// The node's status shows the disturbance until the node has processed the empty agenda, so the next reconciliation
		// checks again.
		clean = false
		if err := s.Pods.Nodes(db.UID).Disturb(ctx, n.Address, &admin.Agenda{}); err != nil {
			s.cleanupPending(fmt.Sprintf("what faults do to node %s (%s)", n.PodName, err))
		}
	}
	s.db, s.current = db, current
	if !current.TellsPods() {
		return clean, nil
	}
	network, err := database.FindNetwork(ctx, s.Client, db, current)
	if err != nil {
		return false, err
	}
	if err := s.backend().Ensure(ctx, network); err != nil {
		return false, err
	}
	state, err := s.backend().Observe(ctx, network)
	if err != nil {
		return false, err
	}
	if !state.Injected && slices.ContainsFunc(network.Pods, func(p emulation.Pod) bool { return p.Running && state.Missing[p.UID] }) {
		s.cleanupPending("what faults do to the network: " + state.Message)
		clean = false
	}
	return clean, nil
}
