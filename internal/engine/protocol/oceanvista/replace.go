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

// replacement replaces a node that has lost its state with a new incarnation.
//
// The Raft group agrees on the loss. It closes the lost server like a silent server, but does not wait until the server
// has been silent for long. The new incarnation is another member of the group, and asks for a sponsor once its
// predecessor is closed. The join entry is its mark. The timestamp of the mark is at or above everything that is
// visible anywhere at that time. All nodes therefore reach this timestamp after the mark, with the same functors in the
// same order.
//
// The server. The new incarnation has made none of its predecessor's promises. From the mark on, all nodes use the
// timestamp of the mark as its watermark. It issues timestamps above the mark and above everything decided about its
// predecessor.
//
// The replica. Other servers rely on the functors that its predecessor had stored. From the mark on, no server counts
// these as stored. Each active server sends the new incarnation all its functors that may be missing at some replica. A
// functor counts as stored by all replicas only once it is visible. The new incarnation thus receives every functor
// that it will evaluate. The functor arrives from its active server, or with the decision about a server that was
// closed in the meantime. Until the new incarnation has the functors of a server, it reports nothing about that server,
// like a silent replica. The other replicas are a majority.
//
// The rows. The partitions of a copy send each other their reads only once, and no node keeps them. The whole copy of
// the new incarnation therefore restarts. Each node of the copy discards its unevaluated functors up to the mark, and
// cannot report their outcomes to clients. Another copy is the donor. The donor's nodes evaluate all functors up to the
// mark and none beyond, send the rows of that state, and continue.
//
// No other node may be lost until all nodes of the copy have rows, and the new incarnation has all functors that it may
// report. See FullyReplicated.
type replacement struct {
	r    *Replica
	rows *store.Hash
	// known is the latest known incarnation of each node.
	known []uint32
	// since is the view of this node's mark; messages from earlier views are dropped. It is 0 for a first incarnation, and
	// unmarkedView for a new incarnation without a mark.
	since uint64
	// joining is the time of this node's last request to join. patience is the time after which it asks another sponsor.
	joining, patience time.Duration
	// has is set for each server once this node has all functors of the server that may be missing at some replica.
	has []bool

	// lacking is set while this node has no mark, or has no rows for its mark. held are snapshot reads that wait for the
	// rows.
	lacking  bool
	held     []*txn.Transaction
	receiver statetransfer.Receiver
	got      uint64 // number of bytes that had been received at the last tick
	came     []byte // received rows, not installed yet
	proposed uint64 // view of the mark for which this node has proposed a replenishment, if it has done so after the last tick

	// The following fields are used by a donor. stops are the timestamps at which it must pause. asked is the mark that
	// each copy has requested, and given contains the rows for each copy.
	stops  []stop
	asked  []uint64
	given  []given
	sender *statetransfer.Sender
}

// unmarkedView is the value of replacement.since at a new incarnation until its mark. It is above all views, so the
// node drops all messages that depend on a view.
const unmarkedView = ^uint64(0)

// replenished is the agreed state of a copy that has restarted.
type replenished struct {
	// id is the view of the copy's last mark, or 0. above is the timestamp after which the copy continues.
	id    uint64
	above Timestamp
	donor int // copy
	// lacking is set, by partition, while the partition's node lacks rows or functors.
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
	c.id, c.above, c.donor = r.Uvarint(), Timestamp(r.Uint64()), int(r.UvarintMax(maxNode))
	for q := range c.lacking {
		c.lacking[q] = r.Flag()
	}
}

// stop is a timestamp at which a donor must pause until it has copied its rows.
type stop struct {
	copy  int
	id    uint64
	above Timestamp
	// decided are the functors after above that were decided on before the mark. Their servers will not send them again.
	decided []Functor
}

// given are the encoded rows as of the mark with view id.
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

// replaces is Engine.Replaces: all nodes can be replaced if there are at least three copies of the rows. The other
// nodes are then a majority.
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

// nodeOf returns the node of the given copy that holds this node's partition.
func (r *Replica) nodeOf(number int) geo.NodeID {
	return r.topology.Node(geo.Region(number/r.topology.Replicas), r.partition, number%r.topology.Replicas)
}

// unmarked reports whether this node is a new incarnation that has not joined yet.
func (p *replacement) unmarked() bool { return p.since == unmarkedView }

// linked reports whether the incarnation of server n that has joined is the latest one that this node knows.
func (p *replacement) linked(n geo.NodeID) bool {
	return p.known[n] == p.r.membership.servers[n].marked
}

// complete reports whether this node has all functors of server n that may be missing at some replica.
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
	// The counts and buffered messages of the old connection belong to the predecessor. The predecessor's watermark still
	// holds back visibility.
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

// askToJoin asks another sponsor if the last sponsor has not answered within patience. It runs at every gossip tick,
// because other nodes wait for the new incarnation.
func (p *replacement) askToJoin() {
	if p.unmarked() && p.r.env.Now()-p.joining >= p.patience {
		p.r.membership.join()
	}
}

// proposeLosses proposes losses for all new incarnations that the group has not agreed on yet, if this node leads the
// group.
func (p *replacement) proposeLosses() {
	m := &p.r.membership
	for n, incarnation := range p.known {
		if m.group.Leading() && incarnation > m.servers[n].incarnation {
			m.propose((&loss{geo.NodeID(n), incarnation}).append(nil))
		}
	}
}

// apply makes the lost server suspected if it is active. An abandoned server becomes closed, so that the new
// incarnation can join.
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
	s.incarnation, s.incomplete = e.incarnation, false
	m.recount()
	return true
}

// mark applies the join of a new incarnation.
func (m *membership) mark(e *join) {
	r := m.r
	s, c := &m.servers[e.server], &m.copies[r.copyOf(e.server)]
	s.marked = e.incarnation
	r.env.Mark(newIncarnationJoined)
	m.joined++
	// The copy may restart again before it has rows. It must not continue from a lower timestamp than its earlier mark.
	c.id, c.above, c.donor = m.view, max(c.above, e.above), m.donor(r.copyOf(e.server))
	for q := range c.lacking {
		c.lacking[q] = true
	}
	r.watermarks.peers[e.server].watermark = e.above
	// The predecessor's acknowledgements no longer count, because the functors that it had stored are lost.
	r.writes.has[e.server] = 0
	r.replace.marked(e.server, r.copyOf(e.server))
	m.recount()
	if e.server == r.self {
		r.writes.resume(e.above)
	} else if r.replace.linked(e.server) {
		r.writes.resend(e.server)
	}
}

// donor returns the copy that provides the rows for copy to. It prefers the copy with the same number in the next
// region. If that copy lacks rows or functors, or has an inactive node, donor prefers a copy that is complete and
// active. With three regions or more, the donor is in another region, because a region may be lost as a whole.
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
				fit = fit && m.counted(n) && !m.servers[n].incomplete && !m.copies[c].lacking[q] && (m.active(n) || !all)
			}
			if fit {
				return c
			}
		}
	}
	return others[0]
}

// marked handles the mark of a new incarnation of server n. number is its copy, and the current view is the view of the
// mark.
func (p *replacement) marked(n geo.NodeID, number int) {
	r, c := p.r, &p.r.membership.copies[number]
	if n == r.self {
		p.since = r.membership.view
		p.has[r.self] = true
		// The predecessor may have used timestamps up to last.
		r.writes.last = max(r.writes.last, r.membership.servers[n].last)
	}
	own := r.copyOf(r.self)
	if own == number {
		p.reset(c.above)
	}
	p.stops = slices.DeleteFunc(p.stops, func(s stop) bool { return s.copy == number })
	p.given[number] = given{}
	p.sender.Cancel(r.nodeOf(number))
	if own == c.donor && !r.behind {
		p.stops = append(p.stops, stop{number, c.id, c.above, r.functors.decidedBeyond(c.above)})
	}
}

// reset restarts this node at timestamp above: this node then needs the donor's rows as of that timestamp.
func (p *replacement) reset(above Timestamp) {
	r := p.r
	r.env.Mark(copyReset)
	p.lacking, p.got, p.came = true, 0, nil
	// This node cannot copy its rows at an earlier stop any more, because the reset skips that state.
	p.stops = slices.DeleteFunc(p.stops, func(s stop) bool { return s.above < above })
	r.functors.floor = above
	r.functors.invisible = slices.DeleteFunc(r.functors.invisible, func(f stored) bool { return f.Timestamp <= above })
	heap.Init(&r.functors.invisible)
	r.executor.Reset(uint64(above) + 1)
	r.writes.last = max(r.writes.last, above) // the functors that it issues from now on are evaluated after the restart

	known := map[txn.ID]bool{}
	for _, t := range slices.Concat(r.writes.waiting, p.held) {
		known[t.ID] = true
	}
	r.writes.unreplicated.Each(func(own write) { known[own.T.ID] = known[own.T.ID] || own.Timestamp > above })
	var ids []txn.ID
	for id := range r.unanswered {
		// The functors of all other transactions are at or below the mark. This node will not evaluate them, so it never
		// learns their outcomes.
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

// ask requests rows from the donor.
func (p *replacement) ask() {
	c := &p.r.membership.copies[p.r.copyOf(p.r.self)]
	p.r.env.Send(p.r.nodeOf(c.donor), &StateRequest{c.id})
}

// tick repeats requests and proposals that may have been lost.
func (p *replacement) tick() {
	p.proposeLosses()
	if p.lacking && p.came == nil && !p.unmarked() && !p.r.behind {
		// No bytes have arrived after the last tick: either the request or the donor may have been lost.
		if got := p.receiver.Got(); got == p.got {
			p.ask()
		} else {
			p.got = got
		}
	}
	p.proposed = 0
	p.replenish()
}

// upTo returns the timestamp up to which functors may be evaluated: visible or the lowest stop, whichever is lower.
func (p *replacement) upTo(visible Timestamp) Timestamp {
	for i := range p.stops {
		visible = min(visible, p.stops[i].above)
	}
	return visible
}

// passes copies this node's rows at the lowest stop, once it has executed all functors up to the stop. It reports
// whether the node can continue past the stop.
func (p *replacement) passes(visible Timestamp) bool {
	if len(p.stops) == 0 {
		return false
	}
	at := p.upTo(^Timestamp(0))
	if visible < at {
		return false
	}
	// Functors up to the stop may still wait for reads of other partitions. The rows then do not include their writes yet.
	if !p.r.executor.Idle() {
		p.r.env.Mark(donorDrains)
		return false
	}
	// Several copies may stop at the same timestamp. All of them receive the same rows.
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

// requested sends the rows as of mark id. If this node has not reached the mark yet, passes sends the rows later.
func (p *replacement) requested(from geo.NodeID, id uint64) {
	number := p.r.copyOf(from)
	p.asked[number] = id
	if g := &p.given[number]; g.id == id && id > 0 && p.r.nodeOf(number) == from && !p.sender.Busy(from) {
		p.sender.Send(from, id, g.data)
	}
}

// receive handles a piece of the rows.
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

// install installs the received rows and continues. It waits until this node knows the joined incarnations of all nodes
// of its copy. Otherwise this node might send its reads to a predecessor, which would lose them.
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
	decided := readFunctors(&in, codec.NewTxnArena(r.procs))
	if in.Done() != nil || r.behind {
		return // the sender is not a donor
	}
	p.rows.Replace(rows)
	p.lacking = false
	have := map[Timestamp]bool{}
	for i := range r.functors.invisible {
		have[r.functors.invisible[i].Timestamp] = true
	}
	for _, f := range decided {
		// The functor may also have arrived directly before its server was closed. It must not be evaluated twice.
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

// begins records that server n starts to issue functors again. Server n sends these functors to this incarnation
// directly, and has sent none of them to the predecessor.
func (p *replacement) begins(n geo.NodeID) {
	p.has[n] = p.has[n] || !p.unmarked()
}

// completes records that all messages that server n has sent before its watermark have arrived.
func (p *replacement) completes(n geo.NodeID) {
	if !p.complete(n) {
		p.has[n] = true
		p.replenish()
	}
}

// replenish proposes a replenishment for this node, once per tick and mark. It does so when this node has rows, and all
// functors of the active servers that may be missing at some replica.
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
	// A later mark has restarted the copy again, so the reported rows are outdated.
	if c.id != e.id {
		return false
	}
	c.lacking[m.r.topology.PartitionOf(e.server)] = false
	if m.r.nodeOf(number) == e.server {
		m.r.replace.given[number] = given{}
	}
	return true
}

// resend sends a new incarnation all functors of this server that may be missing at some replica.
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

// decidedBeyond returns the invisible functors after timestamp above that were decided on because their server was
// closed. They are in timestamp order.
func (s *functors) decidedBeyond(above Timestamp) (decided []Functor) {
	for i := range s.invisible {
		if f := s.invisible[i].Functor; f.Timestamp > above && f.Timestamp <= s.r.membership.servers[f.Server()].last {
			decided = append(decided, f)
		}
	}
	slices.SortFunc(decided, func(a, b Functor) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	return decided
}
