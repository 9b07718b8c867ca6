package minerva

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/invariant"
	"github.com/geobench/geobench/internal/engine/protocol"
)

var (
	cutsGrow = invariant.New("minerva.cuts-grow",
		"the agreed and committed cuts of a replica never decrease, and only agreed cuts are committed")
	sameCut = invariant.New("minerva.same-cut",
		"replicas that have committed the same number of cuts have committed the same last cut")
	logsGrow = invariant.New("minerva.logs-grow",
		"the received, proven and cut positions of another replica's log never decrease")
	oneEnd    = invariant.New("minerva.one-end", "replicas end the log of a lost incarnation with the same batch")
	rowsFirst = invariant.New("minerva.rows-first",
		"a new incarnation without rows has committed no cut and numbered no batch or transaction")
	nothingIn = invariant.New("minerva.available", "a replica has received every batch of the cuts that it has committed")
)

// Check implements protocol.Checked.
func (r *Replica) Check(c *invariant.Checker) {
	e := &r.epochs
	c.Grows(cutsGrow, "cuts agreed on", e.agreedCuts)
	c.Grows(cutsGrow, "cuts committed", e.committed)
	c.That(cutsGrow, e.committed <= e.agreedCuts, "%d cuts are committed, and %d were agreed on", e.committed, e.agreedCuts)
	if !e.behind {
		c.Agree(sameCut, e.committed, invariant.Hash(e.tail...))
	}
	if !r.rejoin.joined {
		began := protocol.NumbersBefore(r.incarnation)
		c.That(rowsFirst, e.committed == 0 && r.logs.number == began+1 && r.local.last == began, "%d epochs are committed, the next batch is %s, the last transaction %s",
			e.committed, numbered(r.logs.number), numbered(r.local.last))
	}
	for i := range r.logs.all {
		l := &r.logs.all[i]
		for j := range l.earlier {
			if s := &l.earlier[j]; s.ended {
				c.Agree(oneEnd, [2]uint64{uint64(i), uint64(protocol.IncarnationOf(s.received))}, s.last)
			}
		}
		c.Grows(logsGrow, fmt.Sprintf("received from replica %d", i), l.received)
		c.Grows(logsGrow, fmt.Sprintf("proven of replica %d", i), l.proven)
		c.Grows(logsGrow, fmt.Sprintf("cut of replica %d", i), l.cut)
		if !e.behind && i < len(e.tail) {
			c.That(nothingIn, e.tail[i] <= l.of(e.tail[i]).received, "replica %d has %d batches in a committed cut, and %d are here", i, e.tail[i], l.received)
		}
	}
}
