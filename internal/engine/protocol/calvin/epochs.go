package calvin

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// epochs orders batches as in the paper's asynchronous replication (Thomson 2012, section 3.2). Every sequencer closes
// an epoch when the epoch ends by its own clock, and sends its batch, even if empty, to all nodes. An epoch runs, in
// the order of the sequencers, when the batches of all sequencers have arrived.
//
// If a sequencer learns that another sequencer has closed an epoch that is still open here, this sequencer's clock is
// slow. It then closes the epoch immediately; otherwise all nodes would wait for the slowest clock.
type epochs struct {
	r      *Replica
	length time.Duration
	open   uint64 // the epoch being collected
	jumps  int64

	// closed[s] is the first epoch that sequencer s has not closed. all is the minimum of closed. run is the next epoch
	// to execute.
	closed []uint64
	all    uint64
	run    uint64
	// inbox[s] are the sub-batches of sequencer s that have not been executed, in ascending order, because links preserve
	// order.
	inbox []queue.Queue[*SubBatch]
	// queued is the number of transactions of other sequencers in inbox.
	queued int
}

// shortestEpoch is the minimum epoch length that Engine.Check accepts. Idle nodes would spend all their time closing
// shorter epochs.
const shortestEpoch = time.Millisecond

func newEpochs(r *Replica, interval time.Duration) *epochs {
	return &epochs{r: r, length: interval, closed: make([]uint64, r.nodes), inbox: make([]queue.Queue[*SubBatch], r.nodes)}
}

// current returns the epoch that contains the current time of the node's clock, or 0 if that time is negative.
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

// tick closes the epochs that have ended by the node's clock.
func (e *epochs) tick() {
	// A jump may have closed the epoch already: receive closes epochs ahead of this clock.
	if now := e.current(); now > e.open {
		// The epoch that the clock is in is still open.
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
	// All nodes must receive even an empty batch: they run an epoch only when every sequencer has closed it.
	q.distribute(last, true)
	clear(q.batch)
	q.batch = q.batch[:0]
	e.hear(e.r.self, last)
}

// arrive queues a sub-batch until its epoch executes.
func (e *epochs) arrive(from geo.NodeID, m *SubBatch) {
	e.queued += e.r.foreign(from, m)
	e.inbox[from].Push(m)
}

// receive handles a batch from another sequencer.
func (e *epochs) receive(from geo.NodeID, m *SubBatch) {
	// The sequencer has closed this epoch before; queuing the batch again would break the ascending order of inbox.
	if m.Batch < e.closed[from] {
		return
	}
	// The data must be in inbox before hear counts the epoch as closed and possibly executes it.
	if len(m.Txns) > 0 {
		e.arrive(from, m)
	}
	// This node's clock is slow: close the epoch now, or every node would wait for this node.
	if m.Batch >= e.open {
		e.jumps++
		e.r.env.Mark(epochJump)
		e.close(m.Batch)
	}
	e.hear(from, m.Batch)
}

// hear records that sequencer from has closed all epochs up to last. It executes the epochs that all sequencers have
// closed.
func (e *epochs) hear(from geo.NodeID, last uint64) {
	was := e.closed[from]
	e.closed[from] = last + 1
	// The minimum cannot change unless the sequencer that held it back has advanced.
	if was != e.all {
		return // another sequencer is still at the minimum, so the minimum does not change
	}
	least := e.closed[0]
	for _, c := range e.closed {
		least = min(least, c)
	}
	e.all = least
	s := &e.r.scheduler
	for {
		// On an idle system most epochs are empty, so continue with the earliest epoch that has transactions.
		next := e.all
		for i := range e.inbox {
			if m := e.inbox[i].Front(); m != nil {
				next = min(next, m.Batch)
			}
		}
		e.run = next
		// Positions are derived from the epoch and the sequencer, so all nodes agree on them even though each node
		// skips epochs without transactions.
		s.position = next * uint64(e.r.nodes)
		// No queued batch belongs to an epoch that all sequencers have closed.
		if next == e.all {
			return
		}
		// Within an epoch, batches run in sequencer order, which all nodes know without communication (Thomson 2012,
		// section 3.2).
		for i := range e.inbox {
			if m := e.inbox[i].Front(); m != nil && m.Batch == next {
				e.inbox[i].Pop()
				e.queued -= e.r.foreign(geo.NodeID(i), m)
				if s.position > next*uint64(e.r.nodes) {
					e.r.env.Mark(epochShared)
				}
				// Positions order epochs first and sequencers second, as in the paper, and are the same at all nodes.
				s.position = next*uint64(e.r.nodes) + uint64(i)
				s.schedule(geo.NodeID(i), m)
			}
		}
	}
}
