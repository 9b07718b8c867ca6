package primary

import (
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/simload"
)

// A node with rows accepts messages of its current term. It holds messages of later terms, and drops messages of
// earlier terms.
func TestMessagesOfATerm(t *testing.T) {
	for name, tc := range map[string]struct {
		term       uint64
		lacks      bool
		done, held int
	}{
		"this term":               {2, false, 1, 0},
		"an earlier term":         {1, false, 0, 0},
		"a later term":            {3, false, 0, 1},
		"this term, without rows": {2, true, 0, 1},
	} {
		n := newNode(t, 1, 0, 3, nil)
		n.log.term, n.catchUp.lacks = 2, tc.lacks
		done := 0
		n.failover.atTerm(0, &Ack{}, tc.term, func() { done++ })
		if done != tc.done || len(n.failover.held) != tc.held {
			t.Errorf("%s: taken %d times, %d are held; want %d, %d", name, done, len(n.failover.held), tc.done, tc.held)
		}
	}
}

// A node adopts the writer of the latest known term. Only the writer of the first term starts the configured failover.
func TestLatestTerm(t *testing.T) {
	n := newNode(t, 1, 0, 3, nil)
	n.Receive(0, &Takeover{Term: 2, Writer: 0, Recovered: true})
	if n.Receive(3, &Takeover{Term: 1, Writer: 3, Recovered: true}); n.log.term != 2 || n.log.writer != 0 {
		t.Errorf("after the late news of term 1 node %d writes in term %d, want node 0 in term 2", n.log.writer, n.log.term)
	}
	for term, want := range map[uint64]bool{0: true, 1: false} {
		w := newNode(t, 0, 0, 3, map[string]string{"failover": failoverManaged})
		w.log.term = term
		if w.failover.arm(); w.failover.armed != want {
			t.Errorf("the writer of term %d fails over: %t", term, w.failover.armed)
		}
	}
}

// A node that has its rows accepts no copy. The log position reported by a lost storage node does not count for its new
// incarnation. A shipper ships only the entries of the term's writer.
func TestWhoseWordCounts(t *testing.T) {
	n := newNode(t, 1, 0, 3, nil)
	if n.Receive(0, piece(0, &Copy{Last: 6})); n.log.applied != 0 {
		t.Errorf("a copy is taken that is not needed: at entry %d", n.log.applied)
	}
	w := newNode(t, 0, 1, 4, nil)
	w.Receive(1, &Standing{Applied: 7, Last: 7})
	w.Receive(2, &Standing{Applied: 5, Last: 8})
	w.Replaced(1, 1)
	if _, told := w.catchUp.standings[1]; told || len(w.catchUp.standings) != 1 {
		t.Errorf("the log of a lost node counts: %v", w.catchUp.standings)
	}
	for from, want := range map[geo.NodeID]int{0: 1, 2: 0} {
		n := newNode(t, 1, 0, 3, map[string]string{"shippedBy": shippedByStorage})
		if n.log.collect(from, &Append{First: 1, Entries: []Entry{entry(1)}}); len(n.log.outbox) != want {
			t.Errorf("of what node %d has sent, %d entries are to be shipped, want %d", from, len(n.log.outbox), want)
		}
	}
}

// An acknowledgement of a storage node counts only in its term. A new incarnation of the writer takes the longest log
// of the latest term, and writes in the next term.
func TestTermsOfTheStorage(t *testing.T) {
	w := newNode(t, 0, 0, 3, nil)
	w.log.term = 1
	w.Submit(simload.Txn(1, "a1+1"))
	if w.Receive(1, &Ack{Term: 0, Last: 1}); len(w.Replies) > 0 {
		t.Error("what was acknowledged in term 0 counts in term 1")
	}
	if w.Receive(1, &Ack{Term: 1, Last: 1}); len(w.Replies) != 1 {
		t.Error("what was acknowledged in term 1 does not count in it")
	}
	w = newNode(t, 0, 1, 4, nil)
	for n, s := range map[geo.NodeID]*Standing{1: {Term: 1, Applied: 9, Last: 9}, 2: {Term: 2, Applied: 5, Last: 6}, 3: {Term: 2, Applied: 5, Last: 5}} {
		w.Receive(n, s)
	}
	if got := w.catchUp.longest(); got != 2 {
		t.Errorf("the longest log of the latest term is that of node %d, want 2", got)
	}
	if w.Receive(2, piece(1, &Copy{Term: 2, Last: 5})); w.log.term != 3 {
		t.Errorf("it writes in term %d behind a log of term 2, want 3", w.log.term)
	}
}
