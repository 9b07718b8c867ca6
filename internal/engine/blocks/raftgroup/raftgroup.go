// Package raftgroup is the common part of engines that store each shard of a geo.Layout in its own Raft group. It has a
// node's membership in several groups, the batches that leaders propose, and the announcements of leaders. It also has
// the names, rows and endings of transactions that involve several groups.
//
// A Member is a node's share of one group. Its Machine is the engine's state machine for the group's log. It applies
// entries, and while the node leads it serves the requests addressed to the leader of a term. A request for an earlier
// term is dropped, since its sender learns of the next leader (Lead) and asks again. A request for a later term waits.
//
// A Node has all members of a node, and finishes a step of the replica. It delivers the messages that the node sends to
// itself, and settles the groups that have changed.
package raftgroup

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

const (
	// proposeEvery is the minimum time between a group's log entries while one is in flight: commands proposed meanwhile
	// share the next entry.
	proposeEvery = 500 * time.Microsecond
	// keptBytes bounds the part of a group's log that is kept for members that lag.
	keptBytes = 16 << 20
)

// Machine is what an engine makes of a group's log.
type Machine interface {
	// Step says that this node begins to lead, having applied all that was committed before its term, or that it
	// leads no more. Nothing else of earlier terms will be committed.
	Step(leads bool)
	// Serve takes a request for the leader of this term.
	Serve(from geo.NodeID, m protocol.Message)
	// Advance performs the work that has become possible at the end of a step, while this node leads.
	Advance()
	// Entry makes an entry of the commands that have gathered; nil for none.
	Entry(batch []byte) []byte
	// Apply takes the committed entries in the order of the log.
	Apply(entry []byte)
	// Snapshot and Restore are the functions of consensus.Config.
	Snapshot() []byte
	Restore(data []byte)
}

// Config describes a node.
type Config struct {
	Self        geo.NodeID
	Incarnation uint32 // of Self: see protocol.Config
	Nodes       int    // of the database
	Layout      *geo.Layout
	Env         protocol.Env
	// RaftTimer and ProposeTimer are the kinds of the timers of all groups, which the owner's Fire hands to Node.Fire.
	RaftTimer, ProposeTimer uint8
	// Heartbeat, Election, Lease and Keep are the fields of consensus.Config.
	Heartbeat, Election, Lease time.Duration
	Keep                       int
	// Shrink is protocol.Config.Shrink.
	Shrink uint8
	// Handle takes a message that the node has sent to itself.
	Handle func(from geo.NodeID, m protocol.Message)
}

// Node is a node's members of groups.
type Node struct {
	Config
	// local are messages of this node to itself, and dirty the members that something has happened to, in this step.
	local   queue.Queue[protocol.Message]
	dirty   queue.Queue[*Member]
	members []*Member
}

// Member is a node's member of the Raft group that stores one shard.
type Member struct {
	Shard int
	Raft  *consensus.Group
	// Serving says that this node leads, and Term since when. Leads asks whether it still does.
	Serving bool
	Term    uint64
	// Batch holds the commands to be proposed next, immediately or when the timer fires.
	Batch []byte
	// Proposed is the time of the last proposal.
	Proposed time.Duration

	node    *Node
	machine Machine
	dirty   bool // is among Node.dirty
	waiting bool
	// underway is the number of this term's entries that have not been applied.
	underway int
	// content is the index of the last entry that holds commands.
	content uint64
	// held holds the requests for a later term in which this node may become the leader.
	held []request
}

// request is a message for the leader of a term.
type request struct {
	from geo.NodeID
	term uint64
	m    protocol.Message
}

// NewMember returns the node's member of a group that it belongs to.
func (n *Node) NewMember(shard int, machine Machine) *Member {
	m := &Member{Shard: shard, node: n, machine: machine}
	group := n.Layout.Group(shard)
	m.Raft = consensus.New(consensus.Config{
		Self: n.Self, Incarnation: n.Incarnation,
		Members:   group.Members,
		Preferred: group.Leader,
		Env:       &env{n, shard},
		TimerKind: n.RaftTimer,
		Heartbeat: n.Heartbeat,
		Election:  n.Election,
		Lease:     n.Lease,
		Keep:      n.Keep,
		KeepBytes: protocol.Shrunk(n.Shrink, keptBytes),
		Apply:     m.apply,
		Lead:      m.lead,
		Snapshot:  machine.Snapshot,
		Restore:   machine.Restore,
	})
	n.members = append(n.members, m)
	return m
}

// env is the environment of a group's consensus: it adds the group to messages and timers.
type env struct {
	n     *Node
	shard int
}

// Now implements protocol.Env.
func (e *env) Now() time.Duration { return e.n.Env.Now() }

// Send implements protocol.Env.
func (e *env) Send(to geo.NodeID, m protocol.Message) {
	e.n.Env.Send(to, &Raft{e.shard, m.(*consensus.Message)})
}

// After implements protocol.Env.
func (e *env) After(d time.Duration, t protocol.Timer) {
	e.n.Env.After(d, protocol.Timer{Kind: t.Kind, Arg: uint64(e.shard)<<8 | t.Arg})
}

// Offload implements protocol.Env. Consensus does all by itself.
func (e *env) Offload(func() int64, protocol.Timer) {
	panic("raftgroup: consensus asks for work beside it")
}

// Reply implements protocol.Env. Consensus answers no clients.
func (e *env) Reply(txn.Outcome) {}

// Rand implements protocol.Env.
func (e *env) Rand() *rand.Rand { return e.n.Env.Rand() }

// Mark implements protocol.Env.
func (e *env) Mark(p *coverage.Mark) { e.n.Env.Mark(p) }

// Buggify implements protocol.Env.
func (e *env) Buggify(p *buggify.Point) bool { return e.n.Env.Buggify(p) }

// Send sends a message, to this node at the end of the step.
func (n *Node) Send(to geo.NodeID, m protocol.Message) {
	switch {
	case to == n.Self:
		n.local.Push(m)
	case int(to) < n.Nodes:
		n.Env.Send(to, m)
	}
}

// Finish performs the work that the step has made possible.
func (n *Node) Finish() {
	for {
		switch {
		case n.local.Len() > 0:
			m := n.local.Front()
			n.local.Pop()
			n.Handle(n.Self, m)
		case n.dirty.Len() > 0:
			m := n.dirty.Front()
			n.dirty.Pop()
			m.settle()
		default:
			return
		}
	}
}

// Replaced implements protocol.Rejoiner for all groups of the node. The new incarnation does not know their leaders
// yet.
func (n *Node) Replaced(other geo.NodeID, incarnation uint32) {
	for _, m := range n.members {
		m.Raft.Replaced(other, incarnation)
		if m.Leads() {
			n.Send(other, &Lead{m.Shard, m.Term})
		}
		m.Touch()
	}
}

// FullyReplicated reports whether all groups of the node have all their members, and all of them vote.
func (n *Node) FullyReplicated() bool {
	return !slices.ContainsFunc(n.members, func(m *Member) bool { return !m.Raft.FullyReplicated() })
}

// Start begins the member's work.
func (m *Member) Start() {
	m.Raft.Start()
	m.Touch()
}

// Receive takes a message of the group's consensus.
func (m *Member) Receive(from geo.NodeID, r *Raft) {
	m.Raft.Receive(from, r.Message)
	m.Touch()
}

// ShardOf returns the shard that a timer of kind RaftTimer or ProposeTimer belongs to.
func (n *Node) ShardOf(t protocol.Timer) int {
	if t.Kind == n.RaftTimer {
		return int(t.Arg >> 8)
	}
	return int(t.Arg)
}

// Fire takes a timer of the member's.
func (m *Member) Fire(t protocol.Timer) {
	if t.Kind == m.node.RaftTimer {
		m.Raft.Fire(protocol.Timer{Kind: t.Kind, Arg: t.Arg & 0xff})
		m.Touch()
		return
	}
	m.waiting = false
	m.Propose()
}

// Touch makes sure that the end of the step looks at the group.
func (m *Member) Touch() {
	if !m.dirty {
		m.dirty = true
		m.node.dirty.Push(m)
	}
}

// lead takes the news of a leader, before anything of its term is applied.
func (m *Member) lead(leader geo.NodeID, term uint64) {
	if m.Serving && (leader != m.node.Self || term != m.Term) {
		m.step(false)
	}
	m.Touch()
}

// step makes this node start or stop serving the group, and notifies all other nodes.
func (m *Member) step(leads bool) {
	m.Serving, m.Term, m.Batch, m.Proposed, m.underway, m.content = false, 0, nil, 0, 0, 0
	if leads {
		m.Serving, m.Term, m.content = true, m.Raft.Term(), m.Raft.Last()
	}
	m.machine.Step(leads)
	if !leads {
		m.node.Env.Mark(deposed)
		return
	}
	m.node.Env.Mark(nowLeads)
	news := &Lead{m.Shard, m.Term}
	for n := range geo.NodeID(m.node.Nodes) {
		m.node.Send(n, news)
	}
}

// Admit handles a request for the leader of a term. A request for an earlier term is dropped: its sender will learn of
// the next leader.
func (m *Member) Admit(from geo.NodeID, term uint64, request protocol.Message) {
	m.Touch()
	m.admit(from, term, request)
}

func (m *Member) admit(from geo.NodeID, term uint64, q protocol.Message) {
	switch {
	case term < m.Raft.Term():
		m.node.Env.Mark(requestLate)
	case m.Leads() && term == m.Term:
		m.machine.Serve(from, q)
	default:
		m.node.Env.Mark(requestEarly)
		m.held = append(m.held, request{from, term, q})
	}
}

// Leads reports whether this node leads according to the log: its proposals may be committed.
func (m *Member) Leads() bool {
	if m.Serving && (!m.Raft.Leading() || m.Raft.Term() != m.Term) {
		m.step(false)
	}
	return m.Serving
}

// settle performs the group's work that a step has made possible.
func (m *Member) settle() {
	m.dirty = false
	if !m.Leads() && m.Raft.Current() {
		m.step(true)
	}
	held := m.held
	m.held = nil
	for _, q := range held {
		m.node.Env.Mark(heldAgain)
		m.admit(q.from, q.term, q.m)
	}
	if m.Serving {
		m.machine.Advance()
	}
	m.flush()
}

// flush proposes the batch, immediately or together with the next commands.
func (m *Member) flush() {
	if len(m.Batch) == 0 || m.waiting {
		return
	}
	wait := m.Proposed + proposeEvery - m.node.Env.Now()
	if m.underway == 0 {
		wait = 0
	}
	if m.node.Env.Buggify(heldBack) {
		wait = 20 * proposeEvery
	}
	if wait > 0 {
		m.waiting = true
		m.node.Env.Mark(shared)
		m.node.Env.After(wait, protocol.Timer{Kind: m.node.ProposeTimer, Arg: uint64(m.Shard)})
		return
	}
	m.Propose()
}

// Propose proposes the batch. Requests in a refused or lost batch are repeated after the next leader's announcement.
func (m *Member) Propose() {
	if !m.Leads() {
		m.node.Env.Mark(tooLate)
		return
	}
	entry := m.machine.Entry(m.Batch)
	if entry == nil {
		m.node.Env.Mark(nothing)
		return
	}
	full := len(m.Batch) > 0
	m.Batch = m.Batch[:0]
	m.Proposed = m.node.Env.Now()
	m.underway++
	m.Raft.Propose(entry)
	if full {
		m.content = m.Raft.Last()
	}
}

func (m *Member) apply(entry []byte) {
	m.Touch()
	if m.Leads() && m.underway > 0 {
		m.underway--
	}
	m.machine.Apply(entry)
}

// Spread reports whether the members that live have all commands that the log holds, new incarnations too.
func (m *Member) Spread(lives func(geo.NodeID) bool) bool {
	return m.Raft.FullyReplicated() && m.Raft.Reached(m.content, func(n geo.NodeID) bool { return n != m.node.Self && lives(n) })
}

// Idle reports whether nothing waits to be proposed or served.
func (m *Member) Idle() bool { return len(m.Batch) == 0 && len(m.held) == 0 }
