package mwis

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// random returns a graph of n vertices. Each pair of vertices has an edge with a probability of density percent, and
// weights are at most heaviest.
func random(r *rand.Rand, n, density, heaviest int) *Graph {
	g := &Graph{Neighbors: make([][]int32, n)}
	for v := range n {
		g.Weights = append(g.Weights, 1+r.Int64N(int64(heaviest)))
		for u := range v {
			if r.IntN(100) < density {
				g.join(u, v)
			}
		}
	}
	return g
}

func (g *Graph) join(u, v int) {
	g.Neighbors[u] = append(g.Neighbors[u], int32(v))
	g.Neighbors[v] = append(g.Neighbors[v], int32(u))
}

// weigh returns the weight of a set, and fails if two of the set's vertices are adjacent.
func weigh(t testing.TB, g *Graph, in []bool) (sum int64) {
	t.Helper()
	for v, w := range g.Weights {
		if !in[v] {
			continue
		}
		sum += w
		for _, u := range g.Neighbors[v] {
			if in[u] {
				t.Fatalf("%d and %d are joined, and both in the set", v, u)
			}
		}
	}
	return sum
}

// bruteForce returns the weight of the heaviest independent set. It enumerates all sets.
func bruteForce(g *Graph) (heaviest int64) {
	n := len(g.Weights)
	joined := make([]uint32, n)
	for v := range n {
		for _, u := range g.Neighbors[v] {
			joined[v] |= 1 << u
		}
	}
	for s := range uint32(1) << n {
		var sum int64
		for rest := s; rest != 0; rest &= rest - 1 {
			v := bits.TrailingZeros32(rest)
			if joined[v]&s != 0 {
				sum = -1
				break
			}
			sum += g.Weights[v]
		}
		heaviest = max(heaviest, sum)
	}
	return heaviest
}

// Exact solutions weigh as much as the heaviest of all sets. Auto is exact on graphs of this size, and the greedy
// algorithm never finds a heavier set.
func TestExactEqualsBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	worse, lost, total := 0, int64(0), int64(0)
	for i := range 10_000 {
		g := random(r, 1+r.IntN(14), 1+r.IntN(99), []int{1, 3, 20}[i%3])
		want := bruteForce(g)
		var s Stats
		if got := weigh(t, g, Solve(g, Exact, &s)); got != want {
			t.Fatalf("graph %d: exact finds %d, brute force %d: %v", i, got, want, g)
		}
		if got := weigh(t, g, Solve(g, Auto, &s)); got != want {
			t.Fatalf("graph %d: auto finds %d, brute force %d: %v", i, got, want, g)
		}
		if s.GivenUp > 0 {
			t.Fatalf("graph %d: the search has given up: %+v", i, s)
		}
		got := weigh(t, g, Solve(g, Greedy, &s))
		if got > want {
			t.Fatalf("graph %d: greedy finds %d, and there is nothing heavier than %d: %v", i, got, want, g)
		}
		if got < want {
			worse++
		}
		lost, total = lost+want-got, total+want
	}
	t.Logf("greedy is worse on %d of 10000 graphs, and loses %.2f%% of the weight", worse, 100*float64(lost)/float64(total))
}

// The greedy algorithm loses little on larger graphs as well, especially on sparse graphs.
func TestGreedyLoss(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, density := range []int{2, 5, 10, 30} {
		var lost, total, nodes int64
		for range 50 {
			g := random(r, 60, density, 5)
			var s Stats
			best, got := weigh(t, g, Solve(g, Exact, &s)), weigh(t, g, Solve(g, Greedy, &Stats{}))
			if s.GivenUp > 0 {
				t.Errorf("density %d%%: the search has given up", density)
			}
			lost, total, nodes = lost+best-got, total+best, nodes+s.Nodes
		}
		loss := 100 * float64(lost) / float64(total)
		t.Logf("60 vertices, density %d%%: greedy loses %.2f%%, exact takes %d nodes", density, loss, nodes/50)
		if loss > 10 {
			t.Errorf("density %d%%: greedy loses %.1f%%", density, loss)
		}
	}
}

// The same numbering of the vertices yields the same set, regardless of the order of neighbors.
func TestReproducible(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		g := random(r, 2+r.IntN(40), 20, 2)
		for _, m := range []Method{Auto, Exact, Greedy} {
			want := Solve(g, m, &Stats{})
			other := &Graph{Weights: g.Weights}
			for _, n := range g.Neighbors {
				n = slices.Clone(n)
				r.Shuffle(len(n), func(a, b int) { n[a], n[b] = n[b], n[a] })
				other.Neighbors = append(other.Neighbors, n)
			}
			if got := Solve(other, m, &Stats{}); !slices.Equal(got, want) {
				t.Fatalf("method %d: %v, and %v with the neighbors in another order", m, want, got)
			}
		}
	}
}

// A search that exceeds its bound returns a set at least as heavy as the greedy set, and counts as given up.
func TestGivenUp(t *testing.T) {
	g := random(rand.New(rand.NewPCG(7, 8)), 400, 3, 3)
	var s Stats
	got, least := weigh(t, g, Solve(g, Exact, &s)), weigh(t, g, Solve(g, Greedy, &Stats{}))
	if s.GivenUp != 1 || s.Exactly != 0 || got < least {
		t.Errorf("a search that ends too early finds %d, greedy %d: %+v", got, least, s)
	}
	t.Logf("exact %d after %d nodes, greedy %d", got, s.Nodes, least)
}

// While vertices are decided, the graph may fall into components. Each component is searched separately, so that the
// costs of the searches add up instead of multiplying. Conflicts between transactions on many rows form such graphs:
// they are sparse, and only a few rows are used by many transactions.
func TestPartsAddUp(t *testing.T) {
	rings := &Graph{Neighbors: make([][]int32, 1+40*5)} // forty rings of five, and a vertex adjacent to all of them
	for v := range rings.Neighbors {
		rings.Weights = append(rings.Weights, 2)
		if v > 0 {
			rings.join(0, v)
			if v%5 == 0 {
				rings.join(v, v-4)
			} else {
				rings.join(v, v+1)
			}
		}
	}
	r := rand.New(rand.NewPCG(11, 12))
	sparse := &Graph{Weights: make([]int64, 400), Neighbors: make([][]int32, 400)}
	for v := range sparse.Weights {
		sparse.Weights[v] = 1 + r.Int64N(3)
		for u := range v {
			if r.IntN(1000) < 6 { // 2.4 neighbors on average
				sparse.join(u, v)
			}
		}
	}
	for name, g := range map[string]*Graph{"rings": rings, "sparse": sparse} {
		var s Stats
		weight := weigh(t, g, Solve(g, Exact, &s))
		t.Logf("%s: %d after %d nodes and %d steps", name, weight, s.Nodes, s.Steps)
		if s.GivenUp > 0 || s.Steps > 200_000 {
			t.Errorf("%s: exact has taken %d steps: %+v", name, s.Steps, s)
		}
		if name == "rings" && weight != 40*2*2 {
			t.Errorf("rings: %d", weight)
		}
	}
}

func BenchmarkSolve(b *testing.B) {
	for _, bc := range []struct{ vertices, density int }{{30, 20}, {60, 10}, {1000, 1}} {
		g := random(rand.New(rand.NewPCG(9, 10)), bc.vertices, bc.density, 5)
		for name, m := range map[string]Method{"Greedy": Greedy, "Auto": Auto} {
			b.Run(fmt.Sprintf("%s/%dx%d%%", name, bc.vertices, bc.density), func(b *testing.B) {
				for range b.N {
					Solve(g, m, &Stats{})
				}
			})
		}
	}
}
