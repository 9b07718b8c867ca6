package geogauss

import (
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
)

// An epoch is merged when a majority has declared it complete in the current view: a declaration in an earlier view may
// omit a server.
func TestAcknowledgedInThisView(t *testing.T) {
	for name, tc := range map[string]struct {
		completed, view uint64
		want            bool
	}{
		"in this view":         {10, 2, true},
		"in an earlier view":   {10, 1, false},
		"an epoch before":      {9, 2, false},
		"a later one, as well": {11, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Replica{nodes: 3}
			r.members.view = 2
			e := &r.epochs
			e.r, e.acks, e.servers = r, acksMajority, make([]server, 3)
			e.servers[1].completed, e.servers[1].completedView = tc.completed, tc.view
			if got := e.acknowledged(&segment{end: 10}); got != tc.want {
				t.Errorf("acknowledged %v, want %v", got, tc.want)
			}
		})
	}
}

// A server that has merged an epoch declares it again when the membership changes, immediately and once. Its earlier
// declaration does not count in the new view, and other servers may still need it.
func TestAcknowledgedAgainInANewView(t *testing.T) {
	r, env := newServer(t)
	e := &r.epochs
	for n := range e.servers {
		e.put(&Closed{Server: geo.NodeID(n), Epoch: 5})
	}
	e.walk()
	e.ready, e.base = nil, e.frontier
	r.departs(2, 5, 0)
	for look, want := range []int{2, 0} {
		env.sent = nil
		if e.walk(); len(env.sent) != want {
			t.Fatalf("at look %d it says %v, want %d messages", look, env.sent, want)
		}
		for _, m := range env.sent {
			if c, is := m.(*Completion); !is || c.View != 1 || c.Epoch != 5 {
				t.Errorf("it says %v, want that epoch 5 is complete in view 1", m)
			}
		}
	}
}
