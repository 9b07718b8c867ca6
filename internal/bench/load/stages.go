package load

import (
	"time"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// advance performs the changes of stage that are due by now. Every event calls it first, so that a late timer cannot
// put a transaction on the wrong side of a window.
func (m *Machine) advance(now time.Duration) {
	if now >= m.change && m.stage != Done {
		m.nextStages(now)
	}
}

func (m *Machine) nextStages(now time.Duration) {
	for now >= m.change && m.stage != Done {
		m.nextStage(now)
	}
	// Send only after all changes of stage. Without a warm-up, the window must already be open, so that the first
	// transactions count in it.
	if m.begun != m.repetition {
		m.begun = m.repetition
		m.beginRepetition(now)
	}
}

func (m *Machine) nextStage(now time.Duration) {
	// Timers may be so late that whole stages have passed. nextStages calls this method once for each of them.
	s := m.cfg.Schedule
	switch m.stage {
	case Waiting, Drain:
		if m.stage == Drain && m.repetition == s.Repetitions {
			m.stage = Done
			break
		}
		m.repetition++
		m.from, m.to = s.Window(m.repetition)
		m.stage, m.change = Warmup, m.from
		m.wake(now)
		m.slice = 0
		m.active = m.activeIn(0)
		if m.open() {
			m.arrivals, m.poisson = 0, 0
			m.due = m.nextArrival()
		}
	case Warmup:
		m.opened(now)
		// Arrivals before the window belong to the warm-up, even if the timer is late.
		m.arrive(min(now, m.from-1))
		m.stage, m.change = Measure, m.to
		m.recorder = newRecorder(m.cfg.RegionName, m.report.Types, m.open(), m.cfg.Fine, int(m.retry.attempts), m.repetition, m.from)
		// With a queue from the warm-up, latencies in the window would include waiting times from before the window opened.
		m.recorder.window.Discarded = int64(m.queue.len())
		m.queue.clear()
		if m.cfg.Curve != nil {
			m.counted = 0
			m.volume.newWindow(m.cfg.Curve)
			m.awaitSlice(now)
		}
		m.wake(now)
	case Measure:
		m.arrive(min(now, m.to-1))
		m.closeWindow(now)
		m.stage, m.change = Drain, m.to+drain
		if m.repetition == s.Repetitions {
			m.change = m.to // nothing follows, so no pause is needed
		}
		m.withdraw(now)
		m.wake(now)
	}
	m.progress.stage.Store(int32(m.stage))
	m.progress.repetition.Store(int32(m.repetition))
}

// closeWindow closes the window at now, or at its end if now is later, and reports it. Transactions in flight or in the
// queue are reported with their waiting times, because nothing else shows a stall that lasts until the window closes.
func (m *Machine) closeWindow(now time.Duration) {
	m.tally(now)
	at, w := min(now, m.to), &m.recorder.window
	w.MeasuredMicroseconds = result.Microseconds(at - m.from)
	w.Clients, w.BusyClients = int64(m.active), int64(m.underway)
	if !m.quiet {
		w.SilentMicroseconds = result.Microseconds(m.silence(at))
	}
	for i := m.oldest; i != none; i = m.clients[i].next {
		c, status := &m.clients[i], unfinishedStatus
		if c.due < m.from { // the transaction has taken longer than the window, which no other figure shows
			status = carriedOverStatus
		}
		m.recorder.underway(c.typ, txn.Class(c.traits&classBits), status, at-c.due, at-c.sent)
		// The last attempt has finished, but would be counted only when the next attempt starts, which is after the window.
		if c.state == backingOff {
			last := m.held[i].last
			m.recorder.attempted(c.typ, c.traits.classAfter(last), last, at-1)
		}
	}
	if due, ok := m.queue.first(); ok {
		w.UnsentMicroseconds = result.Microseconds(at - due)
	}
	w.Backlog = int64(m.queue.len())
	m.queue.clear()
	m.recorder.seal(m.report, m.volume.seconds)
	m.recorder = nil
}

func (m *Machine) beginRepetition(now time.Duration) {
	switch {
	case !m.running():
	case m.open():
		m.arrive(now)
		m.awaitArrival(now)
	default:
		m.ramped = 0
		m.ramp(now)
	}
}

// maxRamp is the maximum time over which the clients of a repetition start.
const maxRamp = time.Second

// ramp starts the clients of a closed loop. Clients with think times start by thinking: exponential think times are
// memoryless, so the load is in its steady state immediately. Other clients start one after another over the first half
// of the warm-up, but at most a second. If they all started together, they would queue up at the database and stay
// synchronised.
func (m *Machine) ramp(now time.Duration) {
	if m.cfg.ThinkTime > 0 {
		m.activate(0, now)
		return
	}
	begin := m.cfg.Schedule.begin(m.repetition)
	over := min(m.cfg.Schedule.Warmup/2, maxRamp)
	n := m.active
	started := n
	if past := now - begin; past < over && n > 0 {
		started = 1 + int(float64(n-1)*float64(past)/float64(over))
	}
	for ; m.ramped < started; m.ramped++ {
		// A client may still be busy with a transaction of the previous repetition.
		if m.clients[m.ramped].state == idle {
			m.begin(int32(m.ramped), now, now)
		}
	}
	if m.ramped < n {
		m.env.After(max(time.Millisecond, over/time.Duration(n)), protocol.Timer{Kind: timerRamp, Arg: uint64(m.repetition)})
	}
}

// activeIn returns the number of the machine's clients that are active in a slice of the curve.
func (m *Machine) activeIn(slice int) int {
	c := m.cfg.Curve
	if c == nil {
		return len(m.clients)
	}
	// The active clients of the region have the lowest numbers. The clients with numbers Share, Share + Shares, ... belong
	// to this machine, hence the division rounded up.
	n := c.clients(slice, m.cfg.ClientsPerRegion) - m.cfg.Share + m.cfg.Shares - 1
	return min(max(0, n)/m.cfg.Shares, len(m.clients))
}

// awaitSlice sets a timer for the next slice of the curve, in a closed loop.
func (m *Machine) awaitSlice(now time.Duration) {
	if next := m.slice + 1; !m.open() && next < len(m.cfg.Curve.levels) {
		m.env.After(max(0, m.from+m.cfg.Curve.start(next)-now), protocol.Timer{Kind: timerCurve, Arg: uint64(m.repetition)})
	}
}

// follow moves on to the slice of the curve that contains now. Clients that are no longer active finish their current
// transaction. Clients that become active start immediately, because a step has no ramp.
func (m *Machine) follow(now time.Duration) {
	// Count the time until now with the number of clients before the change.
	m.tally(now)
	for next := m.slice + 1; next < len(m.cfg.Curve.levels) && m.from+m.cfg.Curve.start(next) <= now; next++ {
		m.slice = next
	}
	before := m.active
	m.active = m.activeIn(m.slice)
	m.activate(before, now)
	m.awaitSlice(now)
}

// activate starts the active clients from number first onwards, unless they are busy. Clients with think times start by
// thinking.
func (m *Machine) activate(first int, now time.Duration) {
	for i := first; i < m.active; i++ {
		switch {
		case m.clients[i].state != idle:
		case m.cfg.ThinkTime > 0:
			m.rest(int32(i), m.think())
		default:
			m.begin(int32(i), now, now)
		}
	}
}

// tally counts the time of the active clients in the open window until now.
func (m *Machine) tally(now time.Duration) {
	if m.cfg.Curve == nil || m.open() || m.recorder == nil {
		return
	}
	until := (min(now, m.to) - m.from).Milliseconds()
	m.volume.take(m.cfg.Curve, int64(m.active), m.counted, until)
	m.counted = max(m.counted, until)
}
