package sunstorm

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds. make generate writes the encodings of their structs.
const (
	kindForward = iota + 1
	kindAnswer
	kindRead
	kindRows
	kindPrepare
	kindVote
	kindReceived
	kindLog
	kindPersisted
	kindLost
	kindSurvey
	kindRecovered
	kindAware
	kindAsk
	kindSettled
	kindOrphan
	kindInDoubt
	kindKnown
	kindEnded
	kindReusedPrepare // Prepare of an id that has been used before
)

// Forward hands a transaction to the region's writer of the partition.
type Forward struct{ T *txn.Transaction }

func (m *Forward) String() string { return fmt.Sprintf("forward t%v", m.T.ID) }

// Answer returns the outcome of a forwarded transaction to the client's node.
type Answer struct{ Outcome txn.Outcome }

func (m *Answer) String() string { return fmt.Sprintf("answer t%v %v", m.Outcome.ID, m.Outcome.Status) }

// Read asks the region's node of another partition for rows.
type Read struct {
	ID    txn.ID
	Round uint64
	// Snapshot is the version that an earlier answer of the receiver named, 0 for the newest version.
	Snapshot uint64
	Ranges   []txn.Range
}

func (m *Read) String() string {
	s := fmt.Sprintf("read for t%v", m.ID)
	if m.Snapshot != 0 {
		s += fmt.Sprintf(" as of %d", m.Snapshot)
	}
	for i := range m.Ranges {
		s += fmt.Sprintf(" %v", &m.Ranges[i])
	}
	return s
}

// Rows answers Read. Found are the rows of each range, in the order of Read.Ranges; it is empty if the snapshot is too
// old.
type Rows struct {
	ID       txn.ID
	Round    uint64
	Snapshot uint64
	Found    [][]rerun.Row
	// LSNs are, by home, the last log entries that the snapshot includes. They are set only in the sender's first answer
	// to a transaction, and only if index pages are modelled.
	LSNs []uint64
}

// Kind implements protocol.Message.
func (m *Rows) Kind() uint8 { return kindRows }

// Size implements protocol.Message.
func (m *Rows) Size() int {
	n := codec.SizeID(m.ID) + codec.SizeUvarint(m.Round) + codec.SizeUvarint(m.Snapshot) + codec.SizeUvarint(head(len(m.Found), m.LSNs != nil))
	if m.LSNs != nil {
		n += codec.SizeUvarint(uint64(len(m.LSNs)))
		for _, l := range m.LSNs {
			n += codec.SizeUvarint(l)
		}
	}
	for _, f := range m.Found {
		n += codec.SizeUvarint(uint64(len(f)))
		for i := range f {
			n += codec.SizeString(string(f[i].Key)) + codec.SizeID(f[i].Writer) + codec.SizeBytes(f[i].Value)
		}
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Rows) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendID(b, m.ID), m.Round), m.Snapshot)
	b = codec.AppendUvarint(b, head(len(m.Found), m.LSNs != nil))
	if m.LSNs != nil {
		b = codec.AppendUvarint(b, uint64(len(m.LSNs)))
		for _, l := range m.LSNs {
			b = codec.AppendUvarint(b, l)
		}
	}
	for _, f := range m.Found {
		b = codec.AppendUvarint(b, uint64(len(f)))
		for i := range f {
			b = codec.AppendID(codec.AppendString(b, string(f[i].Key)), f[i].Writer)
			b = codec.AppendBytes(b, f[i].Value)
		}
	}
	return b
}

func (m *Rows) String() string {
	if len(m.Found) == 0 {
		return fmt.Sprintf("rows for t%v: too old", m.ID)
	}
	s := fmt.Sprintf("rows for t%v as of %d:", m.ID, m.Snapshot)
	for _, f := range m.Found {
		for i := range f {
			s += fmt.Sprintf(" %v=%x", f[i].Key, f[i].Value)
		}
	}
	return s
}

// head encodes a number of elements, and in the lowest bit whether an optional field follows.
func head(n int, more bool) uint64 {
	if more {
		return uint64(n)<<1 | 1
	}
	return uint64(n) << 1
}

// readHead reads a head. It fails if the rest of the message has fewer bytes than elements.
func readHead(r *codec.Reader) (n int, more bool) {
	h := r.Uvarint()
	if h>>1 > uint64(r.Len()) {
		r.Fail(fmt.Errorf("%d elements do not fit into %d bytes", h>>1, r.Len()))
		return 0, false
	}
	return int(h >> 1), h&1 != 0
}

func (m *Rows) read(r *codec.Reader) {
	m.ID, m.Round, m.Snapshot = r.ID(), r.Uvarint(), r.Uvarint()
	n, lsns := readHead(r)
	if lsns {
		m.LSNs = make([]uint64, r.Count(1))
		for i := range m.LSNs {
			m.LSNs[i] = r.Uvarint()
		}
	}
	// readHead checked n against a body that still included the LSNs.
	if n > r.Len() {
		r.Fail(fmt.Errorf("the rows of %d ranges do not fit into %d bytes", n, r.Len()))
	}
	if n == 0 || r.Err() != nil {
		return
	}
	m.Found = make([][]rerun.Row, n)
	for i := range m.Found {
		rows := r.Count(4)
		if rows == 0 {
			continue
		}
		m.Found[i] = make([]rerun.Row, rows)
		for j := range m.Found[i] {
			row := &m.Found[i][j]
			row.Key, row.Writer, row.Value = r.Key(), r.ID(), r.Bytes()
		}
	}
}

// Prepare asks a writer to validate, and prepare, its part of a transaction. It is the initiator's vote to commit.
type Prepare struct {
	ID txn.ID
	// Writers are all participating writers, in ascending order. The initiator is one of them if it owns rows that were
	// used.
	Writers []geo.NodeID
	Part
	// Reused is the generation of the transaction's name, minus 1. It is 0 for the first generation.
	Reused uint64
}

// Kind implements protocol.Message.
func (m *Prepare) Kind() uint8 {
	if m.Reused != 0 {
		return kindReusedPrepare
	}
	return kindPrepare
}

// Size implements protocol.Message.
func (m *Prepare) Size() int {
	n := codec.SizeID(m.ID) + codec.SizeUvarint(head(len(m.Writers), m.LSN != 0))
	if m.LSN != 0 {
		n += codec.SizeUvarint(m.LSN)
	}
	for _, w := range m.Writers {
		n += codec.SizeUvarint(uint64(w))
	}
	if m.Reused != 0 {
		n += codec.SizeUvarint(m.Reused)
	}
	return n + m.Reads.Size() + codec.SizeWrites(m.Writes)
}

// AppendTo implements protocol.Message.
func (m *Prepare) AppendTo(b []byte) []byte {
	// The message kind shows the decoder that this number is present. A first generation costs no byte.
	if m.Reused != 0 {
		b = codec.AppendUvarint(b, m.Reused)
	}
	b = codec.AppendUvarint(codec.AppendID(b, m.ID), head(len(m.Writers), m.LSN != 0))
	if m.LSN != 0 {
		b = codec.AppendUvarint(b, m.LSN)
	}
	for _, w := range m.Writers {
		b = codec.AppendUvarint(b, uint64(w))
	}
	return codec.AppendWrites(m.Reads.AppendTo(b), m.Writes)
}

func (m *Prepare) String() string {
	return fmt.Sprintf("prepare t%v at %v, %d rows read, %d written", m.ID, m.Writers, m.Reads.Len(), len(m.Writes))
}

func (m *Prepare) read(r *codec.Reader) {
	m.ID = r.ID()
	n, lsn := readHead(r)
	if lsn {
		if m.LSN = r.Uvarint(); r.Err() == nil && m.LSN == 0 {
			r.Fail(errors.New("log sequence number 0 is not sent"))
		}
	}
	// readHead checked n against a body that still included the LSN.
	if n > r.Len() {
		r.Fail(fmt.Errorf("%d writers do not fit into %d bytes", n, r.Len()))
	}
	if n > 0 && r.Err() == nil {
		m.Writers = make([]geo.NodeID, n)
		for i := range m.Writers {
			m.Writers[i] = geo.NodeID(r.UvarintMax(raftgroup.MaxNode))
		}
	}
	m.Reads, m.Writes = optimistic.ReadReads(r), r.Writes()
}

// decodeReused decodes a Prepare whose message kind shows that it starts with the field Reused.
func decodeReused(kind uint8, body []byte, _ *txn.Registry) (m protocol.Message, known bool, err error) {
	if kind != kindReusedPrepare {
		return nil, false, nil
	}
	r := codec.NewReader(body)
	p := &Prepare{Reused: r.UvarintIn(1, math.MaxUint64)}
	p.read(&r)
	return p, true, r.Done()
}

// Vote sends the sender's decision to all participants of a transaction.
type Vote struct {
	ID      txn.ID
	Verdict Verdict `codec:"enum=Yes..Gone"`
}

func (m *Vote) String() string {
	if m.Verdict == Yes {
		return fmt.Sprintf("vote on t%v: yes", m.ID)
	}
	return fmt.Sprintf("vote on t%v: no, %s", m.ID, m.Verdict.reason())
}

// Received confirms a vote.
type Received struct{ ID txn.ID }

func (m *Received) String() string { return fmt.Sprintf("vote on t%v received", m.ID) }

// Log is a part of the sender's log.
type Log struct {
	// First is the log sequence number of the first entry.
	First   uint64
	Entries []Entry `codec:"as=entries"`
}

func sizeEntries(entries []Entry) int {
	n := codec.SizeUvarint(uint64(len(entries)))
	for i := range entries {
		e := &entries[i]
		n += 1 + codec.SizeID(e.ID) + codec.SizeWrites(e.Writes)
		if far(e.Name) {
			n += codec.SizeUvarint(uint64(e.Name.Initiator))
		}
		if e.Name.Generation > 1 {
			n += codec.SizeUvarint(e.Name.Generation)
		}
	}
	return n
}

func appendEntries(b []byte, entries []Entry) []byte {
	b = codec.AppendUvarint(b, uint64(len(entries)))
	for i := range entries {
		e := &entries[i]
		b = append(b, entryHead(e))
		if far(e.Name) {
			b = codec.AppendUvarint(b, uint64(e.Name.Initiator))
		}
		if e.Name.Generation > 1 {
			b = codec.AppendUvarint(b, e.Name.Generation)
		}
		b = codec.AppendWrites(codec.AppendID(b, e.ID), e.Writes)
	}
	return b
}

// The low kindBits bits of an entry's first byte are its kind, or the constant reused for a Prepared entry with a
// generation above 1. The high bits are 0 if the entry has no name. Otherwise they are the initiator's number plus 1,
// or the constant anywhere if that number follows separately.
const (
	reused   = 7
	kindBits = 3
	anywhere = 1<<(8-kindBits) - 1
)

// far reports whether the initiator of a name does not fit into the first byte.
func far(n Name) bool { return n.Generation > 0 && n.Initiator >= anywhere-1 }

func entryHead(e *Entry) byte {
	kind := byte(e.Kind)
	switch {
	case e.Name.Generation == 0:
		return kind
	case e.Name.Generation > 1:
		kind = reused
	}
	if far(e.Name) {
		return kind | anywhere<<kindBits
	}
	return kind | byte(e.Name.Initiator+1)<<kindBits
}

// readEntryHead reads the kind and name of an entry.
func readEntryHead(r *codec.Reader) (kind EntryKind, n Name) {
	head := r.Uint8()
	kind = EntryKind(head & (1<<kindBits - 1))
	initiator := head >> kindBits
	if r.Err() != nil {
		return kind, n
	}
	again := kind == reused
	if again {
		kind = Prepared
	}
	// Only Prepared entries carry a name, and a later generation is encoded only together with an initiator.
	if kind < Committed || kind > AbortPrepared || initiator > 0 && kind != Prepared || again && initiator == 0 {
		r.Fail(fmt.Errorf("%#x does not begin an entry", head))
		return kind, n
	}
	if initiator == 0 {
		return kind, n
	}
	n = Name{geo.NodeID(initiator - 1), 1}
	if initiator == anywhere {
		if n.Initiator = geo.NodeID(r.UvarintMax(raftgroup.MaxNode)); n.Initiator < anywhere-1 {
			r.Fail(fmt.Errorf("initiator %d fits into a byte", n.Initiator))
		}
	}
	if again {
		// Generation 1 is implied by kind Prepared and is not encoded.
		if n.Generation = r.Uvarint(); n.Generation < 2 {
			r.Fail(fmt.Errorf("generation %d is not a later one", n.Generation))
		}
	}
	return kind, n
}

func (m *Log) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "log from %d:", m.First)
	for i := range m.Entries {
		e := &m.Entries[i]
		fmt.Fprintf(&b, " %s t%v", [...]string{Committed: "commit", Prepared: "prepare", CommitPrepared: "commit-prepared", AbortPrepared: "abort-prepared"}[e.Kind], e.ID)
	}
	return b.String()
}

func readEntries(r *codec.Reader) []Entry {
	// An entry has at least 4 bytes: its head, two for the id, and one for the number of writes.
	n := r.Count(4)
	if n == 0 {
		return nil
	}
	entries := make([]Entry, n)
	for i := range entries {
		e := &entries[i]
		e.Kind, e.Name = readEntryHead(r)
		e.ID, e.Writes = r.ID(), r.Writes()
	}
	return entries
}

// Persisted reports to a writer up to which position a copy has the writer's log.
type Persisted struct{ LSN uint64 }

func (m *Persisted) String() string { return fmt.Sprintf("has the log up to %d", m.LSN) }

var decode = protocol.Decode("sunstorm", decodeMessage, decodeReused, statetransfer.Decode)
