package result

import (
	"fmt"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/txn"
)

// Estimator names the method by which a document derives percentiles from its transactions: see Latency. It is empty in
// documents of earlier versions, whose percentiles cover only committed transactions.
const Estimator = "product-limit"

// Latency holds percentiles, maximum and mean of the time between the moment at which a transaction is due and its
// commit, in microseconds. It covers all transactions that were due in the measured windows, except aborted
// transactions. Percentiles have three significant digits.
//
// Not all of these times are observed. A transaction ranks above all committed transactions if it was refused, was
// never sent, has an unknown outcome, or took longer than a histogram covers. If such transactions were omitted, a
// database would look faster the fewer transactions it answers. A transaction that is in flight when its window closes
// is right-censored at its waiting time. Percentiles are product-limit estimates (E. L. Kaplan and P. Meier,
// "Nonparametric Estimation from Incomplete Observations", 1958). Transactions that became due shortly before the end
// of a window therefore do not bias them. A percentile that falls among unobserved transactions is a lower bound: the
// longest time that any transaction took or waited.
//
// The estimate assumes that latencies do not depend on the time at which transactions are due. If the backlog of an
// open loop grew, the assumption fails. All percentiles are then lower bounds, with transactions in flight counted at
// their waiting time.
type Latency struct {
	P50 v1alpha1.Quantile `json:"p50"`
	P90 v1alpha1.Quantile `json:"p90"`
	P95 v1alpha1.Quantile `json:"p95"`
	P99 v1alpha1.Quantile `json:"p99"`
	// Max is a lower bound if an unobserved transaction may have taken longer than the largest observed latency.
	Max v1alpha1.Quantile `json:"max"`
	// Mean is the mean over committed transactions. It is a lower bound if Max is a lower bound.
	Mean v1alpha1.Quantile `json:"mean"`
}

// tally accumulates the latencies of transactions, observed or not.
type tally struct {
	// count, sum and max cover all committed transactions. histogram covers committed transactions with a latency in its
	// range.
	count, sum, max int64
	histogram       *hdrhistogram.Histogram
	// waiting holds the waiting times of transactions in flight when their window closed.
	waiting *hdrhistogram.Histogram
	// never is the number of transactions without a latency that rank above all committed transactions. neverSum is their
	// total waiting time.
	never, neverSum int64
	// longest is the longest wait of a transaction without an observed latency.
	longest int64
	// growing is set if the backlog of these transactions grew: see figures.grows. The product-limit estimate is then
	// invalid, and every percentile is a lower bound.
	growing bool
}

// add adds the transactions with one outcome; h is the decoded histogram of d. It ignores aborted transactions, which
// have no latency.
func (t *tally) add(outcome string, d *Distribution, h *hdrhistogram.Histogram) {
	if d.Count == 0 {
		return
	}
	switch outcome {
	case txn.Committed.String():
		t.count += d.Count
		t.sum += d.SumMicroseconds
		t.max = max(t.max, d.MaxMicroseconds)
		merge(&t.histogram, h)
		// The clipped transactions did commit, but the histogram cannot rank them. Count them above all others, with a wait
		// of at least the histogram's limit.
		t.never += d.Clipped
		if d.Clipped > 0 {
			t.longest = max(t.longest, HistogramHighest)
		}
	case Unfinished, CarriedOver:
		merge(&t.waiting, h)
		t.never += d.Clipped
		t.longest = max(t.longest, d.MaxMicroseconds)
	case txn.Refused.String(), txn.Unknown.String():
		t.never += d.Count
		t.neverSum += d.SumMicroseconds
		t.longest = max(t.longest, d.MaxMicroseconds)
	}
}

// addNever adds n transactions that were never sent and waited for at most longest microseconds.
func (t *tally) addNever(n, longest int64) {
	t.never += n
	t.longest = max(t.longest, longest)
}

// merge adds the transactions of o to t.
func (t *tally) merge(o *tally) {
	t.count += o.count
	t.sum += o.sum
	t.max = max(t.max, o.max)
	t.never += o.never
	t.neverSum += o.neverSum
	t.longest = max(t.longest, o.longest)
	t.growing = t.growing || o.growing
	merge(&t.histogram, o.histogram)
	merge(&t.waiting, o.waiting)
}

// decode returns the latencies of a series.
func (d *Document) decode(s *HistogramSeries) (t tally, err error) {
	for _, x := range []struct {
		to   **hdrhistogram.Histogram
		text string
	}{{&t.histogram, s.Histogram}, {&t.waiting, s.Unfinished}} {
		h, err := DecodeHistogram(x.text)
		if err != nil {
			return tally{}, fmt.Errorf("result %s: type %s, class %s, region %s: %w", d.Name, s.Type, s.Class, s.Region, err)
		}
		merge(x.to, h)
	}
	t.count, t.sum, t.max = total(t.histogram), s.SumMicroseconds, s.MaxMicroseconds
	if t.histogram != nil && t.max == 0 { // earlier versions did not store the maximum
		t.max = t.histogram.Max()
	}
	t.never, t.neverSum, t.longest, t.growing = s.Never, s.NeverMicroseconds, s.LongestMicroseconds, s.Growing
	return t, nil
}

// Latencies holds the latencies of a subset of a document's transactions.
type Latencies struct{ tally }

// Latencies returns the merged latencies of all series that the function of selects. It omits series that cannot be
// decoded.
func (d *Document) Latencies(of func(*HistogramSeries) bool) *Latencies {
	l := &Latencies{}
	for i := range d.Histograms.Series {
		s := &d.Histograms.Series[i]
		if !of(s) {
			continue
		}
		if t, err := d.decode(s); err == nil {
			l.merge(&t)
		}
	}
	return l
}

// Samples returns the number of transactions, observed or not.
func (l *Latencies) Samples() int64 { return l.samples() }

// Quantiles returns the percentiles of the latencies; percents must ascend.
func (l *Latencies) Quantiles(percents ...float64) []v1alpha1.Quantile {
	return l.quantiles(percents...)
}

// mayHideCensored reports whether the percentiles may omit unanswered transactions, as in documents of earlier versions
// without an Estimator.
func (d *Document) mayHideCensored() bool {
	s := &d.Summary
	return d.Histograms.Estimator == "" && s.Refused+s.Unknown+s.Unfinished+s.Unsent() > 0
}

// censoredNote is the note for documents for which mayHideCensored is true.
const censoredNote = "this result is of a version whose percentiles are those of committed transactions alone: transactions that were refused, unanswered or never sent are missing from them"

func merge(to **hdrhistogram.Histogram, h *hdrhistogram.Histogram) {
	if h == nil || h.TotalCount() == 0 {
		return
	}
	if *to == nil {
		*to = NewHistogram()
	}
	(*to).Merge(h)
}

// samples returns the number of transactions that the percentiles cover, observed or not.
func (t *tally) samples() int64 { return t.observed() + total(t.waiting) + t.never }

// observed returns the number of transactions with a known latency.
func (t *tally) observed() int64 { return total(t.histogram) }

// sumOf returns the sum of the values of a histogram, in microseconds.
func sumOf(h *hdrhistogram.Histogram) (sum int64) {
	for _, b := range bars(h) {
		sum += b.us * b.n
	}
	return sum
}

func total(h *hdrhistogram.Histogram) int64 {
	if h == nil {
		return 0
	}
	return h.TotalCount()
}

// latency returns the percentiles, maximum and mean; zeros if there are no transactions.
func (t *tally) latency() Latency {
	if t.samples() == 0 {
		return Latency{}
	}
	p := t.quantiles(50, 90, 95, 99)
	l := Latency{P50: p[0], P90: p[1], P95: p[2], P99: p[3], Max: v1alpha1.Observed(t.max)}
	mean := int64(0)
	if t.count > 0 {
		mean = ratio(t.count, 1, t.sum)
	}
	l.Mean = v1alpha1.Observed(mean)
	// Under a growing backlog, everything in flight counts at its waiting time, so that the mean is a valid lower bound.
	if t.growing {
		mean = ratio(t.count+t.never+total(t.waiting), 1, t.sum+t.neverSum+sumOf(t.waiting))
		l.Max, l.Mean = v1alpha1.MoreThan(t.horizon()), v1alpha1.MoreThan(mean)
		return l
	}
	// Some transaction may have taken longer than the observed maximum.
	if t.never > 0 || t.longest > t.max {
		if n := t.count + t.never; n > 0 {
			// Transactions without an answer may have waited only briefly; their inclusion must not lower the mean.
			mean = max(mean, ratio(n, 1, t.sum+t.neverSum))
		}
		l.Max, l.Mean = v1alpha1.MoreThan(t.horizon()), v1alpha1.MoreThan(mean)
	}
	return l
}

// cells formats quantiles of l for a table; "-" if there are no transactions.
func (l *Latency) cells(of ...v1alpha1.Quantile) (out []string) {
	for _, q := range of {
		if *l == (Latency{}) {
			out = append(out, "-")
			continue
		}
		out = append(out, FormatQuantile(q))
	}
	return out
}

func (t *tally) optional() *Latency {
	if t.samples() == 0 {
		return nil
	}
	l := t.latency()
	return &l
}

// horizon returns the longest time that any transaction took or waited.
func (t *tally) horizon() int64 { return max(t.max, t.longest) }

// bar is a bucket of a histogram: the number n of latencies of at most us microseconds that are above the previous
// bucket.
type bar struct{ us, n int64 }

func bars(h *hdrhistogram.Histogram) (out []bar) {
	if h == nil {
		return nil
	}
	for _, b := range h.Distribution() {
		if b.Count > 0 {
			out = append(out, bar{b.To, b.Count})
		}
	}
	return out
}

// rank returns the rank of the p-th percentile among n transactions, rounded to the nearest integer and at least 1, as
// in HdrHistogram.
func rank(p float64, n int64) float64 { return max(1, math.Floor(float64(p/100*float64(n))+0.5)) }

// quantiles returns the product-limit estimates of percentiles; percents must ascend.
func (t *tally) quantiles(percents ...float64) []v1alpha1.Quantile {
	if t.growing {
		return t.leastQuantiles(percents)
	}
	out := make([]v1alpha1.Quantile, 0, len(percents))
	n := t.samples()
	for us, share := range t.survival() {
		// The share is a product of rounded factors; the tolerance of a thousandth of a transaction absorbs the rounding
		// error.
		for len(out) < len(percents) && float64(n)*(1-share) >= rank(percents[len(out)], n)-1e-3 {
			// The upper end of a bucket may exceed the largest value, so cap it. The cap is the horizon, not the largest
			// observed latency: a percentile must not fall because the largest latency was not observed.
			out = append(out, v1alpha1.Observed(min(us, t.horizon())))
		}
		if len(out) == len(percents) {
			return out
		}
	}
	for len(out) < len(percents) {
		out = append(out, v1alpha1.MoreThan(t.horizon()))
	}
	return out
}

// leastQuantiles returns lower bounds of percentiles. A transaction in flight counts at its waiting time, because it
// takes at least that long.
func (t *tally) leastQuantiles(percents []float64) (out []v1alpha1.Quantile) {
	var all *hdrhistogram.Histogram
	merge(&all, t.histogram)
	merge(&all, t.waiting)
	known, n := bars(all), int64(0)
	for _, p := range percents {
		for len(known) > 0 && float64(n+known[0].n) < rank(p, t.samples()) {
			n += known[0].n
			known = known[1:]
		}
		if len(known) == 0 {
			out = append(out, v1alpha1.MoreThan(t.horizon()))
			continue
		}
		out = append(out, v1alpha1.MoreThan(min(known[0].us, t.horizon())))
	}
	return out
}

// survival yields each observed latency, in ascending order, with the estimated share of transactions that take longer.
// The share is a product with one factor for each latency up to this latency. The factor is the share of the
// transactions at risk that took longer than this latency. Transactions that never commit always stay at risk. A
// transaction in flight stays at risk up to its waiting time, including the bucket of this time.
func (t *tally) survival() func(yield func(us int64, share float64) bool) {
	return func(yield func(int64, float64) bool) {
		waiting := bars(t.waiting)
		atRisk, share := t.samples(), 1.0
		for _, b := range bars(t.histogram) {
			for len(waiting) > 0 && waiting[0].us < b.us {
				atRisk -= waiting[0].n
				waiting = waiting[1:]
			}
			share *= float64(atRisk-b.n) / float64(atRisk)
			atRisk -= b.n
			if !yield(b.us, share) {
				return
			}
		}
	}
}

// waitingLonger returns the number of transactions in flight that had waited for more than us microseconds.
func (t *tally) waitingLonger(us int64) (n int64) {
	for _, b := range bars(t.waiting) {
		if b.us > us {
			n += b.n
		}
	}
	return n
}

// medianLatency returns the median of each figure: the lower of the two middle values if their number is even.
func medianLatency(all []Latency) Latency {
	median := func(of func(*Latency) v1alpha1.Quantile) v1alpha1.Quantile {
		var v []v1alpha1.Quantile
		for i := range all {
			v = append(v, of(&all[i]))
		}
		return medianQuantile(v)
	}
	return Latency{
		P50:  median(func(l *Latency) v1alpha1.Quantile { return l.P50 }),
		P90:  median(func(l *Latency) v1alpha1.Quantile { return l.P90 }),
		P95:  median(func(l *Latency) v1alpha1.Quantile { return l.P95 }),
		P99:  median(func(l *Latency) v1alpha1.Quantile { return l.P99 }),
		Max:  median(func(l *Latency) v1alpha1.Quantile { return l.Max }),
		Mean: median(func(l *Latency) v1alpha1.Quantile { return l.Mean }),
	}
}

// medianQuantile sorts all and returns the median: the lower of the two middle values if the number is even. If a lower
// bound is below the median, its true value may be above the median, so the result is then only a lower bound.
func medianQuantile(all []v1alpha1.Quantile) v1alpha1.Quantile {
	slices.SortFunc(all, v1alpha1.Quantile.Compare)
	middle := (len(all) - 1) / 2
	known := slices.DeleteFunc(slices.Clone(all), v1alpha1.Quantile.IsBound)
	if least := all[middle]; middle >= len(known) || known[middle] != least {
		return v1alpha1.MoreThan(least.Least()) // a bound is below the median, or is the median
	}
	return all[middle]
}

// FormatQuantile formats a quantile, such as 105.4ms, or > 140.0ms for a lower bound.
func FormatQuantile(q v1alpha1.Quantile) string {
	if q.IsBound() {
		return "> " + formatMicroseconds(q.Least())
	}
	return formatMicroseconds(q.Least())
}

const (
	// hungFloor is the minimum wait of a hung transaction, in microseconds.
	hungFloor = 1_000_000
	// hungFactor is the minimum ratio between the wait of a hung transaction and the 99th percentile. Many transactions in
	// flight exceed the percentile itself, because long transactions are overrepresented among them.
	hungFactor = 3
)

// knownAt returns the number of transactions that contribute to a percentile with estimate q. All transactions
// contribute, except transactions in flight that had waited no longer than q.
func (t *tally) knownAt(q v1alpha1.Quantile) int64 {
	return t.observed() + t.never + t.waitingLonger(q.Least())
}

// hung returns the number of transactions in flight that had waited for more than a second, and for more than three
// times p99. p99 is the 99th percentile of the committed transactions.
func (t *tally) hung() int64 {
	p99 := int64(0)
	if t.observed() > 0 {
		p99 = t.histogram.ValueAtPercentile(99)
	}
	return t.waitingLonger(max(hungFloor, hungFactor*p99))
}
