package mysqltest

import (
	"context"
	"database/sql"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// SeekDB is the name of the environment variable with the path of seekdb (hack/seekdb.sh). seekdb is a single-machine
// server from OceanBase's vendor that uses OceanBase's kernel. Tests that need it are skipped if the variable is not
// set.
const SeekDB = "GEOBENCH_SEEKDB"

// oceanBaseReadyWithin is longer than MariaDB's timeout, because the server first creates its tables and files.
const oceanBaseReadyWithin = time.Minute

// StartOceanBase starts a seekdb, and stops it at the end of the test. The server listens only on a Unix socket; a
// forwarder makes it available at an address on the loopback interface.
func StartOceanBase(t testing.TB) *Server {
	t.Helper()
	program := os.Getenv(SeekDB)
	if program == "" {
		t.Skip(SeekDB + " names no seekdb, which this test needs: make test-oceanbase installs it")
	}
	folder, err := os.MkdirTemp("", "geobench-oceanbase-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	// The server stops when no process has a lock on this file. Normally the server's own clients hold the lock; here the
	// test's process holds it.
	if err := os.Mkdir(filepath.Join(folder, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	clients, err := os.Create(filepath.Join(folder, "run", "seekdb.clients"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = clients.Close() })
	if err := syscall.Flock(int(clients.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	s := &Server{Address: forward(t, filepath.Join(folder, "run", "sql.sock")), folder: folder, ended: make(chan struct{})}
	s.process = exec.Command(program, "--nodaemon", "--embedded", "--base-dir="+folder, "--parameter", "memory_limit=1G", "--parameter", "datafile_size=256M",
		"--parameter", "log_disk_size=2G", "--parameter", "cpu_count=2")
	s.process.Dir = folder
	s.process.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(program), "HOME="+folder)
	s.launch(t, oceanBaseReadyWithin, filepath.Join(folder, "log", "seekdb.log"), s.begin)
	return s
}

// begin creates the tests' user and database as root. It reports whether it succeeded.
func (s *Server) begin(ctx context.Context) bool {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Logger = "tcp", s.Address, "root", &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		panic(err) // unreachable: the configuration is fixed
	}
	db := sql.OpenDB(connector)
	defer db.Close() //nolint:errcheck // its answers have been read
	for _, statement := range []string{"create database if not exists " + Database, "create user if not exists " + User + "@'%' identified by '" + Password + "'", "grant all on *.* to " + User + "@'%'"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return false
		}
	}
	return true
}

// forward listens on the loopback interface and connects each client to a Unix socket.
func forward(t testing.TB, socket string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go join(from, socket)
		}
	}()
	return l.Addr().String()
}

// join copies data in both directions until both ends have closed.
func join(from net.Conn, socket string) {
	defer from.Close() //nolint:errcheck // both ends have closed
	to, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer to.Close() //nolint:errcheck // both ends have closed
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(to, from)
		_ = to.(*net.UnixConn).CloseWrite()
	})
	both.Go(func() {
		_, _ = io.Copy(from, to)
		_ = from.(*net.TCPConn).CloseWrite()
	})
	both.Wait()
}
