package postgrestest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy forwards data between clients and a server. It can delay data and cut connections.
type Proxy struct {
	// Address is host:port on the loopback interface.
	Address string

	server   string
	listener net.Listener
	mu       sync.Mutex
	thawed   *sync.Cond
	frozen   bool
	closed   bool
	delay    time.Duration
	judge    func(sent []byte) Fate
	answer   func(sent []byte) bool
	open     map[net.Conn]bool
	wg       sync.WaitGroup
}

// Fate determines what happens to data that a client sends.
type Fate int

// Delivered data is forwarded. Lost data never reaches the server, because the proxy cuts the connection first.
// Unanswered data reaches the server, and the proxy cuts the connection instead of forwarding the answer. Stuck data is
// dropped, and the connection stays open.
const (
	Delivered Fate = iota
	Lost
	Unanswered
	Stuck
)

// NewProxy starts a proxy for a server, and stops it at the end of the test.
func NewProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: l.Addr().String(), server: server, listener: l, open: map[net.Conn]bool{}}
	p.thawed = sync.NewCond(&p.mu)
	p.wg.Add(1)
	go p.accept()
	t.Cleanup(func() {
		p.Close()
		p.wg.Wait()
	})
	return p
}

func (p *Proxy) accept() {
	defer p.wg.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		to := p.server
		p.mu.Unlock()
		server, err := net.Dial("tcp", to)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			continue
		}
		p.wg.Add(2)
		var unanswered atomic.Bool
		go p.forward(client, server, func(sent []byte) Fate {
			// Cut the connection only at an answer: the server may send other data first.
			if unanswered.Load() && p.answers(sent) {
				return Lost
			}
			p.pause()
			return Delivered
		})
		go p.forward(server, client, func(sent []byte) Fate {
			fate := p.judged(sent)
			if fate == Unanswered {
				unanswered.Store(true)
			}
			return fate
		})
	}
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			_ = c.Close()
		} else {
			p.open[c] = true
		}
	}
	return !p.closed
}

// forward copies data from one connection to the other, as fate decides. It closes both connections at the end.
func (p *Proxy) forward(to, from net.Conn, fate func(b []byte) Fate) {
	defer p.wg.Done()
	_, _ = io.Copy(gate{p, to, fate}, from)
	_, _ = to.Close(), from.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, to)
	delete(p.open, from)
}

// gate is a writer that blocks while the proxy is frozen, and applies fate to each piece of data.
type gate struct {
	*Proxy
	to   net.Conn
	fate func(b []byte) Fate
}

func (g gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	for g.frozen && !g.closed {
		g.thawed.Wait()
	}
	g.mu.Unlock()
	switch g.fate(b) {
	case Lost:
		return 0, io.ErrClosedPipe
	case Stuck:
		return len(b), nil
	}
	return g.to.Write(b)
}

// Lead directs new connections to another server, as a load balancer may.
func (p *Proxy) Lead(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}

// Judge sets the function that decides the fate of data that clients send from now on, piece by piece as read from the
// wire. If f is nil, all data is delivered. Several goroutines call f.
func (p *Proxy) Judge(f func(sent []byte) Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge = f
}

// Answers sets the function that reports whether data from a server is an answer, for protocols in which servers also
// send other data. If f is nil, all data counts as an answer.
func (p *Proxy) Answers(f func(sent []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = f
}

func (p *Proxy) answers(b []byte) bool {
	p.mu.Lock()
	answer := p.answer
	p.mu.Unlock()
	return answer == nil || answer(b)
}

// CutOnce cuts the next connection on which a client sends data that contains word. If served is set, the server
// receives the data, and the proxy cuts the connection when the server answers. Otherwise the proxy cuts the connection
// before the server receives the data.
func (p *Proxy) CutOnce(word string, served bool) {
	var done atomic.Bool
	p.Judge(func(sent []byte) Fate {
		switch {
		case !bytes.Contains(sent, []byte(word)) || done.Swap(true):
			return Delivered
		case served:
			return Unanswered
		}
		return Lost
	})
}

// Count delivers all data from now on. It returns a function that returns the number of messages that clients have sent
// after the call of Count. A message is a piece of data as read from the wire.
func (p *Proxy) Count() func() int64 {
	var n atomic.Int64
	p.Judge(func([]byte) Fate {
		n.Add(1)
		return Delivered
	})
	return n.Load
}

func (p *Proxy) judged(b []byte) Fate {
	p.mu.Lock()
	judge := p.judge
	p.mu.Unlock()
	if judge == nil {
		return Delivered
	}
	return judge(b)
}

// Delay delays all later answers by d.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

func (p *Proxy) pause() {
	p.mu.Lock()
	d := p.delay
	p.mu.Unlock()
	time.Sleep(d)
}

// Freeze holds back all data in both directions until Thaw. Connections stay open, but no answer arrives.
func (p *Proxy) Freeze() { p.freeze(true) }

// Thaw releases the data that was held back.
func (p *Proxy) Thaw() { p.freeze(false) }

func (p *Proxy) freeze(frozen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = frozen
	p.thawed.Broadcast()
}

// Open returns the number of clients' connections.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open) / 2
}

// Break closes all connections. The proxy still accepts new connections.
func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}

// Close closes all connections, and stops listening.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.thawed.Broadcast()
	p.mu.Unlock()
	p.Break()
}
