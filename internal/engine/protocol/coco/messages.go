package coco

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds.
const (
	kindRead = iota + 1
	kindRows
	kindLock
	kindLocked
	kindValidate
	kindValidated
	kindWrite
	kindUnlock
	kindDone
	kindSnapshot
	kindStart
	kindStop
	kindVote
	kindCollect
	kindState
	kindView
	kindAlive
	kindReady
	kindMissed
)

// maxEpoch bounds epochs and ballots in messages, so that their successors do not overflow.
const maxEpoch = 1 << 62

// A message encodes a member as one number: the node number in the low incarnationShift bits, the incarnation in the
// high bits.
const (
	incarnationShift = 16
	maxMember        = math.MaxUint32<<incarnationShift | raftgroup.MaxNode
)

// Verdict is the result of an attempt to lock or to validate.
type Verdict uint8

// The verdicts.
const (
	Valid Verdict = iota + 1
	// LockHeld: another transaction has locked a row to be written.
	LockHeld
	// WriteChanged: a row to be written no longer has the version that was read.
	WriteChanged
	// ReadLocked: a row that was read is locked by a transaction that may write it at or before the time of the read.
	ReadLocked
	// ReadChanged: a row that was read has another version.
	ReadChanged
	lastVerdict = ReadChanged
)

// String returns the verdict as the reason of an outcome.
func (v Verdict) String() string {
	return [...]string{"", "valid", "lock-held", "write-changed", "read-locked", "read-changed"}[v]
}

// Attempt identifies an attempt at a transaction: the epoch, and the number of the attempt at the executing node.
type Attempt struct{ Epoch, Run uint64 }

func (a Attempt) epoch() uint64 { return a.Epoch }

func (a Attempt) size() int { return codec.SizeUvarint(a.Epoch) + codec.SizeUvarint(a.Run) }

func (a Attempt) appendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, a.Epoch), a.Run)
}

func readAttempt(r *codec.Reader) Attempt { return Attempt{r.UvarintMax(maxEpoch), r.Uvarint()} }

func (a Attempt) String() string { return fmt.Sprintf("%d in epoch %d", a.Run, a.Epoch) }

// Read requests rows from their primary.
type Read struct {
	Attempt
	Ranges []txn.Range
}

// Kind implements protocol.Message.
func (m *Read) Kind() uint8 { return kindRead }

// Size implements protocol.Message.
func (m *Read) Size() int { return m.size() + codec.SizeRanges(m.Ranges) }

// AppendTo implements protocol.Message.
func (m *Read) AppendTo(b []byte) []byte { return codec.AppendRanges(m.appendTo(b), m.Ranges) }

func (m *Read) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "read %v:", m.Attempt)
	for i := range m.Ranges {
		fmt.Fprintf(&b, " %v", &m.Ranges[i])
	}
	return b.String()
}

// Rows answers Read.
type Rows struct {
	Attempt
	Found []raftgroup.Found
	// Versions are the versions of the rows in Found, in the same order. A range of a single row has a version even if
	// the row does not exist.
	Versions []uint64
}

// Kind implements protocol.Message.
func (m *Rows) Kind() uint8 { return kindRows }

// Size implements protocol.Message.
func (m *Rows) Size() int {
	n := m.size() + raftgroup.SizeFound(m.Found) + codec.SizeUvarint(uint64(len(m.Versions)))
	for _, v := range m.Versions {
		n += codec.SizeUvarint(v)
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Rows) AppendTo(b []byte) []byte {
	b = raftgroup.AppendFound(m.appendTo(b), m.Found)
	b = codec.AppendUvarint(b, uint64(len(m.Versions)))
	for _, v := range m.Versions {
		b = codec.AppendUvarint(b, v)
	}
	return b
}

func (m *Rows) String() string {
	return fmt.Sprintf("rows for %v: %s, written at %d", m.Attempt, raftgroup.FoundString(m.Found), m.Versions)
}

// Expected is a row with the version that a transaction has read.
type Expected struct {
	Key     txn.Key
	Version uint64
	// Known is set if the version was read. Rows that are only written have no known version.
	Known bool
}

func sizeExpected(all []Expected) int {
	n := codec.SizeUvarint(uint64(len(all)))
	for i := range all {
		n += codec.SizeString(string(all[i].Key)) + 1
		if all[i].Known {
			n += codec.SizeUvarint(all[i].Version)
		}
	}
	return n
}

func appendExpected(b []byte, all []Expected) []byte {
	b = codec.AppendUvarint(b, uint64(len(all)))
	for i := range all {
		b = append(codec.AppendString(b, string(all[i].Key)), codec.Flags(all[i].Known, false))
		if all[i].Known {
			b = codec.AppendUvarint(b, all[i].Version)
		}
	}
	return b
}

func readExpected(r *codec.Reader) []Expected {
	n := r.Count(3)
	if n == 0 {
		return nil
	}
	all := make([]Expected, n)
	for i := range all {
		all[i].Key, all[i].Known = r.Key(), r.Flag()
		if all[i].Known {
			all[i].Version = r.Uvarint()
		}
	}
	return all
}

func expectedString(all []Expected) string {
	var b strings.Builder
	for i := range all {
		fmt.Fprintf(&b, " %v", all[i].Key)
		if all[i].Known {
			fmt.Fprintf(&b, "@%d", all[i].Version)
		}
	}
	return b.String()
}

// Lock asks the primary of rows to lock them for writing.
type Lock struct {
	Attempt
	Keys []Expected
}

// Kind implements protocol.Message.
func (m *Lock) Kind() uint8 { return kindLock }

// Size implements protocol.Message.
func (m *Lock) Size() int { return m.size() + sizeExpected(m.Keys) }

// AppendTo implements protocol.Message.
func (m *Lock) AppendTo(b []byte) []byte { return appendExpected(m.appendTo(b), m.Keys) }

func (m *Lock) String() string {
	return fmt.Sprintf("lock for %v:%s", m.Attempt, expectedString(m.Keys))
}

// Locked answers Lock.
type Locked struct {
	Attempt
	Verdict Verdict
	// Least is the earliest time at which the transaction may write the rows.
	Least uint64
}

// Kind implements protocol.Message.
func (m *Locked) Kind() uint8 { return kindLocked }

// Size implements protocol.Message.
func (m *Locked) Size() int { return m.size() + 1 + codec.SizeUvarint(m.Least) }

// AppendTo implements protocol.Message.
func (m *Locked) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(append(m.appendTo(b), byte(m.Verdict)), m.Least)
}

func (m *Locked) String() string {
	if m.Verdict != Valid {
		return fmt.Sprintf("not locked for %v: %v", m.Attempt, m.Verdict)
	}
	return fmt.Sprintf("locked for %v: may write at %d", m.Attempt, m.Least)
}

// ExpectedRange is a range with the rows that a transaction has found in it, in scan order.
type ExpectedRange struct {
	txn.Range
	Rows []Expected
}

// seen returns the part of the range that the transaction has seen. If the scan reached its limit, this part ends at
// the last row found.
func (r *ExpectedRange) seen() txn.Range {
	seen := txn.Range{From: r.From, To: r.To}
	if n := len(r.Rows); n > 0 && n == r.Limit {
		if last := r.Rows[n-1].Key; r.Reverse {
			seen.From = last
		} else {
			seen.To = last + "\x00"
		}
	}
	return seen
}

// Validate asks the primary of rows whether they are unchanged since they were read, and remain unchanged up to a time.
type Validate struct {
	Attempt
	At     uint64
	Points []Expected
	Ranges []ExpectedRange
}

// Kind implements protocol.Message.
func (m *Validate) Kind() uint8 { return kindValidate }

// Size implements protocol.Message.
func (m *Validate) Size() int {
	n := m.size() + codec.SizeUvarint(m.At) + sizeExpected(m.Points) + codec.SizeUvarint(uint64(len(m.Ranges)))
	for i := range m.Ranges {
		n += codec.SizeRange(&m.Ranges[i].Range) + sizeExpected(m.Ranges[i].Rows)
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Validate) AppendTo(b []byte) []byte {
	b = appendExpected(codec.AppendUvarint(m.appendTo(b), m.At), m.Points)
	b = codec.AppendUvarint(b, uint64(len(m.Ranges)))
	for i := range m.Ranges {
		b = appendExpected(codec.AppendRange(b, &m.Ranges[i].Range), m.Ranges[i].Rows)
	}
	return b
}

func (m *Validate) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "validate %v at %d:%s", m.Attempt, m.At, expectedString(m.Points))
	for i := range m.Ranges {
		fmt.Fprintf(&b, " %v:%s", &m.Ranges[i].Range, expectedString(m.Ranges[i].Rows))
	}
	return b.String()
}

// Validated answers Validate.
type Validated struct {
	Attempt
	Verdict Verdict
}

// Kind implements protocol.Message.
func (m *Validated) Kind() uint8 { return kindValidated }

// Size implements protocol.Message.
func (m *Validated) Size() int { return m.size() + 1 }

// AppendTo implements protocol.Message.
func (m *Validated) AppendTo(b []byte) []byte { return append(m.appendTo(b), byte(m.Verdict)) }

func (m *Validated) String() string { return fmt.Sprintf("validated %v: %v", m.Attempt, m.Verdict) }

// Write sends a transaction's writes and their time to a primary or a copy. It also unlocks the rows that the
// transaction has locked.
type Write struct {
	Attempt
	Writer txn.ID
	At     uint64
	Writes []txn.WriteEntry
}

// Kind implements protocol.Message.
func (m *Write) Kind() uint8 { return kindWrite }

// Size implements protocol.Message.
func (m *Write) Size() int {
	return m.size() + codec.SizeID(m.Writer) + codec.SizeUvarint(m.At) + codec.SizeWrites(m.Writes)
}

// AppendTo implements protocol.Message.
func (m *Write) AppendTo(b []byte) []byte {
	return codec.AppendWrites(codec.AppendUvarint(codec.AppendID(m.appendTo(b), m.Writer), m.At), m.Writes)
}

func (m *Write) String() string {
	return fmt.Sprintf("write for %v, %v at %d:%s", m.Attempt, m.Writer, m.At, raftgroup.WritesString(m.Writes))
}

// Unlock notifies a primary that an attempt at a transaction was abandoned, so that the primary releases its locks.
type Unlock struct{ Attempt }

// Kind implements protocol.Message.
func (m *Unlock) Kind() uint8 { return kindUnlock }

// Size implements protocol.Message.
func (m *Unlock) Size() int { return m.size() }

// AppendTo implements protocol.Message.
func (m *Unlock) AppendTo(b []byte) []byte { return m.appendTo(b) }

func (m *Unlock) String() string { return fmt.Sprintf("unlock for %v", m.Attempt) }

func readVerdict(r *codec.Reader) Verdict {
	v := Verdict(r.Uint8())
	if r.Err() == nil && (v < Valid || v > lastVerdict) {
		r.Fail(fmt.Errorf("%d is not a verdict", uint8(v)))
		return Valid
	}
	return v
}

// decode is Engine.Decode.
func decode(kind uint8, body []byte, _ *txn.Registry) (protocol.Message, error) {
	if kind == consensus.Kind {
		m, err := consensus.Decode(body)
		if err != nil {
			return nil, err // a nil *T in the interface would not equal nil
		}
		return m, nil
	}
	if m, known, err := statetransfer.Decode(kind, body); known {
		return m, err
	}
	r := codec.NewReader(body)
	var m protocol.Message
	switch kind {
	case kindRead:
		m = &Read{readAttempt(&r), r.Ranges()}
	case kindRows:
		rows := &Rows{Attempt: readAttempt(&r), Found: raftgroup.ReadFound(&r)}
		if n := r.Count(1); n > 0 {
			rows.Versions = make([]uint64, n)
			for i := range rows.Versions {
				rows.Versions[i] = r.Uvarint()
			}
		}
		m = rows
	case kindLock:
		m = &Lock{readAttempt(&r), readExpected(&r)}
	case kindLocked:
		m = &Locked{readAttempt(&r), readVerdict(&r), r.Uvarint()}
	case kindValidate:
		m = readValidate(&r)
	case kindValidated:
		m = &Validated{readAttempt(&r), readVerdict(&r)}
	case kindWrite:
		m = &Write{readAttempt(&r), r.ID(), r.Uvarint(), r.Writes()}
	case kindUnlock:
		m = &Unlock{readAttempt(&r)}
	case kindDone:
		m = &Done{r.UvarintMax(maxEpoch)}
	case kindSnapshot:
		m = readSnapshot(&r)
	case kindStart:
		m = &Start{readTurn(&r)}
	case kindStop:
		m = &Stop{readTurn(&r)}
	case kindVote:
		m = &Vote{readTurn(&r)}
	case kindCollect:
		m = &Collect{r.UvarintMax(maxEpoch)}
	case kindState:
		m = &State{readTurn(&r), r.UvarintMax(maxEpoch)}
	case kindView:
		m = readView(&r)
	case kindAlive:
		m = &Alive{r.UvarintMax(maxEpoch)}
	case kindReady:
		m = &Ready{r.UvarintMax(maxEpoch)}
	case kindMissed:
		m = &Missed{r.UvarintMax(maxEpoch)}
	default:
		return nil, fmt.Errorf("message kind %d is not one of coco's", kind)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return m, nil
}

func readValidate(r *codec.Reader) *Validate {
	m := &Validate{Attempt: readAttempt(r), At: r.Uvarint(), Points: readExpected(r)}
	if n := r.Count(2); n > 0 {
		m.Ranges = make([]ExpectedRange, n)
		for i := range m.Ranges {
			g := &m.Ranges[i]
			g.Range, g.Rows = r.Range(), readExpected(r)
			if r.Err() == nil && g.Point() {
				r.Fail(errors.New("a single row is validated as a range"))
			}
		}
	}
	return m
}
