package fault

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
)

// Starves returns the times at which faults of the plan stop the process of a node, or take its CPU, disk or memory
// away. The node may then be late for due work. The times reach from the start of injection to the complete removal,
// with the fault's tolerance. A fault of links, or a past fault, explains no lateness.
func (t *Timeline) Starves(n geo.NodeID) []Interval {
	return t.acts(n, func(f *Fault) bool {
		switch f.Kind {
		case CPUStress, MemoryStress, IODelay, DiskReadLoad, DiskWriteLoad:
			return true
		}
		return f.Kills()
	})
}

// Hits returns when faults of the plan end the process of a node or do something else to its pod, with their
// tolerances.
func (t *Timeline) Hits(n geo.NodeID) []Interval { return t.acts(n, func(*Fault) bool { return true }) }

// acts returns when faults of some kinds acted on a node.
func (t *Timeline) acts(n geo.NodeID, is func(*Fault) bool) (out []Interval) {
	for _, l := range t.Lives {
		if !is(l.Fault) || l.Injecting == nil || !slices.Contains(l.Targets.From, n) {
			continue
		}
		acts := Interval{*l.Injecting - l.Tolerance(), Forever}
		if l.Recovered != nil && !l.Lasting {
			acts.To = *l.Recovered + l.Tolerance()
		}
		out = append(out, acts)
	}
	return out
}
