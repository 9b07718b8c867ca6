package primary

import (
	"fmt"
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// log is a node's copy of the rows, and the copy's position in the log that produces it.
type log struct {
	r *Replica
	// term is the number of changes of the writer. writer is the writer of this term.
	term   uint64
	writer geo.NodeID
	// applied is the position of the last entry whose writes are in the rows. The writer applies an entry when it appends
	// the entry.
	applied uint64
	// last is the name of the transaction in the last applied entry. It is empty if the rows are from a copy.
	last raftgroup.Name
	// committed is the last entry that this node knows to be committed. The writer does not use this field. If a storage
	// node has restored a copy, its rows may include later entries.
	committed uint64
	// tail are the entries after applied. Storage nodes receive entries before they learn that these are committed.
	tail []Entry
	// outbox are the entries after posted that this node must ship to the other regions: see Replica.shipper.
	outbox []Entry
	posted uint64
	// endings are the outcomes of the transactions in the log. A new writer answers repeated requests from them.
	endings raftgroup.Endings[txn.Outcome]

	entries int64
}

func (l *log) init(r *Replica) {
	l.r, l.endings = r, raftgroup.Endings[txn.Outcome]{}
	l.writer = instance(r.topology, geo.Region(r.params.Int("primary")))
}

// receive handles entries from the writer. Links keep their order, so there are no gaps. If this node has restored a
// copy of a later state, the rows may already include some of the entries.
func (l *log) receive(from geo.NodeID, m *Append) {
	l.collect(from, m)
	// The region's other nodes may lack entries that are already in this node's copy.
	l.r.passOn(from, m)
	last := l.applied + uint64(len(l.tail))
	switch {
	case m.First > last+1:
		panic(fmt.Sprintf("primary: entries from %d on have come, and the last one was %d", m.First, last))
	case m.First+uint64(len(m.Entries)) > last+1:
		l.tail = append(l.tail, m.Entries[last+1-m.First:]...)
		last = l.applied + uint64(len(l.tail))
	}
	// Only the other nodes of the writer's region are its storage, whose acknowledgements count towards the majority.
	if l.r.topology.RegionOf(l.writer) == l.r.region && len(m.Entries) > 0 {
		l.r.env.Send(from, &Ack{Term: l.term, Last: last})
	}
	l.committed = max(l.committed, m.Committed)
	// Requested copies may wait until these entries are committed.
	l.r.catchUp.flush()
	if m.Committed <= l.applied {
		return
	}
	n := min(m.Committed-l.applied, uint64(len(l.tail)))
	committed := l.tail[:n]
	if l.r.wrong == outOfOrder {
		committed = slices.Clone(committed)
		slices.Reverse(committed)
	}
	for i := range committed {
		l.apply(&committed[i])
	}
	l.tail = l.tail[n:]
	l.r.failover.arm()
	if l.r.offloads {
		// The reads that waited for these entries are the node's own work, so the simulator must charge a separate step for
		// them.
		if len(l.r.coordinator.waiting) > 0 {
			l.r.env.After(0, protocol.Timer{Kind: progressTimer})
		}
		return
	}
	l.r.coordinator.progress()
}

// collect keeps the writer's entries until a message without entries reports that they are committed. It then ships
// them. All entries of a term arrive here in order, regardless of the state from which the rows were restored.
func (l *log) collect(from geo.NodeID, m *Append) {
	if from != l.writer || l.r.shipper(from) != l.r.self {
		return
	}
	if last := l.posted + uint64(len(l.outbox)); m.First+uint64(len(m.Entries)) > last+1 {
		l.outbox = append(l.outbox, m.Entries[last+1-m.First:]...)
	}
	if len(m.Entries) == 0 && m.Committed > l.posted {
		n := m.Committed - l.posted
		l.ship(l.posted+1, l.outbox[:n:n])
		l.outbox, l.posted = l.outbox[n:], m.Committed
	}
}

// ship sends committed entries to the other regions.
func (l *log) ship(first uint64, entries []Entry) {
	l.r.distribute(&Append{Term: l.term, First: first, Committed: first + uint64(len(entries)) - 1, Entries: entries})
}

// apply applies an entry to the rows and records its outcome.
func (l *log) apply(e *Entry) {
	l.applied++
	l.last = e.Name
	l.entries++
	for _, w := range e.Writes {
		if w.Deleted {
			l.r.store.Delete(w.Key)
		} else {
			l.r.store.Put(w.Key, w.Value, e.Outcome.ID)
		}
	}
	l.endings.Finish(e.Name, e.Outcome)
	// The coordinator no longer repeats requests with numbers below Oldest, so their outcomes are not needed.
	l.endings.Forget(e.Name.Coordinator, e.Oldest, func(raftgroup.Name) {})
}

// leave ends a term. If the next term continues the same log, leave applies this node's entries up to the start of that
// term, because these entries are committed. It returns the later entries, with which a recovered writer continues. All
// other nodes receive the later entries again.
func (l *log) leave(m *Takeover) (tail []Entry) {
	tail = l.tail
	l.tail, l.outbox, l.posted = nil, nil, m.Base
	if !m.Recovered {
		l.committed = m.Base
		return nil
	}
	// If this node has skipped a term, it cannot know whether its tail belongs to the recovered log.
	if m.Term == l.term+1 {
		for ; l.applied < m.Base && len(tail) > 0; tail = tail[1:] {
			l.apply(&tail[0])
		}
	}
	l.committed = max(l.committed, m.Base)
	return tail
}
