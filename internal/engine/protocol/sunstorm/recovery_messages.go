package sunstorm

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// Lost asks for a copy of the state that a writer's log has produced. It is sent to the writer or, if the writer itself
// is new, to a storage copy.
type Lost struct{}

func (m *Lost) String() string { return "asks for a copy" }

// Survey asks a storage copy for its log position. A new incarnation of the writer sends it. The answer is Persisted.
type Survey struct{}

func (m *Survey) String() string { return "asks how far the log is" }

// Recovered reports the entry after which the log of a writer's new incarnation starts. The answer is Persisted.
type Recovered struct{ LSN uint64 }

func (m *Recovered) String() string { return fmt.Sprintf("goes on with the log behind %d", m.LSN) }

// Aware reports that the sender knows of a new incarnation of another writer.
type Aware struct {
	Node        geo.NodeID
	Incarnation uint32
}

func (m *Aware) String() string {
	return fmt.Sprintf("knows of incarnation %d of node %d", m.Incarnation, m.Node)
}

// Named is a transaction's id and name.
type Named struct {
	ID   txn.ID
	Name Name
}

// Ask asks a new incarnation how its predecessor has voted. The answer is Settled.
type Ask struct{ Named }

func (m *Ask) String() string { return fmt.Sprintf("asks for the vote on t%v", m.ID) }

// Settled is a vote that replaces a lost vote.
type Settled struct {
	ID      txn.ID
	Verdict Verdict `codec:"enum=Yes..Gone"`
}

func (m *Settled) String() string { return fmt.Sprintf("settles t%v: %s", m.ID, m.Verdict.reason()) }

// Orphan reports that the initiator of a transaction, Node, was lost and replaced by Incarnation. A receiver that has
// no Prepare of the transaction votes no.
type Orphan struct {
	ID          txn.ID
	Node        geo.NodeID
	Incarnation uint32
}

func (m *Orphan) String() string {
	return fmt.Sprintf("t%v was initiated before incarnation %d of node %d", m.ID, m.Incarnation, m.Node)
}

// InDoubt asks another writer for the outcomes of transactions that are prepared at the sender, a new incarnation. The
// answer is Known.
type InDoubt struct{ Transactions []Named }

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

// Ended reports the outcome of a transaction that Known has reported as open.
type Ended struct {
	ID        txn.ID
	Committed bool
}

func (m *Ended) String() string {
	if m.Committed {
		return fmt.Sprintf("t%v was committed", m.ID)
	}
	return fmt.Sprintf("t%v was aborted", m.ID)
}
