package explore

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// lossRetry is the interval at which the scenario checks whether the database can tolerate the next loss.
const lossRetry = 20 * time.Millisecond

// lostWhenWhole finds a node that reports too early that no data lacks a copy: this matters only in the moment before
// the next loss.
var lostWhenWhole = buggify.NewReplaced("explore.lost-when-whole", "A node is lost within a millisecond of all copies being there again")

// nextLoss is a node that may be lost as soon as all copies exist again, and the random generator that decides.
type nextLoss struct {
	loss   fault
	chance *buggify.Node
}

// makeLosses lets nodes lose their processes and memory and be replaced, if the engine declares that they may. It loses
// one node up to four times, or all nodes of a region that the database survives without. The next loss waits until no
// data lacks a copy any more, since an engine promises to tolerate one loss at a time; meanwhile links are cut. Nothing
// else is lost in such a scenario.
func (w *world) makeLosses(e *protocol.Engine, r *rand.Rand) {
	may := e.Replaceable(w.topology, w.params)
	if len(may) == 0 {
		return
	}
	w.durable = false
	w.faults = slices.DeleteFunc(w.faults, func(f fault) bool { return f.kind != cut && f.kind != heal && f.kind != jump })
	survival := e.Tolerance(w.topology, w.params)
	for range 1 + r.IntN(4) {
		f := fault{at: upTo(r, w.load.until), kind: vanish, node: may[r.IntN(len(may))], by: time.Millisecond << r.IntN(12)}
		f.by += upTo(r, f.by)
		f.a = w.topology.RegionOf(f.node)
		f.region = r.IntN(4) == 0 && slices.Contains(survival.Regions, f.a)
		if f.region = f.region && w.replaces(e, f); w.replaces(e, f) {
			w.faults = append(w.faults, f)
		}
	}
	w.sortFaults()
}

// replaces reports whether the engine takes new incarnations in for all that a fault loses.
func (w *world) replaces(e *protocol.Engine, f fault) bool {
	return e.CanLose(w.topology, w.params, w.vanishing(f)) == nil
}

// vanishing returns the nodes that lose their memory.
func (w *world) vanishing(f fault) (nodes []geo.NodeID) {
	for n := range geo.NodeID(w.topology.Nodes()) {
		if n == f.node || f.region && w.topology.RegionOf(n) == f.a {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// vanish loses nodes as soon as the database has all its copies, unless the last fault is over by then.
func (e *execution) vanish(f fault) {
	if !e.whole() {
		if at := e.sim.Now() + lossRetry; at < max(e.calm, e.load.until) {
			e.sim.At(at, func() { e.vanish(f) })
		}
		return
	}
	e.awaitStrength(e.sim.Now() + f.by)
	for _, n := range e.vanishing(f) {
		e.sim.Crash(n)
		e.replaced++
		e.away++
		e.sim.At(e.sim.Now()+f.by, func() {
			e.away--
			e.sim.Replace(n)
		})
	}
}

// whole reports whether all nodes live, and nothing lacks a copy.
func (e *execution) whole() bool { return e.away == 0 && e.sim.FullyReplicated() }

// awaitStrength notes how long after a time, when new incarnations come, the database has all its copies again.
func (e *execution) awaitStrength(came time.Duration) {
	retry := lossRetry
	if len(e.nextLosses) > 0 {
		retry = time.Millisecond
	}
	e.sim.At(max(came, e.sim.Now()+retry), func() {
		if !e.whole() {
			e.awaitStrength(came)
			return
		}
		e.mended = max(e.mended, e.sim.Now()-came)
		e.loseNext()
	})
}

// loseAtOnce has the plan of rare things say whether nodes are lost as soon as all copies are there again.
func (e *execution) loseAtOnce(c Config) {
	if !c.Replace || e.rare == nil || e.rare.Rate(lostWhenWhole) == 0 {
		return
	}
	e.lossRNG = newRNG(e.seed, streamNextLosses)
	for _, n := range c.Engine.Replaceable(e.topology, e.params) {
		if f := (fault{kind: vanish, node: n, a: e.topology.RegionOf(n)}); e.replaces(c.Engine, f) {
			e.nextLosses = append(e.nextLosses, nextLoss{f, e.rare.Node(n)})
		}
	}
}

// loseNext loses the first node that the random generator selects, if any.
func (e *execution) loseNext() {
	for _, next := range e.nextLosses {
		if next.chance.Fires(lostWhenWhole, e.sim.Now()) {
			next.loss.by = time.Millisecond << e.lossRNG.IntN(12)
			e.marks.Hit(lostWhenWhole.Mark)
			e.say(next.loss)
			e.vanish(next.loss)
			return
		}
	}
}
