package fault

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
)

// Starves returns when faults of the plan end the process of a node, or take its CPU, disk or memory away, so that it may be late
// for what is due: from the start of its injection until it was fully removed, with its tolerance. A fault of links, or one
// that has passed, explains nothing.
func (t *Timeline) Starves(n geo.NodeID) []Interval {
	return t.acts(n, func(f *Fault) bool {
		switch f.Kind {
		case CPUStress, MemoryStress, IODelay, DiskReadLoad, DiskWriteLoad:
			return true
		}
		return f.Kills()
	})
}

// Hits returns when faults of the plan end the process of a node or do something else to its pod, with their tolerances.
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
