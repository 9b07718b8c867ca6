package detock

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// resolver resolves the deadlocks of one copy (Nguyen 2023, section 4.3).
//
// The logs fix who waits for whom: for each row the order of the requests in its home's log. So the whole history has one
// waits-for graph, which every copy comes to know piece by piece, and its strongly connected components are the same
// everywhere. A component is known for good once all its members, and all that they wait for, have all their parts:
// those ahead of a transaction in a log came before it, so nothing can be added to what it waits for. Then each copy
// runs the members in the order of their ids, wherever their requests are in the queues, and all decide alike.
//
// A deadlock may go through several partitions, so the copy's first partition gathers the graphs of all (graph.go). Each
// partition tells it what is new: under overload a transaction waits through many ticks, and most do not wait for each other
// in a circle. What they tell need not be of the same moment: it stays true, and a transaction counts only when all its
// partitions have told of it.
// With home-only replication a copy spans all regions, and no region sees all logs: the first node of all gathers.
type resolver struct {
	r        *Replica
	interval time.Duration
	// gatherer is the node of the copy's first partition; copy are all its nodes.
	gatherer geo.NodeID
	copy     []geo.NodeID
	ticking  bool

	// At the gatherer: the graph of the whole copy, and whether a search is about to begin.
	graph     graph
	gathering bool
	// apart says that a core of its own adds to the graph and searches it: while it does, graph and found are its, and told is what
	// comes meanwhile. Reading the queues is its, too, as far as time goes: read are the graphs whose time is not over.
	// outdated says that the copy has begun anew meanwhile.
	apart, searching, outdated bool
	read                       queue.Queue[Graph]
	told                       []Graph
	found                      [][]deterministic.Place
	// Steps of that core: for the queues, and for the graph up to the end of its last search.
	readSteps, searchSteps int64

	resolved, members int64
}

// gatherFor is how long the gatherer waits for graphs after the first one: nodes of a region tick at the same time.
const gatherFor = time.Millisecond

func (s *resolver) init(r *Replica, interval time.Duration, layout geo.Layout) {
	s.r, s.interval = r, interval
	s.graph.init()
	for q := range layout.Shards() {
		s.copy = append(s.copy, layout.Node(layout.CopyOf(r.Self), q))
	}
	s.gatherer = s.copy[0]
}

// steps returns what the node's own core took.
func (s *resolver) steps() int64 {
	if s.apart {
		return s.r.Executor.Steps() - s.readSteps
	}
	return s.r.Executor.Steps() + s.graph.steps
}

// watch sets the timer for the next tick, a multiple of the interval, when there is something to tell.
func (s *resolver) watch() {
	if s.ticking || !s.r.Executor.Waiting() {
		return
	}
	s.ticking = true
	now := s.r.Env.Now()
	s.r.Env.After(s.interval-now%s.interval, protocol.Timer{Kind: resolveTimer})
}

// tick tells what is new in this partition's graph.
func (s *resolver) tick() {
	s.ticking = false
	before := s.r.Executor.Steps()
	vertices, over := s.r.Executor.Graph()
	switch {
	case len(vertices)+len(over) == 0:
		s.r.Env.Mark(resolverIdle)
	case s.apart:
		steps := s.r.Executor.Steps() - before
		s.readSteps += steps
		s.read.Push(Graph{vertices, over, s.r.Since()})
		s.r.Env.Offload(func() int64 { return steps }, protocol.Timer{Kind: readTimer})
	case len(s.copy) == 1:
		s.graph.add(vertices, over)
		s.resolve()
	default:
		s.pass(Graph{vertices, over, s.r.Since()})
	}
}

// busy reports whether the copy's graph does not have all that this node knows, in particular which transactions have ended. Until it has, their ids
// must not come again: a transaction of another run would be taken for one that was there before.
func (s *resolver) busy() bool {
	if s.interval < betweenRuns {
		return false // another run takes longer to begin
	}
	return s.ticking || s.gathering || s.searching || s.read.Len() > 0 || len(s.told) > 0
}

// betweenRuns is less than what drivers take from one run to the next on the same database.
const betweenRuns = time.Second / 2

// passRead passes on what has been read.
func (s *resolver) passRead() {
	g := s.read.Front()
	s.read.Pop()
	if g.Since == s.r.Since() { // else the copy has begun anew
		s.pass(g)
	}
}

// pass has the gatherer take what is new in this partition's graph.
func (s *resolver) pass(g Graph) {
	if s.gatherer == s.r.Self {
		s.gather(g)
		return
	}
	s.r.Env.Mark(graphSent)
	s.r.Env.Send(s.gatherer, &g)
}

// gather takes what is new in the graph of a partition.
func (s *resolver) gather(g Graph) {
	if s.apart {
		s.told = append(s.told, g)
	} else {
		s.graph.add(g.Vertices, g.Over)
	}
	if !s.gathering {
		s.gathering = true
		s.r.Env.After(gatherFor, protocol.Timer{Kind: gatherTimer})
	}
}

// resolve looks for deadlocks, here or on a core of its own.
func (s *resolver) resolve() {
	if s.r.Env.Buggify(resolvesLater) {
		s.gathering = true
		s.r.Env.After(gatherFor, protocol.Timer{Kind: gatherTimer})
		return
	}
	s.gathering = false
	switch {
	case !s.apart:
		s.tell(s.graph.deadlocks())
	case !s.searching: // else searched goes on
		s.searching = true
		told := s.told
		s.told = nil
		s.r.Env.Offload(func() int64 { return s.search(told) }, protocol.Timer{Kind: searchedTimer})
	}
}

// search adds to the graph, looks for deadlocks and returns how many steps that took.
func (s *resolver) search(told []Graph) int64 {
	before := s.graph.steps
	for i := range told {
		s.graph.add(told[i].Vertices, told[i].Over)
	}
	s.found = s.graph.deadlocks()
	return s.graph.steps - before
}

// searched takes what a core of its own has found.
func (s *resolver) searched() {
	s.searching = false
	s.searchSteps = s.graph.steps
	if s.outdated {
		s.outdated, s.found = false, nil
		s.graph.reset()
	}
	s.tell(s.found)
	if len(s.told) > 0 && !s.gathering {
		s.resolve()
	}
}

// tell tells all partitions of the copy which deadlocks there are.
func (s *resolver) tell(deadlocks [][]deterministic.Place) {
	if len(deadlocks) == 0 {
		return
	}
	s.r.Env.Mark(deadlockFound)
	if len(deadlocks) > 1 {
		s.r.Env.Mark(severalDeadlocks)
	}
	s.resolved += int64(len(deadlocks))
	for _, d := range deadlocks {
		s.members += int64(len(d))
		if len(d) > 2 {
			s.r.Env.Mark(largeDeadlock)
		}
	}
	for _, n := range s.copy {
		if n != s.r.Self {
			s.r.Env.Mark(resolutionSent)
			s.r.Env.Send(n, &Resolution{deadlocks, s.r.Since()})
		}
	}
	s.apply(deadlocks)
}

// reset forgets the graph: the copy has begun anew. While a core of its own searches it, that waits.
func (s *resolver) reset() {
	s.told = nil
	if s.outdated = s.searching; !s.outdated {
		s.graph.reset()
	}
}

// apply reorders the queues of this partition.
func (s *resolver) apply(deadlocks [][]deterministic.Place) {
	for _, d := range deadlocks {
		s.r.Executor.Reorder(d)
	}
}
