package result

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
)

// unansweredLimitPPM is the default share of a region's transactions that may go unanswered in a run that passes, in
// parts per million. An objective on unknownPPM can set another limit.
const unansweredLimitPPM = 10_000

// permittedPPM returns the share of a region's transactions that may go unanswered, in parts per million. It is the
// limit of an objective on the region's unknownPPM, else of an objective on all regions, else the default. The limit
// for all regions together applies to each region as well. Otherwise a single region without answers could go
// unnoticed, because the overall share might stay within the limit.
func permittedPPM(objectives []v1alpha1.Objective, region string) int64 {
	permitted, own := int64(unansweredLimitPPM), false
	for _, o := range objectives {
		if o.Metric != v1alpha1.MetricUnknownPPM || o.Max == nil || o.Transaction != "" || o.Region != region && (own || o.Region != "") {
			continue
		}
		if limit, err := boundValue(o.Metric, *o.Max); err == nil {
			permitted, own = limit, o.Region == region
		}
	}
	return permitted
}

// unsentShare returns the share of the region's transactions that were never sent, in parts per million.
func (x *Region) unsentShare() int64 {
	if n := x.all(&x.Counts); n > 0 {
		return ratio(n, 1, x.Unsent(), 1e6)
	}
	return 0
}

// clientsBusy returns a reason for each region with too many arrivals that found no free client. The figures of such a
// region would measure the clients, not the database.
func clientsBusy(d *Document, _ *Inputs, r *Report) (out []Reason) {
	for i := range d.Regions {
		x := &d.Regions[i]
		if x.unsentShare() <= unansweredLimitPPM || x.stalls(r) { // the database stalled, so more clients would wait as well
			continue
		}
		message := fmt.Sprintf("%s, since all of its %d clients were busy", x.neverSent(), d.Spec.Load.ClientsPerRegion)
		due := x.Ended() + x.Unfinished + x.Unsent()
		measured := float64(r.DurationMicroseconds) * float64(r.Repetitions) / 1e6
		if s := x.ServiceTimeMicroseconds; s != nil && measured > 0 {
			// By Little's law, the number of transactions in flight is the arrival rate times the service time. An excess of
			// three standard deviations of a Poisson number is very rare.
			rate := float64(due) / measured
			busy := rate * float64(s.Mean.Least()) / 1e6
			message += fmt.Sprintf("; %.0f/s with a mean service time of %s take at least %d clients (spec.load.clientsPerRegion), if the database serves that rate",
				rate, FormatQuantile(s.Mean), int64(math.Ceil(busy+3*math.Sqrt(busy))))
		}
		out = append(out, Reason{ReasonDriverBound, message})
	}
	return out
}

// neverSent returns the start of the message of a DriverBound reason that is due to busy clients.
func (x *Region) neverSent() string {
	return fmt.Sprintf("driver-bound: %d of the %d arrivals in %s were never sent", x.Unsent(), x.Ended()+x.Unfinished+x.Unsent(), x.Name)
}

// loadReasons are the reasons of an Invalid run that describe how the database served the load. With any other reason,
// the measurement itself is in doubt. The value is true for reasons that show an overload. The remaining reasons are
// consequences of an overload, but also occur without an overload.
var loadReasons = map[string]bool{
	ReasonDriverBound: true, ReasonNoTransactions: true, ReasonNotQuiet: true,
	ReasonObjectiveMissed: false, ReasonObjectiveUndecided: false, ReasonTooFewSamples: false, ReasonUnanswered: false,
}

// Overloaded reports whether a run is Invalid only because its database did not serve the load. Busy clients show an
// overload even if another region stalled, because an overloaded database causes both.
func (d *Document) Overloaded() bool {
	overloaded := false
	for _, r := range d.Reasons {
		shows, known := loadReasons[r.Reason]
		if !known || r.Reason == ReasonDriverBound && !d.clientsWereBusy(r) {
			return false
		}
		overloaded = overloaded || shows
	}
	return overloaded
}

// clientsWereBusy reports whether a reason DriverBound is due to busy clients, rather than to slow load generators.
func (d *Document) clientsWereBusy(r Reason) bool {
	return slices.ContainsFunc(d.Regions, func(x Region) bool { return strings.HasPrefix(r.Message, x.neverSent()) })
}

// unanswered returns a reason for each region with too many unanswered transactions, because a database that stops
// answering is not fast.
func unanswered(d *Document, in *Inputs, r *Report) (out []Reason) {
	for i := range d.Regions {
		x := &d.Regions[i]
		permitted := permittedPPM(in.Objectives, x.Name)
		stall, dark := x.stalled(r)
		quiet := x.silence(d, r)
		if x.unsentShare() > unansweredLimitPPM && stall == "" {
			continue // DriverBound covers this region
		}
		switch {
		// A single unserved transaction among a few dozen is no evidence of a share above 1%.
		case x.unserved() > 1 && x.unservedPPM() > permitted:
			out = append(out, Reason{ReasonUnanswered, fmt.Sprintf("%s; more than %s need an objective on unknownPPM that allows them",
				x.withoutAnswer(), percentPPM(permitted))})
		case dark > permitted:
			out = append(out, Reason{ReasonUnanswered, fmt.Sprintf("%s; an objective on unknownPPM can allow that: it was %s of the time",
				stall, percentPPM(dark))})
		// A closed loop sends nothing while its clients wait, so a long silence leaves only a few unanswered transactions.
		case quiet.share > max(permitted, silenceLimitPPM) && !quiet.declared:
			out = append(out, Reason{ReasonUnanswered, quiet.String() + "; an objective on unknownPPM can allow that"})
		// An objective that permits all transactions to go unanswered also permits a growing backlog.
		case x.Growing && permitted < 1_000_000:
			out = append(out, Reason{ReasonUnanswered, x.backlog() + "; percentiles are lower bounds"})
		}
	}
	return out
}

// percentPPM formats parts per million as a percentage with three significant digits.
func percentPPM(ppm int64) string { return fmt.Sprintf("%.3g%%", float64(ppm)/1e4) }

// unservedPPM returns the share of the region's transactions that were unanswered or refused, in parts per million.
func (x *Region) unservedPPM() int64 {
	due := x.all(&x.Counts)
	if due == 0 {
		return 0
	}
	return ratio(due, 1, x.unserved(), 1e6)
}

// unserved returns the number of the region's transactions that were unanswered or refused.
func (x *Region) unserved() int64 { return x.Unknown + x.Refused + x.Hung + x.Unsent() }

// withoutAnswer describes the number of the region's unserved transactions, by outcome.
func (x *Region) withoutAnswer() string {
	over := ""
	if x.CarriedOver > 0 {
		over = fmt.Sprintf(" (%d had been sent before it opened)", x.CarriedOver)
	}
	return fmt.Sprintf("%s: %d of %d transactions had no answer or were refused: %d unknown (%d of them timed out), %d refused, %d hung when the window closed%s, %d never sent",
		x.Name, x.unserved(), x.all(&x.Counts), x.Unknown, x.Timeouts, x.Refused, x.Hung, over, x.Unsent())
}

// noteStalled adds notes about regions that stalled within the limits of their objectives, were silent, or had a
// growing backlog.
func (d *Document) noteStalled(in *Inputs, r *Report) {
	for i := range d.Regions {
		x := &d.Regions[i]
		if stall, dark := x.stalled(r); stall != "" && dark <= permittedPPM(in.Objectives, x.Name) {
			d.Notes = append(d.Notes, stall)
		}
		if s := x.silence(d, r); s.share > unansweredLimitPPM {
			d.Notes = append(d.Notes, s.String())
		}
		if x.Growing {
			d.Notes = append(d.Notes, x.backlog())
		}
	}
}

// silenceLimitPPM is the longest silence of a region that is allowed by default, as a share of the measured time in
// parts per million.
const silenceLimitPPM = 100_000

// silence is a period without any answer to a region's clients.
type silence struct {
	region     string
	repetition int
	from, us   int64 // start in its window and length, both in microseconds
	share      int64 // of the measured time, in parts per million
	expected   int64 // transactions that would have ended in this time at the region's rate
	declared   bool  // whether a fault of the manifest was active in this time
}

func (s silence) String() string {
	return fmt.Sprintf("%s: no transaction ended for %s from %s of window %d on, where about %d would have at the region's rate",
		s.region, formatMicroseconds(s.us), formatMicroseconds(s.from), s.repetition, s.expected)
}

// silence returns the longest significant silence of the region that no fault explains, or else the longest significant
// silence. A significant silence exceeds a second and three times the region's 99th percentile. In addition, at least
// stallExpected transactions would have ended in it. The share of the result is 0 if there is no significant silence.
// In a closed loop no percentile shows a silence, because a silence affects only one transaction of each client.
func (x *Region) silence(d *Document, r *Report) (out silence) {
	measured := r.DurationMicroseconds * int64(r.Repetitions)
	p99, _ := x.LatencyMicroseconds.P99.Value()
	for i := range r.Windows {
		w := &r.Windows[i]
		if w.Region != x.Name {
			continue
		}
		for _, q := range w.Silences {
			us := q.Microseconds
			// The rate covers the time in which the region did answer.
			expected := ratio(max(1, measured-us), 1, x.Committed+x.CarriedIn+x.Aborted, us)
			if us <= hungFloor || us < hungFactor*p99 || expected < stallExpected {
				continue
			}
			s := silence{region: x.Name, repetition: w.Repetition, from: q.AtMicroseconds, us: us, share: ratio(max(1, measured), 1, us, 1e6),
				expected: expected, declared: d.faultActive(w.Repetition, q)}
			// A silence that a fault explains must not hide a silence that no fault explains.
			if out.us == 0 || out.declared && !s.declared || out.declared == s.declared && s.us > out.us {
				out = s
			}
		}
	}
	return out
}

// faultActive reports whether a fault of the manifest was active during a silence. Faults act in the first repetition.
func (d *Document) faultActive(repetition int, s Silence) bool {
	return repetition == 1 && slices.ContainsFunc(d.Faults, func(f Fault) bool {
		return f.FromMicroseconds != nil && *f.FromMicroseconds <= s.end() && (f.ToMicroseconds == nil || *f.ToMicroseconds >= s.AtMicroseconds)
	})
}

func (x *Region) stalls(r *Report) bool {
	stall, _ := x.stalled(r)
	return stall != ""
}

// stallExpected is the minimum number of transactions that would have ended during a significant silence at the
// region's rate. The probability that none of 20 independent transactions ends is below 1e-8.
const stallExpected = 20

// stalled describes a window at whose end all clients of the region had waited for much longer than their transactions
// take. The description is empty if there is no such window. The result ppm is the share of the measured time that the
// stall took.
func (x *Region) stalled(r *Report) (description string, ppm int64) {
	measured := r.DurationMicroseconds * int64(r.Repetitions)
	for i := range r.Windows {
		w := &r.Windows[i]
		// If even a single client is free, the region is not stalled.
		if w.Region != x.Name || w.BusyClients < max(w.Clients, 1) || w.SilentMicroseconds < hungFloor {
			continue
		}
		answering := measured - w.SilentMicroseconds
		p99, _ := x.LatencyMicroseconds.P99.Value()
		// If nothing ever ended, there are no latencies to compare with, and any wait counts.
		if x.Ended() > 0 && (w.SilentMicroseconds < hungFactor*p99 || ratio(max(1, answering), 1, x.Ended(), w.SilentMicroseconds) < stallExpected) {
			continue
		}
		return fmt.Sprintf("all %d clients in %s had been waiting for an answer for %s when window %d closed",
			w.BusyClients, x.Name, formatMicroseconds(w.SilentMicroseconds), w.Repetition), ratio(max(1, measured), 1, w.SilentMicroseconds, 1e6)
	}
	return "", 0
}

const (
	// steadyFactor is the allowed ratio of the transactions in flight at the end of a window to the number that Little's
	// law predicts. The ratio approaches 2 if arrivals outrun a database that serves them in order.
	steadyFactor = 1.3
	// steadySigmas is an additional margin, in standard deviations of a Poisson count, for the number in flight and for
	// the growth of a backlog.
	steadySigmas = 3
	// steadyGrowth is the minimum growth of a backlog, as a share of the due transactions. Near saturation, bursts are
	// larger than Poisson counts.
	steadyGrowth = 0.03
)

// grows reports whether the region's backlog grew while the windows were open. measured is the measured time and warmup
// the time before it, both in microseconds.
//
// The number of transactions in flight must have grown significantly, and by more than 3% of the due transactions. In
// addition, one of two conditions must hold. Either the warm-up was long enough for a steady state, or more
// transactions are in flight than Little's law predicts from the mean commit latency. With a growing backlog, the
// product-limit estimate is invalid: later transactions take longer and are censored earlier.
func (f *figures) grows(measured, warmup int64) bool {
	unfinished := float64(f.Unfinished)
	if measured <= 0 || !f.moreInFlight() {
		return false
	}
	mean := float64(f.latency.sum) / float64(f.Committed)
	expected := float64(f.Due) / float64(measured) * mean
	return unfinished > steadyFactor*expected+steadySigmas*math.Sqrt(expected) || float64(warmup) >= 3*mean
}

// moreInFlight reports whether more transactions were in flight when the windows closed than when they opened. The
// difference must exceed 3% of the due transactions and three standard deviations.
func (f *figures) moreInFlight() bool {
	if f.Due == 0 || f.Committed == 0 {
		return false
	}
	// carriedIn counts only commits, so it is scaled up to all outcomes by the ratio of ended to committed transactions.
	unfinished, before := float64(f.Unfinished), float64(f.carriedIn)*float64(f.Ended())/float64(f.Committed)
	return unfinished-before > max(steadyGrowth*float64(f.Due), steadySigmas*math.Sqrt(unfinished+before))
}

// growsUnderCurve is the variant of grows for a load with a curve. The transactions in flight must outnumber the
// transactions that became due in the last 1.3 mean latencies. In addition, unless the load is falling, fewer
// transactions must have ended in the last fifth of the windows than became due. If only the latency rises with the
// load, the numbers of ended and due transactions are equal.
func (f *figures) growsUnderCurve(r *Report, region string) bool {
	if !f.moreInFlight() {
		return false
	}
	window := r.DurationMicroseconds
	tail := func(us int64) (due, ended float64) { // in the last us microseconds of each window
		length := int64(max(1, r.Resolution.Seconds)) * second
		for i := range r.Timeline {
			s := &r.Timeline[i]
			from, to := int64(s.Second)*second, min(window, int64(s.Second)*second+length)
			if s.Region != region || to <= max(from, window-us) {
				continue
			}
			// A tick that lies partly before the tail counts in proportion.
			part := float64(to-max(from, window-us)) / float64(to-from)
			due += part * float64(s.Offered)
			ended += part * float64(s.Committed+s.Aborted+s.Failed)
		}
		return due, ended
	}
	mean := float64(f.latency.sum) / float64(f.Committed)
	young, _ := tail(int64(steadyFactor * mean))
	if float64(f.Unfinished) <= young+steadySigmas*math.Sqrt(young) {
		return false
	}
	last := max(window/5, min(window, second))
	due, ended := tail(last)
	falling := due*float64(window) < 0.8*float64(f.Due)*float64(last)
	// While the load falls, a database that keeps up ends more transactions than become due, so the second condition
	// cannot hold.
	return falling || due-ended > max(steadyGrowth*due, 2*math.Sqrt(due+ended))
}

// backlog describes the region's growing backlog.
func (x *Region) backlog() string {
	return fmt.Sprintf("%s: the database did not serve the transactions as fast as they arrived: %d of the %d that were due were in flight when the windows closed, and %d that were due earlier committed in them",
		x.Name, x.Unfinished, x.Ended()+x.Unfinished+x.Unsent(), x.CarriedIn)
}
