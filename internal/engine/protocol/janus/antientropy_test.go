package janus

import (
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
)

// A replica also passes on decisions of instances that it has never received from their coordinator. It queries another
// replica until that replica has the decisions, and then stops. If the coordinator turns out to be live, these
// decisions are handled like all others.
func TestStraysArePassedOn(t *testing.T) {
	s := newScripted(t, 3, 1, 1)
	first, third := instance(0, 1), instance(0, 3)
	tx := simload.Txn(txn.MakeID(1, 3), "a3+1")
	s.hear(0, preAccept(first, "a1+1"))
	s.hear(0, &Commit{Proposal{ID: first}})
	s.hear(2, &Commit{Proposal{ID: third, T: tx}})
	s.sent = nil
	if n := s.r.Pending(); n != 1 {
		t.Errorf("%d pending, want the row", n)
	}

	s.pass(s.r.antiEntropy.overdue - 1)
	s.sends()
	s.pass(1)
	s.sends("to 2: query rows of [0]")
	s.pass(tickEvery)
	s.sends() // it has sent a query
	s.hear(2, &RowReport{[]RowKnowledge{{Node: 0, Received: 1, Beyond: nil}}})
	s.sends("to 2: commit 0/3: after {}")
	s.pass(tickEvery)
	s.sends("to 2: query rows of [0]")
	if n := s.r.Pending(); n != 1 {
		t.Errorf("%d pending before the other has the decision, want 1", n)
	}
	s.hear(2, &RowReport{[]RowKnowledge{{Node: 0, Received: 1, Beyond: []uint64{2, 3}}}})
	s.pass(tickEvery)
	s.sends()
	if n := s.r.Pending(); n != 0 {
		t.Errorf("%d pending when the other has the decision", n)
	}

	s.hear(2, &RowQuery{[]geo.NodeID{0}})
	s.sends("to 2: report rows: 0 received to 1 and decided [3]")
	s.hear(0, preAccept(instance(0, 2), "a2+1"))
	s.hear(0, &PreAccept{3, tx})
	s.hear(0, &Commit{Proposal{ID: instance(0, 2)}})
	s.sent = nil
	s.pass(tickEvery)
	s.hear(2, &RowQuery{[]geo.NodeID{0}})
	s.sends("to 2: report rows: 0 received to 3 and decided []")
	if n := len(s.r.rows[0].strays); n != 0 {
		t.Errorf("%d decisions are kept as beyond what was received", n)
	}
}

// Messages that no replica of this version sends have no effect.
func TestStrangeRowMessages(t *testing.T) {
	s := newScripted(t, 3, 2, 0)
	s.hear(2, &RowQuery{[]geo.NodeID{6, 65535}})
	s.sends("to 2: report rows:")
	s.hear(2, &RowReport{[]RowKnowledge{{Node: 4}, {Node: 65535, Received: 1}}})
	s.hear(1, &RowReport{[]RowKnowledge{{Node: 4}}}) // from a replica of another partition
	s.sends()
}
