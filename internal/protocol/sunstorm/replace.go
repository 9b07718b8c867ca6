package sunstorm

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/codec"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/protocol/statetransfer"
	"github.com/geobench/geobench/internal/store"
)

// replacement gives a new incarnation of a storage copy what the log of each writer of its partition has made, by a copy from that writer: rows,
// and what is prepared. The log follows on the same link. A storage copy of the writer's own region counts for the majority once it
// says that it has that; what its predecessor said counts no more.
type replacement struct {
	r *Replica
	// incoming are, by home, the copies that a new incarnation waits for; held is what has come of the log behind each.
	incoming []*incoming
	ticking  bool // a timer is set
	outgoing *statetransfer.Sender
	// lacking are, at a writer, the storage copies that have not said since they were replaced that they have its log.
	lacking []bool
}

type incoming struct {
	statetransfer.Receiver
	held []*Log
}

// askEvery is how often a new incarnation asks again for copies that have not come.
const askEvery = time.Second

func (p *replacement) init(r *Replica, incarnation uint32) {
	p.r, p.incoming, p.lacking = r, make([]*incoming, len(r.topology.Regions)), make([]bool, r.topology.Replicas)
	p.outgoing = statetransfer.NewSender(r.env, pieceTimer)
	for home := range p.incoming {
		if incarnation > 0 {
			p.incoming[home] = &incoming{}
		}
	}
}

// ask asks the writers for what has not come. A transfer whose receiver is not heard is given up.
func (p *replacement) ask() {
	p.ticking = false
	for home, in := range p.incoming {
		if in == nil {
			continue
		}
		p.r.env.Send(p.r.topology.Node(geo.Region(home), p.r.partition, 0), &Lost{})
		if !p.ticking {
			p.ticking = true
			p.r.env.After(askEvery, protocol.Timer{Kind: askTimer})
		}
	}
}

// lost sends a new incarnation a copy, unless one is under way.
func (p *replacement) lost(to geo.NodeID) {
	if !p.outgoing.Busy(to) {
		p.outgoing.Send(to, 1, p.r.copied().appendTo(nil))
	}
}

// holds keeps a part of a log whose rows have not come.
func (p *replacement) holds(home geo.Region, m *Log) bool {
	in := p.incoming[home]
	if in == nil {
		return false
	}
	p.r.env.Probe(logBeforeRows)
	in.held = append(in.held, m)
	return true
}

// piece takes a piece of a writer's copy.
func (p *replacement) piece(from geo.NodeID, m *statetransfer.Piece) {
	home := p.r.topology.RegionOf(from)
	in := p.incoming[home]
	if in == nil {
		return
	}
	_, data, whole := in.Receive(p.r.env, from, m)
	if !whole {
		return
	}
	copied, err := readCopy(data)
	if err != nil {
		return
	}
	p.incoming[home] = nil
	p.r.restore(home, copied)
	if home == p.r.region {
		p.r.env.Send(from, &Persisted{copied.Last})
	}
	for _, l := range in.held {
		p.r.apply(from, l)
	}
}

// waits is how many copies have not come.
func (p *replacement) waits() (n int) {
	for _, in := range p.incoming {
		if in != nil {
			n++
		}
	}
	return n
}

// Replaced implements protocol.Rejoiner.
func (r *Replica) Replaced(n geo.NodeID, _ uint32) {
	r.replacement.outgoing.Cancel(n)
	if r.writes() && r.topology.RegionOf(n) == r.region && r.topology.PartitionOf(n) == r.partition {
		r.wal.replaced(n)
		r.replacement.lacking[r.topology.ReplicaOf(n)] = true
	}
}

// Whole implements protocol.Rejoiner.
func (r *Replica) Whole() bool {
	return r.replacement.waits() == 0 && !slices.Contains(r.replacement.lacking, true)
}

// replaces is Engine.Replaces: the storage copies. What a writer has prepared, and for whom, is nowhere else.
func replaces(t *geo.Topology, _ protocol.Params) (nodes []geo.NodeID) {
	for n := range geo.NodeID(t.Nodes()) {
		if t.ReplicaOf(n) > 0 {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// rowsCopy is what a writer's log has made up to an entry.
type rowsCopy struct {
	Last uint64
	Rows []store.Row // in the order of keys
	// Prepared are the transactions that are prepared, in their order, as entries of the log.
	Prepared []Entry
}

func (c *rowsCopy) appendTo(b []byte) []byte {
	return appendEntries(statetransfer.AppendRows(codec.AppendUvarint(b, c.Last), c.Rows), c.Prepared)
}

func readCopy(data []byte) (*rowsCopy, error) {
	r := codec.NewReader(data)
	c := &rowsCopy{Last: r.Uvarint(), Rows: statetransfer.ReadRows(&r), Prepared: readEntries(&r)}
	return c, r.Done()
}

// copied returns what the node's own log has made.
func (r *Replica) copied() *rowsCopy {
	c := &rowsCopy{Last: r.wal.last}
	for _, x := range store.Placed(r.store) {
		if r.placement.Home(x.Key) == r.region {
			x.Version = 0 // every node numbers versions by itself
			c.Rows = append(c.Rows, x)
		}
	}
	for _, p := range r.writer.prepared {
		c.Prepared = append(c.Prepared, Entry{Prepared, p.id, p.part.Writes})
	}
	return c
}

// restore installs a copy of a home's rows. The node has none of them.
func (r *Replica) restore(home geo.Region, m *rowsCopy) {
	r.version++
	for i := range m.Rows {
		w := &m.Rows[i]
		r.store.Put(w.Key, store.Record{Value: w.Value, Version: r.version, Writer: w.Writer})
	}
	c := &r.copies[home]
	c.next, c.applied = m.Last+1, m.Last
	for i := range m.Prepared {
		r.env.Probe(preparedCopied)
		c.tentative[m.Prepared[i].ID] = m.Prepared[i].Writes
	}
}
