// Package judge builds the result document of a run, with its verdict, from observations of the run. Simulations,
// processes and clusters all supply the same Facts, and no other package interprets them.
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
	// QuietWithin is the time after the last answer within which a database must have finished its work. A database that
	// takes longer is not audited, and its run is Invalid.
	QuietWithin = 2 * time.Minute
	// leastMeasured is the minimum measured time for which a cancelled run gets a result.
	leastMeasured = time.Second
)

// Facts holds everything from which a document is built.
type Facts struct {
	// Plan is the plan of the run.
	Plan *plan.Plan
	// ConfigMaps maps the name of each ConfigMap that the database's pods mount to its digest.
	ConfigMaps map[string]string
	// Layout is the placement of the database's rows.
	Layout geo.Layout
	// Measured holds the counts of clients and nodes.
	result.Measured

	// Timeline holds the faults and their progress; nil if the run has none. Deviations are unplanned actions on nodes and
	// links. FastLinks are the times at which links were too fast.
	Timeline   *fault.Timeline
	Deviations []fault.Deviation
	FastLinks  []fault.FastLink

	// Unfinished is the number of transactions that nodes were still processing at the last poll. Audits holds the audits
	// of all nodes except those in Audits.Out, taken once the database was quiescent. Audits is nil if the database was
	// not quiescent within QuietWithin, or could not be audited; Unaudited then gives the reason.
	Unfinished int
	// Leader and Elections are the values of target.Activity at the last poll of the database.
	Leader    string
	Elections int64
	Audits    *audit.Audits
	Unaudited error
	// History is the recorded history of the clients; nil if no check needs it. Unrecorded is the reason why a required
	// history is missing. The run is then Invalid, and its document holds everything that does not need the history.
	History    *history.History
	Unrecorded *result.Reason

	historyChecked bool
	historyChecks  []workload.Check
}

// Document returns the result of a run that completed its schedule.
func Document(f *Facts) (*result.Document, error) {
	// An incomplete audit must count as no audit: the checks would compare sums over different rows.
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

// locateEndpoints sets the round trips between clients and the endpoints of a target: for each region, the smallest
// median of its workers.
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

// Cancelled returns the result of a run that was cancelled at time elapsed of its schedule. The result covers the
// complete repetitions or, if there is none, the measured part of the first window. Cancelled returns nil if nothing
// was measured. It removes the data of later windows from the reports of f.
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
		// A partial first window becomes the result; later partial windows are dropped.
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
		// Without the report of a worker, every figure would be too small.
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

// inputs returns the facts in the form of a document's inputs.
func (f *Facts) inputs() result.Inputs {
	p := f.Plan
	manifests := &result.Manifests{Run: &p.Run.Spec, ConfigMaps: f.ConfigMaps}
	switch { // a target has a declared network only if it was deployed, and a database spec only if it is a GeoDatabase
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

// checks runs the checks of spec.verify, first on the rows and then on the history.
func (f *Facts) checks() (checks []workload.Check) {
	p := f.Plan
	if f.Audits != nil {
		checks = audit.Verify(&f.Layout, p.Workload, *f.Audits, result.MergeLedgers(f.Reports), p.Run.Spec.Verify)
	}
	f.CheckHistory()
	return append(checks, f.historyChecks...)
}

// CheckHistory runs the checks of spec.verify on the history, and then releases the history. Document calls
// CheckHistory unless the caller has already done so. The checks need no reports. A caller should run them before it
// reads the reports, so that history and reports are not in memory at the same time.
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
		// Only levels with a real-time order depend on the clocks of clients.
		if f.History.ClockError > 0 && isolation.Implies(level, isolation.StrongSnapshotIsolation) {
			c.Message += fmt.Sprintf(" (the clients' clocks are at most %s apart)", rtt.Round(f.History.ClockError))
		}
		f.historyChecks = append(f.historyChecks, c)
	}
	f.History, f.historyChecked = nil, true
}
