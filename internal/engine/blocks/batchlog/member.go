package batchlog

import (
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

const (
	// announceEvery is the minimum time between announcements, since each goes to the whole audience. A request that
	// arrives earlier waits and shares the next announcement.
	announceEvery = time.Millisecond
	// keptPositions is the minimum number of recent positions that a member keeps for nodes that missed some when a
	// leader failed.
	keptPositions = 1 << 17
)

// member is a member of the replicated log that orders batches. The log holds only the names of batches: the data goes
// from the sequencers directly to the readers.
//
// Entries of the consensus group are lists of batches. A sequencer numbers its batches from 1 without gaps, in the
// order of its requests. Members drop a batch whose number is out of this order, so that all members assign the same
// positions. Such a batch is a repetition, or it has overtaken a request that a deposed leader lost and that the
// sequencer will repeat.
//
// A batch without readers makes the sequencer's batches up to this batch void. The sequencer's next batch has the
// following number.
type member struct {
	l     *Log
	group *consensus.Group

	// requests holds the requests for the next proposal.
	requests []Ordered
	waiting  bool          // an order timer is set
	last     time.Duration // time of the last proposal, if proposed
	proposed bool

	next []uint64 // by sequencer: the number of its next batch; streams follow the sequencers
	// taking[n] is the position up to which this leader has proposed to include stream n.
	taking []uint64
	// count is the number of positions assigned. recent holds the entries at the most recent positions.
	count  uint64
	recent []Ordered

	proofs // used only if batches need proof
}

func newMember(l *Log) *member {
	m := &member{l: l, next: make([]uint64, l.c.Nodes+l.c.Streams), taking: make([]uint64, l.c.Streams), proofs: newProofs(l)}
	for i := range m.next {
		m.next[i] = 1
	}
	m.group = consensus.New(consensus.Config{
		Self:        l.c.Self,
		Incarnation: l.c.Incarnation,
		Members:     l.c.Members,
		Preferred:   l.c.Members[0],
		Env:         l.c.Env,
		TimerKind:   l.c.GroupTimer,
		Apply:       m.apply,
		Lead:        m.lead,
		Snapshot:    m.snapshot,
		Restore:     m.restore,
	})
	return m
}

// request handles a sequencer's requests. Only the leader can act on them.
func (m *member) request(from geo.NodeID, requests []Request) {
	if !m.group.Leading() {
		m.l.c.Env.Mark(misaddressed)
		return
	}
	for _, q := range requests {
		if q.Readers == 0 {
			continue // the request is corrupt: only void entries have no readers
		}
		if o := (Ordered{BatchID{from, q.Number}, q.Readers}); m.l.holder == nil {
			m.requests = append(m.requests, o)
		} else {
			m.unproven[from].Push(o)
		}
	}
	if m.l.holder != nil {
		m.prove(from)
		return
	}
	m.propose()
}

// propose proposes the pending requests, immediately or later together with further requests.
func (m *member) propose() {
	if m.waiting {
		return
	}
	wait := m.last + announceEvery - m.l.c.Env.Now()
	// last is not set before the first proposal.
	if !m.proposed {
		wait = 0
	}
	if m.l.c.Env.Buggify(orderHeldBack) {
		wait = 20 * announceEvery
	}
	if wait > 0 {
		m.waiting = true
		m.l.c.Env.Mark(heldBack)
		m.l.c.Env.After(wait, protocol.Timer{Kind: m.l.c.OrderTimer})
		return
	}
	m.flush()
}

// void handles a request to make batches void. Only the leader acts on it.
func (m *member) void(batches []BatchID) {
	if !m.group.Leading() {
		return
	}
	for _, b := range batches {
		if int(b.Sequencer) < m.l.c.Nodes { // else the request is corrupt
			m.requests = append(m.requests, Ordered{Batch: b})
		}
	}
	m.propose()
}

// flush proposes the pending requests.
func (m *member) flush() {
	m.waiting = false
	if len(m.requests) == 0 {
		return
	}
	m.last, m.proposed = m.l.c.Env.Now(), true
	requests := batches(m.requests)
	entry := requests.appendTo(make([]byte, 0, requests.size()))
	m.requests = m.requests[:0]
	// If the proposal is refused or lost, the sequencers repeat their requests when the next leader announces itself.
	m.group.Propose(entry)
}

// apply assigns positions to the batches of a committed entry. The leader announces them.
func (m *member) apply(entry []byte) {
	r := codec.NewReader(entry)
	first := m.count
	var accepted []Ordered
	var requests batches
	requests.read(&r)
	for _, o := range requests {
		s := m.l.slot(o.Batch.Sequencer)
		_, stream := o.Stream()
		// A sequencer's batch must have the sequencer's next number. Void entries and stream entries may skip numbers,
		// because they settle all lower numbers.
		if s >= 0 && (m.next[s] == o.Batch.Number || (stream || o.Void()) && m.next[s] < o.Batch.Number) {
			m.next[s] = o.Batch.Number + 1
			m.count++
			accepted = append(accepted, o)
		}
	}
	if len(accepted) == 0 {
		m.l.c.Env.Mark(repeated)
		return
	}
	m.recent = append(m.recent, accepted...)
	// Trimming only at twice the limit copies each entry about once instead of at every append.
	if len(m.recent) > 2*keptPositions {
		m.recent = append([]Ordered(nil), m.recent[len(m.recent)-keptPositions:]...)
	}
	if m.group.Leading() {
		m.announce(first, accepted)
		m.proveBehind(accepted)
	}
}

// lead records a new leader. If this member is the leader, it announces itself to the whole audience.
func (m *member) lead(leader geo.NodeID, term uint64) {
	// Sequencers repeat the requests of the last term to the new leader. Keeping these requests would only produce
	// duplicates.
	m.forget()
	clear(m.taking)
	if leader != m.l.c.Self {
		if len(m.requests) > 0 {
			m.l.c.Env.Mark(deposed)
		}
		m.requests = m.requests[:0]
		return
	}
	m.unlearn()
	if len(m.l.c.Members) > 1 { // else there was never another leader
		m.l.c.Env.Mark(newLeader)
		// Without entries, this announces the leader and the length of the log, so that a reader notices missing positions.
		m.announce(m.count, nil)
		m.l.follow(leader, term)
	}
	if m.l.c.Led != nil {
		m.l.c.Led()
	}
}

func (m *member) announce(first uint64, entries []Ordered) {
	p := &Positions{Log: m.l.c.Log, Term: m.group.Term(), First: first, Entries: entries}
	for _, n := range m.l.c.Audience {
		if n != m.l.c.Self {
			m.l.c.Env.Send(n, p)
		}
	}
	m.l.ordered(m.l.c.Self, p.Term, first, entries)
}

// fetch sends a node the positions from first on, or its starting position if first is joins.
func (m *member) fetch(from geo.NodeID, first uint64) {
	if first == joins {
		if m.group.Leading() {
			m.started(from)
		}
		return
	}
	oldest := m.count - uint64(len(m.recent))
	// Only a leader is known to have all committed positions. A node that lacks positions older than recent cannot be
	// served.
	if first < oldest || first > m.count || !m.group.Leading() {
		return
	}
	m.l.c.Env.Mark(fetched)
	// Send a copy, because apply may trim recent while the message is in flight.
	entries := append([]Ordered(nil), m.recent[first-oldest:]...)
	p := &Positions{Log: m.l.c.Log, Term: m.group.Term(), First: first, Entries: entries}
	if from == m.l.c.Self {
		m.l.ordered(from, p.Term, first, entries)
		return
	}
	m.l.c.Env.Send(from, p)
}

// snapshot encodes the state from which a member assigns the same positions as the other members and can serve fetch.
func (m *member) snapshot() []byte {
	b := codec.AppendUvarint(nil, m.count)
	for _, n := range m.next {
		b = codec.AppendUvarint(b, n)
	}
	recent := batches(m.recent)
	return recent.appendTo(b)
}

func (m *member) restore(data []byte) {
	r := codec.NewReader(data)
	m.count = r.Uvarint()
	for i := range m.next {
		m.next[i] = r.Uvarint()
	}
	var recent batches
	recent.read(&r)
	m.recent = recent
}
