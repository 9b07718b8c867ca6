package history

import "slices"

// patience bounds the edges that the search for the shortest cycle looks at, so that a history full of cycles is judged
// in seconds. Small components come first, so what it finds is small even when it gives up.
const patience = 50_000_000

// hop is a step of a cycle between transactions, before it is put into words.
type hop struct {
	from, to   uint32
	dependency Dependency
}

// search looks for short cycles. A node at or above txns stands for many edges: it costs nothing to leave it.
type search struct {
	g    *graph
	txns uint32
	of   []uint32 // components

	left   int // of the patience
	distTo []uint32
	epoch  []uint32 // distTo and parent are valid when it is the current one
	now    uint32
	parent []uint32
	via    []Dependency
	level  []uint32
	above  []uint32
}

func newSearch(g *graph, txns int) *search {
	n := g.nodes()
	return &search{g: g, txns: uint32(txns), left: patience, distTo: make([]uint32, n), epoch: make([]uint32, n),
		parent: make([]uint32, n), via: make([]Dependency, n)}
}

// shortest returns a shortest cycle whose first edge is in first and whose other edges are in rest, within the
// components given. It returns nil when there is none.
func (s *search) shortest(of []uint32, count uint32, first, rest mask) []hop {
	s.of = of
	size := make([]uint32, count+1)
	var members []uint32
	for v := range s.txns {
		if of[v] != 0 {
			size[of[v]]++
			members = append(members, v)
		}
	}
	slices.SortStableFunc(members, func(a, b uint32) int {
		if d := int(size[of[a]]) - int(size[of[b]]); d != 0 {
			return d
		}
		return int(of[a]) - int(of[b])
	})
	var best []hop
	bound := uint32(1) << 31
	for _, v := range members {
		if c, length := s.from(v, first, rest, bound); c != nil {
			best, bound = c, length
		}
		if bound <= 2 || s.left <= 0 {
			break
		}
	}
	return best
}

// from looks for a cycle through start that is shorter than bound, breadth first.
func (s *search) from(start uint32, first, rest mask, bound uint32) ([]hop, uint32) {
	s.now++
	s.level, s.above = s.level[:0], s.above[:0]
	// The start itself stays undiscovered, so that it is found again at the end.
	end, found := s.expand(start, 0, start, first, bound)
	for depth := uint32(1); !found && depth < bound && len(s.above) > 0; depth++ {
		s.level, s.above = s.above, s.level[:0]
		// What costs nothing comes first, so that the first way back to the start is a shortest one.
		for _, free := range [...]bool{true, false} {
			for i := 0; i < len(s.level) && !found; i++ {
				if v := s.level[i]; (v >= s.txns) == free && s.distTo[v] == depth {
					end, found = s.expand(v, depth, start, rest, bound)
				}
			}
		}
	}
	if !found {
		return nil, 0
	}
	return s.path(start, end)
}

// expand discovers what follows v at distance depth. It returns true when an edge leads back to start, and the bound
// is kept.
func (s *search) expand(v, depth, start uint32, m mask, bound uint32) (hop, bool) {
	cost := uint32(1)
	if v >= s.txns {
		cost = 0
	}
	if depth+cost >= bound {
		return hop{}, false
	}
	edges := s.g.edges[s.g.first[v]:s.g.first[v+1]]
	s.left -= len(edges)
	for _, e := range edges {
		w, d := e&nodeMask, Dependency(e>>dependencyShift)
		if !m.has(e) || s.of[w] != s.of[v] {
			continue
		}
		if w == start {
			return hop{v, w, d}, true
		}
		if s.epoch[w] == s.now && s.distTo[w] <= depth+cost {
			continue
		}
		s.epoch[w], s.distTo[w], s.parent[w], s.via[w] = s.now, depth+cost, v, d
		if cost == 0 {
			s.level = append(s.level, w)
		} else {
			s.above = append(s.above, w)
		}
	}
	return hop{}, false
}

// path returns the cycle that ends with last, without the nodes that stand for edges, and its length.
func (s *search) path(start uint32, last hop) ([]hop, uint32) {
	hops := []hop{last}
	for v := last.from; v != start; v = s.parent[v] {
		hops = append(hops, hop{s.parent[v], v, s.via[v]})
	}
	slices.Reverse(hops)
	out := hops[:0]
	for _, h := range hops {
		if h.from >= s.txns {
			out[len(out)-1].to = h.to
		} else {
			out = append(out, h)
		}
	}
	return out, uint32(len(out))
}
