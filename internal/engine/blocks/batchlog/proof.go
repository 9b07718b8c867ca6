package batchlog

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Proof of availability. A sequencer sends its data to all readers, and the position request to the leader, as without
// proof. Each reader reports to the leader which data it has. The leader proposes a batch only when, in each group that
// reads it, nodes in the required number of regions have its data. The sequencer's region counts: the sequencer has the
// whole batch, and sends it to all readers while it is up.
//
// A position therefore takes no longer than the request if enough regions lie on the way to the leader. (Minerva, and
// Detock with synchronous replication, require the same proof before other nodes rely on a batch.)
//
// If fewer than Copies regions are lost along with a sequencer, some reader of each group has the data of each batch
// with a position. Readers keep data that they have read, up to keptBytes, until all readers have read it. A reader
// without the data fetches it from these readers (reader.go).
//
// A report remains true until the reader's node is lost. A new leader receives the reports on all batches without a
// position again. It relies on no report from an earlier term (see rejoin.go).

const (
	// tellEvery is the minimum time between a reader's reports to the leader, as announceEvery is for announcements.
	tellEvery = time.Millisecond
	// keepEvery is the interval at which readers report their positions, and at which the leader reports the position up
	// to which all readers have read. Without changes, they report nothing.
	keepEvery = time.Second
)

// Values of Timer.Arg for the ProofTimer.
const (
	tellTimer = iota
	positionTimer
	keptTimer
)

// holder is a reader's part of the proof protocol.
type holder struct {
	l *Log
	// here[s] is the last batch of sequencer s for which this node has the data. told[s] is the last of these batches that
	// this node has reported to the leader.
	here, told []uint64
	// read is the position last reported.
	read uint64
	// telling and counting are set while their timers are pending. last is the time of the last report to the leader; it
	// is valid if spoken is set.
	telling, counting, spoken bool
	last                      time.Duration
}

func newHolder(l *Log) *holder {
	return &holder{l: l, here: make([]uint64, l.c.Nodes), told: make([]uint64, l.c.Nodes)}
}

// Holds records that this node, a reader, has the data of a batch. Data arrives in order, so the node also has the
// sequencer's earlier batches.
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
		// The leader needs no proof for a batch that already has a position.
		if number > h.told[s] && number > l.settled[s] {
			m.Batches = append(m.Batches, BatchID{geo.NodeID(s), number})
		}
		// Settled batches also count as reported, so that they are not considered again.
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

// retell repeats all reports, because a new leader does not have them.
func (h *holder) retell() {
	clear(h.told)
	h.read = 0
	h.tell()
}

// passed records that an entry has been read, and schedules a report of the position.
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

// proofs is a member's knowledge of the readers' data, and the batches that wait for proof while it leads.
type proofs struct {
	// holds[n][s] is the last batch of sequencer s for which node n has the data. Node n has read the log up to
	// position read[n].
	holds [][]uint64
	read  []uint64
	// unproven holds, for each sequencer, the batches that wait for proof, in ascending order.
	unproven []queue.Queue[Ordered]
	// kept is the position up to which all readers are known to have read.
	kept    uint64
	keeping bool // the timer is pending
}

func newProofs(l *Log) (p proofs) {
	if l.holder != nil {
		p.holds = make([][]uint64, l.c.Nodes)
		p.read = make([]uint64, l.c.Nodes)
		p.unproven = make([]queue.Queue[Ordered], l.c.Nodes)
	}
	return p
}

// forget drops the requests that wait for proof: sequencers repeat them in the next term.
func (p *proofs) forget() {
	for s := range p.unproven {
		p.unproven[s] = queue.Queue[Ordered]{}
	}
}

// unlearn discards the readers' reports: readers repeat them to a new leader.
func (p *proofs) unlearn() { clear(p.holds) }

// hold records a reader's report.
func (m *member) hold(from geo.NodeID, h *Held) {
	if m.holds[from] == nil {
		m.holds[from] = make([]uint64, m.l.c.Nodes)
	}
	// Reports may arrive out of order after a change of leader, so a position must never decrease.
	m.read[from] = max(m.read[from], h.Position)
	for _, b := range h.Batches {
		if int(b.Sequencer) < m.l.c.Nodes { // else the report is corrupt
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

// prove moves a sequencer's proven batches to the next proposal, in order, up to the first unproven batch.
func (m *member) prove(s geo.NodeID) {
	q := &m.unproven[s]
	for ; q.Len() > 0; q.Pop() {
		o := q.Front()
		if o.Batch.Number < m.next[s] {
			continue // the batch is void, or its request is a repetition
		}
		// Later batches wait, too: members drop a batch that is not the next of its sequencer.
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

// proveBehind proposes the proven batches of sequencers with void batches: a void batch may have delayed later batches.
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

// proven reports whether, for each group that reads a batch, the required number of regions has its data.
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

// readByAll returns the position up to which all readers have read the log.
func (m *member) readByAll() uint64 {
	least := m.count
	for _, nodes := range m.l.c.Readers {
		for _, n := range nodes {
			least = min(least, m.read[n])
		}
	}
	return least
}

// tellKept reports to the readers the position up to which all of them have read.
func (m *member) tellKept() {
	m.keeping = false
	if !m.group.Leading() {
		return
	}
	// A new incarnation starts again with read position 0. The data that readers have released does not return, so kept
	// never decreases.
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
