package locallog

import (
	"errors"
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds, shared by all engines that use the package.
const (
	KindCopy = batchlog.KindSent + 1 + iota
	KindOfLog
	KindReadsSince
	KindBatch
	KindForward
)

// Entry is a log entry: a transaction, or the part of a multi-home transaction that the log's region orders.
type Entry struct {
	Txn *txn.Transaction
	// Coordinator is the node where the client waits.
	Coordinator geo.NodeID
	// Part is set if the transaction has other homes, with parts in their logs.
	Part bool
	// LockOnly is set if Txn has only an ID and the accesses of this part; another part has the whole transaction.
	LockOnly bool
	Placing

	// notBefore is Forwarded.NotBefore of a part while its batch is being collected. It is not encoded.
	notBefore time.Duration
}

// Placing contains the routing of a transaction whose rows have moved, or describes the move of a row.
type Placing struct {
	// Attempt is the number of times that the transaction was sent again.
	Attempt uint64
	// Remaster is set if this is not a transaction but a move: its only row moves to region To.
	Remaster bool
	To       geo.Region
	// Homes lists the rows that have moved before, as known to the coordinator.
	Homes deterministic.Homes
}

// still reports whether p is empty: a first attempt without moved rows. Messages omit an empty Placing.
func (p *Placing) still() bool { return p.Attempt == 0 && !p.Remaster && len(p.Homes) == 0 }

// to returns 0 for a transaction, and 1 + the row's new region for a move.
func (p *Placing) to() uint64 {
	if p.Remaster {
		return uint64(p.To) + 1
	}
	return 0
}

func (p *Placing) size() int {
	if p.still() {
		return 0
	}
	n := codec.SizeUvarint(p.Attempt) + codec.SizeUvarint(p.to()) + codec.SizeUvarint(uint64(len(p.Homes)))
	for _, h := range p.Homes {
		n += codec.SizeUvarint(uint64(h.Access)) + codec.SizeUvarint(uint64(h.Home)) + codec.SizeUvarint(h.Count)
	}
	return n
}

func (p *Placing) appendTo(b []byte) []byte {
	// A flag at the start of the entry shows the reader whether a Placing follows.
	if p.still() {
		return b
	}
	b = codec.AppendUvarint(b, p.Attempt)
	b = codec.AppendUvarint(b, p.to())
	b = codec.AppendUvarint(b, uint64(len(p.Homes)))
	for _, h := range p.Homes {
		b = codec.AppendUvarint(b, uint64(h.Access))
		b = codec.AppendUvarint(b, uint64(h.Home))
		b = codec.AppendUvarint(b, h.Count)
	}
	return b
}

func readPlacing(r *codec.Reader) (p Placing) {
	p.Attempt = r.UvarintMax(1<<32 - 1)
	// The limit is one more than the largest region, because the encoding adds one.
	if to := r.UvarintMax(1 << 16); to > 0 {
		p.Remaster, p.To = true, geo.Region(to-1)
	}
	// Each element consists of three numbers, and so takes at least three bytes.
	if n := r.Count(3); n > 0 {
		p.Homes = make(deterministic.Homes, n)
	}
	for i := range p.Homes {
		p.Homes[i] = deterministic.Moved{Access: uint32(r.UvarintMax(1<<32 - 1)), Home: geo.Region(r.UvarintMax(1<<16 - 1)), Count: r.Uvarint()}
		// Only rows that have moved are listed, so that each placement has exactly one encoding. After an error, the reader
		// returns zeros, which must not hide the error.
		if r.Err() == nil && p.Homes[i].Count == 0 {
			r.Fail(errors.New("a row that has moved 0 times"))
		}
	}
	// Encoders omit an empty placement, so this input has a second encoding.
	if r.Err() == nil && p.still() {
		r.Fail(errors.New("a placing that says nothing"))
	}
	return p
}

func (p *Placing) String() string {
	s := ""
	if p.Remaster {
		s += fmt.Sprintf("(moves to region %d)", p.To)
	}
	if p.Attempt > 0 {
		s += fmt.Sprintf("(attempt %d)", p.Attempt+1)
	}
	for _, h := range p.Homes {
		s += fmt.Sprintf("(key %d in region %d by move %d)", h.Access, h.Home, h.Count)
	}
	return s
}

const (
	flagPart = 1 << iota
	flagLockOnly
	flagPlacing
)

func (e *Entry) flags() (f uint8) {
	if e.Part {
		f |= flagPart
	}
	if e.LockOnly {
		f |= flagLockOnly
	}
	if !e.still() {
		f |= flagPlacing
	}
	return f
}

func (e *Entry) size() int {
	n := 1 + codec.SizeUvarint(uint64(e.Coordinator)) + e.Placing.size()
	if !e.LockOnly {
		return n + codec.SizeTransaction(e.Txn)
	}
	return n + sizeLocks(e.Txn)
}

// sizeLocks, appendLocks and readLocks encode a transaction that consists of an ID and accesses.
func sizeLocks(t *txn.Transaction) int { return codec.SizeID(t.ID) + codec.SizeAccesses(t.Accesses) }

func (e *Entry) appendTo(b []byte) []byte {
	b = e.Placing.appendTo(codec.AppendUvarint(append(b, e.flags()), uint64(e.Coordinator)))
	if !e.LockOnly {
		return codec.AppendTransaction(b, e.Txn)
	}
	return appendLocks(b, e.Txn)
}

func appendLocks(b []byte, t *txn.Transaction) []byte {
	return codec.AppendAccesses(codec.AppendID(b, t.ID), t.Accesses)
}

// minEntry is the minimum size of an entry in bytes, for an entry with LockOnly.
const minEntry = 5

func readEntry(r *codec.Reader, txns *codec.TxnArena) (e Entry) {
	flags := r.Uint8()
	e.Part, e.LockOnly = flags&flagPart != 0, flags&flagLockOnly != 0
	e.Coordinator = geo.NodeID(r.UvarintMax(1<<16 - 1))
	if flags&flagPlacing != 0 {
		e.Placing = readPlacing(r)
	}
	// A move locks its row only, and an entry with LockOnly is either a part or a move.
	if flags > flagPart|flagLockOnly|flagPlacing || e.Remaster && !e.LockOnly || e.LockOnly && !e.Part && !e.Remaster {
		r.Fail(fmt.Errorf("%d is not the kind of an entry", flags))
	}
	if !e.LockOnly {
		e.Txn = txns.Transaction(r)
	} else {
		e.Txn = readLocks(r, txns)
	}
	if r.Err() == nil && e.Remaster && len(e.Txn.Accesses) != 1 {
		r.Fail(fmt.Errorf("%d rows move at once", len(e.Txn.Accesses)))
	}
	return e
}

func readLocks(r *codec.Reader, txns *codec.TxnArena) *txn.Transaction {
	t := txns.Next()
	t.ID = r.ID()
	t.Accesses = r.Accesses(nil)
	return t
}

// Batch carries a reader's part of a batch. It is sent by the batch's sequencer.
type Batch struct {
	Log     uint64
	Number  uint64
	Entries []Entry
	size    int
}

func newBatch(log, number uint64, entries []Entry) *Batch {
	m := &Batch{Log: log, Number: number, Entries: entries}
	m.size = codec.SizeUvarint(log) + codec.SizeUvarint(number) + codec.SizeUvarint(uint64(len(entries)))
	for i := range entries {
		m.size += entries[i].size()
	}
	return m
}

// BatchNumber implements batchlog.Data.
func (m *Batch) BatchNumber() uint64 { return m.Number }

// Kind implements protocol.Message.
func (m *Batch) Kind() uint8 { return KindBatch }

// Size implements protocol.Message.
func (m *Batch) Size() int { return m.size }

// AppendTo implements protocol.Message.
func (m *Batch) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, m.Log)
	b = codec.AppendUvarint(b, m.Number)
	b = codec.AppendUvarint(b, uint64(len(m.Entries)))
	for i := range m.Entries {
		b = m.Entries[i].appendTo(b)
	}
	return b
}

func (m *Batch) String() string {
	s := fmt.Sprintf("batch %d for log %d:", m.Number, m.Log)
	for _, e := range m.Entries {
		s += fmt.Sprintf(" t%v", e.Txn.ID)
		switch {
		case e.Remaster:
		case e.LockOnly:
			s += "(locks)"
		case e.Part:
			s += "(part)"
		}
		s += e.Placing.String()
	}
	return s
}

func (m *Batch) read(r *codec.Reader, txns *codec.TxnArena) {
	m.size = r.Len() // a batch is the last part of its message
	m.Log, m.Number = r.Uvarint(), r.Uvarint()
	if n := r.Count(minEntry); n > 0 {
		m.Entries = make([]Entry, n)
		txns.Reserve(n)
	}
	for i := range m.Entries {
		if m.Entries[i] = readEntry(r, txns); r.Err() != nil {
			return
		}
	}
}

// Copy carries a batch with a position from one reader to another reader of the same group that lacks it.
type Copy struct {
	Sequencer geo.NodeID
	*Batch
}

func (m *Copy) String() string { return fmt.Sprintf("of node %d: %v", m.Sequencer, m.Batch) }

// OfLog carries a consensus message of a log's group. A node may be a member of several groups.
type OfLog struct {
	Log uint64
	*consensus.Message
}

func (m *OfLog) String() string { return fmt.Sprintf("%v of log %d", m.Message, m.Log) }

// ReadsSince carries the reads of a node in a copy that restarted at the cut at place Since-1.
type ReadsSince struct {
	Since uint64
	*deterministic.Reads
}

func (m *ReadsSince) String() string { return fmt.Sprintf("%v since place %d", m.Reads, m.Since) }

// Forwarded is a transaction, or a part of it, that is forwarded to one of its homes.
type Forwarded struct {
	Txn *txn.Transaction
	// Part is set if the transaction has other homes, too.
	Part bool
	// NotBefore is the earliest time, by the receiver's clock, at which the transaction enters the log; 0 means
	// immediately.
	NotBefore time.Duration
	Placing
}

// Forward carries transactions from their coordinator to one of their homes.
type Forward struct{ Txns []Forwarded }

// Kind implements protocol.Message.
func (m *Forward) Kind() uint8 { return KindForward }

func (f *Forwarded) head() uint64 {
	// The flags are in the two lowest bits, so the head of a transaction without a time takes one byte.
	h := uint64(f.NotBefore) << 2
	if f.Part {
		h |= 1
	}
	if !f.still() {
		h |= 2
	}
	return h
}

// Size implements protocol.Message.
func (m *Forward) Size() int {
	n := codec.SizeUvarint(uint64(len(m.Txns)))
	for i := range m.Txns {
		f := &m.Txns[i]
		n += codec.SizeUvarint(f.head()) + f.Placing.size()
		// A move only needs the row, not the transaction that caused it.
		if f.Remaster {
			n += sizeLocks(f.Txn)
		} else {
			n += codec.SizeTransaction(f.Txn)
		}
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Forward) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(m.Txns)))
	for i := range m.Txns {
		f := &m.Txns[i]
		b = f.Placing.appendTo(codec.AppendUvarint(b, f.head()))
		if f.Remaster {
			b = appendLocks(b, f.Txn)
		} else {
			b = codec.AppendTransaction(b, f.Txn)
		}
	}
	return b
}

func (m *Forward) String() string {
	s := "forward:"
	for _, f := range m.Txns {
		s += fmt.Sprintf(" t%v", f.Txn.ID)
		if f.Part && !f.Remaster {
			s += "(part)"
		}
		s += f.Placing.String()
		if f.NotBefore > 0 {
			s += fmt.Sprintf(" not before %.3fms", float64(f.NotBefore)/1e6)
		}
	}
	return s
}

func (m *Forward) read(r *codec.Reader, txns *codec.TxnArena) {
	if n := r.Count(1 + codec.MinTransaction); n > 0 {
		m.Txns = make([]Forwarded, n)
		txns.Reserve(n)
	}
	for i := range m.Txns {
		head := r.Uvarint()
		f := Forwarded{Part: head&1 != 0, NotBefore: time.Duration(head >> 2)}
		if head&2 != 0 {
			f.Placing = readPlacing(r)
		}
		if f.Remaster {
			f.Txn = readLocks(r, txns)
		} else {
			f.Txn = txns.Transaction(r)
		}
		if r.Err() == nil && f.Remaster && (len(f.Txn.Accesses) != 1 || !f.Part) {
			r.Fail(fmt.Errorf("the move of %d rows is malformed", len(f.Txn.Accesses)))
		}
		if r.Err() != nil {
			return
		}
		m.Txns[i] = f
	}
}

// Decode is a protocol.Decoder for the messages of this package and of the packages that it builds on.
func Decode(kind uint8, body []byte, procs *txn.Registry) (m protocol.Message, known bool, err error) {
	// The packages use disjoint kinds, so the order of the decoders does not matter.
	for _, d := range []protocol.Decoder{decodeMessage, batchlog.Decode, deterministic.Decode, reconnaissance.Decode, statetransfer.Decode} {
		if m, known, err := d(kind, body, procs); known {
			return m, true, err
		}
	}
	return nil, false, nil
}
