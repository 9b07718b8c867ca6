package sunstorm

import (
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// settlement settles the multi-region transactions that involve a lost writer. Messages in flight from and to the lost
// writer are lost, including its votes and Prepares.
//
// The receiver of a Prepare must distinguish transactions of the lost writer from transactions of its successor. Each
// writer notifies all other writers that it knows of the new incarnation (Aware), before it sends any Prepare to that
// incarnation. The receiver therefore knows to which incarnation the initiator has sent its Prepare.
//
//   - A writer asks the new incarnation for the lost writer's missing votes (Ask). The new incarnation votes yes on
//     transactions that its log shows as prepared or committed, because its predecessor voted yes on these. It votes no
//     on all others: its predecessor refused them or never received them. To recognize committed transactions, it keeps
//     one bit for each.
//   - A lost initiator may have sent Prepare to only some of the participants. A participant that has received Prepare
//     notifies the others (Orphan). A participant that has not received Prepare votes no.
//   - The new incarnation asks for the outcomes of its prepared transactions (InDoubt). A writer reports which of them
//     it has committed, and which are still open there; it sends the outcomes of the open ones later. A transaction
//     that is neither committed nor open at any writer was aborted, or its Prepare reached no writer.
//
// For transactions from before the loss, the new incarnation exchanges no other messages.
//
// Another node may be lost only after all these transactions are settled and their outcomes are durable (whole). The
// reason is that an initiator without rows keeps its outcomes only in memory.
type settlement struct {
	r *Replica
	// replaceable is set if nodes can be replaced. Only then are transactions named and commits remembered.
	replaceable bool
	// generation is part of the names of the transactions that this node initiates. initiated is the set of transactions
	// that this node has named. committed is the set of committed multi-region transactions.
	generation           uint64
	initiated, committed names
	// told is, by node, the latest incarnation of each writer that this node knows of. aware is, by writer and node, the
	// latest incarnation that the writer has reported to know of (Aware). Both are nil until a writer is replaced. lost is
	// the writer that was replaced last.
	told  []uint32
	aware [][]uint32
	lost  geo.NodeID
	// open are the unfinished transactions that involve the predecessor of lost, or were open here when lost was replaced.
	// The outcomes of all finished transactions of this kind are in the log up to entry fence.
	open    map[txn.ID]bool
	fence   uint64
	orphans []heldOrphan
	// unanswered is the number of writers from which this node, a new incarnation, still expects a Known message.
	unanswered int
}

// heldOrphan is an Orphan about an incarnation that this node does not know yet.
type heldOrphan struct {
	from geo.NodeID
	m    *Orphan
}

func (s *settlement) init(r *Replica, incarnation uint32) {
	s.r, s.replaceable, s.open = r, len(replaces(r.topology, nil)) > 0, map[txn.ID]bool{}
	s.generation = firstGeneration(incarnation)
}

// name returns a new name for a transaction that this node initiates, or the zero Name if nodes cannot be replaced.
func (s *settlement) name(id txn.ID) Name {
	if !s.replaceable {
		return Name{}
	}
	n := Name{s.r.self, s.generation}
	if s.initiated.has(id, n) {
		s.generation++
		n.Generation = s.generation
	}
	s.initiated.add(id, n)
	return n
}

// nameOf returns the name of a transaction that another node has initiated.
func (s *settlement) nameOf(initiator geo.NodeID, reused uint64) Name {
	if !s.replaceable {
		return Name{}
	}
	return Name{initiator, reused + 1}
}

// remember records that a transaction was committed.
func (s *settlement) remember(id txn.ID, n Name) {
	if n.Generation > 0 {
		s.committed.add(id, n)
	}
}

// others calls f for the other writers, in node order.
func (s *settlement) others(f func(geo.NodeID)) {
	t := s.r.topology
	for n := range geo.NodeID(t.Nodes()) {
		if n != s.r.self && t.ReplicaOf(n) == 0 {
			f(n)
		}
	}
}

// replaced records that another writer was replaced. A new incarnation also receives this call for earlier
// replacements, which all other writers already know of.
func (s *settlement) replaced(n geo.NodeID, incarnation uint32) {
	if s.told == nil {
		s.begin()
	}
	s.told[n] = incarnation
	// While this node recovers, the earlier replacements are settled at all other writers already.
	if s.r.recovery != nil {
		for _, knows := range s.aware {
			knows[n] = incarnation
		}
		return
	}
	w := &s.r.writer
	// The outcomes of transactions that finished before the loss survive another loss once the log is durable up to fence.
	s.lost, s.fence = n, s.r.wal.last
	// Aware must precede any Prepare to the new incarnation. Links keep the order of messages.
	s.others(func(other geo.NodeID) {
		if other != n {
			s.r.env.Send(other, &Aware{n, incarnation})
		}
	})
	// Map order would make the order of messages differ between replays.
	ids := slices.Sorted(maps.Keys(w.open))
	for _, id := range ids {
		s.open[id] = true
	}
	for _, id := range ids {
		p := w.open[id]
		switch {
		case !p.known || p.initiator == s.r.self && !p.voted: // in the last case, initiation.do will send Prepare to the new incarnation
		case p.ahead:
			// The initiator sent Prepare to the new incarnation, so that incarnation, and not its predecessor, needs this
			// vote.
			p.ahead = false
			if p.voted {
				s.r.env.Mark(votedAgain)
				s.r.env.Send(n, &Vote{id, p.cast})
			}
		case n == p.initiator || slices.Contains(p.writers, n):
			s.settle(p)
		}
	}
	for _, id := range ids { // after all are settled, because the end of a transaction lets others continue
		if p := w.open[id]; p != nil {
			w.decide(p)
		}
	}
	held := s.orphans
	s.orphans = nil
	for _, o := range held {
		s.orphan(o.from, o.m)
	}
}

func (s *settlement) begin() {
	s.told, s.aware = make([]uint32, s.r.topology.Nodes()), make([][]uint32, s.r.topology.Nodes())
	for n := range s.aware {
		s.aware[n] = make([]uint32, s.r.topology.Nodes())
	}
}

// awareOf records that another writer knows of a new incarnation.
func (s *settlement) awareOf(from geo.NodeID, m *Aware) {
	if s.told == nil {
		s.begin()
	}
	s.aware[from][m.Node] = m.Incarnation
}

// arrives handles a Prepare that has arrived. It sets ahead if the initiator knew of a replacement that this node does
// not know of. If the initiator did not know of a replacement that this node knows of, arrives settles the transaction.
func (s *settlement) arrives(p *participation) {
	if s.told == nil {
		return
	}
	for _, n := range p.writers {
		// The Prepare has reached this node, and the initiator sends none to itself.
		if n == s.r.self || n == p.initiator {
			continue
		}
		switch told, aware := s.told[n], s.aware[p.initiator][n]; {
		case aware > told:
			s.r.env.Mark(preparedAhead)
			// The initiator already knew of the new incarnation, and has sent Prepare to that incarnation. This node learns of
			// the loss later.
			p.ahead = true
		case aware < told:
			// The initiator sent its Prepare before it learned of the loss, so the Prepare went to the predecessor.
			s.r.env.Mark(preparedLate)
			s.open[p.id] = true
			s.settle(p)
		}
	}
}

// settle obtains substitutes for the messages about a transaction that the lost writer will never send.
func (s *settlement) settle(p *participation) {
	p.old = true
	// The lost writer will never confirm this node's vote. Waiting for the confirmation would block the transaction.
	p.unconfirmed = slices.DeleteFunc(p.unconfirmed, func(n geo.NodeID) bool { return n == s.lost })
	// The vote of a lost initiator with rows is its Prepare, which has arrived.
	if s.lost != p.initiator && !slices.Contains(p.heard, s.lost) {
		s.r.env.Mark(voteAsked)
		s.r.env.Send(s.lost, &Ask{Named{p.id, p.name}})
	}
	// If this node has not voted yet, ballot.do calls bereave after it has sent the vote.
	if p.voted {
		s.bereave(p)
	}
}

// over reports whether n is the lost writer and the transaction involves n's predecessor. In that case, the new
// incarnation expects no vote on the transaction.
func (s *settlement) over(p *participation, n geo.NodeID) bool { return p.old && n == s.lost }

// bereave notifies the writers that may not have received Prepare from a lost initiator. It must be called after this
// node has sent its vote.
func (s *settlement) bereave(p *participation) {
	if !p.old || p.initiator != s.lost {
		return
	}
	for _, n := range p.writers {
		// A writer that has voted has the Prepare.
		if n != s.r.self && n != s.lost && !slices.Contains(p.heard, n) {
			s.r.env.Send(n, &Orphan{p.id, s.lost, s.told[s.lost]})
		}
	}
}

// orphan handles a report of a transaction with a lost initiator. If this node does not have the Prepare, it votes no.
func (s *settlement) orphan(from geo.NodeID, m *Orphan) {
	// Links from different nodes are not ordered. Before the replacement is known here, Prepare may still be accepted.
	if s.told == nil || s.told[m.Node] < m.Incarnation {
		s.orphans = append(s.orphans, heldOrphan{from, m})
		return
	}
	p := s.r.writer.open[m.ID]
	// This node has the Prepare, so it sends a vote anyway.
	if p != nil && p.known {
		return
	}
	s.r.env.Mark(orphanRefused)
	// Votes that arrived before Prepare have created an entry, which nothing else would remove.
	delete(s.r.writer.open, m.ID)
	s.ends(m.ID)
	s.r.env.Send(from, &Settled{m.ID, Gone})
}

// ask answers a request for the vote of this writer's lost predecessor.
func (s *settlement) ask(from geo.NodeID, m *Ask) {
	p, verdict := s.r.writer.open[m.ID], Gone
	// The log proves the yes vote: the predecessor prepared a transaction only if its vote was yes.
	if s.committed.has(m.ID, m.Name) || p != nil && p.prepared && p.name == m.Name {
		s.r.env.Mark(voteFound)
		verdict = Yes
	}
	s.r.env.Send(from, &Settled{m.ID, verdict})
}

// settled handles a vote that replaces a missing vote. It ignores the vote if the transaction has ended, or if the
// sender's vote was already counted.
func (s *settlement) settled(from geo.NodeID, m *Settled) {
	if p := s.r.writer.open[m.ID]; p != nil && !slices.Contains(p.heard, from) {
		s.r.writer.count(p, from, m.Verdict)
	}
}

// inDoubt answers a new incarnation that asks for the outcomes of its prepared transactions.
func (s *settlement) inDoubt(from geo.NodeID, m *InDoubt) {
	a := &Known{}
	for _, t := range m.Transactions {
		switch p := s.r.writer.open[t.ID]; {
		case s.committed.has(t.ID, t.Name):
			s.r.env.Mark(endFound)
			a.Committed = append(a.Committed, t.ID)
		// A decided transaction that is not in committed was aborted. It is in neither list, so the new incarnation aborts
		// it, too.
		case p != nil && p.known && p.name == t.Name && !p.decided:
			p.tell = true
			a.Open = append(a.Open, t.ID)
		}
	}
	s.r.env.Send(from, a)
}

// ends records that a transaction has ended.
func (s *settlement) ends(id txn.ID) {
	if s.open[id] {
		delete(s.open, id)
		// An outcome survives another loss only once the log is durable up to its entry.
		s.fence = s.r.wal.last
	}
}

// whole reports whether all transactions that a lost writer has left open are settled and durable.
func (s *settlement) whole() bool {
	// No replacement is known here, so only this node's own recovery can be unfinished.
	if s.told == nil {
		return s.unanswered == 0
	}
	whole := s.unanswered == 0 && len(s.open) == 0 && len(s.orphans) == 0 && s.r.wal.durable >= s.fence
	s.others(func(n geo.NodeID) {
		// The new incarnation sends no Aware about itself.
		whole = whole && (n == s.lost || s.aware[n][s.lost] >= s.told[s.lost])
	})
	return whole
}
