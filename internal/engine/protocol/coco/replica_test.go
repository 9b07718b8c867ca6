package coco

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// world is a test environment that records the node's messages.
type world struct {
	now     time.Duration
	sent    []envelopeTo
	answers []txn.Outcome
}

type envelopeTo struct {
	to geo.NodeID
	m  protocol.Message
}

func (w *world) Now() time.Duration                     { return w.now }
func (w *world) Send(to geo.NodeID, m protocol.Message) { w.sent = append(w.sent, envelopeTo{to, m}) }
func (w *world) After(time.Duration, protocol.Timer)    {}
func (w *world) Offload(func() int64, protocol.Timer)   {}
func (w *world) Reply(o txn.Outcome)                    { w.answers = append(w.answers, o) }
func (*world) Mark(*coverage.Mark)                      {}
func (*world) Buggify(*buggify.Point) bool              { return false }
func (w *world) Rand() *rand.Rand                       { return rand.New(rand.NewPCG(1, 1)) }

// alone returns a node of a database of three regions with a single node each and 30 rows.
func alone(t *testing.T, self geo.NodeID) (*Replica, *world) { return aloneAs(t, self, 0) }

// aloneAs returns an incarnation of a node; a later incarnation has no rows.
func aloneAs(t *testing.T, self geo.NodeID, incarnation uint32) (*Replica, *world) {
	w := &world{}
	topology, rows := simload.ThreeRegions(1), store.NewHash()
	if incarnation == 0 {
		simload.Fill(topology, 30, 10, func(geo.NodeID) store.Store { return rows })
	}
	return newReplica(protocol.Config{
		Self: self, Incarnation: incarnation, Topology: topology, Params: protocoltest.Params(t, Engine, nil), Procedures: simload.Procedures, Store: rows, Env: w,
	}, none), w
}

// everybody returns a view of all nodes, in which the given nodes join.
func everybody(joining ...geo.NodeID) *View {
	return &View{Ballot: 1 << roundBits, Committed: 1, First: 3, Members: []geo.NodeID{0, 1, 2}, Joining: joining, Aborted: []uint64{2}}
}

// A joining node receives a shard in several messages, each within the limit, which together replace its rows.
func TestSnapshotPieces(t *testing.T) {
	joining, _ := alone(t, 2)
	joining.rows.store.Put(simload.Key(2), []byte("old"), 7)
	deleted := simload.Key(300)
	joining.rows.store.Put(deleted, []byte("deleted"), 7)
	v := everybody(2)
	joining.Receive(0, v)
	const limit = 100
	for _, n := range []geo.NodeID{1, 0} {
		primary, w := alone(t, n)
		primary.snapshotBytes = limit
		primary.Receive(0, v)
		pieces := map[int]int{}
		for _, e := range w.sent {
			m, ok := e.m.(*Snapshot)
			if !ok {
				continue
			}
			if joining.base != 0 || len(joining.awaiting) == 0 {
				t.Errorf("it has all rows before %v", m)
			}
			pieces[m.Shard]++
			if header := (&Snapshot{Epoch: m.Epoch, Shard: m.Shard}).Size(); e.to != 2 || m.Size()-header > limit {
				t.Errorf("%v to %d has %d bytes", m, e.to, m.Size())
			}
			joining.Receive(n, m)
		}
		for shard, sent := range pieces {
			if sent < 2 {
				t.Errorf("shard %d was sent in %d messages", shard, sent)
			}
		}
	}
	if joining.base != v.Committed || len(joining.awaiting) > 0 {
		t.Errorf("it has the rows of epoch %d, and lacks some of %v", joining.base, joining.awaiting)
	}
	whole, _ := alone(t, 0)
	for shard := range joining.layout.Shards() {
		got, want := joining.rows.snapshot(&joining.layout, shard, 1<<20)[0], whole.rows.snapshot(&whole.layout, shard, 1<<20)[0]
		if len(got) != len(want) {
			t.Errorf("shard %d has %d rows, want %d", shard, len(got), len(want))
			continue
		}
		for i := range got {
			if got[i].Key != want[i].Key || !bytes.Equal(got[i].Value, want[i].Value) {
				t.Errorf("shard %d has %v, want %v", shard, got[i], want[i])
			}
		}
	}
}

// A row that is larger than the limit is sent in a separate message, and a shard without rows in one message.
func TestSnapshotEdges(t *testing.T) {
	r, _ := alone(t, 0)
	for _, piece := range r.rows.snapshot(&r.layout, 0, 1) {
		if len(piece) != 1 {
			t.Errorf("%d rows in a message", len(piece))
		}
	}
	r.rows.drop(&r.layout, 0)
	if pieces := r.rows.snapshot(&r.layout, 0, 1); len(pieces) != 1 || len(pieces[0]) != 0 {
		t.Errorf("a shard without rows: %v", pieces)
	}
}

// Nodes join under load, and receive each shard in many messages.
func TestCutsWithPieces(t *testing.T) {
	e := *Engine
	var replicas []*Replica
	e.New = func(c protocol.Config) protocol.Replica {
		r := newReplica(c, none)
		r.snapshotBytes = 100
		replicas = append(replicas, r)
		return r
	}
	protocoltest.Cuts(t, &e, nil, 12)
	if !slices.ContainsFunc(replicas, func(r *Replica) bool { return r.counters.snapshots > 0 }) {
		t.Error("no node has joined")
	}
}

// A node that has voted for the last committed epoch has all writes of that epoch, however many epochs were aborted
// afterwards.
func TestCommittedBeforeManyAborted(t *testing.T) {
	r, _ := alone(t, 1)
	r.Receive(0, everybody())
	k, epoch := simload.Key(1), r.epoch
	r.Receive(0, &Write{Attempt{epoch, 1}, txn.MakeID(0, 1), 1, []txn.WriteEntry{{Key: k, Value: []byte("v")}}})
	r.voted = epoch
	v := &View{Ballot: 2 << roundBits, Committed: epoch, First: epoch + maxAborted + 2, Members: []geo.NodeID{0, 1, 2}}
	for n := range uint64(maxAborted) {
		v.Aborted = append(v.Aborted, epoch+2+n)
	}
	r.Receive(0, v)
	if rec, _ := r.rows.store.Get(k); string(rec.Value) != "v" {
		t.Errorf("the store has %q", rec.Value)
	}
	if r.base != epoch {
		t.Errorf("it has the rows of epoch %d, want %d", r.base, epoch)
	}
}

// The outcome of a transaction in an aborted epoch reports the class of the rows that the transaction had used until
// then.
func TestClassOfAbandoned(t *testing.T) {
	r, w := alone(t, 0)
	r.Receive(0, everybody())
	r.Submit(simload.Txn(txn.MakeID(0, 1), "r0 j1+5"))
	r.Receive(1, &Rows{Attempt{r.epoch, 1}, []raftgroup.Found{{{Value: make([]byte, 8)}}}, []uint64{0}})
	r.Submit(simload.Txn(txn.MakeID(0, 2), "r0 j4+5"))
	r.Receive(0, &View{
		Ballot: 2 << roundBits, Committed: 1, First: r.epoch + 2, Members: []geo.NodeID{0, 1, 2}, Aborted: []uint64{2, r.epoch, r.epoch + 1},
	})
	if len(w.answers) != 2 {
		t.Fatalf("answers %v, want two", w.answers)
	}
	for _, o := range w.answers {
		if o.Status != txn.Aborted || o.Reason != ReasonEpochAborted || o.Class != txn.MultiHomeSinglePartition {
			t.Errorf("%v of class %v", o, o.Class)
		}
	}
}

// The reads of a procedure decide whether it uses an undeclared row. Therefore the reads are validated, and the client
// is answered once the epoch is committed.
func TestUndeclaredIsValidated(t *testing.T) {
	r, w := alone(t, 0)
	r.Receive(0, everybody())
	start := &Start{Turn{r.ballot, r.epoch + 1}}
	r.Submit(simload.Txn(txn.MakeID(0, 1), "r1 w0=3 u5"))
	a := Attempt{r.epoch, 1}
	r.Receive(1, &Rows{a, []raftgroup.Found{{{Value: make([]byte, 8)}}}, []uint64{0}})
	if last, ok := w.sent[len(w.sent)-1].m.(*Validate); !ok || len(last.Points) != 1 {
		t.Errorf("the last message is %v, want one to validate row 1", w.sent[len(w.sent)-1].m)
	}
	r.Receive(1, &Validated{a, Valid})
	if len(w.answers) > 0 {
		t.Errorf("answered before the epoch is committed: %v", w.answers)
	}
	r.Receive(0, start)
	if want := txn.AbortOutcome(txn.MakeID(0, 1), txn.ErrUndeclared); len(w.answers) != 1 ||
		w.answers[0].Status != want.Status || w.answers[0].Cause != want.Cause || w.answers[0].Reason != want.Reason {
		t.Errorf("answers %v, want %v", w.answers, want)
	}
	if rec, _ := r.rows.store.Get(simload.Key(0)); simload.Value(rec) != 10 {
		t.Errorf("it has written %v", rec)
	}
}

// A transaction's time is at least the time of each version that it has read, by key or in a scan.
func TestTimeOfWhatWasRead(t *testing.T) {
	for name, tc := range map[string]struct {
		ops   string
		found raftgroup.Found
	}{
		"a row":  {"r1", raftgroup.Found{{Value: make([]byte, 8)}}},
		"a scan": {"l1.0-6", raftgroup.Found{{Key: simload.GroupKey(1, 2), Value: make([]byte, 8)}}},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := alone(t, 0)
			r.Receive(0, everybody())
			r.Submit(simload.Txn(txn.MakeID(0, 1), tc.ops))
			asked := w.sent[len(w.sent)-1]
			r.Receive(asked.to, &Rows{Attempt{r.epoch, 1}, []raftgroup.Found{tc.found}, []uint64{9}})
			if last, ok := w.sent[len(w.sent)-1].m.(*Validate); !ok || last.At != 9 {
				t.Errorf("the last message is %v, want one to validate at 9", w.sent[len(w.sent)-1].m)
			}
		})
	}
}

// A member whose rounds as the coordinator have failed returns to the short timeout once it learns of a committed
// epoch.
func TestVainForgotten(t *testing.T) {
	r, _ := alone(t, 1)
	r.Receive(0, everybody())
	r.coordination.vain = 1 + maxVain
	r.Receive(0, &Start{Turn{r.ballot, r.epoch}})
	if r.coordination.vain == 0 {
		t.Error("forgotten although no epoch was committed")
	}
	r.Receive(0, &Start{Turn{r.ballot, r.epoch + 1}})
	if r.coordination.vain != 0 {
		t.Errorf("%d rounds in vain since the last epoch", r.coordination.vain)
	}
}

// A member whose last message arrived shortly before it is asked for its state has the whole timeout to answer.
func TestTimeToAnswer(t *testing.T) {
	r, w := alone(t, 0)
	c := &r.coordination
	w.now = time.Minute
	r.Receive(1, &Alive{})
	r.Receive(2, &Alive{})
	w.now += c.timeout / 4
	c.collect()
	w.now += c.timeout * 9 / 10
	c.states[0], c.states[2] = &State{Turn{c.ballot, 0}, 1}, &State{Turn{c.ballot, 0}, 1}
	if c.form(); c.stage != collecting {
		t.Error("a member is left out that was asked for less than the timeout")
	}
	w.now += c.timeout / 10
	if c.form(); c.stage != proposing {
		t.Error("a member is waited for that was asked for the timeout")
	}
}

// A node that has sent its state to a new coordinator ignores messages of the old coordinator, because the new
// coordinator relies on that state.
func TestOldCoordinatorIsNotHeeded(t *testing.T) {
	for collected, want := range map[bool]struct {
		votes int
		epoch uint64
	}{false: {1, 4}, true: {0, 3}} {
		r, w := alone(t, 1)
		r.Receive(0, everybody())
		old := Turn{r.ballot, r.epoch}
		r.Receive(0, &Stop{old})
		if collected {
			r.Receive(2, &Collect{old.Ballot + 1<<roundBits})
		}
		for n := range geo.NodeID(3) {
			r.Receive(n, &Done{old.Epoch})
		}
		votes := 0
		for _, s := range w.sent {
			if _, is := s.m.(*Vote); is {
				votes++
			}
		}
		r.Receive(0, &Start{Turn{old.Ballot, old.Epoch + 1}})
		if votes != want.votes || r.epoch != want.epoch {
			t.Errorf("after it has told its state (%t): %d votes, in epoch %d; want %d, in epoch %d", collected, votes, r.epoch, want.votes, want.epoch)
		}
	}
}

// A view may commit an epoch that a node has not voted for and omit the node. The node then lacks the epoch's writes.
func TestLeftOutBeforeItsVote(t *testing.T) {
	r, _ := alone(t, 1)
	r.Receive(0, everybody())
	r.Receive(0, &View{Ballot: 2 << roundBits, Committed: 3, First: 5, Members: []geo.NodeID{0, 2}, Aborted: []uint64{2, 4}})
	if r.base == 3 || r.phase != outside {
		t.Errorf("it shows the end of epoch %d, phase %d", r.base, r.phase)
	}
}

// A view has the rows of each shard in f+1 regions, and at least one member that already has them.
func TestCovers(t *testing.T) {
	r, _ := alone(t, 0)
	for name, tc := range map[string]struct {
		members, joining []geo.NodeID
		want             bool
	}{
		"all":                 {[]geo.NodeID{0, 1, 2}, nil, true},
		"f+1":                 {[]geo.NodeID{0, 2}, nil, true},
		"one has to get them": {[]geo.NodeID{0, 1}, []geo.NodeID{1}, true},
		"one region":          {[]geo.NodeID{1}, nil, false},
		"all have":            {[]geo.NodeID{0, 1, 2}, []geo.NodeID{0, 1, 2}, false},
	} {
		if got := r.coordination.covers(&View{Members: tc.members, Joining: tc.joining}); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
