package wire

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/internal/base/geo"
)

// Config identifies a node and the receivers of its messages.
type Config struct {
	// Database and Incarnation are as in deploy.Database. Process names this process. NodeIncarnation is as in Hello.
	Database, Incarnation, Process string
	NodeIncarnation                uint32
	Self                           geo.NodeID
	Topology                       *geo.Topology
	// Addresses contains the host:port of each node, by geo.NodeID.
	Addresses []string
	// Emulate is set if sent messages are delayed as Topology.Links declares.
	Emulate bool
	// Seed seeds the emulation's random generator.
	Seed uint64
	// BufferLimit is the number of unacknowledged bytes that a link may keep for a peer before the endpoint counts as
	// congested. The link does not drop messages beyond the limit. 0 means 64 MiB.
	BufferLimit int
	// Durable is set if the node logs the messages that it receives. In that case no message is sent before Link.Flush or
	// Conn.Flush, regardless of the amount queued. A peer's frames are acknowledged only after Link.Logged.
	Durable bool
	// Keys authenticates connections. If it is nil, any process that knows the database and its incarnation may connect.
	Keys *Keys
	// Receiver returns the receiver for messages from peer from.
	Receiver func(from geo.NodeID) Receiver
	// Client returns the receiver for the transactions of a new client. ClientGone is called after the last call to that
	// receiver.
	Client     func(c *Conn) Receiver
	ClientGone func(c *Conn)
	// Replaceable lists the nodes that a later incarnation may replace. If a later incarnation replaces any other node,
	// the database has lost state.
	Replaceable []geo.NodeID
	// Replaced is called when a later incarnation has replaced a peer. The call follows all messages received from
	// the earlier incarnation, and precedes every message from the later one. From then on, messages to the peer
	// are lost until Link.Open confirms that they are meant for the later incarnation.
	Replaced func(peer geo.NodeID, incarnation uint32)
	// Broken is called once, with the reason, if the database has lost state.
	Broken func(reason string)
}

// Endpoint is a node's end of all its links and client connections.
type Endpoint struct {
	cfg   Config
	links []*Link // by geo.NodeID; nil for the node itself
	// peers contains the links to the nodes of each region, without this node.
	peers [][]*Link

	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	listener net.Listener

	reached   atomic.Int32 // number of links that have been connected at least once
	congested atomic.Int32 // number of congested links
	stalls    atomic.Int64
	broken    atomic.Pointer[string]

	toClients, fromClients traffic

	mu    sync.Mutex
	conns map[net.Conn]struct{} // accepted and dialled connections, for Close

	rtts []samples // by region
}

// rttWindow is the maximum age of reported round trips.
const rttWindow = 10 * time.Second

// samples contains the latest round trips to a region.
type samples struct {
	mu   sync.Mutex
	ring [256]struct{ at, rtt time.Duration }
	n    int
	// watch covers all links to the region together; each Link also has its own watch.
	watch watch
}

// New returns a node's endpoint. The endpoint does nothing before Start.
func New(cfg Config) *Endpoint {
	if cfg.BufferLimit == 0 {
		cfg.BufferLimit = 64 << 20
	}
	t := cfg.Topology
	e := &Endpoint{
		cfg:   cfg,
		links: make([]*Link, t.Nodes()),
		peers: make([][]*Link, len(t.Regions)),
		conns: map[net.Conn]struct{}{},
		rtts:  make([]samples, len(t.Regions)),
	}
	for r := range e.rtts {
		e.rtts[r].watch.least = t.LeastRTT(t.RegionOf(cfg.Self), geo.Region(r))
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	for i := range e.links {
		id := geo.NodeID(i)
		if id == cfg.Self {
			continue
		}
		l := &Link{e: e, peer: id, receiver: cfg.Receiver(id), problem: "not reached yet"}
		l.s = sender{
			wake:       make(chan struct{}, 1),
			resumable:  true,
			limit:      cfg.BufferLimit,
			congestion: e.congestion,
			recv:       l.acknowledgement,
		}
		if cfg.Emulate {
			l.s.path = geo.NewPath(*t.Link(cfg.Self, id), *t.Link(id, cfg.Self))
			l.s.rng = rand.New(rand.NewPCG(cfg.Seed, 1<<32|uint64(cfg.Self)<<16|uint64(id)))
		}
		l.out = outbox{s: &l.s, typ: frameData, head: dataBytes, hold: cfg.Durable, sent: &l.sent}
		e.links[i] = l
		l.watch.least = e.rtts[t.RegionOf(id)].watch.least
		e.peers[t.RegionOf(id)] = append(e.peers[t.RegionOf(id)], l)
	}
	return e
}

// Start accepts connections from l and dials the nodes with lower IDs.
func (e *Endpoint) Start(l net.Listener) {
	e.listener = l
	e.wg.Add(2)
	go e.accept()
	go e.probe()
	for _, l := range e.links {
		// In each pair of nodes, the node with the higher ID dials, so that the pair has a single connection.
		if l != nil && l.peer < e.cfg.Self {
			e.wg.Add(1)
			go e.dial(l)
		}
	}
}

// Close closes all connections and waits for all goroutines. Sent messages may be lost.
func (e *Endpoint) Close() {
	e.cancel()
	if e.listener != nil {
		_ = e.listener.Close()
	}
	e.mu.Lock()
	for c := range e.conns {
		_ = c.Close()
	}
	e.mu.Unlock()
	e.wg.Wait()
}

// Link returns the link to a peer.
func (e *Endpoint) Link(to geo.NodeID) *Link { return e.links[to] }

// Ready reports whether every peer has been reached and the database is not broken. If it returns false, why is the
// reason.
func (e *Endpoint) Ready() (ok bool, why string) {
	if b := e.broken.Load(); b != nil {
		return false, *b
	}
	if e.Complete() {
		return true, ""
	}
	var missing []string
	for _, l := range e.links {
		if l == nil {
			continue
		}
		l.mu.Lock()
		if !l.reached {
			missing = append(missing, e.cfg.Topology.NodeName(l.peer)+" ("+l.problem+")")
		}
		l.mu.Unlock()
	}
	// The last missing peer may have been reached since Complete was called.
	if len(missing) == 0 {
		return true, ""
	}
	return false, fmt.Sprintf("%d of %d peers not reached: %s", len(missing), len(e.links)-1, strings.Join(missing[:min(3, len(missing))], ", "))
}

// Complete reports whether every peer has been reached.
func (e *Endpoint) Complete() bool { return int(e.reached.Load()) == len(e.links)-1 }

// Congested reports whether any link keeps more than Config.BufferLimit unacknowledged bytes.
func (e *Endpoint) Congested() bool { return e.congested.Load() > 0 }

// Stalls returns how often a link became congested.
func (e *Endpoint) Stalls() int64 { return e.stalls.Load() }

// Connected returns the number of peers that are connected now.
func (e *Endpoint) Connected() int {
	n := 0
	for _, l := range e.links {
		if l != nil && l.connected() {
			n++
		}
	}
	return n
}

// Sent returns the traffic sent to the nodes of region r. Frames include probes and exclude retransmissions; messages
// include probes and acknowledgements.
func (e *Endpoint) Sent(r geo.Region) (t geo.Traffic) {
	for _, l := range e.peers[r] {
		t.Add(l.sent.load())
	}
	return t
}

// ClientTraffic returns the transactions received from clients and the outcomes sent to them.
func (e *Endpoint) ClientTraffic() (requests, answers geo.Traffic) {
	return e.fromClients.load(), e.toClients.load()
}

// RoundTrips returns the round trips to region r in the last 10 s, in microseconds, or nil if the region contains no
// other node.
func (e *Endpoint) RoundTrips(r geo.Region) *hdrhistogram.Histogram {
	if len(e.peers[r]) == 0 {
		return nil
	}
	h := hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)
	s := &e.rtts[r]
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := Now() - rttWindow
	for i := range min(s.n, len(s.ring)) {
		if s.ring[i].at >= oldest {
			// Clamp the value, because the histogram drops values outside of its range.
			_ = h.RecordValue(min(max(s.ring[i].rtt.Microseconds(), 1), h.HighestTrackableValue()))
		}
	}
	return h
}

func (e *Endpoint) roundTrip(peer geo.NodeID, nanoseconds int64) {
	if nanoseconds < 0 {
		return // the peer did not return our timestamp
	}
	s := &e.rtts[e.cfg.Topology.RegionOf(peer)]
	now, rtt := Now(), time.Duration(nanoseconds)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring[s.n%len(s.ring)] = struct{ at, rtt time.Duration }{now, rtt}
	s.n++
	// With a single peer, the watch of the link to this peer covers the region.
	if len(e.peers[e.cfg.Topology.RegionOf(peer)]) > 1 {
		s.watch.add(now, rtt)
	}
	e.links[peer].watch.add(now, rtt)
}

// Fast returns the intervals since Start in which links were too fast. For each region, it lists the intervals of all
// links together, if there are several links, followed by the intervals of each link.
func (e *Endpoint) Fast() (out []Fast) {
	for r := range e.rtts {
		s := &e.rtts[r]
		add := func(w *watch, peer geo.NodeID, single bool) {
			for _, f := range w.spans {
				f.Region, f.Peer, f.Single = geo.Region(r), peer, single
				out = append(out, f)
			}
		}
		s.mu.Lock()
		add(&s.watch, 0, false)
		for _, l := range e.peers[r] {
			add(&l.watch, l.peer, true)
		}
		s.mu.Unlock()
	}
	return out
}

func (e *Endpoint) congestion(on bool) {
	if on {
		e.congested.Add(1)
		e.stalls.Add(1)
	} else {
		e.congested.Add(-1)
	}
}

// fail reports that the database is broken. Only the first call reports anything.
func (e *Endpoint) fail(reason string) {
	if e.broken.CompareAndSwap(nil, &reason) {
		e.cfg.Broken(reason)
	}
}

// probe continuously measures round trips to every region, alternating between the nodes of the region. It also closes
// silent connections.
func (e *Endpoint) probe() {
	defer e.wg.Done()
	// Nodes probe at different times, so that the probes of many nodes in one process do not coincide.
	phase := probeEvery * time.Duration(e.cfg.Self) / time.Duration(len(e.links))
	select {
	case <-time.After(phase):
	case <-e.ctx.Done():
		return
	}
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		for _, peers := range e.peers {
			if len(peers) == 0 {
				continue
			}
			if l := peers[n%len(peers)]; l.connected() {
				l.control(framePing, uint64(Now()))
				// TCP may take minutes to notice that a peer has died. Because of the probes, an intact connection is never silent.
				if Now()-time.Duration(l.heard.Load()) > silence {
					l.mu.Lock()
					if l.current != nil {
						_ = l.current.conn.Close()
					}
					l.mu.Unlock()
				}
			}
		}
		select {
		case <-tick.C:
		case <-e.ctx.Done():
			return
		}
	}
}

// dial maintains a connection to a peer with a lower ID.
func (e *Endpoint) dial(l *Link) {
	defer e.wg.Done()
	const first, last = 10 * time.Millisecond, time.Second
	backoff := first
	for e.ctx.Err() == nil && !l.given.Load() {
		connected, err := e.dialOnce(l)
		var refusal *Refusal
		// Further attempts cannot succeed, because one of the two processes has lost its state or was replaced.
		if errors.As(err, &refusal) && (refusal.Code == LostState || refusal.Code == Superseded) && !l.given.Load() {
			e.fail(refusal.Reason)
			return
		}
		// The peer was running a moment ago, so retry soon.
		if connected {
			backoff = first
		}
		select {
		// The random component keeps nodes from dialling a restarted peer all at the same time.
		case <-time.After(backoff/2 + rand.N(backoff)):
		case <-e.ctx.Done():
			return
		}
		backoff = min(2*backoff, last)
	}
}

// dialOnce dials a peer and serves the connection until it closes.
func (e *Endpoint) dialOnce(l *Link) (connected bool, err error) {
	d := net.Dialer{Timeout: handshake}
	conn, err := d.DialContext(e.ctx, "tcp", e.cfg.Addresses[l.peer])
	if err != nil {
		l.mu.Lock()
		l.problem = err.Error()
		l.mu.Unlock()
		return false, err
	}
	if !e.track(conn) {
		return false, e.ctx.Err()
	}
	defer e.untrack(conn)
	s := l.begin(conn)
	defer func() { l.end(s, err) }()
	fr := newFrameReader(conn)
	var key []byte
	if e.cfg.Keys != nil {
		if key, err = e.cfg.Keys.Peer(); err != nil {
			return false, err
		}
	}
	h := e.hello(Peer)
	h.To, h.Received = l.peer, l.resume()
	l.mu.Lock()
	h.Expect, h.ExpectIncarnation = l.process, l.incarnation
	l.mu.Unlock()
	w, err := greet(conn, fr, &h, key)
	if err != nil {
		return false, err
	}
	if r := l.know(&w); r != nil {
		if r.Code == Superseded { // not this node but the process at that address is outdated
			return false, errors.New(r.Reason)
		}
		return false, r
	}
	return true, l.run(s, fr, w.process, w.received)
}

func (e *Endpoint) hello(role Role) Hello {
	return Hello{Database: e.cfg.Database, Incarnation: e.cfg.Incarnation, Process: e.cfg.Process, NodeIncarnation: e.cfg.NodeIncarnation,
		Role: role, From: e.cfg.Self}
}

// track registers a connection for Close. If the endpoint is already closed, it closes the connection and returns
// false.
func (e *Endpoint) track(conn net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	// Close has already closed the connections that were tracked, so nothing else would close this connection.
	if e.ctx.Err() != nil {
		_ = conn.Close()
		return false
	}
	e.conns[conn] = struct{}{}
	return true
}

func (e *Endpoint) untrack(conn net.Conn) {
	_ = conn.Close()
	e.mu.Lock()
	delete(e.conns, conn)
	e.mu.Unlock()
}

func (e *Endpoint) accept() {
	defer e.wg.Done()
	for {
		conn, err := e.listener.Accept()
		if err != nil {
			if e.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			select { // probably out of file descriptors
			case <-time.After(10 * time.Millisecond):
			case <-e.ctx.Done():
			}
			continue
		}
		if !e.track(conn) {
			return
		}
		e.wg.Add(1)
		go func() {
			defer e.wg.Done()
			defer e.untrack(conn)
			e.serve(conn)
		}()
	}
}

// serve handles an accepted connection until it closes.
func (e *Endpoint) serve(conn net.Conn) {
	fr := newFrameReader(conn)
	h, err := receiveHello(conn, fr, e.cfg.Keys)
	if err != nil {
		code := WrongAddress
		if stranger := (*strangerError)(nil); errors.As(err, &stranger) {
			code = Unproven
		}
		if e.cfg.Keys != nil {
			e.cfg.Keys.Stranger(conn.RemoteAddr(), err)
			// Report the reason only to Stranger: the caller could use it to probe the database.
			err = errStranger // an unauthenticated caller gets no information
		}
		_ = writeFrame(conn, frameRefusal, &Refusal{code, err.Error()})
		return
	}
	if r := e.judge(h); r != nil {
		_ = writeFrame(conn, frameRefusal, r)
		return
	}
	if h.Role == Client {
		c := newConn(conn, fr, e.clientPath(), frameOutcomes, frameSubmit, &e.toClients, &e.fromClients)
		c.out.hold, c.run = e.cfg.Durable, h.Run
		receiver := e.cfg.Client(c)
		if writeFrame(conn, frameWelcome, &welcome{process: e.cfg.Process, incarnation: e.cfg.NodeIncarnation}) == nil {
			c.start()
			_ = c.Serve(receiver)
		}
		c.Close()
		e.cfg.ClientGone(c)
		return
	}
	l := e.links[h.From]
	s, r := l.admit(conn, h)
	if r != nil {
		_ = writeFrame(conn, frameRefusal, r)
		if r.Code == LostState && !l.given.Load() {
			e.fail(r.Reason)
		}
		return
	}
	if h.ExpectIncarnation != e.cfg.NodeIncarnation {
		h.Received = 0 // it counts frames of an earlier incarnation
	}
	if err = writeFrame(conn, frameWelcome, &welcome{e.cfg.Process, e.cfg.NodeIncarnation, l.resume()}); err == nil {
		err = l.run(s, fr, h.Process, h.Received)
	}
	l.end(s, err)
}

var errStranger = errors.New("who connects here must have a key of this database")

// judge returns the reason for refusing a hello, or nil to accept it.
func (e *Endpoint) judge(h *Hello) *Refusal {
	t := e.cfg.Topology
	wrong := func(format string, args ...any) *Refusal {
		return &Refusal{WrongAddress, fmt.Sprintf(format, args...)}
	}
	switch {
	case h.Database != e.cfg.Database:
		return wrong("this is database %q, not %q", e.cfg.Database, h.Database)
	case h.Incarnation != e.cfg.Incarnation:
		return wrong("this is incarnation %q of database %q, not %q", e.cfg.Incarnation, e.cfg.Database, h.Incarnation)
	case h.To != e.cfg.Self:
		return wrong("this is node %d (%s), not %d", e.cfg.Self, t.NodeName(e.cfg.Self), h.To)
	// A client may connect to any node; the following rules apply only to peers.
	case h.Role == Client:
		return nil
	case int(h.From) >= t.Nodes() || h.From <= e.cfg.Self:
		return wrong("node %d does not dial node %d; nodes %d to %d do", h.From, e.cfg.Self, e.cfg.Self+1, t.Nodes()-1)
	}
	return nil
}

// clientPath returns the emulated link from this node to a client in its own region, or nil without emulation.
func (e *Endpoint) clientPath() *geo.Path {
	if !e.cfg.Emulate {
		return nil
	}
	r := e.cfg.Topology.RegionOf(e.cfg.Self)
	link := e.cfg.Topology.Links[r][r]
	return geo.NewPath(link, link)
}
