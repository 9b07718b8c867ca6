package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/checkpoint"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// written is a node's checkpoint: the state from which the node can continue, given the inputs logged after the
// checkpoint.
type written struct {
	replica []byte
	rows    [][]byte
	pcg     rand.PCG
	buggify *buggify.Node
	beside  time.Duration
	armed   []armedTimer
	links   map[*path]sending
}

// sending is the state of a path at its sender: sent is the number of sent messages. unlogged contains the messages
// that are not synced in the receiver's log.
type sending struct {
	sent     uint64
	unlogged []unloggedMessage
}

// unsynced returns the messages from a node that are in this node's log but may not be synced. A crash may lose these
// messages.
func (n *node) unsynced(from int32) (messages []unloggedMessage) {
	for _, in := range n.log[n.synced:] {
		if in.kind == onMessage && in.from == from {
			messages = append(messages, in.again())
		}
	}
	return messages
}

// partBytes is the size in bytes of the parts in which rows are written.
const partBytes = 1 << 12

// Checkpoint writes a node's state, unless the node is in the middle of a step. A node with a log discards its earlier
// inputs, and restarts from the checkpoint after a crash. If swap is set, the node continues with a new replica read
// from the checkpoint, and with a store that has the same rows. Apart from this, the simulation does not change.
//
// Checkpoint panics if the state cannot be written or read, or if the restored state has a different encoding. It
// returns the size of the replica's state in bytes, or 0 if no state was written.
func (s *Sim) Checkpoint(id geo.NodeID, swap bool) (size int) {
	n := s.nodes[id]
	// A crash may remove unsynced inputs. This is no longer possible once a checkpoint includes their effects, so write no
	// checkpoint while there are such inputs.
	if n.dead || n.busy || len(n.out) > 0 || n.held.Len() > 0 || s.c.Durable && !n.synchronous() {
		return 0
	}
	w := &written{replica: n.write(n.replica), pcg: *n.pcg, buggify: n.buggify.Clone(), beside: n.beside}
	frozen := n.store.Freeze()
	for more := true; more; {
		var part []byte
		part, more = frozen.Append(nil, partBytes)
		w.rows = append(w.rows, part)
	}
	if s.c.Durable {
		w.armed = n.timers()
		w.links = map[*path]sending{}
		for _, p := range s.all {
			if p.from == n.id {
				// Save the messages that receivers may lose, because messages from before the checkpoint cannot be replayed.
				to := sending{sent: p.sent, unlogged: s.nodes[p.to].unsynced(n.id)}
				p.unlogged.Each(func(m unloggedMessage) { to.unlogged = append(to.unlogged, m) })
				w.links[p] = to
			}
		}
		n.written = w
		clear(n.log)
		n.log, n.synced, n.logged = n.log[:0], 0, 0
	}
	if swap {
		n.read(w)
		// Write the restored state again, to detect state that Read has lost.
		if again := n.write(n.replica); !bytes.Equal(w.replica, again) {
			panic(fmt.Sprintf("sim: node %s: what was read is written as %d bytes, and not as the same %d", s.c.Topology.NodeName(id), len(again), len(w.replica)))
		}
	}
	return len(w.replica)
}

// synchronous reports whether all inputs in the log are synced.
func (n *node) synchronous() bool {
	n.departed()
	return n.leaving.Len() == 0 && n.synced == len(n.log)
}

func (n *node) world() *checkpoint.World {
	c := n.config()
	w := checkpoint.NewWorld(n.s.c.Engine, &c)
	w.Strict = true
	return w
}

func (n *node) write(r protocol.Replica) []byte {
	b, err := checkpoint.Append(nil, n.world(), r, n.s.c.Engine.New(n.config()))
	if err != nil {
		panic(fmt.Sprintf("sim: node %s: %v", n.s.c.Topology.NodeName(geo.NodeID(n.id)), err))
	}
	return b
}

// read restores the node's replica and rows from a checkpoint.
func (n *node) read(w *written) {
	n.makeReplica()
	n.store.Reset(0)
	// Pass a copy, because the replica may keep and change parts of it.
	err := checkpoint.Read(bytes.Clone(w.replica), n.world(), n.replica)
	for _, part := range w.rows {
		if err == nil {
			err = n.store.Thaw(bytes.Clone(part))
		}
	}
	if err != nil {
		panic(fmt.Sprintf("sim: node %s: %v", n.s.c.Topology.NodeName(geo.NodeID(n.id)), err))
	}
}

// timers returns the pending timers in the order in which they will fire.
func (n *node) timers() (armed []armedTimer) {
	type one struct {
		armedTimer
		seq uint64
	}
	var all []one
	for _, e := range n.s.events.events {
		if it := &n.s.items[e.item]; it.kind == onTimer && it.to == n.id && it.life == n.life {
			all = append(all, one{armedTimer{e.at, it.timer}, e.seq})
		}
	}
	slices.SortFunc(all, func(a, b one) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.seq, b.seq)) })
	for _, t := range all {
		armed = append(armed, t.armedTimer)
	}
	return armed
}

// resume restores the state of a restarting node from its checkpoint.
func (n *node) resume() {
	w := n.written
	n.seed(w.pcg)
	n.buggify = w.buggify.Clone()
	n.beside = w.beside
	n.armed = slices.Clone(w.armed)
	n.read(w)
	for p, to := range w.links {
		p.sent = to.sent
		for i, m := range to.unlogged {
			// The receiver may have logged some of these messages after the checkpoint.
			if to.sent-uint64(len(to.unlogged)-i)+1 > p.logged {
				p.unlogged.Push(m)
			}
		}
	}
}
