package primary

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// failover moves the writer to the next region once, at the time that the parameters set.
//
// Managed. The writer accepts no more requests, waits until its log is committed, and sends it to all nodes. Then it
// announces that the next region's instance is the writer (Takeover). Links keep their order, and the announcement
// takes the same path as the log. A node that receives the announcement therefore has the whole log, unless a node on
// the path was lost together with the log. In that case, the old writer repeats the announcement, and a node that lacks
// entries asks for a copy. The next writer does so before it starts. Coordinators send the requests that the old writer
// has dropped to the new writer.
//
// Unplanned. The next region's instance announces that it is the writer from its own last entry on. Later entries that
// the old writer has committed are lost. The old writer counts them when it learns of the failover. A node whose rows
// are at a different entry asks for a copy (replace.go). It must remove later changes, and it may never receive missing
// entries.
//
// A new incarnation of the writer (replace.go) announces itself in the same way. It continues the log that its storage
// has kept.
type failover struct {
	r         *Replica
	kind      string
	at        time.Duration
	next      geo.NodeID
	armed     bool      // the timer is set
	leaving   bool      // a managed failover has started here and has not ended
	left      bool      // a managed failover has ended here
	taking    *Takeover // the announcement that makes this node the writer once it has the log up to Base, or nil
	held      []held
	news      *Takeover // the announcement of the current term; nil in the first term
	failovers int64
	lost      int64
	restored  int64
}

// held is a message that waits for a later term or for a copy.
type held struct {
	from geo.NodeID
	m    protocol.Message
}

func (f *failover) init(r *Replica) {
	f.r, f.kind, f.at = r, r.params.Word("failover"), r.params.Duration("failoverAt")
	f.next = instance(r.topology, successor(r.topology, r.params))
}

// arm sets the failover timer when the log has its first entry: failoverAt counts from this time.
func (f *failover) arm() {
	// The configured failover happens once, in the first term.
	if f.armed || f.r.log.term > 0 {
		return
	}
	if f.kind == failoverManaged && f.r.writes() || f.kind == failoverUnplanned && f.r.self == f.next {
		f.armed = true
		f.r.env.After(f.at, protocol.Timer{Kind: failoverTimer})
	}
}

// begin starts the failover.
func (f *failover) begin() {
	if f.kind == failoverManaged {
		f.leaving = true
		f.r.env.Mark(handover)
		f.advance()
		return
	}
	f.announce(&Takeover{Term: f.r.log.term + 1, Writer: f.r.self, Base: f.r.log.applied})
}

// advance ends a managed failover once the log is committed.
func (f *failover) advance() {
	w := &f.r.writer
	// The next writer starts after base, so all entries up to base must be committed.
	if !f.leaving || w.committed < f.r.log.applied {
		return
	}
	base := w.committed
	if f.r.wrong == earlyHandover {
		base = w.shipped
	} else {
		w.ship()
	}
	f.announce(&Takeover{Term: f.r.log.term + 1, Writer: f.next, Base: base, Planned: true})
}

// announce sends a new writer's announcement to all nodes. If the storage ships the log, it passes the announcement on,
// so that the announcement follows the log.
func (f *failover) announce(m *Takeover) {
	if !m.Recovered {
		f.failovers++
		f.r.env.Mark(failoverMet)
	}
	f.left = m.Planned
	follows := m.Planned && f.r.writer.shipper != f.r.self
	f.r.others(func(n geo.NodeID) {
		if !follows || f.r.topology.RegionOf(n) == f.r.region {
			f.r.env.Send(n, m)
		}
	})
	f.adopt(m)
}

// told handles a new writer's announcement. In a planned failover, this node passes the announcement on to the nodes
// that it sends the log to. The announcement thus takes the same path as the log. A node does not pass it on if the
// writer notifies its receivers directly.
func (f *failover) told(from geo.NodeID, m *Takeover) {
	if l := &f.r.log; m.Planned && m.Term > l.term && (from != l.writer || f.r.shipper(from) == f.r.self) {
		f.r.others(func(n geo.NodeID) {
			if f.r.feeder(n) == f.r.self {
				f.r.env.Send(n, m)
			}
		})
	}
	f.adopt(m)
}

// adopt enters the term of a new writer. If this node is the new writer of a planned failover, it first waits until it
// has received the log.
func (f *failover) adopt(m *Takeover) {
	l := &f.r.log
	// Complete a takeover that waits for its log first: see catchUp.restore.
	if m.Term <= l.term || f.taking != nil {
		return
	}
	if m.Planned && m.Writer == f.r.self && l.applied < m.Base { // the node that passed the log on to this node was lost
		f.r.env.Mark(takeoverWaits)
		f.taking = m
		f.r.catchUp.ask()
		return
	}
	if !m.Planned && !m.Recovered && f.r.writes() {
		// The old writer has answered these transactions, and the new log does not contain them.
		f.lost += max(0, int64(f.r.writer.committed)-int64(m.Base))
	}
	tail := l.leave(m)
	l.term, l.writer, f.news = m.Term, m.Writer, m
	f.leaving = false
	c := &f.r.catchUp
	c.waiting, c.needs = nil, 0
	// After an unplanned failover, extra entries are as wrong as missing entries, because the new log has different
	// entries at their positions.
	switch behind := l.applied < m.Base || l.applied > m.Base && !m.Planned && !m.Recovered; {
	case c.lacks || behind:
		c.ask()
	// A recovered writer does not know which entries its storage has, because begin resets the acknowledgements.
	case m.Recovered && f.r.stores():
		f.r.env.Send(m.Writer, &Ack{Term: m.Term, Last: l.applied})
	}
	// The old writer's state must be dropped before begin, in case the same node continues as the writer.
	f.r.writer.end()
	if f.r.writes() {
		f.r.writer.begin(m, tail)
	}
	f.release()
	f.r.coordinator.moved(m)
}

// atTerm calls do once the node has reached the term of message m. It drops messages of earlier terms, because their
// senders repeat the requests.
func (f *failover) atTerm(from geo.NodeID, m protocol.Message, term uint64, do func()) {
	switch {
	case term > f.r.log.term || term == f.r.log.term && f.r.catchUp.lacks:
		f.r.env.Mark(laterTerm)
		f.hold(from, m)
	case term == f.r.log.term:
		do()
	}
}

// hold keeps a message until release, which runs when the node has entered another term or has received its missing
// rows.
func (f *failover) hold(from geo.NodeID, m protocol.Message) { f.held = append(f.held, held{from, m}) }

// release handles the held messages again.
func (f *failover) release() {
	all := f.held
	// Receive may hold a message again.
	f.held = nil
	for _, h := range all {
		f.r.Receive(h.from, h.m)
	}
}

func (f *failover) pending() int {
	n := len(f.held)
	if f.r.catchUp.lacks {
		n++
	}
	if f.leaving {
		n++
	}
	return n
}
