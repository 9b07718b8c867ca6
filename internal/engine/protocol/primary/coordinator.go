package primary

import (
	"maps"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// coordinator handles the transactions of the node's clients.
type coordinator struct {
	r                 *Replica
	reads             string
	perStatement      bool // with reads: Global, a barrier precedes each statement, not only the transaction
	whole             bool // transactions that write are sent to the writer as procedures
	single            bool // the region's instance coordinates all transactions of the region
	barrierRoundTrips int
	begins            int // round trips that begin a transaction at the writer, before its first statement
	patience          time.Duration

	number  uint64
	open    map[uint64]*transaction
	numbers queue.Queue[uint64] // numbers of the open transactions, oldest first, and of some closed transactions
	waiting []*transaction      // transactions that wait for log entries
	ticking bool                // a timer is set
	// seen is the latest log entry whose effects a client of the region may have observed. With session reads, later
	// transactions read a state that includes this entry.
	seen uint64
	// unsure is set in a new incarnation until the writer has reported its commit position, because the predecessor may
	// have seen later entries.
	unsure bool
	// relays are the sessions of the transactions that other nodes of the region have relayed to this node.
	relays sessions

	transactions, relayedAway, localReads, logWaits, barriers, statements, forwarded, resent int64
}

// transaction is an unanswered transaction.
type transaction struct {
	*txn.Transaction
	number uint64
	origin *raftgroup.Name // the transaction's name at the node that has relayed it, or nil

	// request is the transaction's last request, sent at time sent. The coordinator repeats it until it is answered. step
	// is the number of this round trip of the transaction. request is nil while the transaction waits for log entries.
	request protocol.Message
	sent    time.Duration
	step    uint64

	readOnly bool
	asked    int    // round trips for barriers so far
	position uint64 // the transaction needs a copy that has applied the log up to this entry

	// The following fields describe how the transaction is forwarded to the writer. They are used once the procedure has
	// run.
	executed  bool
	reads     optimistic.Reads
	writes    []txn.WriteEntry
	outcome   txn.Outcome // outcome of the procedure, valid if the writer commits the transaction
	begun     int         // round trips so far to begin the transaction at the writer
	wrote     int         // statements sent to the writer
	barriered int         // round trips so far for the barrier before the next statement
}

func (c *coordinator) init(r *Replica, incarnation uint32) {
	p := r.params
	c.number, c.unsure = raftgroup.First(incarnation)-1, incarnation > 0
	c.r, c.open, c.relays = r, map[uint64]*transaction{}, sessions{}
	c.reads, c.perStatement = p.Word("reads"), p.Word("barrier") == barrierStatement
	c.whole = p.Word("forward") == forwardProcedures
	c.single = c.reads == readsSession || p.Word("readers") == readersInstance
	c.barrierRoundTrips, c.begins = int(p.Int("barrierRoundTrips")), int(p.Int("overhead"))-1
	c.patience = p.Duration("reconnect") + r.topology.LongestRTT()
}

// oldest returns the lowest number of an open transaction, or the next number if none is open.
func (c *coordinator) oldest() uint64 {
	for c.numbers.Len() > 0 {
		if n := c.numbers.Front(); c.open[n] != nil {
			return n
		}
		c.numbers.Pop()
	}
	return c.number + 1
}

// take accepts a transaction of a client. If origin is not nil, another node of the region has relayed the transaction.
func (c *coordinator) take(t *txn.Transaction, origin *raftgroup.Name) {
	c.number++
	x := &transaction{Transaction: t, number: c.number, origin: origin, readOnly: c.r.procs.ReadsOnly(t)}
	c.open[x.number] = x
	c.numbers.Push(x.number)
	c.tick()
	switch { // in Aurora, the client would connect to the endpoint that this switch selects
	// The writer executes the transactions of its own region itself, so they need no copy.
	case c.r.topology.RegionOf(c.r.log.writer) == c.r.region:
		c.call(x)
	case c.elsewhere():
		c.relay(x)
	case c.whole && !x.readOnly:
		c.call(x)
	default:
		if c.reads == readsSession && c.r.wrong != forgottenSession {
			x.position = c.seen
		}
		c.read(x)
	}
}

// elsewhere reports whether this node must relay its clients' transactions to the region's instance.
func (c *coordinator) elsewhere() bool {
	return c.single && c.r.topology.RegionOf(c.r.log.writer) != c.r.region && c.r.self != instance(c.r.topology, c.r.region)
}

// relay sends a transaction to the region's instance.
func (c *coordinator) relay(x *transaction) {
	c.relayedAway++
	c.r.env.Mark(relayed)
	c.send(x, instance(c.r.topology, c.r.region), &Relay{Number: x.number, Oldest: c.oldest(), Transaction: x.Transaction})
}

// call sends a whole transaction to the writer.
func (c *coordinator) call(x *transaction) {
	if c.r.topology.RegionOf(c.r.log.writer) != c.r.region {
		c.forwarded++
	}
	c.send(x, c.r.log.writer, &Call{Term: c.r.log.term, Number: x.number, Oldest: c.oldest(), Transaction: x.Transaction})
}

// send sends a request and records it for repetition. If this node is the receiver, it handles the request immediately.
func (c *coordinator) send(x *transaction, to geo.NodeID, m protocol.Message) {
	x.request, x.sent = m, c.r.env.Now()
	if to == c.r.self {
		c.r.Receive(to, m)
		return
	}
	c.r.env.Send(to, m)
}

// ask numbers the next request of a transaction and sends it to the writer.
func (c *coordinator) ask(x *transaction, m *Request) {
	x.step++
	m.Term, m.Number, m.Oldest, m.Step = c.r.log.term, x.number, c.oldest(), x.step
	if m.Barrier {
		c.barriers++
	}
	c.send(x, c.r.log.writer, m)
}

// trips returns the number of round trips for barriers before a transaction with the given number of reads can run.
func (c *coordinator) trips(reads int) int {
	switch {
	case c.reads == readsSession && c.unsure:
		return 1
	case c.reads != readsGlobal || c.r.wrong == unaskedWriter:
		return 0
	case c.perStatement:
		// A procedure without reads still runs one statement.
		return max(1, reads) * c.barrierRoundTrips
	}
	return c.barrierRoundTrips
}

// read executes a transaction on this node's copy, once the copy is recent enough.
func (c *coordinator) read(x *transaction) {
	switch {
	case c.r.writes(): // this node became the writer in a failover, so its rows may include uncommitted entries
		c.r.env.Mark(readAtWriter)
		c.call(x)
	// The number of reads is unknown before the first execution. execute requests the remaining barriers.
	case x.asked < c.trips(0):
		x.asked++
		c.ask(x, &Request{Barrier: true})
	case c.r.catchUp.lacks || x.position > c.r.log.applied:
		c.logWaits++
		c.r.env.Mark(logAwaited)
		// The transaction waits for the log and not for a reply, so there is no request to repeat.
		x.request = nil
		c.waiting = append(c.waiting, x)
	default:
		c.execute(x)
	}
}

// execute runs the procedure on the copy. If a barrier precedes each statement, the first run determines the number of
// statements, and the procedure runs again after the barriers.
func (c *coordinator) execute(x *transaction) {
	o := c.r.execution.Outcome(c.r.procs, x.Transaction, c.r.topology.Placement())
	reads := c.r.execution.Reads()
	if c.perStatement && x.asked < c.trips(len(reads.Points)+len(reads.Ranges)) {
		x.asked++
		c.ask(x, &Request{Barrier: true})
		return
	}
	writes := c.r.execution.Writes()
	// The copy is a past state of the database, so the writer need not validate a result without writes.
	if o.Status != txn.Committed || len(writes) == 0 {
		c.localReads++
		c.finish(x, o, c.r.log.applied)
		return
	}
	c.forwarded++
	// The execution reuses its memory of the writes, but the statements are sent later, one by one.
	x.executed, x.reads, x.writes, x.outcome = true, reads, slices.Clone(writes), o
	c.forward(x)
}

// forward sends the next request of a transaction that writes: a begin, a barrier, a statement or the commit.
func (c *coordinator) forward(x *transaction) {
	before := 0
	if c.perStatement && c.reads == readsGlobal {
		before = c.barrierRoundTrips
	}
	switch {
	case x.begun < c.begins:
		x.begun++
		c.ask(x, &Request{First: x.begun == 1})
	case x.wrote < len(x.writes) && x.barriered < before:
		x.barriered++
		c.ask(x, &Request{Barrier: true})
	case x.wrote < len(x.writes):
		// The next statement needs its own barriers.
		x.barriered = 0
		x.wrote++
		c.statements++
		// Only the first request may create a session. If a later request finds no session, the writes of the earlier
		// requests are lost.
		c.ask(x, &Request{First: x.begun == 0 && x.wrote == 1, Writes: x.writes[x.wrote-1 : x.wrote : x.wrote]})
	default:
		// The new step keeps a late Reply to the last statement from sending the Commit again.
		x.step++
		c.send(x, c.r.log.writer, &Commit{Term: c.r.log.term, Number: x.number, Oldest: c.oldest(), ID: x.ID, Reads: x.reads})
	}
}

// replied handles the writer's reply to a Request. It ignores a second reply to a repeated request.
func (c *coordinator) replied(m *Reply) {
	x := c.open[m.Number]
	// Each round trip has its own step, so a reply to an earlier round trip cannot continue the transaction twice.
	if x == nil || x.request == nil || m.Step != x.step {
		return
	}
	if x.executed {
		c.forward(x)
		return
	}
	x.position = max(x.position, m.Committed)
	if c.unsure {
		c.seen, c.unsure = max(c.seen, m.Committed), false
	}
	c.read(x)
}

// answered handles the answer to a transaction. It ignores a second answer to a repeated request.
func (c *coordinator) answered(m *Answer) {
	x := c.open[m.Number]
	if x == nil {
		return
	}
	o := m.Outcome
	// The writer has not executed the procedure, so only this node knows the procedure's result.
	if x.executed && o.Status == txn.Committed {
		o = x.outcome
	}
	// If the session was lost, the writer does not know the transaction's ID.
	o.ID = x.ID
	c.finish(x, o, m.Entry)
}

// finish answers a transaction whose result includes the log up to the given entry.
func (c *coordinator) finish(x *transaction, o txn.Outcome, entry uint64) {
	delete(c.open, x.number)
	c.seen = max(c.seen, entry)
	if x.origin == nil {
		c.r.env.Reply(o)
		return
	}
	m := &Answer{Relayed: true, Number: x.origin.Number, Entry: entry, Outcome: o}
	// A repeated Relay finds the answer here.
	if s := c.relays.find(*x.origin); s != nil {
		s.answer = m
	}
	c.r.env.Send(x.origin.Coordinator, m)
}

// relayed accepts a transaction that another node of the region has relayed. If the Relay is a repetition, relayed
// answers it from the session.
func (c *coordinator) relayed(from geo.NodeID, m *Relay) {
	c.relays.forget(from, m.Oldest)
	n := raftgroup.Name{Coordinator: from, Number: m.Number}
	if s := c.relays.find(n); s != nil {
		c.r.env.Mark(relayRepeated)
		if s.answer != nil {
			c.r.env.Send(from, s.answer)
		}
		// The first copy of the request is still in progress and will be answered.
		return
	}
	c.relays.open(n)
	c.take(m.Transaction, &n)
}

// progress continues the transactions that have waited for the log.
func (c *coordinator) progress() {
	waiting := c.waiting
	// read may make a transaction wait again, and then adds it to the new list.
	c.waiting = nil
	for _, x := range waiting {
		if c.r.catchUp.lacks || x.position > c.r.log.applied {
			c.waiting = append(c.waiting, x)
			continue
		}
		c.read(x)
	}
}

// tick sets the timer for reconnect while transactions are open.
func (c *coordinator) tick() {
	if !c.ticking && len(c.open) > 0 {
		c.ticking = true
		c.r.env.After(c.patience, protocol.Timer{Kind: reconnectTimer})
	}
}

// reconnect repeats requests that have been unanswered for longer than patience.
func (c *coordinator) reconnect() {
	c.ticking = false
	for _, n := range slices.Sorted(maps.Keys(c.open)) {
		// If this node is the receiver of a request, resend may close transactions during the loop.
		if x := c.open[n]; x != nil && x.request != nil && (x.sent+c.patience <= c.r.env.Now() || c.r.env.Buggify(resendsEarly)) {
			c.resend(x)
		}
	}
	c.tick()
}

// resend repeats a transaction's request. Requests to the writer go to the current writer.
func (c *coordinator) resend(x *transaction) {
	c.resent++
	c.r.env.Mark(resent)
	to, term, oldest := c.r.log.writer, c.r.log.term, c.oldest()
	switch m := x.request.(type) {
	case *Relay:
		c.send(x, instance(c.r.topology, c.r.region), m)
	case *Call:
		c.send(x, to, &Call{Term: term, Number: m.Number, Oldest: oldest, Transaction: m.Transaction})
	case *Commit:
		c.send(x, to, &Commit{Term: term, Number: m.Number, Oldest: oldest, ID: m.ID, Reads: m.Reads})
	case *Request:
		// Messages are immutable, and the earlier copy may still be in flight.
		again := *m
		again.Term, again.Oldest = term, oldest
		c.send(x, to, &again)
	}
}

// moved handles a change of the writer. It repeats the unanswered requests at the new writer. The old writer may have
// been in this region. In that case, calls now go to the region's instance, if the instance coordinates all
// transactions. After a planned failover, the log contains no unanswered call, because the answer would have arrived
// before the announcement of the new writer. After an unplanned failover, the log may contain such a call, so its
// outcome is unknown.
func (c *coordinator) moved(m *Takeover) {
	base, planned := m.Base, m.Planned
	if m.Recovered { // the log contains every answered transaction
		base = maxNumber
	}
	c.seen = min(c.seen, base) // lost entries never arrive
	for _, n := range slices.Sorted(maps.Keys(c.open)) {
		x := c.open[n]
		if x == nil {
			continue
		}
		// Entries after base are lost and would never be applied here.
		x.position = min(x.position, base)
		_, relayed := x.request.(*Relay)
		_, called := x.request.(*Call)
		switch {
		// A waiting transaction needs only the log. The region's instance takes care of a relayed transaction.
		case x.request == nil || relayed:
		case called && c.elsewhere() && planned:
			c.r.env.Mark(relayedAfterHandover)
			c.relay(x)
		case called && c.elsewhere():
			c.finish(x, txn.Outcome{ID: x.ID, Status: txn.Unknown, Cause: txn.CauseNode, Reason: ReasonSessionLost}, 0)
		default:
			c.resend(x)
		}
	}
	c.progress()
}

// replaced records that another node has lost its state. If the node is the region's instance, relayed transactions end
// with an unknown outcome, except read-only transactions, which are repeated.
func (c *coordinator) replaced(n geo.NodeID) {
	if n != instance(c.r.topology, c.r.region) {
		return
	}
	for _, number := range slices.Sorted(maps.Keys(c.open)) {
		x := c.open[number]
		if _, relayed := x.request.(*Relay); !relayed {
			continue
		}
		// A read-only transaction has no effects, so it can run twice.
		if x.readOnly {
			c.resend(x)
			continue
		}
		c.r.env.Mark(relayLost)
		c.finish(x, txn.Outcome{ID: x.ID, Status: txn.Unknown, Cause: txn.CauseNode, Reason: ReasonInstanceLost}, 0)
	}
}
