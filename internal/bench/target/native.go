package target

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/net/wire"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// Reasons of outcomes that the target itself produces.
const (
	ReasonConnectionLost = "connection-lost"
	ReasonNotConnected   = "not-connected"
	ReasonTooLarge       = "too-large"
	ReasonSessionClosed  = "session-closed"
)

const (
	openTimeout  = 15 * time.Second      // time to connect to the region's nodes
	refusalDelay = 10 * time.Millisecond // keeps a closed loop from spinning while a node is down
	firstBackoff = 10 * time.Millisecond
	lastBackoff  = time.Second
	maxIncidents = 100
)

// Native is a target that connects to the database nodes of one region.
type Native struct {
	db      *deploy.Database
	region  geo.Region
	chooses geo.Coordinators
	process string

	mu        sync.Mutex
	sessions  map[*nativeSession]struct{}
	processes map[geo.NodeID]string
	incidents []result.Incident
	// roundTrips contains, for each node, the shortest round trip measured on connections to the node.
	roundTrips map[geo.NodeID]time.Duration
}

// NewNative returns the target of the clients in a region of db. The clients choose coordinators according to chooses.
// The target delays messages if db.Emulate is set.
func NewNative(db *deploy.Database, region geo.Region, chooses geo.Coordinators) *Native {
	return &Native{
		db:        db,
		region:    region,
		chooses:   chooses,
		process:   "client-" + crand.Text()[:12],
		sessions:  map[*nativeSession]struct{}{},
		processes: map[geo.NodeID]string{},

		roundTrips: map[geo.NodeID]time.Duration{},
	}
}

// Incidents implements Target. Incidents are lost connections and nodes whose process has changed. At most 100 are
// kept.
func (n *Native) Incidents() []result.Incident {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.incidents)
}

// Processes returns the latest process ID of every node that was connected, by node name.
func (n *Native) Processes() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make(map[string]string, len(n.processes))
	for id, p := range n.processes {
		out[n.db.Topology.NodeName(id)] = p
	}
	return out
}

// RoundTrip returns the round-trip time to the most distant node of the region, without emulated delays. It uses the
// shortest round trip measured to each node. It returns 0 before the first connection, and if the kernel does not
// report round trips.
func (n *Native) RoundTrip() (furthest time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, took := range n.roundTrips {
		furthest = max(furthest, took)
	}
	return furthest
}

// measured records the round trip of a connection to node id. It keeps the shortest of all measurements.
func (n *Native) measured(id geo.NodeID, took time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	// Zero means that the kernel did not report a round trip.
	if was, known := n.roundTrips[id]; took > 0 && (!known || took < was) {
		n.roundTrips[id] = took
	}
}

// note records an incident of a node. The caller holds n.mu.
func (n *Native) note(reason, node, message string) {
	// A flapping connection must not fill the result document.
	if len(n.incidents) < maxIncidents {
		n.incidents = append(n.incidents, result.Incident{Reason: result.Reason{Reason: reason, Message: message}, Node: node})
	}
}

// lost records the loss of a connection as an incident, with the number of transactions that were in flight on the
// connection.
func (n *Native) lost(node, process string, inFlight int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note(result.ReasonConnectionLost, node, fmt.Sprintf("node %s (process %s): connection lost with %d transactions in flight: %v", node, process, inFlight, err))
}

// met records the process of node id, and an incident if the node had another process before.
func (n *Native) met(id geo.NodeID, process string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	// Figures from before and after a restart do not describe the same database.
	if was := n.processes[id]; was != "" && was != process {
		name := n.db.Topology.NodeName(id)
		n.note(result.ReasonNodeRestarted, name, fmt.Sprintf("node %s is process %s; it was process %s before", name, process, was))
	}
	n.processes[id] = process
}

// Open connects to all nodes of the region. It returns an error if a node is unreachable for 15 s.
func (n *Native) Open(ctx context.Context, sink Sink) (Session, error) {
	t := &n.db.Topology
	if n.region < 0 || int(n.region) >= len(t.Regions) {
		return nil, fmt.Errorf("region %d: the database has regions 0 to %d", n.region, len(t.Regions)-1)
	}
	s := &nativeSession{n: n, sink: sink, first: t.Node(n.region, 0, 0), signal: make(chan struct{}, 1)}
	// Use a new context instead of the caller's, because the session outlives Open.
	s.ctx, s.cancel = context.WithCancel(context.Background())
	per := t.Partitions * t.Replicas
	// The buffer has room for every route. A route that connects after Open has given up can therefore still send without
	// blocking, and Close can wait for that route.
	opened := make(chan struct{}, per)
	for i := range per {
		id := s.first + geo.NodeID(i)
		r := &route{s: s, id: id, address: n.db.Nodes[id].Address, inFlight: map[txn.ID]struct{}{}, opened: opened}
		s.routes = append(s.routes, r)
		s.wg.Add(1)
		go r.run()
	}
	s.wg.Add(1)
	go s.refuse()
	limit := time.NewTimer(openTimeout)
	defer limit.Stop()
	for range per {
		var err error
		select {
		case <-opened:
			continue
		case <-ctx.Done():
			err = ctx.Err()
		case <-limit.C:
			err = fmt.Errorf("not within %v", openTimeout)
		}
		err = fmt.Errorf("connecting to the nodes of region %s: %w%s", t.Regions[n.region], err, s.problems())
		_ = s.Close()
		return nil, err
	}
	n.mu.Lock()
	n.sessions[s] = struct{}{}
	n.mu.Unlock()
	return s, nil
}

// Close closes the sessions that are still open.
func (n *Native) Close() error {
	n.mu.Lock()
	open := slices.Collect(maps.Keys(n.sessions))
	n.mu.Unlock()
	for _, s := range open {
		_ = s.Close()
	}
	return nil
}

type nativeSession struct {
	n      *Native
	first  geo.NodeID // first node of the region
	routes []*route
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	once   sync.Once

	sinkMu sync.Mutex // held during a call of sink: one batch at a time
	sink   Sink

	mu      sync.Mutex
	refused []txn.Outcome // not passed to the sink yet
	signal  chan struct{}
}

// route maintains the connection to one node.
type route struct {
	s       *nativeSession
	id      geo.NodeID
	address string
	opened  chan<- struct{} // receives one value after the first connect, then nil

	mu       sync.Mutex
	conn     *wire.Conn // nil if not connected
	inFlight map[txn.ID]struct{}
	problem  error

	batch   []txn.Outcome
	reasons map[string]string
}

// Submit implements Session.
func (s *nativeSession) Submit(t *txn.Transaction) {
	r := s.routes[s.n.db.Topology.Coordinator(s.n.region, t, s.n.chooses)-s.first]
	cause, reason := txn.CauseNode, ReasonNotConnected
	r.mu.Lock()
	if r.conn != nil {
		// Add t to inFlight before it is sent: its answer may arrive before this goroutine continues.
		r.inFlight[t.ID] = struct{}{}
		if r.conn.SendTransaction(t) {
			r.mu.Unlock()
			return
		}
		// SendTransaction failed, so no outcome will arrive for this ID.
		delete(r.inFlight, t.ID)
		cause, reason = txn.CauseClient, ReasonTooLarge
	}
	r.mu.Unlock()
	s.mu.Lock()
	s.refused = append(s.refused, txn.Outcome{ID: t.ID, Status: txn.Refused, Cause: cause, Reason: reason})
	s.mu.Unlock()
	// If a signal is already pending, it covers this refusal too, because refuse takes all refusals at once.
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// Flush implements Session.
func (s *nativeSession) Flush() {
	for _, r := range s.routes {
		r.mu.Lock()
		if r.conn != nil {
			r.conn.Flush()
		}
		r.mu.Unlock()
	}
}

// Close implements Session.
func (s *nativeSession) Close() error {
	s.once.Do(func() {
		s.cancel()
		s.wg.Wait()
		s.n.mu.Lock()
		delete(s.n.sessions, s)
		s.n.mu.Unlock()
	})
	return nil
}

func (s *nativeSession) deliver(outcomes []txn.Outcome) {
	if len(outcomes) == 0 {
		return
	}
	s.sinkMu.Lock()
	s.sink(outcomes)
	s.sinkMu.Unlock()
}

// refuse passes refusals to the sink after refusalDelay.
func (s *nativeSession) refuse() {
	defer s.wg.Done()
	for open := true; open; {
		// The delay batches refusals. The delay stops early if the session is closed.
		select {
		case <-s.signal:
		case <-s.ctx.Done():
			open = false // deliver the remaining refusals, then stop
		}
		select {
		case <-time.After(refusalDelay):
		case <-s.ctx.Done():
		}
		s.mu.Lock()
		batch := s.refused
		s.refused = nil
		s.mu.Unlock()
		s.deliver(batch)
	}
}

// problems describes the nodes that are not connected and their latest errors, or returns "".
func (s *nativeSession) problems() string {
	var out []string
	for _, r := range s.routes {
		r.mu.Lock()
		if r.conn == nil && r.problem != nil {
			out = append(out, fmt.Sprintf("node %s at %s: %v", s.n.db.Topology.NodeName(r.id), r.address, r.problem))
		}
		r.mu.Unlock()
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, "; ") + ")"
}

// run keeps the node connected until the session is closed.
func (r *route) run() {
	defer r.s.wg.Done()
	backoff := firstBackoff
	for r.s.ctx.Err() == nil {
		conn, err := r.dial()
		if err != nil {
			r.mu.Lock()
			r.problem = err
			r.mu.Unlock()
			select {
			// The random part keeps the clients of many workers from reconnecting to a restarted node at the same moment.
			case <-time.After(backoff/2 + rand.N(backoff)):
			case <-r.s.ctx.Done():
			}
			backoff = min(2*backoff, lastBackoff)
			continue
		}
		backoff = firstBackoff
		r.serve(conn)
	}
}

func (r *route) dial() (*wire.Conn, error) {
	db := r.s.n.db
	var path *geo.Path
	if db.Emulate {
		link := db.Topology.Links[r.s.n.region][r.s.n.region]
		path = geo.NewPath(link, link)
	}
	h := wire.Hello{Database: db.Name, Incarnation: db.Incarnation, Process: r.s.n.process, To: r.id, Run: db.Run}
	return wire.Dial(r.s.ctx, r.address, h, db.ClientKey, path)
}

// serve receives outcomes on conn until it closes. The transactions in flight then become Unknown.
func (r *route) serve(conn *wire.Conn) {
	name := r.s.n.db.Topology.NodeName(r.id)
	r.s.n.met(r.id, conn.Process())
	stop := context.AfterFunc(r.s.ctx, conn.Close)
	defer stop()
	r.mu.Lock()
	r.conn = conn
	r.mu.Unlock()
	if r.opened != nil {
		r.opened <- struct{}{}
		r.opened = nil
	}
	r.s.n.measured(r.id, conn.RoundTrip())
	err := conn.Serve(r)
	r.s.n.measured(r.id, conn.RoundTrip())
	conn.Close()
	r.mu.Lock()
	// Change conn and inFlight under one lock. A later Submit then finds no connection and refuses its transaction, so no
	// transaction stays in flight without an outcome.
	r.conn = nil
	lost := r.inFlight
	r.inFlight = map[txn.ID]struct{}{}
	r.mu.Unlock()
	cause, reason := txn.CauseClient, ReasonSessionClosed
	// A connection that was lost because Close canceled the session is not an incident.
	if r.s.ctx.Err() == nil {
		cause, reason = txn.CauseNode, ReasonConnectionLost
		r.s.n.lost(name, conn.Process(), len(lost), err)
	}
	outcomes := make([]txn.Outcome, 0, len(lost))
	// These transactions are Unknown and not Refused, because the node may have executed them before the connection was
	// lost.
	for id := range lost {
		outcomes = append(outcomes, txn.Outcome{ID: id, Status: txn.Unknown, Cause: cause, Reason: reason})
	}
	r.s.deliver(outcomes)
}

var errTooManyReasons = errors.New("the node gives more than 1000 different reasons")

// Receive implements wire.Receiver.
func (r *route) Receive(payload []byte) error {
	from := len(r.batch)
	var err error
	r.batch, err = wire.ReadOutcomes(payload, r.batch)
	for i := from; i < len(r.batch); i++ {
		o := &r.batch[i]
		if o.Reason == "" {
			continue
		}
		// o.Reason points into the read buffer. Statistics keep the reason for the whole run, so it is cloned; otherwise it
		// would keep the buffer alive.
		own, ok := r.reasons[o.Reason]
		if !ok {
			// The bound protects the client's memory from a node that puts variable data into reasons.
			if len(r.reasons) >= 1000 {
				return errTooManyReasons
			}
			if r.reasons == nil {
				r.reasons = map[string]string{}
			}
			own = strings.Clone(o.Reason)
			r.reasons[own] = own
		}
		o.Reason = own
	}
	return err
}

// Turn implements wire.Receiver.
func (r *route) Turn() {
	if len(r.batch) == 0 {
		return
	}
	r.mu.Lock()
	known := r.batch[:0]
	for _, o := range r.batch {
		// An ID that is not in flight belongs to a transaction that was already answered or that this route never sent. The
		// sink must get exactly one outcome for each transaction.
		if _, ok := r.inFlight[o.ID]; ok {
			delete(r.inFlight, o.ID)
			known = append(known, o)
		}
	}
	r.mu.Unlock()
	r.s.deliver(known)
	clear(r.batch)
	r.batch = r.batch[:0]
}
