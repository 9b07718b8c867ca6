package geogauss

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// merge merges complete epochs in order. The result is the same at every server.
type merge struct {
	r        *Replica
	snapshot bool // the parameter isolation
	// number is the number of merged epochs with write sets. It identifies the last snapshot, and is the version of the
	// rows that the last merge has written.
	number uint64
	// kept is keptSnapshots, or less in scenarios that shrink it.
	kept uint64

	// The following fields belong to the epoch that is being merged.
	candidates []candidate
	winners    map[txn.Key]int32 // by row, the index of the candidate that wins it
	owned      []txn.WriteEntry

	sets, committed, applied int64
	verdicts                 [numVerdicts]int64 // of own transactions
}

// candidate is a write set of the epoch that is being merged.
type candidate struct {
	set     *WriteSet
	server  geo.NodeID
	verdict verdict
}

// verdict is the merge's decision on a write set.
type verdict uint8

const (
	wins verdict = iota
	// lostRow: another write set of the epoch has won a row.
	lostRow
	// changedRow: an earlier epoch has changed a row after the snapshot.
	changedRow
	// tooOld: more than the kept number of epochs follow the snapshot, so changes after it may be unknown.
	tooOld
	numVerdicts
)

// Reasons of outcomes, in addition to a procedure's own reasons.
const (
	ReasonLostRow    = "row-lost"
	ReasonChangedRow = "row-changed"
	ReasonTooOld     = "snapshot-too-old"
)

func (v verdict) reason() string {
	return [...]string{"", ReasonLostRow, ReasonChangedRow, ReasonTooOld}[v]
}

// keptSnapshots is the maximum number of epochs with write sets between a transaction's snapshot and its epoch. The
// store remembers deleted rows for that number of epochs. With epochs of 10 ms, it takes at least 20 s to reach the
// maximum.
const keptSnapshots = 2000

func (m *merge) init(r *Replica, p protocol.Params) {
	m.r, m.kept, m.snapshot = r, protocol.Shrunk[uint64](r.shrink, keptSnapshots), p.Word("isolation") == snapshotIsolation
	m.winners = map[txn.Key]int32{}
	if !m.snapshot {
		// Read committed compares no versions, so the store need not remember deletions.
		r.store.Trim(store.Newest)
	}
}

// advance merges the segments that are complete and acknowledged, in order.
func (m *merge) advance() {
	e := &m.r.epochs
	for len(e.ready) > 0 && e.acknowledged(&e.ready[0]) {
		g := e.ready[0]
		e.ready = e.ready[1:]
		// Open own transactions of earlier epochs had write sets that did not count. They are aborted first, so that answer
		// finds the transactions of this segment at the front of open.
		m.r.local.settle(g.end - 1)
		if len(g.sets) > 0 {
			m.merge(&g)
			e.filled = g.end
		}
		// answer has replied to the transactions whose write sets counted. The write sets of the transactions that are still
		// open up to the segment's end did not count.
		m.r.local.settle(g.end)
		// Do this before the update of baseView, because the view before the segment determines which servers count in it.
		for n := range e.servers {
			if s := &e.servers[n]; s.counts(e.baseView, e.base+1) {
				s.counted = g.end
			}
		}
		e.base, e.baseView = g.end, g.view
		e.collect()
		m.r.members.forget()
	}
}

// merge merges the write sets of a segment.
func (m *merge) merge(g *segment) {
	m.gather(g)
	m.number++
	m.validate()
	m.mark()
	m.apply()
	m.answer()
	// validate must find deletions after any snapshot that it does not reject as too old.
	if m.snapshot && m.number > m.kept {
		m.r.store.Trim(m.number - m.kept)
	}
}

// gather lists the write sets of the segment by server, in the order of their sequence numbers.
func (m *merge) gather(g *segment) {
	// The reused buffer must not keep the previous segment's write sets in memory.
	clear(m.candidates)
	m.candidates = m.candidates[:0]
	for _, c := range g.sets {
		for _, s := range c.Sets {
			m.candidates = append(m.candidates, candidate{set: s, server: c.Server})
		}
	}
	m.sets += int64(len(m.candidates))
}

// validate marks the write sets that lose against earlier epochs (first committer wins). They cannot win rows.
func (m *merge) validate() {
	if !m.snapshot {
		return
	}
	for i := range m.candidates {
		c := &m.candidates[i]
		switch {
		// The store no longer knows all changes after such a snapshot, so the write set is aborted to be safe.
		case c.set.Start+m.kept < m.number:
			c.verdict = tooOld
		// The store's version of a row is the number of the merged epoch that wrote it, so it is comparable with the
		// snapshot.
		case m.r.wrong != overwrites && slices.ContainsFunc(c.set.Writes, func(w txn.WriteEntry) bool { return m.r.store.Newest(w.Key) > c.set.Start }):
			c.verdict = changedRow
			m.r.env.Mark(rowChanged)
		}
	}
}

// mark assigns every row to the write set that wins it. A write set that has lost a row is aborted, but keeps the other
// rows that it has won. In the paper, too, a beaten write set stays aborted, even if the write set that beat it is
// aborted later. The result does not depend on the order of the candidates.
func (m *merge) mark() {
	// A single write set has no competitor.
	if len(m.candidates) < 2 {
		return
	}
	clear(m.winners)
	for i := range m.candidates {
		c := &m.candidates[i]
		// A write set that has lost against an earlier epoch must not take rows from others.
		if c.verdict != wins {
			continue
		}
		for _, w := range c.set.Writes {
			other, taken := m.winners[w.Key]
			if taken && !m.beats(c, &m.candidates[other]) {
				c.verdict = lostRow
				m.r.env.Mark(rowLost)
				continue
			}
			if taken {
				m.candidates[other].verdict = lostRow
				m.r.env.Mark(rowTaken)
			}
			m.winners[w.Key] = int32(i)
		}
	}
}

// beats reports whether candidate a wins against b: by the later snapshot, then by the lower sequence number, then by
// the lower server number.
func (m *merge) beats(a, b *candidate) bool {
	if m.r.wrong == arrivalOrder {
		return m.r.epochs.arrivals[a.set] < m.r.epochs.arrivals[b.set]
	}
	switch {
	case a.set.Start != b.set.Start:
		return a.set.Start > b.set.Start
	case a.set.Sequence != b.set.Sequence:
		return a.set.Sequence < b.set.Sequence
	}
	return a.server < b.server
}

// apply installs the writes of the winners. It copies the values, because other replicas share the write sets.
func (m *merge) apply() {
	for i := range m.candidates {
		c := &m.candidates[i]
		if c.verdict != wins && !(m.r.wrong == partialAbort && c.verdict == lostRow) {
			continue
		}
		m.owned = append(m.owned[:0], c.set.Writes...)
		if m.r.wrong == partialAbort {
			m.owned = slices.DeleteFunc(m.owned, func(w txn.WriteEntry) bool {
				winner, marked := m.winners[w.Key]
				return marked && len(m.candidates) > 1 && winner != int32(i)
			})
		}
		txn.Own(m.owned)
		m.applied += int64(len(m.owned))
		m.r.store.Install(m.owned, m.number, c.set.ID)
		clear(m.owned)
	}
}

// answer replies to this server's own clients.
func (m *merge) answer() {
	open := &m.r.local.open
	for i := range m.candidates {
		c := &m.candidates[i]
		if c.verdict == wins {
			m.committed++
		}
		if c.server != m.r.self || c.set.Epoch <= m.r.epochs.servers[m.r.self].boundary {
			continue // the write set belongs to another server, or to an earlier incarnation of this server
		}
		// Own write sets are merged in the order in which they were sent, so the first open transaction belongs to this write
		// set.
		o := open.Front().outcome
		open.Pop()
		m.verdicts[c.verdict]++
		if c.verdict != wins && !(m.r.wrong == partialAbort && c.verdict == lostRow) {
			o = txn.Outcome{ID: o.ID, Status: txn.Aborted, Cause: txn.CauseConflict, Reason: c.verdict.reason()}
		}
		m.r.env.Reply(o)
	}
}
