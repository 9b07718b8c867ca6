package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/journal"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/identity"
	"github.com/geobench/geobench/internal/ops/metrics"
)

// LocalConfig contains the settings of StartLocal apart from the database.
type LocalConfig struct {
	Engine     *protocol.Engine
	Procedures *txn.Registry
	// ParseWorkload is passed to the nodes as Config.ParseWorkload.
	ParseWorkload func(spec json.RawMessage, seed uint64, t *geo.Topology) (workload.Workload, error)
	// Journals is a folder for the logs of the nodes' inputs, with a subfolder for each node. If it is empty, the nodes
	// keep no logs and cannot be restarted.
	Journals string
	// CutJournal and Disk are defined as in Config.
	CutJournal int64
	Disk       journal.Disk
	// Credentials are passed to the nodes as Config.Credentials.
	Credentials identity.Folder
	// Log may be nil, which discards all messages.
	Log *slog.Logger
}

// Local is a database with all its nodes in this process, connected by TCP on the loopback interface.
type Local struct {
	db      deploy.Database
	cfg     LocalConfig
	nodes   []*member
	group   *errgroup.Group
	running context.Context
	cancel  context.CancelFunc
	loaded  atomic.Pointer[admin.LoadRequest] // the last loaded data set
}

// member is a node of a Local database. It persists across restarts and replacements of the node.
type member struct {
	mu    sync.Mutex
	node  *Node
	stop  context.CancelFunc
	ended chan struct{} // closed once node has stopped completely
	gone  bool          // stopped by Stop and not started again
	// incarnation is the number of times the node was replaced by a new one without state.
	incarnation uint32
}

// StartLocal starts all nodes of db on free ports of 127.0.0.1, and waits until they are ready. db needs no addresses.
// StartLocal generates an epoch or incarnation that is missing. The caller must close the result; ctx bounds only the
// start.
func StartLocal(ctx context.Context, db deploy.Database, cfg LocalConfig) (_ *Local, err error) {
	if db.Epoch.IsZero() {
		db.Epoch = time.Now()
	}
	if db.Incarnation == "" {
		db.Incarnation = "local"
	}
	if err := db.Topology.Validate(); err != nil {
		return nil, fmt.Errorf("topology.%w", err)
	}
	var listeners []net.Listener
	defer func() {
		if err != nil {
			for _, l := range listeners {
				_ = l.Close()
			}
		}
	}()
	// Open all listeners first: every node needs the addresses of all other nodes.
	db.Nodes = make([]deploy.Node, db.Topology.Nodes())
	for i := range db.Nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
		db.Nodes[i].Address = l.Addr().String()
	}
	l := &Local{db: db, cfg: cfg, nodes: make([]*member, len(db.Nodes))}
	for i := range l.nodes {
		l.nodes[i] = &member{}
		if l.nodes[i].node, err = l.newNode(geo.NodeID(i), 0, listeners[i]); err != nil {
			// The nodes created so far hold open journals.
			for _, m := range l.nodes[:i] {
				m.node.discard()
			}
			return nil, err
		}
	}
	running, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.group, running = errgroup.WithContext(running)
	l.running = running
	for _, m := range l.nodes {
		l.run(m)
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		notReady := error(nil)
		for _, m := range l.nodes {
			if notReady = m.node.Ready(); notReady != nil {
				break
			}
		}
		if notReady == nil {
			return l, nil
		}
		select {
		case <-tick.C:
		case <-running.Done():
			return nil, errors.Join(errors.New("a node ended before all were ready"), l.Close())
		case <-ctx.Done():
			_ = l.Close()
			return nil, fmt.Errorf("the nodes did not get ready: %w: %w", notReady, ctx.Err())
		}
	}
}

// Database returns the database with the nodes' addresses.
func (l *Local) Database() *deploy.Database { return &l.db }

// Node returns the current Node with this ID, for its status, loading and auditing.
func (l *Local) Node(id geo.NodeID) *Node {
	m := l.nodes[id]
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.node
}

func (l *Local) newNode(id geo.NodeID, incarnation uint32, listener net.Listener) (*Node, error) {
	cfg := Config{
		Database:      &l.db,
		ID:            id,
		Incarnation:   incarnation,
		Loaded:        l.loaded.Load(),
		Listener:      listener,
		Engine:        l.cfg.Engine,
		Procedures:    l.cfg.Procedures,
		ParseWorkload: l.cfg.ParseWorkload,
		CutJournal:    l.cfg.CutJournal,
		Disk:          l.cfg.Disk,
		Credentials:   l.cfg.Credentials,
		Log:           l.cfg.Log,
	}
	if l.cfg.Journals != "" {
		cfg.Journal = filepath.Join(l.cfg.Journals, strconv.Itoa(int(id)))
	}
	return New(cfg)
}

// run starts the current Node of a member.
func (l *Local) run(m *member) {
	ctx, stop := context.WithCancel(l.running)
	n, ended := m.node, make(chan struct{})
	m.stop, m.ended, m.gone = stop, ended, false
	l.group.Go(func() error {
		defer close(ended)
		defer stop()
		return n.Run(ctx)
	})
}

// Load loads the data set into all nodes and returns the totals.
func (l *Local) Load(ctx context.Context, req *admin.LoadRequest) (*admin.LoadResponse, error) {
	responses := make([]*admin.LoadResponse, len(l.nodes))
	g, ctx := errgroup.WithContext(ctx)
	for i := range l.nodes {
		g.Go(func() (err error) {
			if responses[i], err = l.Node(geo.NodeID(i)).Load(ctx, req); err != nil {
				return fmt.Errorf("node %s: %w", l.db.Topology.NodeName(geo.NodeID(i)), err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	// A replacement uses this request to load the rows that every node stores.
	l.loaded.Store(req)
	sum := &admin.LoadResponse{}
	for _, r := range responses {
		sum.Rows += r.Rows
		sum.Bytes += r.Bytes
	}
	return sum, nil
}

// Stop stops a node and waits until it has stopped. The node loses its state in memory, and stays stopped until Restart
// or Replace.
func (l *Local) Stop(id geo.NodeID) {
	m := l.nodes[id]
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	m.stop()
	<-m.ended
}

// Restart restarts a stopped node from its log. LocalConfig.Journals must be set.
func (l *Local) Restart(id geo.NodeID) error {
	if l.cfg.Journals == "" {
		return fmt.Errorf("node %s: it has no log to start again from", l.db.Topology.NodeName(id))
	}
	return l.again(id, 0)
}

// Replace starts a new incarnation of a stopped node. The new incarnation starts without state and obtains it from
// other nodes. The engine must support the replacement of this node, and LocalConfig.Journals must be empty.
func (l *Local) Replace(id geo.NodeID) error { return l.again(id, 1) }

// again starts a stopped node, with its incarnation number increased by later. It does nothing if the node is not
// stopped.
func (l *Local) again(id geo.NodeID, later uint32) error {
	m := l.nodes[id]
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.gone {
		return nil
	}
	// Peers know the node by its address, so listen on the same port again.
	listener, err := net.Listen("tcp", l.db.Nodes[id].Address)
	if err != nil {
		return err
	}
	n, err := l.newNode(id, m.incarnation+later, listener)
	if err != nil {
		_ = listener.Close()
		return err
	}
	m.node = n
	// Increase the incarnation only after the node was created, so that a retry after a failure uses the same number.
	m.incarnation += later
	l.run(m)
	return nil
}

// Whole reports whether all running nodes are connected to each other and all their data is fully replicated.
func (l *Local) Whole(ctx context.Context) (bool, error) {
	statuses, err := l.Status(ctx)
	if err != nil {
		return false, err
	}
	for _, s := range statuses {
		// Skip stopped nodes, which cannot report. While a copy of the data is missing, the other nodes report Recovering.
		if !l.Stopped(geo.NodeID(s.ID)) && (!s.Ready || s.Recovering) {
			return false, nil
		}
	}
	return true, nil
}

// Status returns the status of every node, indexed by geo.NodeID. The status of a stopped node contains only its
// identity and the reason.
func (l *Local) Status(ctx context.Context) ([]*admin.Status, error) {
	return each(ctx, l, func(n *Node, ctx context.Context) (*admin.Status, error) {
		if l.Stopped(n.cfg.ID) {
			return &admin.Status{Node: l.db.Topology.NodeName(n.cfg.ID), ID: int(n.cfg.ID), Process: n.process, Incarnation: l.db.Incarnation, Reason: "it was stopped"}, nil
		}
		return n.Status(ctx)
	})
}

// Metrics returns a collector for a node's figures. After a restart or replacement it reads the new Node.
func (l *Local) Metrics(id geo.NodeID) prometheus.Collector {
	return l.Node(id).metrics(func(put metrics.Put) { l.Node(id).collect(put) })
}

// Stopped reports whether a node was stopped and has not started again.
func (l *Local) Stopped(id geo.NodeID) bool {
	m := l.nodes[id]
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone
}

// Audit audits every node and returns the results, indexed by geo.NodeID. Nodes for which skip returns true are not
// audited; their results are empty. Audit fails with admin.ErrBusy while transactions are pending on any audited node.
func (l *Local) Audit(ctx context.Context, skip func(geo.NodeID) bool) ([][]store.ShardSums, error) {
	return each(ctx, l, func(n *Node, ctx context.Context) ([]store.ShardSums, error) {
		if skip != nil && skip(n.cfg.ID) {
			return nil, nil
		}
		a, err := n.Audit(ctx)
		if err != nil {
			return nil, err
		}
		return a.Shards, nil
	})
}

func each[T any](ctx context.Context, l *Local, f func(*Node, context.Context) (T, error)) ([]T, error) {
	out := make([]T, len(l.nodes))
	for i := range l.nodes {
		var err error
		if out[i], err = f(l.Node(geo.NodeID(i)), ctx); err != nil {
			// If a node stopped by itself, report its error: the failed call is only a consequence.
			return nil, cmp.Or(l.ended(), fmt.Errorf("node %s: %w", l.db.Topology.NodeName(geo.NodeID(i)), err))
		}
	}
	return out, nil
}

// Broken returns the reason why the database has lost state and will never become quiescent, as reported by a running
// node. It returns nil if no state is lost.
func (l *Local) Broken() error {
	for i := range l.nodes {
		if reason := l.Node(geo.NodeID(i)).broken.Load(); reason != nil && !l.Stopped(geo.NodeID(i)) {
			return fmt.Errorf("node %s: %s", l.db.Topology.NodeName(geo.NodeID(i)), *reason)
		}
	}
	return nil
}

// ended returns the error of a node that stopped on its own, or nil if there is none. All other nodes stop when a node
// does so.
func (l *Local) ended() error {
	for i := range l.nodes {
		n := l.Node(geo.NodeID(i))
		select {
		case <-n.done:
			if n.ended != nil {
				return fmt.Errorf("node %s: %w", l.db.Topology.NodeName(geo.NodeID(i)), n.ended)
			}
		default:
		}
	}
	return nil
}

// Close stops all nodes and waits until they have stopped.
func (l *Local) Close() error {
	l.cancel()
	return l.group.Wait()
}
