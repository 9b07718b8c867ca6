package batchlog

import (
	"cmp"
	"fmt"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
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

// BatchID identifies a batch by its sequencer and by the number that the sequencer assigned, from 1.
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

// Ordered is a batch with a position in the log. Without readers, it makes the batch and the earlier batches of its
// sequencer without a position void. An entry may also include a part of a stream: see Stream.
type Ordered struct {
	Batch   BatchID
	Readers Set
}

// Void reports whether the entry makes batches void.
func (o Ordered) Void() bool { return o.Readers == 0 }

// batches is the content of an entry of the consensus group, and a part of the group's snapshots.
//
//codec:part
type batches []Ordered

// Positions carries log entries from position First on, in order. The sender leads the log in Term.
type Positions struct {
	Log     uint64
	Term    uint64
	First   uint64
	Entries []Ordered
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

// Fetch asks the leader for the log's entries from First on, which an earlier leader failed to send, or for a starting
// position (see joins).
type Fetch struct{ Log, First uint64 }

func (m *Fetch) String() string {
	if m.First == joins {
		return "asks where to begin" + ofLog(m.Log)
	}
	if m.Log > 0 {
		return fmt.Sprintf("fetch positions in log %d from %d", m.Log, m.First)
	}
	return fmt.Sprintf("fetch positions from %d", m.First)
}

// Void asks the leader of a log to make batches void because their sequencers seem to be lost. Earlier batches of these
// sequencers become void, too.
type Void struct {
	Log     uint64
	Batches []BatchID
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

// Held reports to the leader of a log which data the sender has. For each batch in Batches, the sender has all data
// that it reads from the batch's sequencer, up to that batch. Position is the position up to which the sender has read
// the log.
type Held struct {
	Log, Position uint64
	Batches       []BatchID
}

func (m *Held) String() string {
	s := fmt.Sprintf("holds%s, read up to %d:", ofLog(m.Log), m.Position)
	for _, b := range m.Batches {
		s += " " + b.String()
	}
	return s
}

// Kept reports that all readers have read a log up to a position, so that no node will request earlier data.
type Kept struct{ Log, Position uint64 }

func (m *Kept) String() string {
	return fmt.Sprintf("all have read%s up to %d", ofLog(m.Log), m.Position)
}

// Started answers a new incarnation that requests a starting position (see rejoin.go). Position is the number of
// entries in the log. Settled holds the last batch of each sequencer and stream that has a position or is void.
type Started struct {
	Log, Term, Position uint64
	Settled             []uint64
}

func (m *Started) String() string {
	return fmt.Sprintf("begin%s at %d, term %d: settled %d", ofLog(m.Log), m.Position, m.Term, m.Settled)
}

// Sent reports to a new incarnation the last batch whose data the sender sent to its predecessor.
type Sent struct{ Log, Number uint64 }

func (m *Sent) String() string {
	return fmt.Sprintf("has sent the predecessor batches%s up to %d", ofLog(m.Log), m.Number)
}

// Missing asks another reader of the same group for the data of batches with a position.
type Missing struct {
	Log     uint64
	Batches []BatchID
}

func (m *Missing) String() string {
	s := "asks for the data" + ofLog(m.Log) + ":"
	for _, b := range m.Batches {
		s += " " + b.String()
	}
	return s
}

// ofLog distinguishes logs in traces, like logName.
func ofLog(log uint64) string {
	if log == 0 {
		return ""
	}
	return fmt.Sprintf(" of log %d", log)
}

// Decode is a protocol.Decoder for the messages of this package and of its consensus group.
func Decode(kind uint8, body []byte, procs *txn.Registry) (m protocol.Message, known bool, err error) {
	if kind == consensus.Kind {
		return consensus.Decode(kind, body, procs)
	}
	return decodeMessage(kind, body, procs)
}
