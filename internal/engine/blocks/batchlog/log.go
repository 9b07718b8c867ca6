// Package batchlog puts the batches of many sequencers into one order, as Calvin does (Thomson et al., SIGMOD 2012,
// section 3.2). A replicated log holds the names of batches, while the sequencers send the data directly to the
// readers. A reader waits until it has both the position and the data of a batch.
//
// A sequencer may be lost after it has sent a batch's data and before the log has the batch's name. A reader that has
// waited too long for the position can request that the batch become void. A void entry in the log states that the
// batch will never get a position. A sequencer that was only disconnected reads the entry, too, and puts the
// transactions into a new batch.
//
// A node may have one or more of three roles. A sequencer requests positions from the log's leader. A member stores the
// log (member.go), and a reader takes the batches in log order (reader.go). A database may have several numbered logs.
//
// A batch may have a position although its data was lost with its sequencer before the data reached every reader.
// Readers without the data then stop. With Config.Copies, a batch gets a position only after that number of regions
// hold its data. Readers without the data fetch it from one of these regions (proof.go).
package batchlog

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Config describes a node's view of a log.
type Config struct {
	// Log is the number of the log.
	Log  uint64
	Self geo.NodeID
	// Nodes is the number of nodes of the database. Sequencers are nodes with numbers below Nodes.
	Nodes int
	// Members are the nodes that store the log; the first of them is the first leader.
	Members []geo.NodeID
	// Audience lists the nodes that receive positions: all readers and sequencers.
	Audience []geo.NodeID
	Env      protocol.Env
	// OrderTimer and GroupTimer are the kinds of the log's timers; the owner must pass these timers to Log.Fire.
	OrderTimer, GroupTimer uint8
	// Advance is called whenever the log learns more positions.
	Advance func()
	// Settled, if not nil, is called for each of this node's batches, in the order of their numbers. void reports that
	// the batch will never have a position.
	Settled func(number uint64, void bool)

	// Copies is the number of regions that must hold a batch's data, for each group that reads it, before the batch gets
	// a position. The sequencer's region counts. With 0 or 1, batches need no proof. Otherwise Readers lists the nodes of
	// each group, Region returns a node's region, and ProofTimer is another timer kind. Kept, if not nil, is called with
	// the position up to which all readers have read the log.
	Copies     int
	Readers    [][]geo.NodeID
	Region     func(geo.NodeID) geo.Region
	ProofTimer uint8
	Kept       func(position uint64)

	// Streams is the number of other logs whose batches this log includes: see stream.go. Led, if not nil, is called when
	// this node becomes the leader.
	Streams int
	Led     func()

	// Incarnation is the incarnation of Self: see protocol.Config. JoinTimer is the timer kind that incarnations after
	// the first use to rejoin.
	Incarnation uint32
	JoinTimer   uint8
	// Marks, if not nil, reports whether a new incarnation may already request its mark: see rejoin.go.
	Marks func() bool
}

// Log is a node's view of a log.
type Log struct {
	c      Config
	member *member // nil if the node is not a member

	// leader is the last known leader, and term its term; 0 before any leader has announced itself.
	leader geo.NodeID
	term   uint64
	// unordered holds this node's requests for batches without a position, in ascending order.
	unordered []Request

	// entries holds the known entries from position on; position is the position of the next entry to read.
	entries  queue.Queue[Ordered]
	position uint64
	// settled[s] is the last batch of sequencer s that has a position or is void, according to the known entries. The
	// elements after the sequencers belong to streams.
	settled []uint64
	// asked is the term in which this node last requested missing positions.
	asked   uint64
	fetches int64
	// holder is nil if batches need no proof.
	holder *holder
	// last is the last batch for which this node has requested a position. In a new incarnation, sent[s] is the last batch
	// that sequencer s sent to the predecessor, or unheard if s has not answered.
	last uint64
	sent []uint64
	// started is set once the node knows its starting position, entered once it may request positions: see rejoin.go.
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

// Start starts the member's timers, and the rejoin of a new incarnation.
func (l *Log) Start() {
	if l.member != nil {
		l.member.group.Start()
	}
	l.join()
}

// Ask requests a position for this node's next batch. The first incarnation's numbers start at 1.
func (l *Log) Ask(q Request) {
	// The request stays in unordered until it is settled, so that it can be repeated to the next leader.
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

// Void asks the leader to declare batches void, because they have waited too long for a position. Earlier batches of
// their sequencers without a position become void, too. The request may be lost, so the caller should repeat it.
func (l *Log) Void(batches []BatchID) {
	if l.leader == l.c.Self {
		l.member.void(batches)
	} else {
		l.c.Env.Send(l.leader, &Void{l.c.Log, batches})
	}
}

// Settled returns the last batch of a sequencer that is known to have a position or to be void; 0 for none.
func (l *Log) Settled(sequencer geo.NodeID) uint64 { return l.settled[sequencer] }

// Receive handles a message of this package or of the log's consensus group.
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
		// Only a new incarnation that has not caught up waits for these reports.
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

// Next returns the next entry to read. known is false if this node has not received the entry yet.
func (l *Log) Next() (o Ordered, known bool) { return l.entries.Front(), l.entries.Len() > 0 }

// Pass advances past the entry that Next returns.
func (l *Log) Pass() {
	l.entries.Pop()
	l.position++
	if l.holder != nil {
		l.holder.passed()
	}
}

// Known returns the number of known entries, including those read.
func (l *Log) Known() uint64 { return l.position + uint64(l.entries.Len()) }

// Position returns the number of entries read.
func (l *Log) Position() uint64 { return l.position }

// Term returns the term of the last known leader.
func (l *Log) Term() uint64 { return l.term }

// Fetches returns how often the node has requested missing positions.
func (l *Log) Fetches() int64 { return l.fetches }

// follow records a leader of the log. A new leader may not have received this node's requests, and its predecessor may
// have lost them, so the node repeats them in order. The log drops duplicates.
func (l *Log) follow(leader geo.NodeID, term uint64) {
	// Messages of a deposed leader may arrive late; the leader of the latest term is the current one.
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

// settle records that this node's batch with the given number has a position. If void is set, it records instead that
// this batch and all earlier batches without a position will never get a position.
func (l *Log) settle(number uint64, void bool) {
	kept := l.unordered[:0]
	for _, q := range l.unordered {
		// Without void, an earlier batch may still be unsettled: its request was lost and will be repeated.
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

// ordered handles log entries from position first on, sent by the leader of a term.
func (l *Log) ordered(from geo.NodeID, term, first uint64, entries []Ordered) {
	// Before the starting position is known, entries cannot be placed; the leader sends them again on request.
	if !l.started {
		return
	}
	known := l.Known()
	if first > known {
		// Positions are missing: the last leader failed while some were in flight. Request all positions from known on, once
		// per term, because the leader that receives the request may fail, too.
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
			return // no such node or stream: the message is corrupt
		}
		l.entries.Push(o)
		l.settled[s] = o.Batch.Number
		if o.Batch.Sequencer == l.c.Self {
			l.settle(o.Batch.Number, o.Void())
		}
	}
	l.c.Advance()
}
