package calvin

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// sequencer collects its clients' transactions into batches and sends each batch's data to the schedulers of every copy
// (Thomson 2012, section 3.2).
type sequencer struct {
	r        *Replica
	interval time.Duration

	batch  []*txn.Transaction // the batch that is being collected
	number uint64             // number of the batch that is being collected
	// sent are the batches without a known log position, ascending: see batchlog.
	sent queue.Queue[sentBatch]
	free [][]*txn.Transaction

	// entering is set in a new incarnation that must not request log positions yet.
	entering bool
	// remember is set if nodes can be replaced: flight then maps the unanswered transactions of sent batches to their
	// batches.
	remember bool
	flight   map[txn.ID]uint64

	unanswered            int
	batches, transactions int64

	seen    []int // per partition: 1 plus the index of the last transaction of the batch that touches it
	indexes [][]uint32
	parts   [][]*txn.Transaction
}

// sentBatch is a batch without a known log position.
type sentBatch struct {
	number uint64
	txns   []*txn.Transaction
}

func (s *sequencer) init(r *Replica, interval time.Duration, incarnation uint32) {
	s.r, s.interval, s.number, s.entering = r, interval, batchlog.FirstBatch(incarnation), incarnation > 0
	s.flight = map[txn.ID]uint64{}
	s.seen = make([]int, r.partitions)
	s.indexes = make([][]uint32, r.partitions)
	s.parts = make([][]*txn.Transaction, r.partitions)
}

// submit accepts a client's transaction. A transaction without an exact footprint runs reconnaissance first.
func (s *sequencer) submit(t *txn.Transaction) {
	s.unanswered++
	s.transactions++
	if t.Exact {
		s.order(t)
	} else {
		s.r.env.Mark(footprintUnknown)
		s.r.recon.Begin(t)
	}
}

// order adds a transaction to the current batch. The first transaction of a batch starts the batch's timer.
func (s *sequencer) order(t *txn.Transaction) {
	s.batch = append(s.batch, t)
	if s.r.epochs != nil || s.entering {
		return // the end of the epoch, or enter, closes the batch
	}
	if s.interval == 0 || s.r.env.Buggify(closesEarly) {
		s.r.env.Mark(unbatched)
		s.close()
	} else if len(s.batch) == 1 {
		s.r.env.After(s.interval, protocol.Timer{Kind: batchTimer, Arg: s.number})
	}
}

// expire closes the batch with this number, unless another event has closed it already.
func (s *sequencer) expire(number uint64) {
	if number == s.number && len(s.batch) > 0 && !s.entering {
		s.close()
	}
}

// close sends the batch's data to the schedulers and requests its log position.
func (s *sequencer) close() {
	number := s.number
	s.number++
	touched := s.distribute(number, false)
	s.sent.Push(sentBatch{number, s.batch})
	if s.remember {
		for _, t := range s.batch {
			s.flight[t.ID] = number
		}
	}
	if s.sent.Len() > 1 {
		s.r.env.Mark(batchesUnderway)
	}
	s.batch = nil
	if n := len(s.free); n > 0 {
		s.batch, s.free = s.free[n-1], s.free[:n-1]
	}
	s.r.log.Ask(batchlog.Request{Number: number, Readers: touched})
}

// settled handles the result for the oldest sent batch. The batch has its log position, or it is void because this node
// was disconnected for too long. The transactions of a void batch join the current batch.
func (s *sequencer) settled(number uint64, void bool) {
	b := s.sent.Front()
	s.sent.Pop()
	if void {
		s.r.env.Mark(batchAgain)
		// The batch has no timer until it has a first transaction.
		if len(s.batch) == 0 {
			s.r.env.After(s.interval, protocol.Timer{Kind: batchTimer, Arg: s.number})
		}
		s.batch = append(s.batch, b.txns...)
		if s.remember {
			// The transactions get a new batch number when the current batch closes.
			for _, t := range b.txns {
				delete(s.flight, t.ID)
			}
		}
	}
	clear(b.txns)
	s.free = append(s.free, b.txns[:0])
}

// distribute splits the batch by partition and sends each part to all nodes that store the partition, in every copy. A
// partition without transactions receives nothing, or an empty part if everybody is set. It returns the partitions with
// transactions.
func (s *sequencer) distribute(batch uint64, everybody bool) batchlog.Set {
	s.batches++
	var touched batchlog.Set
	if s.r.partitions == 1 {
		s.indexes[0] = make([]uint32, len(s.batch))
		for i := range s.indexes[0] {
			s.indexes[0][i] = uint32(i)
		}
		s.parts[0] = slices.Clone(s.batch)
		touched = touched.With(0)
	} else {
		clear(s.seen)
		for i, t := range s.batch {
			for _, a := range t.Accesses {
				// A transaction may access a partition several times; it must be in the part only once.
				if q := s.r.placement.Partition(a.Key); s.seen[q] != i+1 {
					s.seen[q] = i + 1
					s.indexes[q] = append(s.indexes[q], uint32(i))
					s.parts[q] = append(s.parts[q], t)
					touched = touched.With(q)
				}
			}
		}
	}
	for q := range s.r.partitions {
		if !everybody && !touched.Has(q) {
			s.r.env.Mark(partitionLeftOut)
			continue
		}
		m := newSubBatch(batch, s.indexes[q], s.parts[q])
		// The message keeps the slices, because the receivers in the same process may still be reading them.
		s.indexes[q], s.parts[q] = nil, nil
		for _, n := range s.r.holders[q] {
			s.r.env.Send(n, m)
		}
		// This node handles its own part directly. With ordering epochs, an empty part of this node has nothing to run.
		if q == s.r.partition && (len(m.Txns) > 0 || !everybody) {
			if s.r.epochs != nil {
				s.r.epochs.arrive(s.r.self, m)
			} else {
				s.r.scheduler.reader.Arrive(m)
			}
		}
	}
	return touched
}

// answer handles the outcome of a transaction.
func (s *sequencer) answer(o txn.Outcome) {
	if s.remember {
		if _, ok := s.flight[o.ID]; !ok {
			return // the client has already received the outcome unknown
		}
		delete(s.flight, o.ID)
	}
	if s.r.recon.Outcome(&o) {
		s.reply(o)
	}
}

// reply sends a transaction's outcome to its client.
func (s *sequencer) reply(o txn.Outcome) {
	s.unanswered--
	s.r.env.Reply(o)
}
