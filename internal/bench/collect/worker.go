package collect

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/ops/metrics"
)

// WorkerLabels identify a worker.
type WorkerLabels struct {
	Run, Database, Region string
	// Index is the number of the worker in its region.
	Index int
}

// Worker counts the outcomes of a worker's transactions. It implements load.Observer, and is safe for any number of
// concurrent shards.
type Worker struct {
	timedOut                   *prometheus.CounterVec
	types                      []string
	aborted, refused, unknown  *prometheus.CounterVec
	committedDesc, latencyDesc *prometheus.Desc
	attemptsDesc               *prometheus.Desc
	progress                   *metrics.Collector
	cells                      []atomic.Pointer[cell] // by type and class
	mu                         sync.Mutex             // protects the creation of cells and reasons
	reasons                    map[string]bool
	otherwise                  map[outcome]prometheus.Counter
	source                     atomic.Pointer[func() load.Progress]
}

// cell caches the metrics of a type and class.
type cell struct {
	timedOut prometheus.Counter
	latency  *histogram
	failed   [txn.Unknown + 1][txn.NumCauses]atomic.Int64 // attempts by status and cause
	exemplar atomic.Int64                                 // time of the last exemplar, in nanoseconds on the process's clock
}

type outcome struct {
	cell   int
	status txn.Status
	reason string
}

const (
	// exemplarEvery is the minimum time between two exemplars of a type and class, because Prometheus keeps only a few
	// per scrape.
	exemplarEvery = 100 * time.Millisecond
	// maxReasons is the maximum number of separate reasons; further reasons count as otherReason.
	maxReasons  = 32
	otherReason = "other"
)

// NewWorker returns the metrics of a worker that sends these types of transactions.
func NewWorker(l WorkerLabels, types []string) *Worker {
	fixed := []string{l.Run, l.Database, l.Region, strconv.Itoa(l.Index)}
	w := &Worker{
		types:         types,
		timedOut:      metrics.TimedOut.CounterVec(fixed...),
		committedDesc: metrics.Committed.Desc(fixed...), attemptsDesc: metrics.Attempts.Desc(fixed...), latencyDesc: metrics.Latency.Desc(fixed...),
		aborted: metrics.Aborted.CounterVec(fixed...), refused: metrics.Refused.CounterVec(fixed...), unknown: metrics.Unknown.CounterVec(fixed...),
		cells:     make([]atomic.Pointer[cell], len(types)*int(txn.NumClasses)),
		reasons:   map[string]bool{},
		otherwise: map[outcome]prometheus.Counter{},
	}
	w.progress = metrics.NewCollector([]*metrics.Definition{metrics.Dropped, metrics.InFlight, metrics.Repetition, metrics.Measuring}, func(put metrics.Put) {
		var p load.Progress
		if f := w.source.Load(); f != nil {
			p = (*f)()
		}
		put(metrics.Dropped, float64(p.Dropped))
		put(metrics.InFlight, float64(p.Underway))
		put(metrics.Repetition, float64(p.Repetition))
		put(metrics.Measuring, flag(p.Stage == load.Measure))
	}, fixed...)
	return w
}

// Watch sets the source of the progress metrics.
func (w *Worker) Watch(progress func() load.Progress) { w.source.Store(&progress) }

// Describe implements prometheus.Collector.
func (w *Worker) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range w.collectors() {
		c.Describe(ch)
	}
	ch <- w.committedDesc
	ch <- w.attemptsDesc
	ch <- w.latencyDesc
}

// Collect implements prometheus.Collector.
func (w *Worker) Collect(ch chan<- prometheus.Metric) {
	for _, c := range w.collectors() {
		c.Collect(ch)
	}
	for i := range w.cells {
		c := w.cells[i].Load()
		if c == nil {
			continue
		}
		typ, class := w.names(i)
		committed := float64(c.latency.count())
		ch <- prometheus.MustNewConstMetric(w.committedDesc, prometheus.CounterValue, committed, typ, class)
		attempts := func(n float64, status txn.Status, cause txn.Cause) {
			ch <- prometheus.MustNewConstMetric(w.attemptsDesc, prometheus.CounterValue, n, typ, class, status.String(), cause.String())
		}
		attempts(committed, txn.Committed, 0)
		for status := txn.Aborted; status <= txn.Unknown; status++ {
			for cause := range txn.NumCauses {
				if n := c.failed[status][cause].Load(); n > 0 {
					attempts(float64(n), status, cause)
				}
			}
		}
		m, err := c.latency.metric(w.latencyDesc, typ, class)
		if err != nil {
			m = prometheus.NewInvalidMetric(w.latencyDesc, err)
		}
		ch <- m
	}
}

func (w *Worker) collectors() []prometheus.Collector {
	return []prometheus.Collector{w.timedOut, w.aborted, w.refused, w.unknown, w.progress}
}

// Ended implements load.Observer.
func (w *Worker) Ended(typ uint8, class txn.Class, o *txn.Outcome, latency, now time.Duration) {
	i, c := w.cell(typ, class)
	if o.Status == txn.Committed {
		bucket := c.latency.observe(latency)
		// Only the goroutine that wins the exchange stores an exemplar; the other goroutines skip this work.
		if last := c.exemplar.Load(); now-time.Duration(last) >= exemplarEvery && c.exemplar.CompareAndSwap(last, int64(now)) {
			c.latency.exemplify(bucket, latency, o.ID.String())
		}
		return
	}
	c.failed[o.Status][o.Cause].Add(1)
	if o.Status == txn.Unknown && o.Reason == load.Timeout {
		c.timedOut.Inc()
	} else {
		w.other(i, o).Inc()
	}
}

// Retried implements load.Observer.
func (w *Worker) Retried(typ uint8, class txn.Class, o *txn.Outcome) {
	_, c := w.cell(typ, class)
	c.failed[o.Status][o.Cause].Add(1)
}

// cell returns the metrics of a type and class, and creates them on first use.
func (w *Worker) cell(typ uint8, class txn.Class) (i int, c *cell) {
	i = int(typ)*int(txn.NumClasses) + int(class)
	if c = w.cells[i].Load(); c == nil {
		c = w.newCell(i)
	}
	return i, c
}

// newCell creates the metrics of a type and class. From then on, all of its counters are exported, initially with the
// value 0.
func (w *Worker) newCell(i int) *cell {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Another goroutine may have created the cell before this goroutine got the lock.
	if c := w.cells[i].Load(); c != nil {
		return c
	}
	typ, class := w.names(i)
	c := &cell{
		timedOut: w.timedOut.WithLabelValues(typ, class), latency: newHistogram(),
	}
	// The first transaction gets an exemplar immediately.
	c.exemplar.Store(-int64(exemplarEvery))
	w.cells[i].Store(c)
	return c
}

// names returns the type and class of a cell.
func (w *Worker) names(i int) (typ, class string) {
	return w.types[i/int(txn.NumClasses)], txn.Class(i % int(txn.NumClasses)).String()
}

// other returns the counter of an outcome with a reason. Such outcomes are rare compared with commits, so a lock is
// fast enough.
func (w *Worker) other(i int, o *txn.Outcome) prometheus.Counter {
	w.mu.Lock()
	defer w.mu.Unlock()
	reason := o.Reason
	if !w.reasons[reason] {
		if len(w.reasons) >= maxReasons {
			reason = otherReason
		} else {
			w.reasons[reason] = true
		}
	}
	k := outcome{i, o.Status, reason}
	c := w.otherwise[k]
	if c == nil {
		vec := map[txn.Status]*prometheus.CounterVec{txn.Aborted: w.aborted, txn.Refused: w.refused, txn.Unknown: w.unknown}[o.Status]
		typ, class := w.names(i)
		c = vec.WithLabelValues(typ, class, reason)
		w.otherwise[k] = c
	}
	return c
}

// NewDriver returns the metrics of a process that generates load. driver is REGION/NUMBER, or process.
func NewDriver(run, database, driver string, cpu func() time.Duration, allowanceMilliCPU int64) prometheus.Collector {
	return metrics.NewCollector([]*metrics.Definition{metrics.DriverCPU, metrics.DriverAllowance}, func(put metrics.Put) {
		put(metrics.DriverCPU, cpu().Seconds())
		put(metrics.DriverAllowance, float64(allowanceMilliCPU)/1000)
	}, run, database, driver)
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
