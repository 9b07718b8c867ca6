package janus

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
)

// graph is the dependency graph of the committed instances, as far as this replica needs it (Mu 2016, section 4.3).
//
// An instance is resolved when all its direct and indirect dependencies are committed: then its strongly connected
// component is known, and it is the same at every replica. Under overload each instance depends on thousands of
// uncommitted instances, so nothing is looked at twice. A committed instance watches one of its dependencies, until
// that dependency is resolved; then the next. A walk along the watched instances stops at an uncommitted instance, or
// closes a cycle. The instances of a cycle depend on each other: they become a group, which watches a dependency of its
// members outside the group. A group with nothing left to watch is a component. (Purdom and Moore's algorithm, with
// path contraction, made incremental.) So components are found after the components that they depend on. Their members
// are passed to the executor in that order, sorted by name within a component. The executor grants their locks in that
// order: conflicting instances wait, and all others pass. No cycle of waits can form, since the orders of all
// partitions agree.
//
// Cycles may run through partitions that this replica does not hold. So it asks a replica of that partition in its own
// copy about such an instance (Inquire). It needs that only to find cycles: two transactions that conflict here are
// connected by a path of transactions that touch the same key, and all of them are known here. So the answer omits the
// instances before the other partition's component, and edges that can't belong to a cycle are not followed: see
// Dep.Settled.
type graph struct {
	r    *Replica
	open int // records without a place in the order, or, if foreign, not decided

	try     queue.Queue[*record] // committed, perhaps without anybody to watch
	changed []*record            // watch somebody else now
	path    []*record
	walks   uint64    // walks so far
	turns   uint64    // instances ordered so far
	members []*record // reusable memory for the members of a component

	foreign   queue.Queue[*record]
	inquiries []*Inquire // by partition
	askedNow  []int
	replies   []*Ancestors // by node, gathered in this step
	repliesTo []geo.NodeID
}

// committed continues with a decided instance.
func (g *graph) committed(rec *record) {
	if rec.foreign {
		g.close(rec)
		if len(rec.watchers) == 0 && !rec.asked {
			return // it matters only if a walk reaches it
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

// run resolves all instances that can be resolved.
func (g *graph) run() {
	g.advanceAll()
	start := g.walks
	for len(g.changed) > 0 {
		rec := g.changed[len(g.changed)-1].group()
		g.changed = g.changed[:len(g.changed)-1]
		if rec.watch != nil && g.follow(rec, start) {
			g.advanceAll()
			start = g.walks // somebody may watch somebody else now, far from where walks have begun
		}
	}
}

// group returns the leader of the record's group.
func (rec *record) group() *record {
	for rec.leader != nil {
		if up := rec.leader.leader; up != nil {
			rec.leader = up
		}
		rec = rec.leader
	}
	return rec
}

// advanceAll finds an instance to watch for every instance without one.
func (g *graph) advanceAll() {
	for g.try.Len() > 0 {
		rec := g.try.Front().group()
		g.try.Pop()
		if !rec.resolved && rec.watch == nil {
			g.advance(rec)
		}
	}
}

// advance finds somebody to watch for the group that rec leads, or resolves it.
func (g *graph) advance(rec *record) {
	if !rec.joined {
		rec.joined, rec.open = true, rec
		for _, d := range rec.deps {
			if int(d.Partition) != g.r.partition {
				g.dependency(d) // all must be known eventually: asking one after the other would take a round trip each
			}
		}
	}
	for m := rec.open; m != nil; m = rec.open {
		for ; int(m.looked) < len(m.deps); m.looked++ {
			if w := g.dependency(m.deps[m.looked]); w != nil && !w.resolved && w.group() != rec {
				rec.watch = w
				w.watchers = append(w.watchers, rec)
				g.changed = append(g.changed, rec)
				return
			}
		}
		rec.open = m.moreOpen
	}
	g.component(rec)
}

// follow walks from rec along the watched instances. It stops at an uncommitted instance, or at an instance that a walk
// since start has visited. It makes groups of the cycles that it meets, and returns true when it resolves anything.
func (g *graph) follow(rec *record, start uint64) bool {
	g.walks++
	clear(g.path)
	g.path = g.path[:0]
	for {
		switch {
		case rec.walk == g.walks:
			for {
				m := g.path[len(g.path)-1]
				g.path = g.path[:len(g.path)-1]
				if m == rec {
					break
				}
				rec.join(m)
			}
			rec.watch = nil
			g.advance(rec)
		case rec.phase < Committed || rec.walk > start:
			return false
		case rec.watch == nil:
			g.advance(rec) // of another partition: it has not mattered before
		}
		if rec.resolved {
			return true
		}
		rec.walk = g.walks
		g.path = append(g.path, rec)
		rec = rec.watch.group()
	}
}

// join puts m's group into the group of rec, another leader.
func (rec *record) join(m *record) {
	m.leader, m.watch = rec, nil
	end(rec, rec.last).more, rec.last = m, end(m, m.last)
	if m.open == nil {
		return
	}
	last := end(m.open, m.lastOpen)
	if rec.open != nil {
		end(rec.open, rec.lastOpen).moreOpen = m.open
	} else {
		rec.open = m.open
	}
	rec.lastOpen = last
	m.open, m.lastOpen = nil, nil
}

func end(first, last *record) *record {
	if last == nil {
		return first
	}
	return last
}

// dependency returns the record of a dependency, or nil if it can't be in a cycle with the instance that depends on it.
// It asks for unknown instances of other partitions; instances of its own partition arrive without a request.
func (g *graph) dependency(d Dep) *record {
	r := g.r
	if int(d.ID.Node()) >= r.nodes || int(d.Partition) >= r.partitions {
		return nil
	}
	rec := r.find(d.ID)
	if int(d.Partition) == r.partition {
		if rec == nil && r.forgotten(d.ID) {
			return nil
		}
		if rec == nil || !rec.watched {
			rec = r.know(d.ID)
		}
		return rec
	}
	if d.Settled {
		return nil
	}
	if rec == nil {
		rec = r.hearOf(d.ID)
		g.foreign.Push(rec)
	}
	if !rec.watched {
		r.know(d.ID)
	}
	if rec.t == nil && rec.phase < Committed && !rec.asked {
		rec.asked, rec.askedOf = true, d.Partition
		g.ask(int(d.Partition), rec.id)
	}
	return rec
}

// component puts the members of a strongly connected component in order: the group that rec leads.
func (g *graph) component(rec *record) {
	members := append(g.members[:0], rec)
	for m := rec.more; m != nil; m = m.more {
		members = append(members, m)
	}
	var shared *component
	if len(members) > 1 {
		slices.SortFunc(members, byName)
		g.r.env.Mark(cycle)
		shared = componentOf(members, g.r.nodes)
		g.r.counters.components++
		g.r.counters.largest = max(g.r.counters.largest, int64(len(members)))
	}
	for _, m := range members {
		m.resolved, m.scc = true, shared
	}
	for _, m := range members {
		for _, w := range m.watchers {
			if w = w.group(); !w.resolved && w.watch == m {
				w.watch = nil
				g.try.Push(w)
			}
		}
	}
	for _, m := range members {
		m.leader, m.watchers, m.more, m.last, m.open, m.moreOpen, m.lastOpen = nil, nil, nil, nil, nil, nil, nil
		if m.foreign {
			continue
		}
		m.phase = Ordered
		g.close(m)
		g.turns++
		m.turn = g.turns
		if m.executed = m.noop; !m.noop {
			g.r.executor.Run(deterministic.Place{Position: uint64(m.id.Node()), Index: m.id.Seq()}, m.t, m.id.Node())
		}
	}
	clear(members)
	g.members = members[:0]
}

// componentOf returns the component of these members, in the order of their numbers.
func componentOf(members []*record, nodes int) *component {
	last := make([]Instance, nodes)
	for _, m := range members {
		last[m.id.Node()] = m.id
	}
	c := component(slices.DeleteFunc(last, func(i Instance) bool { return i == 0 }))
	return &c
}

// together reports whether two resolved instances are members of one component.
func (rec *record) together(m *record) bool { return rec.scc != nil && rec.scc == m.scc }

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

// askAgain asks other copies, since the own copy may have lost a node.
func (g *graph) askAgain(rec *record) {
	g.r.env.Mark(askedAgain)
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
			// Ordered and forgotten; a record of it, if any, stems from this node's own inquiries.
			g.reply(from, Ancestor{ID: id})
		case g.r.abstains(id) || rec != nil && rec.taken:
			g.r.env.Mark(inquiryPassedOn)
			g.r.env.Send(from, &Rejoin{Step: askElsewhere, Node: id.Node(), Number: id.Seq()})
		case rec == nil || rec.phase < Committed:
			rec = g.r.know(id)
			rec.inquirers = append(rec.inquirers, from)
		default:
			g.tellAncestor(from, rec)
		}
	}
}

// tellAncestor sends another node a committed instance: all of it if that node holds a part of it, and otherwise only
// the part that may belong to a cycle.
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

// ancestors records instances of other partitions, reported by nodes of the partition that was asked. Nodes of other
// partitions may not hold an instance. They know only that all its holders have ordered it (see present), and then
// report that it has no dependencies. But a replica that has not ordered the rest of its component needs its
// dependencies.
func (g *graph) ancestors(from geo.NodeID, m *Ancestors) {
	partition := g.r.topology.PartitionOf(from)
	for _, a := range m.List {
		rec := g.r.find(a.ID)
		if rec == nil || rec.phase >= Committed || (rec.t != nil && !rec.foreign) || !rec.asked || int(rec.askedOf) != partition {
			continue
		}
		rec.foreign = true
		g.r.commit(rec, false, a.Deps)
	}
}

// flush sends the messages that the step has collected.
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
