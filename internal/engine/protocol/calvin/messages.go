package calvin

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds that only Calvin uses.
const (
	kindSubBatch = 1 + iota
	kindCopy
)

// SubBatch carries the transactions of a batch that touch a scheduler's partition from a sequencer to that scheduler.
// With ordering epochs, Batch is the epoch, and the message also states that the sequencer has closed all epochs up to
// Batch.
type SubBatch struct {
	Batch uint64
	// Indexes are the transactions' indexes in the whole batch, ascending. An index and the batch's log position identify
	// a transaction to all its participants.
	Indexes []uint32
	Txns    []*txn.Transaction
	size    int
}

func newSubBatch(batch uint64, indexes []uint32, txns []*txn.Transaction) *SubBatch {
	m := &SubBatch{Batch: batch, Indexes: indexes, Txns: txns}
	m.size = codec.SizeUvarint(batch) + codec.SizeUvarint(uint64(len(txns)))
	next := uint32(0)
	for i, t := range txns {
		// Indexes ascend strictly, so the distance from the smallest possible next index is encoded: usually 0, which takes
		// one byte.
		m.size += codec.SizeUvarint(uint64(indexes[i]-next)) + codec.SizeTransaction(t)
		next = indexes[i] + 1
	}
	return m
}

// BatchNumber implements batchlog.Data.
func (m *SubBatch) BatchNumber() uint64 { return m.Batch }

// Kind implements protocol.Message.
func (m *SubBatch) Kind() uint8 { return kindSubBatch }

// Size implements protocol.Message.
func (m *SubBatch) Size() int { return m.size }

// AppendTo implements protocol.Message.
func (m *SubBatch) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, m.Batch)
	b = codec.AppendUvarint(b, uint64(len(m.Txns)))
	next := uint32(0)
	for i, t := range m.Txns {
		b = codec.AppendUvarint(b, uint64(m.Indexes[i]-next))
		b = codec.AppendTransaction(b, t)
		next = m.Indexes[i] + 1
	}
	return b
}

func (m *SubBatch) String() string {
	s := fmt.Sprintf("sub-batch %d:", m.Batch)
	for i, t := range m.Txns {
		s += fmt.Sprintf(" %d=t%v", m.Indexes[i], t.ID)
	}
	return s
}

// maxBatch is the largest number of transactions in a batch that a decoder accepts.
const maxBatch = 1 << 24

func (m *SubBatch) read(r *codec.Reader, txns *codec.TxnArena) {
	m.size = r.Len() // a sub-batch is the last part of its message
	m.Batch = r.Uvarint()
	n := r.Count(1 + codec.MinTransaction)
	if n > 0 {
		m.Indexes = make([]uint32, n)
		m.Txns = make([]*txn.Transaction, n)
		txns.Reserve(n)
	}
	next := uint64(0)
	for i := range n {
		next += r.UvarintMax(maxBatch)
		m.Indexes[i] = uint32(next)
		next++
		m.Txns[i] = txns.Transaction(r)
		// Each distance is within the bound, but their sum may not be.
		if next > maxBatch {
			r.Fail(fmt.Errorf("a batch of %d transactions is longer than %d", next, maxBatch))
		}
		if r.Err() != nil {
			return
		}
	}
}

// Copy carries the sub-batch of a log position from one scheduler of a partition to another scheduler that has not
// received it.
type Copy struct {
	Sequencer geo.NodeID
	*SubBatch
}

func (m *Copy) String() string { return fmt.Sprintf("of node %d: %v", m.Sequencer, m.SubBatch) }

var decode = protocol.Decode("calvin", decodeMessage, batchlog.Decode, reconnaissance.Decode, deterministic.Decode, statetransfer.Decode)
