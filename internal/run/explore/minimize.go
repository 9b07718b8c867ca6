package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Least is a minimal failing scenario. It has the same problem as the seed's scenario, and the search found nothing
// more that it could remove.
type Least struct {
	// Result is the result of the minimal scenario. First is the result of the seed's scenario.
	*Result
	First *Result
	// Runs is the number of scenarios that the search tried.
	Runs int
	// Exhausted is set if the search stopped because its event budget was used up.
	Exhausted bool
	// Drawn is set if the seed's scenario fails only when clients draw their transactions, not when a script makes them
	// send the same transactions. The search removes nothing in this case.
	Drawn bool

	config    Config
	before    Sizes // sizes of the seed's scenario
	execution *execution
}

// Sizes counts the parts of a scenario.
type Sizes struct{ Regions, Nodes, Transactions, Faults int }

func (s Sizes) sum() int { return s.Regions + s.Nodes + s.Transactions + s.Faults }

func (e *execution) sizes() Sizes {
	return Sizes{
		Regions: len(e.topology.Regions), Nodes: e.topology.Nodes(), Transactions: len(e.submitted),
		Faults: len(e.pairs()) + len(e.core.faults) + len(e.timeline),
	}
}

// Sizes returns the sizes of the minimal scenario and of the seed's scenario. A cut and its heal count as one fault,
// and so do a crash and its restart.
func (l *Least) Sizes() (least, first Sizes) { return l.execution.sizes(), l.before }

// compared states how much of the seed's scenario remains in the minimal scenario.
func (l *Least) compared() string {
	least, first := l.Sizes()
	return fmt.Sprintf("%d of %d transactions, %d of %d faults, %d of %d regions, %d of %d nodes", least.Transactions, first.Transactions,
		least.Faults, first.Faults, least.Regions, first.Regions, least.Nodes, first.Nodes)
}

// note explains why the scenario may not be minimal; empty if there is no such reason.
func (l *Least) note() string {
	switch {
	case l.Exhausted:
		return "there may be lesser ones: the events that were granted are used up"
	case l.Drawn:
		return "nothing was left out: the same does not go wrong when the clients send by a script what they have drawn"
	}
	return ""
}

// Trace runs the minimal scenario again and calls line with a line for each event.
func (l *Least) Trace(line func(string)) {
	c := l.config
	c.Trace = line
	l.execution.world.clone().run(c)
}

// happening is a notable event of an execution.
type happening struct {
	at   time.Duration
	text string
}

// schedule returns transactions, answers and faults, ordered by time.
func (e *execution) schedule() (told []happening) {
	t := e.topology
	add := func(at time.Duration, format string, args ...any) {
		told = append(told, happening{at, fmt.Sprintf(format, args...)})
	}
	for _, f := range slices.Concat(e.faults, e.core.faults) {
		add(f.at, "%s", f.describe(t))
	}
	for i := range e.timeline {
		add(e.timeline[i].At.Duration, "%s", Describe(&e.timeline[i]))
	}
	for _, c := range e.submitted {
		add(c.at, "client %d of %s sends %v: %s", e.load.clientOf(c.id), t.Regions[c.region], c.id, e.load.describe(&c))
		if a, ok := e.answers[c.id]; ok {
			add(a.at, "%v is %v", c.id, a.status)
		} else {
			// List a missing answer at the end of the run, because the client waited until then.
			add(e.sim.Now(), "%v has no answer", c.id)
		}
	}
	slices.SortStableFunc(told, func(x, y happening) int { return int(x.at - y.at) })
	return told
}

// String describes the minimal scenario and lists its transactions, answers and faults, ordered by time.
func (l *Least) String() string {
	var b, world strings.Builder
	fmt.Fprintf(&b, "%s, seed %d: the minimal failing scenario has %s (%d scenarios were tried)\n", l.Engine, l.Seed, l.compared(), l.Runs)
	if note := l.note(); note != "" {
		fmt.Fprintf(&b, "  %s\n", note)
	}
	l.execution.world.describe(&world)
	l.execution.core.describe(&world, l.execution.topology)
	fmt.Fprintf(&world, "%s\n", l.execution.load.what())
	for _, h := range l.execution.schedule() {
		fmt.Fprintf(&world, "%11.3fms %s\n", float64(h.at)/1e6, h.text)
	}
	b.WriteString(indent(world.String()))
	for _, p := range l.Problems {
		fmt.Fprintf(&b, "WRONG: %s\n", strings.TrimSpace(p.Text))
	}
	fmt.Fprintf(&b, "replay: %s --shrink --trace\n", l.command())
	return b.String()
}
