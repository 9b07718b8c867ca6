package late

import (
	"bytes"
	"compress/flate"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// Beat is the interval at which the sleeper wakes up. A hundred wake-ups per second cost a thousandth of a core.
	Beat = 10 * time.Millisecond
	// buckets is the number of buckets per second: one for a lateness below floor, and three for each doubling from floor
	// to 268 s.
	buckets = 64
	floor   = 128 * time.Microsecond
	// mostSeconds is the maximum number of seconds that a Recorder keeps. No run is longer.
	mostSeconds = 8 * 3600
	second      = time.Second
)

// cell is the histogram of a second: the number of wake-ups that were due in this second, for each bucket of lateness.
type cell [buckets]uint8

// bucketOf returns the bucket of a lateness.
func bucketOf(d time.Duration) int {
	if d < floor {
		return 0
	}
	return min(buckets-1, 1+int(3*math.Log2(float64(d)/float64(floor))))
}

// upper returns the upper bound of the latenesses in a bucket. The last bucket also counts all larger values. A
// lateness below floor counts as 0.
func upper(bucket int) time.Duration {
	if bucket == 0 {
		return 0
	}
	return time.Duration(float64(floor) * math.Exp2(float64(bucket)/3)).Truncate(time.Microsecond)
}

// Recorder records the lateness of a process for each second of its clock.
type Recorder struct {
	// now is a monotonic clock; used returns the CPU time of the process.
	now, used func() time.Duration

	mu    sync.Mutex
	since time.Duration // start of the first recorded second, in whole seconds
	cells []cell
}

// NewRecorder returns a recorder that reads a monotonic clock and the CPU time of the process.
func NewRecorder(now, used func() time.Duration) *Recorder {
	return &Recorder{now: now, used: used, since: now().Truncate(second)}
}

// Run records until ctx is done.
func (r *Recorder) Run(ctx context.Context) {
	alarm := time.NewTimer(Beat)
	defer alarm.Stop()
	asked, used := r.now(), r.used()
	for {
		select {
		case <-ctx.Done():
			return
		case <-alarm.C:
		}
		now, usedNow := r.now(), r.used()
		r.Woke(asked+Beat, now, usedNow-used)
		asked, used = now, usedNow
		alarm.Reset(Beat)
	}
}

// Woke records a wake-up that was due at due and happened at at. used is the CPU time that the process has used since
// the previous wake-up. A late wake-up also counts for the beats that it missed.
func (r *Recorder) Woke(due, at, used time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// For each missed beat, the lateness is one Beat less than for the beat before (coordinated omission).
	for late := max(0, at-due-max(0, used)); ; late -= Beat {
		c := r.cell(due)
		if c == nil {
			return
		}
		if n := &c[bucketOf(max(0, late))]; *n < math.MaxUint8 {
			*n++
		}
		if due += Beat; late <= Beat || due >= at {
			return
		}
	}
}

// cell returns the cell for the second of a time, or nil if that second is no longer kept.
func (r *Recorder) cell(at time.Duration) *cell {
	i := int((at - r.since) / second)
	if i < 0 {
		return nil
	}
	if i >= mostSeconds { // drop the older half, so that copies are rare
		drop := i - mostSeconds/2
		r.cells = slices.Clone(r.cells[min(drop, len(r.cells)):])
		r.since += time.Duration(drop) * second
		i -= drop
	}
	for len(r.cells) <= i {
		r.cells = append(r.cells, cell{})
	}
	return &r.cells[i]
}

// Record is the recorded data in its wire format.
type Record struct {
	// Since is the start of the first recorded second, on the clock of the process.
	Since time.Duration `json:"sinceNanoseconds"`
	// Seconds contains the cells of all seconds from Since on, compressed.
	Seconds []byte `json:"seconds"`
}

// Record returns the data recorded so far.
func (r *Recorder) Record() *Record {
	r.mu.Lock()
	since, cells := r.since, slices.Clone(r.cells)
	r.mu.Unlock()
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	for i := 0; err == nil && i < len(cells); i++ {
		_, err = w.Write(cells[i][:])
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("late: memory takes what is written: " + err.Error())
	}
	return &Record{since, packed.Bytes()}
}

// Span is the interval [From, To).
type Span struct{ From, To time.Duration }

// Lateness summarizes the lateness of a process over a number of seconds.
type Lateness struct {
	// Seconds is the number of seconds.
	Seconds int
	// P50, P99 and Max are accurate to 25%; values below 128 microseconds are 0.
	P50, P99, Max time.Duration
}

// In returns the lateness over the seconds whose middle is in one of the spans. It excludes seconds that overlap a span
// in except. A nil Record has no seconds.
func (r *Record) In(spans, except []Span) (Lateness, error) {
	var out Lateness
	if r == nil {
		return out, nil
	}
	unpack := flate.NewReader(bytes.NewReader(r.Seconds))
	var all [buckets]int64
	for i := 0; ; i++ {
		var c cell
		if _, err := io.ReadFull(unpack, c[:]); err == io.EOF {
			break
			// Limit the number of seconds, because a crafted record could expand without bound.
		} else if err != nil || i >= mostSeconds {
			return out, fmt.Errorf("the seconds in which a process was late: %d of them are readable, and %d can be kept: %v", i, mostSeconds, err)
		}
		from := r.Since + time.Duration(i)*second
		middle, to := from+second/2, from+second
		if !slices.ContainsFunc(spans, func(s Span) bool { return s.From <= middle && middle < s.To }) ||
			slices.ContainsFunc(except, func(s Span) bool { return s.From < to && from < s.To }) {
			continue
		}
		out.Seconds++
		for b, n := range c {
			all[b] += int64(n)
		}
	}
	out.P50, out.P99, out.Max = quantile(&all, 50), quantile(&all, 99), quantile(&all, 100)
	return out, nil
}

// quantile returns the upper bound of the bucket that contains a percentile; 0 if there are no wake-ups.
func quantile(all *[buckets]int64, percent int64) time.Duration {
	total := int64(0)
	for _, n := range all {
		total += n
	}
	seen := int64(0)
	for b, n := range all {
		if seen += n; n > 0 && seen*100 >= total*percent {
			return upper(b)
		}
	}
	return 0
}
