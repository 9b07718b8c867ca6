package history

import "slices"

// patience is the maximum number of edges that the search for the shortest cycle inspects. It limits the check of a
// history full of cycles to seconds. The search starts with small components, so it finds a small cycle even if it
// gives up.
const patience = 50_000_000

// hop is a step of a cycle between transactions.
type hop struct {
	from, to   uint32
	dependency Dependency
}

// search finds short cycles. An edge has length 1. A link, and the step from the start of a transaction to its commit,
// have length 0.
type search struct {
	g    *graph
	txns uint32
	components

	left   int // remaining edges of patience
	distTo []uint32
	epoch  []uint32 // distTo, parent and via of a node are valid only if its epoch equals now
	now    uint32
	parent []uint32
	via    []Dependency
	level  []uint32
	above  []uint32
}

func newSearch(g *graph, txns int) *search {
	n := 2 * g.nodes() // twice as many nodes, for starts and commits
	return &search{g: g, txns: uint32(txns), left: patience, distTo: make([]uint32, n), epoch: make([]uint32, n),
		parent: make([]uint32, n), via: make([]Dependency, n)}
}

// shift returns the number of bits by which node numbers are shifted to get transaction numbers.
func (s *search) shift() int {
	if s.snapshots {
		return 1
	}
	return 0
}

// shortest returns a shortest cycle with the first edge in first and all other edges in rest, within the given
// components. It returns nil if there is no such cycle, or if the search first exhausts its budget of edges.
func (s *search) shortest(within components, first, rest mask) []hop {
	s.components = within
	size := make([]uint32, s.count+1)
	// Every cycle contains the start of a transaction.
	var members []uint32
	for t := range s.txns {
		if x := t << s.shift(); s.of[x] != 0 {
			size[s.of[x]]++
			members = append(members, x)
		}
	}
	slices.SortStableFunc(members, func(a, b uint32) int {
		if d := int(size[s.of[a]]) - int(size[s.of[b]]); d != 0 {
			return d
		}
		return int(s.of[a]) - int(s.of[b])
	})
	var best []hop
	bound := uint32(1) << 31
	for _, x := range members {
		if c, length := s.from(x, first, rest, bound); c != nil {
			best, bound = c, length
		}
		// No cycle between transactions is shorter than 2.
		if bound <= 2 || s.left <= 0 {
			break
		}
	}
	return best
}

// from searches breadth-first for a cycle through root that is shorter than bound.
func (s *search) from(root uint32, first, rest mask, bound uint32) ([]hop, uint32) {
	s.now++
	// The root itself stays undiscovered, so that the search can find it again.
	s.level, s.above, s.distTo[root] = append(s.level[:0], root), s.above[:0], 0
	m := first
	for depth := uint32(0); depth < bound && len(s.level) > 0; depth++ {
		// Edges of length 0 come first, so that the first path back to the root is a shortest path.
		for _, free := range [...]bool{true, false} {
			for i := 0; i < len(s.level); i++ {
				x := s.level[i]
				if s.distTo[x] != depth {
					continue
				}
				if last, found := s.expand(x, root, m, bound, free); found {
					return s.path(root, last)
				}
			}
		}
		s.level, s.above, m = s.above, s.level[:0], rest
	}
	return nil, 0
}

// expand discovers the successors of x, over edges of length 0 if free is set and over edges of length 1 otherwise. It
// returns true if an edge leads back to the root within the bound.
func (s *search) expand(x, root uint32, m mask, bound uint32, free bool) (hop, bool) {
	v := x >> s.shift()
	if s.snapshots {
		m = m.leaving()[x&1]
		if free && v < s.txns && x&1 == start {
			return s.discover(hop{x, x | commit, link}, root, bound, free)
		}
	}
	if free != (v >= s.txns) { // exactly the edges of additional nodes are links
		return hop{}, false
	}
	edges := s.g.edges[s.g.first[v]:s.g.first[v+1]]
	s.left -= len(edges)
	for _, e := range edges {
		if !m.has(e) {
			continue
		}
		y, d := e&nodeMask, Dependency(e>>dependencyShift)
		if s.snapshots {
			y = lands(x, y, d)
		}
		if last, found := s.discover(hop{x, y, d}, root, bound, free); found {
			return last, true
		}
	}
	return hop{}, false
}

// discover records h as the path to its target, unless a path that is at most as long is known. It returns true if the
// target is root.
func (s *search) discover(h hop, root, bound uint32, free bool) (hop, bool) {
	y, depth := h.to, s.distTo[h.from]
	if !free {
		depth++
	}
	// An edge that leaves the component cannot be part of a cycle.
	if depth >= bound || s.of[y] != s.of[h.from] {
		return hop{}, false
	}
	if y == root {
		return h, true
	}
	if s.epoch[y] == s.now && s.distTo[y] <= depth {
		return hop{}, false
	}
	s.epoch[y], s.distTo[y], s.parent[y], s.via[y] = s.now, depth, h.from, h.dependency
	if free {
		s.level = append(s.level, y)
	} else {
		s.above = append(s.above, y)
	}
	return hop{}, false
}

// path returns the cycle of transactions that ends with last, and its length.
func (s *search) path(root uint32, last hop) ([]hop, uint32) {
	hops := []hop{last}
	for x := last.from; x != root; x = s.parent[x] {
		hops = append(hops, hop{s.parent[x], x, s.via[x]})
	}
	slices.Reverse(hops)
	out := hops[:0]
	for _, h := range hops {
		h.from, h.to = h.from>>s.shift(), h.to>>s.shift()
		switch {
		// Links are not separate steps: they extend the step that led to them.
		case h.dependency != link:
			out = append(out, h)
		case len(out) > 0:
			out[len(out)-1].to = h.to
		}
	}
	return out, uint32(len(out))
}
