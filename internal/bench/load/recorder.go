package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
)

// recorder counts what one machine's transactions did in the window of one repetition. It belongs to one goroutine.
type recorder struct {
	region  string
	types   []string
	service bool // record service times apart: in an open loop
	fine    bool // split seconds into tenths
	from    time.Duration

	window result.Window
	// cells[(type*NumClasses+class)*numOutcomes+outcome], made when first used. The outcomes are the values of txn.Status
	// minus one, unfinished and carried over.
	cells []*cell

	current  result.Second
	latency  result.SecondHistogram
	timeline []result.Second
}

type cell struct {
	latency, service distribution
	failures         failures
	// further counts the attempts of the recorded transactions before their last attempts.
	further         int64
	furtherFailures failures
}

// failures counts the reasons why transactions or attempts were not committed.
type failures struct {
	reasons map[string]int64
	causes  [txn.NumCauses]int64
}

func (f *failures) count(o *txn.Outcome) {
	if f.reasons == nil {
		f.reasons = map[string]int64{}
	}
	reason := o.Reason
	if _, known := f.reasons[reason]; !known && len(f.reasons) >= maxReasons && !result.Mistake(reason) {
		reason = otherReason
	}
	f.reasons[reason]++
	f.causes[o.Cause]++
}

// export returns the failures as a report has them.
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
	count, sum, max int64 // microseconds
	clipped         int64 // of count: too long for a histogram
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
	// Cannot fail: the value is in range.
	_ = d.histogram.RecordValue(us)
}

func (d *distribution) export() result.Distribution {
	return result.Distribution{
		Count: d.count, SumMicroseconds: d.sum, MaxMicroseconds: d.max, Clipped: d.clipped,
		Histogram: result.EncodeHistogram(d.histogram),
	}
}

// maxReasons bounds the separate reasons of one type, class and outcome, apart from those that make a run Invalid.
const maxReasons = 32

const otherReason = "other"

// newRecorder makes a recorder of transactions with at most the given number of attempts; 0 means that none is retried.
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

// classified counts a transaction that is due in the window, when its class is known.
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

// unfinishedStatus replaces the txn.Status of transactions that were due in the window and are in flight when it
// closes. carriedOverStatus replaces it for transactions that were due before the window and still are in flight.
const (
	unfinishedStatus  = txn.Unknown + 1
	carriedOverStatus = txn.Unknown + 2
)

// numOutcomes is the number of outcomes of a transaction that was sent, with those two.
const numOutcomes = int(carriedOverStatus)

// outcomeName returns the name of an outcome in a report.
func outcomeName(status txn.Status) string {
	switch status {
	case unfinishedStatus:
		return result.Unfinished
	case carriedOverStatus:
		return result.CarriedOver
	}
	return status.String()
}

// cell returns the cell of a type, class and outcome.
func (r *recorder) cell(typ uint8, class txn.Class, status txn.Status) *cell {
	i := (int(typ)*int(txn.NumClasses)+int(class))*numOutcomes + int(status) - 1
	c := r.cells[i]
	if c == nil {
		c = &cell{}
		r.cells[i] = c
	}
	return c
}

// ended counts a transaction that was due in the window and ended in it, at now.
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

// underway counts a transaction that is under way when the window closes, by the time that it has waited so far.
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

// committedAfter counts a transaction that was due in the window and ended in it by the attempts before its last. The
// recorder is of transactions that may have several.
func (r *recorder) committedAfter(o *txn.Outcome, before uint8) {
	if o.Status == txn.Committed {
		r.window.CommittedAfter[before]++
	}
}

// carriedIn counts a transaction that was due before the window and ended in it: its last attempt, and itself if it
// committed.
func (r *recorder) carriedIn(typ uint8, class txn.Class, o *txn.Outcome, now time.Duration) {
	r.attempted(typ, class, o, now)
	if o.Status == txn.Committed {
		r.window.CarriedIn++
		r.count(txn.Committed, now)
	}
}

// retried counts an attempt that ended with o and is followed by another, now.
func (r *recorder) retried(typ uint8, class txn.Class, o *txn.Outcome, now time.Duration) {
	r.window.Retried++
	r.attempted(typ, class, o, now)
}

// attempted counts an attempt of the recorded transactions that is not their last.
func (r *recorder) attempted(typ uint8, class txn.Class, o *txn.Outcome, now time.Duration) {
	c := r.cell(typ, class, o.Status)
	c.further++
	if o.Status != txn.Committed {
		c.furtherFailures.count(o)
	}
	r.advance(now)
	r.current.Attempts++
}

// count counts a transaction that ended at now in the timeline.
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

// advance closes the current second when now is in a later second.
func (r *recorder) advance(now time.Duration) {
	if s := int((now - r.from) / time.Second); s != r.current.Second {
		r.closeSecond(s)
	}
}

func (r *recorder) closeSecond(next int) {
	if r.current.Attempts > 0 {
		r.current.Latency = r.latency.AppendTo(nil)
		r.timeline = append(r.timeline, r.current)
	}
	r.latency = result.SecondHistogram{}
	r.current = result.Second{Region: r.region, Repetition: r.window.Repetition, Second: next}
}

// seal closes the window and appends the counts to report. If the load changes, it includes the offered load of each
// second.
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
		if s.Outcome != result.Unfinished && s.Outcome != result.CarriedOver { // whose last attempts have not ended
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

// offer adds the load of each second to the timeline.
func (r *recorder) offer(offered []int64) {
	at := map[int]int{}
	for i, s := range r.timeline {
		at[s.Second] = i
	}
	for second, n := range offered {
		i, ok := at[second]
		if !ok {
			i = len(r.timeline)
			r.timeline = append(r.timeline, result.Second{Region: r.region, Repetition: r.window.Repetition, Second: second})
		}
		r.timeline[i].Offered = n
	}
}
