// Package batchlog puts the batches of many sequencers into one order, as Calvin does (Thomson et al., SIGMOD 2012,
// section 3.2). A replicated log holds the names of batches, while the sequencers send the data directly to the
// readers. A reader waits until it has both.
//
// A sequencer may be lost after it has sent a batch's data and before the log has the batch's name. Readers that have
// waited too long for the position can have the batch made void: the log then says that the batch has no position and
// never will. A sequencer that was only disconnected learns this from the log, too, and puts the transactions into a
// new batch.
//
// A node may be a sequencer of the log, which asks its leader for positions, a member, which stores it (member.go), a
// reader, which takes the batches in log order (reader.go), or all of these. A database may have several logs,
// distinguished by a number.
//
// A batch may have a position although its data was lost with its sequencer before it reached every reader. Readers
// without the data then stop. With Config.Copies a batch gets no position before that number of regions hold its data.
// Readers without the data fetch it from one of these regions (proof.go).
package batchlog

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Config describes a log from the point of view of one node.
type Config struct {
	// Log is its number.
	Log  uint64
	Self geo.NodeID
	// Nodes is the number of nodes of the database: no sequencer has a higher number.
	Nodes int
	// Members keep the log, the first leader first.
	Members []geo.NodeID
	// Audience lists the nodes that receive positions: all readers and sequencers.
	Audience []geo.NodeID
	Env      protocol.Env
	// OrderTimer and GroupTimer are the kinds of the log's timers: the owner's Fire hands those to Log.Fire.
	OrderTimer, GroupTimer uint8
	// Advance is called when positions have become known.
	Advance func()
	// Settled, if not nil, is called for this node's batches in the order of their numbers. It reports whether the batch
	// has a position or never will (void).
	Settled func(number uint64, void bool)

	// Copies is the number of regions that must hold the data of a batch, for each group that reads it, before the batch
	// gets its position. The sequencer's region counts. 0 and 1 ask for no proof. With more copies, Readers lists the
	// nodes of each group, Region returns a node's region, and ProofTimer is a further kind of timer. Kept, if not nil, is
	// called with the position up to which all readers have read the log.
	Copies     int
	Readers    [][]geo.NodeID
	Region     func(geo.NodeID) geo.Region
	ProofTimer uint8
	Kept       func(position uint64)

	// Streams is the number of other orders that this log includes: see stream.go. Led, if not nil, is called when this
	// node becomes the leader.
	Streams int
	Led     func()

	// Incarnation is the incarnation of Self: see protocol.Config. JoinTimer is a further kind of timer, for incarnations
	// after the first.
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
	// unordered holds this node's requests whose batches have no position yet, ascending.
	unordered []Request

	// entries are those known from position on, the next to read.
	entries  queue.Queue[Ordered]
	position uint64
	// settled[s] is the last batch of sequencer s that the known entries place or make void. The elements after the
	// sequencers belong to streams.
	settled []uint64
	// asked is the term in which missing positions were last asked for.
	asked   uint64
	fetches int64
	// holder is nil where batches need no proof.
	holder *holder
	// last is the last batch for which this node has requested a position. At a new incarnation, sent holds the last batch
	// of each sequencer that went to the predecessor, or unheard if the sequencer has not answered.
	last uint64
	sent []uint64
	// started says that the node knows its position, and entered that it may ask for places: see rejoin.go.
	started, entered bool
}

// New returns a node's view of a log.
func New(c Config) *Log {
	l := &Log{c: c, leader: c.Members[0], settled: make([]uint64, c.Nodes+c.Streams), started: c.Incarnation == 0, entered: c.Incarnation == 0}
	if len(c.Members) == 1 {
		l.term = 1 // a group of one member never has another term
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

// Start starts the timers of a member and the rejoin of a new incarnation.
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

// Void asks the leader to make batches void that have waited too long for a position. Each batch is made void along
// with the earlier batches of its sequencer. The request is lost if there is no leader, so it should be repeated.
func (l *Log) Void(batches []BatchID) {
	if l.leader == l.c.Self {
		l.member.void(batches)
	} else {
		l.c.Env.Send(l.leader, &Void{l.c.Log, batches})
	}
}

// Settled returns the last batch of a sequencer that has a place or is void, as far as known; 0 for none.
func (l *Log) Settled(sequencer geo.NodeID) uint64 { return l.settled[sequencer] }

// Receive handles a message of this log: one of this package's or its consensus group's messages.
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

// Fire handles one of the log's timers.
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

// follow records the leader of the log. A new leader may not have received this node's requests, or its predecessor may
// have lost them. So the node repeats them in order; the log drops duplicates.
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

// settle records that one of the node's batches has its position in the log. If void is set, this batch and all earlier
// ones without a position never get one.
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

// ordered handles entries of the log from position first on, sent by a leader.
func (l *Log) ordered(from geo.NodeID, term, first uint64, entries []Ordered) {
	if !l.started {
		return
	}
	known := l.Known()
	if first > known {
		// The last leader died while some positions were in flight. Request all positions from here on again.
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
