package faultstatus

import (
	"reflect"
	"slices"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/net/emulation"
)

// Merged reports whether the fault is merged into the network that the backend of a database emulates.
func Merged(l *fault.Life, emulated v1alpha1.Emulation) bool {
	return slices.Contains(fault.NetworkKinds, l.Fault.Kind) && l.Injector == string(emulated) && l.Injector != string(v1alpha1.InjectorBuiltIn)
}

// ByItself reports whether the injectors of the fault start and stop it without the operator: nodes and sidecars
// receive its schedule in advance.
func ByItself(l *fault.Life) bool {
	return l.Injector == string(v1alpha1.InjectorBuiltIn) || l.Injector == string(v1alpha1.InjectorSidecar)
}

// Disturb merges faults into the network of a database: as phases for sidecars, and as the current state for other
// backends. timeline may be nil.
func Disturb(n *emulation.Network, timeline *fault.Timeline, db *v1alpha1.GeoDatabase, emulated v1alpha1.Emulation) {
	if timeline == nil {
		return
	}
	is := func(l *fault.Life) bool { return Merged(l, emulated) }
	if emulated != v1alpha1.EmulationSidecar {
		Change(n, timeline.Packets(is), timeline.Plan.Topology, db)
		return
	}
	for _, p := range NetworkPlan(n, timeline, db) {
		phase := *p.State
		phase.From = timeline.Start.Add(p.At)
		n.Phases = append(n.Phases, phase)
	}
}

// NetworkPlan returns the planned states of the network over the time of the run, with the faults that sidecars inject.
func NetworkPlan(n *emulation.Network, timeline *fault.Timeline, db *v1alpha1.GeoDatabase) []fault.Planned[*emulation.Phase] {
	declared := &emulation.Phase{Links: n.Links}
	is := func(l *fault.Life) bool { return Merged(l, v1alpha1.EmulationSidecar) }
	return fault.PacketsPlanOf(timeline, declared, func(a, b *emulation.Phase) bool { return reflect.DeepEqual(a, b) }, is, func(c *fault.Conditions) *emulation.Phase {
		// Change modifies the links in place, so each state needs its own copy of the declared links.
		with := &emulation.Network{Links: clonedLinks(n.Links)}
		Change(with, c, timeline.Plan.Topology, db)
		return &emulation.Phase{Links: with.Links, Cuts: with.Cuts}
	})
}

func clonedLinks(links [][]emulation.Link) (out [][]emulation.Link) {
	for _, row := range links {
		out = append(out, slices.Clone(row))
	}
	return out
}

// Change applies the conditions to the links of a network.
func Change(n *emulation.Network, c *fault.Conditions, t *geo.Topology, db *v1alpha1.GeoDatabase) {
	for a, row := range c.Links {
		for b, l := range row {
			n.Links[a][b].Link, n.Links[a][b].LossCorrelationPercent = l, c.Correlation[a][b]
		}
	}
	for _, s := range c.Separated() {
		n.Cuts = append(n.Cuts, emulation.Cut{From: PodNames(db, t, s.From), To: PodNames(db, t, s.To), By: s.By})
	}
}

// PodNames returns the names of the nodes' pods.
func PodNames(db *v1alpha1.GeoDatabase, t *geo.Topology, nodes []geo.NodeID) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, kube.NodePodName(db, t, n))
	}
	return out
}
