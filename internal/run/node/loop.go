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

// loop is the event loop of a node. It owns all fields below, including the sending sides of links and connections. It
// implements protocol.Env for the replica.
type loop struct {
	n       *Node
	epoch   time.Duration // difference between the node's clock and wire.Now
	rng     *rand.Rand
	chance  *rand.PCG // the generator of rng; checkpoints save its state
	store   store.Store
	replica protocol.Replica
	timers  timers.Queue
	pending map[txn.ID]*client

	dirtyLinks   []*wire.Link
	dirtyClients []*wire.Conn
	callers      []chan struct{} // closed once the turn is in the log: see Node.call

	request  *admin.LoadRequest // request that loaded the rows; nil if none are loaded
	dataset  string
	loaded   admin.LoadResponse
	workload workload.Workload
	traced   bool // the rows carry versions

	beside beside

	log       *nodeLog      // nil if the node keeps none
	replaying bool          // the log is being replayed
	at, clock time.Duration // with a log, the times of the current turn: at for timers, clock for Now

	offset  atomic.Int64  // offset of the node's clock in nanoseconds: see disturb
	counted time.Duration // the offset that shown used most recently
	least   time.Duration // lower bound of the node's clock, so that it never goes back
	slow    atomic.Int64  // slowdown in percent; 0 for none
	pace    chan struct{} // receives a token when slow changes
	debt    time.Duration // pauses that the slowdown requires and the loop has not made yet
}

// client is a connection that receives answers.
type client struct{ conn *wire.Conn }

// slice is the maximum number of items that the loop handles before it checks timers and flushes.
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
				// Stop the loop, because the log would not contain any later action of the node.
				l.n.ended = fmt.Errorf("the log: %w", err)
				return
			}
			l.endSlowly(began, percent)
			if len(rest) == 0 {
				break
			}
		}
		// Handle items that arrived during this turn before sleeping.
		if len(items) > 0 {
			continue
		}
		if at, ok := l.timers.Next(); ok {
			// Add Slack, because the alarm may round down a little and a timer must not fire early.
			alarm.Set(at - l.epoch + wire.Slack)
		}
		<-l.n.box.wake
	}
}

// begin starts the replica, or replays the log to its end.
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

// turn handles a few items and all due timers, and then releases the resulting messages and answers.
func (l *loop) turn(items []item) error {
	l.beginTurn()
	for i := range items {
		l.handle(&items[i])
	}
	return l.endTurn(l.fire())
}

// beginTurn reads the clock. With a log, the clock keeps this value for the whole turn, so that a replay sees the same
// times.
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
		// Commit before flush: an input must be on the disk before its effects leave the node.
		if err := l.commit(fired); err != nil {
			return err
		}
	}
	l.flush()
	if l.log != nil {
		// Truncate only between turns, because the state is consistent only then.
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
		// Open the link before the replica is notified, because the replica may immediately send messages to the new
		// incarnation.
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
	// Set pending before Submit, because the replica may reply during the call.
	l.pending[it.t.ID] = it.c
	l.replica.Submit(it.t)
}

func (l *loop) answer(c *client, o *txn.Outcome) {
	l.n.statuses[o.Status].Add(1)
	if c.conn.SendOutcome(o) {
		l.dirtyClients = append(l.dirtyClients, c.conn)
	}
}

// abandon answers all clients of a broken database with an unknown outcome.
func (l *loop) abandon() {
	for id, c := range l.pending {
		if c == nil {
			continue // submitted before the restart
		}
		l.answer(c, &txn.Outcome{ID: id, Status: txn.Unknown, Cause: txn.CauseNode, Reason: "database-broken"})
	}
	clear(l.pending)
}

// unfinished returns the number of unfinished transactions: of the replica or of the clients, whichever is larger.
func (l *loop) unfinished() int { return max(l.replica.Pending(), len(l.pending)) }

// fire fires all due timers, and reports whether there were any.
func (l *loop) fire() (fired bool) {
	// Without timers, do not read the clock.
	if _, ok := l.timers.Next(); !ok {
		return false
	}
	// Read the time once. Without a log, a timer set during this loop is due after now. It waits for the next turn, so
	// that messages are handled in between. With a log, time stands still during a turn, so a timer that is set for the
	// current time fires in this loop.
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
	// Release the callers of Node.call last: the effects of their calls are now in the log.
	for i, done := range l.callers {
		close(done)
		l.callers[i] = nil
	}
	l.callers = l.callers[:0]
}

// elapsed returns the time that timers use. Offsets of the node's clock do not affect it.
func (l *loop) elapsed() time.Duration {
	if l.log != nil {
		return l.at
	}
	return l.elapsedNow()
}

func (l *loop) elapsedNow() time.Duration { return l.epoch + wire.Now() }

// shown returns the value of the node's clock at the given time of the timers. The clock never goes back: if its offset
// decreases, the clock stands still until the time with the new offset has caught up.
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
	if c != nil { // nil if submitted before a restart, or already answered by abandon
		l.answer(c, &o)
	}
}

// Mark implements protocol.Env. It does nothing: only tests collect coverage marks.
func (l *loop) Mark(*coverage.Mark) {}

// Buggify implements protocol.Env. It returns false: only simulations force rare events.
func (l *loop) Buggify(*buggify.Point) bool { return false }

// Rand implements protocol.Env.
func (l *loop) Rand() *rand.Rand { return l.rng }
