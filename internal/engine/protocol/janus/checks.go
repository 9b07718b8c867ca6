package janus

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/invariant"
)

var (
	oneDecision = invariant.New("janus.one-decision",
		"replicas that know the decision of an instance agree whether it is a no-op")
	rowsGrow = invariant.New("janus.rows-grow",
		"the received, closed and ordered positions of a coordinator's row never decrease")
	rowOrder = invariant.New("janus.row-order",
		"ordered instances were received, and only instances that all replicas have ordered are forgotten")
	stableHere = invariant.New("janus.stable-here",
		"instances that all replicas have ordered are ordered here, and forgotten instances have executed here")
	ownVotes = invariant.New("janus.own-votes",
		"a new incarnation pre-accepts no instance that was sent to its predecessor")
	ballotsAhead = invariant.New("janus.ballots", "a replica accepts no ballot higher than the one that it has promised")
)

// Check implements protocol.Checked.
func (r *Replica) Check(c *invariant.Checker) {
	r.executor.Check(c)
	for n := range r.rows {
		row := &r.rows[n]
		c.Grows(rowsGrow, fmt.Sprintf("received from node %d", n), row.received)
		c.Grows(rowsGrow, fmt.Sprintf("closed of node %d", n), row.closed)
		c.Grows(rowsGrow, fmt.Sprintf("ordered of node %d", n), row.done)
		c.That(rowOrder, row.done <= row.received && row.forget <= row.stable, "of node %d: %d received, %d ordered, %d ordered by everybody, %d to be forgotten",
			n, row.received, row.done, row.stable, row.forget)
		for _, rec := range row.kept {
			c.That(ballotsAhead, rec.accepted <= rec.promised, "%v was accepted at %d, and %d was promised", rec.id, rec.accepted, rec.promised)
			c.That(stableHere, rec.id.Seq() > row.stable || rec.phase == Ordered, "%v is not ordered, and everything up to %d is by all", rec.id, row.stable)
			c.That(stableHere, rec.id.Seq() > row.forget || rec.executed, "%v is not over, and everything up to %d is to be forgotten", rec.id, row.forget)
			c.That(ownVotes, !r.abstains(rec.id) || rec.phase != PreAccepted, "%v was pre-accepted, and was sent to the predecessor", rec.id)
			if rec.phase >= Committed {
				c.Agree(oneDecision, rec.id, rec.noop)
			}
		}
	}
}
