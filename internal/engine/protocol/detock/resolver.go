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
// The logs determine the waits: for each row, the log of the row's home fixes the order of the requests. The whole
// history therefore has a single waits-for graph, which every copy learns step by step. The graph's strongly connected
// components are the same in all copies.
//
// A component is final once all parts of its members, and of the transactions that the members wait for, have arrived.
// The transactions that precede a member in a log arrived before the member, so the member can wait for no further
// transaction. Each copy then runs the members in the order of their ids, regardless of their positions in the queues.
// All copies thus make the same decision.
//
// A deadlock may span several partitions, so the copy's first partition gathers the graphs of all partitions
// (graph.go). Each partition reports only changes: under overload a transaction waits through many ticks, and most
// waits are not in a cycle. The reports need not be from the same time: reported waits remain valid, and a transaction
// counts only when all its partitions have reported it. With home-only replication a copy spans all regions, and no
// region sees all logs. The first node of the database then gathers the graphs.
type resolver struct {
	r        *Replica
	interval time.Duration
	// gatherer is the node of the copy's first partition. copy lists all nodes of the copy.
	gatherer geo.NodeID
	copy     []geo.NodeID
	ticking  bool

	// graph is the graph of the full copy, and gathering is set while a timer for the next search is running. Only the
	// gatherer uses them.
	graph     graph
	gathering bool
	// apart is set if a separate core adds to the graph and searches it. During a search, that core owns graph and found,
	// and told holds the reports that arrive.
	//
	// The separate core is also charged for reading the queues; read holds graphs until their reading time has passed.
	// outdated is set if the copy has restarted during a search.
	apart, searching, outdated bool
	read                       queue.Queue[Graph]
	told                       []Graph
	found                      [][]deterministic.Place
	// readSteps and searchSteps count the separate core's steps: for reading the queues, and for the graph up to the end
	// of the last search.
	readSteps, searchSteps int64

	resolved, members int64
}

// gatherFor is how long the gatherer waits for other graphs after the first one. The nodes of a region tick at the same
// time.
const gatherFor = time.Millisecond

func (s *resolver) init(r *Replica, interval time.Duration, layout geo.Layout) {
	s.r, s.interval = r, interval
	s.graph.init()
	for q := range layout.Shards() {
		s.copy = append(s.copy, layout.Node(layout.CopyOf(r.Self), q))
	}
	s.gatherer = s.copy[0]
}

// steps returns the number of steps that the node's own core has executed.
func (s *resolver) steps() int64 {
	if s.apart {
		// The separate core is charged for reading the queues.
		return s.r.Executor.Steps() - s.readSteps
	}
	return s.r.Executor.Steps() + s.graph.steps
}

// watch sets the timer for the next tick, at a multiple of the interval, if transactions wait.
func (s *resolver) watch() {
	if s.ticking || !s.r.Executor.Waiting() {
		return
	}
	s.ticking = true
	now := s.r.Env.Now()
	// At multiples of the interval, the nodes of a region tick together, and gatherFor suffices to collect their reports.
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
		s.read.Push(Graph{s.r.Since(), vertices, over})
		s.r.Env.Offload(func() int64 { return steps }, protocol.Timer{Kind: readTimer})
	// With a single partition there is nothing to gather from other nodes.
	case len(s.copy) == 1:
		s.graph.add(vertices, over)
		s.resolve()
	default:
		s.pass(Graph{s.r.Since(), vertices, over})
	}
}

// busy reports whether the copy's graph lacks changes that this node has, such as transactions that have ended. Until
// the graph has them, transaction ids must not be reused: a new transaction would be mistaken for the earlier one.
func (s *resolver) busy() bool {
	if s.interval < betweenRuns {
		return false // the graph is up to date before another run starts
	}
	return s.ticking || s.gathering || s.searching || s.read.Len() > 0 || len(s.told) > 0
}

// betweenRuns is a lower bound for the pause that drivers make between two runs on the same database.
const betweenRuns = time.Second / 2

// passRead passes on the first graph in read, once its reading time has passed.
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

// gather adds a partition's changes to the graph and schedules a search.
func (s *resolver) gather(g Graph) {
	if s.apart {
		s.told = append(s.told, g)
	} else {
		s.graph.add(g.Vertices, g.Over)
	}
	// One search covers all reports that arrive while the timer runs.
	if !s.gathering {
		s.gathering = true
		s.r.Env.After(gatherFor, protocol.Timer{Kind: gatherTimer})
	}
}

// resolve searches for deadlocks, on this core or on the separate core.
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
	case !s.searching: // otherwise searched starts the next search
		s.searching = true
		told := s.told
		s.told = nil
		s.r.Env.Offload(func() int64 { return s.search(told) }, protocol.Timer{Kind: searchedTimer})
	}
}

// search adds reports to the graph, searches for deadlocks and returns the number of steps.
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
	// The separate core no longer uses the graph, so its step count can be read here.
	s.searchSteps = s.graph.steps
	// The copy has restarted during the search, so the deadlocks belong to its earlier state.
	if s.outdated {
		s.outdated, s.found = false, nil
		s.graph.reset()
	}
	s.tell(s.found)
	// Reports have arrived during the search. A running gather timer would start the next search itself.
	if len(s.told) > 0 && !s.gathering {
		s.resolve()
	}
}

// tell sends deadlocks to all partitions of the copy and applies them here.
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
			s.r.Env.Send(n, &Resolution{s.r.Since(), deadlocks})
		}
	}
	s.apply(deadlocks)
}

// reset discards the graph after a restart of the copy. If a separate core is searching the graph, searched discards it
// later.
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
