package batchlog

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Proof before a place. A sequencer's data goes to all readers, and the request for a place to the leader, as always. A
// reader tells the leader what data it has, and the leader proposes no batch before it knows, for each group that reads
// the batch, that nodes of the group in so many regions have its data, the sequencer's own region being one of them:
// the sequencer has the whole batch, and sends it to everybody as long as it lives. So a place costs no more than the
// request itself where enough regions are on the way to the leader. (Minerva and Detock's synchronous replication ask
// the same of a batch before others count on it.)
//
// Whatever regions are lost with a sequencer, if they are fewer than Copies, some reader of each group has the data of
// each batch that has a place. Readers keep what they have read until they hear that all readers have, in keptBytes at
// most, and who lacks data fetches it from them (reader.go).
//
// What a reader holds is a fact, and stays one until its node is lost: a new leader is told again of all batches that
// have no place, and counts on nothing that it was told in an earlier term (see rejoin.go).

const (
	// tellEvery bounds the rate at which a reader tells the leader what it has, as announceEvery does for announcements.
	tellEvery = time.Millisecond
	// keepEvery is how often readers tell how far they have read, and the leader how far all have, while anything changes.
	keepEvery = time.Second
)

// The meanings of Timer.Arg of the ProofTimer.
const (
	tellTimer = iota
	positionTimer
	keptTimer
)

// holder is a reader's part in proofs.
type holder struct {
	l *Log
	// here[s] says that this node has the data of sequencer s up to that batch, told[s] that the leader has been told of
	// it.
	here, told []uint64
	// read is the position that was told last.
	read uint64
	// telling and counting say that the timers are set, last when the leader was told last, if spoken.
	telling, counting, spoken bool
	last                      time.Duration
}

func newHolder(l *Log) *holder {
	return &holder{l: l, here: make([]uint64, l.c.Nodes), told: make([]uint64, l.c.Nodes)}
}

// Holds says that this node, a reader, has the data of one of a sequencer's batches, and so that of those before it: it
// comes in their order.
func (l *Log) Holds(b BatchID) {
	h := l.holder
	if h == nil || b.Number <= h.here[b.Sequencer] {
		return
	}
	h.here[b.Sequencer] = b.Number
	if h.telling {
		return
	}
	if wait := h.last + tellEvery - l.c.Env.Now(); h.spoken && wait > 0 {
		h.telling = true
		l.c.Env.Mark(toldTogether)
		l.c.Env.After(wait, protocol.Timer{Kind: l.c.ProofTimer, Arg: tellTimer})
		return
	}
	h.tell()
}

// tell tells the leader what it has not been told, but for batches that have a place already.
func (h *holder) tell() {
	l := h.l
	m := &Held{Log: l.c.Log, Position: l.position}
	for s, number := range h.here {
		if number > h.told[s] && number > l.settled[s] {
			m.Batches = append(m.Batches, BatchID{geo.NodeID(s), number})
		}
		h.told[s] = number
	}
	if len(m.Batches) == 0 && m.Position == h.read {
		return
	}
	h.read, h.last, h.spoken = m.Position, l.c.Env.Now(), true
	if l.leader == l.c.Self {
		l.member.hold(l.c.Self, m)
	} else {
		l.c.Env.Send(l.leader, m)
	}
}

// retell tells a new leader everything.
func (h *holder) retell() {
	clear(h.told)
	h.read = 0
	h.tell()
}

// passed learns that the next entry has been read.
func (h *holder) passed() {
	if !h.counting {
		h.counting = true
		h.l.c.Env.After(keepEvery, protocol.Timer{Kind: h.l.c.ProofTimer, Arg: positionTimer})
	}
}

func (h *holder) fire(arg uint64) {
	switch arg {
	case tellTimer:
		h.telling = false
		h.tell()
	case positionTimer:
		h.counting = false
		h.tell()
	case keptTimer:
		h.l.member.tellKept()
	}
}

// proofs are what a member knows of who has what, and what it waits for as the leader.
type proofs struct {
	// holds[n][s] says that node n has the data of sequencer s up to that batch; read[n] is how far it has read the log.
	holds [][]uint64
	read  []uint64
	// unproven are the batches of each sequencer whose places wait for proof, ascending.
	unproven []queue.Queue[Ordered]
	// kept is the position that all readers are known to have read.
	kept    uint64
	keeping bool // a timer is set
}

func newProofs(l *Log) (p proofs) {
	if l.holder != nil {
		p.holds = make([][]uint64, l.c.Nodes)
		p.read = make([]uint64, l.c.Nodes)
		p.unproven = make([]queue.Queue[Ordered], l.c.Nodes)
	}
	return p
}

// forget drops the requests that wait: they come again in the next term.
func (p *proofs) forget() {
	for s := range p.unproven {
		p.unproven[s] = queue.Queue[Ordered]{}
	}
}

// unlearn forgets what readers have: a new leader is told again.
func (p *proofs) unlearn() { clear(p.holds) }

// hold learns what a reader has.
func (m *member) hold(from geo.NodeID, h *Held) {
	if m.holds[from] == nil {
		m.holds[from] = make([]uint64, m.l.c.Nodes)
	}
	m.read[from] = max(m.read[from], h.Position)
	for _, b := range h.Batches {
		if int(b.Sequencer) < m.l.c.Nodes { // or it is corrupt
			m.holds[from][b.Sequencer] = max(m.holds[from][b.Sequencer], b.Number)
		}
	}
	if !m.group.Leading() {
		return
	}
	for _, b := range h.Batches {
		if int(b.Sequencer) < m.l.c.Nodes {
			m.prove(b.Sequencer)
		}
	}
	if !m.keeping && m.readByAll() > m.kept {
		m.keeping = true
		m.l.c.Env.After(keepEvery, protocol.Timer{Kind: m.l.c.ProofTimer, Arg: keptTimer})
	}
}

// prove requests places for a sequencer's batches, in their order, as far as they are proven.
func (m *member) prove(s geo.NodeID) {
	q := &m.unproven[s]
	for ; q.Len() > 0; q.Pop() {
		o := q.Front()
		if o.Batch.Number < m.next[s] {
			continue // it is void, or was asked for twice
		}
		if !m.proven(o) {
			m.l.c.Env.Mark(unprovenYet)
			break
		}
		m.requests = append(m.requests, o)
	}
	if len(m.requests) > 0 {
		m.propose()
	}
}

// proveBehind goes on with sequencers whose batches have become void: those may have held up others.
func (m *member) proveBehind(accepted []Ordered) {
	if m.l.holder == nil {
		return
	}
	for _, o := range accepted {
		if o.Void() {
			m.prove(o.Batch.Sequencer)
		}
	}
}

// proven reports whether so many regions as the log asks for have the data of a batch, for each group that reads it.
func (m *member) proven(o Ordered) bool {
	for g, nodes := range m.l.c.Readers {
		if !o.Readers.Has(g) {
			continue
		}
		regions := []geo.Region{m.l.c.Region(o.Batch.Sequencer)}
		for _, n := range nodes {
			if r := m.l.c.Region(n); m.holds[n] != nil && m.holds[n][o.Batch.Sequencer] >= o.Batch.Number && !slices.Contains(regions, r) {
				regions = append(regions, r)
			}
		}
		if len(regions) < m.l.c.Copies {
			return false
		}
	}
	return true
}

// readByAll returns the position that all readers have read.
func (m *member) readByAll() uint64 {
	least := m.count
	for _, nodes := range m.l.c.Readers {
		for _, n := range nodes {
			least = min(least, m.read[n])
		}
	}
	return least
}

// tellKept tells the readers how far all of them have read.
func (m *member) tellKept() {
	m.keeping = false
	if !m.group.Leading() {
		return
	}
	m.kept = max(m.kept, m.readByAll())
	told := &Kept{m.l.c.Log, m.kept}
	for _, n := range m.l.c.Audience {
		if n != m.l.c.Self {
			m.l.c.Env.Send(n, told)
		}
	}
	if m.l.c.Kept != nil {
		m.l.c.Kept(m.kept)
	}
}
