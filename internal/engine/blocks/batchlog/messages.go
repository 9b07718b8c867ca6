package batchlog

import (
	"cmp"
	"fmt"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds, shared by all engines that use the package.
const (
	KindOrderRequest = consensus.Kind + 1 + iota
	KindPositions
	KindFetch
	KindVoid
)

// Kinds of messages about the data of batches and about new incarnations: see Config.Copies and rejoin.go.
const (
	KindHeld = 230 + iota
	KindKept
	KindMissing
	KindStarted
	KindSent
)

// BatchID identifies a batch by its sequencer and its number there, from 1.
type BatchID struct {
	Sequencer geo.NodeID
	Number    uint64
}

func (b BatchID) compare(c BatchID) int {
	return cmp.Or(cmp.Compare(b.Sequencer, c.Sequencer), cmp.Compare(b.Number, c.Number))
}

func (b BatchID) String() string { return fmt.Sprintf("%d/%d", b.Sequencer, b.Number) }

// Set is a set of reader groups (usually partitions), modulo 64. With more than 64 groups it may contain groups that
// were not added; these receive an empty part of the batch.
type Set uint64

// With returns the set including q.
func (s Set) With(q int) Set { return s | 1<<(q%64) }

// Has reports whether q is in the set.
func (s Set) Has(q int) bool { return s&(1<<(q%64)) != 0 }

// Request requests a position in the log for a batch of the sender.
type Request struct {
	Number uint64
	// Readers is the set of groups that read the batch.
	Readers Set
}

// OrderRequest carries a sequencer's requests to the leader of a log, in ascending order.
type OrderRequest struct {
	Log      uint64
	Requests []Request
}

// Kind implements protocol.Message.
func (m *OrderRequest) Kind() uint8 { return KindOrderRequest }

// Size implements protocol.Message.
func (m *OrderRequest) Size() int {
	n := codec.SizeUvarint(m.Log) + codec.SizeUvarint(uint64(len(m.Requests)))
	for _, q := range m.Requests {
		n += codec.SizeUvarint(q.Number) + codec.SizeUvarint(uint64(q.Readers))
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *OrderRequest) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, m.Log)
	b = codec.AppendUvarint(b, uint64(len(m.Requests)))
	for _, q := range m.Requests {
		b = codec.AppendUvarint(b, q.Number)
		b = codec.AppendUvarint(b, uint64(q.Readers))
	}
	return b
}

func (m *OrderRequest) String() string {
	s := "order request" + logName(m.Log) + ":"
	for _, q := range m.Requests {
		s += fmt.Sprintf(" %d(partitions %b)", q.Number, uint64(q.Readers))
	}
	return s
}

// logName distinguishes logs in traces. It is empty for log 0, which may be the only log.
func logName(log uint64) string {
	if log == 0 {
		return ""
	}
	return fmt.Sprintf(" to log %d", log)
}

func decodeOrderRequest(body []byte) (*OrderRequest, error) {
	r := codec.NewReader(body)
	m := &OrderRequest{Log: r.Uvarint()}
	// A request takes at least two bytes. Count rejects a corrupt number before anything is allocated for it.
	if n := r.Count(2); n > 0 {
		m.Requests = make([]Request, n)
		for i := range m.Requests {
			m.Requests[i] = Request{r.Uvarint(), Set(r.Uvarint())}
		}
	}
	return m, r.Done()
}

// Ordered is a batch with a position in the log. Without readers, it makes the batch and the earlier batches of its
// sequencer without a position void. It may also represent batches of another order: see Stream.
type Ordered struct {
	Batch   BatchID
	Readers Set
}

// Void reports whether the entry makes batches void.
func (o Ordered) Void() bool { return o.Readers == 0 }

// Positions carries log entries from position First on, in order. The sender leads the log in Term.
type Positions struct {
	Log     uint64
	Term    uint64
	First   uint64
	Entries []Ordered
}

// Kind implements protocol.Message.
func (m *Positions) Kind() uint8 { return KindPositions }

// Size implements protocol.Message.
func (m *Positions) Size() int {
	return codec.SizeUvarint(m.Log) + codec.SizeUvarint(m.Term) + codec.SizeUvarint(m.First) + sizeEntries(m.Entries)
}

// AppendTo implements protocol.Message.
func (m *Positions) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, m.Log)
	b = codec.AppendUvarint(b, m.Term)
	b = codec.AppendUvarint(b, m.First)
	return appendEntries(b, m.Entries)
}

func (m *Positions) String() string {
	s := "positions from"
	if m.Log > 0 {
		s = fmt.Sprintf("positions in log %d from", m.Log)
	}
	s += fmt.Sprintf(" %d, term %d:", m.First, m.Term)
	for _, e := range m.Entries {
		// Streams and marks are entries with special sequencers or numbers, so test for them before printing a batch.
		if n, ok := e.Stream(); ok {
			s += fmt.Sprintf(" stream %d up to %d", n, e.Batch.Number)
			continue
		}
		if _, _, ok := e.Mark(); ok {
			s += markName(e.Batch)
			continue
		}
		s += " " + e.Batch.String()
		if e.Void() {
			s += "(void)"
		}
	}
	return s
}

func markName(b BatchID) string {
	return fmt.Sprintf(" mark of incarnation %d of node %d", protocol.IncarnationOf(b.Number), b.Sequencer)
}

func sizeEntries(entries []Ordered) int {
	n := codec.SizeUvarint(uint64(len(entries)))
	for _, e := range entries {
		n += codec.SizeUvarint(uint64(e.Batch.Sequencer)) + codec.SizeUvarint(e.Batch.Number) +
			codec.SizeUvarint(uint64(e.Readers))
	}
	return n
}

func appendEntries(b []byte, entries []Ordered) []byte {
	b = codec.AppendUvarint(b, uint64(len(entries)))
	for _, e := range entries {
		b = codec.AppendUvarint(b, uint64(e.Batch.Sequencer))
		b = codec.AppendUvarint(b, e.Batch.Number)
		b = codec.AppendUvarint(b, uint64(e.Readers))
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
			// Node IDs have 16 bits; a larger number must fail rather than wrap to another node.
			Batch:   BatchID{geo.NodeID(r.UvarintMax(1<<16 - 1)), r.Uvarint()},
			Readers: Set(r.Uvarint()),
		}
	}
	return entries
}

func decodePositions(body []byte) (*Positions, error) {
	r := codec.NewReader(body)
	m := &Positions{Log: r.Uvarint(), Term: r.Uvarint(), First: r.Uvarint()}
	m.Entries = readEntries(&r)
	return m, r.Done()
}

// Fetch asks the leader for the log's entries from First on, which an earlier leader failed to send, or for a starting
// position (see joins).
type Fetch struct{ Log, First uint64 }

// Kind implements protocol.Message.
func (m *Fetch) Kind() uint8 { return KindFetch }

// Size implements protocol.Message.
func (m *Fetch) Size() int { return codec.SizeUvarint(m.Log) + codec.SizeUvarint(m.First) }

// AppendTo implements protocol.Message.
func (m *Fetch) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, m.Log), m.First)
}

func (m *Fetch) String() string {
	if m.First == joins {
		return "asks where to begin" + ofLog(m.Log)
	}
	if m.Log > 0 {
		return fmt.Sprintf("fetch positions in log %d from %d", m.Log, m.First)
	}
	return fmt.Sprintf("fetch positions from %d", m.First)
}

func decodeFetch(body []byte) (*Fetch, error) {
	r := codec.NewReader(body)
	m := &Fetch{r.Uvarint(), r.Uvarint()}
	return m, r.Done()
}

// Void asks the leader of a log to make batches void because their sequencers seem to be lost. Earlier batches of these
// sequencers become void, too.
type Void struct {
	Log     uint64
	Batches []BatchID
}

// Kind implements protocol.Message.
func (m *Void) Kind() uint8 { return KindVoid }

// Size implements protocol.Message.
func (m *Void) Size() int {
	return codec.SizeUvarint(m.Log) + sizeIDs(m.Batches)
}

// AppendTo implements protocol.Message.
func (m *Void) AppendTo(b []byte) []byte {
	return appendIDs(codec.AppendUvarint(b, m.Log), m.Batches)
}

func (m *Void) String() string {
	s := "void request" + logName(m.Log) + ":"
	for _, b := range m.Batches {
		if _, _, ok := (Ordered{Batch: b}).Mark(); ok {
			s += markName(b)
			continue
		}
		s += " " + b.String()
	}
	return s
}

func decodeVoid(body []byte) (*Void, error) {
	r := codec.NewReader(body)
	m := &Void{Log: r.Uvarint(), Batches: readIDs(&r)}
	return m, r.Done()
}

// Held reports to the leader of a log which data the sender has. For each batch in Batches, the sender has all data
// that it reads from the batch's sequencer, up to that batch. Position is the position up to which the sender has read
// the log.
type Held struct {
	Log, Position uint64
	Batches       []BatchID
}

// Kind implements protocol.Message.
func (m *Held) Kind() uint8 { return KindHeld }

// Size implements protocol.Message.
func (m *Held) Size() int {
	return codec.SizeUvarint(m.Log) + codec.SizeUvarint(m.Position) + sizeIDs(m.Batches)
}

// AppendTo implements protocol.Message.
func (m *Held) AppendTo(b []byte) []byte {
	return appendIDs(codec.AppendUvarint(codec.AppendUvarint(b, m.Log), m.Position), m.Batches)
}

func (m *Held) String() string {
	s := fmt.Sprintf("holds%s, read up to %d:", ofLog(m.Log), m.Position)
	for _, b := range m.Batches {
		s += " " + b.String()
	}
	return s
}

func decodeHeld(body []byte) (*Held, error) {
	r := codec.NewReader(body)
	m := &Held{Log: r.Uvarint(), Position: r.Uvarint(), Batches: readIDs(&r)}
	return m, r.Done()
}

// Kept reports that all readers have read a log up to a position, so that no node will request earlier data.
type Kept struct{ Log, Position uint64 }

// Kind implements protocol.Message.
func (m *Kept) Kind() uint8 { return KindKept }

// Size implements protocol.Message.
func (m *Kept) Size() int { return codec.SizeUvarint(m.Log) + codec.SizeUvarint(m.Position) }

// AppendTo implements protocol.Message.
func (m *Kept) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, m.Log), m.Position)
}

func (m *Kept) String() string {
	return fmt.Sprintf("all have read%s up to %d", ofLog(m.Log), m.Position)
}

func decodeKept(body []byte) (*Kept, error) {
	r := codec.NewReader(body)
	m := &Kept{r.Uvarint(), r.Uvarint()}
	return m, r.Done()
}

// Started answers a new incarnation that requests a starting position (see rejoin.go). Position is the number of
// entries in the log. Settled holds the last batch of each sequencer and stream that has a position or is void.
type Started struct {
	Log, Term, Position uint64
	Settled             []uint64
}

// Kind implements protocol.Message.
func (m *Started) Kind() uint8 { return KindStarted }

// Size implements protocol.Message.
func (m *Started) Size() int {
	n := codec.SizeUvarint(m.Log) + codec.SizeUvarint(m.Term) + codec.SizeUvarint(m.Position) + codec.SizeUvarint(uint64(len(m.Settled)))
	for _, number := range m.Settled {
		n += codec.SizeUvarint(number)
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Started) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, m.Log), m.Term), m.Position)
	b = codec.AppendUvarint(b, uint64(len(m.Settled)))
	for _, number := range m.Settled {
		b = codec.AppendUvarint(b, number)
	}
	return b
}

func (m *Started) String() string {
	return fmt.Sprintf("begin%s at %d, term %d: settled %d", ofLog(m.Log), m.Position, m.Term, m.Settled)
}

func decodeStarted(body []byte) (*Started, error) {
	r := codec.NewReader(body)
	m := &Started{Log: r.Uvarint(), Term: r.Uvarint(), Position: r.Uvarint()}
	// Each number takes at least one byte.
	if n := r.Count(1); n > 0 {
		m.Settled = make([]uint64, n)
	}
	for i := range m.Settled {
		m.Settled[i] = r.Uvarint()
	}
	return m, r.Done()
}

// Sent reports to a new incarnation the last batch whose data the sender sent to its predecessor.
type Sent struct{ Log, Number uint64 }

// Kind implements protocol.Message.
func (m *Sent) Kind() uint8 { return KindSent }

// Size implements protocol.Message.
func (m *Sent) Size() int { return codec.SizeUvarint(m.Log) + codec.SizeUvarint(m.Number) }

// AppendTo implements protocol.Message.
func (m *Sent) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, m.Log), m.Number)
}

func (m *Sent) String() string {
	return fmt.Sprintf("has sent the predecessor batches%s up to %d", ofLog(m.Log), m.Number)
}

func decodeSent(body []byte) (*Sent, error) {
	r := codec.NewReader(body)
	m := &Sent{r.Uvarint(), r.Uvarint()}
	return m, r.Done()
}

// Missing asks another reader of the same group for the data of batches with a position.
type Missing struct {
	Log     uint64
	Batches []BatchID
}

// Kind implements protocol.Message.
func (m *Missing) Kind() uint8 { return KindMissing }

// Size implements protocol.Message.
func (m *Missing) Size() int { return codec.SizeUvarint(m.Log) + sizeIDs(m.Batches) }

// AppendTo implements protocol.Message.
func (m *Missing) AppendTo(b []byte) []byte {
	return appendIDs(codec.AppendUvarint(b, m.Log), m.Batches)
}

func (m *Missing) String() string {
	s := "asks for the data" + ofLog(m.Log) + ":"
	for _, b := range m.Batches {
		s += " " + b.String()
	}
	return s
}

func decodeMissing(body []byte) (*Missing, error) {
	r := codec.NewReader(body)
	m := &Missing{Log: r.Uvarint(), Batches: readIDs(&r)}
	return m, r.Done()
}

// ofLog distinguishes logs in traces, like logName.
func ofLog(log uint64) string {
	if log == 0 {
		return ""
	}
	return fmt.Sprintf(" of log %d", log)
}

func sizeIDs(ids []BatchID) int {
	n := codec.SizeUvarint(uint64(len(ids)))
	for _, b := range ids {
		n += codec.SizeUvarint(uint64(b.Sequencer)) + codec.SizeUvarint(b.Number)
	}
	return n
}

func appendIDs(b []byte, ids []BatchID) []byte {
	b = codec.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(id.Sequencer)), id.Number)
	}
	return b
}

func readIDs(r *codec.Reader) (ids []BatchID) {
	if n := r.Count(2); n > 0 {
		ids = make([]BatchID, n)
	}
	for i := range ids {
		ids[i] = BatchID{geo.NodeID(r.UvarintMax(1<<16 - 1)), r.Uvarint()}
	}
	return ids
}

// Decode decodes the messages of the package and of its consensus group. known is false for a kind of another package.
func Decode(kind uint8, body []byte) (m protocol.Message, known bool, err error) {
	switch kind {
	case KindOrderRequest:
		m, err = decodeOrderRequest(body)
	case KindPositions:
		m, err = decodePositions(body)
	case KindFetch:
		m, err = decodeFetch(body)
	case KindVoid:
		m, err = decodeVoid(body)
	case KindHeld:
		m, err = decodeHeld(body)
	case KindKept:
		m, err = decodeKept(body)
	case KindMissing:
		m, err = decodeMissing(body)
	case KindStarted:
		m, err = decodeStarted(body)
	case KindSent:
		m, err = decodeSent(body)
	case consensus.Kind:
		m, err = consensus.Decode(body)
	default:
		// The caller tries the decoders of other packages for an unknown kind.
		return nil, false, nil
	}
	if err != nil {
		// The kind is known even if the body is malformed, so no other package may try to decode it.
		return nil, true, err
	}
	return m, true, nil
}
