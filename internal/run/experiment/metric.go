package experiment

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
)

// metric is a figure of a result, for use in claims and curves.
type metric struct {
	name string
	// title and unit are the labels of a chart's axis.
	title, unit string
	// of returns the figure of the whole run. If no transaction committed, figures per transaction and times until a
	// commit are infinite.
	of func(*result.Document) float64
	// in returns the figure of a region's clients, and typed the figure of a transaction type. Each is nil if the metric
	// has no such figure.
	in    func(*result.Document, *result.Region) float64
	typed func(*result.TypeFigures) float64
	// ofFaults is set if the figure describes faults. The figure then has no value in a run without faults.
	ofFaults bool
}

// milliseconds returns a percentile in milliseconds. It is infinite if the percentile lies among the unanswered
// transactions, which rank above all committed ones.
func milliseconds(q v1alpha1.Quantile) float64 {
	us, ok := q.Value()
	if !ok {
		return math.Inf(1)
	}
	return float64(us) / 1000
}

func latency(name, title string, of func(*result.Latency) v1alpha1.Quantile) metric {
	milliseconds := func(l *result.Latency, committed int64) float64 {
		// No transaction committed, so there is no latency. Infinity ranks this run last.
		if committed == 0 && of(l) == (v1alpha1.Quantile{}) {
			return math.Inf(1)
		}
		return milliseconds(of(l))
	}
	return metric{name, title, "ms",
		func(d *result.Document) float64 {
			return milliseconds(&d.Summary.LatencyMicroseconds, d.Summary.Committed)
		},
		func(_ *result.Document, r *result.Region) float64 {
			return milliseconds(&r.LatencyMicroseconds, r.Committed)
		},
		func(t *result.TypeFigures) float64 { return milliseconds(&t.LatencyMicroseconds, t.Committed) }, false}
}

// ofRegions returns a metric for a percentile averaged over regions. Each region has the same weight, whereas the
// region with the most commits dominates the percentile over all clients. The mean is infinite if no client of some
// region committed a transaction.
func ofRegions(name, title string, of func(*result.Latency) v1alpha1.Quantile) metric {
	return metric{name: name, title: title, unit: "ms", of: func(d *result.Document) float64 {
		if len(d.Regions) == 0 {
			return math.Inf(1)
		}
		sum := 0.
		for i := range d.Regions {
			r := &d.Regions[i]
			if r.Committed == 0 && of(&r.LatencyMicroseconds) == (v1alpha1.Quantile{}) {
				return math.Inf(1)
			}
			sum += milliseconds(of(&r.LatencyMicroseconds))
		}
		return sum / float64(len(d.Regions))
	}}
}

// ofTransactions returns a metric that is computed from transaction counts. Results contain these counts for all
// transactions, for each region and for each type.
func ofTransactions(name, title, unit string, of func(*result.Counts) float64) metric {
	return metric{name, title, unit,
		func(d *result.Document) float64 { return of(&d.Summary.Counts) },
		func(_ *result.Document, r *result.Region) float64 { return of(&r.Counts) },
		func(t *result.TypeFigures) float64 { return of(&t.Counts) }, false}
}

// ofAttempts returns a metric that is computed from the counts of attempts.
func ofAttempts(name, title, unit string, of func(*result.Counts) float64) metric {
	return metric{name, title, unit,
		func(d *result.Document) float64 { return of(&d.Summary.Attempts.Counts) },
		func(_ *result.Document, r *result.Region) float64 { return of(&r.Attempts.Counts) },
		func(t *result.TypeFigures) float64 { return of(&t.Attempts) }, false}
}

// rate returns n per second of measured time. If the measured time is unknown, it returns rounded, the document's own
// rounded figure.
func rate(d *result.Document, n, rounded int64) float64 {
	if seconds := d.MeasuredSeconds(); seconds > 0 {
		return float64(n) / seconds
	}
	return float64(rounded)
}

func throughput(d *result.Document) float64 {
	return rate(d, d.Summary.Committed+d.Summary.CarriedIn, d.Summary.ThroughputPerSecond)
}

// perSecond returns n/seconds, or 0 if seconds is 0.
func perSecond(n int64, seconds float64) float64 {
	if seconds == 0 {
		return 0
	}
	return float64(n) / seconds
}

// counted reports whether the traffic and the resource usage of all nodes were counted completely.
func counted(d *result.Document) bool { return len(d.Nodes) > 0 && len(d.Uncounted) == 0 }

// perTransaction returns the function of a metric per transaction. The function returns infinity if no transaction
// committed, and NaN if the activity of a node was not counted completely.
func perTransaction(of func(*result.Summary) float64) func(*result.Document) float64 {
	return func(d *result.Document) float64 {
		switch {
		case d.Summary.Committed == 0:
			return math.Inf(1)
		case !counted(d):
			return math.NaN()
		}
		return of(&d.Summary)
	}
}

// onWire returns the function of a metric for bytes on the wire. The function returns infinity if no transaction
// committed, and NaN if the bytes that clients and nodes sent were not counted.
func onWire(of func(*result.Summary, *result.Wire) float64) func(*result.Document) float64 {
	return func(d *result.Document) float64 {
		switch {
		case d.Summary.Committed == 0:
			return math.Inf(1)
		case d.Summary.Wire == nil || !counted(d):
			return math.NaN()
		}
		return of(&d.Summary, d.Summary.Wire)
	}
}

// percent returns n as a percentage of all finished transactions or attempts. It is infinite if none has finished,
// because 0 would wrongly satisfy a claim such as aborts < 1.
func percent(c *result.Counts, n int64) float64 {
	all := c.Ended()
	if all == 0 {
		return math.Inf(1)
	}
	return float64(n) / float64(all) * 100
}

// timeouts and aborts name the figures for transactions that timed out and for transactions that aborted.
const (
	timeouts = "timeouts"
	aborts   = "aborts"
)

// timedOut returns the largest possible share of transactions that time out: a transaction that hung when the window
// closed may still time out.
func timedOut(c *result.Counts, hung int64) float64 {
	of := *c
	of.Unknown += hung
	return percent(&of, c.Timeouts+hung)
}

// aborted returns the largest possible share of aborted transactions. A transaction that hung when the window closed
// may still abort, for example if its client was backing off after an aborted attempt.
func aborted(c *result.Counts, hung int64) float64 {
	of := *c
	of.Aborted += hung
	return percent(&of, of.Aborted)
}

// ranged reports whether the figure is known only as a range if transactions hung. In the view infinite, the figure is
// the upper end of the range.
func (m *metric) ranged() bool { return m.name == timeouts || m.name == aborts }

// share reports whether the figure is a share of ended transactions. It has no value if no transaction ended.
func (m *metric) share() bool { return m.unit == "%" }

// failedBy returns a metric for the share of attempts that failed for a cause.
func failedBy(name, title string, cause txn.Cause) metric {
	return ofAttempts(name, title, "%", func(c *result.Counts) float64 { return percent(c, c.Causes[cause.String()]) })
}

// ofFaults returns a metric for an availability figure of all clients during the worst fault of a run. pick returns the
// worse of two values. Callers must first check the document with measuredFaults.
func ofFaults(name, title, unit string, pick func(a, b float64) float64, of func(*result.Availability) float64) metric {
	return metric{name: name, title: title, unit: unit, ofFaults: true,
		of: func(d *result.Document) float64 {
			// measuredFaults has checked that the run has faults and that every fault has availability figures.
			w := of(d.Faults[0].Availability)
			for _, f := range d.Faults[1:] {
				w = pick(w, of(f.Availability))
			}
			return w
		},
		in: func(_ *result.Document, r *result.Region) float64 {
			w := math.NaN()
			for _, f := range r.Faults {
				switch {
				// The clients of this region committed nothing before the fault, so the region has no reference value.
				case f.Availability == nil:
				case math.IsNaN(w):
					w = of(f.Availability)
				default:
					w = pick(w, of(f.Availability))
				}
			}
			return w
		}}
}

// ofWorstRegion returns two metrics for the worst fault of a run. The first is the worst value among the whole database
// and its regions. The second, with the suffix OfAll, is the value of all regions together. A region for which counts
// returns false is omitted, because its figure is within random variation.
func ofWorstRegion(name, title, unit string, pick func(a, b float64) float64, counts func(*result.Availability) bool, of func(*result.Availability) float64) []metric {
	all := ofFaults(name+"OfAll", title+", of all regions together", unit, pick, of)
	worst := ofFaults(name, title+", where it is worst", unit, pick, of)
	worst.of = func(d *result.Document) float64 {
		w := all.of(d)
		for i := range d.Regions {
			for _, f := range d.Regions[i].Faults {
				if a := f.Availability; a != nil && counts(a) {
					w = pick(w, of(a))
				}
			}
		}
		return w
	}
	// The metric over all regions does not exist for the clients of a single region.
	all.in = nil
	return []metric{worst, all}
}

// measuredFaults returns an error if the run has no faults or if a fault lacks availability figures.
func measuredFaults(m *metric, label string, d *result.Document) error {
	if len(d.Faults) == 0 {
		return withoutFaults(m, label)
	}
	for _, f := range d.Faults {
		if f.Availability == nil {
			return fmt.Errorf("figure %s of %s: there is none of fault %s: let it begin 1s or more after measuring does and before that ends, while transactions commit and the load does not change (spec.load.curve, mixPhases)",
				m.name, label, f.Name)
		}
	}
	return nil
}

// withoutFaults returns the error for the use of a figure of faults with a run that has none.
func withoutFaults(m *metric, label string) error {
	return lookupf("figure %s is of faults, and %s has none: add spec.faults to the run, or leave the point out of the claim", m.name, label)
}

// orNever converts microseconds to seconds. It returns infinity for nil, which means that the recovery never happened.
func orNever(us *int64) float64 {
	if us == nil {
		return math.Inf(1)
	}
	return float64(*us) / 1e6
}

// metrics are the figures that claims can use.
var metrics = slices.Concat(simpleMetrics, slices.Concat(faultMetrics...))

func throughputDiffers(a *result.Availability) bool { return !a.WithinChance }

// recoveryKnown reports whether the recovery figures count. They count if there is a TPPM, even if the figures are
// otherwise within random variation, because the recovery has its own significance test.
func recoveryKnown(a *result.Availability) bool { return a.TPPM != nil || !a.WithinChance }

// faultMetrics are the figures of faults, each for the worst region and for all regions together.
var faultMetrics = [][]metric{
	ofWorstRegion("resilience", "resilience R of the throughput to the worst fault", "1 is no effect", math.Min, throughputDiffers,
		func(a *result.Availability) float64 { return float64(a.RPPM) / 1e6 }),
	ofWorstRegion("recovery", "recovery T from the worst fault, 1 / (seconds + 1)", "1 is at once", math.Min, recoveryKnown,
		func(a *result.Availability) float64 {
			if a.TPPM == nil {
				return math.NaN()
			}
			return float64(*a.TPPM) / 1e6
		}),
	ofWorstRegion("recoverySeconds", "time from a fault's end to 95% of the throughput", "s", math.Max, recoveryKnown,
		func(a *result.Availability) float64 {
			if a.TPPM == nil {
				return math.NaN()
			}
			return orNever(a.RecoverMicroseconds)
		}),
	ofWorstRegion("detectSeconds", "time until clients see a fault", "s", math.Max, throughputDiffers,
		func(a *result.Availability) float64 { return orNever(a.DetectMicroseconds) }),
	ofWorstRegion("outageSeconds", "longest time without a commit after a fault", "s", math.Max, (*result.Availability).OutIsNoChance,
		func(a *result.Availability) float64 { return float64(a.OutageMicroseconds) / 1e6 }),
}

var simpleMetrics = []metric{
	{"tput", "throughput", "committed transactions/s",
		throughput,
		func(d *result.Document, r *result.Region) float64 {
			return rate(d, r.Committed+r.CarriedIn, r.ThroughputPerSecond)
		},
		func(t *result.TypeFigures) float64 { return perSecond(t.Committed, t.Seconds) }, false},
	ofTransactions("committed", "committed transactions", "transactions", func(c *result.Counts) float64 { return float64(c.Committed) }),
	{"offered", "offered load", "transactions/s",
		func(d *result.Document) float64 {
			s := &d.Summary
			if s.OfferedPerSecond == 0 {
				return 0 // closed loop
			}
			return rate(d, s.Ended()+s.Unfinished+s.Unsent(), s.OfferedPerSecond)
		}, nil, nil, false},
	{"attempts", "attempts", "attempts/s",
		func(d *result.Document) float64 {
			return rate(d, d.Summary.Attempts.Ended(), d.Summary.Attempts.PerSecond)
		},
		func(d *result.Document, r *result.Region) float64 {
			return rate(d, r.Attempts.Ended(), r.Attempts.PerSecond)
		},
		func(t *result.TypeFigures) float64 { return perSecond(t.Attempts.Ended(), t.Seconds) }, false},
	latency("p50", "median latency", func(l *result.Latency) v1alpha1.Quantile { return l.P50 }),
	latency("p90", "90th percentile of latency", func(l *result.Latency) v1alpha1.Quantile { return l.P90 }),
	latency("p95", "95th percentile of latency", func(l *result.Latency) v1alpha1.Quantile { return l.P95 }),
	latency("p99", "99th percentile of latency", func(l *result.Latency) v1alpha1.Quantile { return l.P99 }),
	latency("mean", "mean latency", func(l *result.Latency) v1alpha1.Quantile { return l.Mean }),
	ofRegions("p50OfRegions", "median latency, mean of the regions'", func(l *result.Latency) v1alpha1.Quantile { return l.P50 }),
	ofRegions("p90OfRegions", "90th percentile of latency, mean of the regions'", func(l *result.Latency) v1alpha1.Quantile { return l.P90 }),
	ofRegions("p95OfRegions", "95th percentile of latency, mean of the regions'", func(l *result.Latency) v1alpha1.Quantile { return l.P95 }),
	ofRegions("p99OfRegions", "99th percentile of latency, mean of the regions'", func(l *result.Latency) v1alpha1.Quantile { return l.P99 }),
	{aborts, "aborted transactions", "%",
		func(d *result.Document) float64 { return aborted(&d.Summary.Counts, d.Summary.Hung) },
		func(_ *result.Document, r *result.Region) float64 { return aborted(&r.Counts, r.Hung) },
		func(t *result.TypeFigures) float64 { return aborted(&t.Counts, t.Hung) }, false},
	ofAttempts("attemptAborts", "aborted attempts", "%", func(c *result.Counts) float64 { return percent(c, c.Aborted) }),
	failedBy("attemptConflicts", "attempts given up for the sake of others", txn.CauseConflict),
	failedBy("attemptProcedureAborts", "attempts that the procedure itself gave up", txn.CauseProcedure),
	failedBy("attemptNodeFailures", "attempts that a node refused or lost", txn.CauseNode),
	{timeouts, "transactions without an answer in time", "%",
		func(d *result.Document) float64 { return timedOut(&d.Summary.Counts, d.Summary.Hung) },
		func(_ *result.Document, r *result.Region) float64 { return timedOut(&r.Counts, r.Hung) },
		func(t *result.TypeFigures) float64 { return timedOut(&t.Counts, t.Hung) }, false},
	{"tpmC", "new orders of TPC-C", "committed/min",
		func(d *result.Document) float64 {
			if d.Summary.TpmC == nil {
				return 0
			}
			return float64(*d.Summary.TpmC)
		}, nil, nil, false},
	{"bytes", "bytes between nodes", "bytes/transaction",
		perTransaction(func(s *result.Summary) float64 { return float64(s.BytesPerTransaction) }), nil, nil, false},
	{"wanBytes", "bytes between regions", "bytes/transaction",
		perTransaction(func(s *result.Summary) float64 { return float64(s.CrossRegionBytesPerTransaction) }), nil, nil, false},
	{"wireBytes", "bytes on the wire, with headers and clients", "bytes/transaction",
		onWire(func(_ *result.Summary, w *result.Wire) float64 { return float64(w.BytesPerTransaction) }), nil, nil, false},
	{"sentBytes", "bytes that nodes send, with headers", "bytes/transaction",
		onWire(func(_ *result.Summary, w *result.Wire) float64 { return float64(w.SentBytesPerTransaction) }), nil, nil, false},
	{"sentPerMinute", "bytes that nodes send in a minute, with headers", "MB/min",
		onWire(func(s *result.Summary, w *result.Wire) float64 {
			return float64(w.SentBytesPerTransaction) * float64(s.ThroughputPerSecond) * 60 / 1e6
		}), nil, nil, false},
	{"sentCostPerHour", "cost of an hour at this throughput, all that nodes send charged", "per hour",
		onWire(func(_ *result.Summary, w *result.Wire) float64 { return float64(w.CostPerHour) / 1e6 }), nil, nil, false},
	{"cost", "cost", "per million transactions",
		perTransaction(func(s *result.Summary) float64 { return float64(s.Cost.PerMillionTransactions) / 1e6 }), nil, nil, false},
	{"costPerHour", "cost of an hour at this throughput", "per hour",
		perTransaction(func(s *result.Summary) float64 {
			return float64(s.Cost.PerMillionTransactions) / 1e6 * float64(s.ThroughputPerSecond) * 3600 / 1e6
		}), nil, nil, false},
	{"cpu", "CPU time of nodes", "us/transaction",
		perTransaction(func(s *result.Summary) float64 { return float64(s.CPUMicrosecondsPerTransaction) }), nil, nil, false},
	ofFaults("faultTput", "throughput during the worst fault", "committed transactions/s", math.Min,
		func(a *result.Availability) float64 { return float64(a.FaultPerSecond) }),
	ofFaults("mendingTput", "throughput from a fault's end until what it took is there again", "committed transactions/s", math.Min,
		func(a *result.Availability) float64 {
			if a.MendingPerSecond == nil {
				return math.NaN()
			}
			return float64(*a.MendingPerSecond)
		}),
	{name: "fullStrengthSeconds", title: "time from a fault until nothing is left of it, and what it took is there again", unit: "s", ofFaults: true,
		of: func(d *result.Document) (longest float64) {
			for _, f := range d.Faults {
				longest = max(longest, orNever(f.ToMicroseconds)-orNever(f.FromMicroseconds))
			}
			return longest
		}},
	{"multiHome", "multi-home transactions", "% of all",
		func(d *result.Document) float64 { return float64(d.Summary.Realised.AllMultiHomePPM) / 1e4 }, nil, nil, false},
	{"multiPartition", "multi-partition transactions", "% of all",
		func(d *result.Document) float64 { return float64(d.Summary.Realised.AllMultiPartitionPPM) / 1e4 }, nil, nil, false},
}

// Metric is a figure that claims can use.
type Metric struct {
	// Name is the name in claims. Title and Unit label a chart and its axis.
	Name, Title, Unit string
}

// Metrics returns the metrics of the figures in PointData, in a fixed order.
func Metrics() []Metric {
	var out []Metric
	for _, m := range metrics {
		out = append(out, Metric{m.name, m.title, m.unit})
	}
	return out
}

func metricNames() []string {
	var names []string
	for _, m := range metrics {
		names = append(names, m.name)
	}
	return names
}

// typedNames returns the names of the figures that exist for each transaction type.
func typedNames() []string {
	var names []string
	for i := range metrics {
		if metrics[i].typed != nil {
			names = append(names, metrics[i].name)
		}
	}
	return names
}

func metricNamed(name string) (*metric, error) {
	for i := range metrics {
		if metrics[i].name == name {
			return &metrics[i], nil
		}
	}
	return nil, fmt.Errorf("there is no figure %s%s", name, nearest(name, metricNames()))
}

// metricsNamed returns the metrics with these names. It panics if a name is unknown.
func metricsNamed(names ...string) (all []*metric) {
	for _, name := range names {
		m, err := metricNamed(name)
		if err != nil {
			panic(err)
		}
		all = append(all, m)
	}
	return all
}

// figure is the value of a metric at a point, over all repetitions.
type figure struct {
	// Median is the median of the repetitions.
	Median float64
	// HalfWidth is half the width of the 95% confidence interval of the mean (Student's t). It is 0 if there is a single
	// repetition, or if the figure of a repetition is infinite.
	HalfWidth float64
}

// summarise returns the median and the confidence interval of the values of all repetitions.
func summarise(values []float64) figure {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	f := figure{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2}
	// The values are sorted, so if any of them is infinite, the last one is. The mean is then infinite and has no
	// confidence interval.
	if n == 1 || math.IsInf(sorted[n-1], 1) {
		return f
	}
	mean, squares := 0.0, 0.0
	for _, v := range sorted {
		mean += v / float64(n)
	}
	for _, v := range sorted {
		squares += (v - mean) * (v - mean)
	}
	t := studentT(float64(n - 1))
	f.HalfWidth = t * math.Sqrt(squares/float64(n-1)/float64(n))
	return f
}

// studentT returns the 97.5% quantile of Student's t distribution with nu degrees of freedom. It inverts the
// distribution function, the regularised incomplete beta function.
func studentT(nu float64) float64 {
	// For the two-sided 95% interval, nu/(nu+t*t) is the 5% quantile of this beta distribution.
	x := mathext.InvRegIncBeta(nu/2, 0.5, 0.05)
	return math.Sqrt(nu * (1 - x) / x)
}

// noFigure returns an error that explains why a document lacks a figure.
func noFigure(m *metric, p *Point, d *result.Document) error {
	if m.ofFaults {
		for _, f := range d.Faults {
			if f.Availability.TPPM == nil {
				return fmt.Errorf("figure %s of %s: nobody knows when the throughput recovered from fault %s: let it end 1s or more before measuring does, and before the next one begins",
					m.name, p.Label, f.Name)
			}
		}
	}
	_, err := metricNamed(m.name) // shares of the mix are not in the list of metrics
	switch why := d.LeastFigures(); {
	case err == nil && why != "":
		return fmt.Errorf("figure %s of %s: %s", m.name, p.Label, why)
	case err == nil && len(d.Nodes) == 0:
		return fmt.Errorf("figure %s of %s: %s does not tell what its nodes send and use; engines of Geobench's own do", m.name, p.Label, d.Engine)
	}
	return fmt.Errorf("figure %s: the results of %s have none; summary.realised.shares and summary.wire list those there are", m.name, p.Label)
}

// abortedFor returns a metric for the share of attempts that were aborted for a reason; 0 if there were none.
func abortedFor(reason string) *metric {
	return &metric{name: "abortedFor", title: "attempts aborted for " + reason, unit: "%", of: func(d *result.Document) float64 {
		return percent(&d.Summary.Attempts.Counts, d.AbortedAttempts()[reason])
	}}
}

// shareNamed returns a metric for a share (in percent) or a mean of the mix. Its value is either the realised value
// from the results or the configured value from the manifest. The metric is NaN if the workload does not count this
// share.
func shareNamed(name, of string, configured bool) *metric {
	title := "realised "
	if configured {
		title = "configured "
	}
	return &metric{name: title + name + " of " + of, title: title + name + " of " + of, unit: "% or mean", of: func(d *result.Document) float64 {
		for _, s := range d.Summary.Realised.Shares {
			if s.Name != name || s.Of != of {
				continue
			}
			v := s.RealisedPPM
			if configured {
				v = s.ConfiguredPPM
			}
			if s.Mean {
				return float64(v) / 1e6
			}
			return float64(v) / 1e4
		}
		return math.NaN()
	}}
}

// scope selects the transactions of a figure by type and by region of the client. An empty field selects all.
type scope struct{ typ, region string }

// figure returns the figure of a point. It treats a latency of which only a lower bound is known as infinite.
func (r *Results) figure(p *Point, m *metric, of scope) (figure, error) {
	return r.figureAs(p, m, of, infinite, 0)
}

// figureAs returns the figure of a point in a view. bounds is the number of bounds that the evaluation has already
// encountered.
func (r *Results) figureAs(p *Point, m *metric, of scope, as view, bounds int) (figure, error) {
	// The search has not found the rate of this point, so there are no runs.
	if len(p.Runs) == 0 {
		return figure{}, errors.New(p.missing)
	}
	var values []float64
	for _, run := range p.Runs {
		v, err := r.value(p, run, m, of, as, bounds)
		if err != nil {
			return figure{}, err
		}
		values = append(values, v)
	}
	return summarise(values), nil
}

// value returns a figure of one run of a point.
func (r *Results) value(p *Point, run *Run, m *metric, of scope, as view, bounds int) (float64, error) {
	d, err := r.Document(run)
	if err == nil && m.ofFaults {
		err = measuredFaults(m, p.Label, d)
	}
	if err != nil {
		return 0, err
	}
	d = as.document(d, bounds)
	if of == (scope{}) {
		v := m.of(d)
		if math.IsNaN(v) {
			return 0, noFigure(m, p, d)
		}
		return v, nil
	}
	i := slices.IndexFunc(d.Regions, func(x result.Region) bool { return x.Name == of.region })
	if of.region != "" && i < 0 {
		return 0, fmt.Errorf("%s has no region %s", p.Label, of.region)
	}
	if of.typ == "" {
		v := m.in(d, &d.Regions[i])
		if math.IsNaN(v) {
			return 0, fmt.Errorf("figure %s of %s: the clients of %s committed nothing before a fault, so that there is nothing to compare with", m.name, p.Label, of.region)
		}
		return v, nil
	}
	t, err := r.ofType(run, of.typ, of.region)
	if err != nil {
		return 0, err
	}
	return m.typed(as.typed(t, bounds)), nil
}
