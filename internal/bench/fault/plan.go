// Package fault implements the fault timeline of a run: the start, the targets, the effects and the end of each fault.
// It has three parts, all without side effects.
//
// Plan is the intended timeline: the time and the targets of each fault. They follow from the manifest and its seed
// alone, except for targets by role, which are chosen when the fault starts.
//
// Life is the life cycle of a fault, as an explicit state machine. A Timeline advances the lives of a plan by calling
// an Injector. Each driver implements Injector: the simulator, the nodes of this process, and the cluster.
//
// Conditions holds the combined effects of all active faults on the network and the nodes. Because faults overlap and
// share links, drivers apply the conditions as a whole instead of adding and removing single effects.
package fault

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
)

// The kinds of faults, named like the fields of v1alpha1.Fault.
const (
	NetworkDelay     = "networkDelay"
	NetworkLoss      = "networkLoss"
	NetworkPartition = "networkPartition"
	NetworkBandwidth = "networkBandwidth"
	PodKill          = "podKill"
	ContainerKill    = "containerKill"
	NodeShutdown     = "nodeShutdown"
	CPUStress        = "cpuStress"
	MemoryStress     = "memoryStress"
	IODelay          = "ioDelay"
	IOError          = "ioError"
	DiskReadLoad     = "diskReadLoad"
	DiskWriteLoad    = "diskWriteLoad"
	ClockSkew        = "clockSkew"
)

// The kinds of faults that each driver of native engines can inject. Native engines write no files, so faults of memory
// or I/O would have no effect in real runs. The simulator shows their effect on an engine that writes files.
var (
	// NetworkKinds are the faults that change links.
	NetworkKinds = []string{NetworkDelay, NetworkLoss, NetworkPartition, NetworkBandwidth}
	// SimulatorKinds are the faults that the simulator can inject: all of them.
	SimulatorKinds = []string{NetworkDelay, NetworkLoss, NetworkPartition, NetworkBandwidth, PodKill, ContainerKill, NodeShutdown,
		CPUStress, MemoryStress, IODelay, IOError, DiskReadLoad, DiskWriteLoad, ClockSkew}
	// BuiltInKinds are the faults that nodes inject into themselves.
	BuiltInKinds = []string{NetworkDelay, NetworkLoss, NetworkPartition, NetworkBandwidth, PodKill, ContainerKill, NodeShutdown,
		CPUStress, ClockSkew}
	// ClusterKinds are the faults that the operator can inject into native engines, some of them only with Chaos Mesh.
	ClusterKinds = []string{NetworkDelay, NetworkLoss, NetworkPartition, NetworkBandwidth, PodKill, ContainerKill, NodeShutdown,
		CPUStress, MemoryStress, ClockSkew}
)

// Fault is a fault in a plan. Times count from the start of measuring.
type Fault struct {
	Name, Kind string
	At         time.Duration
	// Duration is 0 for a kill, which is instantaneous and never removed.
	Duration time.Duration
	Spec     *v1alpha1.Fault
	// hash is derived from the name, and makes the random choices of faults independent of each other.
	hash uint64
}

// End returns the planned time of removal, or At for an instantaneous fault.
func (f *Fault) End() time.Duration { return f.At + f.Duration }

// Kills reports whether the fault stops the processes of its targets.
func (f *Fault) Kills() bool {
	switch f.Kind {
	case PodKill, ContainerKill, NodeShutdown, IOError:
		return true
	}
	return false
}

// Followed reports whether empty processes replace the targets: Kubernetes restarts killed pods and containers. The
// engine determines how other nodes treat the empty processes (protocol.Engine.Replaces).
func (f *Fault) Followed() bool { return f.Kind == PodKill || f.Kind == ContainerKill }

// ForGood reports whether the manifest declares the targets permanently lost.
func (f *Fault) ForGood() bool {
	return f.Spec.PodKill != nil && f.Spec.PodKill.Lasting || f.Spec.ContainerKill != nil && f.Spec.ContainerKill.Lasting
}

// Plan is the timeline of a run's faults.
type Plan struct {
	Topology *geo.Topology
	// Faults are ordered by start, and in the order of the manifest for equal starts.
	Faults []*Fault

	seed uint64
}

// NewPlan returns the plan of a run's spec.faults, which must have been checked.
func NewPlan(faults []v1alpha1.Fault, t *geo.Topology, seed uint64) *Plan {
	p := &Plan{Topology: t, seed: seed}
	for i := range faults {
		s := &faults[i]
		f := &Fault{Name: s.Name, At: s.At.Duration, Spec: s}
		if kinds := s.Kinds(); len(kinds) > 0 {
			f.Kind = kinds[0]
		}
		// Kubernetes restarts a killed pod or container by itself, so the duration in the manifest has no effect.
		if s.Duration != nil && f.Kind != PodKill && f.Kind != ContainerKill {
			f.Duration = s.Duration.Duration
		}
		h := fnv.New64a()
		h.Write([]byte(f.Name))
		f.hash = h.Sum64()
		p.Faults = append(p.Faults, f)
	}
	slices.SortStableFunc(p.Faults, func(a, b *Fault) int { return cmp.Compare(a.At, b.At) })
	return p
}

// Target returns the target of a fault of nodes, or the first side of a partition. It returns nil for a fault of links.
func (f *Fault) Target() *v1alpha1.NodeTarget {
	s := f.Spec
	switch {
	case s.NetworkPartition != nil:
		return &s.NetworkPartition.From
	case s.PodKill != nil:
		return &s.PodKill.Target
	case s.ContainerKill != nil:
		return &s.ContainerKill.Target
	case s.NodeShutdown != nil:
		return &s.NodeShutdown.Target
	case s.CPUStress != nil:
		return &s.CPUStress.Target
	case s.MemoryStress != nil:
		return &s.MemoryStress.Target
	case s.IODelay != nil:
		return &s.IODelay.Target
	case s.IOError != nil:
		return &s.IOError.Target
	case s.DiskReadLoad != nil:
		return &s.DiskReadLoad.Target
	case s.DiskWriteLoad != nil:
		return &s.DiskWriteLoad.Target
	case s.ClockSkew != nil:
		return &s.ClockSkew.Target
	}
	return nil
}

// ByRole reports whether the targets depend on the roles of nodes.
func (f *Fault) ByRole() bool {
	to := f.Spec.NetworkPartition
	return f.Target() != nil && f.Target().Role != "" || to != nil && to.To != nil && to.To.Role != ""
}

// Between returns the links that a fault of links targets; nil for other faults.
func (f *Fault) Between() *v1alpha1.RegionPair {
	s := f.Spec
	switch {
	case s.NetworkDelay != nil:
		return &s.NetworkDelay.Between
	case s.NetworkLoss != nil:
		return &s.NetworkLoss.Between
	case s.NetworkBandwidth != nil:
		return &s.NetworkBandwidth.Between
	}
	return nil
}

// Link is one direction of the connection between two regions.
type Link struct{ From, To geo.Region }

// Links returns the links that the fault targets, in order. The network inside a region is included only if both sides
// name the region.
func Links(b *v1alpha1.RegionPair, t *geo.Topology) []Link {
	var out []Link
	has := func(list []string, r int) bool { return len(list) == 0 || slices.Contains(list, t.Regions[r]) }
	for x := range t.Regions {
		for y := range t.Regions {
			hit := has(b.From, x) && has(b.To, y) || !b.OneWay && has(b.From, y) && has(b.To, x)
			if x == y {
				hit = slices.Contains(b.From, t.Regions[x]) && slices.Contains(b.To, t.Regions[x])
			}
			if hit {
				out = append(out, Link{geo.Region(x), geo.Region(y)})
			}
		}
	}
	return out
}

// Targets are the nodes that a fault affects, in ascending order: only From for a fault of nodes, and both sides for a
// partition.
type Targets struct {
	From []geo.NodeID `json:"from,omitempty"`
	To   []geo.NodeID `json:"to,omitempty"`
}

// Roles returns the current roles of a node.
type Roles func(geo.NodeID) ([]string, error)

// candidates returns the nodes in the target's regions and partitions, before role, count and percent apply.
func candidates(target *v1alpha1.NodeTarget, t *geo.Topology) []geo.NodeID {
	var out []geo.NodeID
	for i := range t.Nodes() {
		n := geo.NodeID(i)
		if !t.Present(n) {
			continue
		}
		if len(target.Regions) > 0 && !slices.Contains(target.Regions, t.Regions[t.RegionOf(n)]) {
			continue
		}
		if len(target.Partitions) > 0 && !slices.Contains(target.Partitions, int32(t.PartitionOf(n))) {
			continue
		}
		out = append(out, n)
	}
	return out
}

// Resolve chooses the targets of a fault. It calls roles only if a target names a role. If roles is nil, the result
// ignores roles and is only an upper bound; for a partition with a role, it is empty. The error names the field and
// explains why no node is left.
func (p *Plan) Resolve(f *Fault, roles Roles) (Targets, error) {
	var out Targets
	target := f.Target()
	if target == nil {
		return out, nil
	}
	field := f.Kind + ".target"
	if f.Spec.NetworkPartition != nil {
		field = f.Kind + ".from"
	}
	if p := f.Spec.NetworkPartition; p != nil && roles == nil && (p.From.Role != "" || p.To != nil && p.To.Role != "") {
		return out, nil // either side depends on roles
	}
	var err error
	if out.From, err = p.choose(f, field, target, 0, roles); err != nil || f.Spec.NetworkPartition == nil {
		return out, err
	}
	if to := f.Spec.NetworkPartition.To; to != nil {
		out.To, err = p.choose(f, f.Kind+".to", to, 1, roles)
		if err != nil {
			return out, err
		}
		for _, n := range out.From {
			if slices.Contains(out.To, n) {
				return out, fmt.Errorf("%s.to: node %s is on both sides of the partition: it cannot be cut off from itself", f.Kind, p.Topology.NodeName(n))
			}
		}
		return out, nil
	}
	for i := range p.Topology.Nodes() {
		if n := geo.NodeID(i); p.Topology.Present(n) && !slices.Contains(out.From, n) {
			out.To = append(out.To, n)
		}
	}
	if len(out.To) == 0 {
		return out, fmt.Errorf("%s: from is every node of the database, which leaves no node to cut them off from", field)
	}
	return out, nil
}

func (p *Plan) choose(f *Fault, field string, target *v1alpha1.NodeTarget, side uint64, roles Roles) ([]geo.NodeID, error) {
	t := p.Topology
	nodes := candidates(target, t)
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%s: no node of the database is in these regions and partitions", field)
	}
	if target.Role != "" && roles != nil {
		var holders []geo.NodeID
		for _, n := range nodes {
			has, err := roles(n)
			if err != nil {
				continue // a node that does not answer has no known role
			}
			if slices.Contains(has, target.Role) {
				holders = append(holders, n)
			}
		}
		if len(holders) == 0 {
			return nil, fmt.Errorf("%s.role: none of %d nodes has the role %s now", field, len(nodes), target.Role)
		}
		nodes = holders
	}
	n := len(nodes)
	switch {
	// If fewer nodes have the role than requested, all of them are targets; their number may change at any time.
	case target.Count != nil:
		if n = int(*target.Count); n > len(nodes) && target.Role == "" {
			return nil, fmt.Errorf("%s.count: %d is more than the %d nodes that there are", field, n, len(nodes))
		}
		n = min(n, len(nodes))
	case target.Percent != nil:
		// The number is rounded up, so that a percentage above 0 selects at least one node.
		n = max(1, (len(nodes)*int(*target.Percent)+99)/100)
	}
	if n < len(nodes) {
		// The two sides of a partition draw different nodes from the same candidates.
		rng := rand.New(rand.NewPCG(p.seed, f.hash+side))
		rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		nodes = nodes[:n]
		slices.Sort(nodes)
	}
	return nodes, nil
}

func unique(nodes []geo.NodeID) []geo.NodeID {
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
