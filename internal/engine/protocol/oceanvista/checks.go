package oceanvista

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/invariant"
)

var (
	queueOrder   = invariant.New("oceanvista.queue-order", "requests for a row are queued in timestamp order")
	nothingBelow = invariant.New("oceanvista.promise",
		"the functors of a server that are not stable are above its promised watermark")
	watermarksGrow = invariant.New("oceanvista.watermarks-grow",
		"the visibility watermark and the highest watermark that a server knows never decrease")
	seenFirst = invariant.New("oceanvista.seen-first",
		"functors that a server knows to be at all replicas are visible to it or decided")
	gossipCounts = invariant.New("oceanvista.gossip-counts",
		"no more gossip arrives than was sent, and no more is acknowledged than was received")
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
		c.Grows(gossipCounts, fmt.Sprintf("received from incarnation %d of node %d", r.replace.known[n], n), p.received)
	}
	if f := &r.writes.unstable; f.Len() > 0 {
		c.That(nothingBelow, f.Front().Timestamp > r.writes.promised, "%v is not stable, and nothing up to %v is to come", f.Front().Timestamp, r.writes.promised)
	}
	if up := max(w.visible, r.membership.servers[r.self].last); r.writes.replicated > up {
		c.That(seenFirst, false, "%v is everywhere, and visible or decided is what is not above %v", r.writes.replicated, up)
	}
	r.executor.Check(c)
	r.executor.CheckOrder(c, queueOrder)
}
