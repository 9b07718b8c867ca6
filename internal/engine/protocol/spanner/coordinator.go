package spanner

import (
	"maps"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Reasons of outcomes.
const (
	// ReasonWounded: an older transaction needed a lock of this transaction.
	ReasonWounded = "wounded"
	// ReasonTooOld: the versions of the time that the transaction reads are not kept any more.
	ReasonTooOld = "snapshot-too-old"
)

// coordinator runs the transactions of a node's clients.
type coordinator struct {
	// leaseholders are the latest known leaseholders, by group.
	leaseholders []tenure
	// open are the transactions that have not ended in all their groups, by number. next is the number of the next
	// transaction, and all transactions below done have ended.
	open       map[uint64]*transaction
	next, done uint64
}

// tenure is a node's term as a leaseholder; term 0 is none.
type tenure struct {
	node geo.NodeID
	term uint64
}

// phase is a transaction's progress at its coordinator.
type phase uint8

const (
	reading phase = iota
	validating
	committing
	resolving
)

// transaction is a transaction in progress.
type transaction struct {
	number uint64
	t      *txn.Transaction
	age    Age
	task   *rerun.Task
	phase  phase
	parts  []*part // in the order of their first use
	// waiting counts the parts that have something open.
	waiting int
	anchor  int
	outcome Outcome // while resolving
	// contended reports that an older transaction waits for this transaction in a group where it is prepared.
	contended bool

	// snapshot reports that the transaction reads a snapshot; at is the snapshot's timestamp. round counts its reads.
	snapshot bool
	at       uint64
	round    uint64
}

// pending is the request that the transaction has outstanding in a group.
type pending uint8

const (
	nothing pending = iota
	toRead
	toValidate
	toCommit
	toPrepare
	toResolve
)

// part is a group that a transaction has to do with.
type part struct {
	group int
	open  pending
	// sent is the term of the last request, held that in which the transaction got locks; 0 for none.
	sent, held uint64
	again      bool // the effects were sent in an earlier term
	refused    bool // the group has not prepared the transaction and won't
	needs      []rerun.Need
	last       bool // needs are all that the transaction does
	writes     []txn.WriteEntry
	timestamp  uint64

	// try counts the members that were asked for a snapshot; at is the time of the last request.
	try int
	at  time.Duration
}

// part returns the transaction's part in a group.
func (x *transaction) part(group int) *part {
	if p := x.find(group); p != nil {
		return p
	}
	p := &part{group: group}
	x.parts = append(x.parts, p)
	return p
}

func (x *transaction) find(group int) *part {
	for _, p := range x.parts {
		if p.group == group {
			return p
		}
	}
	return nil
}

// Submit implements protocol.Replica.
func (r *Replica) Submit(t *txn.Transaction) {
	r.counters.transactions++
	age := Age{Attempt: t.Attempt, Start: r.clock.Tick(r.env.Now()), ID: t.ID}
	x := r.begin(t, age)
	if r.closing && r.procedures.ReadsOnly(t) {
		r.counters.snapshots++
		x.snapshot, x.at = true, r.now()-min(r.now(), uint64(r.staleness))
	}
	r.run(x)
	r.node.Finish()
}

// begin makes a transaction, which run then runs.
func (r *Replica) begin(t *txn.Transaction, age Age) *transaction {
	x := &transaction{number: r.next, t: t, age: age, task: rerun.New(r.procedures, t, r.store, r.interactive)}
	r.next++
	r.open[x.number] = x
	r.tickLater()
	return x
}

// end forgets a transaction that has ended everywhere.
func (r *Replica) end(x *transaction) {
	delete(r.open, x.number)
	for r.done < r.next && r.open[r.done] == nil {
		r.done++
	}
}

// run runs the procedure as far as the available rows allow.
func (r *Replica) run(x *transaction) {
	needs := x.task.Step()
	if len(needs) == 0 {
		r.finish(x)
		return
	}
	x.round++
	for i := range needs {
		n := &needs[i]
		p := x.part(r.layout.Shard(n.Range.From))
		if p.open == nothing {
			p.open = toRead
			x.waiting++
		}
		if p.needs == nil {
			p.needs = make([]rerun.Need, 0, len(needs)-i)
		}
		p.needs = append(p.needs, *n)
	}
	x.parts[0].last = x.round == 1 && len(x.parts) == 1 && x.t.Exact && !r.interactive && r.procedures.ReadsOnly(x.t)
	for _, p := range x.parts {
		if p.open == toRead {
			r.request(x, p)
		}
	}
}

// fail closes a transaction whose procedure has failed.
func (r *Replica) fail(x *transaction, err error) {
	r.reply(x, txn.AbortOutcome(x.t.ID, err))
	r.abort(x)
}

// finish performs the remaining steps once the procedure has finished.
func (r *Replica) finish(x *transaction) {
	if _, err := x.task.Result(); err != nil {
		r.fail(x, err)
		return
	}
	if x.snapshot {
		r.commit(x)
		r.end(x)
		return
	}
	writes := x.task.Writes().Entries()
	for i := range writes {
		k := writes[i].Key
		if k.Everywhere() { // which no transaction writes
			r.fail(x, txn.ErrUndeclared)
			return
		}
		p := x.part(r.layout.Shard(k))
		if p.writes == nil {
			p.writes = make([]txn.WriteEntry, 0, len(writes)-i)
		}
		p.writes = append(p.writes, writes[i])
	}
	switch {
	case len(writes) == 0 && len(x.parts) <= 1:
		// All locks of the single group were held when the last rows were read.
		r.counters.readOnly++
		r.commit(x)
		if len(x.parts) == 0 || x.parts[0].last {
			r.end(x)
		} else {
			r.abort(x)
		}
	case len(writes) == 0 && !r.closing:
		r.counters.readOnly++
		r.proceed(x, validating, toValidate)
	case len(x.parts) == 1:
		r.counters.oneGroup++
		r.proceed(x, committing, toCommit)
	default:
		r.counters.severalGroups++
		x.anchor = r.nearest(x)
		r.proceed(x, committing, toPrepare)
	}
}

// proceed asks all groups of a transaction for something.
func (r *Replica) proceed(x *transaction, f phase, what pending) {
	x.phase = f
	x.waiting = len(x.parts)
	for _, p := range x.parts {
		p.open = what
		r.request(x, p)
	}
}

// nearest returns the group of a transaction with the nearest leaseholder.
func (r *Replica) nearest(x *transaction) int {
	best, least := -1, time.Duration(0)
	for _, p := range x.parts {
		l := r.leaseholders[p.group].node
		if r.leaseholders[p.group].term == 0 {
			l = r.layout.Group(p.group).Leader
		}
		d := raftgroup.Distance(r.topology, r.self, l)
		if best < 0 || d < least || d == least && p.group < best {
			best, least = p.group, d
		}
	}
	return best
}

// leaseholderOf returns a group's leaseholder, if this node knows it.
func (r *Replica) leaseholderOf(group int) (l tenure, known bool) {
	if group < len(r.leaseholders) {
		l = r.leaseholders[group]
	}
	return l, l.term > 0
}

// request sends a group the transaction's outstanding request. It sends each request once in every term in which the
// request is open. If the leaseholder is unknown or has lost its lease, the request is sent when a leaseholder
// announces itself.
func (r *Replica) request(x *transaction, p *part) {
	if x.snapshot {
		r.readSnapshot(x, p)
		return
	}
	l, known := r.leaseholderOf(p.group)
	if !known {
		return
	}
	p.sent = l.term
	h := Header{Group: p.group, Term: l.term, Number: x.number, Clock: r.now()}
	var m protocol.Message
	switch p.open {
	case toRead:
		m = &Read{Header: h, Age: x.age, Again: p.held != 0, Last: p.last, Wants: p.needs}
	case toValidate:
		m = &Ask{h, Validate}
	case toCommit:
		m = &Commit{r.effects(x, p, h)}
	case toPrepare:
		e := &Prepare{Effects: r.effects(x, p, h), Anchor: x.anchor}
		if p.group == x.anchor {
			for _, q := range x.parts {
				e.Participants = append(e.Participants, q.group)
			}
			slices.Sort(e.Participants)
		}
		m = e
	case toResolve:
		m = &Resolve{Header: h, Of: r.self, Done: r.done, Outcome: x.outcome}
	default:
		return
	}
	r.send(l.node, m)
	if x.contended {
		r.cancel(x, p)
	}
}

func (r *Replica) effects(x *transaction, p *part, h Header) Effects {
	e := Effects{Header: h, Age: x.age, Held: p.held, Again: p.again, Done: r.done, Writes: p.writes}
	p.again = true
	return e
}

// commit reports to the client that its transaction is committed.
func (r *Replica) commit(x *transaction) {
	result, _ := x.task.Result()
	r.reply(x, txn.Outcome{ID: x.t.ID, Status: txn.Committed, Result: result})
}

// reply sends a client its transaction's outcome.
func (r *Replica) reply(x *transaction, o txn.Outcome) {
	if !x.t.Exact {
		o.Class = x.task.Class(r.placement)
	}
	r.env.Reply(o)
}

// abort releases the transaction's locks in its groups. Groups that may have prepared it must acknowledge.
func (r *Replica) abort(x *transaction) {
	prepared := x.phase == committing
	x.phase, x.outcome, x.waiting = resolving, Outcome{}, 0
	for _, p := range x.parts {
		p.open = nothing
		switch l := r.leaseholders[p.group]; {
		case p.sent == 0 || x.snapshot:
		case prepared && !p.refused:
			p.open = toResolve
			x.waiting++
			r.request(x, p)
		case p.sent == l.term:
			r.send(l.node, &Ask{Header{Group: p.group, Term: l.term, Number: x.number, Clock: r.now()}, Release})
		}
	}
	if x.waiting == 0 {
		r.end(x)
	}
}

// restart runs a transaction again from the start, after its locks were lost with a leaseholder. Its client has
// received no answer and would only submit it again.
func (r *Replica) restart(x *transaction) {
	r.counters.restarts++
	r.env.Mark(restarted)
	r.abort(x)
	r.run(r.begin(x.t, x.age))
}

// rows handles the rows that a leaseholder has read.
func (r *Replica) rows(m *Rows) {
	x := r.open[m.Number]
	if x == nil {
		return
	}
	p := x.find(m.Group)
	if p == nil || p.open != toRead || p.sent != m.Term {
		return
	}
	p.held = m.Term
	r.supply(x, p, m.Found)
}

// supply hands rows to the procedure.
func (r *Replica) supply(x *transaction, p *part, found []raftgroup.Found) {
	if len(found) != len(p.needs) {
		return
	}
	raftgroup.Supply(x.task, p.needs, found)
	p.open, p.needs = nothing, nil
	if x.waiting--; x.waiting == 0 {
		r.run(x)
	}
}

// answer handles a leaseholder's reply about a transaction. Replies that rest on the log hold in all terms. Other
// replies hold only in the term of the last request, since a later leaseholder may decide differently.
func (r *Replica) answer(m *Answer) {
	x := r.open[m.Number]
	if x == nil {
		return
	}
	p := x.find(m.Group)
	if p == nil {
		return
	}
	switch m.Reply {
	case Validated:
		if p.open == toValidate && p.sent == m.Term && r.complete(x, p) {
			r.commit(x)
			r.end(x)
		}
	case Committed:
		if p.open == toCommit {
			r.commit(x)
			r.end(x)
		}
	case Prepared:
		if p.open != toPrepare {
			return
		}
		p.timestamp = m.Timestamp
		if r.complete(x, p) || r.mistake == earlyCommit {
			r.decide(x)
		}
	case Resolved:
		if p.open == toResolve && r.complete(x, p) {
			r.end(x)
		}
	case Contended:
		r.contended(x)
	case Wounded, Lost:
		if p.sent != m.Term || x.phase == resolving || x.phase == committing && p.open == nothing {
			return
		}
		p.refused = true
		r.env.Mark(refused)
		if m.Reply == Lost {
			r.restart(x)
			return
		}
		r.reply(x, txn.Outcome{ID: x.t.ID, Status: txn.Aborted, Cause: txn.CauseConflict, Reason: ReasonWounded})
		r.abort(x)
	}
}

// complete records that a group has answered the outstanding request, and reports whether all groups have.
func (r *Replica) complete(x *transaction, p *part) bool {
	p.open = nothing
	x.waiting--
	return x.waiting == 0
}

// decide commits a transaction that all its groups have prepared. It is committed already: a node that asks all groups
// finds the same outcome.
func (r *Replica) decide(x *transaction) {
	x.outcome = Outcome{Committed: true}
	for _, p := range x.parts {
		x.outcome.Timestamp = max(x.outcome.Timestamp, p.timestamp)
	}
	r.clock.See(x.outcome.Timestamp)
	r.commit(x)
	r.proceed(x, resolving, toResolve)
}

// contended handles an older transaction that waits for this transaction where it is prepared. It cancels this
// transaction in groups where it still waits for locks. Otherwise the two might wait for each other. In groups where
// the transaction waits only for the log, it continues.
func (r *Replica) contended(x *transaction) {
	if x.phase != committing || x.contended {
		return
	}
	x.contended = true
	for _, p := range x.parts {
		r.cancel(x, p)
	}
}

// cancel gives up a transaction in a group if it waits there for locks to be prepared.
func (r *Replica) cancel(x *transaction, p *part) {
	if l := r.leaseholders[p.group]; p.open == toPrepare && p.sent == l.term && l.term > 0 {
		r.send(l.node, &Ask{Header{Group: p.group, Term: l.term, Number: x.number, Clock: r.now()}, Cancel})
	}
}

// follow handles the announcement of a leaseholder. It sends the open requests of the group again. A transaction with
// locks under another leaseholder has lost them unless it is prepared.
func (r *Replica) follow(from geo.NodeID, m *raftgroup.Lead) {
	if m.Group >= len(r.leaseholders) || m.Term <= r.leaseholders[m.Group].term {
		return
	}
	r.leaseholders[m.Group] = tenure{from, m.Term}
	for _, n := range slices.Sorted(maps.Keys(r.open)) {
		x := r.open[n]
		if x == nil || x.snapshot {
			continue
		}
		p := x.find(m.Group)
		switch {
		case p == nil:
		case x.phase == reading && p.held != 0, p.open == toValidate:
			r.restart(x)
		case p.open != nothing:
			r.request(x, p)
		}
	}
}
