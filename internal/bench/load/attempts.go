package load

import (
	"time"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// traits are the recorded properties of a transaction apart from its type: its class, in the lowest bits, and a flag.
type traits uint8

func traitsOf(class txn.Class, exact bool) traits {
	t := traits(class)
	if !exact {
		t |= inexact
	}
	return t
}

// classAfter is the class that counts for an attempt with outcome o. If the footprint was a hint, it is the class that
// the database reports, provided that the attempt reached the database.
func (t traits) classAfter(o *txn.Outcome) txn.Class {
	if t.learns(o) {
		return o.Class
	}
	return txn.Class(t & classBits)
}

// learns reports whether o reveals the class of a transaction that was unknown before.
func (t traits) learns(o *txn.Outcome) bool {
	return t&inexact != 0 && (o.Status == txn.Committed || o.Status == txn.Aborted)
}

// hold keeps the state needed to retry client i's transaction, to wait until it has been keyed in, and to think after
// it. Clients of an open loop neither key in nor think.
func (m *Machine) hold(i int32, t *txn.Transaction, key, think time.Duration) {
	if m.open() {
		key, think = 0, 0
	}
	if m.held == nil && key+think > 0 {
		m.held = make([]held, len(m.clients))
	}
	if m.held != nil {
		m.held[i] = held{t: t, think: think}
	}
	if key > 0 {
		m.clients[i].state = keying
		m.env.After(key, protocol.Timer{Kind: timerAttempt, Arg: uint64(t.ID)})
	}
}

// backOff schedules another attempt of client i's transaction after an attempt with outcome o, and reports whether
// there will be one.
func (m *Machine) backOff(i int32, o *txn.Outcome, now time.Duration) bool {
	if !m.retry.covers(o) || !m.running() {
		return false
	}
	c, h := &m.clients[i], &m.held[i]
	if h.t.Attempt+1 >= m.retry.attempts {
		return false
	}
	pause := m.retry.backoff.pause(h.t.Attempt, m.pauses)
	if now+pause >= c.sent+m.cfg.Schedule.Timeout {
		return false
	}
	last := *o
	last.Result = nil
	h.last, c.state = &last, backingOff
	m.env.After(pause, protocol.Timer{Kind: timerAttempt, Arg: uint64(c.id)})
	return true
}

// again sends the next attempt of client i's transaction: the same call, under a new id. The transaction keeps its
// position in the list by age.
func (m *Machine) again(i int32, now time.Duration) {
	c, h := &m.clients[i], &m.held[i]
	class := c.traits.classAfter(h.last)
	if m.recorder != nil {
		m.recorder.retried(c.typ, class, h.last, now)
	}
	if m.cfg.Observer != nil {
		m.cfg.Observer.Retried(c.typ, class, h.last)
	}
	m.progress.retried.Add(1)
	t := *h.t
	t.ID = m.nextID(i, c)
	t.Attempt++
	h.t, h.last = &t, nil
	c.id, c.state = t.ID, underway
	m.env.Submit(&t)
}

// ReasonNotSent is the reason of transactions that were still being keyed in when their window closed.
const ReasonNotSent = "not-sent"

// withdraw stops transactions that would be sent after the window has closed. A transaction whose client backs off has
// the outcome of its last attempt. A transaction that is being keyed in was never sent.
func (m *Machine) withdraw(now time.Duration) {
	for i := range m.held {
		switch c := &m.clients[i]; c.state {
		case backingOff:
			m.end(int32(i), m.held[i].last, now)
		case keying:
			c.state, m.held[i] = idle, held{}
			m.generator.Done(i, txn.Outcome{ID: c.id, Status: txn.Refused, Cause: txn.CauseClient, Reason: ReasonNotSent})
		}
	}
}

// link appends client i to the list of transactions in flight. Clients send in the order of time and all have the same
// timeout. The list is therefore in the order of deadlines, and one timer for its head is enough.
func (m *Machine) link(i int32) {
	c := &m.clients[i]
	c.prev, c.next = m.newest, none
	if m.newest == none {
		m.oldest = i
	} else {
		m.clients[m.newest].next = i
	}
	m.newest = i
}

func (m *Machine) unlink(i int32) {
	c := &m.clients[i]
	if c.prev == none {
		m.oldest = c.next
	} else {
		m.clients[c.prev].next = c.next
	}
	if c.next == none {
		m.newest = c.prev
	} else {
		m.clients[c.next].prev = c.prev
	}
}

// attempt makes the attempt that was to come after id, or that has it, unless its time is over.
func (m *Machine) attempt(id txn.ID, now time.Duration) {
	i := m.clientOf(id)
	switch c := &m.clients[i]; {
	case c.id != id: // the client has gone on
	case c.state == keying:
		m.begin(i, now, now)
	case c.state == backingOff && now >= c.sent+m.cfg.Schedule.Timeout: // the timer is late
		m.end(i, m.held[i].last, now)
	case c.state == backingOff:
		m.again(i, now)
	}
}

// expire gives up on transactions that have timed out.
func (m *Machine) expire(now time.Duration) {
	timeout := m.cfg.Schedule.Timeout
	for m.oldest != none && now >= m.clients[m.oldest].sent+timeout {
		i := m.oldest
		m.outcome = txn.Outcome{ID: m.clients[i].id, Status: txn.Unknown, Cause: txn.CauseClient, Reason: Timeout}
		if m.clients[i].state == backingOff { // the timer of its next attempt is late
			m.outcome = *m.held[i].last
		}
		m.end(i, &m.outcome, now)
	}
	m.timeoutAt = 0
	if m.oldest != none {
		m.timeoutAt = m.clients[m.oldest].sent + timeout
		m.env.After(m.timeoutAt-now, protocol.Timer{Kind: timerTimeout})
	}
}
