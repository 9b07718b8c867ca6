// Package minerva is a multi-leader database that executes before it orders: Minerva (Y. Mao et al., Epoch-based
// Optimistic Concurrency Control in Geo-replicated Databases, PACMMOD 4(2), article 175, 2026). Every replica holds all
// rows, accepts transactions and executes them immediately. It sends their reads and writes in batches to all other
// replicas. A consistent cut through the logs of batches, agreed on once per epoch, determines the transactions to
// commit. Then every replica independently finds the same conflicting transactions. It re-executes these, and commits
// all others without re-execution.
//
// Local execution (local.go, section 3.2). A transaction reads the rows of the last committed epoch and the uncommitted
// writes of the replica's earlier transactions. Transactions of one replica therefore do not conflict with each other.
// Transactions that read from each other form a chain.
//
// Dissemination (logs.go, section 3.3). A replica sends a batch when the batch is full, or when some time has passed
// after the previous batch. Once f other replicas have acknowledged a batch, the replica broadcasts a proof of
// availability, which covers the batch and all batches before it.
//
// Global commit (coordinator.go, section 3.4). The coordinator, which is the leader of a Raft group of all replicas,
// proposes a cut: the last batch with a proof in each log. An epoch consists of the batches between two consecutive
// cuts. A replica requests batches of the cut that it lacks.
//
// Validation and re-execution (epoch.go, conflicts.go, sections 3.5 and 3.6). A chain is stale if an earlier epoch has
// changed a row that it read, or if it depends on a re-executed transaction. Among the remaining chains, two chains of
// different replicas conflict if both use the same row and one of them writes it. The heaviest independent set of
// chains is committed (package mwis). All other transactions are re-executed, replica by replica and in log order.
// Clients are answered only after that, because even a procedure's abort depends on its reads.
//
// Rejoin (rejoin.go). Lost replicas rejoin as new incarnations. The paper does not cover this.
//
// Deterministic locks. The paper re-executes with Calvin's locks, on several threads. The result equals a serial
// execution in the order of the lock requests. A replica here is a state machine with one thread: it executes in that
// order, without locks. It need not know in advance which rows a procedure will use.
//
// Ranges. A scan is recorded as the range that the procedure has examined, with the committed rows in it. The scan is
// stale if the range contains another row at validation. It conflicts with every write in the range, including inserts.
// This excludes phantoms (package optimistic).
//
// Correctness. The paper clears the uncommitted state at each epoch. A transaction executed after that would not see
// the writes of an earlier transaction of the same replica that is in no cut yet. If one cut then contained both, no
// replica would find the conflict, because chains of one replica are not compared. Here such writes stay visible until
// it is certain that their transaction will be re-executed.
//
// Partitions. A replica in the paper is one unit with all rows, in one region. Here every node is such a replica,
// regardless of its partition. The partition of a transaction's first row selects the node of the region that executes
// it. Consequently, f counts nodes.
package minerva

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/minerva/mwis"
)

// Values of parameters.
const (
	commitReplicated = "Replicated"
	commitProposed   = "Proposed"

	solverAuto   = "Auto"
	solverExact  = "Exact"
	solverGreedy = "Greedy"

	acrossStale = "Stale"
	acrossValid = "Valid"

	contentionSustained = "Sustained"
	contentionImmediate = "Immediate"
	contentionOff       = "Off"

	readsValidated = "Validated"
	readsSnapshot  = "Snapshot"
)

// Engine is Minerva.
var Engine = &protocol.Engine{
	Name:    "minerva",
	Paper:   "Mao et al., Epoch-based Optimistic Concurrency Control in Geo-replicated Databases, PACMMOD 4(2), 2026",
	Doc:     "Executes transactions at once at any replica, agrees once per epoch on what is committed, and executes again what conflicts.",
	Figures: figures,
	Parameters: []protocol.Parameter{
		{
			Name: "epoch", Default: "15ms", Min: time.Millisecond, Max: 10 * time.Second,
			Doc: "The time between two cuts that the coordinator proposes, if there is anything to commit.",
		},
		{
			Name: "batchTimeout", Default: "5ms", Min: 0, Max: time.Second,
			Doc: "The shortest time between two batches of a replica, unless one is full.",
		},
		{
			Name: "batchSize", Default: "4000000", Integer: true, MinInt: 1000, MaxInt: 64_000_000,
			Doc: "The bytes from which on a batch is full.",
		},
		{
			Name: "solver", Default: solverAuto, OneOf: []string{solverAuto, solverExact, solverGreedy},
			Doc: "How the chains to be committed are chosen among those that conflict: exactly, by a greedy algorithm, or exactly where few are involved.",
		},
		{
			Name: "commit", Default: commitReplicated, OneOf: []string{commitReplicated, commitProposed},
			Doc: "When a cut holds: once a majority of the replicas has it, or, as in the authors' code, once the coordinator has proposed it; " +
				"it is the first node for ever then.",
		},
		{
			Name: "heartbeat", Default: "400ms", Min: 10 * time.Millisecond, Max: 10 * time.Second,
			Doc: "The coordinator's heartbeat; another one is elected after one and a half to three of silence, and some round trips.",
		},
		{
			Name: "acrossEpochs", Default: acrossStale, OneOf: []string{acrossStale, acrossValid},
			Doc: "What becomes of a transaction that has read what another one of its replica wrote, if that one was committed in an earlier " +
				"epoch: it is stale, as in the paper, or, as in the authors' code, valid if nothing has changed since.",
		},
		{
			Name: "highContention", Default: contentionSustained, OneOf: []string{contentionSustained, contentionImmediate, contentionOff},
			Doc: "When replicas leave all execution to the commit: after 200ms in which most transactions were executed again, for as long; " +
				"after one such epoch, for five batches, as in the authors' code; or never.",
		},
		{
			Name: "reads", Default: readsValidated, OneOf: []string{readsValidated, readsSnapshot},
			Doc: "Transactions that write nothing are validated like others, or answered at once from the replica's last epoch.",
		},
	},
	Roles:     []string{RoleCoordinator},
	Tolerates: tolerates,
	Replaces:  replaces,
	Isolation: promises,
	Place:     func(t *geo.Topology, _ protocol.Params) geo.Layout { return t.WholeEverywhere() },
	New:       func(c protocol.Config) protocol.Replica { return newReplica(c, none) },
	Decode:    decode,
	Law:       law,
}

// RoleCoordinator is the role of the replica that proposes cuts.
const RoleCoordinator = "coordinator"

// promises is Engine.Isolation. Epochs are committed in one order. A transaction is in a later epoch than every
// transaction that was answered before it was submitted. A snapshot read may miss the latest epochs, because it reads
// the state after the last epoch that this replica has committed.
func promises(p protocol.Params) isolation.Level {
	if p.Word("reads") == readsSnapshot {
		return isolation.Serializable
	}
	return isolation.StrictSerializable
}

// tolerates is Engine.Tolerates: any minority of the regions may fail. If the coordinator proposes cuts without
// consensus, its region may not fail.
func tolerates(t *geo.Topology, p protocol.Params) protocol.Tolerance {
	s := protocol.AnyRegions(t, true)
	if p.Word("commit") == commitProposed && len(s.Regions) > 0 {
		s.Regions = s.Regions[1:]
	}
	// A group member whose campaign fails doubles its wait before the next campaign.
	rtt := t.LongestRTT()
	s.Settles = 8*electionAfter(p, rtt) + 10*rtt
	s.Answers = protocol.InTime(rtt+p.Duration("epoch")) + p.Duration("batchTimeout")
	return s
}

// replaces is Engine.Replaces: every replica can be replaced if the remaining replicas are a majority. If cuts are
// decided without consensus, the coordinator cannot be replaced.
func replaces(t *geo.Topology, p protocol.Params) (all []geo.NodeID) {
	// Of two replicas, the remaining one is not a majority.
	if t.Nodes() < 3 {
		return nil
	}
	for n := range geo.NodeID(t.Nodes()) {
		if n > 0 || p.Word("commit") == commitReplicated {
			all = append(all, n)
		}
	}
	return all
}

// Timer kinds.
const (
	batchTimer = iota + 1
	epochTimer
	groupTimer
	fetchTimer
	progressTimer
	transferTimer
	joinTimer
)

// Replica is one node of the database.
type Replica struct {
	self   geo.NodeID
	nodes  int
	faults int // f
	// incarnation is the incarnation of this replica, 0 for the first: see rejoin.go.
	incarnation uint32

	env   protocol.Env
	procs *txn.Registry
	store *store.Hash

	placement geo.Placement
	longest   time.Duration // longest round trip between regions
	wrong     mistake
	shrink    uint8 // protocol.Config.Shrink

	local       local
	logs        logs
	coordinator coordinator
	epochs      epochs
	contention  contention
	progress    progress
	rejoin      rejoin
}

func newReplica(c protocol.Config, m mistake) *Replica {
	t := c.Topology
	r := &Replica{
		self: c.Self, nodes: t.Nodes(), faults: (t.Nodes() - 1) / 2, incarnation: c.Incarnation, env: c.Env, procs: c.Procedures, store: c.Store.(*store.Hash),
		placement: t.Placement(), longest: t.LongestRTT(), wrong: m, shrink: c.Shrink,
	}
	r.local.init(r, c.Params)
	r.logs.init(r, c.Params)
	r.epochs.init(r, c.Params)
	r.contention.init(r, c.Params)
	r.coordinator.init(r, c.Params)
	r.progress.init(r)
	r.rejoin.init(r)
	return r
}

// others calls f for all nodes except this node.
func (r *Replica) others(f func(geo.NodeID)) { protocol.Others(r.nodes, r.self, f) }

// Start implements protocol.Replica.
func (r *Replica) Start() {
	r.coordinator.start()
	r.rejoin.start()
}

// Submit implements protocol.Replica.
func (r *Replica) Submit(t *txn.Transaction) { r.local.submit(t) }

// Receive implements protocol.Replica.
func (r *Replica) Receive(from geo.NodeID, m protocol.Message) {
	// Any message shows that its sender is alive, not only a progress report.
	r.progress.hear(from)
	switch m := m.(type) {
	case *Batch:
		r.logs.receive(from, m)
	case *Acknowledgement:
		r.logs.acknowledged(from, m.Number)
	case *Proof:
		r.logs.prove(from, m.Number)
	case *Request:
		r.logs.requested(from, m)
	case *Forgotten:
		r.epochs.forgotten(from, m)
	case *Cut:
		r.epochs.agreed(m.Heads)
	case *Progress:
		r.progress.receive(from, m)
	case *Cuts:
		r.coordinator.known = true
		r.epochs.restore(m.State)
	case *Join:
		r.rejoin.join(from, m)
	case *Follow:
		r.logs.follow(from, m)
	case *Followed:
		r.rejoin.follows(from, m)
	case *statetransfer.Piece:
		r.rejoin.piece(from, m)
	case *statetransfer.Ack:
		r.rejoin.sender.Receive(from, m)
	case *consensus.Message:
		r.coordinator.group.Receive(from, m)
	}
}

// Fire implements protocol.Replica.
func (r *Replica) Fire(t protocol.Timer) {
	switch t.Kind {
	case batchTimer:
		r.logs.expire(t.Arg)
	case epochTimer:
		r.coordinator.expire()
	case groupTimer:
		r.coordinator.group.Fire(t)
	case fetchTimer:
		r.epochs.fetch()
	case progressTimer:
		r.progress.tell()
	case transferTimer:
		r.rejoin.sender.Fire()
	case joinTimer:
		r.rejoin.fire(t.Arg)
	}
}

// Roles implements protocol.RoleHolder.
func (r *Replica) Roles() []string {
	if r.coordinator.leads() {
		return []string{RoleCoordinator}
	}
	return nil
}

// Pending implements protocol.Replica. It counts this replica's unanswered transactions and its uncommitted epochs. It
// adds one if a batch with a proof is in no cut. It adds another one if a live replica has not reported this replica's
// epochs as committed. A replica that is behind is never quiescent: its rows differ from the rows of other replicas and
// must not be compared with them. A new incarnation without rows is not quiescent either.
func (r *Replica) Pending() int {
	if r.epochs.behind {
		return 1
	}
	n := r.local.open.Len() + r.epochs.queue.Len()
	if !r.rejoin.joined {
		n++
	}
	if r.logs.uncut() {
		n++
	}
	if r.progress.ahead() {
		n++
	}
	return n
}

// Lags implements protocol.Straggler.
func (r *Replica) Lags() bool { return r.epochs.behind }

// Steps implements protocol.StepCounter. A step of the conflict graph or the solver takes 60 to 90 ns in
// BenchmarkEpoch. That is a third of the time that a simulator charges for a step.
func (r *Replica) Steps() int64 { return (r.epochs.conflicts.steps + r.epochs.solved.Steps) / 3 }

// Readings implements protocol.Replica.
func (r *Replica) Readings(dst []protocol.Reading) []protocol.Reading {
	e := &r.epochs
	count := func(name string, value int64) { dst = append(dst, protocol.Reading{Name: name, Value: value}) }
	count("transactions", r.local.transactions)
	count("snapshot_reads", r.local.snapshotReads)
	count("batches", int64(r.logs.number-protocol.NumbersBefore(r.incarnation)-1))
	count("epochs", int64(e.committed))
	count("epoch_transactions", e.transactions)
	count("valid", e.valid)
	count("reexecuted_stale", e.stale)
	count("reexecuted_cascading", e.cascading)
	count("reexecuted_conflicting", e.conflicting)
	count("executed_first_at_commit", e.unexecuted)
	count("commit_chains", e.chains)
	count("commit_validated_rows", e.validated)
	count("commit_graph_accesses", e.conflicts.accesses)
	count("commit_graph_vertices", e.conflicts.vertices)
	count("commit_graph_edges", e.conflicts.edges)
	count("commit_solver_exact", e.solved.Exactly)
	count("commit_solver_given_up", e.solved.GivenUp)
	count("commit_solver_nodes", e.solved.Nodes)
	count("commit_solver_steps", e.solved.Steps)
	count("commit_applied_rows", e.applied)
	count("commit_reexecuted_rows", e.reexecutedRows)
	count("batch_requests", e.requests)
	count("batches_passed_on", r.logs.passedOn)
	count("high_contention_modes", r.contention.entered)
	count("coordinator_terms", r.coordinator.terms)
	return dst
}

// method returns the mwis method that the parameter solver selects.
func method(p protocol.Params) mwis.Method {
	switch p.Word("solver") {
	case solverExact:
		return mwis.Exact
	case solverGreedy:
		return mwis.Greedy
	default:
		return mwis.Auto
	}
}
