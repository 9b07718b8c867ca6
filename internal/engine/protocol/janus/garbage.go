package janus

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
)

// garbage discards instances whose position in the execution order is final at all replicas. Nodes exchange their
// progress at most once per tick, and only if it has changed:
//
//   - A replica reports to each coordinator the number up to which it has ordered the received instances of the
//     coordinator's row (Done).
//   - A coordinator thus knows the number up to which its row is stable, which means ordered by all its replicas. It
//     notifies all nodes (Stable). An instance that still depends on a stable instance follows it at every replica.
//     Coordinators therefore omit stable instances from the dependencies that they compare and commit.
//   - Nodes report to the coordinator the number up to which they know the row to be stable and their executors have
//     finished its instances (Heard). Once all nodes have reported, the coordinator notifies them (Forget). Only then
//     do replicas drop the records, including the reads kept for other nodes of their copy. They also remove the
//     instances from the histories of their keys. An answer to PreAccept therefore lacks only dependencies that the
//     coordinator knows to be stable, and garbage collection alone never costs the fast path.
//
// A component is kept until all its members are stable: another partition may have to inquire about one member before
// it can order another member.
//
// While a node does not answer, nothing becomes stable and all records stay: the node may recover and ask for them.
type garbage struct {
	r     *Replica
	peers []peer
}

// peer is the progress of another node, and this node's last report to it.
type peer struct {
	sent  uint64 // last number of this node's row that was sent to the peer
	done  uint64 // number up to which the peer has ordered this node's row
	heard uint64 // number up to which the peer knows this node's row to be stable and has executed it
	told  Progress
}

func (g *garbage) init(r *Replica) {
	g.r = r
	g.peers = make([]peer, r.nodes)
}

// progress handles another node's progress report.
func (g *garbage) progress(from geo.NodeID, m *Progress) {
	p, row := &g.peers[from], &g.r.rows[from]
	p.done = max(p.done, m.Done)
	p.heard = max(p.heard, m.Heard)
	row.stable = max(row.stable, m.Stable)
	row.forget = max(row.forget, m.Forget)
}

// tick discards instances and reports this node's progress to the other nodes. It returns whether it has sent a report.
func (g *garbage) tick() (news bool) {
	r := g.r
	for n := range r.rows {
		row := &r.rows[n]
		for row.undone.Len() > 0 && row.undone.Front().phase == Ordered {
			row.undone.Pop()
		}
		row.done = row.received
		if row.undone.Len() > 0 {
			// Done covers a contiguous prefix, so an instance that is not ordered here holds back all later instances.
			row.done = row.undone.Front().id.Seq() - 1
		}
	}
	own := &r.rows[r.self]
	// undone does not contain own instances that do not touch this partition. Only the peers' reports cover them.
	stable := r.next - 1
	if own.undone.Len() > 0 {
		stable = own.done
	}
	for n := range g.peers {
		// A node that has ordered everything it was sent does not hold back the row. Otherwise, partitions without recent
		// instances would block it.
		if p := &g.peers[n]; p.done < p.sent {
			stable = min(stable, p.done)
		}
	}
	// Until the predecessor's instances are settled, some replica may not have ordered them.
	if r.rejoin.settled() {
		own.stable = max(own.stable, stable)
	}
	// Another node may still ask about an instance until it knows that the instance is stable and has executed it itself.
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
		// An idle database sends no progress messages.
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

// collect discards the longest possible prefix of a row.
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

// heard returns the number up to which all instances of the row are stable and executed here.
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

// settled reports whether all members of rec's component are stable, so that no node needs rec to find the component.
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

// collectForeign discards instances of other partitions, and instances of which only the ID is known. It goes through
// them in the order in which this node learned of them, and stops at the first instance that it must keep.
func (g *garbage) collectForeign() {
	r := g.r
	list := &r.graph.foreign
	for ; list.Len() > 0; list.Pop() {
		rec := list.Front()
		if r.find(rec.id) != rec || rec.t != nil && !rec.foreign {
			continue // the instance's row keeps this record, or has discarded it
		}
		open := rec.watched && (rec.phase < Committed || rec.phase < Ordered && !rec.foreign)
		if open || rec.id.Seq() > r.rows[rec.id.Node()].forget || len(rec.watchers) > 0 || !g.settled(rec) {
			return
		}
		delete(r.records, rec.id)
	}
}
