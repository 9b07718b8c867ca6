package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// number is a message that contains a number, padded to a length.
type number struct {
	n    uint64
	size int
}

func (m number) Kind() uint8 { return 7 }
func (m number) Size() int   { return m.size }
func (m number) AppendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, m.n)
	return append(b, make([]byte, m.size-8)...)
}

// counting checks that the numbers arrive in order, each exactly once. It closes done when all numbers have arrived.
type counting struct {
	t    testing.TB
	next uint64
	seen atomic.Uint64
	want uint64
	done chan struct{}
}

func (c *counting) Receive(payload []byte) error {
	m := ReadMessages(payload)
	for kind, body, ok := m.Next(); ok; kind, body, ok = m.Next() {
		if kind != 7 || len(body) < 8 {
			return fmt.Errorf("kind %d with %d bytes", kind, len(body))
		}
		if got := binary.LittleEndian.Uint64(body); got != c.next {
			return fmt.Errorf("message %d came where %d was due", got, c.next)
		}
		c.next++
	}
	return m.Err()
}

func (c *counting) Turn() {
	c.seen.Store(c.next)
	if c.next == c.want {
		c.want = 0
		close(c.done)
	}
}

// twoRegions returns a topology of two nodes in different regions, with the given link between them.
func twoRegions(link geo.Link) *geo.Topology {
	local := geo.Link{Delay: 200 * time.Microsecond}
	return &geo.Topology{Regions: []string{"a", "b"}, Partitions: 1, Replicas: 1,
		Links: [][]geo.Link{{local, link}, {link, local}}}
}

type testNode struct {
	*Endpoint
	listener  net.Listener
	receivers map[geo.NodeID]*counting
	broken    chan string
}

// startNodes starts the nodes of a topology in this process. change, if not nil, alters a node's configuration.
func startNodes(t testing.TB, topology *geo.Topology, want uint64, change func(*Config)) []*testNode {
	t.Helper()
	nodes := make([]*testNode, topology.Nodes())
	addresses := make([]string, len(nodes))
	for i := range nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = l.Addr().String()
		nodes[i] = &testNode{listener: l, receivers: map[geo.NodeID]*counting{}, broken: make(chan string, 1)}
	}
	for i, n := range nodes {
		cfg := n.config(t, i, topology, addresses, want)
		if change != nil {
			change(&cfg)
		}
		n.Endpoint = New(cfg)
	}
	for _, n := range nodes {
		n.Start(n.listener)
		t.Cleanup(n.Close)
	}
	return nodes
}

func (n *testNode) config(t testing.TB, i int, topology *geo.Topology, addresses []string, want uint64) Config {
	return Config{
		Database: "db", Incarnation: "one", Process: fmt.Sprintf("p%d", i), Self: geo.NodeID(i), Topology: topology,
		Addresses: slices.Clone(addresses), Seed: 1,
		Receiver: func(from geo.NodeID) Receiver {
			n.receivers[from] = &counting{t: t, want: want, done: make(chan struct{})}
			return n.receivers[from]
		},
		Client:     func(*Conn) Receiver { return discard{} },
		ClientGone: func(*Conn) {},
		Broken:     func(reason string) { n.broken <- reason },
	}
}

type discard struct{}

func (discard) Receive([]byte) error { return nil }
func (discard) Turn()                {}

// eventually polls until a condition holds.
func eventually(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		runtime.Gosched()
		<-time.After(time.Millisecond)
	}
}

func wait(t testing.TB, limit time.Duration, what string, done <-chan struct{}, nodes ...*testNode) {
	t.Helper()
	after := time.After(limit)
	var broken <-chan string
	if len(nodes) > 0 {
		broken = nodes[0].broken
	}
	select {
	case <-done:
	case r := <-broken:
		t.Fatalf("broken: %s", r)
	case <-after:
		t.Fatalf("not within %v: %s", limit, what)
	}
}

// faultyProxy forwards connections to target and breaks each connection after a random number of bytes.
type faultyProxy struct {
	net.Listener
	cuts atomic.Int64
	stop atomic.Bool // set to stop breaking connections
	wg   sync.WaitGroup
}

func newFaultyProxy(t *testing.T, target string, most int64) *faultyProxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &faultyProxy{Listener: l}
	rng := rand.New(rand.NewPCG(1, 2))
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				in.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				budget := rng.Int64N(most)
				p.wg.Add(1)
				go func() {
					defer p.wg.Done()
					defer in.Close()
					defer out.Close()
					if p.stop.Load() {
						io.Copy(pair[1], pair[0])
						return
					}
					io.CopyN(pair[1], pair[0], budget)
					p.cuts.Add(1)
				}()
			}
		}
	}()
	t.Cleanup(func() { l.Close(); p.wg.Wait() })
	return p
}

func TestLinkSurvivesCuts(t *testing.T) {
	for name, emulate := range map[string]bool{"plain": false, "emulated": true} {
		t.Run(name, func(t *testing.T) {
			const messages = 30_000
			nodes := startNodes(t, twoRegions(geo.Link{Delay: time.Millisecond, Jitter: 200 * time.Microsecond}), messages, func(c *Config) {
				c.Emulate = emulate
				if c.Self == 1 { // it dials node 0
					p := newFaultyProxy(t, c.Addresses[0], 200_000)
					c.Addresses[0] = p.Addr().String()
					t.Cleanup(func() {
						if cuts := p.cuts.Load(); cuts < 5 {
							t.Errorf("only %d cuts: the test shows nothing", cuts)
						}
					})
				}
			})
			for i, n := range nodes {
				go func() {
					l, peer := n.Link(geo.NodeID(1-i)), nodes[1-i].receivers[geo.NodeID(i)]
					rng := rand.New(rand.NewPCG(uint64(i), 0))
					for k := range uint64(messages) {
						l.Send(number{k, 8 + rng.IntN(60)})
						if rng.IntN(10) == 0 {
							l.Flush()
							if rng.IntN(20) == 0 {
								// Spread the traffic over several connections.
								for peer.seen.Load() <= k && t.Context().Err() == nil {
									runtime.Gosched()
								}
							}
						}
					}
					l.Flush()
				}()
			}
			for i, n := range nodes {
				wait(t, time.Minute, "all messages", n.receivers[geo.NodeID(1-i)].done, n)
			}
			for i, n := range nodes {
				l := n.Link(geo.NodeID(1 - i))
				eventually(t, 10*time.Second, "everything acknowledged", func() bool {
					l.s.mu.Lock()
					defer l.s.mu.Unlock()
					return l.s.held == 0
				})
			}
		})
	}
}

func TestCounters(t *testing.T) {
	const messages = 1000
	nodes := startNodes(t, twoRegions(geo.Link{}), messages, nil)
	l := nodes[0].Link(1)
	first := 0
	for k := range uint64(messages) {
		if l.Send(number{k, 100}) {
			first++
		}
		if k%100 == 99 {
			l.Flush()
		}
	}
	if first != 10 {
		t.Errorf("Send says %d times that the link was clean, want 10", first)
	}
	wait(t, 10*time.Second, "all messages", nodes[1].receivers[0].done, nodes...)
	sent := nodes[0].Sent(1)
	bytes, n := sent.Bytes, sent.Messages
	// Each message has a length and a kind, and each batch has a header. Probes and acknowledgements add further bytes.
	want := int64(messages*102 + 10*dataBytes)
	if bytes < want || bytes > want+100*(n-messages) || n < messages {
		t.Errorf("%d bytes and %d messages sent, want %d and %d and a few probes", bytes, n, want, messages)
	}
	// Batches of 10,000 bytes take 7 segments each; every other frame takes a single segment.
	if sent.Segments < 70 || sent.Segments > 70+n-messages {
		t.Errorf("%d segments sent, want 70 and a few probes", sent.Segments)
	}
	if none := nodes[0].Sent(0); none != (geo.Traffic{}) {
		t.Errorf("%+v sent to a region without another node", none)
	}
}

func TestRefusals(t *testing.T) {
	nodes := startNodes(t, twoRegions(geo.Link{}), 1, nil)
	eventually(t, 10*time.Second, "ready", func() bool { ok, _ := nodes[0].Ready(); return ok })
	good := Hello{Database: "db", Incarnation: "one", Process: "x", Role: Client}
	for name, tc := range map[string]struct {
		change func(*Hello)
		code   RefusalCode
		want   string
	}{
		"database":    {func(h *Hello) { h.Database = "other" }, WrongAddress, `this is database "db", not "other"`},
		"incarnation": {func(h *Hello) { h.Incarnation = "two" }, WrongAddress, `this is incarnation "one" of database "db", not "two"`},
		"node":        {func(h *Hello) { h.To = 1 }, WrongAddress, "this is node 0 (a/0/0), not 1"},
		"role":        {func(h *Hello) { h.Role = 9 }, WrongAddress, "role 9 is neither peer (1) nor client (2)"},
		"self":        {func(h *Hello) { h.Role = Peer }, WrongAddress, "node 0 does not dial node 0"},
		"no node":     {func(h *Hello) { h.Role, h.From = Peer, 2 }, WrongAddress, "node 2 does not dial node 0; nodes 1 to 1 do"},
	} {
		t.Run(name, func(t *testing.T) {
			h := good
			tc.change(&h)
			conn, err := net.Dial("tcp", nodes[0].cfg.Addresses[0])
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, err = greet(conn, newFrameReader(conn), &h, nil)
			var r *Refusal
			if !errors.As(err, &r) || r.Code != tc.code || !strings.Contains(r.Reason, tc.want) {
				t.Errorf("%v does not say %q with code %d", err, tc.want, tc.code)
			}
		})
	}
	t.Run("noise", func(t *testing.T) {
		conn, err := net.Dial("tcp", nodes[0].cfg.Addresses[0])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\n\r\n")
		b, _ := io.ReadAll(conn)
		if !strings.Contains(string(b), "is not between 1 and 4096") {
			t.Errorf("noise is answered with %q", b)
		}
	})
	if ok, why := nodes[0].Ready(); !ok {
		t.Errorf("not ready any more: %s", why)
	}
}

func TestRestartedPeerBreaks(t *testing.T) {
	for name, restarted := range map[string]int{"the node that dials": 1, "the node that accepts": 0} {
		t.Run(name, func(t *testing.T) {
			nodes := startNodes(t, twoRegions(geo.Link{}), 1, nil)
			for _, n := range nodes {
				eventually(t, 10*time.Second, "ready", func() bool { ok, _ := n.Ready(); return ok })
			}
			old, other := nodes[restarted], nodes[1-restarted]
			old.Close()
			again := &testNode{receivers: map[geo.NodeID]*counting{}, broken: make(chan string, 1)}
			cfg := again.config(t, restarted, old.cfg.Topology, old.cfg.Addresses, 1)
			cfg.Process = "new"
			l, err := net.Listen("tcp", cfg.Addresses[restarted])
			if err != nil {
				t.Fatal(err)
			}
			again.Endpoint = New(cfg)
			again.Start(l)
			defer again.Close()
			for _, n := range []*testNode{again, other} {
				select {
				case reason := <-n.broken:
					if !strings.Contains(reason, "has lost its state") {
						t.Errorf("broken because %q", reason)
					}
					if ok, why := n.Ready(); ok || why != reason {
						t.Errorf("ready is %v, %q", ok, why)
					}
				case <-time.After(10 * time.Second):
					t.Fatal("nobody noticed")
				}
			}
		})
	}
}

func TestCongestionIsReported(t *testing.T) {
	nodes := startNodes(t, twoRegions(geo.Link{}), 500, func(c *Config) {
		c.BufferLimit = 100_000
		if c.Self == 1 {
			c.Addresses[0] = "127.0.0.1:1" // nothing listens here
		}
	})
	l := nodes[0].Link(1)
	for k := range uint64(500) {
		l.Send(number{k, 1000})
	}
	l.Flush()
	if !nodes[0].Congested() || nodes[0].Stalls() != 1 {
		t.Errorf("congested %v, %d stalls, want true, 1", nodes[0].Congested(), nodes[0].Stalls())
	}
	if ok, why := nodes[0].Ready(); ok || !strings.Contains(why, "1 of 1 peers not reached: b/0/0") {
		t.Errorf("ready %v: %q", ok, why)
	}
	// Once node 1 is reached, it receives all messages.
	h := Hello{Database: "db", Incarnation: "one", Process: "p1", Role: Peer, From: 1}
	conn, err := net.Dial("tcp", nodes[0].cfg.Addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fr := newFrameReader(conn)
	if _, err := greet(conn, fr, &h, nil); err != nil {
		t.Fatal(err)
	}
	fr.limit = MaxFrame
	c := &counting{t: t, want: 500, done: make(chan struct{})}
	for seq := uint32(1); c.next < 500; {
		typ, body, err := fr.next()
		if err != nil {
			t.Fatal(err)
		}
		if typ != frameData {
			continue
		}
		if got := binary.LittleEndian.Uint32(body[4:]); got != seq {
			t.Fatalf("frame %d, want %d", got, seq)
		}
		if err := c.Receive(body[8:]); err != nil {
			t.Fatal(err)
		}
		ack := binary.LittleEndian.AppendUint32([]byte{0, 0, 0, 0, frameAck}, seq)
		seal(ack)
		if _, err := conn.Write(ack); err != nil {
			t.Fatal(err)
		}
		seq++
	}
	eventually(t, 10*time.Second, "no longer congested", func() bool { return !nodes[0].Congested() })
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func TestEmulatedRoundTrip(t *testing.T) {
	for name, link := range map[string]geo.Link{
		"0.4 ms":                     {Delay: 400 * time.Microsecond},
		"10 ms":                      {Delay: 10 * time.Millisecond},
		"50 ms, jitter 1 ms":         {Delay: 50 * time.Millisecond, Jitter: time.Millisecond},
		"10 ms, loss 1%, 100 Mbit/s": {Delay: 10 * time.Millisecond, LossPPM: 10_000, BandwidthMbps: 100},
		"10 ms, loss 30%":            {Delay: 10 * time.Millisecond, LossPPM: 300_000},
	} {
		t.Run(name, func(t *testing.T) {
			want := 2 * link.Delay
			// A busy machine may delay most packets, so allow three attempts for the median. However, the machine cannot speed
			// up a packet and does not delay every packet, so the fastest packet must be right in each attempt.
			for attempt := 1; ; attempt++ {
				nodes := startNodes(t, twoRegions(link), 1, func(c *Config) { c.Emulate = true })
				eventually(t, 20*time.Second, "15 probes", func() bool { return nodes[0].RoundTrips(1).TotalCount() >= 15 })
				h := nodes[0].RoundTrips(1)
				median, fastest := microseconds(h.ValueAtQuantile(50)), microseconds(h.Min())
				t.Logf("declared %v, measured p50 %v, min %v, max %d us", want, median, fastest, h.Max())
				if link.Jitter == 0 && (fastest < want-2*Slack || fastest > want+want/20+time.Millisecond) {
					t.Fatalf("the fastest round trip took %v, which is not within 5%% + 1 ms above %v", fastest, want)
				}
				if median >= want-want/20-time.Millisecond && median <= want+want/20+time.Millisecond {
					break
				}
				if attempt == 3 {
					t.Fatalf("measured %v is not within 5%% + 1 ms of %v", median, want)
				}
			}
		})
	}
	nodes := startNodes(t, twoRegions(geo.Link{}), 1, nil)
	if h := nodes[0].RoundTrips(0); h != nil {
		t.Error("a region without another node has round trips")
	}
}

// echo answers every transaction with its arguments.
type echo struct{ c *Conn }

func (e *echo) Receive(payload []byte) error {
	return ReadTransactions(payload, 4, func(t *txn.Transaction) {
		e.c.SendOutcome(&txn.Outcome{ID: t.ID, Status: txn.Committed, Result: t.Args})
	})
}
func (e *echo) Turn() { e.c.Flush() }

type outcomes struct {
	batch []txn.Outcome
	ch    chan []txn.Outcome
}

func (o *outcomes) Receive(payload []byte) (err error) {
	o.batch, err = ReadOutcomes(payload, o.batch)
	return err
}
func (o *outcomes) Turn() {
	if len(o.batch) > 0 {
		o.ch <- o.batch
		o.batch = nil
	}
}

func TestClientRoundTrip(t *testing.T) {
	gone := make(chan struct{})
	nodes := startNodes(t, twoRegions(geo.Link{}), 1, func(c *Config) {
		c.Emulate = true
		c.Client = func(c *Conn) Receiver { return &echo{c} }
		c.ClientGone = func(*Conn) { close(gone) }
	})
	h := Hello{Database: "db", Incarnation: "one", Process: "w"}
	c, err := Dial(context.Background(), nodes[0].cfg.Addresses[0], h, nil, nodes[0].clientPath())
	if err != nil {
		t.Fatal(err)
	}
	if c.Process() != "p0" {
		t.Errorf("process %q, want p0", c.Process())
	}
	o := &outcomes{ch: make(chan []txn.Outcome, 100)}
	ended := make(chan error, 1)
	go func() { ended <- c.Serve(o) }()
	began := time.Now()
	for k := range uint64(10) {
		c.SendTransaction(&txn.Transaction{ID: txn.MakeID(1, k+1), Args: []byte{byte(k)}})
	}
	c.Flush()
	for k := uint64(0); k < 10; {
		for _, got := range <-o.ch {
			if k++; got.ID != txn.MakeID(1, k) || len(got.Result) != 1 || got.Result[0] != byte(k-1) {
				t.Errorf("outcome %d is %+v", k, got)
			}
		}
	}
	if d := time.Since(began); d < 400*time.Microsecond {
		t.Errorf("the round trip took %v, less than the emulated 400us", d)
	}
	c.Close()
	<-ended
	<-gone
}

func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	nodes := startNodes(t, twoRegions(geo.Link{Delay: time.Millisecond}), 1, func(c *Config) { c.Emulate = true })
	eventually(t, 10*time.Second, "ready", func() bool { ok, _ := nodes[0].Ready(); return ok })
	for _, n := range nodes {
		n.Close()
	}
	eventually(t, 10*time.Second, "all goroutines ended", func() bool { return runtime.NumGoroutine() <= before })
}

func TestAlarms(t *testing.T) {
	const n = 40
	var late []time.Duration
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ch := make(chan struct{}, 1)
			a := NewAlarm(ch)
			defer a.Close()
			for k := range 20 {
				at := Now() + time.Duration(300+37*i+100*k)*time.Microsecond
				a.Set(Now() + time.Hour)
				a.Set(at)
				<-ch
				mu.Lock()
				late = append(late, Now()-at)
				mu.Unlock()
			}
		}()
	}
	wg.Wait()
	slices.Sort(late)
	t.Logf("late by p50 %v, p90 %v", late[len(late)/2], late[len(late)*9/10])
	if late[0] < -Slack {
		t.Errorf("an alarm went off %v early", -late[0])
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte{2, 0, 0, 0, 4, 9}, uint8(1))
	f.Add([]byte{1, 0, 0, 0, 5, 5, 0, 0, 0, 1, 2, 3, 4, 5}, uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		fr := newFrameReader(&slowReader{b, int(step)%64 + 1})
		var again []byte
		for {
			typ, body, err := fr.next()
			if err != nil {
				break
			}
			if len(body)%2 == 0 {
				fr.keep()
			}
			start := len(again)
			again = append(append(again, 0, 0, 0, 0, typ), body...)
			seal(again[start:])
			m := ReadMessages(body)
			for _, _, ok := m.Next(); ok; _, _, ok = m.Next() {
			}
		}
		if string(again) != string(b[:len(again)]) {
			t.Fatalf("%x was read as %x", b, again)
		}
	})
}

type slowReader struct {
	b    []byte
	step int
}

func (r *slowReader) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(r.step, len(p))], r.b)
	r.b = r.b[n:]
	return n, nil
}

func FuzzHello(f *testing.F) {
	h := Hello{Database: "db", Incarnation: "one", Process: "p", Role: Peer, From: 3, To: 1, Expect: "q", Received: 1 << 31}
	f.Add(h.appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Hello
		if h.decode(b) == nil {
			if again := h.appendTo(nil); string(again) != string(b) {
				t.Fatalf("%x comes back as %x", b, again)
			}
		}
	})
}

func FuzzClientFrames(f *testing.F) {
	f.Add([]byte{1, 1, 2, 1, 9, 1, 2, 2, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = ReadTransactions(b, 4, func(x *txn.Transaction) { x.Accesses = append(x.Accesses, txn.Access{}) })
		_, _ = ReadOutcomes(b, nil)
	})
}

// BenchmarkLink sends messages of 100 bytes in batches of 20 from one node to another over loopback.
func BenchmarkLink(b *testing.B) {
	nodes := startNodes(b, twoRegions(geo.Link{}), uint64(b.N), nil)
	l := nodes[0].Link(1)
	eventually(b, 10*time.Second, "ready", func() bool { ok, _ := nodes[0].Ready(); return ok })
	done := nodes[1].receivers[0].done
	b.ReportAllocs()
	b.ResetTimer()
	for k := range uint64(b.N) {
		l.Send(number{k, 100})
		if k%20 == 19 {
			l.Flush()
			for nodes[0].Congested() {
				runtime.Gosched()
			}
		}
	}
	l.Flush()
	<-done
}
