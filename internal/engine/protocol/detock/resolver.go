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
// The logs fix the waits: for each row, they fix the order of the requests in its home's log. So the whole history has
// one waits-for graph, which every copy learns piece by piece, and its strongly connected components are the same
// everywhere. A component is final once its members, and all transactions that they wait for, have all their parts. The
// transactions before a member in a log arrived before it, so it can wait for no further transaction. Then each copy
// runs the members in the order of their ids, regardless of the positions of their requests in the queues. So all
// copies decide alike.
//
// A deadlock may span several partitions, so the copy's first partition gathers the graphs of all partitions
// (graph.go). Each partition reports only changes: under overload a transaction waits through many ticks, and most
// waits are not in a cycle. The reports need not be from the same time: they stay true, and a transaction counts only
// when all its partitions have reported it. With home-only replication a copy spans all regions, and no region sees all
// logs: the first node of all nodes gathers.
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
	// apart reports that a separate core adds to the graph and searches it. During a search, that core owns graph and
	// found, and told holds the reports that arrive. The core's time also covers reading the queues: read are the graphs
	// whose reading time has not passed. outdated reports that the copy has restarted in the meantime.
	apart, searching, outdated bool
	read                       queue.Queue[Graph]
	told                       []Graph
	found                      [][]deterministic.Place
	// Steps of that core: for the queues, and for the graph up to the end of its last search.
	readSteps, searchSteps int64

	resolved, members int64
}

// gatherFor is the time for which the gatherer waits for graphs after the first graph: nodes of a region tick at the
// same time.
const gatherFor = time.Millisecond

func (s *resolver) init(r *Replica, interval time.Duration, layout geo.Layout) {
	s.r, s.interval = r, interval
	s.graph.init()
	for q := range layout.Shards() {
		s.copy = append(s.copy, layout.Node(layout.CopyOf(r.Self), q))
	}
	s.gatherer = s.copy[0]
}

// steps returns the number of steps on the node's core.
func (s *resolver) steps() int64 {
	if s.apart {
		return s.r.Executor.Steps() - s.readSteps
	}
	return s.r.Executor.Steps() + s.graph.steps
}

// watch sets the timer for the next tick, a multiple of the interval, when there is something to report.
func (s *resolver) watch() {
	if s.ticking || !s.r.Executor.Waiting() {
		return
	}
	s.ticking = true
	now := s.r.Env.Now()
	s.r.Env.After(s.interval-now%s.interval, protocol.Timer{Kind: resolveTimer})
}

// tick reports the changes of this partition's graph.
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

// busy reports whether the copy's graph lacks something that this node knows, such as the transactions that have ended.
// Until then, their ids must not be reused: a transaction of another run would be taken for an earlier transaction.
func (s *resolver) busy() bool {
	if s.interval < betweenRuns {
		return false // another run takes longer to begin
	}
	return s.ticking || s.gathering || s.searching || s.read.Len() > 0 || len(s.told) > 0
}

// betweenRuns is less than the time of drivers between two runs on the same database.
const betweenRuns = time.Second / 2

// passRead passes on the graph that has been read.
func (s *resolver) passRead() {
	g := s.read.Front()
	s.read.Pop()
	if g.Since == s.r.Since() { // otherwise the copy has restarted
		s.pass(g)
	}
}

// pass sends the changes of this partition's graph to the gatherer.
func (s *resolver) pass(g Graph) {
	if s.gatherer == s.r.Self {
		s.gather(g)
		return
	}
	s.r.Env.Mark(graphSent)
	s.r.Env.Send(s.gatherer, &g)
}

// gather adds the changes of a partition's graph.
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

// resolve looks for deadlocks, here or on a separate core.
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
	case !s.searching: // otherwise searched continues
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

// searched handles the result of the separate core.
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

// tell sends the deadlocks to all partitions of the copy.
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

// reset discards the graph: the copy has restarted. While a separate core searches the graph, the reset waits.
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
