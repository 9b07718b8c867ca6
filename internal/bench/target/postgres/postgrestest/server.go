// Package postgrestest starts a real PostgreSQL for tests. It runs the programs of Debian's packages on the loopback
// interface, with their files in a temporary folder. Tests are skipped if PostgreSQL is not installed.
package postgrestest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// User and Password are the credentials of the superuser of every server.
const (
	User     = "postgres"
	Password = "correct-horse-battery-staple"
)

// readyWithin is the timeout for the start of a server.
const readyWithin = time.Minute

// Server is a running PostgreSQL.
type Server struct {
	// Address is host:port on the loopback interface. Folder is the data directory.
	Address, Folder string
	// CAFile is the file with the CA certificate of a server with TLS, or "".
	CAFile  string
	start   func(t testing.TB) *exec.Cmd
	process *exec.Cmd
	ended   chan struct{}
}

// Program returns the path of a PostgreSQL program, in the newest version if Debian has several. It skips the test if
// PostgreSQL is not installed.
func Program(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed, which this test needs: apt-get install postgresql")
	}
	return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
}

// version returns the version in a path .../VERSION/bin/NAME.
func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// Start starts a server, and stops it at the end of the test. settings are additional settings, such as "ssl=on".
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	initdb := Program(t, "initdb")
	folder, err := os.MkdirTemp("", "geobench-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Folder: filepath.Join(folder, "data")}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	credential := unprivileged(t, folder)
	run := func(program string, args ...string) *exec.Cmd {
		c := exec.Command(program, args...)
		c.Dir, c.SysProcAttr = folder, &syscall.SysProcAttr{Credential: credential}
		return c
	}
	password := filepath.Join(folder, "password")
	own(t, credential, password, Password)
	if out, err := run(initdb, "-D", s.Folder, "-U", User, "-A", "scram-sha-256", "--pwfile", password, "-E", "UTF8", "--no-locale", "-N").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	if slices.Contains(settings, "ssl=on") {
		s.CAFile = filepath.Join(folder, "ca.crt")
		certificate, key := Certify(t)
		own(t, credential, s.CAFile, certificate)
		own(t, credential, filepath.Join(s.Folder, "server.crt"), certificate)
		own(t, credential, filepath.Join(s.Folder, "server.key"), key)
	}
	s.Address = freeAddress(t)
	_, port, _ := net.SplitHostPort(s.Address)
	args := []string{"-D", s.Folder}
	for _, setting := range append([]string{"listen_addresses=127.0.0.1", "port=" + port, "unix_socket_directories=", "fsync=off", "shared_buffers=64MB", "log_statement=all"}, settings...) {
		args = append(args, "-c", setting)
	}
	s.launch(t, run, args)
	return s
}

// Standby starts a standby that streams from the server, and stops it at the end of the test.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	folder, err := os.MkdirTemp("", "geobench-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	b := &Server{Folder: filepath.Join(folder, "data"), Address: freeAddress(t)}
	credential := unprivileged(t, folder)
	run := func(program string, args ...string) *exec.Cmd {
		c := exec.Command(program, args...)
		c.Dir, c.SysProcAttr = folder, &syscall.SysProcAttr{Credential: credential}
		c.Env = append(os.Environ(), "PGPASSWORD="+Password)
		return c
	}
	host, port, _ := net.SplitHostPort(s.Address)
	if out, err := run(Program(t, "pg_basebackup"), "-D", b.Folder, "-h", host, "-p", port, "-U", User, "-R", "-c", "fast", "-X", "stream").CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v: %s", err, out)
	}
	_, port, _ = net.SplitHostPort(b.Address)
	args := []string{"-D", b.Folder}
	for _, setting := range []string{"listen_addresses=127.0.0.1", "port=" + port, "unix_socket_directories=", "fsync=off", "shared_buffers=64MB"} {
		args = append(args, "-c", setting)
	}
	b.launch(t, run, args)
	return b
}

// launch starts the server, and stops it at the end of the test.
func (s *Server) launch(t testing.TB, run func(program string, args ...string) *exec.Cmd, args []string) {
	t.Helper()
	s.start = func(t testing.TB) *exec.Cmd {
		log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		c := run(Program(t, "postgres"), args...)
		c.Stdout, c.Stderr = log, log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Cleanup(func() { s.Stop(t) })
	s.Restart(t)
}

// Restart starts a stopped server again, with the same data and address.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	process, ended := s.start(t), make(chan struct{})
	s.process, s.ended = process, ended
	go func() {
		_ = process.Wait()
		close(ended)
	}()
	s.ready(t)
}

// unprivileged returns the credential with which the server runs, and makes the user of this credential the owner of
// folder. The server refuses to run as root. A nil credential means the user who runs the test.
func unprivileged(t testing.TB, folder string) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	account, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	if err := os.Chown(folder, uid, gid); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// own writes a file that only the server's user can read.
func own(t testing.TB, c *syscall.Credential, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if c != nil {
		if err := os.Chown(path, int(c.Uid), int(c.Gid)); err != nil {
			t.Fatal(err)
		}
	}
}

// Certify returns a self-signed certificate for 127.0.0.1 and its key, both in PEM.
func Certify(t testing.TB) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "postgrestest"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
}

// freeAddress returns an address on which no process listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (s *Server) ready(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := s.connect(ctx, "postgres")
		if err == nil {
			_ = c.Close(ctx)
			return
		}
		select {
		case <-tick.C:
		case <-s.ended:
			text, _ := os.ReadFile(s.log())
			t.Fatalf("the server ended: %s", text)
		case <-ctx.Done():
			t.Fatalf("the server was not ready within %v: %v", readyWithin, err)
		}
	}
}

func (s *Server) log() string { return filepath.Join(filepath.Dir(s.Folder), "log") }

// Log returns the server's log.
func (s *Server) Log(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(s.log())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (s *Server) connect(ctx context.Context, database string) (*pgconn.PgConn, error) {
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return nil, err
	}
	c, err := pgconn.ParseConfig(fmt.Sprintf("host=%s port=%s user=%s dbname=%s sslmode=disable", host, port, User, database))
	if err != nil {
		return nil, err
	}
	c.Password = Password
	return pgconn.ConnectConfig(ctx, c)
}

// Query runs SQL in a database as the superuser, and returns the rows of the last statement as text.
func (s *Server) Query(t testing.TB, database, sql string) (rows [][]string) {
	t.Helper()
	c, err := s.connect(context.Background(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // its answers have been read
	results, err := c.Exec(context.Background(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	for _, r := range results[len(results)-1].Rows {
		var texts []string
		for _, v := range r {
			texts = append(texts, string(v))
		}
		rows = append(rows, texts)
	}
	return rows
}

// Database creates a database.
func (s *Server) Database(t testing.TB, name string) {
	t.Helper()
	s.Query(t, "postgres", "create database "+name)
}

// sessionsEndWithin is the time within which a server must notice that clients have disconnected.
const sessionsEndWithin = 30 * time.Second

// AwaitStandby waits until a standby has replayed everything that the server has committed.
func (s *Server) AwaitStandby(t testing.TB, standby *Server) {
	t.Helper()
	at := s.Query(t, "postgres", "select pg_current_wal_lsn()")[0][0]
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); standby.Query(t, "postgres", "select pg_last_wal_replay_lsn() >= '"+at+"'")[0][0] != "t"; <-tick.C {
		if time.Since(begin) > readyWithin {
			t.Fatalf("the standby did not reach %s within %v", at, readyWithin)
		}
	}
}

// AwaitNoSessions waits until the server has no sessions whose application_name starts with prefix, and fails after
// sessionsEndWithin.
func (s *Server) AwaitNoSessions(t testing.TB, prefix string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		rows := s.Query(t, "postgres", "select count(*) from pg_stat_activity where application_name like '"+strings.ReplaceAll(prefix, "'", "''")+"%'")
		if rows[0][0] == "0" {
			return
		}
		if time.Since(begin) > sessionsEndWithin {
			t.Errorf("%s sessions of %s are left after %v", rows[0][0], prefix, sessionsEndWithin)
			return
		}
	}
}

// Only replaces pg_hba.conf with the given lines, which must reject unencrypted connections. It waits until the file is
// in effect.
func (s *Server) Only(t testing.TB, lines ...string) {
	t.Helper()
	c, err := s.connect(t.Context(), "postgres") // connect before connections are rejected
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // its answers have been read
	if err := os.WriteFile(filepath.Join(s.Folder, "pg_hba.conf"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "select pg_reload_conf()").ReadAll(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		plain, err := s.connect(t.Context(), "postgres")
		if err != nil {
			return
		}
		_ = plain.Close(t.Context())
		if time.Since(begin) > readyWithin {
			t.Fatalf("pg_hba.conf was not read within %v", readyWithin)
		}
	}
}

// Pause suspends the server's processes until Continue. Its connections stay open, but it sends nothing.
func (s *Server) Pause(t testing.TB) { s.signalAll(t, syscall.SIGSTOP) }

// Continue resumes a paused server.
func (s *Server) Continue(t testing.TB) { s.signalAll(t, syscall.SIGCONT) }

// signalAll sends a signal to the server's parent process, and then to its child processes. A suspended parent starts
// no further children.
func (s *Server) signalAll(t testing.TB, signal syscall.Signal) {
	t.Helper()
	first := s.process.Process.Pid
	if err := syscall.Kill(first, signal); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", first))
	if err != nil {
		t.Error(err)
	}
	for _, child := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(child)
		if err != nil {
			t.Error(err)
			continue
		}
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	}
}

// Stop stops the server immediately (SIGQUIT), without a checkpoint, like a power failure of its machine.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if s.process == nil {
		return
	}
	select {
	case <-s.ended:
		return
	default:
	}
	if err := s.process.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Error(err)
	}
	<-s.ended
}
