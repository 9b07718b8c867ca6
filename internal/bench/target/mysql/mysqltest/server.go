// Package mysqltest starts a real MariaDB for tests, as a single server or as a Galera cluster. It runs the programs of
// Debian's packages on the loopback interface, with their files in a temporary folder. Tests are skipped if MariaDB is
// not installed.
package mysqltest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
)

// User has all privileges on every server, with Password. Database exists on every server.
const (
	User     = "bench"
	Password = "correct-horse-battery-staple"
	Database = "app"
)

// readyWithin is the timeout for the start of a server, and poll is the polling interval.
const (
	readyWithin = 12 * time.Second
	poll        = 20 * time.Millisecond
)

// Server is a running MariaDB.
type Server struct {
	// Address is host:port on the loopback interface.
	Address string
	folder  string
	process *exec.Cmd
	ended   chan struct{}
}

// Files of Debian's packages mariadb-server-core and galera-4.
const (
	systemTables = "/usr/share/mysql/mysql_system_tables.sql"
	systemData   = "/usr/share/mysql/mysql_system_tables_data.sql"
	galera       = "/usr/lib/galera/libgalera_smm.so"
)

// program returns the path of mariadbd. It skips the test if MariaDB is not installed.
func program(t testing.TB) string {
	t.Helper()
	for _, path := range []string{"mariadbd", "/usr/sbin/mariadbd"} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	t.Skip("MariaDB is not installed, which this test needs: apt-get install mariadb-server-core")
	return ""
}

// base are the settings of every server. They keep the server small. The data need not survive a power failure, so the
// log is not synced.
var base = []string{"--no-defaults", "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--skip-name-resolve"}

// installation is a folder with the data of a new server. The server runs as the user in credential, who owns the
// folder; a nil credential means the user who runs the test.
type installation struct {
	program, folder string
	credential      *syscall.Credential
}

func install(t testing.TB) *installation {
	t.Helper()
	in := &installation{program: program(t)}
	folder, err := os.MkdirTemp("", "geobench-mysql-")
	if err != nil {
		t.Fatal(err)
	}
	in.folder = folder
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	if os.Getuid() == 0 { // the server refuses to run as root
		account, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		in.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	in.own(t, folder)
	data := filepath.Join(folder, "new")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	in.own(t, data)
	var script bytes.Buffer
	script.WriteString("create database mysql;\nuse mysql;\nset @auth_root_socket=NULL;\n")
	for _, path := range []string{systemTables, systemData} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		script.Write(text)
	}
	fmt.Fprintf(&script, "flush privileges;\ncreate database %s;\ncreate user %s@'%%' identified by '%s';\ngrant all on *.* to %[2]s@'%%' with grant option;\n", Database, User, Password)
	bootstrap := in.command(append(base, "--bootstrap", "--datadir="+data, "--tmpdir="+folder)...)
	bootstrap.Stdin = &script
	if out, err := bootstrap.CombinedOutput(); err != nil {
		t.Fatalf("mariadbd --bootstrap: %v: %s", err, out)
	}
	return in
}

func (in *installation) own(t testing.TB, path string) {
	t.Helper()
	if in.credential == nil {
		return
	}
	if err := os.Chown(path, int(in.credential.Uid), int(in.credential.Gid)); err != nil {
		t.Fatal(err)
	}
}

func (in *installation) command(args ...string) *exec.Cmd {
	c := exec.Command(in.program, args...)
	c.Env = append(os.Environ(), "PATH="+in.folder+":"+os.Getenv("PATH"))
	c.Dir, c.SysProcAttr = in.folder, &syscall.SysProcAttr{Credential: in.credential}
	return c
}

// copied copies the data of the new server to a folder with the given name.
func (in *installation) copied(t testing.TB, name string) (data string) {
	t.Helper()
	data = filepath.Join(in.folder, name)
	if err := os.CopyFS(data, os.DirFS(filepath.Join(in.folder, "new"))); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(data, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			in.own(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// start starts a server on data, and stops it at the end of the test.
func (in *installation) start(t testing.TB, name, data string, settings ...string) *Server {
	t.Helper()
	s := &Server{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(freePorts(t, 1)[0])), folder: in.folder, ended: make(chan struct{})}
	_, port, _ := net.SplitHostPort(s.Address)
	args := append(base, "--datadir="+data, "--tmpdir="+in.folder, "--bind-address=127.0.0.1", "--port="+port, "--socket="+filepath.Join(in.folder, name+".sock"), "--pid-file="+filepath.Join(in.folder, name+".pid"))
	s.process = in.command(append(args, settings...)...)
	log, err := os.Create(filepath.Join(in.folder, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.process.Stdout, s.process.Stderr = log, log
	s.launch(t, readyWithin, log.Name(), s.ready)
	return s
}

// launch starts the process of a server and waits until it is ready. It stops the process at the end of the test. If
// the start fails, it reports the end of the log file.
func (s *Server) launch(t testing.TB, within time.Duration, log string, ready func(context.Context) bool) {
	t.Helper()
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = s.process.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() { s.Stop(t) })
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !ready(ctx) {
		select {
		case <-tick.C:
		case <-s.ended:
			t.Fatalf("the server ended: %s", lastOf(log))
		case <-ctx.Done():
			t.Fatalf("the server was not ready within %v: %s", within, lastOf(log))
		}
	}
}

// lastOf returns the last 4 KiB of a file.
func lastOf(path string) string {
	const most = 4096
	text, _ := os.ReadFile(path)
	return string(text[max(0, len(text)-most):])
}

// StartTLS starts a server with a self-signed certificate for 127.0.0.1. caFile is the file with the certificate.
func StartTLS(t testing.TB) (s *Server, caFile string) {
	t.Helper()
	in := install(t)
	data := in.copied(t, "server")
	certificate, key := postgrestest.Certify(t)
	caFile = filepath.Join(data, "server.crt")
	for path, text := range map[string]string{caFile: certificate, filepath.Join(data, "server.key"): key} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		in.own(t, path)
	}
	return in.start(t, "server", data, "--ssl-cert="+caFile, "--ssl-key="+filepath.Join(data, "server.key")), caFile
}

// Start starts a server. settings are additional arguments, such as "--max-connections=30".
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	in := install(t)
	return in.start(t, "server", in.copied(t, "server"), settings...)
}

// transfer replaces Galera's script for state snapshot transfer. All nodes start with the same data. A joining node
// lacks only the cluster's later commits, which the donor sends separately. %s is the initial state.
const transfer = `#!/bin/sh
case "$*" in
*joiner*) echo "ready 127.0.0.1:1"; echo "%[1]s 0";;
*) echo "done %[1]s 0";;
esac
`

// StartGalera starts a cluster with the given number of nodes.
func StartGalera(t testing.TB, nodes int) []*Server {
	t.Helper()
	in := install(t)
	if _, err := os.Stat(galera); err != nil {
		t.Skip("Galera is not installed, which this test needs: apt-get install galera-4")
	}
	ports := freePorts(t, 2*nodes) // group and incremental-state-transfer port of each node
	var members []string
	for i := range nodes {
		members = append(members, fmt.Sprintf("127.0.0.1:%d", ports[2*i]))
	}
	node := func(i int, name, data, join string) *Server {
		return in.start(t, name, data, "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON", "--wsrep-provider="+galera,
			"--wsrep-cluster-name=geobench", "--wsrep-cluster-address="+join, "--wsrep-node-name="+name, "--wsrep-node-address=127.0.0.1", "--wsrep-sst-method=geobench",
			fmt.Sprintf("--wsrep-provider-options=gmcast.listen_addr=tcp://%s;base_port=%d;ist.recv_addr=127.0.0.1:%d;gcache.size=8M", members[i], ports[2*i], ports[2*i+1]))
	}
	// A single-node cluster creates the initial state of all nodes.
	const alone = "gcomm://"
	seed := node(0, "new-cluster", filepath.Join(in.folder, "new"), alone)
	if err := seed.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-seed.ended
	state, err := os.ReadFile(filepath.Join(in.folder, "new", "grastate.dat"))
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(in.folder, "wsrep_sst_geobench")
	if err := os.WriteFile(script, fmt.Appendf(nil, transfer, stateOf(string(state), "uuid:")+":"+stateOf(string(state), "seqno:")), 0o755); err != nil {
		t.Fatal(err)
	}
	in.own(t, script)
	var all []*Server
	for i := range nodes {
		join := "gcomm://" + strings.Join(members, ",")
		if i == 0 {
			join = alone
		}
		name := fmt.Sprintf("node%d", i+1)
		all = append(all, node(i, name, in.copied(t, name), join))
	}
	return all
}

// stateOf returns the word that follows name in grastate.dat.
func stateOf(text, name string) string {
	_, rest, _ := strings.Cut(text, name)
	word, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	return word
}

// freePorts returns ports on which no process listens.
func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for _, address := range postgrestest.FreeAddresses(t, n) {
		ports = append(ports, int(netip.MustParseAddrPort(address).Port()))
	}
	return ports
}

func (s *Server) open(database string) *sql.DB {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.DBName, c.Logger = "tcp", s.Address, User, Password, database, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		panic(err) // unreachable: the configuration is fixed
	}
	return sql.OpenDB(connector)
}

// ready reports whether the server accepts statements. A Galera node accepts them once it has joined its cluster.
func (s *Server) ready(ctx context.Context) bool {
	db := s.open(Database)
	defer db.Close() //nolint:errcheck // its answers have been read
	_, err := db.ExecContext(ctx, "select count(*) from mysql.user")
	return err == nil
}

// Query runs statements and returns the rows of the last statement as text.
func (s *Server) Query(t testing.TB, database string, statements ...string) (rows [][]string) {
	t.Helper()
	db := s.open(database)
	defer db.Close() //nolint:errcheck // its answers have been read
	for _, statement := range statements {
		r, err := db.Query(statement)
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		names, _ := r.Columns()
		rows = nil
		for r.Next() {
			texts, to := make([]string, len(names)), make([]any, len(names))
			for i := range texts {
				to[i] = &texts[i]
			}
			if err := r.Scan(to...); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, texts)
		}
		if err := r.Err(); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return rows
}

// Session returns a separate connection, which is closed at the end of the test.
func (s *Server) Session(t testing.TB) *sql.Conn {
	t.Helper()
	db := s.open(Database)
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Close(), db.Close() })
	return c
}

// Hold runs a statement in a transaction that keeps its locks until release is called. release rolls back the
// transaction.
func (s *Server) Hold(t testing.TB, statement string) (release func()) {
	t.Helper()
	db := s.open(Database)
	x, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return func() {
		t.Helper()
		if err := errors.Join(x.Rollback(), db.Close()); err != nil {
			t.Error(err)
		}
	}
}

// HoldBack keeps a Galera node from applying the commits of other nodes until resume is called. Meanwhile the node
// still serves reads.
func (s *Server) HoldBack(t testing.TB) (resume func()) {
	t.Helper()
	db := s.open(Database)
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"set global wsrep_desync = on", "flush tables with read lock"} {
		if _, err := c.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return func() {
		t.Helper()
		for _, statement := range []string{"unlock tables", "set global wsrep_desync = off"} {
			if _, err := c.ExecContext(t.Context(), statement); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		}
		_, _ = c.Close(), db.Close()
	}
}

// sessionsEndWithin is the time within which a server must notice that clients have disconnected.
const sessionsEndWithin = 30 * time.Second

// AwaitNoSessions waits until the server has no sessions except its own query, and fails after sessionsEndWithin.
func (s *Server) AwaitNoSessions(t testing.TB) {
	t.Helper()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		rows := s.Query(t, Database, "select count(*) from information_schema.processlist where user not in ('system user', 'event_scheduler') and id <> connection_id()")
		if rows[0][0] == "0" {
			return
		}
		if time.Since(begin) > sessionsEndWithin {
			t.Errorf("%s sessions are left after %v", rows[0][0], sessionsEndWithin)
			return
		}
	}
}

// Pause suspends the server's process until Continue. Its connections stay open, but it sends nothing.
func (s *Server) Pause(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Continue resumes a paused server.
func (s *Server) Continue(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, signal os.Signal) {
	t.Helper()
	if err := s.process.Process.Signal(signal); err != nil {
		t.Error(err)
	}
}

// Stop kills the server immediately, like a power failure of its machine.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	select {
	case <-s.ended:
		return
	default:
	}
	if err := s.process.Process.Kill(); err != nil {
		t.Error(err)
	}
	<-s.ended
}
