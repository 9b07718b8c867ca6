// Package janus is a database that orders and commits a transaction in one wide-area round trip: Janus (Mu et al., OSDI
// 2016). The coordinator asks every replica of every partition that a transaction accesses for the transaction's
// dependencies: earlier transactions that conflict with it. If the answers are equal, they fix the order, and the
// transaction commits (fast path). Otherwise the coordinator first writes the union of the answers to a majority of
// each partition. The committed dependencies form a graph, which is the same at all replicas. Each replica executes the
// graph in topological order, and the members of a strongly connected component in name order. No transaction aborts.
//
// A copy is one full set of partitions. Each region has as many copies as it has replicas of a partition. The replicas
// of a partition are the nodes that hold it, one in every copy.
//
// Every node coordinates the transactions of its clients (coordinator.go), and tracks conflicts on the keys of its
// partition (conflicts.go). It maintains its part of the graph (graph.go), and passes transactions that are ready to
// the executor (package deterministic). It decides the instances of failed coordinators (recovery.go), and sends
// decisions to replicas that may lack them (antientropy.go). It discards instances that all replicas have ordered
// (garbage.go), and integrates new incarnations of lost nodes (rejoin.go).
package janus

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Engine is Janus.
var Engine = &protocol.Engine{
	Name:  "janus",
	Paper: "Mu et al., Consolidating Concurrency Control and Consensus for Commits under Conflicts, OSDI 2016",
	Doc: "Agrees on each transaction's dependencies in one round trip to all replicas of its partitions, two when they " +
		"differ, and executes the dependency graph in a full copy per region.",
	Figures: figures,
	Aborts:  deterministic.Aborts,
	Parameters: []protocol.Parameter{
		{
			Name: "patience", Default: "500ms", Min: 10 * time.Millisecond, Max: time.Minute,
			Doc: "How long beyond the longest round trip a coordinator waits for all replicas before it goes on with a " +
				"majority.",
		},
		{
			Name: "recovery", Default: "2s", Min: 100 * time.Millisecond, Max: 10 * time.Minute,
			Doc: "How long a coordinator may be silent before the replicas finish its transactions.",
		},
		reconnaissance.Parameter,
	},
	Roles:     []string{RoleCoordinator},
	Tolerates: tolerates,
	Replaces:  replaces,
	New:       func(c protocol.Config) protocol.Replica { return newReplica(c) },
	Decode:    decode,
	Law:       law,
}

// tolerates is Engine.Tolerates: any minority of the regions may fail. The remaining nodes decide the instances of lost
// nodes, and start to do so one after another, in rank order. After that, each transaction waits for the lost nodes at
// most once, and for earlier transactions that wait for them.
func tolerates(t *geo.Topology, p protocol.Params) protocol.Tolerance {
	s := protocol.AnyRegions(t, true)
	rtt := t.LongestRTT()
	patience := p.Duration("patience") + rtt + tickEvery
	s.Settles = 2*(p.Duration("recovery")+stagger(len(t.Regions)*t.Replicas, rtt)+patience) + 10*rtt
	s.Answers = protocol.InTime(rtt) + 4*patience
	return s
}

// Timer kinds. tickTimer drives patience, recovery, garbage collection and all other timeouts, except the timeouts of
// reconnaissance and state transfer.
const (
	tickTimer = iota + 1
	reconTimer
	transferTimer
)

// tickEvery is the interval of tickTimer, and therefore the resolution of the timeouts that tickTimer drives.
const tickEvery = 100 * time.Millisecond

// RoleCoordinator is the role of every node: each node coordinates the transactions of its clients.
const RoleCoordinator = "coordinator"

// Roles implements protocol.RoleHolder.
func (r *Replica) Roles() []string { return []string{RoleCoordinator} }

// Replica is one node of the database.
type Replica struct {
	self        geo.NodeID
	incarnation uint32
	topology    *geo.Topology
	procedures  *txn.Registry
	store       *store.Hash
	env         protocol.Env
	nodes       int

	partition  int
	partitions int
	placement  geo.Placement
	// group[q] lists the replicas of partition q in copy order; majority is the size of a majority of a group (n/2 + 1).
	group    [][]geo.NodeID
	majority int
	// copy[q] is the node that holds partition q in this node's copy.
	copy []geo.NodeID

	// records are the instances that this node knows and has not discarded.
	records map[Instance]*record
	rows    []row // by coordinator
	next    uint64

	conflicts   conflicts
	coordinator coordinator
	recovery    recovery
	graph       graph
	executor    *deterministic.Executor
	recon       *reconnaissance.Reconnaissance
	garbage     garbage
	antiEntropy antiEntropy
	rejoin      rejoin

	ticking  bool
	touched  []int // result of partitionsOf; reused
	counters counters
}

type counters struct {
	transactions, fast, slow, inquiries, recoveries, noops, restarts int64
	components, largest, dependencies                                int64
}

func newReplica(c protocol.Config) *Replica {
	t := c.Topology
	r := &Replica{
		self:        c.Self,
		incarnation: c.Incarnation,
		topology:    t,
		procedures:  c.Procedures,
		store:       c.Store.(*store.Hash),
		env:         c.Env,
		nodes:       t.Nodes(),
		partition:   t.PartitionOf(c.Self),
		partitions:  t.Partitions,
		placement:   t.Placement(),
		group:       make([][]geo.NodeID, t.Partitions),
		majority:    len(t.Regions)*t.Replicas/2 + 1,
		copy:        make([]geo.NodeID, t.Partitions),
		records:     map[Instance]*record{},
		rows:        make([]row, t.Nodes()),
		next:        protocol.NumbersBefore(c.Incarnation) + 1,
	}
	for q := range t.Partitions {
		r.copy[q] = t.Node(t.RegionOf(c.Self), q, t.ReplicaOf(c.Self))
		for region := range t.Regions {
			for k := range t.Replicas {
				r.group[q] = append(r.group[q], t.Node(geo.Region(region), q, k))
			}
		}
	}
	var longest time.Duration
	for a := range t.Regions {
		for b := range t.Regions {
			longest = max(longest, t.RTT(geo.Region(a), geo.Region(b)))
		}
	}
	r.conflicts.keys = map[txn.Key]*history{}
	r.rejoin.init(r)
	r.coordinator.init(r, c.Params.Duration("patience")+longest)
	r.recovery.init(r, c.Params.Duration("recovery"), longest)
	r.graph.r = r
	r.executor = deterministic.New(deterministic.Config{
		Self: c.Self, Layout: t.Full(), Procedures: c.Procedures, Store: r.store, Env: c.Env, Answer: r.coordinator.answer,
		Keeper: r,
	})
	r.recon = reconnaissance.New(reconnaissance.Config{Config: c, Layout: t.Full(), Order: r.coordinator.preAccept, Answer: r.coordinator.reply, Timer: reconTimer})
	r.garbage.init(r)
	r.antiEntropy.init(r, r.recovery.timeout, longest)
	return r
}

// Start implements protocol.Replica.
func (r *Replica) Start() {
	now := r.env.Now()
	for n := range r.recovery.heard {
		r.recovery.heard[n] = now
	}
}

// Submit implements protocol.Replica.
func (r *Replica) Submit(t *txn.Transaction) {
	if !r.rejoin.joined {
		// A new incarnation cannot number an instance before it knows the state of its partition. rejoin.join submits the
		// transaction later.
		r.rejoin.submitted = append(r.rejoin.submitted, t)
		return
	}
	r.counters.transactions++
	r.coordinator.open[t.ID] = struct{}{}
	if t.Exact {
		r.coordinator.preAccept(t)
	} else {
		r.recon.Begin(t)
	}
	r.finishStep()
}

// Receive implements protocol.Replica.
func (r *Replica) Receive(from geo.NodeID, m protocol.Message) {
	r.recovery.hear(from)
	// A Rejoin message does not end the suspicion of its sender, because a new incarnation cannot vote before it has
	// joined.
	if r.rejoin.receive(from, m) {
		r.finishStep()
		return
	}
	// The node is available again, so coordinators wait for its answers again.
	r.recovery.suspect[from] = false
	r.handle(from, m)
	r.finishStep()
}

// handle processes a message of another node, once this node has joined.
func (r *Replica) handle(from geo.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *PreAccept:
		r.receivePreAccept(from, m)
	case *PreAcceptOK:
		r.coordinator.preAccepted(from, m)
	case *Accept:
		r.receiveAccept(from, m)
	case *AcceptOK:
		r.coordinator.accepted(from, m)
	case *Commit:
		r.receiveCommit(m)
	case *Prepare:
		r.recovery.prepare(from, m)
	case *Promise:
		r.recovery.promised(from, m)
	case *Inquire:
		r.graph.inquired(from, m)
	case *Ancestors:
		r.graph.ancestors(from, m)
	case *deterministic.Reads:
		r.executor.Reads(from, m)
	case *deterministic.Answers:
		for _, o := range m.Outcomes {
			r.coordinator.answer(o)
		}
	case *Progress:
		r.garbage.progress(from, m)
	case *RowQuery:
		r.antiEntropy.queried(from, m)
	case *RowReport:
		r.antiEntropy.reported(from, m)
	default:
		r.recon.Receive(from, m)
	}
}

// Fire implements protocol.Replica.
func (r *Replica) Fire(t protocol.Timer) {
	switch t.Kind {
	case reconTimer:
		r.recon.Fire()
		r.finishStep()
		return
	case transferTimer:
		r.rejoin.sender.Fire()
		return
	}
	r.ticking = false
	r.rejoin.tick()
	// The protocol's timeouts do not apply until this node has joined.
	if !r.rejoin.joined {
		r.tickLater()
		return
	}
	r.coordinator.tick()
	r.recovery.tick()
	r.graph.run()
	news := r.garbage.tick()
	r.antiEntropy.tick()
	r.executor.Flush()
	r.graph.flush()
	// A node without records or news needs no timer; the next message or transaction sets it again.
	if news || len(r.records) > 0 || r.rejoin.busy() > 0 {
		r.tickLater()
	}
}

// finishStep passes instances that have become ready in this step to the executor, and sends the messages collected in
// this step.
func (r *Replica) finishStep() {
	r.graph.run()
	r.executor.Flush()
	r.graph.flush()
	r.recon.Flush()
	r.tickLater()
}

func (r *Replica) tickLater() {
	if !r.ticking {
		r.ticking = true
		r.env.After(tickEvery, protocol.Timer{Kind: tickTimer})
	}
}

// Pending implements protocol.Replica. It counts this node's unanswered transactions, and known instances without a
// position in the execution order. It counts other nodes' transactions that are not executed here yet, and open tasks
// for new incarnations. It also counts rows with decisions that other replicas may lack.
func (r *Replica) Pending() int {
	return len(r.coordinator.open) + r.rejoin.busy() + r.graph.open + r.executor.Foreign() + r.antiEntropy.unsettled
}

// Readings implements protocol.Replica.
func (r *Replica) Readings(dst []protocol.Reading) []protocol.Reading {
	c := &r.counters
	dst = append(dst,
		protocol.Reading{Name: "transactions", Value: c.transactions},
		protocol.Reading{Name: "fast_path", Value: c.fast},
		protocol.Reading{Name: "slow_path", Value: c.slow},
		protocol.Reading{Name: "dependencies", Value: c.dependencies},
		protocol.Reading{Name: "inquiries", Value: c.inquiries},
		protocol.Reading{Name: "recoveries", Value: c.recoveries},
		protocol.Reading{Name: "noops", Value: c.noops},
		protocol.Reading{Name: "restarts", Value: c.restarts},
		protocol.Reading{Name: "scc_count", Value: c.components},
		protocol.Reading{Name: "scc_max", Value: c.largest},
		protocol.Reading{Name: "records", Value: int64(len(r.records))},
		protocol.Reading{Name: "keys", Value: int64(len(r.conflicts.keys))},
	)
	return r.recon.Readings(r.executor.Readings(dst))
}

// touches reports whether t accesses partition q.
func (r *Replica) touches(t *txn.Transaction, q int) bool {
	if r.partitions == 1 {
		return true
	}
	for i := range t.Accesses {
		if r.placement.Partition(t.Accesses[i].Key) == q {
			return true
		}
	}
	return false
}

// partitionsOf returns the partitions that t accesses, in the order of t's accesses. The slice is valid until the next
// call of partitionsOf.
func (r *Replica) partitionsOf(t *txn.Transaction) []int {
	r.touched = r.touched[:0]
next:
	for i := range t.Accesses {
		p := r.placement.Partition(t.Accesses[i].Key)
		for _, q := range r.touched {
			if q == p {
				continue next
			}
		}
		r.touched = append(r.touched, p)
	}
	return r.touched
}

// law is Engine.Law. The result is the same for all transactions: the client's round trip to its node, and a round trip
// to the farthest region.
func law(t *geo.Topology, _ protocol.Params, c geo.Region, _ []geo.Region) time.Duration {
	var farthest time.Duration
	for r := range t.Regions {
		// With one replica per region, the coordinator waits for no other node of the client's region.
		if geo.Region(r) != c || t.Replicas > 1 {
			farthest = max(farthest, t.RTT(c, geo.Region(r)))
		}
	}
	return t.RTT(c, c) + farthest
}
