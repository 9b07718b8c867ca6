package janus

import (
	"slices"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol/deterministic"
	"github.com/geobench/geobench/internal/protocol/fifo"
)

// graph is the dependency graph of the committed instances, as far as this replica needs it (Mu 2016, section 4.3).
//
// An instance is resolved when everything that it depends on, directly or not, is committed: then its strongly connected
// component is known, and it is the same at every replica. Tarjan's algorithm finds it. A search that meets an
// instance that is not committed ends there; the instance waits for that one, or for another one that waits already.
// Components are found with those that they depend on first. That is the order in which their members, by name, go to the
// executor, which grants their locks in that order: who conflicts waits, the others pass, and nobody can wait in a circle,
// since the orders of all partitions agree.
//
// Cycles may run through partitions that this replica does not hold, so it asks a replica of that partition in its own
// copy about such an instance (Inquire). It needs that only to find cycles: two transactions that conflict here are
// connected by a path of transactions that touch the same key, all of which are known here. So what comes before the
// other partition's component is left out of the answer, and edges that can't belong to a cycle are not followed:
// see Dep.Settled.
type graph struct {
	r    *Replica
	open int // records without a place in the order, or, if foreign, not decided

	try    fifo.Queue[*record] // to be resolved
	search uint64
	index  int32
	stack  []*record
	path   *record // where the last search ended

	foreign   fifo.Queue[*record]
	inquiries []*Inquire // by partition
	askedNow  []int
	replies   []*Ancestors // by node, gathered in this step
	repliesTo []geo.NodeID
}

// committed goes on with an instance that has been decided.
func (g *graph) committed(rec *record) {
	if rec.foreign {
		g.close(rec)
		if len(rec.waiters) == 0 {
			return // it matters only if a search comes by
		}
	}
	g.try.Push(rec)
}

// close counts an instance that is no longer open.
func (g *graph) close(rec *record) {
	if rec.counted {
		rec.counted = false
		g.open--
	}
}

// run resolves what can be.
func (g *graph) run() {
	for g.try.Len() > 0 {
		rec := g.try.Front()
		g.try.Pop()
		if !rec.resolved {
			g.resolve(rec)
		}
	}
}

// resolve searches for the component of rec.
func (g *graph) resolve(rec *record) {
	g.search++
	g.index = 0
	if g.visit(rec) {
		return
	}
	end := g.path
	cause := end
	if end.phase >= Committed {
		cause = end.blocked
	}
	for _, v := range g.stack {
		v.blocked, v.onStack = cause, false
	}
	clear(g.stack)
	g.stack = g.stack[:0]
	end.waiters = append(end.waiters, rec)
}

// visit is Tarjan's depth-first search. It returns false when it meets an instance that is not committed, or one that is
// known to wait for such a one: that is left in path.
func (g *graph) visit(v *record) bool {
	g.index++
	v.visited, v.index, v.low, v.onStack = g.search, g.index, g.index, true
	g.stack = append(g.stack, v)
	for _, d := range v.deps {
		w := g.dependency(d)
		switch {
		case w == nil || w.resolved:
		case w.phase < Committed:
			g.path = w
			return false
		case w.visited == g.search:
			if w.onStack {
				v.low = min(v.low, w.index)
			}
		case w.blocked != nil && w.blocked.phase < Committed:
			g.path = w
			return false
		default:
			if !g.visit(w) {
				return false
			}
			v.low = min(v.low, w.low)
		}
	}
	if v.low == v.index {
		at := len(g.stack) - 1
		for g.stack[at] != v {
			at--
		}
		members := g.stack[at:]
		for _, m := range members {
			m.onStack = false
		}
		g.component(members)
		clear(members)
		g.stack = g.stack[:at]
	}
	return true
}

// dependency returns the record of a dependency, or nil if it can't be in a cycle with who depends on it. It asks for
// unknown ones of other partitions; those of its own partition come by themselves.
func (g *graph) dependency(d Dep) *record {
	r := g.r
	if int(d.ID.Node()) >= r.nodes || int(d.Partition) >= r.partitions {
		return nil
	}
	rec := r.find(d.ID)
	if int(d.Partition) == r.partition {
		if rec == nil && !r.forgotten(d.ID) {
			rec = r.know(d.ID)
		}
		return rec
	}
	if d.Settled {
		return nil
	}
	if rec == nil {
		rec = r.know(d.ID)
		g.foreign.Push(rec)
	}
	if rec.t == nil && rec.phase < Committed && !rec.asked {
		rec.asked, rec.askedOf = true, d.Partition
		g.ask(int(d.Partition), rec.id)
	}
	return rec
}

// component puts the members of a strongly connected component in order.
func (g *graph) component(members []*record) {
	var shared []*record
	if len(members) > 1 {
		slices.SortFunc(members, byName)
		shared = slices.Clone(members)
		g.r.counters.components++
		g.r.counters.largest = max(g.r.counters.largest, int64(len(members)))
	}
	for _, m := range members {
		m.resolved, m.blocked, m.scc = true, nil, shared
		for _, w := range m.waiters {
			g.try.Push(w)
		}
		m.waiters = nil
	}
	for _, m := range members {
		if m.foreign {
			continue
		}
		m.phase = Ordered
		g.close(m)
		if !m.noop {
			g.r.executor.Run(deterministic.Place{Position: uint64(m.id.Node()), Index: m.id.Seq()}, m.t, m.id.Node())
		}
	}
}

// together reports whether two resolved instances are members of one component.
func (rec *record) together(m *record) bool {
	return len(rec.scc) > 0 && len(m.scc) > 0 && rec.scc[0] == m.scc[0]
}

// ask adds an instance to the question for partition q of the own copy.
func (g *graph) ask(q int, id Instance) {
	if g.inquiries == nil {
		g.inquiries = make([]*Inquire, g.r.partitions)
	}
	if g.inquiries[q] == nil {
		g.inquiries[q] = &Inquire{}
		g.askedNow = append(g.askedNow, q)
	}
	g.inquiries[q].IDs = append(g.inquiries[q].IDs, id)
	g.r.counters.inquiries++
}

// askAgain asks other copies: the own one may have lost a node.
func (g *graph) askAgain(rec *record) {
	r := g.r
	rec.resends++
	group := r.group[rec.askedOf]
	r.env.Send(group[int(rec.resends)%len(group)], &Inquire{[]Instance{rec.id}})
	r.counters.inquiries++
}

// inquired answers a replica of another partition as soon as the instances are committed here.
func (g *graph) inquired(from geo.NodeID, m *Inquire) {
	for _, id := range m.IDs {
		if int(id.Node()) >= g.r.nodes {
			continue
		}
		rec := g.r.find(id)
		switch {
		case g.r.forgotten(id) && (rec == nil || rec.phase != Ordered):
			// Ordered and forgotten; what there may be of it is what this node has asked others itself.
			g.reply(from, Ancestor{ID: id})
		case rec == nil || rec.phase < Committed:
			rec = g.r.know(id)
			rec.inquirers = append(rec.inquirers, from)
		default:
			g.tellAncestor(from, rec)
		}
	}
}

// tellAncestor tells another node about a committed instance: all of it if it is its business, and only what may be a
// part of a cycle if not.
func (g *graph) tellAncestor(to geo.NodeID, rec *record) {
	if rec.foreign {
		return
	}
	if rec.t != nil && g.r.touches(rec.t, g.r.topology.PartitionOf(to)) {
		g.r.tell(to, rec)
		return
	}
	a := Ancestor{ID: rec.id, Deps: rec.deps}
	if rec.resolved {
		a.Deps = nil
		if rec.scc != nil {
			for _, d := range rec.deps {
				if w := g.r.find(d.ID); w != nil && w.resolved && w.together(rec) {
					a.Deps = append(a.Deps, d)
				}
			}
		}
	}
	g.reply(to, a)
}

func (g *graph) reply(to geo.NodeID, a Ancestor) {
	if g.replies == nil {
		g.replies = make([]*Ancestors, g.r.nodes)
	}
	if g.replies[to] == nil {
		g.replies[to] = &Ancestors{}
		g.repliesTo = append(g.repliesTo, to)
	}
	g.replies[to].List = append(g.replies[to].List, a)
}

// ancestors learns about instances of other partitions.
func (g *graph) ancestors(m *Ancestors) {
	for _, a := range m.List {
		rec := g.r.find(a.ID)
		if rec == nil || rec.phase >= Committed || (rec.t != nil && !rec.foreign) {
			continue
		}
		rec.foreign = true
		g.r.commit(rec, false, a.Deps)
	}
}

// flush sends what the step has gathered.
func (g *graph) flush() {
	for _, q := range g.askedNow {
		g.r.env.Send(g.r.copy[q], g.inquiries[q])
		g.inquiries[q] = nil
	}
	g.askedNow = g.askedNow[:0]
	for _, n := range g.repliesTo {
		g.r.env.Send(n, g.replies[n])
		g.replies[n] = nil
	}
	g.repliesTo = g.repliesTo[:0]
}
