package node

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol/sdur"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// waiters runs a process for each node of a database. The processes wait for Join, because the engine replaces nodes
// that lost their state.
type waiters struct {
	t       *testing.T
	db      deploy.Database
	lobbies []*lobby
	public  []string
	ends    []func() error
}

func newWaiters(t *testing.T) *waiters {
	w := &waiters{t: t, db: database("a", "b", "c")}
	w.db.Engine, w.db.Incarnation, w.db.Epoch = "sdur", "i", time.Now()
	n := w.db.Topology.Nodes()
	w.lobbies, w.public, w.ends = make([]*lobby, n), make([]string, n), make([]func() error, n)
	for range n {
		l := w.listen("127.0.0.1:0")
		w.db.Nodes = append(w.db.Nodes, deploy.Node{Address: l.Addr().String()})
		_ = l.Close()
	}
	return w
}

func (w *waiters) listen(address string) net.Listener {
	w.t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// start starts a process for a node.
func (w *waiters) start(id geo.NodeID) *lobby {
	public := w.listen("127.0.0.1:0")
	l := newLobby(Config{Database: &w.db, ID: id, Engine: sdur.Engine, Procedures: procedures, ParseWorkload: parse, Public: public},
		func() (net.Listener, error) { return net.Listen("tcp", w.db.Nodes[id].Address) })
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.run(ctx) }()
	end := func() error {
		stop()
		err := <-ended
		ended <- err
		return err
	}
	w.t.Cleanup(func() { _ = end() })
	w.lobbies[id], w.public[id], w.ends[id] = l, "http://"+public.Addr().String(), end
	return l
}

func (w *waiters) join(l *lobby, incarnation uint32, loaded *admin.LoadRequest) {
	w.t.Helper()
	for range 2 { // the operator may repeat the call if it was killed before it recorded the first call
		if err := l.Join(w.t.Context(), &admin.Join{Process: l.process, NodeIncarnation: incarnation, Loaded: loaded}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *waiters) status(id geo.NodeID) *admin.Status {
	s, err := w.lobbies[id].Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// whole waits until all nodes are ready and the database is fully replicated.
func (w *waiters) whole() {
	w.t.Helper()
	eventually(w.t, "all nodes serve and nothing lacks a copy", func() bool {
		for id := range w.lobbies {
			if s := w.status(geo.NodeID(id)); !s.Ready || s.Recovering {
				return false
			}
		}
		return true
	})
}

func (w *waiters) get(id geo.NodeID, path string) (int, string) {
	w.t.Helper()
	resp, err := http.Get(w.public[id] + path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// A process that may not be the first process of its node waits. It is healthy but not ready, and invisible to other
// nodes. Once it receives its incarnation number, it becomes the node and keeps its process name. From other nodes, it
// obtains the state that its predecessor lost.
func TestProcessesWaitToBeTold(t *testing.T) {
	w := newWaiters(t)
	for id := range w.lobbies {
		w.start(geo.NodeID(id))
	}
	s := w.status(0)
	if !s.Waiting || s.Ready || s.Process != w.lobbies[0].process || s.Node != "a/0/0" || s.Incarnation != "i" {
		t.Errorf("a process that waits says %+v", s)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 200} {
		if code, body := w.get(0, path); code != want || strings.Contains(body, "geobench_node") {
			t.Errorf("%s of a process that waits: %d %s", path, code, body)
		}
	}
	load := &admin.LoadRequest{Dataset: "d", Workload: json.RawMessage(`{"ten":{}}`)}
	if _, err := w.lobbies[0].Load(t.Context(), load); !errors.Is(err, errWaits) {
		t.Errorf("a process that waits is loaded: %v", err)
	}
	if _, err := w.lobbies[0].Audit(t.Context()); !errors.Is(err, errWaits) {
		t.Errorf("a process that waits is audited: %v", err)
	}
	if err := w.lobbies[0].Disturb(t.Context(), &admin.Agenda{}); !errors.Is(err, errWaits) {
		t.Errorf("a process that waits is disturbed: %v", err)
	}
	for _, l := range w.lobbies {
		w.join(l, 0, nil)
	}
	w.whole()
	if w.lobbies[0].Log().Late == nil {
		t.Error("a node that has waited does not tell how late it is")
	}
	if code, body := w.get(0, "/metrics"); code != 200 || !strings.Contains(body, "geobench_node_ready") {
		t.Errorf("/metrics of a node: %d %s", code, body)
	}
	for id, l := range w.lobbies {
		if s := w.status(geo.NodeID(id)); s.Waiting || s.Process != l.process || s.Process != l.Log().Process {
			t.Errorf("process %s says %+v, and its log is that of %s", l.process, s, l.Log().Process)
		}
		if _, err := l.Load(t.Context(), load); err != nil {
			t.Fatal(err)
		}
	}

	if err := w.ends[1](); err != nil {
		t.Fatal(err)
	}
	next := w.start(1)
	if err := next.Join(t.Context(), &admin.Join{Process: "p", NodeIncarnation: 1}); err == nil || err.Error() != "process: this is process "+next.process+", not p" {
		t.Errorf("another process: %v", err)
	}
	w.join(next, 1, load)
	w.whole()
	if err := next.Join(t.Context(), &admin.Join{Process: next.process, NodeIncarnation: 2}); err == nil || !strings.Contains(err.Error(), "incarnation 1 already, not 2") {
		t.Errorf("another incarnation: %v", err)
	}
	copies := map[uint64]bool{}
	for id, l := range w.lobbies {
		s := w.status(geo.NodeID(id))
		if s.Broken || s.Rows != 10 || s.NodeIncarnation != []uint32{0, 1, 0}[id] {
			t.Errorf("node %d says %+v", id, s)
		}
		a, err := l.Audit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		copies[uint64(a.Shards[0].Digest)] = true
	}
	if len(copies) != 1 {
		t.Errorf("the copies are %v", copies)
	}
}

// If a process is assigned the incarnation of an earlier process, the nodes that know the earlier process report that
// state was lost.
func TestIncarnationsAreNotReused(t *testing.T) {
	w := newWaiters(t)
	for id := range w.lobbies {
		w.join(w.start(geo.NodeID(id)), 0, nil)
	}
	w.whole()
	if err := w.ends[2](); err != nil {
		t.Fatal(err)
	}
	w.join(w.start(2), 0, nil)
	eventually(t, "the others say that state was lost", func() bool { return w.status(0).Broken && w.status(1).Broken })
}
