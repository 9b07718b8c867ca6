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

// LocalConfig is the configuration of StartLocal, in addition to the database.
type LocalConfig struct {
	Engine     *protocol.Engine
	Procedures *txn.Registry
	// ParseWorkload as in Config.
	ParseWorkload func(spec json.RawMessage, seed uint64, t *geo.Topology) (workload.Workload, error)
	// Journals is a folder for the nodes' logs of their inputs, a folder each; empty: nodes keep none and cannot be
	// started again.
	Journals string
	// CutJournal and Disk as in Config.
	CutJournal int64
	Disk       journal.Disk
	// Credentials as in Config.
	Credentials identity.Folder
	// Log may be nil.
	Log *slog.Logger
}

// Local is a database with all nodes in this process and TCP on the loopback interface between them.
type Local struct {
	db      deploy.Database
	cfg     LocalConfig
	nodes   []*member
	group   *errgroup.Group
	running context.Context
	cancel  context.CancelFunc
	loaded  atomic.Pointer[admin.LoadRequest] // last
}

// member is one of the nodes, over all its lives.
type member struct {
	mu    sync.Mutex
	node  *Node
	stop  context.CancelFunc
	ended chan struct{} // closed when nothing of the present life is left
	gone  bool          // by Stop
	// incarnation counts the lives that started without the state of the previous one.
	incarnation uint32
}

// StartLocal starts all nodes of db on free ports of 127.0.0.1, one each, and waits until they are ready. db needs no
// addresses; a missing epoch or incarnation is generated. Close the result; ctx bounds only the start.
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

// Database returns the database with the addresses filled in.
func (l *Local) Database() *deploy.Database { return &l.db }

// Node returns a node, for its status, loading and auditing.
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

// run begins a member's life.
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

// Load loads the data set into all nodes and returns the sum.
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
	l.loaded.Store(req)
	sum := &admin.LoadResponse{}
	for _, r := range responses {
		sum.Rows += r.Rows
		sum.Bytes += r.Bytes
	}
	return sum, nil
}

// Stop stops a node, discards its state in memory, and waits until it has stopped. The node stays stopped permanently,
// except for Restart and Replace.
func (l *Local) Stop(id geo.NodeID) {
	m := l.nodes[id]
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	m.stop()
	<-m.ended
}

// Restart starts a node again, from its log, that was stopped. LocalConfig.Journals must be set.
func (l *Local) Restart(id geo.NodeID) error {
	if l.cfg.Journals == "" {
		return fmt.Errorf("node %s: it has no log to start again from", l.db.Topology.NodeName(id))
	}
	return l.again(id, 0)
}

// Replace starts a new incarnation in the place of a stopped node: it has no state, and gets its state from other
// nodes. The engine must replace the node, and LocalConfig.Journals must not be set.
func (l *Local) Replace(id geo.NodeID) error { return l.again(id, 1) }

// again starts a node that was stopped, as an incarnation that is later by some.
func (l *Local) again(id geo.NodeID, later uint32) error {
	m := l.nodes[id]
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.gone {
		return nil
	}
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
	m.incarnation += later
	l.run(m)
	return nil
}

// Whole reports whether all running nodes have reached each other, and no data of which they have copies lacks a copy.
func (l *Local) Whole(ctx context.Context) (bool, error) {
	statuses, err := l.Status(ctx)
	if err != nil {
		return false, err
	}
	for _, s := range statuses {
		if !l.Stopped(geo.NodeID(s.ID)) && (!s.Ready || s.Recovering) {
			return false, nil
		}
	}
	return true, nil
}

// Status returns the status of every node, by geo.NodeID; the status of a stopped node has only that.
func (l *Local) Status(ctx context.Context) ([]*admin.Status, error) {
	return each(ctx, l, func(n *Node, ctx context.Context) (*admin.Status, error) {
		if l.Stopped(n.cfg.ID) {
			return &admin.Status{Node: l.db.Topology.NodeName(n.cfg.ID), ID: int(n.cfg.ID), Process: n.process, Incarnation: l.db.Incarnation, Reason: "it was stopped"}, nil
		}
		return n.Status(ctx)
	})
}

// Metrics takes the figures of a node when Prometheus asks for them, whichever process is in its place.
func (l *Local) Metrics(id geo.NodeID) prometheus.Collector {
	return l.Node(id).metrics(func(put metrics.Put) { l.Node(id).collect(put) })
}

// Stopped reports whether a node was stopped and not restarted.
func (l *Local) Stopped(id geo.NodeID) bool {
	m := l.nodes[id]
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone
}

// Audit audits every node, by geo.NodeID, except nodes for which skip returns true; their audits are empty. It fails
// with admin.ErrBusy while transactions are pending anywhere.
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
			return nil, cmp.Or(l.ended(), fmt.Errorf("node %s: %w", l.db.Topology.NodeName(geo.NodeID(i)), err))
		}
	}
	return out, nil
}

// Broken returns the reason why the database has lost state, so that it will never become quiescent: a node's report
// about another node. It is nil if no state is lost.
func (l *Local) Broken() error {
	for i := range l.nodes {
		if reason := l.Node(geo.NodeID(i)).broken.Load(); reason != nil && !l.Stopped(geo.NodeID(i)) {
			return fmt.Errorf("node %s: %s", l.db.Topology.NodeName(geo.NodeID(i)), *reason)
		}
	}
	return nil
}

// ended returns why a node has ended by itself, and with it all others; nil when none has.
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

// Close stops all nodes and waits until nothing is left of them.
func (l *Local) Close() error {
	l.cancel()
	return l.group.Wait()
}
