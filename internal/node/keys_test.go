package node

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/identity"
	"github.com/geobench/geobench/internal/txn"
	"github.com/geobench/geobench/internal/wire"
)

// credentials are keys of a database, as a pod finds them.
func credentials(t *testing.T) identity.Folder {
	t.Helper()
	folder := t.TempDir()
	for _, file := range []string{identity.FilePeer, identity.FileClients} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte("the key in "+file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return identity.Folder(folder)
}

// Nodes with keys let each other in, and the clients of the run that has loaded its data last: no transaction of anybody else is taken,
// not over a connection that was made before either.
func TestOnlyClientsOfTheRun(t *testing.T) {
	folder := credentials(t)
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
	if n := l.Node(0).strangers.total(); n != 4 {
		t.Errorf("%d strangers, want 4", n)
	}
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
}

// However many strangers come, the log has a line now and then.
func TestStrangersAreLoggedAtABoundedRate(t *testing.T) {
	var b bytes.Buffer
	n := &Node{cfg: Config{Log: slog.New(slog.NewTextHandler(&b, nil))}}
	for range 10_000 {
		n.stranger(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 5}, os.ErrPermission)
	}
	if lines := strings.Count(b.String(), "\n"); lines != 1 || n.strangers.total() != 10_000 || !strings.Contains(b.String(), "from=10.0.0.9:5") {
		t.Errorf("%d lines about %d strangers: %s", lines, n.strangers.total(), b.String())
	}
	n.strangers.last = time.Now().Add(-strangerEvery)
	n.stranger(&net.TCPAddr{}, os.ErrPermission)
	if !strings.Contains(b.String(), "count=10000") {
		t.Error(b.String())
	}
}
