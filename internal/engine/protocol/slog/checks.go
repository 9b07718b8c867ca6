package slog

import (
	"github.com/geobench/geobench/internal/base/invariant"
)

var (
	noCircle = invariant.New("slog.no-circle", "no transactions wait for each other's locks in a cycle")
	oneOrder = invariant.New("slog.one-order",
		"two multi-home transactions have the same order in all row queues that contain both")
)

// Check implements protocol.Checked. The orderer's log is one of the node's logs, so Node.Check includes it.
func (r *Replica) Check(c *invariant.Checker) {
	r.Node.Check(c)
	r.Executor.CheckCircles(c, noCircle)
	r.Executor.CheckPairs(c, oneOrder)
}
