package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
)

// recorder counts the transactions of a machine in the window of one repetition. Only one goroutine may use it.
type recorder struct {
	region  string
	types   []string
	service bool // whether to record service times separately, for an open loop
	fine    bool // whether to split seconds into tenths
	from    time.Duration

	window result.Window
	// cells is indexed by (type*NumClasses+class)*numOutcomes+outcome; cells are allocated on first use. The outcome is
	// the txn.Status minus one; unfinished and carried over follow.
	cells []*cell

	current  result.Second
	latency  result.SecondHistogram
	timeline []result.Second
}

type cell struct {
	latency, service distribution
	failures         failures
	// further counts the finished attempts that latency does not count.
	further         int64
	furtherFailures failures
}

// failures counts transactions or attempts that did not commit, by reason and by cause.
type failures struct {
	reasons map[string]int64
	causes  [txn.NumCauses]int64
}

func (f *failures) count(o *txn.Outcome) {
	if f.reasons == nil {
		f.reasons = map[string]int64{}
	}
	reason := o.Reason
	// An engine may put details into reasons, so the number of distinct reasons is limited. Reasons that make the run
	// Invalid are always kept.
	if _, known := f.reasons[reason]; !known && len(f.reasons) >= maxReasons && !result.Mistake(reason) {
		reason = otherReason
	}
	f.reasons[reason]++
	f.causes[o.Cause]++
}

// export returns the failures in the form of a report.
func (f *failures) export() (r result.Failures) {
	r.Reasons = f.reasons
	for cause, n := range f.causes {
		if n > 0 {
			r.Add(result.Failures{Causes: map[string]int64{txn.Cause(cause).String(): n}})
		}
	}
	return r
}

type distribution struct {
	count, sum, max int64 // in microseconds
	clipped         int64 // part of count that exceeds the range of a histogram
	histogram       *hdrhistogram.Histogram
}

func (d *distribution) record(us int64) {
	if d.histogram == nil {
		d.histogram = result.NewHistogram()
	}
	d.count++
	d.sum += us
	d.max = max(d.max, us)
	if us > result.HistogramHighest {
		d.clipped++
		return
	}
	// RecordValue cannot fail, because the value is in range.
	_ = d.histogram.RecordValue(us)
}

func (d *distribution) export() result.Distribution {
	return result.Distribution{
		Count: d.count, SumMicroseconds: d.sum, MaxMicroseconds: d.max, Clipped: d.clipped,
		Histogram: result.EncodeHistogram(d.histogram),
	}
}

// maxReasons is the maximum number of separate reasons per type, class and outcome, not counting reasons that make a
// run Invalid.
const maxReasons = 32

const otherReason = "other"

// newRecorder returns a recorder for transactions with at most the given number of attempts; 0 means that transactions
// are not retried.
func newRecorder(region string, types []string, service, fine bool, attempts, repetition int, from time.Duration) *recorder {
	r := &recorder{
		region: region, types: types, service: service, fine: fine, from: from,
		window:  result.Window{Region: region, Repetition: repetition},
		cells:   make([]*cell, len(types)*int(txn.NumClasses)*numOutcomes),
		current: result.Second{Region: region, Repetition: repetition},
	}
	if attempts > 0 {
		r.window.CommittedAfter = make([]int64, attempts)
	}
	return r
}

// classified counts a transaction that was due in the window once its class is known.
func (r *recorder) classified(class txn.Class) {
	w := &r.window
	w.Classified++
	if class.MultiHome() {
		w.MultiHome++
	}
	if class.MultiPartition() {
		w.MultiPartition++
	}
}

// unfinishedStatus marks transactions that were due in the window and in flight when it closed. carriedOverStatus marks
// transactions that were due before the window and still in flight when it closed.
const (
	unfinishedStatus  = txn.Unknown + 1
	carriedOverStatus = txn.Unknown + 2
)

// numOutcomes is the number of outcomes of a sent transaction, including unfinished and carried over.
const numOutcomes = int(carriedOverStatus)

// outcomeName returns the name of an outcome in reports.
func outcomeName(status txn.Status) string {
	switch status {
	case unfinishedStatus:
		return result.Unfinished
	case carriedOverStatus:
		return result.CarriedOver
	}
	return status.String()
}

// cell returns the cell of a type, class and outcome, and allocates it if necessary.
func (r *recorder) cell(typ uint8, class txn.Class, status txn.Status) *cell {
	i := (int(typ)*int(txn.NumClasses)+int(class))*numOutcomes + int(status) - 1
	c := r.cells[i]
	if c == nil {
		c = &cell{}
		r.cells[i] = c
	}
	return c
}

// ended counts a transaction that was due in the window and finished at now, in the same window.
func (r *recorder) ended(typ uint8, class txn.Class, o *txn.Outcome, latency, service, now time.Duration) {
	c := r.cell(typ, class, o.Status)
	us := result.Microseconds(latency)
	c.latency.record(us)
	if r.service {
		c.service.record(result.Microseconds(service))
	}
	r.count(o.Status, now)
	r.current.Attempts++
	if o.Status == txn.Committed {
		r.latency.Record(us)
	} else {
		c.failures.count(o)
	}
}

// underway counts a transaction that is in flight when the window closes, with its waiting time so far.
func (r *recorder) underway(typ uint8, class txn.Class, status txn.Status, latency, service time.Duration) {
	c := r.cell(typ, class, status)
	c.latency.record(result.Microseconds(latency))
	if r.service {
		c.service.record(result.Microseconds(service))
	}
	if status == carriedOverStatus {
		r.window.CarriedOver++
		return
	}
	r.window.Unfinished++
}

// committedAfter counts a transaction by its number of attempts if it committed. before is the number of attempts
// before the last attempt. Retries must be enabled.
func (r *recorder) committedAfter(o *txn.Outcome, before uint8) {
	if o.Status == txn.Committed {
		r.window.CommittedAfter[before]++
	}
}

// carriedIn counts a transaction that was due before the window and finished in it: its last attempt, and the
// transaction itself if it committed.
func (r *recorder) carriedIn(typ uint8, class txn.Class, o *txn.Outcome, now time.Duration) {
	r.attempted(typ, class, o, now)
	if o.Status == txn.Committed {
		r.window.CarriedIn++
		r.count(txn.Committed, now)
	}
}

// retried counts an attempt that finished with o and is now followed by another attempt.
func (r *recorder) retried(typ uint8, class txn.Class, o *txn.Outcome, now time.Duration) {
	r.window.Retried++
	r.attempted(typ, class, o, now)
}

// attempted counts a finished attempt that the method ended does not count.
func (r *recorder) attempted(typ uint8, class txn.Class, o *txn.Outcome, now time.Duration) {
	c := r.cell(typ, class, o.Status)
	c.further++
	if o.Status != txn.Committed {
		c.furtherFailures.count(o)
	}
	r.advance(now)
	r.current.Attempts++
}

// count adds a transaction that finished at now to the timeline.
func (r *recorder) count(status txn.Status, now time.Duration) {
	r.advance(now)
	s := &r.current
	switch status {
	case txn.Committed:
		s.Committed++
	case txn.Aborted:
		s.Aborted++
	default:
		s.Failed++
	}
	if !r.fine {
		return
	}
	if s.Tenths == nil {
		s.Tenths = &result.Tenths{}
	}
	switch tenth := (now - r.from) % time.Second / (time.Second / 10); status {
	case txn.Committed:
		s.Tenths.Committed[tenth]++
	case txn.Aborted:
		s.Tenths.Aborted[tenth]++
	default:
		s.Tenths.Failed[tenth]++
	}
}

// advance closes the current second if now is in a later second.
func (r *recorder) advance(now time.Duration) {
	if s := int((now - r.from) / time.Second); s != r.current.Second {
		r.closeSecond(s)
	}
}

func (r *recorder) closeSecond(next int) {
	// Seconds without any attempt are omitted from the report.
	if r.current.Attempts > 0 {
		r.current.Latency = r.latency.AppendTo(nil)
		r.timeline = append(r.timeline, r.current)
	}
	r.latency = result.SecondHistogram{}
	r.current = result.Second{Region: r.region, Repetition: r.window.Repetition, Second: next}
}

// seal closes the window and appends its counts to report. offered is the offered load of each second if the load has a
// curve.
func (r *recorder) seal(report *result.Report, offered []int64) {
	r.closeSecond(0)
	r.offer(offered)
	for i, c := range r.cells {
		if c == nil {
			continue
		}
		status := i % numOutcomes
		class := i / numOutcomes % int(txn.NumClasses)
		s := result.Series{
			Region: r.region, Repetition: r.window.Repetition,
			Type:     r.types[i/numOutcomes/int(txn.NumClasses)],
			Class:    txn.Class(class).String(),
			Outcome:  outcomeName(txn.Status(status) + 1),
			Failures: c.failures.export(),
			Attempts: result.SeriesAttempts{Count: c.further},
			Latency:  c.latency.export(),
		}
		if s.Outcome != result.Unfinished && s.Outcome != result.CarriedOver { // their last attempts have not finished
			s.Attempts.Count += c.latency.count
		}
		s.Attempts.Add(s.Failures)
		s.Attempts.Add(c.furtherFailures.export())
		if r.service {
			d := c.service.export()
			s.Service = &d
		}
		report.Series = append(report.Series, s)
	}
	report.Windows = append(report.Windows, r.window)
	report.Timeline = append(report.Timeline, r.timeline...)
}

// offer adds the offered load of each second to the timeline.
func (r *recorder) offer(offered []int64) {
	at := map[int]int{}
	for i, s := range r.timeline {
		at[s.Second] = i
	}
	for second, n := range offered {
		i, ok := at[second]
		// A second in which nothing finished still had a load.
		if !ok {
			i = len(r.timeline)
			r.timeline = append(r.timeline, result.Second{Region: r.region, Repetition: r.window.Repetition, Second: second})
		}
		r.timeline[i].Offered = n
	}
}
