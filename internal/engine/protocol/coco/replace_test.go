package coco

import (
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// The replaceable nodes are the nodes whose rows f+1 other regions have, and without which the regions can elect a
// coordinator.
func TestReplaces(t *testing.T) {
	two := func(regions int) *geo.Topology {
		delays := make([][]float64, regions)
		for i := range delays {
			delays[i] = make([]float64, regions)
		}
		return simload.Topology(2, 1, delays)
	}
	for name, tc := range map[string]struct {
		topology *geo.Topology
		params   map[string]string
		want     []geo.NodeID
	}{
		"one region":                         {regions(1), nil, nil},
		"two regions elect with both":        {regions(2), nil, nil},
		"their other nodes":                  {two(2), nil, []geo.NodeID{1, 3}},
		"three regions":                      {regions(3), nil, []geo.NodeID{0, 1, 2}},
		"one copy":                           {regions(3), map[string]string{"f": "0", "copies": "Majority"}, nil},
		"three copies in three regions, f 0": {regions(3), map[string]string{"f": "0"}, []geo.NodeID{0, 1, 2}},
		"three copies of five":               {regions(5), map[string]string{"f": "1", "copies": "Majority"}, []geo.NodeID{0, 1, 2, 3, 4}},
	} {
		if got := Engine.Replaceable(tc.topology, protocoltest.Params(t, Engine, tc.params)); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// sentTo returns the messages of a type that were sent to a node.
func sentTo[M protocol.Message](w *world, to geo.NodeID) (all []M) {
	for _, e := range w.sent {
		if m, is := e.m.(M); is && e.to == to {
			all = append(all, m)
		}
	}
	return all
}

// second returns a view in which the second incarnation of node 2 joins.
func second() *View {
	return &View{Ballot: 2 << roundBits, Committed: 3, First: 5, Members: []geo.NodeID{0, 1, 2}, Joining: []geo.NodeID{2}, Incarnations: []uint32{0, 0, 1}, Aborted: []uint64{2, 4}}
}

// A new incarnation is not asked for its predecessor's votes. An epoch that all other members have voted for may be
// committed, and is not aborted for lack of the new incarnation's vote. An epoch without the vote of another member is
// not committed.
func TestSuccessorHasNotVoted(t *testing.T) {
	for name, tc := range map[string]struct {
		told      bool // whether the coordinator was notified of the new incarnation
		voted     uint64
		committed uint64
	}{
		"all others have voted":   {true, 3, 3},
		"one of them has not":     {true, 1, 1},
		"a member that is silent": {false, 3, 1},
		"neither of them has":     {false, 1, 1},
	} {
		r, _ := alone(t, 0)
		c := &r.coordination
		r.Receive(0, everybody())
		c.latest = r.view
		if tc.told {
			r.Replaced(2, 1)
		}
		c.collect()
		c.state(0, &State{Turn{c.ballot, 3}, 1})
		c.state(2, &State{Turn{c.ballot, 0}, 0})
		c.states[1] = &State{Turn{c.ballot, tc.voted}, 1}
		v := c.next()
		if v == nil || v.Committed != tc.committed || !v.joins(2) || v.joins(0) {
			t.Errorf("%s: %v, want one that commits epoch %d, in which 2 joins", name, v, tc.committed)
		}
	}
}

// coordinating returns a coordinator without a Raft group, so that it never loses its leadership.
func coordinating(t *testing.T) (*Replica, *world) {
	r, w := alone(t, 0)
	r.coordination.group = nil
	return r, w
}

// The answer of a node that has lost its state in the meantime does not count for its successor: the coordinator asks
// the successor again.
func TestPredecessorsAnswer(t *testing.T) {
	r, w := coordinating(t)
	c := &r.coordination
	c.collect()
	for n := range geo.NodeID(3) {
		c.states[n] = &State{Turn{c.ballot, 0}, 1}
	}
	w.sent = nil
	r.Replaced(2, 1)
	if c.states[2] != nil || len(sentTo[*Collect](w, 2)) != 1 {
		t.Errorf("its state is %v, and it is sent %v", c.states[2], w.sent)
	}
	r.Replaced(2, 1)
	if got := len(sentTo[*Collect](w, 2)); got != 1 {
		t.Errorf("asked %d times", got)
	}
}

// A coordinator that learns of a new incarnation closes the epoch if the predecessor is a member of the view. Otherwise
// it sends the view to the new incarnation. If a member is already lost when the group agrees on a view, another view
// follows.
func TestCoordinatorHearsOfLoss(t *testing.T) {
	run := func(v *View) (*Replica, *world) {
		r, w := coordinating(t)
		c := &r.coordination
		c.latest, c.ballot = v, v.Ballot
		c.begin(v.First)
		return r, w
	}
	r, w := run(everybody())
	if r.Replaced(2, 1); r.coordination.stage != collecting || len(sentTo[*Collect](w, 2)) != 1 {
		t.Errorf("the epoch goes on without a member that is lost: stage %d, %v", r.coordination.stage, w.sent)
	}
	without := everybody()
	without.Members = []geo.NodeID{0, 1}
	r, w = run(without)
	if r.Replaced(2, 1); r.coordination.stage != executing || len(sentTo[*View](w, 2)) != 1 {
		t.Errorf("a node that takes no part is not told of the view: stage %d, %v", r.coordination.stage, w.sent)
	}
	r, _ = coordinating(t)
	c := &r.coordination
	c.stage, c.ballot = proposing, everybody().Ballot
	r.Replaced(2, 1)
	if c.apply(everybody().AppendTo(nil)); c.stage != collecting || c.ballot != everybody().Ballot+1 {
		t.Errorf("an epoch with a lost member begins: stage %d, ballot %d", c.stage, c.ballot)
	}
}

// A view whose member is a node's predecessor does not include the node, so the node stays outside the view.
func TestViewOfPredecessor(t *testing.T) {
	r, w := aloneAs(t, 2, 1)
	v := everybody()
	if r.Receive(0, v); r.phase != outside || r.Pending() == 0 {
		t.Errorf("it takes part in %v", v)
	}
	r.Receive(0, &Stop{Turn{v.Ballot, v.First}})
	for n := range geo.NodeID(2) {
		r.Receive(n, &Done{v.First})
	}
	if len(w.sent) > 0 {
		t.Errorf("it has sent %v", w.sent)
	}
	r.Receive(1, &Collect{2 << roundBits})
	if got := sentTo[*State](w, 1); len(got) != 1 || got[0].Epoch != 0 || got[0].Base != 0 {
		t.Errorf("its state is %v", got)
	}
	if r.Receive(1, second()); r.phase == outside || len(r.awaiting) != 3 {
		t.Errorf("it takes no part in a view that has it: phase %d, awaits %v", r.phase, r.awaiting)
	}
}

// A node may enter a view before it learns of a new incarnation in the view. It has then sent messages of the epoch to
// the predecessor, and the new incarnation lacks them. Therefore the node does not send Done for the epoch, and asks
// for another view.
func TestSentToPredecessor(t *testing.T) {
	r, w := alone(t, 1)
	r.Receive(0, everybody())
	v := second()
	v.Committed, v.First = 1, 4
	r.Receive(0, v)
	r.Submit(simload.Txn(txn.MakeID(1, 1), "a1+1"))
	if len(sentTo[*Write](w, 2)) != 1 {
		t.Fatalf("no write was sent to the predecessor: %v", w.sent)
	}
	r.Replaced(2, 1)
	r.Receive(0, &Stop{Turn{v.Ballot, v.First}})
	for n := range geo.NodeID(3) {
		r.Receive(n, &Done{v.First})
	}
	if done := sentTo[*Done](w, 2); len(done) > 0 {
		t.Errorf("tells the new incarnation that it has all writes: %v", done)
	}
	if got := sentTo[*Missed](w, 0); len(got) != 1 || got[0].Ballot != v.Ballot {
		t.Errorf("tells the coordinator %v", got)
	}
	c, _ := alone(t, 0)
	c.coordination.latest, c.coordination.ballot = v, v.Ballot
	c.coordination.begin(v.First)
	if c.Receive(1, &Missed{v.Ballot - 1}); c.coordination.stage != executing {
		t.Error("a view ends for one before it")
	}
	if c.Receive(1, &Missed{v.Ballot}); c.coordination.stage != collecting {
		t.Error("the view goes on")
	}
	again := second()
	again.Ballot++
	r.Receive(0, again)
	r.Receive(0, &Stop{Turn{again.Ballot, again.First}})
	if len(sentTo[*Done](w, 2)) != 1 {
		t.Error("takes no part in the next view")
	}
}

// rowsFor returns the pieces that a primary sends to node 2 when it enters a view.
func rowsFor(t *testing.T, primary geo.NodeID, v *View) []*statetransfer.Piece {
	r, w := alone(t, primary)
	r.Receive(0, everybody())
	r.voted = v.Committed
	r.Receive(0, v)
	return sentTo[*statetransfer.Piece](w, 2)
}

// A new incarnation votes before it has its rows if f+1 other regions hold them. Until then its State shows no rows.
// The older rows neither overwrite the writes of epochs in the meantime nor restore rows that these epochs have
// deleted.
func TestRowsBesideEpochs(t *testing.T) {
	v := second()
	r, w := aloneAs(t, 2, 1)
	// The rows of one primary arrive before the view does.
	for _, p := range rowsFor(t, 0, v) {
		r.Receive(0, p)
	}
	r.Receive(0, v)
	if len(r.awaiting) != 1 {
		t.Fatalf("it awaits the rows of shards %v", r.awaiting)
	}
	kept, written, deleted := simload.Key(4), simload.Key(1), simload.Key(7) // of the shard whose rows are still missing
	r.Receive(0, &Write{Attempt{v.First, 1}, txn.MakeID(0, 1), 1, []txn.WriteEntry{{Key: written, Value: []byte("new")}, {Key: deleted, Deleted: true}}})
	r.Receive(0, &Stop{Turn{v.Ballot, v.First}})
	for n := range geo.NodeID(2) {
		r.Receive(n, &Done{v.First})
	}
	if got := sentTo[*Vote](w, 0); len(got) != 1 {
		t.Errorf("its votes: %v", got)
	}
	r.Receive(0, &Start{Turn{v.Ballot, v.First + 1}})
	if r.base != 0 || r.FullyReplicated() || r.Pending() == 0 {
		t.Errorf("it has the rows of epoch %d, whole: %t, pending: %d", r.base, r.FullyReplicated(), r.Pending())
	}
	for _, p := range rowsFor(t, 1, v) {
		r.Receive(1, p)
	}
	if got := sentTo[*Ready](w, 0); len(got) != 1 || got[0].Ballot != v.Ballot || r.base != v.First {
		t.Errorf("it says %v, and has the rows of epoch %d", got, r.base)
	}
	if rec, _ := r.rows.store.Get(kept); simload.Value(rec) != 10 {
		t.Errorf("a row that nobody has written is %v", rec)
	}
	if rec, _ := r.rows.store.Get(written); string(rec.Value) != "new" {
		t.Errorf("a row that was written meanwhile is %v", rec)
	}
	if rec, there := r.rows.store.Get(deleted); there {
		t.Errorf("a row that was deleted is %v", rec)
	}
	if r.rows.newer != nil {
		t.Error("it still notes what is written")
	}
}

// If too few other regions hold its rows, a new incarnation votes only after it has received them.
func TestRowsBeforeTheVote(t *testing.T) {
	v := second()
	v.Members, v.Incarnations = []geo.NodeID{0, 2}, []uint32{0, 1}
	r, w := aloneAs(t, 2, 1)
	r.Receive(0, v)
	r.Receive(0, &Stop{Turn{v.Ballot, v.First}})
	if r.Receive(0, &Done{v.First}); len(sentTo[*Vote](w, 0)) > 0 {
		t.Error("it has voted without rows")
	}
	for _, p := range rowsFor(t, 0, v) {
		r.Receive(0, p)
	}
	if len(sentTo[*Vote](w, 0)) != 1 || r.base != v.Committed {
		t.Errorf("it has the rows of epoch %d, and has sent %v", r.base, w.sent)
	}
}

// A vote does not prove that the voter has the rows of earlier epochs. A node without them joins in the next view,
// whatever it has voted for.
func TestVotedWithoutRows(t *testing.T) {
	r, _ := alone(t, 0)
	c := &r.coordination
	r.incarnations[2] = 1
	c.latest = second()
	c.collect()
	for n, base := range []uint64{3, 3, 0} {
		c.states[n] = &State{Turn{c.ballot, 5}, base}
	}
	if v := c.next(); v.Committed != 5 || !slices.Equal(v.Joining, []geo.NodeID{2}) {
		t.Errorf("%v, want one in which 2 joins again", v)
	}
}

// While a new incarnation waits for its rows, the coordinator proposes no view for further joining nodes. It proposes
// one once the incarnation has its rows.
func TestNobodyElseJoinsMeanwhile(t *testing.T) {
	r, _ := alone(t, 0)
	c := &r.coordination
	r.incarnations[2] = 1
	c.latest, c.ballot = second(), second().Ballot
	c.begin(c.latest.First)
	commit := func() {
		c.expire(c.epoch)
		for n := range geo.NodeID(3) {
			c.vote(n, &Vote{Turn{c.ballot, c.epoch}})
		}
	}
	if commit(); c.stage != executing || c.epoch != second().First+1 {
		t.Fatalf("stage %d, epoch %d", c.stage, c.epoch)
	}
	r.Receive(2, &Ready{c.ballot - 1})
	if commit(); c.stage != executing {
		t.Fatalf("stage %d after a word of another ballot", c.stage)
	}
	r.Receive(2, &Ready{c.ballot})
	if commit(); c.stage != proposing {
		t.Errorf("stage %d although it has its rows", c.stage)
	}
}

// An abandoned transfer starts again when a message arrives from its receiver, until the receiver has all rows.
func TestTransferAgain(t *testing.T) {
	r, w := alone(t, 0)
	r.Replaced(2, 1)
	r.Receive(0, everybody())
	r.voted = second().Committed
	r.Receive(0, second())
	pieces := func() int { return len(sentTo[*statetransfer.Piece](w, 2)) }
	if pieces() != 1 {
		t.Fatalf("%d pieces", pieces())
	}
	w.now += statetransfer.Patience
	r.Fire(protocol.Timer{Kind: transferTimer})
	if pieces() != 1 || r.sender.Busy(2) {
		t.Fatal("not given up")
	}
	if r.Receive(1, &Alive{}); pieces() != 1 {
		t.Error("sent again although its receiver is silent")
	}
	if r.Receive(2, &Alive{}); pieces() != 2 {
		t.Error("not sent again")
	}
	if r.outgoing[2] == nil || !r.sender.Busy(2) {
		t.Error("nothing is under way")
	}
	all := sentTo[*statetransfer.Piece](w, 2)[0]
	r.Receive(2, &statetransfer.Ack{ID: all.ID, Got: all.Part.Size})
	if r.Receive(2, &Alive{}); pieces() != 2 {
		t.Error("sent again although its receiver has it")
	}
	r.voted = 5
	next := second()
	next.Ballot, next.Committed, next.First, next.Joining = next.Ballot+1, 5, 7, nil
	if r.Receive(0, next); len(r.outgoing) > 0 || r.sender.Busy(2) {
		t.Error("something is under way in a view in which nobody joins")
	}
	again := second()
	again.Ballot, again.Committed, again.First = next.Ballot+1, 7, 9
	r.voted = 7
	if r.Receive(0, again); !r.sender.Busy(2) {
		t.Fatal("no rows are under way")
	}
	if r.Replaced(2, 2); len(r.outgoing) > 0 || r.sender.Busy(2) {
		t.Error("rows are under way to a predecessor")
	}
}

// A node reports full replication when all nodes are members with their rows, and no other view can have been agreed
// on.
func TestWhole(t *testing.T) {
	entered := func() *Replica {
		r, _ := alone(t, 0)
		r.Receive(0, everybody())
		r.coordination.latest = r.view
		return r
	}
	whole := entered()
	if !whole.FullyReplicated() {
		t.Fatal("not whole although all take part")
	}
	for name, change := range map[string]func(*Replica){
		"before the first view":              func(r *Replica) { r.phase = outside },
		"a node is out":                      func(r *Replica) { r.view.Members = r.view.Members[:2] },
		"a node joins":                       func(r *Replica) { r.view.Joining = []geo.NodeID{2} },
		"a node was replaced":                func(r *Replica) { r.Replaced(2, 1) },
		"an earlier incarnation":             func(r *Replica) { r.incarnations[1] = 1 },
		"a view that is agreed on elsewhere": func(r *Replica) { r.coordination.latest = second() },
	} {
		r := entered()
		r.view.Members = slices.Clone(r.view.Members)
		if change(r); r.FullyReplicated() {
			t.Errorf("%s: whole", name)
		}
	}
}

// A coordinator that collects states does not report full replication, because its next view may omit a node.
func TestCoordinatorIsNotWhole(t *testing.T) {
	w := &world{}
	topology := simload.Topology(1, 2, [][]float64{{0}})
	r := newReplica(protocol.Config{
		Topology: topology, Params: protocoltest.Params(t, Engine, nil), Procedures: simload.Procedures, Store: store.NewHash(), Env: w,
	}, none)
	r.Start()
	asked := sentTo[*Collect](w, 1)
	r.Receive(1, &State{Turn{asked[0].Ballot, 0}, 1})
	if !r.FullyReplicated() {
		t.Fatalf("not whole in %v", r.view)
	}
	if r.coordination.collect(); r.FullyReplicated() {
		t.Error("whole although it asks for states")
	}
}
