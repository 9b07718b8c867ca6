package sunstorm

import (
	"reflect"
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// A new incarnation of a writer takes the longest log of its storage copies and continues once a majority has it. It
// accepts transactions once it knows the outcome of all transactions prepared there. Transactions that read rows of
// other regions wait for these rows.
func TestNewWriter(t *testing.T) {
	w, q := newNodeOf(t, simload.Topology(1, 5, [][]float64{{0, 5}, {5, 0}}), 0, 1, map[string]string{"keysPerPage": "10"})
	if got := q.Take(5); !reflect.DeepEqual(got, []protocol.Message{&Lost{}}) {
		t.Errorf("asks the other writer for %v", got)
	}
	for n, last := range []uint64{4, 5, 4, 3} {
		n := geo.NodeID(n + 1)
		if got := q.Take(n); !reflect.DeepEqual(got, []protocol.Message{&Survey{}}) {
			t.Errorf("asks node %d for %v", n, got)
		}
		w.Receive(n, &Persisted{last})
	}
	if got := q.Take(2); !reflect.DeepEqual(got, []protocol.Message{&Lost{}}) {
		t.Errorf("asks the one with most for %v", got)
	}
	w.Submit(simload.Txn(20, "a0+1"))
	w.Receive(1, &Forward{simload.Txn(21, "a0+1")})
	w.Receive(1, &Lost{}) // too early
	prepared := func(id txn.ID, shard uint64) Entry {
		return Entry{Prepared, id, []txn.WriteEntry{{Key: simload.Key(shard), Value: []byte("prepared")}}, Name{5, 1}}
	}
	had := names{}
	had.add(3, Name{5, 1})
	w.Receive(2, pieceOf(&rowsCopy{
		Last: 5, Rows: []store.Row{{Key: simload.Key(0), Record: store.Record{Writer: 7, Value: make([]byte, 8)}}},
		Prepared: []Entry{prepared(8, 0), prepared(9, 2), prepared(10, 4), prepared(11, 6)}, Committed: had,
	}))
	if got := q.Take(1); len(got) != 1 || !reflect.DeepEqual(got[0], &Recovered{5}) {
		t.Errorf("says %v to one who lacks an entry", got)
	}
	if got := q.Take(6); len(got) > 0 {
		t.Errorf("says %v to another region before a majority has the log", got)
	}
	if w.Receive(1, &Lost{}); len(q.Take(1)) != 1 {
		t.Error("sends no copy to one who lacks an entry")
	}
	w.Receive(2, &Persisted{5})
	w.Receive(3, &Persisted{4}) // a second answer to the survey
	if got := q.Take(6); len(got) > 0 {
		t.Errorf("says %v to another region with the word of two", got)
	}
	w.Receive(1, &Persisted{5})
	if got := q.Take(6); !reflect.DeepEqual(got, []protocol.Message{&Recovered{5}}) {
		t.Errorf("says %v to another region", got)
	}
	asked := &InDoubt{[]Named{{8, Name{5, 1}}, {9, Name{5, 1}}, {10, Name{5, 1}}, {11, Name{5, 1}}}}
	if got := q.Take(5); len(got) != 2 || !reflect.DeepEqual(got[1], asked) {
		t.Errorf("asks the other writer %v", got)
	}

	// The new incarnation reports a yes vote only if its predecessor's log proves it.
	for n, want := range map[Named]Verdict{{8, Name{5, 1}}: Yes, {3, Name{5, 1}}: Yes, {12, Name{5, 1}}: Gone, {8, Name{5, 2}}: Gone, {3, Name{4, 1}}: Gone} {
		w.Receive(5, &Ask{n})
		if got := q.Take(5); !reflect.DeepEqual(got, []protocol.Message{&Settled{n.ID, want}}) {
			t.Errorf("says %v of %v", got, n)
		}
	}
	entries := func() (all []Entry) {
		for _, m := range q.Take(4) {
			if l, ok := m.(*Log); ok {
				all = append(all, l.Entries...)
			}
		}
		return all
	}
	entries()
	w.Receive(5, &Known{Committed: []txn.ID{8}, Open: []txn.ID{9, 10}})
	if got := entries(); !reflect.DeepEqual(got, []Entry{{Kind: CommitPrepared, ID: 8}, {Kind: AbortPrepared, ID: 11}}) {
		t.Errorf("logs %v, of one that is committed elsewhere and one that nobody knows", got)
	}
	w.Receive(5, &Ended{9, true})
	if w.Receive(5, &Ended{9, false}); w.recovery == nil {
		t.Error("takes transactions while one is in doubt")
	}
	w.Receive(5, &Ended{10, false})
	want := []Entry{{Kind: CommitPrepared, ID: 9}, {Kind: AbortPrepared, ID: 10}}
	if got := entries(); len(got) != 4 || !reflect.DeepEqual(got[:2], want) || got[2].ID != 20 || got[3].ID != 21 {
		t.Errorf("logs %v", got)
	}
	if n := w.settlement.name(30); n.Generation <= 1<<20 {
		t.Errorf("names a transaction as its predecessor did, %v", n)
	}
	if !w.settlement.committed.has(9, Name{5, 1}) || w.settlement.committed.has(10, Name{5, 1}) {
		t.Error("remembers what was aborted, and not what was committed")
	}
	w.Submit(simload.Txn(22, "a0+1 a1+1"))
	w.Receive(5, &Read{ID: 23, Round: 1, Ranges: []txn.Range{txn.Point(simload.Key(0)), txn.Point(simload.Key(1))}})
	if got := q.Take(5); len(got) > 0 || w.Pending() < 2 {
		t.Errorf("says %v without the rows of the other region", got)
	}
	w.Receive(5, pieceOf(&rowsCopy{Rows: []store.Row{{Key: simload.Key(1), Record: store.Record{Value: make([]byte, 8)}}}}))
	for _, n := range []geo.NodeID{1, 2} {
		w.Receive(n, &Persisted{w.wal.last})
	}
	got := q.Take(5)
	if k := slices.IndexFunc(got, func(m protocol.Message) bool { return m.Kind() == kindRows }); k < 0 || len(got[k].(*Rows).Found[1]) != 1 {
		t.Errorf("says %v to who wants to read", got)
	}
	if !slices.ContainsFunc(got, func(m protocol.Message) bool { return m.Kind() == kindReusedPrepare }) {
		t.Errorf("does not go on with the transaction, but says %v", got)
	}
	reads := &optimistic.Reads{Points: []optimistic.Point{{Key: simload.Key(60)}}}
	if w.writer.pages.outdated(reads, 5) || !w.writer.pages.outdated(reads, 4) {
		t.Error("a page that may have changed with the last entry of the predecessor's was not")
	}
	for _, n := range []geo.NodeID{1, 2, 4, 5, 6, 7, 8, 9, 3} {
		if w.FullyReplicated() {
			t.Errorf("whole without the word of node %d", n)
		}
		w.Receive(n, &Persisted{5})
	}
	if !w.FullyReplicated() {
		t.Error("is not whole")
	}
}

// A new incarnation asks again when it learns of other new incarnations: its earlier requests went to the predecessors
// of these incarnations.
func TestAsksNewOnes(t *testing.T) {
	w, q := newNode(t, 0, 1)
	w.Receive(2, &Persisted{0})
	for _, n := range []geo.NodeID{1, 5} {
		first := q.Take(n)
		if w.Replaced(n, 1); !reflect.DeepEqual(q.Take(n), first) || len(first) == 0 {
			t.Errorf("asks node %d for %v, and not again", n, first)
		}
	}
}

// A writer starts an empty log if all its storage copies have reported that theirs are empty.
func TestNewWriterOfAnEmptyLog(t *testing.T) {
	w, q := newNodeOf(t, simload.Topology(1, 3, [][]float64{{0}}), 0, 1, nil)
	w.Receive(1, &Persisted{0})
	if w.Receive(2, &Persisted{0}); w.recovery == nil {
		t.Error("takes transactions without rows")
	}
	w.Receive(1, pieceOf(&rowsCopy{Rows: []store.Row{{Key: simload.Key(0), Record: store.Record{Value: make([]byte, 8)}}}}))
	w.Submit(simload.Txn(1, "a0+1"))
	w.Receive(1, &Persisted{0})
	w.Receive(1, &Persisted{1})
	if len(q.Replies) != 1 || q.Replies[0].Status != txn.Committed {
		t.Errorf("answers %v", q.Replies)
	}
}

// A transaction in doubt is aborted only when all other writers have reported that they do not know it.
func TestAllAreAsked(t *testing.T) {
	for name, last := range map[string]*Known{"nobody": {}, "the last one": {Committed: []txn.ID{8}}} {
		w, _ := newNodeOf(t, simload.Topology(1, 2, [][]float64{{0, 5, 5}, {5, 0, 5}, {5, 5, 0}}), 0, 1, nil)
		w.Receive(1, &Persisted{1})
		w.Receive(1, pieceOf(&rowsCopy{Last: 1, Prepared: []Entry{{Prepared, 8, nil, Name{4, 1}}}}))
		w.Receive(1, &Persisted{1})
		if w.Receive(2, &Known{}); w.recovery == nil {
			t.Errorf("%s: takes transactions before the last one has answered", name)
		}
		w.Receive(4, last)
		if w.recovery != nil || w.settlement.committed.has(8, Name{4, 1}) != (len(last.Committed) > 0) {
			t.Errorf("%s has committed it: recovery %+v", name, w.recovery)
		}
	}
}

// A new writer is not fully replicated before all other writers have answered InDoubt.
func TestAllAreTold(t *testing.T) {
	w, q := newNodeOf(t, simload.Topology(1, 2, [][]float64{{0, 5}, {5, 0}}), 0, 1, nil)
	w.Receive(1, &Persisted{0})
	w.Receive(1, pieceOf(&rowsCopy{}))
	w.Receive(2, pieceOf(&rowsCopy{}))
	for n := geo.NodeID(1); n < 4; n++ {
		w.Receive(n, &Persisted{0})
	}
	w.Submit(simload.Txn(1, "a0+1"))
	if w.Receive(1, &Persisted{1}); len(q.Replies) != 1 || w.FullyReplicated() {
		t.Errorf("%d answers, whole %v, before the other writer has answered", len(q.Replies), w.FullyReplicated())
	}
	if w.Receive(2, &Known{}); !w.FullyReplicated() {
		t.Error("is not whole")
	}
}

// Reads that the predecessor has not answered are sent again. The new incarnation considers its predecessor's snapshots
// too old.
func TestReadAgain(t *testing.T) {
	topology := simload.Topology(2, 2, [][]float64{{0}})
	r, q := newNodeOf(t, topology, 0, 0, nil)
	r.Submit(simload.Txn(1, "a0+1 a1+1"))
	first := q.Take(2)
	r.Replaced(2, 1)
	if got := q.Take(2); len(first) != 1 || len(got) < 1 || !reflect.DeepEqual(got[0], first[0]) {
		t.Errorf("asks for %v, and then for %v", first, got)
	}
	w, q := newNodeOf(t, topology, 2, 1, nil)
	w.recovery, w.replacement.incoming[0] = nil, nil
	w.Receive(0, &Read{ID: 1, Round: 2, Snapshot: 9, Ranges: []txn.Range{txn.Point(simload.Key(1))}})
	if got := q.Take(0); !reflect.DeepEqual(got[len(got)-1], &Rows{ID: 1, Round: 2, Snapshot: 9}) {
		t.Errorf("says %v of its predecessor's snapshot", got)
	}
}
