package node

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/net/wire"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/identity"
	"github.com/geobench/geobench/internal/ops/identity/identitytest"
)

// Only the operator can administer a node. Requests from other clients are rejected and have no effect. Metrics and
// health, which are public, are served on a separate port.
func TestAdministrationIsTheOperators(t *testing.T) {
	folder, operator := identitytest.Database(t)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	db := database("a")
	db.Nodes, db.Incarnation = []deploy.Node{{Address: "127.0.0.1:1"}}, "i"
	cfg := Config{Database: &db, Admin: listen(), Public: listen(), Listener: listen(), Engine: setEngine, Procedures: procedures, ParseWorkload: parse}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "would answer everybody") {
		t.Fatalf("a server without credentials: %v", err)
	}
	cfg.Credentials = folder
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	ask := func(with *tls.Config, method, url, body string) (int, string) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: with, DisableKeepAlives: true}, Timeout: 20 * time.Second}
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	private, public := cfg.Admin.Addr().String(), "http://"+cfg.Public.Addr().String()
	if code, body := ask(operator, "GET", "https://"+private+"/status", ""); code != 200 || !strings.Contains(body, `"incarnation":"i"`) {
		t.Errorf("the operator is told %d %s", code, body)
	}
	if code, body := ask(operator, "GET", "https://"+private+"/log", ""); code != 200 || !strings.Contains(body, `"late":{"sinceNanoseconds":`) {
		t.Errorf("the operator is told %d %s, and not how late the node is", code, body)
	}
	requests := map[string]string{"/status": "GET", "/log": "GET", "/audit": "GET", "/clock": "GET", "/disturb": "POST", "/load": "POST"}
	for path, method := range requests {
		for name, with := range map[string]*tls.Config{"without a certificate": {InsecureSkipVerify: true}, "with that of another authority": identitytest.Stranger(t)} {
			if code, body := ask(with, method, "https://"+private+path, `{"steps":[{"slowPercent":100}]}`); code != 0 {
				t.Errorf("a stranger %s asks for %s and is told %d %s", name, path, code, body)
			}
		}
		if code, body := ask(nil, method, "http://"+private+path, ""); code != 0 {
			t.Errorf("a stranger asks for %s without TLS and is told %d %s", path, code, body)
		}
		if code, body := ask(nil, method, public+path, ""); code != 404 {
			t.Errorf("anybody asks for %s and is told %d %s", path, code, body)
		}
	}
	// A client receives its rejection shortly before the node counts it.
	eventually(t, "all strangers are counted", func() bool { return n.strangers.Count() >= int64(3*len(requests)) })
	if d, _ := n.disturbed(); d != nil || len(n.Log().Entries) > 0 {
		t.Errorf("a stranger has disturbed the node: %+v", d)
	}
	if code, body := ask(nil, "GET", public+"/metrics", ""); code != 200 || strings.Contains(body, db.Incarnation+`"`) {
		t.Errorf("anybody is told %d %s", code, body)
	}
	if code, body := ask(nil, "GET", public+"/healthz", ""); code != 200 {
		t.Errorf("kubelet is told %d %s", code, body)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Nodes with keys accept each other, and accept clients of the run that last loaded its data. They accept no
// transaction from any other client, even over a connection that was opened earlier.
func TestOnlyClientsOfTheRun(t *testing.T) {
	folder, _ := identitytest.Database(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	l, err := StartLocal(ctx, database("a", "b"), LocalConfig{Engine: setEngine, Procedures: procedures, ParseWorkload: parse, Credentials: folder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	clients, err := folder.Read(identity.FileClients)
	if err != nil {
		t.Fatal(err)
	}
	db := l.Database()
	dial := func(run string, key []byte) (*wire.Conn, error) {
		return wire.Dial(ctx, db.Nodes[0].Address, wire.Hello{Database: db.Name, Incarnation: db.Incarnation, Process: "c", Run: run}, key, nil)
	}
	load := func(run string) {
		t.Helper()
		if _, err := l.Load(ctx, &admin.LoadRequest{Dataset: "of " + run, Workload: json.RawMessage(`{"ten": 1}`), Run: run}); err != nil {
			t.Fatal(err)
		}
	}
	ours := identity.ClientKey(clients, "ours")
	if _, err := dial("ours", ours); err == nil {
		t.Error("a client is let in before anything is loaded")
	}
	load("ours")
	conn, err := dial("ours", ours)
	if err != nil {
		t.Fatal(err)
	}
	c := &connection{t, conn, make(chan txn.Outcome, 100)}
	ended := make(chan error, 1)
	go func() { ended <- conn.Serve(c) }()
	defer conn.Close()
	c.send(1, 'x')
	c.expect(1, txn.Committed, "")
	for name, key := range map[string][]byte{"ours": identity.ClientKey(clients, "others"), "others": identity.ClientKey(clients, "others"), "": ours} {
		if _, err := dial(name, key); err == nil {
			t.Errorf("a client of run %q is let in", name)
		}
	}
	// A client receives its rejection shortly before the node counts it.
	eventually(t, "the four strangers are counted", func() bool { return l.Node(0).strangers.Count() == 4 })
	load("others")
	c.send(2, 'x')
	select {
	case <-ended:
	case <-ctx.Done():
		t.Error("a client of an earlier run is still served")
	}
	select {
	case o := <-c.outcomes:
		t.Errorf("its transaction was answered: %+v", o)
	default:
	}
	if other, err := dial("others", identity.ClientKey(clients, "others")); err != nil {
		t.Error(err)
	} else {
		other.Close()
	}

	// A failed load leaves the nodes without rows, so they must reject transactions.
	for i := range geo.NodeID(2) { // if one node fails, l.Load would cancel the requests to the others
		if _, err := l.Node(i).Load(ctx, &admin.LoadRequest{Dataset: "misplaced", Workload: json.RawMessage(`{"ten": {"misplaced": true}}`), Run: "others"}); err == nil {
			t.Fatal("misplaced rows are loaded")
		}
	}
	if _, err := dial("others", identity.ClientKey(clients, "others")); err == nil {
		t.Error("a client is let in after a load that failed")
	}
	if _, err := l.Node(0).Audit(ctx); !errors.Is(err, admin.ErrBusy) {
		t.Errorf("what failed to load is audited: error %v", err)
	}
	load("ours")
	if ours, err := dial("ours", ours); err != nil {
		t.Error(err)
	} else {
		ours.Close()
	}
}
