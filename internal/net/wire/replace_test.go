package wire

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// diary records a node's inputs from its peer: "1" to "9" are received numbers, and "incarnation 2" is a call of
// Replaced with incarnation 2.
type diary struct {
	mu   sync.Mutex
	said []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.said = append(d.said, fmt.Sprintf(format, args...))
}

func (d *diary) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.said)
}

func (d *diary) Receive(payload []byte) error {
	m := ReadMessages(payload)
	for _, body, ok := m.Next(); ok; _, body, ok = m.Next() {
		d.note("%d", body[0])
	}
	return m.Err()
}

func (d *diary) Turn() {}

// replaceable is an incarnation of one of two nodes, both of which may be replaced by later incarnations.
type replaceable struct {
	*Endpoint
	diary
	broken chan string
	loop   sync.Mutex // held while sending
}

// send sends a number to the peer.
func (n *replaceable) send(number8 uint8) {
	n.loop.Lock()
	defer n.loop.Unlock()
	l := n.Link(1 - n.cfg.Self)
	l.Send(number{uint64(number8), 8})
	l.Flush()
}

// incarnation returns an incarnation of a node that has not started yet. Like a node's event loop, it opens its links
// when Replaced reports a later incarnation, unless the test opens them.
func incarnation(t *testing.T, id geo.NodeID, incarnation uint32, addresses []string, change func(*Config)) *replaceable {
	t.Helper()
	n := &replaceable{broken: make(chan string, 1)}
	cfg := (&testNode{}).config(t, int(id), twoRegions(geo.Link{}), addresses, 0)
	cfg.Process, cfg.NodeIncarnation, cfg.Replaceable = fmt.Sprintf("p%d.%d", id, incarnation), incarnation, []geo.NodeID{0, 1}
	cfg.Receiver = func(geo.NodeID) Receiver { return &n.diary }
	cfg.Replaced = func(peer geo.NodeID, incarnation uint32) {
		n.note("incarnation %d", incarnation)
		n.loop.Lock()
		defer n.loop.Unlock()
		n.Link(peer).Open(incarnation)
	}
	cfg.Broken = func(why string) { n.broken <- why }
	if change != nil {
		change(&cfg)
	}
	n.Endpoint = New(cfg)
	return n
}

// start starts the node, which runs until the end of the test.
func (n *replaceable) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", n.cfg.Addresses[n.cfg.Self])
	if err != nil {
		t.Fatal(err)
	}
	n.Start(l)
	t.Cleanup(n.Close)
}

func (n *replaceable) wantSaid(t *testing.T, want ...string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for ; !slices.Equal(n.all(), want); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("node %d, incarnation %d, has heard %q, want %q", n.cfg.Self, n.cfg.NodeIncarnation, n.all(), want)
		}
	}
}

func (n *replaceable) wantBroken(t *testing.T, want string) {
	t.Helper()
	select {
	case why := <-n.broken:
		if !strings.Contains(why, want) {
			t.Errorf("node %d is broken because %q, want %q", n.cfg.Self, why, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("node %d does not notice: %q", n.cfg.Self, want)
	}
}

func (n *replaceable) wantWell(t *testing.T) {
	t.Helper()
	if ok, why := n.Ready(); !ok {
		t.Errorf("node %d, incarnation %d: %s", n.cfg.Self, n.cfg.NodeIncarnation, why)
	}
}

func addresses(t *testing.T) []string {
	t.Helper()
	var out []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, l.Addr().String())
		_ = l.Close()
	}
	return out
}

// A later incarnation restarts a link, whether its node dials or accepts. Messages queued for the earlier incarnation
// are lost, and frame numbers start again. The new incarnation learns the incarnations of other nodes before it
// receives anything else.
func TestLaterIncarnation(t *testing.T) {
	for _, id := range []geo.NodeID{0, 1} {
		t.Run(fmt.Sprintf("node %d", id), func(t *testing.T) {
			at := addresses(t)
			other, first := incarnation(t, 1-id, 0, at, nil), incarnation(t, id, 0, at, nil)
			other.start(t)
			first.start(t)
			first.send(1)
			other.send(2)
			other.wantSaid(t, "1")
			first.wantSaid(t, "2")
			first.Close()
			other.send(3) // meant for the earlier incarnation
			second := incarnation(t, id, 1, at, nil)
			second.send(4)
			second.start(t)
			other.wantSaid(t, "1", "incarnation 1", "4")
			other.send(5)
			second.wantSaid(t, "5")
			second.Close()
			for i := range 300 { // more than one round of acknowledgements
				other.send(uint8(i))
			}
			// Incarnation 2 never existed. The other node learns of incarnation 3, and is then replaced itself.
			third := incarnation(t, id, 3, at, nil)
			third.start(t)
			other.wantSaid(t, "1", "incarnation 1", "4", "incarnation 3")
			other.Close()
			another := incarnation(t, 1-id, 7, at, nil)
			another.send(6) // lost: it is meant for incarnation 0 of the other node
			another.start(t)
			third.wantSaid(t, "incarnation 7")
			another.wantSaid(t, "incarnation 3")
			another.send(8)
			third.send(9)
			third.wantSaid(t, "incarnation 7", "8")
			another.wantSaid(t, "incarnation 3", "9")
			third.wantWell(t)
			another.wantWell(t)
		})
	}
}

// Messages sent between the arrival of a later incarnation and Open are lost, because the sender does not know yet that
// the peer was replaced. If Open is called for an incarnation other than the latest, it has no effect.
func TestNotOpenedYet(t *testing.T) {
	at := addresses(t)
	told := make(chan uint32, 4)
	n := incarnation(t, 0, 0, at, func(c *Config) { c.Replaced = func(_ geo.NodeID, i uint32) { told <- i } })
	n.start(t)
	first := incarnation(t, 1, 1, at, nil)
	first.start(t)
	<-told
	first.Close()
	second := incarnation(t, 1, 2, at, nil)
	second.start(t)
	<-told
	n.send(1)
	n.Link(1).Open(1)
	n.send(2)
	n.Link(1).Open(2)
	n.send(3)
	second.wantSaid(t, "3")
}

// Once a node has a later incarnation, a process of an earlier incarnation must never act for the node again. It does
// not matter which side dials, or how often. The earlier process notices this and stops.
func TestStaleProcessIsRefused(t *testing.T) {
	for _, id := range []geo.NodeID{0, 1} {
		t.Run(fmt.Sprintf("node %d", id), func(t *testing.T) {
			at := addresses(t)
			other, second := incarnation(t, 1-id, 0, at, nil), incarnation(t, id, 2, at, nil)
			other.start(t)
			second.start(t)
			second.send(1)
			other.wantSaid(t, "incarnation 2", "1")
			stale := incarnation(t, id, 1, at, func(c *Config) { c.Addresses = slices.Clone(c.Addresses); c.Addresses[id] = "127.0.0.1:0" })
			if id == 0 { // node 0 accepts connections, so its peer must find the stale process at the node's address
				second.Close()
				stale.cfg.Addresses[id] = at[id]
			}
			stale.send(99)
			stale.start(t)
			stale.wantBroken(t, "must not speak for it any more")
			if ok, why := stale.Ready(); ok || !strings.Contains(why, "incarnation 2") {
				t.Errorf("ready %t: %s", ok, why)
			}
			if id == 0 {
				stale.Close()
				second = incarnation(t, id, 3, at, nil)
				second.start(t)
			}
			second.send(7)
			want := []string{"incarnation 2", "1", "7"}
			if id == 0 {
				want = []string{"incarnation 2", "1", "incarnation 3", "7"}
			}
			other.wantSaid(t, want...)
			other.wantWell(t)
		})
	}
}

// Hellos of stale processes, and of a different process of the same incarnation, arrive at any time between hellos of
// the current process. None of them is admitted, and hellos of earlier incarnations have no effect.
func TestStaleGreetings(t *testing.T) {
	at := addresses(t)
	other, now := incarnation(t, 0, 0, at, nil), incarnation(t, 1, 5, at, nil)
	other.start(t)
	now.start(t)
	other.wantSaid(t, "incarnation 5")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 250 {
				err := hello(t, at[0], Hello{Role: Peer, From: 1, Process: fmt.Sprintf("p1.%d", i%5), NodeIncarnation: uint32(i % 5), Received: uint32(i)}, nil)
				if r, ok := errors.AsType[*Refusal](err); !ok || r.Code != Superseded {
					t.Errorf("a stale greeting: %v", err)
				}
			}
		})
	}
	want := []string{"incarnation 5"}
	for i := range 200 {
		now.send(uint8(i))
		want = append(want, fmt.Sprint(i))
	}
	wg.Wait()
	other.wantSaid(t, want...)
	other.wantWell(t)
	now.wantWell(t)
	err := hello(t, at[0], Hello{Role: Peer, From: 1, Process: "p1.x", NodeIncarnation: 5}, nil)
	if r, ok := errors.AsType[*Refusal](err); !ok || r.Code != LostState {
		t.Errorf("another process of the same incarnation: %v", err)
	}
	other.wantBroken(t, "was process p1.5 and is p1.x now: it has lost its state")
}

// If a node is not replaceable, a later incarnation of it means that the node has lost its state.
func TestIrreplaceable(t *testing.T) {
	at := addresses(t)
	other := incarnation(t, 0, 0, at, func(c *Config) { c.Replaceable = []geo.NodeID{0} })
	other.start(t)
	later := incarnation(t, 1, 1, at, nil)
	later.start(t)
	for _, n := range []*replaceable{other, later} {
		n.wantBroken(t, "is incarnation 1 now, process p1.1, and cannot be replaced: it has lost its state")
	}
}

// Hellos with an incarnation above the maximum are rejected.
func TestGreetingOfTooLateAnIncarnation(t *testing.T) {
	for _, h := range []Hello{{NodeIncarnation: MaxNodeIncarnation + 1}, {ExpectIncarnation: MaxNodeIncarnation + 1}} {
		h.Role = Peer
		if err := (&Hello{}).decode(h.appendTo(nil)); err == nil || !strings.Contains(err.Error(), "more than 8388607") {
			t.Errorf("%+v: %v", h, err)
		}
	}
}
