// Package slog implements SLOG (Ren, Li, Abadi: SLOG: Serializable, Low-latency, Geo-replicated Transactions, VLDB
// 2019). Every row has a home region. A single-home transaction commits in its home region, in the order of that
// region's local log, without waiting for other regions.
//
// Only multi-home transactions need a global order, which a log in the first region assigns. Each home then appends a
// lock-only part of the transaction to its local log, in the global order. A region executes a multi-home transaction
// when the parts of all homes hold their locks. All local logs contain the parts in the same order, so lock queues
// cannot deadlock.
//
// Package locallog provides local logs, forwarding and execution; this package adds the multi-home orderer.
package slog

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/locallog"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Engine is SLOG.
var Engine = &protocol.Engine{
	Name:    "slog",
	Paper:   "Ren, Li, Abadi, SLOG: Serializable, Low-latency, Geo-replicated Transactions, VLDB 2019",
	Doc:     "Orders each row's transactions in its home region, and multi-home transactions globally before that.",
	Figures: figures,
	Aborts:  deterministic.Aborts,
	Parameters: []protocol.Parameter{
		{
			Name: "batch", Default: "5ms", Min: 0, Max: time.Second,
			Doc: "How long a sequencer collects a batch for its region's local log, from its first transaction on.",
		},
		{
			Name: "forward", Default: "1ms", Min: 0, Max: time.Second,
			Doc: "How long a node collects transactions for another region before it forwards them.",
		},
		{
			Name: "multiHomeBatch", Default: "5ms", Min: 0, Max: time.Second,
			Doc: "How long a node collects multi-home transactions for the global order, from the first one on.",
		},
		{
			Name: "remaster", Default: "0", Integer: true, MinInt: 0, MaxInt: 1000,
			Doc: "How many transactions in a row from one other region move a row's home there; 0 for homes that don't move.",
		},
		{
			Name: "replication", Default: locallog.Full, OneOf: []string{locallog.Full, locallog.HomeOnly},
			Doc: "Whether every region keeps a copy of all rows, or each row is kept in its home region only.",
		},
		reconnaissance.Parameter,
		locallog.MastersParameter,
		locallog.HomeLogsParameter,
		batchlog.CopiesParameter,
	},
	Check:         locallog.Check,
	CheckTopology: locallog.CheckTopology,
	Place:         locallog.Place,
	Roles:         []string{locallog.RoleLeader, RoleOrderer},
	Tolerates: func(t *geo.Topology, p protocol.Params) protocol.Tolerance {
		return locallog.Tolerates(t, p, p.Duration("multiHomeBatch")+p.Duration("batch"))
	},
	Replaces: locallog.Replaces,
	New:      func(c protocol.Config) protocol.Replica { return newReplica(c, mistakes{}) },
	Decode:   protocol.Decode("slog", locallog.Decode),
	Law:      law,
}

// mistakes are the deliberate defects of faulty variants: see broken.go.
type mistakes struct{ mergeOnArrival, takesWhatIsHere, silentLeader bool }

// RoleOrderer is the role of the leader of the log that orders multi-home transactions.
const RoleOrderer = "orderer"

// Roles implements protocol.RoleHolder.
func (r *Replica) Roles() []string {
	roles := r.Node.Roles()
	if r.orderer.Order.Leading() {
		roles = append(roles, RoleOrderer)
	}
	return roles
}

// Replica is one node of the database.
type Replica struct {
	*locallog.Node
	// orderer is this node's handle on the log that orders multi-home transactions. Every node can append to it. The
	// first node of each region reads the transactions that have a home in the region. With replicated home logs all
	// nodes read it: see package locallog.
	orderer    *locallog.Log
	replicated bool
}

const ordererTimers = locallog.EngineTimers

func newReplica(c protocol.Config, wrong mistakes) *Replica {
	r := &Replica{}
	r.Node = locallog.New(locallog.Config{
		Config: c, Batch: c.Params.Duration("batch"), Forward: c.Params.Duration("forward"), LockOnly: true,
		MergeOnArrival: wrong.mergeOnArrival, TakesWhatIsHere: wrong.takesWhatIsHere, SilentLeader: wrong.silentLeader,
		Remaster:   c.Params.Int("remaster"),
		HomeOnly:   locallog.KeepsHomeOnly(c.Params),
		AskMasters: locallog.AsksMasters(c.Params),
		MultiHome:  r.multiHome,
		Rejoins:    len(locallog.Replaces(c.Topology, c.Params)) > 0,
		Again:      func(from geo.NodeID, m protocol.Message) { r.Node.Receive(from, m) },
		Orders:     []geo.Region{0}, OrderBatch: c.Params.Duration("multiHomeBatch"),
	})
	if r.replicated = locallog.Replicated(c.Params); r.replicated {
		// With replicated home logs, locallog creates the order itself, as the last log, because every replica of a home
		// log reads it.
		r.orderer = r.Logs[len(r.Logs)-1]
		return r
	}
	lc := locallog.LogConfig{
		Number: uint64(len(r.Logs)), Members: ordererMembers(c.Topology), Interval: c.Params.Duration("multiHomeBatch"),
		Timers: ordererTimers, Groups: r.involved, Group: int(r.Region),
	}
	for home := range c.Topology.Regions {
		lc.Readers = append(lc.Readers, []geo.NodeID{locallog.First(c.Topology, geo.Region(home))})
	}
	// Only one node per region inserts parts: a second copy of a part in the home's log would request its locks twice.
	if c.Self == locallog.First(c.Topology, r.Region) {
		lc.Read = r.addLockOnly
	}
	r.orderer = locallog.NewLog(c, lc)
	r.Logs = append(r.Logs, r.orderer)
	return r
}

// multiHome submits a multi-home transaction, or a remastering, to the orderer.
func (r *Replica) multiHome(e locallog.Entry) {
	switch {
	case e.Remaster:
		r.Env.Mark(remastering)
	case e.Attempt > 0:
		r.Env.Mark(multiHomeAgain)
	default:
		r.Env.Mark(multiHome)
	}
	if r.replicated {
		r.AddToOrder(0, e)
	} else {
		r.orderer.Add(e)
	}
}

// ordererMembers returns the members of the orderer's log, the first leader first. They are the first three nodes of
// the first region, or a single node if the region has fewer than three. Two members tolerate no more failures than
// one.
func ordererMembers(t *geo.Topology) []geo.NodeID {
	if t.Partitions*t.Replicas < 3 {
		return []geo.NodeID{0}
	}
	return []geo.NodeID{0, 1, 2}
}

// involved appends the homes of a multi-home transaction, or the old and the new home of a remastering. It may append a
// home more than once.
func (r *Replica) involved(e *locallog.Entry, homes []int) []int {
	// Both homes must put the move into their logs: after it, the old home no longer orders the row, and the new home
	// does.
	if e.Remaster {
		return append(homes, int(r.HomeOf(e, 0)), int(e.To))
	}
	for i := range e.Txn.Accesses {
		homes = append(homes, int(r.HomeOf(e, i)))
	}
	return homes
}

// addLockOnly appends the region's part of a multi-home transaction to its local log.
func (r *Replica) addLockOnly(e *locallog.Entry) {
	if r.Topology.RegionOf(e.Coordinator) != r.Region {
		r.Env.Mark(partOfElsewhere)
	}
	if len(r.Homes(e, nil)) > 2 {
		r.Env.Mark(threeHomes)
	}
	// The orderer's log alone determines the order of parts, so a part has no earliest time (0).
	r.AddPart(e.Txn, e.Coordinator, e.Placing, 0)
}

// Submit implements protocol.Replica.
func (r *Replica) Submit(t *txn.Transaction) {
	r.Node.Submit(t)
	r.Flush()
}

// Receive implements protocol.Replica.
func (r *Replica) Receive(from geo.NodeID, m protocol.Message) {
	r.Node.Receive(from, m)
	r.Flush()
}

// Fire implements protocol.Replica.
func (r *Replica) Fire(t protocol.Timer) {
	// With replicated home logs the order belongs to locallog, which also handles its timers.
	if t.Kind >= ordererTimers && !r.replicated {
		r.Env.Mark(ordererBatch)
		r.orderer.Fire(t)
	} else {
		r.Node.Fire(t)
	}
	r.Flush()
}

// Replaced implements protocol.Rejoiner.
func (r *Replica) Replaced(n geo.NodeID, incarnation uint32) {
	r.Node.Replaced(n, incarnation)
	r.Flush()
}

// Readings implements protocol.Replica.
func (r *Replica) Readings(dst []protocol.Reading) []protocol.Reading {
	return append(r.Node.Readings(dst),
		protocol.Reading{Name: "orderer_position", Value: int64(r.orderer.Order.Position())},
		protocol.Reading{Name: "orderer_term", Value: int64(r.orderer.Order.Term())},
	)
}

// law is Engine.Law. Every transaction takes the client's round trip to its node. A single-home transaction is
// forwarded if its home is another region, waits for a batch of the home's local log, and returns in that log.
//
// A multi-home transaction waits for the orderer's batch and receives its position in the first region. The orderer
// sends the position to the transaction's homes, and each home puts its part into a batch of its local log. The slowest
// of these logs determines the latency. With replicated home logs, the home logs take the transaction from the
// orderer's log. This takes no further batch, but each home log needs the agreement of a majority.
func law(t *geo.Topology, p protocol.Params, c geo.Region, homes []geo.Region) time.Duration {
	d := t.RTT(c, c)
	if len(homes) <= 1 {
		return d + locallog.SingleHomeLaw(t, p, c, homes)
	}
	if locallog.Replicated(p) {
		return d + p.Duration("multiHomeBatch") + locallog.PlaceLaw(t, p, c, 0) + locallog.TakenLaw(t, p, 0, c, homes)
	}
	members := ordererMembers(t)
	o := t.RegionOf(members[0])
	// The data goes directly to the homes, and the request for a position goes to the orderer.
	toOrderer := locallog.ToFirst(t, c, o)
	if len(members) > 1 {
		toOrderer += t.RTT(o, o) // to a majority
	}
	inserted := func(r geo.Region) time.Duration {
		var fromOrderer time.Duration
		if r != o {
			fromOrderer = t.Links[o][r].Delay
		}
		// A home needs both the position and the data, which travel separately; the later arrival counts.
		return max(toOrderer+fromOrderer, locallog.ToFirst(t, c, r))
	}
	slowest := locallog.ReturnLaw(t, locallog.KeepsHomeOnly(p), c, homes, inserted)
	return d + p.Duration("multiHomeBatch") + slowest + p.Duration("batch")
}
