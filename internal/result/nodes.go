package result

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/admin"
)

// Reasons of runs whose nodes were not what they should be.
const (
	// ReasonNodeStarved: a node, or the sidecar of its pod, waited for the CPU or stood still while it was measured.
	ReasonNodeStarved = "NodeStarved"
)

// NodeFacts is what was seen of the process of a node beside its counters.
type NodeFacts struct {
	// Node is its name, region/partition/replica.
	Node string
	// Late is how late the process was for what was due in the measured windows, and SidecarLate how late the sidecar was that delays
	// the packets of its pod; nil where nobody knows. Seconds in which a fault of the manifest stops the pod are left out.
	Late, SidecarLate *Lateness
	// Clocks are its clock as often as it was measured.
	Clocks []NodeClock
}

// NodeClock is by how much the clock of a node is ahead of the operator's, give or take Within; negative is behind.
type NodeClock struct {
	AheadMicroseconds  int64 `json:"aheadMicroseconds"`
	WithinMicroseconds int64 `json:"withinMicroseconds"`
}

// fillNodes adds to the nodes what was seen of their processes.
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
			n.LateMicroseconds = in.Driver.LateMicroseconds // of the process, which driverBound judges
		}
		if b, a := before[n.Name], after[n.Name]; b != nil && a != nil && a.Process == b.Process {
			n.QuotaPeriods, n.ThrottledPeriods = a.QuotaPeriods-b.QuotaPeriods, a.ThrottledPeriods-b.ThrottledPeriods
		}
	}
	d.noteNodes(in)
}

// regionOfNode is the region in the name of a node.
func (d *Document) regionOfNode(name string) *Region {
	for i := range d.Regions {
		if r := &d.Regions[i]; len(name) > len(r.Name) && name[:len(r.Name)] == r.Name && name[len(r.Name)] == '/' {
			return r
		}
	}
	return nil
}

// latencyNear returns the latencies that the lateness of a node is held against: those of the clients of its region, or of all.
func (d *Document) latencyNear(node string) (committedLatency, string) {
	if r := d.regionOfNode(node); r != nil && r.Committed > 0 {
		return d.committedLatency(r.Name), r.Name
	}
	return d.committedLatency(""), "all regions"
}

// declaredCPU reports whether the manifest gives nodes a CPU limit. Whoever declares a quota wants it to stop the nodes.
func (d *Document) declaredCPU() bool {
	if d.Manifests == nil || d.Manifests.Database == nil {
		return false
	}
	return !d.Manifests.Database.Resources.Limits.Cpu().IsZero()
}

// standstill is how late a node may be at most by reason of a declared quota: the kernel lets it run again each 100 ms.
const standstill = time.Second

// nodesStarved compares how late nodes and sidecars were with the latencies that the clients nearby have measured, as driverLate
// does with load generators: what a node has waited for the CPU is no latency of the database's.
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

// How late a node may be in the tail: a node shares its machine with others, and waits in a part of the transactions only, so that
// the limits are twice those of load generators and more.
const nodeTailPercent, nodeTailFloor = 100, 20_000

// starved holds a lateness against the latencies nearby.
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

// throttled says that a node had used up its CPU quota in more periods than a load generator may; nil when it had not.
func (d *Document) throttled(n *Node) *Reason {
	if n.QuotaPeriods == 0 || n.ThrottledPeriods*1_000_000 <= n.QuotaPeriods*throttledLimitPPM {
		return nil
	}
	return &Reason{ReasonNodeStarved, fmt.Sprintf(
		"node %s had used up its CPU quota in %d of %d periods and was stopped until the next, more than %d%% of them, and spec.resources of the database sets no CPU limit: something in the cluster does, a LimitRange for example",
		n.Name, n.ThrottledPeriods, n.QuotaPeriods, throttledLimitPPM/10_000)}
}

// apart returns the two nodes whose clocks differ most for certain, and by how many microseconds; nil where fewer than two were
// measured.
func (d *Document) apart() (behind, ahead *Node, by int64) {
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

// nodeClocksApart holds the clocks of the nodes to what the engine bears. With another engine it is a note: see noteNodes.
func nodeClocksApart(d *Document, in *Inputs, _ *Report) []Reason {
	behind, ahead, by := d.apart()
	if in.ClockBound == 0 || by <= in.ClockBound.Microseconds() {
		return nil
	}
	return []Reason{{ReasonClocksApart, fmt.Sprintf("the clock of node %s is at least %s ahead of that of node %s: answers of engine %s may be wrong beyond %s; synchronise the clocks of the Kubernetes nodes",
		ahead.Name, formatMicroseconds(by), behind.Name, d.Engine, in.ClockBound)}}
}

// noteFarWorkers notes load generators that are further from the nodes of their region than the network profile has it: what lies
// between them is in all latencies, though no link of the profile has it.
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

// noteNodes notes what is to be known of the nodes without making the run Invalid.
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
