package spanner

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
)

// recovery finds the outcome of a transaction with a silent coordinator. The transaction is committed if all its groups
// have prepared it. The anchor can find that out: its record lists the groups, and it asks them all. A group that has
// not prepared it first writes into its log that it never will.
type recovery struct {
	at time.Duration // when it was begun last
	// prepared are, at the anchor, the timestamps of the groups that have answered.
	prepared map[int]uint64
}

// query is a Query with its sender.
type query struct {
	from geo.NodeID
	*Query
}

// liveness is a node's information about another node.
type liveness struct {
	heard  time.Duration
	pinged bool // since then
	at     time.Duration
}

// hear notes that a node lives.
func (r *Replica) hear(n geo.NodeID) { r.peers[n] = liveness{heard: r.env.Now()} }

// silent reports whether a node has said nothing for long, although it was asked to. It asks.
func (r *Replica) silent(n geo.NodeID) bool {
	now, p := r.env.Now(), &r.peers[n]
	switch {
	case n == r.self:
		return false
	case r.env.Buggify(impatient):
		return true
	case now-p.heard < r.recovery:
		return false
	case !p.pinged:
		p.pinged, p.at = true, now
		r.send(n, &Ping{})
		return false
	}
	return now-p.at >= r.patience
}

// sweep abandons the unprepared transactions of silent coordinators, and starts recovery for the prepared ones.
func (g *group) sweep() {
	if !g.Leads() {
		return
	}
	met := make([]bool, g.r.nodes)
	for n := range g.holders {
		met[n.Coordinator] = true
	}
	for c := range g.r.nodes {
		if met[c] && g.r.silent(geo.NodeID(c)) {
			g.abandon(geo.NodeID(c), math.MaxUint64)
		}
	}
}

// abandon does the work of sweep for a single coordinator, and its transactions below a number.
func (g *group) abandon(c geo.NodeID, below uint64) {
	now := g.r.env.Now()
	for _, n := range slices.SortedFunc(maps.Keys(g.holders), raftgroup.Name.Compare) {
		h := g.holders[n]
		switch {
		case n.Coordinator != c || n.Number >= below || h.stage == proposed:
		case h.stage != holding:
			g.r.env.Mark(givenUp)
			g.drop(h)
			g.answer(n, Lost, 0)
		case g.recoveries[n] == nil || now-g.recoveries[n].at >= g.r.recovery:
			g.recover(n)
		}
	}
	g.Touch()
}

// recover begins to find out how a prepared transaction ends.
func (g *group) recover(n raftgroup.Name) {
	e := g.prepared[n]
	if e == nil {
		return
	}
	g.r.counters.recoveries++
	g.r.env.Mark(recoveryBegun)
	g.recoveries[n] = &recovery{at: g.r.env.Now(), prepared: map[int]uint64{g.Shard: e.timestamp}}
	if e.anchor != g.Shard {
		g.inquire(e.anchor, n)
		return
	}
	for _, p := range e.participants {
		if p != g.Shard {
			g.inquire(p, n)
		}
	}
}

// inquire asks another group. If that has no leaseholder, the next try will.
func (g *group) inquire(group int, n raftgroup.Name) {
	if l, ok := g.r.leaseholderOf(group); ok {
		g.r.send(l.node, &Query{Group: group, Term: l.term, Of: n, For: g.Shard})
	}
}

// query takes another group's question.
func (g *group) query(from geo.NodeID, q *Query) {
	f, o := g.look(q.Of)
	switch f {
	case over:
		g.r.env.Mark(askedAboutEnded)
		g.tell(from, q, true, o)
	case inDoubt:
		g.r.env.Mark(askedAboutDoubtful)
		e := g.prepared[q.Of]
		if e.anchor == g.Shard {
			if v := g.recoveries[q.Of]; v == nil || g.r.env.Now()-v.at >= g.r.recovery {
				g.recover(q.Of) // and send the outcome to all groups
			}
			return
		}
		g.tell(from, q, false, Outcome{Timestamp: e.timestamp})
	case unknown:
		g.r.env.Mark(prevention)
		g.queries[q.Of] = append(g.queries[q.Of], query{from, q})
		if len(g.queries[q.Of]) == 1 {
			g.Batch = appendPrevent(g.Batch, q.Of)
		}
	}
}

func (g *group) tell(to geo.NodeID, q *Query, ended bool, o Outcome) {
	g.r.send(to, &Status{Group: q.For, About: g.Shard, Of: q.Of, Ended: ended, Outcome: o})
}

// preventApplied answers the groups that have asked for a transaction which the group had not prepared. By now the
// group has prepared it, or never will.
func (g *group) preventApplied(n raftgroup.Name) {
	if h := g.holders[n]; h != nil && g.prevented[n] && (h.stage == growing || h.stage == lost) {
		g.drop(h)
		g.answer(n, Lost, 0)
	}
	queries := g.queries[n]
	delete(g.queries, n)
	for _, q := range queries {
		g.query(q.from, q.Query)
	}
}

// status takes another group's answer.
func (g *group) status(m *Status) {
	e, v := g.prepared[m.Of], g.recoveries[m.Of]
	if !g.Leads() || e == nil || v == nil {
		return
	}
	if m.Ended {
		g.conclude(e, m.Outcome)
		return
	}
	if e.anchor != g.Shard {
		return
	}
	v.prepared[m.About] = m.Timestamp
	g.r.env.Mark(allPreparedAsked)
	o := Outcome{Committed: true}
	for _, p := range e.participants {
		t, ok := v.prepared[p]
		if !ok {
			return
		}
		o.Timestamp = max(o.Timestamp, t)
	}
	g.conclude(e, o)
}

// conclude ends a transaction, and sends the outcome to its other groups if this group is its anchor.
func (g *group) conclude(e *effect, o Outcome) {
	g.Touch()
	g.Batch = appendResolution(g.Batch, &resolution{name: e.name, Outcome: o})
	for _, p := range e.participants {
		l, ok := g.r.leaseholderOf(p)
		if p == g.Shard || !ok {
			continue
		}
		g.r.send(l.node, &Resolve{Header: Header{Group: p, Term: l.term, Number: e.name.Number, Clock: g.r.now()}, Of: e.name.Coordinator, Outcome: o})
	}
}
