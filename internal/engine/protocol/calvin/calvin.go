// Package calvin implements Calvin (Thomson et al., SIGMOD 2012), a deterministic database. All copies agree on the
// order of the transactions before they execute them. Each copy then executes all transactions in that order. Copies
// therefore stay equal without communication, and partitions commit together without a vote.
//
// A copy is one full set of partitions: a region has one copy per replica of a partition. Every node is a sequencer and
// a scheduler, and some nodes are members of the log. As a sequencer (sequencer.go), a node collects its clients'
// transactions into batches and sends their data to every copy. The batches are ordered either by a replicated log
// (package batchlog) or, as in the paper, by epochs (epochs.go). As a scheduler (scheduler.go), a node takes the
// batches in that order. It executes a transaction once the transaction holds its locks and the reads of its other
// partitions have arrived (package deterministic).
package calvin

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Values of the parameter ordering.
const (
	orderingLeader    = "leader"
	orderingConsensus = "consensus"
	orderingEpochs    = "epochs"
)

// Engine is Calvin.
var Engine = &protocol.Engine{
	Name:    "calvin",
	Paper:   "Thomson et al., Calvin: Fast Distributed Transactions for Partitioned Database Systems, SIGMOD 2012",
	Doc:     "Orders all transactions in one global log, then executes them deterministically in a full copy per region.",
	Figures: figures,
	Aborts:  deterministic.Aborts,
	Parameters: []protocol.Parameter{
		{
			Name: "ordering", Default: orderingLeader, OneOf: []string{orderingLeader, orderingConsensus, orderingEpochs},
			Doc: "How batches get their order: by a log led and kept in the first region, by a log with a member in every " +
				"region, or by epochs that every node closes by its clock.",
		},
		{
			Name: "batch", Default: "5ms", Min: 0, Max: time.Second,
			Doc: "How long a sequencer collects a batch, from its first transaction on; the length of an epoch with " +
				"ordering epochs, where it must be at least 1ms.",
		},
		reconnaissance.Parameter,
		batchlog.CopiesParameter,
	},
	Check:         check,
	CheckTopology: batchlog.CheckCopies,
	Roles:         []string{RoleLeader},
	Tolerates:     tolerates,
	Replaces:      replaces,
	New:           func(c protocol.Config) protocol.Replica { return newReplica(c, false) },
	Decode:        decode,
	Law:           law,
}

// tolerates is Engine.Tolerates. With ordering leader, the database tolerates the loss of any regions except the first,
// which keeps the log. With ordering consensus, it tolerates the loss of any one of three or more regions. With
// ordering epochs it tolerates none, because every sequencer waits for all others. A batch that has a log position but
// whose data is lost blocks the schedulers that need it.
func tolerates(t *geo.Topology, p protocol.Params) (s protocol.Tolerance) {
	switch p.Word("ordering") {
	case orderingLeader:
		for r := 1; r < len(t.Regions); r++ {
			s.Regions = append(s.Regions, geo.Region(r))
		}
		s.Most = len(s.Regions)
	case orderingConsensus:
		s = protocol.AnyRegions(t, false)
	}
	s = batchlog.Bear(s, t, batchlog.Copies(p))
	// A member whose campaign fails doubles its wait before the next campaign, and an orphaned batch is abandoned at the
	// second check.
	rtt := t.LongestRTT()
	s.Settles = 4*consensus.DefaultElection + batchlog.Settles(t, p) + 10*rtt
	s.Answers = protocol.InTime(rtt + p.Duration("batch")) // a transaction takes two such steps: to the log's leader, and from there to a majority
	return s
}

// RoleLeader is the role of the log's leader. With ordering epochs no node has this role.
const RoleLeader = "leader"

// Roles implements protocol.RoleHolder.
func (r *Replica) Roles() []string {
	if r.log != nil && r.log.Leading() {
		return []string{RoleLeader}
	}
	return nil
}

// check is Engine.Check. With ordering epochs, it refuses epochs shorter than a millisecond, which would keep idle
// nodes busy. It also refuses batch copies, because batches have no log position that could wait for copies.
func check(p protocol.Params) (errs []*protocol.ParamError) {
	if p.Word("ordering") != orderingEpochs {
		return nil
	}
	if p.Duration("batch") < shortestEpoch {
		errs = append(errs, &protocol.ParamError{Name: "batch", Message: fmt.Sprintf("%q is too short for ordering epochs, where every node closes an epoch that often: "+
			"make it at least %v, or choose ordering leader or consensus", p["batch"], shortestEpoch)})
	}
	if batchlog.Copies(p) > 1 {
		errs = append(errs, &protocol.ParamError{Name: batchlog.CopiesParameter.Name, Message: fmt.Sprintf("%q is for batches that get a place in a log, and with "+
			"ordering epochs there is none: make it 1, or choose ordering leader or consensus", p[batchlog.CopiesParameter.Name])})
	}
	return errs
}

// Timer kinds.
const (
	batchTimer = iota + 1
	orderTimer
	epochTimer
	groupTimer
	watchTimer
	reconTimer
	proofTimer
	fetchTimer
	joinTimer
	pieceTimer
	againTimer
)

// Replica is one node: a sequencer, a scheduler and, on some nodes, a member of the log.
type Replica struct {
	self     geo.NodeID
	topology *geo.Topology
	env      protocol.Env
	nodes    int

	partition  int
	partitions int
	placement  geo.Placement
	// holders[q] are the other nodes that hold partition q, in all copies.
	holders [][]geo.NodeID

	sequencer sequencer
	log       *batchlog.Log // nil with ordering epochs
	epochs    *epochs       // with ordering epochs, else nil
	scheduler scheduler
	executor  *deterministic.Executor
	recon     *reconnaissance.Reconnaissance
	// resets rebuild nodes that have lost their state; nil with ordering epochs.
	resets *deterministic.Resets
}

func newReplica(c protocol.Config, unfetched bool) *Replica {
	t := c.Topology
	r := &Replica{
		self:       c.Self,
		topology:   t,
		env:        c.Env,
		nodes:      t.Nodes(),
		partition:  t.PartitionOf(c.Self),
		partitions: t.Partitions,
		placement:  t.Placement(),
		holders:    make([][]geo.NodeID, t.Partitions),
	}
	for q := range t.Partitions {
		for region := range t.Regions {
			for k := range t.Replicas {
				if n := t.Node(geo.Region(region), q, k); n != c.Self {
					r.holders[q] = append(r.holders[q], n)
				}
			}
		}
	}
	interval := c.Params.Duration("batch")
	r.sequencer.init(r, interval, c.Incarnation)
	r.scheduler.r = r
	r.executor = deterministic.New(deterministic.Config{
		Self: c.Self, Layout: t.Full(), Procedures: c.Procedures, Store: c.Store.(*store.Hash), Env: c.Env, Answer: r.sequencer.answer,
	})
	r.recon = reconnaissance.New(reconnaissance.Config{Config: c, Layout: t.Full(), Order: r.sequencer.order, Answer: r.sequencer.reply, Timer: reconTimer})
	ordering := c.Params.Word("ordering")
	if ordering == orderingEpochs {
		r.epochs = newEpochs(r, interval)
		return r
	}
	// Nodes can be replaced only if batches have a second copy (see replaces). Only then can a reset lose outcomes.
	r.sequencer.remember = batchlog.Copies(c.Params) > 1
	readers := make([][]geo.NodeID, r.partitions)
	for n := range geo.NodeID(r.nodes) {
		q := t.PartitionOf(n)
		readers[q] = append(readers[q], n)
	}
	everybody := make([]geo.NodeID, r.nodes)
	for n := range everybody {
		everybody[n] = geo.NodeID(n)
	}
	r.log = batchlog.New(batchlog.Config{
		Self: c.Self, Nodes: r.nodes, Members: logMembers(t, ordering), Audience: everybody, Env: c.Env,
		OrderTimer: orderTimer, GroupTimer: groupTimer, Settled: r.sequencer.settled,
		// The closure is needed because the reader is created after the log.
		Advance: func() { r.scheduler.reader.Advance() },
		Copies:  batchlog.Copies(c.Params), Readers: readers, Region: t.RegionOf, ProofTimer: proofTimer,
		Kept:        func(position uint64) { r.scheduler.reader.Kept(position) },
		Incarnation: c.Incarnation, JoinTimer: joinTimer,
	})
	r.scheduler.reader = batchlog.NewReader(batchlog.ReaderConfig[*SubBatch]{
		Log: r.log, Group: r.partition, Read: r.scheduler.read, Foreign: r.foreign, Watch: true, WatchTimer: watchTimer, FetchTimer: fetchTimer, Unfetched: unfetched,
		Copy: func(to, sequencer geo.NodeID, m *SubBatch) { r.env.Send(to, &Copy{sequencer, m}) },
		Mark: r.mark,
	})
	r.resets = newResets(r, c)
	return r
}

// logMembers returns the members of the log, the first leader first. With ordering leader they are the first three
// nodes of the first region, or a single node if the region has fewer than three. Two members tolerate no more failures
// than one. With ordering consensus, every region has one member.
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
	if r.epochs != nil {
		r.epochs.start()
	} else {
		r.log.Start()
	}
	r.flush()
}

// flush sends the messages that were collected during the step.
func (r *Replica) flush() {
	if r.resets != nil {
		// The reset may have completed in this step. Transactions that waited for it are then sent in this step, too.
		r.resets.Flush()
		r.enter()
	}
	r.executor.Flush()
	r.recon.Flush()
}

// Submit implements protocol.Replica.
func (r *Replica) Submit(t *txn.Transaction) {
	r.sequencer.submit(t)
	r.flush()
}

// Receive implements protocol.Replica.
func (r *Replica) Receive(from geo.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *SubBatch:
		if r.epochs != nil {
			r.epochs.receive(from, m)
		} else {
			r.scheduler.reader.Receive(from, m)
		}
	case *Copy:
		// The log is nil with ordering epochs, where no node fetches data; such a message is ignored.
		if r.log != nil {
			r.scheduler.reader.Fetched(m.Sequencer, m.SubBatch)
		}
	case *batchlog.Missing:
		if r.log != nil {
			r.scheduler.reader.Missing(from, m)
		}
	case *deterministic.Reads:
		r.executor.Reads(from, m)
	case *deterministic.Answers:
		for _, o := range m.Outcomes {
			r.sequencer.answer(o)
		}
	default:
		if !r.recon.Receive(from, m) && r.log != nil && !r.resets.Receive(from, m) {
			r.log.Receive(from, m)
		}
	}
	r.flush()
}

// Fire implements protocol.Replica.
func (r *Replica) Fire(t protocol.Timer) {
	switch t.Kind {
	case batchTimer:
		r.sequencer.expire(t.Arg)
	case epochTimer:
		r.epochs.tick()
	case watchTimer, fetchTimer:
		r.scheduler.reader.Fire(t)
	case reconTimer:
		r.recon.Fire()
	case pieceTimer, againTimer:
		r.resets.Fire(t)
	default:
		r.log.Fire(t)
	}
	r.flush()
}

// Pending implements protocol.Replica. It counts unanswered transactions of the node's own clients, and received
// transactions of other nodes that have not been executed.
func (r *Replica) Pending() int {
	// Finished also counts only transactions of other sequencers, so the difference is the number of transactions that are
	// still executing.
	waiting := r.sequencer.unanswered + int(r.scheduler.foreign-r.executor.Finished)
	if r.epochs != nil {
		return waiting + r.epochs.queued
	}
	return waiting + r.scheduler.reader.Pending() + r.resets.Pending()
}

// Readings implements protocol.Replica.
func (r *Replica) Readings(dst []protocol.Reading) []protocol.Reading {
	position := r.scheduler.position
	var term, fetches, jumps, voided int64
	if r.epochs != nil {
		jumps = r.epochs.jumps
	} else {
		position, term, fetches, voided = r.log.Position(), int64(r.log.Term()), r.log.Fetches(), r.scheduler.reader.Voided()
	}
	dst = append(dst,
		protocol.Reading{Name: "batches", Value: r.sequencer.batches},
		protocol.Reading{Name: "transactions", Value: r.sequencer.transactions},
	)
	return append(r.recon.Readings(r.executor.Readings(dst)),
		protocol.Reading{Name: "log_position", Value: int64(position)},
		protocol.Reading{Name: "log_term", Value: term},
		protocol.Reading{Name: "log_fetches", Value: fetches},
		protocol.Reading{Name: "epoch_jumps", Value: jumps},
		protocol.Reading{Name: "void_batches", Value: voided},
	)
}
