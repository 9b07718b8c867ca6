package local

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/fault"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/sim"
)

const (
	// faultPoll is how often, in virtual time, a step of a fault's life that is not done is tried again.
	faultPoll = time.Millisecond
)

// simulated injects faults into a simulation: its fault.Injector.
type simulated struct {
	s        *sim.Sim
	plan     *plan.Plan
	t        *geo.Topology
	timeline *fault.Timeline
	start    time.Duration // of measuring
	links    [][]geo.Link  // as they are
	cut      map[[2]geo.NodeID]bool
	err      error
}

// injectSimulated plays the plan's faults in a simulation whose measuring starts at start; nil when there are none.
func injectSimulated(p *plan.Plan, s *sim.Sim, start time.Duration) *simulated {
	t := timeline(p, faultPoll)
	if t == nil {
		return nil
	}
	in := &simulated{s: s, plan: p, t: &p.Topology, timeline: t, start: start, links: p.Topology.Links, cut: map[[2]geo.NodeID]bool{}}
	s.At(start, in.step)
	return in
}

// step takes the steps that are due and asks to be called again for the next.
func (in *simulated) step() {
	next, err := in.timeline.Step(context.Background(), in.s.Now()-in.start, in, false)
	if err != nil {
		in.err = err
		return
	}
	if next != fault.Forever {
		in.s.At(in.start+next, in.step)
	}
}

// Roles implements fault.Injector.
func (in *simulated) Roles(context.Context) (fault.Roles, error) {
	return func(n geo.NodeID) ([]string, error) { return in.s.Roles(n), nil }, nil
}

// keepsLogs is true for faults whose targets start again from their logs. A pod that is killed has lost its memory, and
// there is nothing else where engines keep their data; a node that is shut down, or whose disk fails, has a disk.
// With journals a container that is killed has one, too.
func keepsLogs(p *plan.Plan, f *fault.Fault) bool {
	return f.Kind == fault.NodeShutdown || f.Kind == fault.IOError || restarts(p, f)
}

// replacesSimulated is replaces in a simulation: one whose nodes have logs for another fault replaces none.
func replacesSimulated(p *plan.Plan, f *fault.Fault) bool { return !durable(p) && replaces(p, f) }

func faultsOf(p *plan.Plan) []*fault.Fault {
	return fault.NewPlan(p.Run.Spec.Faults, &p.Topology, p.Seed()).Faults
}

// durable tells whether a simulation's nodes need logs for its faults.
func durable(p *plan.Plan) bool {
	return slices.ContainsFunc(faultsOf(p), func(f *fault.Fault) bool { return keepsLogs(p, f) })
}

// Setup implements fault.Injector.
func (in *simulated) Setup(_ context.Context, l *fault.Life) error {
	l.Replaced = replacesSimulated(in.plan, l.Fault)
	l.Lasting = l.Fault.Kills() && !keepsLogs(in.plan, l.Fault) && !l.Replaced
	return bears(in.plan, l)
}

// Inject implements fault.Injector.
func (in *simulated) Inject(_ context.Context, _ *fault.Life, c *fault.Conditions) error {
	in.apply(c)
	return nil
}

// Propagated implements fault.Injector: virtual networks change at once.
func (in *simulated) Propagated(context.Context, *fault.Life, *fault.Conditions) (bool, error) {
	return true, nil
}

// Recover implements fault.Injector.
func (in *simulated) Recover(_ context.Context, _ *fault.Life, c *fault.Conditions) error {
	in.apply(c)
	return nil
}

// Recovered implements fault.Injector. New incarnations have recovered when nothing lacks a copy any more.
func (in *simulated) Recovered(_ context.Context, l *fault.Life, _ *fault.Conditions) (bool, error) {
	return !l.Replaced || in.s.Whole(), nil
}

// Cleanup implements fault.Injector.
func (in *simulated) Cleanup(context.Context, *fault.Life) error { return nil }

// apply brings the simulation to the conditions.
func (in *simulated) apply(c *fault.Conditions) {
	if !reflect.DeepEqual(c.Links, in.links) {
		in.links = c.Links
		in.s.SetLinks(c.Links)
	}
	if c.Cuts() || len(in.cut) > 0 {
		for i := range in.t.Nodes() {
			for j := range in.t.Nodes() {
				pair := [2]geo.NodeID{geo.NodeID(i), geo.NodeID(j)}
				if cut := i != j && c.Cut(pair[0], pair[1]); cut != in.cut[pair] {
					in.s.CutNodes(pair[0], pair[1], cut)
					if cut {
						in.cut[pair] = true
					} else {
						delete(in.cut, pair)
					}
				}
			}
		}
	}
	for i, n := range c.Nodes {
		id := geo.NodeID(i)
		in.s.Slow(id, 100+n.SlowPercent)
		in.s.HoldOutput(id, n.Hold, n.HoldPercent)
		in.s.SetClock(id, n.ClockOffset)
		switch dead := in.s.Node(id).Dead; {
		case n.Down && !dead:
			in.s.Crash(id)
		case !n.Down && dead && durable(in.plan):
			in.s.Restart(id)
		case !n.Down && dead:
			in.s.Replace(id)
		}
	}
}
