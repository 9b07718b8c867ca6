package janus

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
)

// garbage forgets instances whose position in the execution order is fixed at all replicas. Nodes exchange their
// progress, at most once per tick and only when there is news:
//
//   - A replica reports to a coordinator the point up to which it has ordered the received instances of its row (Done).
//   - A coordinator thus knows up to where its row is stable, which means ordered by all its replicas, and notifies all
//     nodes (Stable). An instance that still depends on a stable instance follows it everywhere, so coordinators omit
//     stable instances from the dependencies that they compare and commit.
//   - Nodes report to the coordinator that they have received that, and that the instances have ended at their
//     executors (Heard). It notifies them when all nodes have reported (Forget). Only then do replicas drop the
//     records, with the reads that they keep for other nodes of their copy. They also remove them from the histories of
//     their keys. Hence an answer to PreAccept only lacks dependencies that the coordinator knows to be stable, and
//     forgetting alone never costs the fast path.
//
// The members of a component of several are kept until all are stable: another partition may have to ask for one of
// them before it can order another.
//
// While a node does not answer, nothing new becomes stable, and records stay, since it may come back and ask for them.
type garbage struct {
	r     *Replica
	peers []peer
}

// peer is the progress that this node exchanges with another node.
type peer struct {
	sent  uint64 // the last number of the own row that was sent to it
	done  uint64 // up to which instance it has reported to have ordered the own row
	heard uint64 // up to which instance it has reported to know that the own row is stable
	told  Progress
}

func (g *garbage) init(r *Replica) {
	g.r = r
	g.peers = make([]peer, r.nodes)
}

// progress takes another node's news.
func (g *garbage) progress(from geo.NodeID, m *Progress) {
	p, row := &g.peers[from], &g.r.rows[from]
	p.done = max(p.done, m.Done)
	p.heard = max(p.heard, m.Heard)
	row.stable = max(row.stable, m.Stable)
	row.forget = max(row.forget, m.Forget)
}

// tick forgets the instances that may be forgotten, and sends the other nodes the news. It reports whether there was
// any.
func (g *garbage) tick() (news bool) {
	r := g.r
	for n := range r.rows {
		row := &r.rows[n]
		for row.undone.Len() > 0 && row.undone.Front().phase == Ordered {
			row.undone.Pop()
		}
		row.done = row.received
		if row.undone.Len() > 0 {
			row.done = row.undone.Front().id.Seq() - 1
		}
	}
	own := &r.rows[r.self]
	stable := r.next - 1
	if own.undone.Len() > 0 {
		stable = own.done
	}
	for n := range g.peers {
		if p := &g.peers[n]; p.done < p.sent {
			stable = min(stable, p.done)
		}
	}
	if r.rejoin.settled() {
		own.stable = max(own.stable, stable)
	}
	forget := own.heard()
	for n := range g.peers {
		if n != int(r.self) {
			forget = min(forget, g.peers[n].heard)
		}
	}
	own.forget = max(own.forget, forget)
	for n := range g.peers {
		if n == int(r.self) {
			continue
		}
		p, row := &g.peers[n], &r.rows[n]
		m := Progress{Done: row.done, Heard: row.heard(), Stable: own.stable, Forget: own.forget}
		if m != p.told {
			p.told = m
			news = true
			r.env.Send(geo.NodeID(n), &m)
		}
	}
	for n := range r.rows {
		g.collect(&r.rows[n])
	}
	g.collectForeign()
	return news
}

// collect forgets the front of a row.
func (g *garbage) collect(row *row) {
	r := g.r
	n := 0
	for _, rec := range row.kept {
		if rec.id.Seq() > row.forget || rec.phase != Ordered || !g.settled(rec) {
			break
		}
		r.leave(rec.id, rec.t)
		delete(r.records, rec.id)
		n++
	}
	row.kept = slices.Delete(row.kept, 0, n)
}

// heard returns up to where all of the row's stable part is over here.
func (row *row) heard() uint64 {
	for _, rec := range row.kept {
		if rec.id.Seq() > row.stable {
			break
		}
		if !rec.executed {
			return rec.id.Seq() - 1
		}
	}
	return row.stable
}

// settled reports whether no node needs rec to find the component of another instance.
func (g *garbage) settled(rec *record) bool {
	if rec.scc == nil {
		return true
	}
	for _, id := range *rec.scc {
		if !g.r.forgotten(id) {
			return false
		}
	}
	return true
}

// collectForeign forgets instances of other partitions, and instances that this node knows only by name, in the order
// in which it learned of them.
func (g *garbage) collectForeign() {
	r := g.r
	list := &r.graph.foreign
	for ; list.Len() > 0; list.Pop() {
		rec := list.Front()
		if r.find(rec.id) != rec || rec.t != nil && !rec.foreign {
			continue // its row keeps it, or has dropped it
		}
		open := rec.watched && (rec.phase < Committed || rec.phase < Ordered && !rec.foreign)
		if open || rec.id.Seq() > r.rows[rec.id.Node()].forget || len(rec.watchers) > 0 || !g.settled(rec) {
			return
		}
		delete(r.records, rec.id)
	}
}
