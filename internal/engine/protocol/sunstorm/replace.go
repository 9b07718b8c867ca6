package sunstorm

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// replacement transfers to a node, for each writer of its partition, the state that the writer's log has produced. The
// writer sends a copy of its rows and prepared transactions, and the log follows on the same link. A new incarnation
// needs a copy from every writer. An existing node needs a copy from a new writer if it has not received the
// predecessor's last entries. The new writer reports where its log starts (Recovered).
//
// A new storage copy in the writer's own region counts for the majority once it has confirmed its state. Confirmations
// of its predecessor no longer count. A copy is sent to another region only once all its entries are durable. Otherwise
// that region could be ahead of the log of a later writer.
type replacement struct {
	r *Replica
	// incoming are, by home, the copies that the node has requested; nil for none.
	incoming []*incoming
	// unsure are, by home, the replaced writers that have not reported where their logs end.
	unsure   []bool
	ticking  bool // a timer is set
	outgoing *statetransfer.Sender
	// waiting are copies for other regions that include entries which are not durable yet.
	waiting []waitingCopy
	// lacking marks, at a writer, the nodes that must confirm its log up to needed, after the writer or the node was
	// replaced.
	lacking []bool
	needed  uint64
	// reading are this node's transactions that wait for missing rows, and reads are Read messages of other nodes that
	// wait for such rows.
	reading []*transaction
	reads   []heldMessage
}

// incoming is a copy that has been requested and has not arrived completely.
type incoming struct {
	statetransfer.Receiver
	held []*Log // parts of the log that follow the copy
	// confirm is set if a new writer expects a confirmation that the copy has arrived.
	confirm bool
}

// waitingCopy is a copy for a node of another region, and the last entry that it contains.
type waitingCopy struct {
	to   geo.NodeID
	last uint64
	data []byte
}

// askEvery is the time between two requests for missing state.
const askEvery = time.Second

func (p *replacement) init(r *Replica, incarnation uint32) {
	p.r, p.incoming, p.unsure = r, make([]*incoming, len(r.topology.Regions)), make([]bool, len(r.topology.Regions))
	p.lacking = make([]bool, r.topology.Nodes())
	p.outgoing = statetransfer.NewSender(r.env, pieceTimer)
	for home := range p.incoming {
		if incarnation > 0 {
			p.incoming[home] = &incoming{}
		}
	}
}

// ask requests all missing state.
func (p *replacement) ask() {
	p.ticking = false
	for home, in := range p.incoming {
		if in != nil {
			p.request(geo.Region(home))
		}
	}
}

// request asks for a copy of a home's rows. It asks the home's writer. If this node is the new incarnation of that
// writer, it asks the writer's storage copies instead.
func (p *replacement) request(home geo.Region) {
	if writer := p.r.topology.Node(home, p.r.partition, 0); writer == p.r.self {
		p.r.recovery.ask()
	} else {
		p.r.env.Send(writer, &Lost{})
	}
	if !p.ticking {
		p.ticking = true
		p.r.env.After(askEvery, protocol.Timer{Kind: askTimer})
	}
}

// survey sends this node's log position to a new incarnation of the region's writer.
func (p *replacement) survey(from geo.NodeID) {
	// A storage copy that still waits for rows has no log position to report. The writer repeats the survey.
	if p.incoming[p.r.region] == nil {
		p.r.env.Send(from, &Persisted{p.r.copies[p.r.region].applied})
	}
}

// lost sends node to a copy of this node's state, unless a copy for it is already in flight or waiting.
func (p *replacement) lost(to geo.NodeID) {
	if p.outgoing.Busy(to) || slices.ContainsFunc(p.waiting, func(w waitingCopy) bool { return w.to == to }) {
		return
	}
	near := p.r.topology.RegionOf(to) == p.r.region
	c := p.r.copied(near)
	if data := c.appendTo(nil); near {
		p.outgoing.Send(to, 1, data)
	} else {
		p.waiting = append(p.waiting, waitingCopy{to, c.Last, data})
	}
}

// flush sends the waiting copies whose entries are all durable.
func (p *replacement) flush() {
	p.waiting = slices.DeleteFunc(p.waiting, func(w waitingCopy) bool {
		if w.last > p.r.wal.durable {
			return false
		}
		p.outgoing.Send(w.to, 1, w.data)
		return true
	})
	if len(p.waiting) > 0 {
		p.r.env.Mark(copyWaits)
	}
}

// cancel cancels the copy that a node has requested.
func (p *replacement) cancel(to geo.NodeID) {
	p.outgoing.Cancel(to)
	p.waiting = slices.DeleteFunc(p.waiting, func(w waitingCopy) bool { return w.to == to })
}

// holds queues a part of a log if the rows that precede it are missing. It reports whether the part was queued.
func (p *replacement) holds(home geo.Region, m *Log) bool {
	in := p.incoming[home]
	if in == nil {
		return false
	}
	p.r.env.Mark(logBeforeRows)
	in.held = append(in.held, m)
	return true
}

// recovered handles a new writer's report of where its log ends. Entries that its predecessor sent have arrived by now,
// or are lost.
func (p *replacement) recovered(from geo.NodeID, lsn uint64) {
	home := p.r.topology.RegionOf(from)
	p.unsure[home] = false
	// next counts received entries, including entries that wait for copyLag.
	switch has := p.r.copies[home].next - 1; {
	case p.incoming[home] != nil:
		p.incoming[home].confirm = true
	case has == lsn:
		p.r.env.Send(from, &Persisted{lsn})
	// No copy can be ahead: the new writer has taken the longest log of its region, and other regions receive only durable
	// entries.
	case has > lsn:
		panic("sunstorm: a copy has more of a log than its writer")
	default:
		p.r.env.Mark(logLost)
		p.incoming[home] = &incoming{confirm: true}
		p.request(home)
	}
}

// piece handles a piece of a copy, and installs the copy when it is complete.
func (p *replacement) piece(from geo.NodeID, m *statetransfer.Piece) {
	home := p.r.topology.RegionOf(from)
	in := p.incoming[home]
	// A repeated request may have started a second transfer. Its copy is not needed.
	if in == nil {
		return
	}
	_, data, whole := in.Receive(p.r.env, from, m)
	if !whole {
		return
	}
	copied, err := readCopy(data, p.r.topology.Nodes())
	if err != nil {
		return
	}
	// apply would hold the log again while a copy is outstanding, so the copy is marked as received first.
	p.incoming[home] = nil
	if home == p.r.region && p.r.writes() {
		p.r.recovery.restore(copied)
		return
	}
	p.r.restore(home, copied)
	// Storage copies in the writer's region count for the majority, and a new writer waits for all confirmations.
	if home == p.r.region || in.confirm {
		p.r.env.Send(from, &Persisted{copied.Last})
	}
	for _, l := range in.held {
		p.r.apply(from, l)
	}
	p.readOn()
}

// wants reports whether rows of ranges in this node's partition are missing.
func (p *replacement) wants(ranges []txn.Range) bool {
	return p.waits() > 0 && slices.ContainsFunc(ranges, func(g txn.Range) bool { return p.incoming[p.r.placement.Home(g.From)] != nil })
}

// readOn continues the reads that have waited for missing rows. Transactions of this node restart.
func (p *replacement) readOn() {
	reading, reads := p.reading, p.reads
	p.reading, p.reads = nil, nil
	for _, x := range reading {
		p.r.execute(x)
	}
	for _, h := range reads {
		p.r.receive(h.from, h.m)
	}
}

// waits returns the number of outstanding copies.
func (p *replacement) waits() (n int) {
	for _, in := range p.incoming {
		if in != nil {
			n++
		}
	}
	return n
}

// Replaced implements protocol.Rejoiner.
func (r *Replica) Replaced(n geo.NodeID, incarnation uint32) {
	p, home := &r.replacement, r.topology.RegionOf(n)
	// The transfer was meant for the predecessor. The new incarnation requests a copy itself.
	p.cancel(n)
	partition, near, writer := r.topology.PartitionOf(n) == r.partition, home == r.region, r.topology.ReplicaOf(n) == 0
	switch {
	case !writer && partition && near && r.writes():
		r.wal.replaced(n)
		p.lacking[n] = true
	case writer && partition && p.incoming[home] == nil: // a node that still waits for rows has started after the replacement
		p.unsure[home] = true
		if near {
			r.disown()
		}
	// A writer sends reads only to the other writers of its region.
	case writer && near && r.writes():
		r.readAgain(n)
	}
	// The pending request was sent to the predecessor.
	if partition && p.incoming[home] != nil && (writer || near && r.writes()) {
		p.request(home)
	}
	if r.writes() && writer {
		r.settlement.replaced(n, incarnation)
	}
	r.finishStep()
}

// FullyReplicated implements protocol.Rejoiner.
func (r *Replica) FullyReplicated() bool {
	p := &r.replacement
	return p.waits() == 0 && !slices.Contains(p.unsure, true) && !slices.Contains(p.lacking, true) && r.recovery == nil && r.settlement.whole()
}

// replaces is Engine.Replaces. It returns all nodes if each cell has two or more nodes, and none otherwise.
func replaces(t *geo.Topology, _ protocol.Params) (nodes []geo.NodeID) {
	if t.Replicas < 2 {
		return nil
	}
	for n := range geo.NodeID(t.Nodes()) {
		nodes = append(nodes, n)
	}
	return nodes
}

// rowsCopy is the state that a writer's log has produced, up to an entry.
type rowsCopy struct {
	Last uint64
	Rows []store.Row // in the order of keys
	// Prepared are the Prepared entries of transactions that have not ended.
	Prepared []Entry
	// Committed are the committed multi-region transactions, in copies for nodes of the writer's region.
	Committed names
}

func (c *rowsCopy) appendTo(b []byte) []byte {
	b = statetransfer.AppendRows(codec.AppendUvarint(b, c.Last), c.Rows)
	return c.Committed.appendTo(appendEntries(b, c.Prepared))
}

func readCopy(data []byte, nodes int) (*rowsCopy, error) {
	r := codec.NewReader(data)
	c := &rowsCopy{Last: r.Uvarint(), Rows: statetransfer.ReadRows(&r), Prepared: readEntries(&r), Committed: readNames(&r, nodes)}
	return c, r.Done()
}

// copied returns the state that the log of the region's writer has produced. Parameter near is set if the receiver is
// in the same region.
func (r *Replica) copied(near bool) *rowsCopy {
	c := &rowsCopy{Last: r.wal.last, Rows: r.rowsOf(r.region)}
	for i := range c.Rows {
		c.Rows[i].Version = 0 // every node numbers its versions separately
	}
	if near {
		c.Committed = r.settlement.committed
	}
	// A storage copy serves a new writer: its state ends at the last applied entry, and its tentative entries are the
	// prepared transactions.
	if !r.writes() {
		own := &r.copies[r.region]
		c.Last = own.applied
		for _, id := range slices.Sorted(maps.Keys(own.tentative)) {
			c.Prepared = append(c.Prepared, own.tentative[id])
		}
	}
	for _, p := range r.writer.prepared {
		c.Prepared = append(c.Prepared, Entry{Prepared, p.id, p.part.Writes, p.name})
	}
	return c
}

// rowsOf returns the rows of a home, in the order of keys.
func (r *Replica) rowsOf(home geo.Region) []store.Row {
	return slices.DeleteFunc(store.Placed(r.store), func(x store.Row) bool { return r.placement.Home(x.Key) != home })
}

// restore replaces a home's rows with the rows of a copy.
func (r *Replica) restore(home geo.Region, m *rowsCopy) {
	// All changes of the copy get one version, so a snapshot includes all of them or none.
	r.version++
	old := r.rowsOf(home)
	for i := range m.Rows {
		w := &m.Rows[i]
		for len(old) > 0 && old[0].Key < w.Key {
			r.store.Delete(old[0].Key, r.version, 0)
			old = old[1:]
		}
		if len(old) > 0 && old[0].Key == w.Key {
			same := old[0].Writer == w.Writer && bytes.Equal(old[0].Value, w.Value)
			if old = old[1:]; same {
				continue
			}
		}
		r.store.Put(w.Key, store.Record{Value: w.Value, Version: r.version, Writer: w.Writer})
	}
	for i := range old {
		r.store.Delete(old[i].Key, r.version, 0)
	}
	c := &r.copies[home]
	c.next, c.applied, c.tentative, c.newest = m.Last+1, m.Last, map[txn.ID]Entry{}, 0
	for i := range m.Prepared {
		r.env.Mark(preparedCopied)
		c.tentative[m.Prepared[i].ID] = m.Prepared[i]
	}
	// Only copies inside the region include the committed transactions.
	if home == r.region {
		r.settlement.committed = m.Committed
	}
	r.forgetLagging(home)
}

// forgetLagging drops the received parts of a home's log that are not applied, because a received copy of the rows
// already includes them.
func (r *Replica) forgetLagging(home geo.Region) {
	var others queue.Queue[lag]
	r.lagging.Each(func(l lag) {
		if l.home != home {
			others.Push(l)
		}
	})
	r.lagging = others
}
