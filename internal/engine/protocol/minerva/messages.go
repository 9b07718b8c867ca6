package minerva

import (
	"errors"
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
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

func decodeBatch(r *codec.Reader, procs *txn.Registry) (*Batch, error) {
	m := &Batch{size: r.Len(), Origin: geo.NodeID(r.UvarintMax(maxNode)), Number: r.UvarintMax(maxNumber), First: r.UvarintMax(maxNumber), Epoch: r.UvarintMax(maxNumber)}
	n := r.Count(codec.MinTransaction + 1)
	if n > 0 {
		m.Records = make([]Record, n)
	}
	room := deterministic.NewTxnArena(procs, n)
	for i := range m.Records {
		rec := &m.Records[i]
		t, err := room.Transaction(r)
		if err != nil {
			return nil, err
		}
		rec.Txn = t
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
			break
		}
	}
	return m, nil
}

// Acknowledgement reports that the sender has received all batches of the receiver's log up to Number.
type Acknowledgement struct{ Number uint64 }

// Kind implements protocol.Message.
func (m *Acknowledgement) Kind() uint8 { return kindAcknowledgement }

// Size implements protocol.Message.
func (m *Acknowledgement) Size() int { return codec.SizeUvarint(m.Number) }

// AppendTo implements protocol.Message.
func (m *Acknowledgement) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, m.Number) }

func (m *Acknowledgement) String() string { return fmt.Sprintf("has batch %s", numbered(m.Number)) }

// Proof is a proof of availability: f + 1 replicas have the sender's batch Number and all batches before it (section
// 3.3).
type Proof struct{ Number uint64 }

// Kind implements protocol.Message.
func (m *Proof) Kind() uint8 { return kindProof }

// Size implements protocol.Message.
func (m *Proof) Size() int { return codec.SizeUvarint(m.Number) }

// AppendTo implements protocol.Message.
func (m *Proof) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, m.Number) }

func (m *Proof) String() string {
	return fmt.Sprintf("proof of availability of batch %s", numbered(m.Number))
}

// Request asks for missing batches of a log.
type Request struct {
	Origin geo.NodeID
	// From and To are the first and last batch requested.
	From, To uint64
}

// Kind implements protocol.Message.
func (m *Request) Kind() uint8 { return kindRequest }

// Size implements protocol.Message.
func (m *Request) Size() int {
	return codec.SizeUvarint(uint64(m.Origin)) + codec.SizeUvarint(m.From) + codec.SizeUvarint(m.To)
}

// AppendTo implements protocol.Message.
func (m *Request) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, uint64(m.Origin)), m.From), m.To)
}

func (m *Request) String() string {
	return fmt.Sprintf("wants batches %s to %s of %d", numbered(m.From), numbered(m.To), m.Origin)
}

// Forgotten answers a Request: the sender lacks the requested batch and will never have it.
type Forgotten struct {
	Origin geo.NodeID
	Number uint64
}

// Kind implements protocol.Message.
func (m *Forgotten) Kind() uint8 { return kindForgotten }

// Size implements protocol.Message.
func (m *Forgotten) Size() int {
	return codec.SizeUvarint(uint64(m.Origin)) + codec.SizeUvarint(m.Number)
}

// AppendTo implements protocol.Message.
func (m *Forgotten) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, uint64(m.Origin)), m.Number)
}

func (m *Forgotten) String() string {
	return fmt.Sprintf("has discarded batch %s of %d", numbered(m.Number), m.Origin)
}

// Heads holds one batch number per log, indexed by replica.
type Heads []uint64

func (h Heads) size() int {
	n := codec.SizeUvarint(uint64(len(h)))
	for _, head := range h {
		n += codec.SizeUvarint(head)
	}
	return n
}

func (h Heads) appendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(h)))
	for _, head := range h {
		b = codec.AppendUvarint(b, head)
	}
	return b
}

func (h Heads) String() string {
	numbers := make([]string, len(h))
	for n, head := range h {
		numbers[n] = numbered(head)
	}
	return "[" + strings.Join(numbers, " ") + "]"
}

func readHeads(r *codec.Reader) Heads {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	h := make(Heads, n)
	for i := range h {
		h[i] = r.UvarintMax(maxNumber)
	}
	return h
}

// Cut is a consistent cut that the coordinator has decided without consensus: see the parameter commit.
type Cut struct{ Heads Heads }

// Kind implements protocol.Message.
func (m *Cut) Kind() uint8 { return kindCut }

// Size implements protocol.Message.
func (m *Cut) Size() int { return m.Heads.size() }

// AppendTo implements protocol.Message.
func (m *Cut) AppendTo(b []byte) []byte { return m.Heads.appendTo(b) }

func (m *Cut) String() string { return fmt.Sprintf("cut %v", m.Heads) }

// Progress reports the last epoch that the sender has committed, and the batches that it knows to be available.
type Progress struct {
	Epoch  uint64
	Proofs Heads
}

// Kind implements protocol.Message.
func (m *Progress) Kind() uint8 { return kindProgress }

// Size implements protocol.Message.
func (m *Progress) Size() int { return codec.SizeUvarint(m.Epoch) + m.Proofs.size() }

// AppendTo implements protocol.Message.
func (m *Progress) AppendTo(b []byte) []byte {
	return m.Proofs.appendTo(codec.AppendUvarint(b, m.Epoch))
}

func (m *Progress) String() string {
	return fmt.Sprintf("has committed epoch %d, knows of proofs %v", m.Epoch, m.Proofs)
}

// Cuts sends a new incarnation the recent cuts, if the coordinator decides cuts without consensus.
type Cuts struct{ State []byte }

// Kind implements protocol.Message.
func (m *Cuts) Kind() uint8 { return kindCuts }

// Size implements protocol.Message.
func (m *Cuts) Size() int { return codec.SizeBytes(m.State) }

// AppendTo implements protocol.Message.
func (m *Cuts) AppendTo(b []byte) []byte { return codec.AppendBytes(b, m.State) }

func (m *Cuts) String() string { return "the last cuts" }

// Join requests rows. The sender is a new incarnation that knows only the cuts after Epoch, so it needs the rows of
// that epoch or a later one.
type Join struct{ Epoch uint64 }

// Kind implements protocol.Message.
func (m *Join) Kind() uint8 { return kindJoin }

// Size implements protocol.Message.
func (m *Join) Size() int { return codec.SizeUvarint(m.Epoch) }

// AppendTo implements protocol.Message.
func (m *Join) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, m.Epoch) }

func (m *Join) String() string {
	return fmt.Sprintf("wants the rows after epoch %d or a later one", m.Epoch)
}

// Follow requests the batches of the receiver's log from batch From on.
type Follow struct{ From uint64 }

// Kind implements protocol.Message.
func (m *Follow) Kind() uint8 { return kindFollow }

// Size implements protocol.Message.
func (m *Follow) Size() int { return codec.SizeUvarint(m.From) }

// AppendTo implements protocol.Message.
func (m *Follow) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, m.From) }

func (m *Follow) String() string {
	return fmt.Sprintf("wants the log from batch %s on", numbered(m.From))
}

// Followed reports that the sender has sent its batches up to Number. The sender's log extends to Last.
type Followed struct{ Number, Last uint64 }

// Kind implements protocol.Message.
func (m *Followed) Kind() uint8 { return kindFollowed }

// Size implements protocol.Message.
func (m *Followed) Size() int { return codec.SizeUvarint(m.Number) + codec.SizeUvarint(m.Last) }

// AppendTo implements protocol.Message.
func (m *Followed) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, m.Number), m.Last)
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

// decode is Engine.Decode.
func decode(kind uint8, body []byte, procs *txn.Registry) (protocol.Message, error) {
	if m, known, err := statetransfer.Decode(kind, body); known {
		return m, err
	}
	r := codec.NewReader(body)
	var m protocol.Message
	switch kind {
	case kindBatch:
		b, err := decodeBatch(&r, procs)
		if err != nil {
			return nil, err
		}
		m = b
	case kindAcknowledgement:
		m = &Acknowledgement{r.UvarintMax(maxNumber)}
	case kindProof:
		m = &Proof{r.UvarintMax(maxNumber)}
	case kindRequest:
		m = &Request{geo.NodeID(r.UvarintMax(maxNode)), r.UvarintMax(maxNumber), r.UvarintMax(maxNumber)}
	case kindCut:
		m = &Cut{readHeads(&r)}
	case kindProgress:
		m = &Progress{r.UvarintMax(maxNumber), readHeads(&r)}
	case kindCuts:
		m = &Cuts{r.Bytes()}
	case kindJoin:
		m = &Join{r.UvarintMax(maxNumber)}
	case kindFollow:
		m = &Follow{r.UvarintMax(maxNumber)}
	case kindFollowed:
		m = &Followed{r.UvarintMax(maxNumber), r.UvarintMax(maxNumber)}
	case kindForgotten:
		m = &Forgotten{geo.NodeID(r.UvarintMax(maxNode)), r.UvarintMax(maxNumber)}
	case consensus.Kind:
		c, err := consensus.Decode(body)
		if err != nil {
			return nil, err
		}
		return c, nil
	default:
		return nil, fmt.Errorf("message kind %d is not one of minerva's", kind)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return m, nil
}
