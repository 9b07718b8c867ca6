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

// written is a node's checkpoint: what it must know besides the inputs that its log got afterwards.
type written struct {
	replica []byte
	rows    [][]byte
	pcg     rand.PCG
	buggify *buggify.Node
	beside  time.Duration
	armed   []armedTimer
	links   map[*path]sending
}

// sending is what a node had sent over a path, with the messages that are not in the receiver's log, or not synced
// there.
type sending struct {
	sent     uint64
	unlogged []unloggedMessage
}

// unsynced returns the messages of a node that are in this one's log and may not be synced: a crash may lose them.
func (n *node) unsynced(from int32) (messages []unloggedMessage) {
	for _, in := range n.log[n.synced:] {
		if in.kind == onMessage && in.from == from {
			messages = append(messages, in.again())
		}
	}
	return messages
}

// partBytes is the size of the parts that rows are written in.
const partBytes = 1 << 12

// Checkpoint writes a node's state, unless the node is in the middle of something. One with a log forgets the inputs
// until now, and starts again from there when it has crashed. With swap the node goes on from what was written: a new
// replica that has read it, and a store with the rows that were. Either way nothing else about the simulation changes.
// It panics when the state cannot be written or read, or when what was read would be written in another way. It returns
// how many bytes the replica's state has, 0 if it was not written.
func (s *Sim) Checkpoint(id geo.NodeID, swap bool) (size int) {
	n := s.nodes[id]
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

// read makes the node's replica and rows what was written.
func (n *node) read(w *written) {
	n.makeReplica()
	n.store.Reset(0)
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

// timers returns those that are set, in the order in which they fire.
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

// resume brings a node that starts again to where its checkpoint was.
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
			if to.sent-uint64(len(to.unlogged)-i)+1 > p.logged {
				p.unlogged.Push(m)
			}
		}
	}
}
