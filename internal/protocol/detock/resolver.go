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
	finder    finder

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
	deadlocks := s.finder.find(s.graphs, s.decided)
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
	participants int32
	reports      int32
	stable       bool
	open         bool  // on the stack of Tarjan's algorithm
	pending      int32 // of those that it waits for, the ones that prune has not passed
	// The edges up to these places in the graph's lists belong to this transaction and those of lower numbers.
	after, before int32
	index, low    int32 // of Tarjan's algorithm; index 0: not visited
}

// finder finds deadlocks. Graphs may hold all clients' transactions, so it keeps its memory from one search to the next.
type finder struct {
	graph []transaction
	// after lists those that each transaction waits for, before those that wait for it.
	after, before []int32
	// numbers are those of the vertices of all partitions, one partition behind the other; -1: passed over. shared holds the
	// numbers of transactions that touch several partitions.
	numbers []int32
	shared  map[deterministic.Place]int32

	work, stack []int32
	calls       []call
	count       int32
	deadlocks   [][]deterministic.Place
}

// find returns the strongly connected components of more than one transaction to which nothing can be added, each in the
// order of the transactions' ids. Transactions that belong to a deadlock decided before are passed over.
func (f *finder) find(graphs [][]deterministic.Vertex, decided map[deterministic.Place]bool) [][]deterministic.Place {
	f.unite(graphs, decided)
	f.destabilize()
	f.prune()
	f.count, f.deadlocks = 0, nil
	for n := range f.graph {
		if v := &f.graph[n]; v.stable && v.pending > 0 && v.index == 0 {
			f.visit(int32(n))
		}
	}
	return f.deadlocks
}

// unite makes one graph of those of all partitions. A transaction is stable if all its partitions say so.
func (f *finder) unite(graphs [][]deterministic.Vertex, decided map[deterministic.Place]bool) {
	f.graph, f.numbers = f.graph[:0], f.numbers[:0]
	if f.shared == nil {
		f.shared = map[deterministic.Place]int32{}
	}
	clear(f.shared)
	for _, vertices := range graphs {
		for i := range vertices {
			v := &vertices[i]
			if len(decided) > 0 && decided[v.Place] {
				f.numbers = append(f.numbers, -1)
				continue
			}
			n, ok := int32(0), false
			if v.Participants > 1 {
				n, ok = f.shared[v.Place]
			}
			if !ok {
				n = int32(len(f.graph))
				f.graph = append(f.graph, transaction{at: v.Place, participants: int32(v.Participants), stable: true})
				if v.Participants > 1 {
					f.shared[v.Place] = n
				}
			}
			f.numbers = append(f.numbers, n)
			g := &f.graph[n]
			g.reports++
			g.stable = g.stable && v.Stable
		}
	}
	f.edges(graphs, func(n, ahead int32) {
		f.graph[n].after++
		f.graph[ahead].before++
	})
	var after, before int32
	for n := range f.graph {
		v := &f.graph[n]
		v.pending = v.after
		v.after, after = after, after+v.after
		v.before, before = before, before+v.before
	}
	f.after = slices.Grow(f.after[:0], int(after))[:after]
	f.before = slices.Grow(f.before[:0], int(before))[:before]
	f.edges(graphs, func(n, ahead int32) {
		v, w := &f.graph[n], &f.graph[ahead]
		f.after[v.after] = ahead
		f.before[w.before] = n
		v.after++
		w.before++
	})
}

// edges calls yield for each edge of the partitions' graphs: n waits for ahead.
func (f *finder) edges(graphs [][]deterministic.Vertex, yield func(n, ahead int32)) {
	numbers := f.numbers
	for _, vertices := range graphs {
		for i := range vertices {
			n := numbers[i]
			if n < 0 {
				continue
			}
			for _, a := range vertices[i].After {
				if int(a) >= len(vertices) {
					continue // a corrupt message
				}
				if ahead := numbers[a]; ahead >= 0 {
					yield(n, ahead)
				}
			}
		}
		numbers = numbers[len(vertices):]
	}
}

// aheadOf returns those that n waits for.
func (f *finder) aheadOf(n int32) []int32 {
	from := int32(0)
	if n > 0 {
		from = f.graph[n-1].after
	}
	return f.after[from:f.graph[n].after]
}

// behind returns those that wait for n.
func (f *finder) behind(n int32) []int32 {
	from := int32(0)
	if n > 0 {
		from = f.graph[n-1].before
	}
	return f.before[from:f.graph[n].before]
}

// destabilize marks all transactions as unstable that wait, however indirectly, for one that is.
func (f *finder) destabilize() {
	f.work = f.work[:0]
	for n := range f.graph {
		v := &f.graph[n]
		if v.reports < v.participants {
			v.stable = false
		}
		if !v.stable {
			f.work = append(f.work, int32(n))
		}
	}
	for len(f.work) > 0 {
		n := f.work[len(f.work)-1]
		f.work = f.work[:len(f.work)-1]
		for _, b := range f.behind(n) {
			if f.graph[b].stable {
				f.graph[b].stable = false
				f.work = append(f.work, b)
			}
		}
	}
}

// prune passes over the stable transactions that wait for none that could be in a deadlock. Mostly these are all.
func (f *finder) prune() {
	for n := range f.graph {
		if v := &f.graph[n]; v.stable && v.pending == 0 {
			f.work = append(f.work, int32(n))
		}
	}
	for len(f.work) > 0 {
		n := f.work[len(f.work)-1]
		f.work = f.work[:len(f.work)-1]
		for _, b := range f.behind(n) {
			v := &f.graph[b]
			v.pending--
			if v.stable && v.pending == 0 {
				f.work = append(f.work, b)
			}
		}
	}
}

// call is a call of Tarjan's recursive algorithm: ahead are those that n waits for and that are still to be looked at.
// Queues can be as long as there are clients, too deep for calls of Go.
type call struct {
	n     int32
	ahead []int32
}

// visit finds strongly connected components (Tarjan 1972) among the stable transactions that prune has left. These wait
// for stable ones only.
func (f *finder) visit(root int32) {
	f.enter(root)
	for len(f.calls) > 0 {
		c := &f.calls[len(f.calls)-1]
		v := &f.graph[c.n]
		if len(c.ahead) > 0 {
			a := c.ahead[0]
			w := &f.graph[a]
			switch {
			case w.pending == 0:
			case w.index == 0:
				f.enter(a) // and then look at it once more, for its low
				continue
			case w.open:
				v.low = min(v.low, w.low)
			}
			c.ahead = c.ahead[1:]
			continue
		}
		if v.low == v.index {
			f.component(c.n)
		}
		f.calls = f.calls[:len(f.calls)-1]
	}
}

func (f *finder) enter(n int32) {
	v := &f.graph[n]
	f.count++
	v.index, v.low, v.open = f.count, f.count, true
	f.stack = append(f.stack, n)
	f.calls = append(f.calls, call{n, f.aheadOf(n)})
}

// component takes the component whose first transaction is n from the stack.
func (f *finder) component(n int32) {
	at := len(f.stack) - 1
	for f.stack[at] != n {
		at--
	}
	members := f.stack[at:]
	f.stack = f.stack[:at]
	for _, m := range members {
		f.graph[m].open = false
	}
	if len(members) == 1 {
		return
	}
	deadlock := make([]deterministic.Place, len(members))
	for i, m := range members {
		deadlock[i] = f.graph[m].at
	}
	slices.SortFunc(deadlock, func(a, b deterministic.Place) int {
		if a.Less(b) {
			return -1
		}
		return 1
	})
	f.deadlocks = append(f.deadlocks, deadlock)
}
