package calvin

import (
	"slices"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// replaces is Engine.Replaces. It returns the nodes without which the log still has a majority, if another region has a
// copy of every batch. With ordering epochs it returns none, because every node waits for all others.
func replaces(t *geo.Topology, p protocol.Params) (nodes []geo.NodeID) {
	ordering := p.Word("ordering")
	if ordering == orderingEpochs || batchlog.Copies(p) < 2 {
		return nil
	}
	members := logMembers(t, ordering)
	for n := range geo.NodeID(t.Nodes()) {
		if len(members) > 2 || !slices.Contains(members, n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func newResets(r *Replica, c protocol.Config) *deterministic.Resets {
	reader := r.scheduler.reader
	if c.Incarnation > 0 {
		r.recon.Pause()
	}
	return deterministic.NewResets(deterministic.ResetConfig{
		Config: c, Layout: c.Topology.Full(), Executor: r.executor, PieceTimer: pieceTimer, AgainTimer: againTimer, Advance: reader.Advance,
		Passed: func(n geo.NodeID) uint32 {
			if n == r.self && !reader.CaughtUp() {
				return 0
			}
			return protocol.IncarnationOf(reader.Done(n))
		},
		Append: func(b []byte) []byte {
			for n := range geo.NodeID(r.nodes) {
				b = codec.AppendUvarint(b, reader.Done(n))
			}
			return b
		},
		Ready: func(place uint64, _ codec.Reader) bool { return r.log.Known() >= place },
		Begin: func(place uint64, in *codec.Reader) {
			done := make([]uint64, r.nodes)
			for n := range done {
				done[n] = in.Uvarint()
			}
			reader.SkipTo(place, done)
		},
		Forget: func(uint64) {
			r.scheduler.foreign = r.executor.Finished
			r.sequencer.forget(reader.Done(r.self))
		},
	})
}

// mark handles the log entry that marks a new incarnation: see batchlog.ReaderConfig.
func (r *Replica) mark(n geo.NodeID, incarnation uint32) bool {
	return r.resets.Mark(n, incarnation, r.log.Position())
}

// enter lets a new incarnation order transactions, once it has read its mark in the log and therefore has its rows.
func (r *Replica) enter() {
	s := &r.sequencer
	if !s.entering || !r.log.Entered() {
		return
	}
	s.entering = false
	r.recon.Resume()
	if len(s.batch) > 0 {
		s.close()
	}
}

// forget reports an unknown outcome for the transactions in this node's batches up to number batch. The transactions
// are ordered before a mark, so this copy never executes them.
func (s *sequencer) forget(batch uint64) {
	var lost []txn.ID
	for id, number := range s.flight {
		if number <= batch {
			lost = append(lost, id)
		}
	}
	// Map order would make the order of replies differ between replays.
	slices.Sort(lost)
	for _, id := range lost {
		s.r.env.Mark(outcomeForgotten)
		delete(s.flight, id)
		s.r.recon.Forget(id)
		s.reply(txn.Outcome{ID: id, Status: txn.Unknown, Cause: txn.CauseNode, Reason: deterministic.ReasonReset})
	}
}

// sendAgain sends a new incarnation its part of the batches without a log position, because only its predecessor may
// have received them.
func (s *sequencer) sendAgain(to geo.NodeID) {
	q := s.r.topology.PartitionOf(to)
	s.sent.Each(func(b sentBatch) {
		var touched batchlog.Set
		var indexes []uint32
		var part []*txn.Transaction
		for i, t := range b.txns {
			mine := false
			for _, a := range t.Accesses {
				of := s.r.placement.Partition(a.Key)
				touched, mine = touched.With(of), mine || of == q
			}
			if mine {
				indexes, part = append(indexes, uint32(i)), append(part, t)
			}
		}
		if touched.Has(q) {
			s.r.env.Mark(batchSentAgain)
			s.r.env.Send(to, newSubBatch(b.number, indexes, part))
		}
	})
}

// Replaced implements protocol.Rejoiner.
func (r *Replica) Replaced(n geo.NodeID, incarnation uint32) {
	if r.resets == nil {
		return
	}
	r.log.Replaced(n, incarnation)
	r.resets.Replaced(n, incarnation)
	r.sequencer.sendAgain(n)
	r.recon.Replaced(n)
	r.flush()
}

// FullyReplicated implements protocol.Rejoiner.
func (r *Replica) FullyReplicated() bool {
	return r.resets == nil || r.log.FullyReplicated() && r.resets.FullyReplicated()
}
