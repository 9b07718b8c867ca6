package coco

import (
	"slices"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// A node that has lost its process and state rejoins as a new incarnation, which is a different member of views. Its
// predecessor may have voted for an epoch, and the new incarnation does not know about that vote. Therefore a
// coordinator never counts a vote of the new incarnation in a view that does not include this incarnation. A
// coordinator that learns of a new incarnation closes the epoch with a view in which the incarnation joins. A view
// starts with an epoch that no node can have started, so two incarnations never share an epoch. Their attempts and
// messages are therefore never confused.
//
// Primaries send a new incarnation its rows in pieces (package statetransfer). If enough other nodes have the rows of
// each shard, epochs do not wait for the transfer. The new incarnation votes for epochs whose writes it has. Rows that
// arrive later do not overwrite these writes. It can become a primary once it has all rows.

// replacement is a node's knowledge of lost nodes, and its state of transfers to new incarnations.
type replacement struct {
	// incarnations is the latest known incarnation of each node.
	incarnations []uint32
	// missed is set if this node sent messages of the running epoch to a member's predecessor, where they were lost. This
	// node then does not send Done for the epoch.
	missed bool
	// late is set if this node votes although it waits for rows.
	late bool
	// sender sends rows. outgoing are the unfinished transfers, by receiving node.
	sender   *statetransfer.Sender
	outgoing map[geo.NodeID]*transfer
	// receivers assemble the rows that primaries send, by sender. early are transfers of views that this node does not
	// know yet.
	receivers map[geo.NodeID]*statetransfer.Receiver
	early     []transfer
}

// transfer holds the rows that one primary sends to a new incarnation, as of the start of an epoch.
type transfer struct {
	epoch uint64
	data  []byte
}

func newReplacement(c *protocol.Config) replacement {
	known := make([]uint32, c.Topology.Nodes())
	known[c.Self] = c.Incarnation
	return replacement{
		incarnations: known, sender: statetransfer.NewSender(c.Env, transferTimer),
		outgoing: map[geo.NodeID]*transfer{}, receivers: map[geo.NodeID]*statetransfer.Receiver{},
	}
}

// replaces is Engine.Replaces: the nodes whose rows are also held in f+1 other regions, and without which the Raft
// group still has a majority.
func replaces(t *geo.Topology, p protocol.Params) (nodes []geo.NodeID) {
	l, f, leaders := place(t, p), faults(t, p), coordinators(t)
	for n := range geo.NodeID(t.Nodes()) {
		spare := len(leaders) > 2 || !slices.Contains(leaders, n)
		for _, shard := range l.ShardsOf(n) {
			elsewhere := map[geo.Region]bool{}
			for _, m := range l.Group(shard).Members {
				if m != n {
					elsewhere[t.RegionOf(m)] = true
				}
			}
			spare = spare && len(elsewhere) > f
		}
		if spare {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// incarnation returns this node's incarnation.
func (r *Replica) incarnation() uint32 { return r.incarnations[r.self] }

// incarnationsOf returns the incarnations of the members of a view, or nil if all are first incarnations.
func (r *Replica) incarnationsOf(members []geo.NodeID) (all []uint32) {
	for i, n := range members {
		if known := r.incarnations[n]; known > 0 {
			if all == nil {
				all = make([]uint32, len(members))
			}
			all[i] = known
		}
	}
	return all
}

// Replaced implements protocol.Rejoiner.
func (r *Replica) Replaced(n geo.NodeID, incarnation uint32) {
	if incarnation <= r.incarnations[n] {
		return
	}
	r.incarnations[n] = incarnation
	delete(r.receivers, n)
	r.cancel(n)
	r.coordination.hear(n)
	if r.phase != outside && r.view.has(n) && r.view.incarnation(n) == incarnation {
		r.env.Mark(sentToPredecessor)
		r.missed = true
		r.send(r.epochs.coordinator, &Missed{r.view.Ballot})
	}
	r.coordination.replaced(n, incarnation)
	r.finish()
}

// FullyReplicated implements protocol.Rejoiner: all nodes are in the view, with their rows, and the Raft group has all
// its members.
func (r *Replica) FullyReplicated() bool {
	return r.phase != outside && len(r.awaiting) == 0 && r.full(r.view) && r.coordination.whole()
}

// full reports whether all nodes are members of view v and none is joining.
func (r *Replica) full(v *View) bool {
	return len(v.Members) == r.topology.Nodes() && len(v.Joining) == 0 && slices.Equal(v.Incarnations, r.incarnationsOf(v.Members))
}

// whole reports whether the Raft group has all its members, the latest view includes all nodes, and no other view is
// pending.
func (c *coordinator) whole() bool {
	if c.group == nil {
		return true
	}
	if c.group.Leading() && c.stage != executing && c.stage != voting {
		return false
	}
	return c.group.FullyReplicated() && c.r.full(c.latest) && !c.group.Awaits(func(entry []byte) bool { return len(entry) > 0 })
}

// lost reports whether member n of the latest view has lost its state since the view was proposed.
func (c *coordinator) lost(n geo.NodeID) bool { return c.latest.incarnation(n) != c.r.incarnations[n] }

// replaced records a new incarnation. If the predecessor is a member of the view, the view is replaced. Otherwise the
// new incarnation receives the view, and joins with the next view.
func (c *coordinator) replaced(n geo.NodeID, incarnation uint32) {
	if c.group != nil {
		c.group.Replaced(n, incarnation)
		c.advance()
	}
	c.states[n], c.joining[n] = nil, false
	switch {
	case c.stage == collecting:
		c.r.send(n, &Collect{c.ballot})
	case c.stage != executing && c.stage != voting:
	case c.latest.has(n):
		c.collect()
	default:
		c.r.send(n, c.latest)
	}
}

// takeReady handles a new incarnation's report that it has its rows.
func (c *coordinator) takeReady(from geo.NodeID, m *Ready) {
	if (c.stage == executing || c.stage == voting) && m.Ballot == c.ballot {
		c.ready[from] = true
	}
}

// missed handles a member's report that its messages to another member are lost. The epoch cannot finish, so missed
// starts a new ballot.
func (c *coordinator) missed(m *Missed) {
	if (c.stage == executing || c.stage == voting) && m.Ballot == c.ballot {
		c.collect()
	}
}

// late reports whether joining node n votes before it has its rows. Only a new incarnation does so, and only if the
// view covers all shards without joining members.
func (c *coordinator) late(v *View, n geo.NodeID) bool {
	return v.joins(n) && v.incarnation(n) > 0 && c.covered(v, false)
}

// lacksRows reports whether node n votes in the latest view as a joining member and still waits for rows.
func (c *coordinator) lacksRows(n geo.NodeID) bool { return !c.ready[n] && c.late(c.latest, n) }

// beginTransfers starts to send the rows of the shards for which this node is the primary to joining new incarnations.
func (r *Replica) beginTransfers() {
	rows := map[int][]byte{}
	for _, n := range r.view.Joining {
		if r.view.incarnation(n) == 0 {
			continue
		}
		var data []byte
		for shard, primary := range r.primaries {
			if primary != r.self || !r.holds[n][shard] {
				continue
			}
			if rows[shard] == nil {
				of := shardRows{shard, r.rows.committed(&r.layout, shard)}
				rows[shard] = of.appendTo(nil)
			}
			data = append(data, rows[shard]...)
			r.counters.snapshots++
		}
		if len(data) > 0 {
			r.env.Mark(rowsSent)
			r.outgoing[n] = &transfer{r.view.First, data}
			r.sender.Send(n, r.view.First, data)
		}
	}
}

// cancelTransfers cancels the transfers of the previous view.
func (r *Replica) cancelTransfers() {
	for n := range r.outgoing {
		r.cancel(n)
	}
	r.missed, r.late, r.rows.newer = false, false, nil
}

func (r *Replica) cancel(to geo.NodeID) {
	r.sender.Cancel(to)
	delete(r.outgoing, to)
}

// transferAgain restarts a transfer that was abandoned, now that its receiver is reachable.
func (r *Replica) transferAgain(to geo.NodeID) {
	if o := r.outgoing[to]; o != nil && !r.sender.Busy(to) {
		r.sender.Send(to, o.epoch, o.data)
	}
}

// acknowledged handles the acknowledgement of a piece.
func (r *Replica) acknowledged(from geo.NodeID, m *statetransfer.Ack) {
	r.sender.Receive(from, m)
	if o := r.outgoing[from]; o != nil && m.ID == o.epoch && m.Got == uint64(len(o.data)) && !m.Damaged {
		delete(r.outgoing, from)
	}
}

// awaitTransfers prepares a new incarnation for the transfer of all committed rows. It discards the rows that the node
// has, and takes the transfers that arrived before the view.
func (r *Replica) awaitTransfers() {
	for shard := range r.primaries {
		if r.holds[r.self][shard] {
			r.rows.drop(&r.layout, shard)
		}
	}
	r.rows.newer = map[txn.Key]bool{}
	r.late = r.coordination.late(r.view, r.self)
	early := r.early
	r.early = nil
	for _, x := range early {
		r.take(x)
	}
}

// receivePiece handles a piece of a transfer.
func (r *Replica) receivePiece(from geo.NodeID, m *statetransfer.Piece) {
	if r.receivers[from] == nil {
		r.receivers[from] = &statetransfer.Receiver{}
	}
	if id, data, whole := r.receivers[from].Receive(r.env, from, m); whole {
		r.take(transfer{id, data})
	}
}

// take installs the rows that a primary has sent, or keeps them until this node learns of their view.
func (r *Replica) take(x transfer) {
	if x.epoch > r.view.First {
		r.early = append(r.early, x)
		return
	}
	if x.epoch < r.view.First || len(r.awaiting) == 0 {
		return
	}
	for b := codec.NewReader(x.data); b.Len() > 0; {
		var of shardRows
		if of.read(&b); b.Err() != nil {
			return
		}
		if _, awaited := r.awaiting[of.Shard]; awaited {
			r.rows.restore(slices.DeleteFunc(of.Rows, func(w SnapshotRow) bool { return r.rows.newer[w.Key] }))
			delete(r.awaiting, of.Shard)
		}
	}
	if r.complete(); len(r.awaiting) == 0 {
		r.rows.newer = nil
		r.send(r.epochs.coordinator, &Ready{r.view.Ballot})
	}
}
