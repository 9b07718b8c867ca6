package spanner

import (
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// leaseholder is the state that a group's leader keeps outside the log during its term.
type leaseholder struct {
	holders map[raftgroup.Name]*holder
	locks   lockTable
	// readied are the holders that may have received all requested locks. unleased are the holders with all locks that
	// wait for proof that there is no other leaseholder.
	readied, unleased []*holder

	// preparing are the timestamps of transactions whose preparation has been proposed but not yet applied.
	preparing map[raftgroup.Name]uint64

	// queries are the queries about unprepared transactions. Their answers wait until a prevent command has been applied.
	queries map[raftgroup.Name][]query
	// recoveries are the attempts to find the outcomes of prepared transactions.
	recoveries map[raftgroup.Name]*recovery
}

// stage is a transaction's progress at a leaseholder.
type stage uint8

const (
	// growing: the transaction is acquiring locks and may be wounded.
	growing stage = iota
	// proposed: its commit or preparation was proposed.
	proposed
	// holding: it is prepared and keeps its locks.
	holding
	// lost: its locks were taken away, and its coordinator is notified.
	lost
)

// holder is a transaction that holds or waits for locks.
type holder struct {
	name  raftgroup.Name
	age   Age
	stage stage
	locks []*lock
	// missing is the number of requested locks that are not granted yet.
	missing int
	// op is the request that needs the locks or the lease: a *Read, *Commit, *Prepare or *Ask; nil if there is none.
	op protocol.Message
	// contended is set once the coordinator was notified that an older transaction waits for this transaction.
	contended bool
	// unleased is set while the holder has all locks of op and waits for the lease. mark is consensus.Group.Mark at the
	// start of the wait.
	unleased bool
	mark     time.Duration
}

func (g *group) init() {
	l := &g.leaseholder
	l.holders = map[raftgroup.Name]*holder{}
	l.locks = lockTable{units: map[txn.Key]*unit{}, wound: g.wounded, contend: g.contended, ready: func(h *holder) { g.readied = append(g.readied, h) }}
	l.preparing = map[raftgroup.Name]uint64{}
	l.queries = map[raftgroup.Name][]query{}
	l.recoveries = map[raftgroup.Name]*recovery{}
}

// Step implements raftgroup.Machine. A new leaseholder has applied all prepared transactions and reinstates their
// locks. A node that no longer leads drops its leaseholder state.
func (g *group) Step(leads bool) {
	g.leaseholder = leaseholder{}
	g.init()
	if !leads {
		return
	}
	g.r.counters.terms++
	// tick must check the coordinators of the prepared transactions even if no message about them arrives.
	g.r.tickLater()
	// Sorted names keep the order of locks the same in every replay.
	for _, n := range g.names() {
		g.r.env.Mark(lockReinstated)
		e := g.prepared[n]
		// The log does not contain the transaction's age, and a prepared transaction cannot be wounded. With the highest
		// start it counts as the youngest holder, so its coordinator is notified of every transaction that waits for it.
		h := &holder{name: n, stage: holding, age: Age{Start: 1<<64 - 1}}
		g.holders[n] = h
		for i := range e.writes {
			g.locks.reinstate(&lock{h: h, rows: txn.Point(e.writes[i].Key), exclusive: true})
		}
		for _, r := range e.reads {
			g.locks.reinstate(&lock{h: h, rows: r})
		}
	}
}

// answer sends a reply to a transaction's coordinator.
func (g *group) answer(n raftgroup.Name, reply Reply, timestamp uint64) {
	g.r.send(n.Coordinator, &Answer{g.header(n), reply, timestamp})
}

func (g *group) header(n raftgroup.Name) Header {
	return Header{Group: g.Shard, Term: g.Term, Number: n.Number, Clock: g.r.now()}
}

// Serve implements raftgroup.Machine.
func (g *group) Serve(from geo.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *Read:
		g.read(raftgroup.Name{Coordinator: from, Number: m.Number}, m)
	case *Commit:
		g.effects(raftgroup.Name{Coordinator: from, Number: m.Number}, &m.Effects, m)
	case *Prepare:
		g.effects(raftgroup.Name{Coordinator: from, Number: m.Number}, &m.Effects, m)
	case *Resolve:
		g.resolve(from, raftgroup.Name{Coordinator: m.Of, Number: m.Number}, m)
	case *Ask:
		g.asked(raftgroup.Name{Coordinator: from, Number: m.Number}, m)
	case *Query:
		g.query(from, m)
	}
}

// read handles a request for rows: it requests the locks, and proceed reads once they are granted.
func (g *group) read(n raftgroup.Name, m *Read) {
	h := g.holders[n]
	if h == nil {
		// Again means that the coordinator believes it has locks here. Without a holder these locks are lost, and the rows
		// that the transaction has read may have changed.
		if m.Again {
			g.r.env.Mark(readLost)
			g.answer(n, Lost, 0)
			return
		}
		h = g.hold(n, m.Age)
	}
	// A prepared or proposed transaction has finished reading, and the coordinator of a lost transaction was notified.
	if h.stage != growing {
		return
	}
	h.op = m
	locks := make([]lock, len(m.Wants))
	for i := range m.Wants {
		w := &m.Wants[i]
		locks[i] = lock{h: h, rows: txn.Range{From: w.Range.From, To: w.Range.To}, exclusive: w.Mode == txn.ReadWrite, limited: w.Range.Limit > 0}
		g.locks.ask(&locks[i])
	}
	g.ready(h)
}

// hold registers a transaction without locks.
func (g *group) hold(n raftgroup.Name, a Age) *holder {
	h := &holder{name: n, age: a}
	g.holders[n] = h
	return h
}

// ready lets Advance continue with a holder that waits for no lock.
func (g *group) ready(h *holder) {
	if h.missing == 0 {
		g.readied = append(g.readied, h)
	}
}

// effects handles a request to commit or to prepare. The coordinator sends each request once in a term, and again in
// the next term if it has no answer. An entry that was proposed in an earlier term has been applied by now, or never
// will be.
//
// The outcome of a transaction that was committed in an earlier term is still stored. Only the coordinator's Done
// number removes it. The coordinator sends a Done number above this transaction's number only after this message, over
// the same link.
func (g *group) effects(n raftgroup.Name, e *Effects, m protocol.Message) {
	h := g.holders[n]
	if h == nil {
		if e.Again {
			if f, o := g.look(n); f == over && o.Committed {
				g.r.env.Mark(committedBefore)
				reply := Committed
				if _, several := m.(*Prepare); several {
					reply = Prepared // a committed transaction was prepared in all its groups
				}
				g.answer(n, reply, o.Timestamp)
				return
			}
		}
		// If the transaction has lost its locks, other transactions may have changed the rows. A prevented transaction must
		// not be prepared, because another group may rely on that.
		if e.Held != 0 || g.prevented[n] {
			g.r.env.Mark(effectsLost)
			g.answer(n, Lost, 0)
			return
		}
		// A transaction that only writes in this group has no locks yet, so it can start here.
		h = g.hold(n, e.Age)
	}
	// A proposed transaction is answered once its entry is applied. The coordinator of a lost transaction was already
	// notified.
	switch h.stage {
	// The preparation is in the log; the earlier answer did not reach the coordinator.
	case holding:
		g.r.env.Mark(preparedBefore)
		g.answer(n, Prepared, g.prepared[n].timestamp)
	case growing:
		h.op = m
		locks := make([]lock, len(e.Writes))
		for i := range e.Writes {
			locks[i] = lock{h: h, rows: txn.Point(e.Writes[i].Key), exclusive: true}
			g.locks.ask(&locks[i])
		}
		g.ready(h)
	}
}

// Advance implements raftgroup.Machine. It grants free locks and continues the transactions that have all their locks.
func (g *group) Advance() {
	// proceed may release locks that other transactions wait for, so repeat until no holder is ready.
	for {
		g.locks.settle()
		unleased := g.unleased[:0]
		for _, h := range g.unleased {
			if g.current(h) {
				g.readied = append(g.readied, h)
			} else {
				unleased = append(unleased, h)
			}
		}
		clear(g.unleased[len(unleased):])
		g.unleased = unleased
		if len(g.readied) == 0 {
			return
		}
		readied := g.readied
		g.readied = nil
		for _, h := range readied {
			// After the holder was added to readied, it may have been wounded or may have started to wait again.
			if h.stage == growing && h.missing == 0 && h.op != nil {
				g.proceed(h)
			}
		}
	}
}

// proceed executes a holder's request once the holder has the locks that the request needs.
func (g *group) proceed(h *holder) {
	switch m := h.op.(type) {
	case *Read:
		// A deposed leaseholder could return rows that its successor has already overwritten.
		if !g.awaitLease(h) {
			return
		}
		g.r.send(h.name.Coordinator, &Rows{g.header(h.name), g.rows(h, m)})
		// The transaction needs no locks after its last read, which saves the release message.
		if m.Last {
			g.drop(h)
		}
	case *Ask:
		if !g.awaitLease(h) {
			return
		}
		g.answer(h.name, Validated, 0)
		g.drop(h)
	// Writes need no lease: a deposed leaseholder's entry is never committed.
	case *Commit:
		g.log(h, commandCommit, &effect{name: h.name, id: m.Age.ID, done: m.Done, writes: m.Writes})
		return
	case *Prepare:
		e := &effect{name: h.name, id: m.Age.ID, done: m.Done, writes: m.Writes, promise: promise{anchor: m.Anchor, participants: m.Participants}}
		for _, l := range h.locks {
			// A successor reinstates read locks from this record. The lock on a written row is exclusive and follows from the
			// write.
			if !l.rows.Point() || !writes(m.Writes, l.rows.From) {
				e.reads = append(e.reads, l.rows)
			}
		}
		g.log(h, commandPrepare, e)
		// The preparation may be applied with this timestamp, so close must return a lower timestamp until then.
		g.preparing[h.name] = e.timestamp
		return
	}
	h.op = nil
}

// awaitLease reports whether this leaseholder has the newest state. If it may already have been deposed, the
// transaction waits.
//
// The transaction continues when the leaseholder has a lease again. It also continues when the leaseholder knows that
// it still led after the transaction had acquired all its locks. The second condition is needed if links stall for
// longer than a lease lasts.
func (g *group) awaitLease(h *holder) bool {
	if g.current(h) {
		h.unleased = false
		return true
	}
	g.r.counters.leaseWaits++
	g.r.env.Mark(leaseAwaited)
	h.unleased, h.mark = true, g.Raft.Mark()
	g.unleased = append(g.unleased, h)
	return false
}

// writes reports whether a row is among all, which is sorted by key.
func writes(all []txn.WriteEntry, k txn.Key) bool {
	_, found := slices.BinarySearchFunc(all, k, func(w txn.WriteEntry, k txn.Key) int { return strings.Compare(string(w.Key), string(k)) })
	return found
}

// log appends a command to the batch for the log, with a new timestamp.
func (g *group) log(h *holder, kind uint8, e *effect) {
	h.stage = proposed
	// The transaction has all its locks now, so timestamps of conflicting transactions follow the order of their locks.
	e.timestamp = g.r.clock.Tick(g.r.env.Now())
	g.Batch = appendEffect(g.Batch, kind, e)
}

// rows returns the rows that a transaction has requested. If a scan has reached its limit, rows reduces the scan's lock
// to the rows up to the last one found.
func (g *group) rows(h *holder, m *Read) []raftgroup.Found {
	found := raftgroup.Find(g.r.store, store.Newest, len(m.Wants), func(i int) *txn.Range { return &m.Wants[i].Range })
	for i := range m.Wants {
		w := &m.Wants[i].Range
		n := len(found[i])
		// Fewer rows than the limit mean that the scan has observed the whole range.
		if w.Limit == 0 || n < w.Limit {
			continue
		}
		for _, l := range h.locks {
			if l.limited && l.rows.From == w.From && l.rows.To == w.To {
				l.limited = false
				g.r.env.Mark(lockNarrowed)
				if last := found[i][n-1].Key; w.Reverse {
					g.locks.narrow(l, txn.Range{From: last, To: w.To})
				} else {
					// To is exclusive; the smallest longer key includes the last row.
					g.locks.narrow(l, txn.Range{From: w.From, To: last + "\x00"})
				}
				break
			}
		}
	}
	return found
}

// drop releases the locks of a transaction and removes it.
func (g *group) drop(h *holder) {
	g.locks.release(h)
	h.op = nil // h may still be in readied
	delete(g.holders, h.name)
}

// wounded notifies the coordinator that its transaction has lost its locks here.
func (g *group) wounded(h *holder) {
	h.op = nil
	g.r.counters.wounds++
	g.r.env.Mark(wounded)
	g.answer(h.name, Wounded, 0)
}

// contended notifies the coordinator that an older transaction waits for its prepared transaction. The prepared
// transaction may itself be waiting for locks in another group.
func (g *group) contended(h *holder) {
	// A commit in a single group waits for nothing but the log, so the older transaction soon gets its locks.
	if _, alone := h.op.(*Commit); h.contended || alone {
		return
	}
	h.contended = true
	g.r.env.Mark(contendedPrepared)
	g.answer(h.name, Contended, 0)
}

// asked handles a request to validate, release or cancel.
func (g *group) asked(n raftgroup.Name, m *Ask) {
	h := g.holders[n]
	switch {
	case m.Request == Release:
		// A proposed or prepared transaction ends only through the log.
		if h != nil && (h.stage == growing || h.stage == lost) {
			g.drop(h)
		}
	case h == nil:
		if m.Request == Validate {
			g.answer(n, Lost, 0)
		}
	// The log decides on a proposed transaction, so it can no longer be cancelled.
	case h.stage != growing:
	case m.Request == Validate:
		h.op = m
		g.ready(h)
	case m.Request == Cancel:
		// Only a preparation that still waits for locks can be part of a cycle with the older transaction.
		if _, ok := h.op.(*Prepare); ok {
			g.r.env.Mark(cancelled)
			g.locks.release(h)
			h.stage = lost
			g.wounded(h)
		}
	}
}

// resolve handles the outcome of a transaction, which its coordinator or its anchor sends.
func (g *group) resolve(from geo.NodeID, n raftgroup.Name, m *Resolve) {
	h := g.holders[n]
	if h == nil || h.stage == growing || h.stage == lost { // the transaction has ended here, or was never prepared and will not be
		if h != nil {
			g.drop(h)
		}
		// The anchor expects no acknowledgement; only the coordinator counts the groups that have resolved.
		if from == n.Coordinator {
			g.answer(n, Resolved, 0)
		} else if h != nil {
			g.answer(n, Lost, 0)
		}
		return
	}
	v := resolution{n, m.Done, m.Outcome}
	if g.r.mistake == lostResolution && h.op == nil { // its locks were reinstated from an earlier leaseholder
		v.Outcome = Outcome{}
	}
	g.Batch = appendResolution(g.Batch, &v)
}

// commitApplied reports a commit from the log to the transaction's coordinator.
func (g *group) commitApplied(e *effect) {
	// Only the leaseholder that proposed the commit has a holder. All other members apply the entry without an answer.
	if h := g.holders[e.name]; h != nil {
		g.drop(h)
		g.answer(e.name, Committed, e.timestamp)
	}
}

// prepareApplied reports a preparation from the log to the transaction's coordinator, or that the preparation was
// prevented.
func (g *group) prepareApplied(e *effect) {
	delete(g.preparing, e.name)
	h := g.holders[e.name]
	switch {
	case h == nil:
	// An earlier entry of the log has prevented the transaction, so this preparation had no effect.
	case g.prepared[e.name] == nil:
		g.r.env.Mark(preparePrevented)
		g.drop(h)
		g.answer(e.name, Lost, 0)
	default:
		h.stage = holding
		g.answer(e.name, Prepared, e.timestamp)
		if g.r.mistake == earlyRelease {
			g.locks.release(h)
		}
	}
}

// resolveApplied reports to the coordinator that the outcome is in this group's log.
func (g *group) resolveApplied(n raftgroup.Name) {
	if h := g.holders[n]; h != nil {
		g.drop(h)
	}
	delete(g.recoveries, n)
	// Only a serving leaseholder answers. Otherwise the coordinator would count a group twice.
	if g.Serving {
		g.answer(n, Resolved, 0)
	}
}

// close returns a timestamp at or below which the group will commit no further write.
func (g *group) close() uint64 {
	// Later commands get timestamps above t from the same clock. Commands in the same entry are applied before t closes.
	t := g.r.now()
	// A prepared transaction may commit at its own timestamp or later.
	for _, e := range g.prepared {
		t = min(t, e.timestamp-1)
	}
	for _, p := range g.preparing {
		t = min(t, p-1)
	}
	return t
}
