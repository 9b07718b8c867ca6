package oceanvista

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// A donor waits at the mark until it has evaluated all earlier functors. Its rows then include all effects of these
// functors, and no effects of later functors.
func TestDonorDrains(t *testing.T) {
	donor, w := node(t, 4, 0, 2, nil) // partition 0 of the third copy
	donor.Replaced(2, 1)
	donor.applies(closes(2)...)
	donor.applies(joins(2, 0, at(300, maxNode)))
	donor.Receive(2, &StateRequest{donor.membership.copies[1].id})
	both, next := functorOf(at(200, 0), "a0+1 a1+1"), functorOf(at(400, 0), "a0+100")
	donor.takes(both, next)
	w.now = 10 * time.Second
	for n := range geo.NodeID(6) {
		if n != 4 {
			donor.hears(n, at(1000, maxNode))
		}
	}
	if donor.watermarks.visible < at(400, 0) || len(donor.replace.stops) != 1 || donor.row(0) != 10 {
		t.Fatalf("visible up to %v; row 0 is %d", donor.watermarks.visible, donor.row(0))
	}
	donor.Receive(5, &deterministic.Reads{
		Reads:  []deterministic.Read{{Place: deterministic.Place{Position: uint64(both.Timestamp)}, Values: 1}},
		Values: []deterministic.Value{{Bytes: make([]byte, 8), Found: true}},
	})
	rows, _ := read(t, pieceOf(t, w).Data)
	if donor.row(0) != 111 || simload.Value(rows[0].Record) != 11 {
		t.Errorf("row 0 is given as %d, want 11, and is %d, want 111", simload.Value(rows[0].Record), donor.row(0))
	}
	first := donor.membership.copies[1].id
	donor.Replaced(3, 1)
	donor.applies(closes(3)...)
	donor.applies(joins(3, 0, at(2000, maxNode)))
	w.sent, w.to = nil, nil
	donor.Receive(2, &StateRequest{donor.membership.copies[1].id})
	w.now = 20 * time.Second
	for n := range geo.NodeID(6) {
		if n != 4 {
			donor.hears(n, at(3000, maxNode))
		}
	}
	if p := pieceOf(t, w); p.ID <= first || p.At != 0 {
		t.Errorf("a second mark, and %v are sent", p)
	}
}

// The other partitions of the copy discard the functors that they were about to evaluate. They answer the clients of
// these functors with an unknown outcome. They evaluate the functors after the mark, including functors that they issue
// from then on, on the rows that they receive.
func TestCopyBeginsAnew(t *testing.T) {
	r, w := node(t, 3, 0, 2, map[string]string{"reads": readsSnapshot}) // partition 1 of the second copy; node 2 is lost
	r.Submit(simload.Txn(txn.MakeID(1, 1), "a0+1 a1+1"))
	before := r.writes.last
	for n := range geo.NodeID(6) { // the functor is visible here, and waits for the reads of node 2
		if n != 3 {
			r.Receive(n, &Stored{before})
			r.hears(n, before)
		}
	}
	if r.executor.Idle() {
		t.Fatal("nothing waits")
	}
	w.now += time.Second
	r.Submit(simload.Txn(txn.MakeID(1, 2), "a1+100"))
	after := r.writes.last
	above := (before + after) / 2
	stale := &deterministic.Reads{Reads: []deterministic.Read{{Place: deterministic.Place{Position: uint64(before)}}}}
	r.Replaced(2, 1)
	r.applies(closes(2)...)
	w.sent, w.to = nil, nil
	r.applies(joins(2, 0, above))
	if got, want := w.take(5), "asks for the rows as of the mark of view 3"; got != want {
		t.Errorf("the donor hears %q, want %q", got, want)
	}
	if len(w.answers) != 1 || w.answers[0].ID != txn.MakeID(1, 1) || w.answers[0].Status != txn.Unknown || w.answers[0].Reason != deterministic.ReasonReset {
		t.Fatalf("clients hear %v", w.answers)
	}
	r.Submit(simload.Txn(txn.MakeID(1, 3), "r1"))
	if len(w.answers) != 1 || r.Pending() < 3 {
		t.Errorf("a read at a node without rows is answered: %v", w.answers[1:])
	}
	data := appendFunctors(statetransfer.AppendRows(nil, []store.Row{{Key: simload.Key(1), Record: store.Record{Value: []byte{0, 0, 0, 0, 0, 0, 0, 50}}}}), nil)
	from := protocol.Env(&handover{to: r, from: 5})
	statetransfer.NewSender(from, 1).Send(3, 3, data)
	if len(w.answers) != 2 || string(w.answers[1].Result) != "1=50" {
		t.Fatalf("the read is answered %v", w.answers)
	}
	if _, more := r.replace.rows.Get(simload.Key(3)); more {
		t.Error("a row is left that the donor has not")
	}
	if r.Receive(2, stale); !r.executor.Idle() {
		t.Error("what was before the mark goes on")
	}
	for n := range geo.NodeID(6) {
		if n != 3 {
			r.Receive(n, &Stored{after})
			r.hears(n, after+1000<<nodeBits)
		}
	}
	if r.row(1) != 150 || len(w.answers) != 3 || w.answers[2].Status != txn.Committed {
		t.Errorf("row 1 is %d, want 150, and clients hear %v", r.row(1), w.answers)
	}
	r, _ = node(t, 3, 0, 2, nil)
	r.applies(closes(2)...)
	r.applies(joins(2, 0, at(9000, maxNode)))
	statetransfer.NewSender(&handover{to: r, from: 5}, 1).Send(3, 3, data)
	if !r.replace.lacking {
		t.Error("it goes on, and what it reads is meant for the lost node")
	}
	if r.Replaced(2, 1); r.replace.lacking {
		t.Error("it does not go on once it speaks with the new incarnation")
	}
	if r.Submit(simload.Txn(txn.MakeID(1, 1), "a1+1")); r.writes.last < at(9000, maxNode) {
		t.Errorf("it issues %v, which it will never evaluate", r.writes.last)
	}
}

// handover is an environment that delivers each message immediately.
type handover struct {
	world
	to   *Replica
	from geo.NodeID
}

func (h *handover) Send(_ geo.NodeID, m protocol.Message) { h.to.Receive(h.from, m) }

// A node repeats a pending reconnaissance at the new incarnation. The transaction is not affected otherwise, because it
// has not been issued yet.
func TestLooksAgain(t *testing.T) {
	r, w := node(t, 3, 0, 2, nil)
	r.Submit(simload.Txn(txn.MakeID(1, 1), "j0+5"))
	first := w.take(2)
	r.Replaced(2, 1)
	if again := w.take(2); first == "" || again == "" {
		t.Errorf("the lost node is asked %q, the new one %q", first, again)
	}
	r.applies(closes(2)...)
	if r.applies(joins(2, 0, at(9000, maxNode))); len(w.answers) != 0 {
		t.Errorf("clients hear %v", w.answers)
	}
}

// A client that has received an unknown outcome receives no other answer for its transaction, regardless of the
// decision about the transaction.
func TestUnknownIsTheLastWord(t *testing.T) {
	r, w := node(t, 3, 0, 2, nil)
	r.Submit(simload.Txn(txn.MakeID(1, 1), "a0+1 a1+1"))
	r.applies(closes(2)...)
	r.applies(joins(2, 0, at(9000, maxNode)), &suspicion{3, 0}, &decision{server: 3})
	if len(w.answers) != 1 || len(r.writes.waiting) != 0 {
		t.Errorf("clients hear %v, and %d are to be issued again", w.answers, len(r.writes.waiting))
	}
}

// The donor copy is complete and in another region. A copy whose nodes are all active is preferred.
func TestDonor(t *testing.T) {
	r, _ := node(t, 0, 0, 2, nil)
	m := &r.membership
	for _, tc := range []struct {
		prepare func()
		want    int
	}{
		{func() {}, 2},
		{func() { m.servers[5].status = closed }, 0},
		{func() { m.servers[0].incarnation = 1 }, 2},
		{func() { m.copies[2].lacking[1] = true }, 2},
	} {
		tc.prepare()
		if got := m.donor(1); got != tc.want {
			t.Errorf("copy %d, want %d", got, tc.want)
		}
	}
}

// Another node may be lost only when all servers are active, this node knows the incarnations that have joined, and all
// copies have rows.
func TestWhole(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*Replica)
		want    bool
	}{
		"all have all":                {func(*Replica) {}, true},
		"one is closed":               {func(r *Replica) { r.membership.servers[1].status = closed }, false},
		"one is lost":                 {func(r *Replica) { r.membership.servers[1].incarnation = 1 }, false},
		"it is told of one":           {func(r *Replica) { r.replace.known[1] = 1 }, false},
		"it was not told of one":      {func(r *Replica) { s := &r.membership.servers[1]; s.incarnation, s.marked = 1, 1 }, false},
		"a copy lacks something":      {func(r *Replica) { r.membership.copies[2].lacking[0] = true }, false},
		"it has no rows":              {func(r *Replica) { r.replace.lacking = true }, false},
		"it lacks what is forgotten":  {func(r *Replica) { r.behind = true }, false},
		"the group lacks a member":    {func(r *Replica) { r.membership.group.Replaced(1, 1) }, false},
		"a copy has what it asks for": {func(r *Replica) { r.membership.copies[2].id = 7 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := node(t, 0, 0, 1, nil)
			if tc.prepare(r); r.FullyReplicated() != tc.want {
				t.Errorf("whole: %v", r.FullyReplicated())
			}
		})
	}
}

// A copy is complete when each of its nodes has reported that it has the rows of the copy's last mark.
func TestReplenishment(t *testing.T) {
	r, _ := node(t, 0, 0, 2, nil)
	r.applies(closes(2)...)
	r.applies(joins(2, 0, at(300, maxNode)))
	c := &r.membership.copies[1]
	id := c.id
	r.applies(&replenishment{2, id - 1}, &replenishment{4, id}, &replenishment{3, id})
	if want := []bool{true, false}; !slices.Equal(c.lacking, want) {
		t.Errorf("lacking %v, want %v", c.lacking, want)
	}
	other, _ := node(t, 1, 0, 2, nil)
	other.membership.restore(r.membership.snapshot())
	if got := other.membership.copies[1]; fmt.Sprint(got) != fmt.Sprint(*c) || other.membership.servers[2].marked != 1 {
		t.Errorf("a snapshot says %+v, want %+v", got, *c)
	}
	r.applies(&replenishment{2, id})
	if slices.Contains(c.lacking, true) {
		t.Errorf("lacking %v", c.lacking)
	}
}
