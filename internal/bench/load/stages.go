package load

import (
	"time"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// advance makes the changes of stage that are due at now. Everything that happens goes through it first, so that a
// late timer cannot put a transaction on the wrong side of a window.
func (m *Machine) advance(now time.Duration) {
	if now >= m.change && m.stage != Done {
		m.nextStages(now)
	}
}

func (m *Machine) nextStages(now time.Duration) {
	for now >= m.change && m.stage != Done {
		m.nextStage(now)
	}
	// Sent only now, since with no warm-up the window is open already.
	if m.begun != m.repetition {
		m.begun = m.repetition
		m.beginRepetition(now)
	}
}

func (m *Machine) nextStage(now time.Duration) {
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
		// What arrived before the window still belongs to the warm-up, even if the timer is late.
		m.arrive(min(now, m.from-1))
		m.stage, m.change = Measure, m.to
		m.recorder = newRecorder(m.cfg.RegionName, m.report.Types, m.open(), m.cfg.Fine, int(m.retry.attempts), m.repetition, m.from)
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
			m.change = m.to // no later event needs a pause
		}
		m.withdraw(now)
		m.wake(now)
	}
	m.progress.stage.Store(int32(m.stage))
	m.progress.repetition.Store(int32(m.repetition))
}

// closeWindow closes the window at now, or at its end if now is later, and reports it. Transactions in flight or in the
// queue are reported with their waiting times: nothing else shows a stall that lasts until the window closes.
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
		if c.due < m.from { // nothing else shows a transaction that takes longer than the window
			status = carriedOverStatus
		}
		m.recorder.underway(c.typ, txn.Class(c.traits&classBits), status, at-c.due, at-c.sent)
		if c.state == backingOff { // the attempt has ended; the next one would count it, after the window
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

// maxRamp bounds the time over which a repetition's clients start.
const maxRamp = time.Second

// ramp starts the clients of a closed loop. Clients with think times start by thinking: think times have no memory, so
// the load is in its steady state from the first instant. Other clients start one after another over the first half of
// the warm-up, at most a second. If all started together, they would queue up in front of the database and stay in
// step.
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
		if m.clients[m.ramped].state == idle {
			m.begin(int32(m.ramped), now, now)
		}
	}
	if m.ramped < n {
		m.env.After(max(time.Millisecond, over/time.Duration(n)), protocol.Timer{Kind: timerRamp, Arg: uint64(m.repetition)})
	}
}

// activeIn is the number of the machine's clients that take part in a slice of the curve.
func (m *Machine) activeIn(slice int) int {
	c := m.cfg.Curve
	if c == nil {
		return len(m.clients)
	}
	n := c.clients(slice, m.cfg.ClientsPerRegion) - m.cfg.Share + m.cfg.Shares - 1
	return min(max(0, n)/m.cfg.Shares, len(m.clients))
}

// awaitSlice asks for a timer at the next slice of the curve, in a closed loop.
func (m *Machine) awaitSlice(now time.Duration) {
	if next := m.slice + 1; !m.open() && next < len(m.cfg.Curve.levels) {
		m.env.After(max(0, m.from+m.cfg.Curve.start(next)-now), protocol.Timer{Kind: timerCurve, Arg: uint64(m.repetition)})
	}
}

// follow moves to the slice of the curve that contains now. Clients that no longer take part finish their transaction
// in flight. Clients that take part again start immediately, because a step has no ramp.
func (m *Machine) follow(now time.Duration) {
	m.tally(now)
	for next := m.slice + 1; next < len(m.cfg.Curve.levels) && m.from+m.cfg.Curve.start(next) <= now; next++ {
		m.slice = next
	}
	before := m.active
	m.active = m.activeIn(m.slice)
	m.activate(before, now)
	m.awaitSlice(now)
}

// activate starts the clients that take part, from number first on, unless they are busy. Clients with think times
// start by thinking.
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

// tally counts the time of the clients that take part in the open window until now.
func (m *Machine) tally(now time.Duration) {
	if m.cfg.Curve == nil || m.open() || m.recorder == nil {
		return
	}
	until := (min(now, m.to) - m.from).Milliseconds()
	m.volume.take(m.cfg.Curve, int64(m.active), m.counted, until)
	m.counted = max(m.counted, until)
}
