// Package etcdtest starts a real etcd cluster for tests, with one or more members, on the loopback interface. The
// members' files are in a temporary folder. The package runs the etcd in KUBEBUILDER_ASSETS, which the controller tests
// use, or else the installed etcd. Without either, tests are skipped.
package etcdtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
)

// readyWithin is the timeout for the start of a cluster, and poll is the polling interval.
const (
	readyWithin = 20 * time.Second
	poll        = 20 * time.Millisecond
)

// Member is a running member of a cluster.
type Member struct {
	// Address is host:port on the loopback interface.
	Address string
	process *exec.Cmd
	log     string
	ended   chan struct{}
	number  int
	proxies []*postgrestest.Proxy // all members' proxies for peer traffic; nil unless started by StartApart
}

// program returns the path of etcd. It skips the test if etcd is not installed.
func program(t testing.TB) string {
	t.Helper()
	if folder := os.Getenv("KUBEBUILDER_ASSETS"); folder != "" {
		if path := filepath.Join(folder, "etcd"); exec.Command(path, "--version").Run() == nil {
			return path
		}
	}
	path, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("etcd is not there, which this test needs: run it by make test, which builds it, or apt-get install etcd-server")
	}
	return path
}

// Start starts a cluster with the given number of members, and stops it at the end of the test. settings are additional
// flags, such as "--max-txn-ops=64".
func Start(t testing.TB, members int, settings ...string) []*Member {
	t.Helper()
	return start(t, "http", members, false, settings...)
}

// StartApart starts a cluster whose members Isolate can partition from each other.
func StartApart(t testing.TB, members int) []*Member {
	t.Helper()
	return start(t, "http", members, true)
}

// StartTLS starts a single member with a self-signed certificate for 127.0.0.1. caFile is the file with the
// certificate.
func StartTLS(t testing.TB) (m *Member, caFile string) {
	t.Helper()
	certificate, key := postgrestest.Certify(t)
	folder := t.TempDir()
	caFile, keyFile := filepath.Join(folder, "server.crt"), filepath.Join(folder, "server.key")
	for path, text := range map[string]string{caFile: certificate, keyFile: key} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return start(t, "https", 1, false, "--cert-file="+caFile, "--key-file="+keyFile)[0], caFile
}

func start(t testing.TB, scheme string, members int, apart bool, settings ...string) (all []*Member) {
	t.Helper()
	path := program(t)
	folder, err := os.MkdirTemp("", "geobench-etcd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	ports := postgrestest.FreeAddresses(t, 2*members) // client and peer port of each member
	var cluster []string
	advertised := make([]string, members) // peer URLs
	var proxies []*postgrestest.Proxy
	for i := range members {
		advertised[i] = "http://" + ports[2*i+1]
		if apart {
			proxies = append(proxies, postgrestest.NewProxy(t, ports[2*i+1]))
			advertised[i] = "http://" + proxies[i].Address
		}
		cluster = append(cluster, fmt.Sprintf("m%d=%s", i, advertised[i]))
	}
	for i := range members {
		client, peer := scheme+"://"+ports[2*i], "http://"+ports[2*i+1]
		m := &Member{number: i, proxies: proxies, Address: ports[2*i], ended: make(chan struct{}), log: filepath.Join(folder, fmt.Sprintf("m%d.log", i))}
		m.process = exec.Command(path, append([]string{
			fmt.Sprintf("--name=m%d", i), "--data-dir=" + filepath.Join(folder, fmt.Sprint("m", i)), "--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + advertised[i], "--initial-cluster=" + strings.Join(cluster, ","), "--unsafe-no-fsync",
			"--heartbeat-interval=50", "--election-timeout=500", "--log-level=warn",
		}, settings...)...)
		log, err := os.Create(m.log)
		if err != nil {
			t.Fatal(err)
		}
		m.process.Stdout, m.process.Stderr = log, log
		err = m.process.Start()
		_ = log.Close()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = m.process.Wait()
			close(m.ended)
		}()
		t.Cleanup(func() { m.Stop(t) })
		all = append(all, m)
	}
	var encryption *tls.Config
	if scheme == "https" {
		encryption = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	}
	for _, m := range all {
		m.ready(t, encryption)
	}
	return all
}

// Client returns a client of the member, which is closed at the end of the test. user may be empty.
func (m *Member) Client(t testing.TB, user, password string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.Address}, DialTimeout: readyWithin, Logger: zap.NewNop(), Username: user, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ready waits until the member answers a linearizable read, for which it needs a leader.
func (m *Member) ready(t testing.TB, encryption *tls.Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyWithin)
	defer cancel()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.Address}, Logger: zap.NewNop(), Context: ctx, TLS: encryption})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // its answers have been read
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if _, err = c.Get(ctx, "/"); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-m.ended:
			text, _ := os.ReadFile(m.log)
			t.Fatalf("the member ended: %s", text)
		case <-ctx.Done():
			text, _ := os.ReadFile(m.log)
			t.Fatalf("the member was not ready within %v: %v: %s", readyWithin, err, text)
		}
	}
}

// Keys returns the keys with a prefix.
func (m *Member) Keys(t testing.TB, prefix string) (keys []string) {
	t.Helper()
	r, err := m.Client(t, "", "").Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range r.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// Lead makes the member the leader of its cluster.
func (m *Member) Lead(t testing.TB) {
	t.Helper()
	c := m.Client(t, "", "")
	own, err := c.Status(t.Context(), m.Address)
	if err != nil {
		t.Fatal(err)
	}
	if own.Leader == own.Header.MemberId {
		return
	}
	all, err := c.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range all.Members {
		if other.ID != own.Leader {
			continue
		}
		leader, err := clientv3.New(clientv3.Config{Endpoints: other.ClientURLs, DialTimeout: readyWithin, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		defer leader.Close() //nolint:errcheck // its answers have been read
		if _, err := leader.MoveLeader(t.Context(), own.Header.MemberId); err != nil {
			t.Fatal(err)
		}
	}
}

// Isolate permanently partitions m from the other members. The cluster must have been started by StartApart. m still
// answers requests that do not need another member.
func (m *Member) Isolate(t testing.TB) {
	t.Helper()
	own, err := m.Client(t, "", "").Status(t.Context(), m.Address)
	if err != nil {
		t.Fatal(err)
	}
	// Every connection between members starts with the name of the requesting member.
	from := fmt.Appendf(nil, "X-Server-From: %x\r\n", own.Header.MemberId)
	for i, p := range m.proxies {
		p.Judge(func(sent []byte) postgrestest.Fate {
			// Members dial each other in both directions. Block all data through the proxy of the member itself, and the
			// member's data through the other proxies.
			if i == m.number || bytes.Contains(sent, from) {
				return postgrestest.Lost
			}
			return postgrestest.Delivered
		})
		p.Break()
	}
}

// Pause suspends the member's process until Continue. Its connections stay open, but it sends nothing.
func (m *Member) Pause(t testing.TB) { m.signal(t, syscall.SIGSTOP) }

// Continue resumes a paused member.
func (m *Member) Continue(t testing.TB) { m.signal(t, syscall.SIGCONT) }

func (m *Member) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := m.process.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Stop kills the member immediately, like a power failure of its machine.
func (m *Member) Stop(t testing.TB) {
	t.Helper()
	select {
	case <-m.ended:
		return
	default:
	}
	if err := m.process.Process.Kill(); err != nil {
		t.Error(err)
	}
	<-m.ended
}
