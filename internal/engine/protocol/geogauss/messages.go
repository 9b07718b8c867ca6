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
	// maxSequence bounds sequence numbers, which are microseconds of a clock.
	maxSequence = 1<<63 - 1
)

// WriteSet is a transaction's write set. It is sent to all servers as soon as the transaction requests its commit.
type WriteSet struct {
	// Epoch is the epoch in which the transaction requests its commit.
	Epoch uint64 `codec:"max=maxNumber"`
	ID    txn.ID
	// Start is the number of the snapshot that the transaction has read: the number of merged epochs with write sets.
	Start uint64 `codec:"max=maxNumber"`
	// Sequence is the paper's commit sequence number: the server's clock in microseconds, and larger than the number of
	// the server's previous write set.
	Sequence uint64 `codec:"max=maxSequence"`
	Writes   []txn.WriteEntry
}

func (m *WriteSet) String() string {
	return fmt.Sprintf("write set of t%v, epoch %d from snapshot %d", m.ID, m.Epoch, m.Start)
}

// End announces that the sender has ended its epochs up to Epoch, and that only the last of them has write sets.
type End struct {
	Epoch uint64 `codec:"max=maxNumber"`
	// After is the last epoch whose end the sender has announced before.
	After uint64 `codec:"max=maxNumber"`
	// Count is the number of the sender's write sets in the epoch.
	Count uint64 `codec:"max=maxNumber"`
	// View is the number of membership changes that the sender knows.
	View uint64 `codec:"max=maxNumber"`
	// Complete is the last epoch up to which the sender has all write sets, as of View.
	Complete uint64 `codec:"max=maxNumber"`
	// Wanted is the last epoch in which the sender knows of write sets. All other servers must end their epochs up
	// to it, with or without write sets.
	Wanted uint64 `codec:"max=maxNumber"`
	// Busy reports that the sender has not merged epoch Wanted: it may need the other servers' epochs.
	Busy bool
}

func (m *End) String() string {
	return fmt.Sprintf("end of epoch %d: %d write sets; complete to %d", m.Epoch, m.Count, m.Complete)
}

// Completion declares that the sender has all write sets up to an epoch, as of a view. It is the acknowledgement that
// the parameter acks requires.
type Completion struct {
	View, Epoch uint64 `codec:"max=maxNumber"`
}

func (m *Completion) String() string {
	return fmt.Sprintf("has all write sets up to epoch %d in view %d", m.Epoch, m.View)
}

// Request asks for the epochs of a server after an epoch.
type Request struct {
	Server geo.NodeID
	After  uint64 `codec:"max=maxNumber"`
}

func (m *Request) String() string {
	return fmt.Sprintf("lacks the epochs of %d after %d", m.Server, m.After)
}

// Closed describes a server's closed epochs from After (exclusive) to Epoch. Only epoch Epoch has write sets. Servers
// keep these messages, and pass them on to servers that lack the epochs.
type Closed struct {
	Server       geo.NodeID
	Epoch, After uint64 `codec:"max=maxNumber"`
	// View is the server's view at the end of Epoch.
	View uint64 `codec:"max=maxNumber"`
	Sets []*WriteSet
}

func (m *Closed) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "epoch %d of %d:", m.Epoch, m.Server)
	for _, s := range m.Sets {
		fmt.Fprintf(&b, " t%v", s.ID)
	}
	return b.String()
}

// Inquiry asks the receiver for the last epoch that it has of a silent server. The receiver must count no later epochs
// of that server in this view.
type Inquiry struct {
	View   uint64 `codec:"max=maxNumber"`
	Server geo.NodeID
}

func (m *Inquiry) String() string {
	return fmt.Sprintf("which epochs of %d are there, in view %d?", m.Server, m.View)
}

// Report answers an inquiry: the sender has a silent server's epochs up to Last, and counts no later epochs in this
// view.
type Report struct {
	View   uint64 `codec:"max=maxNumber"`
	Server geo.NodeID
	Last   uint64 `codec:"max=maxNumber"`
}

func (m *Report) String() string {
	return fmt.Sprintf("counts the epochs of %d up to %d in view %d", m.Server, m.Last, m.View)
}

// Rejoin asks the leader to make the sender a member again.
type Rejoin struct {
	View uint64 `codec:"max=maxNumber"`
}

func (m *Rejoin) String() string {
	return fmt.Sprintf("asks to be a member again, in view %d", m.View)
}

// StateRequest asks a server that knows a view for its rows and its unmerged epochs.
type StateRequest struct {
	View uint64 `codec:"max=maxNumber"`
}

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
		e := &Closed{}
		e.read(r)
		c.Epochs = append(c.Epochs, e)
	}
	return c
}

var decode = protocol.Decode("geogauss", decodeMessage, consensus.Decode, statetransfer.Decode)
