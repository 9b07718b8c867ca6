package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
)

// State is where a fault is in its life:
//
//	Waiting ──ahead──▶ Setup ──▶ Armed ──at──▶ Inject ──▶ WaitPropagated ──▶ Active ──at + duration──▶ Recover ──▶ WaitRecovered ──▶ Cleanup ──▶ Done
//	                     │         │             │             │                │                        ▲                            ▲
//	                     │         │             └─────────────┴──── too late, aborted ──────────────────┘                            │
//	                     └─────────┴───────────── nobody to hit, too soon after a loss, aborted ──────────────────────────────────────┘
//
// Setup is taken ahead of the fault's time, where a driver needs that (Timeline.Ahead): it tells those who inject the fault by themselves
// when to.
//
// A state names the step that is being taken. Steps are repeated until they succeed, also by another process that finds the
// life where the last one left it, so each must do no harm when it was done before. From Inject on the fault may have an
// effect, even when Inject has failed: the way out leads through Recover. A fault that happens at once and is not taken
// back, a kill without recovery, goes from WaitPropagated to Cleanup.
type State string

// The states.
const (
	Waiting        State = "Waiting"
	Setup          State = "Setup"
	Armed          State = "Armed"
	Inject         State = "Inject"
	WaitPropagated State = "WaitPropagated"
	Active         State = "Active"
	Recover        State = "Recover"
	WaitRecovered  State = "WaitRecovered"
	Cleanup        State = "Cleanup"
	Done           State = "Done"
)

// following lists the legal transitions.
var following = map[State][]State{
	Waiting:        {Setup, Done},
	Setup:          {Armed, Cleanup},
	Armed:          {Inject, Cleanup},
	Inject:         {WaitPropagated, Recover},
	WaitPropagated: {Active, Recover, Cleanup},
	Active:         {Recover},
	Recover:        {WaitRecovered},
	WaitRecovered:  {Cleanup},
	Cleanup:        {Done},
}

// Life is the life of one fault. Times count from the start of measuring; nil is not yet.
type Life struct {
	Fault   *Fault
	State   State
	Since   time.Duration // when the state was entered
	Targets Targets

	// Injecting is when injecting began: the fault may have an effect from here on. Injected is when it was everywhere. They are when
	// the step was taken, unless the driver knows the true times and sets them.
	Injecting, Injected *time.Duration
	// Recovering is when it began to be taken away, Recovered when nothing was left of it; as above.
	Recovering, Recovered *time.Duration
	// Lasting faults are not taken away: killed processes whose data is gone.
	Lasting bool
	// Replaced says that the processes which it ends come back with nothing of what they knew, as new incarnations. It is injected once
	// those that were lost before are replaced, so that a database loses no more at once than one fault takes.
	Replaced bool
	// Injector is the driver's name of what injects the fault, where it has several, and Marks are notes of its own. Setup
	// makes both.
	Injector string
	Marks    []string
	// Problem says why the fault did not go as planned; empty when it did.
	Problem string
}

// waits is true in the states in which nothing is done but to wait for a time.
func (l *Life) waits() bool { return l.State == Waiting || l.State == Armed || l.State == Active }

// Touches is true while the fault may have an effect.
func (l *Life) Touches() bool {
	switch l.State {
	case Inject, WaitPropagated, Active, Recover, WaitRecovered:
		return true
	case Cleanup, Done:
		return l.Lasting
	}
	return false
}

// Wanted is true while the fault is to have its effect.
func (l *Life) Wanted() bool {
	return l.Lasting || l.State == Inject || l.State == WaitPropagated || l.State == Active
}

// To moves the life on. An illegal transition is an error.
func (l *Life) To(next State, now time.Duration) error {
	if !slices.Contains(following[l.State], next) {
		return fmt.Errorf("fault %s: from %s to %s: after %s comes one of %v", l.Fault.Name, l.State, next, l.State, following[l.State])
	}
	l.State, l.Since = next, now
	switch next {
	case Inject:
		at := max(now, l.Fault.At)
		l.Injecting = &at
	case Active:
		known(&l.Injected, now)
	case Recover:
		known(&l.Recovering, now)
	case Cleanup:
		switch {
		case l.Lasting && l.Injecting != nil:
			known(&l.Injected, now)
		case !l.Lasting && l.Recovering != nil:
			known(&l.Recovered, now)
		}
	}
	return nil
}

// known sets a time that the driver has not.
func known(at **time.Duration, now time.Duration) {
	if *at == nil {
		*at = &now
	}
}

// The tolerances of faults that name none: Chaos Mesh takes its time.
const (
	tolerance      = 250 * time.Millisecond
	toleranceChaos = 2 * time.Second
)

// Tolerance is by how much the true times of the fault may be off its plan.
func (l *Life) Tolerance() time.Duration {
	switch {
	case l.Fault.Spec.Tolerance != nil:
		return l.Fault.Spec.Tolerance.Duration
	case l.Injector == string(v1alpha1.InjectorChaosMesh):
		return toleranceChaos
	}
	return tolerance
}

// Injector is a driver's hand. Every method may be called again after it has succeeded. c is what all active faults
// together shall do once the step is done, l's own part included or gone.
type Injector interface {
	// Roles as in Plan.Resolve.
	Roles(ctx context.Context) (Roles, error)
	// Setup prepares the fault, whose targets are known. It has no effect that a client could see before the fault's time. It sets
	// l.Lasting when the driver cannot bring back what the fault takes away.
	Setup(ctx context.Context, l *Life) error
	// Inject begins the fault's effect, Propagated tells whether it is everywhere, as far as can be measured.
	Inject(ctx context.Context, l *Life, c *Conditions) error
	Propagated(ctx context.Context, l *Life, c *Conditions) (bool, error)
	// Recover takes the effect away, Recovered tells whether nothing is left of it.
	Recover(ctx context.Context, l *Life, c *Conditions) error
	Recovered(ctx context.Context, l *Life, c *Conditions) (bool, error)
	// Cleanup removes what Setup has made.
	Cleanup(ctx context.Context, l *Life) error
}

// Timeline is a plan in progress.
type Timeline struct {
	Plan  *Plan
	Lives []*Life
	// Start is when measuring starts, for drivers in whose world that is an instant.
	Start time.Time
	// Begin is when the run began, counted from the start of measuring: logs may go further back, to what other runs did.
	// It is -Forever where logs have nothing of other runs.
	Begin time.Duration
	// Poll is how often a step that is not done yet is tried again, Patience how long before the fault is given up.
	Poll, Patience time.Duration
	// Ahead is how long before its time a fault is set up, Early how long before it Inject is called, which then waits for it; nil is
	// not at all.
	Ahead, Early func(l *Life) time.Duration
}

// NewTimeline returns a plan that nothing has happened of yet.
func NewTimeline(p *Plan, poll, patience time.Duration) *Timeline {
	t := &Timeline{Plan: p, Begin: -Forever, Poll: poll, Patience: patience}
	for _, f := range p.Faults {
		t.Lives = append(t.Lives, &Life{Fault: f, State: Waiting})
	}
	return t
}

// Step takes all steps that are due at now, and returns when the next is, Forever once the timeline is over. It stops
// at each change of state of each fault when once is set, so that it can be written down before anything is done in the
// new one. Those whose time has come turn first: what is done for one fault brings the world to what all of them want.
func (t *Timeline) Step(ctx context.Context, now time.Duration, in Injector, once bool) (next time.Duration, err error) {
	next = Forever
	if once {
		turned := false
		for _, l := range t.Lives {
			if l.waits() {
				before := l.State
				if _, err := t.step(ctx, l, now, in); err != nil {
					return now, err
				}
				turned = turned || l.State != before
			}
		}
		if turned {
			return now, nil
		}
	}
	for _, l := range t.Lives {
		for {
			before := l.State
			at, err := t.step(ctx, l, now, in)
			if err != nil {
				return now, err
			}
			if l.State == before {
				next = min(next, at)
				break
			}
			if once {
				next = now
				break
			}
		}
	}
	return next, nil
}

// Abort begins to end all faults: those that have not begun never do, the others are taken away. Step does the rest.
func (t *Timeline) Abort(now time.Duration) error {
	for _, l := range t.Lives {
		var next State
		switch l.State {
		case Waiting:
			next = Done
		case Setup, Armed:
			next = Cleanup
		case Inject, WaitPropagated, Active:
			if next = Recover; l.Lasting && l.State == WaitPropagated {
				next = Cleanup
			}
		default:
			continue
		}
		if err := l.To(next, now); err != nil {
			return err
		}
	}
	return nil
}

// Over is true when every fault is done.
func (t *Timeline) Over() bool {
	return !slices.ContainsFunc(t.Lives, func(l *Life) bool { return l.State != Done })
}

// replacing reports whether new incarnations are about to take the places of nodes that faults have taken.
func (t *Timeline) replacing() bool {
	return slices.ContainsFunc(t.Lives, func(l *Life) bool { return l.Replaced && l.Touches() })
}

// Conditions are what the faults together shall do now.
func (t *Timeline) Conditions() *Conditions {
	return t.Plan.Conditions(t.active(func(*Life) bool { return true }))
}

// Packets is what those of the faults shall do now of which is says so, where links lose single packets.
func (t *Timeline) Packets(is func(*Life) bool) *Conditions {
	return t.Plan.conditions(t.active(is), true)
}

// Alone is Packets on links of which nothing is declared: what the faults add.
func (t *Timeline) Alone(is func(*Life) bool) *Conditions {
	p, bare := *t.Plan, *t.Plan.Topology
	bare.Links = nil
	for range bare.Regions {
		bare.Links = append(bare.Links, make([]geo.Link, len(bare.Regions)))
	}
	p.Topology = &bare
	return p.conditions(t.active(is), true)
}

func (t *Timeline) active(is func(*Life) bool) []*Life {
	var active []*Life
	for _, l := range t.Lives {
		if l.Wanted() && is(l) {
			active = append(active, l)
		}
	}
	return active
}

// step takes the step of one fault's present state; it returns when to try again where the state stays.
func (t *Timeline) step(ctx context.Context, l *Life, now time.Duration, in Injector) (time.Duration, error) {
	again := now + t.Poll
	patience := t.patience(l)
	late := now-max(l.Since, l.Fault.At) >= patience
	switch l.State {
	case Recover, WaitRecovered, Cleanup:
		late = now-l.Since >= patience
	}
	before := func(ahead func(*Life) time.Duration) time.Duration {
		if ahead == nil {
			return l.Fault.At
		}
		return l.Fault.At - ahead(l)
	}
	giveUp := func(next State, problem error) (time.Duration, error) {
		if !late {
			return again, nil
		}
		if problem == nil {
			problem = fmt.Errorf("not done after %v", patience)
		}
		if l.Problem == "" {
			l.Problem = fmt.Sprintf("%s: %v", l.State, problem)
		}
		return again, l.To(next, now)
	}
	switch l.State {
	case Waiting:
		if at := before(t.Ahead); now < at {
			return at, nil
		}
		return again, l.To(Setup, now)
	case Setup:
		roles, err := in.Roles(ctx)
		if err == nil {
			l.Targets, err = t.Plan.Resolve(l.Fault, roles)
		}
		if err == nil {
			err = in.Setup(ctx, l)
		}
		if err != nil {
			return giveUp(Cleanup, err)
		}
		return again, l.To(Armed, now)
	case Armed:
		if at := before(t.Early); now < at {
			return at, nil
		}
		if l.Replaced && t.replacing() {
			return giveUp(Cleanup, errors.New("nodes that were lost before are not replaced yet"))
		}
		return again, l.To(Inject, now)
	case Inject:
		if err := in.Inject(ctx, l, t.Conditions()); err != nil {
			return giveUp(Recover, err)
		}
		return again, l.To(WaitPropagated, now)
	case WaitPropagated:
		ok, err := in.Propagated(ctx, l, t.Conditions())
		if err != nil || !ok {
			if l.Lasting {
				return giveUp(Cleanup, err)
			}
			return giveUp(Recover, err)
		}
		if l.Lasting {
			return again, l.To(Cleanup, now)
		}
		return again, l.To(Active, now)
	case Active:
		if now < l.Fault.End() {
			return l.Fault.End(), nil
		}
		return again, l.To(Recover, now)
	case Recover:
		// There is no giving up on taking a fault away: whoever drives the timeline has a deadline of its own.
		if err := in.Recover(ctx, l, t.Conditions()); err != nil {
			l.note(late, err)
			return again, nil
		}
		return again, l.To(WaitRecovered, now)
	case WaitRecovered:
		ok, err := in.Recovered(ctx, l, t.Conditions())
		if err != nil || !ok {
			l.note(late, err)
			return again, nil
		}
		return again, l.To(Cleanup, now)
	case Cleanup:
		if err := in.Cleanup(ctx, l); err != nil {
			l.note(late, err)
			return again, nil
		}
		return again, l.To(Done, now)
	}
	return Forever, nil
}

// MendingPatience is how long new incarnations may take to get their data from the others, of which there may be much.
const MendingPatience = 10 * time.Minute

// patience is how long the present step of a fault may take.
func (t *Timeline) patience(l *Life) time.Duration {
	if l.Replaced && (l.State == Armed || l.State == WaitRecovered) {
		return MendingPatience
	}
	return t.Patience
}

// note keeps what went wrong with a step that took too long.
func (l *Life) note(late bool, err error) {
	if late && l.Problem == "" {
		l.Problem = fmt.Sprintf("%s takes long", l.State)
		if err != nil {
			l.Problem += ": " + err.Error()
		}
	}
}
