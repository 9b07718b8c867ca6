// Package oceanvista implements Ocean Vista (Fan and Golab, Ocean Vista: Gossip-Based Visibility Control for Speedy
// Geo-Distributed Transactions, PVLDB 12(11), 2019). It is a multi-leader database in which a transaction becomes
// visible once every server is known to have passed its timestamp. Every region holds all rows, in partitions. A
// transaction is a functor: a procedure, its arguments, and its read and write sets. No transaction locks, validates,
// or aborts because of another transaction.
//
// S-phase (sphase.go, the paper's write-only phase). The client's server assigns a timestamp to the transaction and
// writes it to all replicas of every partition that it accesses. The transaction is stable once a majority of each
// partition has stored it.
//
// Visibility (watermarks.go). A server's watermark is below its lowest unstable timestamp. If there is none, it is the
// server's clock: a promise to issue no lower timestamp. Servers exchange watermarks periodically. The lowest watermark
// of all servers is the visibility watermark: every functor up to it is known and stable.
//
// E-phase (ephase.go). Every replica evaluates the visible functors in timestamp order. The partitions of a copy
// exchange their reads (package deterministic), so all copies become equal without a vote. The client's server sends
// the answer.
//
// Completeness. Links keep the order of messages. A server that receives another server's watermark has therefore
// received all functors of that server up to the watermark. Functors that a lost server has not sent to all replicas
// arrive with the decision about that server.
//
// Clocks. A server that learns of a higher watermark promises that watermark, as a hybrid logical clock does, and
// issues no timestamp below it. A clock that is behind therefore delays transactions only by one gossip delay,
// regardless of its lag. A clock that is ahead pulls the other servers ahead.
//
// Lost servers (takeover.go). Without the watermark of a lost server, nothing would become visible. A Raft group of all
// servers therefore agrees that the server is suspected. After that, no replica accepts the server's writes. Majorities
// of all partitions report the functors of the server that they hold. The group then agrees on the survivors: the
// functors that are in the reports of every partition that they access. The survivors include all stable functors. All
// other functors count as never written.
//
// A suspected server may in fact be live. It then issues the transactions of its dropped functors again once it has
// rejoined, with timestamps above everything visible by then.
//
// Strict serializability. Transactions take effect in timestamp order. When a transaction is answered, it is visible at
// its client's server. Every server that was active in that server's view has therefore promised timestamps above it. A
// server that was not active must join before it issues timestamps. These are then above everything that was visible:
// see join. A transaction that is submitted later therefore has a higher timestamp. This holds for arbitrary clocks.
package oceanvista

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Values of the parameter reads.
const (
	readsStrict   = "Strict"
	readsSnapshot = "Snapshot"
)

// Engine is Ocean Vista.
var Engine = &protocol.Engine{
	Name:  "oceanvista",
	Paper: "Fan and Golab, Ocean Vista: Gossip-Based Visibility Control for Speedy Geo-Distributed Transactions, PVLDB 12(11), 2019",
	Doc: "Writes transactions as functors to a majority of each partition, and evaluates them in the order of timestamps once all servers are " +
		"known to be past them.",
	Figures: figures,
	Aborts:  deterministic.Aborts,
	Parameters: []protocol.Parameter{
		{
			Name: "gossip", Default: "5ms", Min: time.Millisecond, Max: time.Second,
			Doc: "The interval at which servers tell each other their watermarks.",
		},
		{
			Name: "failureTimeout", Default: "2s", Min: 100 * time.Millisecond, Max: 10 * time.Minute,
			Doc: "How long beyond the longest round trip a server may be silent before the others decide about its unfinished transactions and go on without it.",
		},
		{
			Name: "reads", Default: readsStrict, OneOf: []string{readsStrict, readsSnapshot},
			Doc: "Transactions that write nothing and touch one partition, the server's own, are ordered like others, or read at once what is visible there.",
		},
		reconnaissance.Parameter,
	},
	Roles:     []string{RoleLeader},
	Tolerates: survival,
	Replaces:  replaces,
	Isolation: promises,
	New:       func(c protocol.Config) protocol.Replica { return newReplica(c, none) },
	Decode:    decode,
	Law:       law,
}

// promises is Engine.Isolation. The functors visible at a server are a prefix of the timestamp order. With Snapshot
// reads, a server may read a prefix that is older than a prefix from which another server has already answered.
func promises(p protocol.Params) isolation.Level {
	if p.Word("reads") == readsSnapshot {
		return isolation.Serializable
	}
	return isolation.StrictSerializable
}

// RoleLeader is the role of the leader of the Raft group that decides about lost servers.
const RoleLeader = "leader"

// Timer kinds.
const (
	gossipTimer = iota + 1
	failureTimer
	groupTimer
	reconTimer
	stateTimer
)

// Replica is one node: a server to its clients and a replica of one partition.
type Replica struct {
	self     geo.NodeID
	topology *geo.Topology
	env      protocol.Env

	partition, partitions int
	placement             geo.Placement
	// group[q] lists the replicas of partition q; majority is the size of a majority of a group.
	group    [][]geo.NodeID
	majority int
	wrong    mistake

	writes     writes
	watermarks watermarks
	functors   functors
	membership membership
	replace    replacement
	executor   *deterministic.Executor
	recon      *reconnaissance.Reconnaissance

	snapshots bool // the parameter reads is Snapshot
	procs     *txn.Registry
	// unanswered are the transactions of this server's clients. The value is true once other servers may have the
	// transaction's functor.
	unanswered map[txn.ID]bool
	// behind is set once this server is abandoned: other servers have discarded functors that it lacks.
	behind bool

	transactions, snapshotReads int64
}

func newReplica(c protocol.Config, m mistake) *Replica {
	t, layout := c.Topology, c.Topology.Full()
	r := &Replica{
		self: c.Self, topology: t, env: c.Env, partition: t.PartitionOf(c.Self), partitions: t.Partitions, placement: t.Placement(),
		group: make([][]geo.NodeID, t.Partitions), majority: len(t.Regions)*t.Replicas/2 + 1, wrong: m,
		snapshots: c.Params.Word("reads") == readsSnapshot, procs: c.Procedures, unanswered: map[txn.ID]bool{},
	}
	for q := range r.group {
		r.group[q] = layout.Group(q).Members
	}
	r.executor = deterministic.New(deterministic.Config{
		Self: c.Self, Layout: layout, Procedures: c.Procedures, Store: c.Store.(*store.Hash), Env: c.Env, Answer: r.answer,
	})
	r.recon = reconnaissance.New(reconnaissance.Config{Config: c, Layout: layout, Order: r.order, Answer: r.reply, Timer: reconTimer})
	r.writes.init(r, t.Nodes())
	r.watermarks.init(r, t, c.Params)
	r.functors.init(r, t.Nodes())
	r.membership.init(r, t, c)
	r.replace.init(r, c)
	return r
}

// Start implements protocol.Replica.
func (r *Replica) Start() {
	r.watermarks.start()
	r.membership.start()
}

// ReasonBehind is the reason of refusals by a server that was abandoned while it was absent.
const ReasonBehind = "too-far-behind"

// Submit implements protocol.Replica.
func (r *Replica) Submit(t *txn.Transaction) {
	r.transactions++
	if r.behind {
		r.env.Reply(txn.Outcome{ID: t.ID, Status: txn.Refused, Cause: txn.CauseNode, Reason: ReasonBehind})
		return
	}
	r.unanswered[t.ID] = false
	if t.Exact {
		r.order(t)
	} else {
		r.recon.Begin(t)
	}
	r.finishStep()
}

// order handles a transaction with a known footprint. It reads a snapshot if that is allowed, and issues a functor
// otherwise.
func (r *Replica) order(t *txn.Transaction) {
	switch {
	case r.behind: // giveUp has answered its client
	case len(t.Accesses) == 0, r.snapshots && r.procs.ReadsOnly(t) && r.local(t):
		if r.replace.lacking {
			r.env.Mark(readBeforeRows)
			r.replace.held = append(r.replace.held, t)
			return
		}
		// The executor runs the transaction after all functors that are visible now, so the read includes their effects and
		// no effects of later functors.
		r.snapshotReads++
		r.executor.Run(deterministic.Place{}, t, r.self)
	default:
		r.writes.issue(t)
	}
}

// local reports whether t accesses only this node's partition.
func (r *Replica) local(t *txn.Transaction) bool {
	return !slices.ContainsFunc(t.Accesses, func(a txn.Access) bool { return r.placement.Partition(a.Key) != r.partition })
}

// answer handles the outcome of a transaction. It ignores transactions that no client of this server waits for.
func (r *Replica) answer(o txn.Outcome) {
	if _, open := r.unanswered[o.ID]; open && r.recon.Outcome(&o) {
		r.reply(o)
	}
}

// reply sends an outcome to the client.
func (r *Replica) reply(o txn.Outcome) {
	delete(r.unanswered, o.ID)
	r.env.Reply(o)
}

// Receive implements protocol.Replica.
func (r *Replica) Receive(from geo.NodeID, m protocol.Message) {
	r.watermarks.hear(from)
	switch m := m.(type) {
	case *Write:
		r.inView(from, m, m.View)
	case *Gossip:
		// The number of gossip messages in flight must be exact even if the message is buffered. Otherwise the window would
		// stay full.
		r.watermarks.count(from, m)
		r.inView(from, m, m.View)
	case *Stored:
		r.writes.stored(from, m.Timestamp)
	case *Report:
		r.membership.reported(from, m)
	case *JoinRequest:
		r.membership.requested(from, m)
	case *Proposal:
		r.membership.propose(m.Entry)
	case *consensus.Message:
		r.membership.group.Receive(from, m)
	case *StateRequest:
		r.replace.requested(from, m.ID)
	case *statetransfer.Piece:
		r.replace.receive(from, m)
	case *statetransfer.Ack:
		r.replace.sender.Receive(from, m)
	case *deterministic.Reads:
		r.executor.Reads(from, m)
	case *deterministic.Answers:
		for _, o := range m.Outcomes {
			r.answer(o)
		}
	default:
		r.recon.Receive(from, m)
	}
	r.finishStep()
}

// inView handles a message that depends on the sender's view of the active servers, and buffers it until this node has
// reached that view. Of several consecutive gossip messages, it keeps only the last, which supersedes the others.
func (r *Replica) inView(from geo.NodeID, m protocol.Message, view uint64) {
	p := &r.watermarks.peers[from]
	// A message must not overtake buffered messages, because a watermark covers all functors that were sent before it.
	if last := len(p.held) - 1; view > r.membership.view || last >= 0 {
		if last >= 0 && m.Kind() == kindGossip && p.held[last].Kind() == kindGossip {
			p.held[last] = m
		} else {
			p.held = append(p.held, m)
		}
		return
	}
	r.take(from, m)
}

// take handles a message whose view this node has reached. It drops messages from views before this node's mark, and
// messages of an incarnation that has not joined.
func (r *Replica) take(from geo.NodeID, m protocol.Message) {
	if p := &r.replace; viewOf(m) < p.since || p.known[from] != r.membership.servers[from].marked {
		r.env.Mark(beforeMark)
		return
	}
	switch m := m.(type) {
	case *Write:
		r.functors.receive(from, m)
	case *Gossip:
		r.watermarks.receive(from, m)
	}
}

// caughtUp handles the buffered messages whose views this node has reached, in the order of arrival.
func (r *Replica) caughtUp() {
	for n := range r.watermarks.peers {
		p := &r.watermarks.peers[n]
		done := 0
		// Stop at the first message of a later view, because a peer's messages must be handled in order.
		for done < len(p.held) && viewOf(p.held[done]) <= r.membership.view {
			r.take(geo.NodeID(n), p.held[done])
			done++
		}
		if p.held = p.held[done:]; len(p.held) == 0 {
			p.held = nil
		}
	}
}

// Fire implements protocol.Replica.
func (r *Replica) Fire(t protocol.Timer) {
	switch t.Kind {
	case gossipTimer:
		r.watermarks.tick()
	case failureTimer:
		r.membership.tick()
	case groupTimer:
		r.membership.group.Fire(t)
	case reconTimer:
		r.recon.Fire()
	case stateTimer:
		r.replace.sender.Fire()
	}
	r.finishStep()
}

// finishStep evaluates the functors that have become visible in this step, and sends the messages collected in this
// step.
func (r *Replica) finishStep() {
	r.functors.evaluate(r.watermarks.advance())
	r.executor.Flush()
	r.recon.Flush()
}

// Roles implements protocol.RoleHolder.
func (r *Replica) Roles() []string {
	if r.membership.group.Leading() {
		return []string{RoleLeader}
	}
	return nil
}

// Pending implements protocol.Replica. It counts unanswered transactions of this server's clients, functors that are
// invisible or not yet evaluated, and live servers that have not reported all decisions. It adds 1 while this node
// waits for the rows of a donor. An abandoned server is never quiescent: its rows differ from the rows of the other
// servers.
func (r *Replica) Pending() int {
	if r.behind {
		return 1
	}
	return len(r.unanswered) + len(r.functors.invisible) + r.executor.Foreign() + r.membership.laggards() + r.replace.pending()
}

// Lags implements protocol.Straggler.
func (r *Replica) Lags() bool { return r.behind }

// Readings implements protocol.Replica.
func (r *Replica) Readings(dst []protocol.Reading) []protocol.Reading {
	m := &r.membership
	count := func(name string, value int64) { dst = append(dst, protocol.Reading{Name: name, Value: value}) }
	count("transactions", r.transactions)
	count("snapshot_reads", r.snapshotReads)
	count("functors_issued", r.writes.issued)
	count("functors_issued_again", r.writes.again)
	count("functors_stored", r.functors.received)
	count("functors_kept", int64(r.functors.kept))
	count("gossip", r.watermarks.gossips)
	count("gossip_held_back", r.watermarks.heldBack)
	count("suspected", m.suspected)
	count("functors_survived", m.survived)
	count("functors_never_written", m.neverWritten)
	count("joined", m.joined)
	count("leader_terms", m.terms)
	return r.recon.Readings(r.executor.Readings(dst))
}
