package janus

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
)

// coordinator decides the instances of its own clients (Mu 2016, sections 4.1 and 4.2), and the instances that it has
// taken over.
type coordinator struct {
	r        *Replica
	patience time.Duration
	// open are the unanswered transactions of this node's clients.
	open  map[txn.ID]struct{}
	leads queue.Queue[deadline] // sorted by time
	free  []*lead
}

type deadline struct {
	id Instance
	at time.Duration
}

// stage is the kind of answer that a lead waits for.
type stage uint8

const (
	preAccepting stage = iota + 1
	preparing
	accepting
)

// lead is this node's attempt to decide an instance.
type lead struct {
	stage   stage
	ballot  Ballot
	late    bool // patience has run out
	wide    bool // asks all partitions, because this node did not know the transaction at the start
	tallies []tally

	noop bool  // the proposed value is a no-op
	deps []Dep // proposed dependencies

	best     Ballot // highest ballot of the accepted proposals that Prepare has found
	found    bool
	leftover []Dep // dependencies for a no-op, from replicas that had not pre-accepted: see recovery
}

// tally counts the answers from the replicas of a partition.
type tally struct {
	partition int
	missing   []geo.NodeID
	grants    int // replicas that pre-accepted, promised or accepted
	refusals  int
	fresh     int // while preparing: replicas that have pre-accepted
	votes     []vote
}

// vote is a dependency and the number of replicas that have reported it.
type vote struct {
	Dep
	count int
}

func (c *coordinator) init(r *Replica, patience time.Duration) {
	c.r, c.patience, c.open = r, patience, map[txn.ID]struct{}{}
}

// preAccept creates an instance of t and asks all replicas of t's partitions for the instance's dependencies.
func (c *coordinator) preAccept(t *txn.Transaction) {
	r := c.r
	id := instance(r.self, r.next)
	r.next++
	// The coordinator watches its own instance like any replica: another node may outbid this attempt and then fail.
	rec := r.know(id)
	rec.client = true
	r.learn(rec, t)
	l := c.begin(rec, preAccepting, 0, r.partitionsOf(t))
	m := &PreAccept{Seq: id.Seq(), T: t}
	for i := range l.tallies {
		for _, n := range l.tallies[i].missing {
			if n != r.self {
				r.env.Send(n, m)
				// garbage compares this number with Done in the node's reports. A node that was sent no later instance does not
				// hold back the row.
				r.garbage.peers[n].sent = id.Seq()
			}
		}
	}
	// A coordinator outside the transaction's partitions casts no vote: it has no histories of these keys.
	if rec.foreign {
		r.graph.foreign.Push(rec)
	} else {
		r.admit(rec)
		rec.phase, rec.deps = PreAccepted, slices.Clone(r.enter(id, t))
		c.grant(l, r.self, rec.deps)
	}
	// With one replica per partition, this node's own answer may already decide the instance.
	c.decide(rec)
}

// begin starts this node's attempt to decide rec with ballot b, and the wait for answers from the given partitions.
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
	// A new incarnation does not vote on an instance that was sent to its predecessor, so it does not wait for its own
	// answer either.
	if c.r.abstains(rec.id) {
		c.answered(l, c.r.self) // counts as neither a grant nor a refusal
	}
	rec.lead = l
	// patience is constant, so the queue stays sorted by deadline.
	c.leads.Push(deadline{rec.id, c.r.env.Now() + c.patience})
	return l
}

// add appends a tally for partition q. It reuses the memory of a discarded tally.
func (l *lead) add(q int, group []geo.NodeID) {
	if len(l.tallies) < cap(l.tallies) {
		l.tallies = l.tallies[:len(l.tallies)+1]
	} else {
		l.tallies = append(l.tallies, tally{})
	}
	t := &l.tallies[len(l.tallies)-1]
	*t = tally{partition: q, missing: append(t.missing[:0], group...), votes: t.votes[:0]}
}

// abandon stops this node's attempt to decide the instance, if there is one.
func (c *coordinator) abandon(rec *record) {
	if rec.lead != nil {
		c.free = append(c.free, rec.lead)
		rec.lead = nil
	}
}

// answered removes node n from the replicas whose answers are missing, and returns the tally of n's partition. It
// returns nil if n has already answered or was not asked.
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

// grant counts a positive answer of node n and the dependencies in the answer. It returns nil if the answer does not
// count.
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
				// The dependency is settled if any replica has found its component complete: components are the same at all
				// replicas.
				v.Settled = v.Settled || d.Settled
				continue next
			}
		}
		// PreAcceptOK omits the partition, because a replica reports conflicts in its own partition only.
		d.Partition = uint16(t.partition)
		t.votes = append(t.votes, vote{d, 1})
	}
	return t
}

// preAccepted handles a replica's answer to PreAccept.
func (c *coordinator) preAccepted(from geo.NodeID, m *PreAcceptOK) {
	rec := c.r.find(instance(c.r.self, m.Seq))
	// The answer may arrive after the decision, or after this node has started another ballot.
	if rec == nil || rec.lead == nil || rec.lead.stage != preAccepting {
		return
	}
	// A refusal ends the wait for this replica, but it never counts toward a majority.
	if m.Refused {
		if t := c.answered(rec.lead, from); t != nil {
			t.refusals++
		}
	} else {
		c.grant(rec.lead, from, m.Deps)
	}
	c.decide(rec)
}

// accepted handles a replica's answer to Accept.
func (c *coordinator) accepted(from geo.NodeID, m *AcceptOK) {
	rec := c.r.find(m.ID)
	// The answer may belong to an earlier ballot of this node, whose proposal may have been different.
	if rec == nil || rec.lead == nil || rec.lead.stage != accepting || rec.lead.ballot != m.Ballot {
		return
	}
	// Another node has taken the instance over, and its ballot decides now.
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

// excused reports whether the coordinator no longer waits for the missing replicas of a partition. Either patience has
// run out, or all missing replicas are suspected.
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

// decide advances an instance to its next stage if the received answers suffice.
func (c *coordinator) decide(rec *record) {
	l := rec.lead
	switch l.stage {
	case preAccepting:
		fast := true
		for i := range l.tallies {
			t := &l.tallies[i]
			waits := !c.excused(l, t)
			// A majority can no longer pre-accept: too many replicas have refused, or some have refused and the coordinator no
			// longer waits for the missing replicas.
			if t.grants+len(t.missing) < c.r.majority || t.grants < c.r.majority && t.refusals > 0 && !waits {
				c.r.env.Mark(rowClosedFirst)
				// Another node has closed the row or taken the instance over. Only recovery can decide the instance now. Further
				// waiting is pointless, because the missing replicas may never answer.
				c.r.recovery.takeOver(rec)
				return
			}
			// Waiting for more than a majority costs time, but the fast path needs the answers of all replicas.
			if t.grants < c.r.majority || waits {
				return
			}
			fast = fast && c.unanimous(t)
		}
		// The slow path is safe after equal answers, too. The simulator may force it to exercise Accept.
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
			// A majority of every partition must promise, because it intersects each majority that may have accepted a proposal.
			if t.grants < c.r.majority {
				return
			}
			// The fast path can have decided the instance only if a majority of every partition has pre-accepted it.
			fresh = fresh && t.fresh >= c.r.majority
			late = late && c.excused(l, t)
		}
		switch {
		case l.found:
			// An accepted proposal takes precedence over pre-accepted dependencies, because a majority may have accepted it
			// already.
			c.r.env.Mark(recoveredProposal)
			c.propose(rec, l.noop, l.deps)
		case fresh:
			c.r.env.Mark(recoveredPreAccepted)
			c.propose(rec, false, c.union(l))
		// Wait until patience runs out, because further answers may show that a majority has pre-accepted. This would avoid a
		// restart of the transaction.
		case late:
			c.r.counters.noops++
			c.r.env.Mark(noop)
			deps := append(c.union(l), l.leftover...)
			slices.SortFunc(deps, compareDeps)
			// Each partition must order the no-op after its own dependencies, so an instance may occur once per partition.
			c.propose(rec, true, slices.CompactFunc(deps, func(a, b Dep) bool { return a.ID == b.ID && a.Partition == b.Partition }))
		}
	case accepting:
		for i := range l.tallies {
			// A later Prepare reaches a majority of each partition, so it reaches a replica that has accepted this value.
			if l.tallies[i].grants < c.r.majority {
				return
			}
		}
		c.commit(rec, l.noop, l.deps)
	}
}

// unanimous reports whether all replicas of the partition have answered with the same dependencies. It ignores stable
// dependencies: a replica omits a dependency only if all nodes know that it is stable (see garbage).
func (c *coordinator) unanimous(t *tally) bool {
	// Recovery may receive answers from a majority only. Any majority can reconstruct a fast decision only if the answers
	// of all replicas were equal.
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

// union returns all reported dependencies that are not stable, sorted.
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

// propose asks the replicas to accept a value: either the dependencies or, if noop is set, that the instance never
// happened. The value is final once a majority of each partition has accepted it.
func (c *coordinator) propose(rec *record, noop bool, deps []Dep) {
	r, l := c.r, rec.lead
	l.stage, l.noop, l.deps = accepting, noop, deps
	m := &Accept{Proposal{ID: rec.id, Noop: noop, Deps: deps}, l.ballot}
	if l.ballot > 0 {
		m.T = rec.t // some replicas may lack the transaction
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
	// An abstaining node does not wait for its own answer, and does not count it as an acceptance.
	if t := c.answered(l, r.self); t != nil && !r.abstains(rec.id) {
		t.grants++
	}
	c.decide(rec)
}

// commit sends a decision to all replicas of the transaction's partitions, or to all nodes if the partitions are
// unknown.
func (c *coordinator) commit(rec *record, noop bool, deps []Dep) {
	r, l := c.r, rec.lead
	m := &Commit{Proposal{ID: rec.id, Noop: noop, Deps: deps}}
	// After a takeover some replicas may never have received the coordinator's PreAccept with the transaction.
	if l.ballot > 0 {
		m.T = rec.t
	}
	// The attempt started without knowledge of the transaction, so nodes of any partition may wait for the decision.
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

// tick stops waiting for replicas that have not answered within patience, and suspects them. Later instances do not
// wait for a suspected replica until it sends a message again.
func (c *coordinator) tick() {
	now := c.r.env.Now()
	for c.leads.Len() > 0 && c.leads.Front().at <= now {
		rec := c.r.find(c.leads.Front().id)
		c.leads.Pop()
		// An Accept needs a majority in any case, so patience does not apply to it.
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

// answer handles the outcome of a transaction. It ignores the outcome if no client of this incarnation waits for it.
// The client then already has an outcome, or it submitted the transaction to an earlier incarnation.
func (c *coordinator) answer(o txn.Outcome) {
	if _, waits := c.open[o.ID]; waits && c.r.recon.Outcome(&o) {
		c.reply(o)
	}
}

// reply sends a transaction's outcome to its client.
func (c *coordinator) reply(o txn.Outcome) {
	delete(c.open, o.ID)
	c.r.env.Reply(o)
}

// admit records an instance as received in its coordinator's row.
func (r *Replica) admit(rec *record) {
	row := &r.rows[rec.id.Node()]
	// Links keep the order of messages, so the coordinator sent no instance with a skipped number to this replica.
	row.received = rec.id.Seq()
	row.undone.Push(rec)
	row.kept = append(row.kept, rec)
	rec.admitted = true
}

// receivePreAccept answers a coordinator with the transaction's dependencies at this partition, or with a refusal.
func (r *Replica) receivePreAccept(from geo.NodeID, m *PreAccept) {
	row := &r.rows[from]
	// A coordinator's instances arrive in order, so a lower number is a duplicate.
	if m.Seq <= row.received {
		return
	}
	rec := r.know(instance(from, m.Seq))
	r.learn(rec, m.T)
	r.admit(rec)
	ok := &PreAcceptOK{Seq: m.Seq}
	// Another node has taken the instance over or closed the row. A pre-acceptance now could add a vote that recovery has
	// already counted as missing.
	if rec.phase != Unknown || rec.promised > 0 || m.Seq <= row.closed {
		ok.Refused = true
		r.env.Mark(preAcceptRefused)
	} else {
		rec.phase, rec.deps = PreAccepted, slices.Clone(r.enter(rec.id, m.T))
		ok.Deps = rec.deps
	}
	r.env.Send(from, ok)
}

// receiveAccept accepts a proposal, unless this replica has promised a higher ballot or knows the decision.
func (r *Replica) receiveAccept(from geo.NodeID, m *Accept) {
	if r.abstains(m.ID) {
		r.rejoin.abstain(from, m.ID, m.Ballot)
		return
	}
	rec := r.present(from, m.ID, m.T)
	if rec == nil {
		return
	}
	// A proposal of a lower ballot must not replace a value that a higher ballot may have decided.
	if rec.phase < Committed && m.Ballot >= rec.promised {
		// A node must not continue an attempt with a lower ballot after it has accepted a proposal with a higher ballot.
		if rec.lead != nil && rec.lead.ballot < m.Ballot {
			r.coordinator.abandon(rec)
		}
		rec.promised, rec.accepted = m.Ballot, m.Ballot
		rec.phase, rec.noop, rec.deps = Accepted, m.Noop, m.Deps
	}
	// The sender may not know the decision. With the decision, the sender need not complete its own attempt.
	if rec.phase >= Committed && !rec.foreign {
		r.tell(from, rec)
		return
	}
	r.env.Send(from, &AcceptOK{ID: m.ID, Ballot: m.Ballot, Promised: rec.promised})
}

// receiveCommit handles a decision.
func (r *Replica) receiveCommit(m *Commit) {
	// The node number comes from a message. If it is out of range, r.rows has no entry for it.
	if int(m.ID.Node()) >= r.nodes {
		return
	}
	rec := r.find(m.ID)
	// All replicas have ordered the instance, so a late copy of its decision must not create a record again.
	if rec == nil && r.forgotten(m.ID) {
		return
	}
	// The record has no transaction, so no row keeps it. Garbage collection finds it only in the foreign list.
	if rec == nil && m.T == nil {
		r.graph.foreign.Push(r.hearOf(m.ID))
	}
	rec = r.know(m.ID)
	r.learn(rec, m.T)
	if rec.t == nil && !m.Noop {
		return // the node that decided knows the transaction, and sends it to all nodes that may lack it
	}
	if l := rec.lead; l != nil && l.ballot > 0 && !r.forgotten(m.ID) {
		r.env.Mark(decisionForwarded)
		// This node has taken the instance over, and now receives the decision from another node. More nodes may wait for the
		// decision and would have to recover it one by one, so this node forwards the decision.
		r.coordinator.commit(rec, m.Noop, m.Deps)
		return
	}
	deps := m.Deps
	if r.orderedBefore(rec) {
		deps = nil // its component is already ordered
	}
	r.commit(rec, m.Noop, deps)
}

// present returns the record of an instance that another node refers to, and creates the record if needed. If t is not
// nil, present adds it to the record. If all replicas have ordered the instance, present returns nil and notifies the
// other node.
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

// tell sends another node a decision with its transaction. It must not be called for a foreign instance, because this
// node's dependencies for such an instance are incomplete.
func (r *Replica) tell(to geo.NodeID, rec *record) {
	r.env.Send(to, &Commit{Proposal{ID: rec.id, Noop: rec.noop, Deps: rec.deps, T: rec.t}})
}

// commit makes a decision final at this replica, and answers the nodes that inquired about the instance. If the
// decision is a no-op and a client of this node still waits, commit starts the transaction again as a new instance.
func (r *Replica) commit(rec *record, noop bool, deps []Dep) {
	// All decisions about an instance have the same value, so a repeated decision needs no handling.
	if rec.phase >= Committed {
		return
	}
	// The decision ends this node's own attempt: late answers find no lead and are ignored.
	r.coordinator.abandon(rec)
	rec.phase, rec.noop, rec.deps = Committed, noop, deps
	// Anti-entropy passes on neither no-ops nor instances of other partitions: see antiEntropy.reported.
	if !rec.foreign && !noop {
		r.antiEntropy.decided(rec)
	}
	// An instance of an earlier incarnation may reach this replica only as a decision, without a PreAccept.
	r.admitLate(rec)
	for _, n := range rec.inquirers {
		r.graph.tellAncestor(n, rec)
	}
	rec.inquirers = nil
	r.graph.committed(rec)
	if noop && rec.client {
		rec.client = false
		// If the client already has an outcome, a restart would execute the transaction a second time for no client.
		if _, waits := r.coordinator.open[rec.t.ID]; !waits {
			return
		}
		r.counters.restarts++
		r.env.Mark(restarted)
		r.coordinator.preAccept(rec.t)
	}
}
