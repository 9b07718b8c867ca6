package sunstorm

import (
	"reflect"
	"testing"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// newWriter returns the writer of region b in a database of three regions with two nodes each. The writers are nodes 0,
// 2 and 4.
func newWriter(t *testing.T, votes string) (*Replica, *protocoltest.Quiet) {
	return newNodeOf(t, simload.Topology(1, 2, [][]float64{{0, 5, 5}, {5, 0, 5}, {5, 5, 0}}), 2, 0, map[string]string{"votes": votes})
}

// prepareOf returns the Prepare of a transaction of all three regions that reads row 1, of region b.
func prepareOf(id txn.ID) *Prepare {
	return &Prepare{id, []geo.NodeID{0, 2, 4}, Part{Reads: optimistic.Reads{Points: []optimistic.Point{{Key: simload.Key(1)}}}}, 0}
}

func want(t *testing.T, q *protocoltest.Quiet, to geo.NodeID, want ...protocol.Message) {
	t.Helper()
	var got []protocol.Message
	for _, m := range q.Take(to) {
		if m.Kind() != kindLog {
			got = append(got, m)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("says %v to node %d, want %v", got, to, want)
	}
}

// If a lost writer's vote is missing, the new incarnation supplies it. The node is fully replicated once the outcomes
// of the open transactions are durable and all writers know of the new incarnation.
func TestVoteIsAskedFor(t *testing.T) {
	for _, votes := range []string{votesDirect, votesAcknowledged} {
		w, q := newWriter(t, votes)
		w.Receive(4, prepareOf(7))
		w.Receive(3, &Persisted{1})
		want(t, q, 0, &Vote{7, Yes})
		want(t, q, 4, &Vote{7, Yes})
		w.Receive(4, &Received{7})
		w.Replaced(0, 1)
		want(t, q, 0, &Ask{Named{7, Name{4, 1}}})
		want(t, q, 4, &Aware{0, 1})
		w.Receive(0, &Recovered{0})
		if w.Receive(4, &Aware{0, 1}); w.FullyReplicated() {
			t.Error("whole while a transaction is open")
		}
		for range 2 {
			w.Receive(0, &Settled{7, Yes})
		}
		if w.Pending() > 1 || w.FullyReplicated() || !w.settlement.committed.has(7, Name{4, 1}) {
			t.Errorf("%d pending, whole %v, with the vote", w.Pending(), w.FullyReplicated())
		}
		if w.Receive(3, &Persisted{2}); !w.FullyReplicated() || w.Pending() > 0 {
			t.Errorf("%d pending, whole %v, with a durable end", w.Pending(), w.FullyReplicated())
		}
	}
}

// A vote that has arrived is not requested. A node is not fully replicated before all writers have reported that they
// know of the new incarnation.
func TestVoteHasCome(t *testing.T) {
	w, q := newWriter(t, votesDirect)
	w.Receive(0, &Vote{7, Yes})
	w.Receive(4, prepareOf(7))
	w.Replaced(0, 1)
	w.Receive(0, &Recovered{0})
	want(t, q, 0, &Persisted{0})
	w.Receive(3, &Persisted{1})
	want(t, q, 0) // no vote: the transaction is the predecessor's
	if w.Receive(3, &Persisted{2}); w.FullyReplicated() || w.Pending() > 0 {
		t.Errorf("%d pending, whole %v, before the third writer knows", w.Pending(), w.FullyReplicated())
	}
	if w.Receive(4, &Aware{0, 1}); !w.FullyReplicated() {
		t.Error("is not whole")
	}
}

// A transaction involves a new incarnation if its initiator knew of that incarnation when it sent Prepare. Otherwise it
// involves the predecessor.
func TestOlderAndNewer(t *testing.T) {
	w, q := newWriter(t, votesDirect)
	w.Receive(4, &Aware{0, 1})
	w.Receive(4, prepareOf(7))
	w.Receive(3, &Persisted{1})
	want(t, q, 0, &Vote{7, Yes}) // this vote is lost
	w.Receive(4, prepareOf(8))
	w.Replaced(0, 1)
	want(t, q, 0, &Vote{7, Yes})
	w.Receive(3, &Persisted{2})
	want(t, q, 0, &Vote{8, Yes})

	w, q = newWriter(t, votesDirect)
	w.Replaced(0, 1)
	w.Receive(4, prepareOf(7))
	want(t, q, 0, &Ask{Named{7, Name{4, 1}}})
	q.Take(4)
	w.Receive(4, &Aware{0, 1})
	w.Receive(3, &Persisted{1})
	want(t, q, 0)
	want(t, q, 4, &Vote{7, Yes})
	if w.FullyReplicated() {
		t.Error("whole while a transaction of the predecessor's is open")
	}
	w.Receive(4, prepareOf(8))
	w.Receive(3, &Persisted{2})
	want(t, q, 0, &Vote{8, Yes})
}

// A transaction whose Prepare this node has not sent yet involves the new incarnation.
func TestPrepareIsNotSentYet(t *testing.T) {
	w, q := newWriter(t, votesDirect)
	w.Submit(simload.Txn(7, "a0+1 a1+1"))
	w.Replaced(0, 1)
	want(t, q, 0)
	w.Receive(3, &Persisted{1})
	if got := q.Take(0); len(got) == 0 || got[0].Kind() != kindPrepare {
		t.Errorf("says %v", got)
	}
	w.Receive(0, &Vote{7, Yes})
	w.Receive(3, &Persisted{2})
	if len(q.Replies) != 1 || q.Replies[0].Status != txn.Committed {
		t.Errorf("answers %v", q.Replies)
	}
}

// A writer with a Prepare of a lost initiator notifies the others after its vote. A writer without the Prepare votes
// no, and discards the votes that it has received.
func TestOrphans(t *testing.T) {
	w, q := newWriter(t, votesDirect)
	w.Receive(0, prepareOf(7))
	w.Receive(0, prepareOf(8))
	w.Receive(3, &Persisted{1})
	want(t, q, 0, &Vote{7, Yes})
	want(t, q, 4, &Vote{7, Yes})
	w.Replaced(0, 1)
	want(t, q, 0)
	want(t, q, 4, &Aware{0, 1}, &Orphan{7, 0, 1})
	w.Receive(3, &Persisted{2})
	want(t, q, 4, &Vote{8, Yes}, &Orphan{8, 0, 1})
	w.Receive(4, &Orphan{7, 0, 1}) // this writer has the Prepare
	want(t, q, 4)
	w.Receive(4, &Settled{7, Gone})
	w.Receive(4, &Vote{8, Yes})
	if len(w.writer.prepared) > 0 || len(w.writer.open) > 0 || w.settlement.committed.has(7, Name{0, 1}) || !w.settlement.committed.has(8, Name{0, 1}) {
		t.Errorf("%d prepared, %d open", len(w.writer.prepared), len(w.writer.open))
	}

	// The other writer votes, and ends the transaction before it is notified of the loss. Its vote counts only once.
	w, _ = newWriter(t, votesAcknowledged)
	w.Receive(0, prepareOf(7))
	w.Receive(3, &Persisted{1})
	w.Replaced(0, 1)
	w.Receive(4, &Vote{7, Yes})
	w.Receive(4, &Settled{7, Gone})
	if w.Receive(4, &Received{7}); !w.settlement.committed.has(7, Name{0, 1}) || len(w.writer.open) > 0 {
		t.Errorf("%d open, and not committed", len(w.writer.open))
	}

	w, q = newWriter(t, votesDirect)
	w.Receive(4, &Vote{7, Yes})
	w.Receive(4, &Orphan{7, 0, 1})
	want(t, q, 4) // Prepare may still arrive
	w.Receive(4, &Aware{0, 1})
	w.Replaced(0, 1)
	if w.Receive(0, &Recovered{0}); !w.FullyReplicated() || w.Pending() > 0 {
		t.Errorf("%d pending, whole %v", w.Pending(), w.FullyReplicated())
	}
	want(t, q, 4, &Aware{0, 1}, &Settled{7, Gone})
}

// A new incarnation receives the outcomes of its prepared transactions: immediately if they are committed, and
// otherwise when they end. Another run may reuse an id.
func TestInDoubt(t *testing.T) {
	w, q := newWriter(t, votesDirect)
	for id := txn.ID(5); id < 9; id++ {
		w.Receive(4, prepareOf(id))
	}
	w.Receive(3, &Persisted{4})
	w.Receive(0, &Vote{5, Yes})
	w.Receive(0, &Vote{6, Deadlock})
	w.Replaced(0, 1)
	for n := range q.Sent {
		q.Take(n)
	}
	of := func(n uint64) Named { return Named{txn.ID(n), Name{4, 1}} }
	w.Receive(0, &InDoubt{[]Named{of(5), of(6), of(7), {8, Name{4, 2}}, of(9)}})
	want(t, q, 0, &Known{Committed: []txn.ID{5}, Open: []txn.ID{7}})
	w.Receive(0, &Settled{8, Yes})
	w.Receive(0, &Settled{7, Yes})
	want(t, q, 0, &Ended{7, true})
}

// A set of names uses a bit for each transaction, and keeps two generations for each initiator. It can be encoded and
// decoded.
func TestNames(t *testing.T) {
	var s names
	type one struct {
		id txn.ID
		n  Name
	}
	for _, x := range []one{{1, Name{2, 4}}, {2, Name{2, 4}}, {63, Name{2, 4}}, {64, Name{2, 4}}, {1, Name{2, 3}}, {txn.MakeID(1, 1), Name{0, 1<<20 + 1}}} {
		if s.has(x.id, x.n) {
			t.Errorf("has %v, which was not added", x)
		}
		if s.add(x.id, x.n); !s.has(x.id, x.n) {
			t.Errorf("lacks %v", x)
		}
	}
	if s.words() != 4 || s.has(3, Name{2, 4}) || s.has(1, Name{1, 4}) || s.has(1, Name{9, 4}) || s.has(2, Name{2, 3}) || s.has(1, Name{}) {
		t.Errorf("%d words", s.words())
	}
	r := codec.NewReader(s.appendTo(nil))
	got := readNames(&r, 3)
	if r.Done() != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("%v comes back as %v", s, got)
	}
	r = codec.NewReader(s.appendTo(nil))
	if readNames(&r, 2); r.Err() == nil {
		t.Error("takes a name of a node that is none")
	}
	s.add(1, Name{2, 9})
	if s.add(1, Name{2, 3}); s.has(1, Name{2, 3}) || !s.has(64, Name{2, 4}) || s.words() != 4 {
		t.Errorf("%d words, with another generation", s.words())
	}
}

// A reused id denotes another transaction.
func TestIDsComeAgain(t *testing.T) {
	w, _ := newWriter(t, votesDirect)
	for id, want := range map[txn.ID]uint64{1: 1, 2: 1, 3: 1} {
		if n := w.settlement.name(id); n != (Name{2, want}) {
			t.Errorf("names %v %v", id, n)
		}
	}
	for _, id := range []txn.ID{2, 4, 1} {
		if n := w.settlement.name(id); n != (Name{2, 2}) {
			t.Errorf("names %v %v when ids come again", id, n)
		}
	}
	w.Receive(4, &Prepare{ID: 7, Writers: []geo.NodeID{2}, Reused: 1})
	if p := w.writer.prepared[0]; p.name != (Name{4, 2}) {
		t.Errorf("%v", p.name)
	}
	alone, _ := newNodeOf(t, simload.Topology(1, 1, [][]float64{{0}}), 0, 0, nil)
	if n := alone.settlement.name(1); n != (Name{}) {
		t.Errorf("names %v where nobody is replaced", n)
	}
}
