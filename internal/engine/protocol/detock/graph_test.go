package detock

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
)

func place(n int) deterministic.Place { return deterministic.Place{Index: uint64(n)} }

func newGraph() *graph {
	g := &graph{}
	g.init()
	return g
}

// tell adds a partition's report. For example, "1/2<3,4" reports that transaction 1 waits for transactions 3 and 4, and
// has two participants. The report "-1" is the end of transaction 1.
func (g *graph) tell(text string) {
	var vertices []deterministic.Vertex
	var over []deterministic.Place
	for word := range strings.FieldsSeq(text) {
		v := deterministic.Vertex{Participants: 1}
		name, after, _ := strings.Cut(word, "<")
		var n int
		if _, err := fmt.Sscanf(name, "%d/%d", &n, &v.Participants); err != nil {
			fmt.Sscanf(name, "%d", &n)
		}
		if n < 0 {
			over = append(over, place(-n))
			continue
		}
		v.Place = place(n)
		for a := range strings.SplitSeq(after, ",") {
			if a != "" {
				fmt.Sscanf(a, "%d", &n)
				v.After = append(v.After, place(n))
			}
		}
		vertices = append(vertices, v)
	}
	g.add(vertices, over)
}

// empty returns an error if the graph still holds a transaction or an edge.
func (g *graph) empty() error {
	unused := 0
	for e := g.unused; e != none; e = g.edges[e].next {
		unused++
	}
	if len(g.numbers) > 0 || len(g.free) != len(g.table) || unused != len(g.edges) {
		return fmt.Errorf("%d transactions are known, %d of %d are free, %d of %d edges are", len(g.numbers), len(g.free), len(g.table), unused, len(g.edges))
	}
	return nil
}

func TestDeadlocks(t *testing.T) {
	// Each step is the report of one partition, then the gatherer's result. "[]" means that nothing is found.
	for name, tc := range map[string]struct {
		steps []string
		want  []string
	}{
		"a chain":                              {[]string{"1 2<1 3<2"}, []string{"[]"}},
		"a ring of two":                        {[]string{"2<1 1<2"}, []string{"[[0.1 0.2]]"}},
		"a ring of three, and one behind":      {[]string{"3<2 1<3 2<1 4<2"}, []string{"[[0.1 0.2 0.3]]"}},
		"two rings":                            {[]string{"1<2 2<1 3<4 4<3"}, []string{"[[0.1 0.2] [0.3 0.4]]"}},
		"two rings, one behind the other":      {[]string{"1<2,3 2<1 3<4 4<3"}, []string{"[[0.3 0.4] [0.1 0.2]]"}},
		"two rings with one in common":         {[]string{"1<2 2<1,3 3<2"}, []string{"[[0.1 0.2 0.3]]"}},
		"a ring that another one closes":       {[]string{"1<2 2<1,3", "3<4 4<1"}, []string{"[]", "[[0.1 0.2 0.3 0.4]]"}},
		"a ring behind an untold one":          {[]string{"1<2 2<5,1", "5"}, []string{"[]", "[[0.1 0.2]]"}},
		"a ring behind one behind such":        {[]string{"5<6 1<2,5 2<1", "6"}, []string{"[]", "[[0.1 0.2]]"}},
		"a ring behind one that ends":          {[]string{"1<2 2<5,1", "-5"}, []string{"[]", "[[0.1 0.2]]"}},
		"a ring before an untold one":          {[]string{"1<2 2<1 3<2,6"}, []string{"[[0.1 0.2]]"}},
		"a ring through two partitions":        {[]string{"1/2 2/2<1", "2/2 1/2<2"}, []string{"[]", "[[0.1 0.2]]"}},
		"a ring behind one ended elsewhere":    {[]string{"3/2 1/2 2/2<1,3", "1/2<2 2/2", "-3"}, []string{"[]", "[]", "[[0.1 0.2]]"}},
		"one that waits for another and ends":  {[]string{"1<2", "-1", "2<3 4<2"}, []string{"[]", "[]", "[]"}},
		"a transaction that comes round again": {[]string{"1<2 2<1", "-1 -2", "3<4 4<3", "-3 -4"}, []string{"[[0.1 0.2]]", "[]", "[[0.3 0.4]]", "[]"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraph()
			for i, step := range tc.steps {
				g.tell(step)
				if got := fmt.Sprint(g.deadlocks()); got != tc.want[i] {
					t.Errorf("after %q: got %v, want %v", step, got, tc.want[i])
				}
			}
			for n := 1; n < 10; n++ {
				g.tell(fmt.Sprint(-n))
			}
			if err := g.empty(); err != nil {
				t.Error("all have ended: ", err)
			}
		})
	}
}

// history is a database of several partitions, each with several logs, which order the transactions. In one partition,
// all parts from the same log conflict.
type history struct {
	txns    int
	queues  [][][]int // by partition and log
	parts   [][]int   // number of parts of a transaction, by partition
	touched []int     // number of partitions of a transaction
}

func newHistory(r *rand.Rand) *history {
	h := &history{txns: 1 + r.IntN(14)}
	partitions, logs, share := 1+r.IntN(3), 1+r.IntN(3), 2+r.IntN(4)
	h.parts, h.touched = make([][]int, partitions), make([]int, h.txns+1)
	h.queues = make([][][]int, partitions)
	for q := range partitions {
		h.parts[q] = make([]int, h.txns+1)
		for range logs {
			var queue []int
			for _, n := range r.Perm(h.txns) {
				if r.IntN(share) == 0 {
					queue = append(queue, n+1)
					if h.parts[q][n+1]++; h.parts[q][n+1] == 1 {
						h.touched[n+1]++
					}
				}
			}
			h.queues[q] = append(h.queues[q], queue)
		}
	}
	return h
}

// components returns the strongly connected components of more than one transaction: transactions that reach each
// other.
func (h *history) components() (out []string) {
	reach := make([][]bool, h.txns+1)
	for i := range reach {
		reach[i] = make([]bool, h.txns+1)
	}
	for _, logs := range h.queues {
		for _, queue := range logs {
			for i := 1; i < len(queue); i++ {
				reach[queue[i]][queue[i-1]] = true
			}
		}
	}
	for k := range reach {
		for i := range reach {
			for j := range reach {
				reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
			}
		}
	}
	for i := range reach {
		var members []deterministic.Place
		for j := range reach {
			if reach[i][j] && reach[j][i] {
				members = append(members, place(j))
			}
		}
		if len(members) > 1 && members[0] == place(i) {
			out = append(out, fmt.Sprint(members))
		}
	}
	return out
}

// play simulates a copy that learns the history piece by piece and runs transactions when it can; it returns the
// deadlocks found.
func (h *history) play(r *rand.Rand) ([]string, error) {
	partitions := len(h.queues)
	g := newGraph()
	var decisions []string
	known, told, named := make([][]int, partitions), make([][]bool, partitions), make([][]bool, partitions)
	for q := range partitions {
		known[q] = make([]int, len(h.queues[q]))
		told[q], named[q] = make([]bool, h.txns+1), make([]bool, h.txns+1)
	}
	turn, ended := make([]bool, h.txns+1), make([]bool, h.txns+1)
	over := make([][]int, partitions)
	here := func(q, n int) int { // number of n's parts that partition q has received
		parts := 0
		for l, queue := range h.queues[q] {
			if slices.Contains(queue[:known[q][l]], n) {
				parts++
			}
		}
		return parts
	}
	ahead := func(q, n int) (out []int) {
		for l, queue := range h.queues[q] {
			last := 0
			for _, m := range queue[:known[q][l]] {
				if m == n && last > 0 {
					out = append(out, last)
				}
				if !turn[m] && !ended[m] {
					last = m
				}
			}
		}
		return out
	}
	runs := func(n int) bool {
		for q := range partitions {
			if here(q, n) < h.parts[q][n] || len(ahead(q, n)) > 0 {
				return false
			}
		}
		return h.touched[n] > 0
	}
	for left := true; left; {
		left = false
		switch q := r.IntN(partitions); r.IntN(3) {
		case 0: // a part arrives
			l := r.IntN(len(h.queues[q]))
			known[q][l] = min(known[q][l]+1+r.IntN(3), len(h.queues[q][l]))
		case 1: // a transaction runs
			n := 1 + r.IntN(h.txns)
			if !ended[n] && (turn[n] || runs(n)) {
				ended[n] = true
				for q := range partitions {
					if named[q][n] {
						over[q] = append(over[q], n)
					}
				}
			}
		case 2: // a partition reports
			var vertices []deterministic.Vertex
			for n := 1; n <= h.txns; n++ {
				if h.parts[q][n] > 0 && here(q, n) == h.parts[q][n] && !told[q][n] && !turn[n] && !ended[n] {
					told[q][n], named[q][n] = true, true
					v := deterministic.Vertex{Place: place(n), Participants: h.touched[n]}
					for _, a := range ahead(q, n) {
						named[q][a] = true
						v.After = append(v.After, place(a))
					}
					vertices = append(vertices, v)
				}
			}
			var gone []deterministic.Place
			for _, n := range over[q] {
				gone = append(gone, place(n))
			}
			over[q] = nil
			g.add(vertices, gone)
			for _, d := range g.deadlocks() {
				decisions = append(decisions, fmt.Sprint(d))
				for _, at := range d {
					turn[at.Index] = true
				}
			}
		}
		for q := range partitions {
			left = left || len(over[q]) > 0
		}
		for n := 1; n <= h.txns; n++ {
			left = left || h.touched[n] > 0 && !ended[n]
		}
	}
	slices.Sort(decisions)
	return decisions, g.empty()
}

// Copies may receive the same logs in different pieces, and report on their partitions at any time. They find exactly
// the strongly connected components of the whole history. Every transaction runs eventually, and the graph is empty at
// the end.
func TestSameDecisionsEverywhere(t *testing.T) {
	found := 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 0))
		h := newHistory(r)
		want := h.components()
		slices.Sort(want)
		found += len(want)
		for range 2 {
			got, err := h.play(r)
			if !reflect.DeepEqual(got, want) || err != nil {
				t.Fatalf("seed %d: a copy decides %v, want %v; %v", seed, got, want, err)
			}
		}
	}
	if found < 1000 {
		t.Errorf("there are %d deadlocks", found)
	}
}

// BenchmarkResolver measures sim.DefaultCosts.Step. 300,000 transactions are in flight, more than fit into the cache.
// Each waits for two of the previous 100,000 transactions, and one in a hundred is in a cycle with one of these two.
func BenchmarkResolver(b *testing.B) {
	const underway, batch = 300_000, 1000
	g := newGraph()
	r := rand.New(rand.NewPCG(1, 0))
	name := func(n int) deterministic.Place { return deterministic.Place{Position: uint64(n % 4), Index: uint64(n)} }
	next := 1
	tell := func() {
		b.StopTimer()
		var vertices []deterministic.Vertex
		var over []deterministic.Place
		for range batch {
			v := deterministic.Vertex{Place: name(next), Participants: 1}
			for range 2 {
				v.After = append(v.After, name(max(1, next-1-r.IntN(underway/3))))
			}
			if next%100 == 0 {
				v.After = append(v.After, name(next+1))
			} else if next%100 == 1 {
				v.After = append(v.After, name(next-1))
			}
			if next > underway {
				over = append(over, name(next-underway))
			}
			vertices = append(vertices, v)
			next++
		}
		b.StartTimer()
		g.add(vertices, over)
		g.deadlocks()
	}
	for next <= 2*underway {
		tell()
	}
	steps := g.steps
	b.ResetTimer()
	for i := 0; i < b.N; i += batch {
		tell()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(g.steps-steps), "ns/step")
	b.ReportMetric(float64(g.steps-steps)/float64(b.N), "steps/op")
}
