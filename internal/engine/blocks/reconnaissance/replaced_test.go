package reconnaissance

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// sending is an environment that records sent messages.
type sending struct {
	world
	sent []string
}

func (s *sending) Send(to geo.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *Look:
		s.sent = append(s.sent, fmt.Sprintf("look %d to %d", m.For[0].Look, to))
	case *Seen:
		s.sent = append(s.sent, fmt.Sprintf("%d rows to %d", len(m.For[0].Reads[0].Rows), to))
	}
}

// looking is the reconnaissance of node 0, which stores the even rows of its copy; node 1 stores the odd rows.
type looking struct {
	*Reconnaissance
	world   *sending
	store   *store.Hash
	ordered []txn.ID
}

func newLooking() *looking {
	l := &looking{world: &sending{}, store: store.NewHash()}
	l.Reconnaissance = New(Config{
		Config: protocol.Config{Self: 0, Env: l.world, Procedures: simload.Procedures, Store: l.store, Params: protocol.Params{Parameter.Name: "2"}},
		Layout: simload.TwoRegions(2).Full(), Order: func(t *txn.Transaction) { l.ordered = append(l.ordered, t.ID) },
	})
	return l
}

func (l *looking) said(t *testing.T, what string, want ...string) {
	t.Helper()
	l.Flush()
	if !slices.Equal(l.world.sent, want) {
		t.Errorf("%s: %q, want %q", what, l.world.sent, want)
	}
	l.world.sent = nil
}

func row(n uint64) txn.Row {
	return txn.Row{Key: simload.Key(n), Value: binary.BigEndian.AppendUint64(nil, 1)}
}

// A node without rows runs no reconnaissance and delays other nodes' requests. Otherwise footprints would be stale more
// often than the parameter allows.
func TestLooksWaitForRows(t *testing.T) {
	l := newLooking()
	l.Pause()
	l.Begin(simload.Txn(1, "j0"))
	for _, from := range []geo.NodeID{1, 3} {
		l.Receive(from, &Look{For: []LookFor{{ID: 9, Look: 1, Ranges: []txn.Range{txn.Point(simload.Key(0))}}}})
	}
	l.Replaced(3) // no transaction waits for requests to node 3 any more
	l.said(t, "without rows")
	r := row(0) // leads to row 1
	l.store.Load(r.Key, r.Value)
	l.Resume()
	l.said(t, "with rows", "1 rows to 1", "look 1 to 1")
}

// Requests that a lost node may have received are repeated, and the predecessor's answers are ignored.
func TestLooksAgain(t *testing.T) {
	l := newLooking()
	r := row(0)
	l.store.Load(r.Key, r.Value)
	l.Begin(simload.Txn(1, "j0"))
	l.said(t, "at first", "look 1 to 1")
	l.Replaced(1)
	l.said(t, "when the other one is lost", "look 2 to 1")
	seen := func(look uint64) *Seen {
		return &Seen{For: []SeenFor{{ID: simload.Txn(1, "j0").ID, Look: look, Reads: []SeenRange{{Range: txn.Point(simload.Key(1)), Rows: []txn.Row{row(1)}}}}}}
	}
	l.Receive(1, seen(1))
	if len(l.ordered) > 0 {
		t.Error("an answer to the first look is taken for one to the second")
	}
	l.Receive(1, seen(2))
	if len(l.ordered) != 1 {
		t.Errorf("%d transactions are ordered", len(l.ordered))
	}
	l.Forget(l.ordered[0])
	if stale := (txn.Outcome{ID: l.ordered[0], Status: txn.Refused, Cause: txn.CauseStale}); !l.Outcome(&stale) {
		t.Error("what was forgotten is looked for again")
	}
}
