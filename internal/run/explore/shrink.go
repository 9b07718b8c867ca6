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
	// shrinkEvents bounds the events of all worlds that are tried for a least one, unless the caller says otherwise: less than a minute's.
	shrinkEvents = 80_000_000
	// trialEvents bounds those of a single one. Worlds that pass have 2 million at most.
	trialEvents = 3_000_000
	// chances is in how many ways a world that depends on chance is tried before it is taken for one that does not fail.
	chances = 3
	// shakes is in how many other ways a change of a world of few calls is tried, and fewCalls how many those are.
	shakes, fewCalls = 30, 24
	// sidesteps is how often another world of the same size is tried when nothing can be left out any more.
	sidesteps = 30
)

// Shrink looks for the least world in which the same goes wrong as in that of a seed: with fewer transactions, faults, regions,
// partitions and replicas, over a network without loss and jitter, with the engine's default parameters. It tries one change after the other and
// keeps those with which the execution is still wrong in the same way (delta debugging: Zeller and Hildebrandt, Simplifying and
// Isolating Failure-Inducing Input, IEEE TSE 2002), until none is left or events, 80 million for 0, have happened. The same seed
// has the same least world. It returns nil when the seed passes, or ctx ends before its world has run.
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
		c.MaxEvents = trialEvents
	}
	s := &shrinker{ctx: ctx, granted: events, Least: Least{Result: first, First: first, config: c, before: e.sizes(), execution: e}}
	scripted := w.clone()
	scripted.calls = slices.Clone(e.submitted)
	// The calls of a second run have ids of the first one.
	if s.Drawn = e.second || !s.try(scripted); !s.Drawn {
		s.rounds()
		s.sidestep()
	}
	return &s.Least
}

// rounds tries all changes until none helps.
func (s *shrinker) rounds() {
	for before := -1; before != s.kept; {
		before = s.kept
		s.round()
	}
}

// sidestep goes on from other worlds of the same size, in which more may be left out, as long as that leads to lesser ones.
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

// shrinker looks for a least world.
type shrinker struct {
	Least
	ctx     context.Context
	granted uint64 // events
	used    uint64
	kept    int // changes
	shaken  uint64
}

// round tries every change once: first those that leave most out.
func (s *shrinker) round() {
	s.keepCycle()
	s.change(func(w *world) { w.core = core{} })
	s.drop(func(w *world) int { return len(w.calls) }, func(w *world, i, j int) { w.calls = slices.Delete(w.calls, i, j) })
	s.dropFaults()
	s.dropNodes()
	s.simplify()
	s.shorten()
}

// try runs a world, and keeps it if the same goes wrong in it. A world that depends on chance has several.
func (s *shrinker) try(w *world) bool {
	if !w.legal(s.config.Engine) {
		return false
	}
	seed := w.seed
	for n := range uint64(chances) {
		c := s.config
		if c.MaxEvents == 0 {
			c.MaxEvents = max(trialEvents, 2*s.Events) // with fewer, a world that passes would seem to have no end
		}
		if s.used+c.MaxEvents > s.granted || s.ctx.Err() != nil {
			s.Exhausted = s.Exhausted || s.used+c.MaxEvents > s.granted
			return false
		}
		w.seed = seed + n<<32 // what is drawn for other seeds has other numbers
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

// alike reports whether what went wrong in the seed's world has gone wrong again.
func (s *shrinker) alike(r *Result) bool {
	return r.Has(s.First.wrong()) && (s.First.wrong() != Violated || r.Invariant == s.First.Invariant) && r.Anomaly == s.First.Anomaly && r.Panic == s.First.Panic
}

// change tries the present world with a change.
func (s *shrinker) change(change func(*world)) bool {
	w := s.execution.world.clone()
	change(w)
	return !reflect.DeepEqual(w, s.execution.world) && s.try(w)
}

// leave tries the present world with something left out. A mistake that shows only when some transactions meet at the right time, or in
// rows of the right regions, would hide behind all else that the change does to the world: so where calls are few, it is tried with other times,
// rows and regions of these, other times of faults, and another chance, too.
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

// drop leaves out as many of n things as it can, many at a time first, and the last first: without changes a world to one that
// lacks those from i to j.
func (s *shrinker) drop(n func(*world) int, without func(w *world, i, j int)) {
	for size := max(1, n(s.execution.world)/2); size > 0; size /= 2 {
		for end := n(s.execution.world); end > 0; end -= size {
			s.leave(func(w *world) { without(w, max(0, end-size), end) })
		}
	}
}

// keepCycle tries the transactions of the history's cycle alone, and those with the ones that wrote what these have met.
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

// dropFaults leaves out what happens to the network and to nodes: what is cut with its healing, and a crash with its restart.
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

// dropNodes leaves out regions, partitions and replicas.
func (s *shrinker) dropNodes() {
	if s.execution.load.run != nil {
		return // its rows and its calls are those of this topology
	}
	for r := len(s.execution.topology.Regions) - 1; r >= 0 && len(s.execution.topology.Regions) > 1; r-- {
		if !s.leave(func(w *world) { w.leaveOut(geo.Region(r)) }) {
			s.leave(func(w *world) {
				for i := range w.calls {
					if w.calls[i].region == geo.Region(r) { // its clients move
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

// simplify makes the network, the nodes and the parameters those that a person would choose.
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

// shorten leaves parts of key-value transactions out, and lets things happen at whole milliseconds.
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
