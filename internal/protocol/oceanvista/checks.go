package oceanvista

import (
	"fmt"

	"github.com/geobench/geobench/internal/invariant"
)

var (
	watermarksGrow = invariant.New("oceanvista.watermarks-grow", "the visibility watermark, and the highest that a server has heard of, never go back")
	gossipCounts   = invariant.New("oceanvista.gossip-counts", "no more gossip arrives than was sent, and no more is acknowledged than has come")
)

// Check implements protocol.Checked.
func (r *Replica) Check(c *invariant.Checker) {
	w := &r.watermarks
	c.Grows(watermarksGrow, "the visibility watermark", uint64(w.visible))
	c.Grows(watermarksGrow, "the highest watermark", uint64(w.highest))
	for n := range w.peers {
		p := &w.peers[n]
		c.That(gossipCounts, p.arrived <= p.sent && p.acknowledged <= p.received, "of node %d: %d sent, %d arrived, %d received, %d acknowledged",
			n, p.sent, p.arrived, p.received, p.acknowledged)
		c.Grows(gossipCounts, fmt.Sprintf("received from node %d", n), p.received)
	}
	r.executor.Check(c)
}
