package batchlog

import (
	"math"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// New incarnations. A node that has lost its process and memory comes back knowing nothing of the log.
//
// As a sequencer, its predecessor has sent batches of which nobody knows whether all have got them. The new incarnation
// has the log say, by a void entry, that those which have no place yet never will: the mark. Its own numbers begin
// behind that, at 2^40 times the incarnation, once it has read the mark.
//
// As a reader, it begins at the position that a leader tells it, before the mark, and has its owner do without what
// comes before the mark (ReaderConfig.Mark). Sequencers send it again what has no place; what has one and lies behind
// the mark, and was sent to its predecessor, it fetches from others.
//
// It has caught up when it has read all that had been sent to its predecessor, as each sequencer tells it: before that
// it may be one of those whom the next loss must not hit.
//
// What its predecessor has told of its data counts for places until the leader hears of the new incarnation, which is
// before it hears the mark asked for, and in no later term: a leader knows only what it was told in its own. So of what
// lies behind the mark nothing was proven by data that is lost.

// FirstBatch returns the number of an incarnation's first batch.
func FirstBatch(incarnation uint32) uint64 { return protocol.NumbersBefore(incarnation) + 1 }

// Mark returns the node and incarnation that an entry is the mark of, if it is one.
func (o Ordered) Mark() (n geo.NodeID, incarnation uint32, ok bool) {
	incarnation = protocol.IncarnationOf(o.Batch.Number)
	return o.Batch.Sequencer, incarnation, o.Void() && incarnation > 0 && o.Batch.Number == protocol.NumbersBefore(incarnation)
}

const (
	// joinEvery is how often a new incarnation asks the members of the log for what it needs, until it has read its mark.
	joinEvery = 500 * time.Millisecond
	// joins is Fetch.First of one that asks where to begin.
	joins = math.MaxUint64
)

// Entered reports whether this node may ask for places: it is the first incarnation, or has read its mark.
func (l *Log) Entered() bool { return l.entered }

// join asks for a position to begin at, and for the mark. What a deposed leader is asked is lost, and a new one may not
// have been heard of.
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
	l.c.Env.After(joinEvery, protocol.Timer{Kind: l.c.JoinTimer})
}

// Enter asks for the mark, as the log does by itself now and then, when Config.Marks has begun to report true.
func (l *Log) Enter() {
	if !l.entered {
		l.mark()
	}
}

// mark asks for the mark, if this node will read it.
func (l *Log) mark() {
	if l.c.Marks != nil && !l.c.Marks() {
		return
	}
	if mark := protocol.NumbersBefore(l.c.Incarnation); l.started && l.settled[l.c.Self] < mark {
		l.Void([]BatchID{{l.c.Self, mark}})
	}
}

// begin takes a leader's word where to begin.
func (l *Log) begin(from geo.NodeID, m *Started) {
	if len(m.Settled) != len(l.settled) {
		return // it is corrupt
	}
	l.follow(from, m.Term)
	if l.started {
		return
	}
	l.started, l.position = true, m.Position
	copy(l.settled, m.Settled)
	l.mark()
}

// started tells a new incarnation where to begin.
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

// Replaced says that a node has lost what it knew and that a new incarnation is in its place: see protocol.Rejoiner.
func (l *Log) Replaced(n geo.NodeID, incarnation uint32) {
	l.c.Env.Send(n, &Sent{l.c.Log, l.last})
	if l.member == nil {
		return
	}
	l.member.group.Replaced(n, incarnation)
	if l.holder != nil {
		l.member.holds[n], l.member.read[n] = nil, 0
	}
}

// unheard is Log.sent of a sequencer that has not told.
const unheard = math.MaxUint64

// CaughtUp reports whether this node has read, or passed over, all that went to its predecessor. Before that others may
// be the only ones that have the data of a batch with a place.
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

// Done returns the last batch of a sequencer that has been read, passed over or made void.
func (r *Reader[D]) Done(sequencer geo.NodeID) uint64 { return r.done[sequencer] }

// entering reports whether this is a new incarnation that has not come to its mark: it reads nothing before that.
func (r *Reader[D]) entering() bool { return !r.l.entered }

// SkipTo passes over what comes before a position that is known to be in the log, as if it had been read. done are the
// last batches of each sequencer there. The data that is here others may still ask for.
func (r *Reader[D]) SkipTo(position uint64, done []uint64) {
	for r.l.position < position {
		o, _ := r.l.Next()
		r.pass(o)
	}
	for s, number := range done {
		r.finish(geo.NodeID(s), max(r.done[s], number))
	}
}

// pass passes over an entry.
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

// finish notes that nothing of a sequencer up to a batch will be read any more. What it sent again of that has come
// late.
func (r *Reader[D]) finish(sequencer geo.NodeID, number uint64) {
	r.done[sequencer] = number
	inbox := &r.inbox[sequencer]
	for inbox.Len() > 0 && inbox.Front().BatchNumber() <= number {
		r.queued -= r.c.Foreign(sequencer, inbox.Front())
		inbox.Pop()
	}
}
