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

// coordinator is the state of the transactions that this node's clients have submitted.
type coordinator struct {
	// leaders are the latest known leaders of the groups, by shard; term 0 means unknown.
	leaders []tenure
	// suspect marks nodes that have not answered a read in time and have sent no message after that.
	suspect []bool
	// open are the transactions that have not ended in all their groups, by number. next is the number of the next
	// transaction, and all transactions below done have ended.
	open       map[uint64]*transaction
	next, done uint64
}

// tenure is a node and the term in which it leads a group. Term 0 means that no leader is known.
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
	parts  []*part // in the order of their first use; ascending once the transaction terminates
	// waiting is the number of parts with outstanding rows or a missing final answer.
	waiting int
	// round is the number of the latest round of reads.
	round uint64
	// cut is set for a transaction that reads at timestamp at and is not certified.
	cut bool
	at  uint64

	participants []int // of a global transaction
	floor        uint64
	anchor       int
	answered     bool
}

// part is the part of a transaction in one group.
type part struct {
	group int
	// open is set while rows or the final answer of the group are outstanding.
	open  bool
	needs []rerun.Need
	// seen is set once snapshot is known; the transaction then reads the group in that snapshot.
	seen     bool
	snapshot Snapshot
	// member is the member that received the last request for rows, at time asked. try selects a member if all members
	// are suspected.
	member geo.NodeID
	asked  time.Duration
	try    int

	reads  []uint64
	ranges []txn.Range
	writes []txn.WriteEntry
	// held is set while the submission is delayed, again once the part has been submitted.
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

// end removes a transaction that has ended in all its groups, and advances done.
func (r *Replica) end(x *transaction) {
	delete(r.open, x.number)
	for r.done < r.next && r.open[r.done] == nil {
		r.done++
	}
}

// run runs the procedure until it needs rows that are not available, and requests those rows. If the procedure has
// finished, run terminates the transaction.
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

// terminate submits a transaction to its groups once its procedure has finished. A transaction that reads at a
// timestamp (cut) has seen a consistent state of the database, and needs no certification. All others are certified,
// even if their procedure failed, since the state that they have read may never have existed.
func (r *Replica) terminate(x *transaction) {
	_, err := x.task.Result()
	// An undeclared access fails in every state, and a failure without reads depends on no state.
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
	// The parts' snapshots decide which transactions are concurrent, so certification of a global transaction needs all
	// of them.
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

// gatherWrites distributes the writes to the groups. It returns false if a write is not allowed and the transaction was
// aborted.
func (r *Replica) gatherWrites(x *transaction) bool {
	writes := x.task.Writes().Entries()
	// If seesAll has delayed termination, an earlier call has already gathered the writes. They must not be submitted
	// twice.
	for _, p := range x.parts {
		p.writes = nil
	}
	for i := range writes {
		k := writes[i].Key
		if k.Everywhere() { // no transaction may write rows that every shard stores
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
// transactions. It requests a snapshot from groups in which the transaction only writes.
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
		// A scan that stopped at its limit has observed nothing beyond its last row. To is exclusive, so the smallest
		// longer key includes that row.
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
	// Participants must be ascending, because groups find their votes by binary search.
	slices.SortFunc(x.parts, func(a, b *part) int { return a.group - b.group })
	var anchor *part
	var least time.Duration
	for _, p := range x.parts {
		x.participants = append(x.participants, p.group)
		// The transaction's timestamp must be later than every snapshot that it has read.
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

// release submits the delayed part of transaction number, unless the transaction has ended.
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

// submit sends a transaction's part to the group's leader. The coordinator submits it once in every term until the
// group has answered. If the leader is unknown or has been replaced, follow submits the part when the next leader
// announces itself.
func (r *Replica) submit(x *transaction, p *part) {
	// No message is sent before a leader announces itself. follow then submits all open parts of the group.
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

// answer handles a group's answer about a transaction. The first answer contains the transaction's outcome.
func (r *Replica) answer(m *Answer) {
	x := r.open[m.Number]
	// The transaction may already have ended: a new leader answers repeated submissions again.
	if x == nil || x.phase != terminating {
		return
	}
	p := x.find(m.Group)
	if p == nil || !p.open {
		return
	}
	// The client receives the outcome as soon as the anchor knows it, even if the anchor's answer is not final.
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

// follow handles the announcement of a group's leader. It submits open transactions of the group to the new leader, and
// this node's groups exchange votes with it.
func (r *Replica) follow(from geo.NodeID, m *raftgroup.Lead) {
	// Announcements of different nodes may arrive in any order; only a later term counts.
	if m.Group >= len(r.leaders) || m.Term <= r.leaders[m.Group].term {
		return
	}
	r.leaders[m.Group] = tenure{from, m.Term}
	// The order of map iteration would differ between replays.
	for _, n := range slices.Sorted(maps.Keys(r.open)) {
		x := r.open[n]
		if x.phase != terminating {
			continue
		}
		// A held part is submitted by its timer, to the leader that is known then.
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
