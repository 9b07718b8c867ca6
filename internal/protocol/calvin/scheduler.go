package calvin

import (
	"time"

	"github.com/geobench/geobench/internal/fifo"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/protocol/batchlog"
	"github.com/geobench/geobench/internal/protocol/deterministic"
)

// scheduler takes the batches in the order of the log and hands their transactions to the executor (Thomson 2012,
// section 3.4).
type scheduler struct {
	r *Replica

	// inbox[s] holds the sub-batches of sequencer s that have not run, ascending: links keep their order.
	inbox []fifo.Queue[*SubBatch]
	// position counts the batches that have run.
	position uint64
	foreign  int64 // other sequencers' transactions that have arrived

	// last[s] is the last batch of sequencer s that has arrived, void[s] the first that the log has not made void.
	last, void []uint64
	// watched[s] is the last batch that had no place at the last look for abandoned ones, 0 for none.
	watched  []uint64
	watching bool  // a timer is set
	voided   int64 // batches
}

// abandonedAfter is the time between two looks for batches whose data is here and whose place in the log is not. One that
// has had none for that long was left behind by a sequencer that is lost or cut off from the log's leader. Such a batch
// stays void if its sequencer is lost, and comes again from one that is not.
const abandonedAfter = 3 * time.Second

func (s *scheduler) init(r *Replica) {
	s.r = r
	s.inbox = make([]fifo.Queue[*SubBatch], r.nodes)
	s.last, s.void, s.watched = make([]uint64, r.nodes), make([]uint64, r.nodes), make([]uint64, r.nodes)
}

// arrive takes a sub-batch of a sequencer.
func (s *scheduler) arrive(from geo.NodeID, m *SubBatch) {
	if m.Batch < s.void[from] {
		s.r.env.Probe(voidBatchLate)
		return
	}
	s.last[from] = m.Batch
	if from != s.r.self {
		s.foreign += int64(len(m.Txns))
	}
	s.inbox[from].Push(m)
}

// advance runs the batches whose turn has come and whose data has arrived.
func (s *scheduler) advance() {
	for {
		o, known := s.r.log.Next()
		if !known {
			return
		}
		if o.Void() {
			s.r.env.Probe(voidEntry)
			s.drop(o.Batch)
		} else if o.Readers.Has(s.r.partition) {
			inbox := &s.inbox[o.Batch.Sequencer]
			m := inbox.Front()
			if m == nil || m.Batch != o.Batch.Number {
				s.r.env.Probe(placeBeforeData)
				return
			}
			inbox.Pop()
			s.schedule(o.Batch.Sequencer, m)
		}
		s.r.log.Pass()
		s.position++
	}
}

// schedule hands over the transactions of the batch at the current position.
func (s *scheduler) schedule(sequencer geo.NodeID, m *SubBatch) {
	for i, t := range m.Txns {
		s.r.executor.Run(deterministic.Place{Position: s.position, Index: uint64(m.Indexes[i])}, t, sequencer)
	}
}

// drop drops a sequencer's batches up to the one that the log has made void. Those before it that have a place are not among
// them: they have run.
func (s *scheduler) drop(b batchlog.BatchID) {
	s.void[b.Sequencer] = b.Number + 1
	inbox := &s.inbox[b.Sequencer]
	for m := inbox.Front(); m != nil && m.Batch <= b.Number; m = inbox.Front() {
		if b.Sequencer != s.r.self {
			s.foreign -= int64(len(m.Txns))
		}
		s.voided++
		s.r.env.Probe(voidBatchDropped)
		inbox.Pop()
	}
}

// watch sets the timer for the next look for abandoned batches.
func (s *scheduler) watch() {
	if !s.watching {
		s.watching = true
		after := abandonedAfter
		if s.r.env.Buggify(looksEarly) {
			after /= 100
		}
		s.r.env.After(after, protocol.Timer{Kind: watchTimer})
	}
}

// lookForAbandoned asks for those batches to be made void that had no place at the last look, either.
func (s *scheduler) lookForAbandoned() {
	s.watching = false
	var abandoned []batchlog.BatchID
	again := false
	for n := range s.inbox {
		settled := s.r.log.Settled(geo.NodeID(n))
		w := s.watched[n]
		if s.last[n] > settled && s.r.env.Buggify(voidsEarly) {
			w = s.last[n]
		}
		if w > settled {
			abandoned = append(abandoned, batchlog.BatchID{Sequencer: geo.NodeID(n), Number: w})
		}
		s.watched[n] = 0
		if geo.NodeID(n) != s.r.self && s.last[n] > settled {
			s.watched[n] = s.last[n]
			again = true
			s.r.env.Probe(batchWatched)
		}
	}
	if len(abandoned) > 0 {
		s.r.env.Probe(batchAbandoned)
		s.r.log.Void(abandoned)
	}
	if again {
		s.watch()
	}
}
