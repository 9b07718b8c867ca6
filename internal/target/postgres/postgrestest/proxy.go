package postgrestest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy stands between clients and a server, and can hang or break what goes through it.
type Proxy struct {
	// Address is host:port on the loopback interface.
	Address string

	server   string
	listener net.Listener
	mu       sync.Mutex
	thawed   *sync.Cond
	frozen   bool
	closed   bool
	open     map[net.Conn]bool
	wg       sync.WaitGroup
}

// NewProxy starts a proxy, and ends it with the test.
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
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			continue
		}
		p.wg.Add(2)
		go p.forward(client, server)
		go p.forward(server, client)
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

func (p *Proxy) forward(to, from net.Conn) {
	defer p.wg.Done()
	_, _ = io.Copy(gate{p, to}, from)
	_, _ = to.Close(), from.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, to)
	delete(p.open, from)
}

// gate lets nothing through while the proxy is frozen.
type gate struct {
	*Proxy
	to net.Conn
}

func (g gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	for g.frozen && !g.closed {
		g.thawed.Wait()
	}
	g.mu.Unlock()
	return g.to.Write(b)
}

// Freeze holds back all that is sent, in both directions, until Thaw: connections are there, and nobody answers.
func (p *Proxy) Freeze() { p.freeze(true) }

// Thaw lets what was held back go on.
func (p *Proxy) Thaw() { p.freeze(false) }

func (p *Proxy) freeze(frozen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = frozen
	p.thawed.Broadcast()
}

// Open is the number of connections of clients.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open) / 2
}

// Break ends all connections.
func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}

// Close ends all connections, and nobody listens any more.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.thawed.Broadcast()
	p.mu.Unlock()
	p.Break()
}
