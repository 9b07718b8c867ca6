package experiment

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
)

// searchOf returns a search whose probes have manifests with only the rate, the seed and two regions.
func searchOf(spec v1alpha1.RateSearch, least int64) *Search {
	p := &prober{spec: &spec, seed: 1, rates: ratesBetween(least, spec.MaxRatePerSecond, spec.TolerancePercent), made: map[[2]int64]*Run{}}
	p.create = func(rate, seed int64) (*Run, error) {
		run := &v1alpha1.BenchmarkRun{}
		run.Spec.Load.RatePerSecond, run.Spec.Seed = rate, seed
		db := &v1alpha1.GeoDatabase{}
		db.Spec.Regions = make([]v1alpha1.Region, 2)
		return &Run{Run: run, Database: db}, nil
	}
	return &Search{prober: p}
}

// database is a function that returns the outcome of a probe at a rate with a seed.
type database func(rate, seed int64) Ended

func keeping(keeps bool) Ended {
	if keeps {
		return Ended{Verdict: v1alpha1.VerdictPassed, ThroughputPerSecond: 1, OfferedPerSecond: 1}
	}
	return Ended{Verdict: v1alpha1.VerdictFailed, Reason: "ObjectiveMissed", Message: "too slow"}
}

func (d database) play(s *Search) *Search {
	return s.advance(func(r *Run) (Ended, bool, error) {
		return d(r.Run.Spec.Load.RatePerSecond, r.Run.Spec.Seed), true, nil
	})
}

var defaultSearch = v1alpha1.RateSearch{MaxRatePerSecond: 16_000, CommittedPercent: 95, TolerancePercent: 5, BestOf: 3, MaxProbes: 30}

func TestSearch(t *testing.T) {
	sharp := func(peak int64) database {
		return func(rate, _ int64) Ended { return keeping(rate <= peak) }
	}
	with := func(change func(*v1alpha1.RateSearch)) v1alpha1.RateSearch {
		s := defaultSearch
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		spec   v1alpha1.RateSearch
		db     database
		reason v1alpha1.SearchReason
		peak   int64 // the peak that a test of all rates finds
		probes int
	}{
		"in the middle":        {defaultSearch, sharp(4000), v1alpha1.SearchFound, 3893, 8},
		"at the least rate":    {defaultSearch, sharp(1000), v1alpha1.SearchFound, 1000, 8},
		"at the highest rate":  {defaultSearch, sharp(16_000), v1alpha1.SearchAllKeep, 16_000, 8},
		"below all":            {defaultSearch, sharp(999), v1alpha1.SearchNoneKeeps, 0, 8},
		"every probe believed": {with(func(s *v1alpha1.RateSearch) { s.BestOf = 1 }), sharp(4000), v1alpha1.SearchFound, 3893, 6},
		"coarse":               {with(func(s *v1alpha1.RateSearch) { s.TolerancePercent = 100 }), sharp(4000), v1alpha1.SearchFound, 4000, 5},
		"few probes":           {with(func(s *v1alpha1.RateSearch) { s.MaxProbes = 3 }), sharp(4000), v1alpha1.SearchProbesExhausted, 2769, 3},
		"too few probes":       {with(func(s *v1alpha1.RateSearch) { s.MaxProbes = 2 }), sharp(1000), v1alpha1.SearchProbesExhausted, 0, 2},
		"nothing commits at all": {defaultSearch, func(int64, int64) Ended {
			return Ended{Verdict: v1alpha1.VerdictInvalid, Reason: "NoTransactions", Message: "none", Overloaded: true}
		}, v1alpha1.SearchNoneKeeps, 0, 8},
		"throughput falls behind": {defaultSearch, func(rate, _ int64) Ended {
			return Ended{Verdict: v1alpha1.VerdictPassed, ThroughputPerSecond: min(2*rate, 7600), OfferedPerSecond: 2 * rate}
		}, v1alpha1.SearchFound, 3893, 8},
		"one region falls behind": {defaultSearch, func(rate, _ int64) Ended {
			e := Ended{Verdict: v1alpha1.VerdictPassed, ThroughputPerSecond: 96 * rate,
				OfferedPerSecond: 100 * rate, LeastServed: &v1alpha1.ServedRegion{Name: "b", CommittedPPM: 990_000}}
			if rate > 4000 {
				e.LeastServed.CommittedPPM = 600_000
			}
			return e
		}, v1alpha1.SearchFound, 3893, 8},
		"one region falls behind by chance": {defaultSearch, func(rate, _ int64) Ended {
			return Ended{Verdict: v1alpha1.VerdictPassed, ThroughputPerSecond: 96 * rate,
				OfferedPerSecond: 100 * rate, LeastServed: &v1alpha1.ServedRegion{Name: "b", CommittedPPM: 940_000,
					ChancePPM: 20_000}}
		}, v1alpha1.SearchAllKeep, 16_000, 8},
		"invalid": {defaultSearch, func(int64, int64) Ended {
			return Ended{Verdict: v1alpha1.VerdictInvalid, Reason: "DriverBound", Message: "driver-bound"}
		}, v1alpha1.SearchProbeUnusable, 0, 1},
		"wrong answers": {defaultSearch, func(rate, _ int64) Ended {
			if rate > 3000 {
				return Ended{Verdict: v1alpha1.VerdictFailed, Reason: "CheckFailed", Message: "money is lost", Wrong: true}
			}
			return keeping(true)
		}, v1alpha1.SearchProbeUnusable, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.db.play(searchOf(c.spec, 1000))
			if s.Reason != c.reason || s.PeakRatePerSecond != c.peak || s.Next != nil || s.Message == "" {
				t.Errorf("ended with %s (%s) at %d, want %s at %d", s.Reason, s.Message, s.PeakRatePerSecond, c.reason, c.peak)
			}
			if len(s.Probes) > c.probes {
				t.Errorf("%d probes (%s), want at most %d", len(s.Probes), s.Said(), c.probes)
			}
		})
	}
}

// If a rate counts as missed because of a region, the probe's message contains the name of the region and both shares.
func TestProbeNamesTheWorstRegion(t *testing.T) {
	p := searchOf(defaultSearch, 1000).prober
	o := p.outcome(Ended{Verdict: v1alpha1.VerdictPassed, ThroughputPerSecond: 970, OfferedPerSecond: 1000,
		LeastServed: &v1alpha1.ServedRegion{Name: "b", CommittedPPM: 801_000, ChancePPM: 4000}})
	for _, want := range []string{"due in b", "80.1%", "97%", "less than 95%", "0.4%"} {
		if o.Keeps || !strings.Contains(o.Missed, want) {
			t.Errorf("keeps %v, misses %q, want %q", o.Keeps, o.Missed, want)
		}
	}
	d := ProbeData{CommittedPPM: o.CommittedPPM, LeastServed: o.LeastServed}
	if cells := d.Cells(); len(cells) != len(ProbeColumns) || cells[4] != "97%" || cells[5] != "80.1% (b)" {
		t.Errorf("cells %q", cells)
	}
}

// The names of a search's runs do not depend on earlier runs, and are valid names of BenchmarkRuns. The names differ
// between experiments whose own names have a common prefix.
func TestNamesOfSearchedRuns(t *testing.T) {
	first := strings.Repeat("ab", 32)
	second := first[:8] + strings.Repeat("c", 56)
	seen := map[string]bool{}
	for _, experiment := range []string{"peak", "an-experiment-of-23-abc", "an-experiment-of-23-abd"} {
		named := func(hashes ...string) map[string]string {
			x := &expansion{Experiment: &Experiment{Name: experiment, object: &v1alpha1.Experiment{}}, taken: map[string]bool{}}
			x.object.Spec.Search = &v1alpha1.RateSearch{}
			names := map[string]string{}
			for _, h := range hashes {
				run := &Run{hash: h, Run: &v1alpha1.BenchmarkRun{}}
				run.Run.Name = x.runName(h)
				x.name(run)
				names[h] = run.Run.Name
			}
			return names
		}
		forward, backward := named(first, second), named(second, first)
		if !maps.Equal(forward, backward) {
			t.Errorf("%v; made in the other order %v", forward, backward)
		}
		for _, n := range forward {
			if seen[n] || len(n) != min(len(experiment), 19)+1+12 || len(n) > 32 {
				t.Errorf("a run of %s is called %s", experiment, n)
			}
			seen[n] = true
		}
	}
}

// TestSearchFindsWhatTheGridFinds: for every possible peak, the search finds the same rate as a test of all rates in
// order. It needs at most a fifth of the probes.
func TestSearchFindsWhatTheGridFinds(t *testing.T) {
	most := 0
	rates := searchOf(defaultSearch, 1000).prober.rates
	for i, peak := range rates {
		s := database(func(rate, _ int64) Ended { return keeping(rate <= peak) }).play(searchOf(defaultSearch, 1000))
		if s.PeakRatePerSecond != peak {
			t.Errorf("the peak is the rate %d, %d; the search found %d: %s", i, peak, s.PeakRatePerSecond, s.Said())
		}
		most = max(most, len(s.Probes))
	}
	if most*5 > len(rates) {
		t.Errorf("the search takes up to %d probes, more than a fifth of %d rates", most, len(rates))
	}
	t.Logf("%d rates, at most %d probes", len(rates), most)
}

// TestSearchToleratesNoise: close to the peak, rates meet the objectives at random, and each probe errs with a
// probability of 3%. With the majority of three probes, nine of ten searches find the peak within a tenth. With single
// probes, fewer searches do.
func TestSearchToleratesNoise(t *testing.T) {
	const peak, searches = 4000, 2000
	near := map[int32]int{}
	for _, bestOf := range []int32{1, 3, 5} {
		spec := defaultSearch
		spec.BestOf, spec.MaxProbes = bestOf, 100
		for seed := range uint64(searches) {
			rng := rand.New(rand.NewPCG(seed, uint64(bestOf)))
			s := database(func(rate, _ int64) Ended {
				// The probability that a rate meets the objectives falls linearly, from 1 at 10% below the peak to 0 at 10% above
				// it.
				p := min(1, max(0, (1.1*peak-float64(rate))/(0.2*peak)))
				keeps := rng.Float64() < p
				return keeping(keeps != (rng.Float64() < 0.03))
			}).play(searchOf(spec, 1000))
			if math.Abs(float64(s.PeakRatePerSecond)/peak-1) <= 0.1 {
				near[bestOf]++
			}
		}
	}
	t.Logf("of %d searches, %d find the peak within a tenth with single probes, %d with the best of 3, %d with the best of 5", searches, near[1], near[3], near[5])
	if near[3] <= near[1] || near[5] < near[3] || near[3] < searches*90/100 {
		t.Errorf("majorities do not help: %v of %d", near, searches)
	}
}

// TestSearchGoesOn: any process that knows the outcomes of the finished probes creates the same next probe. A rate is
// probed at most bestOf times, even if its probes alternate between the two outcomes.
func TestSearchGoesOn(t *testing.T) {
	spec := defaultSearch
	spec.BestOf, spec.MaxProbes = 5, 100
	db := func(rate, seed int64) Ended {
		return keeping(rate < 3000 || rate < 5000 && (rate+seed)%2 == 0)
	}
	known := map[[2]int64]bool{}
	var order []string
	for {
		s := searchOf(spec, 1000).advance(func(r *Run) (Ended, bool, error) {
			rate, seed := r.Run.Spec.Load.RatePerSecond, r.Run.Spec.Seed
			return db(rate, seed), known[[2]int64{rate, seed}], nil
		})
		if s.Next == nil {
			break
		}
		if s.Reason != v1alpha1.SearchGoesOn || len(s.Probes) != len(known) {
			t.Fatalf("%d probes have ended, the search has %d and is %s", len(known), len(s.Probes), s.Reason)
		}
		rate, seed := s.Next.Run.Spec.Load.RatePerSecond, s.Next.Run.Spec.Seed
		if seed > 5 {
			t.Errorf("%d/s is probed for the %dth time", rate, seed)
		}
		known[[2]int64{rate, seed}] = true
		order = append(order, fmt.Sprintf("%d/%d", rate, seed))
	}
	all := database(db).play(searchOf(spec, 1000))
	var at1 []string
	for _, p := range all.Probes {
		at1 = append(at1, fmt.Sprintf("%d/%d", p.Run.Run.Spec.Load.RatePerSecond, p.Run.Run.Spec.Seed))
	}
	if !slices.Equal(order, at1) {
		t.Errorf("step by step the probes are %v, at once %v", order, at1)
	}
}

func TestSearchWithoutAnswer(t *testing.T) {
	s := searchOf(defaultSearch, 1000).advance(func(*Run) (Ended, bool, error) { return Ended{}, true, errors.New("no pods") })
	if s.Reason != v1alpha1.SearchProbeUnusable || !strings.Contains(s.Message, "no pods") || len(s.Probes) != 1 || s.PeakRatePerSecond != 0 {
		t.Errorf("%+v", s)
	}
}

// A rate counts as missed if there are too few transactions for a percentile in its objectives. If the search finds no
// peak for this reason, its message states the remedy.
func TestSearchWithFewSamples(t *testing.T) {
	few := func(below, peak int64) func(*Run) (Ended, bool, error) {
		return func(r *Run) (Ended, bool, error) {
			e := keeping(r.Run.Spec.Load.RatePerSecond <= peak)
			if r.Run.Spec.Load.RatePerSecond < below {
				e.Verdict, e.Reason, e.Message = v1alpha1.VerdictInvalid, result.ReasonTooFewSamples, "latencyP99 <= 2s: measured 1s of 60 transactions"
			}
			return e, true, nil
		}
	}
	if s := searchOf(defaultSearch, 2).advance(few(9, 100)); s.Reason != v1alpha1.SearchFound || s.PeakRatePerSecond < 90 || s.PeakRatePerSecond > 100 {
		t.Errorf("peak above the rates with few transactions: %s %s, %d/s", s.Reason, s.Message, s.PeakRatePerSecond)
	}
	s := searchOf(defaultSearch, 2).advance(few(9, 5))
	if s.Reason != v1alpha1.SearchNoneKeeps || !strings.Contains(s.Message, "of 60 transactions") || !strings.Contains(s.Message, "spec.run.spec.load.duration") {
		t.Errorf("peak among the rates with few transactions: %s: %s", s.Reason, s.Message)
	}
	e, _, _ := few(9, 5)(&Run{Run: &v1alpha1.BenchmarkRun{}})
	e.Wrong = true
	if o := searchOf(defaultSearch, 2).prober.outcome(e); o.Unusable == "" || o.FewSamples {
		t.Errorf("wrong answers and few transactions: %+v, want unusable", o)
	}
}

func TestRates(t *testing.T) {
	for name, c := range map[string]struct {
		least, greatest int64
		percent         int32
		want            []int64
	}{
		"doubling":          {100, 900, 100, []int64{100, 200, 400, 800, 900}},
		"small":             {1, 5, 5, []int64{1, 2, 3, 4, 5}},
		"the last is short": {100, 105, 10, []int64{100, 105}},
		"exact":             {100, 400, 100, []int64{100, 200, 400}},
	} {
		if got := ratesBetween(c.least, c.greatest, c.percent); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	rates := ratesBetween(1, 100_000_000, 1)
	for i, r := range rates[1:] {
		if r <= rates[i] || float64(r) > max(1.01*float64(rates[i]), float64(rates[i]+1)) {
			t.Fatalf("%d follows %d", r, rates[i])
		}
	}
}

// If the percentile of an objective is known only as a lower bound, the rate counts as missed, and the probe shows the
// bound.
func TestProbesOverLowerBounds(t *testing.T) {
	p := searchOf(defaultSearch, 1000).prober
	e := keeping(true)
	e.Verdict, e.Reason, e.Message = v1alpha1.VerdictInvalid, result.ReasonObjectiveUndecided, "only a lower bound is known"
	if o := p.outcome(e); o.Keeps || o.Missed != e.Message || o.Unusable != "" {
		t.Errorf("%+v, want a missed objective", o)
	}
	bound := v1alpha1.MoreThan(140_000)
	if cells := (&ProbeData{P50Microseconds: bound, P99Microseconds: bound}).Cells(); cells[6] != "> 140 ms" || cells[7] != "> 140 ms" {
		t.Errorf("cells %q", cells)
	}
}
