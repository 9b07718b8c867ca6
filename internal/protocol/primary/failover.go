package primary

import (
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/codec"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/txn"
)

// failover moves the writer to the next region, once, when the operator says so.
//
// Managed. The writer takes no more requests, waits until its log is committed, and sends it to all nodes, followed by
// the news that the next region's instance writes from there on (Takeover). Links keep their order, and the news takes
// the way of the log, so that whoever hears of it has the whole log. Requests that the old writer has dropped are sent again to the new one.
//
// Unplanned. The next region's instance says that it writes from its own last entry on. What the old writer has committed
// beyond that is lost, and it counts it when it hears. A node whose rows are not as of that entry asks for a copy of the new
// writer's: what is ahead must go, and what is missing may never come.
type failover struct {
	r         *Replica
	kind      string
	at        time.Duration
	next      geo.NodeID
	armed     bool // the timer is set
	leaving   bool // a managed failover is under way here
	asked     bool // for a copy
	restoring bool // the first piece of it has come
	held      []held
	failovers int64
	lost      int64
	restored  int64
}

// copyBytes is how many bytes of rows a Copy has: far less than the size of a message that links take.
const copyBytes = 8 << 20

// held is a message of a later term, or one that waits for a copy.
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
		f.r.env.Probe(handover)
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

// announce tells everybody of a new writer. Where the storage ships the log, it passes on what is to follow the log.
func (f *failover) announce(m *Takeover) {
	f.failovers++
	f.r.env.Probe(failoverMet)
	follows := m.Planned && f.r.writer.shipper != f.r.self
	f.r.others(func(n geo.NodeID) {
		if !follows || f.r.topology.RegionOf(n) == f.r.region {
			f.r.env.Send(n, m)
		}
	})
	f.adopt(m)
}

// told takes the news of another writer.
func (f *failover) told(from geo.NodeID, m *Takeover) {
	if l := &f.r.log; m.Planned && m.Term > l.term {
		if from == l.writer && f.r.shipper(from) == f.r.self {
			f.r.distribute(m)
		}
		f.r.passOn(from, m)
	}
	f.adopt(m)
}

// adopt makes a node that others know to write the writer.
func (f *failover) adopt(m *Takeover) {
	l := &f.r.log
	if m.Term <= l.term {
		return
	}
	if !m.Planned && f.r.writes() {
		f.lost += max(0, int64(f.r.writer.committed)-int64(m.Base))
	}
	l.term, l.writer, l.tail = m.Term, m.Writer, nil
	l.outbox, l.posted = nil, m.Base
	f.leaving = false
	if !m.Planned && l.applied != m.Base {
		f.asked = true
		f.r.env.Send(m.Writer, &Behind{Term: m.Term})
	}
	f.r.writer.end()
	if f.r.writes() {
		f.r.writer.begin()
	}
	f.release()
	f.r.coordinator.moved(m.Base, m.Planned)
}

// atTerm does what a message of a term asks for, once the node is there. Those of earlier terms are dropped: what they
// ask for is asked for again.
func (f *failover) atTerm(from geo.NodeID, m protocol.Message, term uint64, do func()) {
	switch {
	case term > f.r.log.term || term == f.r.log.term && f.asked:
		f.r.env.Probe(laterTerm)
		f.held = append(f.held, held{from, m})
	case term == f.r.log.term:
		do()
	}
}

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
	if f.asked {
		n++
	}
	if f.leaving {
		n++
	}
	return n
}

// behind sends a copy of the rows to a node whose log does not lead here.
func (f *failover) behind(to geo.NodeID) {
	if !f.r.writes() {
		return
	}
	w := &f.r.writer
	w.ship() // so that all that comes behind the copy follows it
	var rows []Row
	f.r.store.Each(func(k txn.Key, rec store.Record) {
		if !k.Everywhere() {
			rows = append(rows, Row{k, rec.Writer, rec.Value})
		}
	})
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(string(a.Key), string(b.Key)) })
	none := (&log{}).state()
	for {
		n := 0
		for bytes := 0; n < len(rows) && (n == 0 || bytes+rows[n].size() <= f.r.copyBytes); n++ {
			bytes += rows[n].size()
		}
		m := &Copy{Term: f.r.log.term, Last: f.r.log.applied, More: n < len(rows), Rows: rows[:n], Endings: none}
		if rows = rows[n:]; !m.More {
			m.Endings = f.r.log.state()
		}
		f.r.env.Send(to, m)
		if !m.More {
			return
		}
	}
}

// restore makes the node's rows those of a copy, whose pieces come in order.
func (f *failover) restore(m *Copy) {
	if !f.asked {
		return
	}
	if !f.restoring {
		f.clear()
	}
	f.restoring = m.More
	for i := range m.Rows {
		f.r.store.Put(m.Rows[i].Key, m.Rows[i].Value, m.Rows[i].Writer)
	}
	if m.More {
		return
	}
	r := codec.NewReader(m.Endings)
	f.r.log.endings = readEndings(&r)
	f.r.log.applied, f.r.log.tail = m.Last, nil
	f.asked = false
	f.restored++
	f.release()
	f.r.coordinator.progress()
}

// clear deletes the rows.
func (f *failover) clear() {
	var gone []txn.Key
	f.r.store.Each(func(k txn.Key, _ store.Record) {
		if !k.Everywhere() {
			gone = append(gone, k)
		}
	})
	slices.Sort(gone)
	for _, k := range gone {
		f.r.store.Delete(k)
	}
}
