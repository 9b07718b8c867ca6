package coco

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds. make generate writes the encodings of their structs.
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
type Attempt struct {
	Epoch uint64 `codec:"max=maxEpoch"`
	Run   uint64
}

func (a Attempt) epoch() uint64 { return a.Epoch }

func (a Attempt) String() string { return fmt.Sprintf("%d in epoch %d", a.Run, a.Epoch) }

// Read requests rows from their primary.
type Read struct {
	Attempt
	Ranges []txn.Range
}

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
	Found []raftgroup.Found `codec:"as=raftgroup.Found"`
	// Versions are the versions of the rows in Found, in the same order. A range of a single row has a version even if
	// the row does not exist.
	Versions []uint64
}

func (m *Rows) String() string {
	return fmt.Sprintf("rows for %v: %s, written at %d", m.Attempt, raftgroup.FoundString(m.Found), m.Versions)
}

// Expected is a row with the version that a transaction has read.
type Expected struct {
	Key txn.Key
	// Known is set if the version was read. Rows that are only written have no known version.
	Known   bool
	Version uint64 `codec:"if=Known"`
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

func (m *Lock) String() string {
	return fmt.Sprintf("lock for %v:%s", m.Attempt, expectedString(m.Keys))
}

// Locked answers Lock.
type Locked struct {
	Attempt
	Verdict Verdict `codec:"enum=Valid..lastVerdict"`
	// Least is the earliest time at which the transaction may write the rows.
	Least uint64
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

func (r *ExpectedRange) check() error {
	if r.Point() {
		return errors.New("a single row is validated as a range")
	}
	return nil
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
	Verdict Verdict `codec:"enum=Valid..lastVerdict"`
}

func (m *Validated) String() string { return fmt.Sprintf("validated %v: %v", m.Attempt, m.Verdict) }

// Write sends a transaction's writes and their time to a primary or a copy. It also unlocks the rows that the
// transaction has locked.
type Write struct {
	Attempt
	Writer txn.ID
	At     uint64
	Writes []txn.WriteEntry
}

func (m *Write) String() string {
	return fmt.Sprintf("write for %v, %v at %d:%s", m.Attempt, m.Writer, m.At, raftgroup.WritesString(m.Writes))
}

// Unlock notifies a primary that an attempt at a transaction was abandoned, so that the primary releases its locks.
type Unlock struct{ Attempt }

func (m *Unlock) String() string { return fmt.Sprintf("unlock for %v", m.Attempt) }

var decode = protocol.Decode("coco", decodeMessage, consensus.Decode, statetransfer.Decode)
