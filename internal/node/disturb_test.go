package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/geo"
)

// What a node is told to do to itself shows in its status, ends when it is told so or when nobody renews it, and its clock
// never goes back.
func TestDisturb(t *testing.T) {
	l := startSet(t, database("a", "b"))
	n := l.Node(0)
	ctx := t.Context()
	now := func() (at time.Duration) {
		if err := n.call(ctx, func() { at = n.loop.Now() }); err != nil {
			t.Fatal(err)
		}
		return at
	}
	status := func() *admin.Status {
		s, err := n.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := now()
	slow := &admin.Disturbance{SlowPercent: 50, ClockOffset: time.Hour, Cut: []int{1}}
	if err := n.Disturb(ctx, slow); err != nil {
		t.Fatal(err)
	}
	ahead := now()
	if s := status(); !s.Disturbance.Same(slow) || ahead-before < time.Hour {
		t.Errorf("%+v, the clock went from %v to %v", s.Disturbance, before, ahead)
	}
	if err := n.Disturb(ctx, &admin.Disturbance{}); err != nil {
		t.Fatal(err)
	}
	if s := status(); s.Disturbance != nil || now() < ahead {
		t.Errorf("%+v, the clock went back from %v to %v", s.Disturbance, ahead, now())
	}
	if err := n.Disturb(ctx, &admin.Disturbance{SlowPercent: 1, Lease: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(10 * time.Second); status().Disturbance != nil; {
		if time.Now().After(limit) {
			t.Fatal("nobody renewed the lease, and it did not end")
		}
	}
	for _, wrong := range []*admin.Disturbance{{Cut: []int{2}}, {Lost: []int{-1}}, {SlowPercent: -1}, {Lease: -1}, {Links: []admin.DisturbedLink{{To: "mars"}}}} {
		var bad *admin.BadRequest
		if err := n.Disturb(ctx, wrong); !errors.As(err, &bad) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// A node that was stopped for good is told of as that, and the other one goes on without it.
func TestStoppedNode(t *testing.T) {
	l := startSet(t, database("a", "b"))
	if err := l.Node(0).Disturb(t.Context(), &admin.Disturbance{Lost: []int{1}}); err != nil {
		t.Fatal(err)
	}
	l.Stop(1)
	s, err := l.Status(context.Background())
	if err != nil || !s[0].Ready || s[1].Ready || s[1].Reason != "it was stopped" {
		t.Errorf("%+v, %v", s, err)
	}
	audits, err := l.Audit(t.Context(), func(n geo.NodeID) bool { return n == 1 })
	if !errors.Is(err, admin.ErrBusy) || audits != nil { // nothing was loaded
		t.Errorf("%v, %v", audits, err)
	}
}
