package primary

import (
	"reflect"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// node is a replica together with its environment, in which no time passes.
type node struct {
	*Replica
	*protocoltest.Quiet
}

// newNode returns a started node of a database with two regions.
func newNode(t *testing.T, self geo.NodeID, incarnation uint32, replicas int, given map[string]string) *node {
	q := protocoltest.NewQuiet()
	r := newReplica(protocol.Config{
		Self: self, Incarnation: incarnation, Topology: simload.Topology(1, replicas, [][]float64{{0, 5}, {5, 0}}),
		Params: protocoltest.Params(t, Engine, given), Procedures: simload.Procedures, Store: store.NewHash(), Env: q,
	}, none)
	r.Start()
	return &node{r, q}
}

// entry returns log entry number, which writes row number.
func entry(number uint64) Entry {
	return Entry{
		Name: raftgroup.Name{Coordinator: 1, Number: number}, Oldest: 1, Outcome: txn.Outcome{ID: txn.MakeID(1, number), Status: txn.Committed},
		Writes: []txn.WriteEntry{{Key: simload.Key(number), Value: []byte("v")}},
	}
}

// piece returns a copy as a single piece.
func piece(id uint64, m *Copy) *statetransfer.Piece {
	o := statetransfer.NewOutgoing(m.appendTo(nil), 0)
	return &statetransfer.Piece{ID: id, Part: o.Next(statetransfer.PieceBytes)}
}

// Acknowledgements of a lost storage node no longer count.
func TestPredecessorsAcknowledgement(t *testing.T) {
	w := newNode(t, 0, 0, 4, nil)
	w.Submit(simload.Txn(1, "a1+1"))
	w.Receive(1, &Ack{Last: 1})
	w.Replaced(1, 1)
	w.Receive(2, &Ack{Last: 1})
	if len(w.Replies) > 0 {
		t.Error("committed with the writer and one other of four")
	}
	if w.FullyReplicated() {
		t.Error("whole before the new incarnation has spoken")
	}
	w.Receive(1, &Ack{Last: 1})
	if len(w.Replies) != 1 || !w.FullyReplicated() {
		t.Errorf("%d answers, whole %v, with the new incarnation", len(w.Replies), w.FullyReplicated())
	}
}

// A new incarnation of the writer waits for the positions of all its storage nodes, and takes the longest log.
func TestLongestLog(t *testing.T) {
	w := newNode(t, 0, 1, 4, nil)
	w.Receive(1, &Standing{Applied: 7, Last: 7})
	w.Receive(2, &Standing{Applied: 5, Last: 8})
	if len(w.Take(2)) != 1 || len(w.Take(1)) != 1 {
		t.Error("asks for a copy before it knows of all logs")
	}
	w.Take(3)
	w.Receive(3, &Standing{Applied: 6, Last: 8})
	if got := w.Take(3); len(got) != 1 || !reflect.DeepEqual(got[0], &Behind{Ask: 1}) || len(w.Sent) > 0 {
		t.Errorf("asks node 3 %v, and others %v", got, w.Sent)
	}
	if w.FullyReplicated() || w.Pending() == 0 {
		t.Error("whole without rows")
	}
}

// Readers may rely on answers of the last writer before the new writer has committed the same entries again. No storage
// node counts as a copy until it has sent a message in the new term.
func TestRecovered(t *testing.T) {
	w := newNode(t, 0, 1, 3, nil)
	for n := geo.NodeID(1); n < 3; n++ {
		w.Receive(n, &Standing{Applied: 1, Last: 2})
	}
	w.Receive(1, piece(1, &Copy{Last: 1, Endings: raftgroup.Endings[txn.Outcome]{}, Tail: []Entry{entry(2)}}))
	w.Sent = map[geo.NodeID][]protocol.Message{}
	w.Receive(3, &Request{Term: 1, Number: 1, Step: 1, Barrier: true})
	if got := w.Take(3); len(got) != 1 || !reflect.DeepEqual(got[0], &Reply{Term: 1, Number: 1, Step: 1, Committed: 2}) {
		t.Errorf("a reader is told %v", got)
	}
	w.Submit(simload.Txn(1, "r2"))
	if len(w.Replies) > 0 {
		t.Error("what may not be committed is read")
	}
	w.Receive(1, &Ack{Term: 0, Last: 2})
	if w.Receive(1, &Ack{Term: 1, Last: 2}); w.FullyReplicated() {
		t.Error("whole before all of the storage has spoken")
	}
	if w.Receive(2, &Ack{Term: 1, Last: 1}); !w.FullyReplicated() || len(w.Replies) != 1 {
		t.Errorf("whole %v, %d answers", w.FullyReplicated(), len(w.Replies))
	}
	// The term was announced to the predecessor of a node that joins later.
	w.Take(4)
	w.Replaced(4, 1)
	if got := w.Take(4); len(got) != 2 || !reflect.DeepEqual(got[0], &Takeover{Term: 1, Base: 1, Recovered: true}) {
		t.Errorf("a new incarnation is told %v", got)
	}
}

// The sender of a copy may have made the copy before it restored a later copy itself. The earlier copy leaves a gap at
// its receiver, and the receiver asks for another copy.
func TestCopyTooOld(t *testing.T) {
	given := map[string]string{"shippedBy": "Storage"}
	n := newNode(t, 3, 1, 2, given) // its instance is node 2
	n.Take(2)
	n.Receive(2, &Ahead{Last: 5})
	n.Receive(2, piece(1, &Copy{Last: 4}))
	if got := n.Take(2); len(got) != 2 || !reflect.DeepEqual(got[1], &Behind{Ask: 2}) || n.FullyReplicated() {
		t.Errorf("sends %v, whole %v", got, n.FullyReplicated())
	}
	if n.Receive(2, piece(1, &Copy{Last: 6})); n.FullyReplicated() {
		t.Error("takes what it has not asked for")
	}
	if n.Receive(2, piece(2, &Copy{Last: 5})); !n.FullyReplicated() || n.log.applied != 5 {
		t.Errorf("whole %v, at entry %d", n.FullyReplicated(), n.log.applied)
	}
}

// A node that has no rows itself does not report a log position to a new incarnation of the writer.
func TestSurveyOfTheLacking(t *testing.T) {
	n := newNode(t, 1, 1, 3, nil)
	n.Take(0)
	n.Receive(0, &Survey{})
	if got := n.Take(0); len(got) > 0 {
		t.Errorf("says %v", got)
	}
	n.Receive(0, piece(1, &Copy{Last: 3, Committed: 2}))
	if got := n.Take(0); len(got) != 3 || !reflect.DeepEqual(got[2], &Standing{Applied: 3, Last: 3}) {
		t.Errorf("says %v", got)
	}
}

// Only storage nodes may receive copies with uncommitted entries.
func TestCopiesOfTheUncommitted(t *testing.T) {
	w := newNode(t, 0, 0, 3, nil)
	w.Submit(simload.Txn(1, "a1+1"))
	w.Sent = map[geo.NodeID][]protocol.Message{}
	w.Receive(1, &Behind{Ask: 1})
	w.Receive(3, &Behind{Ask: 1})
	if len(w.Take(1)) != 1 || len(w.Take(3)) != 0 {
		t.Error("the storage has to have it, and no reader may")
	}
	w.Receive(3, &Behind{Ask: 1}) // repeated request
	w.Receive(1, &Ack{Last: 1})
	if got := w.Take(3); len(got) != 1 {
		t.Errorf("a reader is sent %v", got)
	}
	w.Receive(3, &Behind{Ask: 1}) // the copy is in flight
	if got := w.Take(3); len(got) > 0 {
		t.Errorf("a reader is sent %v once more", got)
	}
	w.Replaced(3, 1)
	if w.catchUp.outgoing.Busy(3) {
		t.Error("what was under way to a lost node is not given up")
	}
}

// All nodes can be replaced, except a writer that is the only node with the log.
func TestReplaces(t *testing.T) {
	for name, tc := range map[string]struct {
		replicas int
		failover string
		want     []geo.NodeID
	}{
		"several nodes":              {2, "None", []geo.NodeID{0, 1, 2, 3, 4, 5}},
		"the writer is alone":        {1, "None", []geo.NodeID{1, 2}},
		"the writer moves":           {2, "Managed", []geo.NodeID{1, 3, 4, 5}},
		"what is committed is lost":  {2, "Unplanned", nil},
		"the writer moves, one node": {1, "Managed", []geo.NodeID{2}},
	} {
		topology := simload.Topology(1, tc.replicas, [][]float64{{0, 5, 5}, {5, 0, 5}, {5, 5, 0}})
		if got := Engine.Replaces(topology, protocoltest.Params(t, Engine, map[string]string{"failover": tc.failover})); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
