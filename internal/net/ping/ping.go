// Package ping measures round trips between the pods of a database that does not integrate with Geobench. The prober of
// each pod sends small UDP packets to the probers of all other pods, which send them back. A prober reports its
// measurements over the administration protocol (package admin), like the nodes of native engines. A prober needs no
// privileges. Its packets take the same path as all other packets of the pod: through the emulated network.
//
// If the pods' connections pass through a service mesh, the UDP packets bypass it, because the mesh carries only TCP.
// The prober then also measures round trips over TCP connections, which pass through the mesh like the connections of
// other programs. The difference is the delay that the mesh adds to a link.
//
// The same port serves two further measurements, for users and tests: packet loss (Measure) and throughput (Stream).
package ping

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/metrics"
)

const (
	// interval is the time between two packets to the same peer.
	interval = 200 * time.Millisecond
	// slots is the length of the reporting window in seconds; each slot covers one second.
	slots = 10
	// resolveEvery is the time between two lookups of a host name. Lookups are repeated because a replacement of a pod has
	// a different address.
	resolveEvery = time.Second
	// longest is the longest plausible round trip; longer ones are discarded.
	longest = time.Minute
)

// A packet consists of four 64-bit words: the kind of the packet, the sender's token, a sequence number, and the send
// time. The send time is in nanoseconds since the sender started.
const (
	request    = 0x67656f62656e6368 // "geobench"
	reply      = 0x686374656e62656f
	packetSize = 32
)

type packet struct{ kind, token, seq, sent uint64 }

func (p packet) append(b []byte) []byte {
	for _, v := range []uint64{p.kind, p.token, p.seq, p.sent} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

func parse(b []byte) (packet, bool) {
	if len(b) < packetSize {
		return packet{}, false
	}
	word := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	p := packet{word(0), word(1), word(2), word(3)}
	return p, p.kind == request || p.kind == reply
}

// Prober measures round trips to the other pods, answers their packets and reports the results.
type Prober struct {
	db      *deploy.Database
	self    geo.NodeID
	conn    net.PacketConn
	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)
	log     *slog.Logger
	process string
	token   uint64
	start   time.Time
	began   time.Time
	peers   []*peer

	mu      sync.Mutex
	links   []window // by region
	through []window // by region, over TCP; nil without a mesh
}

// peer is another pod.
type peer struct {
	id   geo.NodeID
	host string

	mu   sync.Mutex
	addr net.Addr
	// reached is set once the peer has answered a packet.
	reached bool
	sent    int64
	// short is the number of latest consecutive round trips that were shorter than declared. long is the number of latest
	// consecutive round trips that were not.
	//
	// first is the end of the first round trip in the current series of long ones. complete is the time since which the
	// link has been as long as declared, or zero if it is not. It is set to first when a series reaches the length
	// believed.
	short, long     int
	first, complete time.Time
}

// window contains the round trips of the last slots seconds, in microseconds, and counters since the start.
type window struct {
	second [slots]int64
	rtts   [slots]*hdrhistogram.Histogram
	bytes  int64
	count  int64
	// answered is the number of answered packets, out of count.
	answered int64
}

// New returns the prober of node self. It sends and receives on conn, a UDP socket on the port that all probers use.
// Run closes conn.
func New(db *deploy.Database, self geo.NodeID, conn net.PacketConn, log *slog.Logger) (*Prober, error) {
	p := &Prober{db: db, self: self, conn: conn, log: log, start: time.Now(), began: time.Now(), links: make([]window, len(db.Topology.Regions))}
	if db.Meshed {
		p.through = make([]window, len(db.Topology.Regions))
	}
	p.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip4", host)
	}
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, err
	}
	p.process, p.token = hex.EncodeToString(b[:8]), binary.BigEndian.Uint64(b[8:])
	for i := range db.Nodes {
		// Skip this node, and node numbers that are absent because their region has fewer pods than another region.
		if geo.NodeID(i) == self || db.Nodes[i].Admin == "" {
			continue
		}
		host, _, err := net.SplitHostPort(db.Nodes[i].Admin)
		if err != nil {
			return nil, fmt.Errorf("nodes[%d].admin: %w", i, err)
		}
		p.peers = append(p.peers, &peer{id: geo.NodeID(i), host: host})
	}
	return p, nil
}

// Run sends packets to the other probers and answers their packets until ctx ends. It then returns nil.
func (p *Prober) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	// ReadFrom does not watch ctx, so close the socket to unblock it.
	stop := context.AfterFunc(ctx, func() { _ = p.conn.Close() })
	defer stop()
	for i, to := range p.peers {
		group.Go(func() { p.resolve(ctx, to) })
		// Spread the packets over an interval, so that packets to different peers do not queue up.
		group.Go(func() { p.probe(ctx, to, interval*time.Duration(i)/time.Duration(len(p.peers))) })
		if p.db.Meshed {
			group.Go(func() { p.connect(ctx, to) })
		}
	}
	b := make([]byte, 2048)
	for {
		n, from, err := p.conn.ReadFrom(b)
		// Check ctx before err: when ctx ends, conn is closed, which makes ReadFrom fail. This is not an error.
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			continue // an ICMP error that an earlier packet caused, for example because nothing listens at its destination
		}
		// Take the time before anything else, so that the work below does not count towards the round trip.
		at := time.Since(p.start)
		m, ok := parse(b[:n])
		switch {
		case !ok:
		case m.kind == request:
			m.kind = reply
			_, _ = p.conn.WriteTo(m.append(make([]byte, 0, packetSize)), from)
		// A reply with a different token was meant for another process, whose clock has a different zero.
		case m.token == p.token:
			p.record(from, at-time.Duration(m.sent))
		}
	}
}

// resolve looks up the peer's address every resolveEvery until ctx ends. If a lookup fails, it keeps the previous
// address.
func (p *Prober) resolve(ctx context.Context, to *peer) {
	tick := time.NewTicker(resolveEvery)
	defer tick.Stop()
	port := uint16(p.conn.LocalAddr().(*net.UDPAddr).Port)
	for {
		addrs, err := p.lookup(ctx, to.host)
		to.mu.Lock()
		switch {
		case err == nil && len(addrs) > 0:
			to.addr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(addrs[0], port))
		case err != nil && ctx.Err() == nil:
			p.log.Debug("peer is not known", "host", to.host, "error", err)
		}
		to.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *Prober) probe(ctx context.Context, to *peer, phase time.Duration) {
	first := time.NewTimer(phase)
	defer first.Stop()
	select {
	case <-ctx.Done():
		return
	case <-first.C:
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	region := p.db.Topology.RegionOf(to.id)
	for {
		to.mu.Lock()
		addr := to.addr
		to.sent++
		seq := to.sent
		to.mu.Unlock()
		if addr != nil {
			m := packet{request, p.token, uint64(seq), uint64(time.Since(p.start))}
			if _, err := p.conn.WriteTo(m.append(make([]byte, 0, packetSize)), addr); err == nil {
				p.mu.Lock()
				p.links[region].bytes += packetSize
				p.links[region].count++
				p.mu.Unlock()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// record records a round trip to the pod at addr. It ignores unknown addresses and implausible times.
func (p *Prober) record(addr net.Addr, rtt time.Duration) {
	// The send time comes from the packet, so it may be corrupt. longest is also the upper bound of the histograms.
	if rtt < 0 || rtt > longest {
		return
	}
	for _, to := range p.peers {
		to.mu.Lock()
		known := to.addr != nil && to.addr.String() == addr.String()
		if known {
			to.reached = true
			t := &p.db.Topology
			// LeastRTT already allows for a tolerance and for jitter, so a shorter round trip lacks part of the declared delay.
			to.judge(time.Now(), rtt, t.LeastRTT(t.RegionOf(p.self), t.RegionOf(to.id)))
		}
		to.mu.Unlock()
		if known {
			p.mu.Lock()
			w := &p.links[p.db.Topology.RegionOf(to.id)]
			w.record(int64(time.Since(p.start)/time.Second), rtt)
			w.answered++
			p.mu.Unlock()
			return
		}
	}
}

// believed is the number of consecutive round trips that change the state of a link. A single round trip proves
// nothing. Its packet may have been in flight when the link changed, or may be late because the machine was busy.
const believed = 3

// judge updates the state of the link with a round trip that ended at now. least is the shortest round trip that the
// declared link permits.
func (to *peer) judge(now time.Time, rtt, least time.Duration) {
	if rtt < least {
		to.long = 0
		if to.short++; to.short >= believed {
			to.complete = time.Time{}
		}
		return
	}
	to.short = 0
	if to.long++; to.long == 1 {
		to.first = now
	}
	// The link was already long at the start of the series, not only when the series became credible. Do not change a
	// nonzero complete: the link has been long since that time.
	if to.long >= believed && to.complete.IsZero() {
		to.complete = to.first
	}
}

// linksComplete returns the time since which every link is as long as declared, or nil if a link is not.
func (p *Prober) linksComplete() *time.Time {
	latest := p.began
	for _, to := range p.peers {
		to.mu.Lock()
		complete := to.complete
		to.mu.Unlock()
		if complete.IsZero() {
			return nil
		}
		if complete.After(latest) {
			latest = complete
		}
	}
	// Round(0) strips the monotonic clock reading, which has no meaning in other processes.
	latest = latest.Round(0).UTC()
	return &latest
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(longest/time.Microsecond), 3)
}

func (w *window) record(second int64, rtt time.Duration) {
	i := second % slots
	switch {
	case w.rtts[i] == nil:
		w.rtts[i] = newHistogram()
	// The slot still contains round trips from at least slots seconds ago.
	case w.second[i] != second:
		w.rtts[i].Reset()
	}
	w.second[i] = second
	// A round trip below 1 µs counts as 1 µs, the lowest value of the histogram.
	_ = w.rtts[i].RecordValue(max(1, rtt.Microseconds()))
}

// merged returns the round trips of the window that ends with the given second, or nil if there are none.
func (w *window) merged(second int64) *hdrhistogram.Histogram {
	var all *hdrhistogram.Histogram
	for i, h := range w.rtts {
		// A slot keeps its round trips until a new round trip overwrites them. They may be old, for example if the peer has
		// not answered for a while.
		if h == nil || w.second[i] <= second-slots {
			continue
		}
		if all == nil {
			all = newHistogram()
		}
		all.Merge(h)
	}
	return all
}

// Status returns the measurements. A prober is ready once every peer has answered.
func (p *Prober) Status(context.Context) (*admin.Status, error) {
	t := &p.db.Topology
	s := &admin.Status{Node: t.NodeName(p.self), ID: int(p.self), Incarnation: p.db.Incarnation, Process: p.process, Ready: true}
	if err := p.Ready(); err != nil {
		s.Ready, s.Reason = false, err.Error()
	}
	s.LinksComplete = p.linksComplete()
	second := int64(time.Since(p.start) / time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	for r, name := range t.Regions {
		l := admin.LinkStatus{To: name, Traffic: geo.Traffic{Bytes: p.links[r].bytes, Messages: p.links[r].count}, Probes: p.links[r].count, Answered: p.links[r].answered}
		var err error
		if l.RTT, err = admin.EncodeRTT(p.links[r].merged(second)); err != nil {
			return nil, err
		}
		if l.Mesh, err = p.meshRTT(geo.Region(r), second); err != nil {
			return nil, err
		}
		if l.Mesh != nil { // transactions take the path through the mesh
			l.RTT = l.Mesh.Through
		}
		s.Links = append(s.Links, l)
	}
	return s, nil
}

// Metrics exports the measurements to Prometheus, as the nodes of native engines do.
func (p *Prober) Metrics() prometheus.Collector {
	t := &p.db.Topology
	self := t.RegionOf(p.self)
	return metrics.NewCollector([]*metrics.Definition{metrics.NodeReady, metrics.DeclaredRTT, metrics.RTTTolerance, metrics.RTTSamples, metrics.MedianRTT, metrics.TailRTT, metrics.BelowMeshRTT, metrics.ThroughMeshRTT}, func(put metrics.Put) {
		ready := 0.0
		if p.Ready() == nil {
			ready = 1
		}
		put(metrics.NodeReady, ready)
		second := int64(time.Since(p.start) / time.Second)
		p.mu.Lock()
		defer p.mu.Unlock()
		for r := range t.Regions {
			shown := &p.links[r]
			if p.db.Meshed {
				shown = &p.through[r]
			}
			metrics.PutRTT(put, t, self, geo.Region(r), shown.merged(second))
		}
		p.putMesh(put, second)
	}, p.db.Name, p.db.Engine, t.Regions[self], t.NodeName(p.self))
}

// Load always fails: only the database's own protocol can load data.
func (p *Prober) Load(context.Context, *admin.LoadRequest) (*admin.LoadResponse, error) {
	return nil, &admin.BadRequest{Err: errors.New("this is a prober: data is loaded through the database's own protocol")}
}

// Audit always fails: only the database's own protocol can audit data.
func (p *Prober) Audit(context.Context) (*admin.Audit, error) {
	return nil, &admin.BadRequest{Err: errors.New("this is a prober: data is audited through the database's own protocol")}
}

// Healthy returns nil: a process that answers is alive.
func (p *Prober) Healthy() error { return nil }

// Ready returns an error that names a peer that has not answered yet, or nil if all peers have answered.
func (p *Prober) Ready() error {
	for _, to := range p.peers {
		to.mu.Lock()
		reached, addr := to.reached, to.addr
		to.mu.Unlock()
		switch {
		case addr == nil:
			return fmt.Errorf("the name %s is not known yet", to.host)
		case !reached:
			return fmt.Errorf("%s has not answered yet", p.db.Topology.NodeName(to.id))
		}
	}
	return nil
}

// Sink serves the TCP connections of probers and of Stream until ctx ends. If the data on a connection starts with a
// packet, Sink sends all packets back. Otherwise it discards the data and, at the end, reports the number of bytes
// received.
func Sink(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer stop()
			b := make([]byte, 1<<16)
			first, err := io.ReadFull(c, b[:packetSize])
			if m, ok := parse(b[:first]); ok && m.kind == request {
				// b must have exactly the size of a packet, because sendBack reads until b is full.
				sendBack(c, b[:packetSize])
				return
			}
			var total [8]byte
			if err != nil { // the client has already finished
				binary.BigEndian.PutUint64(total[:], uint64(first))
				_, _ = c.Write(total[:])
				return
			}
			for n := uint64(first); ; {
				k, err := c.Read(b)
				n += uint64(k)
				if err != nil {
					// The client has finished sending and now waits for the number of bytes that arrived.
					binary.BigEndian.PutUint64(total[:], n)
					_, _ = c.Write(total[:])
					return
				}
			}
		}()
	}
}

// Figures summarizes a measurement.
type Figures struct {
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
	// LossPPM is the share of packets without an answer in parts per million. Losses in both directions count.
	LossPPM int64 `json:"lossPPM"`
	// RTTMicroseconds contains the round-trip times "p50", "p90", "p99" and "max".
	RTTMicroseconds map[string]int64 `json:"rttMicroseconds"`
}

// Measure sends count packets to a prober, one per interval each. After the last packet it waits for answers for the
// duration wait, and returns a summary.
func Measure(ctx context.Context, addr string, count int, each, wait time.Duration) (*Figures, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	start := time.Now()
	h := newHistogram()
	seen := make([]bool, count)
	received := int64(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 2048)
		for {
			n, err := conn.Read(b)
			if errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) {
				return
			}
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				return
			}
			at := time.Since(start)
			// UDP may duplicate packets. Count each answer once, so that a duplicate does not hide the loss of another packet.
			if m, ok := parse(b[:n]); err == nil && ok && m.kind == reply && m.seq < uint64(count) && !seen[m.seq] {
				seen[m.seq] = true
				received++
				_ = h.RecordValue(max(1, (at - time.Duration(m.sent)).Microseconds()))
			}
		}
	}()
	tick := time.NewTicker(each)
	defer tick.Stop()
	for i := range count {
		m := packet{request, 0, uint64(i), uint64(time.Since(start))}
		// Ignore errors: Write may report an ICMP error of an earlier packet, and a packet that was not sent counts as lost.
		_, _ = conn.Write(m.append(make([]byte, 0, packetSize)))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
	// The goroutine ends only at the deadline, even if all answers have arrived.
	_ = conn.SetReadDeadline(time.Now().Add(wait))
	<-done
	f := &Figures{Sent: int64(count), Received: received, LossPPM: (int64(count) - received) * 1_000_000 / int64(count)}
	f.RTTMicroseconds = map[string]int64{"p50": h.ValueAtPercentile(50), "p90": h.ValueAtPercentile(90), "p99": h.ValueAtPercentile(99), "max": h.Max()}
	return f, nil
}

// Stream sends data as fast as TCP permits for at least the given duration. It returns the throughput in bits per
// second, as counted by the receiver.
func Stream(ctx context.Context, addr string, lasting time.Duration) (int64, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	start := time.Now()
	b := make([]byte, 1<<16)
	for time.Since(start) < lasting {
		if _, err := conn.Write(b); err != nil {
			return 0, err
		}
	}
	// The sink reports the total only after the end of the stream. Close only the sending direction, so that the sink can
	// still answer.
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return 0, err
	}
	var total [8]byte
	if _, err := io.ReadFull(conn, total[:]); err != nil {
		return 0, err
	}
	// The elapsed time includes the delivery of buffered data, because the sink sends the total only after it has received
	// the last byte.
	return int64(float64(binary.BigEndian.Uint64(total[:])) * 8 / time.Since(start).Seconds()), nil
}
