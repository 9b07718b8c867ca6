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

// State is a state in the life cycle of a fault:
//
//	Waiting ──ahead──▶ Setup ──▶ Armed ──at──▶ Inject ──▶ WaitPropagated ──▶ Active
//	Active ──at + duration──▶ Recover ──▶ WaitRecovered ──▶ Cleanup ──▶ Done
//	Setup, Armed ──no targets, too soon after a loss, aborted──▶ Cleanup
//	Inject, WaitPropagated ──too late, aborted──▶ Recover
//
// If the driver needs it, Setup is entered ahead of the fault's planned time (Timeline.Ahead). Injectors that act by
// themselves then receive the time in advance.
//
// A state names the current step. A step is repeated until it succeeds, possibly by another process that continues from
// the stored state. Each step must therefore be idempotent. From Inject on, the fault may have an effect even if Inject
// failed, so it can only end via Recover. A fault that is instantaneous and never removed, such as a kill without
// recovery, goes from WaitPropagated to Cleanup.
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

// following lists the allowed transitions.
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

// Life is the state of one fault during a run. Times count from the start of measuring; a nil time has not been
// reached.
type Life struct {
	Fault   *Fault
	State   State
	Since   time.Duration // time at which the state was entered
	Targets Targets

	// Injecting is the time at which the injection starts; from then on the fault may have an effect. Injected is the time
	// by which the fault was in effect everywhere. To sets both when the state changes, unless the driver sets more
	// precise times.
	Injecting, Injected *time.Duration
	// Recovering is the time at which the removal starts, and Recovered the time by which the fault was completely
	// removed. Both are set in the same way as Injecting and Injected.
	Recovering, Recovered *time.Duration
	// Lasting is set if the fault is permanent: the killed processes do not return, and their data is lost.
	Lasting bool
	// Replaced is set if the stopped processes return without state, as new incarnations. Such a fault is injected only
	// once all processes that earlier faults stopped have been replaced. A database therefore never loses more processes
	// at a time than one fault stops.
	Replaced bool
	// Injector is the driver's name for the component that injects the fault, if there are several. Marks are the driver's
	// identifiers of the target processes. Setup sets both.
	Injector string
	Marks    []string
	// Problem explains why the fault did not go as planned; empty if it did.
	Problem string
}

// waits reports whether the fault only waits for the time of its next change of state.
func (l *Life) waits() bool { return l.State == Waiting || l.State == Armed || l.State == Active }

// Touches reports whether the fault may have an effect.
func (l *Life) Touches() bool {
	switch l.State {
	case Inject, WaitPropagated, Active, Recover, WaitRecovered:
		return true
	case Cleanup, Done:
		return l.Lasting
	}
	return false
}

// Wanted reports whether the fault should be in effect.
func (l *Life) Wanted() bool {
	return l.Lasting || l.State == Inject || l.State == WaitPropagated || l.State == Active
}

// To changes the state to next. It returns an error if the transition is not allowed.
func (l *Life) To(next State, now time.Duration) error {
	if !slices.Contains(following[l.State], next) {
		return fmt.Errorf("fault %s: from %s to %s: after %s comes one of %v", l.Fault.Name, l.State, next, l.State, following[l.State])
	}
	l.State, l.Since = next, now
	switch next {
	case Inject:
		// Inject may be called early, and then waits until the planned time. The effect does not start before that time.
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

// known sets a time to now unless the driver has set it.
func known(at **time.Duration, now time.Duration) {
	if *at == nil {
		*at = &now
	}
}

// Default tolerances; Chaos Mesh is slower.
const (
	tolerance      = 250 * time.Millisecond
	toleranceChaos = 2 * time.Second
)

// Tolerance returns the maximum allowed difference between the actual and the planned times of the fault.
func (l *Life) Tolerance() time.Duration {
	switch {
	case l.Fault.Spec.Tolerance != nil:
		return l.Fault.Spec.Tolerance.Duration
	case l.Injector == string(v1alpha1.InjectorChaosMesh):
		return toleranceChaos
	}
	return tolerance
}

// Injector performs the steps of faults for a driver. Every method may be called again after it has succeeded. c holds
// the combined effects of all faults that should be active after the step.
type Injector interface {
	// Roles returns the roles of nodes for Plan.Resolve.
	Roles(ctx context.Context) (Roles, error)
	// Setup prepares the fault, whose targets are known. It must not have any effect that clients could observe before
	// the fault's time. It sets l.Lasting if the driver cannot restore the lost resources.
	Setup(ctx context.Context, l *Life) error
	// Inject starts the effect of the fault. Propagated reports whether the effect is in place everywhere, as far as this
	// can be measured.
	Inject(ctx context.Context, l *Life, c *Conditions) error
	Propagated(ctx context.Context, l *Life, c *Conditions) (bool, error)
	// Recover removes the effect. Recovered reports whether it is completely removed.
	Recover(ctx context.Context, l *Life, c *Conditions) error
	Recovered(ctx context.Context, l *Life, c *Conditions) (bool, error)
	// Cleanup removes everything that Setup created.
	Cleanup(ctx context.Context, l *Life) error
}

// Timeline is a plan in execution, with the life of each fault.
type Timeline struct {
	Plan  *Plan
	Lives []*Life
	// Start is the start of measuring, for drivers in real time.
	Start time.Time
	// Begin is the start of the run, counted from the start of measuring. Logs may contain earlier entries, which belong
	// to other runs. The value is -Forever if logs contain no other runs.
	Begin time.Duration
	// Poll is the retry interval of an unfinished step. Patience is the time after which a fault is given up.
	Poll, Patience time.Duration
	// Ahead returns how long before its planned time a fault is set up. Early returns how long before that time Inject is
	// called; Inject then waits. A nil function means 0.
	Ahead, Early func(l *Life) time.Duration
}

// NewTimeline returns the timeline of a plan whose faults have not started yet.
func NewTimeline(p *Plan, poll, patience time.Duration) *Timeline {
	t := &Timeline{Plan: p, Begin: -Forever, Poll: poll, Patience: patience}
	for _, f := range p.Faults {
		t.Lives = append(t.Lives, &Life{Fault: f, State: Waiting})
	}
	return t
}

// Step performs all steps that are due at now. It returns the time of the next step, or Forever once the timeline is
// over. If once is set, Step stops after each change of state of a fault. The caller can then store the new state
// before any action of that state. Due changes of state precede actions, because the action for one fault establishes
// the conditions of all faults.
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

// Abort starts the removal of all faults. Faults that have not started are dropped. Step performs the removal.
func (t *Timeline) Abort(now time.Duration) error {
	for _, l := range t.Lives {
		var next State
		switch l.State {
		case Waiting:
			next = Done
		case Setup, Armed:
			next = Cleanup
		case Inject, WaitPropagated, Active:
			// A lasting fault has nothing to recover.
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

// Over reports whether every fault is done.
func (t *Timeline) Over() bool {
	return !slices.ContainsFunc(t.Lives, func(l *Life) bool { return l.State != Done })
}

// replacing reports whether new incarnations have not yet replaced all nodes that faults removed.
func (t *Timeline) replacing() bool {
	return slices.ContainsFunc(t.Lives, func(l *Life) bool { return l.Replaced && l.Touches() })
}

// Conditions returns the combined effects that the faults should have now.
func (t *Timeline) Conditions() *Conditions {
	return t.Plan.Conditions(t.active(func(*Life) bool { return true }))
}

// Packets returns the combined effects that the faults for which is returns true should have now, on links that lose
// single packets.
func (t *Timeline) Packets(is func(*Life) bool) *Conditions {
	return t.Plan.conditions(t.active(is), true)
}

// Alone is Packets for links without declared properties: it returns only the effects that the faults add.
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

// step performs the step of the fault's current state. The returned time is the time of the next attempt; it applies
// only if the state has not changed.
func (t *Timeline) step(ctx context.Context, l *Life, now time.Duration, in Injector) (time.Duration, error) {
	again := now + t.Poll
	patience := t.patience(l)
	late := now-max(l.Since, l.Fault.At) >= patience
	switch l.State {
	case Recover, WaitRecovered, Cleanup:
		// The removal starts long after the planned start, so only the time in the state counts.
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
		// If two faults removed nodes at the same time, the database might lose a quorum although the manifest does not
		// intend this.
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
		// There is no active phase that would end: the effect is permanent.
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
		// The removal is never given up, because the caller of the timeline has a deadline.
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

// MendingPatience is the time that new incarnations may take to obtain their data, which may be large, from other
// nodes.
const MendingPatience = 10 * time.Minute

// patience returns the time that the current step of a fault may take.
func (t *Timeline) patience(l *Life) time.Duration {
	if l.Replaced && (l.State == Armed || l.State == WaitRecovered) {
		return MendingPatience
	}
	return t.Patience
}

// note records a step that takes too long, with its last error.
func (l *Life) note(late bool, err error) {
	if late && l.Problem == "" {
		l.Problem = fmt.Sprintf("%s takes long", l.State)
		if err != nil {
			l.Problem += ": " + err.Error()
		}
	}
}
