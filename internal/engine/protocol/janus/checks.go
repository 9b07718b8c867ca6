package janus

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/invariant"
)

var (
	oneDecision  = invariant.New("janus.one-decision", "an instance happens at all replicas that know its decision, or is a no-op at all")
	rowsGrow     = invariant.New("janus.rows-grow", "what a replica has received of a coordinator's row, closed and ordered never goes back")
	rowOrder     = invariant.New("janus.row-order", "what is ordered was received, what everybody has ordered is ordered here, and only that is forgotten")
	stableHere   = invariant.New("janus.stable-here", "what everybody has ordered is ordered here, and what is to be forgotten is over here")
	ownVotes     = invariant.New("janus.own-votes", "a new incarnation pre-accepts nothing that was sent to its predecessor")
	ballotsAhead = invariant.New("janus.ballots", "nobody accepts at a higher ballot than it has heard of")
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
