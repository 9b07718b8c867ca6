package calvin

import (
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol/deterministic"
	"github.com/geobench/geobench/internal/protocol/fifo"
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
}

func (s *scheduler) init(r *Replica) {
	s.r = r
	s.inbox = make([]fifo.Queue[*SubBatch], r.nodes)
}

// arrive takes a sub-batch of a sequencer.
func (s *scheduler) arrive(from geo.NodeID, m *SubBatch) {
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
		if o.Readers.Has(s.r.partition) {
			inbox := &s.inbox[o.Batch.Sequencer]
			m := inbox.Front()
			if m == nil || m.Batch != o.Batch.Number {
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
