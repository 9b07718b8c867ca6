package result

import (
	"math"
	"slices"
	"sort"

	"github.com/aclements/go-moremath/mathx"
	"github.com/aclements/go-moremath/stats"

	"github.com/geobench/geobench/api/v1alpha1"
)

// sample holds the values of a figure in every repetition of both results.
type sample struct {
	Difference
	a, b []v1alpha1.Quantile
	// p is the p-value of the Mann-Whitney U test; nil if a side has only one repetition.
	p *float64
	// better is 1 if a larger value is better, and -1 if a smaller value is better.
	better int
}

// figuresOf returns the figures that are present in both a and b, with their values.
func figuresOf(a, b []*Document) []sample {
	var out []sample
	latency := func(l *Latency, of func(*Latency) v1alpha1.Quantile) v1alpha1.Quantile {
		if *l == (Latency{}) {
			return noLatency
		}
		return of(l)
	}
	addQuantile := func(region, name, unit string, better int, judged bool, of func(*Document) []v1alpha1.Quantile) {
		s := sample{Difference: Difference{Name: name, Region: region, Unit: unit, Judged: judged}, better: better}
		for _, d := range a {
			s.a = append(s.a, of(d)...)
		}
		for _, d := range b {
			s.b = append(s.b, of(d)...)
		}
		// A figure that only one side has cannot be compared.
		if len(s.a) == 0 || len(s.b) == 0 {
			return
		}
		slices.SortFunc(s.a, v1alpha1.Quantile.Compare)
		slices.SortFunc(s.b, v1alpha1.Quantile.Compare)
		out = append(out, s)
	}
	add := func(region, name, unit string, better int, judged bool, of func(*Document) []int64) {
		addQuantile(region, name, unit, better, judged, func(d *Document) (v []v1alpha1.Quantile) {
			for _, n := range of(d) {
				v = append(v, v1alpha1.Observed(n))
			}
			return v
		})
	}
	each := func(of func(*Repetition) int64) func(*Document) []int64 {
		return func(d *Document) (v []int64) {
			for i := range d.Repetitions {
				v = append(v, of(&d.Repetitions[i]))
			}
			return v
		}
	}
	whole := func(of func(*Summary) int64) func(*Document) []int64 {
		return func(d *Document) []int64 { return []int64{of(&d.Summary)} }
	}
	unit, perSecond := "txn/s", func(_ *Document, r *Repetition) int64 { return r.ThroughputPerSecond }
	if slow(a, b) { // in whole transactions per second, 0.6 and 1.4 would both round to 1
		unit, perSecond = "txn/h", func(d *Document, r *Repetition) int64 {
			return ratio(Microseconds(d.Spec.Load.Duration.Duration), 1, r.Committed+r.CarriedIn, 3600e6)
		}
	}
	add("", "throughput", unit, 1, true, func(d *Document) (v []int64) {
		for i := range d.Repetitions {
			v = append(v, perSecond(d, &d.Repetitions[i]))
		}
		return v
	})
	for _, l := range comparedLatencies {
		addQuantile("", l.name, "us", -1, l.judged, func(d *Document) (v []v1alpha1.Quantile) {
			for i := range d.Repetitions {
				v = append(v, latency(&d.Repetitions[i].LatencyMicroseconds, l.of))
			}
			return v
		})
	}
	add("", "aborts", "ppm", -1, true, each(func(r *Repetition) int64 { return r.AbortPPM }))
	// Without retries, attempts repeat the figures of the transactions.
	if slices.ContainsFunc(slices.Concat(a, b), func(d *Document) bool { return d.Spec.Load.Retry != nil }) {
		attempts := func(of func(*Attempts) int64) func(*Document) []int64 {
			return each(func(r *Repetition) int64 { return of(&r.Attempts) })
		}
		add("", "attempts", "1/s", -1, false, attempts(func(a *Attempts) int64 { return a.PerSecond }))
		add("", "aborted attempts", "ppm", -1, false, attempts(func(a *Attempts) int64 { return a.AbortPPM }))
	}
	// Bytes and costs are unknown for a target, and only lower bounds if nodes are uncounted.
	if !slices.ContainsFunc(slices.Concat(a, b), func(d *Document) bool { return d.Target != nil || len(d.Uncounted) > 0 }) {
		add("", "bytes per transaction", "bytes", -1, false, whole(func(s *Summary) int64 { return s.BytesPerTransaction }))
		add("", "bytes between regions", "bytes", -1, false, whole(func(s *Summary) int64 { return s.CrossRegionBytesPerTransaction }))
		add("", "cost of a million", "micro-"+a[0].Summary.Cost.Currency, -1, false, whole(func(s *Summary) int64 { return int64(s.Cost.PerMillionTransactions) }))
	}
	if all := slices.Concat(a, b); !slices.ContainsFunc(all, func(d *Document) bool { return d.meshBytes() == nil || len(d.Uncounted) > 0 }) {
		add("", "bytes through the mesh", "bytes", -1, false, func(d *Document) []int64 { return []int64{d.meshBytes().BytesPerTransaction} })
	}
	for _, region := range a[0].Regions {
		in := func(of func(*RepetitionRegion) int64) func(*Document) []int64 {
			return func(d *Document) (v []int64) {
				for _, r := range d.regionRepetitions(region.Name) {
					v = append(v, of(&r))
				}
				return v
			}
		}
		add(region.Name, "throughput", "txn/s", 1, false, in(func(r *RepetitionRegion) int64 { return r.ThroughputPerSecond }))
		for _, l := range comparedLatencies {
			if l.name == "mean" {
				continue
			}
			addQuantile(region.Name, l.name, "us", -1, false, func(d *Document) (v []v1alpha1.Quantile) {
				for _, r := range d.regionRepetitions(region.Name) {
					v = append(v, latency(&r.LatencyMicroseconds, l.of))
				}
				return v
			})
		}
	}
	return out
}

// slow reports whether some repetition has fewer than 100 transactions per second, and all documents have the counts
// from which exact figures can be computed.
func slow(a, b []*Document) (slow bool) {
	for _, d := range slices.Concat(a, b) {
		if d.Spec.Load.Duration.Duration <= 0 || slices.ContainsFunc(d.Reasons,
			func(r Reason) bool { return r.Reason == ReasonCancelled }) {
			return false
		}
		for i := range d.Repetitions {
			slow = slow || d.Repetitions[i].ThroughputPerSecond < 100
		}
	}
	return slow
}

// beyondRounding reports whether the medians differ by more than their rounding errors: the throughputs of regions are
// whole numbers per second.
func (s *sample) beyondRounding() bool {
	return s.Unit != "txn/s" || max(s.A.Least(), s.B.Least())-min(s.A.Least(), s.B.Least()) > 1
}

// regionRepetitions returns the figures of a region in each window. If the document has no figures of single windows,
// it returns the figures of the whole run.
func (d *Document) regionRepetitions(name string) []RepetitionRegion {
	var out []RepetitionRegion
	for i := range d.Repetitions {
		for _, r := range d.Repetitions[i].Regions {
			if r.Name == name {
				out = append(out, r)
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, r := range d.Regions {
		if r.Name == name {
			out = append(out, RepetitionRegion{Name: name, ThroughputPerSecond: r.ThroughputPerSecond, LatencyMicroseconds: r.LatencyMicroseconds, AbortPPM: r.AbortPPM})
		}
	}
	return out
}

// bounded reports whether some repetition has only a lower bound of the figure.
func (s *sample) bounded() bool {
	return slices.ContainsFunc(slices.Concat(s.a, s.b), v1alpha1.Quantile.IsBound)
}

// ordered reports whether the order of the two medians is known. If a median is a lower bound, its true value may be
// any larger value.
func (s *sample) ordered() bool {
	switch {
	case s.A.IsBound() && s.B.IsBound():
		return false
	case s.A.IsBound():
		return s.A.Least() >= s.B.Least()
	case s.B.IsBound():
		return s.B.Least() >= s.A.Least()
	}
	return true
}

// values returns the figures of both sides for a rank test. Lower bounds are resolved against the suspected difference:
// they count as infinite on the better side, and as their least value on the worse side.
func (s *sample) values() (a, b []float64) {
	bWorse := s.B.Compare(s.A) > 0
	number := func(all []v1alpha1.Quantile, highest bool) (out []float64) {
		for _, q := range all {
			v := float64(q.Least())
			if q.IsBound() && highest {
				v = math.Inf(1)
			}
			out = append(out, v)
		}
		slices.Sort(out)
		return out
	}
	return number(s.a, bWorse), number(s.b, !bWorse)
}

// enough returns the minimum number of repetitions per side with which a Mann-Whitney test can reach alpha.
func enough(alpha float64) int {
	n := 2
	for 2/mathx.Choose(2*n, n) > alpha {
		n++
	}
	return n
}

// interval sets the confidence interval of the change. It sorts all differences between a repetition of B and a
// repetition of A, and cuts off the same number of differences at each end. This number follows from the distribution
// of U.
func (s *sample) interval(alpha float64) {
	n1, n2 := len(s.a), len(s.b)
	u := stats.UDist{N1: n1, N2: n2}
	// The probability of U < cut is at most alpha / 2.
	cut := sort.Search(n1*n2/2, func(k int) bool { return u.CDF(float64(k)) > alpha/2 }) - 1
	// Beyond this size the exact distribution takes too long to compute; the normal approximation is accurate there.
	if max(n1, n2) > stats.MannWhitneyExactLimit {
		normal := stats.NormalDist{Mu: float64(n1*n2) / 2, Sigma: math.Sqrt(float64(n1*n2*(n1+n2+1)) / 12)}
		cut = int(math.Floor(stats.InvCDF(normal)(alpha/2))) - 1
	}
	base := float64(s.A.Least())
	// With so few repetitions, even the whole range of differences has a lower confidence level.
	if cut < 0 || base == 0 {
		return
	}
	var all []float64
	for _, x := range s.a {
		for _, y := range s.b {
			all = append(all, float64(y.Least()-x.Least()))
		}
	}
	slices.Sort(all)
	s.LowPPM, s.HighPPM = new(ppm(all[cut]/base)), new(ppm(all[len(all)-1-cut]/base))
}
