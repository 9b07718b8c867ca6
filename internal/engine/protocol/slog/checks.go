package slog

import (
	"github.com/geobench/geobench/internal/base/invariant"
)

var (
	noCircle = invariant.New("slog.no-circle", "no transactions wait for each other's locks in a circle")
	oneOrder = invariant.New("slog.one-order", "two multi-home transactions are in the same order wherever they meet in a row's queue")
)

// Check implements protocol.Checked. The orderer's log is one of the node's logs, so Node.Check includes it.
func (r *Replica) Check(c *invariant.Checker) {
	r.Node.Check(c)
	r.Executor.CheckCircles(c, noCircle)
	r.Executor.CheckPairs(c, oneOrder)
}
