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

// coordinator answers the transactions of the node's clients.
type coordinator struct {
	r                 *Replica
	reads             string
	perStatement      bool // the writer is asked before each statement
	whole             bool // transactions that write are forwarded as procedures
	single            bool // the region's instance coordinates all of its transactions
	barrierRoundTrips int
	begins            int // round trips before the first statement
	patience          time.Duration

	number  uint64
	open    map[uint64]*transaction
	numbers queue.Queue[uint64] // numbers of open transactions, and of some that are closed
	waiting []*transaction      // for the log
	ticking bool                // a timer is set
	// seen is the last log entry that an answer to a client of the region has reported; sessions read from it.
	seen uint64
	// unsure says that an earlier incarnation may have seen more: the writer is asked how much that can be.
	unsure bool
	// relays are the transactions that other nodes of the region have sent here.
	relays sessions

	transactions, relayedAway, localReads, logWaits, barriers, statements, forwarded, resent int64
}

// transaction is an unanswered transaction.
type transaction struct {
	*txn.Transaction
	number uint64
	origin *raftgroup.Name // of the node that has relayed it, nil for none

	// request was sent last, at time sent, and is sent again without an answer. It is a round trip of the transaction,
	// with the number step. It is nil while the transaction waits for the log.
	request protocol.Message
	sent    time.Duration
	step    uint64

	readOnly bool
	asked    int    // round trips so far that have asked the writer
	position uint64 // the log has to come so far

	// The content to be forwarded, once the procedure has run.
	executed  bool
	reads     optimistic.Reads
	writes    []txn.WriteEntry
	outcome   txn.Outcome // if it commits
	begun     int         // round trips that have begun it
	wrote     int         // statements that are with the writer
	barriered int         // round trips to the writer for a barrier, before the next statement
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

// oldest is the least number of an open transaction.
func (c *coordinator) oldest() uint64 {
	for c.numbers.Len() > 0 {
		if n := c.numbers.Front(); c.open[n] != nil {
			return n
		}
		c.numbers.Pop()
	}
	return c.number + 1
}

// take takes a transaction of a client, or of another node of the region.
func (c *coordinator) take(t *txn.Transaction, origin *raftgroup.Name) {
	c.number++
	x := &transaction{Transaction: t, number: c.number, origin: origin, readOnly: c.r.procs.ReadsOnly(t)}
	c.open[x.number] = x
	c.numbers.Push(x.number)
	c.tick()
	switch { // in Aurora, the endpoint that a client connects to
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

// elsewhere reports whether the transactions of this node's clients are for another node of the region, that with its
// sessions, or with its readers.
func (c *coordinator) elsewhere() bool {
	return c.single && c.r.topology.RegionOf(c.r.log.writer) != c.r.region && c.r.self != instance(c.r.topology, c.r.region)
}

// relay sends a transaction to the region's instance.
func (c *coordinator) relay(x *transaction) {
	c.relayedAway++
	c.r.env.Mark(relayed)
	c.send(x, instance(c.r.topology, c.r.region), &Relay{Number: x.number, Oldest: c.oldest(), Transaction: x.Transaction})
}

// call sends a transaction to the writer whole.
func (c *coordinator) call(x *transaction) {
	if c.r.topology.RegionOf(c.r.log.writer) != c.r.region {
		c.forwarded++
	}
	c.send(x, c.r.log.writer, &Call{Term: c.r.log.term, Number: x.number, Oldest: c.oldest(), Transaction: x.Transaction})
}

// send sends a message of a transaction, to this very node where it is the receiver.
func (c *coordinator) send(x *transaction, to geo.NodeID, m protocol.Message) {
	x.request, x.sent = m, c.r.env.Now()
	if to == c.r.self {
		c.r.Receive(to, m)
		return
	}
	c.r.env.Send(to, m)
}

// ask makes the next round trip of a transaction to the writer.
func (c *coordinator) ask(x *transaction, m *Request) {
	x.step++
	m.Term, m.Number, m.Oldest, m.Step = c.r.log.term, x.number, c.oldest(), x.step
	if m.Barrier {
		c.barriers++
	}
	c.send(x, c.r.log.writer, m)
}

// trips returns the number of round trips to the writer before the given number of reads.
func (c *coordinator) trips(reads int) int {
	switch {
	case c.reads == readsSession && c.unsure:
		return 1
	case c.reads != readsGlobal || c.r.wrong == unaskedWriter:
		return 0
	case c.perStatement:
		return max(1, reads) * c.barrierRoundTrips
	}
	return c.barrierRoundTrips
}

// read reads from the copy of this node, once it is fresh enough.
func (c *coordinator) read(x *transaction) {
	switch {
	case c.r.writes(): // since a failover; its rows may include uncommitted entries
		c.r.env.Mark(readAtWriter)
		c.call(x)
	case x.asked < c.trips(0):
		x.asked++
		c.ask(x, &Request{Barrier: true})
	case c.r.catchUp.lacks || x.position > c.r.log.applied:
		c.logWaits++
		c.r.env.Mark(logAwaited)
		x.request = nil
		c.waiting = append(c.waiting, x)
	default:
		c.execute(x)
	}
}

// execute runs the procedure on the copy. Where each statement asks the writer first, the run determines the number of
// statements.
func (c *coordinator) execute(x *transaction) {
	o := c.r.execution.Outcome(c.r.procs, x.Transaction, c.r.topology.Placement())
	reads := c.r.execution.Reads()
	if c.perStatement && x.asked < c.trips(len(reads.Points)+len(reads.Ranges)) {
		x.asked++
		c.ask(x, &Request{Barrier: true})
		return
	}
	writes := c.r.execution.Writes()
	if o.Status != txn.Committed || len(writes) == 0 {
		c.localReads++
		c.finish(x, o, c.r.log.applied)
		return
	}
	c.forwarded++
	x.executed, x.reads, x.writes, x.outcome = true, reads, slices.Clone(writes), o
	c.forward(x)
}

// forward makes the next round trip of a transaction that writes.
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
		x.barriered = 0
		x.wrote++
		c.statements++
		c.ask(x, &Request{First: x.begun == 0 && x.wrote == 1, Writes: x.writes[x.wrote-1 : x.wrote : x.wrote]})
	default:
		x.step++
		c.send(x, c.r.log.writer, &Commit{Term: c.r.log.term, Number: x.number, Oldest: c.oldest(), ID: x.ID, Reads: x.reads})
	}
}

// replied handles the writer's reply to a request, and ignores a second reply to a request that was sent twice.
func (c *coordinator) replied(m *Reply) {
	x := c.open[m.Number]
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

// answered handles the answer to a transaction, which may be the second answer.
func (c *coordinator) answered(m *Answer) {
	x := c.open[m.Number]
	if x == nil {
		return
	}
	o := m.Outcome
	if x.executed && o.Status == txn.Committed {
		o = x.outcome
	}
	o.ID = x.ID
	c.finish(x, o, m.Entry)
}

// finish answers a transaction that has seen the log up to an entry.
func (c *coordinator) finish(x *transaction, o txn.Outcome, entry uint64) {
	delete(c.open, x.number)
	c.seen = max(c.seen, entry)
	if x.origin == nil {
		c.r.env.Reply(o)
		return
	}
	m := &Answer{Relayed: true, Number: x.origin.Number, Entry: entry, Outcome: o}
	if s := c.relays.find(*x.origin); s != nil {
		s.answer = m
	}
	c.r.env.Send(x.origin.Coordinator, m)
}

// relayed takes a transaction of another node of the region, unless it has done so.
func (c *coordinator) relayed(from geo.NodeID, m *Relay) {
	c.relays.forget(from, m.Oldest)
	n := raftgroup.Name{Coordinator: from, Number: m.Number}
	if s := c.relays.find(n); s != nil {
		c.r.env.Mark(relayRepeated)
		if s.answer != nil {
			c.r.env.Send(from, s.answer)
		}
		return
	}
	c.relays.open(n)
	c.take(m.Transaction, &n)
}

// progress continues the transactions that have waited for the log.
func (c *coordinator) progress() {
	waiting := c.waiting
	c.waiting = nil
	for _, x := range waiting {
		if c.r.catchUp.lacks || x.position > c.r.log.applied {
			c.waiting = append(c.waiting, x)
			continue
		}
		c.read(x)
	}
}

// tick sets the timer that checks for overdue answers.
func (c *coordinator) tick() {
	if !c.ticking && len(c.open) > 0 {
		c.ticking = true
		c.r.env.After(c.patience, protocol.Timer{Kind: reconnectTimer})
	}
}

// reconnect sends requests again that have been unanswered for too long.
func (c *coordinator) reconnect() {
	c.ticking = false
	for _, n := range slices.Sorted(maps.Keys(c.open)) {
		if x := c.open[n]; x != nil && x.request != nil && (x.sent+c.patience <= c.r.env.Now() || c.r.env.Buggify(resendsEarly)) {
			c.resend(x)
		}
	}
	c.tick()
}

// resend sends a transaction's request again, to the writer that is known now.
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
		again := *m
		again.Term, again.Oldest = term, oldest
		c.send(x, to, &again)
	}
}

// moved sends all unanswered requests to the next writer, whose log continues after an entry. Requests to a writer in
// this region now go to the region's instance, if the instance coordinates all transactions. After a planned failover
// none of them is in the log, or the answer would have arrived before. After an unplanned failover they may be in the
// log, and the outcome is unknown.
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
		x.position = min(x.position, base)
		_, relayed := x.request.(*Relay)
		_, called := x.request.(*Call)
		switch {
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

// replaced records that another node has lost its state. If that is the region's instance, the outcome of the
// transactions that were sent there is unknown. Read-only transactions are sent again.
func (c *coordinator) replaced(n geo.NodeID) {
	if n != instance(c.r.topology, c.r.region) {
		return
	}
	for _, number := range slices.Sorted(maps.Keys(c.open)) {
		x := c.open[number]
		if _, relayed := x.request.(*Relay); !relayed {
			continue
		}
		if x.readOnly {
			c.resend(x)
			continue
		}
		c.r.env.Mark(relayLost)
		c.finish(x, txn.Outcome{ID: x.ID, Status: txn.Unknown, Cause: txn.CauseNode, Reason: ReasonInstanceLost}, 0)
	}
}
