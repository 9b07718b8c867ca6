package run

import (
	"context"
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/net/wan"
)

// sidecarLate is the lateness record of a sidecar. zero is the time at which the sidecar's clock was 0, relative to the
// start of measuring.
type sidecarLate struct {
	record *late.Record
	zero   time.Duration
}

// lateOf returns the lateness record in the log of a sidecar. since converts a time to the time since the start of
// measuring.
func lateOf(log *wan.Log, since func(time.Time) time.Duration) sidecarLate {
	return sidecarLate{log.Late, since(log.Now) - log.Monotonic}
}

// nodeFacts returns, for each node, its stored clock measurements and the lateness of its process and of its sidecar.
// Lateness is omitted for logs that were not read.
func (in *clusterInjector) nodeFacts(ctx context.Context) ([]result.NodeFacts, error) {
	facts := map[geo.NodeID]*result.NodeFacts{}
	of := func(id geo.NodeID) *result.NodeFacts {
		if facts[id] == nil {
			facts[id] = &result.NodeFacts{Node: in.timeline.Plan.Topology.NodeName(id)}
		}
		return facts[id]
	}
	clocks, err := in.clocksOfNodes(ctx)
	if err != nil {
		return nil, err
	}
	for i := range in.nodes {
		if f := of(in.nodes[i].ID); clocks[f.Node] != nil {
			f.Clocks = clocks[f.Node]
		}
	}
	for _, l := range in.logs {
		if of(l.id).Late, err = in.lateness(l.id, l.log.Late, l.zero); err != nil {
			return nil, fmt.Errorf("the log of node %s: %w", in.node(l.id).PodName, err)
		}
	}
	for i := range in.nodes {
		n := &in.nodes[i]
		if s, ok := in.sidecarLate[n.PodName]; ok {
			if of(n.ID).SidecarLate, err = in.lateness(n.ID, s.record, s.zero); err != nil {
				return nil, fmt.Errorf("the log of the sidecar of pod %s: %w", n.PodName, err)
			}
		}
	}
	var out []result.NodeFacts
	for i := range in.nodes {
		out = append(out, *facts[in.nodes[i].ID])
	}
	return out, nil
}

// lateness returns the lateness of a process in the pod of node id during the measured windows. It excludes the time in
// which a fault of the run stopped the process or competed with it for the CPU. It returns nil if the record does not
// cover the windows.
func (in *clusterInjector) lateness(id geo.NodeID, record *late.Record, zero time.Duration) (*result.Lateness, error) {
	if record == nil {
		return nil, nil
	}
	spans := func(intervals []fault.Interval) (out []late.Span) {
		for _, i := range intervals {
			to := i.To
			if to != fault.Forever {
				to -= zero
			}
			out = append(out, late.Span{From: i.From - zero, To: to})
		}
		return out
	}
	schedule := load.PlanOf(in.run.Spec.Load, 0)
	l, err := record.In(spans(fault.Windows(schedule.Repetitions, schedule.Window)), spans(in.timeline.Starves(id)))
	if err != nil || l.Seconds == 0 {
		return nil, err
	}
	return &result.Lateness{P50: l.P50.Microseconds(), P99: l.P99.Microseconds(), Max: l.Max.Microseconds()}, nil
}
