package wire

import (
	"net"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// While a link is cut, it keeps the sent messages in order, and it delivers them once it has healed. If the delay of a
// link increases, messages arrive later.
func TestDisturbedLink(t *testing.T) {
	link := geo.Link{Delay: 5 * time.Millisecond}
	nodes := startNodes(t, twoRegions(link), 300, func(c *Config) { c.Emulate = true })
	a, b := nodes[0], nodes[1]
	got := b.receivers[0]
	eventually(t, 5*time.Second, "connected", func() bool { return a.Complete() && b.Complete() })
	l := a.Link(1)
	send := func(from, to uint64) {
		for i := from; i < to; i++ {
			l.Send(number{i, 100})
		}
		l.Flush()
	}
	send(0, 100)
	eventually(t, 5*time.Second, "100 messages", func() bool { return got.seen.Load() == 100 })
	l.Disturb(link, link, true)
	send(100, 200)
	eventually(t, 5*time.Second, "the messages are held", func() bool {
		l.s.mu.Lock()
		defer l.s.mu.Unlock()
		return l.s.blocked > 0
	})
	if n := got.seen.Load(); n != 100 {
		t.Fatalf("%d messages came through a link that is cut", n)
	}
	longer := geo.Link{Delay: 150 * time.Millisecond}
	l.Disturb(longer, longer, false)
	eventually(t, 10*time.Second, "200 messages", func() bool { return got.seen.Load() == 200 })
	begin := Now()
	send(200, 300)
	wait(t, 5*time.Second, "300 messages in order", got.done, nodes...)
	if took := Now() - begin; took < longer.Delay-time.Millisecond {
		t.Errorf("a link with a delay of %v took %v", longer.Delay, took)
	}
}

// A link that is faster than declared for a second is reported, with the interval in which it was too fast. A slower
// link is not reported, and neither is a link with a few short round trips.
func TestTooFast(t *testing.T) {
	link, faster := geo.Link{Delay: 30 * time.Millisecond}, geo.Link{Delay: 5 * time.Millisecond}
	nodes := startNodes(t, twoRegions(link), 1, func(c *Config) { c.Emulate = true })
	a, b := nodes[0], nodes[1]
	samples := func() int {
		s := &a.rtts[1]
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.n
	}
	more := func() {
		t.Helper()
		n := samples() + watched + 2
		eventually(t, 20*time.Second, "more round trips", func() bool { return samples() >= n })
	}
	more()
	if f := a.Fast(); len(f) > 0 {
		t.Fatalf("the declared network is too fast: %+v", f)
	}
	before := Now()
	a.Link(1).Disturb(faster, faster, false)
	b.Link(0).Disturb(faster, faster, false)
	more()
	a.Link(1).Disturb(link, link, false)
	b.Link(0).Disturb(link, link, false)
	after := Now()
	more()
	for _, n := range nodes {
		f := n.Fast()
		if len(f) != 1 || !f[0].Single || f[0].Peer == n.cfg.Self || f[0].From < before-time.Second || f[0].To > after+time.Second ||
			f[0].To-f[0].From < time.Second || f[0].Median < 10*time.Millisecond || f[0].Median > 56*time.Millisecond {
			t.Errorf("%+v, want one from %v to %v", f, before, after)
		}
	}
}

// A peer that was given up may disconnect. If it returns as another process, it is refused. Neither event breaks the
// database.
func TestGivenUpPeer(t *testing.T) {
	topology := twoRegions(geo.Link{})
	topology.Partitions = 2
	nodes := startNodes(t, topology, 1, nil)
	eventually(t, 5*time.Second, "connected", func() bool {
		for _, n := range nodes {
			if !n.Complete() {
				return false
			}
		}
		return true
	})
	const gone = 1
	var addresses []string
	for i, n := range nodes {
		addresses = append(addresses, n.listener.Addr().String())
		if i != gone {
			n.Link(gone).GiveUp()
		}
	}
	nodes[gone].Close()
	for range 1000 { // more than a link may hold
		nodes[0].Link(gone).Send(number{0, 100_000})
	}
	nodes[0].Link(gone).Flush()
	if nodes[0].Congested() {
		t.Error("a node waits for one that it has given up")
	}
	again := &testNode{receivers: map[geo.NodeID]*counting{}, broken: make(chan string, 1)}
	cfg := again.config(t, gone, topology, addresses, 1)
	cfg.Process = "another"
	again.Endpoint = New(cfg)
	listener, err := net.Listen("tcp", addresses[gone])
	if err != nil {
		t.Fatal(err)
	}
	again.Start(listener)
	t.Cleanup(again.Close)
	select {
	case <-again.broken:
	case <-time.After(10 * time.Second):
		t.Error("the process that came back does not know that its state is lost")
	}
	for i, n := range nodes {
		if ok, why := n.Ready(); i != gone && !ok {
			t.Errorf("node %d is not ready: %s", i, why)
		}
	}
	nodes[0].Link(2).Send(number{0, 100})
	nodes[0].Link(2).Flush()
	wait(t, 5*time.Second, "a message between those that are left", nodes[2].receivers[0].done, nodes...)
}
