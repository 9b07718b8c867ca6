package spanner

import (
	"errors"
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
	// ReasonTooOld: the row versions of the transaction's snapshot are no longer kept.
	ReasonTooOld = "snapshot-too-old"
)

// coordinator is the state of the transactions that this node's clients have submitted.
type coordinator struct {
	// leaseholders are the latest known leaseholders of the groups, by shard; term 0 means unknown.
	leaseholders []tenure
	// open are the transactions that have not ended in all their groups, by number. next is the number of the next
	// transaction, and all transactions below done have ended.
	open       map[uint64]*transaction
	next, done uint64
}

// tenure is a node and the term in which it is a leaseholder. Term 0 means that no leaseholder is known.
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
	// waiting is the number of parts with an outstanding request.
	waiting int
	anchor  int
	outcome Outcome // while resolving
	// contended is set once an older transaction waits for this prepared transaction.
	contended bool

	// snapshot is set if the transaction reads a snapshot without locks; at is its timestamp. round is the number of the
	// latest round of reads.
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

// part is the part of a transaction in one group.
type part struct {
	group int
	open  pending
	// sent is the term of the last request, held the term in which the transaction got locks; 0 for none.
	sent, held uint64
	again      bool // the effects were sent in an earlier term
	refused    bool // the group has not prepared the transaction and will not
	needs      []rerun.Need
	last       bool // set if needs are the whole footprint of the transaction
	writes     []txn.WriteEntry
	timestamp  uint64

	// try is the number of retries of the snapshot request. at is the time of the last request.
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
		// Timestamps are unsigned: just after the start, staleness may exceed the clock.
		x.snapshot, x.at = true, r.now()-min(r.now(), uint64(r.staleness))
	}
	r.run(x)
	r.node.Finish()
}

// begin registers a transaction under a new number. The caller must call run.
func (r *Replica) begin(t *txn.Transaction, age Age) *transaction {
	x := &transaction{number: r.next, t: t, age: age, task: rerun.New(r.procedures, t, r.store, r.interactive)}
	r.next++
	r.open[x.number] = x
	r.tickLater()
	return x
}

// end removes a transaction that has ended in all its groups, and advances done.
func (r *Replica) end(x *transaction) {
	delete(r.open, x.number)
	for r.done < r.next && r.open[r.done] == nil {
		r.done++
	}
}

// run runs the procedure until it needs rows that are not available, and requests those rows. If the procedure has
// finished, run calls finish.
func (r *Replica) run(x *transaction) {
	needs := x.task.Step()
	if len(needs) == 0 {
		r.finish(x)
		return
	}
	x.round++
	for i := range needs {
		n := &needs[i]
		// A range never leaves its unit, and thus its shard, so its first key is enough.
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
	// The leaseholder may drop the locks with its answer only if the transaction will read and write nothing else.
	x.parts[0].last = x.round == 1 && len(x.parts) == 1 && x.t.Exact && !r.interactive && r.procedures.ReadsOnly(x.t)
	for _, p := range x.parts {
		if p.open == toRead {
			r.request(x, p)
		}
	}
}

// fail aborts a transaction whose procedure failed in a way that does not depend on the rows that it read.
func (r *Replica) fail(x *transaction, err error) {
	r.reply(x, txn.AbortOutcome(x.t.ID, err))
	r.abort(x)
}

// finish commits a transaction whose procedure has finished, or starts its commit.
func (r *Replica) finish(x *transaction) {
	_, err := x.task.Result()
	// An undeclared access fails in every state, so its locks need no validation.
	if errors.Is(err, txn.ErrUndeclared) {
		r.fail(x, err)
		return
	}
	if x.snapshot {
		r.commit(x)
		r.end(x)
		return
	}
	// An older transaction may have taken a lock between two reads, and its message may still be in flight. In that case,
	// the procedure failed in a state that never existed. A failed procedure is therefore validated like a transaction
	// without writes.
	if err != nil {
		x.task.Writes().Reset()
	}
	writes := x.task.Writes().Entries()
	for i := range writes {
		k := writes[i].Key
		if k.Everywhere() { // no transaction may write rows that every shard stores
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
		// With last set, the leaseholder has dropped the locks along with its answer. Otherwise they must be released.
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

// proceed starts phase f, and sends request what to all groups of the transaction.
func (r *Replica) proceed(x *transaction, f phase, what pending) {
	x.phase = f
	x.waiting = len(x.parts)
	for _, p := range x.parts {
		p.open = what
		r.request(x, p)
	}
}

// nearest returns the group whose leaseholder is nearest to this node. The lowest number decides between equal
// distances.
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
		// Only the anchor recovers the transaction, so only its record lists the groups.
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
	// The request may be a repeated preparation, which has to be cancelled again at the new leaseholder.
	if x.contended {
		r.cancel(x, p)
	}
}

func (r *Replica) effects(x *transaction, p *part, h Header) Effects {
	e := Effects{Header: h, Age: x.age, Held: p.held, Again: p.again, Done: r.done, Writes: p.writes}
	p.again = true
	return e
}

// commit reports to the client that its transaction is committed, or that its procedure failed in a consistent state.
func (r *Replica) commit(x *transaction) {
	result, err := x.task.Result()
	o := txn.Outcome{ID: x.t.ID, Status: txn.Committed, Result: result}
	if err != nil {
		o = txn.AbortOutcome(x.t.ID, err)
	}
	r.reply(x, o)
}

// reply sends a client its transaction's outcome.
func (r *Replica) reply(x *transaction, o txn.Outcome) {
	// An exact footprint already determines the class.
	if !x.t.Exact {
		o.Class = x.task.Class(r.placement)
	}
	r.env.Reply(o)
}

// abort releases the transaction's locks in its groups. Groups that may have prepared it must acknowledge the abort.
func (r *Replica) abort(x *transaction) {
	prepared := x.phase == committing
	x.phase, x.outcome, x.waiting = resolving, Outcome{}, 0
	for _, p := range x.parts {
		p.open = nothing
		switch l := r.leaseholders[p.group]; {
		case p.sent == 0 || x.snapshot:
		// The group may have prepared the transaction and then keeps its locks until the outcome is in its log.
		case prepared && !p.refused:
			p.open = toResolve
			x.waiting++
			r.request(x, p)
		// Under a later leaseholder the transaction has no locks to release.
		case p.sent == l.term:
			r.send(l.node, &Ask{Header{Group: p.group, Term: l.term, Number: x.number, Clock: r.now()}, Release})
		}
	}
	if x.waiting == 0 {
		r.end(x)
	}
}

// restart runs a transaction again from the start, after its locks were lost with a leaseholder. After an abort, its
// client would only submit it again.
func (r *Replica) restart(x *transaction) {
	r.counters.restarts++
	r.env.Mark(restarted)
	r.abort(x)
	// The new attempt keeps the transaction's age. If it counted as younger, it could be wounded again and again.
	r.run(r.begin(x.t, x.age))
}

// rows handles the rows that a leaseholder has read.
func (r *Replica) rows(m *Rows) {
	x := r.open[m.Number]
	if x == nil {
		return
	}
	p := x.find(m.Group)
	// Rows of an earlier term were read under locks that are lost.
	if p == nil || p.open != toRead || p.sent != m.Term {
		return
	}
	p.held = m.Term
	r.supply(x, p, m.Found)
}

// supply passes rows to the procedure, and runs it once no rows are outstanding.
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

// answer handles a leaseholder's reply. Replies that follow from the log are valid in all terms. Other replies are
// valid only in the term of the last request, since a later leaseholder may decide differently.
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
		// A repeated preparation may be answered twice.
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
		// A refusal of an earlier term does not concern the open request. A group that has prepared cannot refuse any more.
		if p.sent != m.Term || x.phase == resolving || x.phase == committing && p.open == nothing {
			return
		}
		p.refused = true
		r.env.Mark(refused)
		// No other transaction caused the loss, so the client is not asked to retry.
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

// decide commits a transaction that all its groups have prepared. Nothing can abort it any more: a node that queries
// all groups finds the same outcome.
func (r *Replica) decide(x *transaction) {
	x.outcome = Outcome{Committed: true}
	for _, p := range x.parts {
		x.outcome.Timestamp = max(x.outcome.Timestamp, p.timestamp)
	}
	// Later transactions of this node must get larger timestamps than a transaction whose commit a client has seen.
	r.clock.See(x.outcome.Timestamp)
	// The client need not wait for the resolution: all preparations are in logs.
	r.commit(x)
	r.proceed(x, resolving, toResolve)
}

// contended handles the report that an older transaction waits for x, which is prepared. It cancels x in groups where x
// still waits for locks, because the two transactions could otherwise wait for each other. In groups where x waits only
// for the log, x continues.
func (r *Replica) contended(x *transaction) {
	if x.phase != committing || x.contended {
		return
	}
	x.contended = true
	for _, p := range x.parts {
		r.cancel(x, p)
	}
}

// cancel asks a group's leaseholder to give up a preparation that still waits for locks.
func (r *Replica) cancel(x *transaction, p *part) {
	// A leaseholder of another term has not received the preparation yet: request sends it there and then cancels it.
	if l := r.leaseholders[p.group]; p.open == toPrepare && p.sent == l.term && l.term > 0 {
		r.send(l.node, &Ask{Header{Group: p.group, Term: l.term, Number: x.number, Clock: r.now()}, Cancel})
	}
}

// follow handles the announcement of a leaseholder. It repeats the open requests of the group. A transaction that has
// locks under an earlier leaseholder and is not prepared has lost them, so it restarts.
func (r *Replica) follow(from geo.NodeID, m *raftgroup.Lead) {
	// The announcement of a deposed leaseholder may arrive after its successor's.
	if m.Group >= len(r.leaseholders) || m.Term <= r.leaseholders[m.Group].term {
		return
	}
	r.leaseholders[m.Group] = tenure{from, m.Term}
	// Sorted, because the order of the requests must not depend on the iteration order of the map.
	for _, n := range slices.Sorted(maps.Keys(r.open)) {
		x := r.open[n]
		if x == nil || x.snapshot {
			continue
		}
		p := x.find(m.Group)
		switch {
		case p == nil:
		// A validation covers the locks of a single term, and these are lost with that term's leaseholder.
		case x.phase == reading && p.held != 0, p.open == toValidate:
			r.restart(x)
		case p.open != nothing:
			r.request(x, p)
		}
	}
}
