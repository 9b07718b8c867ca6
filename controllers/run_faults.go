package controllers

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
	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/emulation"
	"github.com/geobench/geobench/internal/emulation/chaosmesh"
	"github.com/geobench/geobench/internal/fault"
	"github.com/geobench/geobench/internal/geo"
)

// timelineOf is where the faults of a run are, as its status has it; nil when it has none or does not measure yet.
func timelineOf(run *v1alpha1.BenchmarkRun, t *geo.Topology) *fault.Timeline {
	if len(run.Spec.Faults) == 0 || run.Status.MeasureStartTime == nil {
		return nil
	}
	tl := fault.NewTimeline(fault.NewPlan(run.Spec.Faults, t, uint64(run.Spec.Seed)), faultPoll, faultPatience)
	tl.Start, tl.Ahead, tl.Early = run.Status.MeasureStartTime.Time, setUpAhead, injectedEarly
	tl.Begin = -(run.Spec.Load.Warmup.Duration + startLead)
	ids := map[string]geo.NodeID{}
	for i := range t.Nodes() {
		ids[t.NodeName(geo.NodeID(i))] = geo.NodeID(i)
	}
	nodes := func(names []string) (out []geo.NodeID) {
		for _, name := range names {
			if id, ok := ids[name]; ok {
				out = append(out, id)
			}
		}
		slices.Sort(out)
		return out
	}
	since := func(at *metav1.MicroTime) *time.Duration {
		if at == nil {
			return nil
		}
		d := at.Sub(run.Status.MeasureStartTime.Time)
		return &d
	}
	for _, l := range tl.Lives {
		f := faultStatus(run, l.Fault.Name)
		if f == nil {
			continue
		}
		l.State, l.Problem, l.Injector, l.Lasting, l.Marks = fault.State(f.State), f.Message, string(f.Injector), f.Lasting, f.Processes
		if d := since(f.StateStartTime); d != nil {
			l.Since = *d
		}
		l.Targets = fault.Targets{From: nodes(f.Targets), To: nodes(f.OtherSide)}
		l.Injecting, l.Injected = since(f.InjectingTime), since(f.InjectedTime)
		l.Recovering, l.Recovered = since(f.RecoveringTime), since(f.RecoveredTime)
	}
	return tl
}

// setUpAhead is how long before its time a fault is set up.
func setUpAhead(l *fault.Life) time.Duration {
	switch {
	case l.Fault.Kills():
		return killAhead
	case l.Fault.ByRole():
		return roleAhead
	}
	return fault.Forever / 2
}

// injectedEarly is how long before its time the operator turns to a fault.
func injectedEarly(l *fault.Life) time.Duration {
	if byItself(l) {
		return 0
	}
	return injectEarly
}

// lifeOf is where a fault is, as far as its status says.
func lifeOf(run *v1alpha1.BenchmarkRun, name string) fault.Life {
	f := faultStatus(run, name)
	if f == nil {
		return fault.Life{State: fault.Waiting}
	}
	return fault.Life{State: fault.State(f.State), Lasting: f.Lasting && f.InjectingTime != nil}
}

func faultStatus(run *v1alpha1.BenchmarkRun, name string) *v1alpha1.FaultStatus {
	for i := range run.Status.Faults {
		if f := &run.Status.Faults[i]; f.Name == name {
			return f
		}
	}
	return nil
}

// playedOn returns the timeline of the faults that a run plays on an incarnation of a database; nil when none are. A run that is
// over or goes wants no fault any more.
func playedOn(ctx context.Context, reader client.Reader, db *v1alpha1.GeoDatabase, incarnation string, t *geo.Topology) (*fault.Timeline, error) {
	if db.Status.ActiveRun == "" {
		return nil, nil
	}
	run := &v1alpha1.BenchmarkRun{}
	if err := reader.Get(ctx, types.NamespacedName{Namespace: db.Namespace, Name: db.Status.ActiveRun}, run); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if over(run) || run.DeletionTimestamp != nil || run.Status.RunID != run.Spec.RunID || run.Status.DatabaseIncarnation != incarnation {
		return nil, nil
	}
	return timelineOf(run, t), nil
}

// keep writes a timeline into the status of its run.
func keep(run *v1alpha1.BenchmarkRun, tl *fault.Timeline) {
	t := tl.Plan.Topology
	names := func(nodes []geo.NodeID) (out []string) {
		for _, n := range nodes {
			out = append(out, t.NodeName(n))
		}
		return out
	}
	at := func(d *time.Duration) *metav1.MicroTime {
		if d == nil {
			return nil
		}
		when := metav1.NewMicroTime(run.Status.MeasureStartTime.Add(*d))
		return &when
	}
	run.Status.Faults = nil
	for _, l := range tl.Lives {
		run.Status.Faults = append(run.Status.Faults, v1alpha1.FaultStatus{
			Name: l.Fault.Name, State: string(l.State), StateStartTime: at(&l.Since), Message: truncate(l.Problem, 1024),
			Injector: v1alpha1.Injector(l.Injector), Lasting: l.Lasting, Processes: l.Marks,
			Targets: names(l.Targets.From), OtherSide: names(l.Targets.To),
			InjectingTime: at(l.Injecting), InjectedTime: at(l.Injected), RecoveringTime: at(l.Recovering), RecoveredTime: at(l.Recovered),
		})
	}
}

// playFaults takes the next step of each fault that is due; over is true when there is none left. Each change of state is in
// the status before anything is done in the new one, so that an operator that is killed leaves its successor what it needs.
func (s *runScope) playFaults(ctx context.Context) (over bool, err error) {
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
	keep(s.run, in.timeline)
	if next != fault.Never {
		s.again = min(s.again, max(time.Millisecond, next-in.now()))
	}
	return in.timeline.Over(), nil
}

// changes are the events of what became of faults since the status was written.
func (in *clusterInjector) changes(run *v1alpha1.BenchmarkRun) (out []event) {
	for _, l := range in.timeline.Lives {
		was := faultStatus(run, l.Fault.Name)
		if was != nil && was.State == string(l.State) {
			continue
		}
		switch l.State {
		case fault.Active:
			out = append(out, eventFault(l, "FaultInjected", "is injected by "+l.Injector))
		case fault.Done:
			what := "is over"
			switch {
			case l.Problem != "":
				what = l.Problem
			case l.Lasting:
				what = "has taken its nodes for good: they held their data in memory"
			}
			out = append(out, eventFault(l, "FaultOver", what))
		}
	}
	return out
}

// taken are the nodes that faults have taken for good, as planned.
func (s *runScope) taken() []geo.NodeID {
	tl := timelineOf(s.run, &s.current.database.Topology)
	if tl == nil {
		return nil
	}
	return tl.Lost()
}

// endFaults takes away what faults still do when a run is over or being deleted; it tells whether nothing is left. It looks at
// what there is rather than at where the faults were, and asks of the database only what it still has.
func (s *runScope) endFaults(ctx context.Context) (bool, error) {
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

// endChaos deletes the run's own objects of Chaos Mesh.
func (s *runScope) endChaos(ctx context.Context) (bool, error) {
	if !slices.ContainsFunc(s.run.Status.Faults, func(f v1alpha1.FaultStatus) bool { return f.Injector == v1alpha1.InjectorChaosMesh }) {
		return true, nil
	}
	set := s.chaosSet()
	if _, err := set.List(ctx, s.run.Namespace); errors.Is(err, chaosmesh.ErrNotInstalled) && s.unrecovered() {
		// Its objects went with it, but nobody took their effects out of the pods.
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

// unrecovered tells whether Chaos Mesh began to inject something and did not end it as planned.
func (s *runScope) unrecovered() bool {
	return slices.ContainsFunc(s.run.Status.Faults, func(f v1alpha1.FaultStatus) bool {
		return f.Injector == v1alpha1.InjectorChaosMesh && f.InjectingTime != nil && !f.Lasting && (f.RecoveredTime == nil || f.Message != "")
	})
}

// endDisturbances brings the nodes and the network of the database back to what was declared. A node that does not answer
// heals itself at the end of its agenda; a pod that does not run has no network to mend.
func (s *runScope) endDisturbances(ctx context.Context) (bool, error) {
	db := &v1alpha1.GeoDatabase{}
	err := s.Live.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: s.run.Spec.DatabaseRef.Name}, db)
	if err != nil || db.Status.ActiveRun != s.run.Name || db.DeletionTimestamp != nil {
		return client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
	}
	current, _, err := findIncarnations(ctx, s.Live, s.Credentials, db)
	if err != nil || current == nil || current.foreign || current.id() != s.run.Status.DatabaseIncarnation {
		return err == nil, err
	}
	nodes, err := observeNodes(ctx, s.Client, s.Pods, db, &current.database)
	if err != nil {
		return false, err
	}
	clean := true
	for i := range nodes {
		n := &nodes[i]
		if n.status == nil || n.status.Disturbance == nil && n.status.Ahead == 0 {
			continue
		}
		clean = false
		if err := s.Pods.Nodes(db.UID).Disturb(ctx, n.address, &admin.Agenda{}); err != nil {
			s.cleanupPending(fmt.Sprintf("what faults do to node %s (%s)", n.podName, err))
		}
	}
	s.db, s.current = db, current
	if !current.tellsPods() {
		return clean, nil
	}
	network, err := findNetwork(ctx, s.Client, db, current)
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
