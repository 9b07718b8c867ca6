package sunstorm

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds.
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

// Kind implements protocol.Message.
func (m *Forward) Kind() uint8 { return kindForward }

// Size implements protocol.Message.
func (m *Forward) Size() int { return codec.SizeTransaction(m.T) }

// AppendTo implements protocol.Message.
func (m *Forward) AppendTo(b []byte) []byte { return codec.AppendTransaction(b, m.T) }

func (m *Forward) String() string { return fmt.Sprintf("forward t%v", m.T.ID) }

// Answer returns the outcome of a forwarded transaction to the client's node.
type Answer struct{ Outcome txn.Outcome }

// Kind implements protocol.Message.
func (m *Answer) Kind() uint8 { return kindAnswer }

// Size implements protocol.Message.
func (m *Answer) Size() int { return codec.SizeOutcome(&m.Outcome) }

// AppendTo implements protocol.Message.
func (m *Answer) AppendTo(b []byte) []byte { return codec.AppendOutcome(b, &m.Outcome) }

func (m *Answer) String() string { return fmt.Sprintf("answer t%v %v", m.Outcome.ID, m.Outcome.Status) }

// Read asks the region's node of another partition for rows.
type Read struct {
	ID    txn.ID
	Round uint64
	// Snapshot is the version that an earlier answer of the receiver named, 0 for the newest version.
	Snapshot uint64
	Ranges   []txn.Range
}

// Kind implements protocol.Message.
func (m *Read) Kind() uint8 { return kindRead }

// Size implements protocol.Message.
func (m *Read) Size() int {
	return codec.SizeID(m.ID) + codec.SizeUvarint(m.Round) + codec.SizeUvarint(m.Snapshot) + codec.SizeRanges(m.Ranges)
}

// AppendTo implements protocol.Message.
func (m *Read) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendID(b, m.ID), m.Round), m.Snapshot)
	return codec.AppendRanges(b, m.Ranges)
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

func readRows(r *codec.Reader) *Rows {
	m := &Rows{ID: r.ID(), Round: r.Uvarint(), Snapshot: r.Uvarint()}
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
		return m
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
	return m
}

// Prepare asks a writer to validate, and prepare, its part of a transaction. It is the initiator's vote to commit.
type Prepare struct {
	ID txn.ID
	// Writers are all participating writers, in ascending order. The initiator is one of them if it owns rows that were
	// used.
	Writers []geo.NodeID
	Part
	// Reused is the generation of the transaction's name minus 1, the first generation.
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

func readPrepare(r *codec.Reader) *Prepare {
	m := &Prepare{ID: r.ID()}
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
	return m
}

// Vote sends the sender's decision to all participants of a transaction.
type Vote struct {
	ID      txn.ID
	Verdict Verdict
}

// Kind implements protocol.Message.
func (m *Vote) Kind() uint8 { return kindVote }

// Size implements protocol.Message.
func (m *Vote) Size() int { return codec.SizeID(m.ID) + 1 }

// AppendTo implements protocol.Message.
func (m *Vote) AppendTo(b []byte) []byte { return append(codec.AppendID(b, m.ID), byte(m.Verdict)) }

func (m *Vote) String() string {
	if m.Verdict == Yes {
		return fmt.Sprintf("vote on t%v: yes", m.ID)
	}
	return fmt.Sprintf("vote on t%v: no, %s", m.ID, m.Verdict.reason())
}

// Received confirms a vote.
type Received struct{ ID txn.ID }

// Kind implements protocol.Message.
func (m *Received) Kind() uint8 { return kindReceived }

// Size implements protocol.Message.
func (m *Received) Size() int { return codec.SizeID(m.ID) }

// AppendTo implements protocol.Message.
func (m *Received) AppendTo(b []byte) []byte { return codec.AppendID(b, m.ID) }

func (m *Received) String() string { return fmt.Sprintf("vote on t%v received", m.ID) }

// Log is a part of the sender's log.
type Log struct {
	// First is the log sequence number of the first entry.
	First   uint64
	Entries []Entry
}

// Kind implements protocol.Message.
func (m *Log) Kind() uint8 { return kindLog }

// Size implements protocol.Message.
func (m *Log) Size() int {
	n := codec.SizeUvarint(m.First) + codec.SizeUvarint(uint64(len(m.Entries)))
	for i := range m.Entries {
		e := &m.Entries[i]
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

// AppendTo implements protocol.Message.
func (m *Log) AppendTo(b []byte) []byte {
	return appendEntries(codec.AppendUvarint(b, m.First), m.Entries)
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

// The low kindBits of an entry's first byte hold its kind, or reused for a Prepared entry with a generation above 1.
// The bits above are 0 if the entry has no name. Otherwise they are the initiator's number plus 1, or anywhere if the
// initiator's number follows separately.
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

func sizeName(n Name) int {
	return codec.SizeUvarint(uint64(n.Initiator)) + codec.SizeUvarint(n.Generation)
}

func appendName(b []byte, n Name) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, uint64(n.Initiator)), n.Generation)
}

// readName reads a name. The initiator must not be above last.
func readName(r *codec.Reader, last uint64) Name {
	return Name{geo.NodeID(r.UvarintMax(last)), readPositive(r)}
}

// readPositive reads a number that is not 0.
func readPositive(r *codec.Reader) uint64 {
	n := r.Uvarint()
	if r.Err() == nil && n == 0 {
		r.Fail(errors.New("0 is not sent"))
	}
	return n
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

// Kind implements protocol.Message.
func (m *Persisted) Kind() uint8 { return kindPersisted }

// Size implements protocol.Message.
func (m *Persisted) Size() int { return codec.SizeUvarint(m.LSN) }

// AppendTo implements protocol.Message.
func (m *Persisted) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, m.LSN) }

func (m *Persisted) String() string { return fmt.Sprintf("has the log up to %d", m.LSN) }

// decode is Engine.Decode.
func decode(kind uint8, body []byte, procs *txn.Registry) (protocol.Message, error) {
	r := codec.NewReader(body)
	var m protocol.Message
	switch kind {
	case kindForward:
		room := deterministic.NewTxnArena(procs, 1)
		t, err := room.Transaction(&r)
		if err != nil {
			return nil, err
		}
		m = &Forward{t}
	case kindAnswer:
		a := &Answer{}
		r.Outcome(&a.Outcome)
		m = a
	case kindRead:
		m = &Read{r.ID(), r.Uvarint(), r.Uvarint(), r.Ranges()}
	case kindRows:
		m = readRows(&r)
	case kindPrepare:
		m = readPrepare(&r)
	case kindReusedPrepare:
		reused := readPositive(&r)
		p := readPrepare(&r)
		p.Reused = reused
		m = p
	case kindVote:
		m = &Vote{r.ID(), readVerdict(&r)}
	case kindReceived:
		m = &Received{r.ID()}
	case kindLog:
		m = &Log{r.Uvarint(), readEntries(&r)}
	case kindPersisted:
		m = &Persisted{r.Uvarint()}
	case kindLost:
		m = &Lost{}
	case kindSurvey:
		m = &Survey{}
	case kindRecovered:
		m = &Recovered{r.Uvarint()}
	case kindAware:
		m = &Aware{geo.NodeID(r.UvarintMax(raftgroup.MaxNode)), uint32(r.UvarintMax(math.MaxUint32))}
	case kindAsk:
		m = &Ask{readNamed(&r)}
	case kindSettled:
		m = &Settled{r.ID(), readVerdict(&r)}
	case kindOrphan:
		m = &Orphan{r.ID(), geo.NodeID(r.UvarintMax(raftgroup.MaxNode)), uint32(r.UvarintMax(math.MaxUint32))}
	case kindInDoubt:
		d := &InDoubt{}
		for range r.Count(minNamed) {
			d.Transactions = append(d.Transactions, readNamed(&r))
		}
		m = d
	case kindKnown:
		m = &Known{readIDs(&r), readIDs(&r)}
	case kindEnded:
		m = &Ended{r.ID(), r.Flag()}
	default:
		if m, known, err := statetransfer.Decode(kind, body); known {
			return m, err
		}
		return nil, fmt.Errorf("message kind %d is not one of sunstorm's", kind)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return m, nil
}
