package batchlog

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Proof before a position. A sequencer's data goes to all readers, and the request for a position to the leader, as
// always. A reader reports to the leader which data it has. The leader proposes no batch before, in each group that
// reads it, nodes in the required number of regions have its data. The sequencer's own region counts: the sequencer has
// the whole batch, and sends it to all readers while it is up. So a position costs no more than the request itself if
// enough regions lie on the way to the leader. (Minerva and Detock's synchronous replication require the same of a
// batch before other nodes rely on it.)
//
// If fewer than Copies regions are lost with a sequencer, some reader of each group has the data of each batch that has
// a position. Readers keep the data that they have read, up to keptBytes, until all readers have reported that they
// have read it. A reader without the data fetches it from them (reader.go).
//
// A report that a reader holds data stays true until the reader's node is lost. A new leader receives the reports on
// all batches without a position again. It relies on no report from an earlier term (see rejoin.go).

const (
	// tellEvery is the minimum time between a reader's reports to the leader, as announceEvery is for announcements.
	tellEvery = time.Millisecond
	// keepEvery is the interval at which readers report how far they have read, and the leader how far all have, while
	// either changes.
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
	// here[s] is the last batch of sequencer s up to which this node has the data; told[s] is the last one reported to the
	// leader.
	here, told []uint64
	// read is the position that was last reported.
	read uint64
	// telling and counting report that the timers are set. last is the time of the last report to the leader, if spoken.
	telling, counting, spoken bool
	last                      time.Duration
}

func newHolder(l *Log) *holder {
	return &holder{l: l, here: make([]uint64, l.c.Nodes), told: make([]uint64, l.c.Nodes)}
}

// Holds records that this node, a reader, has the data of a sequencer's batch. Data arrives in order, so the node has
// the data of all earlier batches, too.
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

// tell reports to the leader the data not reported yet, except for batches that already have a position.
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

// retell repeats all reports to a new leader.
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

// proofs holds a member's knowledge of which reader has which data, and the batches that wait for proof while it leads.
type proofs struct {
	// holds[n][s] is the last batch of sequencer s up to which node n has the data; read[n] is the position up to which n
	// has read the log.
	holds [][]uint64
	read  []uint64
	// unproven holds, for each sequencer, the batches that wait for proof before they get a position, ascending.
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

// unlearn discards the readers' reports: a new leader receives them again.
func (p *proofs) unlearn() { clear(p.holds) }

// hold records a reader's report.
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

// prove requests positions for a sequencer's proven batches, in order, up to the first unproven one.
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

// proveBehind continues with sequencers that had batches made void: those may have delayed later batches.
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

// proven reports whether the data of a batch is in the required number of regions for each group that reads it.
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

// tellKept notifies the readers of the position up to which all of them have read.
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
