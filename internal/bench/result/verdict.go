package result

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/ops/admin"
)

// Reasons of a verdict.
const (
	ReasonNoTransactions     = "NoTransactions"
	ReasonCancelled          = "Cancelled"
	ReasonHistoryLost        = "HistoryLost"
	ReasonHistoryTooLarge    = "HistoryTooLarge"
	ReasonNotQuiet           = "NotQuiet"
	ReasonNotAudited         = "NotAudited"
	ReasonConnectionLost     = "ConnectionLost"
	ReasonTargetFailed       = "TargetFailed"
	ReasonWorkloadBroken     = "WorkloadBroken"
	ReasonDriverBound        = "DriverBound"
	ReasonShareMismatch      = "ShareMismatch"
	ReasonClassMismatch      = "ClassMismatch"
	ReasonNetworkNotVerified = "NetworkNotVerified"
	ReasonNodeRestarted      = "NodeRestarted"
	ReasonWorkerLost         = "WorkerLost"
	ReasonStartMissed        = "StartMissed"
	ReasonFaultFailed        = "FaultFailed"
	ReasonFaultMistimed      = "FaultMistimed"
	ReasonClocksApart        = "ClocksApart"
	ReasonObjectiveMissed    = "ObjectiveMissed"
	// ReasonUnanswered is the reason if more of a region's transactions went unanswered than allowed.
	ReasonUnanswered = "Unanswered"
	// ReasonTooFewSamples is the reason if an objective refers to a percentile of too few transactions.
	ReasonTooFewSamples = "TooFewSamples"
	// ReasonObjectiveUndecided is the reason if it is unknown whether an objective holds.
	ReasonObjectiveUndecided = "ObjectiveUndecided"
	ReasonCheckFailed        = "CheckFailed"
	// ReasonTestNotPassed is the reason if a run did not start because a required functional test had not passed.
	ReasonTestNotPassed = "FunctionalTestNotPassed"
)

// These are the reasons of runs that were tampered with.
const (
	// ReasonUndeclaredDisturbance is the reason if a node or link was disturbed in a way that no fault of the manifest
	// declares.
	ReasonUndeclaredDisturbance = "UndeclaredDisturbance"
	// ReasonMeshChanged is the reason if a proxy of the service mesh stopped, or if the mesh changed during the run.
	ReasonMeshChanged = "MeshChanged"
	// ReasonLinkTooFast is the reason if a link was temporarily faster than declared, although no fault of the manifest
	// changed it.
	ReasonLinkTooFast = "LinkTooFast"
	// ReasonReportForged is the reason if the report of a worker was altered, or if the worker did not use the
	// configuration that it was sent.
	ReasonReportForged = "ReportForged"
	// ReasonResultForged is the reason if the result existed although no measurement had produced it.
	ReasonResultForged = "ResultForged"
	// ReasonSnapshotForged is the reason if the operator's notes on the run were altered.
	ReasonSnapshotForged = "SnapshotForged"
	// ReasonNetworkEdited is the reason if an object was edited that determines the destination of connections of the
	// run's pods.
	ReasonNetworkEdited = "NetworkEdited"
	// ReasonManifestEdited is the reason if the database was changed after the run was admitted.
	ReasonManifestEdited = "ManifestEdited"
)

// judge sets the verdict. A measurement that cannot be trusted is Invalid, whatever its figures. A trusted measurement
// is Failed if a check failed or an objective is missed. Failed checks are the first reasons even of an Invalid run:
// lost money or a cycle proves that the database is wrong, whatever the load.
func (d *Document) judge(in *Inputs, r *Report) {
	var wrong, invalid, failed []Reason
	for _, c := range d.Checks {
		if !c.Passed {
			wrong = append(wrong, Reason{ReasonCheckFailed, c.Name + ": " + c.Message})
		}
	}
	for _, c := range invalidChecks {
		invalid = append(invalid, c(d, in, r)...)
	}
	for i := range d.Objectives {
		switch o := &d.Objectives[i]; {
		case o.Undecided != "":
			invalid = append(invalid, o.undecided())
		case !o.Holds:
			failed = append(failed, Reason{ReasonObjectiveMissed, fmt.Sprintf("%s: measured %s", o.Name, o.Measured)})
		}
	}
	failed = append(failed, unanswered(d, in, r)...)
	// Set the reasons before fillEvidence reads them to find contradicted items.
	d.Reasons = slices.Concat(wrong, invalid, failed)
	// Cancellation explains the missing evidence of a cancelled run, so its reason is enough.
	if missing := d.fillEvidence(in, r); !slices.ContainsFunc(d.Reasons, func(x Reason) bool { return x.Reason == ReasonCancelled }) {
		invalid = append(invalid, missing...)
		d.Reasons = slices.Concat(wrong, invalid, failed)
	}
	switch {
	case len(invalid) > 0:
		d.Verdict = v1alpha1.VerdictInvalid
	case len(wrong)+len(failed) > 0:
		d.Verdict = v1alpha1.VerdictFailed
	default:
		d.Verdict = v1alpha1.VerdictPassed
	}
}

// undecided returns the reason for an objective that could not be decided.
func (o *Objective) undecided() Reason {
	reason := ReasonObjectiveUndecided
	if o.FewSamples {
		reason = ReasonTooFewSamples
	}
	return Reason{reason, fmt.Sprintf("%s: measured %s: %s", o.Name, o.Measured, o.Undecided)}
}

// invalidChecks are the checks that can make a measurement worthless, the most severe first.
var invalidChecks = []func(*Document, *Inputs, *Report) []Reason{
	incidents,          // an event made the measurement doubtful
	settingsChanged,    // the settings of the target changed
	nodeClocksApart,    // the clocks of nodes differed by more than the engine's bound
	clocksApart,        // clients did not measure at the same time
	faultsFailed,       // a fault was not injected as planned
	faultsMistimed,     // a fault was early or late
	undeclared,         // something undeclared was done to a node or link
	linksTooFast,       // the network was temporarily too fast
	workloadBroken,     // procedures failed because they are wrong
	noTransactions,     // nothing was measured
	driverBound,        // the load generator was the bottleneck, not the database
	clientsBusy,        // a region had no free client for arrivals
	nodesStarved,       // a node or sidecar waited for the CPU
	tooManyGaps,        // the emulated network was missing for too long
	lossDiffers,        // packet loss differed from the declaration
	networkNotVerified, // round trips differed from the declaration
	classMismatch,      // transactions were counted under a wrong class
	shareMismatch,      // the mix of transactions differed from the configuration
}

func incidents(_ *Document, in *Inputs, r *Report) []Reason {
	// Planned effects of faults on nodes: permanent loss, temporary absence, and replacement by another process.
	lost, away, replaced := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, f := range in.Faults {
		for _, n := range f.Replaced {
			replaced[n] = true
		}
		for _, n := range f.Lost {
			lost[n] = true
		}
		for _, n := range f.Restarted {
			away[n] = true
		}
	}
	out := slices.Clone(in.Incidents)
	for _, i := range r.Incidents {
		// Any incident at a lost node is planned. The other effects explain only the incident that they necessarily cause.
		planned := lost[i.Node] || away[i.Node] && i.Reason.Reason == ReasonConnectionLost || replaced[i.Node] && i.Reason.Reason == ReasonNodeRestarted
		if !planned {
			out = append(out, i.Reason)
		}
	}
	after := map[string]*admin.Status{}
	for i := range in.After {
		after[in.After[i].Node] = &in.After[i]
		if in.After[i].Broken && !lost[in.After[i].Node] {
			out = append(out, Reason{ReasonNodeRestarted, in.After[i].Node + " has lost its state: " + in.After[i].Reason})
		}
	}
	for _, b := range in.Before {
		switch a := after[b.Node]; {
		case lost[b.Node]:
		case a == nil:
			out = append(out, Reason{ReasonNodeRestarted, b.Node + " did not answer after the run"})
		// A replaced node has a new process, but the database keeps its incarnation.
		case a.Process != b.Process && !replaced[b.Node] || a.Incarnation != b.Incarnation:
			out = append(out, Reason{ReasonNodeRestarted, b.Node + " was started again during the run"})
		case !in.Simulated && in.Target == nil && !away[b.Node] && !replaced[b.Node] && wentBack(&b, a):
			out = append(out, Reason{ReasonNodeRestarted, b.Node + " was started again during the run: its counters began anew"})
		}
	}
	return out
}

// mistakes lists the reasons of attempts that failed because a procedure is wrong, with an explanation for the message.
var mistakes = []struct{ reason, says string }{
	{txn.ReasonInvalid, "nodes do not know such transactions"},
	{txn.ReasonUndeclared, "they touched rows that their footprints, said to be exact, do not name"},
	{txn.ReasonProcedure, "their procedures failed other than by txn.Abort, or were given rows that they cannot read"},
}

// Mistake reports whether even a single attempt with this reason makes a run Invalid.
func Mistake(reason string) bool {
	for _, m := range mistakes {
		if m.reason == reason {
			return true
		}
	}
	return false
}

// workloadBroken returns a reason if procedures are wrong, because the database would get credit for their cheap
// aborts.
func workloadBroken(d *Document, _ *Inputs, _ *Report) (out []Reason) {
	for _, m := range mistakes {
		all, types := int64(0), map[string]bool{}
		for i := range d.Transactions {
			x := &d.Transactions[i]
			if n := x.Attempts.Aborted[m.reason] + x.Attempts.Refused[m.reason]; n > 0 {
				all += n
				types[x.Type] = true
			}
		}
		if all > 0 {
			out = append(out, Reason{ReasonWorkloadBroken, fmt.Sprintf("%d attempts of %s ended with %s: %s", all,
				strings.Join(slices.Sorted(maps.Keys(types)), ", "), m.reason, m.says)})
		}
	}
	return out
}

func noTransactions(d *Document, _ *Inputs, r *Report) []Reason {
	if d.Summary.Committed > 0 {
		return nil
	}
	s := &d.Summary
	return []Reason{{ReasonNoTransactions, fmt.Sprintf(
		"no transaction was committed in %d windows of %v; %d were aborted, %d refused, %d unknown, %d still under way at the end",
		r.Repetitions, time.Duration(r.DurationMicroseconds)*time.Microsecond, s.Aborted, s.Refused, s.Unknown, s.Unfinished)}}
}

// driverLimitPPM is the share of its CPU allowance, in parts per million, above which a load generator may have been
// the bottleneck.
const driverLimitPPM = 800_000

// throttledLimitPPM is the share of CPU quota periods, in parts per million, in which a load generator may be
// throttled. Each such period delays the transactions in flight by up to 100 ms. A worker with bursts can be throttled
// although its average usage is low.
const throttledLimitPPM = 50_000

func driverBound(d *Document, in *Inputs, r *Report) (out []Reason) {
	say := func(who string, d *Driver) {
		// The busiest window counts: the average over all windows hides a single saturated window.
		if p := max(d.SharePPM(), d.BusiestPPM); p > driverLimitPPM {
			out = append(out, Reason{ReasonDriverBound, fmt.Sprintf(
				"driver-bound: %s used %d%% of its CPU allowance (%d milli-CPU) while measuring, over %d%%; give it more CPU or workersPerRegion",
				who, p/10_000, d.AllowanceMilliCPU, driverLimitPPM/10_000)})
		} else if p := d.ThrottledPPM(); p > throttledLimitPPM {
			out = append(out, Reason{ReasonDriverBound, fmt.Sprintf(
				"driver-bound: %s had used up its CPU quota (%d milli-CPU) in %d of %d periods while measuring and was stopped until the next, more than %d%% of them; give it more CPU or workersPerRegion",
				who, d.AllowanceMilliCPU, d.ThrottledPeriods, d.Periods, throttledLimitPPM/10_000)})
		}
	}
	if in.Simulated {
		return nil
	}
	for _, w := range r.Workers {
		if w.Driver != nil {
			say(fmt.Sprintf("worker %d in %s", w.Index, w.Region), w.Driver)
		}
	}
	if in.Driver != nil {
		say(cmp.Or(in.DriverName, "the load generator"), in.Driver)
	}
	return append(out, driverLate(d, in)...)
}

// These constants limit the lateness of a load generator for scheduled work. The percentages are shares of its measured
// latencies. For the median, the share is the tolerance of a network round trip. For the 99th percentile, the share is
// a half: beyond that, the percentile reflects the load generator more than the database. The floors are lateness that
// any scheduler may cause: a millisecond for most wake-ups, and five milliseconds for one wake-up in a hundred.
const (
	lateMedianPercent, lateTailPercent = 5, 50

	lateFloor, lateTailFloor = 1000, 5000 // microseconds
)

// driverLate returns a reason for the first load generator that was too late, compared with the latencies that it
// measured.
func driverLate(d *Document, in *Inputs) []Reason {
	for i := range d.Workers {
		w := &d.Workers[i]
		late, latency := d.lateness(w)
		if late == nil {
			continue
		}
		if x := late.beyond(latency, lateTailPercent, lateTailFloor); x != nil {
			return []Reason{{ReasonDriverBound, fmt.Sprintf(
				"driver-bound: %s waited for the CPU: it was %s late for what was due (%s percentile of the window where it was largest), over the %s that a %s percentile of %s in %s bears; keep other work off its machine, or give it more CPU",
				in.driverOf(w), formatMicroseconds(x.late), x.percentile, formatMicroseconds(x.limit), x.percentile, formatMicroseconds(x.latency), w.Region)}}
		}
	}
	return nil
}

// noteLate adds a note for each load generator whose 99th percentile of lateness is noticeable, but not large enough to
// make the run Invalid.
func (d *Document) noteLate(in *Inputs) {
	for i := range d.Workers {
		w := &d.Workers[i]
		if late, latency := d.lateness(w); late != nil && late.P99 > lateLimit(latency.P99, lateMedianPercent, lateFloor) && late.P99 <= lateLimit(latency.P99, lateTailPercent, lateTailFloor) {
			d.Notes = append(d.Notes, fmt.Sprintf("%s was late for what was due by %s in the 99th percentile: by as much the 99th percentile of latencies in %s, %s, may be more than the database's",
				in.driverOf(w), formatMicroseconds(late.P99), w.Region, formatMicroseconds(latency.P99)))
		}
	}
}

// driverOf describes the process that runs worker w.
func (in *Inputs) driverOf(w *WorkerShare) string {
	if in.Driver != nil {
		return cmp.Or(in.DriverName, "the load generator")
	}
	return fmt.Sprintf("worker %d in %s", w.Index, w.Region)
}

// lateness returns the lateness of a worker, and the latencies of its region. The lateness is nil if either is unknown.
func (d *Document) lateness(w *WorkerShare) (*Lateness, committedLatency) {
	for i := range d.Regions {
		if r := &d.Regions[i]; r.Name == w.Region && r.Committed > 0 {
			return w.LateMicroseconds, d.committedLatency(r.Name)
		}
	}
	return nil, committedLatency{}
}

// committedLatency holds percentiles of the latency of committed transactions, in microseconds, for comparison with a
// lateness. Percentiles of Latency are unsuitable: a lower bound may be as long as a stall, and would then excuse the
// lateness that caused the stall.
type committedLatency struct{ P50, P99 int64 }

// committedLatency returns the percentiles of a region's committed transactions, or of all regions if region is empty.
func (d *Document) committedLatency(region string) committedLatency {
	l := d.Latencies(func(s *HistogramSeries) bool { return region == "" || s.Region == region })
	if l.observed() == 0 {
		return committedLatency{}
	}
	at := func(p float64) int64 { return min(l.histogram.ValueAtPercentile(p), l.max) }
	return committedLatency{at(50), at(99)}
}

// tooLate is a lateness beyond its limit.
type tooLate struct {
	percentile           string
	late, latency, limit int64 // microseconds
}

// beyond returns the percentile of the lateness that exceeds its limit for the given latencies; nil if none does.
func (l *Lateness) beyond(of committedLatency, tailPercent, tailFloor int64) *tooLate {
	median := &tooLate{"50th", l.P50, of.P50, lateLimit(of.P50, lateMedianPercent, lateFloor)}
	tail := &tooLate{"99th", l.P99, of.P99, lateLimit(of.P99, tailPercent, tailFloor)}
	switch {
	case median.late > median.limit:
		return median
	case tail.late > tail.limit:
		return tail
	}
	return nil
}

// lateLimit returns the allowed lateness of a process for the given latency, in microseconds.
func lateLimit(latency, percent, floor int64) int64 { return latency*percent/100 + floor }

func networkNotVerified(d *Document, in *Inputs, _ *Report) (out []Reason) {
	for _, l := range d.Links {
		if l.From == l.To && l.Samples == 0 {
			continue // a single node has no other node to measure the link to
		}
		off := l.MeasuredRTTMicroseconds.P50 - l.DeclaredRTTMicroseconds
		switch {
		// The simulator itself applies the declared delays.
		case l.Samples == 0 && in.Simulated:
		case l.Samples == 0:
			out = append(out, Reason{ReasonNetworkNotVerified, fmt.Sprintf("%s to %s: the round trip was not measured", l.From, l.To)})
		case max(off, -off) > l.ToleranceMicroseconds:
			out = append(out, Reason{ReasonNetworkNotVerified, fmt.Sprintf("%s to %s: the median round trip is %s, declared %s; they may differ by %s (5%% + 1ms and the sampling error of %d round trips)",
				l.From, l.To, formatMicroseconds(l.MeasuredRTTMicroseconds.P50), formatMicroseconds(l.DeclaredRTTMicroseconds),
				formatMicroseconds(l.ToleranceMicroseconds), l.Samples)})
		}
	}
	return out
}

// classMismatch returns a reason if the database reported wrong classes, which would distort the shares of multi-home
// and multi-partition transactions.
func classMismatch(_ *Document, _ *Inputs, r *Report) []Reason {
	if r.Misclassified == 0 {
		return nil
	}
	return []Reason{{ReasonClassMismatch, fmt.Sprintf(
		"the database told the wrong class of %d committed transactions whose footprints are hints, so that the shares of multi-home and multi-partition ones are wrong: %s",
		r.Misclassified, r.MisclassifiedExample)}}
}

func shareMismatch(d *Document, _ *Inputs, _ *Report) (out []Reason) {
	shares := d.Summary.Realised.Shares
	for i := range shares {
		if s := &shares[i]; s.off(len(shares)) {
			out = append(out, Reason{ReasonShareMismatch, s.mismatch()})
		}
	}
	return out
}

// off reports whether the realised value differs from the configured value by more than its tolerance. A share must
// also be outside its chanceRange. A mean has no such range, because its sampling error is unknown.
func (s *Share) off(comparisons int) bool {
	if s.Count == 0 || math.Abs(float64(s.RealisedPPM-s.ConfiguredPPM)) <= s.tolerance() {
		return false
	}
	n := float64(s.Count)
	low, high := chanceRange(n, float64(s.ConfiguredPPM)/1e6, comparisons)
	hits := math.Round(n * float64(s.RealisedPPM) / 1e6)
	return s.Mean || hits < low || hits > high
}

// mismatch describes the difference between the realised and the configured value.
func (s *Share) mismatch() string {
	allowed := "1 point"
	if s.TolerancePercent > 0 {
		allowed = fmt.Sprintf("%d%% of that", s.TolerancePercent)
	}
	if s.Mean {
		return fmt.Sprintf("%s: %s on average over %d %s, %s were asked for; the difference is more than %s",
			s.Name, s.text(s.RealisedPPM), s.Count, s.Of, s.text(s.ConfiguredPPM), allowed)
	}
	return fmt.Sprintf("%s: %s of %d %s are, %s were asked for; the difference is more than %s beyond sampling error",
		s.Name, s.text(s.RealisedPPM), s.Count, s.Of, s.text(s.ConfiguredPPM), allowed)
}

// tolerance returns the allowed difference in parts per million: TolerancePercent, or else one percentage point. A
// share is allowed three standard deviations of a binomial distribution in addition. The sampling error of a mean is
// unknown.
func (s *Share) tolerance() float64 {
	p, allowed := float64(s.ConfiguredPPM)/1e6, 10_000.
	if s.TolerancePercent > 0 {
		allowed = float64(s.ConfiguredPPM) * float64(s.TolerancePercent) / 100
	}
	if s.Mean {
		return allowed
	}
	return allowed + 3e6*math.Sqrt(p*(1-p)/float64(s.Count))
}

// measured is the value of an objective's metric. ok is false if nothing could be measured.
type measured struct {
	value v1alpha1.Quantile
	ok    bool
	// samples is the number of transactions that contribute to a percentile. The field transactions also counts
	// transactions that do not contribute.
	samples, transactions int64
	// cause explains why only a lower bound is known.
	cause string
	note  string
	// exact is the unrounded form of value, or nil. If hung transactions could still change the figure, its final value is
	// between least and most, and doubt explains why.
	exact, least, most *big.Rat
	doubt              string
}

// percentiles maps the latency metrics to their percentiles.
var percentiles = map[v1alpha1.Metric]float64{
	v1alpha1.MetricLatencyP50: 50, v1alpha1.MetricLatencyP90: 90, v1alpha1.MetricLatencyP95: 95, v1alpha1.MetricLatencyP99: 99,
}

// SamplesNeeded returns the minimum number of transactions for the p-th percentile. With fewer, the percentile would
// simply be the largest latency.
func SamplesNeeded(p float64) int64 { return int64(math.Round(100 / (100 - p))) }

// SamplesFor returns how many transactions an objective on metric m needs, or 0 if m is not a percentile.
func SamplesFor(m v1alpha1.Metric) int64 {
	p, ok := percentiles[m]
	if !ok {
		return 0
	}
	return SamplesNeeded(p)
}

// measures returns the measurement of each objective; f[i] sums the transactions that objectives[i] covers. If the
// network had gaps, only seconds without gaps count. Objectives on a single transaction type always use all seconds,
// because the timeline does not distinguish types.
func (d *Document) measures(objectives []v1alpha1.Objective, f []figures, r *Report) []measured {
	out := make([]measured, len(objectives))
	for i, o := range objectives {
		switch {
		case d.EmulationGapSeconds == 0:
			out[i] = measure(o.Metric, &f[i], r)
		case o.Transaction != "" || o.Metric == v1alpha1.MetricUnknownPPM: // the timeline does not have this figure
			out[i] = measure(o.Metric, &f[i], r)
			out[i].note = fmt.Sprintf(", %d s with gaps in the emulated network included", d.EmulationGapSeconds)
		default:
			out[i] = d.clear(r, o.Region).measure(o.Metric)
			out[i].note = fmt.Sprintf(", %d s with gaps in the emulated network omitted", d.EmulationGapSeconds)
		}
	}
	return out
}

// evaluate compares each objective with its measurement: of[i] is the measurement of objectives[i].
func evaluate(objectives []v1alpha1.Objective, of []measured) []Objective {
	out := []Objective{}
	for i, o := range objectives {
		out = append(out, of[i].judge(o))
	}
	return out
}

// judge compares the measurement with an objective. A maximum is missed if a lower bound of the measured value reaches
// it. The objective is undecided if a lower bound is below the limit, or if a percentile has too few transactions.
func (m *measured) judge(o v1alpha1.Objective) Objective {
	out := Objective{Name: ObjectiveName(o)}
	if !m.ok {
		out.Measured = "no transactions" + m.note
		return out
	}
	out.Value, out.Measured = m.value, m.format(o)+m.note
	if _, ok := percentiles[o.Metric]; ok {
		out.Samples = m.samples
		out.Measured = fmt.Sprintf("%s of %d transactions%s", formatMetric(o.Metric, m.value), m.samples, m.note)
	}
	out.Undecided = m.tooFew(o.Metric)
	out.FewSamples = out.Undecided != ""
	out.Holds = true
	if o.Max != nil {
		limit, err := boundValue(o.Metric, *o.Max)
		switch {
		case err != nil:
			return Objective{Name: out.Name, Measured: err.Error()}
		// The value is above its lower bound, so it exceeds the limit even if the bound only equals the limit.
		case m.exceeds(limit) || m.value.IsBound() && m.value.Least() == limit:
			out.Holds = false
		case m.most != nil && m.most.Cmp(big.NewRat(limit, 1)) > 0:
			out.Undecided = m.doubt
		case m.value.IsBound() && out.Undecided == "":
			out.Undecided = "only a lower bound of the percentile is known, and it is below the limit; " + m.cause
		}
	}
	if o.Min != nil {
		limit, err := boundValue(o.Metric, *o.Min)
		switch {
		case err != nil:
			return Objective{Name: out.Name, Measured: err.Error()}
		// Hung transactions that commit later cannot lower the share of aborts below least.
		case m.reaches(limit) && (m.least == nil || m.least.Cmp(big.NewRat(limit, 1)) >= 0):
		case m.reaches(limit) && m.least != nil:
			out.Undecided = m.doubt
		case m.value.IsBound() && out.Undecided == "":
			out.Undecided = "only a lower bound of the percentile is known, and it is below the least value asked " +
				"for; " + m.cause
		default:
			out.Holds = false
		}
	}
	if !out.Holds && m.value.IsBound() {
		out.Undecided = "" // a lower bound beyond the limit needs no more samples: the objective is missed
	}
	out.Holds = out.Holds && out.Undecided == ""
	return out
}

// Objectives evaluates objectives over a merged report.
func Objectives(r *Report, load *v1alpha1.Load, regions []string, objectives []v1alpha1.Objective) ([]Objective, error) {
	a, err := aggregate(r, load, regions, objectives)
	if err != nil {
		return nil, err
	}
	return evaluate(objectives, new(Document).measures(objectives, a.objectives, r)), nil
}

// measure returns the value of the metric over all windows.
func measure(m v1alpha1.Metric, f *figures, r *Report) measured {
	out := measured{ok: f.Ended() > 0}
	switch m {
	case v1alpha1.MetricThroughput:
		if measured := r.DurationMicroseconds * int64(r.Repetitions); measured > 0 {
			return measuredRate(f.Committed+f.carriedIn, measured)
		}
		// Without transactions the throughput is 0, not unknown.
		out.ok = true
	case v1alpha1.MetricAbortPPM:
		if out.ok {
			return measuredAborts(f.Aborted, f.Ended(), f.latency.hung())
		}
	case v1alpha1.MetricUnknownPPM:
		u := f.Unanswered
		u.Hung = f.latency.hung()
		out.value, out.ok = v1alpha1.Observed(unansweredPPM(&f.Counts, &u)), f.Ended()+u.Unfinished+u.Unsent() > 0
	default:
		// Unanswered transactions count as samples, so a percentile exists even if nothing committed.
		out.value, out.ok = f.latency.quantiles(percentiles[m])[0], f.latency.samples() > 0
		out.samples, out.transactions, out.cause = f.latency.knownAt(out.value), f.latency.samples(), f.boundCause()
	}
	return out
}

// boundValue returns a bound in the unit of the metric.
func boundValue(m v1alpha1.Metric, b v1alpha1.Bound) (int64, error) {
	if !m.IsLatency() {
		if b.Type != intstr.Int {
			return 0, fmt.Errorf("the bound %q is not an integer", b.StrVal)
		}
		return int64(b.IntVal), nil
	}
	d, err := time.ParseDuration(b.StrVal)
	if b.Type != intstr.String || err != nil {
		return 0, fmt.Errorf("the bound %q is not a duration such as 250ms", b.String())
	}
	return d.Microseconds(), nil
}

// ObjectiveName formats an objective, such as latencyP99(balance, us-west-2) <= 250ms.
func ObjectiveName(o v1alpha1.Objective) string {
	name := string(o.Metric)
	switch {
	case o.Transaction != "" && o.Region != "":
		name += "(" + o.Transaction + ", " + o.Region + ")"
	case o.Transaction != "" || o.Region != "":
		name += "(" + o.Transaction + o.Region + ")"
	}
	switch {
	case o.Min != nil && o.Max != nil:
		return fmt.Sprintf("%s <= %s <= %s", o.Min.String(), name, o.Max.String())
	case o.Min != nil:
		return fmt.Sprintf("%s >= %s", name, o.Min.String())
	case o.Max != nil:
		return fmt.Sprintf("%s <= %s", name, o.Max.String())
	}
	return name
}

func formatMetric(m v1alpha1.Metric, v v1alpha1.Quantile) string {
	switch {
	case m.IsLatency():
		return FormatQuantile(v)
	case m == v1alpha1.MetricThroughput:
		return fmt.Sprintf("%d/s", v.Least())
	}
	return fmt.Sprintf("%d ppm", v.Least())
}

// formatMicroseconds formats a duration, such as 412us, 231.4ms or 12.50s.
func formatMicroseconds(us int64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%dus", us)
	case us < 10_000_000:
		return fmt.Sprintf("%.1fms", float64(us)/1e3)
	}
	return fmt.Sprintf("%.2fs", float64(us)/1e6)
}

// formatPPM formats parts per million as a percentage, such as 25.1%.
func formatPPM(ppm int64) string { return fmt.Sprintf("%.4g%%", float64(ppm)/1e4) }
