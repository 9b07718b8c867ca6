package sunstorm

import (
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// settlement settles the multi-region transactions in which a lost writer took part. Messages in flight from and to the
// lost writer are lost, including its votes and Prepares.
//
// The receiver of Prepare distinguishes transactions of the lost writer from transactions of its successor. Each writer
// notifies all other writers that it knows of the new incarnation (Aware), before it sends any Prepare to that
// incarnation. So a writer that receives a Prepare knows which of the two its initiator meant.
//
//   - A writer requests the lost writer's missing votes (Ask). The new incarnation knows from its log what its
//     predecessor has prepared: the vote was yes. It votes no on all other transactions: its predecessor refused them
//     or never knew them, and never will. To distinguish them, it remembers the committed transactions, one bit for
//     each.
//   - A writer without the Prepare of a lost initiator never receives it. A writer that has the Prepare notifies the
//     others (Orphan), and they vote no.
//   - The new incarnation asks for the outcomes of its prepared transactions (InDoubt). A writer that has committed
//     such a transaction reports that. A writer that has it open reports that, and sends the outcome later. A
//     transaction that no writer has committed or open was aborted, or its Prepare reached no writer.
//
// About a transaction of before the new incarnation sends and is sent messages of these kinds alone.
//
// The next node may be lost when all of that is over and the outcomes are durable (whole): an initiator without rows
// keeps its knowledge only in memory.
type settlement struct {
	r *Replica
	// replaceable says that nodes can be replaced: only then are transactions named, and remembered.
	replaceable bool
	// generation is the generation of the transactions that this node names. initiated are the transactions that it has
	// named, and committed the committed transactions.
	generation           uint64
	initiated, committed names
	// told are, by node, the known incarnations of writers. aware are, by writer and node, the incarnations that other
	// writers are known to know. Both are nil until a writer is replaced. lost is the writer that was replaced last.
	told  []uint32
	aware [][]uint32
	lost  geo.NodeID
	// open are the transactions that were open when lost was replaced, or that are older, and have not ended. The last of
	// the others has ended with the entry fence.
	open    map[txn.ID]bool
	fence   uint64
	orphans []heldOrphan
	// unanswered is the number of writers that have not yet reported to this node, a new incarnation, about its
	// transactions in doubt.
	unanswered int
}

// heldOrphan is an Orphan from a node that knows of a new incarnation, received by a node that does not know of it yet.
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

// others calls f for the other writers, in node order.
func (s *settlement) others(f func(geo.NodeID)) {
	t := s.r.topology
	for n := range geo.NodeID(t.Nodes()) {
		if n != s.r.self && t.ReplicaOf(n) == 0 {
			f(n)
		}
	}
}

// replaced records that another writer was replaced. A new incarnation receives this call for earlier new incarnations,
// which all other writers know.
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
	for _, id := range ids { // after all are recorded: a transaction that ends lets others continue
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

// arrives classifies a transaction whose Prepare has arrived: whether the initiator sent it to a newer incarnation than
// this node knows.
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

// over reports whether writer n is the lost writer, and the transaction belongs to its predecessor.
func (s *settlement) over(p *participation, n geo.NodeID) bool { return p.old && n == s.lost }

// bereave notifies the writers that may not have received Prepare from a lost initiator. This node's vote precedes that
// message.
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

// orphan handles a report of a transaction with a lost initiator. Another writer's vote may have arrived before it.
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

// ask sends another writer the vote of this writer's predecessor.
func (s *settlement) ask(from geo.NodeID, m *Ask) {
	p, verdict := s.r.writer.open[m.ID], Gone
	if s.committed.has(m.ID, m.Name) || p != nil && p.prepared && p.name == m.Name {
		s.r.env.Mark(voteFound)
		verdict = Yes
	}
	s.r.env.Send(from, &Settled{m.ID, verdict})
}

// settled handles a vote that replaces a missing vote. The vote is not missing if the transaction has ended, or the
// vote is counted.
func (s *settlement) settled(from geo.NodeID, m *Settled) {
	if p := s.r.writer.open[m.ID]; p != nil && !slices.Contains(p.heard, from) {
		s.r.writer.count(p, from, m.Verdict)
	}
}

// inDoubt reports this node's knowledge of the transactions that are prepared at a new incarnation to that incarnation.
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

// whole reports whether nothing depends any more on the lost state of a writer.
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
