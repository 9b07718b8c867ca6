package primary

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// writer executes and commits transactions, and appends them to the log.
type writer struct {
	r       *Replica
	every   time.Duration // the interval at which entries are sent to the other regions
	shipper geo.NodeID    // the node that ships the log to the other regions while this node is the writer
	storage []geo.NodeID  // the other nodes of the region
	remote  []geo.NodeID  // the nodes of the other regions

	// log holds the entries at positions (shipped, applied]. Entries up to sent were sent to the storage, and entries up
	// to committed are committed.
	log                      []Entry
	shipped, committed, sent uint64
	told                     uint64   // the commit position that was last sent to the storage
	acks                     []uint64 // last acknowledged entry, by node of the storage
	// lacking is set, by node of the storage, for a new incarnation until its first acknowledgement. In the term of a
	// recovered writer, it is set for every storage node until its first acknowledgement.
	lacking   []bool
	recovered uint64             // the end of the log at the start of the term
	waiting   queue.Queue[await] // in the order of the entries that they wait for
	shipping  bool               // a timer is set

	sessions sessions

	entries, commits, staleReads, lostSessions, known int64
}

// await is a transaction whose answer waits for an entry to be committed.
type await struct {
	entry   uint64
	name    raftgroup.Name
	outcome txn.Outcome
}

// Reasons of transactions that were not committed.
const (
	// ReasonStaleRead: a row or range that the transaction has read was changed before the commit.
	ReasonStaleRead = "stale-read"
	// ReasonSessionLost: the writer moved or restarted while the transaction was forwarded, and the new writer does not
	// have the transaction's session.
	ReasonSessionLost = "session-lost"
	// ReasonInstanceLost: the region's node to which the transaction was relayed has lost its state. The outcome is
	// unknown.
	ReasonInstanceLost = "instance-lost"
)

func (w *writer) init(r *Replica) {
	w.r, w.every, w.sessions = r, r.params.Duration("shipping"), sessions{}
	r.others(func(n geo.NodeID) {
		if r.topology.RegionOf(n) == r.region {
			w.storage = append(w.storage, n)
		} else {
			w.remote = append(w.remote, n)
		}
	})
	w.acks, w.lacking = make([]uint64, len(w.storage)), make([]bool, len(w.storage))
	w.shipper = r.shipper(r.self)
}

// begin makes this node the writer, starting at the end of its log. A new incarnation has recovered the tail of the log
// from the storage. It applies the tail and sends it again, because these entries may be uncommitted. Acknowledgements
// to its predecessor no longer count.
func (w *writer) begin(m *Takeover, tail []Entry) {
	at := w.r.log.applied
	w.log, w.shipped, w.committed, w.sent, w.told = nil, at, at, at, at
	for i := range w.acks {
		w.acks[i], w.lacking[i] = at, m.Recovered
		if m.Recovered {
			w.acks[i] = 0
		}
	}
	for i := range tail {
		w.log = append(w.log, tail[i])
		w.r.log.apply(&tail[i])
	}
	w.recovered = w.r.log.applied
	w.pump()
}

// replaced records that another node has lost its state.
func (w *writer) replaced(n geo.NodeID) {
	if i := slices.Index(w.storage, n); i >= 0 {
		w.acks[i], w.lacking[i] = 0, true
	}
}

// end ends this node's role as the writer. It drops waiting transactions, because their coordinators repeat the
// requests at the new writer.
func (w *writer) end() {
	w.log, w.waiting, w.sessions = nil, queue.Queue[await]{}, sessions{}
	w.shipped, w.committed, w.sent, w.told = 0, 0, 0, 0
}

// pending returns the number of log entries, unannounced commits and waiting transactions, for Replica.Pending.
func (w *writer) pending() int { return len(w.log) + int(w.committed-w.told) + w.waiting.Len() }

// serves reports whether this node accepts requests as the writer. Coordinators repeat dropped requests at the next
// writer.
func (w *writer) serves() bool { return w.r.writes() && !w.r.failover.leaving && !w.r.catchUp.lacks }

// session returns the session of a transaction, and creates it for the first request. It returns nil if the request
// needs no further work. In this case, session has answered the request, the coordinator no longer waits for the
// answer, or an earlier writer has lost the session.
func (w *writer) session(n raftgroup.Name, oldest uint64, first bool) *session {
	w.sessions.forget(n.Coordinator, oldest)
	s := w.sessions.find(n)
	if s != nil {
		if s.answer != nil && w.r.wrong != appliedTwice {
			w.r.env.Mark(answerRepeated)
			w.known++
			w.send(n.Coordinator, s.answer)
			return nil
		}
		return s
	}
	// The coordinator no longer waits for a forgotten transaction, so the transaction needs no answer.
	if o, over, forgotten := w.r.log.endings.Look(n); over || forgotten {
		w.known++
		if over { // an earlier writer has committed the transaction
			w.r.env.Mark(answeredBefore)
			w.sessions.open(n).executed = true // a repeated request finds this session
			w.await(n, o)
		}
		return nil
	}
	s = w.sessions.open(n)
	// If a later statement finds no session, the writes of the earlier statements are lost, so the transaction cannot
	// commit.
	if !first {
		w.lostSessions++
		w.r.env.Mark(sessionLost)
		w.answer(n, txn.Outcome{Status: txn.Aborted, Cause: txn.CauseConflict, Reason: ReasonSessionLost}, 0)
		return nil
	}
	return s
}

// call executes a transaction that was sent as a procedure.
func (w *writer) call(from geo.NodeID, m *Call) {
	if !w.serves() {
		return
	}
	n := raftgroup.Name{Coordinator: from, Number: m.Number}
	s := w.session(n, m.Oldest, true)
	// The first request is still waiting for its commit. A repetition must not execute the transaction again.
	if s == nil || s.executed && w.r.wrong != appliedTwice {
		return
	}
	s.executed = true
	o := w.r.execution.Outcome(w.r.procs, m.Transaction, w.r.topology.Placement())
	if writes := w.r.execution.Writes(); o.Status == txn.Committed && len(writes) > 0 {
		w.append(Entry{Name: n, Oldest: m.Oldest, Outcome: o, Writes: slices.Clone(writes)})
	}
	w.await(n, o) // wait even if there are no writes, because the transaction may have read uncommitted entries
	w.pump()
}

// request handles a statement of a session, or reports the commit position for a barrier.
func (w *writer) request(from geo.NodeID, m *Request) {
	if !w.serves() {
		return
	}
	if m.Barrier {
		// The transaction that sent the barrier will wait for these entries, so its region must receive them
		// now.
		w.ship()
	} else {
		s := w.session(raftgroup.Name{Coordinator: from, Number: m.Number}, m.Oldest, m.First)
		if s == nil {
			return
		}
		// A repeated statement must not add its writes twice.
		if m.Step > s.step {
			s.step = m.Step
			s.writes = append(s.writes, m.Writes...)
		} else {
			w.known++
		}
	}
	// The predecessor may have answered clients for entries up to recovered, so the barrier must cover these entries, too.
	w.send(from, &Reply{Term: w.r.log.term, Number: m.Number, Step: m.Step, Committed: max(w.committed, w.recovered)})
}

// commit commits a session's transaction if its reads are still current.
func (w *writer) commit(from geo.NodeID, m *Commit) {
	if !w.serves() {
		return
	}
	n := raftgroup.Name{Coordinator: from, Number: m.Number}
	// Commit creates no session: if the session of its statements is lost, so are the transaction's writes.
	s := w.session(n, m.Oldest, false)
	if s == nil || s.executed && w.r.wrong != appliedTwice {
		return
	}
	again := s.executed
	s.executed = true
	// Validation and append happen in one step, so no other transaction can commit between them.
	if !again && !m.Reads.Hold(w.r.store) && w.r.wrong != unvalidated {
		w.staleReads++
		w.r.env.Mark(staleRead)
		w.ship() // ship the changes, so that the next attempt reads them
		w.answer(n, txn.Outcome{ID: m.ID, Status: txn.Aborted, Cause: txn.CauseConflict, Reason: ReasonStaleRead}, 0)
		return
	}
	o := txn.Outcome{ID: m.ID, Status: txn.Committed}
	w.append(Entry{Name: n, Oldest: m.Oldest, Outcome: o, Writes: s.writes})
	w.await(n, o)
	w.pump()
}

// append appends an entry to the log and applies it, so that later transactions read its writes.
func (w *writer) append(e Entry) {
	w.entries++
	w.commits++
	w.log = append(w.log, e)
	w.r.log.apply(&e)
	w.r.failover.arm()
}

// await answers a transaction once all entries that are in the log now are committed.
func (w *writer) await(n raftgroup.Name, o txn.Outcome) {
	// Everything that the transaction may have read is committed.
	if w.r.log.applied <= w.committed {
		w.answer(n, o, w.r.log.applied)
		return
	}
	w.r.env.Mark(commitAwaited)
	w.waiting.Push(await{w.r.log.applied, n, o})
}

// pump sends the storage its missing entries, unless earlier entries are still unacknowledged. Entries that accumulate
// in the meantime are sent together.
func (w *writer) pump() {
	last := w.r.log.applied
	if !w.r.writes() {
		return
	}
	// Without storage nodes, the writer alone is a majority.
	if len(w.storage) == 0 {
		w.sent = last
		w.advance(last)
		return
	}
	if w.sent > w.committed || w.sent == last {
		return
	}
	m := &Append{Term: w.r.log.term, First: w.sent + 1, Committed: w.committed, Entries: w.between(w.sent, last)}
	// The Append announces the commit position, so ship need not announce it again.
	w.sent, w.told = last, w.committed
	for _, n := range w.storage {
		w.r.env.Send(n, m)
	}
}

// between returns the entries at positions (after, last]. Entries are immutable.
func (w *writer) between(after, last uint64) []Entry {
	return w.log[after-w.shipped : last-w.shipped : last-w.shipped]
}

// acknowledged records the log position that a storage node has acknowledged.
func (w *writer) acknowledged(from geo.NodeID, last uint64) {
	i := slices.Index(w.storage, from)
	if i < 0 || !w.r.writes() {
		return
	}
	// A node acknowledges entries only if it has its rows.
	w.lacking[i] = false
	w.acks[i] = max(w.acks[i], min(last, w.sent)) // a restored copy may report entries that this writer has not sent
	acks := slices.Clone(w.acks)
	slices.Sort(acks)
	// The writer counts itself, so it needs acknowledgements of (len(acks)+1)/2 other nodes for a majority.
	w.advance(acks[len(acks)-(len(acks)+1)/2])
	w.pump()
}

// advance records that the log is committed up to an entry, and answers the transactions that wait for entries up to
// it.
func (w *writer) advance(to uint64) {
	// The acknowledged position of a replaced storage node restarts at 0, which must not lower the commit position.
	if to <= w.committed {
		return
	}
	w.committed = to
	w.r.catchUp.flush()
	for w.waiting.Len() > 0 && w.waiting.Front().entry <= to {
		a := w.waiting.Front()
		w.waiting.Pop()
		w.answer(a.name, a.outcome, a.entry)
	}
	// In a database with a single node, ship only drops the committed entries.
	if len(w.remote) == 0 && len(w.storage) == 0 {
		w.ship()
		return
	}
	if !w.shipping {
		w.shipping = true
		w.r.env.After(w.every, protocol.Timer{Kind: shipTimer})
	}
	w.r.failover.advance()
}

// ship sends committed entries to the other regions, or makes the storage node that is the shipper send them. It
// announces the commit position to the storage.
func (w *writer) ship() {
	if !w.r.writes() {
		return
	}
	tell := w.committed > w.told
	// Do not ship uncommitted entries, because a recovery of the writer could drop them.
	if w.committed > w.shipped {
		if w.shipper == w.r.self {
			w.r.log.ship(w.shipped+1, w.between(w.shipped, w.committed))
		} else {
			// The shipper sends only entries that it knows to be committed, so it must receive the new
			// commit position.
			w.r.env.Mark(shippedByStorageMet)
			tell = true
		}
		w.log = w.log[w.committed-w.shipped:]
		w.shipped = w.committed
	}
	if tell {
		// Links keep their order, so the storage already has the entries up to sent, and there is no gap before First.
		m := &Append{Term: w.r.log.term, First: w.sent + 1, Committed: w.committed}
		for _, n := range w.storage {
			w.r.env.Send(n, m)
		}
		w.told = w.committed
	}
}

// answer sends the outcome of a transaction, and keeps it in the session for repeated requests.
func (w *writer) answer(n raftgroup.Name, o txn.Outcome, entry uint64) {
	m := &Answer{Term: w.r.log.term, Number: n.Number, Entry: entry, Outcome: o}
	if s := w.sessions.find(n); s != nil {
		s.answer, s.writes = m, nil
	}
	w.send(n.Coordinator, m)
}

// send sends a message to a coordinator. If the coordinator is on this node, send handles the message immediately.
func (w *writer) send(to geo.NodeID, m protocol.Message) {
	if to == w.r.self {
		w.r.Receive(to, m)
		return
	}
	w.r.env.Send(to, m)
}

// session is the state of a transaction that a coordinator has sent to this node.
type session struct {
	step     uint64 // number of the last statement
	writes   []txn.WriteEntry
	executed bool
	answer   *Answer // nil until it is answered
}

// sessions holds the sessions of each coordinator. A session is kept until the coordinator no longer waits for its
// answer.
type sessions map[geo.NodeID]*peer

type peer struct {
	numbers queue.Queue[uint64]
	open    map[uint64]*session
}

func (s sessions) find(n raftgroup.Name) *session {
	if p := s[n.Coordinator]; p != nil {
		return p.open[n.Number]
	}
	return nil
}

func (s sessions) open(n raftgroup.Name) *session {
	p := s[n.Coordinator]
	if p == nil {
		p = &peer{open: map[uint64]*session{}}
		s[n.Coordinator] = p
	}
	p.numbers.Push(n.Number)
	p.open[n.Number] = &session{}
	return p.open[n.Number]
}

// forget removes the sessions of a coordinator with numbers below oldest. Sessions are only approximately in the order
// of their numbers, so a few sessions may stay longer.
func (s sessions) forget(c geo.NodeID, oldest uint64) {
	for p := s[c]; p != nil && p.numbers.Len() > 0 && p.numbers.Front() < oldest; p.numbers.Pop() {
		delete(p.open, p.numbers.Front())
	}
}
