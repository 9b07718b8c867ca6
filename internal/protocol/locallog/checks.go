package locallog

import "github.com/geobench/geobench/internal/invariant"

var parts = invariant.New("locallog.unanswered", "a node's clients wait for no more transactions than it has taken")

// Check says what holds of a node: of its view of each log, and of its executor's locks.
func (n *Node) Check(c *invariant.Checker) {
	for _, l := range n.Logs {
		if l != nil {
			l.Order.Check(c)
		}
	}
	n.Executor.Check(c)
	c.That(parts, n.unanswered >= 0 && int64(n.unanswered) <= n.transactions, "%d of %d transactions have no answer", n.unanswered, n.transactions)
}
