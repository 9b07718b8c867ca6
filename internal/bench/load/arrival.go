package load

import (
	"math/bits"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// nextArrival returns the time at which the next transaction of an open loop is due.
func (m *Machine) nextArrival() time.Duration {
	begin := m.cfg.Schedule.begin(m.repetition)
	if m.cfg.Curve != nil {
		return m.nextArrivalOnCurve(begin)
	}
	if m.cfg.Arrival == v1alpha1.ArrivalConstant {
		// The arrivals of a region are distributed to its machines round-robin.
		n := m.arrivals*uint64(m.cfg.Shares) + uint64(m.cfg.Share)
		m.arrivals++
		// Arrivals are computed from their number, not by adding gaps, so rounding errors do not accumulate. The product
		// needs 128 bits.
		hi, lo := bits.Mul64(n, uint64(time.Second))
		q, _ := bits.Div64(hi, lo, uint64(m.cfg.RatePerSecond))
		return begin + time.Duration(q)
	}
	// Splitting a Poisson process into shares of its rate yields independent Poisson processes.
	m.poisson += m.gaps.ExpFloat64() * float64(time.Second) * float64(m.cfg.Shares) / float64(m.cfg.RatePerSecond)
	return begin + time.Duration(m.poisson)
}

// nextArrivalOnCurve stretches the times between arrivals so that the number of arrivals follows the integral of the
// curve. A Poisson process remains a Poisson process (Lewis and Shedler, 1979, by inversion), and equal gaps remain
// equal while the curve is constant. After the last arrival, the next arrival is due when the window closes, so it is
// never sent.
func (m *Machine) nextArrivalOnCurve(begin time.Duration) time.Duration {
	var seconds float64
	if m.cfg.Arrival == v1alpha1.ArrivalConstant {
		seconds = float64(m.arrivals*uint64(m.cfg.Shares)+uint64(m.cfg.Share)) / float64(m.cfg.RatePerSecond)
		m.arrivals++
	} else {
		m.poisson += m.gaps.ExpFloat64() * float64(time.Second) * float64(m.cfg.Shares) / float64(m.cfg.RatePerSecond)
		seconds = m.poisson / float64(time.Second)
	}
	at, ok := m.cfg.Curve.when(seconds)
	if !ok {
		return m.to
	}
	return begin + at
}

// arrive admits the arrivals of an open loop that are due by now.
func (m *Machine) arrive(now time.Duration) {
	if !m.open() || !m.running() {
		return
	}
	for m.due <= now {
		m.admit(m.due)
		m.due = m.nextArrival()
	}
}

// awaitArrival sets a timer for the next arrival.
func (m *Machine) awaitArrival(now time.Duration) {
	// The repetition in Arg lets Fire ignore timers of an earlier repetition.
	m.env.After(max(0, m.due-now), protocol.Timer{Kind: timerArrival, Arg: uint64(m.repetition)})
}

// admit handles an arrival. A free client sends the transaction. If no client is free, the arrival is queued, or
// dropped if the queue is full.
func (m *Machine) admit(due time.Duration) {
	if m.recorder != nil {
		m.recorder.window.Due++
		if m.cfg.Curve != nil {
			m.volume.add(m.cfg.Curve, due-m.from, 1)
		}
	}
	if n := len(m.idle); n > 0 {
		i := m.idle[n-1]
		m.idle = m.idle[:n-1]
		m.begin(i, due, m.env.Now())
		return
	}
	if m.queue.len() >= m.cfg.Queue {
		m.progress.dropped.Add(1)
		if m.recorder != nil {
			m.recorder.window.Dropped++
		}
		return
	}
	m.queue.push(due)
}

// ring is a growing FIFO queue of times.
type ring struct {
	items      []time.Duration
	head, size int
}

func (r *ring) len() int { return r.size }

func (r *ring) clear() { r.head, r.size = 0, 0 }

func (r *ring) push(d time.Duration) {
	if r.size == len(r.items) {
		// The two halves of the ring are copied in order, so that head becomes 0.
		items := make([]time.Duration, max(64, 2*len(r.items)))
		n := copy(items, r.items[r.head:])
		copy(items[n:], r.items[:r.head])
		r.items, r.head = items, 0
	}
	r.items[(r.head+r.size)%len(r.items)] = d
	r.size++
}

// first returns the item that pop would return, without removing it.
func (r *ring) first() (time.Duration, bool) {
	if r.size == 0 {
		return 0, false
	}
	return r.items[r.head], true
}

func (r *ring) pop() (time.Duration, bool) {
	if r.size == 0 {
		return 0, false
	}
	d := r.items[r.head]
	r.head = (r.head + 1) % len(r.items)
	r.size--
	return d, true
}
