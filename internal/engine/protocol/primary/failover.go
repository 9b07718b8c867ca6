package primary

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// failover moves the writer to the next region, once, when the operator says so.
//
// Managed. The writer accepts no more requests, waits until its log is committed, and sends it to all nodes. The
// announcement that the next region's instance now writes follows (Takeover). Links keep their order, and the
// announcement takes the same path as the log. So a node that receives it has the whole log, unless a node on that path
// was lost with it. In that case the writer repeats the announcement, and a node that lacks entries asks for a copy;
// the next writer does so before it starts. Requests that the old writer has dropped are sent again to the new writer.
//
// Unplanned. The next region's instance announces that it writes after its own last entry. Later entries that the old
// writer has committed are lost; the old writer counts them when it learns of the failover. A node with rows of another
// entry asks for a copy (replace.go): later changes must be removed, and missing entries may never arrive.
//
// A new incarnation of the writer (replace.go) announces itself in the same way, and writes after the log that its
// storage has kept.
type failover struct {
	r         *Replica
	kind      string
	at        time.Duration
	next      geo.NodeID
	armed     bool      // the timer is set
	leaving   bool      // a managed failover is under way here
	left      bool      // and has ended
	taking    *Takeover // makes this node the writer once it has the log
	held      []held
	news      *Takeover // the term's; nil for the first
	failovers int64
	lost      int64
	restored  int64
}

// held is a message of a later term, or a message that waits for a copy.
type held struct {
	from geo.NodeID
	m    protocol.Message
}

func (f *failover) init(r *Replica) {
	f.r, f.kind, f.at = r, r.params.Word("failover"), r.params.Duration("failoverAt")
	f.next = instance(r.topology, successor(r.topology, r.params))
}

// arm sets the timer at the first entry of the log, where the failover begins.
func (f *failover) arm() {
	if f.armed || f.r.log.term > 0 {
		return
	}
	if f.kind == failoverManaged && f.r.writes() || f.kind == failoverUnplanned && f.r.self == f.next {
		f.armed = true
		f.r.env.After(f.at, protocol.Timer{Kind: failoverTimer})
	}
}

// begin begins the failover.
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

// announce sends all nodes the announcement of a new writer. Where the storage ships the log, the storage passes the
// announcement on after the log.
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

// told handles the announcement of another writer. In a planned failover, the node passes it on to the nodes that
// receive the log from here, unless the writer notifies them directly. The announcement takes the same path as the log.
// A new incarnation receives it from all nodes that know it.
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

// adopt makes a node that others know to write the writer.
func (f *failover) adopt(m *Takeover) {
	l := &f.r.log
	if m.Term <= l.term || f.taking != nil {
		return
	}
	if m.Planned && m.Writer == f.r.self && l.applied < m.Base { // the node that sent the log here was lost
		f.r.env.Mark(takeoverWaits)
		f.taking = m
		f.r.catchUp.ask()
		return
	}
	if !m.Planned && !m.Recovered && f.r.writes() {
		f.lost += max(0, int64(f.r.writer.committed)-int64(m.Base))
	}
	tail := l.leave(m)
	l.term, l.writer, f.news = m.Term, m.Writer, m
	f.leaving = false
	c := &f.r.catchUp
	c.waiting, c.needs = nil, 0
	switch behind := l.applied < m.Base || l.applied > m.Base && !m.Planned && !m.Recovered; {
	case c.lacks || behind:
		c.ask()
	case m.Recovered && f.r.stores():
		f.r.env.Send(m.Writer, &Ack{Term: m.Term, Last: l.applied})
	}
	f.r.writer.end()
	if f.r.writes() {
		f.r.writer.begin(m, tail)
	}
	f.release()
	f.r.coordinator.moved(m)
}

// atTerm executes a message of a term once the node has reached the term. It drops messages of earlier terms: their
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

// hold keeps a message until the node is in another term, or has the rows that it lacks.
func (f *failover) hold(from geo.NodeID, m protocol.Message) { f.held = append(f.held, held{from, m}) }

// release takes the messages that were held.
func (f *failover) release() {
	all := f.held
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
