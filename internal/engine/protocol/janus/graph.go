package janus

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
)

// graph is the part of the dependency graph of committed instances that this replica needs (Mu 2016, section 4.3).
//
// An instance is resolved when all its direct and indirect dependencies are committed. Its strongly connected component
// is then known, and is the same at every replica.
//
// Under overload, each instance depends on thousands of uncommitted instances, so the algorithm examines nothing twice.
// A committed instance watches one of its dependencies until that dependency is resolved, then the next one. A walk
// along the watched instances ends at an uncommitted instance or closes a cycle. The instances of a cycle depend on
// each other and become a group. The group watches a dependency of its members outside the group. A group with nothing
// left to watch is a component. This is an incremental version of Purdom and Moore's algorithm with path contraction.
//
// A component is found after all components that it depends on. The replica passes components to the executor in that
// order, and the members of a component in name order. The executor grants locks in the order of arrival: conflicting
// instances wait, and all others run concurrently. The locks cannot deadlock, because the orders of all partitions
// agree.
//
// Cycles may run through partitions that this replica does not hold. For an instance of such a partition, the replica
// asks the node of its own copy that holds the partition (Inquire). It needs the answer only to find cycles. Two
// transactions that conflict here are connected by a path of transactions that access the same key, and this replica
// knows all of these. The answer therefore omits instances that precede the component in the other partition. Edges
// that cannot belong to a cycle are not followed: see Dep.Settled.
type graph struct {
	r    *Replica
	open int // records without a position in the execution order; for foreign records, without a decision

	try     queue.Queue[*record] // committed instances to advance, unless they already watch a dependency
	changed []*record            // instances whose watched dependency has changed
	path    []*record
	walks   uint64    // number of walks so far
	turns   uint64    // number of instances ordered so far
	members []*record // reusable memory for component

	foreign   queue.Queue[*record]
	inquiries []*Inquire // by partition
	askedNow  []int
	replies   []*Ancestors // by node, collected in this step
	repliesTo []geo.NodeID
}

// committed queues a decided instance for resolution.
func (g *graph) committed(rec *record) {
	if rec.foreign {
		g.close(rec)
		if len(rec.watchers) == 0 && !rec.asked {
			return // a foreign instance matters only if another instance watches it, or this node has inquired about it
		}
	}
	g.try.Push(rec)
}

// close removes an instance from the count of open instances.
func (g *graph) close(rec *record) {
	if rec.counted {
		rec.counted = false
		g.open--
	}
}

// run resolves all instances whose dependencies allow it.
func (g *graph) run() {
	g.advanceAll()
	start := g.walks
	for len(g.changed) > 0 {
		// The instance may have joined a group after it was queued. In that case, only the leader of the group watches a
		// dependency.
		rec := g.changed[len(g.changed)-1].group()
		g.changed = g.changed[:len(g.changed)-1]
		if rec.watch != nil && g.follow(rec, start) {
			g.advanceAll()
			start = g.walks // the new watches may lead past the points at which earlier walks ended
		}
	}
}

// group returns the leader of the record's group.
func (rec *record) group() *record {
	for rec.leader != nil {
		// Path halving keeps later lookups short.
		if up := rec.leader.leader; up != nil {
			rec.leader = up
		}
		rec = rec.leader
	}
	return rec
}

// advanceAll advances every queued instance that watches no dependency.
func (g *graph) advanceAll() {
	for g.try.Len() > 0 {
		rec := g.try.Front().group()
		g.try.Pop()
		// An earlier entry of the queue for the same group may have advanced the group already.
		if !rec.resolved && rec.watch == nil {
			g.advance(rec)
		}
	}
}

// advance finds a dependency for rec's group to watch, or resolves the group; rec is its leader.
func (g *graph) advance(rec *record) {
	if !rec.joined {
		rec.joined, rec.open = true, rec
		for _, d := range rec.deps {
			if int(d.Partition) != g.r.partition {
				g.dependency(d) // inquire about all dependencies at once: sequential inquiries would take a round trip each
			}
		}
	}
	for m := rec.open; m != nil; m = rec.open {
		for ; int(m.looked) < len(m.deps); m.looked++ {
			// looked never moves back: a resolved dependency stays resolved, and a member of the group stays in the group.
			if w := g.dependency(m.deps[m.looked]); w != nil && !w.resolved && w.group() != rec {
				rec.watch = w
				w.watchers = append(w.watchers, rec)
				// The new watch may close a cycle, so run must walk from this instance.
				g.changed = append(g.changed, rec)
				return
			}
		}
		rec.open = m.moreOpen
	}
	g.component(rec)
}

// follow walks from rec along the watched instances. It stops at an uncommitted instance, or at an instance that an
// earlier walk with a number above start has visited. It contracts the cycles that it closes into groups, and reports
// whether it has resolved an instance.
func (g *graph) follow(rec *record, start uint64) bool {
	g.walks++
	clear(g.path)
	g.path = g.path[:0]
	for {
		switch {
		// This walk has visited rec before: all instances on the path after rec form a cycle with it.
		case rec.walk == g.walks:
			for {
				m := g.path[len(g.path)-1]
				g.path = g.path[:len(g.path)-1]
				if m == rec {
					break
				}
				rec.join(m)
			}
			// The watched instance is now a member, so the group must watch a dependency outside it.
			rec.watch = nil
			g.advance(rec)
		// The walk ends: this instance is uncommitted, or an earlier walk passed it and ended at an uncommitted instance.
		case rec.phase < Committed || rec.walk > start:
			return false
		case rec.watch == nil:
			g.advance(rec) // a foreign instance that no walk has reached before
		}
		if rec.resolved {
			return true
		}
		rec.walk = g.walks
		g.path = append(g.path, rec)
		rec = rec.watch.group()
	}
}

// join merges m's group into rec's group; both are leaders.
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

// dependency returns the record of a dependency, or nil if the dependency cannot be in a cycle with its dependent. It
// inquires about unknown instances of other partitions. Instances of this node's partition arrive without a request.
func (g *graph) dependency(d Dep) *record {
	r := g.r
	// The numbers come from a message and may be out of range. Such a dependency has no record and delays nothing.
	if int(d.ID.Node()) >= r.nodes || int(d.Partition) >= r.partitions {
		return nil
	}
	rec := r.find(d.ID)
	if int(d.Partition) == r.partition {
		// All replicas have ordered the dependency, so its component is complete.
		if rec == nil && r.forgotten(d.ID) {
			return nil
		}
		// The dependent waits for the dependency's decision, so this node must watch the dependency.
		if rec == nil || !rec.watched {
			rec = r.know(d.ID)
		}
		return rec
	}
	// The instance's component is complete without the dependent, so no cycle contains both.
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
		// Each instance is inquired about once; recovery repeats the inquiry at other copies if no answer arrives.
		rec.asked, rec.askedOf = true, d.Partition
		g.ask(int(d.Partition), rec.id)
	}
	return rec
}

// component orders the members of a strongly connected component, namely the group that rec leads. It passes the
// members of this partition to the executor.
func (g *graph) component(rec *record) {
	members := append(g.members[:0], rec)
	for m := rec.more; m != nil; m = m.more {
		members = append(members, m)
	}
	var shared *component
	if len(members) > 1 {
		// All replicas must execute the members in the same order, regardless of how their walks found the cycle.
		slices.SortFunc(members, byName)
		g.r.env.Mark(cycle)
		shared = componentOf(members, g.r.nodes)
		g.r.counters.components++
		g.r.counters.largest = max(g.r.counters.largest, int64(len(members)))
	}
	// All members must be marked before any watcher advances: a watcher must not watch another member of the resolved
	// component.
	for _, m := range members {
		m.resolved, m.scc = true, shared
	}
	for _, m := range members {
		for _, w := range m.watchers {
			// A watcher may have joined a group in the meantime, and the group may watch another instance.
			if w = w.group(); !w.resolved && w.watch == m {
				w.watch = nil
				g.try.Push(w)
			}
		}
	}
	for _, m := range members {
		m.leader, m.watchers, m.more, m.last, m.open, m.moreOpen, m.lastOpen = nil, nil, nil, nil, nil, nil, nil
		// Foreign instances only serve to find cycles; this replica does not execute them.
		if m.foreign {
			continue
		}
		m.phase = Ordered
		g.close(m)
		g.turns++
		m.turn = g.turns
		// A no-op has no effects, so it counts as executed as soon as it is ordered.
		if m.executed = m.noop; !m.noop {
			g.r.executor.Run(deterministic.Place{Position: uint64(m.id.Node()), Index: m.id.Seq()}, m.t, m.id.Node())
		}
	}
	clear(members)
	g.members = members[:0]
}

// componentOf returns the component with the given members, which must be sorted by ID. The component keeps the last
// member of each coordinator.
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

// ask adds an instance to the inquiry to partition q of this node's copy.
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

// askAgain repeats the inquiry at the nodes of other copies in turn, because this copy's node may be lost.
func (g *graph) askAgain(rec *record) {
	g.r.env.Mark(askedAgain)
	r := g.r
	rec.resends++
	group := r.group[rec.askedOf]
	r.env.Send(group[int(rec.resends)%len(group)], &Inquire{[]Instance{rec.id}})
	r.counters.inquiries++
}

// inquired answers inquiries about committed instances, and queues the sender for instances that are not committed yet.
func (g *graph) inquired(from geo.NodeID, m *Inquire) {
	for _, id := range m.IDs {
		if int(id.Node()) >= g.r.nodes {
			continue
		}
		rec := g.r.find(id)
		switch {
		case g.r.forgotten(id) && (rec == nil || rec.phase != Ordered):
			// All replicas have ordered the instance. If a record exists, it stems from an inquiry of this node.
			g.reply(from, Ancestor{ID: id})
		// This incarnation does not know the complete dependencies, and may never learn them.
		case g.r.abstains(id) || rec != nil && rec.taken:
			g.r.env.Mark(inquiryPassedOn)
			g.r.env.Send(from, &Rejoin{Step: askElsewhere, Node: id.Node(), Number: id.Seq()})
		// The answer must wait for the decision. know makes this node watch the instance, so that it is decided eventually.
		case rec == nil || rec.phase < Committed:
			rec = g.r.know(id)
			rec.inquirers = append(rec.inquirers, from)
		default:
			g.tellAncestor(from, rec)
		}
	}
}

// tellAncestor reports a committed instance to another node. It sends the complete decision if the instance touches the
// other node's partition, and otherwise only the dependencies that may belong to a cycle.
func (g *graph) tellAncestor(to geo.NodeID, rec *record) {
	// This node's dependencies of a foreign instance are incomplete. The inquirer asks other copies later.
	if rec.foreign {
		return
	}
	// The inquirer's partition executes the instance, so the inquirer needs the complete decision.
	if rec.t != nil && g.r.touches(rec.t, g.r.topology.PartitionOf(to)) {
		g.r.tell(to, rec)
		return
	}
	a := Ancestor{ID: rec.id, Deps: rec.deps}
	// Dependencies in earlier components cannot be in a cycle with this instance.
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

// ancestors records the instances in an answer to Inquire, but only instances about which this node has asked the
// answering node's partition. A node of another partition may not hold an instance. It then reports the instance
// without dependencies, because it only knows that all replicas have ordered it (see present). A replica that has not
// ordered the rest of the component still needs these dependencies.
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

// flush sends the messages collected in this step.
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
