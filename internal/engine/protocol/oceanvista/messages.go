package oceanvista

import (
	"fmt"
	"math"
	"strings"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds. Shared building blocks define their own kinds.
const (
	kindWrite = iota + 1
	kindStored
	kindGossip
	kindReport
	kindJoinRequest
	kindProposal
	kindStateRequest
)

// timestampSize is the encoded size of a timestamp in bytes.
const timestampSize = 8

func sizeFunctors(functors []Functor) int {
	n := codec.SizeUvarint(uint64(len(functors)))
	for i := range functors {
		n += functors[i].size()
	}
	return n
}

func appendFunctors(b []byte, functors []Functor) []byte {
	b = codec.AppendUvarint(b, uint64(len(functors)))
	for i := range functors {
		b = functors[i].appendTo(b)
	}
	return b
}

// inPieces splits functors into pieces of at most the given number of bytes, and calls f for each piece in order. Each
// piece has at least one functor, unless there are none. inPieces calls f at least once.
func inPieces(functors []Functor, most int, f func(piece []Functor, more bool)) {
	for {
		n, size := 0, 0
		for n < len(functors) && (n == 0 || size+functors[n].size() <= most) {
			size += functors[n].size()
			n++
		}
		f(functors[:n:n], n < len(functors))
		if functors = functors[n:]; len(functors) == 0 {
			return
		}
	}
}

func readFunctors(r *codec.Reader, txns *codec.TxnArena) []Functor {
	n := r.Count(timestampSize + codec.MinTransaction)
	if n == 0 {
		return nil
	}
	functors := make([]Functor, n)
	txns.Reserve(n)
	for i := range functors {
		if functors[i].read(r, txns); r.Err() != nil {
			break
		}
	}
	return functors
}

func stringFunctors(functors []Functor) string {
	var b strings.Builder
	for i := range functors {
		fmt.Fprintf(&b, " t%v@%v", functors[i].T.ID, functors[i].Timestamp)
	}
	return b.String()
}

// Write asks a replica to store a functor (S-phase).
type Write struct {
	// View is the sender's view. Epoch is the epoch in which the sender is active.
	View, Epoch uint64
	Functor
}

func (m *Write) String() string { return "write" + stringFunctors([]Functor{m.Functor}) }

// Stored reports that the sender has stored all functors of the receiver up to Timestamp that access the sender's
// partition.
type Stored struct {
	Timestamp Timestamp `codec:"fixed"`
}

func (m *Stored) String() string { return fmt.Sprintf("has stored %v", m.Timestamp) }

// Gossip reports a server's watermarks.
type Gossip struct {
	// View is the sender's view. Epoch is the epoch in which the sender is active.
	View, Epoch uint64
	// Watermark covers the sender's functors: all functors up to it are stable, and the sender issues no further
	// timestamps up to it. Replicated is the timestamp up to which all replicas have the sender's functors.
	Watermark, Replicated Timestamp `codec:"fixed"`
	// Number counts the sender's gossip messages to the receiver, from 1. Received is the last number that the sender has
	// received from the receiver.
	Number, Received uint64
}

func (m *Gossip) String() string {
	return fmt.Sprintf("watermark %v, replicated %v", m.Watermark, m.Replicated)
}

// viewOf returns the view of a Write or Gossip message. It returns 0 for other messages.
func viewOf(m protocol.Message) uint64 {
	switch m := m.(type) {
	case *Write:
		return m.View
	case *Gossip:
		return m.View
	}
	return 0
}

// Report contains the functors of a suspected server that the sender holds.
type Report struct {
	Server geo.NodeID
	Epoch  uint64
	// Piece numbers the pieces of the report from 0. More is set on all pieces except the last.
	Piece uint64
	More  bool
	// Replicated is the suspected server's second watermark as known to the sender. Functors are the later functors that
	// the sender holds, in timestamp order.
	Replicated Timestamp `codec:"fixed"`
	Functors   []Functor `codec:"as=functors"`
}

func (m *Report) String() string {
	return fmt.Sprintf("report on %d: replicated %v,%s", m.Server, m.Replicated, stringFunctors(m.Functors))
}

// JoinRequest asks an active server to let the sender, which is closed, join again.
type JoinRequest struct{ Epoch uint64 }

func (m *JoinRequest) String() string { return fmt.Sprintf("asks to join in epoch %d", m.Epoch) }

// Proposal asks the leader to propose an entry to the group.
type Proposal struct{ Entry []byte }

// Kind implements protocol.Message.
func (m *Proposal) Kind() uint8 { return kindProposal }

// Size implements protocol.Message.
func (m *Proposal) Size() int { return codec.SizeBytes(m.Entry) }

// AppendTo implements protocol.Message.
func (m *Proposal) AppendTo(b []byte) []byte { return codec.AppendBytes(b, m.Entry) }

func (m *Proposal) read(r *codec.Reader, txns *codec.TxnArena) {
	if m.Entry = r.Bytes(); r.Err() == nil {
		if _, err := readEntry(m.Entry, txns); err != nil {
			r.Fail(err)
		}
	}
}

func (m *Proposal) String() string {
	if len(m.Entry) == 0 {
		return "proposes nothing"
	}
	return "proposes " + map[uint8]string{
		entrySuspicion: "a suspicion", entryDecision: "a decision", entryJoin: "a join", entryAbandonment: "an abandonment",
		entryLoss: "a loss", entryMark: "a mark", entryReplenishment: "a replenishment", entryGap: "a gap",
	}[m.Entry[0]]
}

// StateRequest requests the rows as of a mark from a donor. ID is the view of the mark.
type StateRequest struct{ ID uint64 }

func (m *StateRequest) String() string {
	return fmt.Sprintf("asks for the rows as of the mark of view %d", m.ID)
}

// entry is an entry of the group's log.
type entry interface {
	// append appends the entry to b.
	append(b []byte) []byte
	// apply applies the entry to the agreed state, and reports whether it has changed the state.
	apply(m *membership) bool
}

// The kinds of entries.
const (
	entrySuspicion = iota + 1
	entryDecision
	entryJoin
	entryAbandonment
	entryLoss
	entryMark
	entryReplenishment
	entryGap
)

// suspicion makes a server suspected, so that no replica accepts the server's writes.
//
//codec:part
type suspicion struct {
	server geo.NodeID
	epoch  uint64
}

// decision determines which unfinished functors of a suspected server count as written. It may consist of several
// pieces, and takes effect with the last piece. Its first piece discards an incomplete decision of an earlier leader.
//
//codec:part
type decision struct {
	server geo.NodeID
	epoch  uint64
	// piece numbers the pieces from 0. more is set on all pieces except the last.
	piece uint64
	more  bool
	// replicated is a timestamp: all replicas have the server's functors up to it.
	replicated Timestamp `codec:"fixed"`
	// survivors are after replicated, in timestamp order.
	survivors []Functor `codec:"as=functors"`
}

// join makes a closed server active again. The server issues timestamps above the promise of its sponsor, which must be
// active in the given epoch. A join of a new incarnation is the incarnation's mark.
//
//codec:part
type join struct {
	server       geo.NodeID
	epoch        uint64
	sponsor      geo.NodeID
	sponsorEpoch uint64
	above        Timestamp `codec:"fixed"`
	// incarnation is 0 if the closed incarnation joins again. Otherwise it is encoded last, and the entry is a mark.
	incarnation uint32 `codec:"-"`
}

// loss reports that a new incarnation has replaced a server.
//
//codec:part
type loss struct {
	server      geo.NodeID
	incarnation uint32
}

// replenishment reports that a node has the rows as of a mark, and all functors for which other nodes may rely on it.
//
//codec:part
type replenishment struct {
	server geo.NodeID
	id     uint64
}

// gap reports that an incarnation of a server has skipped entries of the log.
//
//codec:part
type gap struct {
	server      geo.NodeID
	incarnation uint32
}

// abandonment makes a closed server abandoned.
//
//codec:part
type abandonment struct {
	server geo.NodeID
	epoch  uint64
}

func (e *suspicion) append(b []byte) []byte { return e.appendTo(append(b, entrySuspicion)) }

func (e *decision) append(b []byte) []byte { return e.appendTo(append(b, entryDecision)) }

func (e *join) append(b []byte) []byte {
	if e.incarnation == 0 {
		return e.appendTo(append(b, entryJoin))
	}
	return codec.AppendUvarint(e.appendTo(append(b, entryMark)), uint64(e.incarnation))
}

func (e *loss) append(b []byte) []byte { return e.appendTo(append(b, entryLoss)) }

func (e *replenishment) append(b []byte) []byte { return e.appendTo(append(b, entryReplenishment)) }

func (e *gap) append(b []byte) []byte { return e.appendTo(append(b, entryGap)) }

func (e *abandonment) append(b []byte) []byte { return e.appendTo(append(b, entryAbandonment)) }

func readEntry(data []byte, txns *codec.TxnArena) (e entry, err error) {
	r := codec.NewReader(data)
	switch kind := r.Uint8(); kind {
	case entrySuspicion:
		s := &suspicion{}
		s.read(&r)
		e = s
	case entryDecision:
		d := &decision{}
		d.read(&r, txns)
		e = d
	case entryJoin, entryMark:
		j := &join{}
		if j.read(&r); kind == entryMark {
			j.incarnation = uint32(r.UvarintMax(math.MaxUint32))
		}
		e = j
	case entryLoss:
		l := &loss{}
		l.read(&r)
		e = l
	case entryReplenishment:
		p := &replenishment{}
		p.read(&r)
		e = p
	case entryGap:
		g := &gap{}
		g.read(&r)
		e = g
	case entryAbandonment:
		a := &abandonment{}
		a.read(&r)
		e = a
	default:
		r.Fail(fmt.Errorf("%d is no kind of entry", kind))
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return e, nil
}

var decode = protocol.Decode("oceanvista", decodeMessage, consensus.Decode, deterministic.Decode, reconnaissance.Decode, statetransfer.Decode)
