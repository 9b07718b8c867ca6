// Package coco implements COCO, a database with one primary per partition that commits many transactions together. See
// Y. Lu, X. Yu, L. Cao and S. Madden, Epoch-based Commit and Replication in Distributed OLTP Databases, PVLDB 14(5),
// 2021. Transactions run optimistically at the primaries of their rows, and the other copies are updated
// asynchronously. All transactions of an epoch commit or abort together, by a single two-phase commit.
//
// Execution (transactions.go, section 4). The client's node reads all rows at their primaries in parallel. It then
// locks the rows to be written, without waiting, and validates the rows that were only read. Finally it sends its
// writes to primaries and copies. Validation uses a logical clock, as in TicToc, or a physical clock, as in Silo
// (rows.go).
//
// Epochs (epochs.go, section 3). The coordinator starts an epoch, and stops it after the interval. Every node lets its
// running transactions finish, and then notifies all other nodes. A node votes to commit once it has received this
// notification from every node. Links keep the order of messages, so the node then has all writes of the epoch: the
// replication is drained. Once all nodes have voted, the epoch is committed. Only then do clients receive their
// answers.
//
// Uncommitted writes. Primaries and copies keep the writes of the running epoch apart from the store, and apply them to
// the store when the epoch commits. Discarding them rolls the epoch back.
//
// Failures (coordinator.go, section 3.3). The coordinator is the leader of a Raft group with one member in each region.
// The group agrees on views. A view consists of the members, and the outcome of the epoch that a failure interrupted.
// The primary of a partition is the first member of the view that holds the partition.
//
// A new coordinator, or a coordinator that no longer hears from a node, asks all nodes for the last epoch that they
// voted for. A node that answers no longer votes for an earlier coordinator. If all nodes have voted for an epoch, the
// epoch is committed. Otherwise it cannot have been committed, and is aborted at all nodes. Single epochs therefore
// need no agreement in the group, and a coordinator's decision costs no round trip.
//
// Joining. A view may omit a node because the node or its links were slow. Such a node abandons its epoch. At the start
// of a later epoch it joins, and the primaries send it the rows.
//
// Replacement (replace.go). A node that has lost its process and state is removed from the view immediately. It rejoins
// as a new incarnation, which is a different member. The other nodes settle the epochs that its predecessor voted for,
// as if the predecessor were silent. The new incarnation joins like an omitted node, but receives its rows in pieces
// while epochs continue.
//
// Copies. The paper's f+1 copies survive f losses, provided that no slow node is mistaken for a lost one. A network
// that can partition does not guarantee that. Here, 2f+1 or more regions keep the rows, and a view has members in f+1
// of them.
//
// Ranges. Validation of a scan covers the range that the procedure has examined and the rows in it. The read time of
// the range also applies to rows that are inserted later, which excludes phantoms.
package coco

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Values of parameters.
const (
	faultsAuto = "Auto"

	copiesAll      = "All"
	copiesMajority = "Majority"

	clockLogical  = "LogicalClock"
	clockPhysical = "Physical"

	retryClient = "Client"
	retryNode   = "Node"
)

// Engine is COCO.
var Engine = &protocol.Engine{
	Name:    "coco",
	Paper:   "Lu, Yu, Cao and Madden, Epoch-based Commit and Replication in Distributed OLTP Databases, PVLDB 14(5), 2021",
	Doc:     "Executes transactions optimistically at the primaries of their rows, and commits those of an epoch together, by one two-phase commit.",
	Figures: figures,
	Aborts: []string{LockHeld.String(), WriteChanged.String(), ReadLocked.String(), ReadChanged.String(),
		ReasonEpochAborted},
	Parameters: []protocol.Parameter{
		{
			Name: "epoch", Default: "10ms", Min: time.Millisecond, Max: 10 * time.Second,
			Doc: "How long the coordinator lets transactions begin in an epoch before it stops it.",
		},
		{
			Name: "f", Default: faultsAuto, OneOf: []string{faultsAuto, "0", "1", "2", "3"},
			Doc: "How many regions may be lost: Auto is any minority. There must be 2f+1, so that the others can elect a coordinator.",
		},
		{
			Name: "copies", Default: copiesAll, OneOf: []string{copiesAll, copiesMajority},
			Doc: "Which regions hold the rows of a home: all, or 2f+1, itself and those that follow it in the list of regions.",
		},
		{
			Name: "concurrency", Default: clockLogical, OneOf: []string{clockLogical, clockPhysical},
			Doc: "How reads are validated: at the logical time of the transaction, so that a row may be read that is about to be written " +
				"later, or at the physical time, so that it may not.",
		},
		{
			Name: "retry", Default: retryClient, OneOf: []string{retryClient, retryNode},
			Doc: "Who tries a transaction again that is in conflict with another one, or whose epoch is aborted: the client, who is told, " +
				"or, as in the authors' code, the node, up to 1ms later; after further conflicts later, by some round trips, or some epochs where these are longer.",
		},
		{
			Name: "interactive", Default: "false", OneOf: []string{"false", "true"},
			Doc: "Whether rows are asked for one after the other as the procedure comes to them, as for a client that sends " +
				"statements, and not side by side as far as they are known beforehand.",
		},
		{
			Name: "heartbeat", Default: "400ms", Min: 10 * time.Millisecond, Max: 10 * time.Second,
			Doc: "The interval of heartbeats. A node is left out, and a coordinator replaced, after two to three of silence and some round trips.",
		},
	},
	Roles:         []string{RoleCoordinator},
	CheckTopology: checkTopology,
	Place:         place,
	Tolerates:     tolerates,
	Replaces:      replaces,
	New:           func(c protocol.Config) protocol.Replica { return newReplica(c, none) },
	Decode:        decode,
	Law:           law,
}

// RoleCoordinator is the role of the node that drives epochs.
const RoleCoordinator = "coordinator"

// checkTopology is Engine.CheckTopology: after f losses, the remaining regions must be a majority that can elect a
// coordinator.
func checkTopology(t *geo.Topology, p protocol.Params) *protocol.TopologyError {
	regions, f := len(t.Regions), faults(t, p)
	if regions > 2*f {
		return nil
	}
	return &protocol.TopologyError{Field: "spec.regions", Value: fmt.Sprint(regions), Message: fmt.Sprintf(
		"coco elects its coordinator among 2f+1 regions or more, which are %d with spec.engine.parameters.f %d: add regions, or make f at most %d",
		2*f+1, f, (regions-1)/2)}
}

// faults returns f, the number of regions that may be lost.
func faults(t *geo.Topology, p protocol.Params) int {
	if p.Word("f") == faultsAuto {
		return (len(t.Regions) - 1) / 2
	}
	return int(p.Int("f"))
}

// place is Engine.Place: the first node of a cell in its home region is the cell's primary.
func place(t *geo.Topology, p protocol.Params) geo.Layout {
	placed, regions := *t, len(t.Regions)
	copies := regions
	if p.Word("copies") == copiesMajority {
		copies = 2*faults(t, p) + 1
	}
	placed.Groups = nil
	for home := range regions {
		replicas := make([]int, regions)
		for i := range min(copies, regions) {
			replicas[(home+i)%regions] = t.Replicas
		}
		for partition := range t.Partitions {
			placed.Groups = append(placed.Groups, geo.CellGroup{
				Cell: geo.Cell{Home: geo.Region(home), Partition: partition}, Replicas: replicas, Leader: geo.Region(home),
			})
		}
	}
	return placed.Placed()
}

// tolerates is Engine.Tolerates: any f regions. Settles allows for failed rounds. A member that campaigns without
// success doubles its wait for the next campaign. A coordinator whose round failed doubles its wait for other nodes.
//
// A transaction is answered at the end of the second epoch at the latest: the epoch in progress, and then the
// transaction's own epoch. An epoch lasts as long as its longest transaction. The number of retries at a node is not
// bounded, so Settles and Answers are 0 if nodes retry.
func tolerates(t *geo.Topology, p protocol.Params) protocol.Tolerance {
	f := faults(t, p)
	if f == 0 {
		return protocol.Tolerance{}
	}
	s := protocol.AnyRegions(t, true)
	s.Most = min(s.Most, f)
	if p.Word("retry") == retryNode {
		return s
	}
	rtt := t.LongestRTT()
	s.Settles = 8*electionAfter(p, rtt) + 4*silentAfter(p, rtt) + 10*rtt
	step := p.Duration("epoch") + 2*rtt // two round trips: to read, and to lock or validate
	if p.Word("interactive") == "true" {
		step += 2 * rtt // to read the rows one by one
	}
	s.Answers = protocol.InTime(step)
	return s
}

// Timer kinds.
const (
	// Timer.Arg is the epoch for epochTimer, the coordinator's term for watchTimer, and the number of the attempt for
	// retryTimer.
	epochTimer = iota + 1
	groupTimer
	watchTimer
	aliveTimer
	retryTimer
	transferTimer
)

// Replica is one node of the database.
type Replica struct {
	self       geo.NodeID
	topology   *geo.Topology
	env        protocol.Env
	procedures *txn.Registry
	layout     geo.Layout
	placement  geo.Placement
	heartbeat  time.Duration

	retries, interactive bool
	// snapshotBytes bounds the size of the rows in a Snapshot.
	snapshotBytes int
	mistake       mistake

	rows rows
	txns transactions
	epochs
	coordination coordinator
	replacement
	// local are messages of this node to itself; finish handles them at the end of the step.
	local    queue.Queue[protocol.Message]
	counters counters
}

type counters struct {
	transactions, executed, retries, writes             int64
	conflicts                                           [lastVerdict + 1]int64
	epochs, abortedEpochs, views, exclusions, snapshots int64
}

func newReplica(c protocol.Config, m mistake) *Replica {
	t, p := c.Topology, c.Params
	r := &Replica{
		self: c.Self, topology: t, env: c.Env, procedures: c.Procedures, layout: place(t, p), placement: t.Placement(),
		heartbeat: p.Duration("heartbeat"), retries: p.Word("retry") == retryNode, interactive: p.Word("interactive") == "true",
		snapshotBytes: protocol.Shrunk(c.Shrink, snapshotBytes), mistake: m,
	}
	r.replacement = newReplacement(&c)
	r.rows = newRows(c.Store.(*store.Hash), p.Word("concurrency") == clockLogical, m)
	r.txns = transactions{running: map[uint64]*transaction{}, next: 1, paused: map[uint64]request{}}
	nodes, shards := t.Nodes(), r.layout.Shards()
	// All nodes start with the same first view, in which no epoch runs; the first coordinator proposes another view. The
	// loaded data counts as epoch 1.
	r.epochs = epochs{
		view: &View{Committed: 1, First: 2}, base: 1, primaries: make([]geo.NodeID, shards), holds: make([][]bool, nodes), done: make([]bool, nodes), awaiting: map[int]bool{},
	}
	for n := range geo.NodeID(nodes) {
		r.view.Members = append(r.view.Members, n)
		r.holds[n] = make([]bool, shards)
		for _, shard := range r.layout.ShardsOf(n) {
			r.holds[n][shard] = true
		}
	}
	if c.Incarnation > 0 {
		r.base = 0
	}
	r.coordination.init(r, p)
	return r
}

// Start implements protocol.Replica.
func (r *Replica) Start() {
	r.env.After(r.heartbeat, protocol.Timer{Kind: aliveTimer})
	if r.coordination.group != nil {
		r.coordination.group.Start()
		r.coordination.advance()
	}
	r.finish()
}

// send sends a message. A message to this node itself is handled at the end of the step.
func (r *Replica) send(to geo.NodeID, m protocol.Message) {
	if to == r.self {
		r.local.Push(m)
		return
	}
	r.env.Send(to, m)
}

// finish handles local messages and the other deferred work at the end of a step.
func (r *Replica) finish() {
	for {
		for r.local.Len() > 0 {
			m := r.local.Front()
			r.local.Pop()
			r.handle(r.self, m)
		}
		if r.drain(); r.local.Len() == 0 {
			return
		}
	}
}

// Receive implements protocol.Replica.
func (r *Replica) Receive(from geo.NodeID, m protocol.Message) {
	r.coordination.hear(from)
	r.handle(from, m)
	r.transferAgain(from)
	r.finish()
}

// handle handles a message of another node or of this node.
func (r *Replica) handle(from geo.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case epochal:
		r.receive(from, m)
	case *Start:
		r.start(m)
	case *Stop:
		r.stop(m)
	case *Vote:
		r.coordination.vote(from, m)
	case *Collect:
		r.collect(from, m)
	case *State:
		r.coordination.state(from, m)
	case *View:
		r.enter(from, m)
	case *Alive:
		r.coordination.alive(from, m)
	case *Ready:
		r.coordination.takeReady(from, m)
	case *Missed:
		r.coordination.missed(m)
	case *statetransfer.Piece:
		r.receivePiece(from, m)
	case *statetransfer.Ack:
		r.acknowledged(from, m)
	case *consensus.Message:
		if r.coordination.group != nil {
			r.coordination.group.Receive(from, m)
			r.coordination.advance()
		}
	}
}

// Fire implements protocol.Replica.
func (r *Replica) Fire(t protocol.Timer) {
	switch t.Kind {
	case epochTimer:
		r.coordination.expire(t.Arg)
	case groupTimer:
		r.coordination.group.Fire(t)
		r.coordination.advance()
	case watchTimer:
		r.coordination.watch(t.Arg)
	case aliveTimer:
		if r.ballot > 0 {
			r.send(r.epochs.coordinator, &Alive{r.ballot})
		}
		r.env.After(r.heartbeat, t)
	case retryTimer:
		r.retry(t.Arg)
	case transferTimer:
		r.sender.Fire()
	}
	r.finish()
}

// Roles implements protocol.RoleHolder.
func (r *Replica) Roles() []string {
	if r.coordination.stage != idle {
		return []string{RoleCoordinator}
	}
	return nil
}

// Leads implements protocol.ShardLeader: it returns the shards for which the node is the primary.
func (r *Replica) Leads() (shards []int) {
	for shard, n := range r.primaries {
		if r.phase != outside && n == r.self {
			shards = append(shards, shard)
		}
	}
	return shards
}

// Pending implements protocol.Replica. It counts this node's unanswered transactions, uncommitted writes and missing
// rows. At the coordinator it also counts live nodes outside the view.
func (r *Replica) Pending() int {
	n := r.txns.waiting.Len() + len(r.txns.running) + len(r.txns.finished) + len(r.txns.paused) + len(r.awaiting)
	if r.rows.dirty() {
		n++
	}
	if r.phase == outside && (r.ballot > 0 || r.incarnation() > 0) {
		n++
	}
	if r.coordination.awaits() {
		n++
	}
	return n
}

// Readings implements protocol.Replica.
func (r *Replica) Readings(dst []protocol.Reading) []protocol.Reading {
	c := &r.counters
	count := func(name string, value int64) { dst = append(dst, protocol.Reading{Name: name, Value: value}) }
	count("transactions", c.transactions)
	count("executed", c.executed)
	count("conflicts_lock_held", c.conflicts[LockHeld])
	count("conflicts_write_changed", c.conflicts[WriteChanged])
	count("conflicts_read_locked", c.conflicts[ReadLocked])
	count("conflicts_read_changed", c.conflicts[ReadChanged])
	count("retries", c.retries)
	count("writes", c.writes)
	count("epochs", c.epochs)
	count("epochs_aborted", c.abortedEpochs)
	count("views", c.views)
	count("exclusions", c.exclusions)
	count("snapshots_sent", c.snapshots)
	count("coordinator_terms", r.coordination.terms)
	return dst
}
