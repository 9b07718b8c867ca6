package calvin

import (
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
)

// scheduler takes the batches in log order and submits their transactions to the executor (Thomson 2012, section 3.4).
type scheduler struct {
	r *Replica
	// reader reads the batches from the log; nil with ordering epochs.
	reader *batchlog.Reader[*SubBatch]
	// position counts the batches that have run.
	position uint64
	foreign  int64 // other sequencers' transactions that were submitted to the executor
}

// read schedules the batch at the log's current position.
func (s *scheduler) read(o batchlog.Ordered, m *SubBatch) {
	s.position = s.r.log.Position()
	s.schedule(o.Batch.Sequencer, m)
}

// schedule submits the transactions of a batch at the current position to the executor.
func (s *scheduler) schedule(sequencer geo.NodeID, m *SubBatch) {
	s.foreign += int64(s.r.foreign(sequencer, m))
	for i, t := range m.Txns {
		s.r.executor.Run(deterministic.Place{Position: s.position, Index: uint64(m.Indexes[i])}, t, sequencer)
	}
}

// foreign returns the number of transactions in a batch that clients of other nodes submitted.
func (r *Replica) foreign(sequencer geo.NodeID, m *SubBatch) int {
	if sequencer == r.self {
		return 0
	}
	return len(m.Txns)
}
