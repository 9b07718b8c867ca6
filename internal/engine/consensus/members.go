package consensus

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/geobench/geobench/internal/base/geo"
)

// A node that has lost its memory comes back as another member (Ongaro's thesis, section 4). The leader changes one
// member at a time, which is safe since the majorities of before and after meet, and only once it has committed
// something in its term (Ongaro, raft-dev, 2015):
//
//  1. The old incarnation is taken out. It counted for a majority and will never answer again, so that this needs nobody
//     who was not needed before; where those who are left are no majority it is not committed, and nothing happens.
//  2. The new one is taken in as a learner, who gets the log and does not count.
//  3. It is made a voter when it has caught up: when it has got what was committed at the beginning of a round within
//     an election timeout (thesis, section 4.2.1).
//
// The log says how far that is, so that the next leader goes on where the last one was.

// membership is what a member knows of who belongs to the group.
type membership struct {
	self uint64
	// conf are the members as of the last applied entry; nil before a new incarnation has its first snapshot.
	conf *raftpb.ConfState
	// incarnations are those of other nodes that are not the first.
	incarnations map[geo.NodeID]uint32

	// mended says that the group was whole when it was asked last, and nothing has happened to its members since.
	mended bool
	// At the leader, changing is the index of the change that it has proposed last, and rounds are those of the learners.
	changing uint64
	rounds   map[uint64]round
}

// round is a part of a learner's way: it ends when the learner has all entries up to an index.
type round struct {
	upTo  uint64
	began time.Duration
}

func newMembership(c *Config) membership {
	return membership{self: raftID(c.Self, c.Incarnation), incarnations: map[geo.NodeID]uint32{}}
}

// raftID is a member's number in Raft. It is never 0, which Raft takes for nobody.
func raftID(n geo.NodeID, incarnation uint32) uint64 {
	return uint64(incarnation)<<32 | uint64(uint32(n)+1)
}

func nodeOf(id uint64) geo.NodeID         { return geo.NodeID(uint32(id) - 1) }
func incarnationOf(id uint64) uint32      { return uint32(id >> 32) }
func (m *membership) ids() []uint64       { return slices.Concat(m.conf.GetVoters(), m.conf.GetLearners()) }
func (m *membership) votes() bool         { return slices.Contains(m.conf.GetVoters(), m.self) }
func (m *membership) gone(id uint64) bool { return incarnationOf(id) < m.incarnations[nodeOf(id)] }

// knows reports whether what is sent to a member reaches it: its node's link is with that incarnation.
func (m *membership) knows(id uint64) bool { return incarnationOf(id) == m.incarnations[nodeOf(id)] }

// between reports whether a message is for this member, and from one that lives. What was meant for an earlier
// incarnation must not be answered: it has promised and acknowledged what this one does not know.
func (g *Group) between(from geo.NodeID, m *raftpb.Message) bool {
	return nodeOf(m.GetFrom()) == from && m.GetTo() == g.self && !g.gone(m.GetFrom())
}

// Replaced says that another member's node has lost its process and memory, and that a new incarnation is in its place.
// What is sent to the node from now on reaches that one.
func (g *Group) Replaced(n geo.NodeID, incarnation uint32) {
	if g.node == nil || g.c.reused || incarnation <= g.incarnations[n] || n == g.c.Self || !slices.Contains(g.c.Members, n) {
		return
	}
	g.incarnations[n], g.mended = incarnation, false
	g.transfers = slices.DeleteFunc(g.transfers, func(t *transfer) bool { return nodeOf(t.to) == n })
	g.mend()
}

// Joined reports whether this member has the group's state: one that is not the first incarnation gets it from the
// others.
func (g *Group) Joined() bool { return g.node == nil || g.conf != nil }

// FullyReplicated reports whether the group has all its members, as far as this one knows, and all of them vote.
func (g *Group) FullyReplicated() bool {
	if g.node == nil {
		return true
	}
	for _, n := range g.c.Members {
		incarnation := g.incarnations[n]
		if n == g.c.Self {
			incarnation = g.c.Incarnation
		}
		if !slices.Contains(g.conf.GetVoters(), raftID(n, incarnation)) {
			return false
		}
	}
	return len(g.conf.GetVoters()) == len(g.c.Members) && len(g.conf.GetLearners()) == 0
}

// mend proposes what the group needs next to be whole again, if this member leads it.
func (g *Group) mend() {
	for g.node != nil && !g.mended && g.Current() && g.applied >= g.changing {
		if g.mended = g.FullyReplicated(); g.mended {
			return
		}
		c := g.next()
		if c == nil || g.node.ProposeConfChange(c) != nil {
			return
		}
		g.drain()
		g.changing = g.Last()
	}
}

// next is the change that is due; nil for none.
func (g *Group) next() *raftpb.ConfChange {
	propose := func(what raftpb.ConfChangeType, id uint64) *raftpb.ConfChange {
		return &raftpb.ConfChange{Type: what.Enum(), NodeId: new(id)}
	}
	ids := g.ids()
	for _, id := range ids {
		if g.gone(id) {
			return propose(raftpb.ConfChangeRemoveNode, id)
		}
	}
	for _, n := range g.c.Members {
		if i := g.incarnations[n]; i > 0 && !slices.ContainsFunc(ids, func(id uint64) bool { return nodeOf(id) == n }) {
			return propose(raftpb.ConfChangeAddLearnerNode, raftID(n, i))
		}
	}
	for _, id := range g.conf.GetLearners() {
		if g.caughtUp(id) && (!g.c.Lossy || g.votersReached(g.applied)) {
			return propose(raftpb.ConfChangeAddNode, id)
		}
	}
	return nil
}

// votersReached reports whether all voters have all entries up to an index. The log of a new incarnation begins with
// its snapshot: if it led, a voter that lacked entries from before would get a snapshot, too, which must not be where
// it is lossy.
func (g *Group) votersReached(index uint64) bool {
	reached := true
	g.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		reached = reached && (p.Match >= index || !slices.Contains(g.conf.GetVoters(), id))
	})
	return reached
}

// caughtUp reports whether a learner has ended a round within an election timeout. If not, the next one begins.
func (g *Group) caughtUp(id uint64) bool {
	var at tracker.Progress
	g.node.WithProgress(func(of uint64, _ raft.ProgressType, p tracker.Progress) {
		if of == id {
			at = p
		}
	})
	now, r := g.c.Env.Now(), g.rounds[id]
	if r.upTo > 0 && at.Match >= r.upTo && now-r.began < g.c.Election {
		return true
	}
	if r.upTo == 0 || at.Match >= r.upTo {
		if g.rounds == nil {
			g.rounds = map[uint64]round{}
		}
		g.rounds[id] = round{upTo: g.applied, began: now}
	}
	return false
}

// change applies an entry that changes the members.
func (g *Group) change(e *raftpb.Entry) {
	var c raftpb.ConfChange
	if err := proto.Unmarshal(e.GetData(), &c); err != nil || e.GetType() != raftpb.EntryConfChange {
		panic("consensus: an entry of the log that changes the members is malformed")
	}
	g.conf, g.mended = g.node.ApplyConfChange(&c), false
	switch c.GetType() {
	case raftpb.ConfChangeRemoveNode:
		g.c.Env.Mark(takenOut)
		delete(g.acknowledged, c.GetNodeId())
		g.transfers = slices.DeleteFunc(g.transfers, func(t *transfer) bool { return t.to == c.GetNodeId() })
	case raftpb.ConfChangeAddLearnerNode:
		g.c.Env.Mark(takenIn)
	case raftpb.ConfChangeAddNode:
		g.c.Env.Mark(promoted)
	}
}
