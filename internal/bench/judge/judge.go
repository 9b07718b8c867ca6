// Package judge makes the result document of a run, with its verdict, from what was seen of it. A simulation, processes and a
// cluster hand it the same Facts; nobody else decides what they mean.
package judge

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/net/rtt"
)

const (
	// QuietWithin is how long a database may take, after the last answer, to finish what it has begun. One that takes longer is not
	// audited, and its run is Invalid.
	QuietWithin = 2 * time.Minute
	// leastMeasured is the shortest window that is worth a result.
	leastMeasured = time.Second
)

// Facts are all that a document follows from.
type Facts struct {
	// Plan is what was asked for.
	Plan *plan.Plan
	// ConfigMaps are the digests of those that the database's pods mount, by their names.
	ConfigMaps map[string]string
	// Layout says where the database has its rows.
	Layout geo.Layout
	// Measured is what clients and nodes counted.
	result.Measured

	// Timeline is what became of the faults; nil when there were none. Deviations and FastLinks are what was done beside it.
	Timeline   *fault.Timeline
	Deviations []fault.Deviation
	FastLinks  []fault.FastLink

	// Unfinished are the transactions that nodes still worked on when they were asked last. Audits holds the rows of all nodes once
	// the database was quiet, but for the nodes that LeftOut names; it is nil for one that had not become so within QuietWithin, or
	// that could not be audited: Unaudited says why.
	Unfinished int
	// Leader and Elections are those of target.Activity when the database was asked last.
	Leader    string
	Elections int64
	Audits    *audit.Audits
	Unaudited error
	// History is what clients saw, when a check needs it. Unrecorded says why there is none although a check needs it: the run is then
	// Invalid, and all that needs no history is in its document.
	History    *history.History
	Unrecorded *result.Reason

	historyChecked bool
	historyChecks  []workload.Check
}

// Document is the result of a run whose schedule is over.
func Document(f *Facts) (*result.Document, error) {
	if f.Audits != nil {
		if err := f.Audits.Complete(&f.Layout); err != nil {
			f.Audits, f.Unaudited = nil, errors.Join(f.Unaudited, err)
		}
	}
	in := f.inputs()
	switch {
	case f.Unaudited != nil:
		in.Incidents = append(in.Incidents, result.Reason{Reason: result.ReasonNotAudited, Message: f.Unaudited.Error()})
	case f.Audits == nil:
		in.Incidents = append(in.Incidents, result.Reason{Reason: result.ReasonNotQuiet, Message: fmt.Sprintf(
			"the database was not quiet %v after the last answer, with %d unfinished transactions; its rows were not audited", QuietWithin, f.Unfinished)})
	}
	if f.Audits != nil {
		if why := f.Audits.Unaudited(&f.Layout, f.Plan.Run.Spec.Verify); why != "" {
			in.Incidents = append(in.Incidents, result.Reason{Reason: result.ReasonNotAudited, Message: why})
		}
	}
	if f.Unrecorded != nil {
		in.Incidents = append(in.Incidents, *f.Unrecorded)
	}
	in.Checks = f.checks()
	f.locateEndpoints()
	if f.Target != nil && f.Elections > 0 {
		f.Target.Elections, f.Target.LeaderAtEnd = f.Elections, f.Leader
	}
	return result.Build(in)
}

// locateEndpoints says how far the endpoints of a database are from their clients, as the workers of each region have measured: the least of
// their medians.
func (f *Facts) locateEndpoints() {
	if f.Target == nil || len(f.Target.Endpoints) > 0 {
		return
	}
	for _, region := range f.Plan.Topology.Regions {
		var least int64
		for _, r := range f.Reports {
			for _, w := range r.Workers {
				if took := w.TargetRTTMicroseconds; w.Region == region && took > 0 && (least == 0 || took < least) {
					least = took
				}
			}
		}
		if least > 0 {
			f.Target.Endpoints = append(f.Target.Endpoints, result.TargetEndpoint{Region: region, RTTMicroseconds: least})
		}
	}
}

// Cancelled is the result of a run that was cancelled when so much of its schedule was over: of the repetitions that were
// complete, or else of the first one's window as far as it came. It is nil when nothing was measured. The reports are cut.
func Cancelled(f *Facts, elapsed time.Duration) (*result.Document, error) {
	s := load.PlanOf(f.Plan.Run.Spec.Load, 0)
	complete := 0
	for complete < s.Repetitions {
		if _, to := s.Window(complete + 1); to > elapsed {
			break
		}
		complete++
	}
	duration := s.Duration
	message := fmt.Sprintf("cancelled after %v of %v", elapsed.Round(100*time.Millisecond), s.LastWindow())
	if complete == 0 {
		from, _ := s.Window(1)
		if duration = elapsed - from; duration < leastMeasured {
			return nil, nil
		}
		message += fmt.Sprintf(": the figures are of the first %v of the measured window", duration.Round(100*time.Millisecond))
	} else if complete == s.Repetitions {
		message = "cancelled after the last window"
	} else {
		message += fmt.Sprintf(": the figures are of %d of %d repetitions", complete, s.Repetitions)
	}
	for _, r := range f.Reports {
		if r == nil {
			return nil, nil
		}
		r.Cut(max(1, complete), result.Microseconds(duration))
	}
	f.Execution.Cut(max(1, complete), duration)
	in := f.inputs()
	in.Incidents = append([]result.Reason{{Reason: result.ReasonCancelled, Message: message + "; the answers were not checked"}}, in.Incidents...)
	return result.Build(in)
}

// inputs are the facts as a document takes them.
func (f *Facts) inputs() result.Inputs {
	p := f.Plan
	manifests := &result.Manifests{Run: &p.Run.Spec, ConfigMaps: f.ConfigMaps}
	switch { // a target's network has none unless it was deployed, and its database has one only where it is a GeoDatabase
	case f.Target == nil || p.Database.Spec.RunsPrograms():
		manifests.Database, manifests.Network = &p.Database.Spec, p.Profile
	case p.Database.Spec.External != nil:
		manifests.Database = &p.Database.Spec
	}
	measured := f.Measured
	if bound := p.Engine.ClockBound; bound != nil {
		measured.ClockBound = bound(p.Params)
	}
	return result.Inputs{
		Name: p.Run.Name, Database: p.Database.Name, Engine: p.Engine.Name, Parameters: p.Params, Seed: p.Run.Spec.Seed,
		Topology: &p.Topology, Manifests: manifests,
		Workload: p.Run.Spec.Workload, Load: p.Run.Spec.Load, Shares: slices.Concat(p.Workload.Shares(), load.Shares(&p.Run.Spec.Load)), TpmCType: catalog.TpmCType(p.Run.Spec.Workload),
		Prices: plan.Prices(p.Profile.Prices), Objectives: p.Run.Spec.Objectives,
		Measured: measured, Faults: faults(f.Timeline, f.Unfinished), Deviations: deviations(f.Deviations), FastLinks: fastLinks(f.FastLinks),
	}
}

// checks carries out spec.verify: first on the rows, then on the history.
func (f *Facts) checks() (checks []workload.Check) {
	p := f.Plan
	if f.Audits != nil {
		checks = audit.Verify(&f.Layout, p.Workload, *f.Audits, result.MergeLedgers(f.Reports), p.Run.Spec.Verify)
	}
	f.CheckHistory()
	return append(checks, f.historyChecks...)
}

// CheckHistory carries out what spec.verify asks of the history, which it lets go then. Document does so unless it
// was done before: the check needs no reports, takes much longer than all the rest, and its memory is better free
// before the reports are read.
func (f *Facts) CheckHistory() {
	if f.historyChecked || f.Unrecorded != nil {
		return
	}
	p := f.Plan
	if f.History != nil {
		f.History.KeyName = p.Workload.KeyName
	}
	for _, v := range p.Run.Spec.Verify {
		level, ok := history.LevelOf(v, p.Engine.Promises(p.Params))
		if !ok {
			continue
		}
		c := history.Check(f.History, level).Check()
		if f.History.ClockError > 0 && isolation.Implies(level, isolation.StrongSnapshotIsolation) {
			c.Message += fmt.Sprintf(" (the clients' clocks are at most %s apart)", rtt.Round(f.History.ClockError))
		}
		f.historyChecks = append(f.historyChecks, c)
	}
	f.History, f.historyChecked = nil, true
}
