package result

import (
	"fmt"
	"math"
	"slices"

	"github.com/geobench/geobench/api/v1alpha1"
)

// unansweredLimitPPM is the share of a region's transactions that may go unanswered in a run that passes without an
// objective that says otherwise.
const unansweredLimitPPM = 10_000

// boundsUnanswered reports whether an objective of the manifest says which share of a region's transactions may be
// unanswered.
func boundsUnanswered(objectives []v1alpha1.Objective, region string) bool {
	return slices.ContainsFunc(objectives, func(o v1alpha1.Objective) bool {
		return o.Metric == v1alpha1.MetricUnknownPPM && o.Max != nil && o.Transaction == "" && (o.Region == "" || o.Region == region)
	})
}

// unsentShare returns the share of the region's transactions that were never sent, in parts per million.
func (x *Region) unsentShare() int64 {
	if n := x.Ended() + x.Unfinished + x.Unsent(); n > 0 {
		return ratio(n, 1, x.Unsent(), 1e6)
	}
	return 0
}

// clientsBusy: arrivals that no client was free to send measure the clients, not the database.
func clientsBusy(d *Document, _ *Inputs, r *Report) (out []Reason) {
	for i := range d.Regions {
		x := &d.Regions[i]
		if x.unsentShare() <= unansweredLimitPPM || x.stalled(r) != "" { // more clients would wait as well
			continue
		}
		due := x.Ended() + x.Unfinished + x.Unsent()
		message := fmt.Sprintf("driver-bound: %d of the %d arrivals in %s were never sent, since all of its %d clients were busy",
			x.Unsent(), due, x.Name, d.Spec.Load.ClientsPerRegion)
		measured := float64(r.DurationMicroseconds) * float64(r.Repetitions) / 1e6
		if s := x.ServiceTimeMicroseconds; s != nil && measured > 0 {
			// Little's law: as many transactions are under way as arrive while one of them is served. Three standard deviations of
			// a Poisson number more are hardly ever exceeded.
			rate := float64(due) / measured
			busy := rate * float64(s.Mean.Least()) / 1e6
			message += fmt.Sprintf("; %.0f/s with a mean service time of %s take at least %d clients (spec.load.clientsPerRegion), if the database serves that rate",
				rate, FormatQuantile(s.Mean), int64(math.Ceil(busy+3*math.Sqrt(busy))))
		}
		out = append(out, Reason{ReasonDriverBound, message})
	}
	return out
}

// ClientsBusy reports whether the run is Invalid for no other reason than that all clients of a region were busy.
func (d *Document) ClientsBusy() bool {
	busy := 0
	for i := range d.Regions {
		if d.Regions[i].unsentShare() > unansweredLimitPPM {
			busy++
		}
	}
	other := slices.ContainsFunc(d.Reasons, func(r Reason) bool {
		return r.Reason != ReasonDriverBound && r.Reason != ReasonObjectiveMissed && r.Reason != ReasonObjectiveUndecided && r.Reason != ReasonUnanswered
	})
	driverBound := 0
	for _, r := range d.Reasons {
		if r.Reason == ReasonDriverBound {
			driverBound++
		}
	}
	return busy > 0 && driverBound == busy && !other
}

// unanswered: a database that stops answering is no faster for it.
func unanswered(d *Document, in *Inputs, r *Report) (out []Reason) {
	for i := range d.Regions {
		x := &d.Regions[i]
		stall := x.stalled(r)
		if boundsUnanswered(in.Objectives, x.Name) || x.unsentShare() > unansweredLimitPPM && stall == "" {
			continue
		}
		if unansweredPPM(&x.Counts, &x.Unanswered) > unansweredLimitPPM {
			out = append(out, Reason{ReasonUnanswered, x.withoutAnswer() + "; more than 1% need an objective on unknownPPM that allows them"})
			continue
		}
		if stall != "" {
			out = append(out, Reason{ReasonUnanswered, stall + "; an objective on unknownPPM can allow that"})
		}
	}
	return out
}

// withoutAnswer says how many of the region's transactions had no answer, and what became of them.
func (x *Region) withoutAnswer() string {
	return fmt.Sprintf("%s: %d of the %d transactions that were due had no answer: %d unknown (%d of them timed out), %d hung when the window closed, %d never sent",
		x.Name, x.Unknown+x.Hung+x.Unsent(), x.Ended()+x.Unfinished+x.Unsent(), x.Unknown, x.Timeouts, x.Hung, x.Unsent())
}

// noteStalled notes the regions that stalled and whose objectives allow it.
func (d *Document) noteStalled(in *Inputs, r *Report) {
	for i := range d.Regions {
		if x := &d.Regions[i]; boundsUnanswered(in.Objectives, x.Name) {
			if stall := x.stalled(r); stall != "" {
				d.Notes = append(d.Notes, stall)
			}
		}
	}
}

// stallExpected is the number of transactions that would have ended during the silence at the region's rate. The probability
// that none of 20 independent transactions ends is below 1e-8.
const stallExpected = 20

// stalled describes a window at whose end all clients of the region had waited for much longer than their transactions take;
// empty if there is none.
func (x *Region) stalled(r *Report) string {
	for i := range r.Windows {
		w := &r.Windows[i]
		if w.Region != x.Name || w.Clients == 0 || w.BusyClients < w.Clients || w.SilentMicroseconds < hungFloor {
			continue
		}
		answering := r.DurationMicroseconds*int64(r.Repetitions) - w.SilentMicroseconds
		p99, _ := x.LatencyMicroseconds.P99.Value()
		if x.Ended() > 0 && (w.SilentMicroseconds < hungFactor*p99 || ratio(max(1, answering), 1, x.Ended(), w.SilentMicroseconds) < stallExpected) {
			continue
		}
		return fmt.Sprintf("all %d clients in %s had been waiting for an answer for %s when window %d closed",
			w.Clients, x.Name, formatMicroseconds(w.SilentMicroseconds), w.Repetition)
	}
	return ""
}
