package janus

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
)

// coordinator decides instances: the instances of its own clients (Mu 2016, sections 4.1 and 4.2), and instances that
// it has taken over.
type coordinator struct {
	r        *Replica
	patience time.Duration
	// open are the transactions of own clients without an answer.
	open  map[txn.ID]struct{}
	leads queue.Queue[deadline] // in the order of time
	free  []*lead
}

type deadline struct {
	id Instance
	at time.Duration
}

// stage is the answer for which the deciding node waits.
type stage uint8

const (
	preAccepting stage = iota + 1
	preparing
	accepting
)

// lead is an instance that this node tries to decide.
type lead struct {
	stage   stage
	ballot  Ballot
	late    bool // patience is over
	wide    bool // asks all partitions, since it does not know the transaction
	tallies []tally

	noop bool  // proposed
	deps []Dep // proposed

	best     Ballot // of the proposals found by Prepare
	found    bool
	leftover []Dep // dependencies of the replicas that have not pre-accepted: see recovery
}

// tally counts the answers of a partition's replicas.
type tally struct {
	partition int
	missing   []geo.NodeID
	grants    int // pre-accepted, promised or accepted
	refusals  int
	fresh     int // with Prepare: have pre-accepted
	votes     []vote
}

// vote is a dependency and how many replicas have named it.
type vote struct {
	Dep
	count int
}

func (c *coordinator) init(r *Replica, patience time.Duration) {
	c.r, c.patience, c.open = r, patience, map[txn.ID]struct{}{}
}

// preAccept makes a new instance of t and asks all replicas of its partitions for its dependencies.
func (c *coordinator) preAccept(t *txn.Transaction) {
	r := c.r
	id := instance(r.self, r.next)
	r.next++
	rec := r.know(id)
	rec.client = true
	r.learn(rec, t)
	l := c.begin(rec, preAccepting, 0, r.partitionsOf(t))
	m := &PreAccept{Seq: id.Seq(), T: t}
	for i := range l.tallies {
		for _, n := range l.tallies[i].missing {
			if n != r.self {
				r.env.Send(n, m)
				r.garbage.peers[n].sent = id.Seq()
			}
		}
	}
	if rec.foreign {
		r.graph.foreign.Push(rec)
	} else {
		r.admit(rec)
		rec.phase, rec.deps = PreAccepted, slices.Clone(r.enter(id, t))
		c.grant(l, r.self, rec.deps)
	}
	c.decide(rec)
}

// begin makes this node the node that decides rec.
func (c *coordinator) begin(rec *record, s stage, b Ballot, partitions []int) *lead {
	var l *lead
	if n := len(c.free); n > 0 {
		l, c.free = c.free[n-1], c.free[:n-1]
	} else {
		l = &lead{}
	}
	*l = lead{stage: s, ballot: b, tallies: l.tallies[:0]}
	for _, q := range partitions {
		l.add(q, c.r.group[q])
	}
	if c.r.abstains(rec.id) {
		c.answered(l, c.r.self) // and says nothing
	}
	rec.lead = l
	c.leads.Push(deadline{rec.id, c.r.env.Now() + c.patience})
	return l
}

// add appends the tally of a partition, and reuses the memory of an old tally.
func (l *lead) add(q int, group []geo.NodeID) {
	if len(l.tallies) < cap(l.tallies) {
		l.tallies = l.tallies[:len(l.tallies)+1]
	} else {
		l.tallies = append(l.tallies, tally{})
	}
	t := &l.tallies[len(l.tallies)-1]
	*t = tally{partition: q, missing: append(t.missing[:0], group...), votes: t.votes[:0]}
}

// abandon leaves the instance to others.
func (c *coordinator) abandon(rec *record) {
	if rec.lead != nil {
		c.free = append(c.free, rec.lead)
		rec.lead = nil
	}
}

// answered returns the tally that node n's answer belongs to, nil if it has answered or is not asked.
func (c *coordinator) answered(l *lead, n geo.NodeID) *tally {
	q := c.r.topology.PartitionOf(n)
	for i := range l.tallies {
		t := &l.tallies[i]
		if t.partition != q {
			continue
		}
		for j, m := range t.missing {
			if m == n {
				t.missing = append(t.missing[:j], t.missing[j+1:]...)
				return t
			}
		}
	}
	return nil
}

// grant counts the dependencies that node n has answered with.
func (c *coordinator) grant(l *lead, n geo.NodeID, deps []Dep) *tally {
	t := c.answered(l, n)
	if t == nil {
		return nil
	}
	t.grants++
next:
	for _, d := range deps {
		for i := range t.votes {
			if v := &t.votes[i]; v.ID == d.ID {
				v.count++
				v.Settled = v.Settled || d.Settled
				continue next
			}
		}
		d.Partition = uint16(t.partition)
		t.votes = append(t.votes, vote{d, 1})
	}
	return t
}

// preAccepted takes the dependencies that a replica knows.
func (c *coordinator) preAccepted(from geo.NodeID, m *PreAcceptOK) {
	rec := c.r.find(instance(c.r.self, m.Seq))
	if rec == nil || rec.lead == nil || rec.lead.stage != preAccepting {
		return
	}
	if m.Refused {
		if t := c.answered(rec.lead, from); t != nil {
			t.refusals++
		}
	} else {
		c.grant(rec.lead, from, m.Deps)
	}
	c.decide(rec)
}

// accepted takes a replica's answer to a proposal.
func (c *coordinator) accepted(from geo.NodeID, m *AcceptOK) {
	rec := c.r.find(m.ID)
	if rec == nil || rec.lead == nil || rec.lead.stage != accepting || rec.lead.ballot != m.Ballot {
		return
	}
	if m.Promised > m.Ballot {
		c.r.env.Mark(acceptOutbid)
		rec.promised = max(rec.promised, m.Promised)
		c.abandon(rec)
		return
	}
	if t := c.answered(rec.lead, from); t != nil {
		t.grants++
	}
	c.decide(rec)
}

// excused reports whether no other replica needs to be waited for.
func (c *coordinator) excused(l *lead, t *tally) bool {
	if l.late {
		return true
	}
	for _, n := range t.missing {
		if !c.r.recovery.suspect[n] {
			return false
		}
	}
	return true
}

// decide advances an instance as far as the answers allow.
func (c *coordinator) decide(rec *record) {
	l := rec.lead
	switch l.stage {
	case preAccepting:
		fast := true
		for i := range l.tallies {
			t := &l.tallies[i]
			waits := !c.excused(l, t)
			if t.grants+len(t.missing) < c.r.majority || t.grants < c.r.majority && t.refusals > 0 && !waits {
				c.r.env.Mark(rowClosedFirst)
				// Other nodes have closed the row before this instance arrived: all that remains is to learn what they know. The
				// missing replicas may never answer.
				c.r.recovery.takeOver(rec)
				return
			}
			if t.grants < c.r.majority || waits {
				return
			}
			fast = fast && c.unanimous(t)
		}
		fast = fast && !c.r.env.Buggify(votesDoubted)
		deps := c.union(l)
		if fast {
			c.r.counters.fast++
			c.commit(rec, false, deps)
			return
		}
		c.r.counters.slow++
		c.r.env.Mark(slowPath)
		c.propose(rec, false, deps)
	case preparing:
		fresh, late := true, true
		for i := range l.tallies {
			t := &l.tallies[i]
			if t.grants < c.r.majority {
				return
			}
			fresh = fresh && t.fresh >= c.r.majority
			late = late && c.excused(l, t)
		}
		switch {
		case l.found:
			c.r.env.Mark(recoveredProposal)
			c.propose(rec, l.noop, l.deps)
		case fresh:
			c.r.env.Mark(recoveredPreAccepted)
			c.propose(rec, false, c.union(l))
		case late:
			c.r.counters.noops++
			c.r.env.Mark(noop)
			deps := append(c.union(l), l.leftover...)
			slices.SortFunc(deps, compareDeps)
			c.propose(rec, true, slices.CompactFunc(deps, func(a, b Dep) bool { return a.ID == b.ID && a.Partition == b.Partition }))
		}
	case accepting:
		for i := range l.tallies {
			if l.tallies[i].grants < c.r.majority {
				return
			}
		}
		c.commit(rec, l.noop, l.deps)
	}
}

// unanimous reports whether all replicas of the partition have answered with the same dependencies. Dependencies that
// all replicas have ordered do not matter: a replica omits them only when all replicas know that (see garbage).
func (c *coordinator) unanimous(t *tally) bool {
	if t.grants < len(c.r.group[t.partition]) {
		return false
	}
	for i := range t.votes {
		if v := &t.votes[i]; v.count < t.grants && !c.r.forgotten(v.ID) {
			return false
		}
	}
	return true
}

// union returns all dependencies that were named and still matter, sorted.
func (c *coordinator) union(l *lead) []Dep {
	n := 0
	for i := range l.tallies {
		n += len(l.tallies[i].votes)
	}
	if n == 0 {
		return nil
	}
	deps := make([]Dep, 0, n)
	for i := range l.tallies {
		for _, v := range l.tallies[i].votes {
			if !c.r.forgotten(v.ID) {
				deps = append(deps, v.Dep)
			}
		}
	}
	if len(deps) == 0 {
		return nil
	}
	if len(deps) > 1 {
		slices.SortFunc(deps, compareDeps)
	}
	return deps
}

// propose asks the replicas to accept the dependencies, or that the instance never happened. A majority of each
// partition makes it final.
func (c *coordinator) propose(rec *record, noop bool, deps []Dep) {
	r, l := c.r, rec.lead
	l.stage, l.noop, l.deps = accepting, noop, deps
	m := &Accept{Proposal{ID: rec.id, Noop: noop, Deps: deps}, l.ballot}
	if l.ballot > 0 {
		m.T = rec.t // some may not have it
	}
	for i := range l.tallies {
		t := &l.tallies[i]
		*t = tally{partition: t.partition, missing: append(t.missing[:0], r.group[t.partition]...), votes: t.votes[:0]}
		for _, n := range t.missing {
			if n != r.self {
				r.env.Send(n, m)
			}
		}
	}
	rec.phase, rec.accepted, rec.noop, rec.deps = Accepted, l.ballot, noop, deps
	if t := c.answered(l, r.self); t != nil && !r.abstains(rec.id) {
		t.grants++
	}
	c.decide(rec)
}

// commit sends the decision to all nodes.
func (c *coordinator) commit(rec *record, noop bool, deps []Dep) {
	r, l := c.r, rec.lead
	m := &Commit{Proposal{ID: rec.id, Noop: noop, Deps: deps}}
	if l.ballot > 0 {
		m.T = rec.t
	}
	if l.wide {
		r.env.Mark(allPartitionsTold)
		for n := range geo.NodeID(r.nodes) {
			if n != r.self {
				r.env.Send(n, m)
			}
		}
	} else {
		for i := range l.tallies {
			for _, n := range r.group[l.tallies[i].partition] {
				if n != r.self {
					r.env.Send(n, m)
				}
			}
		}
	}
	r.commit(rec, noop, deps)
}

// tick continues without the replicas that have not answered in time. It does not wait for them again before they send
// a message.
func (c *coordinator) tick() {
	now := c.r.env.Now()
	for c.leads.Len() > 0 && c.leads.Front().at <= now {
		rec := c.r.find(c.leads.Front().id)
		c.leads.Pop()
		if rec == nil || rec.lead == nil || rec.lead.stage == accepting {
			continue
		}
		l := rec.lead
		l.late = true
		c.r.env.Mark(patienceOver)
		for i := range l.tallies {
			for _, n := range l.tallies[i].missing {
				c.r.recovery.suspect[n] = true
			}
		}
		c.decide(rec)
	}
}

// answer takes the outcome of a transaction. A client may have been answered already, or have waited at an earlier
// incarnation.
func (c *coordinator) answer(o txn.Outcome) {
	if _, waits := c.open[o.ID]; waits && c.r.recon.Outcome(&o) {
		c.reply(o)
	}
}

// reply sends a client its transaction's outcome.
func (c *coordinator) reply(o txn.Outcome) {
	delete(c.open, o.ID)
	c.r.env.Reply(o)
}

// admit records an instance that has arrived in its row.
func (r *Replica) admit(rec *record) {
	row := &r.rows[rec.id.Node()]
	row.received = rec.id.Seq()
	row.undone.Push(rec)
	row.kept = append(row.kept, rec)
	rec.admitted = true
}

// receivePreAccept answers a coordinator with what its transaction depends on here.
func (r *Replica) receivePreAccept(from geo.NodeID, m *PreAccept) {
	row := &r.rows[from]
	if m.Seq <= row.received {
		return
	}
	rec := r.know(instance(from, m.Seq))
	r.learn(rec, m.T)
	r.admit(rec)
	ok := &PreAcceptOK{Seq: m.Seq}
	if rec.phase != Unknown || rec.promised > 0 || m.Seq <= row.closed {
		ok.Refused = true
		r.env.Mark(preAcceptRefused)
	} else {
		rec.phase, rec.deps = PreAccepted, slices.Clone(r.enter(rec.id, m.T))
		ok.Deps = rec.deps
	}
	r.env.Send(from, ok)
}

// receiveAccept accepts a proposal unless a higher ballot has been promised.
func (r *Replica) receiveAccept(from geo.NodeID, m *Accept) {
	if r.abstains(m.ID) {
		r.rejoin.abstain(from, m.ID, m.Ballot)
		return
	}
	rec := r.present(from, m.ID, m.T)
	if rec == nil {
		return
	}
	if rec.phase < Committed && m.Ballot >= rec.promised {
		if rec.lead != nil && rec.lead.ballot < m.Ballot {
			r.coordinator.abandon(rec)
		}
		rec.promised, rec.accepted = m.Ballot, m.Ballot
		rec.phase, rec.noop, rec.deps = Accepted, m.Noop, m.Deps
	}
	if rec.phase >= Committed && !rec.foreign {
		r.tell(from, rec)
		return
	}
	r.env.Send(from, &AcceptOK{ID: m.ID, Ballot: m.Ballot, Promised: rec.promised})
}

// receiveCommit learns a decision.
func (r *Replica) receiveCommit(m *Commit) {
	if int(m.ID.Node()) >= r.nodes {
		return
	}
	rec := r.find(m.ID)
	if rec == nil && r.forgotten(m.ID) {
		return
	}
	if rec == nil && m.T == nil {
		r.graph.foreign.Push(r.hearOf(m.ID))
	}
	rec = r.know(m.ID)
	r.learn(rec, m.T)
	if rec.t == nil && !m.Noop {
		return // the node that decided knows the transaction and sends it where it may be missing
	}
	if l := rec.lead; l != nil && l.ballot > 0 && !r.forgotten(m.ID) {
		r.env.Mark(decisionForwarded)
		// The node that has taken the instance over receives the decision. Other nodes without the decision may wait for it,
		// and each would have to recover it separately.
		r.coordinator.commit(rec, m.Noop, m.Deps)
		return
	}
	deps := m.Deps
	if r.orderedBefore(rec) {
		deps = nil // its whole component was ordered
	}
	r.commit(rec, m.Noop, deps)
}

// present returns the record to which another node refers, with its transaction unless that is nil; it creates the
// record if needed. If all replicas have ordered the instance, it returns nil and notifies the other node.
func (r *Replica) present(from geo.NodeID, id Instance, t *txn.Transaction) *record {
	if int(id.Node()) >= r.nodes {
		return nil
	}
	rec := r.find(id)
	if rec == nil && r.forgotten(id) || rec != nil && r.orderedBefore(rec) {
		r.env.Mark(forgottenAskedFor)
		r.env.Send(from, &Ancestors{[]Ancestor{{ID: id}}})
		return nil
	}
	if rec == nil {
		rec = r.hearOf(id)
		r.graph.foreign.Push(rec)
	}
	if t != nil {
		r.learn(r.know(id), t)
	}
	return rec
}

// tell sends another node a decision with its complete content. The decision that a node knows of a foreign instance is
// incomplete.
func (r *Replica) tell(to geo.NodeID, rec *record) {
	r.env.Send(to, &Commit{Proposal{ID: rec.id, Noop: rec.noop, Deps: rec.deps, T: rec.t}})
}

// commit makes a decision final.
func (r *Replica) commit(rec *record, noop bool, deps []Dep) {
	if rec.phase >= Committed {
		return
	}
	r.coordinator.abandon(rec)
	rec.phase, rec.noop, rec.deps = Committed, noop, deps
	if !rec.foreign && !noop {
		r.antiEntropy.decided(rec)
	}
	r.admitLate(rec)
	for _, n := range rec.inquirers {
		r.graph.tellAncestor(n, rec)
	}
	rec.inquirers = nil
	r.graph.committed(rec)
	if noop && rec.client {
		rec.client = false
		if _, waits := r.coordinator.open[rec.t.ID]; !waits {
			return
		}
		r.counters.restarts++
		r.env.Mark(restarted)
		r.coordinator.preAccept(rec.t)
	}
}
