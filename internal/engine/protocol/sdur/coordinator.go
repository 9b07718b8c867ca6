package sdur

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

// coordinator runs the transactions of a node's clients.
type coordinator struct {
	// leaders are the latest known leaders, by group.
	leaders []tenure
	// suspect are the nodes that have not answered, and said nothing since.
	suspect []bool
	// open are the transactions that have not ended in all their groups, by number. next is the number of the next
	// transaction, and all transactions below done have ended.
	open       map[uint64]*transaction
	next, done uint64
}

// tenure is a node's term as a leader; term 0 is none.
type tenure struct {
	node geo.NodeID
	term uint64
}

// phase is a transaction's progress at its coordinator.
type phase uint8

const (
	reading phase = iota
	terminating
)

// transaction is a transaction in progress.
type transaction struct {
	number uint64
	t      *txn.Transaction
	task   *rerun.Task
	phase  phase
	parts  []*part // in the order of their first use; ascending once it terminates
	// waiting counts the parts that have something open.
	waiting int
	// round counts the reads.
	round uint64
	// cut says that the transaction reads at a time, which is at, and is not certified.
	cut bool
	at  uint64

	participants []int // of a global transaction
	floor        uint64
	anchor       int
	answered     bool
}

// part is a group that a transaction has to do with.
type part struct {
	group int
	// open reports that rows or the end of the transaction are outstanding.
	open  bool
	needs []rerun.Need
	// seen says that the transaction reads the group as of snapshot.
	seen     bool
	snapshot Snapshot
	// member is the member that was last asked for rows, at time asked; try counts the members that were asked in vain.
	member geo.NodeID
	asked  time.Duration
	try    int

	reads  []uint64
	ranges []txn.Range
	writes []txn.WriteEntry
	// held says that the submission is delayed, again that it has been made in an earlier term.
	held, again bool
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
	x := &transaction{number: r.next, t: t, task: rerun.New(r.procedures, t, r.store, r.interactive)}
	r.next++
	r.open[x.number] = x
	if r.cuts && r.procedures.ReadsOnly(t) {
		r.counters.readOnly++
		x.cut, x.at = true, r.cut(t)
	}
	r.tickLater()
	r.run(x)
	r.node.Finish()
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
		r.terminate(x)
		return
	}
	x.round++
	for i := range needs {
		n := &needs[i]
		p := x.part(r.layout.Shard(n.Range.From))
		if !p.open {
			p.open = true
			x.waiting++
		}
		if p.needs == nil {
			p.needs = make([]rerun.Need, 0, len(needs)-i)
		}
		p.needs = append(p.needs, *n)
	}
	r.askAll(x)
}

func (r *Replica) askAll(x *transaction) {
	for _, p := range x.parts {
		if p.open {
			r.ask(x, p)
		}
	}
}

// terminate performs the remaining steps once the procedure has finished: it submits the transaction to its groups. A
// transaction that only reads at a timestamp has seen a state of the database, and needs no certification. All others
// need it. This includes a procedure that fails, since the state that it has read may never have existed.
func (r *Replica) terminate(x *transaction) {
	_, err := x.task.Result()
	if x.cut || err == txn.ErrUndeclared || len(x.parts) == 0 && err != nil {
		r.conclude(x, Commit)
		r.end(x)
		return
	}
	if err == nil && !r.gatherWrites(x) {
		return
	}
	if len(x.parts) == 0 {
		r.conclude(x, Commit)
		r.end(x)
		return
	}
	if len(x.parts) > 1 && !r.seesAll(x) {
		return
	}
	r.gatherReads(x)
	x.phase, x.waiting = terminating, len(x.parts)
	if len(x.parts) == 1 {
		r.counters.locals++
	} else {
		r.counters.globals++
		r.prepareGlobal(x)
	}
	for _, p := range x.parts {
		p.open = true
		if !p.held {
			r.submit(x, p)
		}
	}
}

// gatherWrites distributes the writes to the groups. It reports whether the transaction continues.
func (r *Replica) gatherWrites(x *transaction) bool {
	writes := x.task.Writes().Entries()
	for _, p := range x.parts {
		p.writes = nil
	}
	for i := range writes {
		k := writes[i].Key
		if k.Everywhere() { // which no transaction writes
			r.reply(x, txn.AbortOutcome(x.t.ID, txn.ErrUndeclared))
			r.end(x)
			return false
		}
		p := x.part(r.layout.Shard(k))
		if p.writes == nil {
			p.writes = make([]txn.WriteEntry, 0, len(writes)-i)
		}
		p.writes = append(p.writes, writes[i])
	}
	return true
}

// seesAll reports whether a global transaction has a snapshot of each of its groups, which determines the concurrent
// transactions. It asks groups that are only written for a snapshot.
func (r *Replica) seesAll(x *transaction) bool {
	for _, p := range x.parts {
		if !p.seen {
			p.open = true
			x.waiting++
		}
	}
	if x.waiting == 0 {
		return true
	}
	x.round++
	r.askAll(x)
	return false
}

// gatherReads distributes the reads to the groups: rows by their hashes, and scans up to the point that they reached.
func (r *Replica) gatherReads(x *transaction) {
	for _, read := range x.task.Reads() {
		p := x.find(r.layout.Shard(read.Range.From))
		if read.Range.Point() {
			if p.reads == nil {
				p.reads = make([]uint64, 0, len(x.task.Reads()))
			}
			p.reads = append(p.reads, hashOf(read.Range.From))
			continue
		}
		scanned := txn.Range{From: read.Range.From, To: read.Range.To}
		if n := len(read.Rows); n > 0 && n == read.Range.Limit {
			if last := read.Rows[n-1].Key; read.Range.Reverse {
				scanned.From = last
			} else {
				scanned.To = last + "\x00"
			}
		}
		p.ranges = append(p.ranges, scanned)
	}
}

// prepareGlobal determines the participants, the group that answers first, and the submission that is delayed. It
// delays the submission to the group with the nearest leader, which would otherwise wait longest for the votes of the
// other groups.
func (r *Replica) prepareGlobal(x *transaction) {
	slices.SortFunc(x.parts, func(a, b *part) int { return a.group - b.group })
	var anchor *part
	var least time.Duration
	for _, p := range x.parts {
		x.participants = append(x.participants, p.group)
		x.floor = max(x.floor, p.snapshot.At)
		l, known := r.leaderOf(p.group)
		if !known {
			l.node = r.layout.Group(p.group).Leader
		}
		if d := raftgroup.Distance(r.topology, r.self, l.node); anchor == nil || d < least {
			anchor, least = p, d
		}
	}
	x.anchor = anchor.group
	if r.delay > 0 {
		anchor.held = true
		r.env.After(r.delay, protocol.Timer{Kind: delayTimer, Arg: x.number})
	}
}

// release submits the delayed part.
func (r *Replica) release(number uint64) {
	x := r.open[number]
	if x == nil {
		return
	}
	for _, p := range x.parts {
		if p.held {
			p.held = false
			r.submit(x, p)
		}
	}
}

// leaderOf returns a group's leader, if this node knows it.
func (r *Replica) leaderOf(group int) (l tenure, known bool) {
	if group < len(r.leaders) {
		l = r.leaders[group]
	}
	return l, l.term > 0
}

// submit asks a group's leader to broadcast a transaction. It is asked once in every term until the group has
// answered: a leader that is not known, or is not any more, is asked when it says that it leads.
func (r *Replica) submit(x *transaction, p *part) {
	l, known := r.leaderOf(p.group)
	if !known {
		return
	}
	m := &Submit{Group: p.group, Term: l.term, Number: x.number, Again: p.again, Update: Update{
		ID: x.t.ID, Done: r.done, Snapshot: p.snapshot, Reads: p.reads, Ranges: p.ranges, Writes: p.writes,
	}}
	if len(x.participants) > 0 {
		m.Participants, m.Floor, m.Anchor = x.participants, x.floor, x.anchor
	}
	p.again = true
	r.send(l.node, m)
}

// answer handles a group's answer about a transaction. The first answer has the transaction's outcome.
func (r *Replica) answer(m *Answer) {
	x := r.open[m.Number]
	if x == nil || x.phase != terminating {
		return
	}
	p := x.find(m.Group)
	if p == nil || !p.open {
		return
	}
	if !x.answered {
		r.conclude(x, m.Verdict)
	}
	if !m.Final {
		return
	}
	p.open = false
	if x.waiting--; x.waiting == 0 {
		r.end(x)
	}
}

// conclude sends the client the outcome of its transaction.
func (r *Replica) conclude(x *transaction, v Verdict) {
	x.answered = true
	if v != Commit {
		r.reply(x, txn.Outcome{ID: x.t.ID, Status: txn.Aborted, Cause: txn.CauseConflict, Reason: v.reason()})
		return
	}
	result, err := x.task.Result()
	if err != nil {
		r.reply(x, txn.AbortOutcome(x.t.ID, err))
		return
	}
	r.reply(x, txn.Outcome{ID: x.t.ID, Status: txn.Committed, Result: result})
}

func (r *Replica) reply(x *transaction, o txn.Outcome) {
	if !x.t.Exact {
		o.Class = x.task.Class(r.placement)
	}
	r.env.Reply(o)
}

// follow handles the announcement of a leader. It sends the open requests of the group again, and exchanges votes with
// it.
func (r *Replica) follow(from geo.NodeID, m *raftgroup.Lead) {
	if m.Group >= len(r.leaders) || m.Term <= r.leaders[m.Group].term {
		return
	}
	r.leaders[m.Group] = tenure{from, m.Term}
	for _, n := range slices.Sorted(maps.Keys(r.open)) {
		x := r.open[n]
		if x.phase != terminating {
			continue
		}
		if p := x.find(m.Group); p != nil && p.open && !p.held {
			r.submit(x, p)
		}
	}
	for _, g := range r.groups {
		if g != nil && g.Shard != m.Group && g.Leads() {
			g.renew(m.Group)
		}
	}
}
