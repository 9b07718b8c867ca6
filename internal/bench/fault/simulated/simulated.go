// Package simulated implements fault.Injector for simulations. It injects the faults of a timeline in virtual time, for
// measured runs and for the explorer of protocols.
package simulated

import (
	"context"
	"reflect"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/engine/sim"
)

const (
	// poll is the retry interval, in virtual time, of an unfinished step of a fault.
	poll = time.Millisecond
	// Patience is the virtual time after which a fault is given up.
	Patience = 10 * time.Second
)

// Injector injects the faults of a timeline into a simulation: see Start.
type Injector struct {
	// Timeline contains the faults and their progress.
	Timeline *fault.Timeline
	// Err is the error that stopped the injector; nil while it works.
	Err error

	s       *sim.Sim
	d       *fault.Database
	t       *geo.Topology
	durable bool
	start   time.Duration
	offsets []time.Duration // clock offsets of the nodes without faults
	links   [][]geo.Link    // the current links
	cut     map[[2]geo.NodeID]bool
}

// Start starts injecting the faults of a plan into a simulation. The nodes of the simulation must have logs if
// fault.Database.LogsSimulated returns true. Fault times count from start, a virtual time. offsets equals
// sim.Config.ClockOffsets.
func Start(s *sim.Sim, d *fault.Database, p *fault.Plan, start time.Duration, offsets []time.Duration) *Injector {
	in := &Injector{
		Timeline: fault.NewTimeline(p, poll, Patience), s: s, d: d, t: d.Topology, durable: d.LogsSimulated(p),
		start: start, offsets: offsets, links: d.Topology.Links, cut: map[[2]geo.NodeID]bool{},
	}
	s.At(start, in.step)
	return in
}

// Over reports whether every fault is done, or the injector has stopped with an error.
func (in *Injector) Over() bool { return in.Err != nil || in.Timeline.Over() }

// step performs the steps that are due and schedules the next call.
func (in *Injector) step() {
	next, err := in.Timeline.Step(context.Background(), in.s.Now()-in.start, in, false)
	if err != nil {
		in.Err = err
		return
	}
	if next != fault.Forever {
		in.s.At(in.start+next, in.step)
	}
}

// Roles implements fault.Injector.
func (in *Injector) Roles(context.Context) (fault.Roles, error) {
	return func(n geo.NodeID) ([]string, error) { return in.s.Roles(n), nil }, nil
}

// Setup implements fault.Injector.
func (in *Injector) Setup(_ context.Context, l *fault.Life) error {
	// With logs, every node of the simulation restarts from its log, so no node is replaced.
	l.Replaced = !in.durable && in.d.Replaces(l.Fault)
	l.Lasting = l.Fault.Kills() && !in.d.LogSimulated(l.Fault) && !l.Replaced
	return in.d.CanLose(l)
}

// Inject implements fault.Injector.
func (in *Injector) Inject(_ context.Context, _ *fault.Life, c *fault.Conditions) error {
	in.apply(c)
	return nil
}

// Propagated implements fault.Injector. Changes of a virtual network take effect immediately.
func (in *Injector) Propagated(context.Context, *fault.Life, *fault.Conditions) (bool, error) {
	return true, nil
}

// Recover implements fault.Injector.
func (in *Injector) Recover(_ context.Context, _ *fault.Life, c *fault.Conditions) error {
	in.apply(c)
	return nil
}

// Recovered implements fault.Injector. New incarnations have recovered once every row has all of its copies again.
func (in *Injector) Recovered(_ context.Context, l *fault.Life, _ *fault.Conditions) (bool, error) {
	return !l.Replaced || in.s.FullyReplicated(), nil
}

// Cleanup implements fault.Injector.
func (in *Injector) Cleanup(context.Context, *fault.Life) error { return nil }

// apply establishes the conditions in the simulation.
func (in *Injector) apply(c *fault.Conditions) {
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
		// A fault adds its offset to the offset that the clock has without faults.
		offset := n.ClockOffset
		if in.offsets != nil {
			offset += in.offsets[i]
		}
		in.s.SetClock(id, offset)
		switch dead := in.s.Node(id).Dead; {
		case n.Down && !dead:
			in.s.Crash(id)
		case !n.Down && dead && in.durable:
			in.s.Restart(id)
		case !n.Down && dead:
			in.s.Replace(id)
		}
	}
}
