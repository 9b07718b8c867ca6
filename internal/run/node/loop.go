package node

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/timers"
	"github.com/geobench/geobench/internal/net/wire"
	"github.com/geobench/geobench/internal/ops/admin"
)

// loop is the event loop: it owns all below it, the sending sides of links and connections included. It is the
// replica's protocol.Env.
type loop struct {
	n       *Node
	epoch   time.Duration // what to add to wire.Now for the node's clock
	rng     *rand.Rand
	chance  *rand.PCG // of rng
	store   store.Store
	replica protocol.Replica
	timers  timers.Queue
	pending map[txn.ID]*client

	dirtyLinks   []*wire.Link
	dirtyClients []*wire.Conn
	callers      []chan struct{} // wait for the end of the turn: see Node.call

	request  *admin.LoadRequest // the initial rows, nil for none
	dataset  string
	loaded   admin.LoadResponse
	workload workload.Workload
	traced   bool // rows carry versions

	beside beside

	log       *nodeLog      // nil: none is kept
	replaying bool          // it
	at, clock time.Duration // with a log: of the present turn, what timers count by and what Now shows

	offset  atomic.Int64  // of the clock, in nanoseconds: see disturb
	counted time.Duration // offset that the clock went by when it was last read
	least   time.Duration // the minimum value of the clock
	slow    atomic.Int64  // percent that everything takes longer
	pace    chan struct{} // has a token when slow has changed
	debt    time.Duration // of the time that it took longer
}

// client is a connection to answer.
type client struct{ conn *wire.Conn }

// slice is the number of items handled between two looks at the timers and flushes.
const slice = 256

func (l *loop) run() {
	defer close(l.n.done)
	alarm := wire.NewAlarm(l.n.box.wake)
	defer alarm.Close()
	var items []item
	for closed := false; !closed; {
		if items, closed = l.n.box.take(items); closed {
			return
		}
		l.n.turns.Add(1)
		l.n.asked.Store(0)
		for rest := items; ; {
			part := rest[:min(len(rest), slice)]
			rest = rest[len(part):]
			began, percent := l.beginSlowly()
			if err := l.turn(part); err != nil {
				// The log would not contain any further actions of the node.
				l.n.ended = fmt.Errorf("the log: %w", err)
				return
			}
			l.endSlowly(began, percent)
			if len(rest) == 0 {
				break
			}
		}
		if len(items) > 0 {
			continue
		}
		if at, ok := l.timers.Next(); ok {
			// The pacer rounds down a little; a timer must not fire before its time.
			alarm.Set(at - l.epoch + wire.Slack)
		}
		<-l.n.box.wake
	}
}

// begin starts the replica, or brings it to where its log ends.
func (l *loop) begin() error {
	if l.log.restored() {
		return l.replay()
	}
	l.beginTurn()
	if l.log != nil {
		l.cutLater()
		l.log.start()
	}
	l.replica.Start()
	return l.endTurn(l.fire())
}

// turn handles a few items and the timers that are due, and then releases the resulting messages and answers.
func (l *loop) turn(items []item) error {
	l.beginTurn()
	for i := range items {
		l.handle(&items[i])
	}
	return l.endTurn(l.fire())
}

// beginTurn reads the clock, which stands still in a turn that is logged: a replay sees the same.
func (l *loop) beginTurn() {
	if l.log == nil {
		return
	}
	l.at = l.elapsedNow()
	l.clock = l.shown(l.at)
	l.log.begin(l.at, l.clock)
}

func (l *loop) endTurn(fired bool) error {
	if l.log != nil {
		if err := l.commit(fired); err != nil {
			return err
		}
	}
	l.flush()
	if l.log != nil {
		return l.cut()
	}
	return nil
}

func (l *loop) handle(it *item) {
	switch {
	case it.m != nil:
		if l.log != nil {
			l.log.message(it)
		}
		l.replica.Receive(it.from, it.m)
	case it.t != nil:
		l.submit(it)
	case it.replaced > 0:
		l.n.endpoint.Link(it.from).Open(it.replaced)
		l.replica.(protocol.Rejoiner).Replaced(it.from, it.replaced)
	default:
		it.f()
	}
}

func (l *loop) submit(it *item) {
	cause, reason := txn.CauseNode, ""
	_, known := l.pending[it.t.ID]
	switch {
	case it.invalid:
		cause, reason = txn.CauseProcedure, txn.ReasonInvalid
	case l.n.broken.Load() != nil:
		reason = "database-broken"
	case !l.n.endpoint.Complete():
		reason = "not-ready"
	case l.n.endpoint.Congested() || len(l.pending) >= l.n.cfg.MaxInFlight:
		reason = "overloaded"
	case known:
		cause, reason = txn.CauseProcedure, "duplicate-id"
	}
	if reason != "" {
		l.answer(it.c, &txn.Outcome{ID: it.t.ID, Status: txn.Refused, Cause: cause, Reason: reason})
		return
	}
	if l.log != nil {
		l.log.submit(it.t)
	}
	l.pending[it.t.ID] = it.c
	l.replica.Submit(it.t)
}

func (l *loop) answer(c *client, o *txn.Outcome) {
	l.n.statuses[o.Status].Add(1)
	if c.conn.SendOutcome(o) {
		l.dirtyClients = append(l.dirtyClients, c.conn)
	}
}

// abandon answers all clients of a broken database: it is unknown whether their transactions will finish.
func (l *loop) abandon() {
	for id, c := range l.pending {
		if c == nil {
			continue // of before the node started again
		}
		l.answer(c, &txn.Outcome{ID: id, Status: txn.Unknown, Cause: txn.CauseNode, Reason: "database-broken"})
	}
	clear(l.pending)
}

// unfinished is the number of transactions that the replica or a client waits for.
func (l *loop) unfinished() int { return max(l.replica.Pending(), len(l.pending)) }

// fire fires the timers that are due, and reports whether there were any.
func (l *loop) fire() (fired bool) {
	if _, ok := l.timers.Next(); !ok {
		return false
	}
	// Only timers that are due now: timers that they set for the current time wait for the next round, so that messages
	// get their turn.
	for now := l.elapsed(); ; fired = true {
		t, ok := l.timers.PopDue(now)
		if !ok {
			return fired
		}
		l.replica.Fire(t)
	}
}

func (l *loop) flush() {
	for i, c := range l.dirtyLinks {
		c.Flush()
		l.dirtyLinks[i] = nil
	}
	for i, c := range l.dirtyClients {
		c.Flush()
		l.dirtyClients[i] = nil
	}
	l.dirtyLinks, l.dirtyClients = l.dirtyLinks[:0], l.dirtyClients[:0]
	for i, done := range l.callers {
		close(done)
		l.callers[i] = nil
	}
	l.callers = l.callers[:0]
}

// elapsed is the time that timers count by.
func (l *loop) elapsed() time.Duration {
	if l.log != nil {
		return l.at
	}
	return l.elapsedNow()
}

func (l *loop) elapsedNow() time.Duration { return l.epoch + wire.Now() }

// shown returns the node's clock at a time of the timers. It never goes back: a clock that is set back stands still.
func (l *loop) shown(elapsed time.Duration) time.Duration {
	if offset := time.Duration(l.offset.Load()); offset != l.counted {
		l.least = max(l.least, elapsed+l.counted)
		l.counted = offset
	}
	return max(elapsed+l.counted, l.least)
}

// Now implements protocol.Env.
func (l *loop) Now() time.Duration {
	if l.log != nil {
		return l.clock
	}
	return l.shown(l.elapsedNow())
}

// Send implements protocol.Env.
func (l *loop) Send(to geo.NodeID, m protocol.Message) {
	link := l.n.endpoint.Link(to)
	if link.Send(m) {
		l.dirtyLinks = append(l.dirtyLinks, link)
	}
}

// After implements protocol.Env.
func (l *loop) After(d time.Duration, t protocol.Timer) { l.timers.Push(l.elapsed()+d, t) }

// Reply implements protocol.Env.
func (l *loop) Reply(o txn.Outcome) {
	c := l.pending[o.ID]
	delete(l.pending, o.ID)
	if c != nil { // or answered when the database broke, or of before the node started again
		l.answer(c, &o)
	}
}

// Mark implements protocol.Env. It does nothing, because a process does not report its coverage.
func (l *loop) Mark(*coverage.Mark) {}

// Buggify implements protocol.Env. It returns false: rare events happen by themselves in a real process.
func (l *loop) Buggify(*buggify.Point) bool { return false }

// Rand implements protocol.Env.
func (l *loop) Rand() *rand.Rand { return l.rng }
