// Package protocol is the contract between a database protocol and the driver that runs it.
//
// A protocol is a deterministic state machine, a Replica, one per node. It never blocks, starts no goroutine
// (Env.Offload does), reads no clock and opens no socket. Its behavior does not depend on the iteration order of Go
// maps. All inputs arrive through Start, Submit, Receive and Fire; all effects go through Env. A driver calls these
// methods one at a time. There are three drivers. Package sim runs all replicas in virtual time. Package node runs
// either one replica or all replicas in real time over TCP.
//
// Links. A driver delivers the messages from one node to another in sending order, each exactly once, while both nodes
// are running. A broken connection resumes at the position where it broke, so a lost link looks like delay. Messages to
// and from a stopped node are lost.
//
// Incarnations. A node that restarts without its log is a new node, with a new incarnation (Config.Incarnation).
// Drivers let it join the existing database only if the engine supports that (Engine.Replaces, Rejoiner). A link
// belongs to one incarnation. A message to an earlier incarnation never reaches a later one. After the first message of
// a later incarnation, no message of an earlier incarnation arrives. The driver reports the new incarnation to a
// replica before it delivers any message of that incarnation.
//
// Durability. A driver may keep a log of a node's inputs. It writes each input to the log before any effect of the
// input leaves the node. Because a replica is deterministic, replaying the inputs at their times restores its state.
// The links then resume at the positions that the two logs show. To all other nodes, a node that restarts with its log
// has merely paused, so no protocol needs to know about logs. The clients of the restarted node receive Unknown
// outcomes.
//
// A message is immutable once sent, and so is a transaction once submitted: drivers may pass the same value to several
// replicas.
//
// Clients are state machines, too (see Client), so that the same load generator runs in virtual and in real time.
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

// Message is a message between replicas. Its methods have no side effects; make generate writes them from the fields of
// the message (docs/dev/engine.md).
type Message interface {
	// Kind is the number of the message type within its engine, from 1. Numbers from 230 on are reserved for shared
	// building blocks.
	Kind() uint8
	// Size returns the exact number of bytes that AppendTo appends.
	Size() int
	// AppendTo appends the message's body to b.
	AppendTo(b []byte) []byte
}

// Timer is an opaque value that a driver passes back when a timer fires. A timer cannot be cancelled; the code that set
// it ignores it if it is no longer needed.
type Timer struct {
	Kind uint8
	Arg  uint64
}

// Replica is one node of a database.
type Replica interface {
	// Start is called once, before any other method.
	Start()
	// Submit handles a transaction from a client of this node, with its footprint filled in. The replica must answer it
	// with Env.Reply exactly once, immediately or later.
	Submit(t *txn.Transaction)
	// Receive handles a message from another node.
	Receive(from geo.NodeID, m Message)
	// Fire handles a timer set with Env.After.
	Fire(t Timer)
	// Pending returns the number of known transactions that the replica has not finished, or 0 if the replica is
	// quiescent. A replica is not quiescent while another replica lacks data that is not in flight, because drivers
	// compare copies once all replicas are quiescent. Messages in flight need not be counted: drivers wait for them.
	//
	// Once all replicas are quiescent, every transaction is answered and every sent message is handled. From then on no
	// row changes until another transaction is submitted.
	Pending() int
	// Readings appends the values of the figures that Engine.Figures declares. Every call appends the same figures in the
	// same order. It has no side effects.
	Readings(dst []Reading) []Reading
}

// RemoteWork is a replica whose node has a companion server that does some of its work, such as a storage server. The
// simulator does not charge the node's modeled CPU for that work. A driver that runs the node in a process does all of
// the work in that process.
type RemoteWork interface {
	// Offloads reports whether the companion server handles message m. The server either sends m to the peer, or
	// receives m from the peer and does the requested work.
	Offloads(peer geo.NodeID, m Message) bool
}

// RoleHolder is a replica of an engine whose nodes have different roles. A fault in a run's timeline can target a role.
type RoleHolder interface {
	// Roles returns the node's current roles, a subset of Engine.Roles, to the node's knowledge.
	Roles() []string
}

// RolesOf returns the current roles of a replica, or nil if it has none.
func RolesOf(r Replica) []string {
	if h, ok := r.(RoleHolder); ok {
		return h.Roles()
	}
	return nil
}

// ShardLeader is a replica of an engine in which nodes lead groups of nodes that hold the same rows.
type ShardLeader interface {
	// Leads returns the shards (geo.Layout) whose groups the node currently leads, to its knowledge, in ascending order.
	Leads() []int
}

// LeadsOf returns the names of the shards that a replica leads, or nil if the engine has no such groups.
func LeadsOf(r Replica, l *geo.Layout) []string {
	leader, ok := r.(ShardLeader)
	if !ok {
		return nil
	}
	// The slice is empty, not nil, while the node leads no shard: nil means that the engine has no such groups.
	names := []string{}
	for _, shard := range leader.Leads() {
		names = append(names, l.ShardName(shard))
	}
	return names
}

// numberBits is the number of low bits that count the objects of one incarnation of a node, such as batches.
const numberBits = 40

// NumbersBefore returns the highest number that a node's earlier incarnations can have used. The numbers of the given
// incarnation start after that number, so that its objects are never confused with its predecessors' objects.
func NumbersBefore(incarnation uint32) uint64 { return uint64(incarnation) << numberBits }

// IncarnationOf returns the incarnation that a number belongs to. For the last number before an incarnation it returns
// that incarnation.
func IncarnationOf(number uint64) uint32 { return uint32(number >> numberBits) }

// Rejoiner is a replica of an engine that replaces lost nodes: see Engine.Replaces.
type Rejoiner interface {
	// Replaced reports that another node has lost its process and state, and that a new incarnation without any state
	// replaces it. Messages sent to the node from now on reach the new incarnation; earlier messages that have not arrived
	// are lost. Right after Start, a new incarnation receives this call for every other node that is not in its first
	// incarnation.
	Replaced(n geo.NodeID, incarnation uint32)
	// FullyReplicated reports whether, to this node's knowledge, all data that it replicates has its full number of
	// copies again.
	FullyReplicated() bool
}

// Straggler is a replica that can lag permanently: during a long partition it missed messages that the other replicas
// have discarded. A lagging replica refuses transactions from its clients, and its Pending never falls to 0, so that
// drivers do not compare its rows.
type Straggler interface {
	// Lags reports whether the replica lags permanently.
	Lags() bool
}

// Lags reports whether a replica lags permanently.
func Lags(r Replica) bool {
	s, ok := r.(Straggler)
	return ok && s.Lags()
}

// StepCounter is a replica that also does work that its messages and store operations do not show, such as a search in
// a graph.
type StepCounter interface {
	// Steps returns the number of elementary steps of such work so far. A step costs about one memory access that misses
	// the cache. Simulators charge CPU time for steps. Steps of Env.Offload are not included.
	Steps() int64
}

// Checked is a replica that can check its invariants. The explorer checks them after every step; no other driver does.
type Checked interface {
	// Check reports each invariant and whether it holds now. It has no side effects, and its reports do not depend on the
	// iteration order of Go maps.
	Check(c *invariant.Checker)
}

// Env is a replica's environment.
type Env interface {
	// Now returns the time of the node's clock. The clock never goes back. It starts near the database's start time, and
	// agrees with other nodes' clocks to the extent that their machines' clocks do.
	Now() time.Duration
	// Send sends m to another node. A replica must not send to itself; it calls its own Receive method instead.
	Send(to geo.NodeID, m Message)
	// After requests a call of Fire(t) after d.
	After(d time.Duration, t Timer)
	// Offload runs work on a separate core, in parallel with the replica, and requests Fire(t) when the work is done. Work
	// of one node runs sequentially. Until Fire(t) the work alone owns the memory that it changes, and nothing changes the
	// memory that it reads. The work is deterministic, calls nothing of Env, and returns the number of its elementary
	// steps (see StepCounter).
	Offload(work func() (steps int64), t Timer)
	// Reply answers a transaction submitted to this node. The driver owns the outcome from then on.
	Reply(o txn.Outcome)
	// Rand is the node's private random generator, seeded from the manifest's seed.
	Rand() *rand.Rand
	// Mark records that a rare event has happened, for tools that explore the protocol. It has no other effect.
	Mark(p *coverage.Mark)
	// Buggify reports whether the replica must force the rare behavior at point p: see package buggify.
	Buggify(p *buggify.Point) bool
}

// Config is the input for creating a replica.
type Config struct {
	Self geo.NodeID
	// Incarnation is the number of earlier processes of the node that have lost their state: 0 for the first. The Store
	// of a later incarnation holds only the rows that every node has and no transaction writes.
	Incarnation uint32
	Topology    *geo.Topology
	Params      Params
	Procedures  *txn.Registry
	// Store holds the node's part of the data, created by Engine.NewStore. The driver fills it before the first
	// transaction, and again between runs while all replicas are quiescent. At all other times only the replica uses it.
	Store store.Store
	Env   Env
	// Shrink divides replicas' limits by 2^Shrink: amounts that they keep, send at a time or consider too large. With
	// lower limits, scenarios of a few rows and seconds reach states that otherwise need megabytes and minutes. Shrink is
	// 0 for databases that are measured.
	Shrink uint8
}

// Shrunk returns a limit divided by 2^shrink, but at least 1.
func Shrunk[T ~int | ~int64 | ~uint64](shrink uint8, usual T) T { return max(usual>>shrink, 1) }

// Client is a source of transactions: a state machine driven like a Replica.
type Client interface {
	Start()
	// Complete handles the outcome of a submitted transaction. It is called exactly once per transaction.
	Complete(o txn.Outcome)
	Fire(t Timer)
}

// ClientEnv is a client's environment. Its driver routes transactions to a node of the client's region
// (geo.Topology.Coordinator). It answers transactions that it cannot deliver with Unknown or Refused.
type ClientEnv interface {
	Now() time.Duration
	// Submit sends t with its Footprint filled in. t is immutable from then on.
	Submit(t *txn.Transaction)
	After(d time.Duration, t Timer)
}

// Others calls f for all nodes of a database except self, in ascending order.
func Others(nodes int, self geo.NodeID, f func(geo.NodeID)) {
	for n := range geo.NodeID(nodes) {
		if n != self {
			f(n)
		}
	}
}
