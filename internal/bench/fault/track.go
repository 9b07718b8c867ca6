package fault

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/admin"
)

// Planned is the planned state from At until the time of the next entry.
type Planned[S any] struct {
	At    time.Duration
	State S
	// Edges are the faults that start or end at that time.
	Edges []*Life
}

// Span is the state that was in effect from From until To.
type Span[S any] struct {
	From, To time.Duration
	State    S
}

// Interval is the time from From (inclusive) to To (exclusive).
type Interval struct{ From, To time.Duration }

// Forever is later than any time of a run.
const Forever = time.Duration(math.MaxInt64)

// Track compares the log of a component (a node or a sidecar) with the plan for this component. All times count from
// the start of measuring, by the clock of the process that started the measurement.
type Track[S any] struct {
	// Name is the name of the node or pod.
	Name string
	// Idle is the state without faults. It is also the actual state between the spans in Done.
	Idle S
	// Plan holds the planned states. Done holds the spans in which the component was not idle, according to its log. Both
	// are ordered by time.
	Plan []Planned[S]
	Done []Span[S]
	// Away lists the times at which the component was absent as planned, and the times for which its log is
	// therefore lost. See Timeline.Away and StartedAnew.
	Away []Interval
	// Begin is the Begin of the timeline. Earlier log entries belong to another run.
	Begin time.Duration
	// Within is the maximum error of the times in Done.
	Within time.Duration
	Same   func(a, b S) bool
	// What describes how a state differs from Idle.
	What func(S) string
}

// plan returns the planned states of a component, with the times at which they start. state returns the state for a set
// of active faults.
func plan[S any](lives []*Life, idle S, same func(a, b S) bool, state func(active []*Life) S) (out []Planned[S]) {
	var at []time.Duration
	for _, l := range lives {
		at = append(at, l.Fault.At, l.end())
	}
	slices.Sort(at)
	before := idle
	var edges []*Life
	for _, p := range slices.Compact(at) {
		var active []*Life
		for _, l := range lives {
			if l.Fault.At <= p && p < l.end() {
				active = append(active, l)
			}
			if l.Fault.At == p || l.end() == p {
				edges = append(edges, l)
			}
		}
		// An edge that does not change this component's state is omitted.
		if s := state(active); !same(s, before) {
			out = append(out, Planned[S]{p, s, edges})
			before = s
		}
		edges = nil
	}
	return out
}

// armed returns the planned faults (see Life.Planned) that have a duration and for which is returns true.
func (t *Timeline) armed(is func(*Life) bool) (out []*Life) {
	for _, l := range t.Lives {
		if l.Planned() && l.Fault.Duration > 0 && is(l) {
			out = append(out, l)
		}
	}
	return out
}

// Planned reports whether the fault's targets are known and it was not given up before it started.
func (l *Life) Planned() bool {
	switch l.State {
	case Waiting:
		return false
	case Setup:
		// Setup chooses the injector only after the targets are known.
		return l.Injector != ""
	case Cleanup, Done:
		// A fault that was given up before injection never affected anything.
		return l.Injecting != nil
	}
	return true
}

// end returns the planned end of the fault, or the earlier time at which the fault was given up.
func (l *Life) end() time.Duration {
	if l.Problem != "" && l.Recovering != nil {
		return min(l.Fault.End(), max(l.Fault.At, *l.Recovering))
	}
	return l.Fault.End()
}

// PlanOf returns the planned states over the whole run, under the faults for which is returns true. state derives a
// planned state from the combined conditions of the faults that are active at the time.
func PlanOf[S any](t *Timeline, idle S, same func(a, b S) bool, is func(*Life) bool, state func(*Conditions) S) []Planned[S] {
	return plan(t.armed(is), idle, same, func(active []*Life) S { return state(t.Plan.conditions(active, false)) })
}

// PacketsPlanOf is PlanOf for links that lose single packets.
func PacketsPlanOf[S any](t *Timeline, idle S, same func(a, b S) bool, is func(*Life) bool, state func(*Conditions) S) []Planned[S] {
	return plan(t.armed(is), idle, same, func(active []*Life) S { return state(t.Plan.conditions(active, true)) })
}

// NodePlan returns the plan of the disturbances that node n applies to itself, without lost nodes.
func (t *Timeline) NodePlan(n geo.NodeID, is func(*Life) bool) []Planned[*admin.Disturbance] {
	return PlanOf(t, &admin.Disturbance{}, (*admin.Disturbance).Same, is, func(c *Conditions) *admin.Disturbance { return c.Disturbance(n, t.Plan.Topology, nil) })
}

// Agenda returns the plan of NodePlan in the form in which the node receives it, with the departures of other nodes.
// zero is the time at which the node's monotonic clock showed 0, counted from the start of measuring.
func Agenda(p []Planned[*admin.Disturbance], zero time.Duration, departures []Departure, self geo.NodeID) *admin.Agenda {
	departures = slices.DeleteFunc(slices.Clone(departures), func(d Departure) bool { return d.Node == self })
	a := &admin.Agenda{}
	var now admin.Disturbance
	for len(p)+len(departures) > 0 {
		at := Forever
		if len(p) > 0 {
			at = p[0].At
		}
		if len(departures) > 0 {
			at = min(at, departures[0].At)
		}
		// Lost nodes stay lost: later states must not drop them.
		gone := now.Lost
		if len(p) > 0 && p[0].At == at {
			now, p = *p[0].State, p[1:]
		}
		for ; len(departures) > 0 && departures[0].At == at; departures = departures[1:] {
			gone = append(slices.Clone(gone), int(departures[0].Node))
		}
		slices.Sort(gone)
		now.Lost = slices.Compact(gone)
		// A time before the clock's zero means immediately. The increasing minimum keeps the steps in order.
		a.Steps = append(a.Steps, admin.Step{At: max(at-zero, time.Duration(len(a.Steps))), Disturbance: now})
	}
	return a
}

// NodeTrack compares the log of node n with the node's plan. zero is defined as in Agenda, and may be off by up to the
// duration within.
func (t *Timeline) NodeTrack(n geo.NodeID, log *admin.Log, zero, within time.Duration, is func(*Life) bool) *Track[*admin.Disturbance] {
	tr := &Track[*admin.Disturbance]{
		Name: t.Plan.Topology.NodeName(n), Idle: &admin.Disturbance{}, Begin: t.Begin, Within: within, Same: (*admin.Disturbance).Same,
		What: func(d *admin.Disturbance) string { return What(d, t.Plan.Topology, n) },
		Plan: t.NodePlan(n, is), Away: t.Away(n),
	}
	for _, e := range log.Entries {
		d := e.Disturbance
		// The planned states have no lost nodes. Losses checks lost nodes.
		d.Lost = nil // see Losses
		s := Span[*admin.Disturbance]{e.From + zero, Forever, &d}
		if e.To != nil {
			s.To = *e.To + zero
		}
		tr.Add(s)
	}
	return tr
}

// Away returns the times at which node n was planned not to run. Each interval lasts from the kill of the node until
// its return, extended by the tolerance of the fault.
func (t *Timeline) Away(n geo.NodeID) (out []Interval) {
	for _, l := range t.Lives {
		if l.Fault.Kills() && l.Injecting != nil && slices.Contains(l.Targets.From, n) {
			away := Interval{*l.Injecting - l.Tolerance(), Forever}
			if l.Recovered != nil {
				away.To = *l.Recovered + l.Tolerance()
			}
			out = append(out, away)
		}
	}
	return out
}

// StartedAnew records that the log starts at time at, because the component that writes it started then. If the
// component was away at this time as planned, its earlier log is lost and the track checks nothing before at. Otherwise
// StartedAnew returns false.
func (tr *Track[S]) StartedAnew(at time.Duration) (planned bool) {
	if planned = tr.away(at); planned {
		tr.Away = append(tr.Away, Interval{-Forever, at})
	}
	return planned
}

// Add appends a span to Done. It merges the span with the previous one if the state continues.
func (tr *Track[S]) Add(s Span[S]) {
	if tr.Same(s.State, tr.Idle) {
		return
	}
	if n := len(tr.Done); n > 0 && tr.Done[n-1].To == s.From && tr.Same(tr.Done[n-1].State, s.State) {
		tr.Done[n-1].To = s.To
		return
	}
	tr.Done = append(tr.Done, s)
}

// whole returns the spans of Done together with the idle times between them, over all time.
func (tr *Track[S]) whole() (out []Span[S]) {
	at := -Forever
	for _, s := range tr.Done {
		if s.From > at {
			out = append(out, Span[S]{at, s.From, tr.Idle})
		}
		out = append(out, s)
		at = s.To
	}
	if at < Forever {
		out = append(out, Span[S]{at, Forever, tr.Idle})
	}
	return out
}

// Edges returns the actual times, closest to the planned times, at which a fault started and ended at this component;
// nil means never. beginTouched and endTouched are false if the start and the end of the fault do not change the state
// of this component.
func (tr *Track[S]) Edges(l *Life) (begin, end *time.Duration, beginTouched, endTouched bool) {
	find := func(at time.Duration) (*time.Duration, bool) {
		i := slices.IndexFunc(tr.Plan, func(p Planned[S]) bool { return p.At == at && slices.Contains(p.Edges, l) })
		if i < 0 {
			return nil, false
		}
		return tr.edge(i), true
	}
	begin, beginTouched = find(l.Fault.At)
	end, endTouched = find(l.end())
	return begin, end, beginTouched, endTouched
}

// edge returns the actual time, closest to the planned time, at which state i of the plan took effect; nil means never.
// The time lies between the previous and the next edge, or within the tolerance if the tolerance is wider. A time that
// is closer to another edge with the same state belongs to that edge.
func (tr *Track[S]) edge(i int) (nearest *time.Duration) {
	p := &tr.Plan[i]
	slack := tr.slack(p.Edges)
	from, to := tr.Begin, Forever
	if i > 0 {
		from = min(tr.Plan[i-1].At, p.At-slack)
	}
	if i+1 < len(tr.Plan) {
		to = max(tr.Plan[i+1].At, p.At+slack)
	}
	// The first span has no start, so it cannot be an edge.
	for _, s := range tr.whole()[1:] {
		distance := func(p *Planned[S]) time.Duration { return (s.From - p.At).Abs() }
		if !tr.Same(s.State, p.State) || s.From < from || s.From > to || nearest != nil && distance(p) >= (*nearest-p.At).Abs() {
			continue
		}
		if !slices.ContainsFunc(tr.Plan, func(o Planned[S]) bool { return tr.Same(o.State, p.State) && distance(&o) < distance(p) }) {
			nearest = &s.From
		}
	}
	return nearest
}

// Deviation is a period in which the actual state differed from the plan.
type Deviation struct {
	// Name is the name of the node or pod. What describes the actual state.
	Name, What string
	From, To   time.Duration
	// Life is the fault that was late or lasted too long; nil if the state is undeclared.
	Life *Life
}

// Windows returns the measured windows of a run, counted from the start of the first window. window returns the window
// of a repetition, which counts from 1.
func Windows(repetitions int, window func(rep int) (from, to time.Duration)) (all []Interval) {
	first, _ := window(1)
	for rep := range repetitions {
		from, to := window(rep + 1)
		all = append(all, Interval{From: from - first, To: to - first})
	}
	return all
}

// Deviations returns the times within windows at which the actual state differed from the plan by more than the
// tolerances of its faults.
func (tr *Track[S]) Deviations(windows []Interval) (out []Deviation) {
	// plan holds the planned states as spans that overlap by the tolerances of their edges.
	type allowed struct {
		Span[S]
		begins, ends []*Life
	}
	var plan []allowed
	state, from, begins := tr.Idle, -Forever, []*Life(nil)
	for _, p := range tr.Plan {
		slack := tr.slack(p.Edges)
		plan = append(plan, allowed{Span[S]{from, p.At + slack, state}, begins, p.Edges})
		state, from, begins = p.State, p.At-slack, p.Edges
	}
	plan = append(plan, allowed{Span[S]{from, Forever, state}, begins, nil})

	for _, done := range tr.whole() {
		for _, w := range windows {
			rest := []Interval{{max(done.From, w.From), min(done.To, w.To)}}
			if rest[0].From >= rest[0].To {
				continue
			}
			for _, a := range tr.Away {
				rest = without(rest, a)
			}
			for _, a := range plan {
				// Within the overlap of two spans, both states are allowed.
				if tr.Same(a.State, done.State) {
					rest = without(rest, Interval{a.From, a.To})
				}
			}
			for _, r := range rest {
				d := Deviation{Name: tr.Name, What: tr.What(done.State), From: r.From, To: r.To}
				for _, a := range plan {
					// If the state was in effect during an allowed span a, and also before or after a, it was early or late.
					if !tr.Same(a.State, done.State) || done.From >= a.To || done.To <= a.From {
						continue
					}
					if r.From >= a.To && len(a.ends) > 0 {
						d.Life = a.ends[0]
					} else if r.To <= a.From && len(a.begins) > 0 {
						d.Life = a.begins[0]
					}
				}
				out = append(out, d)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Deviation) int { return cmp.Compare(a.From, b.From) })
	return out
}

func (tr *Track[S]) slack(edges []*Life) (d time.Duration) {
	for _, l := range edges {
		d = max(d, l.Tolerance())
	}
	return d + tr.Within
}

// without returns the parts of rest outside interval a.
func without(rest []Interval, a Interval) (out []Interval) {
	for _, r := range rest {
		for _, part := range []Interval{{r.From, min(r.To, a.From)}, {max(r.From, a.To), r.To}} {
			if part.From < part.To {
				out = append(out, part)
			}
		}
	}
	return out
}

// Losses returns a deviation for each node that node n was instructed to consider lost although no fault had removed
// it.
func (t *Timeline) Losses(n geo.NodeID, log *admin.Log, zero time.Duration) (out []Deviation) {
	seen := map[int]bool{}
	for _, e := range log.Entries {
		for _, id := range e.Disturbance.Lost {
			taken := slices.ContainsFunc(t.Lives, func(l *Life) bool {
				return l.Lasting && l.Fault.Kills() && l.Injecting != nil && slices.Contains(l.Targets.From, geo.NodeID(id)) && e.From+zero >= l.Fault.At-l.Tolerance()
			})
			if !taken && !seen[id] {
				seen[id] = true
				out = append(out, Deviation{Name: t.Plan.Topology.NodeName(n), What: "node " + t.Plan.Topology.NodeName(geo.NodeID(id)) + " given up",
					From: e.From + zero, To: Forever})
			}
		}
	}
	return out
}

// away reports whether the component was absent, as planned, at a time.
func (tr *Track[S]) away(at time.Duration) bool {
	return slices.ContainsFunc(tr.Away, func(a Interval) bool { return a.From <= at && at < a.To })
}

// Observe sets the actual times of a fault from the logs of the components that inject it. The fault starts with the
// first component and is in effect everywhere with the last component. Likewise, its removal starts with the first
// component and ends with the last. Observe reports whether the fault has started, and ended, everywhere.
func Observe[S any](l *Life, tracks []*Track[S]) (begun, ended bool) {
	begun, ended = true, true
	var begins, ends []time.Duration
	for _, tr := range tracks {
		begin, end, beginTouched, endTouched := tr.Edges(l)
		// A component that was absent at that time could not inject the fault, and its log need not show it.
		if beginTouched && !tr.away(l.Fault.At) {
			if begin == nil {
				begun = false
			} else {
				begins = append(begins, *begin)
			}
		}
		if endTouched && !tr.away(l.end()) {
			if end == nil {
				ended = false
			} else {
				ends = append(ends, *end)
			}
		}
	}
	if begun {
		l.Injecting, l.Injected = bounds(begins, l.Fault.At)
	}
	if ended = begun && ended; ended {
		l.Recovering, l.Recovered = bounds(ends, l.end())
	}
	return begun, ended
}

// bounds returns the first and the last of the times, or the planned time if there are none.
func bounds(times []time.Duration, planned time.Duration) (first, last *time.Duration) {
	if len(times) == 0 {
		times = []time.Duration{planned}
	}
	a, b := slices.Min(times), slices.Max(times)
	return &a, &b
}
