package calvin

import (
	"time"

	"github.com/geobench/geobench/internal/codec"
	"github.com/geobench/geobench/internal/consensus"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
)

const (
	// announceEvery bounds the rate of announcements: each goes to every node. A request that comes sooner after the
	// last announcement waits for others to share one with.
	announceEvery = time.Millisecond
	// keptPositions is how many of the last positions a member keeps for nodes that missed some when a leader failed.
	keptPositions = 1 << 17
)

// orderLog is a member of the replicated log that puts batches in order. Its entries hold only the names of batches:
// the data travels from the sequencers straight to the schedulers.
//
// Entries of the consensus group are lists of batches. Those of one sequencer count from 1 without a gap, in the order
// of its requests. An entry out of this order is either a repetition, or overtook a request that a deposed leader
// lost and that will be repeated; every member drops it, so that all count the same positions.
type orderLog struct {
	r       *Replica
	members []geo.NodeID
	group   *consensus.Group

	// requests wait for the next proposal.
	requests []Ordered
	waiting  bool          // an order timer is set
	last     time.Duration // when the last proposal was made
	proposed bool

	next []uint64 // per sequencer: the number of its next batch
	// count is the number of positions given; recent holds the last of them.
	count  uint64
	recent []Ordered
}

func newOrderLog(r *Replica, members []geo.NodeID) *orderLog {
	l := &orderLog{r: r, members: members, next: make([]uint64, r.nodes)}
	for i := range l.next {
		l.next[i] = 1
	}
	l.group = consensus.New(consensus.Config{
		Self:      r.self,
		Members:   members,
		Preferred: members[0],
		Env:       r.env,
		TimerKind: groupTimer,
		Apply:     l.apply,
		Lead:      l.lead,
		Snapshot:  l.snapshot,
		Restore:   l.restore,
	})
	return l
}

func (l *orderLog) start() { l.group.Start() }

// request takes a sequencer's requests. Only the leader can do something about them.
func (l *orderLog) request(from geo.NodeID, requests []Request) {
	if !l.group.Leading() {
		return
	}
	for _, q := range requests {
		l.requests = append(l.requests, Ordered{BatchID{from, q.Number}, q.Partitions})
	}
	if l.waiting {
		return
	}
	if wait := l.last + announceEvery - l.r.env.Now(); l.proposed && wait > 0 {
		l.waiting = true
		l.r.env.After(wait, protocol.Timer{Kind: orderTimer})
		return
	}
	l.flush()
}

// flush proposes what has been requested.
func (l *orderLog) flush() {
	l.waiting = false
	if len(l.requests) == 0 {
		return
	}
	l.last, l.proposed = l.r.env.Now(), true
	entry := appendEntries(make([]byte, 0, sizeEntries(l.requests)), l.requests)
	l.requests = l.requests[:0]
	// A proposal that is refused or lost is asked for again when the next leader speaks.
	l.group.Propose(entry)
}

// apply gives positions to the batches of a committed entry and announces them.
func (l *orderLog) apply(entry []byte) {
	r := codec.NewReader(entry)
	first := l.count
	var accepted []Ordered
	for _, o := range readEntries(&r) {
		if s := o.Batch.Sequencer; int(s) < len(l.next) && l.next[s] == o.Batch.Number {
			l.next[s]++
			l.count++
			accepted = append(accepted, o)
		}
	}
	if len(accepted) == 0 {
		return
	}
	l.recent = append(l.recent, accepted...)
	if len(l.recent) > 2*keptPositions {
		l.recent = append([]Ordered(nil), l.recent[len(l.recent)-keptPositions:]...)
	}
	if l.group.Leading() {
		l.announce(first, accepted)
	}
}

// lead learns of a new leader. If that is this member, everybody else must know.
func (l *orderLog) lead(leader geo.NodeID, term uint64) {
	if leader != l.r.self {
		l.requests = l.requests[:0]
		return
	}
	if len(l.members) == 1 {
		return // everybody knows
	}
	l.announce(l.count, nil)
	l.r.sequencer.follow(leader, term)
}

func (l *orderLog) announce(first uint64, entries []Ordered) {
	m := &Positions{Term: l.group.Term(), First: first, Entries: entries}
	for n := range l.r.nodes {
		if n := geo.NodeID(n); n != l.r.self {
			l.r.env.Send(n, m)
		}
	}
	l.r.scheduler.ordered(l.r.self, m.Term, first, entries)
}

// fetch tells a node the positions that it missed.
func (l *orderLog) fetch(from geo.NodeID, first uint64) {
	oldest := l.count - uint64(len(l.recent))
	if first < oldest || first > l.count || !l.group.Leading() {
		return
	}
	entries := append([]Ordered(nil), l.recent[first-oldest:]...)
	m := &Positions{Term: l.group.Term(), First: first, Entries: entries}
	if from == l.r.self {
		l.r.scheduler.ordered(from, m.Term, first, entries)
		return
	}
	l.r.env.Send(from, m)
}

// snapshot is what a member must know to give the same positions as the others.
func (l *orderLog) snapshot() []byte {
	b := codec.AppendUvarint(nil, l.count)
	for _, n := range l.next {
		b = codec.AppendUvarint(b, n)
	}
	return b
}

func (l *orderLog) restore(data []byte) {
	r := codec.NewReader(data)
	l.count = r.Uvarint()
	for i := range l.next {
		l.next[i] = r.Uvarint()
	}
	l.recent = nil
}
