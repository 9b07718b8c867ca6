// Package spanner implements a database that stores each shard in a Raft group and commits across several groups in one
// round. It combines Spanner (Corbett et al., OSDI 2012) with the parallel commits, closed timestamps and follower
// reads of CockroachDB (Taft et al., SIGMOD 2020).
//
// A shard is a cell of the layout: the rows of one home and partition. Its group's Raft leader is its leaseholder,
// which alone locks and reads the rows while its lease holds (package consensus). A node is a member of several groups
// (group.go), and coordinates its clients' transactions (coordinator.go).
//
// A transaction runs as a rerun.Task at its coordinator. It requests rows and locks from leaseholders, which keep the
// locks in memory (leaseholder.go, locks.go). Locks are shared for rows that are only read and exclusive for rows that
// are written, on ranges as on rows. A transaction of one group commits with an entry in that group's log. With several
// groups, each group prepares: it puts the writes, called intents, and all locks into its log (command.go, state.go).
// When all groups have prepared, the transaction is committed, and the coordinator answers before it notifies any
// group. A leaseholder with a prepared transaction whose coordinator is lost can therefore determine the outcome
// (recovery.go). It queries the anchor, the one group whose log entry lists all groups. A group that has not prepared
// the transaction answers no only after it has made sure that it never will.
//
// Timestamps are from a hybrid logical clock (raftgroup.Clock). Their order agrees with the order in which transactions
// held conflicting locks. Leaseholders close timestamps at or below which no transaction will write any more, so that
// any member can answer reads of the past (snapshots.go). Clock errors affect only leases and the age of snapshots.
// There is no commit wait, because locks order all strictly serializable transactions.
//
// Deadlocks do not persist. Among transactions that are still acquiring locks, an older one takes the locks of a
// younger one, and only the younger waits (wound-wait). Lock queues are ordered by the same rule. In a cycle, some
// transaction therefore waits for a younger prepared transaction, which itself waits for locks in groups where it is
// not prepared yet. Its coordinator is notified and cancels it in these groups, so the transaction aborts. A wait for a
// log, a lease or a coordinator ends with an election or with recovery.
package spanner

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Values of parameter reads.
const (
	readsLeader        = "leader"
	readsFollowerStale = "followerStale"
)

// Engine is the database.
var Engine = &protocol.Engine{
	Name:  "spanner",
	Paper: "Corbett et al., Spanner: Google's Globally-Distributed Database, OSDI 2012; Taft et al., CockroachDB, SIGMOD 2020",
	Doc: "Keeps each shard in a Raft group whose leaseholder locks rows in two phases, and commits over several groups by a " +
		"two-phase commit in one round.",
	Figures: figures,
	Aborts:  []string{ReasonWounded, ReasonTooOld},
	Parameters: []protocol.Parameter{
		{
			Name: "reads", Default: readsLeader, OneOf: []string{readsLeader, readsFollowerStale},
			Doc: "Where transactions read that write nothing: leader, at leaseholders with locks; followerStale, without locks " +
				"at the nearest members, from a snapshot that is as old as staleness says.",
		},
		{
			Name: "staleness", Default: "1s", Min: time.Millisecond, Max: 10 * time.Minute,
			Doc: "How old a snapshot is that followerStale reads.",
		},
		{
			Name: "interactive", Default: "false", OneOf: []string{"false", "true"},
			Doc: "Whether rows are asked for one after the other as the procedure comes to them, as for a client that sends " +
				"statements, and not side by side as far as they are known beforehand.",
		},
		{
			Name: "election", Default: "1s", Min: 50 * time.Millisecond, Max: time.Minute,
			Doc: "How long beyond the longest round trip a leaseholder may be silent before its group elects another.",
		},
		{
			Name: "clockBound", Default: defaultClockBound, Min: time.Millisecond, Max: time.Minute,
			Doc: "By how much the durations that two clocks measure may differ within an election timeout, jumps included. " +
				"Clocks that differ by more make answers wrong.",
		},
		{
			Name: "recovery", Default: "2s", Min: 100 * time.Millisecond, Max: 10 * time.Minute,
			Doc: "How long a coordinator may be silent before others end its transactions.",
		},
	},
	Check:       check,
	Roles:       []string{RoleCoordinator, RoleLeaseholder},
	Place:       func(t *geo.Topology, _ protocol.Params) geo.Layout { return t.Placed() },
	TakesGroups: true,
	NewStore:    func() store.Store { return store.NewVersioned() },
	Isolation: func(p protocol.Params) isolation.Level {
		if p.Word("reads") == readsFollowerStale {
			return isolation.Serializable
		}
		return isolation.StrictSerializable
	},
	Tolerates:  tolerates,
	ClockBound: func(p protocol.Params) time.Duration { return p.Duration("clockBound") },
	Replaces:   func(t *geo.Topology, _ protocol.Params) []geo.NodeID { return raftgroup.Replaces(t, t.Placed()) },
	New:        func(c protocol.Config) protocol.Replica { return newReplica(c, options{}) },
	Decode:     decode,
	Law:        law,
}

// defaultClockBound is the default of clockBound.
const defaultClockBound = "250ms"

// check is Engine.Check. A lease must last at least a quarter of the election timeout, so that it can be renewed in
// time.
func check(p protocol.Params) []*protocol.ParamError {
	bound, election := p.Duration("clockBound"), p.Duration("election")
	if bound <= election*3/4 {
		return nil
	}
	e := &protocol.ParamError{Name: "clockBound", Message: fmt.Sprintf(
		"%v leaves too little of a lease; it must be at most three quarters of election, which is %v", bound, election)}
	if p["clockBound"] == defaultClockBound {
		e = &protocol.ParamError{Name: "election", Message: fmt.Sprintf(
			"%v is too short; clockBound, which is %v, must be at most three quarters of it", election, bound)}
	}
	return []*protocol.ParamError{e}
}

// The roles of nodes: each node coordinates the transactions of its clients, and the leader of a group holds the
// group's lease.
const (
	RoleCoordinator = "coordinator"
	RoleLeaseholder = "leaseholder"
)

// Timer kinds. The argument of the first two identifies their group.
const (
	groupTimer = iota + 1
	proposeTimer
	closeTimer
	tickTimer
)

const (
	// tickEvery is the interval of tick, and thus the resolution of all timeouts that have no timer of their own.
	tickEvery = 100 * time.Millisecond
	// patience plus the longest round trip is the timeout for requests that the receiver can answer immediately.
	patience = 500 * time.Millisecond
)

// options are settings that no manifest can contain.
type options struct {
	mistake mistake
	// keep bounds the entries of a log that are kept: see consensus.Config.
	keep int
}

// Replica is one node of the database.
type Replica struct {
	options
	self       geo.NodeID
	topology   *geo.Topology
	env        protocol.Env
	procedures *txn.Registry
	store      *store.Versioned
	layout     geo.Layout
	placement  geo.Placement
	nodes      int
	clock      raftgroup.Clock

	interactive, closing                       bool
	staleness, election, heartbeat, clockBound time.Duration
	recovery, patience                         time.Duration
	// trimmed is the timestamp before which old row versions were discarded.
	trimmed uint64

	// groups are the group memberships of this node, by shard; nil for a shard that the node does not store.
	groups []*group
	// members are the members of each group, ordered by their distance from this node.
	members [][]geo.NodeID
	peers   []liveness
	// incarnations are the latest known incarnations of all nodes.
	incarnations []uint32
	coordinator

	node    raftgroup.Node
	ticking bool

	counters counters
}

type counters struct {
	transactions, oneGroup, severalGroups, readOnly, snapshots int64
	wounds, restarts, recoveries, leaseWaits, terms, entries   int64
	restored                                                   int64
}

func newReplica(c protocol.Config, o options) *Replica {
	t, p := c.Topology, c.Params
	longest := t.LongestRTT()
	election, bound := p.Duration("election"), p.Duration("clockBound")
	r := &Replica{
		options:     o,
		self:        c.Self,
		topology:    t,
		env:         c.Env,
		procedures:  c.Procedures,
		store:       c.Store.(*store.Versioned),
		layout:      t.Placed(),
		placement:   t.Placement(),
		nodes:       t.Nodes(),
		interactive: p.Word("interactive") == "true",
		closing:     p.Word("reads") == readsFollowerStale,
		staleness:   p.Duration("staleness"),
		election:    election + longest,
		// The interval is short enough that a lease survives a few late heartbeats.
		heartbeat:  min(consensus.DefaultHeartbeat, (election-bound)/3),
		clockBound: bound,
		recovery:   p.Duration("recovery"),
		patience:   patience + longest,
		peers:      make([]liveness, t.Nodes()),

		incarnations: make([]uint32, t.Nodes()),
	}
	r.incarnations[r.self] = c.Incarnation
	if !r.closing {
		r.store.Trim(store.Newest) // no transaction reads old versions
	}
	shards := r.layout.Shards()
	r.coordinator = coordinator{leaseholders: make([]tenure, shards), open: map[uint64]*transaction{},
		next: raftgroup.First(c.Incarnation), done: raftgroup.First(c.Incarnation)}
	r.node.Config = raftgroup.Config{
		Self: r.self, Incarnation: c.Incarnation, Nodes: r.nodes, Layout: &r.layout, Env: r.env, RaftTimer: groupTimer, ProposeTimer: proposeTimer,
		Heartbeat: r.heartbeat, Election: r.election, Lease: r.election - r.clockBound, Keep: r.keep, Handle: r.handle, Shrink: c.Shrink,
	}
	r.groups = make([]*group, shards)
	for _, shard := range r.layout.ShardsOf(c.Self) {
		r.groups[shard] = newGroup(r, shard)
	}
	r.members = raftgroup.Nearest(t, &r.layout, r.self)
	return r
}

// now returns the reading of the node's clock.
func (r *Replica) now() uint64 { return r.clock.Now(r.env.Now()) }

// Start implements protocol.Replica.
func (r *Replica) Start() {
	// Silence of another node counts from the start of this node, not from time 0.
	for n := range r.peers {
		r.hear(geo.NodeID(n))
	}
	for _, g := range r.groups {
		if g != nil {
			g.Start()
		}
	}
	if r.closing {
		r.env.After(closeEvery, protocol.Timer{Kind: closeTimer})
	}
	r.node.Finish()
}

// Receive implements protocol.Replica.
func (r *Replica) Receive(from geo.NodeID, m protocol.Message) {
	r.hear(from)
	r.handle(from, m)
	r.node.Finish()
}

// handle dispatches a message of this node or another node.
func (r *Replica) handle(from geo.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *raftgroup.Raft:
		if g := r.group(m.Group); g != nil {
			g.Receive(from, m)
		}
	case *raftgroup.Lead:
		r.follow(from, m)
	case *Read:
		r.admit(from, &m.Header, m)
	case *Commit:
		r.admit(from, &m.Header, m)
	case *Prepare:
		r.admit(from, &m.Header, m)
	case *Resolve:
		r.admit(from, &m.Header, m)
	case *Ask:
		r.admit(from, &m.Header, m)
	case *Query:
		r.admit(from, &Header{Group: m.Group, Term: m.Term}, m)
	case *Rows:
		// This node's later timestamps must exceed all timestamps that it has observed.
		r.clock.See(m.Clock)
		r.rows(m)
	case *Answer:
		r.clock.See(m.Clock)
		r.answer(m)
	case *Status:
		if g := r.group(m.Group); g != nil {
			g.status(m)
		}
	case *SnapshotRead:
		if g := r.group(m.Group); g != nil {
			g.snapshotRead(from, m)
		}
	case *SnapshotRows:
		r.snapshotRows(m)
	case *Ping:
		if !m.Answer {
			r.send(from, &Ping{Answer: true})
		}
	}
}

// admit passes a request for a leaseholder to its group.
func (r *Replica) admit(from geo.NodeID, h *Header, m protocol.Message) {
	r.clock.See(h.Clock)
	if g := r.group(h.Group); g != nil {
		g.Admit(from, h.Term, m)
		// The request may register a transaction here, and tick must then watch its coordinator.
		r.tickLater()
	}
}

// group returns this node's membership in a group, or nil if the node is not a member or shard is out of range.
func (r *Replica) group(shard int) *group {
	if shard >= len(r.groups) {
		return nil
	}
	return r.groups[shard]
}

// send sends a message. A message to this node is handled at the end of the step.
func (r *Replica) send(to geo.NodeID, m protocol.Message) { r.node.Send(to, m) }

// Fire implements protocol.Replica.
func (r *Replica) Fire(t protocol.Timer) {
	switch t.Kind {
	case groupTimer, proposeTimer:
		r.groups[r.node.ShardOf(t)].Fire(t)
	case closeTimer:
		for _, g := range r.groups {
			// A group without recent entries closes timestamps only with an empty entry; otherwise its snapshot reads would
			// wait.
			if g != nil && r.env.Now()-g.Proposed >= closeEvery {
				g.Propose()
			}
		}
		r.env.After(closeEvery, t)
	case tickTimer:
		r.tick()
	}
	r.node.Finish()
}

// tickLater schedules tick unless it is already scheduled.
func (r *Replica) tickLater() {
	if !r.ticking {
		r.ticking = true
		r.env.After(tickEvery, protocol.Timer{Kind: tickTimer})
	}
}

// tick retries snapshot reads and recovers the transactions of lost coordinators.
func (r *Replica) tick() {
	r.ticking = false
	// The loop visits the numbers in order because the iteration order of the map differs from run to run.
	for n := r.done; n < r.next; n++ {
		if x := r.open[n]; x != nil && x.snapshot {
			r.retrySnapshots(x)
		}
	}
	for _, g := range r.groups {
		if g == nil {
			continue
		}
		g.sweep()
		g.sweepReplaced()
		g.wakeSnapshots()
	}
	// The timer runs only while something is pending, so an idle database sends no events.
	if r.Pending() > 0 {
		r.tickLater()
	}
}

// Pending implements protocol.Replica. It counts transactions of this node's clients that have not ended in all groups,
// and other nodes' transactions with state here. It also counts groups whose log has not reached all live members, or
// has entries that may still commit.
func (r *Replica) Pending() int {
	n := len(r.open)
	for _, g := range r.groups {
		if g == nil {
			continue
		}
		n += len(g.snapshots)
		if !g.Raft.Joined() {
			n++
		}
		// A serving leaseholder has a holder for each prepared transaction, so adding prepared would count them twice.
		if g.Serving {
			n += len(g.holders)
		} else {
			n += len(g.prepared)
		}
		if g.Serving && !g.spread() || g.Raft.Awaits(hasCommands) {
			n++
		}
	}
	return n
}

// Leads implements protocol.ShardLeader.
func (r *Replica) Leads() (shards []int) {
	for shard, g := range r.groups {
		if g != nil && g.Serving {
			shards = append(shards, shard)
		}
	}
	return shards
}

// Roles implements protocol.RoleHolder.
func (r *Replica) Roles() []string {
	if len(r.Leads()) > 0 {
		return []string{RoleCoordinator, RoleLeaseholder}
	}
	return []string{RoleCoordinator}
}

// Readings implements protocol.Replica.
func (r *Replica) Readings(dst []protocol.Reading) []protocol.Reading {
	c := &r.counters
	records := 0
	for _, g := range r.groups {
		if g != nil {
			records += len(g.prepared)
		}
	}
	return append(dst,
		protocol.Reading{Name: "transactions", Value: c.transactions},
		protocol.Reading{Name: "commits_one_group", Value: c.oneGroup},
		protocol.Reading{Name: "commits_several_groups", Value: c.severalGroups},
		protocol.Reading{Name: "read_only", Value: c.readOnly},
		protocol.Reading{Name: "snapshot_reads", Value: c.snapshots},
		protocol.Reading{Name: "wounds", Value: c.wounds},
		protocol.Reading{Name: "restarts", Value: c.restarts},
		protocol.Reading{Name: "recoveries", Value: c.recoveries},
		protocol.Reading{Name: "lease_waits", Value: c.leaseWaits},
		protocol.Reading{Name: "log_entries", Value: c.entries},
		protocol.Reading{Name: "terms", Value: c.terms},
		protocol.Reading{Name: "restored", Value: c.restored},
		protocol.Reading{Name: "leases", Value: int64(len(r.Leads()))},
		protocol.Reading{Name: "prepared", Value: int64(records)},
	)
}
