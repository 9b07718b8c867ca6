package janus

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
)

// garbage forgets what has its place in everybody's order of execution. Nodes tell each other how far they are, at most once per tick and only
// when there is news:
//
//   - A replica tells a coordinator up to where it has ordered what has come of its row (Done).
//   - A coordinator knows from that up to where its row is stable, which means ordered by all its replicas, and tells
//     everybody (Stable). Who still depends on a stable instance comes after it everywhere, so coordinators leave those
//     out of the dependencies that they compare and commit.
//   - Nodes tell the coordinator that they have heard it, and that it is over at their executors (Heard), and it tells
//     them when all have (Forget). Only then replicas drop the records, with what they have read for others of their copy,
//     and take them out of the histories of their keys. Hence no answer to PreAccept lacks a dependency that the
//     coordinator doesn't know to be stable, and forgetting alone never costs the fast path.
//
// The members of a component of several are kept until all are stable: another partition may have to ask for one of them
// before it can order another.
//
// While a node does not answer, nothing new becomes stable, and records stay, since it may come back and ask for them.
type garbage struct {
	r     *Replica
	peers []peer
}

// peer is what this node exchanges with another one.
type peer struct {
	sent  uint64 // the last number of the own row that was sent to it
	done  uint64 // what it has said to have ordered of the own row
	heard uint64 // what it has heard of the own row's stable part
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

// tick forgets what may be forgotten, and tells the others the news. It returns whether there were any.
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

// settled reports whether nobody needs rec to find the component of another one.
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

// collectForeign forgets instances of other partitions, and those that this node knows by their names only, in the
// order in which it has heard of them.
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
