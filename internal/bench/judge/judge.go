// Package judge makes the result document of a run, with its verdict, from observations of the run. A simulation,
// processes and a cluster supply the same Facts; no other package interprets them.
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
	// QuietWithin is the time that a database may take, after the last answer, to finish its work. A database that takes
	// longer is not audited, and its run is Invalid.
	QuietWithin = 2 * time.Minute
	// leastMeasured is the shortest window that is worth a result.
	leastMeasured = time.Second
)

// Facts are all that a document follows from.
type Facts struct {
	// Plan is the plan of the run.
	Plan *plan.Plan
	// ConfigMaps maps the names of the ConfigMaps that the database's pods mount to their digests.
	ConfigMaps map[string]string
	// Layout is the placement of the database's rows.
	Layout geo.Layout
	// Measured is what clients and nodes counted.
	result.Measured

	// Timeline is the course of the faults; nil when there were none. Deviations and FastLinks are unplanned actions and
	// times.
	Timeline   *fault.Timeline
	Deviations []fault.Deviation
	FastLinks  []fault.FastLink

	// Unfinished are the transactions that nodes still worked on at the last poll. Audits holds the rows of all nodes once
	// the database was quiescent, except for the nodes that LeftOut names. It is nil for a database that was not quiescent
	// within QuietWithin, or that could not be audited: Unaudited gives the reason.
	Unfinished int
	// Leader and Elections are from target.Activity of the database's last poll.
	Leader    string
	Elections int64
	Audits    *audit.Audits
	Unaudited error
	// History is the recorded history of the clients, if a check needs it. Unrecorded is the reason why it is missing
	// although a check needs it. The run is then Invalid, and its document holds everything that needs no history.
	History    *history.History
	Unrecorded *result.Reason

	historyChecked bool
	historyChecks  []workload.Check
}

// Document returns the result of a run whose schedule is over.
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

// locateEndpoints sets the round trips between the endpoints of a database and their clients: the smallest of the
// medians that the workers of each region have measured.
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

// Cancelled returns the result of a run that was cancelled after elapsed of its schedule. The result covers the
// complete repetitions, or else the measured part of the first repetition's window. It is nil when nothing was
// measured. Cancelled cuts the reports.
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

// CheckHistory carries out the checks of spec.verify on the history and then releases it. Document calls it unless it
// was called before. The check needs no reports and takes most of the time, and its memory is better free before the
// reports are read.
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
