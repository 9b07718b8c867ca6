// Package deterministic executes transactions that were ordered beforehand, as Calvin's schedulers do (Thomson et al.,
// SIGMOD 2012, section 3.4). It requests locks in log order and grants them in the order of the requests. The
// partitions of a copy exchange their reads. Each partition with writes runs the procedure and applies its part of the
// writes. Equal orders therefore lead to equal copies without a vote.
//
// A copy is a full set of partitions, and an Executor is one partition of a copy. Several logs, one for each home
// region, may order the keys of a transaction. The transaction then arrives in parts, one from each log. It runs when
// all its parts for this partition have arrived and have their locks (Ren et al., SLOG, VLDB 2019, section 3.2). If the
// logs disagree on the order of transactions, lock queues can deadlock; graph.go can then inspect and change the
// queues.
package deterministic

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Config describes an executor.
type Config struct {
	Self geo.NodeID
	// Layout maps rows to nodes. Its shards are the partitions of a copy, and each node stores one of them.
	Layout     geo.Layout
	Procedures *txn.Registry
	Store      *store.Hash
	Env        protocol.Env
	// Answer receives the outcome of a transaction whose client waits at this node.
	Answer func(o txn.Outcome)
	// KeepLocks is for engines that order transactions in more than one log. With KeepLocks, a participant keeps its locks
	// until all participants of the copy have their locks. To that end, each participant notifies all others when it has
	// its locks, in the message with its reads.
	//
	// Otherwise the execution would not be strictly serializable. Suppose that transaction A releases its locks in
	// the partition that it reaches first. Then B, queued after A there, could be answered while A waits in another
	// partition for C, which has no position in some log yet. A transaction that is submitted after B's answer
	// could be ordered before C, and so before A and B. That order is serializable, but not strictly. The same
	// applies to single-home transactions.
	KeepLocks bool
	// Reorderable is for engines that change lock queues (Reorder). It requires KeepLocks: a transaction is certain to be
	// in no cycle only once all participants have their locks.
	Reorderable bool
	// Keeper, if not nil, stores the reads that this node has sent to other nodes of its copy, in case these nodes lose
	// their state.
	Keeper Keeper
	// Moves is for engines whose rows can change their homes. It is nil for all other engines.
	Moves Moves
}

// Executor is one partition of a copy.
type Executor struct {
	c          Config
	partition  int
	partitions int
	placement  geo.Placement
	// copy[q] is the node that stores partition q of this copy.
	copy []geo.NodeID

	locks lockTable
	// running holds the transactions that wait for parts, locks or reads of other participants. It also holds transactions
	// whose reads have arrived before the transactions themselves.
	running map[Place]*execution
	// untold holds the transactions that have become complete after the last call of Graph. over holds the places of
	// transactions that Graph has reported and that have finished after its last call. Both are used only if Reorderable
	// is set.
	untold []arrival
	over   []Place
	places []Place // buffer for Vertex.After
	// ready holds the executions that have all their locks, in the order in which they received their last lock.
	ready  queue.Queue[*execution]
	inline execution // reused for transactions that run immediately
	free   *execution

	// outReads and outAnswers collect the outgoing data of the current step, by partition or node.
	outReads   []*Reads
	outAnswers map[geo.NodeID]*Answers
	readsTo    []int
	answersTo  []geo.NodeID

	parted, foreign int    // see Parted, Foreign
	passes          uint32 // number of calls of Reorder
	steps           int64  // see Steps
	floor           uint64 // see Reset
	Stats
}

// Stats counts the work of an executor.
type Stats struct {
	// Executed counts transactions. MultiPartition, MultiHome (transactions that arrived in parts) and Aborts count
	// subsets of the executed transactions.
	Executed, MultiPartition, MultiHome, Aborts int64
	// LockWaits counts transactions that did not get all their locks immediately. RemoteReads counts the transactions
	// whose reads were sent to another participant, once for each receiver.
	LockWaits, RemoteReads int64
	// Stale counts transactions refused because a row had moved. StaleFootprints counts transactions refused because they
	// used rows that their reconnaissance had not found.
	Stale, StaleFootprints int64
	// Finished counts the finished transactions submitted by clients of other nodes.
	Finished int64
}

// Readings appends the values of Figures to dst.
func (s *Stats) Readings(dst []protocol.Reading) []protocol.Reading {
	return append(dst,
		protocol.Reading{Name: "executed", Value: s.Executed},
		protocol.Reading{Name: "multi_partition", Value: s.MultiPartition},
		protocol.Reading{Name: "aborts", Value: s.Aborts},
		protocol.Reading{Name: "lock_waits", Value: s.LockWaits},
		protocol.Reading{Name: "remote_reads", Value: s.RemoteReads},
		protocol.Reading{Name: "stale_footprints", Value: s.StaleFootprints},
	)
}

// New returns an executor.
func New(c Config) *Executor {
	shards := c.Layout.Shards()
	x := &Executor{
		c:          c,
		partition:  c.Layout.ShardOf(c.Self),
		partitions: shards,
		placement:  c.Layout.Topology.Placement(),
		copy:       make([]geo.NodeID, shards),
		locks:      newLockTable(),
		running:    map[Place]*execution{},
		outReads:   make([]*Reads, shards),
		outAnswers: map[geo.NodeID]*Answers{},
	}
	for q := range x.copy {
		x.copy[q] = c.Layout.Node(c.Layout.CopyOf(c.Self), q)
	}
	return x
}

// Foreign returns the number of unfinished transactions submitted by clients of other nodes that have arrived here at
// least in part.
func (x *Executor) Foreign() int { return x.foreign }

// Parted returns the number of unfinished transactions that arrive in parts.
func (x *Executor) Parted() int { return x.parted }

// Run executes t, or queues t until it has its locks. The order of the calls is the order of transactions on all local
// keys of t. The client waits at coordinator.
func (x *Executor) Run(at Place, t *txn.Transaction, coordinator geo.NodeID) {
	x.RunAt(at, t, coordinator, nil)
}

// RunAt is like Run, for a transaction with rows that have moved. homes lists these rows.
func (x *Executor) RunAt(at Place, t *txn.Transaction, coordinator geo.NodeID, homes Homes) {
	e := &x.inline
	e.at = at
	e.begin(x, t, coordinator)
	// If no other transaction holds or awaits a lock that t needs, and t has only local rows, t can execute now without
	// locks. Nothing can interleave.
	if !e.multi && !x.conflicts(e) && x.current(t, homes) {
		e.execute()
		e.finish()
		return
	}
	e = x.enlist(at, e)
	for i := range t.Accesses {
		if e.slots[i].local {
			_, count := homes.Of(x.placement, t.Accesses, i)
			x.request(e, &t.Accesses[i], count)
		}
	}
	x.completed(e)
	if e.waitLocks > 0 {
		x.LockWaits++
		return
	}
	e.locked()
	x.drain()
}

// Part handles a part of t. The order of the calls is the order of transactions on the local keys of t with the given
// home. If lockOnly is set, t has only its ID and these keys, and another part contains the whole transaction. homes
// lists the rows of t that have moved.
func (x *Executor) Part(at Place, t *txn.Transaction, lockOnly bool, coordinator geo.NodeID, home geo.Region, homes Homes) {
	e := x.running[at]
	if e == nil {
		e = x.alloc()
		x.running[at] = e
	}
	// Reads of other participants may have created the entry before the first part.
	if e.parts == 0 {
		e.x, e.at, e.listed, e.parted, e.coordinator = x, at, true, true, coordinator
		x.parted++
		if coordinator != x.c.Self {
			x.foreign++
		}
	}
	e.parts++
	// begin resets waitLocks, but locks of earlier parts may still be outstanding.
	if !lockOnly && e.t == nil {
		early, waitLocks := e.early, e.waitLocks
		e.begin(x, t, coordinator)
		e.waitLocks, e.early = waitLocks, nil
		e.needed = e.homes(homes)
		e.take(early)
	}
	waited := e.waitLocks > 0
	for i := range t.Accesses {
		if h, count := homes.Of(x.placement, t.Accesses, i); h == home && x.local(t.Accesses[i].Key) {
			x.request(e, &t.Accesses[i], count)
		}
	}
	x.completed(e)
	if e.waitLocks > 0 {
		// Count the transaction only once, even if several of its parts wait.
		if !waited {
			x.LockWaits++
		}
		return
	}
	if e.complete() {
		e.locked()
		x.drain()
	}
}

// conflicts reports whether any transaction holds or waits for a lock that e needs. e must not have remote rows.
func (x *Executor) conflicts(e *execution) bool {
	if x.locks.empty() {
		return false
	}
	for i := range e.t.Accesses {
		if x.locks.locked(e.t.Accesses[i].Key) {
			return true
		}
	}
	return false
}

// enlist turns the execution that begin has prepared into an execution that can wait. It also assigns the reads that
// arrived early.
func (x *Executor) enlist(at Place, prepared *execution) *execution {
	var e *execution
	// Remote reads and Reorder find executions by place. All other executions need no entry.
	listed := prepared.multi || x.c.Reorderable
	if listed {
		e = x.running[at]
	}
	if e == nil {
		e = x.alloc()
	}
	if listed {
		x.running[at] = e
	}
	early, told, slots, groups := e.early, e.told, e.slots, e.groups
	*e = *prepared
	e.at, e.early, e.told, e.listed, e.groups = at, nil, told, listed, groups
	e.slots = append(slots[:0], prepared.slots...)
	// The executor reuses x.inline for the next transaction. Drop the reference, so that this transaction can be freed.
	prepared.t = nil
	e.take(early)
	if e.coordinator != x.c.Self {
		x.foreign++
	}
	return e
}

func (x *Executor) alloc() *execution {
	e := x.free
	if e == nil {
		return &execution{}
	}
	x.free, e.next = e.next, nil
	return e
}

// drain runs the executions that have become ready.
func (x *Executor) drain() {
	for x.ready.Len() > 0 {
		e := x.ready.Front()
		x.ready.Pop()
		e.queued = false
		// Reorder may have revoked a lock after the execution became ready.
		if e.waitLocks == 0 && !e.holding {
			e.locked()
		}
	}
}

// granted counts a lock for which an execution has waited.
func (x *Executor) granted(e *execution) {
	e.waitLocks--
	// The execution must not run here, because the caller is still traversing a lock queue.
	if e.waitLocks == 0 && e.complete() && !e.queued {
		e.queued = true
		x.ready.Push(e)
	}
}

// Reads handles the reads of another participant of this copy.
func (x *Executor) Reads(from geo.NodeID, m *Reads) {
	partition := x.c.Layout.ShardOf(from)
	at := 0
	for i := range m.Reads {
		q := &m.Reads[i]
		r := reads{partition, m.Values[at : at+q.Values], q.Reordered, q.Stale}
		at += q.Values
		if q.Position < x.floor {
			continue // the transaction precedes the last Reset and will never run here
		}
		if x.c.Keeper != nil && x.c.Keeper.Over(q.Place) {
			x.c.Env.Mark(readsAgain)
			continue
		}
		e := x.running[q.Place]
		if e == nil {
			e = x.alloc()
			x.running[q.Place] = e
		}
		if x.c.Keeper != nil && e.knows(partition) {
			x.c.Env.Mark(readsAgain)
			continue
		}
		if e.t == nil || r.reordered != e.reordered {
			// Reads sent before a reordering are void after the reordering. Reads sent after a reordering wait until this node
			// performs it.
			if e.t == nil || r.reordered {
				e.early = append(e.early, r)
			}
			continue
		}
		e.assign(r)
		// If local locks are missing, the transaction must still wait, and locked ends it later.
		if e.holding && e.waitReads == 0 {
			e.end()
		}
	}
	x.drain()
}

// sendReads adds the values of e to the message for partition q of this copy.
func (x *Executor) sendReads(q int, e *execution, values []Value) {
	values = x.addReads(q, Read{e.at, len(values), e.reordered, e.stale}, values)
	x.RemoteReads++
	if x.c.Keeper != nil {
		x.c.Keeper.Served(e.at, q, values)
	}
}

// addReads adds values to the message for partition q of this copy. It returns the part of the message that contains
// the values.
func (x *Executor) addReads(q int, of Read, values []Value) []Value {
	m := x.outReads[q]
	if m == nil {
		m = &Reads{}
		x.outReads[q] = m
		x.readsTo = append(x.readsTo, q)
	}
	m.Reads = append(m.Reads, of)
	m.Values = append(m.Values, values...)
	return slices.Clip(m.Values[len(m.Values)-len(values):])
}

// sendAnswer adds an outcome to the message for a coordinator.
func (x *Executor) sendAnswer(to geo.NodeID, o txn.Outcome) {
	m := x.outAnswers[to]
	if m == nil {
		m = &Answers{}
		x.outAnswers[to] = m
		x.answersTo = append(x.answersTo, to)
	}
	m.Outcomes = append(m.Outcomes, o)
}

// Flush sends the data collected in the current step, one message for each kind of data and node. An engine calls it at
// the end of each step.
func (x *Executor) Flush() {
	for _, q := range x.readsTo {
		x.c.Env.Send(x.copy[q], x.outReads[q])
		x.outReads[q] = nil
	}
	x.readsTo = x.readsTo[:0]
	for _, n := range x.answersTo {
		x.c.Env.Send(n, x.outAnswers[n])
		delete(x.outAnswers, n)
	}
	x.answersTo = x.answersTo[:0]
}
