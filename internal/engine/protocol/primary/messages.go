package primary

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds.
const (
	kindRelay = iota + 1
	kindCall
	kindRequest
	kindCommit
	kindReply
	kindAnswer
	kindAppend
	kindAck
	kindTakeover
	kindBehind
	kindAhead
	kindSurvey
	kindStanding
)

// maxNumber bounds the numbers of terms, transactions, round trips and entries, so that sums of these numbers cannot
// overflow.
const maxNumber = 1<<62 - 1

// Relay sends a transaction to the instance of the sender's region, which has the region's sessions.
type Relay struct {
	// Number is the transaction's number at its sender. Oldest is the lowest number for which the sender still waits.
	Number, Oldest uint64
	Transaction    *txn.Transaction
}

// Kind implements protocol.Message.
func (m *Relay) Kind() uint8 { return kindRelay }

// Size implements protocol.Message.
func (m *Relay) Size() int {
	return codec.SizeUvarint(m.Number) + codec.SizeUvarint(m.Oldest) + codec.SizeTransaction(m.Transaction)
}

// AppendTo implements protocol.Message.
func (m *Relay) AppendTo(b []byte) []byte {
	return codec.AppendTransaction(codec.AppendUvarint(codec.AppendUvarint(b, m.Number), m.Oldest), m.Transaction)
}

func (m *Relay) String() string { return fmt.Sprintf("relay t%v", m.Transaction.ID) }

// Call sends a transaction to the writer of a term, which executes it.
type Call struct {
	Term, Number, Oldest uint64
	Transaction          *txn.Transaction
}

// Kind implements protocol.Message.
func (m *Call) Kind() uint8 { return kindCall }

// Size implements protocol.Message.
func (m *Call) Size() int {
	return codec.SizeUvarint(m.Term) + codec.SizeUvarint(m.Number) + codec.SizeUvarint(m.Oldest) + codec.SizeTransaction(m.Transaction)
}

// AppendTo implements protocol.Message.
func (m *Call) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, m.Term), m.Number), m.Oldest)
	return codec.AppendTransaction(b, m.Transaction)
}

func (m *Call) String() string { return fmt.Sprintf("call t%v", m.Transaction.ID) }

// Request is a round trip of a transaction that is forwarded statement by statement, or that reads a copy.
type Request struct {
	Term, Number, Oldest uint64
	// Step numbers the transaction's round trips from 1.
	Step uint64
	// First is set if this is the first request that begins the transaction at the writer.
	First bool
	// Barrier is set if the request only asks for the writer's log position.
	Barrier bool
	// Writes are the rows that the statement writes: one row, or none if the request only begins the transaction.
	Writes []txn.WriteEntry
}

// Kind implements protocol.Message.
func (m *Request) Kind() uint8 { return kindRequest }

// Size implements protocol.Message.
func (m *Request) Size() int {
	return codec.SizeUvarint(m.Term) + codec.SizeUvarint(m.Number) + codec.SizeUvarint(m.Oldest) + codec.SizeUvarint(m.Step) + 1 +
		codec.SizeWrites(m.Writes)
}

// AppendTo implements protocol.Message.
func (m *Request) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, m.Term), m.Number), m.Oldest)
	return codec.AppendWrites(append(codec.AppendUvarint(b, m.Step), codec.Flags(m.First, m.Barrier)), m.Writes)
}

func (m *Request) String() string {
	switch {
	case m.Barrier:
		return fmt.Sprintf("%d, step %d: how far is the log?", m.Number, m.Step)
	case len(m.Writes) == 0:
		return fmt.Sprintf("%d, step %d: begin", m.Number, m.Step)
	}
	return fmt.Sprintf("%d, step %d: write", m.Number, m.Step)
}

// Commit ends a transaction that was forwarded statement by statement.
type Commit struct {
	Term, Number, Oldest uint64
	ID                   txn.ID
	// Reads are the reads of the transaction from the sender's copy.
	Reads optimistic.Reads
}

// Kind implements protocol.Message.
func (m *Commit) Kind() uint8 { return kindCommit }

// Size implements protocol.Message.
func (m *Commit) Size() int {
	return codec.SizeUvarint(m.Term) + codec.SizeUvarint(m.Number) + codec.SizeUvarint(m.Oldest) + codec.SizeID(m.ID) + m.Reads.Size()
}

// AppendTo implements protocol.Message.
func (m *Commit) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, m.Term), m.Number), m.Oldest)
	return m.Reads.AppendTo(codec.AppendID(b, m.ID))
}

func (m *Commit) String() string { return fmt.Sprintf("%d: commit t%v", m.Number, m.ID) }

// Reply answers a Request.
type Reply struct {
	Term, Number, Step uint64
	// Committed is the last committed entry of the log.
	Committed uint64
}

// Kind implements protocol.Message.
func (m *Reply) Kind() uint8 { return kindReply }

// Size implements protocol.Message.
func (m *Reply) Size() int {
	return codec.SizeUvarint(m.Term) + codec.SizeUvarint(m.Number) + codec.SizeUvarint(m.Step) + codec.SizeUvarint(m.Committed)
}

// AppendTo implements protocol.Message.
func (m *Reply) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(b, m.Term), m.Number)
	return codec.AppendUvarint(codec.AppendUvarint(b, m.Step), m.Committed)
}

func (m *Reply) String() string {
	return fmt.Sprintf("%d, step %d is done; the log is at %d", m.Number, m.Step, m.Committed)
}

// Answer sends the outcome of a transaction.
type Answer struct {
	// Relayed is set if the message answers a Relay. Term is then unused.
	Relayed      bool
	Term, Number uint64
	// Entry is the last log entry that the transaction's result may include.
	Entry   uint64
	Outcome txn.Outcome
}

// Kind implements protocol.Message.
func (m *Answer) Kind() uint8 { return kindAnswer }

// Size implements protocol.Message.
func (m *Answer) Size() int {
	return 1 + codec.SizeUvarint(m.Term) + codec.SizeUvarint(m.Number) + codec.SizeUvarint(m.Entry) + codec.SizeOutcome(&m.Outcome)
}

// AppendTo implements protocol.Message.
func (m *Answer) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(append(b, codec.Flags(m.Relayed, false)), m.Term)
	return codec.AppendOutcome(codec.AppendUvarint(codec.AppendUvarint(b, m.Number), m.Entry), &m.Outcome)
}

func (m *Answer) String() string {
	return fmt.Sprintf("%d is %v at entry %d", m.Number, m.Outcome.Status, m.Entry)
}

// Entry is a transaction in the log.
type Entry struct {
	// Name is the transaction's name at its coordinator. Oldest is the lowest number for which the coordinator waited.
	Name   raftgroup.Name
	Oldest uint64
	// Outcome is the outcome of the committed transaction. It has a result only if the writer has executed the procedure.
	Outcome txn.Outcome
	Writes  []txn.WriteEntry
}

// minEntry is the minimum size of an encoded entry.
const minEntry = 4 + codec.MinOutcome

func (e *Entry) size() int {
	return e.Name.Size() + codec.SizeUvarint(e.Oldest) + codec.SizeOutcome(&e.Outcome) + codec.SizeWrites(e.Writes)
}

func (e *Entry) appendTo(b []byte) []byte {
	b = codec.AppendUvarint(e.Name.AppendTo(b), e.Oldest)
	return codec.AppendWrites(codec.AppendOutcome(b, &e.Outcome), e.Writes)
}

func readEntry(r *codec.Reader) (e Entry) {
	e.Name, e.Oldest = raftgroup.ReadName(r), r.UvarintMax(maxNumber)
	r.Outcome(&e.Outcome)
	e.Writes = r.Writes()
	return e
}

// Append is a part of the log: entries from First on. Entries up to Committed are committed and may be applied.
type Append struct {
	Term, First, Committed uint64
	Entries                []Entry
}

// Kind implements protocol.Message.
func (m *Append) Kind() uint8 { return kindAppend }

// Size implements protocol.Message.
func (m *Append) Size() int {
	n := codec.SizeUvarint(m.Term) + codec.SizeUvarint(m.First) + codec.SizeUvarint(m.Committed) + codec.SizeUvarint(uint64(len(m.Entries)))
	for i := range m.Entries {
		n += m.Entries[i].size()
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Append) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, m.Term), m.First), m.Committed)
	b = codec.AppendUvarint(b, uint64(len(m.Entries)))
	for i := range m.Entries {
		b = m.Entries[i].appendTo(b)
	}
	return b
}

func (m *Append) String() string {
	if len(m.Entries) == 0 {
		return fmt.Sprintf("the log is committed up to %d", m.Committed)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "log from %d, committed up to %d:", m.First, m.Committed)
	for i := range m.Entries {
		fmt.Fprintf(&b, " t%v", m.Entries[i].Outcome.ID)
	}
	return b.String()
}

// Ack reports that a storage node has the log up to an entry.
type Ack struct{ Term, Last uint64 }

// Kind implements protocol.Message.
func (m *Ack) Kind() uint8 { return kindAck }

// Size implements protocol.Message.
func (m *Ack) Size() int { return codec.SizeUvarint(m.Term) + codec.SizeUvarint(m.Last) }

// AppendTo implements protocol.Message.
func (m *Ack) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, m.Term), m.Last)
}

func (m *Ack) String() string { return fmt.Sprintf("has the log up to %d", m.Last) }

// Takeover announces the writer of a term. The writer's own entries start after entry Base.
type Takeover struct {
	Term   uint64
	Writer geo.NodeID
	Base   uint64
	// Planned is set if the sender is the previous writer, whose log ends at Base.
	Planned bool
	// Recovered is set if the writer is a new incarnation of the previous writer that has recovered the log from its
	// storage. The entries of that log after Base are the first entries of the term.
	Recovered bool
}

// Kind implements protocol.Message.
func (m *Takeover) Kind() uint8 { return kindTakeover }

// Size implements protocol.Message.
func (m *Takeover) Size() int {
	return codec.SizeUvarint(m.Term) + codec.SizeUvarint(uint64(m.Writer)) + codec.SizeUvarint(m.Base) + 1
}

// AppendTo implements protocol.Message.
func (m *Takeover) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(b, m.Term), uint64(m.Writer))
	return append(codec.AppendUvarint(b, m.Base), codec.Flags(m.Planned, m.Recovered))
}

func (m *Takeover) String() string {
	return fmt.Sprintf("node %d writes behind entry %d, in term %d", m.Writer, m.Base, m.Term)
}

// Behind requests a copy of the rows.
type Behind struct {
	Term uint64
	// Ask is the sender's number of this request.
	Ask uint64
}

// Kind implements protocol.Message.
func (m *Behind) Kind() uint8 { return kindBehind }

// Size implements protocol.Message.
func (m *Behind) Size() int { return codec.SizeUvarint(m.Term) + codec.SizeUvarint(m.Ask) }

// AppendTo implements protocol.Message.
func (m *Behind) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, m.Term), m.Ask)
}

func (m *Behind) String() string { return "asks for a copy" }

// Ahead reports that the sender has received its state up to entry Last as a copy, and does not pass on entries up to
// Last.
type Ahead struct{ Term, Last uint64 }

// Kind implements protocol.Message.
func (m *Ahead) Kind() uint8 { return kindAhead }

// Size implements protocol.Message.
func (m *Ahead) Size() int { return codec.SizeUvarint(m.Term) + codec.SizeUvarint(m.Last) }

// AppendTo implements protocol.Message.
func (m *Ahead) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, m.Term), m.Last)
}

func (m *Ahead) String() string { return fmt.Sprintf("passes on what is behind entry %d", m.Last) }

// Survey asks a storage node for its log position, on behalf of a new incarnation of the writer.
type Survey struct{}

// Kind implements protocol.Message.
func (m *Survey) Kind() uint8 { return kindSurvey }

// Size implements protocol.Message.
func (m *Survey) Size() int { return 0 }

// AppendTo implements protocol.Message.
func (m *Survey) AppendTo(b []byte) []byte { return b }

func (m *Survey) String() string { return "how far is the log?" }

// Standing answers a Survey.
type Standing struct {
	Term uint64
	// Applied is the last entry applied to the sender's rows. Last is the last entry that the sender has.
	Applied, Last uint64
}

// Kind implements protocol.Message.
func (m *Standing) Kind() uint8 { return kindStanding }

// Size implements protocol.Message.
func (m *Standing) Size() int {
	return codec.SizeUvarint(m.Term) + codec.SizeUvarint(m.Applied) + codec.SizeUvarint(m.Last)
}

// AppendTo implements protocol.Message.
func (m *Standing) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, m.Term), m.Applied), m.Last)
}

func (m *Standing) String() string {
	return fmt.Sprintf("has the log up to %d, and rows as of %d", m.Last, m.Applied)
}

// decode is Engine.Decode.
func decode(kind uint8, body []byte, procs *txn.Registry) (protocol.Message, error) {
	r := codec.NewReader(body)
	var m protocol.Message
	var t *txn.Transaction // the transaction to be prepared
	transaction := func() *txn.Transaction {
		t = &txn.Transaction{}
		r.Transaction(t)
		return t
	}
	number := func() uint64 { return r.UvarintMax(maxNumber) }
	switch kind {
	case kindRelay:
		m = &Relay{Number: number(), Oldest: number(), Transaction: transaction()}
	case kindCall:
		m = &Call{Term: number(), Number: number(), Oldest: number(), Transaction: transaction()}
	case kindRequest:
		q := &Request{Term: number(), Number: number(), Oldest: number(), Step: number()}
		q.First, q.Barrier = r.Flags()
		q.Writes = r.Writes()
		m = q
	case kindCommit:
		m = &Commit{Term: number(), Number: number(), Oldest: number(), ID: r.ID(), Reads: optimistic.ReadReads(&r)}
	case kindReply:
		m = &Reply{number(), number(), number(), number()}
	case kindAnswer:
		a := &Answer{Relayed: r.Flag(), Term: number(), Number: number(), Entry: number()}
		r.Outcome(&a.Outcome)
		m = a
	case kindAppend:
		a := &Append{Term: number(), First: number(), Committed: number()}
		for range r.Count(minEntry) {
			a.Entries = append(a.Entries, readEntry(&r))
		}
		m = a
	case kindAck:
		m = &Ack{number(), number()}
	case kindTakeover:
		k := &Takeover{Term: number(), Writer: geo.NodeID(r.UvarintMax(raftgroup.MaxNode)), Base: number()}
		k.Planned, k.Recovered = r.Flags()
		m = k
	case kindBehind:
		m = &Behind{number(), number()}
	case kindAhead:
		m = &Ahead{number(), number()}
	case kindSurvey:
		m = &Survey{}
	case kindStanding:
		m = &Standing{number(), number(), number()}
	default:
		if m, known, err := statetransfer.Decode(kind, body); known {
			return m, err
		}
		return nil, fmt.Errorf("message kind %d is not one of primary's", kind)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	if t != nil {
		if err := procs.Prepare(t); err != nil {
			return nil, err
		}
	}
	return m, nil
}
