package oceanvista

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// watermarks tracks the watermarks that the servers exchange.
type watermarks struct {
	r        *Replica
	interval time.Duration // the parameter gossip
	peers    []peer        // by node
	// visible is the visibility watermark known to this node: the node has all functors up to it, and these functors are
	// stable.
	visible Timestamp
	// highest is the highest watermark received.
	highest Timestamp

	gossips, heldBack int64
}

// peer is the state that this node keeps about another server.
type peer struct {
	watermark Timestamp
	// view is the highest view in the peer's messages. held buffers messages of the peer from views that this node has not
	// reached.
	view  uint64
	held  []protocol.Message
	heard time.Duration // time of the last message

	// sent is the number of gossip messages to the peer, and arrived the number of these that the peer has acknowledged.
	// received is the number of gossip messages from the peer, and acknowledged the number of these that this node has
	// acknowledged. At most window messages are in flight, so that slow or disconnected links do not fill up. A message
	// that carries a new acknowledgement is exempt, because two servers with full windows would otherwise wait for each
	// other.
	sent, arrived, received, acknowledged, window uint64
}

func (w *watermarks) init(r *Replica, t *geo.Topology, p protocol.Params) {
	w.r, w.interval = r, p.Duration("gossip")
	w.peers = make([]peer, t.Nodes())
	for n := range w.peers {
		rtt := t.RTT(t.RegionOf(r.self), t.RegionOf(geo.NodeID(n)))
		w.peers[n].window = 4 + 2*uint64(rtt/w.interval)
	}
}

func (w *watermarks) start() {
	for n := range w.peers {
		w.peers[n].heard = w.r.env.Now()
	}
	w.tickLater()
}

// tickLater sets the gossip timer. Ticks are aligned to multiples of the interval on the node's clock.
func (w *watermarks) tickLater() {
	if len(w.peers) > 1 {
		w.r.env.After(w.interval-max(0, w.r.env.Now())%w.interval, protocol.Timer{Kind: gossipTimer})
	}
}

func (w *watermarks) hear(n geo.NodeID) { w.peers[n].heard = w.r.env.Now() }

// tick sends this server's watermarks to the other servers, except abandoned servers.
func (w *watermarks) tick() {
	for n := range w.peers {
		if p := &w.peers[n]; geo.NodeID(n) != w.r.self && w.r.membership.servers[n].status != abandoned {
			if p.sent-p.arrived >= p.window && p.received == p.acknowledged {
				w.heldBack++
				w.r.env.Mark(gossipHeldBack)
				continue
			}
			if !w.r.env.Buggify(gossipLeftOut) {
				w.tell(geo.NodeID(n))
			}
		}
	}
	w.r.replace.askToJoin()
	w.tickLater()
}

func (w *watermarks) tell(n geo.NodeID) {
	p := &w.peers[n]
	p.sent++
	p.acknowledged = p.received
	w.gossips++
	w.r.env.Send(n, &Gossip{
		View: w.r.membership.view, Epoch: w.r.membership.servers[w.r.self].epoch,
		Watermark: w.r.writes.watermark(), Replicated: w.r.writes.replicated, Number: p.sent, Received: p.received,
	})
}

// count updates the gossip counts and the view of a peer. It runs even if the message itself is buffered.
func (w *watermarks) count(from geo.NodeID, m *Gossip) {
	p := &w.peers[from]
	p.received, p.arrived, p.view = max(p.received, m.Number), max(p.arrived, min(m.Received, p.sent)), max(p.view, m.View)
}

// receive handles another server's watermarks. It ignores them if the server is not active, or was closed after it sent
// them.
func (w *watermarks) receive(from geo.NodeID, m *Gossip) {
	s := &w.r.membership.servers[from]
	// A watermark from an earlier epoch may cover functors that the group has decided to treat as never written.
	if s.status != active || s.epoch != m.Epoch {
		w.r.env.Mark(gossipOfSuspect)
		return
	}
	p := &w.peers[from]
	// Watermarks only rise. A join may have set a higher watermark before the server's first gossip arrives.
	p.watermark = max(p.watermark, m.Watermark)
	w.highest = max(w.highest, m.Watermark)
	w.r.functors.collect(from, m.Replicated)
	w.r.replace.completes(from)
}

// advance advances and returns the visibility watermark: the lowest watermark of all active and suspected servers.
func (w *watermarks) advance() Timestamp {
	lowest, any := ^Timestamp(0), false
	for n := range w.peers {
		// A suspected server still holds back visibility until the group has decided about its unfinished functors. A closed
		// server has no unfinished functors.
		if w.r.membership.servers[n].counts() && geo.NodeID(n) != w.r.self {
			lowest, any = min(lowest, w.peers[n].watermark), true
		}
	}
	if s := &w.r.membership.servers[w.r.self]; s.counts() {
		lowest, any = min(lowest, w.r.writes.watermark()), true
	}
	if any && lowest > w.visible {
		w.visible = lowest
		// replicated must not exceed visible, so it may be able to advance now.
		w.r.writes.replicate()
	}
	return w.visible
}
