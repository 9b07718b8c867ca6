// Package primary is a database with a single writer, such as Amazon Aurora's global database (A. Verbitski et al.,
// Amazon Aurora: Design Considerations for High Throughput Cloud-Native Relational Databases, SIGMOD 2017). It follows
// the description and measurements by C. Nguyen et al. (SunStorm: Geographically distributed transactions over
// Aurora-style systems, PVLDB 18(13), 2025, sections 2 and 7).
//
// The writer (writer.go) is one node of the primary region. It orders all transactions that write, and appends their
// writes to a log. The nodes of the writer's region are its storage. A transaction is committed once a majority of them
// has its entry. After that, the writer or a storage node ships the log to all other nodes. Each node holds all rows
// and applies the entries in log order (log.go). A copy is therefore always a past state of the database.
//
// Coordinators (coordinator.go). Read-only transactions are answered from the copy in the client's region, once the
// copy is as recent as the parameter reads requires. Transactions that write also read from this copy, and are
// forwarded statement by statement. Each write is a round trip to the writer, and so are begin and commit. The writer
// commits a transaction if all its reads are still current. Transactions that write are therefore strictly
// serializable, regardless of the copy that they read. In the writer's region, clients talk to the writer, and each
// transaction is sent to the writer as a whole.
//
// Connections. The requests of a transaction are numbered, and each coordinator numbers its transactions. A coordinator
// that waits too long for an answer reconnects and repeats its request. The writer knows which requests it has
// executed.
//
// Failover (failover.go). The writer moves to the next region when the operator requests it, either without loss or
// immediately.
//
// Lost nodes (replace.go). A new incarnation receives a copy of the rows from the node that sends it the log. A new
// incarnation of the writer obtains the log from its storage.
//
// Partitions. Aurora has none: one instance writes, and one instance in each region reads. Here all nodes hold all
// rows. The nodes of the writer's region are the storage that a commit waits for. In other regions, either all nodes
// are reader instances or only one of them is (parameter readers).
package primary

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Values of parameters.
const (
	readsEventual = "Eventual"
	readsSession  = "Session"
	readsGlobal   = "Global"

	barrierTransaction = "Transaction"
	barrierStatement   = "Statement"

	readersAll      = "All"
	readersInstance = "Instance"

	shippedByWriter  = "Writer"
	shippedByStorage = "Storage"

	copiesInstance = "Instance"
	copiesStorage  = "Storage"

	forwardStatements = "Statements"
	forwardProcedures = "Procedures"

	failoverNone      = "None"
	failoverManaged   = "Managed"
	failoverUnplanned = "Unplanned"
)

// Engine is the single primary.
var Engine = &protocol.Engine{
	Name:    "primary",
	Paper:   "Verbitski et al., Amazon Aurora, SIGMOD 2017; Nguyen et al., SunStorm, PVLDB 2025",
	Doc:     "One region writes; the others have asynchronous copies to read from, and forward what writes statement by statement.",
	Figures: figures,
	Aborts:  []string{ReasonStaleRead, ReasonSessionLost},
	Parameters: []protocol.Parameter{
		{
			Name: "primary", Default: "0", Integer: true, MaxInt: 63,
			Doc: "The region of the writer: its place in spec.regions, from 0.",
		},
		{
			Name: "reads", Default: readsGlobal, OneOf: []string{readsEventual, readsSession, readsGlobal},
			Doc: "How fresh a copy is when a transaction reads from it: as it is; with everything that clients of its region were told of; or " +
				"with everything that any client was told of, which the writer is asked for.",
		},
		{
			Name: "barrier", Default: barrierTransaction, OneOf: []string{barrierTransaction, barrierStatement},
			Doc: "With reads: Global, what the writer is asked before: each transaction, as the paper says, or each statement, as " +
				"its measurements show.",
		},
		{
			Name: "barrierRoundTrips", Default: "1", Integer: true, MinInt: 1, MaxInt: 8,
			Doc: "With reads: Global, the round trips of each time that the writer is asked; 2 and 3 with barrier: Statement are the paper's measurements.",
		},
		{
			Name: "forward", Default: forwardStatements, OneOf: []string{forwardStatements, forwardProcedures},
			Doc: "How transactions that write reach the writer from other regions: statement by statement, or whole as stored procedures that " +
				"the writer executes.",
		},
		{
			Name: "overhead", Default: "2", Integer: true, MinInt: 1, MaxInt: 8,
			Doc: "The round trips of a transaction that is forwarded statement by statement, beside one for each row that it writes: 2, to " +
				"begin and to commit, as measured of Aurora; 1 if the first statement begins it.",
		},
		{
			Name: "shipping", Default: "1ms", Min: 0, Max: 10 * time.Second,
			Doc: "How long the writer collects what is committed before it is shipped to the other regions.",
		},
		{
			Name: "reconnect", Default: "1s", Min: 50 * time.Millisecond, Max: 10 * time.Minute,
			Doc: "How long a coordinator waits for an answer, beyond the longest round trip, before it connects again and sends its request again.",
		},
		{
			Name: "failover", Default: failoverNone, OneOf: []string{failoverNone, failoverManaged, failoverUnplanned},
			Doc: "Whether the operator moves the writer to the next region: never; as a managed failover, once that has the whole log, so that " +
				"nothing is lost; or as an unplanned one, at once, which loses what was committed and is not there yet.",
		},
		{
			Name: "failoverAt", Default: "1s", Min: time.Millisecond, Max: 24 * time.Hour,
			Doc: "When the operator does that, after the first transaction that has written.",
		},
		{
			Name: "readers", Default: readersAll, OneOf: []string{readersAll, readersInstance},
			Doc: "Which nodes of a region that does not write have clients: all of them; or the first one alone, its instance, to which " +
				"the others send their transactions, as an Aurora database has one instance in a region, and storage.",
		},
		{
			Name: "shippedBy", Default: shippedByWriter, OneOf: []string{shippedByWriter, shippedByStorage},
			Doc: "Who sends the log to the other regions: the writer; or the storage, as an Aurora global database does, so that the writer's " +
				"work does not grow with their number: the region's second node sends it to the first of each region, which passes it on. " +
				"Where a region has one node it is the writer.",
		},
		{
			Name: "copies", Default: copiesInstance, OneOf: []string{copiesInstance, copiesStorage},
			Doc: "Whose CPU ships the log between regions, unless the writer does (parameter shippedBy), and applies it there: the nodes', which " +
				"answer clients; or storage servers' beside them, which the simulator does not model. Processes do it themselves either way.",
		},
	},
	Roles:         []string{RoleWriter},
	CheckTopology: checkTopology,
	Place:         func(t *geo.Topology, _ protocol.Params) geo.Layout { return t.WholeEverywhere() },
	Isolation:     promises,
	Loses:         func(p protocol.Params) bool { return p.Word("failover") == failoverUnplanned },
	Tolerates:     tolerates,
	Replaces:      replaces,
	New:           func(c protocol.Config) protocol.Replica { return newReplica(c, none) },
	Decode:        decode,
	Law:           law,
}

// RoleWriter is the role of the writer.
const RoleWriter = "writer"

func checkTopology(t *geo.Topology, p protocol.Params) *protocol.TopologyError {
	regions := len(t.Regions)
	if n := p.Int("primary"); n >= int64(regions) {
		return &protocol.TopologyError{Field: "spec.regions", Value: fmt.Sprintf("%d regions", regions),
			Message: fmt.Sprintf("engine parameter primary is %d, and must be the number of one of them, from 0 to %d", n, regions-1)}
	}
	if f := p.Word("failover"); f != failoverNone && regions < 2 {
		return &protocol.TopologyError{Field: "spec.regions", Value: "1 region",
			Message: fmt.Sprintf("engine parameter failover is %s, which needs a second region; add one, or set it to %s", f, failoverNone)}
	}
	return nil
}

// promises is Engine.Isolation. Every copy is a prefix of one serial history, so read-only transactions are
// serializable on copies of any age.
func promises(p protocol.Params) isolation.Level {
	switch p.Word("reads") {
	case readsEventual:
		return isolation.Serializable
	case readsSession:
		return isolation.SessionSerializable
	}
	return isolation.StrictSerializable
}

// tolerates is Engine.Tolerates: any number of the regions that never contain the writer may fail. Transactions
// committed by the writer's region may exist nowhere else.
func tolerates(t *geo.Topology, p protocol.Params) protocol.Tolerance {
	s := protocol.Tolerance{InFlight: true}
	for r := range geo.Region(len(t.Regions)) {
		writes := r == geo.Region(p.Int("primary")) || r == successor(t, p) && p.Word("failover") != failoverNone
		if !writes {
			s.Regions = append(s.Regions, r)
		}
	}
	s.Most = len(s.Regions)
	// No node waits for lost nodes, and all other nodes receive the entries that lost nodes miss. The writer may move in
	// the meantime.
	s.Settles = 10 * t.LongestRTT()
	s.Answers = protocol.InTime(t.LongestRTT()+p.Duration("shipping")) + time.Duration(trips(p, lightRows))*t.LongestRTT()
	return s
}

// successor returns the region to which a failover moves the writer.
func successor(t *geo.Topology, p protocol.Params) geo.Region {
	return geo.Region((int(p.Int("primary")) + 1) % len(t.Regions))
}

// instance returns the first node of a region. It is the writer if the region contains the writer. It also handles the
// region's sessions and reads if the parameters assign these to a single node.
func instance(t *geo.Topology, r geo.Region) geo.NodeID { return t.Node(r, 0, 0) }

// shipper returns the node that ships a writer's log to the other regions.
func (r *Replica) shipper(writer geo.NodeID) geo.NodeID {
	if t := r.topology; r.params.Word("shippedBy") == shippedByStorage && t.Partitions*t.Replicas > 1 {
		return writer + 1 // the writer is the first node of its region
	}
	return writer
}

// distribute sends a message to all nodes of the other regions; this node must be the shipper. If the shipper is not
// the writer, it sends the message only to the instance of each region, which passes the message on.
func (r *Replica) distribute(m protocol.Message) {
	once := r.shipper(r.log.writer) != r.log.writer
	for _, n := range r.writer.remote {
		if !once || n == instance(r.topology, r.topology.RegionOf(n)) {
			r.env.Send(n, m)
		}
	}
}

// passOn passes a message from the region's instance on to the other nodes of the region. It does so only if a storage
// node of another region has shipped the message.
func (r *Replica) passOn(from geo.NodeID, m protocol.Message) {
	if r.topology.RegionOf(from) != r.region && r.shipper(r.log.writer) == from && from != r.log.writer {
		for _, n := range r.writer.storage {
			r.env.Send(n, m)
		}
	}
}

// Offloads implements protocol.RemoteWork. It reports whether storage servers do the work of the message. In an Aurora
// global database, they ship the log to other regions and apply it there. The node itself pays CPU time for messages of
// the writer, and for storing entries in the writer's region.
func (r *Replica) Offloads(peer geo.NodeID, m protocol.Message) bool {
	_, log := m.(*Append)
	if !log || !r.offloads || r.writes() {
		return false
	}
	return r.topology.RegionOf(peer) != r.region || r.topology.RegionOf(r.log.writer) != r.region
}

// Timer kinds.
const (
	shipTimer = iota + 1
	reconnectTimer
	failoverTimer
	progressTimer
	askTimer
	pieceTimer
)

// Replica is one node.
type Replica struct {
	self     geo.NodeID
	region   geo.Region
	topology *geo.Topology
	params   protocol.Params
	env      protocol.Env
	procs    *txn.Registry
	store    *store.Hash
	wrong    mistake
	// offloads is set if storage servers ship and apply the log: see Offloads.
	offloads bool

	execution   optimistic.Execution
	log         log
	writer      writer
	coordinator coordinator
	failover    failover
	catchUp     catchUp
}

func newReplica(c protocol.Config, m mistake) *Replica {
	t := c.Topology
	r := &Replica{
		self: c.Self, region: t.RegionOf(c.Self), topology: t, params: c.Params, env: c.Env, procs: c.Procedures,
		store: c.Store.(*store.Hash), wrong: m,
		offloads: c.Params.Word("copies") == copiesStorage,
	}
	r.execution = optimistic.Execution{Committed: r.store}
	r.log.init(r)
	r.writer.init(r)
	r.coordinator.init(r, c.Incarnation)
	r.failover.init(r)
	r.catchUp.init(r, c.Incarnation)
	return r
}

// Start implements protocol.Replica.
func (r *Replica) Start() { r.catchUp.start() }

// Submit implements protocol.Replica.
func (r *Replica) Submit(t *txn.Transaction) {
	r.coordinator.transactions++
	r.coordinator.take(t, nil)
}

// Receive implements protocol.Replica.
func (r *Replica) Receive(from geo.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *Relay:
		r.coordinator.relayed(from, m)
	case *Call:
		r.failover.atTerm(from, m, m.Term, func() { r.writer.call(from, m) })
	case *Request:
		r.failover.atTerm(from, m, m.Term, func() { r.writer.request(from, m) })
	case *Commit:
		r.failover.atTerm(from, m, m.Term, func() { r.writer.commit(from, m) })
	case *Reply:
		if m.Term == r.log.term {
			r.coordinator.replied(m)
		}
	case *Answer:
		// An answer to a relayed transaction has no term.
		if m.Relayed || m.Term == r.log.term {
			r.coordinator.answered(m)
		}
	case *Append:
		r.failover.atTerm(from, m, m.Term, func() { r.log.receive(from, m) })
	case *Ack:
		if m.Term == r.log.term {
			r.writer.acknowledged(from, m.Last)
		}
	case *Takeover:
		r.failover.told(from, m)
	case *Behind:
		if news := r.failover.news; m.Term < r.log.term {
			if news.Planned && from == news.Writer { // the new writer has not started, and asks for its initial rows
				r.catchUp.behind(from, m)
				return
			}
			r.env.Send(from, news)
			return
		}
		r.failover.atTerm(from, m, m.Term, func() { r.catchUp.behind(from, m) })
	case *Ahead:
		// A copy in flight may be older than the entry after which the feeder sends the log. The notice must therefore be
		// handled before the copy arrives.
		if r.catchUp.lacks && m.Term == r.log.term {
			r.catchUp.ahead(m)
			return
		}
		r.failover.atTerm(from, m, m.Term, func() { r.catchUp.ahead(m) })
	case *Survey:
		r.catchUp.survey(from, m)
	case *Standing:
		r.catchUp.surveyed(from, m)
	case *statetransfer.Piece:
		r.catchUp.piece(from, m)
	case *statetransfer.Ack:
		r.catchUp.outgoing.Receive(from, m)
	}
}

// Fire implements protocol.Replica.
func (r *Replica) Fire(t protocol.Timer) {
	switch t.Kind {
	case shipTimer:
		r.writer.shipping = false
		r.writer.ship()
	case reconnectTimer:
		r.coordinator.reconnect()
	case failoverTimer:
		r.failover.begin()
	case progressTimer:
		r.coordinator.progress()
	case askTimer:
		r.catchUp.again()
	case pieceTimer:
		r.catchUp.outgoing.Fire()
	}
}

// writes reports whether the node is the writer.
func (r *Replica) writes() bool { return r.log.writer == r.self }

// others calls f for all nodes except this node.
func (r *Replica) others(f func(geo.NodeID)) { protocol.Others(r.topology.Nodes(), r.self, f) }

// Roles implements protocol.RoleHolder.
func (r *Replica) Roles() []string {
	if r.writes() {
		return []string{RoleWriter}
	}
	return nil
}

// Pending implements protocol.Replica. It counts the unanswered transactions of this node, log entries to be shipped,
// answers that wait for commits, and held messages. Missing rows and a failover in progress count one each.
func (r *Replica) Pending() int {
	return len(r.coordinator.open) + r.writer.pending() + r.failover.pending() + len(r.log.outbox)
}

// Readings implements protocol.Replica.
func (r *Replica) Readings(dst []protocol.Reading) []protocol.Reading {
	count := func(name string, value int64) { dst = append(dst, protocol.Reading{Name: name, Value: value}) }
	c, w := &r.coordinator, &r.writer
	count("transactions", c.transactions)
	count("relayed", c.relayedAway)
	count("local_reads", c.localReads)
	count("log_waits", c.logWaits)
	count("barriers", c.barriers)
	count("statements_forwarded", c.statements)
	count("transactions_forwarded", c.forwarded)
	count("requests_resent", c.resent)
	count("commits", w.commits)
	count("aborts_stale_read", w.staleReads)
	count("aborts_session_lost", w.lostSessions)
	count("requests_known", w.known)
	count("log_entries", w.entries)
	count("entries_applied", r.log.entries)
	count("failovers", r.failover.failovers)
	count("lost_transactions", r.failover.lost)
	count("copies_restored", r.failover.restored)
	return dst
}
