// Package raftgroup is shared by engines that store each shard of a geo.Layout in its own Raft group. It manages a
// node's membership in several groups, the batches that leaders propose, and the announcements of leaders. It also
// provides names, rows and outcomes for transactions that involve several groups.
//
// A Member is a node's replica of one group. Its Machine is the engine's state machine: it applies log entries, and
// while the node leads, it serves requests to the leader of a term. A request for an earlier term is dropped: the
// sender repeats the request after the next leader's announcement (Lead). A request for a later term waits.
//
// A Node contains all members of a node and finishes each step of the replica. It delivers the messages that the node
// sends to itself, and advances the groups that have changed.
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
	// proposeEvery is the minimum time between two proposals of a group while an entry is in flight. Commands proposed in
	// between share the next entry.
	proposeEvery = 500 * time.Microsecond
	// keptBytes bounds the part of a group's log that is retained for members that lag.
	keptBytes = 16 << 20
)

// Machine is an engine's state machine for a group's log.
type Machine interface {
	// Step is called when this node starts or stops leading. When it starts, it has applied all entries that were
	// committed before its term, and no further entry of an earlier term will be committed.
	Step(leads bool)
	// Serve handles a request for the leader of the current term.
	Serve(from geo.NodeID, m protocol.Message)
	// Advance performs the work that the step has enabled. It is called at the end of a step while this node leads.
	Advance()
	// Entry encodes the collected commands as a log entry; nil for none.
	Entry(batch []byte) []byte
	// Apply applies a committed entry. It is called in log order.
	Apply(entry []byte)
	// Snapshot and Restore are the functions of these names in consensus.Config.
	Snapshot() []byte
	Restore(data []byte)
}

// Config describes a node.
type Config struct {
	Self        geo.NodeID
	Incarnation uint32 // of Self: see protocol.Config
	Nodes       int    // in the database
	Layout      *geo.Layout
	Env         protocol.Env
	// RaftTimer and ProposeTimer are the timer kinds of all groups; the owner must pass these timers to Member.Fire.
	RaftTimer, ProposeTimer uint8
	// Heartbeat, Election, Lease and Keep set the fields of these names in consensus.Config.
	Heartbeat, Election, Lease time.Duration
	Keep                       int
	// Shrink is protocol.Config.Shrink.
	Shrink uint8
	// Handle handles a message that the node has sent to itself.
	Handle func(from geo.NodeID, m protocol.Message)
}

// Node manages a node's memberships in groups.
type Node struct {
	Config
	// local holds the messages of this node to itself. dirty holds the members that were touched in this step.
	local   queue.Queue[protocol.Message]
	dirty   queue.Queue[*Member]
	members []*Member
}

// Member is a node's membership in the Raft group that stores one shard.
type Member struct {
	Shard int
	Raft  *consensus.Group
	// Serving is set while this node serves as the leader of term Term. Leads also checks that the node still leads.
	Serving bool
	Term    uint64
	// Batch holds the commands for the next proposal, which is made immediately or when the timer fires.
	Batch []byte
	// Proposed is the time of the last proposal.
	Proposed time.Duration

	node    *Node
	machine Machine
	dirty   bool // the member is in Node.dirty
	waiting bool
	// underway is the number of entries of this term that are not yet applied.
	underway int
	// content is the index of the last entry that contains commands.
	content uint64
	// held holds requests for a later term, in which this node may become the leader.
	held []request
}

// request is a message for the leader of a term.
type request struct {
	from geo.NodeID
	term uint64
	m    protocol.Message
}

// NewMember makes the node a member of the group of a shard.
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

// Offload implements protocol.Env. Consensus never offloads work.
func (e *env) Offload(func() int64, protocol.Timer) {
	panic("raftgroup: consensus asks for work beside it")
}

// Reply implements protocol.Env. Consensus does not answer clients.
func (e *env) Reply(txn.Outcome) {}

// Rand implements protocol.Env.
func (e *env) Rand() *rand.Rand { return e.n.Env.Rand() }

// Mark implements protocol.Env.
func (e *env) Mark(p *coverage.Mark) { e.n.Env.Mark(p) }

// Buggify implements protocol.Env.
func (e *env) Buggify(p *buggify.Point) bool { return e.n.Env.Buggify(p) }

// Send sends a message. A message to this node is delivered at the end of the step.
func (n *Node) Send(to geo.NodeID, m protocol.Message) {
	switch {
	case to == n.Self:
		n.local.Push(m)
	// A corrupt message may name a node that does not exist.
	case int(to) < n.Nodes:
		n.Env.Send(to, m)
	}
}

// Finish completes a step: it delivers local messages and calls settle for touched members, until none of either
// remain.
func (n *Node) Finish() {
	for {
		switch {
		// Messages come first: a group then settles once, after all messages of the step.
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

// Replaced implements protocol.Rejoiner for all groups of the node. The new incarnation does not know the leaders yet,
// so this node announces the groups that it leads.
func (n *Node) Replaced(other geo.NodeID, incarnation uint32) {
	for _, m := range n.members {
		m.Raft.Replaced(other, incarnation)
		if m.Leads() {
			n.Send(other, &Lead{m.Shard, m.Term})
		}
		m.Touch()
	}
}

// FullyReplicated reports whether all groups of the node have all their members and all members vote.
func (n *Node) FullyReplicated() bool {
	return !slices.ContainsFunc(n.members, func(m *Member) bool { return !m.Raft.FullyReplicated() })
}

// Start starts the member.
func (m *Member) Start() {
	m.Raft.Start()
	m.Touch()
}

// Receive handles a consensus message of the group.
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

// Fire handles a timer of the member.
func (m *Member) Fire(t protocol.Timer) {
	if t.Kind == m.node.RaftTimer {
		m.Raft.Fire(protocol.Timer{Kind: t.Kind, Arg: t.Arg & 0xff})
		m.Touch()
		return
	}
	m.waiting = false
	m.Propose()
}

// Touch schedules settle for the end of the step.
func (m *Member) Touch() {
	if !m.dirty {
		m.dirty = true
		m.node.dirty.Push(m)
	}
}

// lead records a new leader, before any entry of its term is applied.
func (m *Member) lead(leader geo.NodeID, term uint64) {
	// A member may lose and win leadership within one step. The term shows that the member's volatile state belongs to an
	// earlier leadership.
	if m.Serving && (leader != m.node.Self || term != m.Term) {
		m.step(false)
	}
	m.Touch()
}

// step makes this node start or stop serving the group. A node that starts notifies all nodes.
func (m *Member) step(leads bool) {
	// Drop the batch of the last term: the senders of its requests repeat them to the next leader.
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

// Admit handles a request for the leader of a term. A request for an earlier term is dropped: its sender will receive
// the next leader's announcement.
func (m *Member) Admit(from geo.NodeID, term uint64, request protocol.Message) {
	m.Touch()
	m.admit(from, term, request)
}

func (m *Member) admit(from geo.NodeID, term uint64, q protocol.Message) {
	switch {
	case term < m.Raft.Term():
		m.node.Env.Mark(requestLate)
	// A leader that has not applied all earlier entries is not yet Serving; the request then waits in held.
	case m.Leads() && term == m.Term:
		m.machine.Serve(from, q)
	default:
		m.node.Env.Mark(requestEarly)
		m.held = append(m.held, request{from, term, q})
	}
}

// Leads reports whether this node leads according to the consensus state, so that its proposals may be committed.
func (m *Member) Leads() bool {
	if m.Serving && (!m.Raft.Leading() || m.Raft.Term() != m.Term) {
		m.step(false)
	}
	return m.Serving
}

// settle performs the group's work at the end of a step.
func (m *Member) settle() {
	m.dirty = false
	// A leader serves only after it has applied an entry of its own term. It has then also applied all committed entries
	// of earlier terms (Ongaro 2014, 6.4).
	if !m.Leads() && m.Raft.Current() {
		m.step(true)
	}
	// The list is detached first, because admit appends requests that still have to wait.
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

// flush proposes the batch, immediately or later together with further commands.
func (m *Member) flush() {
	if len(m.Batch) == 0 || m.waiting {
		return
	}
	wait := m.Proposed + proposeEvery - m.node.Env.Now()
	// No entry is in flight, so waiting would only add latency.
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

// Propose proposes the batch. If the batch is refused or lost, its requests are repeated after the next leader's
// announcement.
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
	// Entry may also return an entry without commands, which Spread need not wait for.
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
	// step resets underway to 0, so entries of earlier terms must not make it negative.
	if m.Leads() && m.underway > 0 {
		m.underway--
	}
	m.machine.Apply(entry)
}

// Spread reports whether all live members, including new incarnations, have all commands in the log.
func (m *Member) Spread(lives func(geo.NodeID) bool) bool {
	return m.Raft.FullyReplicated() && m.Raft.Reached(m.content, func(n geo.NodeID) bool { return n != m.node.Self && lives(n) })
}

// Idle reports whether no command waits to be proposed and no request waits to be served.
func (m *Member) Idle() bool { return len(m.Batch) == 0 && len(m.held) == 0 }
