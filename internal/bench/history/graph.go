package history

import "math"

// graph is a directed graph with labelled edges in compressed sparse rows, with 4 bytes per node and per edge. Two
// passes over the same edges build it: the first counts them and the second fills them in. The edges therefore never
// exist as a list.
type graph struct {
	first  []uint32 // index of each node's first edge; the next node's first edge is the end
	edges  []uint32 // the target, with the dependency in the top 3 bits
	counts [link + 1]int
	added  uint32 // number of nodes added in this pass
	base   uint32 // number of nodes at the start of a pass
	fill   bool
	cursor []uint32
}

const (
	dependencyShift = 29
	nodeMask        = 1<<dependencyShift - 1
)

// newGraph returns a graph of n nodes in its counting pass.
func newGraph(n int) *graph { return &graph{first: make([]uint32, n+1), base: uint32(n)} }

// node adds a node and returns its number. Both passes must add the same nodes in the same order.
func (g *graph) node() uint32 {
	n := g.base + g.added
	g.added++
	if !g.fill {
		g.first = append(g.first, 0)
	}
	return n
}

// add counts an edge in the first pass, and stores it in the second.
func (g *graph) add(from, to uint32, d Dependency) {
	if !g.fill {
		g.first[from+1]++
		g.counts[d]++
		return
	}
	g.edges[g.cursor[from]] = to | uint32(d)<<dependencyShift
	g.cursor[from]++
}

// counted ends the counting pass and starts the filling pass.
func (g *graph) counted() {
	for i := 1; i < len(g.first); i++ {
		g.first[i] += g.first[i-1]
	}
	g.edges = make([]uint32, g.first[len(g.first)-1])
	g.cursor = append([]uint32(nil), g.first[:len(g.first)-1]...)
	g.fill, g.added = true, 0
}

func (g *graph) nodes() int { return len(g.first) - 1 }

// mask is a set of dependencies. It always contains link.
type mask uint8

func maskOf(ds ...Dependency) mask {
	m := mask(1 << link)
	for _, d := range ds {
		m |= 1 << d
	}
	return m
}

func (m mask) contains(d Dependency) bool { return m>>d&1 != 0 }

func (m mask) has(edge uint32) bool { return m.contains(Dependency(edge >> dependencyShift)) }

// With snapshots, each transaction has two nodes: its start, when it takes its snapshot, and its commit. The number of
// a start is twice the number of the transaction's node, and the number of the commit is one more. A link connects
// starts with starts and commits with commits.
const (
	start  = 0
	commit = 1
)

// leaving returns the dependencies in m whose edges leave a start, and the dependencies in m whose edges leave a
// commit.
func (m mask) leaving() [2]mask {
	rw := maskOf(RW, PredicateRW)
	return [2]mask{start: m & rw, commit: m&^rw | maskOf()}
}

// lands returns the target of an edge with dependency d from node from to node w: the start or the commit of w.
func lands(from, w uint32, d Dependency) uint32 {
	switch d {
	case RW, PredicateRW:
		return w<<1 | commit
	case link:
		return w<<1 | from&1
	}
	return w<<1 | start
}

// components holds the strongly connected components of at least two nodes. of[v] is the number of node v's component,
// from 1, or 0 for a node that is in no component.
type components struct {
	of    []uint32
	count uint32
	// snapshots is set if nodes are starts and commits.
	snapshots bool
}

// contains reports whether node v belongs to a component.
func (c *components) contains(v uint32) bool {
	if c.snapshots {
		return c.of[v<<1|start] != 0 || c.of[v<<1|commit] != 0
	}
	return c.of[v] != 0
}

const finished = math.MaxUint32

// components returns the strongly connected components of the graph with the edges in m, by the algorithm of Tarjan
// (1972) without recursion. If within is not nil, it must be the result of an earlier call with more edges and without
// snapshots. Then only edges inside its components count.
//
// With snapshots, nodes are starts and commits. A node stands for the time of an event, and an edge leads from the
// earlier event to the later event:
//
//	start(T)   -> commit(T)
//	commit(T1) -> start(T2)    where T2 read (wr) or overwrote (ww) a version of T1, or comes after T1 in time
//	start(T1)  -> commit(T2)   where T1 read a version that T2 replaced (rw, predicate-rw)
//
// The graph has no cycle if and only if the history has snapshot isolation. This means that there is an order of all
// starts and commits in which
//
//  1. each transaction starts before it commits, and after the commits of the transactions that precede it in time;
//  2. each read finds the last version that was committed before its transaction started;
//  3. the versions of a row are committed in their order;
//  4. of two transactions that wrote the same row, one had committed before the other started. Otherwise the second to
//     commit would have been aborted (the first committer wins).
//
// Such an order agrees with every edge, so there is no cycle. The edges of rule 1 are immediate. If T2 read the version
// of T1, T1 had committed before T2 started (2). If T2 overwrote the version of T1, one of them had committed before
// the other started (4), and this cannot be T2 (3). Finally, let T1 have read a version that T2 replaced. If T2 had
// committed before T1 started, T1 would have read the version of T2 or a later version (2, 3).
//
// Conversely, every order that agrees with all edges is such an order. Consider two consecutive versions of a row. The
// writer of the first commits before the writer of the second starts, and the second writer commits later still. All
// writers therefore commit in the order of the versions (3), and no two of them overlap (4). A reader starts after the
// writer of its version has committed. It also starts before the writer of the next version commits, and therefore
// before the writers of all further versions commit. Its version is thus the last version that was committed before it
// started (2). If there is no cycle, there is an order that agrees with all edges.
//
// Hence snapshot isolation rules out a cycle of transactions if and only if no two of its anti-dependencies are
// adjacent. After the first anti-dependency the path is at a commit, from where no other anti-dependency leaves (Cerone
// and Gotsman 2018).
func (g *graph) components(m mask, within *components, snapshots bool) components {
	n := g.nodes()
	shift := 0
	leaving := [2]mask{m, m}
	next := g.cursor // index of each node's next edge; cursor is no longer needed once the graph is filled
	if snapshots {
		shift, leaving = 1, m.leaving()
		next = make([]uint32, 2*n)
		for v := range n {
			next[2*v], next[2*v+1] = g.first[v], g.first[v]
		}
		n *= 2
	} else {
		copy(next, g.first)
	}
	of := make([]uint32, n)
	number := make([]uint32, n) // order of discovery, from 1, or finished once the node's component is known
	low := make([]uint32, n)
	var stack, path []uint32
	var discovered, count uint32
	for root := range uint32(n) {
		// A node without edges is part of no cycle.
		if v := root >> shift; number[root] != 0 || within != nil && within.of[v] == 0 || g.first[v] == g.first[v+1] {
			continue
		}
		path = append(path, root)
		discovered++
		number[root], low[root] = discovered, discovered
		stack = append(stack, root)
	walk:
		for len(path) > 0 {
			x := path[len(path)-1]
			v, out := x>>shift, leaving[x&uint32(shift)]
			end := g.first[v+1]
			for {
				var y uint32
				if next[x] < end {
					e := g.edges[next[x]]
					next[x]++
					w := e & nodeMask
					// A cycle within m lies in a single component of the larger graph.
					if !out.has(e) || within != nil && within.of[w] != within.of[v] {
						continue
					}
					if y = w; snapshots {
						y = lands(x, w, Dependency(e>>dependencyShift))
					}
					// After its own edges, a start has one more edge, to the commit of the same transaction.
				} else if snapshots && next[x] == end && x&1 == start && v < g.base {
					next[x]++
					y = x | commit
				} else {
					break
				}
				switch number[y] {
				case 0:
					discovered++
					number[y], low[y] = discovered, discovered
					stack = append(stack, y)
					path = append(path, y)
					continue walk
				// The component of y is complete, so the edge leads out of the current component.
				case finished:
				default:
					low[x] = min(low[x], number[y])
				}
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				up := path[len(path)-1]
				low[up] = min(low[up], low[x])
			}
			// A node that was discovered before x is in the same component, so x is not its root.
			if low[x] != number[x] {
				continue
			}
			at := len(stack) - 1
			for stack[at] != x {
				at--
			}
			// A cycle needs at least two nodes.
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
	return components{of, count, snapshots}
}
