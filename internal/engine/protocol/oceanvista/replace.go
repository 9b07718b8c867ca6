package oceanvista

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// replacement handles the replacement of a node that has lost its state by a new incarnation.
//
// The Raft group agrees on the loss, and closes the lost server like a silent server, but without waiting for silence.
// The new incarnation is another member of the group, and asks for a sponsor once its predecessor is closed. The join
// is its mark. Everything that is visible anywhere by then is at or below the timestamp above which it joins. So all
// nodes reach that timestamp later, in the same order of all functors.
//
// The server. It has made none of its predecessor's promises. So from the mark on, all nodes take that timestamp as its
// watermark. It issues timestamps above the mark and above all that was decided about its predecessor.
//
// The replica. Other servers count on the functors that its predecessor had stored. From the mark on no server counts
// these. Each active server sends the new incarnation all functors that are not known to be at all replicas. No server
// considers a functor to be at all replicas before it is visible. So the new incarnation obtains all functors that it
// will evaluate. They are among these, belong to a server that was closed meanwhile, or arrive with the decision about
// that server. Until it has the functors of a server it reports nothing about that server, as if it were still silent:
// the other replicas are a majority.
//
// The rows. Partitions of a copy send each other their reads once, and no node keeps them, so the whole copy of the new
// incarnation restarts. Each of its nodes discards the functors up to the mark that it was about to evaluate, and
// cannot report their outcomes to clients. Another copy is the donor. Its nodes evaluate all functors up to the mark
// and none beyond, send the rows of that state, and continue.
//
// All nodes of the copy must have rows before another node may be lost. The new incarnation must have all functors that
// it may be asked for: see FullyReplicated.
type replacement struct {
	r    *Replica
	rows *store.Hash
	// known are the latest known incarnations of all nodes.
	known []uint32
	// since is the view from which on other nodes' messages count: the view of this node's mark, 0 at a first incarnation.
	since uint64
	// joining is the time of this node's last request to join, and patience the time after which an answer is overdue.
	joining, patience time.Duration
	// has says of which servers this node has all functors that are not known to be everywhere.
	has []bool

	// lacking reports that this node has no rows for its mark yet, or no mark. held are transactions that read
	// immediately, and wait for the rows.
	lacking  bool
	held     []*txn.Transaction
	receiver statetransfer.Receiver
	got      uint64 // bytes, at the last look
	came     []byte // rows that are not in use yet
	proposed uint64 // the mark for which this node has said that it is replenished

	// The following fields belong to a donor: where it must stop, and, by copy, the requested mark and the rows for it.
	stops  []stop
	asked  []uint64
	given  []given
	sender *statetransfer.Sender
}

// unmarkedView is the view of a mark that has not arrived.
const unmarkedView = ^uint64(0)

// replenished is the agreed state of a copy that restarts.
type replenished struct {
	// id is the view of its last mark, 0 for none, and above where it begins.
	id    uint64
	above Timestamp
	donor int // copy
	// lacking says which partitions have no rows yet, or lack functors.
	lacking []bool
}

func (c *replenished) append(b []byte) []byte {
	b = codec.AppendUint64(codec.AppendUvarint(b, c.id), uint64(c.above))
	b = codec.AppendUvarint(b, uint64(c.donor))
	for _, l := range c.lacking {
		b = append(b, codec.Flags(l, false))
	}
	return b
}

func (c *replenished) read(r *codec.Reader) {
	c.id, c.above, c.donor = r.Uvarint(), readTimestamp(r), int(r.UvarintMax(maxNode))
	for q := range c.lacking {
		c.lacking[q] = r.Flag()
	}
}

// stop is the timestamp at which a donor stops for a copy.
type stop struct {
	copy  int
	id    uint64
	above Timestamp
	// decided are the functors after above that were decided on before: no server will send them any more.
	decided []Functor
}

// given are rows as of a mark.
type given struct {
	id   uint64
	data []byte
}

func (p *replacement) init(r *Replica, c protocol.Config) {
	t := c.Topology
	p.r, p.rows = r, c.Store.(*store.Hash)
	p.known, p.has = make([]uint32, t.Nodes()), make([]bool, t.Nodes())
	p.known[r.self] = c.Incarnation
	p.patience = 3*t.LongestRTT() + c.Params.Duration("gossip")
	copies := len(t.Regions) * t.Replicas
	p.asked, p.given = make([]uint64, copies), make([]given, copies)
	p.sender = statetransfer.NewSender(r.env, stateTimer)
	if c.Incarnation > 0 {
		p.since, p.lacking = unmarkedView, true
		r.recon.Pause()
	}
}

// replaces is Engine.Replaces: all nodes, if two other nodes have each node's rows and the other nodes are a majority
// of all nodes.
func replaces(t *geo.Topology, _ protocol.Params) (nodes []geo.NodeID) {
	if len(t.Regions)*t.Replicas < 3 {
		return nil
	}
	for n := range geo.NodeID(t.Nodes()) {
		nodes = append(nodes, n)
	}
	return nodes
}

func (r *Replica) copyOf(n geo.NodeID) int {
	return int(r.topology.RegionOf(n))*r.topology.Replicas + r.topology.ReplicaOf(n)
}

// nodeOf returns the node of this node's partition in a copy.
func (r *Replica) nodeOf(number int) geo.NodeID {
	return r.topology.Node(geo.Region(number/r.topology.Replicas), r.partition, number%r.topology.Replicas)
}

// unmarked reports whether this is a new incarnation that has not joined yet.
func (p *replacement) unmarked() bool { return p.since == unmarkedView }

// linked reports whether this node communicates with the incarnation of a server that has joined.
func (p *replacement) linked(n geo.NodeID) bool {
	return p.known[n] == p.r.membership.servers[n].marked
}

// complete reports whether this node has all functors of a server that are not known to be everywhere.
func (p *replacement) complete(n geo.NodeID) bool { return p.since == 0 || p.has[n] }

func (p *replacement) pending() int {
	if p.lacking {
		return 1
	}
	return 0
}

// Replaced implements protocol.Rejoiner.
func (r *Replica) Replaced(n geo.NodeID, incarnation uint32) {
	p := &r.replace
	if n == r.self || incarnation <= p.known[n] {
		return
	}
	p.known[n] = incarnation
	old := &r.watermarks.peers[n]
	*old = peer{watermark: old.watermark, window: old.window}
	r.watermarks.hear(n)
	p.sender.Cancel(n)
	r.recon.Replaced(n)
	r.membership.group.Replaced(n, incarnation)
	if p.linked(n) {
		r.writes.resend(n)
	}
	p.install()
	p.proposeLosses()
	r.finishStep()
}

// FullyReplicated implements protocol.Rejoiner.
func (r *Replica) FullyReplicated() bool {
	m := &r.membership
	if r.replace.lacking || r.behind || !m.group.FullyReplicated() {
		return false
	}
	for n := range m.servers {
		if !m.active(geo.NodeID(n)) || !m.counted(geo.NodeID(n)) || !r.replace.linked(geo.NodeID(n)) {
			return false
		}
	}
	return !slices.ContainsFunc(m.copies, func(c replenished) bool { return slices.Contains(c.lacking, true) })
}

// askToJoin asks another sponsor if the last sponsor has not answered: a new incarnation can do nothing else, and other
// nodes wait for it.
func (p *replacement) askToJoin() {
	if p.unmarked() && p.r.env.Now()-p.joining >= p.patience {
		p.r.membership.join()
	}
}

// proposeLosses proposes the new incarnations that this node knows to the group, if it leads.
func (p *replacement) proposeLosses() {
	m := &p.r.membership
	for n, incarnation := range p.known {
		if m.group.Leading() && incarnation > m.servers[n].incarnation {
			m.propose((&loss{geo.NodeID(n), incarnation}).append(nil))
		}
	}
}

// apply closes the lost server, if it was active. An abandoned server restarts.
func (e *loss) apply(m *membership) bool {
	if int(e.server) >= len(m.servers) || e.incarnation <= m.servers[e.server].incarnation {
		return false
	}
	s := &m.servers[e.server]
	switch s.status {
	case active:
		if !m.suspect(e.server) {
			m.r.env.Mark(lossWaits)
			return false
		}
	case abandoned:
		m.become(s, closed)
	default:
		m.become(s, s.status)
	}
	s.incarnation = e.incarnation
	m.recount()
	return true
}

// mark lets a new incarnation join.
func (m *membership) mark(e *join) {
	r := m.r
	s, c := &m.servers[e.server], &m.copies[r.copyOf(e.server)]
	s.marked = e.incarnation
	r.env.Mark(newIncarnationJoined)
	m.joined++
	c.id, c.above, c.donor = m.view, max(c.above, e.above), m.donor(r.copyOf(e.server))
	for q := range c.lacking {
		c.lacking[q] = true
	}
	r.watermarks.peers[e.server].watermark = e.above
	r.writes.has[e.server] = 0
	r.replace.marked(e.server, r.copyOf(e.server))
	m.recount()
	if e.server == r.self {
		r.writes.resume(e.above)
	} else if r.replace.linked(e.server) {
		r.writes.resend(e.server)
	}
}

// donor returns the copy that gives its rows to another copy. It is the copy of the same number in the next other
// region. If that copy lacks rows or has an inactive node, it is another copy that is active and complete, if there is
// any. Where regions may be lost together, the donor is in another region.
func (m *membership) donor(to int) int {
	t := m.r.topology
	var others []int
	for i := 1; i <= len(t.Regions); i++ {
		region := (to/t.Replicas + i) % len(t.Regions)
		for k := range t.Replicas {
			c := region*t.Replicas + (to+k)%t.Replicas
			if c != to && (i < len(t.Regions) || len(t.Regions) < 3) {
				others = append(others, c)
			}
		}
	}
	for _, all := range []bool{true, false} {
		for _, c := range others {
			fit := true
			for q := range t.Partitions {
				n := t.Node(geo.Region(c/t.Replicas), q, c%t.Replicas)
				fit = fit && m.counted(n) && !m.copies[c].lacking[q] && (m.active(n) || !all)
			}
			if fit {
				return c
			}
		}
	}
	return others[0]
}

// marked takes the mark of a server's new incarnation, as of the present view.
func (p *replacement) marked(n geo.NodeID, number int) {
	r, c := p.r, &p.r.membership.copies[number]
	if n == r.self {
		p.since = r.membership.view
		p.has[r.self] = true
		r.writes.last = max(r.writes.last, r.membership.servers[n].last)
	}
	own := r.copyOf(r.self)
	if own == number {
		p.reset(c.above)
	}
	p.stops = slices.DeleteFunc(p.stops, func(s stop) bool { return s.copy == number })
	p.given[number] = given{}
	p.sender.Cancel(r.nodeOf(number))
	if own == c.donor {
		p.stops = append(p.stops, stop{number, c.id, c.above, r.functors.decidedBeyond(c.above)})
	}
}

// reset makes this node restart at a timestamp, with the rows of the donor.
func (p *replacement) reset(above Timestamp) {
	r := p.r
	r.env.Mark(copyReset)
	p.lacking, p.got, p.came = true, 0, nil
	p.stops = slices.DeleteFunc(p.stops, func(s stop) bool { return s.above < above })
	r.functors.floor = above
	r.functors.invisible = slices.DeleteFunc(r.functors.invisible, func(f stored) bool { return f.Timestamp <= above })
	heap.Init(&r.functors.invisible)
	r.executor.Reset(uint64(above) + 1)
	r.writes.last = max(r.writes.last, above) // it evaluates functors that it issues from now on

	known := map[txn.ID]bool{}
	for _, t := range slices.Concat(r.writes.waiting, p.held) {
		known[t.ID] = true
	}
	r.writes.unreplicated.Each(func(own write) { known[own.T.ID] = known[own.T.ID] || own.Timestamp > above })
	var ids []txn.ID
	for id := range r.unanswered {
		if !known[id] && !r.recon.Looks(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		r.env.Mark(outcomeForgotten)
		r.answer(txn.Outcome{ID: id, Status: txn.Unknown, Cause: txn.CauseNode, Reason: deterministic.ReasonReset})
	}
	p.ask()
}

// ask asks the donor for rows.
func (p *replacement) ask() {
	c := &p.r.membership.copies[p.r.copyOf(p.r.self)]
	p.r.env.Send(p.r.nodeOf(c.donor), &StateRequest{c.id})
}

// tick repeats actions whose messages may have been lost.
func (p *replacement) tick() {
	p.proposeLosses()
	if p.lacking && p.came == nil && !p.unmarked() && !p.r.behind {
		if got := p.receiver.Got(); got == p.got {
			p.ask()
		} else {
			p.got = got
		}
	}
	p.proposed = 0
	p.replenish()
}

// upTo returns the timestamp up to which functors may be evaluated, if they are visible up to visible.
func (p *replacement) upTo(visible Timestamp) Timestamp {
	for i := range p.stops {
		visible = min(visible, p.stops[i].above)
	}
	return visible
}

// passes takes this node's rows where it must stop, once all functors up to there are over. It reports whether the node
// continues.
func (p *replacement) passes(visible Timestamp) bool {
	if len(p.stops) == 0 {
		return false
	}
	at := p.upTo(^Timestamp(0))
	if visible < at {
		return false
	}
	if !p.r.executor.Idle() {
		p.r.env.Mark(donorDrains)
		return false
	}
	p.stops = slices.DeleteFunc(p.stops, func(s stop) bool {
		if s.above > at {
			return false
		}
		p.given[s.copy] = given{s.id, appendFunctors(statetransfer.AppendRows(nil, store.Placed(p.rows)), s.decided)}
		if p.asked[s.copy] == s.id {
			p.requested(p.r.nodeOf(s.copy), s.id)
		}
		return true
	})
	return true
}

// requested sends rows as of a mark, or does so when this node has reached the mark.
func (p *replacement) requested(from geo.NodeID, id uint64) {
	number := p.r.copyOf(from)
	p.asked[number] = id
	if g := &p.given[number]; g.id == id && id > 0 && p.r.nodeOf(number) == from && !p.sender.Busy(from) {
		p.sender.Send(from, id, g.data)
	}
}

// receive takes a piece of the rows.
func (p *replacement) receive(from geo.NodeID, m *statetransfer.Piece) {
	id, data, whole := p.receiver.Receive(p.r.env, from, m)
	switch {
	case !whole:
	case !p.lacking || id != p.r.membership.copies[p.r.copyOf(p.r.self)].id:
		p.r.env.Mark(rowsOutdated)
	default:
		p.came = data
		p.install()
	}
}

// install continues with the received rows, once this node communicates with all of its copy. Otherwise its reads could
// be lost on their way to a predecessor.
func (p *replacement) install() {
	r := p.r
	if p.came == nil {
		return
	}
	for q := range r.topology.Partitions {
		if !p.linked(r.topology.Node(r.topology.RegionOf(r.self), q, r.topology.ReplicaOf(r.self))) {
			r.env.Mark(rowsWait)
			return
		}
	}
	in := codec.NewReader(p.came)
	p.came = nil
	rows := statetransfer.ReadRows(&in)
	decided, err := readFunctors(&in, r.procs)
	if err != nil || in.Done() != nil || r.behind {
		return // whatever sends that is no donor
	}
	p.rows.Replace(rows)
	p.lacking = false
	have := map[Timestamp]bool{}
	for i := range r.functors.invisible {
		have[r.functors.invisible[i].Timestamp] = true
	}
	for _, f := range decided {
		if !have[f.Timestamp] && f.Timestamp > r.functors.floor {
			r.env.Mark(functorGiven)
			heap.Push(&r.functors.invisible, stored{f, r.functors.received})
		}
	}
	r.recon.Resume()
	held := p.held
	p.held = nil
	for _, t := range held {
		r.order(t)
	}
	p.replenish()
}

// begins records that a server starts again: its functors from then on are sent to this node as to all others, and were
// never sent to this node's predecessor.
func (p *replacement) begins(n geo.NodeID) {
	p.has[n] = p.has[n] || !p.unmarked()
}

// completes records that everything that a server sent before its watermark has arrived.
func (p *replacement) completes(n geo.NodeID) {
	if !p.complete(n) {
		p.has[n] = true
		p.replenish()
	}
}

// replenish says that this node has rows, and all functors of the active servers that are not known to be everywhere,
// once.
func (p *replacement) replenish() {
	r, m := p.r, &p.r.membership
	c := &m.copies[r.copyOf(r.self)]
	if p.lacking || r.behind || !c.lacking[r.partition] || p.proposed == c.id {
		return
	}
	for n := range m.servers {
		if m.active(geo.NodeID(n)) && !p.complete(geo.NodeID(n)) {
			r.env.Mark(functorsToCome)
			return
		}
	}
	p.proposed = c.id
	m.propose((&replenishment{r.self, c.id}).append(nil))
}

func (e *replenishment) apply(m *membership) bool {
	if int(e.server) >= len(m.servers) {
		return false
	}
	number := m.r.copyOf(e.server)
	c := &m.copies[number]
	if c.id != e.id {
		return false
	}
	c.lacking[m.r.topology.PartitionOf(e.server)] = false
	if m.r.nodeOf(number) == e.server {
		m.r.replace.given[number] = given{}
	}
	return true
}

// resend sends a new incarnation all functors of this server that are not known to be everywhere.
func (w *writes) resend(n geo.NodeID) {
	r := w.r
	if !r.membership.active(r.self) || r.replace.unmarked() {
		return
	}
	w.unreplicated.Each(func(own write) {
		if slices.Contains(own.partitions, r.topology.PartitionOf(n)) {
			r.env.Mark(functorResent)
			r.env.Send(n, &Write{View: r.membership.view, Epoch: r.membership.servers[r.self].epoch, Functor: own.Functor})
		}
	})
}

// decidedBeyond returns the functors after a timestamp that are not visible yet, and do not belong to a server's
// current epoch: the server was closed since.
func (s *functors) decidedBeyond(above Timestamp) (decided []Functor) {
	for i := range s.invisible {
		if f := s.invisible[i].Functor; f.Timestamp > above && f.Timestamp <= s.r.membership.servers[f.Server()].last {
			decided = append(decided, f)
		}
	}
	slices.SortFunc(decided, func(a, b Functor) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	return decided
}
