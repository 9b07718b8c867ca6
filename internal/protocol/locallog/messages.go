package locallog

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/codec"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/protocol/batchlog"
	"github.com/geobench/geobench/internal/protocol/deterministic"
	"github.com/geobench/geobench/internal/txn"
)

// Message kinds, shared by all engines that use the package.
const (
	KindBatch = deterministic.KindAnswers + 1 + iota
	KindForward
)

// Entry is one entry of a log: a transaction, or the part of a multi-home transaction that the log's region puts in order.
type Entry struct {
	Txn *txn.Transaction
	// Coordinator is the node that the client waits at.
	Coordinator geo.NodeID
	// Part says that the transaction has other homes, whose logs hold parts of it, too.
	Part bool
	// LockOnly says that Txn is nothing but an id and the accesses of this part; another part brings the rest.
	LockOnly bool
}

const (
	flagPart = 1 << iota
	flagLockOnly
)

func (e *Entry) flags() (f uint8) {
	if e.Part {
		f |= flagPart
	}
	if e.LockOnly {
		f |= flagLockOnly
	}
	return f
}

func (e *Entry) size() int {
	n := 1 + codec.SizeUvarint(uint64(e.Coordinator))
	if !e.LockOnly {
		return n + codec.SizeTransaction(e.Txn)
	}
	n += codec.SizeID(e.Txn.ID) + codec.SizeUvarint(uint64(len(e.Txn.Accesses)))
	for i := range e.Txn.Accesses {
		n += 1 + codec.SizeUvarint(uint64(len(e.Txn.Accesses[i].Key))) + len(e.Txn.Accesses[i].Key)
	}
	return n
}

func (e *Entry) appendTo(b []byte) []byte {
	b = codec.AppendUvarint(append(b, e.flags()), uint64(e.Coordinator))
	if !e.LockOnly {
		return codec.AppendTransaction(b, e.Txn)
	}
	b = codec.AppendID(b, e.Txn.ID)
	b = codec.AppendUvarint(b, uint64(len(e.Txn.Accesses)))
	for i := range e.Txn.Accesses {
		b = append(b, byte(e.Txn.Accesses[i].Mode))
		b = codec.AppendString(b, string(e.Txn.Accesses[i].Key))
	}
	return b
}

// minEntry is the least number of bytes of an entry, one that only locks.
const minEntry = 5

func readEntry(r *codec.Reader, room *deterministic.Room) (e Entry, err error) {
	flags := r.Uint8()
	e.Part, e.LockOnly = flags&flagPart != 0, flags&flagLockOnly != 0
	if flags > flagPart|flagLockOnly || flags == flagLockOnly {
		r.Fail(fmt.Errorf("%d is not the kind of an entry", flags))
	}
	e.Coordinator = geo.NodeID(r.UvarintMax(1<<16 - 1))
	if !e.LockOnly {
		e.Txn, err = room.Transaction(r)
		return e, err
	}
	e.Txn = room.Next()
	e.Txn.ID = r.ID()
	if n := r.Count(3); n > 0 {
		e.Txn.Accesses = make([]txn.Access, n)
	}
	for i := range e.Txn.Accesses {
		a := txn.Access{Mode: txn.Mode(r.Uint8()), Key: txn.Key(r.String())}
		if r.Err() == nil && (a.Mode == 0 || a.Mode&^txn.ReadWrite != 0 || !a.Key.Valid()) {
			r.Fail(fmt.Errorf("%v is not a valid access", a.Key))
		}
		e.Txn.Accesses[i] = a
	}
	return e, r.Err()
}

// Batch carries, from a sequencer to a reader of a log, the entries of a batch that concern the reader.
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
		case e.LockOnly:
			s += "(locks)"
		case e.Part:
			s += "(part)"
		}
	}
	return s
}

func decodeBatch(body []byte, procs *txn.Registry) (*Batch, error) {
	r := codec.NewReader(body)
	m := &Batch{Log: r.Uvarint(), Number: r.Uvarint(), size: len(body)}
	n := r.Count(minEntry)
	if n > 0 {
		m.Entries = make([]Entry, n)
	}
	room := deterministic.NewRoom(procs, n)
	for i := range m.Entries {
		var err error
		if m.Entries[i], err = readEntry(&r, &room); err != nil {
			return nil, err
		}
	}
	return m, r.Done()
}

// Forwarded is a transaction on its way to a home of its.
type Forwarded struct {
	Txn *txn.Transaction
	// Part says that it has other homes, too.
	Part bool
	// NotBefore is the time, by the receiver's clock, at which it goes into the log; 0 for at once.
	NotBefore time.Duration
}

// Forward carries transactions from the node that their clients wait at to one of their homes.
type Forward struct{ Txns []Forwarded }

// Kind implements protocol.Message.
func (m *Forward) Kind() uint8 { return KindForward }

func (f *Forwarded) head() uint64 {
	h := uint64(f.NotBefore) << 1
	if f.Part {
		h |= 1
	}
	return h
}

// Size implements protocol.Message.
func (m *Forward) Size() int {
	n := codec.SizeUvarint(uint64(len(m.Txns)))
	for i := range m.Txns {
		n += codec.SizeUvarint(m.Txns[i].head()) + codec.SizeTransaction(m.Txns[i].Txn)
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Forward) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(m.Txns)))
	for i := range m.Txns {
		b = codec.AppendUvarint(b, m.Txns[i].head())
		b = codec.AppendTransaction(b, m.Txns[i].Txn)
	}
	return b
}

func (m *Forward) String() string {
	s := "forward:"
	for _, f := range m.Txns {
		s += fmt.Sprintf(" t%v", f.Txn.ID)
		if f.Part {
			s += "(part)"
		}
		if f.NotBefore > 0 {
			s += fmt.Sprintf(" not before %.3fms", float64(f.NotBefore)/1e6)
		}
	}
	return s
}

func decodeForward(body []byte, procs *txn.Registry) (*Forward, error) {
	r := codec.NewReader(body)
	m := &Forward{}
	n := r.Count(1 + codec.MinTransaction)
	if n > 0 {
		m.Txns = make([]Forwarded, n)
	}
	room := deterministic.NewRoom(procs, n)
	for i := range m.Txns {
		head := r.Uvarint()
		t, err := room.Transaction(&r)
		if err != nil {
			return nil, err
		}
		m.Txns[i] = Forwarded{t, head&1 != 0, time.Duration(head >> 1)}
	}
	return m, r.Done()
}

// Decode reads the messages of this package and of those that it is made of. It says whether kind is one of them.
func Decode(kind uint8, body []byte, procs *txn.Registry) (m protocol.Message, known bool, err error) {
	switch kind {
	case KindBatch:
		m, err = decodeBatch(body, procs)
	case KindForward:
		m, err = decodeForward(body, procs)
	default:
		if m, known, err = batchlog.Decode(kind, body); known {
			return m, known, err
		}
		return deterministic.Decode(kind, body)
	}
	if err != nil {
		return nil, true, err
	}
	return m, true, nil
}
