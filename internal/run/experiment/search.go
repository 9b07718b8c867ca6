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

// SharePath and ShareName belong to the parameter that a search adds as the last swept parameter: the rate of a point
// in percent of the peak that the search has found.
const (
	SharePath = "search.peakPercents"
	ShareName = "peakPercent"
)

// Search looks for the highest rate at which a database, at one combination of the swept values, meets its objectives.
// The next probe depends only on the outcomes of earlier probes, so any process that has these outcomes continues in
// the same way.
type Search struct {
	System string
	// Values of the parameters that are swept, without the share of the peak.
	Values []v1alpha1.SweepValue
	// Label is "system name=value ...", for people.
	Label string
	// Probes that have ended, in their order, and Next, which is nil once the search has.
	Probes []Probe
	Next   *Run
	// Reason and Message have the outcome of the search, or that it continues.
	Reason  v1alpha1.SearchReason
	Message string
	// PeakRatePerSecond is the highest rate in each region that was found to hold; 0 for none.
	PeakRatePerSecond int64

	prober *prober
}

// Probe is a run at one rate and its outcome.
type Probe struct {
	Run *Run
	Outcome
}

// Outcome is the result of a finished run for its rate.
type Outcome struct {
	// Keeps is true if the rate holds. Unusable, if set, is the reason why the rate is neither kept nor missed.
	Keeps    bool
	Unusable string
	// FewSamples is set if the rate is missed only because a percentile in the objectives had too few transactions.
	FewSamples bool
	// ThroughputPerSecond of all regions; Missed says what did not hold.
	ThroughputPerSecond int64
	Missed              string
	// CommittedPPM is the throughput in parts per million of the offered rate, of all regions together; 0 where that is
	// not known.
	CommittedPPM int64
	// LeastServed is Ended.LeastServed.
	LeastServed *v1alpha1.ServedRegion
}

// Says returns the probe's outcome for its rate as text.
func (o *Outcome) Says() string {
	switch {
	case o.Unusable != "":
		return "nothing"
	case o.Keeps:
		return "keeps"
	}
	return "misses"
}

// Ended is the outcome of a finished run, from its result document or its status.
type Ended struct {
	Verdict v1alpha1.Verdict
	// Reason and Message are the most important reason of the verdict and its message.
	Reason, Message string
	// Wrong is true if a check of the answers has failed. ClientsBusy is true if the run is Invalid only because all
	// clients of a region were busy.
	Wrong, ClientsBusy                    bool
	ThroughputPerSecond, OfferedPerSecond int64
	// LeastServed is the region that was served least; nil where that is not known.
	LeastServed *v1alpha1.ServedRegion
}

// endedBy returns the outcome in a result document.
func endedBy(d *result.Document) Ended {
	e := Ended{Verdict: d.Verdict, ClientsBusy: d.ClientsBusy(), ThroughputPerSecond: d.Summary.ThroughputPerSecond,
		OfferedPerSecond: d.Summary.OfferedPerSecond,
		LeastServed:      d.LeastServed()}
	if len(d.Reasons) > 0 {
		e.Reason, e.Message = d.Reasons[0].Reason, d.Reasons[0].Message
	}
	e.Wrong = slices.ContainsFunc(d.Reasons, func(r result.Reason) bool { return r.Reason == result.ReasonCheckFailed })
	return e
}

// outcome judges a probe. A database that commits nothing at all, or leaves all clients of a region busy, has missed
// its rate; a measurement that is Invalid for another reason, or has wrong answers, decides nothing.
func (p *prober) outcome(e Ended) Outcome {
	o := Outcome{ThroughputPerSecond: e.ThroughputPerSecond, LeastServed: e.LeastServed}
	if e.OfferedPerSecond > 0 {
		o.CommittedPPM = e.ThroughputPerSecond * 1_000_000 / e.OfferedPerSecond
	}
	switch {
	case e.ClientsBusy && !e.Wrong:
		o.Missed = e.Message
	case e.Verdict == v1alpha1.VerdictInvalid && (e.Reason == result.ReasonObjectiveUndecided || e.Reason == result.ReasonTooFewSamples) && !e.Wrong:
		// These reasons come last, so the run is Invalid for no other reason. An undecided objective is not met.
		o.Missed, o.FewSamples = e.Message, e.Reason == result.ReasonTooFewSamples
	case e.Wrong || e.Verdict == v1alpha1.VerdictInvalid && e.Reason != result.ReasonNoTransactions || e.Verdict == "":
		o.Unusable = fmt.Sprintf("%s: %s: %s", e.Verdict, e.Reason, e.Message)
	case e.Verdict != v1alpha1.VerdictPassed:
		o.Missed = e.Message
	case 100*e.ThroughputPerSecond < int64(p.spec.CommittedPercent)*e.OfferedPerSecond:
		o.Missed = fmt.Sprintf("of %d/s that are offered %d/s are committed, less than %d%%", e.OfferedPerSecond, e.ThroughputPerSecond, p.spec.CommittedPercent)
	case e.LeastServed != nil && e.LeastServed.MostPPM() < int64(p.spec.CommittedPercent)*10_000:
		o.Missed = fmt.Sprintf("of what is due in %s %s is committed, less than %d%%, even with %s more for chance; "+
			"of all regions together it is %s", e.LeastServed.Name,
			percentOf(e.LeastServed.CommittedPPM), p.spec.CommittedPercent, percentOf(e.LeastServed.ChancePPM), percentOf(o.CommittedPPM))
	default:
		o.Keeps = true
	}
	return o
}

// prober makes the runs of a search, each once.
type prober struct {
	// label is the search's.
	label string
	spec  *v1alpha1.RateSearch
	seed  int64
	// rates that can be the peak, growing.
	rates []int64
	// create makes the run at a rate with a seed. It is valid because the first one was.
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

// ratesFrom are the rates of a search from the least on, which searches share.
func (x *expansion) ratesFrom(least int64) []int64 {
	search := x.object.Spec.Search
	if rates, ok := x.rates.Load(least); ok {
		return rates.([]int64)
	}
	rates, _ := x.rates.LoadOrStore(least, ratesBetween(least, search.MaxRatePerSecond, search.TolerancePercent))
	return rates.([]int64)
}

// ratesBetween returns increasing rates from the least to the greatest. Each exceeds the previous rate by at most
// percent, or by 1 if that is more.
func ratesBetween(least, greatest int64, percent int32) []int64 {
	rates := []int64{least}
	for rate := least; ; {
		if rate = max(rate+1, rate+rate*int64(percent)/100); rate >= greatest {
			return append(rates, greatest)
		}
		rates = append(rates, rate)
	}
}

// votes counts the outcomes of the probes of one rate.
type votes struct{ keep, miss int }

// bisection has the outcomes of the probes so far. Rates below low are assumed to keep, and rates from high on to miss.
// low is the number of the highest rate that most of its probes keep, or -1. high is the number of the lowest rate that
// most of its probes miss, or the number of rates.
type bisection struct {
	of        []votes
	low, high int
	tied      int // a rate of which as many probes keep as miss, or -1
}

func newBisection(rates int) *bisection {
	return &bisection{of: make([]votes, rates), low: -1, high: rates, tied: -1}
}

// add counts a probe of a rate.
func (b *bisection) add(rate int, keeps bool) {
	if keeps {
		b.of[rate].keep++
	} else {
		b.of[rate].miss++
	}
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

// next returns the rate to probe, or -1 for none. It is a rate with as many keeping as missing probes, or else the
// middle of the unknown rates. Otherwise it is one of the two rates around the peak, until a majority of bestOf probes
// agrees about it.
func (b *bisection) next(bestOf int) int {
	switch {
	case b.tied >= 0:
		return b.tied
	case b.high-b.low > 1:
		return b.low + (b.high-b.low)/2
	case b.low >= 0 && b.of[b.low].keep <= bestOf/2:
		return b.low
	case b.high < len(b.of) && b.of[b.high].miss <= bestOf/2:
		return b.high
	}
	return -1
}

// advance replays the search from the outcomes of its probes, and returns its state. The first probe with an unknown
// outcome is the next probe.
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

// fewSamples returns the reason of the last probe that had too few transactions for an objective, or "".
func (s *Search) fewSamples() string {
	for i := len(s.Probes) - 1; i >= 0; i-- {
		if p := &s.Probes[i]; p.FewSamples {
			return fmt.Sprintf("%d/s in each region: %s", p.Run.Run.Spec.Load.RatePerSecond, p.Missed)
		}
	}
	return ""
}

// end ends the search.
func (s *Search) end(reason v1alpha1.SearchReason, format string, args ...any) *Search {
	s.Reason, s.Message = reason, fmt.Sprintf(format, args...)
	if reason == v1alpha1.SearchProbeUnusable {
		s.PeakRatePerSecond = 0 // What other probes have said may be as wrong.
	}
	return s
}

// Said lists the probes by their rates in each region, with their answers and the shares that committed.
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

// percentOf writes parts per million as a percentage.
func percentOf(ppm int64) string { return FormatNumber(float64(ppm)/1e4) + "%" }

// share returns the rate of a point, rounded to an integer.
func share(peak int64, percent int32) int64 {
	return max(1, int64(math.Round(float64(peak)*float64(percent)/100)))
}

// Advance returns the experiment advanced by the outcomes of the finished runs: the results of its searches, and the
// runs of all points with a known rate. ended returns the outcome of a run, and whether it has finished, or an error if
// it could not run.
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

// advance gives a point its runs once the peak is known.
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

// With is Advance by the results of runs.
func (e *Experiment) With(r *Results) *Experiment {
	return e.Advance(func(run *Run) (Ended, bool, error) {
		o, ok := r.outcomes[run]
		if !ok || o.err != nil {
			return Ended{}, ok, o.err
		}
		return endedBy(o.document), true, nil
	})
}
