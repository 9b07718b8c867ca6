package geogauss

import "testing"

// An epoch is merged when a majority has declared it complete in the present view: what was declared in an earlier one may lack a server.
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
