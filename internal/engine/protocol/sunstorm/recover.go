package sunstorm

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// recovery is the procedure by which a new incarnation of a writer obtains its predecessor's log, as in Aurora. It asks
// all of its storage copies for their log positions (Survey), and takes a copy of the longest log. That log contains
// all durable entries, since at most one node is lost at a time. The log continues after its last entry. All copies are
// notified of that position (Recovered), and copies that have less receive a copy of the log. No message of the
// predecessor arrives after that, since a link belongs to one incarnation.
//
// The log contains the transactions that the predecessor has prepared, and its yes votes on them. Their outcomes, if
// there are any, are known to the other writers (InDoubt, settle.go). Their reads are in no log. So until the last of
// these transactions has ended, the writer starts, prepares and reads for no other transaction, which protects more
// than these reads. A reader waits for rows of other regions itself (replacement).
type recovery struct {
	r *Replica
	// standings are the storage copies' log positions.
	standings map[geo.NodeID]uint64
	// restored says that the node has the log, and recovered that a majority does.
	restored, recovered bool
	// inDoubt are the prepared transactions. open are those among them that other writers have not ended either.
	inDoubt []*participation
	open    map[txn.ID]bool
	held    []heldMessage
}

// heldMessage is a message that arrives before the writer can handle it.
type heldMessage struct {
	from geo.NodeID
	m    protocol.Message
}

// hasLog reports whether a majority has the log with which the writer continues. A nil recovery belongs to a node that
// need not recover.
func (c *recovery) hasLog() bool { return c == nil || c.recovered }

// holds reports whether a message is too early.
func (c *recovery) holds(m protocol.Message) bool {
	if c == nil {
		return false
	}
	switch m.(type) {
	case *Persisted, *Log, *Recovered, *statetransfer.Piece, *statetransfer.Ack:
		return false
	case *Lost:
		return !c.restored
	case *Forward, *Prepare, *Read:
		return true
	default:
		return !c.recovered
	}
}

func (c *recovery) hold(from geo.NodeID, m protocol.Message) {
	c.held = append(c.held, heldMessage{from, m})
}

// release handles the held messages, except for messages that are still too early.
func (c *recovery) release() {
	held := c.held
	c.held = nil
	for _, h := range held {
		if c.r.recovery.holds(h.m) {
			c.hold(h.from, h.m)
		} else {
			c.r.receive(h.from, h.m)
		}
	}
}

func (c *recovery) pending() int {
	if c == nil {
		return 0
	}
	return 1 + len(c.held)
}

// ask asks the storage copies for their log positions or, when all have answered, the copy with the longest log for its
// log.
func (c *recovery) ask() {
	t := c.r.topology
	var longest geo.NodeID
	all := true
	for k := range t.Replicas - 1 {
		n := t.Node(c.r.region, c.r.partition, k+1)
		last, told := c.standings[n]
		switch {
		case !told:
			all = false
			c.r.env.Send(n, &Survey{})
		case longest == 0 || last > c.standings[longest]:
			longest = n
		}
	}
	if all {
		c.r.env.Send(longest, &Lost{})
	}
}

// standing hears how far a storage copy has the log.
func (c *recovery) standing(from geo.NodeID, lsn uint64) {
	switch {
	case c == nil || c.recovered:
	case c.restored:
		c.attain()
	default:
		c.standings[from] = lsn
		if len(c.standings) == c.r.topology.Replicas-1 {
			c.ask()
		}
	}
}

// restore takes the log.
func (c *recovery) restore(m *rowsCopy) {
	r := c.r
	r.restore(r.region, m)
	c.restored = true
	r.wal.last, r.wal.sent, r.replacement.needed = m.Last, m.Last, m.Last
	r.writer.pages.since = m.Last
	for i := range m.Prepared {
		e := &m.Prepared[i]
		p := &participation{id: e.ID, name: e.Name, voted: true, part: Part{Writes: e.Writes}}
		r.writer.open[p.id] = p
		r.writer.keep(p)
		c.inDoubt = append(c.inDoubt, p)
	}
	c.announce(func(home geo.Region) bool { return home == r.region })
	c.attain()
}

// announce sends the end of the log to the copies in some regions.
func (c *recovery) announce(in func(geo.Region) bool) {
	r := c.r
	protocol.Others(r.topology.Nodes(), r.self, func(n geo.NodeID) {
		if r.topology.PartitionOf(n) == r.partition && in(r.topology.RegionOf(n)) {
			r.replacement.lacking[n] = true
			r.env.Send(n, &Recovered{r.wal.last})
		}
	})
}

// attain continues when a majority has the log. It asks the other writers for the outcomes of the prepared
// transactions.
func (c *recovery) attain() {
	r := c.r
	if !r.wal.majority(r.wal.last) {
		return
	}
	r.env.Mark(logRecovered)
	c.recovered = true
	r.wal.durable, r.wal.shipped = r.wal.last, r.wal.last
	c.announce(func(home geo.Region) bool { return home != r.region })
	m := &InDoubt{}
	for _, p := range c.inDoubt {
		m.Transactions = append(m.Transactions, Named{p.id, p.name})
	}
	r.settlement.others(func(n geo.NodeID) {
		r.settlement.unanswered++
		r.env.Send(n, m)
	})
	c.release()
	c.progress()
}

// known takes what another writer knows of the transactions in doubt.
func (c *recovery) known(m *Known) {
	if c == nil {
		return
	}
	for _, id := range m.Committed {
		c.end(id, true)
	}
	for _, id := range m.Open {
		c.open[id] = true
	}
	c.progress()
}

// ended records the outcome of a transaction in doubt.
func (c *recovery) ended(id txn.ID, committed bool) {
	if c == nil {
		return
	}
	c.r.env.Mark(endHeard)
	c.end(id, committed)
	c.progress()
}

func (c *recovery) end(id txn.ID, committed bool) {
	i := slices.IndexFunc(c.inDoubt, func(p *participation) bool { return p.id == id })
	if i < 0 {
		return
	}
	p := c.inDoubt[i]
	c.inDoubt = slices.Delete(c.inDoubt, i, i+1)
	if !committed {
		p.no = Gone
	}
	delete(c.r.writer.open, id)
	c.r.writer.end(p)
}

// progress aborts transactions that no writer has committed, or can commit any more. It accepts transactions once none
// is in doubt.
func (c *recovery) progress() {
	if c.r.settlement.unanswered == 0 {
		for _, p := range slices.Clone(c.inDoubt) {
			if !c.open[p.id] {
				c.r.env.Mark(doubtAborted)
				c.end(p.id, false)
			}
		}
	}
	if len(c.inDoubt) == 0 {
		c.r.recovery = nil
		c.release()
	}
}
