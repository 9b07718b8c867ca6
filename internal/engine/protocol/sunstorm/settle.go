package sunstorm

import (
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// settlement ends the multi-region transactions that a lost writer took part in. What it had sent and had not arrived is lost, its votes
// and Prepares among it, and what was on its way to it.
//
// The transactions of before are told from those of after by where their Prepare was sent to. Each writer tells all others that it has been told
// of the new incarnation (Aware), before it sends any Prepare to that: so who gets a Prepare knows which of the two its initiator meant.
//
//   - A vote that has not come from the lost writer is asked for (Ask). The new one knows from its log what its predecessor has prepared: it was yes. All else
//     it has refused, or never heard of, and never will: it is no. For that it remembers which transactions were committed, one bit for each.
//   - Who has not got Prepare from a lost initiator never will. Who has tells the others (Orphan), and they vote no.
//   - The new one asks for the end of what is prepared there (InDoubt). Who has committed it says so, who has it open says so and tells the end later;
//     what nobody has committed and nobody has open was aborted, or its Prepare reached nobody.
//
// About a transaction of before the new incarnation sends and is sent messages of these kinds alone.
//
// The next node may be lost when all of that is over, and what has ended is durable (whole): what an initiator without rows knows is in its memory alone.
type settlement struct {
	r *Replica
	// replaceable says that nodes can be replaced: only then are transactions named, and remembered.
	replaceable bool
	// generation is that of the transactions which this node names, initiated are those that it has named, and committed those that were committed.
	generation           uint64
	initiated, committed names
	// told are, by node, the incarnations of writers that this one has been told of, and aware, by writer and node, those that it knows
	// others to have been told of. Both are nil until one is replaced. lost is the writer that was replaced last.
	told  []uint32
	aware [][]uint32
	lost  geo.NodeID
	// open are the transactions that were open when it was replaced, or that are older, and have not ended. The last of the others has ended with
	// the entry fence.
	open    map[txn.ID]bool
	fence   uint64
	orphans []heldOrphan
	// unanswered is how many writers have not told this one, a new incarnation, what they know of the transactions that are in doubt here.
	unanswered int
}

// heldOrphan is the word of a node that has been told of a new incarnation, at one that has not.
type heldOrphan struct {
	from geo.NodeID
	m    *Orphan
}

func (s *settlement) init(r *Replica, incarnation uint32) {
	s.r, s.replaceable, s.open = r, len(replaces(r.topology, nil)) > 0, map[txn.ID]bool{}
	s.generation = firstGeneration(incarnation)
}

// name names a transaction that this node initiates.
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

// nameOf names a transaction that another node has initiated.
func (s *settlement) nameOf(initiator geo.NodeID, reused uint64) Name {
	if !s.replaceable {
		return Name{}
	}
	return Name{initiator, reused + 1}
}

// remember remembers that a transaction was committed.
func (s *settlement) remember(id txn.ID, n Name) {
	if n.Generation > 0 {
		s.committed.add(id, n)
	}
}

// others calls f for the other writers, in their order.
func (s *settlement) others(f func(geo.NodeID)) {
	t := s.r.topology
	for n := range geo.NodeID(t.Nodes()) {
		if n != s.r.self && t.ReplicaOf(n) == 0 {
			f(n)
		}
	}
}

// replaced takes the news that another writer was replaced. A new incarnation is told of those before it, of which all others know.
func (s *settlement) replaced(n geo.NodeID, incarnation uint32) {
	if s.told == nil {
		s.begin()
	}
	s.told[n] = incarnation
	if s.r.recovery != nil {
		for _, knows := range s.aware {
			knows[n] = incarnation
		}
		return
	}
	w := &s.r.writer
	s.lost, s.fence = n, s.r.wal.last
	s.others(func(other geo.NodeID) {
		if other != n {
			s.r.env.Send(other, &Aware{n, incarnation})
		}
	})
	ids := slices.Sorted(maps.Keys(w.open))
	for _, id := range ids {
		s.open[id] = true
	}
	for _, id := range ids {
		p := w.open[id]
		switch {
		case !p.known || p.initiator == s.r.self && !p.voted: // the last is sent to the new incarnation
		case p.ahead:
			p.ahead = false
			if p.voted {
				s.r.env.Mark(votedAgain)
				s.r.env.Send(n, &Vote{id, p.cast})
			}
		case n == p.initiator || slices.Contains(p.writers, n):
			s.settle(p)
		}
	}
	for _, id := range ids { // now that all are known: who ends lets others go on
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

// awareOf hears that another writer has been told of a new incarnation.
func (s *settlement) awareOf(from geo.NodeID, m *Aware) {
	if s.told == nil {
		s.begin()
	}
	s.aware[from][m.Node] = m.Incarnation
}

// arrives takes note of a transaction whose Prepare has come: whether the initiator sent it to another incarnation than this node has been told of.
func (s *settlement) arrives(p *participation) {
	if s.told == nil {
		return
	}
	for _, n := range p.writers {
		if n == s.r.self || n == p.initiator {
			continue
		}
		switch told, aware := s.told[n], s.aware[p.initiator][n]; {
		case aware > told:
			s.r.env.Mark(preparedAhead)
			p.ahead = true
		case aware < told:
			s.r.env.Mark(preparedLate)
			s.open[p.id] = true
			s.settle(p)
		}
	}
}

// settle begins to do without the lost writer's messages about a transaction.
func (s *settlement) settle(p *participation) {
	p.old = true
	p.unconfirmed = slices.DeleteFunc(p.unconfirmed, func(n geo.NodeID) bool { return n == s.lost })
	if s.lost != p.initiator && !slices.Contains(p.heard, s.lost) {
		s.r.env.Mark(voteAsked)
		s.r.env.Send(s.lost, &Ask{Named{p.id, p.name}})
	}
	if p.voted {
		s.bereave(p)
	}
}

// over reports whether a writer is the one that is lost, and a transaction one of its predecessor's.
func (s *settlement) over(p *participation, n geo.NodeID) bool { return p.old && n == s.lost }

// bereave tells those who may not have got Prepare from a lost initiator. This node's vote is ahead of that.
func (s *settlement) bereave(p *participation) {
	if !p.old || p.initiator != s.lost {
		return
	}
	for _, n := range p.writers {
		if n != s.r.self && n != s.lost && !slices.Contains(p.heard, n) {
			s.r.env.Send(n, &Orphan{p.id, s.lost, s.told[s.lost]})
		}
	}
}

// orphan hears of a transaction whose initiator is lost. A vote of somebody else's may have come.
func (s *settlement) orphan(from geo.NodeID, m *Orphan) {
	if s.told == nil || s.told[m.Node] < m.Incarnation {
		s.orphans = append(s.orphans, heldOrphan{from, m})
		return
	}
	p := s.r.writer.open[m.ID]
	if p != nil && p.known {
		return
	}
	s.r.env.Mark(orphanRefused)
	delete(s.r.writer.open, m.ID)
	s.ends(m.ID)
	s.r.env.Send(from, &Settled{m.ID, Gone})
}

// ask tells another writer how the predecessor of this one has voted.
func (s *settlement) ask(from geo.NodeID, m *Ask) {
	p, verdict := s.r.writer.open[m.ID], Gone
	if s.committed.has(m.ID, m.Name) || p != nil && p.prepared && p.name == m.Name {
		s.r.env.Mark(voteFound)
		verdict = Yes
	}
	s.r.env.Send(from, &Settled{m.ID, verdict})
}

// settled takes a vote in place of one that will not come. It did, if the transaction has ended, or the vote is counted.
func (s *settlement) settled(from geo.NodeID, m *Settled) {
	if p := s.r.writer.open[m.ID]; p != nil && !slices.Contains(p.heard, from) {
		s.r.writer.count(p, from, m.Verdict)
	}
}

// inDoubt tells a new incarnation what is known here of transactions that are prepared there.
func (s *settlement) inDoubt(from geo.NodeID, m *InDoubt) {
	a := &Known{}
	for _, t := range m.Transactions {
		switch p := s.r.writer.open[t.ID]; {
		case s.committed.has(t.ID, t.Name):
			s.r.env.Mark(endFound)
			a.Committed = append(a.Committed, t.ID)
		case p != nil && p.known && p.name == t.Name && !p.decided:
			p.tell = true
			a.Open = append(a.Open, t.ID)
		}
	}
	s.r.env.Send(from, a)
}

// ends takes note that a transaction has ended.
func (s *settlement) ends(id txn.ID) {
	if s.open[id] {
		delete(s.open, id)
		s.fence = s.r.wal.last
	}
}

// whole reports whether nothing depends any more on what a lost writer may have known.
func (s *settlement) whole() bool {
	if s.told == nil {
		return s.unanswered == 0
	}
	whole := s.unanswered == 0 && len(s.open) == 0 && len(s.orphans) == 0 && s.r.wal.durable >= s.fence
	s.others(func(n geo.NodeID) {
		whole = whole && (n == s.lost || s.aware[n][s.lost] >= s.told[s.lost])
	})
	return whole
}
