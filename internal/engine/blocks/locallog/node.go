// Package locallog is the common part of databases with homes (Ren et al., SLOG, VLDB 2019; Nguyen et al., Detock,
// SIGMOD 2023). Every row has a home region. Every region keeps a copy of all rows and one log, its local log, which
// orders the accesses to the rows with that home. All logs reach all regions, and every copy executes all transactions
// in an order that agrees with all logs.
//
// A transaction with a single home is forwarded there and is one entry of that log. A transaction with several homes
// becomes a part in each of their logs; the engine that embeds a Node decides how. Homes may move (remaster.go).
package locallog

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Timer kinds below EngineTimers are the package's.
const (
	localTimers   = 1 // to 3: of the region's own log
	forwardTimer  = 4
	remasterTimer = 5
	reconTimer    = 6
	mastersTimer  = 7
	EngineTimers  = 8
	// replicatedTimers to replicatedTimers+6 are the timers of all replicated logs.
	replicatedTimers = 100
	// pieceTimer and againTimer are the timers for rows that are sent to restarting copies.
	pieceTimer = 120
	againTimer = 121
)

// Config describes a node.
type Config struct {
	protocol.Config
	// Batch is the time for which a sequencer collects a batch for its region's log. Forward is the time for which a node
	// collects transactions for another region. Both start at the first transaction.
	Batch, Forward time.Duration
	// LockOnly makes parts small: of a transaction's parts at a partition, only the part in the log of the lowest region
	// holds the transaction. The others just name their keys.
	LockOnly bool
	// Reorderable is deterministic.Config's.
	Reorderable bool
	// MergeOnArrival selects a faulty variant, for tests. A copy orders a multi-home transaction in all its homes when the
	// part that holds the transaction arrives, regardless of the other homes' logs.
	MergeOnArrival bool
	// HomeOnly keeps rows in their home regions only: a region reads only its own log, and the participants of a
	// multi-home transaction are in all its homes.
	HomeOnly bool
	// Remaster is the number of consecutive transactions from one other region after which a row's home moves there. 0
	// disables moves.
	Remaster int64
	// AskMasters means that a node knows the homes of its own partition's rows only, and asks for others (masters.go).
	AskMasters bool
	// Orders lists the regions that lead the multi-home orders of nodes with replicated logs. OrderBatch is the time for
	// which a coordinator collects a batch for an order.
	Orders     []geo.Region
	OrderBatch time.Duration
	// These select faulty variants, for tests. TakesWhatIsHere: a reader takes the part of a multi-home order that it has
	// read, regardless of the home log. SilentLeader: a new leader of a home log has it take no order before that order
	// continues. Unfetched: a reader does not request data that was lost with its sequencer.
	TakesWhatIsHere, SilentLeader, Unfetched bool
	// Rejoins means that new incarnations can replace lost nodes: see rejoin.go. Reset, if not nil, is called when the
	// executor has discarded its state. Again handles messages that arrived too early before that.
	Rejoins bool
	Reset   func()
	Again   func(from geo.NodeID, m protocol.Message)
	// MultiHome takes a transaction of this node's clients that has several homes, or a remastering.
	MultiHome func(e Entry)
	// Arrive takes a forwarded part of a multi-home transaction.
	Arrive func(coordinator geo.NodeID, f Forwarded)
}

// Node is a node: a coordinator of its clients' transactions, a sequencer of its region's log, a reader of all logs and
// one partition of a copy.
type Node struct {
	c         Config
	Self      geo.NodeID
	Region    geo.Region
	Topology  *geo.Topology
	Placement geo.Placement
	layout    geo.Layout
	Env       protocol.Env
	Executor  *deterministic.Executor
	// Logs holds the local logs, by region, followed by the logs that the engine adds.
	Logs []*Log

	// orders are the multi-home orders, with replicated logs.
	orders     []*order
	replicated bool
	// rejoin is nil if no lost node can be replaced.
	rejoin *rejoining

	// outbox[n] are the transactions being collected for node n.
	outbox map[geo.NodeID][]Forwarded

	// remasterer is nil if homes don't move.
	remasterer *remasterer
	// lookups is nil if every node knows all homes.
	lookups *lookups
	recon   *reconnaissance.Reconnaissance
	// attempts are this node's clients' transactions that may have to be sent again.
	attempts map[txn.ID]*attempt

	unanswered                     int
	transactions, forwarded, parts int64
}

// New returns a node.
func New(c Config) *Node {
	t := c.Topology
	n := &Node{
		c: c, Self: c.Self, Region: t.RegionOf(c.Self), Topology: t, Placement: t.Placement(), Env: c.Env,
		outbox: map[geo.NodeID][]Forwarded{}, attempts: map[txn.ID]*attempt{}, replicated: Replicated(c.Params),
	}
	n.layout = layout(t, c.HomeOnly)
	dc := deterministic.Config{
		Self: c.Self, Layout: n.layout, Procedures: c.Procedures, Store: c.Store.(*store.Hash), Env: c.Env, Answer: n.answer,
		KeepLocks: true, Reorderable: c.Reorderable,
	}
	if c.Rejoins {
		dc.Env = &resetEnv{c.Env, n}
	}
	if c.Remaster > 0 {
		n.remasterer = newRemasterer(n, c.Remaster)
		dc.Moves = n.remasterer
	}
	if c.AskMasters {
		n.lookups = newLookups(n)
	}
	n.Executor = deterministic.New(dc)
	n.recon = reconnaissance.New(reconnaissance.Config{Config: c.Config, Layout: n.layout, Order: n.send, Answer: n.reply, Timer: reconTimer})
	holders := make([][]geo.NodeID, t.Partitions)
	for id := range t.Nodes() {
		q := t.PartitionOf(geo.NodeID(id))
		holders[q] = append(holders[q], geo.NodeID(id))
	}
	for r := range t.Regions {
		home := geo.Region(r)
		lc := LogConfig{
			Number: uint64(r), Members: []geo.NodeID{First(t, home)}, Interval: c.Batch, Timers: localTimers,
			Readers: holders, Group: t.PartitionOf(c.Self),
			Groups: func(e *Entry, groups []int) []int {
				if e.Remaster { // every group must know
					return everyPartition(t, groups)
				}
				for i := range e.Txn.Accesses {
					if !e.Part || n.HomeOf(e, i) == home {
						groups = append(groups, n.Placement.Partition(e.Txn.Accesses[i].Key))
					}
				}
				return groups
			},
		}
		if c.HomeOnly {
			lc.Readers, lc.Audience = make([][]geo.NodeID, t.Partitions), []geo.NodeID{}
			for q := range lc.Readers {
				for k := range t.Replicas {
					lc.Readers[q] = append(lc.Readers[q], t.Node(home, q, k))
				}
				lc.Audience = append(lc.Audience, lc.Readers[q]...)
			}
		}
		if !c.HomeOnly || home == n.Region {
			lc.Read = func(e *Entry) { n.read(home, e) }
		}
		if n.replicated {
			lc.Members, lc.Timers, lc.Replicated, lc.Copies, lc.Unfetched = Members(t, c.Params, home), replicatedTimers, true, n.copies(), c.Unfetched
			if lc.Streams = len(c.Orders); !c.SilentLeader {
				lc.Led = n.led
			}
			lc.Take = func(x int, upto uint64) bool { return n.take(home, x, upto) }
			if c.Rejoins {
				lc.Mark = func(m geo.NodeID, incarnation uint32) bool { return n.rejoin.homeMark(m, incarnation) }
				lc.Sent = func(batch uint64, entries []Entry) { n.rejoin.sent(uint64(r), batch, entries) }
			}
		}
		if c.LockOnly && !c.HomeOnly { // else each participant gets one part
			lc.Shape = func(e Entry, q int) Entry { return n.lockOnly(e, q, home) }
		}
		n.Logs = append(n.Logs, NewLog(c.Config, lc))
	}
	if n.replicated {
		n.addOrders(holders)
	}
	if c.Rejoins {
		n.rejoin = newRejoining(n)
	}
	return n
}

// First returns the first node of a region. It stores the order of the region's log and puts the parts of multi-home
// transactions into it: they arrive in one stream, so that a single node decides on their order.
func First(t *geo.Topology, r geo.Region) geo.NodeID { return t.Node(r, 0, 0) }

// RoleLeader is the role of a node that leads a region's log.
const RoleLeader = "leader"

// Roles implements protocol.RoleHolder.
func (n *Node) Roles() []string {
	for r := range n.Topology.Regions {
		if n.Logs[r].Order.Leading() {
			return []string{RoleLeader}
		}
	}
	return nil
}

// Own returns the log of the node's region.
func (n *Node) Own() *Log { return n.Logs[n.Region] }

// HomeOf returns the region to which an entry was sent for its access i.
func (n *Node) HomeOf(e *Entry, i int) geo.Region {
	home, _ := e.Homes.Of(n.Placement, e.Txn.Accesses, i)
	return home
}

// Homes appends the regions to which an entry was sent, in the order of its keys: the homes of the keys, and the region
// to which a remastering moves its key.
func (n *Node) Homes(e *Entry, homes []geo.Region) []geo.Region {
	if e.Remaster {
		return append(homes, n.HomeOf(e, 0), e.To)
	}
next:
	for i := range e.Txn.Accesses {
		home := n.HomeOf(e, i)
		for _, h := range homes {
			if h == home {
				continue next
			}
		}
		homes = append(homes, home)
	}
	return homes
}

// Start begins the node's work.
func (n *Node) Start() {
	for _, l := range n.Logs {
		l.Order.Start()
	}
}

// Submit handles a transaction of this node's clients. A single-home transaction goes to the node of its home that has
// the same position in its region as this node.
func (n *Node) Submit(t *txn.Transaction) {
	n.unanswered++
	n.transactions++
	if j := n.rejoin; j != nil && j.held {
		n.Env.Mark(submittedEarly)
		j.submitted = append(j.submitted, t)
		return
	}
	n.submit(t)
}

func (n *Node) submit(t *txn.Transaction) {
	if t.Exact {
		n.send(t)
	} else {
		n.recon.Begin(t)
	}
}

// attempt is a transaction and how often it was sent again.
type attempt struct {
	t      *txn.Transaction
	number uint64
}

// send sends a transaction to its home or homes, for the first time or again. The locations of its rows are known.
func (n *Node) send(t *txn.Transaction) {
	a := n.attempts[t.ID]
	switch {
	case a != nil:
		a.t = t
		a.number++
	case t.Found || n.remasterer != nil:
		a = &attempt{t: t}
		n.attempts[t.ID] = a
	default:
		n.route(t, 0)
		return
	}
	n.route(t, a.number)
}

// route sends a transaction to its home or homes, once these are known.
func (n *Node) route(t *txn.Transaction, attempt uint64) {
	if n.lookups != nil && n.lookups.begin(t, attempt) {
		return
	}
	var homes deterministic.Homes
	if n.remasterer != nil {
		homes = n.remasterer.homes(t)
	}
	n.dispatch(t, attempt, homes)
}

// dispatch sends a transaction to its home or homes, some of which may have moved.
func (n *Node) dispatch(t *txn.Transaction, attempt uint64, homes deterministic.Homes) {
	e := Entry{Txn: t, Coordinator: n.Self, Placing: Placing{Attempt: attempt, Homes: homes}}
	home := n.HomeOf(&e, 0)
	for i := range t.Accesses[1:] {
		if n.HomeOf(&e, i+1) != home {
			n.c.MultiHome(e)
			return
		}
	}
	if home == n.Region || n.replicated {
		n.Logs[home].Add(e)
		return
	}
	n.Env.Mark(forwarded)
	n.Forward(n.Topology.Node(home, n.Topology.PartitionOf(n.Self), n.Topology.ReplicaOf(n.Self)), Forwarded{Txn: t, Placing: e.Placing})
}

// Forward sends a transaction to another node, along with others.
func (n *Node) Forward(to geo.NodeID, f Forwarded) {
	n.forwarded++
	n.outbox[to] = append(n.outbox[to], f)
	if n.c.Forward == 0 {
		n.sendForward(to)
	} else if len(n.outbox[to]) == 1 {
		n.Env.After(n.c.Forward, protocol.Timer{Kind: forwardTimer, Arg: uint64(to)})
	}
}

func (n *Node) sendForward(to geo.NodeID) {
	if txns := n.outbox[to]; len(txns) > 0 {
		if len(txns) > 1 {
			n.Env.Mark(forwardedTogether)
		}
		delete(n.outbox, to)
		n.Env.Send(to, &Forward{txns})
	}
}

// AddPart puts the part of a multi-home transaction, or of a remastering, into the region's log. Parts of one batch
// that have a time (see Forwarded.NotBefore) are logged in time order, as if none had arrived late.
func (n *Node) AddPart(t *txn.Transaction, coordinator geo.NodeID, p Placing, notBefore time.Duration) {
	n.parts++
	n.Own().Add(Entry{Txn: t, Coordinator: coordinator, Part: true, LockOnly: p.Remaster, Placing: p, notBefore: notBefore})
}

// lockOnly strips a part in home's log for partition q, unless it is the part that holds the transaction.
func (n *Node) lockOnly(e Entry, q int, home geo.Region) Entry {
	if !e.Part || e.Remaster {
		return e
	}
	lowest := home
	own := 0
	for i := range e.Txn.Accesses {
		if k := e.Txn.Accesses[i].Key; n.Placement.Partition(k) == q {
			h := n.HomeOf(&e, i)
			lowest = min(lowest, h)
			if h == home {
				own++
			}
		}
	}
	if lowest == home {
		return e
	}
	n.Env.Mark(lockOnly)
	locks := &txn.Transaction{ID: e.Txn.ID}
	locks.Accesses = make([]txn.Access, 0, own)
	var homes deterministic.Homes
	for i, a := range e.Txn.Accesses {
		h, count := e.Homes.Of(n.Placement, e.Txn.Accesses, i)
		if n.Placement.Partition(a.Key) != q || h != home {
			continue
		}
		if count > 0 {
			homes = append(homes, deterministic.Moved{Access: uint32(len(locks.Accesses)), Home: h, Count: count})
		}
		locks.Accesses = append(locks.Accesses, a)
	}
	e.Txn, e.LockOnly, e.Homes = locks, true, homes
	return e
}

// read hands an entry of home's log to the executor.
func (n *Node) read(home geo.Region, e *Entry) {
	if e.Remaster {
		if n.remasterer != nil {
			n.remasterer.read(home, e)
		}
		return
	}
	if n.remasterer != nil && home == n.Region {
		n.remasterer.visit(e)
	}
	at := deterministic.PlaceOf(e.Txn.ID, e.Attempt)
	if n.c.MergeOnArrival && e.LockOnly {
		return
	}
	if e.Part && !n.c.MergeOnArrival {
		n.Executor.Part(at, e.Txn, e.LockOnly, e.Coordinator, home, e.Homes)
	} else {
		n.Executor.RunAt(at, e.Txn, e.Coordinator, e.Homes)
	}
}

// Receive handles a message. It reports whether the message was one of this package's.
func (n *Node) Receive(from geo.NodeID, m protocol.Message) bool {
	switch m := m.(type) {
	case *Batch:
		if m.Log < uint64(len(n.Logs)) { // or it is corrupt
			n.Logs[m.Log].Receive(from, m)
		}
	case *Forward:
		for _, f := range m.Txns {
			if f.Part {
				n.c.Arrive(from, f)
			} else {
				n.Own().Add(Entry{Txn: f.Txn, Coordinator: from, Placing: f.Placing})
			}
		}
	case *batchlog.OrderRequest:
		n.order(m.Log, from, m)
	case *batchlog.Positions:
		n.order(m.Log, from, m)
	case *batchlog.Fetch:
		n.order(m.Log, from, m)
	case *batchlog.Void:
		n.order(m.Log, from, m)
	case *batchlog.Started:
		n.order(m.Log, from, m)
	case *batchlog.Sent:
		n.order(m.Log, from, m)
	case *batchlog.Held:
		n.order(m.Log, from, m)
	case *batchlog.Kept:
		n.order(m.Log, from, m)
	case *batchlog.Missing:
		if l := n.readLog(m.Log); l != nil {
			l.reader.Missing(from, m)
		}
	case *Copy:
		if l := n.readLog(m.Log); l != nil {
			l.reader.Fetched(m.Sequencer, m.Batch)
			l.hasRead()
		}
	case *OfLog:
		n.order(m.Log, from, m.Message)
	case *consensus.Message:
		// Local logs have one member each, so a message of a group is for the engine's log, which is the last log.
		n.order(uint64(len(n.Logs)-1), from, m)
	case *Ask:
		if j := n.rejoin; j != nil && j.held {
			j.asks = append(j.asks, heldAsk{from, m})
		} else {
			n.tell(from, m)
		}
	case *Told:
		if n.lookups != nil { // or it is corrupt
			n.lookups.told(from, m)
		}
	case *deterministic.Reads:
		if n.Timely(from, 0, m) {
			n.Executor.Reads(from, m)
		}
	case *ReadsSince:
		if n.Timely(from, m.Since, m) {
			n.Executor.Reads(from, m.Reads)
		}
	case *deterministic.Answers:
		for _, o := range m.Outcomes {
			n.answer(o)
		}
	default:
		return n.recon.Receive(from, m) || n.rejoin != nil && n.rejoin.resets.Receive(from, m)
	}
	return true
}

// readLog returns a log that this node reads, or nil.
func (n *Node) readLog(number uint64) *Log {
	if number < uint64(len(n.Logs)) && n.Logs[number].reader != nil { // or it is corrupt
		return n.Logs[number]
	}
	return nil
}

// Flush sends the messages that the step has collected. An engine calls it at the end of each step.
func (n *Node) Flush() {
	if n.rejoin != nil {
		n.rejoin.flush()
	}
	n.Executor.Flush()
	n.recon.Flush()
}

// order hands a message on to the order of a log, unless it is corrupt.
func (n *Node) order(log uint64, from geo.NodeID, m protocol.Message) {
	if log < uint64(len(n.Logs)) {
		n.Logs[log].Order.Receive(from, m)
	}
}

// Fire handles one of this package's timers.
func (n *Node) Fire(t protocol.Timer) {
	switch t.Kind {
	case forwardTimer:
		n.sendForward(geo.NodeID(t.Arg))
	case remasterTimer:
		n.remasterer.fire()
	case reconTimer:
		n.recon.Fire()
	case mastersTimer:
		n.lookups.send(geo.NodeID(t.Arg))
	case pieceTimer, againTimer:
		n.rejoin.resets.Fire(t)
	default:
		if t.Kind < replicatedTimers {
			n.Own().Fire(t)
			return
		}
		l := n.Logs[t.Arg>>logShift]
		t.Arg &= 1<<logShift - 1
		l.Fire(t)
	}
}

// answer takes the outcome of a transaction. One that has to be sent again is no outcome for its client.
func (n *Node) answer(o txn.Outcome) {
	if n.rejoin != nil && !n.rejoin.closed(o.ID) {
		n.Env.Mark(answeredLate)
		return
	}
	if !n.recon.Outcome(&o) {
		return
	}
	if o.Cause == txn.CauseMoved {
		n.remasterer.restart(n.attempts[o.ID].t)
		return
	}
	delete(n.attempts, o.ID)
	n.reply(o)
}

// reply sends a client its transaction's outcome.
func (n *Node) reply(o txn.Outcome) {
	n.unanswered--
	n.Env.Reply(o)
}

// Pending is the number of this node's clients' transactions without an answer and of others' that are known here and
// not finished.
func (n *Node) Pending() int {
	p := n.unanswered + n.Executor.Foreign()
	for _, l := range n.Logs {
		p += l.pending()
	}
	for _, o := range n.orders {
		p += o.foreign
	}
	if n.rejoin != nil {
		p += n.rejoin.resets.Pending()
	}
	return p
}

// Readings appends the readings that Figures declares, and master_lookups where homes are looked up.
func (n *Node) Readings(dst []protocol.Reading) []protocol.Reading {
	var batches int64
	for _, l := range n.Logs {
		batches += l.batches
	}
	dst = append(dst,
		protocol.Reading{Name: "batches", Value: batches},
		protocol.Reading{Name: "transactions", Value: n.transactions},
		protocol.Reading{Name: "forwarded", Value: n.forwarded},
		protocol.Reading{Name: "parts", Value: n.parts},
	)
	dst = n.recon.Readings(n.Executor.Readings(dst))
	var moved, restarts int64
	if n.remasterer != nil {
		moved, restarts = n.remasterer.moved, n.remasterer.restarts
	}
	if n.lookups != nil {
		dst = append(dst, protocol.Reading{Name: "master_lookups", Value: n.lookups.looked})
	}
	return append(dst,
		protocol.Reading{Name: "multi_home", Value: n.Executor.MultiHome},
		protocol.Reading{Name: "remasterings", Value: moved},
		protocol.Reading{Name: "restarts", Value: restarts},
		protocol.Reading{Name: "log_position", Value: int64(n.Own().Order.Position())},
	)
}
