package run

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/faultstatus"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/net/emulation"
	"github.com/geobench/geobench/internal/net/wan"
	"github.com/geobench/geobench/internal/ops/admin"
)

// nodeLog is a node's log, with its times converted to the operator's clock.
type nodeLog struct {
	id  geo.NodeID
	log *admin.Log
	// zero is the time at which the node's monotonic clock was 0, relative to the start of measuring. within is the error
	// bound of zero.
	zero, within time.Duration
}

// readLogs reads the logs of all reachable nodes, once per reconciliation. Programs that are not part of Geobench
// receive no instructions, and the probes next to them keep no log.
func (in *clusterInjector) readLogs(ctx context.Context) error {
	if in.nodeTracks != nil || in.current.Database.Client != nil {
		return nil
	}
	nodes := in.reachable()
	if err := in.readClocks(ctx, nodes); err != nil {
		return err
	}
	logs := make([]nodeLog, len(nodes))
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(podclient.AtOnce)
	for i, id := range nodes {
		group.Go(func() error {
			log, err := in.Pods.Nodes(in.db.UID).Log(asking, in.node(id).Address)
			if err != nil {
				return fmt.Errorf("the log of node %s: %w", in.node(id).PodName, err)
			}
			logs[i] = nodeLog{id, log, in.clocks[id].Zero.Sub(in.timeline.Start), in.clocks[id].Within}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// The tracks must not be nil even without nodes, because nil means that the logs were not read.
	in.nodeTracks, in.logs = []*fault.Track[*admin.Disturbance]{}, logs
	for i, id := range nodes {
		in.nodeTracks = append(in.nodeTracks, in.timeline.NodeTrack(id, logs[i].log, logs[i].zero, logs[i].within, nodeFaults))
		in.losses = append(in.losses, in.timeline.Losses(id, logs[i].log, logs[i].zero)...)
		if log := logs[i].log; log.ForgottenUntil != 0 {
			in.forgotten(in.timeline.Plan.Topology.NodeName(id), fmt.Sprintf("it was disturbed more often than the %d times that its log has kept", len(log.Entries)), log.ForgottenUntil+logs[i].zero)
		}
	}
	return nil
}

// forgotten records that a log no longer covers the part of the run before the time until.
func (in *clusterInjector) forgotten(name, why string, until time.Duration) {
	// Entries from before the first warm-up do not concern the run.
	if from := -in.run.Spec.Load.Warmup.Duration; until > from {
		in.losses = append(in.losses, fault.Deviation{Name: name, What: "unknown, since " + why, From: from, To: until})
	}
}

// readSidecars reads the logs of all sidecars, once per reconciliation.
func (in *clusterInjector) readSidecars(ctx context.Context) error {
	if in.sidecarTracks != nil || in.current.Emulation() != v1alpha1.EmulationSidecar {
		return nil
	}
	network, err := in.network(ctx)
	if err != nil {
		return err
	}
	backend, ok := in.backend().(*emulation.Sidecar)
	if !ok {
		return fmt.Errorf("the backend of emulation %s is a %T", in.current.Emulation(), in.backend())
	}
	away := map[string][]fault.Interval{}
	for i := range in.nodes {
		away[in.nodes[i].PodName] = in.timeline.Away(in.nodes[i].ID)
	}
	// Nodes that are lost or down have no running sidecar.
	gone := faultstatus.PodNames(in.db, in.timeline.Plan.Topology, append(in.timeline.Lost(), faultstatus.Down(in.timeline)...))
	pods := slices.DeleteFunc(network.Pods, func(p emulation.Pod) bool { return slices.Contains(gone, p.Name) })
	tracks := make([]*fault.Track[*wan.Config], len(pods))
	logs := make([]*wan.Log, len(pods))
	sinces := make([]func(time.Time) time.Duration, len(pods))
	plan := faultstatus.NetworkPlan(network, in.timeline, in.db)
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(podclient.AtOnce)
	for i, p := range pods {
		group.Go(func() error {
			if len(p.IPs) == 0 {
				return fmt.Errorf("the log of the sidecar of pod %s: the pod has no address", p.Name)
			}
			log, ahead, within, err := in.Pods.Sidecars(in.db.UID).Log(asking, net.JoinHostPort(p.IPs[0], strconv.Itoa(ports.WANAdmin)))
			if err != nil {
				return fmt.Errorf("the log of the sidecar of pod %s: %w", p.Name, err)
			}
			config, err := backend.Config(network, p.Region, p.Name)
			if err != nil {
				return err
			}
			logs[i], sinces[i] = log, func(at time.Time) time.Duration { return at.Add(-ahead).Sub(in.timeline.Start) }
			tracks[i] = sidecarTrack(p.Name, config, log, plan, sinces[i])
			tracks[i].Begin, tracks[i].Within, tracks[i].Away = in.timeline.Begin, within, away[p.Name]
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	in.sidecarTracks, in.sidecarLate = tracks, map[string]sidecarLate{}
	for i, log := range logs {
		in.sidecarLate[pods[i].Name] = lateOf(log, sinces[i])
		// A restarted sidecar does not delay packets until it has its configuration again. This is a deviation unless the
		// restart is due to a fault.
		if start := sinces[i](log.Since); start > -in.run.Spec.Load.Warmup.Duration && !tracks[i].StartedAnew(start) {
			in.losses = append(in.losses, fault.Deviation{Name: tracks[i].Name, What: "started anew: until then packets passed as they came", From: start, To: start + time.Millisecond})
		}
		if !log.ForgottenUntil.IsZero() {
			in.forgotten(tracks[i].Name, fmt.Sprintf("its network changed more than %d times", wan.MaxLog), sinces[i](log.ForgottenUntil))
		}
	}
	return nil
}

// sidecarTrack compares the log of a pod's sidecar with its instructions. since converts a time to the time since the
// start of measuring.
func sidecarTrack(pod string, config *wan.Config, log *wan.Log, plan []fault.Planned[*emulation.Phase], since func(time.Time) time.Duration) *fault.Track[*wan.Config] {
	declared, _ := config.At(time.Time{})
	tr := &fault.Track[*wan.Config]{
		Name: "sidecar of pod " + pod, Idle: declared, Same: (*wan.Config).Same, What: func(c *wan.Config) string { return c.Differs(declared) },
	}
	before := declared
	for i, phase := range config.Phases {
		// Skip a phase that does not change this pod's network.
		if state, _ := config.At(phase.From); !state.Same(before) {
			tr.Plan = append(tr.Plan, fault.Planned[*wan.Config]{At: plan[i].At, State: state, Edges: plan[i].Edges})
			before = state
		}
	}
	for i := range log.Entries {
		span := fault.Span[*wan.Config]{From: since(log.Entries[i].From), To: fault.Forever, State: &log.Entries[i].Config}
		if i+1 < len(log.Entries) {
			span.To = since(log.Entries[i+1].From)
		}
		tr.Add(span)
	}
	return tr
}

// deviations returns the disturbances of nodes and links in the measured windows that are not in the plan. It also
// returns the periods in which links were too fast. In addition, it sets the actual times of the timeline's faults.
func (in *clusterInjector) deviations(ctx context.Context) ([]fault.Deviation, []fault.FastLink, error) {
	if err := in.readLogs(ctx); err != nil {
		return nil, nil, err
	}
	if err := in.readSidecars(ctx); err != nil {
		return nil, nil, err
	}
	for _, l := range in.timeline.Lives {
		if faultstatus.ByItself(l) && l.Planned() {
			if _, _, err := in.observe(ctx, l); err != nil {
				return nil, nil, err
			}
		}
	}
	schedule := load.PlanOf(in.run.Spec.Load, 0)
	windows := fault.Windows(schedule.Repetitions, schedule.Window)
	// Losses outside the measured windows do not affect the result.
	out := slices.DeleteFunc(slices.Clone(in.losses), func(d fault.Deviation) bool {
		return !slices.ContainsFunc(windows, func(w fault.Interval) bool { return d.From < w.To && d.To > w.From })
	})
	for _, tr := range in.nodeTracks {
		out = append(out, tr.Deviations(windows)...)
	}
	for _, tr := range in.sidecarTracks {
		out = append(out, tr.Deviations(windows)...)
	}
	var fast []fault.FastLink
	for _, l := range in.logs {
		fast = append(fast, in.timeline.FastLinks(l.id, l.log, l.zero, l.within, windows)...)
	}
	return out, fast, nil
}
