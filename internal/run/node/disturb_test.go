package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/admin"
)

// A node's status shows its current disturbance. An empty agenda ends the disturbance. The node's clock never goes
// back.
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
	if err := n.Disturb(ctx, admin.Now(slow)); err != nil {
		t.Fatal(err)
	}
	ahead := now()
	if s := status(); !s.Disturbance.Same(slow) || ahead-before < time.Hour {
		t.Errorf("%+v, the clock went from %v to %v", s.Disturbance, before, ahead)
	}
	if err := n.Disturb(ctx, &admin.Agenda{}); err != nil {
		t.Fatal(err)
	}
	if s := status(); s.Disturbance != nil || now() < ahead {
		t.Errorf("%+v, the clock went back from %v to %v", s.Disturbance, ahead, now())
	}
	for _, wrong := range []*admin.Agenda{admin.Now(&admin.Disturbance{Cut: []int{2}}), admin.Now(&admin.Disturbance{Lost: []int{-1}}),
		admin.Now(&admin.Disturbance{SlowPercent: -1}), admin.Now(&admin.Disturbance{Links: []admin.DisturbedLink{{To: "mars"}}}),
		{Process: "another"}, {Steps: []admin.Step{{At: 2}, {At: 1}}}} {
		var bad *admin.BadRequest
		if err := n.Disturb(ctx, wrong); !errors.As(err, &bad) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// A node carries out an agenda on its own and on time, and logs the disturbances. An agenda that is replaced before its
// first step has no effect and no log entry.
func TestAgenda(t *testing.T) {
	l := startSet(t, database("a", "b"))
	n := l.Node(0)
	slow, cut := admin.Disturbance{SlowPercent: 10_000}, admin.Disturbance{Cut: []int{1}}
	start := admin.Monotonic() + 50*time.Millisecond
	agenda := func(at ...time.Duration) *admin.Agenda {
		a := &admin.Agenda{Process: n.Process()}
		for i, d := range []admin.Disturbance{slow, {}, cut, {}} {
			a.Steps = append(a.Steps, admin.Step{At: start + at[i], Disturbance: d})
		}
		return a
	}
	if err := n.Disturb(t.Context(), agenda(time.Hour, 2*time.Hour, 3*time.Hour, 4*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if s, err := n.Status(t.Context()); err != nil || s.Ahead != 4 || s.Disturbance != nil {
		t.Errorf("%+v, %v", s, err)
	}
	planned := []time.Duration{0, 500 * time.Millisecond, 600 * time.Millisecond, 1100 * time.Millisecond}
	if err := n.Disturb(t.Context(), agenda(planned...)); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(20 * time.Second); ; {
		if s, err := n.Status(t.Context()); err != nil || time.Now().After(limit) {
			t.Fatalf("%+v, %v", s, err)
		} else if s.Ahead == 0 && s.Disturbance == nil {
			break
		}
	}
	log := n.Log()
	if log.Process != n.Process() || len(log.Entries) != 2 || !log.Entries[0].Disturbance.Same(&slow) || !log.Entries[1].Disturbance.Same(&cut) {
		t.Fatalf("%+v", log)
	}
	for i, at := range []time.Duration{log.Entries[0].From, *log.Entries[0].To, log.Entries[1].From, *log.Entries[1].To} {
		// The delay depends on the load of the machine, but must not be negative.
		if late := at - start - planned[i]; late < 0 || late > 5*time.Second {
			t.Errorf("step %d was %v late", i, late)
		}
	}
}

// The end of a slowdown also ends the current pause of the node, regardless of its length.
func TestSlownessEndsInTime(t *testing.T) {
	l := &loop{pace: make(chan struct{}, 1)}
	l.slow.Store(1_000_000_000)
	done := make(chan struct{})
	began, percent := l.beginSlowly()
	go func() {
		l.endSlowly(began-time.Millisecond, percent) // would take hours
		close(done)
	}()
	l.slow.Store(0)
	l.pace <- struct{}{}
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the node still pauses")
	}
}

// A node that restarts from its journal continues its agenda and its log of disturbances.
func TestAgendaOutlivesItsProcess(t *testing.T) {
	l := startSetWith(t, database("a", "b"), t.TempDir())
	slow := admin.Disturbance{SlowPercent: 50}
	a := &admin.Agenda{Steps: []admin.Step{{Disturbance: slow}, {At: admin.Monotonic() + time.Hour}}}
	if err := l.Node(1).Disturb(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	l.Stop(1)
	if err := l.Restart(1); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(20 * time.Second); ; {
		s, err := l.Node(1).Status(t.Context())
		if err == nil && s.Disturbance.Same(&slow) && s.Ahead == 1 {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("%+v, %v", s, err)
		}
	}
	e := l.Node(1).Log().Entries
	if len(e) != 2 || e[0].To == nil || *e[0].To <= e[0].From || e[1].From < *e[0].To || e[1].To != nil || !e[0].Disturbance.Same(&slow) || !e[1].Disturbance.Same(&slow) {
		t.Errorf("%+v", e)
	}
}

// A permanently stopped node is reported as stopped, and its peer continues without it.
func TestStoppedNode(t *testing.T) {
	l := startSet(t, database("a", "b"))
	if err := l.Node(0).Disturb(t.Context(), admin.Now(&admin.Disturbance{Lost: []int{1}})); err != nil {
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
