// Package sdur implements scalable deferred update replication (Sciascia, Pedone and Junqueira, DSN 2012). It includes
// the delays and the reordering for wide-area networks (Sciascia and Pedone, DSN 2013). Transactions execute close to
// their clients, on snapshots and without locks, and are certified when they end.
//
// A partition in the paper is a shard here, a cell of the layout. Its servers form a Raft group, whose log is the
// paper's atomic broadcast in the partition (package raftgroup). The layout determines where the servers are. The
// paper's deployment WAN 1 has most servers of each partition in one region, which differs between partitions. WAN 2
// has a server of each partition in every region.
//
// A transaction runs as a rerun.Task at its coordinator (coordinator.go). It reads each group in one snapshot, which
// the nearest member chooses at the first read, and buffers its writes (reads.go). Then the coordinator submits its
// part in each group to the group's leader, which puts it into the log. The part contains hashes of the rows read, the
// scanned ranges, and the complete writes. A transaction of one group is local, all others are global.
//
// Delivered transactions are certified (certify.go): a transaction fails if it has read a row that a concurrent
// transaction wrote. A transaction is concurrent if it was delivered earlier and is not in the snapshot. Groups may
// deliver global transactions in different orders. Therefore the writes of a global transaction must not intersect the
// reads or writes of concurrent transactions either.
//
// Sets are compared with Bloom filters of the last transactions (filter.go). For scans, the filters find the
// transactions that write in the scanned group of rows. The written keys, which are kept next to the filters, decide
// whether a written row lies in the range. An inserted row therefore conflicts like a changed row.
//
// A transaction that has passed certification is pending until all transactions before it have completed. A global
// transaction is also pending until all its groups have voted (votes.go). Leaders send their votes to each other, and
// put the outcome into their logs. The outcome is certain before that, because votes follow from logs, so a leader
// answers and continues immediately. If a vote stays missing, the waiting group demands it. A group that has not
// delivered the transaction then votes to abort it, through its log.
//
// With a reordering threshold, a global transaction completes at the earliest when that number of transactions has been
// delivered after it. Until then all members know that it is pending, so a local transaction can leap over it. The
// local transaction moves to the earliest position where it conflicts with none of the transactions that it leaps over.
// Certification has checked that no pending transaction, before or after that position, writes a row that the local
// transaction has read. Otherwise a cycle would be possible (TestLeapsKeepAnOrder).
//
// Read-only transactions need no certification if they read a consistent state of the whole database. The groups'
// snapshots do not form such a state. Two groups may complete two global transactions in different orders, and two
// readers in different groups would observe that. Transactions therefore have timestamps that agree with the order of
// conflicts. A global transaction has the latest timestamp of its groups' votes. A local transaction has a later
// timestamp than all transactions that completed before it.
//
// A read-only transaction reads at a closed timestamp: all transactions at or below it have completed at the member
// that answers. All readers therefore see the same order, but may miss the most recent transactions that were already
// answered.
package sdur

import (
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Values of parameter readOnly.
const (
	readOnlySnapshot  = "snapshot"
	readOnlyCertified = "certified"
)

// Engine is the database.
var Engine = &protocol.Engine{
	Name: "sdur",
	Paper: "Sciascia, Pedone and Junqueira, Scalable Deferred Update Replication, DSN 2012; Sciascia and Pedone, Geo-Replicated Storage " +
		"with Scalable Deferred Update Replication, DSN 2013",
	Doc: "Executes transactions optimistically on snapshots, and certifies them in each partition's Raft group when they end; " +
		"groups vote on those of several.",
	Figures: figures,
	Aborts:  []string{ReasonConflict, ReasonFalsePositive, ReasonTooOld, ReasonPrevented},
	Parameters: []protocol.Parameter{
		{
			Name: "delay", Default: "0s", Max: time.Minute,
			Doc: "How long the submission of a transaction of several groups to the nearest of them is put off, so that the votes of " +
				"the others are not waited for there.",
		},
		{
			Name: "reorderThreshold", Default: "0", Integer: true, MaxInt: 1 << 20,
			Doc: "How many deliveries a transaction of several groups stays pending for at least in each of them, so that those of one " +
				"group may leap over it; 0 reorders nothing.",
		},
		{
			Name: "tick", Default: "10ms", Min: time.Millisecond, Max: closeEvery,
			Doc: "How long a group delivers nothing before its leader delivers a tick, while a transaction waits for reorderThreshold.",
		},
		{
			Name: "readOnly", Default: readOnlySnapshot, OneOf: []string{readOnlySnapshot, readOnlyCertified},
			Doc: "How transactions end that write nothing: snapshot, at once, on a state of the whole database that may be old; certified, " +
				"like the others.",
		},
		{
			Name: "history", Default: "4096", Integer: true, MinInt: 1, MaxInt: 1 << 20,
			Doc: "The number of transactions of each group whose Bloom filters are kept. One whose snapshot is older is aborted.",
		},
		{
			Name: "filterBits", Default: "1024", Integer: true, MinInt: 64, MaxInt: 1 << 20,
			Doc: "The size of the Bloom filters of a transaction's read set and write set.",
		},
		{
			Name: "interactive", Default: "false", OneOf: []string{"false", "true"},
			Doc: "Whether rows are asked for one after the other as the procedure comes to them, as for a client that sends " +
				"statements, and not side by side as far as they are known beforehand.",
		},
		{
			Name: "election", Default: "1s", Min: 50 * time.Millisecond, Max: time.Minute,
			Doc: "How long beyond the longest round trip a leader may be silent before its group elects another.",
		},
		{
			Name: "recovery", Default: "2s", Min: 100 * time.Millisecond, Max: 10 * time.Minute,
			Doc: "How long beyond delay and the longest round trip a group waits for the votes of others before it demands them: who " +
				"has not delivered the transaction then votes to abort it.",
		},
	},
	Check:         check,
	CheckTopology: checkTopology,
	Roles:         []string{RoleCoordinator, RoleLeader},
	Place:         func(t *geo.Topology, _ protocol.Params) geo.Layout { return t.Placed() },
	TakesGroups:   true,
	NewStore:      func() store.Store { return store.NewVersioned() },
	Isolation: func(p protocol.Params) isolation.Level {
		if p.Word("readOnly") == readOnlyCertified {
			return isolation.StrictSerializable
		}
		return isolation.Serializable
	},
	Tolerates: tolerates,
	Replaces:  func(t *geo.Topology, _ protocol.Params) []geo.NodeID { return raftgroup.Replaces(t, t.Placed()) },
	New:       func(c protocol.Config) protocol.Replica { return newReplica(c, options{}) },
	Decode:    decode,
	Law:       law,
}

const (
	// maxFilterBits bounds history times filterBits, which gives each member of a group at most 128 MiB of read filters
	// and 128 MiB of write filters.
	maxFilterBits = 1 << 30
	// maxNodeBits bounds the filters of all groups that a node is a member of. Each kind takes at most 512 MiB, an
	// eighth of a node's default memory.
	maxNodeBits = 1 << 32
	// maxWait bounds the time for which a transaction stays pending in an idle group.
	maxWait = time.Minute
)

// check is Engine.Check. It limits the memory of the filters and the time that a transaction waits for
// reorderThreshold.
func check(p protocol.Params) (errs []*protocol.ParamError) {
	if history, bits := p.Int("history"), p.Int("filterBits"); history*bits > maxFilterBits {
		errs = append(errs, &protocol.ParamError{Name: "filterBits", Message: fmt.Sprintf(
			`"%d" is too much with history %d, since each group keeps that many filters of each kind: make it at most %d, or history at most %d`,
			bits, history, maxFilterBits/history, maxFilterBits/bits)})
	}
	if threshold, tick := p.Int("reorderThreshold"), p.Duration("tick"); time.Duration(threshold)*tick > maxWait {
		errs = append(errs, &protocol.ParamError{Name: "reorderThreshold", Message: fmt.Sprintf(
			`"%d" is too much with tick %v, since a transaction would wait for more than %v in an idle group: make it at most %d`,
			threshold, tick, maxWait, maxWait/tick)})
	}
	return errs
}

// checkTopology is Engine.CheckTopology. It reports a node whose groups together keep more than maxNodeBits filter
// bits. No group needs a check of its majority, because geo.Topology.Validate requires at least one member.
func checkTopology(t *geo.Topology, p protocol.Params) *protocol.TopologyError {
	layout, groups := t.Placed(), make([]int64, t.Nodes())
	for s := range layout.Shards() {
		for _, n := range layout.Group(s).Members {
			groups[n]++
		}
	}
	most, history, bits := slices.Max(groups), p.Int("history"), p.Int("filterBits")
	if most*history*bits <= maxNodeBits {
		return nil
	}
	return &protocol.TopologyError{Field: "spec.engine.parameters.filterBits", Value: fmt.Sprint(bits), Message: fmt.Sprintf(
		"node %s is a member of %d groups, each of which keeps %d such filters of each kind: make it at most %d, or history at most %d, or "+
			"place fewer partitions on a node with homes and groups", t.NodeName(geo.NodeID(slices.Index(groups, most))), most, history, maxNodeBits/(most*history), maxNodeBits/(most*bits))}
}

// The roles of nodes: each coordinates the transactions of its clients, and some lead groups.
const (
	RoleCoordinator = "coordinator"
	RoleLeader      = "leader"
)

// Timer kinds. The argument of the first three is the group, the argument of delayTimer is the transaction.
const (
	groupTimer = iota + 1
	proposeTimer
	paceTimer
	delayTimer
	closeTimer
	tickTimer
)

const (
	// tickEvery is the interval of lookAround, which checks all timeouts that have no timer of their own.
	tickEvery = 100 * time.Millisecond
	// patience is the time, in addition to the longest round trip, after which a read is sent to another member.
	patience = 500 * time.Millisecond
)

// options are settings that no manifest can contain.
type options struct {
	mistake mistake
	// keep bounds the number of log entries that a member keeps: see consensus.Config.
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
	clock      raftgroup.Clock

	interactive, cuts           bool
	delay, tick, election       time.Duration
	recovery, patience, longest time.Duration
	threshold                   uint64
	kept, filterBits            int
	// trimmed is the timestamp up to which old row versions were discarded.
	trimmed uint64

	node raftgroup.Node
	// groups are the group memberships of this node, by shard; nil for a shard that the node does not store.
	groups []*group
	// members are the members of each group, ordered by their distance from this node.
	members [][]geo.NodeID
	// heard is the time of the last message from each node.
	heard []time.Duration
	coordinator
	ticking bool

	steps    int64
	counters counters
}

type counters struct {
	transactions, locals, globals, readOnly            int64
	conflicts, falsePositives, tooOld, prevented       int64
	leapTries, leaps, waits                            int64
	votes, recoveries, entries, ticks, terms, restored int64
}

func newReplica(c protocol.Config, o options) *Replica {
	t, p := c.Topology, c.Params
	longest := t.LongestRTT()
	r := &Replica{
		options:     o,
		self:        c.Self,
		topology:    t,
		env:         c.Env,
		procedures:  c.Procedures,
		store:       c.Store.(*store.Versioned),
		layout:      t.Placed(),
		placement:   t.Placement(),
		interactive: p.Word("interactive") == "true",
		cuts:        p.Word("readOnly") == readOnlySnapshot,
		delay:       p.Duration("delay"),
		tick:        p.Duration("tick"),
		election:    p.Duration("election") + longest,
		recovery:    p.Duration("recovery") + p.Duration("delay") + longest,
		patience:    patience + longest,
		longest:     longest,
		threshold:   uint64(p.Int("reorderThreshold")),
		kept:        int(p.Int("history")),
		filterBits:  int(p.Int("filterBits")),
		heard:       make([]time.Duration, t.Nodes()),
	}
	shards := r.layout.Shards()
	r.coordinator = coordinator{
		leaders: make([]tenure, shards), suspect: make([]bool, t.Nodes()), open: map[uint64]*transaction{},
		next: raftgroup.First(c.Incarnation), done: raftgroup.First(c.Incarnation),
	}
	r.node.Config = raftgroup.Config{
		Self: r.self, Incarnation: c.Incarnation, Nodes: t.Nodes(), Layout: &r.layout, Env: r.env, RaftTimer: groupTimer, ProposeTimer: proposeTimer,
		Heartbeat: min(consensus.DefaultHeartbeat, p.Duration("election")/4), Election: r.election, Keep: r.keep, Handle: r.handle, Shrink: c.Shrink,
	}
	r.groups = make([]*group, shards)
	for _, shard := range r.layout.ShardsOf(c.Self) {
		r.groups[shard] = newGroup(r, shard)
	}
	r.members = raftgroup.Nearest(t, &r.layout, r.self)
	return r
}

// Start implements protocol.Replica.
func (r *Replica) Start() {
	for n := range r.heard {
		r.heard[n] = r.env.Now()
	}
	for _, g := range r.groups {
		if g != nil {
			g.Start()
		}
	}
	r.env.After(closeEvery, protocol.Timer{Kind: closeTimer})
	r.node.Finish()
}

// Receive implements protocol.Replica.
func (r *Replica) Receive(from geo.NodeID, m protocol.Message) {
	r.heard[from], r.suspect[from] = r.env.Now(), false
	r.handle(from, m)
	r.node.Finish()
}

// Replaced implements protocol.Rejoiner. Groups settle the transactions of a lost coordinator like the transactions of
// a silent coordinator: they demand each other's votes.
func (r *Replica) Replaced(n geo.NodeID, incarnation uint32) {
	r.heard[n], r.suspect[n] = r.env.Now(), false
	r.node.Replaced(n, incarnation)
	r.node.Finish()
}

// FullyReplicated implements protocol.Rejoiner.
func (r *Replica) FullyReplicated() bool { return r.node.FullyReplicated() }

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
		if g := r.group(m.Group); g != nil {
			g.read(from, m)
		}
	case *Rows:
		r.rows(m)
	case *Submit:
		if g := r.group(m.Group); g != nil {
			g.Admit(from, m.Term, m)
		}
	case *Vote:
		if g := r.group(m.Group); g != nil {
			g.Admit(from, m.Term, m)
		}
	case *Answer:
		r.answer(m)
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
	case paceTimer:
		r.groups[t.Arg].paced()
	case delayTimer:
		r.release(t.Arg)
	case closeTimer:
		for _, g := range r.groups {
			// A group that has proposed nothing for closeEvery needs a tick, or its closed timestamp stops and cuts become
			// old.
			if g != nil && r.env.Now()-g.Proposed >= closeEvery {
				g.deliverTick()
			}
		}
		r.env.After(closeEvery, t)
	case tickTimer:
		r.lookAround()
	}
	r.node.Finish()
}

// tickLater schedules lookAround unless it is already scheduled.
func (r *Replica) tickLater() {
	if !r.ticking {
		r.ticking = true
		r.env.After(tickEvery, protocol.Timer{Kind: tickTimer})
	}
}

// lookAround retries late reads and lets leaders demand late votes.
func (r *Replica) lookAround() {
	r.ticking = false
	for n := r.done; n < r.next; n++ {
		// Terminating transactions have no retry here: a new leader's announcement makes the coordinator submit them again.
		if x := r.open[n]; x != nil && x.phase == reading {
			r.retryReads(x)
		}
	}
	for _, g := range r.groups {
		if g != nil && g.Leads() {
			g.recover()
		}
	}
	// The timer runs only while something is pending, so an idle database sends no events.
	if r.Pending() > 0 {
		r.tickLater()
	}
}

// Pending implements protocol.Replica. It counts the open transactions of this node's clients, and the reads, pending
// or undecided transactions and demands of its groups. A group counts as one more if it has not joined or has proposals
// in flight. The same applies if a live member lacks log entries, or if entries may still commit.
func (r *Replica) Pending() int {
	n := len(r.open)
	for _, g := range r.groups {
		if g == nil {
			continue
		}
		n += len(g.reads) + len(g.pending) + len(g.globals) + len(g.demands)
		if g.empty || !g.Idle() || g.Serving && !g.spread() || g.Raft.Awaits(hasCommands) {
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
		return []string{RoleCoordinator, RoleLeader}
	}
	return []string{RoleCoordinator}
}

// Steps implements protocol.StepCounter. It returns the number of filter hits that certification has examined.
func (r *Replica) Steps() int64 { return r.steps }

// Readings implements protocol.Replica.
func (r *Replica) Readings(dst []protocol.Reading) []protocol.Reading {
	c := &r.counters
	pending := 0
	for _, g := range r.groups {
		if g != nil {
			pending += len(g.pending)
		}
	}
	return append(dst,
		protocol.Reading{Name: "transactions", Value: c.transactions},
		protocol.Reading{Name: "locals", Value: c.locals},
		protocol.Reading{Name: "globals", Value: c.globals},
		protocol.Reading{Name: "read_only", Value: c.readOnly},
		protocol.Reading{Name: "conflicts", Value: c.conflicts},
		protocol.Reading{Name: "false_positives", Value: c.falsePositives},
		protocol.Reading{Name: "too_old", Value: c.tooOld},
		protocol.Reading{Name: "prevented", Value: c.prevented},
		protocol.Reading{Name: "leap_tries", Value: c.leapTries},
		protocol.Reading{Name: "leaps", Value: c.leaps},
		protocol.Reading{Name: "waits_behind_globals", Value: c.waits},
		protocol.Reading{Name: "votes", Value: c.votes},
		protocol.Reading{Name: "recoveries", Value: c.recoveries},
		protocol.Reading{Name: "log_entries", Value: c.entries},
		protocol.Reading{Name: "ticks", Value: c.ticks},
		protocol.Reading{Name: "terms", Value: c.terms},
		protocol.Reading{Name: "restored", Value: c.restored},
		protocol.Reading{Name: "leads", Value: int64(len(r.Leads()))},
		protocol.Reading{Name: "pending", Value: int64(pending)},
	)
}
