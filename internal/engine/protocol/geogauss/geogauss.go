// Package geogauss implements GeoGauss (W. Zhou et al., GeoGauss: Strongly Consistent and Light-Coordinated OLTP
// Database for Geo-Replicated SQL Database, Proc. ACM Manag. Data 1(1), SIGMOD 2023): a multi-leader database that
// merges epochs. Every server holds all rows, accepts transactions, and executes them immediately on its latest
// snapshot. It sends their write sets to all servers. A deterministic rule decides at every server which write sets of
// an epoch commit. The servers neither agree on an order nor vote.
//
// Execution (local.go). A transaction reads the server's last snapshot: the rows after all epochs that are merged
// there. When the transaction requests its commit, the server immediately sends its write set to all servers, in the
// epoch that the server's clock shows. A marker with the number of write sets follows at the end of the epoch.
// Read-only transactions are answered from the snapshot.
//
// Completeness (epochs.go). An epoch is complete at a server that has all write sets of all members. Depending on the
// parameter acks, the server merges the epoch immediately, or only when a majority of the servers, or every server, has
// the epoch. Epochs are merged strictly in order.
//
// Merge (merge.go). Of an epoch's write sets that write the same row, the write set with the latest snapshot wins; it
// belongs to the shortest transaction. Ties go to the lowest sequence number, and then to the lowest server. A
// transaction that loses a row is aborted as a whole. Under snapshot isolation a write set is also aborted if an
// earlier epoch has changed one of its rows after its snapshot. The first committer wins.
//
// Membership (members.go). A silent server stops all epochs, until the other servers agree, by Raft, on the last of its
// epochs that counts. It may join again when it recovers.
//
// Lost servers (replace.go). A new incarnation of a server that has lost its state receives the rows, and the unmerged
// epochs, from another server. It then joins like a server that has recovered.
//
// Clocks. Epochs are numbered by physical clocks. A server with a late clock makes all others wait, and a server with
// an early clock waits for the others. No clock causes a wrong answer.
//
// Idle servers. Without writes, no server closes epochs. A server closes its own epochs while it knows of unmerged
// write sets or holds transactions. It continues for one second (rest) after the last such activity.
//
// Partitions. The paper's server is one unit with all rows. Here every node is such a server, whatever its partition. A
// region's transactions are distributed over its nodes by the partition of their first row.
package geogauss

import (
	"math"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Values of parameters.
const (
	acksMajority = "Majority"
	acksNone     = "None"
	acksAll      = "All"

	snapshotIsolation = "SnapshotIsolation"
	readCommitted     = "ReadCommitted"
)

// Engine is GeoGauss.
var Engine = &protocol.Engine{
	Name:    "geogauss",
	Paper:   "Zhou et al., GeoGauss: Strongly Consistent and Light-Coordinated OLTP Database for Geo-Replicated SQL Database, SIGMOD 2023",
	Doc:     "Executes transactions at once at any server, sends what they write to all, and merges it epoch by epoch by a rule that is the same everywhere.",
	Figures: figures,
	Aborts:  []string{ReasonLostRow, ReasonChangedRow, ReasonTooOld, ReasonLeftOut},
	Parameters: []protocol.Parameter{
		{
			Name: "epoch", Default: "10ms", Min: time.Millisecond, Max: 10 * time.Second,
			Doc: "The length of an epoch, by the servers' clocks.",
		},
		{
			Name: "acks", Default: acksMajority, OneOf: []string{acksMajority, acksNone, acksAll},
			Doc: "When an epoch is merged whose write sets are all there: once a majority of the servers has them, too, so that the others " +
				"can go on without those that are lost; at once, as the authors' code is shipped, so that a lost server stops the " +
				"database; or once all servers have them.",
		},
		{
			Name: "isolation", Default: snapshotIsolation, OneOf: []string{snapshotIsolation, readCommitted},
			Doc: "Whether a transaction is aborted when a row that it writes was changed behind its snapshot, or, as the authors' code is " +
				"shipped, only when another one of its epoch wins the row.",
		},
		{
			Name: "heartbeat", Default: "400ms", Min: 10 * time.Millisecond, Max: 10 * time.Second,
			Doc: "The heartbeat of the leader of the membership. Another one is elected after one and a half to three of silence, and some " +
				"round trips; a server that holds up an epoch for the shortest of these times and is silent leaves.",
		},
	},
	Roles:     []string{RoleLeader},
	NewStore:  func() store.Store { return store.NewNewest() },
	Tolerates: tolerates,
	Replaces:  replaces,
	Isolation: promises,
	Place:     func(t *geo.Topology, _ protocol.Params) geo.Layout { return t.WholeEverywhere() },
	New:       func(c protocol.Config) protocol.Replica { return newReplica(c, none) },
	Decode:    decode,
	Law:       law,
}

// RoleLeader is the role of the server that decides on the membership, as the leader of a Raft group.
const RoleLeader = "leader"

// promises is Engine.Isolation. A snapshot is the state at the end of some epoch. Read-only transactions may see an
// older snapshot at one server than at another, so no real-time order is guaranteed.
func promises(p protocol.Params) isolation.Level {
	if p.Word("isolation") == readCommitted {
		return isolation.ReadCommitted
	}
	return isolation.SnapshotIsolation
}

// tolerates is Engine.Tolerates: any minority of the regions. Without acknowledgements, the other servers wait for a
// lost server's epochs permanently.
//
// An idle database elects a leader when its leader is lost. It detects other lost servers only when a transaction
// writes. The lost servers then leave one after the other, each after the required silence. A departure takes two calls
// of look, an inquiry, a request for epochs that the leader lacks, and the change. All servers wait in the meantime.
func tolerates(t *geo.Topology, p protocol.Params) protocol.Tolerance {
	if p.Word("acks") == acksNone {
		return protocol.Tolerance{}
	}
	s := protocol.AnyRegions(t, true)
	rtt := t.LongestRTT()
	lost := time.Duration(s.Most * t.Partitions * t.Replicas)
	s.Settles = 8*electionAfter(p, rtt) + 10*rtt
	s.Answers = protocol.InTime(rtt+p.Duration("epoch")) + lost*(silentAfter(p, rtt)+2*(rtt+fetchAfter)+3*rtt)
	return s
}

// replaces is Engine.Replaces: any node, if the other nodes are a majority. That majority determines which of the lost
// node's epochs count.
func replaces(t *geo.Topology, p protocol.Params) (all []geo.NodeID) {
	// With acks: None, the members never change. Of two servers, the remaining server is no majority.
	if p.Word("acks") == acksNone || t.Nodes() < 3 {
		return nil
	}
	for n := range geo.NodeID(t.Nodes()) {
		all = append(all, n)
	}
	return all
}

// Timer kinds.
const (
	epochTimer = iota + 1
	groupTimer
	watchTimer
	stateTimer
)

// Replica is one server.
type Replica struct {
	self      geo.NodeID
	nodes     int
	env       protocol.Env
	procs     *txn.Registry
	store     *store.Versioned
	placement geo.Placement
	longest   time.Duration // the longest round trip between two nodes
	wrong     mistake
	shrink    uint8 // protocol.Config.Shrink

	execution optimistic.Execution
	local     local
	epochs    epochs
	merge     merge
	members   members
	replace   replacement
}

func newReplica(c protocol.Config, m mistake) *Replica {
	t := c.Topology
	r := &Replica{
		self: c.Self, nodes: t.Nodes(), env: c.Env, procs: c.Procedures, store: c.Store.(*store.Versioned),
		placement: t.Placement(), longest: t.LongestRTT(), wrong: m, shrink: c.Shrink,
	}
	r.execution = optimistic.Execution{Committed: r.store}
	r.local.init(r, c.Params)
	r.epochs.init(r, c.Params)
	r.merge.init(r, c.Params)
	r.members.init(r, c.Params, c.Incarnation)
	r.replace.init(r, c.Incarnation)
	return r
}

// others calls f for all nodes except this node.
func (r *Replica) others(f func(geo.NodeID)) { protocol.Others(r.nodes, r.self, f) }

// Start implements protocol.Replica.
func (r *Replica) Start() { r.members.start() }

// Submit implements protocol.Replica.
func (r *Replica) Submit(t *txn.Transaction) {
	r.local.submit(t)
	r.settle()
}

// Receive implements protocol.Replica.
func (r *Replica) Receive(from geo.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *WriteSet:
		r.epochs.receive(from, m)
	case *End:
		r.epochs.end(from, m)
	case *Completion:
		r.epochs.completed(from, m.View, m.Epoch)
	case *Request:
		r.epochs.requested(from, m)
	case *Closed:
		r.epochs.put(m)
	case *Inquiry:
		r.members.inquired(from, m)
	case *Report:
		r.members.reported(from, m)
	case *Rejoin:
		r.members.rejoin(from, m)
	case *StateRequest:
		r.replace.requested(from, m)
	case *statetransfer.Piece:
		r.replace.receive(from, m)
	case *statetransfer.Ack:
		r.replace.sender.Receive(from, m)
	case *consensus.Message:
		r.members.group.Receive(from, m)
	}
	r.settle()
}

// Fire implements protocol.Replica.
func (r *Replica) Fire(t protocol.Timer) {
	switch t.Kind {
	case epochTimer:
		r.local.tick()
	case groupTimer:
		r.members.group.Fire(t)
	case watchTimer:
		r.members.look()
	case stateTimer:
		r.replace.sender.Fire()
	}
	r.settle()
}

// settle performs all work that the step has made possible.
func (r *Replica) settle() {
	r.replace.restore()
	// A server without state can neither execute, end nor merge epochs. It only requests the state (look).
	if r.replace.lacking {
		r.members.watch()
		return
	}
	// The order matters: released transactions keep the server awake, and walk completes the segments that advance
	// merges.
	r.local.release()
	r.local.wake()
	r.epochs.walk()
	r.merge.advance()
	r.members.watch()
}

// Roles implements protocol.RoleHolder.
func (r *Replica) Roles() []string {
	if r.members.leads() {
		return []string{RoleLeader}
	}
	return nil
}

// Pending implements protocol.Replica. It counts unanswered own transactions, epochs with write sets that are not
// merged here, and outstanding membership changes.
func (r *Replica) Pending() int {
	n := r.local.open.Len() + r.local.held.Len()
	if r.epochs.busy() {
		n++
	}
	if r.members.unsettled() {
		n++
	}
	return n
}

// Readings implements protocol.Replica.
func (r *Replica) Readings(dst []protocol.Reading) []protocol.Reading {
	count := func(name string, value int64) { dst = append(dst, protocol.Reading{Name: name, Value: value}) }
	count("transactions", r.local.transactions)
	count("snapshot_reads", r.local.snapshotReads)
	count("epochs_ended", r.local.epochs)
	count("epochs_merged", int64(r.merge.number))
	count("write_sets", r.merge.sets)
	count("committed", r.merge.committed)
	count("aborts_row_lost", r.merge.verdicts[lostRow])
	count("aborts_row_changed", r.merge.verdicts[changedRow])
	count("aborts_snapshot_too_old", r.merge.verdicts[tooOld])
	count("aborts_left_out", r.local.leftOut)
	count("rows_applied", r.merge.applied)
	count("epoch_requests", r.members.requests)
	count("epochs_passed_on", r.epochs.passedOn)
	count("servers_left", r.members.left)
	count("servers_joined", r.members.joined)
	count("leader_terms", r.members.terms)
	return dst
}

// forever is the last epoch of a member.
const forever = math.MaxUint64
