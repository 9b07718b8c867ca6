package node

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/net/wire"
)

// peerReceiver decodes a peer's messages outside the loop.
type peerReceiver struct {
	n     *Node
	from  geo.NodeID
	batch []item
	frame uint32 // number of the last frame received
	skip  int    // number of messages of the next frame that are already in the log
}

// Receive implements wire.Receiver.
func (p *peerReceiver) Receive(payload []byte) error {
	p.frame++
	first := len(p.batch)
	ms := wire.ReadMessages(payload)
	for kind, body, ok := ms.Next(); ok; kind, body, ok = ms.Next() {
		m, err := p.n.cfg.Engine.Decode(kind, body, p.n.cfg.Procedures)
		if err != nil {
			return fmt.Errorf("a message of kind %d: %w", kind, err)
		}
		// The peer sends an incomplete frame again from its start. Skip the messages that are already in the log.
		if p.skip > 0 {
			p.skip--
			continue
		}
		p.batch = append(p.batch, item{from: p.from, m: m, frame: p.frame})
	}
	if len(p.batch) > first {
		p.batch[len(p.batch)-1].last = true
	}
	return ms.Err()
}

// Turn implements wire.Receiver.
func (p *peerReceiver) Turn() { p.batch = deliver(p.n, p.batch) }

// deliver puts a batch into the mailbox and returns the slice, emptied for reuse.
func deliver(n *Node, batch []item) []item {
	if len(batch) == 0 {
		return batch
	}
	n.box.put(batch)
	clear(batch)
	return batch[:0]
}

// prepare fills in the parts of a transaction that its client does not send: the footprint, and the client's region,
// which is the node's region.
func (n *Node) prepare(t *txn.Transaction) error {
	t.Home = uint16(n.topology.RegionOf(n.cfg.ID))
	return n.cfg.Procedures.Prepare(t)
}

// clientReceiver decodes and prepares a client's transactions outside the loop.
type clientReceiver struct {
	n      *Node
	client *client
	batch  []item
	// accesses is the largest number of accesses of any transaction so far, but at most 64. It is the initial capacity for
	// the accesses of the next transaction.
	accesses int
	warned   bool
}

// Receive implements wire.Receiver.
func (c *clientReceiver) Receive(payload []byte) error {
	// Check every payload: another run may have loaded its data since the connection was opened.
	if err := c.n.admits(c.client.conn.Run()); err != nil {
		return err
	}
	before := len(c.batch)
	defer func() { c.client.conn.Received(len(c.batch) - before) }()
	return wire.ReadTransactions(payload, c.accesses, func(t *txn.Transaction) {
		err := c.n.prepare(t)
		if err != nil && !c.warned {
			c.warned = true // log only the first error: there may be thousands
			c.n.cfg.Log.Warn("invalid transaction", "error", err)
		}
		c.accesses = max(c.accesses, min(len(t.Accesses), 64))
		c.batch = append(c.batch, item{t: t, c: c.client, invalid: err != nil})
	})
}

// Turn implements wire.Receiver.
func (c *clientReceiver) Turn() { c.batch = deliver(c.n, c.batch) }
