package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// timerLate makes timers fire late. Every protocol must tolerate this: a timer never fires early, but may fire late.
var timerLate = buggify.New("sim.timer-late", "A timer fires after twice its duration")

// core is a node's CPU: it serves a single item at a time.
type core struct {
	busy       bool
	head, tail int32 // first and last item of the queue, linked by next; head is -1 if the queue is empty
	queued     int
	out        []output // outputs of the current step, sent at its end
	logged     int      // number of inputs in the node's log when the current step started, including the step's input
}

// idleCore is a core with an empty queue.
var idleCore = core{head: -1, tail: -1}

// take removes and returns the first item of the queue. The queue must not be empty.
func (c *core) take(s *Sim) int32 {
	i := c.head
	c.head = s.items[i].next
	c.queued--
	return i
}

// wait appends an item to the queue.
func (c *core) wait(s *Sim, i int32) {
	s.items[i].next = -1
	if c.head < 0 {
		c.head = i
	} else {
		s.items[c.tail].next = i
	}
	c.tail = i
	c.queued++
}

// drop empties the queue.
func (c *core) drop(s *Sim) {
	for c.head >= 0 {
		s.release(c.take(s))
	}
	*c = idleCore
}

// node is a replica with a CPU. It is also the replica's Env.
type node struct {
	core
	s       *Sim
	id      int32
	replica protocol.Replica
	worker  protocol.StepCounter // the replica, if it implements protocol.StepCounter
	offload protocol.RemoteWork
	figures *protocol.FigureWatch // checks the replica's readings; nil until the first reading
	store   store.Store
	rng     *rand.Rand
	pcg     *rand.PCG // the generator of rng
	buggify *buggify.Node
	offset  time.Duration // offset of the node's clock from the simulation's clock
	least   time.Duration // lower bound of the node's clock, set whenever the clock is changed

	slow      int64         // additional CPU time, in percent of the normal time
	hold      time.Duration // delay of the outputs of some steps; holdShare is the percentage of these steps
	holdShare int64
	released  time.Duration // time when the last delayed output leaves
	// held contains the completion times of steps of this life whose outputs have not left before this instant.
	held queue.Queue[time.Duration]

	// incarnation is the incarnation of this process. known[p] is the incarnation of node p to which this node's link
	// leads; known is nil if all nodes are in their first incarnation.
	incarnation uint32
	known       []uint32

	dead     bool
	life     uint32 // number of restarts
	outBytes int    // bytes of the current step's outputs for which the CPU is charged
	free     int    // number of the current step's outputs for which the CPU is not charged
	// beside is the time at which the node's second core will have completed all offloaded work.
	beside time.Duration

	waiting map[txn.ID]int32 // by unanswered transaction, the client that has submitted it
	busyFor time.Duration
	handled int64
	durable
}

// config returns the configuration of the node's replica.
func (n *node) config() protocol.Config {
	c := &n.s.c
	return protocol.Config{
		Self: geo.NodeID(n.id), Incarnation: n.incarnation, Topology: c.Topology, Params: c.Params, Procedures: c.Procedures, Store: n.store, Env: n, Shrink: c.Shrink,
	}
}

func (n *node) makeReplica() { n.use(n.s.c.Engine.New(n.config())) }

// use installs a replica in the node.
func (n *node) use(r protocol.Replica) {
	n.replica, n.figures = r, nil // the counters of a new replica start at 0
	n.worker, _ = n.replica.(protocol.StepCounter)
	n.offload, _ = n.replica.(protocol.RemoteWork)
}

// steps returns the number of steps that the replica has taken; 0 if it is not a protocol.StepCounter.
func (n *node) steps() int64 {
	if n.worker == nil {
		return 0
	}
	return n.worker.Steps()
}

// output is a message to another node, or a transaction's outcome.
type output struct {
	to      int32
	size    int32
	life    uint32           // the incarnation of the receiver for which the message is meant
	msg     protocol.Message // nil for an outcome
	outcome txn.Outcome
}

// arrive handles an item that has reached the node: it serves, queues or drops the item.
func (n *node) arrive(i int32) {
	switch {
	case n.dead || n.stale(&n.s.items[i]):
		n.s.release(i)
	case n.busy:
		n.wait(n.s, i)
	default:
		n.serve(i)
		if !n.busy {
			n.next()
		}
	}
}

// stale reports whether an item belongs to an earlier life of the node or to an earlier connection.
func (n *node) stale(it *item) bool {
	switch {
	// A later incarnation of that node may already be known.
	case it.kind == onReplaced:
		return n.knows(it.from) >= it.life
	case it.kind != onMessage:
		return it.life != n.life
	case n.s.c.Durable:
		return it.life != n.s.path(it.from, n.id).connection
	}
	return it.life != n.incarnation
}

// next serves the queue until the CPU is busy or the queue is empty.
func (n *node) next() {
	for !n.busy && n.head >= 0 {
		i := n.take(n.s)
		if n.stale(&n.s.items[i]) { // the sender has restarted in the meantime, and will send the message again
			n.s.release(i)
			continue
		}
		n.serve(i)
	}
}

// idle ends a step and releases its outputs.
func (n *node) idle() {
	if n.dead {
		return
	}
	n.busy = false
	n.leave()
	n.next()
}

// serve runs a step of the replica and charges the CPU for it.
func (n *node) serve(i int32) {
	s := n.s
	it := s.take(i)
	n.handled++
	ops, steps := n.store.Ops(), n.steps()
	if s.c.Trace != nil {
		n.traceInput(&it)
	}
	// Log the input before the replica can produce outputs from it.
	if s.c.Durable {
		n.record(&it)
		n.logged = len(n.log)
	}
	if it.kind == onReplaced {
		n.meet(it.from, it.life)
	}
	n.feed(it.kind, it.from, it.msg, it.t, it.timer)
	if s.checks != nil {
		s.checks.check(n, n.store.Ops() != ops)
	}
	messages, bytes, keys, steps := len(n.out)-n.free, n.outBytes, int64(n.store.Ops()-ops), n.steps()-steps
	// Another server handles this message, so do not charge the CPU for its bytes and its work.
	if it.kind == onMessage && n.offloads(it.from, it.msg) {
		keys, steps = 0, 0
	} else {
		messages, bytes = messages+1, bytes+int(it.size)
	}
	cost := s.c.Costs.of(messages, bytes, keys, steps)
	n.outBytes, n.free = 0, 0
	cost = n.slowed(cost)
	n.busyFor += cost
	// A step without cost ends immediately, so it needs no event.
	if cost == 0 {
		n.leave()
		return
	}
	n.busy = true
	s.after(cost, item{kind: onIdle, to: n.id, life: n.life})
}

// slowed returns the CPU time that an operation of the given cost takes on this node.
func (n *node) slowed(cost time.Duration) time.Duration {
	return cost + cost*time.Duration(n.slow)/100
}

// offloads reports whether a server other than the node's CPU handles a message from or to a peer.
func (n *node) offloads(peer int32, m protocol.Message) bool {
	return n.offload != nil && n.offload.Offloads(geo.NodeID(peer), m)
}

// feed passes an input to the replica.
func (n *node) feed(kind uint8, from int32, m protocol.Message, t *txn.Transaction, timer protocol.Timer) {
	switch kind {
	case onStart:
		n.replica.Start()
	case onMessage:
		n.replica.Receive(geo.NodeID(from), m)
	case onSubmit:
		n.replica.Submit(t)
	case onTimer:
		n.replica.Fire(timer)
	case onReplaced:
		n.replica.(protocol.Rejoiner).Replaced(geo.NodeID(from), n.knows(from))
	}
}

// leave sends or delays the outputs of the step.
func (n *node) leave() {
	if n.hold > 0 && n.s.rng.Int64N(100) < n.holdShare {
		n.released = max(n.released, n.s.now+n.hold)
	}
	// The step's input is synced by then, even if there are no outputs.
	if n.s.c.Durable {
		n.departs(n.released)
	}
	// Outputs must leave in order, so they wait while earlier outputs are delayed.
	if n.released <= n.s.now && n.held.Len() == 0 {
		n.send(n.out)
		clear(n.out)
		n.out = n.out[:0]
		return
	}
	if len(n.out) > 0 {
		out, life := slices.Clone(n.out), n.life
		n.held.Push(n.s.now)
		n.s.push(max(n.released, n.s.now), item{kind: onControl, control: func() {
			if n.life == life { // otherwise the node has restarted, and its replay has sent the outputs
				n.held.Pop()
				n.send(out)
			}
		}})
		clear(n.out)
		n.out = n.out[:0]
	}
}

// send sends outputs to other nodes and clients.
func (n *node) send(out []output) {
	if n.dead {
		return
	}
	s := n.s
	t := s.c.Topology
	region := t.RegionOf(geo.NodeID(n.id))
	for k := range out {
		o := &out[k]
		if s.c.Trace != nil {
			n.traceOutput(o)
		}
		if o.msg != nil {
			s.traffic[region][t.RegionOf(geo.NodeID(o.to))].AddFrame(int(o.size), 1)
			if s.c.Durable {
				n.sendDurably(o)
				continue
			}
			s.transmit(n.id, o.to, s.keep(item{kind: onMessage, from: n.id, to: o.to, size: o.size, msg: o.msg, sent: s.now, life: o.life}), int(o.size))
			continue
		}
		if s.checks != nil {
			s.checks.answered(n, &o.outcome)
		}
		client, ok := n.waiting[o.outcome.ID]
		// The client received Unknown when the node crashed, so drop this late answer.
		if !ok && n.orphans[o.outcome.ID] {
			delete(n.orphans, o.outcome.ID)
			continue
		}
		if !ok {
			panic(fmt.Sprintf("sim: node %d answers transaction %v, which no client waits for", n.id, o.outcome.ID))
		}
		delete(n.waiting, o.outcome.ID)
		s.answers[region].AddFrame(int(o.size), 1)
		at, _ := s.clients[client].links[int(n.id)%s.perSite].back.Send(s.now, int(o.size), s.rng)
		s.push(at, item{kind: onOutcome, to: client, outcome: o.outcome})
	}
}

// Now implements protocol.Env.
func (n *node) Now() time.Duration {
	if n.replaying {
		return n.clock
	}
	return max(n.s.now+n.offset, n.least)
}

// seed sets the generator of the node's random numbers.
func (n *node) seed(source rand.PCG) {
	n.pcg = &source
	n.rng = rand.New(n.pcg)
}

// Rand implements protocol.Env.
func (n *node) Rand() *rand.Rand { return n.rng }

// Send implements protocol.Env.
func (n *node) Send(to geo.NodeID, m protocol.Message) {
	if int32(to) == n.id {
		panic(fmt.Sprintf("sim: node %d sends a message to itself", n.id))
	}
	// The original run has already sent this message. resend keeps the message only if the receiver has not logged it.
	if n.replaying {
		n.resend(to, m)
		return
	}
	if n.s.c.CheckCodec {
		m = n.s.checkCodec(m)
	}
	size := FrameBytes + m.Size()
	if n.offloads(int32(to), m) {
		n.free++
	} else {
		n.outBytes += size
	}
	n.out = append(n.out, output{to: int32(to), size: int32(size), life: n.knows(int32(to)), msg: m})
}

// After implements protocol.Env.
func (n *node) After(d time.Duration, t protocol.Timer) {
	// Decide this during a replay as well, because the replay must make the same random decisions as the original run.
	if n.buggify != nil && n.Buggify(timerLate) {
		d *= 2
	}
	if n.replaying {
		// Base the timer on the time of the original run, so that it fires at the original time after the replay.
		n.armed = append(n.armed, armedTimer{n.moment + max(0, d), t})
		return
	}
	n.s.after(d, item{kind: onTimer, to: n.id, timer: t, life: n.life})
}

// Offload implements protocol.Env. The work runs immediately, but counts as completed only when the second core would
// have completed it.
func (n *node) Offload(work func() int64, t protocol.Timer) {
	cost := n.slowed(n.s.c.Costs.of(0, 0, 0, work()))
	now := n.s.now
	if n.replaying {
		now = n.moment
	}
	// The second core does one piece of work after another, so new work starts after all earlier work.
	n.beside = max(n.beside, now) + cost
	if n.replaying {
		n.armed = append(n.armed, armedTimer{n.beside, t})
		return
	}
	n.busyFor += cost
	n.s.push(n.beside, item{kind: onTimer, to: n.id, timer: t, life: n.life})
}

// Mark implements protocol.Env.
func (n *node) Mark(p *coverage.Mark) {
	// Do not count a hit again in a replay.
	if n.s.c.Marks == nil || n.replaying {
		return
	}
	n.s.c.Marks.Hit(p)
	if n.s.c.Trace != nil {
		n.trace(Observation{Kind: Hits, Mark: p})
	}
}

// Buggify implements protocol.Env.
func (n *node) Buggify(p *buggify.Point) bool {
	now := n.s.now
	if n.replaying {
		now = n.moment
	}
	if !n.buggify.Fires(p, now) {
		return false
	}
	n.Mark(p.Mark)
	return true
}

// Reply implements protocol.Env.
func (n *node) Reply(o txn.Outcome) {
	// This is a replayed answer: its client has already received it, or has received Unknown.
	if n.replaying {
		delete(n.orphans, o.ID)
		return
	}
	size := FrameBytes + codec.SizeOutcome(&o)
	n.outBytes += size
	n.out = append(n.out, output{size: int32(size), outcome: o})
}
