package calvin

import (
	"fmt"

	"github.com/geobench/geobench/internal/codec"
	"github.com/geobench/geobench/internal/consensus"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/txn"
)

// Message kinds.
const (
	kindSubBatch = iota + 1
	kindOrderRequest
	kindPositions
	kindFetch
	kindReads
	kindAnswers
)

// BatchID names a batch: the node that sequenced it and its number there, from 1.
type BatchID struct {
	Sequencer geo.NodeID
	Number    uint64
}

func (b BatchID) String() string { return fmt.Sprintf("%d/%d", b.Sequencer, b.Number) }

// PartitionSet is a set of partitions modulo 64: with more than 64 partitions some more belong to it than were added,
// and those get an empty sub-batch.
type PartitionSet uint64

// With returns the set with partition q.
func (s PartitionSet) With(q int) PartitionSet { return s | 1<<(q%64) }

// Has reports whether partition q is in the set.
func (s PartitionSet) Has(q int) bool { return s&(1<<(q%64)) != 0 }

// SubBatch carries, from a sequencer to a scheduler, the transactions of a batch that touch the scheduler's partition.
// With ordering epochs, Batch is the epoch, and the message says that the sequencer has closed all epochs up to it.
type SubBatch struct {
	Batch uint64
	// Indexes are the transactions' places in the whole batch, ascending: with the batch's position in the log they
	// name a transaction to all its participants.
	Indexes []uint32
	Txns    []*txn.Transaction
	size    int
}

func newSubBatch(batch uint64, indexes []uint32, txns []*txn.Transaction) *SubBatch {
	m := &SubBatch{Batch: batch, Indexes: indexes, Txns: txns}
	m.size = codec.SizeUvarint(batch) + codec.SizeUvarint(uint64(len(txns)))
	next := uint32(0)
	for i, t := range txns {
		m.size += codec.SizeUvarint(uint64(indexes[i]-next)) + codec.SizeTransaction(t)
		next = indexes[i] + 1
	}
	return m
}

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

// maxBatch bounds the transactions of a batch that a decoder takes.
const maxBatch = 1 << 24

func decodeSubBatch(body []byte, procs *txn.Registry) (*SubBatch, error) {
	r := codec.NewReader(body)
	m := &SubBatch{Batch: r.Uvarint(), size: len(body)}
	n := r.Count(1 + codec.MinTransaction)
	if n > 0 {
		m.Indexes = make([]uint32, n)
		m.Txns = make([]*txn.Transaction, n)
	}
	// One allocation holds all transactions, and a few hold their accesses.
	txns := make([]txn.Transaction, n)
	var room []txn.Access
	next := uint64(0)
	for i := range n {
		t := &txns[i]
		next += r.UvarintMax(maxBatch)
		m.Indexes[i], m.Txns[i] = uint32(next), t
		next++
		r.Transaction(t)
		if r.Err() != nil {
			return nil, r.Err()
		}
		if next > maxBatch {
			return nil, fmt.Errorf("a batch of %d transactions is longer than %d", next, maxBatch)
		}
		if cap(room)-len(room) < 16 {
			room = make([]txn.Access, 0, max(16, min(16*(n-i), 512)))
		}
		t.Accesses = room[len(room):len(room):cap(room)]
		if err := procs.Prepare(t); err != nil {
			return nil, err
		}
		// What Prepare has put into the room is taken; had it run out, the accesses would lie elsewhere.
		if used := len(room) + len(t.Accesses); used <= cap(room) {
			room = room[:used]
		}
		t.Accesses = t.Accesses[:len(t.Accesses):len(t.Accesses)]
	}
	return m, r.Done()
}

// Request asks for a place in the log for a batch of the sender.
type Request struct {
	Number     uint64
	Partitions PartitionSet
}

// OrderRequest carries requests from a sequencer to the leader of the log, ascending.
type OrderRequest struct{ Requests []Request }

// Kind implements protocol.Message.
func (m *OrderRequest) Kind() uint8 { return kindOrderRequest }

// Size implements protocol.Message.
func (m *OrderRequest) Size() int {
	n := codec.SizeUvarint(uint64(len(m.Requests)))
	for _, q := range m.Requests {
		n += codec.SizeUvarint(q.Number) + codec.SizeUvarint(uint64(q.Partitions))
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *OrderRequest) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(m.Requests)))
	for _, q := range m.Requests {
		b = codec.AppendUvarint(b, q.Number)
		b = codec.AppendUvarint(b, uint64(q.Partitions))
	}
	return b
}

func (m *OrderRequest) String() string {
	s := "order request:"
	for _, q := range m.Requests {
		s += fmt.Sprintf(" %d(partitions %b)", q.Number, uint64(q.Partitions))
	}
	return s
}

func decodeOrderRequest(body []byte) (*OrderRequest, error) {
	r := codec.NewReader(body)
	m := &OrderRequest{}
	if n := r.Count(2); n > 0 {
		m.Requests = make([]Request, n)
		for i := range m.Requests {
			m.Requests[i] = Request{r.Uvarint(), PartitionSet(r.Uvarint())}
		}
	}
	return m, r.Done()
}

// Ordered is a batch with a place in the log.
type Ordered struct {
	Batch      BatchID
	Partitions PartitionSet
}

// Positions tells the log's entries from First on, in order, and that the sender leads the log in Term.
type Positions struct {
	Term    uint64
	First   uint64
	Entries []Ordered
}

// Kind implements protocol.Message.
func (m *Positions) Kind() uint8 { return kindPositions }

// Size implements protocol.Message.
func (m *Positions) Size() int {
	return codec.SizeUvarint(m.Term) + codec.SizeUvarint(m.First) + sizeEntries(m.Entries)
}

// AppendTo implements protocol.Message.
func (m *Positions) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, m.Term)
	b = codec.AppendUvarint(b, m.First)
	return appendEntries(b, m.Entries)
}

func (m *Positions) String() string {
	s := fmt.Sprintf("positions from %d, term %d:", m.First, m.Term)
	for _, e := range m.Entries {
		s += " " + e.Batch.String()
	}
	return s
}

func sizeEntries(entries []Ordered) int {
	n := codec.SizeUvarint(uint64(len(entries)))
	for _, e := range entries {
		n += codec.SizeUvarint(uint64(e.Batch.Sequencer)) + codec.SizeUvarint(e.Batch.Number) +
			codec.SizeUvarint(uint64(e.Partitions))
	}
	return n
}

func appendEntries(b []byte, entries []Ordered) []byte {
	b = codec.AppendUvarint(b, uint64(len(entries)))
	for _, e := range entries {
		b = codec.AppendUvarint(b, uint64(e.Batch.Sequencer))
		b = codec.AppendUvarint(b, e.Batch.Number)
		b = codec.AppendUvarint(b, uint64(e.Partitions))
	}
	return b
}

func readEntries(r *codec.Reader) []Ordered {
	n := r.Count(3)
	if n == 0 {
		return nil
	}
	entries := make([]Ordered, n)
	for i := range entries {
		entries[i] = Ordered{
			Batch:      BatchID{geo.NodeID(r.UvarintMax(1<<16 - 1)), r.Uvarint()},
			Partitions: PartitionSet(r.Uvarint()),
		}
	}
	return entries
}

func decodePositions(body []byte) (*Positions, error) {
	r := codec.NewReader(body)
	m := &Positions{Term: r.Uvarint(), First: r.Uvarint()}
	m.Entries = readEntries(&r)
	return m, r.Done()
}

// Fetch asks a new leader for the log's entries from First on: the old one took some with it.
type Fetch struct{ First uint64 }

// Kind implements protocol.Message.
func (m *Fetch) Kind() uint8 { return kindFetch }

// Size implements protocol.Message.
func (m *Fetch) Size() int { return codec.SizeUvarint(m.First) }

// AppendTo implements protocol.Message.
func (m *Fetch) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, m.First) }

func (m *Fetch) String() string { return fmt.Sprintf("fetch positions from %d", m.First) }

func decodeFetch(body []byte) (*Fetch, error) {
	r := codec.NewReader(body)
	m := &Fetch{r.Uvarint()}
	return m, r.Done()
}

// Value is what a participant read under one key.
type Value struct {
	Bytes []byte
	Found bool
}

// Read names a transaction and how many of the message's values are its own.
type Read struct {
	Position uint64
	Index    uint32
	Values   int
}

// Reads carries local reads from a participant to an active participant of the same copy: for each transaction the
// values of the keys that it reads in the sender's partition, in the order of its read set.
type Reads struct {
	Reads  []Read
	Values []Value
}

// Kind implements protocol.Message.
func (m *Reads) Kind() uint8 { return kindReads }

// Size implements protocol.Message.
func (m *Reads) Size() int {
	n := codec.SizeUvarint(uint64(len(m.Reads))) + codec.SizeUvarint(uint64(len(m.Values)))
	for _, r := range m.Reads {
		n += codec.SizeUvarint(r.Position) + codec.SizeUvarint(uint64(r.Index)) + codec.SizeUvarint(uint64(r.Values))
	}
	for _, v := range m.Values {
		n++
		if v.Found {
			n += codec.SizeBytes(v.Bytes)
		}
	}
	return n
}

// AppendTo implements protocol.Message. A value is 1 and its bytes, or 0 when there is no row.
func (m *Reads) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(m.Reads)))
	for _, r := range m.Reads {
		b = codec.AppendUvarint(b, r.Position)
		b = codec.AppendUvarint(b, uint64(r.Index))
		b = codec.AppendUvarint(b, uint64(r.Values))
	}
	b = codec.AppendUvarint(b, uint64(len(m.Values)))
	for _, v := range m.Values {
		if !v.Found {
			b = append(b, 0)
			continue
		}
		b = codec.AppendBytes(append(b, 1), v.Bytes)
	}
	return b
}

func (m *Reads) String() string {
	s := "reads:"
	at := 0
	for _, r := range m.Reads {
		s += fmt.Sprintf(" %d.%d=", r.Position, r.Index)
		for i, v := range m.Values[at : at+r.Values] {
			if i > 0 {
				s += ","
			}
			if v.Found {
				s += fmt.Sprintf("%x", v.Bytes)
			} else {
				s += "none"
			}
		}
		at += r.Values
	}
	return s
}

func decodeReads(body []byte) (*Reads, error) {
	r := codec.NewReader(body)
	m := &Reads{}
	total := uint64(0)
	if n := r.Count(3); n > 0 {
		m.Reads = make([]Read, n)
		for i := range m.Reads {
			m.Reads[i] = Read{
				Position: r.Uvarint(),
				Index:    uint32(r.UvarintMax(maxBatch)),
				Values:   int(r.UvarintMax(maxBatch)),
			}
			total += uint64(m.Reads[i].Values)
		}
	}
	n := r.Count(1)
	if r.Err() == nil && uint64(n) != total {
		r.Fail(fmt.Errorf("%d values for transactions that read %d", n, total))
		n = 0
	}
	if n > 0 {
		m.Values = make([]Value, n)
		for i := range m.Values {
			m.Values[i] = readValue(&r)
		}
	}
	return m, r.Done()
}

func readValue(r *codec.Reader) Value {
	switch found := r.Uint8(); found {
	case 0:
		return Value{}
	case 1:
		return Value{r.Bytes(), true}
	default:
		r.Fail(fmt.Errorf("%d says neither that there is a value nor that there is none", found))
		return Value{}
	}
}

// Answers carries outcomes to the node that its clients wait at, which takes no part in executing the transactions.
type Answers struct{ Outcomes []txn.Outcome }

// Kind implements protocol.Message.
func (m *Answers) Kind() uint8 { return kindAnswers }

// Size implements protocol.Message.
func (m *Answers) Size() int {
	n := codec.SizeUvarint(uint64(len(m.Outcomes)))
	for i := range m.Outcomes {
		n += codec.SizeOutcome(&m.Outcomes[i])
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Answers) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(m.Outcomes)))
	for i := range m.Outcomes {
		b = codec.AppendOutcome(b, &m.Outcomes[i])
	}
	return b
}

func (m *Answers) String() string {
	s := "answers:"
	for _, o := range m.Outcomes {
		s += fmt.Sprintf(" t%v %v", o.ID, o.Status)
	}
	return s
}

func decodeAnswers(body []byte) (*Answers, error) {
	r := codec.NewReader(body)
	m := &Answers{}
	if n := r.Count(codec.MinOutcome); n > 0 {
		m.Outcomes = make([]txn.Outcome, n)
		for i := range m.Outcomes {
			r.Outcome(&m.Outcomes[i])
		}
	}
	return m, r.Done()
}

// decode is Engine.Decode.
func decode(kind uint8, body []byte, procs *txn.Registry) (m protocol.Message, err error) {
	switch kind {
	case kindSubBatch:
		m, err = decodeSubBatch(body, procs)
	case kindOrderRequest:
		m, err = decodeOrderRequest(body)
	case kindPositions:
		m, err = decodePositions(body)
	case kindFetch:
		m, err = decodeFetch(body)
	case kindReads:
		m, err = decodeReads(body)
	case kindAnswers:
		m, err = decodeAnswers(body)
	case consensus.Kind:
		m, err = consensus.Decode(body)
	default:
		err = fmt.Errorf("message kind %d is not one of calvin's", kind)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}
