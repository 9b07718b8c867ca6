package faultstatus

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/fault"
)

// ShutdownGates are the scheduling gates in a region's pod template that prevent the replacement of a shut-down pod
// from being scheduled.
var ShutdownGates = []corev1.PodSchedulingGate{{Name: "geobench.dev/shutdown"}}

// Closes reports whether the fault keeps pods of the region down.
func Closes(l *fault.Life, t *geo.Topology, region string) bool {
	return l.Fault.Kind == fault.NodeShutdown && l.Injector == string(v1alpha1.InjectorKubernetes) &&
		slices.ContainsFunc(l.Targets.From, func(n geo.NodeID) bool { return t.Regions[t.RegionOf(n)] == region })
}

// StaysDown reports whether a new pod of the region must stay down. A shut-down node has lost its data, so its
// replacement stays down until the run is over.
func StaysDown(tl *fault.Timeline, region string) bool {
	return tl != nil && slices.ContainsFunc(tl.Lives, func(l *fault.Life) bool { return Closes(l, tl.Plan.Topology, region) })
}

// Down returns the nodes that faults have stopped and that have not recovered yet. They cannot receive messages.
func Down(tl *fault.Timeline) (out []geo.NodeID) {
	if tl == nil {
		return nil
	}
	for _, l := range tl.Lives {
		if l.Fault.Kills() && !l.Lasting && l.Touches() {
			out = append(out, l.Targets.From...)
		}
	}
	return out
}
