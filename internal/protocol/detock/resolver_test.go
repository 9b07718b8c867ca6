package detock

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/protocol/deterministic"
)

func place(n int) deterministic.Place { return deterministic.Place{Index: uint64(n)} }

// graphOf reads a partition's graph: "1/2<3?" is transaction 1, with two participants, behind 3 and not stable.
func graphOf(text string) []deterministic.Vertex {
	var g []deterministic.Vertex
	number := map[string]uint32{}
	words := strings.Fields(text)
	for i, word := range words {
		name, _, _ := strings.Cut(strings.TrimSuffix(word, "?"), "<")
		number[strings.Split(name, "/")[0]] = uint32(i)
	}
	for _, word := range words {
		v := deterministic.Vertex{Participants: 1, Stable: !strings.HasSuffix(word, "?")}
		name, after, _ := strings.Cut(strings.TrimSuffix(word, "?"), "<")
		var n int
		if _, err := fmt.Sscanf(name, "%d/%d", &n, &v.Participants); err != nil {
			fmt.Sscanf(name, "%d", &n)
		}
		v.Place = place(n)
		for a := range strings.SplitSeq(after, ",") {
			if a != "" {
				v.After = append(v.After, number[a])
			}
		}
		g = append(g, v)
	}
	return g
}

func TestFindDeadlocks(t *testing.T) {
	for name, tc := range map[string]struct {
		graphs  []string
		decided []int
		want    string
	}{
		"a chain":                              {graphs: []string{"1 2<1 3<2"}, want: "[]"},
		"a ring of two":                        {graphs: []string{"2<1 1<2"}, want: "[[0.1 0.2]]"},
		"a ring of three, and one behind":      {graphs: []string{"3<2 1<3 2<1 4<2"}, want: "[[0.1 0.2 0.3]]"},
		"two rings":                            {graphs: []string{"1<2 2<1 3<4 4<3"}, want: "[[0.1 0.2] [0.3 0.4]]"},
		"two rings, one behind the other":      {graphs: []string{"1<2,3 2<1 3<4 4<3"}, want: "[[0.3 0.4] [0.1 0.2]]"},
		"a ring behind an incomplete one":      {graphs: []string{"1<2? 2<1"}, want: "[]"},
		"a ring behind one behind such":        {graphs: []string{"5? 1<2,5 2<1"}, want: "[]"},
		"a ring before an incomplete one":      {graphs: []string{"1<2 2<1 3<2?"}, want: "[[0.1 0.2]]"},
		"a ring through two partitions":        {graphs: []string{"1/2 2/2<1", "2/2 1/2<2"}, want: "[[0.1 0.2]]"},
		"a partition that has not told of one": {graphs: []string{"1/2 2/2<1", "2/2"}, want: "[]"},
		"a partition that has told nothing":    {graphs: []string{"1/2<2 2/2<1", ""}, want: "[]"},
		"one that was decided before":          {graphs: []string{"1<2 2<1 3<4,1 4<3"}, decided: []int{1, 2}, want: "[[0.3 0.4]]"},
	} {
		t.Run(name, func(t *testing.T) {
			var graphs [][]deterministic.Vertex
			for _, g := range tc.graphs {
				graphs = append(graphs, graphOf(g))
			}
			decided := map[deterministic.Place]bool{}
			for _, n := range tc.decided {
				decided[place(n)] = true
			}
			if got := fmt.Sprint(new(finder).find(graphs, decided)); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// Two copies that look at random graphs at any number of moments, each at its own, find the same deadlocks in the end. A
// graph is that of transactions over rows whose logs arrive piece by piece.
func TestSameDecisionsEverywhere(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		const txns, logs = 12, 3
		// Each log is an order of some transactions, all of which conflict there.
		var order [logs][]int
		homes := make([]int, txns+1)
		for l := range order {
			for _, n := range r.Perm(txns) {
				if r.IntN(2) == 0 {
					order[l] = append(order[l], n+1)
					homes[n+1]++
				}
			}
		}
		copyOf := func() []string {
			var known [logs]int
			reordered := map[deterministic.Place]bool{}
			var decisions []string
			for {
				complete := func(n int) bool {
					parts := 0
					for l := range order {
						if slices.Contains(order[l][:known[l]], n) {
							parts++
						}
					}
					return parts == homes[n]
				}
				var graph []deterministic.Vertex
				number := map[int]uint32{}
				for n := 1; n <= txns; n++ {
					if homes[n] > 0 && complete(n) && !reordered[place(n)] {
						number[n] = uint32(len(graph))
						graph = append(graph, deterministic.Vertex{Place: place(n), Participants: 1, Stable: true})
					}
				}
				for l := range order {
					ahead := 0
					for _, n := range order[l][:known[l]] {
						if reordered[place(n)] {
							continue
						}
						if v, ok := number[n]; ok && ahead > 0 {
							if a, ok := number[ahead]; ok {
								graph[v].After = append(graph[v].After, a)
							} else {
								graph[v].Stable = false
							}
						}
						ahead = n
					}
				}
				for _, d := range new(finder).find([][]deterministic.Vertex{graph}, nil) {
					decisions = append(decisions, fmt.Sprint(d))
					for _, at := range d {
						reordered[at] = true
					}
				}
				l := r.IntN(logs)
				for range logs {
					if known[l] < len(order[l]) {
						break
					}
					l = (l + 1) % logs
				}
				if known[l] == len(order[l]) {
					slices.Sort(decisions)
					return decisions
				}
				known[l] += 1 + r.IntN(len(order[l])-known[l])
			}
		}
		a, b := copyOf(), copyOf()
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: one copy decides %v, the other %v", seed, a, b)
		}
	}
}
