package local

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/fault"
	"github.com/geobench/geobench/internal/plan"
)

const (
	// faultPatience is after how long a fault is given up.
	faultPatience = 10 * time.Second
	// replacedPatience is that where new incarnations get their data from the others, which takes as long as there is much of it.
	replacedPatience = 10 * time.Minute
)

// timeline of the plan's faults; nil when there are none. replaces says after which of them new incarnations come.
func timeline(p *plan.Plan, poll time.Duration, replaces func(*fault.Fault) bool) *fault.Timeline {
	if len(p.Run.Spec.Faults) == 0 {
		return nil
	}
	t := fault.NewTimeline(fault.NewPlan(p.Run.Spec.Faults, &p.Topology, p.Seed()), poll, faultPatience)
	if slices.ContainsFunc(t.Plan.Faults, replaces) {
		t.Patience = replacedPatience
	}
	return t
}

// restarts tells whether the targets of a fault that ends processes go on, in the same place, from their journals.
func restarts(p *plan.Plan, f *fault.Fault) bool {
	return p.Journals() && (f.Kind == fault.NodeShutdown || f.Kind == fault.ContainerKill)
}

// follows tells whether empty processes follow those that a fault ends: a container that is killed is started again, and the engine can
// take it in wherever it was.
func follows(p *plan.Plan, f *fault.Fault) bool {
	return f.Kind == fault.ContainerKill && p.Engine.ReplacesAll(&p.Topology, p.Params)
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
