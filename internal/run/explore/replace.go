package explore

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// lossRetry is the interval at which a delayed loss checks whether all copies exist again.
const lossRetry = 20 * time.Millisecond

// lostWhenWhole is the rare action of losing a node right after the database reports full replication. It reveals nodes
// that report full replication too early, which has consequences only if the next loss follows at once.
var lostWhenWhole = buggify.NewReplaced("explore.lost-when-whole",
	"A node is lost within a millisecond after all copies are complete again")

// nextLoss is a loss that may follow as soon as all copies exist again. chance decides at random whether the loss
// happens.
type nextLoss struct {
	loss   fault
	chance *buggify.Node
}

// makeLosses makes nodes lose their state, if the engine declares them replaceable; new incarnations replace them.
//
// It draws one to four losses. Each affects one node or, if the database tolerates it, all nodes of a region. Engines
// tolerate only one loss at a time, so vanish delays a loss until the database is fully replicated. In such a scenario,
// links may be cut and clocks may jump, but there are no other faults.
func (w *world) makeLosses(e *protocol.Engine, r *rand.Rand) {
	may := e.Replaceable(w.topology, w.params)
	if len(may) == 0 {
		return
	}
	// A node with a log would restart from the log instead of being replaced.
	w.durable = false
	w.faults = slices.DeleteFunc(w.faults, func(f fault) bool { return f.kind != cut && f.kind != heal && f.kind != jump })
	survival := e.Tolerance(w.topology, w.params)
	for range 1 + r.IntN(4) {
		f := fault{at: upTo(r, w.load.until), kind: vanish, node: may[r.IntN(len(may))], by: time.Millisecond << r.IntN(12)}
		f.by += upTo(r, f.by)
		f.a = w.topology.RegionOf(f.node)
		f.region = r.IntN(4) == 0 && slices.Contains(survival.Regions, f.a)
		// If the engine cannot replace all nodes of the region at once, lose only a single node.
		if f.region = f.region && w.replaces(e, f); w.replaces(e, f) {
			w.faults = append(w.faults, f)
		}
	}
	w.sortFaults()
}

// replaces reports whether the engine can replace all nodes that a fault loses.
func (w *world) replaces(e *protocol.Engine, f fault) bool {
	return e.CanLose(w.topology, w.params, w.vanishing(f)) == nil
}

// vanishing returns the nodes that lose their state in a fault.
func (w *world) vanishing(f fault) (nodes []geo.NodeID) {
	for n := range geo.NodeID(w.topology.Nodes()) {
		if n == f.node || f.region && w.topology.RegionOf(n) == f.a {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// vanish applies fault f as soon as the database is fully replicated: the nodes lose their state. It drops the fault if
// the other faults and the load are over by then.
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

// whole reports whether all nodes are running and the database is fully replicated.
func (e *execution) whole() bool { return e.away == 0 && e.sim.FullyReplicated() }

// awaitStrength records how long the database takes to become fully replicated again after new incarnations have
// started at the given time.
func (e *execution) awaitStrength(came time.Duration) {
	retry := lossRetry
	if len(e.nextLosses) > 0 {
		// Check often, because lostWhenWhole must follow within a millisecond.
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

// loseAtOnce fills nextLosses if the plan of rare actions enables lostWhenWhole.
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

// loseNext triggers the first of nextLosses that the random generator selects, if any.
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
