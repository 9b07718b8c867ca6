package sunstorm

import (
	"reflect"
	"testing"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/protocol/protocoltest"
	"github.com/geobench/geobench/internal/protocol/statetransfer"
	"github.com/geobench/geobench/internal/sim/simtest"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/txn"
)

// newNode makes a node of a database of two regions with five nodes each, which has started.
func newNode(t *testing.T, self geo.NodeID, incarnation uint32) (*Replica, *protocoltest.Quiet) {
	q := protocoltest.NewQuiet()
	s := store.NewVersioned()
	if incarnation == 0 {
		for shard := range uint64(4) {
			s.Load(simtest.Key(shard), make([]byte, 8))
		}
	}
	r := newReplica(protocol.Config{
		Self: self, Incarnation: incarnation, Topology: simtest.Topology(1, 5, [][]float64{{0, 5}, {5, 0}}),
		Params: protocoltest.Params(t, Engine, nil), Procedures: simtest.Procedures, Store: s, Env: q,
	}, none)
	r.Start()
	return r, q
}

// What a lost storage copy has said that it has is no copy any more, and what is durable stays so.
func TestPredecessorsLog(t *testing.T) {
	w, q := newNode(t, 0, 0)
	w.Submit(simtest.Txn(1, "a0+1"))
	for n := geo.NodeID(1); n < 3; n++ {
		w.Receive(n, &Persisted{1})
	}
	w.Submit(simtest.Txn(2, "a0+1"))
	w.Receive(1, &Persisted{2})
	w.Replaced(1, 1)
	if w.Whole() {
		t.Error("whole before the new incarnation has spoken")
	}
	w.Receive(2, &Persisted{2})
	if len(q.Replies) != 1 || w.wal.durable != 1 {
		t.Errorf("%d answers, %d entries durable, with the writer and one other of five", len(q.Replies), w.wal.durable)
	}
	w.Receive(1, &Persisted{2})
	if len(q.Replies) != 2 || !w.Whole() {
		t.Errorf("%d answers, whole %v, with the new incarnation", len(q.Replies), w.Whole())
	}
}

// A new incarnation waits for the copies of all writers. Of a log that has come before the rows it applies what is behind them.
func TestNewIncarnation(t *testing.T) {
	r, q := newNode(t, 1, 1)
	if got := q.Take(0); len(got) != 1 || len(q.Take(5)) != 1 {
		t.Errorf("asks for %v", got)
	}
	write := func(shard uint64, v string) []txn.WriteEntry {
		return []txn.WriteEntry{{Key: simtest.Key(shard), Value: []byte(v)}}
	}
	r.Receive(0, &Log{3, []Entry{{Committed, 7, write(0, "older")}, {Kind: CommitPrepared, ID: 8}}})
	if got := q.Take(0); len(got) > 0 || r.Whole() {
		t.Errorf("says %v of a log without rows", got)
	}
	piece := func(m *rowsCopy) *statetransfer.Piece {
		o := statetransfer.NewOutgoing(m.appendTo(nil), 0)
		return &statetransfer.Piece{ID: 1, Part: o.Next(statetransfer.PieceBytes)}
	}
	r.Receive(0, piece(&rowsCopy{
		Last: 3, Rows: []store.Row{{Key: simtest.Key(0), Record: store.Record{Writer: 7, Value: []byte("newer")}}}, Prepared: []Entry{{Prepared, 8, write(2, "prepared")}},
	}))
	if got := q.Take(0); len(got) != 3 || !reflect.DeepEqual(got[1:], []protocol.Message{&Persisted{3}, &Persisted{4}}) {
		t.Errorf("says %v", got)
	}
	for shard, want := range map[uint64]string{0: "newer", 2: "prepared"} {
		if rec, _ := r.store.Get(simtest.Key(shard)); string(rec.Value) != want {
			t.Errorf("row %d is %q, want %q", shard, rec.Value, want)
		}
	}
	if r.Whole() || r.Pending() == 0 {
		t.Error("whole without the rows of the other region")
	}
	if r.Receive(5, piece(&rowsCopy{})); !r.Whole() || r.Pending() > 0 {
		t.Errorf("whole %v, %d pending", r.Whole(), r.Pending())
	}
	// An answer to what the one before has forwarded.
	if r.Receive(0, &Answer{txn.Outcome{ID: 9}}); len(q.Replies) > 0 {
		t.Error("answers for its predecessor")
	}
}

// A copy has what the writer's own log has made, with what is prepared, and no rows of others.
func TestCopied(t *testing.T) {
	w, q := newNode(t, 0, 0)
	w.Submit(simtest.Txn(1, "a0+1"))
	w.Submit(simtest.Txn(2, "a1+1 a2+1")) // of both regions
	c := w.copied()
	if c.Last != 2 || len(c.Rows) != 2 || len(c.Prepared) != 1 || c.Rows[0].Writer != 1 || c.Prepared[0].ID != 2 {
		t.Errorf("copies %+v", c)
	}
	data := c.appendTo(nil)
	if got, err := readCopy(data); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("%+v comes back as %+v: %v", c, got, err)
	}
	for n := range data {
		if _, err := readCopy(data[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken", n, len(data))
		}
	}
	q.Sent = map[geo.NodeID][]protocol.Message{}
	for range 2 { // asked again, it is under way
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

// Storage copies can be replaced, and writers can not.
func TestReplaces(t *testing.T) {
	topology := simtest.Topology(2, 2, [][]float64{{0, 5}, {5, 0}})
	for _, n := range Engine.Replaces(topology, nil) {
		if topology.ReplicaOf(n) == 0 {
			t.Errorf("%s writes", topology.NodeName(n))
		}
	}
	if n := len(Engine.Replaces(topology, nil)); n != 4 {
		t.Errorf("%d nodes can be replaced, of four storage copies", n)
	}
}
