// Package locallog is shared by engines whose rows have homes (Ren et al., SLOG, VLDB 2019; Nguyen et al., Detock,
// SIGMOD 2023). Every row has a home region. Every region keeps a copy of all rows and a log, its local log, which
// orders the accesses to the rows with that home. All regions read all logs, and every copy executes all transactions
// in an order that agrees with all logs.
//
// A single-home transaction is forwarded to its home and becomes one entry of the home's log. A multi-home transaction
// becomes a part in each home's log; the engine that embeds a Node decides how. Rows can change their home
// (remaster.go).
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

// Timer kinds below EngineTimers belong to the package.
const (
	localTimers   = 1 // kinds 1 to 3 belong to the region's local log
	forwardTimer  = 4
	remasterTimer = 5
	reconTimer    = 6
	mastersTimer  = 7
	EngineTimers  = 8
	// replicatedTimers to replicatedTimers+6 are the timers of all replicated logs.
	replicatedTimers = 100
	// pieceTimer and againTimer are the timers of state transfers to restarting copies.
	pieceTimer = 120
	againTimer = 121
)

// Config describes a node.
type Config struct {
	protocol.Config
	// Batch is the time for which a sequencer collects a batch for its region's log. Forward is the time for which a node
	// collects transactions for another node. Both start with the first transaction.
	Batch, Forward time.Duration
	// LockOnly makes parts small: among a transaction's parts at a partition, only the part in the log of the lowest
	// region contains the transaction. The others contain only keys.
	LockOnly bool
	// Reorderable sets the field of this name in deterministic.Config.
	Reorderable bool
	// MergeOnArrival selects a faulty variant, for tests. A node then orders a multi-home transaction in all its homes as
	// soon as the part with the transaction arrives. It does not wait for the parts in the other homes' logs.
	MergeOnArrival bool
	// HomeOnly stores rows only in their home regions. A region then reads only its own log, and a multi-home transaction
	// has participants in all its homes.
	HomeOnly bool
	// Remaster is the number of consecutive transactions from another region after which a row's home moves to that
	// region. 0 disables moves.
	Remaster int64
	// AskMasters is set if a node knows only the homes of its partition's rows, and looks up all other homes at other
	// nodes (masters.go).
	AskMasters bool
	// Orders lists, for each multi-home order, the region of its first leader. Only databases with replicated logs have
	// such orders. OrderBatch is the time for which a coordinator collects a batch for an order.
	Orders     []geo.Region
	OrderBatch time.Duration
	// Faulty variants, for tests. TakesWhatIsHere: a reader takes all entries of a multi-home order that it has read,
	// regardless of the home log. SilentLeader: a new leader does not make its home log take an order until that order
	// grows. Unfetched: a reader does not request data that was lost with its sequencer.
	TakesWhatIsHere, SilentLeader, Unfetched bool
	// Rejoins is set if new incarnations can replace lost nodes: see rejoin.go. Reset, if not nil, is called when the
	// executor has discarded its state. Again handles messages that had to wait until then.
	Rejoins bool
	Reset   func()
	Again   func(from geo.NodeID, m protocol.Message)
	// MultiHome handles a multi-home transaction of this node's clients, or a remastering.
	MultiHome func(e Entry)
	// Arrive handles a forwarded part of a multi-home transaction.
	Arrive func(coordinator geo.NodeID, f Forwarded)
}

// Node is a coordinator of its clients' transactions, a sequencer of its region's log, a reader of the logs, and a
// partition of a copy.
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

	// orders holds the multi-home orders; empty without replicated logs.
	orders     []*order
	replicated bool
	// rejoin is nil if lost nodes cannot be replaced.
	rejoin *rejoining

	// outbox[n] holds the transactions being collected for node n.
	outbox map[geo.NodeID][]Forwarded

	// remasterer is nil if homes do not move.
	remasterer *remasterer
	// lookups is nil if every node knows all homes.
	lookups *lookups
	recon   *reconnaissance.Reconnaissance
	// attempts holds the transactions of this node's clients that may have to be sent again.
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
				if e.Remaster { // every partition must read the move
					return everyPartition(t, groups)
				}
				for i := range e.Txn.Accesses {
					// A part concerns only the keys with this home; the logs of the other homes order the remaining keys.
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
		// With HomeOnly, a region stores only the rows with that home, so it reads only its own log.
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
		if c.LockOnly && !c.HomeOnly { // with HomeOnly, a participant receives a single part
			lc.Shape = func(e Entry, q int) Entry { return n.lockOnly(e, q, home) }
		}
		n.Logs = append(n.Logs, NewLog(c.Config, lc))
	}
	if n.replicated {
		// The orders follow the home logs in n.Logs, because the number of a log is its index there.
		n.addOrders(holders)
	}
	if c.Rejoins {
		n.rejoin = newRejoining(n)
	}
	return n
}

// First returns the first node of a region. It stores the order of the region's log, and puts the parts of multi-home
// transactions into it, so that a single node decides their order.
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

// Own returns the local log of the node's region.
func (n *Node) Own() *Log { return n.Logs[n.Region] }

// HomeOf returns the home of access i of an entry: the region to which the entry was sent for this access.
func (n *Node) HomeOf(e *Entry, i int) geo.Region {
	home, _ := e.Homes.Of(n.Placement, e.Txn.Accesses, i)
	return home
}

// Homes appends the regions to which an entry was sent: the homes of its keys in order, each once. For a remastering,
// these are the old home and the new home.
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

// Start starts the node's logs.
func (n *Node) Start() {
	for _, l := range n.Logs {
		l.Order.Start()
	}
}

// Submit handles a transaction of this node's clients. A single-home transaction goes to the node in its home region
// with the same partition and replica number as this node.
func (n *Node) Submit(t *txn.Transaction) {
	n.unanswered++
	n.transactions++
	// A new incarnation without rows does not know which rows have moved, so it cannot route.
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

// attempt is a transaction and the number of its current attempt.
type attempt struct {
	t      *txn.Transaction
	number uint64
}

// send sends a transaction with a known footprint to its home or homes, for the first time or again.
func (n *Node) send(t *txn.Transaction) {
	a := n.attempts[t.ID]
	switch {
	case a != nil:
		// The footprint was stale and has been determined again, so the new transaction replaces the old one.
		a.t = t
		a.number++
	// A transaction is sent again only if a reconnaissance found its footprint, which can become stale, or if rows can
	// move.
	case t.Found || n.remasterer != nil:
		a = &attempt{t: t}
		n.attempts[t.ID] = a
	default:
		n.route(t, 0)
		return
	}
	n.route(t, a.number)
}

// route sends a transaction to its home or homes, after lookups have found them if necessary.
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

// dispatch sends a transaction to its home or homes; homes lists the rows that have moved.
func (n *Node) dispatch(t *txn.Transaction, attempt uint64, homes deterministic.Homes) {
	e := Entry{Txn: t, Coordinator: n.Self, Placing: Placing{Attempt: attempt, Homes: homes}}
	home := n.HomeOf(&e, 0)
	for i := range t.Accesses[1:] {
		if n.HomeOf(&e, i+1) != home {
			n.c.MultiHome(e)
			return
		}
	}
	// With replicated logs, every coordinator is a sequencer of every log, because a forwarded transaction could be lost
	// with its receiver.
	if home == n.Region || n.replicated {
		n.Logs[home].Add(e)
		return
	}
	n.Env.Mark(forwarded)
	n.Forward(n.Topology.Node(home, n.Topology.PartitionOf(n.Self), n.Topology.ReplicaOf(n.Self)), Forwarded{Txn: t, Placing: e.Placing})
}

// Forward sends a transaction to another node, in a message that may contain further transactions.
func (n *Node) Forward(to geo.NodeID, f Forwarded) {
	n.forwarded++
	n.outbox[to] = append(n.outbox[to], f)
	if n.c.Forward == 0 {
		n.sendForward(to)
		// The first transaction starts the timer; later ones are sent with it.
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

// AddPart adds the part of a multi-home transaction, or of a remastering, to the region's log. Parts of one batch with
// a time (see Forwarded.NotBefore) are logged in time order, even if they arrived in another order.
func (n *Node) AddPart(t *txn.Transaction, coordinator geo.NodeID, p Placing, notBefore time.Duration) {
	n.parts++
	n.Own().Add(Entry{Txn: t, Coordinator: coordinator, Part: true, LockOnly: p.Remaster, Placing: p, notBefore: notBefore})
}

// lockOnly reduces a part in home's log for partition q to its locks, unless it is the part that contains the
// transaction.
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
	// All copies must choose the same part, so the lowest home region decides.
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
			// The index of an access changes when other accesses are removed.
			homes = append(homes, deterministic.Moved{Access: uint32(len(locks.Accesses)), Home: h, Count: count})
		}
		locks.Accesses = append(locks.Accesses, a)
	}
	e.Txn, e.LockOnly, e.Homes = locks, true, homes
	return e
}

// read handles an entry of home's log.
func (n *Node) read(home geo.Region, e *Entry) {
	if e.Remaster {
		if n.remasterer != nil {
			n.remasterer.read(home, e)
		}
		return
	}
	// Only the home counts the accesses to its rows, so that one region alone decides on a move.
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

// Receive handles a message and reports whether it belongs to this package.
func (n *Node) Receive(from geo.NodeID, m protocol.Message) bool {
	switch m := m.(type) {
	case *Batch:
		if m.Log < uint64(len(n.Logs)) { // else the message is corrupt
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
			// As in Log.Receive, the data may have let the reader advance.
			l.hasRead()
		}
	case *OfLog:
		n.order(m.Log, from, m.Message)
	case *consensus.Message:
		// A consensus message without a log number is for the engine's log, which is the last. In this configuration, local
		// logs have a single member and send no such messages.
		n.order(uint64(len(n.Logs)-1), from, m)
	case *Ask:
		// Before it has rows, a new incarnation does not know the moves, so its answers would be outdated.
		if j := n.rejoin; j != nil && j.held {
			j.asks = append(j.asks, heldAsk{from, m})
		} else {
			n.tell(from, m)
		}
	case *Told:
		if n.lookups != nil { // else the message is corrupt
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

// readLog returns log number if this node reads it, else nil.
func (n *Node) readLog(number uint64) *Log {
	if number < uint64(len(n.Logs)) && n.Logs[number].reader != nil { // else the message is corrupt
		return n.Logs[number]
	}
	return nil
}

// Flush sends the messages collected in the current step. An engine calls it at the end of each step.
func (n *Node) Flush() {
	// Do the rejoin work first, because a cut may discard the executor's outgoing reads or produce further reads.
	if n.rejoin != nil {
		n.rejoin.flush()
	}
	n.Executor.Flush()
	n.recon.Flush()
}

// order passes a message to the order of a log, unless its log number is corrupt.
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
		// Without replication, only the log of the node's own region sets timers, and their Arg contains no log number.
		if t.Kind < replicatedTimers {
			n.Own().Fire(t)
			return
		}
		l := n.Logs[t.Arg>>logShift]
		t.Arg &= 1<<logShift - 1
		l.Fire(t)
	}
}

// answer handles the outcome of a transaction. If the transaction must be sent again, its client gets no outcome yet.
func (n *Node) answer(o txn.Outcome) {
	// The client has already received an unknown outcome, when the copy restarted.
	if n.rejoin != nil && !n.rejoin.closed(o.ID) {
		n.Env.Mark(answeredLate)
		return
	}
	if !n.recon.Outcome(&o) {
		return
	}
	// The client must not see this outcome: the transaction runs again with the new homes.
	if o.Cause == txn.CauseMoved {
		n.remasterer.restart(n.attempts[o.ID].t)
		return
	}
	delete(n.attempts, o.ID)
	n.reply(o)
}

// reply sends a client the outcome of its transaction.
func (n *Node) reply(o txn.Outcome) {
	n.unanswered--
	n.Env.Reply(o)
}

// Pending returns the number of unanswered transactions of this node's clients, plus the known unfinished transactions
// submitted by clients of other nodes.
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

// Readings appends the values of Figures to dst. It includes master_lookups only if nodes look up homes.
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
