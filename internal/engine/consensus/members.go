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

// A node that has lost its state rejoins as another member (Ongaro's thesis, section 4). The leader changes one member
// at a time, which is safe because the majorities before and after the change intersect. The leader proposes a change
// only after it has committed an entry in its term (Ongaro, raft-dev, 2015):
//
//  1. The leader removes the old incarnation. The old incarnation never answers again, so the remaining members must
//     form a majority to commit its removal. Without a majority, the membership stays as it is.
//  2. The leader adds the new incarnation as a learner, which receives the log and does not vote.
//  3. The leader makes the learner a voter when it has caught up. It has caught up when it receives, within an election
//     timeout, all entries committed at the start of a round (thesis, section 4.2.1).
//
// The log records the progress, so that the next leader continues from there.

// membership is a member's view of the group's members.
type membership struct {
	self uint64
	// conf is the membership as of the last applied entry; nil until a new incarnation has its first snapshot.
	conf *raftpb.ConfState
	// incarnations holds the known incarnations of other nodes, except first incarnations.
	incarnations map[geo.NodeID]uint32

	// mended is set if the group was complete at the last check and no member was replaced after that.
	mended bool
	// changing is, at the leader, the index of the last membership change that it proposed. rounds holds the catch-up
	// rounds of the learners.
	changing uint64
	rounds   map[uint64]round
}

// round is a catch-up round of a learner. It is complete once the learner has all entries up to an index.
type round struct {
	upTo  uint64
	began time.Duration
}

func newMembership(c *Config) membership {
	return membership{self: raftID(c.Self, c.Incarnation), incarnations: map[geo.NodeID]uint32{}}
}

// raftID returns a member's Raft ID. It is never 0, which Raft uses for no member.
func raftID(n geo.NodeID, incarnation uint32) uint64 {
	return uint64(incarnation)<<32 | uint64(uint32(n)+1)
}

func nodeOf(id uint64) geo.NodeID         { return geo.NodeID(uint32(id) - 1) }
func incarnationOf(id uint64) uint32      { return uint32(id >> 32) }
func (m *membership) ids() []uint64       { return slices.Concat(m.conf.GetVoters(), m.conf.GetLearners()) }
func (m *membership) votes() bool         { return slices.Contains(m.conf.GetVoters(), m.self) }
func (m *membership) gone(id uint64) bool { return incarnationOf(id) < m.incarnations[nodeOf(id)] }

// knows reports whether id is the latest known incarnation of its node. Messages to the node reach only that
// incarnation.
func (m *membership) knows(id uint64) bool { return incarnationOf(id) == m.incarnations[nodeOf(id)] }

// between reports whether a message is for this member, and from a member that has not been replaced. A message for an
// earlier incarnation must not be answered, because this incarnation does not know the earlier one's promises and
// acknowledgements.
func (g *Group) between(from geo.NodeID, m *raftpb.Message) bool {
	return nodeOf(m.GetFrom()) == from && m.GetTo() == g.self && !g.gone(m.GetFrom())
}

// Replaced records that a new incarnation has replaced the node of another member after the node lost its state.
// Messages to the node now reach the new incarnation.
func (g *Group) Replaced(n geo.NodeID, incarnation uint32) {
	if g.node == nil || g.c.reused || incarnation <= g.incarnations[n] || n == g.c.Self || !slices.Contains(g.c.Members, n) {
		return
	}
	g.incarnations[n], g.mended = incarnation, false
	g.transfers = slices.DeleteFunc(g.transfers, func(t *transfer) bool { return nodeOf(t.to) == n })
	g.mend()
}

// Joined reports whether this member has the group's state, which a later incarnation receives from other members.
func (g *Group) Joined() bool { return g.node == nil || g.conf != nil }

// FullyReplicated reports whether all members of the group are voters in their current incarnations, as far as this
// member knows.
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
	// A removed incarnation may still be a voter, or a new incarnation a learner.
	return len(g.conf.GetVoters()) == len(g.c.Members) && len(g.conf.GetLearners()) == 0
}

// mend proposes the next membership change that completes the group, if this member leads the group.
func (g *Group) mend() {
	// The previous change must be applied first. If changes overlapped, their majorities might not intersect.
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

// next returns the next membership change, or nil if there is none now.
func (g *Group) next() *raftpb.ConfChange {
	propose := func(what raftpb.ConfChangeType, id uint64) *raftpb.ConfChange {
		return &raftpb.ConfChange{Type: what.Enum(), NodeId: new(id)}
	}
	ids := g.ids()
	// Removals come first, because they shrink the majority, and a lost member can never help to commit the other changes.
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

// votersReached reports whether all voters have all entries up to an index. The log of a new incarnation starts with
// its snapshot. If a new incarnation became the leader, it could send only a snapshot to a voter without earlier
// entries. With lossy snapshots, that must not happen.
func (g *Group) votersReached(index uint64) bool {
	reached := true
	g.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		reached = reached && (p.Match >= index || !slices.Contains(g.conf.GetVoters(), id))
	})
	return reached
}

// caughtUp reports whether a learner has completed a round within an election timeout. If the round took longer, the
// next round starts.
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

// change applies an entry that changes the membership.
func (g *Group) change(e *raftpb.Entry) {
	var c raftpb.ConfChange
	if err := proto.Unmarshal(e.GetData(), &c); err != nil || e.GetType() != raftpb.EntryConfChange {
		panic("consensus: an entry of the log that changes the members is malformed")
	}
	g.conf, g.mended = g.node.ApplyConfChange(&c), false
	switch c.GetType() {
	case raftpb.ConfChangeRemoveNode:
		g.c.Env.Mark(takenOut)
		// An acknowledgement of a removed member must not count for a lease.
		delete(g.acknowledged, c.GetNodeId())
		g.transfers = slices.DeleteFunc(g.transfers, func(t *transfer) bool { return t.to == c.GetNodeId() })
	case raftpb.ConfChangeAddLearnerNode:
		g.c.Env.Mark(takenIn)
	case raftpb.ConfChangeAddNode:
		g.c.Env.Mark(promoted)
	}
}
