package geogauss

import (
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/consensus"
)

// newLeader returns the leader of a group with a single member, and a counter of the changes that the group agrees on.
func newLeader(t *testing.T) (r *Replica, agreed *int) {
	r, env := newServer(t)
	agreed = new(int)
	r.members.group = consensus.New(consensus.Config{
		Self: r.self, Members: []geo.NodeID{r.self}, Env: env, TimerKind: groupTimer, Heartbeat: time.Second, Election: time.Second,
		Apply: func([]byte) { *agreed++ }, Lead: func(geo.NodeID, uint64) {},
	})
	r.members.group.Start()
	return r, agreed
}

// Inquiries, reports, rejoin requests and changes belong to a view. In another view they have no effect.
func TestMessagesOfAnotherView(t *testing.T) {
	for view, want := range map[uint64]int{1: 0, 2: 1} {
		r, env := newServer(t)
		r.members.view = 2
		if r.members.inquired(1, &Inquiry{view, 2}); len(env.sent) != want {
			t.Errorf("asked in view %d, a server in view 2 reports %v", view, env.sent)
		}
		if r.members.reported(1, &Report{2, 2, 5}); r.members.round.server != nobody {
			t.Error("a server that does not lead begins a round")
		}
		r, _ = newLeader(t)
		r.members.view = 2
		if r.members.reported(1, &Report{view, 2, 5}); (r.members.round.server == 2) != (want == 1) {
			t.Errorf("a report of view %d in view 2 begins a round for server %d", view, r.members.round.server)
		}
		r, agreed := newLeader(t)
		r.departs(1, 5, 0)
		r.departs(2, 5, 0)
		if r.members.rejoin(1, &Rejoin{view}); *agreed != want {
			t.Errorf("a server that knows view %d joins in view 2: %d changes", view, *agreed)
		}
		r, _ = newServer(t)
		r.members.view = 2
		r.members.apply((&Change{View: view, Server: 1, Last: 5}).append())
		if got := int(r.members.view) - 2; got != want {
			t.Errorf("a change of view %d leads from view 2 to view %d", view, r.members.view)
		}
	}
}

// A leader proposes one change in a view. It proposes another change in the next view, or in a new term, since the
// earlier proposal may be lost.
func TestOneChangeInAView(t *testing.T) {
	r, agreed := newLeader(t)
	r.departs(1, 5, 0)
	for range 2 {
		r.members.rejoin(1, &Rejoin{1})
	}
	if *agreed != 1 {
		t.Fatalf("%d changes are proposed in a view, want 1", *agreed)
	}
	r.departs(2, 5, 0)
	if r.members.rejoin(1, &Rejoin{2}); *agreed != 2 {
		t.Errorf("%d changes are proposed in two views, want 2", *agreed)
	}
	r.members.proposed.term--
	if r.members.rejoin(1, &Rejoin{2}); *agreed != 3 {
		t.Errorf("%d changes are proposed in two views and another term, want 3", *agreed)
	}
}

// The later of two incarnations of a server replaces the earlier incarnation, in any order of messages. A new
// incarnation requests a state once the change is committed.
func TestLatestIncarnation(t *testing.T) {
	r, _ := newServer(t)
	r.Replaced(2, 2)
	r.Replaced(2, 1)
	r.departs(2, 12, 2)
	r.departs(2, 12, 1)
	if s := &r.epochs.servers[2]; s.incarnation != 2 || s.settled != 2 {
		t.Errorf("incarnation %d is heard of, and %d agreed on, want 2", s.incarnation, s.settled)
	}
	r, env := newIncarnation(t, nil)
	if r.replace.ask(); len(env.sent) > 0 {
		t.Errorf("before it is agreed on it asks for a state: %v", env.sent)
	}
	r.departs(2, 12, 1)
	if r.replace.ask(); len(env.sent) != 1 {
		t.Errorf("when it is agreed on it sends %v, want that it asks for a state", env.sent)
	}
}

// The epochs of a server count from the view in which it joins to the last epoch of its tenure. After a report on a
// server's epochs to the leader of a view, later epochs of that server do not count in the view. Only the declarations
// of the latest view count.
func TestWhatCountsInAView(t *testing.T) {
	s := &server{tenures: []tenure{{2, 10}, {4, 20}}, limited: true, limit: 6}
	for _, tc := range []struct {
		view, epoch uint64
		want        bool
	}{{1, 5, false}, {2, 5, true}, {2, 10, true}, {3, 11, false}, {4, 11, true}, {4, 21, false}} {
		if got := s.counts(tc.view, tc.epoch); got != tc.want {
			t.Errorf("epoch %d counts in view %d: %t", tc.epoch, tc.view, got)
		}
	}
	for epoch := uint64(1); epoch <= 8; epoch++ {
		s.log = append(s.log, &Closed{Epoch: epoch, After: epoch - 1})
	}
	if s.find(6) == nil || s.find(7) != nil {
		t.Errorf("limited to epoch 6 it goes on with %v and %v", s.find(6), s.find(7))
	}
	r, _ := newServer(t)
	e := &r.epochs
	for _, tc := range []struct{ view, epoch, wantView, want uint64 }{{2, 5, 2, 5}, {1, 9, 2, 5}, {2, 4, 2, 5}, {3, 4, 3, 4}, {3, 6, 3, 6}} {
		e.completed(1, tc.view, tc.epoch)
		if s := &e.servers[1]; s.completedView != tc.wantView || s.completed != tc.want {
			t.Errorf("after epoch %d of view %d: epoch %d is complete, of view %d; want %d, %d", tc.epoch, tc.view, s.completed, s.completedView, tc.want, tc.wantView)
		}
	}
}

// From a state, a new incarnation learns which epochs have write sets, and it declares the epochs that it has. It
// passes on nothing in place of discarded epochs, because they may have counted.
func TestWhatAStateSays(t *testing.T) {
	from, _ := donor(t, nil)
	from.epochs.wanted = 20
	r, env := newIncarnation(t, nil)
	r.departs(2, 12, 1)
	r.replace.state, r.members.redeclare = from.replace.snapshot(), false
	if r.replace.restore(); r.replace.lacking || r.epochs.wanted != 20 || !r.members.redeclare {
		t.Errorf("lacking %t, it wants epoch %d, and declares what it has: %t", r.replace.lacking, r.epochs.wanted, r.members.redeclare)
	}
	env.sent = nil
	if r.epochs.requested(0, &Request{Server: 1, After: 3}); len(env.sent) > 0 {
		t.Errorf("asked for what comes after epoch 3, and with a state of epoch 10, it sends %v", env.sent)
	}
}
