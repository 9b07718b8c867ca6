package sunstorm

import (
	"reflect"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// newNode returns a started node of a database of two regions with five nodes each.
func newNode(t *testing.T, self geo.NodeID, incarnation uint32) (*Replica, *protocoltest.Quiet) {
	return newNodeOf(t, simload.Topology(1, 5, [][]float64{{0, 5}, {5, 0}}), self, incarnation, nil)
}

func newNodeOf(t *testing.T, topology *geo.Topology, self geo.NodeID, incarnation uint32, given map[string]string) (*Replica, *protocoltest.Quiet) {
	q := protocoltest.NewQuiet()
	s := store.NewVersioned()
	if incarnation == 0 {
		for shard := range uint64(4) {
			s.Load(simload.Key(shard), make([]byte, 8))
		}
	}
	r := newReplica(protocol.Config{
		Self: self, Incarnation: incarnation, Topology: topology,
		Params: protocoltest.Params(t, Engine, given), Procedures: simload.Procedures, Store: s, Env: q,
	}, none)
	r.Start()
	return r, q
}

// pieceOf returns a piece that contains a whole copy.
func pieceOf(m *rowsCopy) *statetransfer.Piece {
	o := statetransfer.NewOutgoing(m.appendTo(nil), 0)
	return &statetransfer.Piece{ID: 1, Part: o.Next(statetransfer.PieceBytes)}
}

// The confirmations of a lost storage copy no longer count for the majority. Durable entries stay durable.
func TestPredecessorsLog(t *testing.T) {
	w, q := newNode(t, 0, 0)
	w.Submit(simload.Txn(1, "a0+1"))
	for n := geo.NodeID(1); n < 3; n++ {
		w.Receive(n, &Persisted{1})
	}
	w.Submit(simload.Txn(2, "a0+1"))
	w.Receive(1, &Persisted{2})
	w.Replaced(1, 1)
	if w.FullyReplicated() {
		t.Error("whole before the new incarnation has spoken")
	}
	w.Receive(2, &Persisted{2})
	if len(q.Replies) != 1 || w.wal.durable != 1 {
		t.Errorf("%d answers, %d entries durable, with the writer and one other of five", len(q.Replies), w.wal.durable)
	}
	w.Receive(1, &Persisted{2})
	if len(q.Replies) != 2 || !w.FullyReplicated() {
		t.Errorf("%d answers, whole %v, with the new incarnation", len(q.Replies), w.FullyReplicated())
	}
}

// A new incarnation waits for the copies of all writers. If a log part arrives before the rows, the new incarnation
// applies only the entries that the rows do not include.
func TestNewIncarnation(t *testing.T) {
	r, q := newNode(t, 1, 1)
	if got := q.Take(0); len(got) != 1 || len(q.Take(5)) != 1 {
		t.Errorf("asks for %v", got)
	}
	write := func(shard uint64, v string) []txn.WriteEntry {
		return []txn.WriteEntry{{Key: simload.Key(shard), Value: []byte(v)}}
	}
	r.Receive(0, &Log{3, []Entry{{Kind: Committed, ID: 7, Writes: write(0, "older")}, {Kind: CommitPrepared, ID: 8}}})
	if got := q.Take(0); len(got) > 0 || r.FullyReplicated() {
		t.Errorf("says %v of a log without rows", got)
	}
	r.Receive(0, pieceOf(&rowsCopy{
		Last: 3, Rows: []store.Row{{Key: simload.Key(0), Record: store.Record{Writer: 7, Value: []byte("newer")}}}, Prepared: []Entry{{Prepared, 8, write(2, "prepared"), Name{0, 1}}},
	}))
	if got := q.Take(0); len(got) != 3 || !reflect.DeepEqual(got[1:], []protocol.Message{&Persisted{3}, &Persisted{4}}) {
		t.Errorf("says %v", got)
	}
	for shard, want := range map[uint64]string{0: "newer", 2: "prepared"} {
		if rec, _ := r.store.Get(simload.Key(shard)); string(rec.Value) != want {
			t.Errorf("row %d is %q, want %q", shard, rec.Value, want)
		}
	}
	if r.FullyReplicated() || r.Pending() == 0 {
		t.Error("whole without the rows of the other region")
	}
	if r.Receive(5, pieceOf(&rowsCopy{})); !r.FullyReplicated() || r.Pending() > 0 {
		t.Errorf("whole %v, %d pending", r.FullyReplicated(), r.Pending())
	}
	// The predecessor has forwarded the transaction, so its client does not wait for this incarnation.
	if r.Receive(0, &Answer{txn.Outcome{ID: 9}}); len(q.Replies) > 0 {
		t.Error("answers for its predecessor")
	}
}

// A copy contains the state that the writer's own log has produced, including prepared transactions. It contains no
// rows of other writers.
func TestCopied(t *testing.T) {
	w, q := newNode(t, 0, 0)
	w.Submit(simload.Txn(1, "a0+1"))
	w.Submit(simload.Txn(2, "a1+1 a2+1")) // of both regions
	c := w.copied(true)
	if c.Last != 2 || len(c.Rows) != 2 || len(c.Prepared) != 1 || c.Rows[0].Writer != 1 || c.Prepared[0].ID != 2 {
		t.Errorf("copies %+v", c)
	}
	data := c.appendTo(nil)
	if got, err := readCopy(data, 10); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("%+v comes back as %+v: %v", c, got, err)
	}
	for n := range data {
		if _, err := readCopy(data[:n], 10); err == nil {
			t.Errorf("%d of %d bytes are taken", n, len(data))
		}
	}
	q.Sent = map[geo.NodeID][]protocol.Message{}
	for range 2 { // at the second request, the copy is in flight
		w.Receive(1, &Lost{})
	}
	if got := q.Take(1); len(got) != 1 {
		t.Errorf("sends %v", got)
	}
	w.Replaced(1, 2)
	if w.Receive(1, &Lost{}); len(q.Take(1)) != 1 {
		t.Error("the next incarnation is sent nothing")
	}
}

// A copy for another region waits until its entries are durable: a later writer may not have these entries.
func TestCopyWaits(t *testing.T) {
	w, q := newNode(t, 0, 0)
	w.Submit(simload.Txn(1, "a0+1"))
	for range 2 {
		w.Receive(6, &Lost{})
	}
	w.Receive(1, &Persisted{1})
	if got := q.Take(6); len(got) > 0 {
		t.Errorf("sends %v, which one of two has", got)
	}
	w.Receive(2, &Persisted{1})
	if got := q.Take(6); len(got) != 2 || got[0].Kind() != kindLog {
		t.Errorf("sends %v, want the log and a copy", got)
	}
	w.Submit(simload.Txn(2, "a0+1"))
	w.Receive(7, &Lost{})
	w.Replaced(7, 2)
	w.Receive(1, &Persisted{2})
	w.Receive(2, &Persisted{2})
	if got := q.Take(7); len(got) != 2 {
		t.Errorf("sends %v, also what the one before has asked for", got)
	}
}

// A node that lacks the end of a lost writer's log receives a copy of the rows. The copy replaces the node's rows of
// that writer, and the log parts that the node has received but not applied.
func TestEndOfALogIsLost(t *testing.T) {
	topology := simload.Topology(1, 2, [][]float64{{0, 5}, {5, 0}})
	r, q := newNodeOf(t, topology, 3, 0, map[string]string{"copyLag": "1s"})
	write := func(shard uint64, v string) []txn.WriteEntry {
		return []txn.WriteEntry{{Key: simload.Key(shard), Value: []byte(v)}}
	}
	r.Receive(0, &Log{1, []Entry{{Kind: Committed, ID: 7, Writes: write(0, "older")}, {Prepared, 8, write(2, "aborted"), Name{0, 1}}}})
	r.Replaced(0, 1)
	if r.FullyReplicated() {
		t.Error("whole before the new writer has said where its log ends")
	}
	r.Receive(0, &Recovered{4})
	if got := q.Take(0); !reflect.DeepEqual(got, []protocol.Message{&Lost{}}) || r.FullyReplicated() {
		t.Errorf("says %v, whole %v", got, r.FullyReplicated())
	}
	r.Receive(0, &Log{5, []Entry{{Kind: Committed, ID: 9, Writes: write(4, "new")}}})
	r.Receive(0, pieceOf(&rowsCopy{Last: 4, Rows: []store.Row{{Key: simload.Key(0), Record: store.Record{Writer: 7, Value: []byte("newer")}}}}))
	if got := q.Take(0); len(got) != 2 || !reflect.DeepEqual(got[1], &Persisted{4}) || !r.FullyReplicated() {
		t.Errorf("says %v, whole %v", got, r.FullyReplicated())
	}
	if rec, _ := r.store.Get(simload.Key(0)); string(rec.Value) != "newer" || r.lagging.Len() != 1 || len(r.copies[0].tentative) > 0 {
		t.Errorf("row 0 is %q, %d parts of logs to apply, %d prepared", rec.Value, r.lagging.Len(), len(r.copies[0].tentative))
	}
	if _, there := r.store.Get(simload.Key(2)); there {
		t.Error("has a row that is not in the copy")
	}
	if _, there := r.store.Get(simload.Key(1)); !there {
		t.Error("lacks a row of another home")
	}
	r.Replaced(0, 2)
	r.Receive(0, &Recovered{5})
	if got := q.Take(0); !reflect.DeepEqual(got, []protocol.Message{&Persisted{5}}) || !r.FullyReplicated() {
		t.Errorf("says %v of a log that it has, whole %v", got, r.FullyReplicated())
	}
}

// All nodes can be replaced if each cell has two or more nodes, and none if each cell has a single node.
func TestReplaces(t *testing.T) {
	for replicas, want := range map[int]int{1: 0, 2: 8, 3: 12} {
		topology := simload.Topology(2, replicas, [][]float64{{0, 5}, {5, 0}})
		if n := len(Engine.Replaces(topology, nil)); n != want {
			t.Errorf("%d nodes can be replaced, of %d", n, topology.Nodes())
		}
	}
}
