package minerva

import (
	"errors"
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds. Package consensus defines its own kind.
const (
	kindBatch = iota + 1
	kindAcknowledgement
	kindProof
	kindRequest
	kindCut
	kindProgress
	kindCuts
	kindJoin
	kindFollow
	kindFollowed
	kindForgotten
)

const (
	maxNode = 1<<16 - 1
	// maxNumber bounds the numbers of batches, transactions and epochs, so that sums of two numbers do not overflow.
	maxNumber = 1<<63 - 1
)

var errNodes = errors.New("a state is not that of as many replicas")

// Record is a transaction with the reads and writes of its optimistic execution (section 3.2).
type Record struct {
	Txn *txn.Transaction
	// Unexecuted is set if the origin was in high-contention mode and has not executed the transaction.
	Unexecuted bool
	Reads      optimistic.Reads
	Writes     []txn.WriteEntry
}

func (r *Record) size() int {
	n := codec.SizeTransaction(r.Txn) + 1
	if !r.Unexecuted {
		n += r.Reads.Size() + codec.SizeWrites(r.Writes)
	}
	return n
}

// Batch is an entry of a replica's log: transactions in the order in which the replica executed them.
type Batch struct {
	// Origin is the replica that owns the log. Replicas also pass on batches of other replicas.
	Origin geo.NodeID
	// Number counts the batches of the log, from 1.
	Number uint64
	// First is the position of the batch's first transaction in the log, from 1.
	First uint64
	// Epoch is the last epoch that the replica had committed when it appended the first transaction of the batch.
	Epoch   uint64
	Records []Record
	size    int
}

// seal computes m.size once the batch is complete, and returns m.
func (m *Batch) seal() *Batch {
	m.size = codec.SizeUvarint(uint64(m.Origin)) + codec.SizeUvarint(m.Number) + codec.SizeUvarint(m.First) +
		codec.SizeUvarint(m.Epoch) + codec.SizeUvarint(uint64(len(m.Records)))
	for i := range m.Records {
		m.size += m.Records[i].size()
	}
	return m
}

// Kind implements protocol.Message.
func (m *Batch) Kind() uint8 { return kindBatch }

// Size implements protocol.Message.
func (m *Batch) Size() int { return m.size }

// AppendTo implements protocol.Message.
func (m *Batch) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(m.Origin)), m.Number)
	b = codec.AppendUvarint(codec.AppendUvarint(b, m.First), m.Epoch)
	b = codec.AppendUvarint(b, uint64(len(m.Records)))
	for i := range m.Records {
		r := &m.Records[i]
		b = codec.AppendTransaction(b, r.Txn)
		if r.Unexecuted {
			b = append(b, 1)
			continue
		}
		b = codec.AppendWrites(r.Reads.AppendTo(append(b, 0)), r.Writes)
	}
	return b
}

func (m *Batch) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "batch %s of %d:", numbered(m.Number), m.Origin)
	for i := range m.Records {
		r := &m.Records[i]
		fmt.Fprintf(&b, " t%v", r.Txn.ID)
		if r.Unexecuted {
			b.WriteString(" unexecuted")
		}
		for _, p := range r.Reads.Points {
			if p.Back > 0 {
				fmt.Fprintf(&b, " after t%v", p.Writer)
			}
		}
	}
	return b.String()
}

func (m *Batch) read(r *codec.Reader, txns *codec.TxnArena) {
	m.size = r.Len()
	m.Origin = geo.NodeID(r.UvarintMax(maxNode))
	m.Number, m.First, m.Epoch = r.UvarintMax(maxNumber), r.UvarintMax(maxNumber), r.UvarintMax(maxNumber)
	if n := r.Count(codec.MinTransaction + 1); n > 0 {
		m.Records = make([]Record, n)
		txns.Reserve(n)
	}
	for i := range m.Records {
		rec := &m.Records[i]
		rec.Txn = txns.Transaction(r)
		switch kind := r.Uint8(); kind {
		case 0:
			rec.Reads = optimistic.ReadReads(r)
			rec.Writes = r.Writes()
		case 1:
			rec.Unexecuted = true
		default:
			r.Fail(fmt.Errorf("%d does not say whether a transaction was executed", kind))
		}
		if r.Err() != nil {
			return
		}
	}
}

// Acknowledgement reports that the sender has received all batches of the receiver's log up to Number.
type Acknowledgement struct {
	Number uint64 `codec:"max=maxNumber"`
}

func (m *Acknowledgement) String() string { return fmt.Sprintf("has batch %s", numbered(m.Number)) }

// Proof is a proof of availability: f + 1 replicas have the sender's batch Number and all batches before it (section
// 3.3).
type Proof struct {
	Number uint64 `codec:"max=maxNumber"`
}

func (m *Proof) String() string {
	return fmt.Sprintf("proof of availability of batch %s", numbered(m.Number))
}

// Request asks for missing batches of a log.
type Request struct {
	Origin geo.NodeID
	// From and To are the first and last batch requested.
	From, To uint64 `codec:"max=maxNumber"`
}

func (m *Request) String() string {
	return fmt.Sprintf("wants batches %s to %s of %d", numbered(m.From), numbered(m.To), m.Origin)
}

// Forgotten answers a Request: the sender lacks the requested batch and will never have it.
type Forgotten struct {
	Origin geo.NodeID
	Number uint64 `codec:"max=maxNumber"`
}

func (m *Forgotten) String() string {
	return fmt.Sprintf("has discarded batch %s of %d", numbered(m.Number), m.Origin)
}

// Heads holds one batch number per log, indexed by replica.
//
//codec:part max=maxNumber
type Heads []uint64

func (h Heads) String() string {
	numbers := make([]string, len(h))
	for n, head := range h {
		numbers[n] = numbered(head)
	}
	return "[" + strings.Join(numbers, " ") + "]"
}

// Cut is a consistent cut that the coordinator has decided without consensus: see the parameter commit.
type Cut struct{ Heads Heads }

func (m *Cut) String() string { return fmt.Sprintf("cut %v", m.Heads) }

// Progress reports the last epoch that the sender has committed, and the batches that it knows to be available.
type Progress struct {
	Epoch  uint64 `codec:"max=maxNumber"`
	Proofs Heads
}

func (m *Progress) String() string {
	return fmt.Sprintf("has committed epoch %d, knows of proofs %v", m.Epoch, m.Proofs)
}

// Cuts sends a new incarnation the recent cuts, if the coordinator decides cuts without consensus.
type Cuts struct{ State []byte }

func (m *Cuts) String() string { return "the last cuts" }

// Join requests rows. The sender is a new incarnation that knows only the cuts after Epoch, so it needs the rows of
// that epoch or a later one.
type Join struct {
	Epoch uint64 `codec:"max=maxNumber"`
}

func (m *Join) String() string {
	return fmt.Sprintf("wants the rows after epoch %d or a later one", m.Epoch)
}

// Follow requests the batches of the receiver's log, starting with batch From.
type Follow struct {
	From uint64 `codec:"max=maxNumber"`
}

func (m *Follow) String() string {
	return fmt.Sprintf("wants the log from batch %s on", numbered(m.From))
}

// Followed reports that the sender has sent its batches up to Number. The sender's log extends to Last.
type Followed struct {
	Number, Last uint64 `codec:"max=maxNumber"`
}

func (m *Followed) String() string {
	return fmt.Sprintf("has sent its log up to batch %s of %s", numbered(m.Number), numbered(m.Last))
}

// numbered formats the number of a batch or transaction, preceded by its incarnation unless that is 0.
func numbered(number uint64) string {
	if i := protocol.IncarnationOf(number); i > 0 {
		return fmt.Sprintf("%d.%d", i, number-protocol.NumbersBefore(i))
	}
	return fmt.Sprint(number)
}

var decode = protocol.Decode("minerva", decodeMessage, statetransfer.Decode, consensus.Decode)
