package history

import "math"

// graph is a directed graph with labelled edges in compressed sparse rows: 4 bytes per node and per edge. It is made in
// two passes over the same edges, one that counts and one that fills in, so that no list of edges is ever held.
type graph struct {
	first  []uint32 // of each node's edges; the next node's is the end
	edges  []uint32 // target, and the dependency in the top bits
	counts [link + 1]int
	added  uint32 // nodes made by node in this pass
	base   uint32 // nodes without them
	fill   bool
	cursor []uint32
}

const (
	dependencyShift = 29
	nodeMask        = 1<<dependencyShift - 1
)

// newGraph returns a graph of n nodes that counts edges.
func newGraph(n int) *graph { return &graph{first: make([]uint32, n+1), base: uint32(n)} }

// node makes one more node. Both passes make the same.
func (g *graph) node() uint32 {
	n := g.base + g.added
	g.added++
	if !g.fill {
		g.first = append(g.first, 0)
	}
	return n
}

// add counts an edge in the first pass and puts it in its place in the second.
func (g *graph) add(from, to uint32, d Dependency) {
	if !g.fill {
		g.first[from+1]++
		g.counts[d]++
		return
	}
	g.edges[g.cursor[from]] = to | uint32(d)<<dependencyShift
	g.cursor[from]++
}

// counted ends the first pass.
func (g *graph) counted() {
	for i := 1; i < len(g.first); i++ {
		g.first[i] += g.first[i-1]
	}
	g.edges = make([]uint32, g.first[len(g.first)-1])
	g.cursor = append([]uint32(nil), g.first[:len(g.first)-1]...)
	g.fill, g.added = true, 0
}

func (g *graph) nodes() int { return len(g.first) - 1 }

// mask is a set of dependencies. Links always belong to it.
type mask uint8

func maskOf(ds ...Dependency) mask {
	m := mask(1 << link)
	for _, d := range ds {
		m |= 1 << d
	}
	return m
}

func (m mask) has(edge uint32) bool { return m>>(edge>>dependencyShift)&1 != 0 }

const finished = math.MaxUint32

// components returns the strongly connected components of two and more nodes of the graph with the edges in m: for each
// node its component's number, from 1, or 0. When within is not nil, it is the result of an earlier call with more
// edges, and only edges inside its components count (Tarjan 1972, without recursion).
func (g *graph) components(m mask, within []uint32) (of []uint32, count uint32) {
	n := g.nodes()
	of = make([]uint32, n)
	number := make([]uint32, n) // in the order of discovery, from 1; finished: component known
	low := make([]uint32, n)
	next := g.cursor // the edge to look at next; free once the graph is filled
	copy(next, g.first)
	var stack, path []uint32
	var discovered uint32
	for root := range uint32(n) {
		if number[root] != 0 || within != nil && within[root] == 0 || g.first[root] == g.first[root+1] {
			continue
		}
		path = append(path, root)
		discovered++
		number[root], low[root] = discovered, discovered
		stack = append(stack, root)
	walk:
		for len(path) > 0 {
			v := path[len(path)-1]
			for end := g.first[v+1]; next[v] < end; {
				e := g.edges[next[v]]
				next[v]++
				w := e & nodeMask
				if !m.has(e) || within != nil && within[w] != within[v] {
					continue
				}
				switch number[w] {
				case 0:
					discovered++
					number[w], low[w] = discovered, discovered
					stack = append(stack, w)
					path = append(path, w)
					continue walk
				case finished:
				default:
					low[v] = min(low[v], number[w])
				}
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				up := path[len(path)-1]
				low[up] = min(low[up], low[v])
			}
			if low[v] != number[v] {
				continue
			}
			at := len(stack) - 1
			for stack[at] != v {
				at--
			}
			if len(stack)-at > 1 {
				count++
				for _, w := range stack[at:] {
					of[w] = count
				}
			}
			for _, w := range stack[at:] {
				number[w] = finished
			}
			stack = stack[:at]
		}
	}
	return of, count
}
