package sunstorm

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// recovery is the procedure by which a new incarnation of a writer obtains its predecessor's log, as in Aurora. The new
// incarnation asks all its storage copies for their log positions (Survey), and obtains the state of the copy with the
// longest log. That log contains all durable entries, since at most one node is lost at a time.
//
// The new incarnation continues the log after the last entry of that copy, and notifies all copies of that position
// (Recovered). Copies that are behind request the state. No message of the predecessor arrives afterwards, since each
// link belongs to one incarnation.
//
// The log contains the transactions that the predecessor has prepared, and thereby its yes votes. The writer asks the
// other writers for the outcomes of these transactions (InDoubt, settle.go).
//
// The reads of the prepared transactions are in no log, so the writer rule cannot protect them. Until the last prepared
// transaction has ended, the writer therefore executes no transaction, prepares none, and answers no reads. A
// transaction that reads rows of other regions waits for these rows separately (replacement).
type recovery struct {
	r *Replica
	// standings are the storage copies' log positions.
	standings map[geo.NodeID]uint64
	// restored is set once this node has the log, recovered once a majority of the cell's nodes has the log.
	restored, recovered bool
	// inDoubt are the prepared transactions without a known outcome. open are the transactions that another writer has
	// reported as still open.
	inDoubt []*participation
	open    map[txn.ID]bool
	held    []heldMessage
}

// heldMessage is a message that the writer cannot handle yet.
type heldMessage struct {
	from geo.NodeID
	m    protocol.Message
}

// hasLog reports whether a majority has the log that the writer continues. It returns true if c is nil, because such a
// node need not recover.
func (c *recovery) hasLog() bool { return c == nil || c.recovered }

// holds reports whether message m must wait for a later stage of the recovery.
func (c *recovery) holds(m protocol.Message) bool {
	if c == nil {
		return false
	}
	switch m.(type) {
	// These messages make up the recovery itself. Log messages also arrive from other regions; apply holds them if the
	// rows of the region are missing.
	case *Persisted, *Log, *Recovered, *statetransfer.Piece, *statetransfer.Ack:
		return false
	// Before the node has the log, it has no rows to copy.
	case *Lost:
		return !c.restored
	case *Forward, *Prepare, *Read:
		// New transactions wait for the end of the recovery: the reads of the prepared transactions are unknown, so no rule
		// protects them.
		return true
	default:
		// An answer may depend on the recovered log, and a majority must have that log before another node relies on the
		// answer.
		return !c.recovered
	}
}

func (c *recovery) hold(from geo.NodeID, m protocol.Message) {
	c.held = append(c.held, heldMessage{from, m})
}

// release handles the held messages. It keeps messages that must wait for a later stage of the recovery.
func (c *recovery) release() {
	held := c.held
	c.held = nil
	for _, h := range held {
		// The recovery may have ended meanwhile. Replica.recovery is nil then, and holds no message.
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

// ask requests the log positions of the storage copies that have not answered. If all have answered, it requests the
// log from the copy with the longest log.
func (c *recovery) ask() {
	t := c.r.topology
	// 0 means none: node 0 is a writer and never a storage copy.
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
	// A shorter log than the longest may not contain the last durable entries.
	if all {
		c.r.env.Send(longest, &Lost{})
	}
}

// standing records the log position of a storage copy.
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

// restore installs the received copy of the log and reinstates its prepared transactions.
func (c *recovery) restore(m *rowsCopy) {
	r := c.r
	r.restore(r.region, m)
	c.restored = true
	// The recovered entries are never sent again: a copy that lacks some of these entries requests the rows instead.
	r.wal.last, r.wal.sent, r.replacement.needed = m.Last, m.Last, m.Last
	r.writer.pages.since = m.Last
	for i := range m.Prepared {
		e := &m.Prepared[i]
		// The Prepared entry is the predecessor's yes vote, so this node must not vote again.
		p := &participation{id: e.ID, name: e.Name, voted: true, part: Part{Writes: e.Writes}}
		r.writer.open[p.id] = p
		r.writer.keep(p)
		c.inDoubt = append(c.inDoubt, p)
	}
	c.announce(func(home geo.Region) bool { return home == r.region })
	// The survey's answers are in wal.acked, so the copies that have the whole log may already form a majority.
	c.attain()
}

// announce sends the end of the log to the copies of this partition in the regions for which in returns true.
func (c *recovery) announce(in func(geo.Region) bool) {
	r := c.r
	protocol.Others(r.topology.Nodes(), r.self, func(n geo.NodeID) {
		if r.topology.PartitionOf(n) == r.partition && in(r.topology.RegionOf(n)) {
			r.replacement.lacking[n] = true
			r.env.Send(n, &Recovered{r.wal.last})
		}
	})
}

// attain continues the recovery once a majority has the log: it asks the other writers for the outcomes of the prepared
// transactions.
func (c *recovery) attain() {
	r := c.r
	if !r.wal.majority(r.wal.last) {
		return
	}
	r.env.Mark(logRecovered)
	c.recovered = true
	// wal.entries is empty after a recovery, so shipped must not stay below last.
	r.wal.durable, r.wal.shipped = r.wal.last, r.wal.last
	// Copies in other regions receive only durable entries.
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

// known handles another writer's report about the transactions in doubt.
func (c *recovery) known(m *Known) {
	if c == nil {
		return
	}
	// A participant commits only if all voted yes, so a single report of a commit settles the outcome.
	for _, id := range m.Committed {
		c.end(id, true)
	}
	// The sender may still commit these, so progress must not abort them. Their outcomes follow as Ended.
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
	// Another writer has already reported the outcome.
	if i < 0 {
		return
	}
	p := c.inDoubt[i]
	c.inDoubt = slices.Delete(c.inDoubt, i, i+1)
	if !committed {
		p.no = Gone
	}
	// decide would never remove the entry, because the votes were sent to the predecessor.
	delete(c.r.writer.open, id)
	c.r.writer.end(p)
}

// progress aborts the transactions that no other writer has committed or still has open, once all writers have
// reported. It completes the recovery once no transaction is in doubt.
func (c *recovery) progress() {
	// A writer that has not reported may have committed the transaction.
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
