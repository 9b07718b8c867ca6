package deterministic

import (
	"cmp"
	"fmt"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds, shared by all engines that use the package.
const (
	KindReads = batchlog.KindVoid + 1 + iota
	KindAnswers
)

// KindPassed is the kind of a message of Resets.
const KindPassed = 249

// Place identifies a transaction to all its participants. In Calvin, it is the position of a batch in the log and the
// index in the batch. Engines with several logs derive it from the transaction's ID: see PlaceOf.
//
//codec:part
type Place struct{ Position, Index uint64 }

// PlaceOf returns the place of a transaction that is identified by its ID and attempt number. Places of one attempt
// have the order of their IDs. All places of the second attempt follow all places of the first.
func PlaceOf(id txn.ID, attempt uint64) Place {
	// An ID consists of a stream of 24 bits and a number of 40 bits. The attempt distinguishes the places of a transaction
	// that is sent again.
	return Place{attempt<<24 | uint64(id.Stream()), uint64(id) & (1<<40 - 1)}
}

// Less reports whether p is before q.
func (p Place) Less(q Place) bool {
	return p.Position < q.Position || p.Position == q.Position && p.Index < q.Index
}

// Compare compares places in the order of Less.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Position, q.Position), cmp.Compare(p.Index, q.Index))
}

func (p Place) String() string { return fmt.Sprintf("%d.%d", p.Position, p.Index) }

// Value is a participant's read result for one access or range.
type Value struct {
	Bytes []byte
	Found bool
	Range bool
	rows  rows
}

// rows are the rows of a range, in key order.
type rows []txn.Row

// Read identifies a transaction, and the number of its values in the message.
type Read struct {
	Place
	Values int
	// Reordered is set if the values were read after Executor.Reorder had reordered the transaction.
	Reordered bool
	// Stale is set if a row of the sender has left the home that the transaction was sent to.
	Stale bool
}

// Reads carries local reads from a participant to another participant of the same copy. For each transaction, it
// contains the values that the transaction reads in the sender's partition, in the order of the transaction's
// footprint.
type Reads struct {
	Reads  []Read
	Values []Value
}

// Kind implements protocol.Message.
func (m *Reads) Kind() uint8 { return KindReads }

func (r *Read) shape() uint64 {
	n := uint64(r.Values) << 2
	if r.Reordered {
		n |= 1
	}
	if r.Stale {
		n |= 2
	}
	return n
}

// Size implements protocol.Message.
func (m *Reads) Size() int {
	n := codec.SizeUvarint(uint64(len(m.Reads))) + codec.SizeUvarint(uint64(len(m.Values)))
	for i := range m.Reads {
		n += m.Reads[i].Place.Size() + codec.SizeUvarint(m.Reads[i].shape())
	}
	for i := range m.Values {
		v := &m.Values[i]
		n++
		if v.Found {
			n += codec.SizeBytes(v.Bytes)
		} else if v.Range {
			n += codec.SizeRows(v.rows)
		}
	}
	return n
}

// Encodings of values.
const (
	valueNone = iota
	valueRow
	valueRange
)

// AppendTo implements protocol.Message. Each value is encoded as no row, one row, or the rows of a range.
func (m *Reads) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(m.Reads)))
	for i := range m.Reads {
		b = m.Reads[i].Place.AppendTo(b)
		b = codec.AppendUvarint(b, m.Reads[i].shape())
	}
	b = codec.AppendUvarint(b, uint64(len(m.Values)))
	for i := range m.Values {
		b = m.Values[i].appendTo(b)
	}
	return b
}

func (v *Value) appendTo(b []byte) []byte {
	switch {
	case v.Found:
		return codec.AppendBytes(append(b, valueRow), v.Bytes)
	case v.Range:
		return codec.AppendRows(append(b, valueRange), v.rows)
	default:
		return append(b, valueNone)
	}
}

func (m *Reads) String() string {
	s := "reads:"
	at := 0
	for _, r := range m.Reads {
		s += fmt.Sprintf(" %v=", r.Place)
		if r.Reordered {
			s += "reordered "
		}
		if r.Stale {
			s += "stale "
		}
		for i, v := range m.Values[at : at+r.Values] {
			if i > 0 {
				s += ","
			}
			if v.Found {
				s += fmt.Sprintf("%x", v.Bytes)
			} else if v.Range {
				s += fmt.Sprintf("[%d rows]", len(v.rows))
			} else {
				s += "none"
			}
		}
		at += r.Values
	}
	return s
}

// maxValues bounds the number of values per transaction that a decoder accepts.
const maxValues = 1 << 24

// ReadReads decodes the output of Reads.AppendTo.
func ReadReads(r *codec.Reader) *Reads {
	m := &Reads{}
	m.read(r)
	return m
}

func (m *Reads) read(r *codec.Reader) {
	total := uint64(0)
	// Each read takes at least three bytes: two for its place and one for its shape.
	if n := r.Count(3); n > 0 {
		m.Reads = make([]Read, n)
		for i := range m.Reads {
			at := ReadPlace(r)
			// With this bound, the sum of the counts below cannot overflow.
			shape := r.UvarintMax(4*maxValues + 3)
			m.Reads[i] = Read{at, int(shape >> 2), shape&1 != 0, shape&2 != 0}
			total += shape >> 2
		}
	}
	n := r.Count(1)
	// Executor.Reads slices Values by these counts, so their sum must match exactly.
	if r.Err() == nil && uint64(n) != total {
		r.Fail(fmt.Errorf("%d values for transactions that read %d", n, total))
		n = 0
	}
	if n > 0 {
		m.Values = make([]Value, n)
		for i := range m.Values {
			m.Values[i] = readValue(r)
		}
	}
}

func readValue(r *codec.Reader) Value {
	switch found := r.Uint8(); found {
	case valueNone:
		return Value{}
	case valueRow:
		return Value{Bytes: r.Bytes(), Found: true}
	case valueRange:
		return Value{Range: true, rows: r.Rows()}
	default:
		r.Fail(fmt.Errorf("%d says neither that there is a value nor that there is none", found))
		return Value{}
	}
}

// Answers carries outcomes to the node where the clients wait, if that node does not run the transactions itself.
type Answers struct{ Outcomes []txn.Outcome }

func (m *Answers) String() string {
	s := "answers:"
	for _, o := range m.Outcomes {
		s += fmt.Sprintf(" t%v %v", o.ID, o.Status)
	}
	return s
}

// Passed lists the marks that the sender has passed: see Resets.
type Passed struct{ Marks []PassedMark }

// PassedMark identifies a mark by the node and the incarnation that has restarted.
type PassedMark struct {
	Node        geo.NodeID
	Incarnation uint32
}

func (m *Passed) String() string {
	s := "passed the marks of"
	for _, p := range m.Marks {
		s += fmt.Sprintf(" node %d, incarnation %d", p.Node, p.Incarnation)
	}
	return s
}

// Decode is a protocol.Decoder for the messages of this package.
func Decode(kind uint8, body []byte, procs *txn.Registry) (m protocol.Message, known bool, err error) {
	return decodeMessage(kind, body, procs)
}
