// Package protocol is the contract between a database protocol and the world that runs it.
//
// A protocol is a deterministic state machine, a Replica, one per node. It never blocks, starts no goroutine (Env.Offload does), reads no
// clock, opens no socket and lets nobody see the order of a Go map. All that it knows reaches it through Start, Submit,
// Receive and Fire; all that it does goes through its Env. A driver calls these methods one at a time. Three drivers
// exist: package sim runs all replicas in virtual time; package node runs one or all of them in real time over TCP.
//
// Links. A driver delivers the messages from one node to another in the order in which they were sent, each exactly
// once, for as long as both nodes live: a broken connection is resumed where it broke, so a lost link shows as
// delay. Messages to and from a node that has stopped are lost; a node that starts again without its log is a
// new one, with a new incarnation (Config.Incarnation), and drivers let it join the old database only where the engine can take it in
// (Engine.Replaces, Rejoiner). A link is one with an incarnation: what was meant for an earlier one never reaches a later one, nothing
// of an earlier one comes once the later one has spoken, and a replica is told of that first.
//
// Durability. A driver may keep a log of a node's inputs, each in the log before anything that the replica makes of it
// leaves the node. Since a replica is deterministic, one that takes the inputs again at their times is where it was; the
// links then go on where the two logs say that they were. So a node that starts again with its log has, to all others,
// merely paused, and no protocol has to know about logs. Its clients are answered Unknown.
//
// A message is immutable once sent, and so is a transaction once submitted: drivers may hand the same value to several replicas.
//
// Clients are state machines too (see Client), so that the same load generator runs in virtual and in real time.
package protocol

import (
	"math/rand/v2"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/invariant"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
)

// Message is what replicas send to each other. Its methods are pure.
type Message interface {
	// Kind numbers the message's type within its engine, from 1. Numbers from 230 on belong to shared building blocks.
	Kind() uint8
	// Size is the exact number of bytes that AppendTo adds.
	Size() int
	// AppendTo appends the message's body to b.
	AppendTo(b []byte) []byte
}

// Timer is what comes back when a timer fires. Its meaning is the owner's own; a timer cannot be cancelled, so an
// owner that has lost interest ignores it.
type Timer struct {
	Kind uint8
	Arg  uint64
}

// Replica is one node of a database.
type Replica interface {
	// Start is called once, before anything else.
	Start()
	// Submit takes a transaction from a client of this node, with its footprint filled in. The replica answers it
	// with Env.Reply, exactly once, now or later.
	Submit(t *txn.Transaction)
	// Receive takes a message from a peer.
	Receive(from geo.NodeID, m Message)
	// Fire takes a timer set through Env.After.
	Fire(t Timer)
	// Pending is the number of transactions that the replica has heard of and not yet finished; 0 when it is quiet. A
	// replica that knows of something which others may lack, and that is not on its way to them, is not: drivers compare copies
	// when all are quiet. What is under way need be pending nowhere, since drivers wait for that: once all replicas are quiet,
	// every transaction is answered and every message handled that was sent, no row changes until another is submitted.
	Pending() int
	// Readings appends the values of the figures that Engine.Figures declares: the same figures in the same order for as long as the replica
	// lives. It changes nothing.
	Readings(dst []Reading) []Reading
}

// RemoteWork is a replica whose node has a server beside it that does some of its work, as a storage server does for a compute
// node. A driver that models what a node's CPU does, the simulator, charges it for none of that. One that runs the node
// in a process does all of the work there.
type RemoteWork interface {
	// Offloads reports whether the other server sends m to the peer, or takes it from there and does what it asks for.
	Offloads(peer geo.NodeID, m Message) bool
}

// RoleHolder is a replica whose nodes play different parts: a fault of a run's timeline can aim at those that play one.
type RoleHolder interface {
	// Roles returns those that the node has now, as far as it knows, of those that Engine.Roles lists.
	Roles() []string
}

// RolesOf returns the roles of a replica; nil when it has none.
func RolesOf(r Replica) []string {
	if h, ok := r.(RoleHolder); ok {
		return h.Roles()
	}
	return nil
}

// ShardLeader is a replica whose nodes lead groups of nodes that hold the same rows.
type ShardLeader interface {
	// Leads returns the shards (geo.Layout) whose groups the node leads now, as far as it knows, ascending.
	Leads() []int
}

// LeadsOf returns the names of the shards that a replica leads; nil where the engine has no such groups.
func LeadsOf(r Replica, l *geo.Layout) []string {
	leader, ok := r.(ShardLeader)
	if !ok {
		return nil
	}
	names := []string{}
	for _, shard := range leader.Leads() {
		names = append(names, l.ShardName(shard))
	}
	return names
}

// numberBits is how many bits of a number count what one incarnation of a node numbers, such as its batches.
const numberBits = 40

// NumbersBefore returns the last of the numbers that belong to earlier incarnations of a node: its own begin behind that, so that nobody takes what it
// numbers for what its predecessors have.
func NumbersBefore(incarnation uint32) uint64 { return uint64(incarnation) << numberBits }

// IncarnationOf returns the incarnation that a number, or the last one before it, belongs to.
func IncarnationOf(number uint64) uint32 { return uint32(number >> numberBits) }

// Rejoiner is a replica of an engine that replaces lost nodes: see Engine.Replaces.
type Rejoiner interface {
	// Replaced says that another node has lost its process and memory, and that a new incarnation is in its place, which knows
	// nothing. What is sent to the node from now on reaches that one; what was sent before, and has not arrived, is lost. A new
	// incarnation is told of all others that are not the first, right after Start.
	Replaced(n geo.NodeID, incarnation uint32)
	// FullyReplicated reports whether all that this node has copies of has as many of them as at first, as far as it knows.
	FullyReplicated() bool
}

// Straggler is a replica that can lag permanently: a long cut made it miss messages that the other replicas
// have discarded. It refuses its clients. Its Pending never falls to 0, so that drivers do not compare its rows.
type Straggler interface {
	// Lags reports whether the replica lags permanently.
	Lags() bool
}

// Lags reports whether a replica lags permanently.
func Lags(r Replica) bool {
	s, ok := r.(Straggler)
	return ok && s.Lags()
}

// Worker is a replica that does more than its messages and the operations of its store show, such as a search in a graph.
type Worker interface {
	// Steps counts the elementary steps of that so far, each some memory that is not in the cache. Simulators charge them. Those of
	// Env.Offload are not among them.
	Steps() int64
}

// Checked is a replica that can tell whether what it believes holds. A driver that explores asks it after every step; no other does.
type Checked interface {
	// Check says what holds now. It changes nothing, and what it says does not depend on the order of a Go map.
	Check(c *invariant.Checker)
}

// Env is a replica's world.
type Env interface {
	// Now is the node's clock: it never goes back, starts near the time the database did, and agrees with the other
	// nodes' clocks as far as their machines' clocks do.
	Now() time.Duration
	// Send sends m to another node. Sending to oneself is not allowed: call the method.
	Send(to geo.NodeID, m Message)
	// After asks for Fire(t) once d has passed.
	After(d time.Duration, t Timer)
	// Offload has work done on a core of its own, at the same time as the replica's, and asks for Fire(t) once it is over. What a node asks
	// for is done one after the other. Until Fire(t) what the work changes is its own, and nobody changes what it reads; it is
	// deterministic, calls nothing of Env, and returns how many elementary steps it took (see Worker).
	Offload(work func() (steps int64), t Timer)
	// Reply answers a transaction submitted to this node. The outcome is the driver's from then on.
	Reply(o txn.Outcome)
	// Rand is the node's own source of chance, from the manifest's seed.
	Rand() *rand.Rand
	// Mark notes that something rare has happened, for those who explore the protocol. It changes nothing.
	Mark(p *coverage.Mark)
	// Buggify reports whether the replica is to do the rare thing that a point names: see package buggify.
	Buggify(p *buggify.Point) bool
}

// Config is what a replica is made of.
type Config struct {
	Self geo.NodeID
	// Incarnation counts the processes in the node's place that have lost what they knew: 0 for the first. The Store of a later
	// one is filled with the rows that are everywhere alone, which nobody writes.
	Incarnation uint32
	Topology    *geo.Topology
	Params      Params
	Procedures  *txn.Registry
	// Store holds the node's part of the data; Engine.NewStore has made it. The driver fills it before the first transaction,
	// and again between runs when every replica is quiet; otherwise it is the replica's own.
	Store store.Store
	Env   Env
	// Shrink makes the amounts that replicas keep, send at a time or take for too much 2^Shrink times smaller, so that scenarios of a few rows
	// and seconds reach what otherwise takes megabytes and minutes. Drivers of databases that are measured leave it 0.
	Shrink uint8
}

// Shrunk returns an amount as Config.Shrink has it, 1 at least.
func Shrunk[T ~int | ~int64 | ~uint64](shrink uint8, usual T) T { return max(usual>>shrink, 1) }

// Client is a source of transactions: a state machine driven like a Replica.
type Client interface {
	Start()
	// Complete takes the outcome of a submitted transaction. Every submitted transaction completes exactly once.
	Complete(o txn.Outcome)
	Fire(t Timer)
}

// ClientEnv is a client's world. Its driver routes transactions to a node of the client's region
// (geo.Topology.Coordinator), and answers those that it can't deliver with Unknown or Refused.
type ClientEnv interface {
	Now() time.Duration
	// Submit sends t, whose Footprint is filled in and which is immutable from then on.
	Submit(t *txn.Transaction)
	After(d time.Duration, t Timer)
}

// Others calls f for all of a database's nodes but self, in their order.
func Others(nodes int, self geo.NodeID, f func(geo.NodeID)) {
	for n := range geo.NodeID(nodes) {
		if n != self {
			f(n)
		}
	}
}
