package geogauss

import (
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/consensus"
)

// A snapshot contains all changes permanently, but a departed server's write sets only until they are merged. A server
// that restores it is in the same view, with the same tenures.
func TestSnapshotOfChanges(t *testing.T) {
	r, _ := newServer(t)
	sets := bulk(1 << 20)
	r.members.apply((&Change{Server: 1, Last: 2, Epochs: []*Closed{{Server: 1, Epoch: 1, Sets: sets}, {Server: 1, Epoch: 2, After: 1, Sets: sets}}}).append())
	r.members.apply((&Change{View: 1, Server: 1, Joins: true}).append())
	for base, sets := range []int{2, 1, 0} {
		r.epochs.base = uint64(base)
		r.members.forget()
		snapshot := r.members.snapshot()
		if size := len(snapshot); size < sets<<20 || size > sets<<20+1000 {
			t.Errorf("with epochs up to %d merged, a snapshot has %d bytes, want those of %d write sets", base, size, sets)
		}
		other, _ := newServer(t)
		other.members.restore(snapshot)
		s := &other.epochs.servers[1]
		if other.members.view != 2 || len(s.tenures) != 2 || s.tenures[0].last != 2 || !s.current() {
			t.Errorf("with epochs up to %d merged, it brings view %d with %v", base, other.members.view, s.tenures)
		}
	}
}

// A change whose epochs exceed the limit carries only the first epochs, without a gap.
func TestChangesFitIntoMessages(t *testing.T) {
	r, _ := newServer(t)
	s := &r.epochs.servers[1]
	for epoch := uint64(1); epoch <= 4; epoch++ {
		r.epochs.put(&Closed{Server: 1, Epoch: epoch, After: epoch - 1, Sets: bulk(maxCarried / 3)})
	}
	entry := r.members.departure(1, s.ended).append()
	reader := codec.NewReader(entry)
	c := readChange(&reader)
	if reader.Done() != nil || len(entry) > maxCarried+1000 || len(c.Epochs) != 2 || c.Last != 4 || c.Epochs[0].Epoch != 1 {
		t.Errorf("a change of %d bytes carries %d epochs", len(entry), len(c.Epochs))
	}
}

// A leader that lacks epochs of a server that has left requests them. It starts no inquiry, because the last epoch that
// counts is known and no other server could leave in the meantime. Nor does it remove the server again: earlier
// declarations would not count in the view after that.
func TestLeftServerIsNotSuspected(t *testing.T) {
	for name, left := range map[string]bool{"a member": false, "one that has left": true} {
		t.Run(name, func(t *testing.T) {
			r, env := newServer(t)
			proposed := 0
			r.members.group = consensus.New(consensus.Config{
				Self: r.self, Members: []geo.NodeID{r.self}, Env: env, TimerKind: groupTimer, Heartbeat: time.Second, Election: time.Second,
				Apply: func([]byte) { proposed++ },
			})
			if left {
				r.members.apply((&Change{Server: 1, Last: 50}).append())
			}
			r.epochs.awaited, env.now = 1, time.Minute
			if r.members.suspect(); (r.members.round.server == 1) == left || proposed > 0 {
				t.Errorf("the round is for server %d, and %d changes are proposed", r.members.round.server, proposed)
			}
		})
	}
}

// A server joins, and its late clock still shows an epoch that is complete without the server. The server uses the
// first epoch in which it counts. In an earlier epoch, the write set would never be merged, and the transaction would
// have no answer until a later epoch is merged.
func TestJoinsWithALateClock(t *testing.T) {
	for name, tc := range map[string]struct {
		last   uint64 // the last epoch without the server
		merged bool
	}{"merged": {1, true}, "complete": {1, false}, "several epochs": {3, true}, "several complete epochs": {3, false}} {
		t.Run(name, func(t *testing.T) {
			r, env := newServer(t)
			e := &r.epochs
			r.departs(0, 0, 0)
			r.members.apply((&Change{View: 1, Server: 0, Joins: true}).append())
			others := func(after, epoch uint64) {
				for n := geo.NodeID(1); n <= 2; n++ {
					e.put(&Closed{Server: n, After: after, Epoch: epoch, View: 2})
				}
			}
			others(0, tc.last)
			if tc.merged {
				e.completed(1, 2, tc.last)
			}
			if r.settle(); e.frontier != tc.last || (e.base == tc.last) != tc.merged || r.local.running() != 1 || !r.members.counts(0) {
				t.Fatalf("epoch %d is complete, %d merged, and %d runs", e.frontier, e.base, r.local.running())
			}
			env.sent = nil
			r.Submit(simload.Txn(1, "w1=5"))
			var epochs []uint64
			for _, m := range env.sent {
				if set, is := m.(*WriteSet); is {
					epochs = append(epochs, set.Epoch)
				}
			}
			next := tc.last + 1
			if !slices.Equal(epochs, []uint64{next, next}) || e.servers[0].ended != tc.last || r.Pending() == 0 {
				t.Errorf("its write set is sent in epochs %v, and it has ended epoch %d", epochs, e.servers[0].ended)
			}
			env.now = time.Duration(next) * r.local.length
			r.local.tick()
			others(tc.last, next)
			e.completed(1, 2, next)
			if r.settle(); r.merge.committed != 1 || r.local.open.Len() > 0 {
				t.Errorf("%d transactions are committed, and %d have no answer", r.merge.committed, r.local.open.Len())
			}
		})
	}
}
