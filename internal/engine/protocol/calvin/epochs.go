package calvin

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// epochs orders batches like the paper's asynchronous replication (Thomson 2012, section 3.2). Every sequencer closes
// an epoch at the same time by its clock and sends its batch, empty or not, to all nodes. An epoch runs when the
// batches of all sequencers have arrived, in the order of the sequencers.
//
// A sequencer may learn of a closed epoch that it has not closed itself. Its clock is then slow, and it closes the
// epoch immediately; otherwise all nodes would wait for the slowest clock.
type epochs struct {
	r      *Replica
	length time.Duration
	open   uint64 // the epoch being collected
	jumps  int64

	// closed[s] says that sequencer s has closed all epochs before it; all is the least of them, run the next epoch to
	// run.
	closed []uint64
	all    uint64
	run    uint64
	// inbox[s] holds the sub-batches of sequencer s that have not run, ascending: links keep their order.
	inbox []queue.Queue[*SubBatch]
	// queued are the transactions of other sequencers among them.
	queued int
}

// shortestEpoch prevents idle nodes from spending all their time on closing epochs: Engine.Check refuses shorter
// epochs.
const shortestEpoch = time.Millisecond

func newEpochs(r *Replica, interval time.Duration) *epochs {
	return &epochs{r: r, length: interval, closed: make([]uint64, r.nodes), inbox: make([]queue.Queue[*SubBatch], r.nodes)}
}

// current returns the epoch of the node's clock.
func (e *epochs) current() uint64 { return uint64(max(0, e.r.env.Now()) / e.length) }

func (e *epochs) start() {
	e.open = e.current()
	e.wait()
}

// wait sets the timer for the end of the open epoch.
func (e *epochs) wait() {
	end := time.Duration(e.open+1) * e.length
	e.r.env.After(end-e.r.env.Now(), protocol.Timer{Kind: epochTimer})
}

// tick closes the epochs that are over by the clock.
func (e *epochs) tick() {
	if now := e.current(); now > e.open {
		e.close(now - 1)
	}
	e.wait()
}

// close closes all open epochs up to last. The collected transactions belong to epoch last.
func (e *epochs) close(last uint64) {
	if last > e.open {
		e.r.env.Mark(epochsClosedTogether)
	}
	e.open = last + 1
	q := &e.r.sequencer
	q.distribute(last, true)
	clear(q.batch)
	q.batch = q.batch[:0]
	e.hear(e.r.self, last)
}

// arrive takes a sub-batch.
func (e *epochs) arrive(from geo.NodeID, m *SubBatch) {
	e.queued += e.r.foreign(from, m)
	e.inbox[from].Push(m)
}

// receive takes another sequencer's batch.
func (e *epochs) receive(from geo.NodeID, m *SubBatch) {
	if m.Batch < e.closed[from] {
		return
	}
	if len(m.Txns) > 0 {
		e.arrive(from, m)
	}
	if m.Batch >= e.open {
		e.jumps++
		e.r.env.Mark(epochJump)
		e.close(m.Batch)
	}
	e.hear(from, m.Batch)
}

// hear records that a sequencer has closed all epochs up to last. It runs the epochs that all sequencers have closed.
func (e *epochs) hear(from geo.NodeID, last uint64) {
	was := e.closed[from]
	e.closed[from] = last + 1
	if was != e.all {
		return // another sequencer lags, too
	}
	least := e.closed[0]
	for _, c := range e.closed {
		least = min(least, c)
	}
	e.all = least
	s := &e.r.scheduler
	for {
		// Most epochs are empty on an idle system; the next epoch with transactions is the minimum of the waiting epochs.
		next := e.all
		for i := range e.inbox {
			if m := e.inbox[i].Front(); m != nil {
				next = min(next, m.Batch)
			}
		}
		e.run = next
		s.position = next * uint64(e.r.nodes)
		if next == e.all {
			return
		}
		for i := range e.inbox {
			if m := e.inbox[i].Front(); m != nil && m.Batch == next {
				e.inbox[i].Pop()
				e.queued -= e.r.foreign(geo.NodeID(i), m)
				if s.position > next*uint64(e.r.nodes) {
					e.r.env.Mark(epochShared)
				}
				s.position = next*uint64(e.r.nodes) + uint64(i)
				s.schedule(geo.NodeID(i), m)
			}
		}
	}
}
