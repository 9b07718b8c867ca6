package faultstatus

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/fault"
)

// Timeline returns the timeline of a run's faults, with the progress in its status. It returns nil if the run has no
// faults or no start time yet.
func Timeline(run *v1alpha1.BenchmarkRun, t *geo.Topology) *fault.Timeline {
	if len(run.Spec.Faults) == 0 || run.Status.MeasureStartTime == nil {
		return nil
	}
	tl := fault.NewTimeline(fault.NewPlan(run.Spec.Faults, t, uint64(run.Spec.Seed)), Poll, Patience)
	tl.Start, tl.Ahead, tl.Early = run.Status.MeasureStartTime.Time, setUpAhead, injectedEarly
	tl.Begin = -(run.Spec.Load.Warmup.Duration + StartLead)
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
		f := Find(run, l.Fault.Name)
		if f == nil {
			continue
		}
		l.State, l.Problem, l.Injector, l.Lasting, l.Replaced, l.Marks = fault.State(f.State), f.Message, string(f.Injector), f.Lasting, f.Replaced, f.Processes
		if d := since(f.StateStartTime); d != nil {
			l.Since = *d
		}
		l.Targets = fault.Targets{From: nodes(f.Targets), To: nodes(f.OtherSide)}
		l.Injecting, l.Injected = since(f.InjectingTime), since(f.InjectedTime)
		l.Recovering, l.Recovered = since(f.RecoveringTime), since(f.RecoveredTime)
	}
	return tl
}

// setUpAhead returns how long before its start a fault is set up.
func setUpAhead(l *fault.Life) time.Duration {
	switch {
	case l.Fault.Kills():
		return killAhead
	case l.Fault.ByRole():
		return roleAhead
	}
	return fault.Forever / 2
}

// injectedEarly returns how long before the start of a fault its state becomes Inject, in which the operator waits for
// the exact start. The result is 0 for faults that their injectors start themselves, and for link faults, which affect
// the network from that state on.
func injectedEarly(l *fault.Life) time.Duration {
	if ByItself(l) || slices.Contains(fault.NetworkKinds, l.Fault.Kind) {
		return 0
	}
	return injectEarly
}

// LifeOf returns the progress of a fault according to the run's status.
func LifeOf(run *v1alpha1.BenchmarkRun, name string) fault.Life {
	f := Find(run, name)
	if f == nil {
		return fault.Life{State: fault.Waiting}
	}
	return fault.Life{State: fault.State(f.State), Lasting: f.Lasting && f.InjectingTime != nil}
}

// Find returns the entry of a fault in the run's status, or nil if there is none.
func Find(run *v1alpha1.BenchmarkRun, name string) *v1alpha1.FaultStatus {
	for i := range run.Status.Faults {
		if f := &run.Status.Faults[i]; f.Name == name {
			return f
		}
	}
	return nil
}

// PlayedOn returns the timeline of the faults that the active run injects into an incarnation of a database, or nil. A
// run that is over or being deleted injects no faults.
func PlayedOn(ctx context.Context, reader client.Reader, db *v1alpha1.GeoDatabase, incarnation string, t *geo.Topology) (*fault.Timeline, error) {
	if db.Status.ActiveRun == "" {
		return nil, nil
	}
	run := &v1alpha1.BenchmarkRun{}
	if err := reader.Get(ctx, types.NamespacedName{Namespace: db.Namespace, Name: db.Status.ActiveRun}, run); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if kube.Over(run) || run.DeletionTimestamp != nil || run.Status.RunID != run.Spec.RunID || run.Status.DatabaseIncarnation != incarnation {
		return nil, nil
	}
	return Timeline(run, t), nil
}

// Keep writes a timeline to the status of its run.
func Keep(run *v1alpha1.BenchmarkRun, tl *fault.Timeline) {
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
			Name: l.Fault.Name, State: string(l.State), StateStartTime: at(&l.Since), Message: kube.Truncate(l.Problem, 1024),
			Injector: v1alpha1.Injector(l.Injector), Lasting: l.Lasting, Replaced: l.Replaced, Processes: l.Marks,
			Targets: names(l.Targets.From), OtherSide: names(l.Targets.To),
			InjectingTime: at(l.Injecting), InjectedTime: at(l.Injected), RecoveringTime: at(l.Recovering), RecoveredTime: at(l.Recovered),
		})
	}
}
