package primary

import (
	"cmp"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// catchUp gives a node at a wrong log position a copy of another node's rows. It serves new incarnations of lost nodes.
// It also serves nodes whose position differs from the new writer's position after an unplanned failover.
//
// A node receives its copy from its feeder, which is the node that sends it the log. The feeder's later entries thus
// follow the copy. A node that has received its state up to an entry as a copy does not pass on earlier entries. It
// notifies the nodes that it feeds (Ahead), and they ask it for a copy in turn. Other regions receive only copies of
// committed entries, because clients read from them. Storage nodes receive everything that the writer has, and then
// acknowledge it.
//
// A new incarnation of the writer asks all nodes of its storage for their log positions (Survey), and takes the longest
// log. That log contains all committed entries, because at most one node is lost at a time. The incarnation starts
// another term, whose first entries are the last entries of that log, as uncommitted entries. Because of the new term,
// the incarnation's answers cannot be mistaken for its predecessor's answers.
type catchUp struct {
	r *Replica
	// lacks is set while the rows of this node do not correspond to a log position. joins is set if this node may have
	// missed entries that it had to pass on. Once it has a copy, it notifies the nodes that it feeds.
	lacks, joins bool
	asks         uint64
	// needs is the entry after which the feeder sends the log. A copy must include this entry.
	needs    uint64
	ticking  bool // a timer is set
	incoming statetransfer.Receiver
	outgoing *statetransfer.Sender
	// served is the number of the last request of each node. waiting are copies that include uncommitted entries.
	served  map[geo.NodeID]uint64
	waiting []waitingCopy
	// standings are the log positions of the storage nodes. Only a new incarnation of the writer that does not have the
	// log collects them; they are nil at all other nodes.
	standings map[geo.NodeID]*Standing
}

// askEvery is the interval between requests for missing state.
const askEvery = time.Second

// waitingCopy is a requested copy that waits until its last entry is committed.
type waitingCopy struct {
	to   geo.NodeID
	ask  uint64
	last uint64
	data []byte
}

func (c *catchUp) init(r *Replica, incarnation uint32) {
	c.r, c.served = r, map[geo.NodeID]uint64{}
	c.outgoing = statetransfer.NewSender(r.env, pieceTimer)
	c.lacks, c.joins = incarnation > 0, incarnation > 0
	if c.lacks && r.writes() {
		c.standings = map[geo.NodeID]*Standing{}
	}
}

// start makes a new incarnation request its missing state.
func (c *catchUp) start() {
	switch {
	case c.standings != nil:
		for _, n := range c.r.writer.storage {
			c.r.env.Send(n, &Survey{})
		}
	case c.lacks:
		c.ask()
	}
}

// feeder returns the node that sends the log to node to.
func (r *Replica) feeder(to geo.NodeID) geo.NodeID {
	writer, region := r.log.writer, r.topology.RegionOf(to)
	switch {
	case r.topology.RegionOf(writer) == region || r.shipper(writer) == writer:
		return writer
	case to != instance(r.topology, region):
		return instance(r.topology, region)
	}
	return r.shipper(writer)
}

// stores reports whether this node is a storage node of the writer.
func (r *Replica) stores() bool { return !r.writes() && r.topology.RegionOf(r.log.writer) == r.region }

// ask requests a copy and invalidates earlier requests.
func (c *catchUp) ask() {
	c.lacks = true
	c.asks++
	c.request()
}

// request sends the current request. The receiver ignores a repetition while it still serves the original request.
func (c *catchUp) request() {
	m := &Behind{Term: c.r.log.term, Ask: c.asks}
	to := c.r.feeder(c.r.self)
	// The old writer has the whole log, regardless of which node on the path to this node was lost.
	if c.r.failover.taking != nil {
		to = c.r.log.writer
	}
	if c.standings != nil {
		if !c.surveyedAll() {
			return
		}
		to = c.longest()
		// This node does not know the current term, and a node in a different term would not serve the request.
		m.Term = c.standings[to].Term
	}
	c.r.env.Send(to, m)
	if !c.ticking {
		c.ticking = true
		c.r.env.After(askEvery, protocol.Timer{Kind: askTimer})
	}
}

// again repeats the request for missing state.
func (c *catchUp) again() {
	c.ticking = false
	if c.lacks {
		c.request()
	}
}

// survey sends this node's log position to a new incarnation of the writer. If this node lacks rows, it answers only
// after it has received them.
func (c *catchUp) survey(from geo.NodeID, m *Survey) {
	l := &c.r.log
	if c.lacks {
		c.r.failover.hold(from, m)
		return
	}
	c.r.env.Send(from, &Standing{Term: l.term, Applied: l.applied, Last: l.applied + uint64(len(l.tail))})
}

// surveyed records a storage node's log position. Once all storage nodes have answered, it requests the longest log.
func (c *catchUp) surveyed(from geo.NodeID, m *Standing) {
	if c.standings == nil {
		return
	}
	c.standings[from] = m
	if c.surveyedAll() {
		c.ask()
	}
}

func (c *catchUp) surveyedAll() bool { return len(c.standings) == len(c.r.writer.storage) }

// longest returns the storage node with the longest log of the latest term. Among equal logs, it prefers the node that
// has applied the most.
func (c *catchUp) longest() geo.NodeID {
	return slices.MaxFunc(c.r.writer.storage, func(a, b geo.NodeID) int {
		x, y := c.standings[a], c.standings[b]
		return cmp.Or(cmp.Compare(x.Term, y.Term), cmp.Compare(x.Last, y.Last), cmp.Compare(x.Applied, y.Applied))
	})
}

// behind sends a node a copy, unless this node is already serving the same request.
func (c *catchUp) behind(to geo.NodeID, m *Behind) {
	waits := slices.ContainsFunc(c.waiting, func(w waitingCopy) bool { return w.to == to })
	if c.served[to] == m.Ask && (waits || c.outgoing.Busy(to)) {
		return
	}
	c.cancel(to)
	c.served[to] = m.Ask
	l := &c.r.log
	copied := &Copy{Term: l.term, Last: l.applied, Committed: c.committed(), Rows: store.Placed(c.r.store), Endings: l.endings}
	// A new incarnation of the writer must also continue with the uncommitted entries.
	if to == l.writer {
		copied.Tail = l.tail
	}
	c.waiting = append(c.waiting, waitingCopy{to, m.Ask, l.applied, copied.appendTo(nil)})
	if c.flush(); len(c.waiting) > 0 {
		c.r.env.Mark(copyAwaits)
	}
}

// cancel cancels the copy that a node has requested.
func (c *catchUp) cancel(to geo.NodeID) {
	c.outgoing.Cancel(to)
	c.waiting = slices.DeleteFunc(c.waiting, func(w waitingCopy) bool { return w.to == to })
}

// committed returns the last entry that this node knows to be committed.
func (c *catchUp) committed() uint64 {
	if c.r.writes() {
		return c.r.writer.committed
	}
	return c.r.log.committed
}

// flush sends the waiting copies whose entries are all committed. It sends copies for storage nodes in any case.
func (c *catchUp) flush() {
	c.waiting = slices.DeleteFunc(c.waiting, func(w waitingCopy) bool {
		send := w.last <= c.committed() || c.r.topology.RegionOf(w.to) == c.r.topology.RegionOf(c.r.log.writer)
		if send {
			c.outgoing.Send(w.to, w.ask, w.data)
		}
		return send
	})
}

// piece handles a piece of the copy that this node has requested last.
func (c *catchUp) piece(from geo.NodeID, m *statetransfer.Piece) {
	// Ignore copies of earlier requests, because they may be too old.
	if !c.lacks || m.ID != c.asks {
		return
	}
	_, data, whole := c.incoming.Receive(c.r.env, from, m)
	if !whole {
		return
	}
	if copied, err := readCopy(data); err == nil {
		c.restore(copied)
	}
}

// restore replaces the node's rows with the rows of a copy.
func (c *catchUp) restore(m *Copy) {
	l, f := &c.r.log, &c.r.failover
	// The feeder will not send the entries between the end of this copy and needs.
	if m.Last < c.needs {
		c.ask()
		return
	}
	c.lacks = false
	f.restored++
	restoreRows(c.r.store, m.Rows)
	l.endings, l.applied, l.last, l.tail = m.Endings, m.Last, raftgroup.Name{}, m.Tail
	if c.standings != nil {
		c.standings, c.joins = nil, false
		l.term = m.Term
		c.r.env.Mark(logRecovered)
		f.announce(&Takeover{Term: m.Term + 1, Writer: c.r.self, Base: m.Last, Recovered: true})
		return
	}
	if next := f.taking; next != nil {
		f.taking = nil
		f.adopt(next)
		return
	}
	if c.r.stores() {
		l.committed = max(l.committed, m.Committed)
		c.r.env.Send(l.writer, &Ack{Term: l.term, Last: l.applied})
	} else {
		l.committed = m.Last // the sender has waited until entry Last was committed
	}
	if c.joins {
		c.joins = false
		// This node does not ship entries that the copy includes. passAhead reports this to the nodes that this node feeds.
		l.outbox, l.posted = nil, l.applied
		c.passAhead()
	}
	f.release()
	c.flush()
	c.r.coordinator.progress()
}

// passAhead notifies the nodes that this node feeds. It reports the entry after which this node sends the log.
func (c *catchUp) passAhead() {
	l := &c.r.log
	c.r.others(func(n geo.NodeID) {
		if c.r.feeder(n) != c.r.self {
			return
		}
		if news := c.r.failover.news; news != nil {
			c.r.env.Send(n, news)
		}
		c.r.env.Send(n, &Ahead{Term: l.term, Last: c.passed(n)})
	})
}

// passed returns the last entry that this node has sent to a node that it feeds, or to that node's predecessor.
func (c *catchUp) passed(to geo.NodeID) uint64 {
	l, w := &c.r.log, &c.r.writer
	switch {
	case c.r.writes() && c.r.topology.RegionOf(to) == c.r.region:
		return w.sent
	case c.r.writes():
		return w.shipped
	case c.r.topology.RegionOf(to) == c.r.region:
		return l.applied
	}
	return l.posted
}

// ahead handles the feeder's notice of the entry after which the feeder sends the log to this node. A copy in flight
// may be from an earlier state of the feeder.
func (c *catchUp) ahead(m *Ahead) {
	l := &c.r.log
	c.needs = max(c.needs, m.Last)
	switch {
	case c.lacks:
		c.joins = true
	case l.applied+uint64(len(l.tail)) < m.Last:
		c.r.env.Mark(fedByCopy)
		c.joins = true
		c.ask()
	}
}

// Replaced implements protocol.Rejoiner.
func (r *Replica) Replaced(n geo.NodeID, _ uint32) {
	c := &r.catchUp
	c.cancel(n)
	delete(c.served, n)
	switch {
	case c.standings != nil:
		delete(c.standings, n)
		if slices.Contains(r.writer.storage, n) {
			r.env.Send(n, &Survey{})
		}
	case c.lacks && r.feeder(r.self) == n:
		c.request()
	}
	if news := r.failover.news; news != nil { // the takeover may have been announced only to the predecessor
		r.env.Send(n, news)
	}
	if f := &r.failover; f.left && n == r.writer.shipper { // the lost shipper had to pass the announcement on
		for _, other := range r.writer.remote {
			r.env.Send(other, f.news)
		}
	}
	switch {
	case r.feeder(n) != r.self:
	case c.lacks:
		c.joins = true
	default:
		r.env.Send(n, &Ahead{Term: r.log.term, Last: c.passed(n)})
	}
	r.writer.replaced(n)
	r.coordinator.replaced(n)
}

// FullyReplicated implements protocol.Rejoiner.
func (r *Replica) FullyReplicated() bool {
	return !r.catchUp.lacks && !(r.writes() && slices.Contains(r.writer.lacking, true))
}

// replaces is Engine.Replaces: all nodes can be replaced, except a writer that is the only node with the log. Such a
// writer is the only node of its region, or the old or new writer of a managed failover.
func replaces(t *geo.Topology, p protocol.Params) (nodes []geo.NodeID) {
	if p.Word("failover") == failoverUnplanned {
		return nil
	}
	writer := instance(t, geo.Region(p.Int("primary")))
	for n := range geo.NodeID(t.Nodes()) {
		alone := t.Partitions*t.Replicas == 1 || p.Word("failover") == failoverManaged
		if n == writer && alone || n == instance(t, successor(t, p)) && p.Word("failover") == failoverManaged {
			continue
		}
		nodes = append(nodes, n)
	}
	return nodes
}
