package geogauss

import (
	"fmt"
	"math"
	"strings"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds. Consensus has a separate kind.
const (
	kindWriteSet = iota + 1
	kindEnd
	kindCompletion
	kindRequest
	kindClosed
	kindInquiry
	kindReport
	kindRejoin
	kindStateRequest
)

const (
	maxNode = 1<<16 - 1
	// maxNumber bounds the numbers of epochs, snapshots and views, so that sums of them fit.
	maxNumber = 1<<48 - 1
	// maxSequence bounds sequence numbers: microseconds of any clock.
	maxSequence = 1<<63 - 1
)

// WriteSet is a transaction's write set. It is sent to all servers as soon as the transaction requests its commit.
type WriteSet struct {
	// Epoch is the epoch in which the transaction requests its commit.
	Epoch uint64
	ID    txn.ID
	// Start is the number of the snapshot that the transaction has read: the number of merged epochs with write sets.
	Start uint64
	// Sequence is the paper's commit sequence number: the server's clock in microseconds, and larger than the number of
	// the server's previous write set.
	Sequence uint64
	Writes   []txn.WriteEntry
}

// Kind implements protocol.Message.
func (m *WriteSet) Kind() uint8 { return kindWriteSet }

// Size implements protocol.Message.
func (m *WriteSet) Size() int {
	return codec.SizeUvarint(m.Epoch) + codec.SizeID(m.ID) + codec.SizeUvarint(m.Start) + codec.SizeUvarint(m.Sequence) + codec.SizeWrites(m.Writes)
}

// AppendTo implements protocol.Message.
func (m *WriteSet) AppendTo(b []byte) []byte {
	b = codec.AppendID(codec.AppendUvarint(b, m.Epoch), m.ID)
	return codec.AppendWrites(codec.AppendUvarint(codec.AppendUvarint(b, m.Start), m.Sequence), m.Writes)
}

func (m *WriteSet) String() string {
	return fmt.Sprintf("write set of t%v, epoch %d from snapshot %d", m.ID, m.Epoch, m.Start)
}

// minWriteSet is the minimum size of a write set.
const minWriteSet = 5

func readWriteSet(r *codec.Reader) *WriteSet {
	return &WriteSet{
		Epoch: r.UvarintMax(maxNumber), ID: r.ID(), Start: r.UvarintMax(maxNumber), Sequence: r.UvarintMax(maxSequence), Writes: r.Writes(),
	}
}

// End announces that the sender has ended its epochs up to Epoch, and that only the last of them has write sets.
type End struct {
	Epoch uint64
	// After is the last epoch whose end the sender has announced before.
	After uint64
	// Count is the number of the sender's write sets in the epoch.
	Count uint64
	// View is the number of membership changes that the sender knows.
	View uint64
	// Complete is the last epoch up to which the sender has all write sets, as of View.
	Complete uint64
	// Wanted is the last epoch in which the sender knows of write sets. All other servers must end their epochs up
	// to it, with or without write sets.
	Wanted uint64
	// Busy reports that the sender has not merged epoch Wanted: it may need the other servers' epochs.
	Busy bool
}

// Kind implements protocol.Message.
func (m *End) Kind() uint8 { return kindEnd }

// Size implements protocol.Message.
func (m *End) Size() int {
	return codec.SizeUvarint(m.Epoch) + codec.SizeUvarint(m.After) + codec.SizeUvarint(m.Count) + codec.SizeUvarint(m.View) +
		codec.SizeUvarint(m.Complete) + codec.SizeUvarint(m.Wanted) + 1
}

// AppendTo implements protocol.Message.
func (m *End) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, m.Epoch), m.After), m.Count)
	b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, m.View), m.Complete), m.Wanted)
	return append(b, codec.Flags(m.Busy, false))
}

func (m *End) String() string {
	return fmt.Sprintf("end of epoch %d: %d write sets; complete to %d", m.Epoch, m.Count, m.Complete)
}

// Completion declares that the sender has all write sets up to an epoch, as of a view. It is the acknowledgement that
// the parameter acks requires.
type Completion struct{ View, Epoch uint64 }

// Kind implements protocol.Message.
func (m *Completion) Kind() uint8 { return kindCompletion }

// Size implements protocol.Message.
func (m *Completion) Size() int { return codec.SizeUvarint(m.View) + codec.SizeUvarint(m.Epoch) }

// AppendTo implements protocol.Message.
func (m *Completion) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, m.View), m.Epoch)
}

func (m *Completion) String() string {
	return fmt.Sprintf("has all write sets up to epoch %d in view %d", m.Epoch, m.View)
}

// Request asks for the epochs of a server after an epoch.
type Request struct {
	Server geo.NodeID
	After  uint64
}

// Kind implements protocol.Message.
func (m *Request) Kind() uint8 { return kindRequest }

// Size implements protocol.Message.
func (m *Request) Size() int {
	return codec.SizeUvarint(uint64(m.Server)) + codec.SizeUvarint(m.After)
}

// AppendTo implements protocol.Message.
func (m *Request) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, uint64(m.Server)), m.After)
}

func (m *Request) String() string {
	return fmt.Sprintf("lacks the epochs of %d after %d", m.Server, m.After)
}

// Closed describes a server's closed epochs from After (exclusive) to Epoch. Only epoch Epoch has write sets. Servers
// keep these messages, and pass them on to servers that lack the epochs.
type Closed struct {
	Server       geo.NodeID
	Epoch, After uint64
	// View is the server's view at the end of Epoch.
	View uint64
	Sets []*WriteSet
}

// Kind implements protocol.Message.
func (m *Closed) Kind() uint8 { return kindClosed }

// Size implements protocol.Message.
func (m *Closed) Size() int {
	n := codec.SizeUvarint(uint64(m.Server)) + codec.SizeUvarint(m.Epoch) + codec.SizeUvarint(m.After) + codec.SizeUvarint(m.View) +
		codec.SizeUvarint(uint64(len(m.Sets)))
	for _, s := range m.Sets {
		n += s.Size()
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Closed) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(m.Server)), m.Epoch)
	b = codec.AppendUvarint(codec.AppendUvarint(b, m.After), m.View)
	b = codec.AppendUvarint(b, uint64(len(m.Sets)))
	for _, s := range m.Sets {
		b = s.AppendTo(b)
	}
	return b
}

func (m *Closed) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "epoch %d of %d:", m.Epoch, m.Server)
	for _, s := range m.Sets {
		fmt.Fprintf(&b, " t%v", s.ID)
	}
	return b.String()
}

func readClosed(r *codec.Reader) *Closed {
	m := &Closed{
		Server: geo.NodeID(r.UvarintMax(maxNode)), Epoch: r.UvarintMax(maxNumber), After: r.UvarintMax(maxNumber), View: r.UvarintMax(maxNumber),
	}
	for range r.Count(minWriteSet) {
		m.Sets = append(m.Sets, readWriteSet(r))
	}
	return m
}

// Inquiry asks the receiver for the last epoch that it has of a silent server. The receiver must count no later epochs
// of that server in this view.
type Inquiry struct {
	View   uint64
	Server geo.NodeID
}

// Kind implements protocol.Message.
func (m *Inquiry) Kind() uint8 { return kindInquiry }

// Size implements protocol.Message.
func (m *Inquiry) Size() int {
	return codec.SizeUvarint(m.View) + codec.SizeUvarint(uint64(m.Server))
}

// AppendTo implements protocol.Message.
func (m *Inquiry) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, m.View), uint64(m.Server))
}

func (m *Inquiry) String() string {
	return fmt.Sprintf("which epochs of %d are there, in view %d?", m.Server, m.View)
}

// Report answers an inquiry: the sender has a silent server's epochs up to Last, and counts no later epochs in this
// view.
type Report struct {
	View   uint64
	Server geo.NodeID
	Last   uint64
}

// Kind implements protocol.Message.
func (m *Report) Kind() uint8 { return kindReport }

// Size implements protocol.Message.
func (m *Report) Size() int {
	return codec.SizeUvarint(m.View) + codec.SizeUvarint(uint64(m.Server)) + codec.SizeUvarint(m.Last)
}

// AppendTo implements protocol.Message.
func (m *Report) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, m.View), uint64(m.Server)), m.Last)
}

func (m *Report) String() string {
	return fmt.Sprintf("counts the epochs of %d up to %d in view %d", m.Server, m.Last, m.View)
}

// Rejoin asks the leader to make the sender a member again.
type Rejoin struct{ View uint64 }

// Kind implements protocol.Message.
func (m *Rejoin) Kind() uint8 { return kindRejoin }

// Size implements protocol.Message.
func (m *Rejoin) Size() int { return codec.SizeUvarint(m.View) }

// AppendTo implements protocol.Message.
func (m *Rejoin) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, m.View) }

func (m *Rejoin) String() string {
	return fmt.Sprintf("asks to be a member again, in view %d", m.View)
}

// StateRequest asks a server that knows a view for its rows and its unmerged epochs.
type StateRequest struct{ View uint64 }

// Kind implements protocol.Message.
func (m *StateRequest) Kind() uint8 { return kindStateRequest }

// Size implements protocol.Message.
func (m *StateRequest) Size() int { return codec.SizeUvarint(m.View) }

// AppendTo implements protocol.Message.
func (m *StateRequest) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, m.View) }

func (m *StateRequest) String() string {
	return fmt.Sprintf("asks for all rows, in view %d", m.View)
}

// Change is an entry of the Raft log: a server leaves, or joins again. Only the first change of a view takes effect.
type Change struct {
	View   uint64
	Server geo.NodeID
	Joins  bool
	// Last is the last epoch that counts of a server that leaves.
	Last uint64
	// Incarnation is the new incarnation if the server leaves because it has lost its state, and 0 otherwise. For a server
	// that has left before, only Incarnation changes.
	Incarnation uint32
	// Epochs are the server's last epochs, which the proposer had not merged.
	Epochs []*Closed
}

func (c *Change) append() []byte {
	b := codec.AppendUvarint(codec.AppendUvarint(nil, c.View), uint64(c.Server))
	b = append(b, codec.Flags(c.Joins, c.Incarnation > 0))
	if c.Incarnation > 0 {
		b = codec.AppendUvarint(b, uint64(c.Incarnation))
	}
	b = codec.AppendUvarint(codec.AppendUvarint(b, c.Last), uint64(len(c.Epochs)))
	for _, e := range c.Epochs {
		b = e.AppendTo(b)
	}
	return b
}

func readChange(r *codec.Reader) *Change {
	c := &Change{View: r.UvarintMax(maxNumber), Server: geo.NodeID(r.UvarintMax(maxNode))}
	var replaced bool
	if c.Joins, replaced = r.Flags(); replaced {
		c.Incarnation = uint32(r.UvarintMax(math.MaxUint32))
	}
	c.Last = r.UvarintMax(maxNumber)
	// An epoch without write sets has at least 5 bytes, one for each field.
	for range r.Count(5) {
		c.Epochs = append(c.Epochs, readClosed(r))
	}
	return c
}

// decode is Engine.Decode.
func decode(kind uint8, body []byte, _ *txn.Registry) (protocol.Message, error) {
	r := codec.NewReader(body)
	var m protocol.Message
	switch kind {
	case kindWriteSet:
		m = readWriteSet(&r)
	case kindEnd:
		m = &End{
			Epoch: r.UvarintMax(maxNumber), After: r.UvarintMax(maxNumber), Count: r.UvarintMax(maxNumber), View: r.UvarintMax(maxNumber),
			Complete: r.UvarintMax(maxNumber), Wanted: r.UvarintMax(maxNumber), Busy: r.Flag(),
		}
	case kindCompletion:
		m = &Completion{View: r.UvarintMax(maxNumber), Epoch: r.UvarintMax(maxNumber)}
	case kindRequest:
		m = &Request{geo.NodeID(r.UvarintMax(maxNode)), r.UvarintMax(maxNumber)}
	case kindClosed:
		m = readClosed(&r)
	case kindInquiry:
		m = &Inquiry{r.UvarintMax(maxNumber), geo.NodeID(r.UvarintMax(maxNode))}
	case kindReport:
		m = &Report{r.UvarintMax(maxNumber), geo.NodeID(r.UvarintMax(maxNode)), r.UvarintMax(maxNumber)}
	case kindRejoin:
		m = &Rejoin{r.UvarintMax(maxNumber)}
	case kindStateRequest:
		m = &StateRequest{r.UvarintMax(maxNumber)}
	case consensus.Kind:
		c, err := consensus.Decode(body)
		if err != nil {
			return nil, err
		}
		return c, nil
	default:
		if m, known, err := statetransfer.Decode(kind, body); known {
			return m, err
		}
		return nil, fmt.Errorf("message kind %d is not one of geogauss's", kind)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return m, nil
}
