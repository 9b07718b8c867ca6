//go:build full && linux

package wan

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/ops/identity"
)

// helperVariable is the environment variable that turns the test binary into a helper. If its value is "cleanup", the
// helper calls Cleanup. Any other value is a configuration file, and the helper is a sidecar.
const helperVariable = "GEOBENCH_WAN_TEST_HELPER"

// credentialsVariable is the environment variable for the folder of the sidecar's credentials; empty for none.
const credentialsVariable = "GEOBENCH_WAN_TEST_CREDENTIALS"

func TestMain(m *testing.M) {
	switch config := os.Getenv(helperVariable); config {
	case "":
		os.Exit(m.Run())
	case "cleanup":
		if _, err := Cleanup(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		credentials := identity.Folder(os.Getenv(credentialsVariable))
		if err := Run(ctx, Options{ConfigPath: config, Pod: filepath.Base(config), Credentials: credentials, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// namespace is a network namespace. In the tests it takes the place of a pod.
type namespace struct {
	t       testing.TB
	name    string
	address string
	config  string
	handle  *os.File
	// credentials is the folder of the sidecar's credentials; empty for none.
	credentials string
	// congestion is the congestion control of the namespace's senders; empty means the machine's default.
	congestion string
}

// podPair creates two namespaces connected by a pair of virtual interfaces, and removes them after the test.
func podPair(t testing.TB) (a, b *namespace) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make network namespaces")
	}
	for _, program := range []string{"ip", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs the program %s", program)
		}
	}
	dir := t.TempDir()
	prefix := fmt.Sprintf("gbwan%d", os.Getpid())
	a = &namespace{t: t, name: prefix + "a", address: "10.199.0.1", config: filepath.Join(dir, "a")}
	b = &namespace{t: t, name: prefix + "b", address: "10.199.0.2", config: filepath.Join(dir, "b")}
	for _, n := range []*namespace{a, b} {
		if out, err := exec.Command("ip", "netns", "add", n.name).CombinedOutput(); err != nil {
			t.Skipf("needs the right to make network namespaces (CAP_SYS_ADMIN): %s", out)
		}
		t.Cleanup(func() { ip(t, "netns", "del", n.name) })
		handle, err := os.Open("/run/netns/" + n.name)
		if err != nil {
			t.Fatal(err)
		}
		n.handle = handle
		t.Cleanup(func() { handle.Close() })
	}
	ip(t, "link", "add", "eth0", "netns", a.name, "type", "veth", "peer", "name", "eth0", "netns", b.name)
	for _, n := range []*namespace{a, b} {
		ip(t, "-n", n.name, "address", "add", n.address+"/24", "dev", "eth0")
		ip(t, "-n", n.name, "link", "set", "lo", "up")
		ip(t, "-n", n.name, "link", "set", "eth0", "up")
		n.run(func() error {
			// Paths with a large bandwidth-delay product need large windows.
			for _, name := range []string{"tcp_rmem", "tcp_wmem"} {
				if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte("4096 131072 134217728"), 0); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return a, b
}

func ip(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// run calls f on a thread inside the namespace. Sockets that f opens stay in the namespace.
func (n *namespace) run(f func() error) {
	n.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread exits
		if err := unix.Setns(int(n.handle.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	if err := <-done; err != nil {
		n.t.Fatalf("in namespace %s: %v", n.name, err)
	}
}

// command runs the test binary in the namespace with only the capability NET_ADMIN, like a sidecar's container.
func (n *namespace) command(helper string) *exec.Cmd {
	cmd := exec.Command("ip", "netns", "exec", n.name,
		"setpriv", "--bounding-set=-all,+net_admin", "--inh-caps=-all,+net_admin", os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+helper, credentialsVariable+"="+n.credentials)
	return cmd
}

// write writes the configuration.
func (n *namespace) write(c *Config) {
	n.t.Helper()
	if c.Region == "" {
		c.Region = n.name[len(n.name)-1:]
	}
	b, err := json.Marshal(c)
	if err != nil {
		n.t.Fatal(err)
	}
	n.writeText(string(b))
}

// writeText replaces the file atomically, as kubelet does.
func (n *namespace) writeText(text string) {
	n.t.Helper()
	if err := os.WriteFile(n.config+".new", []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(n.config+".new", n.config); err != nil {
		n.t.Fatal(err)
	}
}

// process is a sidecar process.
type process struct {
	*exec.Cmd
	n      *namespace
	ended  chan struct{}
	output strings.Builder
}

// start starts a sidecar and waits until it is ready.
func (n *namespace) start() *process {
	n.t.Helper()
	p := n.launch()
	eventually(n.t, "the sidecar is ready", func() bool {
		select {
		case <-p.ended:
			n.t.Fatalf("the sidecar has ended: %s", p.output.String())
		default:
		}
		st, err := n.status()
		return err == nil && st.Ready
	})
	return p
}

func (n *namespace) launch() *process {
	n.t.Helper()
	p := &process{Cmd: n.command(n.config), n: n, ended: make(chan struct{})}
	p.Stderr = &p.output
	if err := p.Cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	go func() {
		_ = p.Wait()
		close(p.ended)
	}()
	n.t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p
}

// end sends a signal to the process and waits until it exits.
func (p *process) end(signal os.Signal) {
	_ = p.Process.Signal(signal)
	<-p.ended
}

// get queries the sidecar from within the pod.
func (n *namespace) get(path string) (string, error) {
	port := ports.WANStatus
	if path == "/status" || path == "/log" {
		port = ports.WANAdmin
	}
	return n.ask(fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
}

// ask sends a GET request from within the pod. with is the TLS configuration for https; nil for http.
func (n *namespace) ask(url string, with *tls.Config) (string, error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: with,
		DialContext: func(_ context.Context, network, address string) (conn net.Conn, err error) {
			n.run(func() error {
				conn, err = net.DialTimeout(network, address, time.Second)
				return nil
			})
			return conn, err
		},
	}}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), errors.Join(err, map[bool]error{true: errors.New(resp.Status)}[resp.StatusCode != http.StatusOK])
}

func (n *namespace) status() (*Status, error) {
	b, err := n.get("/status")
	if err != nil {
		return nil, err
	}
	st := &Status{}
	return st, json.Unmarshal([]byte(b), st)
}

// await waits until the configuration with this generation is in effect.
func (n *namespace) await(generation int64) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("generation %d is in force", generation), func() bool {
		st, err := n.status()
		return err == nil && st.Ready && st.Generation == generation
	})
}

// eventually waits until f returns true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !f(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not after 20 s: %s", what)
		}
	}
}

// tables returns the number of tables in the namespace that belong to sidecars.
func (n *namespace) tables() (count int) {
	n.t.Helper()
	n.run(func() error {
		c, err := connect()
		if err != nil {
			return err
		}
		all, err := c.ListTables()
		for _, t := range all {
			if t.Name == tableName {
				count++
			}
		}
		return err
	})
	return count
}

// echo answers UDP packets to port 9 until the end of the test.
func (n *namespace) echo() {
	n.t.Helper()
	var conn net.PacketConn
	n.run(func() (err error) {
		conn, err = net.ListenPacket("udp4", n.address+":9")
		return err
	})
	n.t.Cleanup(func() { conn.Close() })
	go func() {
		b := make([]byte, 2048)
		for {
			k, from, err := conn.ReadFrom(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_, _ = conn.WriteTo(b[:k], from)
			}
		}
	}()
}

// listen opens a UDP socket on port 9 with a receive buffer that is large enough for everything that a test sends.
func (n *namespace) listen() net.PacketConn {
	n.t.Helper()
	var to net.PacketConn
	n.run(func() (err error) {
		to, err = net.ListenPacket("udp4", n.address+":9")
		return err
	})
	raw, err := to.(*net.UDPConn).SyscallConn()
	if err != nil {
		n.t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20) })
	if err != nil {
		n.t.Fatal(err)
	}
	return to
}

// receivedBy counts packets until no packet has arrived for a second.
func receivedBy(to net.PacketConn) (n int) {
	for b := make([]byte, 16); ; n++ {
		_ = to.SetReadDeadline(time.Now().Add(time.Second))
		if _, _, err := to.ReadFrom(b); err != nil {
			return n
		}
	}
}

// dial returns a socket that sends to port 9 of another namespace.
func (n *namespace) dial(to *namespace) (conn net.Conn) {
	n.t.Helper()
	n.run(func() (err error) {
		conn, err = net.Dial("udp4", to.address+":9")
		return err
	})
	return conn
}

// pings measures count round trips to the echo of another namespace, with the given interval between them. It omits
// round trips longer than patience.
func (n *namespace) pings(to *namespace, count int, interval, patience time.Duration) []time.Duration {
	n.t.Helper()
	conn := n.dial(to)
	defer conn.Close()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var out []time.Duration
	for seq := range count {
		sent := time.Now()
		if _, err := fmt.Fprint(conn, seq); err != nil {
			n.t.Fatal(err)
		}
		_ = conn.SetReadDeadline(sent.Add(patience))
		b := make([]byte, 64)
		for {
			k, err := conn.Read(b)
			if err != nil {
				break
			}
			if string(b[:k]) == fmt.Sprint(seq) {
				out = append(out, time.Since(sent))
				break
			}
		}
		<-tick.C
	}
	return out
}

// sink accepts TCP connections on port 10 and discards their data.
func (n *namespace) sink() {
	n.t.Helper()
	var l net.Listener
	n.run(func() (err error) {
		l, err = net.Listen("tcp4", n.address+":10")
		return err
	})
	n.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 1<<20)
				for {
					if _, err := c.Read(b); err != nil {
						return
					}
				}
			}()
		}
	}()
}

// send sends data over the given number of TCP connections until stop is called or the test is over. acknowledged
// returns the number of bytes that the receiver has acknowledged.
func (n *namespace) send(to *namespace, connections int) (acknowledged func() int64, stop func()) {
	n.t.Helper()
	f := n.flood(to, connections)
	return f.acknowledged, f.stop
}

// flows is a set of TCP connections that always have data to send.
type flows struct {
	t     testing.TB
	conns []*net.TCPConn
}

func (n *namespace) flood(to *namespace, connections int) *flows {
	n.t.Helper()
	f := &flows{t: n.t, conns: make([]*net.TCPConn, connections)}
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if n.congestion != "" {
			_ = raw.Control(func(fd uintptr) {
				err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, n.congestion)
			})
		}
		return err
	}}
	for i := range f.conns {
		n.run(func() error {
			c, err := dialer.Dial("tcp4", to.address+":10")
			if err == nil {
				f.conns[i] = c.(*net.TCPConn)
			}
			return err
		})
		n.t.Cleanup(func() { f.conns[i].Close() })
		go func() {
			b := make([]byte, 1<<18)
			for {
				if _, err := f.conns[i].Write(b); err != nil {
					return
				}
			}
		}()
	}
	return f
}

func (f *flows) stop() {
	for _, c := range f.conns {
		c.Close()
	}
}

func (f *flows) acknowledged() (sum int64) {
	for _, info := range f.infos() {
		sum += int64(info.Bytes_acked)
	}
	return sum
}

// roundTrips returns the smoothed round trips that the kernel has measured on the connections.
func (f *flows) roundTrips() (out []time.Duration) {
	for _, info := range f.infos() {
		out = append(out, time.Duration(info.Rtt)*time.Microsecond)
	}
	return out
}

func (f *flows) infos() (out []*unix.TCPInfo) {
	for _, c := range f.conns {
		raw, err := c.SyscallConn()
		if err != nil {
			f.t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			if err != nil {
				f.t.Error(err)
				return
			}
			out = append(out, info)
		})
	}
	return out
}
