package spanner

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol"
)

const (
	// closeEvery is the interval at which a leaseholder closes timestamps.
	closeEvery = 200 * time.Millisecond
	// keptBehind is how long old row versions are kept in addition to parameter staleness.
	keptBehind = 10 * time.Second
)

// snapshotRead is a SnapshotRead with its sender.
type snapshotRead struct {
	from geo.NodeID
	*SnapshotRead
}

// readSnapshot requests rows as of the transaction's snapshot from a member of the group: first the nearest member,
// then the next at each retry.
func (r *Replica) readSnapshot(x *transaction, p *part) {
	m := &SnapshotRead{Group: p.group, Number: x.number, Round: x.round, At: x.at, Ranges: make([]txn.Range, len(p.needs))}
	for i := range p.needs {
		m.Ranges[i] = p.needs[i].Range
	}
	members := r.members[p.group]
	p.at = r.env.Now()
	r.send(members[p.try%len(members)], m)
}

// retrySnapshots asks other members for outstanding rows.
func (r *Replica) retrySnapshots(x *transaction) {
	for _, p := range x.parts {
		if p.open == toRead && r.env.Now()-p.at >= r.patience {
			p.try++
			r.env.Mark(snapshotRetried)
			r.readSnapshot(x, p)
		}
	}
}

// snapshotRead answers a request for rows at a timestamp, or queues it until the timestamp is closed.
func (g *group) snapshotRead(from geo.NodeID, m *SnapshotRead) {
	if q := (&snapshotRead{from, m}); !g.answerSnapshot(q) {
		g.snapshots = append(g.snapshots, q)
		g.r.tickLater()
	}
}

// answerSnapshot answers a snapshot read. It returns false if this member cannot answer yet.
func (g *group) answerSnapshot(q *snapshotRead) bool {
	a := &SnapshotRows{Group: g.Shard, Number: q.Number, Round: q.Round}
	switch {
	case !g.Raft.Joined(): // a new incarnation has no rows
		g.r.env.Mark(readBeforeJoining)
		return false
	// Versions below oldest are missing after a state transfer, and versions below trimmed were discarded.
	case q.At < max(g.oldest, g.r.trimmed):
		a.TooOld = true
		g.r.env.Mark(snapshotTooOld)
	// A write at this timestamp may still commit, so the snapshot is incomplete.
	case q.At > g.closed && g.r.mistake != earlySnapshot:
		g.r.env.Mark(snapshotEarly)
		return false
	default:
		a.Found = raftgroup.Find(g.r.store, q.At, len(q.Ranges), func(i int) *txn.Range { return &q.Ranges[i] })
	}
	g.r.send(q.from, a)
	return true
}

// wakeSnapshots answers the reads that have waited for a timestamp to close.
func (g *group) wakeSnapshots() {
	kept := g.snapshots[:0]
	for _, q := range g.snapshots {
		if !g.answerSnapshot(q) {
			kept = append(kept, q)
		}
	}
	clear(g.snapshots[len(kept):])
	g.snapshots = kept
}

// snapshotRows handles the rows that a member has returned.
func (r *Replica) snapshotRows(m *SnapshotRows) {
	x := r.open[m.Number]
	// A retry may have answered the round already.
	if x == nil || !x.snapshot || x.round != m.Round {
		return
	}
	p := x.find(m.Group)
	switch {
	case p == nil || p.open != toRead:
	case m.TooOld:
		// A conflict makes the client retry, and the retry reads a newer snapshot.
		r.reply(x, txn.Outcome{ID: x.t.ID, Status: txn.Aborted, Cause: txn.CauseConflict, Reason: ReasonTooOld})
		r.end(x)
	default:
		r.supply(x, p, m.Found)
	}
}

// trim discards row versions that were replaced more than staleness plus keptBehind ago.
func (r *Replica) trim() {
	if behind := uint64(r.staleness + protocol.Shrunk(r.node.Shrink, keptBehind)); r.closing && r.clock.Last() > r.trimmed+behind {
		r.trimmed = r.clock.Last() - behind
		r.store.Trim(r.trimmed)
	}
}
