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

// leaseholder is the volatile state of a group's leader, which is not in the log. It exists during the leader's term.
type leaseholder struct {
	holders map[raftgroup.Name]*holder
	locks   lockTable
	// readied are the holders that have received all requested locks. unleased are the holders among them that wait for
	// proof that there is no other leaseholder.
	readied, unleased []*holder

	// preparing are the timestamps of transactions with a preparation in such an entry.
	preparing map[raftgroup.Name]uint64

	// queries wait for transactions to be prevented, which was proposed.
	queries map[raftgroup.Name][]query
	// recoveries are the attempts to find the outcomes of prepared transactions.
	recoveries map[raftgroup.Name]*recovery
}

// stage is a transaction's progress at a leaseholder.
type stage uint8

const (
	// growing: it asks for locks, and may be wounded.
	growing stage = iota
	// proposed: to be committed or prepared.
	proposed
	// holding: it is prepared.
	holding
	// lost: its locks were taken from it, and its coordinator knows it or will.
	lost
)

// holder is a transaction that has locks, or waits for some.
type holder struct {
	name  raftgroup.Name
	age   Age
	stage stage
	locks []*lock
	// missing counts the locks that it waits for.
	missing int
	// op is the request that needs the locks, or the lease: a *Read, *Commit, *Prepare or *Ask; nil for none.
	op protocol.Message
	// contended says that the coordinator knows that an older transaction waits for it.
	contended bool
	// unleased means that the holder has all locks of op and has been waiting for the lease since mark.
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

// Step implements raftgroup.Machine: it makes this node the leaseholder, or not any more. A new leaseholder knows all
// prepared transactions, and gives them back the locks that they had.
func (g *group) Step(leads bool) {
	g.leaseholder = leaseholder{}
	g.init()
	if !leads {
		return
	}
	g.r.counters.terms++
	g.r.tickLater()
	for _, n := range g.names() {
		g.r.env.Mark(lockReinstated)
		e := g.prepared[n]
		// Its age is unknown. It can't be wounded, and as the youngest holder it is notified of every transaction that waits
		// for it.
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

// read takes a request for rows.
func (g *group) read(n raftgroup.Name, m *Read) {
	h := g.holders[n]
	if h == nil {
		if m.Again {
			g.r.env.Mark(readLost)
			g.answer(n, Lost, 0)
			return
		}
		h = g.hold(n, m.Age)
	}
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

// hold begins a transaction.
func (g *group) hold(n raftgroup.Name, a Age) *holder {
	h := &holder{name: n, age: a}
	g.holders[n] = h
	return h
}

// ready continues with a transaction if it waits for no lock.
func (g *group) ready(h *holder) {
	if h.missing == 0 {
		g.readied = append(g.readied, h)
	}
}

// effects handles a request to commit or to prepare. The coordinator sends each request once in a term, and again in
// the next term without an answer. An entry that was proposed in an earlier term has been applied by now, or never will
// be. Its outcome is not forgotten: the coordinator's notice that all transactions up to it have ended arrives after
// it, over the same link to the term's leaseholder.
func (g *group) effects(n raftgroup.Name, e *Effects, m protocol.Message) {
	h := g.holders[n]
	if h == nil {
		if e.Again {
			if f, o := g.look(n); f == over && o.Committed {
				g.r.env.Mark(committedBefore)
				reply := Committed
				if _, several := m.(*Prepare); several {
					reply = Prepared // as all others have, and none later
				}
				g.answer(n, reply, o.Timestamp)
				return
			}
		}
		if e.Held != 0 || g.prevented[n] {
			g.r.env.Mark(effectsLost)
			g.answer(n, Lost, 0)
			return
		}
		h = g.hold(n, e.Age)
	}
	switch h.stage {
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

// Advance implements raftgroup.Machine: it grants locks and continues with the transactions that have their locks.
func (g *group) Advance() {
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
			if h.stage == growing && h.missing == 0 && h.op != nil {
				g.proceed(h)
			}
		}
	}
}

// proceed executes the request for which a transaction has its locks.
func (g *group) proceed(h *holder) {
	switch m := h.op.(type) {
	case *Read:
		if !g.awaitLease(h) {
			return
		}
		g.r.send(h.name.Coordinator, &Rows{g.header(h.name), g.rows(h, m)})
		if m.Last {
			g.drop(h)
		}
	case *Ask:
		if !g.awaitLease(h) {
			return
		}
		g.answer(h.name, Validated, 0)
		g.drop(h)
	case *Commit:
		g.log(h, commandCommit, &effect{name: h.name, id: m.Age.ID, done: m.Done, writes: m.Writes})
		return
	case *Prepare:
		e := &effect{name: h.name, id: m.Age.ID, done: m.Done, writes: m.Writes, anchor: m.Anchor, participants: m.Participants}
		for _, l := range h.locks {
			if !l.rows.Point() || !writes(m.Writes, l.rows.From) {
				e.reads = append(e.reads, l.rows)
			}
		}
		g.log(h, commandPrepare, e)
		g.preparing[h.name] = e.timestamp
		return
	}
	h.op = nil
}

// awaitLease reports whether this leaseholder has the newest state. If it may already be deposed, the transaction
// waits. It continues when the leaseholder has a lease again, or knows that it was not deposed when all locks were
// held, whichever is earlier. Over links that stall for longer than a lease lasts, it may never have a lease again.
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

// writes reports whether a row is among writes, which are in the order of keys.
func writes(all []txn.WriteEntry, k txn.Key) bool {
	_, found := slices.BinarySearchFunc(all, k, func(w txn.WriteEntry, k txn.Key) int { return strings.Compare(string(w.Key), string(k)) })
	return found
}

// log adds a command to the next entry of the log.
func (g *group) log(h *holder, kind uint8, e *effect) {
	h.stage = proposed
	e.timestamp = g.r.clock.Tick(g.r.env.Now())
	g.Batch = appendEffect(g.Batch, kind, e)
}

// rows returns the rows that a transaction has requested. A scan that has found its limit of rows does not need locks
// on the rows after them.
func (g *group) rows(h *holder, m *Read) []raftgroup.Found {
	found := raftgroup.Find(g.r.store, store.Newest, len(m.Wants), func(i int) *txn.Range { return &m.Wants[i].Range })
	for i := range m.Wants {
		w := &m.Wants[i].Range
		n := len(found[i])
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
					g.locks.narrow(l, txn.Range{From: w.From, To: last + "\x00"})
				}
				break
			}
		}
	}
	return found
}

// drop ends a transaction here.
func (g *group) drop(h *holder) {
	g.locks.release(h)
	h.op = nil // it may be in readied
	delete(g.holders, h.name)
}

// wounded notifies a coordinator that an older transaction has taken the locks of its transaction.
func (g *group) wounded(h *holder) {
	h.op = nil
	g.r.counters.wounds++
	g.r.env.Mark(wounded)
	g.answer(h.name, Wounded, 0)
}

// contended notifies a coordinator that an older transaction waits for its prepared transaction. The prepared
// transaction may itself wait elsewhere.
func (g *group) contended(h *holder) {
	if _, alone := h.op.(*Commit); h.contended || alone {
		return
	}
	h.contended = true
	g.r.env.Mark(contendedPrepared)
	g.answer(h.name, Contended, 0)
}

// asked takes a short request.
func (g *group) asked(n raftgroup.Name, m *Ask) {
	h := g.holders[n]
	switch {
	case m.Request == Release:
		if h != nil && (h.stage == growing || h.stage == lost) {
			g.drop(h)
		}
	case h == nil:
		if m.Request == Validate {
			g.answer(n, Lost, 0)
		}
	case h.stage != growing:
	case m.Request == Validate:
		h.op = m
		g.ready(h)
	case m.Request == Cancel:
		if _, ok := h.op.(*Prepare); ok {
			g.r.env.Mark(cancelled)
			g.locks.release(h)
			h.stage = lost
			g.wounded(h)
		}
	}
}

// resolve takes the outcome of a transaction, from its coordinator or from its anchor.
func (g *group) resolve(from geo.NodeID, n raftgroup.Name, m *Resolve) {
	h := g.holders[n]
	if h == nil || h.stage == growing || h.stage == lost { // it has ended here, or was not prepared and won't be
		if h != nil {
			g.drop(h)
		}
		if from == n.Coordinator {
			g.answer(n, Resolved, 0)
		} else if h != nil {
			g.answer(n, Lost, 0)
		}
		return
	}
	v := resolution{n, m.Done, m.Outcome}
	if g.r.mistake == lostResolution && h.op == nil { // it has its locks from an earlier leaseholder
		v.Outcome = Outcome{}
	}
	g.Batch = appendResolution(g.Batch, &v)
}

// commitApplied answers the coordinator of a transaction that the log has committed.
func (g *group) commitApplied(e *effect) {
	if h := g.holders[e.name]; h != nil {
		g.drop(h)
		g.answer(e.name, Committed, e.timestamp)
	}
}

// prepareApplied answers the coordinator of a transaction that the log has prepared, or has not since it was prevented.
func (g *group) prepareApplied(e *effect) {
	delete(g.preparing, e.name)
	h := g.holders[e.name]
	switch {
	case h == nil:
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

// resolveApplied reports to a coordinator that the group has finished its transaction.
func (g *group) resolveApplied(n raftgroup.Name) {
	if h := g.holders[n]; h != nil {
		g.drop(h)
	}
	delete(g.recoveries, n)
	if g.Serving {
		g.answer(n, Resolved, 0)
	}
}

// close returns a timestamp up to which nothing will be written any more.
func (g *group) close() uint64 {
	t := g.r.now()
	for _, e := range g.prepared {
		t = min(t, e.timestamp-1)
	}
	for _, p := range g.preparing {
		t = min(t, p-1)
	}
	return t
}
