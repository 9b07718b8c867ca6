package spanner

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
)

// recovery finds the outcome of a prepared transaction with a silent coordinator. The transaction is committed if all
// its groups have prepared it. The anchor's record lists the groups, so the anchor queries them. A group that has not
// prepared the transaction logs that it never will, before it answers.
type recovery struct {
	at time.Duration // time of the last start
	// prepared are, at the anchor, the preparation timestamps of the groups that have answered.
	prepared map[int]uint64
}

// query is a Query with its sender.
type query struct {
	from geo.NodeID
	*Query
}

// liveness records when this node last heard from another node.
type liveness struct {
	heard  time.Duration
	pinged bool // a ping was sent after the last message, at time at
	at     time.Duration
}

// hear records that a message of node n has arrived.
func (r *Replica) hear(n geo.NodeID) { r.peers[n] = liveness{heard: r.env.Now()} }

// silent reports whether a node has sent nothing for the recovery timeout and has not answered a ping in time. It sends
// the ping.
func (r *Replica) silent(n geo.NodeID) bool {
	now, p := r.env.Now(), &r.peers[n]
	switch {
	case n == r.self:
		return false
	case r.env.Buggify(impatient):
		return true
	case now-p.heard < r.recovery:
		return false
	// An idle coordinator has no reason to send anything, so silence proves nothing before a ping.
	case !p.pinged:
		p.pinged, p.at = true, now
		r.send(n, &Ping{})
		return false
	}
	return now-p.at >= r.patience
}

// sweep abandons the unprepared transactions of silent coordinators, and starts recovery for their prepared
// transactions.
func (g *group) sweep() {
	if !g.Leads() {
		return
	}
	// The slice has a fixed order, unlike the map of holders: pings and abandons must be the same in every replay.
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

// abandon drops coordinator c's unprepared transactions whose numbers are less than below, and starts recovery for its
// prepared transactions.
func (g *group) abandon(c geo.NodeID, below uint64) {
	now := g.r.env.Now()
	for _, n := range slices.SortedFunc(maps.Keys(g.holders), raftgroup.Name.Compare) {
		h := g.holders[n]
		switch {
		// A proposed transaction is decided by the log. The next sweep finds it prepared or ended.
		case n.Coordinator != c || n.Number >= below || h.stage == proposed:
		// An unprepared transaction cannot have committed, so this group can drop it alone.
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

// recover starts recovery of a prepared transaction, or restarts it.
func (g *group) recover(n raftgroup.Name) {
	e := g.prepared[n]
	if e == nil {
		return
	}
	g.r.counters.recoveries++
	g.r.env.Mark(recoveryBegun)
	g.recoveries[n] = &recovery{at: g.r.env.Now(), prepared: map[int]uint64{g.Shard: e.timestamp}}
	// Only the anchor knows all groups. It either knows the outcome or can determine it.
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

// inquire queries another group's leaseholder about a transaction. If no leaseholder is known, a later recovery attempt
// repeats the query.
func (g *group) inquire(group int, n raftgroup.Name) {
	if l, ok := g.r.leaseholderOf(group); ok {
		g.r.send(l.node, &Query{Group: group, Term: l.term, Of: n, For: g.Shard})
	}
}

// query answers another group's query.
func (g *group) query(from geo.NodeID, q *Query) {
	f, o := g.look(q.Of)
	switch f {
	case over:
		g.r.env.Mark(askedAboutEnded)
		g.tell(from, q, true, o)
	case inDoubt:
		g.r.env.Mark(askedAboutDoubtful)
		e := g.prepared[q.Of]
		// The anchor must not answer before it has asked all groups.
		if e.anchor == g.Shard {
			// A recovery that started recently is still collecting answers, and its outcome also reaches the querying group.
			if v := g.recoveries[q.Of]; v == nil || g.r.env.Now()-v.at >= g.r.recovery {
				g.recover(q.Of) // conclude then sends the outcome to all groups
			}
			return
		}
		g.tell(from, q, false, Outcome{Timestamp: e.timestamp})
	// A promise that exists only in memory would not bind the next leaseholder, so the prevention must be in the log
	// before the answer.
	case unknown:
		g.r.env.Mark(prevention)
		g.queries[q.Of] = append(g.queries[q.Of], query{from, q})
		// One prevent command answers all queries about the transaction.
		if len(g.queries[q.Of]) == 1 {
			g.Batch = appendPrevent(g.Batch, q.Of)
		}
	}
}

func (g *group) tell(to geo.NodeID, q *Query, ended bool, o Outcome) {
	g.r.send(to, &Status{Group: q.For, About: g.Shard, Of: q.Of, Ended: ended, Outcome: o})
}

// preventApplied answers the queries that waited for a prevent command. By now the group has prepared the transaction,
// or never will.
func (g *group) preventApplied(n raftgroup.Name) {
	// prepareApplied drops a transaction whose preparation was already proposed.
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

// status handles another group's answer to a query.
func (g *group) status(m *Status) {
	e, v := g.prepared[m.Of], g.recoveries[m.Of]
	if !g.Leads() || e == nil || v == nil {
		return
	}
	// All groups end a transaction with the same outcome, so one group's outcome is enough.
	if m.Ended {
		g.conclude(e, m.Outcome)
		return
	}
	// Only the anchor collects preparations; the other groups wait for its resolution.
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
		// decide uses the same rule, so the coordinator and the anchor determine the same timestamp.
		o.Timestamp = max(o.Timestamp, t)
	}
	g.conclude(e, o)
}

// conclude logs the outcome of a transaction. The anchor also sends it to the other groups; only its record lists them.
func (g *group) conclude(e *effect, o Outcome) {
	g.Touch()
	g.Batch = appendResolution(g.Batch, &resolution{name: e.name, Outcome: o})
	for _, p := range e.participants {
		l, ok := g.r.leaseholderOf(p)
		// A group whose leaseholder is unknown here asks the anchor in its own recovery.
		if p == g.Shard || !ok {
			continue
		}
		g.r.send(l.node, &Resolve{Header: Header{Group: p, Term: l.term, Number: e.name.Number, Clock: g.r.now()}, Of: e.name.Coordinator, Outcome: o})
	}
}
