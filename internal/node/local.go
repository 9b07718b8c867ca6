package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/deploy"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/txn"
	"github.com/geobench/geobench/internal/workload"
)

// LocalConfig is what StartLocal needs besides the database.
type LocalConfig struct {
	Engine     *protocol.Engine
	Procedures *txn.Registry
	// ParseWorkload as in Config.
	ParseWorkload func(spec json.RawMessage, seed uint64, t *geo.Topology) (workload.Workload, error)
	// Log may be nil.
	Log *slog.Logger
}

// Local is a database whose nodes all run in this process, with TCP on the loopback interface between them.
type Local struct {
	db     deploy.Database
	nodes  []*Node
	group  *errgroup.Group
	cancel context.CancelFunc
	stops  []context.CancelFunc // of each node
	gone   []atomic.Bool        // by Stop
}

// StartLocal starts all nodes of db on free ports of 127.0.0.1 and waits until they are ready. db needs no addresses;
// an epoch or incarnation that is missing is made up. Close the result; ctx bounds the start alone.
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
		for _, address := range []*string{&db.Nodes[i].Address, &db.Nodes[i].Admin} {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			listeners = append(listeners, l)
			*address = l.Addr().String()
		}
	}
	l := &Local{db: db, nodes: make([]*Node, len(db.Nodes)), gone: make([]atomic.Bool, len(db.Nodes))}
	for i := range l.nodes {
		l.nodes[i], err = New(Config{
			Database:      &l.db,
			ID:            geo.NodeID(i),
			Listener:      listeners[2*i],
			Admin:         listeners[2*i+1],
			Engine:        cfg.Engine,
			Procedures:    cfg.Procedures,
			ParseWorkload: cfg.ParseWorkload,
			Log:           cfg.Log,
		})
		if err != nil {
			return nil, err
		}
	}
	running, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.group, running = errgroup.WithContext(running)
	for _, n := range l.nodes {
		one, stop := context.WithCancel(running)
		l.stops = append(l.stops, stop)
		l.group.Go(func() error {
			defer stop()
			return n.Run(one)
		})
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		notReady := error(nil)
		for _, n := range l.nodes {
			if notReady = n.Ready(); notReady != nil {
				break
			}
		}
		if notReady == nil {
			return l, nil
		}
		select {
		case <-tick.C:
		case <-running.Done():
			return nil, l.Close()
		case <-ctx.Done():
			_ = l.Close()
			return nil, fmt.Errorf("the nodes did not get ready: %w: %w", notReady, ctx.Err())
		}
	}
}

// Database returns the database with the addresses filled in.
func (l *Local) Database() *deploy.Database { return &l.db }

// Node returns a node, for its status, loading and auditing.
func (l *Local) Node(id geo.NodeID) *Node { return l.nodes[id] }

// Load loads the data set into all nodes and returns the sum.
func (l *Local) Load(ctx context.Context, req *admin.LoadRequest) (*admin.LoadResponse, error) {
	responses := make([]*admin.LoadResponse, len(l.nodes))
	g, ctx := errgroup.WithContext(ctx)
	for i, n := range l.nodes {
		g.Go(func() (err error) {
			if responses[i], err = n.Load(ctx, req); err != nil {
				return fmt.Errorf("node %s: %w", l.db.Topology.NodeName(geo.NodeID(i)), err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	sum := &admin.LoadResponse{}
	for _, r := range responses {
		sum.Rows += r.Rows
		sum.Bytes += r.Bytes
	}
	return sum, nil
}

// Stop ends a node for good, with what it holds, and waits until it has.
func (l *Local) Stop(id geo.NodeID) {
	l.gone[id].Store(true)
	l.stops[id]()
	<-l.nodes[id].done
}

// Status returns the status of every node, by geo.NodeID; of one that was stopped it says just that.
func (l *Local) Status(ctx context.Context) ([]*admin.Status, error) {
	return each(ctx, l, func(n *Node, ctx context.Context) (*admin.Status, error) {
		if l.gone[n.cfg.ID].Load() {
			return &admin.Status{Node: l.db.Topology.NodeName(n.cfg.ID), ID: int(n.cfg.ID), Process: n.process, Incarnation: l.db.Incarnation, Reason: "it was stopped"}, nil
		}
		return n.Status(ctx)
	})
}

// Audit audits every node, by geo.NodeID, but those that skip names, whose audits are empty. It fails with admin.ErrBusy while transactions are pending anywhere.
func (l *Local) Audit(ctx context.Context, skip func(geo.NodeID) bool) ([]*admin.Audit, error) {
	return each(ctx, l, func(n *Node, ctx context.Context) (*admin.Audit, error) {
		if skip != nil && skip(n.cfg.ID) {
			return &admin.Audit{}, nil
		}
		return n.Audit(ctx)
	})
}

func each[T any](ctx context.Context, l *Local, f func(*Node, context.Context) (T, error)) ([]T, error) {
	out := make([]T, len(l.nodes))
	for i, n := range l.nodes {
		var err error
		if out[i], err = f(n, ctx); err != nil {
			return nil, fmt.Errorf("node %s: %w", l.db.Topology.NodeName(geo.NodeID(i)), err)
		}
	}
	return out, nil
}

// Close stops all nodes and waits until nothing is left of them.
func (l *Local) Close() error {
	l.cancel()
	return l.group.Wait()
}
