package local

import (
	"time"

	"github.com/geobench/geobench/internal/fault"
	"github.com/geobench/geobench/internal/plan"
)

// timeline of the plan's faults; nil when there are none.
func timeline(p *plan.Plan, poll, patience time.Duration) *fault.Timeline {
	if len(p.Run.Spec.Faults) == 0 {
		return nil
	}
	return fault.NewTimeline(fault.NewPlan(p.Run.Spec.Faults, &p.Topology, p.Seed()), poll, patience)
}

// restarts tells whether the targets of a fault that ends processes go on, in the same place, from their journals.
func restarts(p *plan.Plan, f *fault.Fault) bool {
	return p.Journals() && (f.Kind == fault.NodeShutdown || f.Kind == fault.ContainerKill)
}
