package detock

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/protocol/deterministic"
)

// resolver resolves the deadlocks of one copy (Nguyen 2023, section 4.3).
//
// The logs fix who waits for whom: for each row the order of the requests in its home's log. So the whole history has one
// waits-for graph, which every copy comes to know piece by piece, and its strongly connected components are the same
// everywhere. A component is known for good once all its members, and all that they wait for, have all their parts:
// those ahead of a transaction in a log came before it, so nothing can be added to what it waits for. Then each copy
// runs the members in the order of their ids, wherever their requests are in the queues, and all decide alike.
//
// A deadlock may go through several partitions, so the copy's first partition gathers the graphs of all. They need not
// be of the same moment: what they say stays true, and a transaction counts only when all its partitions have told of it.
// With home-only replication a copy spans all regions, and no region sees all logs: the first node of all gathers.
type resolver struct {
	r        *Replica
	interval time.Duration
	layout   geo.Layout
	// gatherer is the node of the copy's first partition; copy are all its nodes.
	gatherer geo.NodeID
	copy     []geo.NodeID
	ticking  bool

	// At the gatherer: the partitions' last graphs, the members of deadlocks that some of these still hold, and whether
	// a search is about to begin.
	graphs    [][]deterministic.Vertex
	decided   map[deterministic.Place]bool
	gathering bool

	resolved, members int64
}

// gatherFor is how long the gatherer waits for graphs after the first one: nodes of a region tick at the same time.
const gatherFor = time.Millisecond

func (s *resolver) init(r *Replica, interval time.Duration, layout geo.Layout) {
	s.layout = layout
	s.r, s.interval = r, interval
	s.graphs = make([][]deterministic.Vertex, layout.Sites())
	s.decided = map[deterministic.Place]bool{}
	for q := range layout.Sites() {
		s.copy = append(s.copy, layout.Node(layout.CopyOf(r.Self), q))
	}
	s.gatherer = s.copy[0]
}

// watch sets the timer for the next tick, a multiple of the interval, when there is something to look at. A database of
// one region has one log, and a single partition without multi-home transactions one queue order.
func (s *resolver) watch() {
	if s.ticking || len(s.r.Logs) == 1 || !s.r.Executor.Waiting() || len(s.copy) == 1 && s.r.Executor.Parted() == 0 {
		return
	}
	s.ticking = true
	now := s.r.Env.Now()
	s.r.Env.After(s.interval-now%s.interval, protocol.Timer{Kind: resolveTimer})
}

// tick looks at this partition's graph.
func (s *resolver) tick() {
	s.ticking = false
	graph := s.r.Executor.Graph()
	switch {
	case len(s.copy) == 1:
		s.graphs[0] = graph
		s.resolve()
	case s.gatherer == s.r.Self:
		s.gather(0, graph)
	case len(graph) > 0:
		s.r.Env.Send(s.gatherer, &Graph{graph})
	}
}

// gather takes the graph of a partition.
func (s *resolver) gather(partition int, graph []deterministic.Vertex) {
	s.graphs[partition] = graph
	if !s.gathering && len(graph) > 0 {
		s.gathering = true
		s.r.Env.After(gatherFor, protocol.Timer{Kind: gatherTimer})
	}
}

// resolve looks for deadlocks and tells all partitions of the copy.
func (s *resolver) resolve() {
	s.gathering = false
	deadlocks := findDeadlocks(s.graphs, s.decided)
	if len(s.decided) > 0 || len(deadlocks) > 0 {
		still := map[deterministic.Place]bool{}
		for _, d := range deadlocks {
			for _, at := range d {
				still[at] = true
			}
		}
		for _, g := range s.graphs {
			for i := range g {
				if s.decided[g[i].Place] {
					still[g[i].Place] = true
				}
			}
		}
		s.decided = still
	}
	if len(deadlocks) == 0 {
		return
	}
	s.resolved += int64(len(deadlocks))
	for _, d := range deadlocks {
		s.members += int64(len(d))
	}
	for _, n := range s.copy {
		if n != s.r.Self {
			s.r.Env.Send(n, &Resolution{deadlocks})
		}
	}
	s.apply(deadlocks)
}

// apply reorders the queues of this partition.
func (s *resolver) apply(deadlocks [][]deterministic.Place) {
	for _, d := range deadlocks {
		s.r.Executor.Reorder(d)
	}
}

// transaction is a vertex of the graph of the whole copy.
type transaction struct {
	at           deterministic.Place
	participants int
	reports      int
	stable       bool
	after        []int32 // those that it waits for
	before       []int32 // those that wait for it

	index, low int32 // of Tarjan's algorithm; index 0: not visited
	open       bool  // on its stack
}

// findDeadlocks returns the strongly connected components of more than one transaction to which nothing can be added, each
// in the order of the transactions' ids. Transactions that belong to a deadlock decided before are passed over.
func findDeadlocks(graphs [][]deterministic.Vertex, decided map[deterministic.Place]bool) [][]deterministic.Place {
	g := unite(graphs, decided)
	g.destabilize()
	t := tarjan{graph: g}
	for v := range g {
		if g[v].stable && g[v].index == 0 {
			t.visit(int32(v))
		}
	}
	return t.deadlocks
}

type graph []transaction

// unite makes one graph of those of all partitions. A transaction is stable if all its partitions say so.
func unite(graphs [][]deterministic.Vertex, decided map[deterministic.Place]bool) graph {
	var g graph
	number := map[deterministic.Place]int32{}
	for _, vertices := range graphs {
		for i := range vertices {
			v := &vertices[i]
			if decided[v.Place] {
				continue
			}
			n, ok := number[v.Place]
			if !ok {
				n = int32(len(g))
				number[v.Place] = n
				g = append(g, transaction{at: v.Place, participants: v.Participants, stable: true})
			}
			g[n].reports++
			g[n].stable = g[n].stable && v.Stable
		}
	}
	for _, vertices := range graphs {
		for i := range vertices {
			n, ok := number[vertices[i].Place]
			if !ok {
				continue
			}
			for _, a := range vertices[i].After {
				if int(a) >= len(vertices) {
					continue // a corrupt message
				}
				if ahead, ok := number[vertices[a].Place]; ok {
					g[n].after = append(g[n].after, ahead)
					g[ahead].before = append(g[ahead].before, n)
				}
			}
		}
	}
	return g
}

// destabilize marks all transactions as unstable that wait, however indirectly, for one that is.
func (g graph) destabilize() {
	var work []int32
	for n := range g {
		if g[n].reports < g[n].participants {
			g[n].stable = false
		}
		if !g[n].stable {
			work = append(work, int32(n))
		}
	}
	for len(work) > 0 {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		for _, b := range g[n].before {
			if g[b].stable {
				g[b].stable = false
				work = append(work, b)
			}
		}
	}
}

// tarjan finds strongly connected components (Tarjan 1972) among the stable transactions. These wait for stable ones only.
type tarjan struct {
	graph
	count     int32
	stack     []int32
	deadlocks [][]deterministic.Place
}

func (t *tarjan) visit(n int32) {
	v := &t.graph[n]
	t.count++
	v.index, v.low, v.open = t.count, t.count, true
	t.stack = append(t.stack, n)
	for _, a := range v.after {
		w := &t.graph[a]
		if w.index == 0 {
			t.visit(a)
			v.low = min(v.low, w.low)
		} else if w.open {
			v.low = min(v.low, w.index)
		}
	}
	if v.low != v.index {
		return
	}
	at := slices.Index(t.stack, n)
	members := t.stack[at:]
	t.stack = t.stack[:at]
	var deadlock []deterministic.Place
	for _, m := range members {
		t.graph[m].open = false
		deadlock = append(deadlock, t.graph[m].at)
	}
	if len(deadlock) > 1 {
		slices.SortFunc(deadlock, func(a, b deterministic.Place) int {
			if a.Less(b) {
				return -1
			}
			return 1
		})
		t.deadlocks = append(t.deadlocks, deadlock)
	}
}
