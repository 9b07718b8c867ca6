package batchlog

import (
	"math"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// New incarnations. A node that has lost its state restarts without any state of the log.
//
// As a sequencer, the node's predecessor may have sent batches that did not reach all readers. The new incarnation
// appends a void entry to the log, the mark, after which no batch of the predecessor gets a position. Once the new
// incarnation has read the mark, it numbers its batches from 2^40 times its incarnation, plus 1.
//
// As a reader, the new incarnation starts at a position that a leader reports, which precedes the mark. Its owner must
// do without the batches before the mark (ReaderConfig.Mark). Sequencers resend the batches without a position. The new
// incarnation fetches from other readers the batches after the mark that were sent to its predecessor.
//
// The new incarnation has caught up when it has read all batches that were sent to its predecessor, as each sequencer
// reports. Until then, the database may not survive the loss of another node.
//
// The predecessor's reports of its data count as proof until the leader learns of the new incarnation. The leader
// learns of it before it receives the request for the mark. In later terms, the predecessor's reports do not count,
// because a leader uses only reports of its own term. Therefore no batch after the mark was proven by data that is
// lost.

// FirstBatch returns the number of the first batch of an incarnation.
func FirstBatch(incarnation uint32) uint64 { return protocol.NumbersBefore(incarnation) + 1 }

// Mark returns the node and incarnation of a mark; ok is false if the entry is not a mark.
func (o Ordered) Mark() (n geo.NodeID, incarnation uint32, ok bool) {
	incarnation = protocol.IncarnationOf(o.Batch.Number)
	return o.Batch.Sequencer, incarnation, o.Void() && incarnation > 0 && o.Batch.Number == protocol.NumbersBefore(incarnation)
}

const (
	// joinEvery is the interval at which a new incarnation requests its starting position from the members of the log,
	// until it has read its mark.
	joinEvery = 500 * time.Millisecond
	// joins is the value of Fetch.First in a request for a starting position.
	joins = math.MaxUint64
)

// Entered reports whether this node may request positions: it is the first incarnation or has read its mark.
func (l *Log) Entered() bool { return l.entered }

// join requests a starting position and the mark. It asks all members, because a deposed leader ignores requests and a
// new leader may not be known yet.
func (l *Log) join() {
	if l.entered {
		return
	}
	for _, m := range l.c.Members {
		if m != l.c.Self {
			l.c.Env.Send(m, &Fetch{l.c.Log, joins})
		} else {
			l.member.fetch(m, joins)
		}
	}
	l.mark()
	// Any of these requests may be lost with a leader, so they repeat until the mark has been read.
	l.c.Env.After(joinEvery, protocol.Timer{Kind: l.c.JoinTimer})
}

// Enter requests the mark. The owner calls Enter when Config.Marks starts to return true. Otherwise, join requests the
// mark at its next repetition.
func (l *Log) Enter() {
	if !l.entered {
		l.mark()
	}
}

// mark requests the mark, unless it must wait or is already in the log.
func (l *Log) mark() {
	if l.c.Marks != nil && !l.c.Marks() {
		return
	}
	// A mark before the starting position would never be read here, so the node must know that position first.
	if mark := protocol.NumbersBefore(l.c.Incarnation); l.started && l.settled[l.c.Self] < mark {
		l.Void([]BatchID{{l.c.Self, mark}})
	}
}

// begin handles a leader's answer with the starting position.
func (l *Log) begin(from geo.NodeID, m *Started) {
	if len(m.Settled) != len(l.settled) {
		return // the message is corrupt
	}
	l.follow(from, m.Term)
	// Several members may answer over time. Only the first answer counts: entries may already follow it.
	if l.started {
		return
	}
	l.started, l.position = true, m.Position
	copy(l.settled, m.Settled)
	l.mark()
}

// started sends a new incarnation its starting position: the end of the log.
func (m *member) started(to geo.NodeID) {
	s := &Started{Log: m.l.c.Log, Term: m.group.Term(), Position: m.count, Settled: make([]uint64, len(m.next))}
	for i, next := range m.next {
		s.Settled[i] = next - 1
	}
	if to == m.l.c.Self {
		m.l.begin(to, s)
		return
	}
	m.l.c.Env.Send(to, s)
}

// Replaced records that a new incarnation has replaced a node that lost its state: see protocol.Rejoiner.
func (l *Log) Replaced(n geo.NodeID, incarnation uint32) {
	l.c.Env.Send(n, &Sent{l.c.Log, l.last})
	if l.member == nil {
		return
	}
	l.member.group.Replaced(n, incarnation)
	if l.holder != nil {
		// The reported data was lost with the predecessor, so it must not prove any further batch.
		l.member.holds[n], l.member.read[n] = nil, 0
	}
}

// unheard is the value of Log.sent for a sequencer that has not answered.
const unheard = math.MaxUint64

// CaughtUp reports whether this node has read or skipped all batches that were sent to its predecessor. Before that,
// other nodes may have the only copies of a batch with a position.
func (r *Reader[D]) CaughtUp() bool {
	if r.l.sent == nil {
		return true
	}
	for _, n := range r.l.c.Audience {
		if n != r.l.c.Self && (r.l.sent[n] == unheard || r.done[n] < r.l.sent[n]) {
			return false
		}
	}
	r.l.sent = nil
	return true
}

// FullyReplicated reports whether the log has all its members, as far as this node knows.
func (l *Log) FullyReplicated() bool { return l.member == nil || l.member.group.FullyReplicated() }

// Done returns the last batch of a sequencer that was read, skipped or made void.
func (r *Reader[D]) Done(sequencer geo.NodeID) uint64 { return r.done[sequencer] }

// entering reports whether this is a new incarnation that has not reached its mark. It reads nothing before the mark.
func (r *Reader[D]) entering() bool { return !r.l.entered }

// SkipTo skips the entries before a position of the known log, as if they had been read. done[s] is the last batch of
// sequencer s before that position. Data that has arrived is kept for other readers.
func (r *Reader[D]) SkipTo(position uint64, done []uint64) {
	for r.l.position < position {
		o, _ := r.l.Next()
		r.pass(o)
	}
	for s, number := range done {
		r.finish(geo.NodeID(s), max(r.done[s], number))
	}
}

// pass skips an entry.
func (r *Reader[D]) pass(o Ordered) {
	if _, ok := o.Stream(); !ok {
		if n, _, ok := o.Mark(); ok && n == r.l.c.Self {
			r.l.entered = true
		}
		if o.Void() {
			r.drop(o.Batch)
		} else if r.reads(o) {
			if d, here := r.take(o.Batch); here {
				r.keep(o.Batch, d)
			}
		}
		r.finish(o.Batch.Sequencer, o.Batch.Number)
	}
	r.l.Pass()
}

// finish records that no batch of a sequencer up to number will be read any more, and drops their data.
func (r *Reader[D]) finish(sequencer geo.NodeID, number uint64) {
	r.done[sequencer] = number
	inbox := &r.inbox[sequencer]
	for inbox.Len() > 0 && inbox.Front().BatchNumber() <= number {
		r.queued -= r.c.Foreign(sequencer, inbox.Front())
		inbox.Pop()
	}
}
