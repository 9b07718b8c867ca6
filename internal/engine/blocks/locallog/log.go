package locallog

import (
	"cmp"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// LogConfig describes a node's view of a log of entries.
type LogConfig struct {
	// Number is the number of the log. A region's local log has the region's number.
	Number uint64
	// Members are the nodes that store the order of the batches.
	Members []geo.NodeID
	// Interval is the time for which a sequencer collects a batch, starting at its first entry. 0 means that each entry
	// is a batch.
	Interval time.Duration
	// Timers is the first timer kind of the log, which uses three kinds, or seven if Replicated is set.
	Timers uint8
	// Audience lists the nodes that receive positions: all readers and sequencers. Nil means all nodes.
	Audience []geo.NodeID
	// Readers lists the nodes of each group of readers. An entry goes to one or more groups.
	Readers [][]geo.NodeID
	// Groups appends the groups that receive an entry. A group may occur several times.
	Groups func(e *Entry, groups []int) []int
	// Shape, if not nil, returns the form of an entry that a group receives.
	Shape func(e Entry, group int) Entry
	// Group is the group of this node, and Read handles its entries in log order. Read is nil if the node does not read
	// the log.
	Group int
	Read  func(e *Entry)

	// Replicated is set for a log that shares this node's timers with other logs. If the sequencer of a batch is
	// disconnected or lost, the batch may become void, and its entries are sent again: see replicated.go. The fields below
	// are for such logs.
	Replicated bool
	// Copies, Streams, Marks and Led set the fields of these names in batchlog.Config. Mark and Take set the fields of
	// these names in batchlog.ReaderConfig.
	Copies, Streams int
	Mark            func(n geo.NodeID, incarnation uint32) bool
	Marks           func() bool
	Take            func(stream int, upto uint64) bool
	Led             func()
	// Known, if not nil, is called when further positions are known, and HasRead when further batches may have been read.
	Known, HasRead func()
	// Sent, if not nil, is called with the entries of a batch when it is sent. When the batch becomes void, Sent is
	// called again with these entries and the batch number unsent.
	Sent func(batch uint64, entries []Entry)
	// Unfetched sets the field of this name in batchlog.ReaderConfig.
	Unfetched bool
}

// Log is a node's view of a log. The node is a sequencer, a reader, or both.
type Log struct {
	c    LogConfig
	self geo.NodeID
	env  protocol.Env
	// Order is the order of the log's batches.
	Order *batchlog.Log

	// batch is the batch being collected, and number its number.
	batch  []Entry
	number uint64

	// reader is nil if the node does not read the log.
	reader *batchlog.Reader[*Batch]
	// sent holds the sent batches of a replicated log whose positions are not known yet, by ascending number.
	sent queue.Queue[sentBatch]

	batches int64

	timed  []Entry // buffer of sortTimed
	seen   []int   // by group: 1 + the index of the last entry added to its part of the batch
	groups []int
	parts  [][]Entry
}

// NewLog returns a node's view of a log.
func NewLog(n protocol.Config, c LogConfig) *Log {
	l := &Log{
		c: c, self: n.Self, env: n.Env, number: batchlog.FirstBatch(n.Incarnation),
		seen:  make([]int, len(c.Readers)),
		parts: make([][]Entry, len(c.Readers)),
	}
	if c.Replicated {
		l.env = sharedEnv{n.Env, c.Number}
	}
	audience := c.Audience
	for i := 0; c.Audience == nil && i < n.Topology.Nodes(); i++ {
		audience = append(audience, geo.NodeID(i))
	}
	bc := batchlog.Config{
		Log: c.Number, Self: n.Self, Nodes: n.Topology.Nodes(), Members: c.Members, Audience: audience, Env: l.env,
		OrderTimer: c.Timers + 1, GroupTimer: c.Timers + 2, Advance: l.advance,
	}
	if c.Replicated {
		bc.Settled, bc.Streams, bc.Led = l.settled, c.Streams, c.Led
		bc.Copies, bc.Readers, bc.Region, bc.ProofTimer = c.Copies, c.Readers, n.Topology.RegionOf, c.Timers+5
		bc.Incarnation, bc.JoinTimer, bc.Marks = n.Incarnation, c.Timers+6, c.Marks
		bc.Kept = func(position uint64) { l.reader.Kept(position) }
	}
	l.Order = batchlog.New(bc)
	if c.Read != nil {
		l.reader = batchlog.NewReader(batchlog.ReaderConfig[*Batch]{
			Log: l.Order, Group: c.Group, Read: l.read, Foreign: func(_ geo.NodeID, m *Batch) int { return l.foreign(m) },
			Watch: c.Replicated, WatchTimer: c.Timers + 3, FetchTimer: c.Timers + 4, Take: c.Take, Mark: c.Mark, Unfetched: c.Unfetched,
			Copy: func(to, sequencer geo.NodeID, m *Batch) { l.env.Send(to, &Copy{sequencer, m}) },
		})
	}
	return l
}

// Add adds an entry to the batch that this node collects for the log. The first entry of a batch starts its timer.
func (l *Log) Add(e Entry) {
	l.batch = append(l.batch, e)
	if l.c.Interval == 0 || l.env.Buggify(closesEarly) {
		l.close()
	} else if len(l.batch) == 1 {
		l.env.After(l.c.Interval, protocol.Timer{Kind: l.c.Timers, Arg: l.number})
	}
}

// Fire handles one of the log's timers.
func (l *Log) Fire(t protocol.Timer) {
	switch t.Kind {
	case l.c.Timers:
		// t.Arg is the number of the timer's batch, which may have been closed early.
		if t.Arg == l.number && len(l.batch) > 0 {
			l.close()
		}
	case l.c.Timers + 3, l.c.Timers + 4:
		l.reader.Fire(t)
	default:
		l.Order.Fire(t)
	}
}

// close sends each group of readers its part of the batch, and requests a position for the batch.
func (l *Log) close() {
	l.batches++
	if l.sortTimed() {
		l.env.Mark(lateSorted)
	}
	var touched batchlog.Set
	clear(l.seen)
	for i := range l.batch {
		e := &l.batch[i]
		l.groups = l.c.Groups(e, l.groups[:0])
		for _, g := range l.groups {
			// Groups may name a group several times for an entry; the group receives it once.
			if l.seen[g] == i+1 {
				continue
			}
			l.seen[g] = i + 1
			touched = touched.With(g)
			part := *e
			if l.c.Shape != nil {
				part = l.c.Shape(part, g)
			}
			if l.parts[g] == nil {
				l.parts[g] = make([]Entry, 0, len(l.batch)-i)
			}
			l.parts[g] = append(l.parts[g], part)
		}
	}
	number := l.number
	l.number++
	if l.c.Replicated {
		// The entries are kept until the batch is settled: if it becomes void, they go into another batch.
		l.sent.Push(sentBatch{number, l.batch})
		if l.c.Sent != nil {
			l.c.Sent(number, l.batch)
		}
		l.batch = nil
	} else {
		clear(l.batch)
		l.batch = l.batch[:0]
	}
	for g, nodes := range l.c.Readers {
		// A Set identifies groups modulo 64, so touched may include a group without entries. That group still needs an empty
		// batch to pass the position.
		if !touched.Has(g) {
			continue
		}
		m := newBatch(l.c.Number, number, l.parts[g])
		l.parts[g] = nil // the message keeps the slice: other nodes may still be reading it
		for _, n := range nodes {
			if n == l.self {
				l.reader.Arrive(m)
			} else {
				l.env.Send(n, m)
			}
		}
	}
	// If this node is the log's only member, the position is assigned during this call, so the reader must already have
	// the data.
	l.Order.Ask(batchlog.Request{Number: number, Readers: touched})
}

// sortTimed sorts the batch's entries that have a time, by time and then by ID; other entries keep their indexes. It
// reports whether any entry has moved.
func (l *Log) sortTimed() (moved bool) {
	before := func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.notBefore, b.notBefore), cmp.Compare(a.Txn.ID, b.Txn.ID))
	}
	l.timed = l.timed[:0]
	for i := range l.batch {
		if l.batch[i].notBefore > 0 {
			l.timed = append(l.timed, l.batch[i])
		}
	}
	if slices.IsSortedFunc(l.timed, before) { // usually: no entry was late
		clear(l.timed)
		return false
	}
	slices.SortFunc(l.timed, before)
	k := 0
	for i := range l.batch {
		if l.batch[i].notBefore > 0 {
			l.batch[i] = l.timed[k]
			k++
		}
	}
	clear(l.timed)
	return true
}

// Receive handles a batch from its sequencer.
func (l *Log) Receive(from geo.NodeID, m *Batch) {
	if l.reader != nil {
		l.reader.Receive(from, m)
		l.hasRead()
	}
}

// foreign returns the number of entries whose clients wait at other nodes.
func (l *Log) foreign(m *Batch) (n int) {
	for i := range m.Entries {
		if m.Entries[i].Coordinator != l.self {
			n++
		}
	}
	return n
}

// advance reads, in log order, the batches that have a position and data.
func (l *Log) advance() {
	if l.c.Known != nil {
		l.c.Known()
	}
	if l.reader != nil {
		l.reader.Advance()
		l.hasRead()
		return
	}
	// A node that only sequences must still pass the entries, or they would accumulate.
	for _, known := l.Order.Next(); known; _, known = l.Order.Next() {
		l.Order.Pass()
	}
}

func (l *Log) hasRead() {
	if l.c.HasRead != nil {
		l.c.HasRead()
	}
}

// read handles a batch at its position.
func (l *Log) read(_ batchlog.Ordered, m *Batch) {
	for i := range m.Entries {
		l.c.Read(&m.Entries[i])
	}
}

// pending returns the number of entries submitted by clients of other nodes that have arrived but have not been read.
func (l *Log) pending() int {
	if l.reader == nil {
		return 0
	}
	return l.reader.Pending()
}
