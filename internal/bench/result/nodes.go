package result

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/ops/admin"
)

// Reasons of runs with nodes that were not as declared.
const (
	// ReasonNodeStarved is the reason if a node, or the sidecar of its pod, waited for the CPU or was suspended during the
	// measurement.
	ReasonNodeStarved = "NodeStarved"
)

// NodeFacts holds measurements of a node's process in addition to its counters.
type NodeFacts struct {
	// Node is the node's name, region/partition/replica.
	Node string
	// Late is the lateness of the process in the measured windows. SidecarLate is the lateness of the sidecar that delays
	// the packets of the node's pod. They are nil if not measured. Seconds in which a declared fault stops the pod are
	// omitted.
	Late, SidecarLate *Lateness
	// Clocks holds all measurements of the node's clock.
	Clocks []NodeClock
}

// NodeClock is the offset of a node's clock from the operator's clock, with an error of at most WithinMicroseconds. A
// positive offset means that the node's clock is ahead.
type NodeClock struct {
	AheadMicroseconds  int64 `json:"aheadMicroseconds"`
	WithinMicroseconds int64 `json:"withinMicroseconds"`
}

// fillNodes adds the measurements of node processes to the document's nodes.
func (d *Document) fillNodes(in *Inputs) {
	facts, before := map[string]*NodeFacts{}, map[string]*admin.Status{}
	for i := range in.NodeFacts {
		facts[in.NodeFacts[i].Node] = &in.NodeFacts[i]
	}
	for i := range in.Before {
		before[in.Before[i].Node] = &in.Before[i]
	}
	after := map[string]*admin.Status{}
	for i := range in.After {
		after[in.After[i].Node] = &in.After[i]
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if f := facts[n.Name]; f != nil {
			n.LateMicroseconds, n.SidecarLateMicroseconds = f.Late, f.SidecarLate
			for j := range f.Clocks {
				if c := &f.Clocks[j]; n.Clock == nil || abs(c.AheadMicroseconds) > abs(n.Clock.AheadMicroseconds) {
					n.Clock = c
				}
			}
		}
		if in.SharedProcess && in.Driver != nil {
			n.LateMicroseconds = in.Driver.LateMicroseconds // the lateness of the shared process, which driverBound checks
		}
		// Quota counters are per process; a new process has counted from zero.
		if b, a := before[n.Name], after[n.Name]; b != nil && a != nil && a.Process == b.Process {
			n.QuotaPeriods, n.ThrottledPeriods = a.QuotaPeriods-b.QuotaPeriods, a.ThrottledPeriods-b.ThrottledPeriods
		}
	}
	d.noteNodes(in)
}

// regionOfNode returns the region with which a node's name starts; nil if there is none.
func (d *Document) regionOfNode(name string) *Region {
	for i := range d.Regions {
		if r := &d.Regions[i]; len(name) > len(r.Name) && name[:len(r.Name)] == r.Name && name[len(r.Name)] == '/' {
			return r
		}
	}
	return nil
}

// latencyNear returns the latencies that a node's lateness is compared with, and the name of the region that they
// cover. They are the latencies of the clients in the node's region, or of all clients if the region committed nothing.
func (d *Document) latencyNear(node string) (committedLatency, string) {
	if r := d.regionOfNode(node); r != nil && r.Committed > 0 {
		return d.committedLatency(r.Name), r.Name
	}
	return d.committedLatency(""), "all regions"
}

// declaredCPU reports whether the manifest sets a CPU limit for nodes, so that throttling is intended.
func (d *Document) declaredCPU() bool {
	if d.Manifests == nil || d.Manifests.Database == nil {
		return false
	}
	return !d.Manifests.Database.Resources.Limits.Cpu().IsZero()
}

// standstill is the minimum lateness that a declared quota does not explain: the kernel lets a throttled node run again
// every 100 ms.
const standstill = time.Second

// nodesStarved compares the lateness of nodes and sidecars with the latencies of nearby clients, as driverLate does for
// load generators. Time that a node waited for the CPU is not latency of the database.
func nodesStarved(d *Document, in *Inputs, _ *Report) (out []Reason) {
	if in.Simulated || in.SharedProcess {
		return nil
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if r := d.throttled(n); r != nil && !d.declaredCPU() {
			out = append(out, *r)
			continue
		}
		for _, x := range []struct {
			who  string
			late *Lateness
		}{{"node " + n.Name, n.LateMicroseconds}, {"the sidecar of node " + n.Name, n.SidecarLateMicroseconds}} {
			// A declared CPU limit explains delays below standstill, but not longer delays.
			if x.late == nil || d.throttled(n) != nil && x.late.Max < standstill.Microseconds() {
				continue
			}
			if r := d.starved(x.who, n.Name, x.late); r != nil {
				out = append(out, *r)
			}
		}
	}
	return out
}

// These constants limit a node's lateness in the tail. They are wider than the limits of load generators. A node takes
// part in only some of the transactions, and often shares its machine with other nodes.
const nodeTailPercent, nodeTailFloor = 100, 20_000

// starved returns a reason if the lateness is too large compared with the latencies of nearby clients; otherwise nil.
func (d *Document) starved(who, node string, late *Lateness) *Reason {
	latency, where := d.latencyNear(node)
	x := late.beyond(latency, nodeTailPercent, nodeTailFloor)
	if x == nil {
		return nil
	}
	return &Reason{ReasonNodeStarved, fmt.Sprintf(
		"%s waited for the CPU or stood still: it was up to %s late for what was due, %s in the %s percentile, over the %s that a %s percentile of %s in %s bears, and no fault of the manifest explains it; keep other work off its machine, or give it more CPU",
		who, formatMicroseconds(late.Max), formatMicroseconds(x.late), x.percentile, formatMicroseconds(x.limit), x.percentile, formatMicroseconds(x.latency), where)}
}

// throttled returns a reason if a node used up its CPU quota in a larger share of periods than a load generator may;
// otherwise nil.
func (d *Document) throttled(n *Node) *Reason {
	if n.QuotaPeriods == 0 || n.ThrottledPeriods*1_000_000 <= n.QuotaPeriods*throttledLimitPPM {
		return nil
	}
	return &Reason{ReasonNodeStarved, fmt.Sprintf(
		"node %s had used up its CPU quota in %d of %d periods and was stopped until the next, more than %d%% of them, and spec.resources of the database sets no CPU limit: something in the cluster does, a LimitRange for example",
		n.Name, n.ThrottledPeriods, n.QuotaPeriods, throttledLimitPPM/10_000)}
}

// apart returns the two nodes with the largest certain difference between their clocks, and this difference in
// microseconds. The nodes are nil if fewer than two clocks were measured.
func (d *Document) apart() (behind, ahead *Node, by int64) {
	// Only the part of a difference that exceeds both measurement errors is certain.
	least := func(n *Node) int64 { return n.Clock.AheadMicroseconds - n.Clock.WithinMicroseconds }
	most := func(n *Node) int64 { return n.Clock.AheadMicroseconds + n.Clock.WithinMicroseconds }
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Clock == nil {
			continue
		}
		if ahead == nil || least(n) > least(ahead) {
			ahead = n
		}
		if behind == nil || most(n) < most(behind) {
			behind = n
		}
	}
	if behind == ahead {
		return nil, nil, 0
	}
	return behind, ahead, max(0, least(ahead)-most(behind))
}

// nodeClocksApart compares the clocks of nodes with the engine's clock bound. For engines without a bound, noteNodes
// adds a note instead.
func nodeClocksApart(d *Document, in *Inputs, _ *Report) []Reason {
	behind, ahead, by := d.apart()
	if in.ClockBound == 0 || by <= in.ClockBound.Microseconds() {
		return nil
	}
	return []Reason{{ReasonClocksApart, fmt.Sprintf("the clock of node %s is at least %s ahead of that of node %s: answers of engine %s may be wrong beyond %s; synchronise the clocks of the Kubernetes nodes",
		ahead.Name, formatMicroseconds(by), behind.Name, d.Engine, in.ClockBound)}}
}

// noteFarWorkers adds a note for each load generator that is further from the nodes of its region than the network
// profile declares. The additional distance is part of all latencies although the profile does not include it.
func (d *Document) noteFarWorkers(in *Inputs) {
	for i := range d.Workers {
		w := &d.Workers[i]
		r := in.Topology.Index(w.Region)
		if r < 0 || w.NodeRTTMicroseconds == 0 {
			continue
		}
		declared := Microseconds(in.Topology.RTT(r, r))
		if w.NodeRTTMicroseconds > declared+lateLimit(declared, lateMedianPercent, lateFloor) {
			d.Notes = append(d.Notes, fmt.Sprintf("worker %d in %s is %s from a node of its region, by the shortest round trip of its connection, and the network profile has %s: the difference is part of the latencies; keep load generators in the zone of their nodes",
				w.Index, w.Region, formatMicroseconds(w.NodeRTTMicroseconds), formatMicroseconds(declared)))
		}
	}
}

func abs(n int64) int64 { return max(n, -n) }

// noteNodes adds notes about nodes that do not make the run Invalid.
func (d *Document) noteNodes(in *Inputs) {
	if behind, ahead, by := d.apart(); in.ClockBound == 0 && by > MaxClockOffset.Microseconds() {
		d.Notes = append(d.Notes, fmt.Sprintf("the clock of node %s is at least %s ahead of that of node %s: an engine that numbers transactions by the clocks of its nodes waits for as long", ahead.Name, formatMicroseconds(by), behind.Name))
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if d.throttled(n) != nil && d.declaredCPU() {
			d.Notes = append(d.Notes, fmt.Sprintf("node %s had used up the CPU quota that spec.resources of the database gives it in %d of %d periods, and was stopped until the next", n.Name, n.ThrottledPeriods, n.QuotaPeriods))
		}
	}
}
