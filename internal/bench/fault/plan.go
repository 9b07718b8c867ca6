// Package fault is the fault timeline of a run: the start of each fault, its targets, its effects, and its end. It has
// three parts, all of them pure.
//
// Plan is the intended timeline: for each fault its time and its targets. They follow from the manifest and its seed
// alone. The exception is targets by role, which are chosen when the fault starts.
//
// Life is the life cycle of one fault, an explicit state machine. A Timeline steps the lives of a plan with an
// Injector. A driver implements the Injector: the simulator, the nodes of this process, or a cluster.
//
// Conditions are the combined effects of all active faults on the network and the nodes. Faults overlap and share
// links. Drivers therefore apply the conditions as a whole, rather than add and subtract effects.
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

// The kinds of faults, as the fields of a v1alpha1.Fault are called.
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

// Kinds that each driver of native engines can inject. Native engines write no files. In real runs, a fault of memory
// or I/O would therefore have no effect; the simulator shows its effect on an engine that writes files.
var (
	// NetworkKinds change links.
	NetworkKinds = []string{NetworkDelay, NetworkLoss, NetworkPartition, NetworkBandwidth}
	// SimulatorKinds is all there is.
	SimulatorKinds = []string{NetworkDelay, NetworkLoss, NetworkPartition, NetworkBandwidth, PodKill, ContainerKill, NodeShutdown,
		CPUStress, MemoryStress, IODelay, IOError, DiskReadLoad, DiskWriteLoad, ClockSkew}
	// BuiltInKinds are the faults that nodes inject into themselves.
	BuiltInKinds = []string{NetworkDelay, NetworkLoss, NetworkPartition, NetworkBandwidth, PodKill, ContainerKill, NodeShutdown,
		CPUStress, ClockSkew}
	// ClusterKinds are the faults that the operator can inject into native engines, some of them with Chaos Mesh only.
	ClusterKinds = []string{NetworkDelay, NetworkLoss, NetworkPartition, NetworkBandwidth, PodKill, ContainerKill, NodeShutdown,
		CPUStress, MemoryStress, ClockSkew}
)

// Fault is a fault of a plan. Times count from the start of measuring.
type Fault struct {
	Name, Kind string
	At         time.Duration
	// Duration is 0 for a kill, which is instantaneous and is not removed.
	Duration time.Duration
	Spec     *v1alpha1.Fault
	// hash distinguishes the random choices of a plan's faults.
	hash uint64
}

// End is the planned time of removal, or At for an instantaneous fault.
func (f *Fault) End() time.Duration { return f.At + f.Duration }

// Kills is true for faults that end the processes of their targets.
func (f *Fault) Kills() bool {
	switch f.Kind {
	case PodKill, ContainerKill, NodeShutdown, IOError:
		return true
	}
	return false
}

// Followed is true for faults after which empty processes replace the targets: Kubernetes restarts killed pods and
// containers. The engine determines how other nodes treat them (protocol.Engine.Replaces).
func (f *Fault) Followed() bool { return f.Kind == PodKill || f.Kind == ContainerKill }

// ForGood is true for faults whose targets the manifest declares permanently lost.
func (f *Fault) ForGood() bool {
	return f.Spec.PodKill != nil && f.Spec.PodKill.Lasting || f.Spec.ContainerKill != nil && f.Spec.ContainerKill.Lasting
}

// Plan is a run's timeline.
type Plan struct {
	Topology *geo.Topology
	// Faults are in the order of their starts, and faults with the same start in the order of the manifest.
	Faults []*Fault

	seed uint64
}

// NewPlan makes the plan of a run's spec.faults, which have been checked.
func NewPlan(faults []v1alpha1.Fault, t *geo.Topology, seed uint64) *Plan {
	p := &Plan{Topology: t, seed: seed}
	for i := range faults {
		s := &faults[i]
		f := &Fault{Name: s.Name, At: s.At.Duration, Spec: s}
		if kinds := s.Kinds(); len(kinds) > 0 {
			f.Kind = kinds[0]
		}
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

// Target returns the nodes that a fault aims at: the only target of a fault of nodes, the first side of a partition;
// nil for a fault of links.
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

// ByRole reports whether a target depends on the nodes' roles.
func (f *Fault) ByRole() bool {
	to := f.Spec.NetworkPartition
	return f.Target() != nil && f.Target().Role != "" || to != nil && to.To != nil && to.To.Role != ""
}

// Between returns the links that a fault of links aims at; nil for others.
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

// Link is one direction between two regions.
type Link struct{ From, To geo.Region }

// Links returns the links that the fault aims at, in order. A pair with the same region on both sides is the network
// inside that region, and is only meant where both sides name it.
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

// Targets are the nodes that a fault hits, ascending: From alone for a fault of nodes, both sides for a partition.
type Targets struct {
	From []geo.NodeID `json:"from,omitempty"`
	To   []geo.NodeID `json:"to,omitempty"`
}

// Roles returns the current roles of a node.
type Roles func(geo.NodeID) ([]string, error)

// candidates returns the nodes that a target's regions and partitions leave, before role, count and percent.
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

// Resolve chooses the targets of a fault. It calls roles only if a target names a role. If roles is nil, it ignores
// roles, so that the result is only a bound. The error names the field and the reason why no node remains.
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
		return out, nil // the sides are not known
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
				continue // a node that does not answer has no role that anybody could see
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
	case target.Count != nil:
		if n = int(*target.Count); n > len(nodes) && target.Role == "" {
			return nil, fmt.Errorf("%s.count: %d is more than the %d nodes that there are", field, n, len(nodes))
		}
		n = min(n, len(nodes))
	case target.Percent != nil:
		n = max(1, (len(nodes)*int(*target.Percent)+99)/100)
	}
	if n < len(nodes) {
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
