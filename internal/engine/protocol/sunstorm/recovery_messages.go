package sunstorm

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
)

// Lost asks for a copy of the state that a writer's log has produced. It is sent to the writer or, if the writer itself
// is new, to a storage copy.
type Lost struct{}

// Kind implements protocol.Message.
func (m *Lost) Kind() uint8 { return kindLost }

// Size implements protocol.Message.
func (m *Lost) Size() int { return 0 }

// AppendTo implements protocol.Message.
func (m *Lost) AppendTo(b []byte) []byte { return b }

func (m *Lost) String() string { return "asks for a copy" }

// Survey asks a storage copy for its log position. A new incarnation of the writer sends it. The answer is Persisted.
type Survey struct{}

// Kind implements protocol.Message.
func (m *Survey) Kind() uint8 { return kindSurvey }

// Size implements protocol.Message.
func (m *Survey) Size() int { return 0 }

// AppendTo implements protocol.Message.
func (m *Survey) AppendTo(b []byte) []byte { return b }

func (m *Survey) String() string { return "asks how far the log is" }

// Recovered reports the entry after which the log of a writer's new incarnation starts. The answer is Persisted.
type Recovered struct{ LSN uint64 }

// Kind implements protocol.Message.
func (m *Recovered) Kind() uint8 { return kindRecovered }

// Size implements protocol.Message.
func (m *Recovered) Size() int { return codec.SizeUvarint(m.LSN) }

// AppendTo implements protocol.Message.
func (m *Recovered) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, m.LSN) }

func (m *Recovered) String() string { return fmt.Sprintf("goes on with the log behind %d", m.LSN) }

// Aware reports that the sender knows of a new incarnation of another writer.
type Aware struct {
	Node        geo.NodeID
	Incarnation uint32
}

// Kind implements protocol.Message.
func (m *Aware) Kind() uint8 { return kindAware }

// Size implements protocol.Message.
func (m *Aware) Size() int {
	return codec.SizeUvarint(uint64(m.Node)) + codec.SizeUvarint(uint64(m.Incarnation))
}

// AppendTo implements protocol.Message.
func (m *Aware) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, uint64(m.Node)), uint64(m.Incarnation))
}

func (m *Aware) String() string {
	return fmt.Sprintf("knows of incarnation %d of node %d", m.Incarnation, m.Node)
}

// Named is a transaction's id and name.
type Named struct {
	ID   txn.ID
	Name Name
}

// minNamed is the minimum size of a Named, in bytes.
const minNamed = 4

func (n *Named) size() int { return codec.SizeID(n.ID) + sizeName(n.Name) }

func (n *Named) appendTo(b []byte) []byte { return appendName(codec.AppendID(b, n.ID), n.Name) }

func readNamed(r *codec.Reader) Named { return Named{r.ID(), readName(r, raftgroup.MaxNode)} }

// Ask asks a new incarnation how its predecessor has voted. The answer is Settled.
type Ask struct{ Named }

// Kind implements protocol.Message.
func (m *Ask) Kind() uint8 { return kindAsk }

// Size implements protocol.Message.
func (m *Ask) Size() int { return m.size() }

// AppendTo implements protocol.Message.
func (m *Ask) AppendTo(b []byte) []byte { return m.appendTo(b) }

func (m *Ask) String() string { return fmt.Sprintf("asks for the vote on t%v", m.ID) }

// Settled is a vote that replaces a lost vote.
type Settled struct {
	ID      txn.ID
	Verdict Verdict
}

// Kind implements protocol.Message.
func (m *Settled) Kind() uint8 { return kindSettled }

// Size implements protocol.Message.
func (m *Settled) Size() int { return codec.SizeID(m.ID) + 1 }

// AppendTo implements protocol.Message.
func (m *Settled) AppendTo(b []byte) []byte { return append(codec.AppendID(b, m.ID), byte(m.Verdict)) }

func (m *Settled) String() string { return fmt.Sprintf("settles t%v: %s", m.ID, m.Verdict.reason()) }

func readVerdict(r *codec.Reader) Verdict {
	v := Verdict(r.Uint8())
	if r.Err() == nil && (v < Yes || v > Gone) {
		r.Fail(fmt.Errorf("%d is not a verdict", uint8(v)))
	}
	return v
}

// Orphan reports that the initiator of a transaction, Node, was lost and replaced by Incarnation. A receiver that has
// no Prepare of the transaction votes no.
type Orphan struct {
	ID          txn.ID
	Node        geo.NodeID
	Incarnation uint32
}

// Kind implements protocol.Message.
func (m *Orphan) Kind() uint8 { return kindOrphan }

// Size implements protocol.Message.
func (m *Orphan) Size() int {
	return codec.SizeID(m.ID) + codec.SizeUvarint(uint64(m.Node)) + codec.SizeUvarint(uint64(m.Incarnation))
}

// AppendTo implements protocol.Message.
func (m *Orphan) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(codec.AppendID(b, m.ID), uint64(m.Node)), uint64(m.Incarnation))
}

func (m *Orphan) String() string {
	return fmt.Sprintf("t%v was initiated before incarnation %d of node %d", m.ID, m.Incarnation, m.Node)
}

// InDoubt asks another writer for the outcomes of transactions that are prepared at the sender, a new incarnation. The
// answer is Known.
type InDoubt struct{ Transactions []Named }

// Kind implements protocol.Message.
func (m *InDoubt) Kind() uint8 { return kindInDoubt }

// Size implements protocol.Message.
func (m *InDoubt) Size() int {
	n := codec.SizeUvarint(uint64(len(m.Transactions)))
	for i := range m.Transactions {
		n += m.Transactions[i].size()
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *InDoubt) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(m.Transactions)))
	for i := range m.Transactions {
		b = m.Transactions[i].appendTo(b)
	}
	return b
}

func (m *InDoubt) String() string {
	ids := make([]txn.ID, len(m.Transactions))
	for i := range m.Transactions {
		ids[i] = m.Transactions[i].ID
	}
	return "is in doubt about" + listed(ids)
}

// Known reports which of the requested transactions the sender has committed, and which are still open there. The
// sender reports the outcomes of the open ones later (Ended).
type Known struct{ Committed, Open []txn.ID }

// Kind implements protocol.Message.
func (m *Known) Kind() uint8 { return kindKnown }

// Size implements protocol.Message.
func (m *Known) Size() int { return sizeIDs(m.Committed) + sizeIDs(m.Open) }

// AppendTo implements protocol.Message.
func (m *Known) AppendTo(b []byte) []byte { return appendIDs(appendIDs(b, m.Committed), m.Open) }

func (m *Known) String() string {
	return fmt.Sprintf("has committed%s, and has open%s", listed(m.Committed), listed(m.Open))
}

func listed(ids []txn.ID) string {
	if len(ids) == 0 {
		return " nothing"
	}
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&b, " t%v", id)
	}
	return b.String()
}

func sizeIDs(ids []txn.ID) int {
	n := codec.SizeUvarint(uint64(len(ids)))
	for _, id := range ids {
		n += codec.SizeID(id)
	}
	return n
}

func appendIDs(b []byte, ids []txn.ID) []byte {
	b = codec.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		b = codec.AppendID(b, id)
	}
	return b
}

func readIDs(r *codec.Reader) (ids []txn.ID) {
	for range r.Count(2) {
		ids = append(ids, r.ID())
	}
	return ids
}

// Ended reports the outcome of a transaction that Known has reported as open.
type Ended struct {
	ID        txn.ID
	Committed bool
}

// Kind implements protocol.Message.
func (m *Ended) Kind() uint8 { return kindEnded }

// Size implements protocol.Message.
func (m *Ended) Size() int { return codec.SizeID(m.ID) + 1 }

// AppendTo implements protocol.Message.
func (m *Ended) AppendTo(b []byte) []byte {
	return append(codec.AppendID(b, m.ID), codec.Flags(m.Committed, false))
}

func (m *Ended) String() string {
	if m.Committed {
		return fmt.Sprintf("t%v was committed", m.ID)
	}
	return fmt.Sprintf("t%v was aborted", m.ID)
}
