// Package node runs a replica of a protocol in real time. An event loop owns the replica and its data. A mailbox feeds
// messages, transactions and calls to the loop. The node communicates over TCP (package wire) and has an administration
// server (package admin). In a cluster, each process runs one node; for geobench run, StartLocal starts all nodes in
// one process.
package node

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/journal"
	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/net/ping"
	"github.com/geobench/geobench/internal/net/wire"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/identity"
)

// Config is the configuration of a node.
type Config struct {
	Database *deploy.Database
	ID       geo.NodeID
	// Incarnation is the number of earlier processes of the node that lost their state (see protocol.Config). An
	// incarnation other than 0 obtains its rows from other nodes, except for rows that every node stores. The node creates
	// those from Loaded, the request that loaded the current data set; nil if no data set was loaded.
	Incarnation uint32
	Loaded      *admin.LoadRequest
	// Listener accepts peers and clients. Admin accepts the operator and requires Credentials. Public serves metrics and
	// health to any client. Admin and Public are optional. The node closes all three.
	Listener, Admin, Public net.Listener
	Engine                  *protocol.Engine
	Procedures              *txn.Registry
	// ParseWorkload creates a workload from a BenchmarkRun's spec.workload; see catalog.Parse.
	ParseWorkload func(spec json.RawMessage, seed uint64, t *geo.Topology) (workload.Workload, error)
	// MaxInFlight is the maximum number of unfinished transactions of this node's clients; the node refuses further
	// transactions. 0 means 262,144.
	MaxInFlight int
	// Journal is the folder for the log of the node's inputs, from which a restarted process continues. If Journal is
	// empty, the node keeps no log, and its state is lost with the process.
	Journal string
	// CutJournal is the growth of the log, in bytes, after which it is truncated. 0 selects half the size of the data, but
	// at least 32 MiB.
	CutJournal int64
	// Disk stores the log; nil for the operating system's file system.
	Disk journal.Disk
	// Prober measures the links both below a service mesh and through it; nil if the node's connections use no mesh. The
	// caller must run it.
	Prober *ping.Prober
	// Credentials authenticate the node and its clients. If empty, the node accepts every client; use this only for a
	// database in a single process.
	Credentials identity.Folder
	// Memory returns the live bytes of the heap and the memory limit of the process; a limit of 0 means none. If Memory is
	// nil, the node reads both from the Go runtime.
	Memory func() (live, limit uint64)
	// Log may be nil, which discards all messages.
	Log *slog.Logger

	// process is the name of the node's process, and strangers counts rejected clients. A lobby sets both, because it uses
	// them before the node exists.
	process   string
	strangers *identity.Unauthenticated
}

// Node is a node of a database. It implements admin.Node.
type Node struct {
	cfg      Config
	topology *geo.Topology
	layout   geo.Layout
	params   protocol.Params
	process  string
	endpoint *wire.Endpoint
	box      mailbox
	loop     loop
	done     chan struct{}   // closed when the loop has stopped
	ended    error           // the error with which the loop stopped, if any
	peers    []*peerReceiver // by geo.NodeID
	gate     sync.Mutex      // one load or audit at a time
	late     *late.Recorder  // nil if several nodes share the process

	broken atomic.Pointer[string]
	// run is the name of the run whose clients may connect: see admin.LoadRequest.
	run        atomic.Pointer[string]
	strangers  *identity.Unauthenticated
	disturbing disturbances
	// asked is the time at which Healthy requested a sign of life from the loop; 0 once the loop has responded.
	asked    atomic.Int64
	turns    atomic.Int64
	statuses [txn.Unknown + 1]atomic.Int64 // outcomes by status
}

// New returns a node that stays idle until Run is called.
func New(cfg Config) (*Node, error) {
	params, replaceable, err := cfg.check()
	if err != nil {
		return nil, err
	}
	t := &cfg.Database.Topology
	if cfg.MaxInFlight == 0 {
		cfg.MaxInFlight = 1 << 18
	}
	if cfg.Memory == nil {
		cfg.Memory = heap
	}
	if cfg.Disk == nil {
		cfg.Disk = journal.OS{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ownProcess := cfg.Admin != nil || cfg.process != "" // a lobby serves administration on behalf of its node
	cfg.Log = cfg.Log.With("node", t.NodeName(cfg.ID))
	if cfg.process == "" {
		cfg.process, cfg.strangers = newProcess(), &identity.Unauthenticated{Log: cfg.Log}
	}
	n := &Node{cfg: cfg, topology: t, layout: cfg.Engine.Layout(t, params), process: cfg.process, done: make(chan struct{}),
		peers: make([]*peerReceiver, t.Nodes()), strangers: cfg.strangers}
	// Open the log before anything uses the process name: a restarted node continues under the name of its previous
	// process.
	if cfg.Journal != "" {
		if err := n.openLog(cfg.Journal); err != nil {
			return nil, err
		}
	}
	if err := n.beginDisturbances(cfg.Journal); err != nil {
		n.discard()
		return nil, err
	}
	n.box.init()
	if ownProcess {
		n.late = late.NewRecorder(admin.Monotonic, late.CPUTime)
	}
	addresses := make([]string, t.Nodes())
	for i, a := range cfg.Database.Nodes {
		addresses[i] = a.Address
	}
	var keys *wire.Keys
	if cfg.Credentials != "" {
		keys = n.keys()
	}
	n.endpoint = wire.New(wire.Config{
		Keys:        keys,
		Database:    cfg.Database.Name,
		Incarnation: cfg.Database.Incarnation,
		Process:     n.process,
		Self:        cfg.ID,
		Topology:    t,
		Addresses:   addresses,
		Emulate:     cfg.Database.Emulate,
		Seed:        cfg.Database.Seed,
		Durable:     cfg.Journal != "",

		NodeIncarnation: cfg.Incarnation,
		Replaceable:     replaceable,
		Replaced: func(peer geo.NodeID, incarnation uint32) {
			n.cfg.Log.Info("a peer was replaced", "peer", t.NodeName(peer), "incarnation", incarnation)
			n.box.put([]item{{from: peer, replaced: incarnation}})
		},
		Receiver: func(from geo.NodeID) wire.Receiver {
			n.peers[from] = &peerReceiver{n: n, from: from}
			return n.peers[from]
		},
		Client: func(c *wire.Conn) wire.Receiver {
			return &clientReceiver{n: n, client: &client{conn: c}}
		},
		ClientGone: func(*wire.Conn) {},
		Broken:     n.breakDown,
	})
	l := &n.loop
	l.n, l.epoch, l.least, l.pace = n, time.Since(cfg.Database.Epoch)-wire.Now(), math.MinInt64, make(chan struct{}, 1)
	// Each node and incarnation draws from its own stream, so that its random numbers do not depend on other nodes or
	// incarnations.
	l.chance = rand.NewPCG(cfg.Database.Seed, cfg.stream())
	l.rng, l.store, l.pending = rand.New(l.chance), cfg.Engine.MakeStore(), map[txn.ID]*client{}
	if err := n.rejoin(); err != nil {
		n.discard()
		return nil, err
	}
	n.params = params
	n.loop.replica = cfg.Engine.New(n.replicaConfig())
	return n, nil
}

// replicaConfig returns the configuration of the node's replica.
func (n *Node) replicaConfig() protocol.Config {
	return protocol.Config{
		Self:        n.cfg.ID,
		Incarnation: n.cfg.Incarnation,
		Topology:    n.topology,
		Params:      n.params,
		Procedures:  n.cfg.Procedures,
		Store:       n.loop.store,
		Env:         &n.loop,
	}
}

// newProcess returns a random name for a process.
func newProcess() string { return crand.Text()[:12] }

// check validates the configuration. It returns the engine's parameters and the nodes that new incarnations may
// replace. With a journal no node is replaceable, because nodes restart from their journals.
func (c *Config) check() (p protocol.Params, replaceable []geo.NodeID, err error) {
	if err := c.Database.Validate(); err != nil {
		return p, nil, err
	}
	p, errs := c.Engine.Resolve(c.Database.Parameters)
	if len(errs) > 0 {
		return p, nil, fmt.Errorf("parameters.%w", errs[0])
	}
	t := &c.Database.Topology
	if c.Journal == "" {
		replaceable = c.Engine.Replaceable(t, p)
	}
	switch {
	case int(c.ID) >= t.Nodes():
		err = fmt.Errorf("node %d: the database has nodes 0 to %d", c.ID, t.Nodes()-1)
	case c.Admin != nil && c.Credentials == "":
		err = errors.New("an administration server without credentials would answer everybody")
	case c.Incarnation > wire.MaxNodeIncarnation:
		err = fmt.Errorf("incarnation: %d is more than %d", c.Incarnation, wire.MaxNodeIncarnation)
	case c.Incarnation > 0 && !slices.Contains(replaceable, c.ID):
		err = fmt.Errorf("incarnation: %d: node %s has no later incarnations than 0: it has a journal, or engine %s does not replace it",
			c.Incarnation, t.NodeName(c.ID), c.Engine.Name)
	}
	return p, replaceable, err
}

// stream returns the number of the node's random number stream.
func (c *Config) stream() uint64 { return uint64(c.Incarnation)<<32 | uint64(c.ID) }

// rejoin loads the rows that every node stores into an incarnation other than the first, because other nodes do not
// send them.
func (n *Node) rejoin() error {
	req := n.cfg.Loaded
	if n.cfg.Incarnation == 0 || req == nil {
		return nil
	}
	w, err := n.cfg.ParseWorkload(req.Workload, req.Seed, n.topology)
	if err != nil {
		return fmt.Errorf("what the nodes were loaded with: %w", err)
	}
	everywhere := func(put func(txn.Key, []byte)) error { return workload.FillEverywhere(w, put) }
	return n.loop.fill(req, w, everywhere, n.checkMemory)
}

// Run runs the node until ctx is done or one of its servers fails. All its goroutines have stopped when it returns.
func (n *Node) Run(ctx context.Context) error {
	serving, stopServers := context.WithCancel(context.WithoutCancel(ctx))
	servers, serving := errgroup.WithContext(serving)
	defer func() {
		stopServers()
		_ = servers.Wait()
	}()
	// Serve administration also during a long replay of the log, so that the node counts as alive.
	n.cfg.serve(serving, servers, n, n.public(), n.strangers)
	// Wait for work outside the loop, so that no goroutine is left running.
	defer n.loop.beside.working.Wait()
	if n.loop.log != nil {
		defer n.loop.log.close()
	}
	if err := n.loop.begin(); err != nil {
		_ = n.cfg.Listener.Close()
		n.ended = fmt.Errorf("the log: %w", err)
		close(n.done)
		return n.ended
	}
	go n.loop.run()
	// Accept peers only after the replay, because until then the node does not know which of their frames are in its log.
	n.endpoint.Start(n.cfg.Listener)
	n.resumeDisturbances()
	if n.late != nil {
		servers.Go(func() error {
			n.late.Run(serving)
			return nil
		})
	}
	n.cfg.Log.Info("started", "process", n.process, "address", n.cfg.Listener.Addr().String(), "engine", n.cfg.Engine.Name)
	var err error
	select {
	case <-ctx.Done():
	case <-serving.Done():
		err = servers.Wait()
	case <-n.done:
		err = n.ended
	}
	n.endDisturbances()
	// Close the mailbox first. This releases receivers that wait for room in the mailbox, and the Close of the endpoint
	// waits for these receivers.
	n.box.close()
	n.endpoint.Close()
	<-n.done
	n.cfg.Log.Info("stopped")
	return err
}

// discard releases the resources of a node that was created but never run.
func (n *Node) discard() {
	if n.loop.log != nil {
		_ = n.loop.log.journal.Close()
	}
}

// serve starts the configured servers. Administration requests go to n.
func (c *Config) serve(ctx context.Context, group *errgroup.Group, n admin.Node, public http.Handler, strangers *identity.Unauthenticated) {
	start := func(what string, l net.Listener, h http.Handler) {
		group.Go(func() error {
			if err := admin.Serve(ctx, l, h); err != nil {
				return fmt.Errorf("%s server: %w", what, err)
			}
			return nil
		})
	}
	if l := c.Admin; l != nil {
		start("administration", c.Credentials.Listener(l, strangers.Turned), admin.NewHandler(n))
	}
	if l := c.Public; l != nil {
		start("metrics", l, public)
	}
}

// breakDown records that the database has lost state, and answers all waiting clients.
func (n *Node) breakDown(reason string) {
	n.broken.Store(&reason)
	n.cfg.Log.Error("broken", "reason", reason)
	n.box.post(n.loop.abandon)
}

// Process returns the name of this node's process.
func (n *Node) Process() string { return n.process }

// Ready returns the reason why the node does not accept transactions, or nil if it does.
func (n *Node) Ready() error {
	if ok, why := n.endpoint.Ready(); !ok {
		return errors.New(why)
	}
	return nil
}

const (
	// stuck is the time within which the loop must respond to Healthy.
	stuck = 30 * time.Second
	// rowsPerSign is the number of rows after which a load counts as a sign of life. A whole load may take minutes, but
	// these rows take only a few hundredths of a second.
	rowsPerSign = 1 << 16
)

// Healthy requests a sign of life from the loop. It returns an error if the loop has not responded to an earlier
// request for 30 s.
func (n *Node) Healthy() error {
	now := int64(wire.Now())
	if !n.asked.CompareAndSwap(0, now) {
		if asked := n.asked.Load(); asked != 0 && now-asked > int64(stuck) {
			return fmt.Errorf("the event loop has not turned for %v", time.Duration(now-asked).Round(time.Second))
		}
		return nil
	}
	// Every turn of the loop resets asked. The empty call makes an idle loop run a turn.
	n.box.post(func() {})
	return nil
}

var errStopped = errors.New("the node has stopped")

// call runs f on the loop. With a log, it waits until the effects of f are in the log, because the caller may report
// only effects that survive a restart.
func (n *Node) call(ctx context.Context, f func()) error {
	done := make(chan struct{})
	n.box.post(func() {
		f()
		n.loop.callers = append(n.loop.callers, done)
	})
	select {
	case <-done:
		return nil
	case <-n.done:
		return cmp.Or(n.ended, errStopped)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Status implements admin.Node.
func (n *Node) Status(ctx context.Context) (*admin.Status, error) {
	s := &admin.Status{
		Node:        n.topology.NodeName(n.cfg.ID),
		ID:          int(n.cfg.ID),
		Incarnation: n.cfg.Database.Incarnation,
		Process:     n.process,
		CPUSeconds:  late.CPUTime().Seconds(),
	}
	s.NodeIncarnation = n.cfg.Incarnation
	s.MemoryBytes, s.PeakMemoryBytes = memory()
	if n.late != nil {
		s.QuotaPeriods, s.ThrottledPeriods = late.Throttled(late.Cgroups)
	}
	// Collect everything in one call, so that all figures come from the same turn.
	err := n.call(ctx, func() {
		l := &n.loop
		s.Dataset = l.dataset
		s.Pending = l.unfinished()
		s.Rows, s.DataBytes, s.Operations = int64(l.store.Len()), l.store.Bytes(), int64(l.store.Ops())
		s.Counters, s.Gauges = n.cfg.Engine.ByKind(l.replica.Readings(nil))
		s.Roles = protocol.RolesOf(l.replica)
		s.Leads = protocol.LeadsOf(l.replica, &n.layout)
		if r, ok := l.replica.(protocol.Rejoiner); ok {
			s.Recovering = !r.FullyReplicated()
		}
	})
	if err != nil {
		return nil, err
	}
	s.Ready, s.Reason = n.endpoint.Ready()
	s.Requests, s.Answers = n.endpoint.ClientTraffic()
	s.Broken = n.broken.Load() != nil
	s.Disturbance, s.Ahead = n.disturbed()
	for r, name := range n.topology.Regions {
		l := admin.LinkStatus{To: name}
		l.Traffic = n.endpoint.Sent(geo.Region(r))
		if l.RTT, err = admin.EncodeRTT(n.endpoint.RoundTrips(geo.Region(r))); err != nil {
			return nil, err
		}
		if n.cfg.Prober != nil {
			if l.Mesh, err = n.cfg.Prober.MeshRTT(geo.Region(r)); err != nil {
				return nil, err
			}
		}
		s.Links = append(s.Links, l)
	}
	return s, nil
}

// Load implements admin.Node.
func (n *Node) Load(ctx context.Context, req *admin.LoadRequest) (*admin.LoadResponse, error) {
	if req.Dataset == "" {
		return nil, &admin.BadRequest{Err: errors.New("dataset: it is empty; give the data set a name")}
	}
	w, err := n.cfg.ParseWorkload(req.Workload, req.Seed, n.topology)
	if err != nil {
		return nil, &admin.BadRequest{Err: err}
	}
	n.gate.Lock()
	defer n.gate.Unlock()
	var resp *admin.LoadResponse
	callErr := n.call(ctx, func() {
		l := &n.loop
		// A repeated request must not reset rows that transactions have changed since the first request.
		if l.dataset == req.Dataset {
			resp = &l.loaded
			return
		}
		if p := l.unfinished(); p > 0 {
			err = fmt.Errorf("%w: %d transactions are pending", admin.ErrBusy, p)
			return
		}
		logged := *req
		if err = l.fill(req, w, l.rows(w), n.checkMemory); err == nil {
			resp = &l.loaded
		} else {
			// A failed load has emptied the node, so a replay must also empty the node. An empty request in the log stands for a
			// failed load.
			logged = admin.LoadRequest{}
		}
		if l.log != nil {
			b, marshalErr := json.Marshal(&logged)
			if err = errors.Join(err, marshalErr); marshalErr == nil {
				l.log.load(b)
			}
		}
	})
	if callErr != nil {
		return nil, callErr
	}
	if err != nil {
		return nil, err
	}
	out := *resp
	n.cfg.Log.Info("loaded", "dataset", req.Dataset, "rows", out.Rows, "bytes", out.Bytes)
	return &out, nil
}

// empty removes the data set, the rows and the run.
func (l *loop) empty(rows int) {
	l.store.Reset(rows)
	l.dataset, l.workload, l.request = "", nil, nil
	l.n.run.Store(nil)
}

// rows returns a function that calls put for all rows of workload w that this node stores.
func (l *loop) rows(w workload.Workload) func(put func(txn.Key, []byte)) error {
	return func(put func(txn.Key, []byte)) error { return workload.Fill(w, &l.n.layout, l.n.cfg.ID, put) }
}

// fill replaces the rows of the node with the rows of a data set. It periodically calls check with the number of rows
// so far, and fails if check fails. After an error the node is empty.
func (l *loop) fill(req *admin.LoadRequest, w workload.Workload, rows func(put func(txn.Key, []byte)) error, check func(rows int) error) error {
	l.empty(l.store.Len())
	n, full := 0, error(nil)
	put := func(k txn.Key, value []byte) {
		if n++; n%rowsPerSign == 0 && full == nil {
			// A large load takes longer than Healthy allows, so count each portion of rows as a sign of life.
			l.n.asked.Store(0)
			full = check(n)
		}
		if full == nil {
			l.store.Load(k, value)
		}
	}
	if err := cmp.Or(rows(put), full); err != nil {
		l.empty(0)
		return err
	}
	l.chance.Seed(req.Seed, l.n.cfg.stream()) // later random numbers depend on the run's seed
	l.holds(req, w)
	l.loaded = admin.LoadResponse{Rows: int64(l.store.Len()), Bytes: l.store.Bytes()}
	return nil
}

// holds records which data set is loaded.
func (l *loop) holds(req *admin.LoadRequest, w workload.Workload) {
	l.request, l.dataset, l.workload, l.traced = req, req.Dataset, w, req.Traced
	l.n.run.Store(&req.Run)
}

// Audit implements admin.Node.
func (n *Node) Audit(ctx context.Context) (*admin.Audit, error) {
	n.gate.Lock()
	defer n.gate.Unlock()
	a := &admin.Audit{}
	var err error
	callErr := n.call(ctx, func() {
		l := &n.loop
		if l.workload == nil {
			err = fmt.Errorf("%w: nothing was loaded yet", admin.ErrBusy)
			return
		}
		// An unfinished transaction could still change rows, so the audits of different nodes would not match.
		if p := l.unfinished(); p > 0 {
			err = fmt.Errorf("%w: %d transactions are pending", admin.ErrBusy, p)
			return
		}
		a.Shards = audit.Of(n.cfg.ID, &n.layout, l.store, l.workload, l.traced)
	})
	if callErr != nil {
		return nil, callErr
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}
