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

// State is the state of a fault in its life cycle:
//
//	Waiting ──ahead──▶ Setup ──▶ Armed ──at──▶ Inject ──▶ WaitPropagated ──▶ Active ──at + duration──▶ Recover ──▶ WaitRecovered ──▶ Cleanup ──▶ Done
//	                     │         │             │             │                │                        ▲                            ▲
//	                     │         │             └─────────────┴──── too late, aborted ──────────────────┘                            │
//	                     └─────────┴───────────── nobody to hit, too soon after a loss, aborted ──────────────────────────────────────┘
//
// Setup is entered ahead of the fault's time, if a driver needs that (Timeline.Ahead): injectors that act by themselves
// then receive the time.
//
// A state names the current step. Steps are repeated until they succeed, also by another process that finds the life in
// the state in which the last process left it. Each step must therefore be idempotent. From Inject on the fault may
// have an effect, even if Inject has failed: the way out leads through Recover. A fault that is instantaneous and is
// not removed, such as a kill without recovery, goes from WaitPropagated to Cleanup.
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

	// Injecting is the start of injection: the fault may have an effect from then on. Injected is the time at which it was
	// injected everywhere. They are the times of the steps, unless the driver knows and sets the true times.
	Injecting, Injected *time.Duration
	// Recovering is the start of its removal, and Recovered the time at which it was completely removed; set as above.
	Recovering, Recovered *time.Duration
	// Lasting faults are not removed: the data of killed processes is lost.
	Lasting bool
	// Replaced means that the stopped processes return without any state, as new incarnations. Such a fault is injected
	// only once previously lost processes are replaced. A database therefore loses no more at a time than one fault
	// removes.
	Replaced bool
	// Injector is the driver's name of the component that injects the fault, if it has several, and Marks are notes of the
	// driver. Setup makes both.
	Injector string
	Marks    []string
	// Problem is the reason why the fault did not go as planned; empty if it did.
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
	// Setup prepares the fault, whose targets are known. It has no effect that a client could observe before the fault's
	// time. It sets l.Lasting if the driver cannot restore the lost resources.
	Setup(ctx context.Context, l *Life) error
	// Inject starts the fault's effect. Propagated reports whether the effect is everywhere, as far as can be measured.
	Inject(ctx context.Context, l *Life, c *Conditions) error
	Propagated(ctx context.Context, l *Life, c *Conditions) (bool, error)
	// Recover removes the effect. Recovered reports whether it is completely removed.
	Recover(ctx context.Context, l *Life, c *Conditions) error
	Recovered(ctx context.Context, l *Life, c *Conditions) (bool, error)
	// Cleanup removes what Setup has made.
	Cleanup(ctx context.Context, l *Life) error
}

// Timeline is a plan in progress.
type Timeline struct {
	Plan  *Plan
	Lives []*Life
	// Start is the start of measuring, for drivers with real instants.
	Start time.Time
	// Begin is the start of the run, counted from the start of measuring: logs may go further back, into other runs. It is
	// -Forever if logs contain nothing of other runs.
	Begin time.Duration
	// Poll is the retry interval of an unfinished step, and Patience the time after which the fault is given up.
	Poll, Patience time.Duration
	// Ahead returns how long before its planned time a fault is set up. Early returns how long before that time Inject is
	// called; Inject then waits. A nil function means 0.
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

// Step takes all steps that are due at now, and returns the time of the next step, Forever once the timeline is over.
// If once is set, it stops at each change of state of each fault. The caller can then write the state before any action
// of the new state. State changes that are due take precedence: an action for one fault moves the system to the
// conditions of all faults.
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

// Abort starts the removal of all faults. Faults that have not started never start; the others are removed. Step does
// the work.
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

// Conditions returns the combined effects that the faults must have now.
func (t *Timeline) Conditions() *Conditions {
	return t.Plan.Conditions(t.active(func(*Life) bool { return true }))
}

// Packets returns the effects that the faults selected by is must have now, on links that lose single packets.
func (t *Timeline) Packets(is func(*Life) bool) *Conditions {
	return t.Plan.conditions(t.active(is), true)
}

// Alone is Packets on undeclared links: only the effects that the faults add.
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

// step takes the step of the current state of a fault. It returns the time of the next attempt if the state does not
// change.
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
		// The removal of a fault is never given up: the caller of the timeline has a deadline.
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

// MendingPatience is the time that new incarnations may take to obtain their data from other nodes, since there may be
// much of it.
const MendingPatience = 10 * time.Minute

// patience is the time that the current step of a fault may take.
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
