package load

import (
	"time"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// traits holds the class of a transaction in its low bits, and the flag inexact.
type traits uint8

func traitsOf(class txn.Class, exact bool) traits {
	t := traits(class)
	if !exact {
		t |= inexact
	}
	return t
}

// classAfter returns the class under which an attempt with outcome o is counted. If the footprint was a hint and the
// attempt reached the database, this is the class that the database reported.
func (t traits) classAfter(o *txn.Outcome) txn.Class {
	if t.learns(o) {
		return o.Class
	}
	return txn.Class(t & classBits)
}

// learns reports whether o reveals a class that was unknown before.
func (t traits) learns(o *txn.Outcome) bool {
	return t&inexact != 0 && (o.Status == txn.Committed || o.Status == txn.Aborted)
}

// hold stores the state that client i needs to send its transaction after the keying time, to retry it, and to think
// afterwards. In an open loop, keying and think times are ignored.
func (m *Machine) hold(i int32, t *txn.Transaction, key, think time.Duration) {
	if m.open() {
		key, think = 0, 0
	}
	// Without retries, held is allocated only if a transaction needs it.
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

// backOff schedules another attempt of client i's transaction after an attempt with outcome o. It returns false if
// there will be no further attempt.
func (m *Machine) backOff(i int32, o *txn.Outcome, now time.Duration) bool {
	if !m.retry.covers(o) || !m.running() {
		return false
	}
	c, h := &m.clients[i], &m.held[i]
	// Attempt counts from 0, and the limit includes the first attempt.
	if h.t.Attempt+1 >= m.retry.attempts {
		return false
	}
	pause := m.retry.backoff.pause(h.t.Attempt, m.pauses)
	// The timeout covers all attempts and pauses, so an attempt after it would be pointless.
	if now+pause >= c.sent+m.cfg.Schedule.Timeout {
		return false
	}
	// o is reused for the next outcome, so a copy is needed. The result may be large and is no longer needed.
	last := *o
	last.Result = nil
	h.last, c.state = &last, backingOff
	m.env.After(pause, protocol.Timer{Kind: timerAttempt, Arg: uint64(c.id)})
	return true
}

// again sends the next attempt of client i's transaction: the same call with a new ID. The transaction keeps its
// position in the list of transactions in flight, which is ordered by age.
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
	// The target may still hold the previous attempt, so it must not be modified.
	t := *h.t
	t.ID = m.nextID(i, c)
	t.Attempt++
	h.t, h.last = &t, nil
	c.id, c.state = t.ID, underway
	m.env.Submit(&t)
}

// ReasonNotSent is the reason of transactions that were still being keyed in when their window closed.
const ReasonNotSent = "not-sent"

// withdraw ends the transactions whose next attempt would start only after the window. A transaction in backoff gets
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

// link appends client i to the list of transactions in flight. Clients are linked in the order in which they send, and
// all have the same timeout. The list is therefore ordered by deadline, and a single timer for its head suffices.
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

// attempt handles the timer of an attempt. id is the ID of the last attempt that was sent, or of the first attempt if
// no attempt has been sent yet. attempt sends the next attempt, unless the transaction has timed out.
func (m *Machine) attempt(id txn.ID, now time.Duration) {
	i := m.clientOf(id)
	switch c := &m.clients[i]; {
	case c.id != id: // the client has moved on to another transaction
	case c.state == keying:
		// The transaction becomes due only once it is keyed in.
		m.begin(i, now, now)
	case c.state == backingOff && now >= c.sent+m.cfg.Schedule.Timeout: // the timer is late, and the timeout has passed
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
		if m.clients[i].state == backingOff { // the timer of the next attempt is late; no attempt is in flight
			m.outcome = *m.held[i].last
		}
		m.end(i, &m.outcome, now)
	}
	// begin sets the timer again if the list is empty now.
	m.timeoutAt = 0
	if m.oldest != none {
		m.timeoutAt = m.clients[m.oldest].sent + timeout
		m.env.After(m.timeoutAt-now, protocol.Timer{Kind: timerTimeout})
	}
}
