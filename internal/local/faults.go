package local

import (
	"time"

	"github.com/geobench/geobench/internal/fault"
	"github.com/geobench/geobench/internal/plan"
)

// faultPatience is after how long a fault is given up.
const faultPatience = 10 * time.Second

// timeline of the plan's faults; nil when there are none.
func timeline(p *plan.Plan, poll time.Duration) *fault.Timeline {
	if len(p.Run.Spec.Faults) == 0 {
		return nil
	}
	return fault.NewTimeline(fault.NewPlan(p.Run.Spec.Faults, &p.Topology, p.Seed()), poll, faultPatience)
}

// restarts tells whether the targets of a fault that ends processes go on, in the same place, from their journals.
func restarts(p *plan.Plan, f *fault.Fault) bool {
	return p.Journals() && (f.Kind == fault.NodeShutdown || f.Kind == fault.ContainerKill)
}

// replaces tells whether new incarnations take the places of a fault's targets, which have lost what they knew, wherever those are.
func replaces(p *plan.Plan, f *fault.Fault) bool {
	return f.Followed() && !p.Journals() && p.Engine.ReplacesAll(&p.Topology, p.Params)
}

// bears notes, and returns, why a database cannot take in empty processes in all places of a fault's targets at once; nil when it can.
func bears(p *plan.Plan, l *fault.Life) error {
	if !l.Replaced {
		return nil
	}
	err := p.Engine.Bears(&p.Topology, p.Params, l.Targets.From)
	if err != nil {
		l.Problem = err.Error()
	}
	return err
}
