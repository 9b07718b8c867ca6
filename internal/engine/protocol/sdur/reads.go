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
	// closeEvery is the maximum interval between deliveries of a leader. Without transactions it delivers a tick, so that
	// cuts are not older, and old row versions are discarded. Since ticks count as deliveries, parameter tick is at most
	// closeEvery.
	closeEvery = 200 * time.Millisecond
	// keptBehind is the time for which old row versions are kept.
	keptBehind = 10 * time.Second
)

// waitingRead is a Read with its sender.
type waitingRead struct {
	from geo.NodeID
	*Read
}

// read takes a request for rows.
func (g *group) read(from geo.NodeID, m *Read) {
	if q := (&waitingRead{from, m}); !g.answerRead(q) {
		g.r.env.Mark(readWaits)
		g.reads = append(g.reads, q)
		g.r.tickLater()
	}
}

// answerRead answers unless this member does not have the state yet.
func (g *group) answerRead(q *waitingRead) bool {
	a := &Rows{Group: g.Shard, Number: q.Number, Round: q.Round, Snapshot: q.Snapshot}
	at := q.Snapshot.At
	switch {
	case g.empty: // a new incarnation has no rows
		g.r.env.Mark(readBeforeJoining)
		return false
	case q.View == Newest:
		at, a.Snapshot = store.Newest, Snapshot{g.completed, g.last}
	case g.r.mistake == newestCut && q.View == Cut:
		at = store.Newest
	case q.Snapshot.At < g.oldest:
		a.TooOld = true
		g.r.env.Mark(readTooOld)
	case q.View == Same && g.completed < q.Snapshot.Count, q.View == Cut && g.closed() < q.Snapshot.At:
		return false
	}
	if !a.TooOld {
		a.Found = raftgroup.Find(g.r.store, at, len(q.Ranges), func(i int) *txn.Range { return &q.Ranges[i] })
	}
	g.r.send(q.from, a)
	return true
}

// wakeReads answers the reads that have waited.
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

// trim discards row versions that no transaction reads any more. These are versions that were replaced long before the
// time up to which each of the node's groups is closed. A transaction that is pending for long keeps them: its versions
// may be older than the later deliveries, and reads of the time before it wait.
func (r *Replica) trim() {
	enough := r.trimmed + uint64(protocol.Shrunk(r.node.Shrink, keptBehind)) + uint64(closeEvery)
	if r.least((*group).delivered) <= enough { // which is quickly found
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
			g.oldest = max(g.oldest, min(g.last, r.trimmed))
		}
	}
}

// least returns the minimum of a value over the node's groups that it has joined.
func (r *Replica) least(of func(*group) uint64) uint64 {
	least := uint64(store.Newest)
	for _, g := range r.groups {
		if g != nil && !g.empty {
			least = min(least, of(g))
		}
	}
	return least
}

// delivered returns the time of the last entry.
func (g *group) delivered() uint64 { return g.horizon }

// cut returns the time at which a transaction reads that writes nothing: the latest for which this node's members of
// the groups that it reads need not wait. Those are what its footprint names if that is exact; otherwise the node's
// other groups may be read, too.
func (r *Replica) cut(t *txn.Transaction) uint64 {
	least := uint64(store.Newest)
	if t.Exact {
		for i := range t.Accesses {
			if g := r.groups[r.layout.Shard(t.Accesses[i].Key)]; g != nil && !g.empty {
				least = min(least, g.closed())
			}
		}
	}
	if least == store.Newest { // also if the node keeps none of them
		least = r.least((*group).closed)
	}
	if least < store.Newest {
		return least
	}
	now := r.clock.Now(r.env.Now()) // this node holds no rows, or none yet
	return now - min(now, uint64(closeEvery+r.longest))
}

// ask asks a member of a group for rows: the nearest member that seems to live. If the transaction has failed before,
// it asks the leader, since the nearest member may lag.
func (r *Replica) ask(x *transaction, p *part) {
	m := &Read{Group: p.group, Number: x.number, Round: x.round, View: Newest, Snapshot: p.snapshot, Ranges: make([]txn.Range, len(p.needs))}
	switch {
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

// reader returns the member of a group that is to be asked.
func (r *Replica) reader(x *transaction, p *part) geo.NodeID {
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
	p.try++ // all are silent
	return members[p.try%len(members)]
}

// retryReads asks other members for outstanding rows.
func (r *Replica) retryReads(x *transaction) {
	for _, p := range x.parts {
		if p.open && x.phase == reading && (r.env.Now()-p.asked >= r.patience || r.env.Buggify(asksAnother)) {
			if p.member != r.self {
				r.suspect[p.member] = true
				r.env.Mark(memberSuspected)
			}
			r.ask(x, p)
		}
	}
}

// rows handles the rows that a member has read.
func (r *Replica) rows(m *Rows) {
	x := r.open[m.Number]
	if x == nil || x.phase != reading || x.round != m.Round {
		return
	}
	p := x.find(m.Group)
	switch {
	case p == nil || !p.open || len(m.Found) != len(p.needs) && !m.TooOld:
	case m.TooOld:
		r.reply(x, txn.Outcome{ID: x.t.ID, Status: txn.Aborted, Cause: txn.CauseConflict, Reason: ReasonTooOld})
		r.end(x)
	default:
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
