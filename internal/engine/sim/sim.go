// Package sim runs a database in virtual time, as a discrete-event simulation. It runs the same replicas as real nodes
// do, each with a simulated CPU, on a simulated network. Simulating minutes of a database takes seconds, and the same
// seed gives the same events, byte for byte.
//
// Network. Every pair of nodes has a connection in each direction, which is a geo.Path over the link of their regions.
// Every client machine has such connections to the nodes of its region. Messages are passed by pointer, but the network
// charges for their Size.
//
// CPU. A node is a single server with a queue of messages, transactions and timers. When an item reaches the front of
// the queue, the replica's method runs in no virtual time, and the CPU is charged afterwards: see Costs. The replica's
// messages leave when the charged time is over.
package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// FrameBytes is the overhead in bytes of a frame that carries a single message: see package wire.
const FrameBytes = 16

// probeBytes is the size in bytes of a frame with a probe or its answer.
const probeBytes = 32

// Config describes a simulation.
type Config struct {
	Topology   *geo.Topology
	Engine     *protocol.Engine
	Params     protocol.Params // from Engine.Resolve
	Procedures *txn.Registry
	Seed       uint64
	// Coordinators selects the nodes to which clients send their transactions.
	Coordinators geo.Coordinators
	// Costs are the costs of operations on a node's CPU. With the zero value, operations take no time; see DefaultCosts.
	Costs Costs
	// ClockOffsets contains the offset of each node's clock from the simulation's clock, by NodeID. A clock with a
	// positive offset is ahead. If empty, all clocks are perfect.
	ClockOffsets []time.Duration
	// ProbeEvery is the interval at which round trips between regions are measured; 0 for never.
	ProbeEvery time.Duration
	// Durable is set if every node keeps a log of its inputs, so that it can restart after a crash: see Restart. Stores
	// must be filled before the first Run.
	Durable bool
	// Shrink is the value of protocol.Config.Shrink.
	Shrink uint8
	// CheckCodec encodes and decodes every message in transit. It panics if Size is wrong or decoding fails.
	CheckCodec bool
	// Buggify, if not nil, decides when replicas take rare actions.
	Buggify *buggify.Plan
	// Marks, if not nil, counts the coverage marks that replicas hit.
	Marks *coverage.Hits
	// Check is set if the invariants of replicas and their rows are checked after every step: see Broken. This does not
	// change the simulation, and is slow.
	Check bool
	// Figures, if not nil, is called for metrics and abort reasons that contradict the engine's declarations: see
	// protocol.FigureWatch. It does not change the simulation.
	Figures func(error)
	// Trace, if not nil, is called for every event on a node. It is slow.
	Trace func(Observation)
}

// Sim is a simulation.
type Sim struct {
	c       Config
	now     time.Duration
	events  eventHeap
	items   []item
	free    int32 // first of a list of unused items, which are linked by next
	rng     *rand.Rand
	nodes   []*node
	clients []*client

	paths    [][]*path         // by sender and receiver, created on first use
	all      []*path           // in the order of creation
	links    [][]geo.Link      // current links, by region
	cut      [][]bool          // by region
	cutNodes map[[2]int32]bool // by sender and receiver
	perSite  int               // nodes per region
	traffic  [][]geo.Traffic
	requests []geo.Traffic // by region, traffic from clients
	answers  []geo.Traffic // by region, traffic to clients
	probes   int
	samples  [][][]time.Duration // round-trip times, by region of the sender and of the receiver
	handled  uint64
	instant  instant
	checks   *checks            // nil without Config.Check
	readings []protocol.Reading // buffer for a node's readings
}

// path is one direction of a connection, with the frames that wait for a cut to heal.
type path struct {
	*geo.Path
	from, to int32 // nodes
	held     []heldFrame
	delivery // used with Config.Durable
}

type heldFrame struct {
	item int32
	size int32
}

// New returns a simulation of a database with empty stores at time 0.
func New(c Config) *Sim {
	t := c.Topology
	regions := len(t.Regions)
	s := &Sim{
		c:        c,
		free:     -1,
		rng:      rand.New(rand.NewPCG(c.Seed, 0)),
		perSite:  t.Partitions * t.Replicas,
		requests: make([]geo.Traffic, regions),
		answers:  make([]geo.Traffic, regions),
		paths:    make([][]*path, t.Nodes()),
		links:    t.Links,
		cutNodes: map[[2]int32]bool{},
	}
	for range regions {
		s.cut = append(s.cut, make([]bool, regions))
		s.traffic = append(s.traffic, make([]geo.Traffic, regions))
		s.samples = append(s.samples, make([][]time.Duration, regions))
	}
	for id := range t.Nodes() {
		n := &node{
			s:       s,
			id:      int32(id),
			store:   c.Engine.MakeStore(),
			buggify: c.Buggify.Node(geo.NodeID(id)),
			waiting: map[txn.ID]int32{},
			// The clock has no lower bound until SetClock sets one.
			least:   math.MinInt64,
			durable: durable{orphans: map[txn.ID]bool{}},
			core:    idleCore,
		}
		// Stream 0 of the seed belongs to the simulation itself.
		n.seed(*rand.NewPCG(c.Seed, uint64(id)+1))
		if len(c.ClockOffsets) > 0 {
			n.offset = c.ClockOffsets[id]
		}
		n.makeReplica()
		s.nodes = append(s.nodes, n)
		s.after(0, item{kind: onStart, to: n.id})
	}
	if c.ProbeEvery > 0 {
		s.after(0, item{kind: onProbe})
	}
	if c.Check {
		s.checks = newChecks(&c)
	}
	return s
}

// AddClient adds a client machine in a region. The client starts when Run is called next.
func (s *Sim) AddClient(region geo.Region, make func(protocol.ClientEnv) protocol.Client) {
	c := &client{s: s, id: int32(len(s.clients)), region: region, links: newClientLinks(s, region)}
	c.client = make(c)
	s.clients = append(s.clients, c)
	s.after(0, item{kind: onClientStart, to: c.id})
}

// Now returns the virtual time.
func (s *Sim) Now() time.Duration { return s.now }

// Store returns a node's store. Fill it before the first transaction, and read it when the database is quiescent.
func (s *Sim) Store(n geo.NodeID) store.Store { return s.nodes[n].store }

// At calls f at virtual time t, or now if t has passed. f runs after events that are already scheduled for that
// instant.
func (s *Sim) At(t time.Duration, f func()) {
	// Do not schedule an event in the past.
	s.push(max(t, s.now), item{kind: onControl, control: f})
}

// Run advances virtual time to t. It panics with a *Standstill if time does not advance.
func (s *Sim) Run(t time.Duration) {
	for len(s.events.events) > 0 && s.events.events[0].at <= t {
		e := s.events.pop()
		s.instant.count(&e, s)
		s.now = e.at
		s.handled++
		s.dispatch(e.item)
		if s.c.Figures != nil && s.handled%figureEvents == 0 {
			s.readFigures(s.nodes[s.handled/figureEvents%uint64(len(s.nodes))])
		}
	}
	// Time also passes if there are no events.
	s.now = max(s.now, t)
	if s.c.Figures != nil {
		for _, n := range s.nodes {
			s.readFigures(n)
		}
	}
}

// Cut cuts the connections between the nodes of two regions, in both directions. Messages wait for Heal.
func (s *Sim) Cut(a, b geo.Region) { s.setCut(a, b, true) }

// Heal reverts Cut. Connections resume at their next retransmission.
func (s *Sim) Heal(a, b geo.Region) { s.setCut(a, b, false) }

func (s *Sim) setCut(a, b geo.Region, cut bool) {
	s.cut[a][b], s.cut[b][a] = cut, cut
	t := s.c.Topology
	for _, p := range s.all {
		from, to := t.RegionOf(geo.NodeID(p.from)), t.RegionOf(geo.NodeID(p.to))
		if from == a && to == b || from == b && to == a {
			// Let recut decide, because Cut and CutNodes may both require that the path is cut.
			s.recut(p)
		}
	}
}

// CutNodes cuts or heals the connection from a node to another node, in that direction only. The connection stays cut
// while either CutNodes or Cut requires it.
func (s *Sim) CutNodes(from, to geo.NodeID, cut bool) {
	k := [2]int32{int32(from), int32(to)}
	if cut {
		s.cutNodes[k] = true
	} else {
		delete(s.cutNodes, k)
	}
	// A path that does not exist yet will check cutNodes when it is created.
	if s.paths[from] != nil && s.paths[from][to] != nil {
		s.recut(s.paths[from][to])
	}
}

// isCut reports whether Cut or CutNodes requires that the connection from node from to node to is cut.
func (s *Sim) isCut(from, to int32) bool {
	t := s.c.Topology
	return s.cut[t.RegionOf(geo.NodeID(from))][t.RegionOf(geo.NodeID(to))] || s.cutNodes[[2]int32{from, to}]
}

func (s *Sim) recut(p *path) {
	if s.isCut(p.from, p.to) {
		p.Cut()
	} else {
		s.push(p.Heal(s.now), item{kind: onResume, from: p.from, to: p.to})
	}
}

// SetLinks changes the links between regions for all later messages, as geo.Path.Change does. For replicas, the declared
// topology remains valid. Clients' connections keep their links.
func (s *Sim) SetLinks(links [][]geo.Link) {
	s.links = links
	for _, p := range s.all {
		p.Change(*s.link(p.from, p.to), *s.link(p.to, p.from))
	}
}

func (s *Sim) link(from, to int32) *geo.Link {
	t := s.c.Topology
	return &s.links[t.RegionOf(geo.NodeID(from))][t.RegionOf(geo.NodeID(to))]
}

// Slow changes the speed of a node's CPU: all operations take percent of their normal time, so 100 is normal.
func (s *Sim) Slow(id geo.NodeID, percent int64) { s.nodes[id].slow = percent - 100 }

// HoldOutput delays the outputs of a percentage of a node's steps by d, as a log with group writes does. The outputs of
// later steps wait for the delayed outputs, but the CPU does not wait.
func (s *Sim) HoldOutput(id geo.NodeID, d time.Duration, percent int64) {
	s.nodes[id].hold, s.nodes[id].holdShare = d, percent
}

// SetClock sets the offset of a node's clock from the simulation's clock; a clock with a positive offset is ahead. A
// clock never goes backwards: if it is set back, it stands still until the simulation has caught up.
func (s *Sim) SetClock(id geo.NodeID, offset time.Duration) {
	n := s.nodes[id]
	// From now on, Now returns at least this time, so that the clock does not go backwards.
	n.least = n.Now()
	n.offset = offset
}

// NodeNow returns the time on a node's clock.
func (s *Sim) NodeNow(id geo.NodeID) time.Duration { return s.nodes[id].Now() }

// Crash stops a node, permanently unless Restart or Replace is called. Messages to the node are lost, and so are
// messages of the node that a cut delays. Clients that wait for the node receive Unknown; later clients receive
// Refused.
func (s *Sim) Crash(id geo.NodeID) {
	n := s.nodes[id]
	if n.dead {
		return
	}
	n.dead = true
	if s.checks != nil {
		s.checks.crashed(n)
	}
	n.drop(s)
	n.outBytes, n.free, n.beside = 0, 0, 0
	for _, p := range s.all {
		if p.to == n.id {
			p.down = s.c.Durable
		}
		// Held frames are in the memory of their sender, so a crash of the sender loses them.
		if p.from == n.id {
			for _, h := range p.held {
				s.release(h.item)
			}
			p.held = nil
		}
	}
	ids := make([]txn.ID, 0, len(n.waiting))
	for id := range n.waiting {
		ids = append(ids, id)
	}
	// Sort, because map order is random, and events at an instant happen in the order in which they are scheduled.
	slices.Sort(ids)
	// A client notices the broken connection one hop later.
	hop := s.c.Topology.Link(id, id).Delay
	for _, id := range ids {
		s.after(hop, item{kind: onOutcome, to: n.waiting[id], outcome: txn.Outcome{ID: id, Status: txn.Unknown, Cause: txn.CauseNode, Reason: "node-lost"}})
		// The clients have received Unknown. A replay may answer these transactions again; that answer must be dropped.
		if s.c.Durable {
			n.orphans[id] = true
		}
	}
	clear(n.waiting)
}

// Pending returns the total number of pending transactions at live nodes. It is 0 when the database is quiescent.
func (s *Sim) Pending() int {
	sum := 0
	for _, n := range s.nodes {
		// A dead node never finishes its transactions.
		if !n.dead {
			sum += n.replica.Pending()
		}
	}
	return sum
}

// Operations returns the number of row operations so far, over all nodes.
func (s *Sim) Operations() (n uint64) {
	for id := range s.nodes {
		n += s.Node(geo.NodeID(id)).Ops
	}
	return n
}

// Underway reports whether a message between live nodes that was sent before t has not been handled yet.
func (s *Sim) Underway(t time.Duration) bool {
	for i := range s.items {
		if it := &s.items[i]; (it.kind == onMessage || it.kind == onReplaced) && it.sent < t {
			return true
		}
	}
	for _, n := range s.nodes { // outputs count as sent at the end of their step, even if they are delayed
		if !n.dead && n.held.Len() > 0 && n.held.Front() < t {
			return true
		}
	}
	for _, p := range s.all { // a restarted node is connected only after a round trip
		if p.down && p.unlogged.Len() > 0 && p.unlogged.Front().sent < t && !s.nodes[p.from].dead && !s.nodes[p.to].dead {
			return true
		}
	}
	return false
}

// Events returns the number of events so far.
func (s *Sim) Events() uint64 { return s.handled }

// NodeStats contains statistics of a node since the start.
type NodeStats struct {
	// Busy is the CPU time used, including the time of the second core (protocol.Env.Offload).
	Busy time.Duration
	// Handled is the number of messages, transactions and timers handled. Ops is the number of key operations on the
	// node's store.
	Handled int64
	Ops     uint64
	// Queued is the number of items that currently wait for the CPU.
	Queued int
	// Pending is the result of the replica's Pending.
	Pending int
	Dead    bool
	// Lags is set if the replica lags permanently (protocol.Straggler).
	Lags bool
}

// Node returns the statistics of a node.
func (s *Sim) Node(id geo.NodeID) NodeStats {
	n := s.nodes[id]
	return NodeStats{Busy: n.busyFor, Handled: n.handled, Ops: n.store.Ops(), Queued: n.queued,
		Pending: n.replica.Pending(), Dead: n.dead, Lags: !n.dead && protocol.Lags(n.replica)}
}

// Roles returns a node's current roles, or nil for a dead node.
func (s *Sim) Roles(id geo.NodeID) []string {
	if s.nodes[id].dead {
		return nil
	}
	return protocol.RolesOf(s.nodes[id].replica)
}

// Readings returns the metrics of a node's replica.
func (s *Sim) Readings(id geo.NodeID) []protocol.Reading { return s.nodes[id].replica.Readings(nil) }

// Traffic returns the traffic from the nodes of one region to the nodes of the same or another region, without probes
// and clients.
func (s *Sim) Traffic(from, to geo.Region) geo.Traffic { return s.traffic[from][to] }

// ClientTraffic returns the traffic from and to the clients of a region.
func (s *Sim) ClientTraffic(r geo.Region) (requests, answers geo.Traffic) {
	return s.requests[r], s.answers[r]
}

// RTT is a measured round-trip time. Times are 0 without samples.
type RTT struct {
	Samples  int
	P50, P99 time.Duration
}

// RTT returns the round-trip time from a to b, as measured by the probes so far. For a measurement inside a region, the
// region must have two nodes.
func (s *Sim) RTT(a, b geo.Region) RTT {
	sorted := slices.Clone(s.samples[a][b])
	slices.Sort(sorted)
	n := len(sorted)
	if n == 0 {
		return RTT{}
	}
	return RTT{n, sorted[n/2], sorted[min(n-1, n*99/100)]}
}

// ResetRTT discards the samples of all round-trip times.
func (s *Sim) ResetRTT() {
	for _, row := range s.samples {
		for i := range row {
			row[i] = row[i][:0]
		}
	}
}

// Kinds of events.
const (
	onStart uint8 = iota + 1
	onMessage
	onSubmit
	onTimer
	onIdle
	onClientStart
	onOutcome
	onClientTimer
	onProbe
	onPing
	onPong
	onResume
	onConnect
	onControl
	onReplaced
)

// item is the content of an event. Items are linked by index and reused, so that events need no allocation.
type item struct {
	kind uint8
	to   int32 // node or client
	from int32
	size int32
	next int32 // next item in a node's queue or in the list of unused items
	// life identifies the life of the node to which the item belongs. A message belongs to a connection with
	// Config.Durable, and otherwise to an incarnation of the receiver. For onReplaced, life is the new incarnation.
	life    uint32
	msg     protocol.Message
	t       *txn.Transaction
	timer   protocol.Timer
	sent    time.Duration
	outcome txn.Outcome
	control func()
}

func (s *Sim) after(d time.Duration, it item) { s.push(s.now+max(0, d), it) }

func (s *Sim) push(at time.Duration, it item) {
	s.events.push(at, s.keep(it))
}

func (s *Sim) keep(it item) int32 {
	i := s.free
	if i < 0 {
		s.items = append(s.items, it)
		return int32(len(s.items) - 1)
	}
	s.free = s.items[i].next
	s.items[i] = it
	return i
}

func (s *Sim) release(i int32) {
	s.items[i] = item{next: s.free}
	s.free = i
}

// take returns an item and frees its slot.
func (s *Sim) take(i int32) item {
	it := s.items[i]
	s.release(i)
	return it
}

func (s *Sim) dispatch(i int32) {
	it := &s.items[i]
	switch it.kind {
	case onStart, onMessage, onSubmit, onTimer, onReplaced:
		s.nodes[it.to].arrive(i)
	case onIdle:
		n, life := s.nodes[it.to], it.life
		s.release(i)
		// If the step belongs to an earlier life, its outputs were lost in the crash.
		if life == n.life {
			n.idle()
		}
	case onClientStart:
		c := s.clients[it.to]
		s.release(i)
		c.client.Start()
	case onOutcome:
		it := s.take(i)
		if s.c.Figures != nil {
			s.readOutcome(&it.outcome)
		}
		s.clients[it.to].client.Complete(it.outcome)
	case onClientTimer:
		it := s.take(i)
		s.clients[it.to].client.Fire(it.timer)
	case onProbe:
		s.release(i)
		s.probe()
	case onPing:
		it := s.take(i)
		if !s.nodes[it.to].dead && !s.nodes[it.from].dead {
			s.datagram(item{kind: onPong, from: it.to, to: it.from, sent: it.sent})
		}
	case onPong:
		it := s.take(i)
		t := s.c.Topology
		a, b := t.RegionOf(geo.NodeID(it.to)), t.RegionOf(geo.NodeID(it.from))
		s.samples[a][b] = append(s.samples[a][b], s.now-it.sent)
	case onResume:
		it := s.take(i)
		p := s.path(it.from, it.to)
		if p.Silent(s.now) {
			return // cut again; the next Heal schedules another event
		}
		// Empty p.held first, because transmit would otherwise hold every frame again.
		held := p.held
		p.held = nil
		for _, h := range held {
			s.transmit(p.from, p.to, h.item, int(h.size))
		}
	case onConnect:
		s.connect(s.take(i))
	case onControl:
		it := s.take(i)
		it.control()
	}
}

// path returns the connection from a node to another node.
func (s *Sim) path(from, to int32) *path {
	if s.paths[from] == nil {
		s.paths[from] = make([]*path, len(s.nodes))
	}
	p := s.paths[from][to]
	if p == nil {
		p = &path{Path: geo.NewPath(*s.link(from, to), *s.link(to, from)), from: from, to: to}
		if s.isCut(from, to) {
			p.Cut()
		}
		p.down = s.c.Durable && (s.nodes[from].dead || s.nodes[to].dead)
		s.paths[from][to] = p
		s.all = append(s.all, p)
	}
	return p
}

// transmit sends an item over the connection between two nodes.
func (s *Sim) transmit(from, to, i int32, size int) {
	p := s.path(from, to)
	if len(p.held) > 0 {
		// The path may just have opened again at this instant, but frames that were held go first.
		p.held = append(p.held, heldFrame{i, int32(size)})
		return
	}
	at, ok := p.Send(s.now, size, s.rng)
	if !ok {
		p.held = append(p.held, heldFrame{i, int32(size)})
		if !p.Silent(s.now) { // not cut: the queue of the path is full
			at, _ := p.Ready(s.now)
			s.push(at, item{kind: onResume, from: from, to: to})
		}
		return
	}
	s.events.push(at, i)
}

// datagram sends a probe between nodes, outside their connection. The probe may be lost.
func (s *Sim) datagram(it item) {
	// A lost datagram is not sent again.
	if at, ok := s.path(it.from, it.to).Datagram(s.now, probeBytes, s.rng); ok {
		s.push(at, it)
	}
}

// probe sends a ping between every pair of regions. The nodes of a region take turns.
func (s *Sim) probe() {
	regions := len(s.c.Topology.Regions)
	for a := range regions {
		for b := range regions {
			from := int32(a*s.perSite + s.probes%s.perSite)
			to := int32(b*s.perSite + s.probes%s.perSite)
			if a == b {
				if s.perSite == 1 {
					continue
				}
				// A node cannot probe itself, so choose the next node.
				to = int32(b*s.perSite + (s.probes+1)%s.perSite)
			}
			if !s.nodes[from].dead && !s.nodes[to].dead {
				s.datagram(item{kind: onPing, from: from, to: to, sent: s.now})
			}
		}
	}
	s.probes++
	s.after(s.c.ProbeEvery, item{kind: onProbe})
}

// checkCodec encodes and decodes m, and returns the message as a receiver would decode it.
func (s *Sim) checkCodec(m protocol.Message) protocol.Message {
	body := m.AppendTo(nil)
	if len(body) != m.Size() {
		panic(fmt.Sprintf("sim: %T says that its size is %d, but it is %d", m, m.Size(), len(body)))
	}
	out, err := s.c.Engine.Decode(m.Kind(), body, s.c.Procedures)
	if err != nil {
		panic(fmt.Sprintf("sim: %T is refused by Decode: %v", m, err))
	}
	// Return the decoded message, so that the receiver shares no memory with the sender.
	return out
}

// client is a client machine. Its handlers take no time, and it is connected to every node of its region.
type client struct {
	s      *Sim
	id     int32
	region geo.Region
	client protocol.Client
	links  []clientLink
}

type clientLink struct{ there, back *geo.Path }

func newClientLinks(s *Sim, region geo.Region) []clientLink {
	l := s.c.Topology.Links[region][region]
	links := make([]clientLink, s.perSite)
	for i := range links {
		links[i] = clientLink{geo.NewPath(l, l), geo.NewPath(l, l)}
	}
	return links
}

// Now implements protocol.ClientEnv.
func (c *client) Now() time.Duration { return c.s.now }

// After implements protocol.ClientEnv.
func (c *client) After(d time.Duration, t protocol.Timer) {
	c.s.after(d, item{kind: onClientTimer, to: c.id, timer: t})
}

// Submit implements protocol.ClientEnv.
func (c *client) Submit(t *txn.Transaction) {
	s := c.s
	id := s.c.Topology.Coordinator(c.region, t, s.c.Coordinators)
	n := s.nodes[id]
	if n.dead {
		// The refusal of a connection takes a round trip.
		rtt := s.c.Topology.RTT(c.region, c.region)
		s.after(rtt, item{kind: onOutcome, to: c.id, outcome: txn.Outcome{ID: t.ID, Status: txn.Refused, Cause: txn.CauseNode, Reason: "no-connection"}})
		return
	}
	if _, twice := n.waiting[t.ID]; twice {
		panic(fmt.Sprintf("sim: transaction %v was submitted twice", t.ID))
	}
	n.waiting[t.ID] = c.id
	size := FrameBytes + codec.SizeTransaction(t)
	s.requests[c.region].AddFrame(size, 1)
	at, _ := c.links[int(id)%s.perSite].there.Send(s.now, size, s.rng)
	s.push(at, item{kind: onSubmit, to: n.id, from: c.id, size: int32(size), t: t, life: n.life})
}
