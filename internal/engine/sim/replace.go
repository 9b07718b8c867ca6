package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Replacement. If the engine supports it, a new incarnation can replace a node that has no log and has lost its
// process. Each link belongs to a pair of incarnations. The first frame of a new incarnation follows all frames of the
// old incarnation. It announces the new incarnation to the peer, and opens the link in the other direction. Earlier
// messages of the peer were meant for the old incarnation and are lost.

// helloBytes is the size in bytes of the frame that announces a new incarnation.
const helloBytes = 32

// Replace replaces a crashed node with a new incarnation: an empty process that obtains its state from the other nodes.
// Config.Durable must not be set, and the engine's replicas must be protocol.Rejoiners.
func (s *Sim) Replace(id geo.NodeID) {
	n := s.nodes[id]
	if _, ok := n.replica.(protocol.Rejoiner); !ok || s.c.Durable {
		panic("sim: only a node without a log whose engine takes new incarnations in can be replaced")
	}
	if !n.dead {
		return
	}
	n.dead = false
	n.life++
	n.incarnation++
	n.held, n.released = queue.Queue[time.Duration]{}, s.now
	// Use a different seed for each incarnation, so that it does not repeat the random numbers of its predecessor.
	n.seed(*rand.NewPCG(s.c.Seed, uint64(n.incarnation)<<32|uint64(n.id)+1))
	everywhere := rowsEverywhere(n.store)
	n.store.Reset(len(everywhere))
	for _, r := range everywhere {
		n.store.Load(r.key, r.value)
	}
	if s.c.Trace != nil {
		n.trace(Observation{Kind: IsReplaced, Incarnation: n.incarnation})
	}
	n.makeReplica()
	if s.checks != nil {
		s.checks.restarted(n)
	}
	n.known = nil
	s.after(0, item{kind: onStart, to: n.id, life: n.life})
	for _, p := range s.nodes {
		if p == n {
			continue
		}
		// A new incarnation does not know of other replaced nodes, so announce them: see protocol.Rejoiner.
		if p.incarnation > 0 {
			s.after(0, item{kind: onReplaced, from: p.id, to: n.id, life: p.incarnation, sent: s.now})
		}
		s.transmit(n.id, p.id, s.keep(item{kind: onReplaced, from: n.id, to: p.id, size: helloBytes, life: n.incarnation, sent: s.now}), helloBytes)
	}
}

// FullyReplicated reports whether all live nodes, including new incarnations, report full replication: the data that
// they store has its full number of copies. The engine's replicas must be protocol.Rejoiners.
func (s *Sim) FullyReplicated() bool {
	return !slices.ContainsFunc(s.nodes, func(n *node) bool { return !n.dead && !n.replica.(protocol.Rejoiner).FullyReplicated() })
}

// rowsEverywhere returns the rows that every node stores and no transaction writes, regardless of how the store was
// filled.
func rowsEverywhere(s store.Store) (rows []initialRow) {
	s.Each(func(k txn.Key, r store.Record) {
		if k.Everywhere() {
			rows = append(rows, initialRow{k, r.Value})
		}
	})
	return rows
}

// knows returns the incarnation of another node to which this node's link leads.
func (n *node) knows(peer int32) uint32 {
	if n.known == nil {
		return 0
	}
	return n.known[peer]
}

// meet makes this node's link to a peer lead to the peer's new incarnation.
func (n *node) meet(peer int32, incarnation uint32) {
	if n.known == nil {
		n.known = make([]uint32, len(n.s.nodes))
	}
	n.known[peer] = incarnation
}
