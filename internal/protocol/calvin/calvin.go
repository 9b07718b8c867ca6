// Package calvin is a deterministic database: Calvin (Thomson et al., SIGMOD 2012). All copies agree on the order of the
// transactions before they execute them, and each copy then executes all of them in that order, so that copies stay equal
// without talking to each other, and partitions commit together without a vote.
//
// A copy is one full set of partitions: a region has as many as a partition has replicas. Every node has three roles,
// each in a file of its own. As a sequencer (sequencer.go) it collects the transactions of its clients into batches,
// and sends their data to every copy. The batches are put in order either by a replicated log (orderlog.go) or, as in
// the paper, by epochs (epochs.go). As a scheduler (scheduler.go) it takes the batches in that order, requests the locks
// of each transaction (locks.go), and executes it (execution.go) once it has them and the reads of its other partitions.
package calvin

import (
	"time"

	"github.com/geobench/geobench/internal/consensus"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/txn"
)

// Values of the parameter ordering.
const (
	orderingLeader    = "leader"
	orderingConsensus = "consensus"
	orderingEpochs    = "epochs"
)

// Engine is Calvin.
var Engine = &protocol.Engine{
	Name:  "calvin",
	Paper: "Thomson et al., Calvin: Fast Distributed Transactions for Partitioned Database Systems, SIGMOD 2012",
	Doc:   "Orders all transactions in one global log, then executes them deterministically in a full copy per region.",
	Parameters: []protocol.Parameter{
		{
			Name: "ordering", Default: orderingLeader, OneOf: []string{orderingLeader, orderingConsensus, orderingEpochs},
			Doc: "How batches get their order: by a log led and kept in the first region, by a log with a member in every " +
				"region, or by epochs that every node closes by its clock.",
		},
		{
			Name: "batch", Default: "5ms", Min: 0, Max: time.Second,
			Doc: "How long a sequencer collects a batch, from its first transaction on; the length of an epoch with " +
				"ordering epochs, at least 1ms there.",
		},
	},
	New:    func(c protocol.Config) protocol.Replica { return newReplica(c) },
	Decode: decode,
	Law:    law,
}

// Timer kinds.
const (
	batchTimer = iota + 1
	orderTimer
	epochTimer
	groupTimer
)

// Replica is one node: a sequencer, a scheduler and, on some nodes, a member of the log.
type Replica struct {
	self     geo.NodeID
	topology *geo.Topology
	env      protocol.Env
	procs    *txn.Registry
	store    *store.Store
	nodes    int

	partition  int
	partitions int
	placement  geo.Placement
	// holders[q] are the other nodes that hold partition q, in every copy.
	holders [][]geo.NodeID
	// copy[q] is the node that holds partition q in this node's own copy.
	copy []geo.NodeID

	sequencer sequencer
	order     *orderLog // on members of the log, else nil
	epochs    *epochs   // with ordering epochs, else nil
	scheduler scheduler
}

func newReplica(c protocol.Config) *Replica {
	t := c.Topology
	r := &Replica{
		self:       c.Self,
		topology:   t,
		env:        c.Env,
		procs:      c.Procedures,
		store:      c.Store,
		nodes:      t.Nodes(),
		partition:  t.PartitionOf(c.Self),
		partitions: t.Partitions,
		placement:  t.Placement(),
		holders:    make([][]geo.NodeID, t.Partitions),
		copy:       make([]geo.NodeID, t.Partitions),
	}
	for q := range t.Partitions {
		r.copy[q] = t.Node(t.RegionOf(c.Self), q, t.ReplicaOf(c.Self))
		for region := range t.Regions {
			for k := range t.Replicas {
				if n := t.Node(geo.Region(region), q, k); n != c.Self {
					r.holders[q] = append(r.holders[q], n)
				}
			}
		}
	}
	interval := c.Params.Duration("batch")
	r.sequencer.init(r, interval)
	r.scheduler.init(r)
	ordering := c.Params.Word("ordering")
	if ordering == orderingEpochs {
		r.epochs = newEpochs(r, interval)
		return r
	}
	members := logMembers(t, ordering)
	r.sequencer.leader = members[0]
	if len(members) == 1 {
		r.sequencer.term = 1 // the only one that there will ever be
	}
	for _, m := range members {
		if m == c.Self {
			r.order = newOrderLog(r, members)
		}
	}
	return r
}

// logMembers returns the nodes that keep the log, the first leader first. With ordering leader they are nodes of the
// first region, three if it has as many, else one: two would survive no more failures than one. With ordering
// consensus there is one in every region.
func logMembers(t *geo.Topology, ordering string) []geo.NodeID {
	if ordering == orderingConsensus {
		var members []geo.NodeID
		for region := range t.Regions {
			members = append(members, t.Node(geo.Region(region), 0, 0))
		}
		return members
	}
	if t.Partitions*t.Replicas < 3 {
		return []geo.NodeID{0}
	}
	return []geo.NodeID{0, 1, 2}
}

// Start implements protocol.Replica.
func (r *Replica) Start() {
	if r.order != nil {
		r.order.start()
	}
	if r.epochs != nil {
		r.epochs.start()
	}
	r.scheduler.flush()
}

// Submit implements protocol.Replica.
func (r *Replica) Submit(t *txn.Transaction) {
	r.sequencer.submit(t)
	r.scheduler.flush()
}

// Receive implements protocol.Replica.
func (r *Replica) Receive(from geo.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *SubBatch:
		if r.epochs != nil {
			r.epochs.receive(from, m)
		} else {
			r.scheduler.arrive(from, m)
			r.scheduler.advance()
		}
	case *OrderRequest:
		if r.order != nil {
			r.order.request(from, m.Requests)
		}
	case *Positions:
		r.sequencer.follow(from, m.Term)
		r.scheduler.ordered(from, m.Term, m.First, m.Entries)
	case *Fetch:
		if r.order != nil {
			r.order.fetch(from, m.First)
		}
	case *Reads:
		r.scheduler.reads(from, m)
	case *Answers:
		for _, o := range m.Outcomes {
			r.sequencer.answer(o)
		}
	case *consensus.Message:
		if r.order != nil {
			r.order.group.Receive(from, m)
		}
	}
	r.scheduler.flush()
}

// Fire implements protocol.Replica.
func (r *Replica) Fire(t protocol.Timer) {
	switch t.Kind {
	case batchTimer:
		r.sequencer.expire(t.Arg)
	case orderTimer:
		r.order.flush()
	case epochTimer:
		r.epochs.tick()
	case groupTimer:
		r.order.group.Fire(t)
	}
	r.scheduler.flush()
}

// Pending implements protocol.Replica: the transactions of own clients without an answer, and those of others that
// have arrived and are not executed.
func (r *Replica) Pending() int { return r.sequencer.unanswered + r.scheduler.foreign }

// Counters implements protocol.Replica.
func (r *Replica) Counters(dst []protocol.Counter) []protocol.Counter {
	q, s := &r.sequencer, &r.scheduler
	return append(dst,
		protocol.Counter{Name: "batches", Value: q.batches},
		protocol.Counter{Name: "transactions", Value: q.transactions},
		protocol.Counter{Name: "executed", Value: s.executed},
		protocol.Counter{Name: "multi_partition", Value: s.multiPartition},
		protocol.Counter{Name: "aborts", Value: s.aborts},
		protocol.Counter{Name: "lock_waits", Value: s.lockWaits},
		protocol.Counter{Name: "remote_reads", Value: s.remoteReads},
		protocol.Counter{Name: "log_position", Value: int64(s.position)},
		protocol.Counter{Name: "log_term", Value: int64(q.term)},
		protocol.Counter{Name: "log_fetches", Value: s.fetches},
		protocol.Counter{Name: "epoch_jumps", Value: r.epochJumps()},
	)
}

func (r *Replica) epochJumps() int64 {
	if r.epochs == nil {
		return 0
	}
	return r.epochs.jumps
}
