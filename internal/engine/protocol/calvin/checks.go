package calvin

import "github.com/geobench/geobench/internal/base/invariant"

var (
	epochsGrow = invariant.New("calvin.epochs-grow",
		"an epoch runs only after all nodes have closed it, and the closed and run epochs never decrease")
	queueOrder  = invariant.New("calvin.queue-order", "requests for a row are queued in log order")
	dataAscends = invariant.New("calvin.data-ascends",
		"a sequencer's epochs that wait at a scheduler ascend, and none of them has run")
	sentAscends = invariant.New("calvin.sent-ascends",
		"a sequencer's batches without a log position ascend, and all their transactions are unanswered")
)

// Check implements protocol.Checked.
func (r *Replica) Check(c *invariant.Checker) {
	r.executor.Check(c)
	r.executor.CheckOrder(c, queueOrder)
	if r.log != nil {
		r.log.Check(c)
	}
	if r.scheduler.reader != nil {
		r.scheduler.reader.Check(c)
	}
	if r.epochs != nil {
		for n := range r.epochs.inbox {
			least := r.epochs.run
			r.epochs.inbox[n].Each(func(m *SubBatch) {
				c.That(dataAscends, m.Batch >= least, "batch %d of node %d waits, and the next can be %d", m.Batch, n, least)
				least = m.Batch + 1
			})
		}
	}
	q := &r.sequencer
	last, waiting := uint64(0), len(q.batch)
	q.sent.Each(func(b sentBatch) {
		c.That(sentAscends, b.number > last && b.number < q.number, "batch %d was sent behind %d, and %d is the next", b.number, last, q.number)
		last = b.number
		waiting += len(b.txns)
	})
	c.That(sentAscends, waiting <= q.unanswered, "%d transactions are in batches without a place, and %d have no answer", waiting, q.unanswered)
	if e := r.epochs; e != nil {
		c.Grows(epochsGrow, "the epoch closed by all", e.all)
		c.Grows(epochsGrow, "the epoch to run", e.run)
		c.That(epochsGrow, e.run <= e.all, "epoch %d is to run, and all have closed those before %d", e.run, e.all)
	}
}
