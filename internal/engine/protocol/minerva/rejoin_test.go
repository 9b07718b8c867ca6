package minerva

import (
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// reborn returns incarnation 1 of replica self of three replicas, after Start.
func reborn(t *testing.T, self geo.NodeID, given map[string]string) (*Replica, *world) {
	t.Helper()
	r, w := incarnation(t, self, 1, store.NewHash(), given)
	r.Start()
	return r, w
}

// joins transfers the rows of a peer to r, a new incarnation that the peer already knows. w is the peer's environment.
func joins(t *testing.T, r *Replica, peer *Replica, w *world) {
	t.Helper()
	w.sent = nil
	peer.Receive(r.self, &Join{})
	for _, m := range w.take(r.self) {
		r.Receive(peer.self, m)
	}
	if !r.rejoin.joined {
		t.Fatal("the new incarnation has got no rows")
	}
}

// agree makes replicas agree on a cut.
func agree(cut Heads, all ...*Replica) {
	for _, r := range all {
		r.epochs.agreed(cut)
	}
}

func row(r *Replica, n uint64) int64 {
	rec, _ := r.store.Get(simload.Key(n))
	return simload.Value(rec)
}

// All replicas can be replaced if the remaining replicas are a majority. If cuts are decided without consensus, the
// first replica, which decides them, cannot be replaced.
func TestReplaces(t *testing.T) {
	for name, tc := range map[string]struct {
		partitions int
		delays     [][]float64
		given      map[string]string
		want       int
	}{
		"three regions":       {1, [][]float64{{0, 50, 50}, {50, 0, 50}, {50, 50, 0}}, nil, 3},
		"two, of two":         {2, [][]float64{{0, 50}, {50, 0}}, nil, 4},
		"two replicas":        {1, [][]float64{{0, 50}, {50, 0}}, nil, 0},
		"cuts by one's word":  {2, [][]float64{{0, 50}, {50, 0}}, map[string]string{"commit": commitProposed}, 3},
		"one region of three": {3, [][]float64{{0}}, nil, 3},
	} {
		p, errs := Engine.Resolve(tc.given)
		if len(errs) > 0 {
			t.Fatal(errs[0])
		}
		if got := Engine.Replaceable(simload.Topology(tc.partitions, 1, tc.delays), p); len(got) != tc.want {
			t.Errorf("%s: nodes %v can be replaced, want %d", name, got, tc.want)
		}
	}
}

// A cut may contain the number before the first batch of a lost replica's next incarnation. Batches of the lost replica
// that are in no cut by then are void at all replicas. This holds whether a replica has them and their proofs, lacks
// them, or receives them later. A later cut, proposed by a coordinator that knew less, does not restore them.
func TestBatchesOfThePredecessorAreVoid(t *testing.T) {
	old, lost := alone(t, 1, nil)
	epoch(old, lost, 1, "a1+1", "a1+10", "a1+100")
	a, _ := alone(t, 0, nil)
	c, _ := alone(t, 2, nil)
	for _, b := range lost.batches {
		a.Receive(1, b)
	}
	a.Receive(1, &Proof{3})
	c.Receive(1, lost.batches[0])
	agree(Heads{0, 1, 0}, a, c)
	a.Replaced(1, 1)
	c.Replaced(1, 1)
	if got := a.logs.all[1].proven; got != protocol.NumbersBefore(1) || !a.logs.uncut() {
		t.Errorf("up to %s is proven, want 1.0, which is in no cut yet", numbered(got))
	}
	agree(Heads{0, protocol.NumbersBefore(1), 0}, a, c)
	agree(Heads{0, 3, 0}, a, c)
	c.Receive(0, lost.batches[1])
	c.Receive(0, lost.batches[2])

	next, new := reborn(t, 1, nil)
	next.Replaced(0, 0) // the replica ignores a report of incarnation 0
	agree(Heads{0, 1, 0}, next)
	agree(Heads{0, protocol.NumbersBefore(1), 0}, next)
	joins(t, next, a, a.env.(*world))
	next.Submit(simload.Txn(txn.MakeID(1, 9), "a1+1000"))
	if b := new.batches[0]; b.Number != protocol.NumbersBefore(1)+1 || b.First != protocol.NumbersBefore(1)+1 {
		t.Fatalf("the first batch of the new incarnation is %s, its first transaction %s", numbered(b.Number), numbered(b.First))
	}
	a.Receive(1, new.batches[0])
	c.Receive(1, new.batches[0])
	agree(Heads{0, protocol.NumbersBefore(1) + 1, 0}, a, c, next)
	for _, r := range []*Replica{a, c, next} {
		if got := row(r, 1); got != 1011 {
			t.Errorf("row 1 is %d at replica %d, want 1011", got, r.self)
		}
	}
	if len(new.answers) != 1 {
		t.Errorf("%d answers to the transaction of the new incarnation", len(new.answers))
	}

	if kept := lost.batches[0].size + new.batches[0].size; a.logs.kept != kept {
		t.Errorf("%d bytes of committed batches are kept, want %d", a.logs.kept, kept)
	}
	for n := range geo.NodeID(3) {
		if n != a.self {
			a.Receive(n, &Progress{Epoch: 3, Proofs: make(Heads, 3)})
		}
	}
	if g := &a.logs.all[1]; a.logs.kept != new.batches[0].size || len(g.earlier) > 0 {
		t.Errorf("%d bytes are kept, and parts of the log of earlier incarnations: %d", a.logs.kept, len(g.earlier))
	}
}

// All replicas commit the batches of a lost replica that are in a cut. This includes replicas that receive the batches
// later from other replicas, for example the new incarnation. The new incarnation does not answer clients of its
// predecessor.
func TestCutBatchesOfThePredecessorAreCommitted(t *testing.T) {
	old, lost := alone(t, 1, nil)
	epoch(old, lost, 1, "a1+1", "a1+10")
	a, sender := alone(t, 0, nil)
	c, asks := alone(t, 2, nil)
	for _, b := range lost.batches {
		a.Receive(1, b)
	}
	c.Receive(1, lost.batches[0])
	agree(Heads{0, 1, 0}, a, c)
	next, asksToo := reborn(t, 1, nil)
	a.Replaced(1, 1)
	next.epochs.agreed(Heads{0, 1, 0})
	joins(t, next, a, sender)
	agree(Heads{0, 2, 0}, a, c, next)
	c.Replaced(1, 1)
	agree(Heads{0, protocol.NumbersBefore(1), 0}, a, c, next)
	if c.epochs.committed != 1 || next.epochs.committed != 1 {
		t.Fatalf("%d and %d epochs committed without the second batch", c.epochs.committed, next.epochs.committed)
	}
	for r, w := range map[*Replica]*world{c: asks, next: asksToo} {
		r.Receive(0, &Proof{}) // shows that replica 0 is live
		w.sent, sender.sent = nil, nil
		for range 2 {
			r.Fire(protocol.Timer{Kind: fetchTimer})
		}
		for _, m := range w.take(0) {
			a.Receive(r.self, m)
		}
		for _, m := range sender.take(r.self) {
			r.Receive(0, m)
		}
		if r.epochs.committed != 3 || row(r, 1) != 21 || len(w.answers) > 0 {
			t.Errorf("replica %d has committed %d epochs, row 1 is %d, and %d are answered", r.self, r.epochs.committed, row(r, 1), len(w.answers))
		}
	}
}

// A batch that only the predecessor has acknowledged no longer has f + 1 copies. The new incarnation must acknowledge
// the batch, too.
func TestAcknowledgementsOfThePredecessorDoNotCount(t *testing.T) {
	p, _ := Engine.Resolve(nil)
	w, topology, rows := &world{}, simload.ThreeRegions(2), store.NewHash()
	simload.Fill(topology, 4, 10, func(geo.NodeID) store.Store { return rows })
	r := newReplica(protocol.Config{Topology: topology, Params: p, Procedures: simload.Procedures, Store: rows, Env: w}, none)
	r.Submit(simload.Txn(1, "a1+1"))
	r.Receive(1, &Acknowledgement{1})
	r.Replaced(1, 1)
	r.Receive(2, &Acknowledgement{1})
	if r.logs.all[0].proven != 0 {
		t.Error("two of six replicas have a batch, of which two may be lost, and it counts as available")
	}
	r.Receive(1, &Acknowledgement{1})
	if r.logs.all[0].proven != 1 {
		t.Error("three of six replicas have a batch, and it does not count as available")
	}
}

// Before a new incarnation has rows, it neither stores nor acknowledges batches, and accepts no transactions. After
// that, it requests the later parts of the logs and commits the same state as the other replicas. It can do so because
// it knows which earlier transactions were re-executed.
func TestJoin(t *testing.T) {
	given := map[string]string{"acrossEpochs": acrossValid}
	a, w := alone(t, 0, given)
	other := (&Batch{Origin: 2, Number: 1, First: 1, Records: []Record{{Txn: simload.Txn(9, "a1+10"), Unexecuted: true}}}).seal()
	for i, o := range []string{"a1+1", "a1+1 a2+1", "a2+1"} {
		w.now += 10 * time.Millisecond
		a.Submit(simload.Txn(txn.MakeID(1, uint64(i+1)), o))
	}
	a.Receive(2, other)
	agree(Heads{0, 0, 1}, a)
	agree(Heads{2, 0, 1}, a) // the second transaction is re-executed, and the third has read from it
	if len(a.epochs.again[0]) == 0 {
		t.Fatal("nothing is executed again")
	}

	next, asks := reborn(t, 1, given)
	a.Replaced(1, 1)
	next.Submit(simload.Txn(txn.MakeID(2, 1), "a3+1"))
	next.Receive(0, w.batches[2])
	if len(asks.answers) != 1 || asks.answers[0].Status != txn.Refused || asks.answers[0].Cause != txn.CauseNode {
		t.Errorf("without rows it answers %+v", asks.answers)
	}
	if asks.acknowledgements > 0 || len(asks.batches) > 0 || next.Pending() == 0 || next.logs.all[0].get(3) != nil {
		t.Errorf("without rows, %d batches are acknowledged and %d sent; %d pending", asks.acknowledgements, len(asks.batches), next.Pending())
	}
	agree(Heads{0, 0, 1}, next)
	agree(Heads{2, 0, 1}, next)
	asks.sent = nil
	joins(t, next, a, w)
	if store.Digest(next.store) != store.Digest(a.store) || next.epochs.committed != 2 {
		t.Errorf("%d epochs committed, copies equal: %v", next.epochs.committed, store.Digest(next.store) == store.Digest(a.store))
	}
	var follows []protocol.Message
	for _, m := range asks.take(0) {
		if f, ok := m.(*Follow); ok {
			follows = append(follows, f)
		}
	}
	if len(follows) != 1 || follows[0].(*Follow).From != 3 {
		t.Fatalf("it asks for %v, want the log from batch 3 on", follows)
	}
	w.sent = nil
	a.Receive(1, follows[0])
	for _, m := range w.take(1) {
		next.Receive(0, m)
	}
	if !next.rejoin.followed[0] || asks.acknowledgements != 1 {
		t.Errorf("it has the log: %v, and has sent %d acknowledgements", next.rejoin.followed[0], asks.acknowledgements)
	}
	agree(Heads{3, 0, 1}, a, next)
	if store.Digest(next.store) != store.Digest(a.store) || next.epochs.cascading != 1 || a.epochs.cascading != 1 {
		t.Errorf("copies equal: %v; the third transaction depends on one that was executed again: %d", store.Digest(next.store) == store.Digest(a.store), next.epochs.cascading)
	}
}

// Without consensus, the coordinator sends a new incarnation the cuts that the incarnation may need, followed by all
// later cuts.
func TestCutsByOnesWord(t *testing.T) {
	given := map[string]string{"commit": commitProposed}
	a, w := alone(t, 0, given)
	epoch(a, w, 1, "a1+1")
	epoch(a, w, 2, "a1+1")
	a.epochs.collect(2)
	next, _ := reborn(t, 1, given)
	if next.coordinator.joined() {
		t.Error("a new incarnation knows the cuts before it is told")
	}
	w.sent = nil
	a.Replaced(1, 1)
	a.coordinator.expire()
	for _, m := range w.take(1) {
		next.Receive(0, m)
	}
	if want := (Heads{2, protocol.NumbersBefore(1), 0}); !next.coordinator.joined() || next.epochs.agreedCuts != 3 || !slices.Equal(next.epochs.head, want) {
		t.Errorf("it knows %d cuts up to %v, want 3 up to %v", next.epochs.agreedCuts, next.epochs.head, want)
	}
	if !a.coordinator.whole() || a.rejoin.whole() {
		t.Error("what makes a cut hold is there, and not all copies are")
	}
	joins(t, next, a, w)
	if next.epochs.committed != 3 || store.Digest(next.store) != store.Digest(a.store) {
		t.Errorf("%d epochs committed", next.epochs.committed)
	}
}

// A new incarnation installs rows once it knows the cuts up to the rows' epoch. It does not install them if the cuts
// after that epoch have been discarded.
func TestRowsAndCuts(t *testing.T) {
	a, w := alone(t, 0, nil)
	for i := range uint64(5) {
		epoch(a, w, 10*i+1, "a1+1")
	}
	w.sent = nil
	a.Receive(1, &Join{6})
	if len(w.take(1)) > 0 {
		t.Error("rows are sent that are too old")
	}
	a.Receive(1, &Join{5})
	pieces := w.take(1)
	if len(pieces) != 1 || !a.rejoin.sender.Busy(1) {
		t.Fatalf("%d pieces of rows are sent", len(pieces))
	}
	a.Replaced(1, 1)
	if a.rejoin.sender.Busy(1) {
		t.Error("rows are sent on to who has asked for them and is lost")
	}

	early, _ := reborn(t, 1, nil)
	early.Receive(0, pieces[0])
	for n := range uint64(5) {
		if early.rejoin.joined {
			t.Fatalf("rows of epoch 5 are taken when %d cuts are known", n)
		}
		early.epochs.agreed(Heads{n + 1, 0, 0})
	}
	if !early.rejoin.joined || early.epochs.committed != 5 || early.epochs.queue.Len() > 0 {
		t.Errorf("%d epochs committed, %d cuts wait", early.epochs.committed, early.epochs.queue.Len())
	}

	epoch(a, w, 60, "a1+1")
	epoch(a, w, 70, "a1+1")
	a.epochs.collect(6)
	late, _ := reborn(t, 1, nil)
	late.epochs.restore(a.epochs.snapshot()) // the snapshot has only the cuts from number 7 on
	if late.Receive(0, pieces[0]); late.rejoin.joined || late.epochs.behind {
		t.Error("rows of epoch 5 are taken, and the cuts from number 7 on")
	}
	joins(t, late, a, w)
	if store.Digest(late.store) != store.Digest(a.store) || late.epochs.committed != 7 {
		t.Errorf("%d epochs committed", late.epochs.committed)
	}
}

// Rows are installed in portions. If the later cuts are discarded before all rows are installed, rows of a later epoch
// replace the installed rows completely.
func TestRowsAreTakenInSteps(t *testing.T) {
	a, w := alone(t, 0, nil)
	simload.Fill(simload.ThreeRegions(1), 3*installRows-1, 10, func(geo.NodeID) store.Store { return a.store })
	epoch(a, w, 1, "a1+1")
	rows := func() []protocol.Message {
		w.sent = nil
		a.rejoin.sender.Cancel(1)
		a.Receive(1, &Join{})
		return w.take(1)
	}
	step := func(r *Replica) { r.Fire(protocol.Timer{Kind: joinTimer, Arg: installTimer}) }
	next, asks := reborn(t, 1, nil)
	agree(Heads{1, 0, 0}, next)
	early := rows()
	next.Receive(0, early[0])
	for steps := 1; !next.rejoin.joined; steps++ {
		if next.rejoin.due() {
			t.Error("rows are asked for that are there")
		}
		next.epochs.advance()
		if step(next); steps > 2 {
			t.Fatal("more than three steps")
		}
	}
	next.Submit(simload.Txn(1, "r1"))
	if store.Digest(next.store) != store.Digest(a.store) || len(asks.answers) > 0 {
		t.Errorf("copies equal: %v; it has answered %+v", store.Digest(next.store) == store.Digest(a.store), asks.answers)
	}

	late, _ := reborn(t, 1, nil)
	agree(Heads{1, 0, 0}, late)
	late.Receive(0, early[0])
	gone := simload.Key(0)
	for n := range uint64(3*installRows - 1) {
		if _, found := late.store.Get(simload.Key(n)); found {
			gone = simload.Key(n)
		}
	}
	a.store.Delete(gone)
	for i := range uint64(3) {
		epoch(a, w, 10*i+10, "a1+1")
	}
	a.epochs.collect(4)
	late.epochs.restore(a.epochs.snapshot())
	if step(late); late.rejoin.joined || !late.rejoin.due() {
		t.Error("rows are taken whose next cuts are gone")
	}
	for _, m := range rows() {
		late.Receive(0, m)
	}
	for range 2 {
		step(late)
	}
	if !late.rejoin.joined || store.Digest(late.store) != store.Digest(a.store) {
		t.Errorf("it has rows: %v; those that were given up are gone: %v", late.rejoin.joined, store.Digest(late.store) == store.Digest(a.store))
	}
}

// A new incarnation accepts transactions once it has committed all cuts that were known when it received its rows.
func TestRefusedUntilCaughtUp(t *testing.T) {
	a, w := alone(t, 0, nil)
	epoch(a, w, 1, "a1+1")
	next, answers := reborn(t, 1, nil)
	agree(Heads{1, 0, 0}, next)
	agree(Heads{2, 0, 0}, next)
	joins(t, next, a, w)
	next.Submit(simload.Txn(1, "r1"))
	if len(answers.answers) != 1 || answers.answers[0].Reason != ReasonJoining {
		t.Errorf("it answers %+v when it lacks an epoch", answers.answers)
	}
	epoch(a, w, 2, "a1+1")
	next.Receive(0, w.batches[1])
	if next.Submit(simload.Txn(2, "r1")); len(answers.answers) != 1 {
		t.Errorf("it answers %+v when it has caught up", answers.answers)
	}
}

// A new incarnation requests rows from one replica after another. It asks the next replica if the last one is silent
// for longer than a round trip, or stops in the middle of a transfer.
func TestRowsAreAskedFor(t *testing.T) {
	r, w := reborn(t, 1, nil)
	r.rejoin.ask()
	if len(w.take(2)) > 0 {
		t.Error("rows are asked for before the cuts are known")
	}
	j := &r.rejoin
	for _, tc := range []struct {
		after time.Duration
		piece bool
		asked geo.NodeID
	}{
		{0, false, 2}, {r.longest, false, 2}, {fetchAfter, false, 0}, {r.longest, true, 0}, {statetransfer.Patience - 1, false, 0}, {1, false, 2},
	} {
		if w.now += tc.after; tc.piece {
			r.Receive(0, &statetransfer.Piece{Part: statetransfer.Part{Size: 9}})
		}
		if j.due() {
			j.askNext()
		}
		if j.asked != tc.asked {
			t.Errorf("at %v replica %d is asked, want %d", w.now, j.asked, tc.asked)
		}
	}
}

// A log is sent in several parts.
func TestFollow(t *testing.T) {
	a, w := alone(t, 0, nil)
	epoch(a, w, 1, "a1+1", "a1+1", "a1+1")
	next, asks := reborn(t, 1, nil)
	agree(Heads{3, 0, 0}, next)
	joins(t, next, a, w)
	next.logs.all[0].restart(0)
	w.rare, w.sent, asks.sent = true, nil, nil
	a.Receive(1, &Follow{1})
	for rounds := 1; ; rounds++ {
		for _, m := range w.take(1) {
			next.Receive(0, m)
		}
		if next.rejoin.followed[0] {
			if rounds != 3 || next.logs.all[0].received != 3 {
				t.Errorf("%d batches have come in %d parts, want 3 in 3", next.logs.all[0].received, rounds)
			}
			break
		}
		for _, m := range asks.take(0) {
			a.Receive(1, m)
		}
	}
}

// Replicas report full replication when a new incarnation has rows and all batches that its predecessor has
// acknowledged. In addition, all replicas must have committed the epoch of the new incarnation's initial rows, and the
// cut that voids its predecessor's batches.
func TestWhole(t *testing.T) {
	a, w := alone(t, 0, nil)
	epoch(a, w, 1, "a1+1")
	epoch(a, w, 2, "a1+1")
	next, _ := reborn(t, 1, nil)
	agree(Heads{1, 0, 0}, next)
	agree(Heads{2, 0, 0}, next)
	whole := func(want bool, when string) {
		t.Helper()
		if got := next.rejoin.whole(); got != want {
			t.Errorf("the new incarnation says that all copies are there: %v, %s", got, when)
		}
	}
	others := func(want bool, when string) {
		t.Helper()
		if got := a.rejoin.whole(); got != want {
			t.Errorf("another replica says that all copies are there: %v, %s", got, when)
		}
	}
	others(true, "when nothing is lost")
	a.Receive(2, &Progress{Epoch: 2, Proofs: make(Heads, 3)})
	a.Replaced(1, 1)
	others(false, "when a replica has been replaced")
	joins(t, next, a, w)
	agree(Heads{2, protocol.NumbersBefore(1), 0}, a)
	epoch(a, w, 3, "a1+1")
	a.Receive(2, &Progress{Epoch: 4, Proofs: make(Heads, 3)})
	others(false, "when the new incarnation has not said that it has rows")
	a.Receive(1, &Progress{Epoch: 3, Proofs: make(Heads, 3)})
	others(false, "when the new incarnation lacks an epoch that was committed when it said that it has rows")
	a.Receive(1, &Progress{Epoch: 4, Proofs: make(Heads, 3)})
	others(true, "when all is over")

	next.Receive(0, &Progress{Epoch: 3, Proofs: make(Heads, 3)})
	next.Receive(0, &Followed{2, 2})
	next.Receive(2, &Followed{0, 0})
	next.Receive(2, &Progress{Epoch: 1, Proofs: make(Heads, 3)})
	whole(false, "when another replica has not committed the epoch that it began with, and it has not heard of the cut that ends its predecessor's log")
	next.Receive(2, &Progress{Epoch: 2, Proofs: make(Heads, 3)})
	whole(false, "when it has not heard of the cut that ends its predecessor's log")
	agree(Heads{2, protocol.NumbersBefore(1), 0}, next)
	whole(false, "when another replica has not committed that cut")
	next.Receive(2, &Progress{Epoch: 3, Proofs: make(Heads, 3)})
	whole(true, "when all is over")
	next.rejoin.began = 4
	whole(false, "when the others have not committed the epoch that it began with")
	next.rejoin.began = 2
	next.Receive(0, &Followed{2, 3})
	whole(false, "when there is more of a log")
	next.Receive(0, &Followed{3, 3})
	next.rejoin.followed[2] = false
	whole(false, "when a replica has not said how much of its log there is")

	slow, _ := alone(t, 2, nil)
	slow.Receive(0, w.batches[0])
	agree(Heads{1, 0, 0}, slow)
	slow.Replaced(1, 1)
	agree(Heads{2, protocol.NumbersBefore(1), 0}, slow)
	slow.Receive(0, &Progress{Epoch: 3, Proofs: make(Heads, 3)})
	slow.Receive(1, &Progress{Epoch: 3, Proofs: make(Heads, 3)})
	if slow.rejoin.whole() {
		t.Error("a replica that has not committed what ends the predecessor's log says that all copies are there")
	}
}

// Batches that the other replicas have committed are kept for a new incarnation until it has caught up, regardless of
// their size.
func TestKeptForNewIncarnations(t *testing.T) {
	a, w := alone(t, 0, nil)
	for i := range uint64(4) {
		epoch(a, w, 10*i+1, "a1+1")
	}
	report := func(n geo.NodeID, epoch uint64) int {
		a.Receive(n, &Progress{Epoch: epoch, Proofs: make(Heads, 3)})
		return len(a.logs.all[0].batches)
	}
	report(1, 3) // report of the predecessor
	a.Replaced(1, 1)
	a.logs.kept += keepBytes
	if n := report(2, 4); n != 4 {
		t.Errorf("%d batches are kept for a new incarnation without rows, want 4", n)
	}
	if n := report(1, 2); n != 2 {
		t.Errorf("%d batches are kept for one that has committed two epochs, want 2", n)
	}
	if n := report(1, 3); n != 1 {
		t.Errorf("%d batches are kept for one that has committed three epochs, want 1", n)
	}
	epoch(a, w, 60, "a1+1")
	if report(1, 4); a.rejoin.awaited() {
		t.Error("one that has committed all that was committed when it had rows is awaited")
	}
	a.Replaced(1, 2)
	w.now += time.Hour
	if n := report(2, 5); n != 1 {
		t.Errorf("%d batches are kept for a new incarnation that is silent for long", n)
	}
}

// A log has segments of several incarnations, and a lookup finds batches in earlier segments.
func TestSegments(t *testing.T) {
	g := &batchLog{segment: segment{first: 1}}
	g.succeed(3)
	g.open(1)
	g.open(2)
	g.open(3)
	var all []uint32
	for i := range g.earlier {
		all = append(all, protocol.IncarnationOf(g.earlier[i].received))
	}
	if want := []uint32{0, 1, 2}; !slices.Equal(all, want) || g.received != protocol.NumbersBefore(3) {
		t.Errorf("parts of incarnations %v and %s, want %v and 3.0", all, numbered(g.received), want)
	}
	if g.of(protocol.NumbersBefore(4)) != nil || g.of(protocol.NumbersBefore(2)+7) != &g.earlier[2] {
		t.Error("a part is not found, or one that is not there is")
	}
}
