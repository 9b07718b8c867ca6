package explore

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/sim"
)

const (
	// shrinkEvents is the default event budget of a search, which all its scenarios share. It lasts for less than a
	// minute.
	shrinkEvents = 80_000_000
	// trialEvents is the maximum number of events in a single trial. Scenarios that pass have at most 2 million.
	trialEvents = 3_000_000
	// chances is the number of seeds with which a scenario with packet loss or jitter must pass before it counts as
	// passing.
	chances = 3
	// shakes is the number of randomly changed variants in which leave tries a removal, if the scenario has at most
	// fewCalls calls.
	shakes, fewCalls = 30, 24
	// sidesteps is the number of randomly changed scenarios of the same size that the search tries once it can remove
	// nothing more.
	sidesteps = 30
)

// Shrink searches for a minimal scenario with the same problem as the scenario of a seed. A minimal scenario has few
// transactions, faults, regions, partitions and replicas, a network without loss and jitter, and default parameters.
//
// Shrink tries one change after another, and keeps a change if the execution still has the same problem. This is delta
// debugging (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE TSE 2002). The search stops
// when no change is kept, or after the given number of events; 0 selects 80 million. The result depends only on the
// seed.
//
// Shrink returns nil if the seed passes, or if ctx is done before the seed's scenario has run.
func Shrink(ctx context.Context, c Config, events uint64) *Least {
	c.Trace = nil
	if events == 0 {
		events = shrinkEvents
	}
	w, err := newWorld(c)
	if err != nil {
		return nil
	}
	first, e := w.run(c)
	if first.Passed() || ctx.Err() != nil {
		return nil
	}
	if first.wrong() == Endless {
		// A single trial of an endless scenario would use up the whole budget.
		c.MaxEvents = trialEvents
	}
	s := &shrinker{ctx: ctx, granted: events, Least: Least{Result: first, First: first, config: c, before: e.sizes(), execution: e}}
	scripted := w.clone()
	scripted.calls = slices.Clone(e.submitted)
	// A second run reuses the IDs of the first run, which a script cannot represent.
	if s.Drawn = e.second || !s.try(scripted); !s.Drawn {
		s.rounds()
		s.sidestep()
	}
	return &s.Least
}

// rounds repeats rounds of changes until a round keeps no change.
func (s *shrinker) rounds() {
	for before := -1; before != s.kept; {
		before = s.kept
		s.round()
	}
}

// sidestep continues the search from variants of the same size, which may allow further removals. It keeps a variant
// only if the search then makes it smaller.
func (s *shrinker) sidestep() {
	for range sidesteps {
		least := s.Least
		s.shaken++
		r := newRNG(s.First.Seed, streamShakes+s.shaken<<32)
		if !s.change(func(w *world) { w.shake(r) }) {
			continue
		}
		s.rounds()
		if s.execution.sizes().sum() >= least.execution.sizes().sum() {
			s.Result, s.execution = least.Result, least.execution
		}
	}
}

// shrinker is the state of a search for a minimal scenario.
type shrinker struct {
	Least
	ctx     context.Context
	granted uint64 // event budget
	used    uint64
	kept    int // number of changes that were kept
	shaken  uint64
}

// round tries every change once, starting with the changes that remove the most.
func (s *shrinker) round() {
	s.keepCycle()
	s.change(func(w *world) { w.core = core{} })
	s.drop(func(w *world) int { return len(w.calls) }, func(w *world, i, j int) { w.calls = slices.Delete(w.calls, i, j) })
	s.dropFaults()
	s.dropNodes()
	s.simplify()
	s.shorten()
}

// try runs a scenario and keeps it if it has the same problem. If the network has loss or jitter, try runs the scenario
// with several seeds until one of them has the problem.
func (s *shrinker) try(w *world) bool {
	if !w.legal(s.config.Engine) {
		return false
	}
	seed := w.seed
	for n := range uint64(chances) {
		c := s.config
		if c.MaxEvents == 0 {
			c.MaxEvents = max(trialEvents, 2*s.Events) // with a smaller limit, a passing scenario could appear endless
		}
		// Check the limit of the run in advance, so that the search never exceeds its budget.
		if s.used+c.MaxEvents > s.granted || s.ctx.Err() != nil {
			s.Exhausted = s.Exhausted || s.used+c.MaxEvents > s.granted
			return false
		}
		w.seed = seed + n<<32 // in the high bits, so that the variants of different seeds differ
		res, e := w.run(c)
		s.used += res.Events
		s.Runs++
		if s.alike(res) {
			s.Result, s.execution, s.kept = res, e, s.kept+1
			return true
		}
		if !w.chancy() {
			break
		}
	}
	return false
}

// alike reports whether a result has the same problem as the seed's scenario.
func (s *shrinker) alike(r *Result) bool {
	return r.Has(s.First.wrong()) && (s.First.wrong() != Violated || r.Invariant == s.First.Invariant) && r.Anomaly == s.First.Anomaly && r.Panic == s.First.Panic
}

// change applies a change to a copy of the current scenario, and tries the copy. It returns true if the copy was kept.
// A change without effect is not tried.
func (s *shrinker) change(change func(*world)) bool {
	w := s.execution.world.clone()
	change(w)
	return !reflect.DeepEqual(w, s.execution.world) && s.try(w)
}

// leave tries the current scenario with a part removed.
//
// Some problems occur only if certain transactions overlap in time or use rows of certain regions, and a removal may
// prevent that. So if there are few calls, leave also tries the removal together with random changes (see shake).
func (s *shrinker) leave(change func(*world)) bool {
	if s.change(change) {
		return true
	}
	for range shakes {
		if len(s.execution.calls) > fewCalls {
			return false
		}
		s.shaken++
		r := newRNG(s.First.Seed, streamShakes+s.shaken<<32)
		if s.change(func(w *world) {
			change(w)
			w.shake(r)
		}) {
			return true
		}
	}
	return false
}

// drop removes as many of n elements as possible, in groups that get smaller. without removes the elements in [i, j)
// from a scenario.
func (s *shrinker) drop(n func(*world) int, without func(w *world, i, j int)) {
	for size := max(1, n(s.execution.world)/2); size > 0; size /= 2 {
		// Start at the end: a removal then does not shift the elements that are still to be tried.
		for end := n(s.execution.world); end > 0; end -= size {
			s.leave(func(w *world) { without(w, max(0, end-size), end) })
		}
	}
}

// keepCycle tries to keep only the transactions in the cycle of the anomaly. If that fails, it also keeps the writers
// of the versions that these transactions used.
func (s *shrinker) keepCycle() {
	v := s.execution.verdict
	if v == nil || v.Passed {
		return
	}
	cycle, met := map[txn.ID]bool{}, map[txn.ID]bool{}
	for _, step := range v.Cycle {
		cycle[step.From], cycle[step.To] = true, true
		met[step.Version] = true
	}
	maps.Copy(met, cycle)
	for _, ids := range []map[txn.ID]bool{cycle, met} {
		if len(ids) < len(s.execution.calls) && s.change(func(w *world) {
			w.calls = slices.DeleteFunc(w.calls, func(c call) bool { return !ids[c.id] })
		}) {
			return
		}
	}
}

// dropFaults removes faults of the network and of nodes. A cut is removed together with its heal, and a crash together
// with its restart.
func (s *shrinker) dropFaults() {
	s.drop(func(w *world) int { return len(w.pairs()) }, func(w *world, i, j int) {
		var gone []int
		for _, pair := range w.pairs()[i:j] {
			gone = append(gone, pair...)
		}
		var left []fault
		for n, f := range w.faults {
			if !slices.Contains(gone, n) {
				left = append(left, f)
			} else if f.kind.loss() && w.core.begins > 0 {
				// The region is no longer lost, so its clients take part in the second phase.
				w.core.regions = append(w.core.regions, f.a)
			}
		}
		slices.Sort(w.core.regions)
		w.faults = left
		w.settle()
	})
	s.drop(func(w *world) int { return len(w.timeline) }, func(w *world, i, j int) {
		w.timeline = slices.Delete(w.timeline, i, j)
		w.settle()
	})
	s.drop(func(w *world) int { return len(w.core.faults) }, func(w *world, i, j int) {
		for _, f := range w.core.faults[i:j] {
			w.core.regions = append(w.core.regions, f.a)
		}
		slices.Sort(w.core.regions)
		w.core.faults = slices.Delete(w.core.faults, i, j)
	})
}

// dropNodes removes regions, partitions and replicas.
func (s *shrinker) dropNodes() {
	if s.execution.load.run != nil {
		return // the rows and calls of a run's workload depend on the topology
	}
	for r := len(s.execution.topology.Regions) - 1; r >= 0 && len(s.execution.topology.Regions) > 1; r-- {
		// The region's clients may be essential even if its nodes are not, so also try to move the clients to another region.
		if !s.leave(func(w *world) { w.leaveOut(geo.Region(r)) }) {
			s.leave(func(w *world) {
				for i := range w.calls {
					if w.calls[i].region == geo.Region(r) { // move the client
						w.calls[i].region = geo.Region((r + 1) % len(w.topology.Regions))
					}
				}
				w.leaveOut(geo.Region(r))
			})
		}
	}
	for s.execution.topology.Partitions > 1 && s.leave(func(w *world) { w.reshape(nil, w.topology.Partitions-1, w.topology.Replicas) }) {
	}
	for s.execution.topology.Replicas > 1 && s.leave(func(w *world) { w.reshape(nil, w.topology.Partitions, w.topology.Replicas-1) }) {
	}
}

// simplify replaces settings of the network, the nodes and the parameters with simple values.
func (s *shrinker) simplify() {
	links := func(f func(l *geo.Link, back geo.Link, local bool)) func(*world) {
		return func(w *world) {
			for a, row := range w.topology.Links {
				for b := range row {
					f(&row[b], w.topology.Links[b][a], a == b)
				}
			}
			for a, row := range w.core.links {
				for b := range row {
					l := w.topology.Links[a][b]
					// The links of the second phase have no loss and no jitter. Only their delay and bandwidth follow the topology.
					row[b].Delay, row[b].BandwidthMbps = l.Delay, l.BandwidthMbps
				}
			}
		}
	}
	s.change(links(func(l *geo.Link, _ geo.Link, _ bool) { l.LossPPM = 0 }))
	s.change(links(func(l *geo.Link, _ geo.Link, _ bool) { l.Jitter = 0 }))
	s.change(links(func(l *geo.Link, _ geo.Link, _ bool) { l.BandwidthMbps = 0 }))
	s.change(links(func(l *geo.Link, back geo.Link, _ bool) { l.Delay = max(l.Delay, back.Delay) }))
	s.change(links(func(l *geo.Link, _ geo.Link, local bool) {
		if unit := time.Millisecond; !local {
			l.Delay = max(unit, l.Delay.Round(unit))
		} else {
			l.Delay = unit / 4
		}
	}))
	s.change(func(w *world) { w.coordinators = geo.FirstKey })
	s.change(func(w *world) { w.costs = sim.Costs{} })
	s.change(func(w *world) { w.codec = false })
	s.change(func(w *world) { clear(w.offsets) })
	for n := range s.execution.offsets {
		s.change(func(w *world) { w.offsets[n] = 0 })
	}
	s.change(func(w *world) { w.disks.sync = 0 })
	s.change(func(w *world) {
		for i := range w.faults {
			w.faults[i].loses = 0
		}
	})
	s.change(func(w *world) { w.durable = false })
	s.change(func(w *world) { w.topology.Homes = 0 })
	s.drop(func(w *world) int { return len(w.topology.Groups) }, func(w *world, i, j int) {
		w.topology.Groups = slices.Delete(w.topology.Groups, i, j)
	})
	for _, p := range s.config.Engine.Parameters {
		s.change(func(w *world) { w.params[p.Name] = p.Default })
	}
}

// shorten removes operands from key-value transactions, and rounds the times of calls to whole milliseconds.
func (s *shrinker) shorten() {
	for n := 0; !s.execution.load.bank && s.execution.load.run == nil && n < len(s.execution.calls); n++ {
		operands := func() []string { return strings.Fields(string(s.execution.calls[n].args)) }
		for i := len(operands()) - 1; i >= 0 && len(operands()) > 1; i-- {
			s.change(func(w *world) { w.calls[n].args = []byte(strings.Join(slices.Delete(operands(), i, i+1), " ")) })
		}
	}
	for n := range s.execution.calls {
		s.change(func(w *world) {
			w.calls[n].at = w.calls[n].at.Round(time.Millisecond)
			w.sortCalls()
		})
	}
}
