// Package sunstorm implements a database in which every region owns a part of the rows. Each region has a writer for
// its rows, and keeps slightly stale copies of all other rows. The package follows Nguyen et al., SunStorm:
// Geographically distributed transactions over Aurora-style systems, sections 3 to 6.
//
// Writers. The rows of a cell, a partition of a home region, have one writer: the first node of the partition in that
// region. The region's other replicas of the partition are its storage copies. A writer's changes are in its log
// (wal.go), whose entries have log sequence numbers. An entry is durable when a majority of the writer and its storage
// copies has it. Durable entries are shipped to the other regions, which apply them in the order of the log.
//
// Execution (initiator.go). The writer in the client's region runs the procedure on the state of its region. This state
// has the newest versions of the region's rows, and older versions of other rows. The first read at a node fixes the
// snapshot for all later reads there.
//
// Single-region transactions touch only rows of the writer that executes them. They are executed and committed in one
// step, on the newest rows, so no two of them are ever concurrent. Hence every dangerous structure of serializable
// snapshot isolation contains a prepared transaction. The reader rule and the writer rule forbid these structures.
//
// Multi-region transactions (writer.go) are all others. The initiator prepares its part, and sends Prepare, its yes
// vote, to all other writers involved. Each writer validates that the rows read are current, prepares, and sends its
// vote to all participants. A writer that has all votes decides independently. A prepared transaction holds its read
// set and write set. A transaction that reads from the write set (reader rule), or writes to the read set (writer
// rule), is aborted. A single-region transaction that writes to the write set waits. A multi-region transaction dies
// instead, since distributed deadlocks could not be detected. It dies immediately or, depending on the parameter
// waitDie, after a timeout.
//
// Strict serializability. Consider the interval between the last vote and the first commit of a multi-region
// transaction. All its writers then hold its read set and write set, and its reads are current. The transaction takes
// effect in this interval. A single-region transaction takes effect in the step that commits it.
//
// A node that has lost its state is replaced if each cell has two or more nodes. A new storage copy receives the rows
// from their writers (replace.go). A new writer receives its log from its storage copies (recover.go). The other
// writers send the new writer the outcomes of its prepared transactions. The new writer sends them the votes of its
// predecessor (settle.go).
package sunstorm

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Values of the parameter votes.
const (
	votesDirect       = "direct"
	votesAcknowledged = "acknowledged"
)

// Values of the parameter waitDie.
const (
	waitDieImmediate = "immediate"
	waitDieTimeout   = "timeout"
)

// Values of the parameter copies.
const (
	copiesWriter  = "writer"
	copiesStorage = "storage"
)

// Engine is SunStorm.
var Engine = &protocol.Engine{
	Name:  "sunstorm",
	Paper: "Nguyen et al., SunStorm: Geographically distributed transactions over Aurora-style systems",
	Doc: "Executes transactions on the region's own rows and stale copies of the others; those that touch other regions' rows are validated there, " +
		"and regions vote on them without a coordinator.",
	Figures: figures,
	Aborts: []string{ReasonOutdatedTuple, ReasonOutdatedIndexPage, ReasonSerialization, ReasonDeadlock,
		ReasonTooOld, ReasonWriterLost},
	Parameters: []protocol.Parameter{
		{
			Name: "votes", Default: votesDirect, OneOf: []string{votesDirect, votesAcknowledged},
			Doc: "When a region may decide: direct, as soon as it has all votes; acknowledged, once all others have also confirmed its own vote, " +
				"as in the authors' code, which holds rows for longer.",
		},
		{
			Name: "interactive", Default: "false", OneOf: []string{"false", "true"},
			Doc: "Whether rows are asked for one after the other as the procedure comes to them, as for a client that sends " +
				"statements, and not side by side as far as they are known beforehand.",
		},
		{
			Name: "copies", Default: copiesWriter, OneOf: []string{copiesWriter, copiesStorage},
			Doc: "Who ships a region's log to the others and applies theirs: writer, the CPU of the node that executes transactions; storage, " +
				"servers beside it, as the paper's storage layer, whose CPU the simulator does not model. Processes do it themselves either way.",
		},
		{
			Name: "keysPerPage", Default: "0", Integer: true, MinInt: 0, MaxInt: 10_000,
			Doc: "The number of neighbouring keys that share a page of an index. Who has read one of them is aborted as soon as another of the page " +
				"is inserted at its writer. 0 is no pages: ranges and missing rows are validated by themselves.",
		},
		{
			Name: "pageUpdates", Default: updatesInserts, OneOf: []string{updatesInserts, updatesAll},
			Doc: "What changes an index page: inserts alone, as where all of PostgreSQL's updates are heap-only; all, updates and deletions " +
				"as well, as where none is. It needs keysPerPage.",
		},
		{
			Name: "waitDie", Default: waitDieImmediate, OneOf: []string{waitDieImmediate, waitDieTimeout},
			Doc: "When a multi-region transaction dies that writes what another one is prepared to write: immediate, at once, as the paper has it; " +
				"timeout, once it has waited for deadlockTimeout, as in the authors' code, where PostgreSQL's deadlock checker decides.",
		},
		{
			Name: "deadlockTimeout", Default: "1s", Min: time.Millisecond, Max: time.Minute,
			Doc: "How long it waits, of waitDie: timeout. The default is PostgreSQL's, which the authors left as it is.",
		},
		{
			Name: "copyLag", Default: "0s", Max: time.Minute,
			Doc: "How much later than it comes another region's log is applied to the copies of its rows, as by page servers that are behind.",
		},
	},
	Check:    check,
	Roles:    []string{RoleWriter},
	Replaces: replaces,
	NewStore: func() store.Store { return store.NewVersioned() },
	New:      func(c protocol.Config) protocol.Replica { return newReplica(c, none) },
	Decode:   decode,
	Law:      law,
}

// check is Engine.Check.
func check(p protocol.Params) []*protocol.ParamError {
	if p.Word("pageUpdates") != updatesInserts && p.Int("keysPerPage") == 0 {
		return []*protocol.ParamError{{
			Name:    "pageUpdates",
			Message: fmt.Sprintf("%q needs pages: set keysPerPage to 1 or more, or leave pageUpdates out", p.Word("pageUpdates")),
		}}
	}
	return nil
}

// RoleWriter is the role of the writers: one node in each region and partition.
const RoleWriter = "writer"

// keptBehind is the minimum time for which replaced row versions stay readable for transactions with older snapshots.
const keptBehind = 10 * time.Second

// Replica is one node: the writer of a cell, or a storage copy of that writer. Every node keeps copies of all regions'
// rows of its partition.
type Replica struct {
	self       geo.NodeID
	region     geo.Region
	partition  int
	topology   *geo.Topology
	placement  geo.Placement
	env        protocol.Env
	procedures *txn.Registry
	store      *store.Versioned
	wrong      mistake
	shrink     uint8 // protocol.Config.Shrink

	acknowledged, interactive, offloads bool

	// version is the number of changes applied to the store. It identifies snapshots.
	version uint64
	// oldest is the oldest version that can still be read. mark is the version at the time when trimAt was set, and
	// becomes oldest at trimAt.
	oldest, mark uint64
	trimAt       time.Duration

	wal    wal
	writer writer
	// copies describes this node's copies of the other writers' rows, by home.
	copies      []copyOf
	replacement replacement
	settlement  settlement
	// recovery is the recovery of a writer's new incarnation, until it accepts transactions; nil at all other nodes.
	recovery *recovery
	// lag is the delay between the arrival and the application of another region's log. lagging are the received parts
	// whose delay has not passed yet.
	lag     time.Duration
	lagging queue.Queue[lag]

	transactions map[txn.ID]*transaction
	// forwarded are the transactions of this node's clients that the region's writer executes.
	forwarded map[txn.ID]bool

	late     []lateEntry // see AppliedOutOfOrder
	counters counters
}

type counters struct {
	transactions, forwarded, single, multi, tooOld                         int64
	neighbours                                                             int64
	outdatedTuple, outdatedPage, serialization, deadlock, readers, writers int64
	waits, multiWaits, validations, votes, entries, applied                int64
}

func newReplica(c protocol.Config, m mistake) *Replica {
	t := c.Topology
	r := &Replica{
		self: c.Self, region: t.RegionOf(c.Self), partition: t.PartitionOf(c.Self), topology: t, placement: t.Placement(), env: c.Env,
		procedures: c.Procedures, store: c.Store.(*store.Versioned), wrong: m, shrink: c.Shrink,
		acknowledged: c.Params.Word("votes") == votesAcknowledged, interactive: c.Params.Word("interactive") == "true",
		offloads: c.Params.Word("copies") == copiesStorage,
		version:  1, oldest: 1, mark: 1, copies: make([]copyOf, len(t.Regions)),
		transactions: map[txn.ID]*transaction{}, forwarded: map[txn.ID]bool{},
	}
	for i := range r.copies {
		r.copies[i] = copyOf{next: 1, tentative: map[txn.ID]Entry{}}
	}
	r.wal.init(r)
	r.writer.init(r)
	r.settlement.init(r, c.Incarnation)
	r.replacement.init(r, c.Incarnation)
	if c.Incarnation > 0 {
		// Snapshots of the predecessor count as too old.
		r.version = raftgroup.First(c.Incarnation)
		r.oldest, r.mark = r.version, r.version
		if r.writes() {
			r.recovery = &recovery{r: r, standings: map[geo.NodeID]uint64{}, open: map[txn.ID]bool{}}
		}
	}
	r.lag = c.Params.Duration("copyLag")
	if c.Params.Word("waitDie") == waitDieTimeout {
		r.writer.patience = c.Params.Duration("deadlockTimeout")
	}
	r.writer.pages = pages{
		r: r, keys: uint64(c.Params.Int("keysPerPage")), updates: c.Params.Word("pageUpdates") == updatesAll, changed: map[page]uint64{},
	}
	return r
}

// writes reports whether the node is a writer.
func (r *Replica) writes() bool { return r.topology.ReplicaOf(r.self) == 0 }

// Start implements protocol.Replica.
func (r *Replica) Start() { r.replacement.ask() }

// Submit implements protocol.Replica.
func (r *Replica) Submit(t *txn.Transaction) {
	r.counters.transactions++
	// Receive holds messages during the recovery; a transaction of this node's clients does not pass through Receive.
	if r.recovery != nil {
		r.recovery.hold(r.self, &Forward{t})
	} else if r.writes() {
		r.begin(t, r.self)
	} else {
		r.counters.forwarded++
		r.forwarded[t.ID] = true
		r.env.Send(r.topology.Node(r.region, r.partition, 0), &Forward{t})
	}
	r.finishStep()
}

// Receive implements protocol.Replica.
func (r *Replica) Receive(from geo.NodeID, m protocol.Message) {
	if r.recovery.holds(m) {
		r.recovery.hold(from, m)
	} else {
		r.receive(from, m)
	}
	r.finishStep()
}

func (r *Replica) receive(from geo.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *Forward:
		r.begin(m.T, from)
	case *Answer:
		if r.forwarded[m.Outcome.ID] { // this incarnation has forwarded the transaction
			delete(r.forwarded, m.Outcome.ID)
			r.env.Reply(m.Outcome)
		}
	case *Read:
		r.read(from, m)
	case *Rows:
		r.rows(from, m)
	case *Prepare:
		r.writer.prepare(from, m)
	case *Vote:
		r.writer.vote(from, m)
	case *Received:
		r.writer.received(from, m.ID)
	case *Log:
		r.apply(from, m)
	case *Persisted:
		// persisted must run first: standing checks whether the positions that persisted records are a majority.
		r.wal.persisted(from, m.LSN)
		r.recovery.standing(from, m.LSN)
	case *Lost:
		r.replacement.lost(from)
	case *Survey:
		r.replacement.survey(from)
	case *Recovered:
		r.replacement.recovered(from, m.LSN)
	case *Aware:
		r.settlement.awareOf(from, m)
	case *Ask:
		r.settlement.ask(from, m)
	case *Settled:
		r.settlement.settled(from, m)
	case *Orphan:
		r.settlement.orphan(from, m)
	case *InDoubt:
		r.settlement.inDoubt(from, m)
	case *Known:
		// Reports also count after the recovery has ended, because whole waits for all of them.
		r.settlement.unanswered--
		r.recovery.known(m)
	case *Ended:
		r.recovery.ended(m.ID, m.Committed)
	case *statetransfer.Piece:
		r.replacement.piece(from, m)
	case *statetransfer.Ack:
		r.replacement.outgoing.Receive(from, m)
	}
}

// The kinds of timers.
const (
	deadlockTimer = iota + 1
	lagTimer
	lateTimer // see AppliedOutOfOrder
	askTimer
	pieceTimer
)

// Fire implements protocol.Replica.
func (r *Replica) Fire(t protocol.Timer) {
	if t.Kind == lateTimer {
		l := r.late[t.Arg]
		r.applyEntry(&r.copies[l.home], &l.entry)
		return
	}
	switch t.Kind {
	case lagTimer:
		r.catchUp()
	case askTimer:
		r.replacement.ask()
	case pieceTimer:
		r.replacement.outgoing.Fire()
	default:
		r.writer.giveUp(txn.ID(t.Arg))
	}
	r.finishStep()
}

// finishStep sends the log entries of the step and discards old row versions.
func (r *Replica) finishStep() {
	// flush runs at the end of a step, so the entries that the step has appended share a message.
	r.wal.flush()
	if now := r.env.Now(); now >= r.trimAt {
		// A version stays readable for one to two intervals after it was replaced.
		r.store.Trim(r.mark)
		r.oldest, r.mark, r.trimAt = r.mark, r.version, now+protocol.Shrunk(r.shrink, keptBehind)
	}
}

// Offloads implements protocol.RemoteWork: the paper's storage layers ship the logs between regions and apply them
// (section 3). A writer itself sends the messages to the storage copies of its region.
func (r *Replica) Offloads(peer geo.NodeID, m protocol.Message) bool {
	_, log := m.(*Log)
	return log && r.offloads && r.topology.RegionOf(peer) != r.region
}

// Roles implements protocol.RoleHolder.
func (r *Replica) Roles() []string {
	if r.writes() {
		return []string{RoleWriter}
	}
	return nil
}

// Pending implements protocol.Replica.
func (r *Replica) Pending() int {
	n := len(r.transactions) + len(r.forwarded) + len(r.writer.open)
	// The other regions' copies may differ from the writer's rows until all entries are shipped.
	if r.wal.shipped < r.wal.last {
		n++
	}
	return n + r.lagging.Len() + r.replacement.waits() + r.recovery.pending()
}

// Readings implements protocol.Replica.
func (r *Replica) Readings(dst []protocol.Reading) []protocol.Reading {
	c := &r.counters
	count := func(name string, value int64) { dst = append(dst, protocol.Reading{Name: name, Value: value}) }
	count("transactions", c.transactions)
	count("forwarded", c.forwarded)
	count("single_region", c.single)
	count("multi_region", c.multi)
	count("outdated_tuple", c.outdatedTuple)
	count("outdated_index_page", c.outdatedPage)
	count("outdated_by_neighbours", c.neighbours)
	count("serialization_failures", c.serialization)
	count("deadlock_preventions", c.deadlock)
	count("snapshots_too_old", c.tooOld)
	count("reader_rule", c.readers)
	count("writer_rule", c.writers)
	count("waits_for_prepared", c.waits)
	count("multi_region_waits", c.multiWaits)
	count("validations", c.validations)
	count("votes", c.votes)
	count("log_entries", c.entries)
	count("entries_applied", c.applied)
	return dst
}
