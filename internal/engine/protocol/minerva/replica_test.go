package minerva

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// alone returns replica self of three replicas, and the environment that records its messages.
func alone(t *testing.T, self geo.NodeID, given map[string]string) (*Replica, *world) {
	t.Helper()
	rows := store.NewHash()
	simload.Fill(simload.ThreeRegions(1), 4, 10, func(geo.NodeID) store.Store { return rows })
	return incarnation(t, self, 0, rows, given)
}

// incarnation returns an incarnation of replica self of three replicas, with the given rows.
func incarnation(t *testing.T, self geo.NodeID, number uint32, rows *store.Hash, given map[string]string) (*Replica, *world) {
	t.Helper()
	p, errs := Engine.Resolve(given)
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	w := &world{}
	topology := simload.ThreeRegions(1)
	return newReplica(protocol.Config{
		Self: self, Incarnation: number, Topology: topology, Params: p, Procedures: simload.Procedures, Store: rows, Env: w,
	}, none), w
}

// epoch makes a replica execute transactions, each in a separate batch, and then agrees on a cut after them.
func epoch(r *Replica, w *world, first uint64, ops ...string) {
	for i, o := range ops {
		w.now += 10 * time.Millisecond
		r.Submit(simload.Txn(txn.MakeID(1, first+uint64(i)), o))
	}
	cut := make(Heads, r.nodes)
	cut[r.self] = r.logs.number - 1
	r.epochs.agreed(cut)
}

// A replica whose Raft log lacks cuts receives them in a snapshot, and commits the same epochs. A replica that lacks
// discarded batches refuses its clients' transactions.
func TestSnapshot(t *testing.T) {
	r, w := alone(t, 0, nil)
	for i := range uint64(5) {
		epoch(r, w, 10*i+1, "a1+1", "a1+1 a2+3", "s3-100")
	}
	if len(w.answers) != 15 || r.epochs.committed != 5 {
		t.Fatalf("%d answers in %d epochs", len(w.answers), r.epochs.committed)
	}
	late, _ := alone(t, 2, nil)
	for _, b := range w.batches {
		late.Receive(0, b)
	}
	late.epochs.agreed(r.epochs.cuts[1])
	late.epochs.restore(r.epochs.snapshot())
	if late.epochs.committed != 5 || store.Digest(late.store) != store.Digest(r.store) {
		t.Errorf("%d epochs committed after a snapshot, copies equal: %v", late.epochs.committed, store.Digest(late.store) == store.Digest(r.store))
	}

	r.epochs.collect(3)
	lost, seen := alone(t, 2, nil)
	lost.Submit(simload.Txn(txn.MakeID(2, 1), "r1"))
	lost.epochs.restore(r.epochs.snapshot())
	lost.Submit(simload.Txn(txn.MakeID(2, 2), "r1"))
	if len(seen.answers) != 2 || seen.answers[0].Status != txn.Unknown || seen.answers[1].Status != txn.Refused || lost.Pending() != 1 {
		t.Errorf("a replica that is too far behind answers %+v, with %d pending", seen.answers, lost.Pending())
	}
}

// If a replica falls behind while it waits for a batch, it has nothing left to commit when the batch arrives. It
// accepts no further batches, but it still records the cuts, because it may have to send them to other replicas.
func TestTooFarBehind(t *testing.T) {
	r, w := alone(t, 0, nil)
	for i := range uint64(5) {
		epoch(r, w, 10*i+1, "a1+1")
	}
	r.epochs.collect(3)
	lost, seen := alone(t, 2, nil)
	lost.Submit(simload.Txn(txn.MakeID(2, 1), "a1+1"))
	lost.epochs.agreed(Heads{1, 0, 1})
	lost.epochs.restore(r.epochs.snapshot())
	for _, b := range w.batches {
		lost.Receive(0, b)
		lost.Receive(0, &Proof{b.Number})
	}
	if len(seen.answers) != 1 || seen.answers[0].Status != txn.Unknown || lost.epochs.committed != 0 {
		t.Errorf("a replica that is too far behind answers %+v, and commits %d epochs", seen.answers, lost.epochs.committed)
	}
	if n := len(lost.logs.all[0].batches); n > 0 || seen.acknowledgements > 0 {
		t.Errorf("it keeps %d batches and has sent %d acknowledgements", n, seen.acknowledgements)
	}
	if lost.Pending() != 1 || lost.logs.uncut() {
		t.Errorf("%d pending, want 1; it has batches that are in no epoch: %v", lost.Pending(), lost.logs.uncut())
	}

	epoch(r, w, 51, "a1+1")
	lost.epochs.agreed(r.epochs.head)
	if !slices.Equal(lost.epochs.snapshot(), r.epochs.snapshot()) {
		t.Errorf("it has cuts %v from number %d on, want %v from %d", lost.epochs.cuts, lost.epochs.first, r.epochs.cuts, r.epochs.first)
	}
}

// discarding returns replicas with different knowledge. Replica 0 is live, and has committed a batch of replica 1 and
// discarded it. Replica 2 lacks that batch and knows the cuts. sent and seen are the environments of the two replicas.
func discarding(t *testing.T) (holder, late *Replica, sent, seen *world) {
	t.Helper()
	origin, w := alone(t, 1, nil)
	epoch(origin, w, 1, "a1+1")
	holder, sent = alone(t, 0, nil)
	holder.Receive(1, w.batches[0])
	holder.epochs.agreed(Heads{0, 1, 0})
	epoch(holder, sent, 10, "a2+1")
	holder.logs.kept += keepBytes
	holder.epochs.collect(0)
	if holder.epochs.committed != 2 || holder.logs.all[1].get(1) != nil {
		t.Fatalf("%d epochs are committed, batch %v is kept", holder.epochs.committed, holder.logs.all[1].get(1))
	}
	late, seen = alone(t, 2, nil)
	late.Receive(0, sent.batches[0])
	late.Submit(simload.Txn(txn.MakeID(2, 1), "r1"))
	late.epochs.agreed(Heads{0, 1, 0})
	late.Receive(0, &Progress{Epoch: 2, Proofs: make(Heads, 3)})
	sent.sent, seen.sent = nil, nil
	return holder, late, sent, seen
}

// fetches makes late request missing batches six times, and delivers the answers of the given replicas.
func fetches(late *Replica, seen *world, others map[*Replica]*world) {
	for range 6 {
		late.Fire(protocol.Timer{Kind: fetchTimer})
		all := seen.sent
		seen.sent = nil
		for _, s := range all {
			for r, w := range others {
				if r.self == s.to {
					r.Receive(late.self, s.m)
					for _, m := range w.take(late.self) {
						late.Receive(r.self, m)
					}
				}
			}
		}
	}
}

// A replica that lacks a lost replica's batch falls behind once the other replicas have discarded that batch. It then
// answers open transactions with status Unknown, and refuses new transactions.
func TestDiscardedBatch(t *testing.T) {
	holder, late, sent, seen := discarding(t)
	fetches(late, seen, map[*Replica]*world{holder: sent})
	late.Submit(simload.Txn(txn.MakeID(2, 2), "r1"))
	if len(seen.answers) != 2 || seen.answers[0].Status != txn.Unknown || seen.answers[1].Status != txn.Refused ||
		seen.answers[1].Reason != ReasonBehind || !late.Lags() {
		t.Errorf("a replica that lacks a discarded batch answers %+v; it lags: %v", seen.answers, late.Lags())
	}
	if late.epochs.agreed(Heads{1, 1, 0}); late.epochs.committed != 0 || late.epochs.agreedCuts != 2 {
		t.Errorf("it has committed %d epochs of %d", late.epochs.committed, late.epochs.agreedCuts)
	}
	late.Receive(0, &Request{Origin: 1, From: 1, To: 1})
	if all := seen.take(0); len(all) != 1 || fmt.Sprint(all[0]) != "has discarded batch 1 of 1" {
		t.Errorf("it answers %v to a replica that lacks the same batch", all)
	}
}

// A replica keeps waiting for a batch while another live replica, including the batch's origin, may have it. It also
// keeps waiting while it receives messages from no replica.
func TestBatchThatMayBeKept(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(late *Replica, seen *world)
		origin  protocol.Message // answer of the origin; nil for none
		lags    bool
	}{
		"the origin lives": {prepare: func(late *Replica, _ *world) { late.Receive(1, &Acknowledgement{}) }},
		"the origin has discarded it": {
			prepare: func(late *Replica, _ *world) { late.Receive(1, &Acknowledgement{}) }, origin: &Forgotten{1, 1}, lags: true,
		},
		"of an earlier batch": {
			prepare: func(late *Replica, _ *world) { late.Receive(1, &Acknowledgement{}) }, origin: &Forgotten{1, 0},
		},
		"no node has answered": {prepare: func(_ *Replica, seen *world) { seen.now = time.Hour }},
	} {
		t.Run(name, func(t *testing.T) {
			holder, late, sent, seen := discarding(t)
			tc.prepare(late, seen)
			if seen.now == time.Hour {
				late.epochs.discarded[0][1] = 1
				late.Fire(protocol.Timer{Kind: fetchTimer})
			} else {
				fetches(late, seen, map[*Replica]*world{holder: sent})
			}
			if late.Lags() {
				t.Fatal("it has given up")
			}
			if tc.origin != nil {
				late.Fire(protocol.Timer{Kind: fetchTimer})
				late.Receive(1, tc.origin)
			}
			if late.Lags() != tc.lags {
				t.Errorf("it has given up: %v, want %v", late.Lags(), tc.lags)
			}
		})
	}
}

// A replica that lacks a batch reports the batch as discarded only after another replica has reported it as discarded.
func TestBatchThatTwoLack(t *testing.T) {
	_, late, _, seen := discarding(t)
	ask := func() []protocol.Message {
		seen.sent = nil
		late.Receive(1, &Request{Origin: 1, From: 1, To: 1})
		return seen.take(1)
	}
	if all := ask(); len(all) > 0 {
		t.Errorf("a replica that waits for a batch answers %v", all)
	}
	late.Receive(0, &Forgotten{1, 1})
	if all := ask(); len(all) != 1 || fmt.Sprint(all[0]) != "has discarded batch 1 of 1" {
		t.Errorf("a replica that knows of no holder answers %v", all)
	}
}

// A replica requests batches of two origins from every live replica, because different replicas may hold them.
func TestEachOriginAsksAllHolders(t *testing.T) {
	late, seen := five(t)
	for _, n := range []geo.NodeID{3, 4} {
		late.Receive(n, &Acknowledgement{})
	}
	late.epochs.agreed(Heads{0, 1, 1, 0, 0})
	asked := map[string]bool{}
	for range 4 {
		late.Fire(protocol.Timer{Kind: fetchTimer})
		for _, s := range seen.sent {
			asked[fmt.Sprint(s.to, " ", s.m)] = true
		}
		seen.sent = nil
	}
	if len(asked) != 4 {
		t.Errorf("asked: %v, want 2 replicas for the batches of 2", asked)
	}
}

// A replica that is behind reports batches as discarded that disconnected replicas may have. Another replica therefore
// gives up on a batch only if a live replica has committed its epoch. It asks all replicas, including silent ones.
func TestBatchThatNoLiveReplicaCommitted(t *testing.T) {
	late, seen := five(t)
	late.epochs.agreed(Heads{0, 1, 0, 0, 0})
	seen.now = time.Hour
	gone := &Forgotten{1, 1}
	if late.Receive(3, gone); late.Lags() {
		t.Fatal("it has given up, although no replica has committed the epoch")
	}
	ask := func() (asked int) {
		seen.sent = nil
		late.Fire(protocol.Timer{Kind: fetchTimer})
		for _, s := range seen.sent {
			if _, ok := s.m.(*Request); ok {
				asked++
			}
		}
		return asked
	}
	if first, next := ask(), ask(); first != 4 || next != 1 {
		t.Errorf("%d replicas are asked, then %d, want all 4, then 1 to bound the messages to disconnected replicas", first, next)
	}
	late.Receive(2, &Progress{Epoch: 1, Proofs: make(Heads, 5)})
	seen.now += late.progress.excuse()
	if late.Receive(3, gone); late.Lags() {
		t.Fatal("it has given up, although the replica that has committed the epoch may be lost")
	}
	if all := ask(); all != 4 {
		t.Errorf("%d replicas are asked when one is live, want all 4", all)
	}
	if late.Receive(2, gone); !late.Lags() {
		t.Error("it waits for a batch that a live replica has committed and discarded")
	}
}

// five returns replica 0 of five replicas.
func five(t *testing.T) (*Replica, *world) {
	t.Helper()
	p, errs := Engine.Resolve(nil)
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	delays := make([][]float64, 5)
	for i := range delays {
		delays[i] = make([]float64, 5)
		for j := range delays[i] {
			delays[i][j] = 20
		}
	}
	w := &world{}
	return newReplica(protocol.Config{
		Topology: simload.Topology(1, 1, delays), Params: p, Procedures: simload.Procedures, Store: store.NewHash(), Env: w,
	}, none), w
}

// A replica that is behind keeps the same number of cuts as other replicas, and all cuts that no live replica has
// committed. It also keeps the batches of these cuts that it has acknowledged.
func TestCollectBehind(t *testing.T) {
	r, w := alone(t, 0, nil)
	for i := range uint64(5) {
		epoch(r, w, 10*i+1, "a1+1")
	}
	r.epochs.collect(3)
	lost, _ := alone(t, 2, nil)
	for _, b := range append(w.batches[:2:2], w.batches[3:]...) { // the third batch is lost
		lost.Receive(0, b)
	}
	lost.epochs.restore(r.epochs.snapshot())
	if g := &lost.logs.all[0]; g.get(4) != nil || g.get(5) != w.batches[4] {
		t.Errorf("batches from number %d on are kept: %v; want the last, of which others may know nothing", g.first, g.batches)
	}
	for n := range uint64(keepCuts) {
		lost.epochs.agreed(Heads{6 + n, 0, 0})
	}
	// Without these cuts, no replica could commit the next epochs.
	if lost.epochs.collect(0); len(lost.epochs.cuts) != keepCuts+2 || lost.logs.all[0].get(5) == nil {
		t.Errorf("%d cuts are kept that no replica has committed, want %d", len(lost.epochs.cuts), keepCuts+2)
	}
	lost.Receive(1, &Progress{Epoch: lost.epochs.agreedCuts, Proofs: make(Heads, 3)})
	if n := len(lost.epochs.cuts); n != keepCuts || len(lost.logs.all[0].batches) > 0 {
		t.Errorf("%d cuts and %d batches are kept, want %d and none", n, len(lost.logs.all[0].batches), keepCuts)
	}
}

// Batches and cuts are kept until all replicas have committed them.
func TestCollect(t *testing.T) {
	r, w := alone(t, 0, nil)
	for i := range uint64(4) {
		epoch(r, w, 10*i+1, "a1+1")
	}
	kept := func() (batches, cuts int) { return len(r.logs.all[0].batches), len(r.epochs.cuts) }
	r.Receive(1, &Progress{Epoch: 3, Proofs: make(Heads, 3)})
	if batches, cuts := kept(); batches != 4 || cuts != 4 {
		t.Errorf("%d batches and %d cuts are kept while a replica has committed nothing, want all 4 of both", batches, cuts)
	}
	if r.Pending() == 0 {
		t.Error("nothing is pending although a replica that lives has not committed all epochs")
	}
	r.Receive(2, &Progress{Epoch: 4, Proofs: make(Heads, 3)})
	if batches, cuts := kept(); batches != 1 || cuts != 1 || r.logs.kept != r.logs.all[0].batches[0].size {
		t.Errorf("%d batches and %d cuts are kept when all have committed three epochs, want 1 and 1", batches, cuts)
	}
	r.logs.kept += keepBytes
	r.epochs.collect(0)
	if batches, cuts := kept(); batches != 1 || cuts != 1 {
		t.Errorf("%d batches and %d cuts are left, want the last, of which somebody may know nothing", batches, cuts)
	}
}

// Uncommitted versions appear when their transactions execute, and disappear when these transactions are committed.
func TestUncommittedState(t *testing.T) {
	r, w := alone(t, 0, nil)
	r.Submit(simload.Txn(1, "a1+1"))
	r.Submit(simload.Txn(2, "a1+1 g0.1+1"))
	r.Submit(simload.Txn(3, "a2+1"))
	w.now = time.Second
	r.Submit(simload.Txn(4, "a1+1 g0.1+1"))
	if n := len(r.local.rows) + r.local.ordered.Len(); n != 3 {
		t.Errorf("%d rows have uncommitted versions, want 3", n)
	}
	// Another replica changes row 1, which all transactions of the chain have read.
	other := (&Batch{Origin: 1, Number: 1, First: 1, Records: []Record{{Txn: simload.Txn(9, "a1+10"), Unexecuted: true}}}).seal()
	r.Receive(1, other)
	r.epochs.agreed(Heads{0, 1, 0})
	r.Submit(simload.Txn(5, "a1+1 a2+1"))
	var x *transaction
	r.local.open.Each(func(last *transaction) { x = last })
	if len(x.after) != 1 || x.after[0].record.Txn.ID != 3 {
		t.Errorf("a transaction depends on %d others, want the one whose reads still hold", len(x.after))
	}
	r.logs.send()
	r.epochs.agreed(Heads{r.logs.number - 1, 1, 0})
	if n := len(r.local.rows) + r.local.ordered.Len(); n != 0 || r.local.open.Len() != 0 {
		t.Errorf("%d rows and %d transactions are left", n, r.local.open.Len())
	}
	got, _ := r.store.Get(simload.Key(1))
	if v := simload.Value(got); v != 24 {
		t.Errorf("row 1 is %d, want 24", v)
	}
	if r.epochs.stale+r.epochs.cascading != 3 || r.epochs.valid != 2 {
		t.Errorf("%d stale, %d cascading, %d valid", r.epochs.stale, r.epochs.cascading, r.epochs.valid)
	}
}

// The high-contention mode starts and ends as the parameter specifies.
func TestContention(t *testing.T) {
	type event struct {
		at           time.Duration
		valid, again int // numbers of an epoch; if both are 0, a batch is sent instead
		high         bool
	}
	ms := time.Millisecond
	for name, tc := range map[string]struct {
		mode   string
		events []event
	}{
		"sustained": {contentionSustained, []event{
			{0, 1, 2, false}, {100 * ms, 1, 2, false}, {199 * ms, 1, 2, false}, {200 * ms, 1, 2, true}, {300 * ms, 5, 0, true},
			{399 * ms, 0, 0, true}, {400 * ms, 0, 0, false}, {500 * ms, 1, 2, false},
		}},
		"interrupted": {contentionSustained, []event{
			{0, 1, 2, false}, {100 * ms, 2, 2, false}, {210 * ms, 1, 2, false}, {409 * ms, 1, 2, false}, {410 * ms, 1, 2, true},
		}},
		"immediate": {contentionImmediate, []event{
			{0, 2, 2, false}, {0, 1, 2, true}, {0, 0, 0, true}, {0, 0, 0, true}, {0, 0, 0, true}, {0, 0, 0, true}, {0, 0, 0, false}, {0, 1, 2, true},
		}},
		"off": {contentionOff, []event{{0, 1, 2, false}, {time.Second, 1, 2, false}}},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := alone(t, 0, map[string]string{"highContention": tc.mode})
			for i, e := range tc.events {
				if w.now = e.at; e.valid+e.again > 0 {
					r.contention.epoch(e.valid, e.again)
				} else {
					r.contention.sent()
				}
				if got := r.contention.high(); got != e.high {
					t.Fatalf("event %d: in the mode %v, want %v", i, got, e.high)
				}
			}
		})
	}
}

// A cut never decreases a head, and no batch is committed twice. A coordinator may lack proofs that its predecessor
// had.
func TestCutsGrow(t *testing.T) {
	other, sent := alone(t, 1, nil)
	epoch(other, sent, 1, "a2+5")
	r, w := alone(t, 0, nil)
	r.Submit(simload.Txn(txn.MakeID(1, 1), "a1+1"))
	r.Receive(1, sent.batches[0])
	for _, h := range []Heads{{0, 1, 0}, {1, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 0}} {
		r.epochs.agreed(h)
	}
	if want := (Heads{1, 1, 0}); !slices.Equal(r.epochs.head, want) || r.epochs.committed != 2 {
		t.Errorf("%d epochs up to %v, want 2 up to %v", r.epochs.committed, r.epochs.head, want)
	}
	for row, want := range map[uint64]int64{1: 11, 2: 15} {
		if rec, _ := r.store.Get(simload.Key(row)); simload.Value(rec) != want {
			t.Errorf("row %d is %d, want %d", row, simload.Value(rec), want)
		}
	}
	if len(w.answers) != 1 {
		t.Errorf("%d answers to one transaction", len(w.answers))
	}
}

// A coordinator repeats proposals of an earlier term that were not agreed on.
func TestLostProposalsAreMadeAgain(t *testing.T) {
	r, _ := alone(t, 0, nil)
	r.logs.all[1].proven = 2
	r.epochs.agreed(Heads{0, 1, 0})
	c := &r.coordinator
	c.lead(0, 1)
	copy(c.proposed, Heads{0, 2, 0})
	if c.moved() {
		t.Error("what was proposed in this term is proposed again")
	}
	c.lead(0, 3)
	if !c.moved() {
		t.Error("what an earlier term has proposed, and nobody has agreed to, is not proposed again")
	}
}

// Chains of two replicas are mutual neighbors if one of them writes a row that the other uses. It makes no difference
// whether the writing chain has read the row first.
func TestNeighborsAreMutual(t *testing.T) {
	k := simload.Key(1)
	reads := &Record{Reads: optimistic.Reads{Points: []optimistic.Point{{Key: k}}}}
	writes := &Record{Writes: []txn.WriteEntry{{Key: k}}}
	for name, tc := range map[string]struct {
		chains [2][]*Record
		want   string
	}{
		"both read":                       {[2][]*Record{{reads}, {reads}}, "[]"},
		"one writes":                      {[2][]*Record{{writes}, {reads}}, "[[1] [0]]"},
		"both write":                      {[2][]*Record{{writes}, {writes}}, "[[1] [0]]"},
		"one reads first, and writes":     {[2][]*Record{{reads, writes}, {reads}}, "[[1] [0]]"},
		"one writes first, and reads":     {[2][]*Record{{writes, reads}, {reads}}, "[[1] [0]]"},
		"the second one reads and writes": {[2][]*Record{{reads}, {reads, reads, writes}}, "[[1] [0]]"},
	} {
		c := &conflicts{}
		c.init(none)
		c.reset()
		for origin, chain := range tc.chains {
			c.begin(int32(origin))
			for _, r := range chain {
				c.add(r)
			}
		}
		c.build(0)
		if got := fmt.Sprint(c.graph.Neighbors); got != tc.want {
			t.Errorf("%s: neighbors %s, want %s", name, got, tc.want)
		}
	}
}
