// Package mwis finds heavy independent sets. An independent set is a set of vertices of a graph without an edge between
// any two of them. Its weight is the sum of the vertices' weights. Branch and bound finds the heaviest set, and takes
// exponential time in the worst case. The greedy algorithm GWMIN2 finds a heavy set quickly (S. Sakai, M. Togasaki, K.
// Yamazaki, A note on greedy algorithms for the maximum weighted independent set problem, Discrete Applied Mathematics
// 126, 2003).
//
// The same graph and method always give the same set, even if several sets have the same weight. To that end, the
// solver examines vertices in the order of their numbers, and uses integer weights. It bounds its work by a number of
// steps, never by time.
package mwis

import (
	"container/heap"
	"math/bits"
	"slices"
)

// Graph is an undirected graph. Vertices are numbered from 0.
type Graph struct {
	// Weights are the weights of the vertices, each at least 1. Their sum is below 2^31.
	Weights []int64
	// Neighbors lists the neighbors of each vertex. Each edge appears in the lists of both of its vertices, each neighbor
	// once. No vertex is its own neighbor.
	Neighbors [][]int32
}

// Method selects the algorithm.
type Method uint8

// The methods.
const (
	// Auto solves connected components of up to SmallComponent vertices exactly, and larger components by the greedy
	// algorithm.
	Auto Method = iota
	// Exact solves all components exactly.
	Exact
	// Greedy solves all components by the greedy algorithm.
	Greedy
)

const (
	// SmallComponent is the number of vertices up to which Auto solves a component exactly.
	SmallComponent = 64
	// autoSteps and exactSteps bound the steps of the search in one component. autoSteps take some milliseconds, and
	// exactSteps half a second or more. A search that reaches its bound returns the best set found so far, which is at
	// least as heavy as the greedy set.
	autoSteps, exactSteps = 1 << 15, 1 << 24
)

// Stats counts the work of the solver.
type Stats struct {
	// Components counts components with more than one vertex, Exactly the components that were solved exactly, and GivenUp
	// the components whose search reached its bound.
	Components, Exactly, GivenUp int64
	// Nodes counts the nodes of the search trees, and Steps the vertices and edges that were examined.
	Nodes, Steps int64
}

// Solve reports for each vertex whether the set that method m finds contains it. It adds the work to s.
func Solve(g *Graph, m Method, s *Stats) []bool { return SolveWithin(g, m, 0, s) }

// SolveWithin is like Solve, with search bounds divided by 2^shrink: see protocol.Config.Shrink.
func SolveWithin(g *Graph, m Method, shrink uint8, s *Stats) []bool {
	in := make([]bool, len(g.Weights))
	for _, c := range components(g) {
		// Weights are positive, so an isolated vertex is in every heaviest set.
		if len(c) == 1 {
			in[c[0]] = true
			continue
		}
		s.Components++
		greedy(g, c, in, s)
		if m == Exact || m == Auto && len(c) <= SmallComponent {
			budget := int64(exactSteps)
			if m == Auto {
				budget = autoSteps
			}
			exact(g, c, in, s.Steps+budget>>shrink, s)
		}
	}
	return in
}

// components returns the connected components, each with its vertices in ascending order.
func components(g *Graph) (all [][]int32) {
	seen := make([]bool, len(g.Weights))
	for v := range g.Weights {
		if seen[v] {
			continue
		}
		seen[v] = true
		c := []int32{int32(v)}
		for i := 0; i < len(c); i++ {
			for _, u := range g.Neighbors[c[i]] {
				if !seen[u] {
					seen[u] = true
					c = append(c, u)
				}
			}
		}
		slices.Sort(c)
		all = append(all, c)
	}
	return all
}

// candidate is a vertex that the greedy algorithm may take. around is the combined weight of the vertex and its
// remaining neighbors at the time when the candidate was pushed.
type candidate struct {
	weight, around int64
	vertex         int32
}

// candidates is a heap. The top candidate has the largest ratio of weight to around.
type candidates []candidate

func (h candidates) Len() int      { return len(h) }
func (h candidates) Swap(a, b int) { h[a], h[b] = h[b], h[a] }
func (h *candidates) Push(x any)   { *h = append(*h, x.(candidate)) }
func (h *candidates) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	*h = (*h)[:last]
	return c
}

func (h candidates) Less(a, b int) bool {
	// Cross-multiplication compares the ratios exactly. The sum of all weights is below 2^31, so the products do not
	// overflow.
	if x, y := h[a].weight*h[b].around, h[b].weight*h[a].around; x != y {
		return x > y
	}
	// Ties need a fixed order, because every replica must find the same set.
	return h[a].vertex < h[b].vertex
}

// greedy repeatedly takes the vertex with the largest ratio of its own weight to the combined weight of itself and its
// remaining neighbors. It removes the vertex and its neighbors from the graph (GWMIN2).
func greedy(g *Graph, component []int32, in []bool, s *Stats) {
	around := make(map[int32]int64, len(component)) // combined weight of each remaining vertex and its remaining neighbors
	h := make(candidates, 0, len(component))
	for _, v := range component {
		sum := g.Weights[v]
		for _, u := range g.Neighbors[v] {
			sum += g.Weights[u]
		}
		s.Steps += int64(len(g.Neighbors[v])) + 1
		around[v] = sum
		h = append(h, candidate{g.Weights[v], sum, v})
	}
	heap.Init(&h)
	var touched []int32
	for h.Len() > 0 {
		c := heap.Pop(&h).(candidate)
		if sum, left := around[c.vertex]; !left || sum != c.around {
			continue // the vertex was removed, or a newer candidate replaces this one
		}
		in[c.vertex] = true
		delete(around, c.vertex)
		touched = touched[:0]
		for _, u := range g.Neighbors[c.vertex] {
			if _, left := around[u]; !left {
				continue
			}
			delete(around, u)
			for _, x := range g.Neighbors[u] {
				if sum, left := around[x]; left {
					around[x] = sum - g.Weights[u]
					touched = append(touched, x)
				}
			}
			s.Steps += int64(len(g.Neighbors[u])) + 1
		}
		slices.Sort(touched)
		for _, x := range slices.Compact(touched) {
			if sum, left := around[x]; left {
				heap.Push(&h, candidate{g.Weights[x], sum, x})
			}
		}
	}
}

// set is a set of vertices of a component: a bit set indexed by position in the component.
type set []uint64

func (s set) has(v int) bool { return s[v>>6]>>(v&63)&1 != 0 }
func (s set) add(v int)      { s[v>>6] |= 1 << (v & 63) }
func (s set) remove(v int)   { s[v>>6] &^= 1 << (v & 63) }

// join adds all vertices of t to s. clear removes them from s.
func (s set) join(t set) {
	for i := range s {
		s[i] |= t[i]
	}
}

func (s set) clear(t set) {
	for i := range s {
		s[i] &^= t[i]
	}
}

// within reports whether all vertices of s that are in left, except v, are also in t.
func (s set) within(t, left set, v int) bool {
	for i := range s {
		rest := s[i] & left[i] &^ t[i]
		if i == v>>6 {
			rest &^= 1 << (v & 63)
		}
		if rest != 0 {
			return false
		}
	}
	return true
}

// each calls f for the vertices in both s and t, in ascending order.
func (s set) each(t set, f func(v int)) {
	for i, w := range s {
		for w &= t[i]; w != 0; w &= w - 1 {
			f(i<<6 | bits.TrailingZeros64(w))
		}
	}
}

// search is a branch-and-bound search in a component.
type search struct {
	weights   []int64
	neighbors []set
	byWeight  []int // the vertices in descending order of weight
	limit     int64 // bound of stats.Steps
	givenUp   bool
	stats     *Stats
}

// exact replaces the component's part of the set `in` with a heaviest set. If the search exceeds limit, exact uses the
// heaviest set found so far, provided that it is heavier than the given set.
func exact(g *Graph, component []int32, in []bool, limit int64, s *Stats) {
	n := len(component)
	place := make(map[int32]int, n)
	for i, v := range component {
		place[v] = i
	}
	x := &search{limit: limit, stats: s}
	left, heaviest := make(set, (n+63)/64), int64(0)
	for i, v := range component {
		row := make(set, len(left))
		for _, u := range g.Neighbors[v] {
			row.add(place[u])
		}
		x.weights, x.neighbors, x.byWeight = append(x.weights, g.Weights[v]), append(x.neighbors, row), append(x.byWeight, i)
		left.add(i)
		if in[v] { // the search must find a heavier set than the greedy set
			heaviest += g.Weights[v]
		}
	}
	slices.SortStableFunc(x.byWeight, func(a, b int) int { return int(x.weights[b] - x.weights[a]) })
	best, _ := x.branch(left, heaviest)
	if x.givenUp {
		s.GivenUp++
	} else {
		s.Exactly++
	}
	if best == nil {
		return
	}
	for i, v := range component {
		in[v] = best.has(i)
	}
}

// branch returns the heaviest independent set within left and its weight, or nil if no set weighs more than floor. It
// modifies left.
func (x *search) branch(left set, floor int64) (best set, weight int64) {
	if x.stats.Steps > x.limit {
		x.givenUp = true
		return nil, 0
	}
	x.stats.Nodes++
	taken, weight, pivot := x.reduce(left)
	if pivot < 0 {
		if weight <= floor {
			return nil, 0
		}
		return taken, weight
	}
	parts := x.parts(left)
	bounds, most := make([]int64, len(parts)), weight
	for i, p := range parts {
		bounds[i] = x.bound(p)
		most += bounds[i]
	}
	// Even the upper bound does not exceed the floor, so the subtree is pruned.
	if most <= floor {
		return nil, 0
	}
	if len(parts) == 1 {
		best, weight = x.decide(left, pivot, weight, floor)
		if best != nil {
			best.join(taken)
		}
		return best, weight
	}
	for i, p := range parts {
		most -= bounds[i]
		// After the subtraction, most is the largest weight that everything except this part can contribute. This part must
		// exceed the difference between floor and most.
		found, w := x.branch(p, floor-most)
		if found == nil {
			return nil, 0
		}
		taken.join(found)
		weight += w
		most += w
	}
	return taken, weight
}

// decide branches on pivot: it searches for the heaviest set that contains pivot and the heaviest set that does not.
// weight is the weight of the vertices already taken; it counts towards floor and the result.
func (x *search) decide(left set, pivot int, weight, floor int64) (best set, heaviest int64) {
	with := slices.Clone(left)
	with.clear(x.neighbors[pivot])
	with.remove(pivot)
	if found, w := x.branch(with, floor-weight-x.weights[pivot]); found != nil {
		found.add(pivot)
		// From here on, a set without pivot must be heavier than the set just found.
		best, floor = found, weight+x.weights[pivot]+w
	}
	left.remove(pivot)
	if found, w := x.branch(left, floor-weight); found != nil {
		best, floor = found, weight+w
	}
	return best, floor
}

// reduce simplifies the graph within left, and preserves the weight of the heaviest set. It takes each vertex that
// weighs at least as much as its neighbors together, and removes the vertex and its neighbors from left. Some heaviest
// set contains the vertex. Let v be a vertex with a neighbor u that weighs at least as much. If the other neighbors of
// u are all neighbors of v, reduce also removes v, because some heaviest set does not contain this vertex. pivot is the
// remaining vertex with the most neighbors, or -1 if no vertex remains.
func (x *search) reduce(left set) (taken set, weight int64, pivot int) {
	taken = make(set, len(left))
	for again := true; again; {
		again, pivot = false, -1
		most := int64(-1)
		left.each(left, func(v int) {
			if !left.has(v) {
				return
			}
			var around, degree int64
			dominated := false
			x.neighbors[v].each(left, func(u int) {
				around += x.weights[u]
				degree++
				dominated = dominated || x.weights[u] >= x.weights[v] && x.neighbors[u].within(x.neighbors[v], left, v)
			})
			x.stats.Steps += 2*degree + 1
			switch {
			case x.weights[v] >= around:
				taken.add(v)
				weight += x.weights[v]
				left.clear(x.neighbors[v])
				left.remove(v)
				again = true
			case dominated:
				left.remove(v)
				again = true
			case degree > most:
				pivot, most = v, degree
			}
		})
	}
	return taken, weight, pivot
}

// parts returns the connected components within left, ordered by their first vertices.
func (x *search) parts(left set) (all []set) {
	rest := slices.Clone(left)
	var queue []int
	for v := range x.weights {
		if !rest.has(v) {
			continue
		}
		p := make(set, len(left))
		reach := func(u int) {
			rest.remove(u)
			p.add(u)
			queue = append(queue, u)
		}
		for reach(v); len(queue) > 0; {
			u := queue[len(queue)-1]
			queue = queue[:len(queue)-1]
			x.stats.Steps++
			x.neighbors[u].each(rest, reach)
		}
		all = append(all, p)
	}
	return all
}

// bound returns an upper bound on the weight of an independent set within left. It covers the vertices of left with
// cliques, because an independent set contains at most one vertex of each clique.
func (x *search) bound(left set) (weight int64) {
	var cliques []set // for each clique, the vertices adjacent to all members
next:
	for _, v := range x.byWeight {
		if !left.has(v) {
			continue
		}
		for _, c := range cliques {
			x.stats.Steps++
			if c.has(v) {
				for i := range c {
					c[i] &= x.neighbors[v][i]
				}
				continue next
			}
		}
		cliques = append(cliques, slices.Clone(x.neighbors[v]))
		// Vertices come in descending order of weight, so the first vertex of a clique is the clique's heaviest.
		weight += x.weights[v]
	}
	return weight
}
