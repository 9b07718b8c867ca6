package inprocess

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/journal"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/run/node"
)

const (
	// processPoll is the pause before an unfinished step of a fault is retried.
	processPoll = 20 * time.Millisecond
	// processPatience is the time after which an unfinished step of a fault is abandoned.
	processPatience = 10 * time.Second
)

// process implements fault.Injector for nodes in this process.
type process struct {
	nodes    *node.Local
	database *fault.Database
	t        *geo.Topology
	timeline *fault.Timeline
	start    time.Time // start of the first window
	// observe, if not nil, is called with the state of all faults after every step.
	observe func([]*fault.Life)
	// refused maps each node that cannot continue from its journal to the reason. Such a node is not restarted again.
	refused map[geo.NodeID]error
}

// injectProcess returns the injector of the plan's faults, or nil if there are none.
func injectProcess(p *plan.Plan, nodes *node.Local) *process {
	if len(p.Run.Spec.Faults) == 0 {
		return nil
	}
	timeline := fault.NewTimeline(faultsOf(p), processPoll, processPatience)
	return &process{nodes: nodes, database: database(p), t: &p.Topology, timeline: timeline, refused: map[geo.NodeID]error{}}
}

// play carries out the timeline, which counts from start, until the timeline is over or ctx is done. Some faults cannot
// be reverted, for example if the journal of a stopped node is damaged. play gives up on such faults after their steps
// have timed out, but not before the time sent, at which clients have sent all transactions.
func (in *process) play(ctx context.Context, start time.Time, sent time.Duration) error {
	in.start = start
	for {
		next, err := in.timeline.Step(ctx, time.Since(start), in, false)
		if in.observe != nil {
			in.observe(in.timeline.Lives)
		}
		if err != nil || next == fault.Forever || time.Since(start) > sent && in.stuck() {
			return err
		}
		if err := pause(ctx, max(0, next-time.Since(start))); err != nil {
			return err
		}
	}
}

// stuck reports whether every fault that is not over has a problem.
func (in *process) stuck() bool {
	return !slices.ContainsFunc(in.timeline.Lives, func(l *fault.Life) bool { return l.State != fault.Done && l.Problem == "" })
}

// Roles implements fault.Injector.
func (in *process) Roles(ctx context.Context) (fault.Roles, error) {
	statuses, err := in.nodes.Status(ctx)
	if err != nil {
		return nil, err
	}
	return func(n geo.NodeID) ([]string, error) { return statuses[n].Roles, nil }, nil
}

// Setup implements fault.Injector.
func (in *process) Setup(_ context.Context, l *fault.Life) error {
	l.Replaced = in.database.Replaces(l.Fault)
	l.Lasting = l.Fault.Kills() && !in.database.Restarts(l.Fault) && !l.Replaced // without journals, nodes lose their data
	return in.database.CanLose(l)
}

// Inject implements fault.Injector.
func (in *process) Inject(ctx context.Context, _ *fault.Life, c *fault.Conditions) error {
	return in.apply(ctx, c)
}

// Propagated implements fault.Injector. It returns true, because a node responds to an instruction only after carrying
// it out. The exact time is in the log of the node.
func (in *process) Propagated(_ context.Context, l *fault.Life, _ *fault.Conditions) (bool, error) {
	if !l.Fault.Kills() {
		fault.Observe(l, nodeTracks(in.nodes, in.timeline, in.start))
	}
	return true, nil
}

// Recover implements fault.Injector.
func (in *process) Recover(ctx context.Context, _ *fault.Life, c *fault.Conditions) error {
	return in.apply(ctx, c)
}

// Recovered implements fault.Injector. After a kill it returns true once the restarted nodes have replayed their
// journals and connected to their peers. If a new incarnation replaces the node, the database must also be fully
// replicated.
func (in *process) Recovered(ctx context.Context, l *fault.Life, c *fault.Conditions) (bool, error) {
	if !l.Fault.Kills() {
		fault.Observe(l, nodeTracks(in.nodes, in.timeline, in.start))
		return true, nil
	}
	for _, id := range l.Targets.From {
		if !c.Nodes[id].Down && in.nodes.Node(id).Ready() != nil {
			return false, nil
		}
	}
	if l.Replaced {
		return in.nodes.Whole(ctx)
	}
	return true, nil
}

// Cleanup implements fault.Injector.
func (in *process) Cleanup(context.Context, *fault.Life) error { return nil }

// apply establishes the conditions on the nodes. It informs the remaining nodes of all permanent losses before it stops
// the lost nodes.
func (in *process) apply(ctx context.Context, c *fault.Conditions) error {
	lost := in.timeline.Lost()
	for i := range c.Nodes {
		id := geo.NodeID(i)
		if slices.Contains(lost, id) {
			continue
		}
		if c.Nodes[i].Down {
			in.nodes.Stop(id)
			continue
		}
		if in.nodes.Stopped(id) {
			if err := in.refused[id]; err != nil {
				return err
			}
			again := in.nodes.Restart
			if !in.database.Journals {
				again = in.nodes.Replace
			}
			if err := again(id); err != nil {
				err = fmt.Errorf("node %s: %w", in.t.NodeName(id), err)
				// A damaged journal stays damaged. Other errors, such as a port in use, may be temporary, so the restart is
				// retried.
				if _, damaged := errors.AsType[*journal.Error](err); damaged {
					in.refused[id] = err
				}
				return err
			}
		}
		// Each call describes the complete disturbance, so it can be repeated after an error.
		if err := in.nodes.Node(id).Disturb(ctx, admin.Now(c.Disturbance(id, in.t, lost))); err != nil {
			return fmt.Errorf("node %s: %w", in.t.NodeName(id), err)
		}
	}
	for _, id := range lost {
		in.nodes.Stop(id)
	}
	return nil
}

// nodeTracks compares the logs of the nodes in this process with the timeline t, which counts from start.
func nodeTracks(nodes *node.Local, t *fault.Timeline, start time.Time) (out []*fault.Track[*admin.Disturbance]) {
	zero := time.Since(start) - admin.Monotonic()
	for id := range t.Plan.Topology.Nodes() {
		out = append(out, t.NodeTrack(geo.NodeID(id), nodes.Node(geo.NodeID(id)).Log(), zero, 0, nodeFaults))
	}
	return out
}

// nodeFaults reports whether the nodes inject a fault themselves. This is the case for all faults except kills.
func nodeFaults(l *fault.Life) bool { return !l.Fault.Kills() }

// deviations returns the disturbances of nodes in this process that are not in the plan, and the periods in which links
// were too fast. It covers the windows of a run whose first warm-up starts at start.
func deviations(p *plan.Plan, nodes *node.Local, faults *process, start time.Time) (out []fault.Deviation, fast []fault.FastLink) {
	s := schedule(p)
	t := fault.NewTimeline(fault.NewPlan(nil, &p.Topology, p.Seed()), processPoll, processPatience)
	if faults != nil {
		t = faults.timeline
	}
	first, _ := s.Window(1)
	windows := fault.Windows(s.Repetitions, s.Window)
	zero := time.Since(start.Add(first)) - admin.Monotonic()
	for i, tr := range nodeTracks(nodes, t, start.Add(first)) {
		id := geo.NodeID(i)
		log := nodes.Node(id).Log()
		out = append(out, tr.Deviations(windows)...)
		out = append(out, t.Losses(id, log, zero)...)
		fast = append(fast, t.FastLinks(id, log, zero, 0, windows)...)
	}
	return out, fast
}
