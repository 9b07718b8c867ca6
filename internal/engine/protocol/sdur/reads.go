package sdur

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol"
)

const (
	// closeEvery is the maximum interval between a leader's deliveries. A leader without transactions delivers a tick, so
	// that its closed timestamp advances and old row versions can be discarded. Parameter tick is at most closeEvery,
	// because ticks count as deliveries.
	closeEvery = 200 * time.Millisecond
	// keptBehind is how long replaced row versions are kept, measured from the closed timestamp.
	keptBehind = 10 * time.Second
)

// waitingRead is a Read with its sender.
type waitingRead struct {
	from geo.NodeID
	*Read
}

// read answers a request for rows, or queues it until this member has reached the requested state.
func (g *group) read(from geo.NodeID, m *Read) {
	if q := (&waitingRead{from, m}); !g.answerRead(q) {
		g.r.env.Mark(readWaits)
		g.reads = append(g.reads, q)
		g.r.tickLater()
	}
}

// answerRead answers a request for rows. It returns false if this member has not reached the requested state.
func (g *group) answerRead(q *waitingRead) bool {
	a := &Rows{Group: g.Shard, Number: q.Number, Round: q.Round, Snapshot: q.Snapshot}
	at := q.Snapshot.At
	switch {
	case g.empty: // a new incarnation has no rows
		g.r.env.Mark(readBeforeJoining)
		return false
	case q.View == Newest:
		// The member chooses its newest state as the snapshot. The transaction's later reads of this group name the same
		// snapshot.
		at, a.Snapshot = store.Newest, Snapshot{g.completed, g.last}
	case g.r.mistake == newestCut && q.View == Cut:
		at = store.Newest
	// Replaced versions below oldest may be discarded. An answer from the remaining versions could mix two states.
	case q.Snapshot.At < g.oldest:
		a.TooOld = true
		g.r.env.Mark(readTooOld)
	// A count identifies the snapshot of an update transaction. A cut is readable once its timestamp is closed.
	case q.View == Same && g.completed < q.Snapshot.Count, q.View == Cut && g.closed() < q.Snapshot.At:
		return false
	}
	if !a.TooOld {
		a.Found = raftgroup.Find(g.r.store, at, len(q.Ranges), func(i int) *txn.Range { return &q.Ranges[i] })
	}
	g.r.send(q.from, a)
	return true
}

// wakeReads answers the waiting reads that have become possible.
func (g *group) wakeReads() {
	if len(g.reads) == 0 {
		return
	}
	kept := g.reads[:0]
	for _, q := range g.reads {
		if !g.answerRead(q) {
			kept = append(kept, q)
		}
	}
	clear(g.reads[len(kept):])
	g.reads = kept
}

// trim discards row versions that were replaced more than keptBehind before the closed timestamps of all of the node's
// groups. A transaction that stays pending for a long time stops the closed timestamp, and thereby preserves old
// versions. This is needed because reads at earlier timestamps may still arrive.
func (r *Replica) trim() {
	enough := r.trimmed + uint64(protocol.Shrunk(r.node.Shrink, keptBehind)) + uint64(closeEvery)
	// delivered is never below closed, and needs no loop over the pending transactions.
	if r.least((*group).delivered) <= enough {
		return
	}
	least := r.least((*group).closed)
	if least <= enough {
		return
	}
	r.trimmed = least - uint64(protocol.Shrunk(r.node.Shrink, keptBehind))
	r.store.Trim(r.trimmed)
	for _, g := range r.groups {
		if g != nil {
			// The newest version of each row stays, so reads at g.last or later remain possible.
			g.oldest = max(g.oldest, min(g.last, r.trimmed))
		}
	}
}

// least returns the minimum of a value over the groups that this node has joined, or store.Newest if there are none.
func (r *Replica) least(of func(*group) uint64) uint64 {
	least := uint64(store.Newest)
	for _, g := range r.groups {
		if g != nil && !g.empty {
			least = min(least, of(g))
		}
	}
	return least
}

// delivered returns the timestamp of the last applied entry.
func (g *group) delivered() uint64 { return g.horizon }

// cut returns the timestamp at which a read-only transaction reads. It is the latest timestamp that is closed in all
// local groups that the transaction may read. If its footprint is exact, these are the groups in the footprint.
// Otherwise, they are all groups of the node.
func (r *Replica) cut(t *txn.Transaction) uint64 {
	least := uint64(store.Newest)
	if t.Exact {
		for i := range t.Accesses {
			if g := r.groups[r.layout.Shard(t.Accesses[i].Key)]; g != nil && !g.empty {
				least = min(least, g.closed())
			}
		}
	}
	if least == store.Newest { // the footprint is not exact or names no local group
		least = r.least((*group).closed)
	}
	if least < store.Newest {
		return least
	}
	now := r.clock.Now(r.env.Now()) // this node has joined no group
	return now - min(now, uint64(closeEvery+r.longest))
}

// ask requests rows from a member of a group. reader chooses the member.
func (r *Replica) ask(x *transaction, p *part) {
	m := &Read{Group: p.group, Number: x.number, Round: x.round, View: Newest, Snapshot: p.snapshot, Ranges: make([]txn.Range, len(p.needs))}
	switch {
	// A cut needs no snapshot from the member; the timestamp is the same in all groups.
	case x.cut:
		m.View, m.Snapshot = Cut, Snapshot{At: x.at}
	case p.seen:
		m.View = Same
	}
	for i := range p.needs {
		m.Ranges[i] = p.needs[i].Range
	}
	p.asked, p.member = r.env.Now(), r.reader(x, p)
	r.send(p.member, m)
}

// reader returns the member to ask: the nearest member that is not suspected. A retry asks the leader, because the
// nearest member may lag and cause the same conflict again.
func (r *Replica) reader(x *transaction, p *part) geo.NodeID {
	// The leader has the newest snapshot. A cut gains nothing there, since its timestamp is fixed.
	if l, known := r.leaderOf(p.group); known && x.t.Attempt > 0 && !x.cut && !r.suspect[l.node] {
		return l.node
	}
	members := r.members[p.group]
	for _, m := range members {
		if !r.suspect[m] && (m != r.self || !r.groups[p.group].empty) {
			return m
		}
	}
	r.env.Mark(allSilent)
	p.try++ // all are suspected: try them in turn
	return members[p.try%len(members)]
}

// retryReads repeats late requests for rows and suspects the members that have not answered.
func (r *Replica) retryReads(x *transaction) {
	for _, p := range x.parts {
		if p.open && x.phase == reading && (r.env.Now()-p.asked >= r.patience || r.env.Buggify(asksAnother)) {
			// A message from the member removes the suspicion (Receive). This node cannot suspect itself.
			if p.member != r.self {
				r.suspect[p.member] = true
				r.env.Mark(memberSuspected)
			}
			r.ask(x, p)
		}
	}
}

// rows handles the rows that a member has returned.
func (r *Replica) rows(m *Rows) {
	x := r.open[m.Number]
	// A late answer of an earlier round would be matched with the needs of the current round.
	if x == nil || x.phase != reading || x.round != m.Round {
		return
	}
	p := x.find(m.Group)
	switch {
	// The member was asked twice, and the first answer has already been used.
	case p == nil || !p.open || len(m.Found) != len(p.needs) && !m.TooOld:
	case m.TooOld:
		r.reply(x, txn.Outcome{ID: x.t.ID, Status: txn.Aborted, Cause: txn.CauseConflict, Reason: ReasonTooOld})
		r.end(x)
	default:
		// The first answer determines the snapshot of all later reads of this group.
		if !p.seen {
			p.seen, p.snapshot = true, m.Snapshot
		}
		raftgroup.Supply(x.task, p.needs, m.Found)
		p.open, p.needs = false, nil
		if x.waiting--; x.waiting == 0 {
			r.run(x)
		}
	}
}
