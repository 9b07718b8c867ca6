package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
)

// SharePath and ShareName are the path and the name of the parameter that a search adds after the swept parameters. The
// parameter is the rate of a point in percent of the peak that the search finds.
const (
	SharePath = "search.peakPercents"
	ShareName = "peakPercent"
)

// Search determines the highest rate at which a database meets its objectives, for one combination of the swept values.
// The next probe depends only on the outcomes of earlier probes, so any process that knows these outcomes continues
// with the same probes.
type Search struct {
	System string
	// Values are the values of the swept parameters, without the share of the peak.
	Values []v1alpha1.SweepValue
	// Label is the system followed by name=value pairs, for display.
	Label string
	// Probes are the finished probes, in order. Next is the next probe; nil once the search has ended.
	Probes []Probe
	Next   *Run
	// Reason and Message describe the outcome of the search, or state that it is still running.
	Reason  v1alpha1.SearchReason
	Message string
	// PeakRatePerSecond is the highest rate in each region that was found to meet the objectives; 0 if there is none.
	PeakRatePerSecond int64

	prober *prober
}

// Probe is a run at one rate and its outcome.
type Probe struct {
	Run *Run
	Outcome
}

// Outcome is the conclusion about a rate from the run of a probe.
type Outcome struct {
	// Keeps is set if the rate meets the objectives. Unusable, if set, is the reason why the run does not show whether the
	// rate meets them.
	Keeps    bool
	Unusable string
	// FewSamples is set if the rate counts as missed only because there were too few transactions for a percentile in the
	// objectives.
	FewSamples bool
	// ThroughputPerSecond is the throughput of all regions together. Missed describes the objective that the rate missed.
	ThroughputPerSecond int64
	Missed              string
	// CommittedPPM is the throughput in parts per million of the offered rate, over all regions; 0 if unknown.
	CommittedPPM int64
	// LeastServed is the value of Ended.LeastServed.
	LeastServed *v1alpha1.ServedRegion
}

// Says returns "keeps" if the rate meets the objectives, "misses" if it does not, and "nothing" if the run is unusable.
func (o *Outcome) Says() string {
	switch {
	case o.Unusable != "":
		return "nothing"
	case o.Keeps:
		return "keeps"
	}
	return "misses"
}

// Ended is a summary of a finished run, from its result document or its status.
type Ended struct {
	Verdict v1alpha1.Verdict
	// Reason is the most important reason of the verdict, and Message its message.
	Reason, Message string
	// Wrong is set if a check of the answers failed. Overloaded is set if the run is Invalid only because the database
	// could not serve the load.
	Wrong, Overloaded                     bool
	ThroughputPerSecond, OfferedPerSecond int64
	// LeastServed is the region with the lowest share of committed transactions; nil if unknown.
	LeastServed *v1alpha1.ServedRegion
}

// endedBy summarizes a result document.
func endedBy(d *result.Document) Ended {
	e := Ended{Verdict: d.Verdict, Overloaded: d.Overloaded(), ThroughputPerSecond: d.Summary.ThroughputPerSecond,
		OfferedPerSecond: d.Summary.OfferedPerSecond,
		LeastServed:      d.LeastServed()}
	if len(d.Reasons) > 0 {
		e.Reason, e.Message = d.Reasons[0].Reason, d.Reasons[0].Message
	}
	// A failed check makes the run unusable, even if it is not the main reason of the verdict.
	e.Wrong = slices.ContainsFunc(d.Reasons, func(r result.Reason) bool { return r.Reason == result.ReasonCheckFailed })
	return e
}

// outcome draws the conclusion about a rate from a finished run. A rate that overloads the database counts as missed. A
// run that is Invalid for another reason, or has wrong answers, is unusable.
func (p *prober) outcome(e Ended) Outcome {
	o := Outcome{ThroughputPerSecond: e.ThroughputPerSecond, LeastServed: e.LeastServed}
	if e.OfferedPerSecond > 0 {
		o.CommittedPPM = e.ThroughputPerSecond * 1_000_000 / e.OfferedPerSecond
	}
	switch {
	case e.Overloaded && !e.Wrong:
		o.Missed = e.Message
	case e.Verdict == v1alpha1.VerdictInvalid && (e.Reason == result.ReasonObjectiveUndecided || e.Reason == result.ReasonTooFewSamples) && !e.Wrong:
		// These two reasons have the lowest priority, so the run is not Invalid for any other reason. An undecided objective
		// counts as missed.
		o.Missed, o.FewSamples = e.Message, e.Reason == result.ReasonTooFewSamples
	case e.Wrong || e.Verdict == v1alpha1.VerdictInvalid || e.Verdict == "":
		o.Unusable = fmt.Sprintf("%s: %s: %s", e.Verdict, e.Reason, e.Message)
	case e.Verdict != v1alpha1.VerdictPassed:
		o.Missed = e.Message
	// Compare products, because an integer division would round.
	case 100*e.ThroughputPerSecond < int64(p.spec.CommittedPercent)*e.OfferedPerSecond:
		o.Missed = fmt.Sprintf("of %d/s that are offered %d/s are committed, less than %d%%", e.OfferedPerSecond, e.ThroughputPerSecond, p.spec.CommittedPercent)
	// Allow for random variation: the rate counts as missed only if even the upper bound of the region's share is too
	// small.
	case e.LeastServed != nil && e.LeastServed.MostPPM() < int64(p.spec.CommittedPercent)*10_000:
		o.Missed = fmt.Sprintf("of what is due in %s %s is committed, less than %d%%, even with %s more for chance; "+
			"of all regions together it is %s", e.LeastServed.Name,
			percentOf(e.LeastServed.CommittedPPM), p.spec.CommittedPercent, percentOf(e.LeastServed.ChancePPM), percentOf(o.CommittedPPM))
	default:
		o.Keeps = true
	}
	return o
}

// prober creates the runs of a search. It creates each run only once.
type prober struct {
	// label is the label of the search.
	label string
	spec  *v1alpha1.RateSearch
	seed  int64
	// rates are the candidates for the peak, in increasing order.
	rates []int64
	// create creates the run at a rate with a seed. The run is valid, because the runs at the minimum and the maximum rate
	// were validated.
	create func(rate, seed int64) (*Run, error)

	mu   sync.Mutex
	made map[[2]int64]*Run
}

func (p *prober) run(rate, seed int64) (*Run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := [2]int64{rate, seed}
	if r, ok := p.made[key]; ok {
		return r, nil
	}
	r, err := p.create(rate, seed)
	if err != nil {
		return nil, err
	}
	r.Label += fmt.Sprintf(" ratePerSecond=%d", rate)
	if seed != p.seed {
		r.Label += fmt.Sprintf(" seed=%d", seed)
	}
	p.made[key] = r
	return r, nil
}

// ratesFrom returns the candidate rates that start with least. Searches with the same minimum rate share the slice.
func (x *expansion) ratesFrom(least int64) []int64 {
	search := x.object.Spec.Search
	if rates, ok := x.rates.Load(least); ok {
		return rates.([]int64)
	}
	rates, _ := x.rates.LoadOrStore(least, ratesBetween(least, search.MaxRatePerSecond, search.TolerancePercent))
	return rates.([]int64)
}

// ratesBetween returns increasing rates from least to greatest. Each rate exceeds the previous one by at most percent,
// or by 1 if that is more.
func ratesBetween(least, greatest int64, percent int32) []int64 {
	rates := []int64{least}
	for rate := least; ; {
		// For small rates the increase in percent is rounded down to 0, so increase them by 1.
		if rate = max(rate+1, rate+rate*int64(percent)/100); rate >= greatest {
			return append(rates, greatest)
		}
		rates = append(rates, rate)
	}
}

// votes counts the outcomes of the probes of one rate.
type votes struct{ keep, miss int }

// bisection is the state of a search after some probes. The field low is the index of the highest rate that met the
// objectives in a majority of its probes, or -1. The field high is the index of the lowest rate that missed them in a
// majority of its probes, or the number of rates. The search assumes that all rates below low meet the objectives and
// that all rates above high miss them.
type bisection struct {
	of        []votes
	low, high int
	tied      int // index of a rate whose probes are tied, or -1
}

func newBisection(rates int) *bisection {
	return &bisection{of: make([]votes, rates), low: -1, high: rates, tied: -1}
}

// add adds the outcome of a probe.
func (b *bisection) add(rate int, keeps bool) {
	if keeps {
		b.of[rate].keep++
	} else {
		b.of[rate].miss++
	}
	// A vote may resolve a tie or move either bound, so compute all three from scratch.
	b.low, b.high, b.tied = -1, len(b.of), -1
	for i, v := range b.of {
		switch {
		case v.keep > v.miss:
			b.low = i
		case v.miss > v.keep:
			b.high = min(b.high, i)
		case v.keep > 0:
			b.tied = i
		}
	}
}

// next returns the index of the next rate to probe, or -1 if the search is over. It prefers a tied rate, then the
// middle of the rates between low and high. Finally, next repeats low and high until more than half of bestOf probes
// agree on each.
func (b *bisection) next(bestOf int) int {
	switch {
	case b.tied >= 0:
		return b.tied
	case b.high-b.low > 1:
		return b.low + (b.high-b.low)/2
	// More than bestOf/2 equal votes cannot be outvoted by the remaining probes.
	case b.low >= 0 && b.of[b.low].keep <= bestOf/2:
		return b.low
	case b.high < len(b.of) && b.of[b.high].miss <= bestOf/2:
		return b.high
	}
	return -1
}

// advance computes the state of the search from the outcomes of its probes. The first probe whose outcome is unknown
// becomes Next.
func (s *Search) advance(ended func(*Run) (Ended, bool, error)) *Search {
	p := s.prober
	out := &Search{System: s.System, Values: s.Values, Label: s.Label, Reason: v1alpha1.SearchGoesOn, prober: p}
	b := newBisection(len(p.rates))
	for {
		i := b.next(int(p.spec.BestOf))
		out.PeakRatePerSecond = 0
		if b.low >= 0 {
			out.PeakRatePerSecond = p.rates[b.low]
		}
		least, greatest := p.rates[0], p.rates[len(p.rates)-1]
		switch {
		case i < 0 && b.low < 0 && out.fewSamples() != "":
			return out.end(v1alpha1.SearchNoneKeeps, "no rate is kept, and low rates have too few transactions (%s): make spec.run.spec.load.duration longer", out.fewSamples())
		case i < 0 && b.low < 0:
			return out.end(v1alpha1.SearchNoneKeeps, "the least rate, %d/s in each region, is missed: make ratePerSecond of the run smaller", least)
		case i < 0 && b.high == len(p.rates):
			return out.end(v1alpha1.SearchAllKeep, "the highest rate, %d/s in each region, is kept: the peak may be higher, make maxRatePerSecond larger", greatest)
		case i < 0:
			return out.end(v1alpha1.SearchFound, "%d/s in each region is kept, %d/s is missed", p.rates[b.low], p.rates[b.high])
		case len(out.Probes) == int(p.spec.MaxProbes) && b.low < 0:
			return out.end(v1alpha1.SearchProbesExhausted, "%d probes found no rate that is kept: make maxProbes larger", len(out.Probes))
		case len(out.Probes) == int(p.spec.MaxProbes):
			return out.end(v1alpha1.SearchProbesExhausted, "%d/s in each region is kept, and what lies above is not known after %d probes: make maxProbes larger",
				p.rates[b.low], len(out.Probes))
		}
		// Each further probe of a rate has a new seed. The seed depends only on the number of votes, so every process creates
		// the same run.
		run, err := p.run(p.rates[i], p.seed+int64(b.of[i].keep+b.of[i].miss))
		if err != nil {
			return out.end(v1alpha1.SearchProbeUnusable, "a probe cannot be made: %v", err)
		}
		e, known, err := ended(run)
		if err == nil && !known {
			out.Next = run
			return out
		}
		if err != nil {
			out.Probes = append(out.Probes, Probe{run, Outcome{Unusable: err.Error()}})
			return out.end(v1alpha1.SearchProbeUnusable, "%v", err)
		}
		probe := Probe{run, p.outcome(e)}
		out.Probes = append(out.Probes, probe)
		if probe.Unusable != "" {
			return out.end(v1alpha1.SearchProbeUnusable, "%s: %s", run.Label, probe.Unusable)
		}
		b.add(i, probe.Keeps)
	}
}

// fewSamples returns the reason given by the last probe that had too few transactions for an objective, or "".
func (s *Search) fewSamples() string {
	for i := len(s.Probes) - 1; i >= 0; i-- {
		if p := &s.Probes[i]; p.FewSamples {
			return fmt.Sprintf("%d/s in each region: %s", p.Run.Run.Spec.Load.RatePerSecond, p.Missed)
		}
	}
	return ""
}

// end sets the outcome of the search.
func (s *Search) end(reason v1alpha1.SearchReason, format string, args ...any) *Search {
	s.Reason, s.Message = reason, fmt.Sprintf(format, args...)
	if reason == v1alpha1.SearchProbeUnusable {
		s.PeakRatePerSecond = 0 // the cause may affect other probes as well
	}
	return s
}

// Said lists, for each probe, the rate in each region, the verdict, and the share of transactions that committed.
func (s *Search) Said() string {
	var parts []string
	for _, p := range s.Probes {
		part := fmt.Sprintf("%d %s", p.Run.Run.Spec.Load.RatePerSecond, p.Says())
		if w := p.LeastServed; w != nil {
			part += fmt.Sprintf(" (%s committed, %s in %s)", percentOf(p.CommittedPPM), percentOf(w.CommittedPPM),
				w.Name)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// percentOf formats parts per million as a percentage.
func percentOf(ppm int64) string { return FormatNumber(float64(ppm)/1e4) + "%" }

// share returns the given percentage of the peak rate, rounded to an integer, but at least 1.
func share(peak int64, percent int32) int64 {
	return max(1, int64(math.Round(float64(peak)*float64(percent)/100)))
}

// Advance returns the experiment after the given outcomes of runs. The returned experiment has the state of its
// searches, and the runs of all points whose rate is known. ended returns the outcome of a run and whether the run has
// finished. It returns an error if the run was not possible.
func (e *Experiment) Advance(ended func(*Run) (Ended, bool, error)) *Experiment {
	if len(e.Searches) == 0 {
		return e
	}
	out := *e
	out.Searches, out.Points = nil, nil
	at := map[*prober]*Search{}
	for _, s := range e.Searches {
		s = s.advance(ended)
		at[s.prober] = s
		out.Searches = append(out.Searches, s)
	}
	for _, p := range e.Points {
		out.Points = append(out.Points, p.advance(at[p.peak], int(e.object.Spec.Repetitions)))
	}
	return &out
}

// advance returns the point with its runs if the search has found the peak, and otherwise with the reason why there are
// no runs.
func (p *Point) advance(s *Search, repetitions int) *Point {
	out := *p
	out.Runs = nil
	switch {
	case s.Next != nil:
		out.missing = fmt.Sprintf("%s: the search for its rate has not ended", p.Label)
	case s.PeakRatePerSecond == 0:
		out.missing = fmt.Sprintf("%s has no peak: %s: %s", p.Label, s.Reason, s.Message)
	default:
		for k := range repetitions {
			run, err := p.prober.run(share(s.PeakRatePerSecond, p.share), p.prober.seed+int64(k))
			if err != nil {
				out.Runs, out.missing = nil, fmt.Sprintf("%s: a run cannot be made: %v", p.Label, err)
				return &out
			}
			out.Runs = append(out.Runs, run)
		}
	}
	return &out
}

// With returns the experiment advanced by the outcomes in r; see Advance.
func (e *Experiment) With(r *Results) *Experiment {
	return e.Advance(func(run *Run) (Ended, bool, error) {
		o, ok := r.outcomes[run]
		if !ok || o.err != nil {
			return Ended{}, ok, o.err
		}
		return endedBy(o.document), true, nil
	})
}
