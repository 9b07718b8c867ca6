package fault

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
)

// Starves returns the times at which faults of the plan stop the process of a node, or reduce its CPU, disk or memory.
// The node may then be late for scheduled work. The times extend from the start of injection to the complete removal,
// plus the tolerance of the fault. Faults of links do not count, because they cannot explain such lateness.
func (t *Timeline) Starves(n geo.NodeID) []Interval {
	return t.acts(n, func(f *Fault) bool {
		switch f.Kind {
		case CPUStress, MemoryStress, IODelay, DiskReadLoad, DiskWriteLoad:
			return true
		}
		return f.Kills()
	})
}

// Hits returns the times at which faults of the plan act on a node or its pod in any way, extended by their tolerances.
func (t *Timeline) Hits(n geo.NodeID) []Interval { return t.acts(n, func(*Fault) bool { return true }) }

// acts returns the times at which the faults for which is returns true act on a node.
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
