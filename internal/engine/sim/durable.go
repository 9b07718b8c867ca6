package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Durability. With Config.Durable, every node keeps a log of its inputs. An input is in the log before its outputs
// leave the node. A replica is a deterministic state machine, so the log suffices to restore its state. A restarting
// node starts with its initial rows and replays all logged inputs at their original times on its clock. Messages and
// answers of the replay are not sent again.
//
// All messages and answers that have left a node follow from synced inputs. The last inputs of the log may not be
// synced. Their outputs had not left when the node crashed, because the CPU was still working on them or HoldOutput
// delayed them. A crash keeps these inputs unless LoseTail removes them. Removed inputs count as never received, and
// senders send them again.
//
// Links resume where they stopped. Both ends know the number of messages in the receiver's log. The sender keeps all
// later messages, and sends them again once the two nodes are reconnected. A restarted sender regenerates these
// messages in its replay.

// input is an entry of a node's log.
type input struct {
	kind  uint8
	from  int32
	at    time.Duration // on the node's clock
	now   time.Duration // on the simulation's clock
	msg   protocol.Message
	t     *txn.Transaction
	timer protocol.Timer
}

// again returns a logged message as an unlogged message, so that its sender can send it again.
func (in *input) again() unloggedMessage {
	return unloggedMessage{in.msg, int32(FrameBytes + in.msg.Size()), in.now}
}

// durable is the state that a node keeps across a crash, and the state of a replay.
type durable struct {
	initial []initialRow
	// written is the last checkpoint, or nil. log contains the inputs since the checkpoint.
	written *written
	log     []input
	// synced is the number of logged inputs that are known to be synced. leaving contains the departures of later outputs,
	// in time order.
	synced  int
	leaving queue.Queue[departure]
	// orphans contains the transactions for which clients received Unknown because the node crashed.
	orphans map[txn.ID]bool

	replaying bool
	clock     time.Duration // time of the replayed input on the node's clock
	moment    time.Duration // time of the replayed input on the simulation's clock
	armed     []armedTimer  // timers set and not fired in the replay
}

// departure is the time at which the outputs of a step leave, and the number of inputs synced by then.
type departure struct {
	at     time.Duration
	synced int
}

type initialRow struct {
	key   txn.Key
	value []byte
}

type armedTimer struct {
	due   time.Duration
	timer protocol.Timer
}

// delivery is the state of a path that outlives its connections.
type delivery struct {
	// unlogged contains, in order, the messages that are not in the receiver's log.
	unlogged queue.Queue[unloggedMessage]
	// logged is the number of messages in the receiver's log. sent is the number of messages sent so far or, during a
	// replay, sent again so far.
	logged, sent uint64
	// connection is the number of the current connection; messages in flight on an earlier connection are lost. down is
	// set while there is no connection.
	connection uint32
	down       bool
}

type unloggedMessage struct {
	msg  protocol.Message
	size int32
	sent time.Duration
}

// record appends an input to the node's log, before the replica handles it.
func (n *node) record(it *item) {
	switch it.kind {
	case onStart:
		n.store.Each(func(k txn.Key, r store.Record) { n.initial = append(n.initial, initialRow{k, r.Value}) })
	case onMessage:
		p := n.s.path(it.from, n.id)
		// The connection delivers in order, so this is the first message that was not logged.
		p.unlogged.Pop()
		p.logged++
	}
	n.log = append(n.log, input{it.kind, it.from, n.Now(), n.s.now, it.msg, it.t, it.timer})
}

// departs records when the outputs of the last step leave. By then, the step's input and all earlier inputs are synced.
func (n *node) departs(at time.Duration) {
	n.departed()
	if at <= n.s.now {
		n.synced = max(n.synced, n.logged)
	} else {
		n.leaving.Push(departure{at, n.logged})
	}
}

// departed updates synced for outputs that have left by now.
func (n *node) departed() {
	for n.leaving.Len() > 0 && n.leaving.Front().at <= n.s.now {
		n.synced = max(n.synced, n.leaving.Front().synced)
		n.leaving.Pop()
	}
}

// LoseTail removes unsynced inputs from the end of a crashed node's log. Of these inputs, it keeps the first keep
// percent. It returns the number of inputs removed.
func (s *Sim) LoseTail(id geo.NodeID, keep int) (lost int) {
	n := s.nodes[id]
	if !n.dead || !s.c.Durable {
		panic("sim: only a node that has crashed, and has a log, loses the end of it")
	}
	n.departs(s.now) // accounts for earlier departures; no step is in progress any more
	first := n.synced
	if n.written == nil {
		first = max(first, 1) // the start itself is always synced
	}
	unsynced := max(0, len(n.log)-first)
	lost = unsynced - unsynced*keep/100
	for i := len(n.log) - 1; i >= len(n.log)-lost; i-- {
		switch in := &n.log[i]; in.kind {
		case onMessage: // the sender still has the message and will send it again
			p := s.path(in.from, n.id)
			p.unlogged.PushFront(in.again())
			p.logged--
		case onSubmit:
			delete(n.orphans, in.t.ID)
		}
	}
	clear(n.log[len(n.log)-lost:])
	n.log = n.log[:len(n.log)-lost]
	return lost
}

// Restart restarts a crashed node from its log. Config.Durable must be set. Replaying the log takes CPU time. Links to
// other live nodes work again after a round trip.
func (s *Sim) Restart(id geo.NodeID) {
	n := s.nodes[id]
	if !s.c.Durable {
		panic("sim: a node without a log cannot start again: Config.Durable is not set")
	}
	if !n.dead {
		return
	}
	if s.c.Trace != nil {
		n.trace(Observation{Kind: StartsAgain, Inputs: len(n.log)})
	}
	n.dead, n.busy = false, false
	// With a new life, items of the earlier life, such as timers and the ends of steps, no longer match and are dropped.
	n.life++
	n.held = queue.Queue[time.Duration]{}
	n.synced, n.leaving = len(n.log), queue.Queue[departure]{}
	ops := n.store.Ops()
	n.replay()
	if s.checks != nil {
		s.checks.restarted(n)
	}
	for _, a := range n.armed {
		// A timer that expired while the node was down fires now.
		s.push(max(s.now, a.due), item{kind: onTimer, to: n.id, timer: a.timer, life: n.life})
	}
	n.armed = nil
	// The node crashed before it had handled its start.
	if len(n.log) == 0 && n.written == nil {
		s.after(0, item{kind: onStart, to: n.id, life: n.life})
	} else if cost := s.c.Costs.of(len(n.log), 0, int64(n.store.Ops()-ops), n.steps()); cost > 0 {
		n.busy = true
		n.busyFor += cost
		s.after(cost, item{kind: onIdle, to: n.id, life: n.life})
	}
	for _, p := range s.all {
		if p.from != n.id && p.to != n.id {
			continue
		}
		for _, h := range p.held {
			s.release(h.item)
		}
		p.held = nil
		// Messages in flight on the old connection must not arrive, because they are sent again on the new connection.
		p.connection++
		p.down = true
		s.after(s.c.Topology.RTT(s.c.Topology.RegionOf(geo.NodeID(p.from)), s.c.Topology.RegionOf(geo.NodeID(p.to))),
			item{kind: onConnect, from: p.from, to: p.to, life: p.connection})
	}
}

// connect opens the new connection of a path, and sends the messages that are not in the receiver's log.
func (s *Sim) connect(it item) {
	p := s.path(it.from, it.to)
	// If a node has crashed or restarted again in the meantime, another event connects the path.
	if it.life != p.connection || s.nodes[p.from].dead || s.nodes[p.to].dead {
		return
	}
	p.down = false
	p.unlogged.Each(func(m unloggedMessage) { s.carry(p, m) })
}

// sendDurably sends a message immediately, or once the path has a connection.
func (n *node) sendDurably(o *output) {
	p := n.s.path(n.id, o.to)
	m := unloggedMessage{o.msg, o.size, n.s.now}
	p.sent++
	p.unlogged.Push(m)
	if !p.down {
		n.s.carry(p, m)
	}
}

// carry transmits a message over a path's current connection.
func (s *Sim) carry(p *path, m unloggedMessage) {
	s.transmit(p.from, p.to, s.keep(item{kind: onMessage, from: p.from, to: p.to, size: m.size, msg: m.msg, sent: m.sent, life: p.connection}), int(m.size))
}

// replay recreates the replica and replays its log to the end.
func (n *node) replay() {
	s := n.s
	// Keep the messages that were not logged: compare checks that the replay produces them again.
	before := map[*path]queue.Queue[unloggedMessage]{}
	for _, p := range s.all {
		if p.from == n.id {
			before[p] = p.unlogged
			p.unlogged, p.sent = queue.Queue[unloggedMessage]{}, 0
		}
	}
	if n.clock = n.Now(); len(n.log) > 0 {
		n.clock = n.log[0].at
	}
	n.replaying = true
	if n.written != nil {
		n.resume()
	} else {
		// Use the same seeds as at the first start, so that the replica draws the same random numbers.
		n.seed(*rand.NewPCG(s.c.Seed, uint64(n.id)+1))
		n.buggify = s.c.Buggify.Node(geo.NodeID(n.id))
		n.store.Reset(len(n.initial))
		for _, r := range n.initial {
			n.store.Load(r.key, r.value)
		}
		n.makeReplica()
	}
	for i := range n.log {
		in := &n.log[i]
		n.clock, n.moment = in.at, in.now
		if in.kind == onTimer {
			// The timer fired in the original run, so it must not fire again after the replay.
			n.disarm(in.timer)
		}
		n.feed(in.kind, in.from, in.msg, in.t, in.timer)
	}
	n.replaying = false
	for _, p := range s.all { // in a fixed order, so that the first difference is the same in every run
		if old, ok := before[p]; ok {
			n.compare(p, old)
		}
	}
}

// compare panics if the replay sends different messages than the original run.
func (n *node) compare(p *path, old queue.Queue[unloggedMessage]) {
	// The replay may send more, because outputs of unsynced inputs had not left before the crash.
	differs := p.unlogged.Len() < old.Len() || p.sent < p.logged
	if n.s.c.CheckCodec && !differs {
		var again []protocol.Message
		p.unlogged.Each(func(m unloggedMessage) { again = append(again, m.msg) })
		old.Each(func(m unloggedMessage) {
			differs = differs || m.msg.Kind() != again[0].Kind() || !bytes.Equal(m.msg.AppendTo(nil), again[0].AppendTo(nil))
			again = again[1:]
		})
	}
	if differs {
		t := n.s.c.Topology
		panic(fmt.Sprintf("sim: the replay of node %s sends node %s other messages than the node did: its replica is not deterministic",
			t.NodeName(geo.NodeID(n.id)), t.NodeName(geo.NodeID(p.to))))
	}
}

// resend replaces Send during a replay. It keeps only the messages that the receiver does not have.
func (n *node) resend(to geo.NodeID, m protocol.Message) {
	p := n.s.path(n.id, int32(to))
	if p.sent++; p.sent > p.logged {
		p.unlogged.Push(unloggedMessage{m, int32(FrameBytes + m.Size()), n.moment})
	}
}

// disarm removes the timer that fired according to a log entry. Among equal timers, it removes the earliest.
func (n *node) disarm(t protocol.Timer) {
	first := -1
	for i, a := range n.armed {
		if a.timer == t && (first < 0 || a.due < n.armed[first].due) {
			first = i
		}
	}
	if first < 0 {
		panic(fmt.Sprintf("sim: the replay of node %d has not set timer %d/%d, which fired: its replica is not deterministic", n.id, t.Kind, t.Arg))
	}
	n.armed = append(n.armed[:first], n.armed[first+1:]...)
}
