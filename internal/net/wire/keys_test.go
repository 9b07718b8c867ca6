package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// lock configures a node with the keys of the nodes and of the clients of run "r". strangers counts the refused
// connections.
func lock(c *Config, strangers *atomic.Int64) {
	c.Keys = &Keys{
		Peer: func() ([]byte, error) { return []byte("the key of the nodes"), nil },
		Client: func(run string) ([]byte, error) {
			if run != "r" {
				return nil, fmt.Errorf("no run %q is loaded", run)
			}
			return []byte("the key of run r"), nil
		},
		Stranger: func(net.Addr, error) { strangers.Add(1) },
	}
}

func locked(t *testing.T, want uint64, strangers *atomic.Int64) []*testNode {
	t.Helper()
	nodes := startNodes(t, twoRegions(geo.Link{}), want, func(c *Config) { lock(c, strangers) })
	for _, n := range nodes {
		eventually(t, 20*time.Second, "the nodes have reached each other", func() bool { ok, _ := n.Ready(); return ok })
	}
	return nodes
}

// hello sends a hello to a node from a process that knows everything about the database except the keys.
func hello(t *testing.T, address string, h Hello, key []byte) error {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	h.Database, h.Incarnation = "db", "one"
	_, err = greet(conn, newFrameReader(conn), &h, key)
	return err
}

// A thousand unauthenticated hellos affect neither the database, nor its links, nor the messages on the links.
func TestStrangers(t *testing.T) {
	var strangers atomic.Int64
	const messages = 2000
	nodes := locked(t, messages, &strangers)
	attempts := map[string]func() error{}
	for name, h := range map[string]Hello{
		"a peer that has started again":   {Role: Peer, From: 1, Process: "p9"},
		"the peer itself":                 {Role: Peer, From: 1, Process: "p1", Expect: "p0", Received: 1 << 30},
		"a peer that knows this node not": {Role: Peer, From: 1, Process: "p1", Expect: "p9"},
		"a client":                        {Role: Client, Process: "c", Run: "r"},
		"a client of another run":         {Role: Client, Process: "c", Run: "s"},
	} {
		for kind, key := range map[string][]byte{"without a key": nil, "with another key": []byte("guessed"), "with the other role's key": []byte("the key of run r")} {
			if h.Role == Client && kind == "with the other role's key" {
				key = []byte("the key of the nodes")
			}
			attempts[name+", "+kind] = func() error { return hello(t, nodes[0].cfg.Addresses[0], h, key) }
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range uint64(messages) {
			nodes[1].Link(0).Send(number{i, 100})
			nodes[1].Link(0).Flush()
		}
	})
	n := 0
	for n < 1000 {
		for name, attempt := range attempts {
			err := attempt()
			var refusal *Refusal
			if err == nil || errors.As(err, &refusal) && (refusal.Code == LostState || strings.Contains(refusal.Reason, "incarnation")) {
				t.Fatalf("%s: %v", name, err)
			}
			n++
		}
	}
	wg.Wait()
	wait(t, 20*time.Second, "all messages have come", nodes[0].receivers[1].done, nodes...)
	for i, node := range nodes {
		if ok, why := node.Ready(); !ok {
			t.Errorf("node %d: %s", i, why)
		}
		select {
		case why := <-node.broken:
			t.Errorf("node %d is broken: %s", i, why)
		default:
		}
	}
	eventually(t, 20*time.Second, "all strangers are counted", func() bool { return strangers.Load() >= int64(n) })
}

// A dialling node rejects an impostor at its peer's address, whatever the impostor claims.
func TestImpostor(t *testing.T) {
	for name, answer := range map[string]func(net.Conn, *frameReader){
		"it says that the state is lost": func(c net.Conn, _ *frameReader) { _ = writeFrame(c, frameRefusal, &Refusal{LostState, "gone"}) },
		"it welcomes everybody":          func(c net.Conn, _ *frameReader) { _ = writeFrame(c, frameWelcome, &welcome{"p0", 0, 7}) },
		"it has another key": func(c net.Conn, fr *frameReader) {
			_, body, err := fr.next()
			if err != nil {
				return
			}
			nonce := newNonce()
			_ = writeFrame(c, frameChallenge, &challenge{nonce, mac([]byte("guessed"), macAccepts, body, nonce)})
			_ = writeFrame(c, frameRefusal, &Refusal{LostState, "gone"})
		},
		"it sends back what it gets": func(c net.Conn, fr *frameReader) {
			if _, body, err := fr.next(); err == nil {
				_ = writeFrame(c, frameChallenge, &challenge{newNonce(), string(body[:32])})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			impostor, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer impostor.Close()
			var strangers, answered atomic.Int64
			go func() {
				for {
					c, err := impostor.Accept()
					if err != nil {
						return
					}
					answer(c, newFrameReader(c))
					answered.Add(1)
					_ = c.Close()
				}
			}()
			nodes := startNodes(t, twoRegions(geo.Link{}), 1, func(c *Config) {
				lock(c, &strangers)
				if c.Self == 1 {
					c.Addresses[0] = impostor.Addr().String()
				}
			})
			eventually(t, 20*time.Second, "it was asked some times", func() bool { return answered.Load() > 3 })
			select {
			case why := <-nodes[1].broken:
				t.Errorf("the database is broken: %s", why)
			default:
			}
			if ok, _ := nodes[1].Ready(); ok {
				t.Error("the impostor was taken for the node")
			}
		})
	}
}

// challenged sends a peer's hello to a node, and returns the connection and the node's challenge.
func challenged(t *testing.T, address string, h *Hello) (net.Conn, *frameReader, *challenge) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	fr := newFrameReader(conn)
	if err := writeFrame(conn, frameHello, h); err != nil {
		t.Fatal(err)
	}
	typ, body, err := fr.next()
	if err != nil || typ != frameChallenge {
		t.Fatalf("%d, %v", typ, err)
	}
	fr.keep()
	c := &challenge{}
	if err := c.decode(body); err != nil {
		t.Fatal(err)
	}
	return conn, fr, c
}

// answered sends a proof and returns the type of the answer.
func answered(t *testing.T, conn net.Conn, fr *frameReader, p *proof) uint8 {
	t.Helper()
	if err := writeFrame(conn, frameProof, p); err != nil {
		t.Fatal(err)
	}
	typ, _, err := fr.next()
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

// A proof is valid only for the connection for which it was made.
func TestProofsAreNotRepeated(t *testing.T) {
	var strangers atomic.Int64
	nodes := locked(t, 1, &strangers)
	h := &Hello{Database: "db", Incarnation: "one", Process: "p1", Role: Peer, From: 1, nonce: newNonce()}
	var recorded *proof
	for _, want := range []uint8{frameWelcome, frameRefusal} {
		conn, fr, c := challenged(t, nodes[0].cfg.Addresses[0], h)
		if recorded == nil { // the proof that the real node would send
			recorded = &proof{mac([]byte("the key of the nodes"), macDials, h.appendTo(nil), c.nonce)}
		}
		if typ := answered(t, conn, fr, recorded); typ != want {
			t.Errorf("the proof is answered by a frame of type %d, want %d", typ, want)
		}
	}
}

// A dialling process cannot use the accepting node's proof, which is part of the challenge, as its own proof.
func TestProofsAreNotSentBack(t *testing.T) {
	var strangers atomic.Int64
	nodes := locked(t, 1, &strangers)
	h := &Hello{Database: "db", Incarnation: "one", Process: "p1", Role: Peer, From: 1, nonce: newNonce()}
	conn, fr, c := challenged(t, nodes[0].cfg.Addresses[0], h)
	if typ := answered(t, conn, fr, &proof{c.proof}); typ != frameRefusal {
		t.Errorf("who sends the node's proof back is answered by a frame of type %d, not refused", typ)
	}
}

// Clients of the run that loaded its data are accepted, and can work as if there were no keys.
func TestClientWithAKey(t *testing.T) {
	var strangers atomic.Int64
	nodes := locked(t, 1, &strangers)
	for run, key := range map[string]string{"r": "the key of run r", "s": "the key of run r"} {
		h := Hello{Database: "db", Incarnation: "one", Process: "w", Run: run}
		c, err := Dial(context.Background(), nodes[0].cfg.Addresses[0], h, []byte(key), nil)
		if (err == nil) != (run == "r") {
			t.Errorf("run %s: %v", run, err)
		}
		if c != nil {
			c.Close()
		}
	}
	if strangers.Load() != 1 {
		t.Errorf("%d strangers", strangers.Load())
	}
	// A client with a key does not accept a node that requires no key.
	open := startNodes(t, twoRegions(geo.Link{}), 1, nil)
	if _, err := Dial(context.Background(), open[0].cfg.Addresses[0], Hello{Database: "db", Incarnation: "one", Process: "w", Run: "r"}, []byte("the key of run r"), nil); err == nil {
		t.Error("a node without keys was believed")
	}
}
