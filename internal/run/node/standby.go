package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/identity"
	"github.com/geobench/geobench/internal/ops/metrics"
)

// Serve runs a node in its own process until ctx is done or the node fails. cfg must not have a Listener, because
// listen creates it. If new incarnations can replace the node, the process first waits for its incarnation number
// (admin.Joiner). Until then it does not listen, so other nodes do not see it.
func Serve(ctx context.Context, cfg Config, listen func() (net.Listener, error)) error {
	_, replaceable, err := cfg.check()
	if err != nil {
		return err
	}
	if slices.Contains(replaceable, cfg.ID) {
		return newLobby(cfg, listen).run(ctx)
	}
	n, err := cfg.on(listen)
	if err != nil {
		return err
	}
	return n.Run(ctx)
}

// on returns a node that uses the listener which listen creates.
func (c Config) on(listen func() (net.Listener, error)) (*Node, error) {
	var err error
	if c.Listener, err = listen(); err != nil {
		return nil, err
	}
	n, err := New(c)
	if err != nil {
		_ = c.Listener.Close()
	}
	return n, err
}

// lobby is a process that waits for its node's incarnation number and then becomes the node. The process cannot know
// whether it is the first process of the node. If it wrongly assumed this, it could vote again although an earlier
// process, which lost its state, has already voted.
type lobby struct {
	cfg       Config
	listen    func() (net.Listener, error)
	process   string
	strangers *identity.Unauthenticated
	log       *admin.Log // empty log, for a process that has had no disturbances

	mu     sync.Mutex
	told   *admin.Join   // the incarnation that Join assigned; nil before Join
	joined chan struct{} // closed once the incarnation is known

	node atomic.Pointer[Node] // nil until the process has joined
}

func newLobby(cfg Config, listen func() (net.Listener, error)) *lobby {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l := &lobby{cfg: cfg, listen: listen, process: newProcess(), strangers: &identity.Unauthenticated{Log: cfg.Log}, joined: make(chan struct{})}
	l.log = &admin.Log{Process: l.process, Since: admin.Monotonic()}
	return l
}

// run serves until ctx is done or something fails.
func (l *lobby) run(ctx context.Context) error {
	servers, serving := errgroup.WithContext(ctx)
	serving, stop := context.WithCancel(serving)
	defer func() {
		stop()
		_ = servers.Wait()
	}()
	l.cfg.serve(serving, servers, l, admin.NewPublicHandler(l, http.HandlerFunc(l.metrics)), l.strangers)
	l.cfg.Log.Info("waiting to be told which incarnation of its node this process is", "process", l.process)
	select {
	case <-serving.Done():
		return servers.Wait()
	case <-l.joined:
	}
	cfg := l.cfg
	cfg.Admin, cfg.Public = nil, nil // the lobby continues to serve both listeners
	cfg.Incarnation, cfg.Loaded = l.told.NodeIncarnation, l.told.Loaded
	cfg.process, cfg.strangers = l.process, l.strangers
	// Listen only now, so that no peer connects to a process whose incarnation is unknown.
	n, err := cfg.on(l.listen)
	if err != nil {
		return fmt.Errorf("as incarnation %d of its node: %w", cfg.Incarnation, err)
	}
	// Forward administration requests to the node from now on.
	l.node.Store(n)
	servers.Go(func() error { return n.Run(serving) })
	return servers.Wait()
}

// Join implements admin.Joiner.
func (l *lobby) Join(_ context.Context, j *admin.Join) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	// Another process of the node may have had the address when the request was sent. Only the addressed process may join.
	case j.Process != l.process:
		return &admin.BadRequest{Err: fmt.Errorf("process: this is process %s, not %s", l.process, j.Process)}
	case l.told != nil && l.told.NodeIncarnation != j.NodeIncarnation:
		return &admin.BadRequest{Err: fmt.Errorf("nodeIncarnation: this process is incarnation %d already, not %d", l.told.NodeIncarnation, j.NodeIncarnation)}
	// The operator repeats the request if it receives no answer. Only a different incarnation is an error.
	case l.told == nil:
		l.told = j
		close(l.joined)
	}
	return nil
}

// errWaits is the error with which a waiting process answers all requests except Join.
var errWaits = errors.New("this process waits to be told which incarnation of its node it is")

// Status implements admin.Node.
func (l *lobby) Status(ctx context.Context) (*admin.Status, error) {
	if n := l.node.Load(); n != nil {
		return n.Status(ctx)
	}
	s := &admin.Status{
		Node: l.cfg.Database.Topology.NodeName(l.cfg.ID), ID: int(l.cfg.ID), Incarnation: l.cfg.Database.Incarnation, Process: l.process,
		Waiting: true, Reason: errWaits.Error(), CPUSeconds: late.CPUTime().Seconds(),
	}
	s.MemoryBytes, s.PeakMemoryBytes = memory()
	return s, nil
}

// Load implements admin.Node.
func (l *lobby) Load(ctx context.Context, req *admin.LoadRequest) (*admin.LoadResponse, error) {
	if n := l.node.Load(); n != nil {
		return n.Load(ctx, req)
	}
	return nil, errWaits
}

// Audit implements admin.Node.
func (l *lobby) Audit(ctx context.Context) (*admin.Audit, error) {
	if n := l.node.Load(); n != nil {
		return n.Audit(ctx)
	}
	return nil, errWaits
}

// Healthy implements admin.Node.
func (l *lobby) Healthy() error {
	if n := l.node.Load(); n != nil {
		return n.Healthy()
	}
	return nil
}

// Ready implements admin.Node.
func (l *lobby) Ready() error {
	if n := l.node.Load(); n != nil {
		return n.Ready()
	}
	return errWaits
}

// Disturb implements admin.Disturbable.
func (l *lobby) Disturb(ctx context.Context, a *admin.Agenda) error {
	if n := l.node.Load(); n != nil {
		return n.Disturb(ctx, a)
	}
	return errWaits
}

// Log implements admin.Disturbable.
func (l *lobby) Log() *admin.Log {
	if n := l.node.Load(); n != nil {
		return n.Log()
	}
	return l.log
}

// metrics serves Prometheus metrics. A process that still waits has none.
func (l *lobby) metrics(w http.ResponseWriter, r *http.Request) {
	if n := l.node.Load(); n != nil {
		n.public().ServeHTTP(w, r)
		return
	}
	metrics.Handler(metrics.NewRegistry()).ServeHTTP(w, r)
}
