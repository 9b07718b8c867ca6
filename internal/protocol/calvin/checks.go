package calvin

import "github.com/geobench/geobench/internal/invariant"

var epochsGrow = invariant.New("calvin.epochs-grow", "an epoch runs when all have closed it, and neither goes back")

// Check implements protocol.Checked.
func (r *Replica) Check(c *invariant.Checker) {
	r.executor.Check(c)
	if r.log != nil {
		r.log.Check(c)
	}
	if e := r.epochs; e != nil {
		c.Grows(epochsGrow, "the epoch closed by all", e.all)
		c.Grows(epochsGrow, "the epoch to run", e.run)
		c.That(epochsGrow, e.run <= e.all, "epoch %d is to run, and all have closed those before %d", e.run, e.all)
	}
}
