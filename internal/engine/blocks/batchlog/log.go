// Package batchlog puts the batches of many sequencers into one order, as Calvin does (Thomson et al., SIGMOD 2012,
// section 3.2): a replicated log holds the names of batches, while their data travels from the sequencers straight to
// those who read them, who wait until they have both.
//
// A sequencer may be lost after it has sent a batch's data and before the log has its name. Readers who have waited for
// its place for long can have the batch made void: the log then says that it has none and never will. A sequencer that
// was merely cut off learns that from the log, too, and puts the transactions into a new batch.
//
// A node may be a sequencer of the log, which asks its leader for positions, a member, which keeps it (member.go), a
// reader, which takes the batches in their order (reader.go), or all of these. A database may have several logs, told
// apart by a number.
//
// A batch that has its place, and whose data is lost with its sequencer before it has reached every reader, stops those
// who lack it. With Config.Copies a batch gets no place before so many regions hold its data, and readers who lack it
// fetch it from one of them (proof.go).
package batchlog

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Config describes a log as one node sees it.
type Config struct {
	// Log is its number.
	Log  uint64
	Self geo.NodeID
	// Nodes is the number of nodes of the database: no sequencer has a higher number.
	Nodes int
	// Members keep the log, the first leader first.
	Members []geo.NodeID
	// Audience are the nodes that are told positions: all readers and sequencers.
	Audience []geo.NodeID
	Env      protocol.Env
	// OrderTimer and GroupTimer are the kinds of the log's timers: the owner's Fire hands those to Log.Fire.
	OrderTimer, GroupTimer uint8
	// Advance is called when positions have become known.
	Advance func()
	// Settled, if not nil, is told in the order of numbers what became of this node's batches: they have a place, or never
	// will.
	Settled func(number uint64, void bool)

	// Copies is how many regions must hold the data of a batch for each group that reads it before the batch gets its
	// place; the sequencer's region counts as one. 0 and 1 ask for no proof. With more, Readers are the nodes of each
	// group, Region says where a node is, ProofTimer is another kind of timer, and Kept, if not nil, is told that all
	// readers have read the log up to a position.
	Copies     int
	Readers    [][]geo.NodeID
	Region     func(geo.NodeID) geo.Region
	ProofTimer uint8
	Kept       func(position uint64)

	// Streams is how many other orders this log takes over: see stream.go. Led, if not nil, is called when this node
	// begins to lead.
	Streams int
	Led     func()

	// Incarnation of Self: see protocol.Config. JoinTimer is another kind of timer, for those that are not the first.
	Incarnation uint32
	JoinTimer   uint8
	// Marks, if not nil, reports whether a new incarnation may ask for its mark by now.
	Marks func() bool
}

// Log is a node's view of a log.
type Log struct {
	c      Config
	member *member // nil elsewhere

	// leader, as far as known, and its term: 0 before any leader has spoken.
	leader geo.NodeID
	term   uint64
	// unordered are this node's requests whose batches have no position yet, ascending.
	unordered []Request

	// entries are those known from position on, the next to read.
	entries  queue.Queue[Ordered]
	position uint64
	// settled[s] is the last batch of sequencer s that the known entries place or make void; those of streams follow.
	settled []uint64
	// asked is the term in which missing positions were last asked for.
	asked   uint64
	fetches int64
	// holder is nil where batches need no proof.
	holder *holder
	// last is the last batch that this node has asked a place for. sent are, at a new incarnation, the batches of each
	// sequencer that went to its predecessor, unheard where the sequencer has not told.
	last uint64
	sent []uint64
	// started says that the node knows its position, and entered that it may ask for places: see rejoin.go.
	started, entered bool
}

// New returns a node's view of a log.
func New(c Config) *Log {
	l := &Log{c: c, leader: c.Members[0], settled: make([]uint64, c.Nodes+c.Streams), started: c.Incarnation == 0, entered: c.Incarnation == 0}
	if len(c.Members) == 1 {
		l.term = 1 // the only one that there will ever be
	}
	if c.Copies > 1 {
		l.holder = newHolder(l)
	}
	if c.Incarnation > 0 {
		l.sent = slices.Repeat([]uint64{unheard}, c.Nodes)
	}
	for _, m := range c.Members {
		if m == c.Self {
			l.member = newMember(l)
		}
	}
	return l
}

// Leading reports whether this node leads the log.
func (l *Log) Leading() bool { return l.member != nil && l.member.group.Leading() }

// Start begins a member's work, and that of a new incarnation.
func (l *Log) Start() {
	if l.member != nil {
		l.member.group.Start()
	}
	l.join()
}

// Ask asks for a place for this node's next batch. Numbers count from 1.
func (l *Log) Ask(q Request) {
	l.unordered, l.last = append(l.unordered, q), q.Number
	l.ask([]Request{q})
}

func (l *Log) ask(requests []Request) {
	if l.leader == l.c.Self {
		l.member.request(l.c.Self, requests)
	} else {
		l.c.Env.Send(l.leader, &OrderRequest{l.c.Log, requests})
	}
}

// Void asks for batches to be made void that have had no place for long, each along with those of its sequencer before
// it. The request is lost if there is no leader, so it should be repeated.
func (l *Log) Void(batches []BatchID) {
	if l.leader == l.c.Self {
		l.member.void(batches)
	} else {
		l.c.Env.Send(l.leader, &Void{l.c.Log, batches})
	}
}

// Settled returns the last batch of a sequencer that has a place or is void, as far as known; 0 for none.
func (l *Log) Settled(sequencer geo.NodeID) uint64 { return l.settled[sequencer] }

// Receive takes a message of this log, one of this package's or its group's.
func (l *Log) Receive(from geo.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *OrderRequest:
		if l.member != nil {
			l.member.request(from, m.Requests)
		}
	case *Positions:
		l.follow(from, m.Term)
		l.ordered(from, m.Term, m.First, m.Entries)
	case *Started:
		l.begin(from, m)
	case *Sent:
		if l.sent != nil {
			l.sent[from] = m.Number
		}
	case *Fetch:
		if l.member != nil {
			l.member.fetch(from, m.First)
		}
	case *Void:
		if l.member != nil {
			l.member.void(m.Batches)
		}
	case *Held:
		if l.member != nil && l.holder != nil {
			l.member.hold(from, m)
		}
	case *Kept:
		if l.holder != nil && l.c.Kept != nil {
			l.c.Kept(m.Position)
		}
	case *consensus.Message:
		if l.member != nil {
			l.member.group.Receive(from, m)
		}
	}
}

// Fire takes one of the log's timers.
func (l *Log) Fire(t protocol.Timer) {
	switch t.Kind {
	case l.c.OrderTimer:
		l.member.flush()
	case l.c.GroupTimer:
		l.member.group.Fire(t)
	case l.c.ProofTimer:
		l.holder.fire(t.Arg)
	case l.c.JoinTimer:
		l.join()
	}
}

// Next returns the next entry to read, if it is known.
func (l *Log) Next() (o Ordered, known bool) { return l.entries.Front(), l.entries.Len() > 0 }

// Pass moves on to the entry after Next.
func (l *Log) Pass() {
	l.entries.Pop()
	l.position++
	if l.holder != nil {
		l.holder.passed()
	}
}

// Known returns the number of entries that are known.
func (l *Log) Known() uint64 { return l.position + uint64(l.entries.Len()) }

// Position returns the number of entries read.
func (l *Log) Position() uint64 { return l.position }

// Term returns the term of the leader that this node knows.
func (l *Log) Term() uint64 { return l.term }

// Fetches counts how often the node has asked for positions that it missed.
func (l *Log) Fetches() int64 { return l.fetches }

// follow learns who leads the log. A new leader may not have heard of this node's requests, or its predecessor may have
// lost them, so they are asked again, in order; the log drops those that come twice.
func (l *Log) follow(leader geo.NodeID, term uint64) {
	if term <= l.term {
		return
	}
	l.leader, l.term = leader, term
	if l.holder != nil {
		l.holder.retell()
	}
	if len(l.unordered) > 0 {
		l.c.Env.Mark(askedAgain)
		l.ask(append([]Request(nil), l.unordered...))
	}
}

// settle learns that one of the node's batches has its place in the log, or that it and all before it that have none
// never will.
func (l *Log) settle(number uint64, void bool) {
	kept := l.unordered[:0]
	for _, q := range l.unordered {
		if q.Number != number && !(void && q.Number < number) {
			kept = append(kept, q)
		} else if l.c.Settled != nil {
			if void {
				l.c.Env.Mark(placedInVoid)
			}
			l.c.Settled(q.Number, void)
		}
	}
	l.unordered = kept
}

// ordered takes entries of the log from position first on, told by a leader.
func (l *Log) ordered(from geo.NodeID, term, first uint64, entries []Ordered) {
	if !l.started {
		return
	}
	known := l.Known()
	if first > known {
		// The last leader died with some positions still under way. Everything from here on comes again.
		if l.asked < term {
			l.asked = term
			l.fetches++
			l.c.Env.Mark(missed)
			if from == l.c.Self {
				l.member.fetch(from, known)
			} else {
				l.c.Env.Send(from, &Fetch{l.c.Log, known})
			}
		}
		return
	}
	if first+uint64(len(entries)) <= known {
		if len(entries) > 0 {
			l.c.Env.Mark(toldTwice)
		}
		return
	}
	for _, o := range entries[known-first:] {
		s := l.slot(o.Batch.Sequencer)
		if s < 0 {
			return // no such node: a corrupt message
		}
		l.entries.Push(o)
		l.settled[s] = o.Batch.Number
		if o.Batch.Sequencer == l.c.Self {
			l.settle(o.Batch.Number, o.Void())
		}
	}
	l.c.Advance()
}
