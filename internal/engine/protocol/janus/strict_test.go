package janus_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/janus"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/sim"
)

// counters is a client whose transactions increment or read rows. Each answer reveals the transaction's position in the
// history of every row that the transaction accesses.
type counters struct {
	env    protocol.ClientEnv
	rng    *rand.Rand
	stream uint32
	sent   uint64
	rows   int
	until  time.Duration
	open   map[txn.ID]*call
	done   *[]*call
}

type call struct {
	client     uint64
	start, end time.Duration
	places     map[string]int // by row: twice the count in the answer, minus 1 if the call incremented the row
}

func (c *counters) Start() {
	for i := range uint64(6) {
		c.env.After(time.Duration(c.rng.IntN(50))*time.Millisecond, protocol.Timer{Arg: i})
	}
}

func (c *counters) Fire(t protocol.Timer) {
	if c.env.Now() >= c.until {
		return
	}
	var ops []string
	for _, row := range c.rng.Perm(c.rows)[:1+c.rng.IntN(min(3, c.rows))] {
		if c.rng.IntN(2) == 0 {
			ops = append(ops, fmt.Sprintf("r%d", row))
		} else {
			ops = append(ops, fmt.Sprintf("a%d+1", row))
		}
	}
	c.sent++
	id := txn.MakeID(c.stream, c.sent)
	tx := simload.Txn(id, strings.Join(ops, " "))
	writes := map[string]int{}
	for _, o := range ops {
		if o[0] == 'a' {
			writes[o[1:strings.IndexByte(o, '+')]] = 1
		}
	}
	c.open[id] = &call{client: t.Arg, start: c.env.Now(), places: writes}
	c.env.Submit(tx)
}

func (c *counters) Complete(o txn.Outcome) {
	k := c.open[o.ID]
	delete(c.open, o.ID)
	if o.Status == txn.Committed {
		k.end = c.env.Now()
		for _, w := range strings.Fields(string(o.Result)) {
			var row, n int
			fmt.Sscanf(w, "%d=%d", &row, &n)
			name := fmt.Sprint(row)
			k.places[name] = 2*n - k.places[name] // the nth increment precedes a read of n
		}
		*c.done = append(*c.done, k)
	}
	c.env.After(time.Duration(c.rng.IntN(20))*time.Millisecond, protocol.Timer{Arg: k.client})
}

// All answers are consistent with one order of all transactions that agrees with real time. The relations "earlier in
// the history of a row" and "answered before the other was submitted" form no cycle. During the test, links break and a
// region is lost.
func TestStrictlySerializable(t *testing.T) {
	for n := range *seeds {
		seed := *first + n
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			topology := jitter([]*geo.Topology{
				simload.ThreeRegions(2), fiveRegions(3), simload.TwoRegions(3), simload.EightRegions(2),
			}[seed%4], 10, int64(seed%5)*1000)
			regions := len(topology.Regions)
			s := sim.New(sim.Config{
				Topology: topology, Engine: janus.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: seed, Costs: sim.DefaultCosts,
				Params: params(t, map[string]string{"patience": "50ms", "recovery": "400ms"}),
			})
			rows := 2 + int(seed%7)*4
			simload.Fill(topology, uint64(rows), 0, s.Store)
			var done []*call
			for r := range regions {
				s.AddClient(geo.Region(r), func(env protocol.ClientEnv) protocol.Client {
					return &counters{
						env: env, rng: rand.New(rand.NewPCG(seed, uint64(r))), stream: uint32(r) + 1, rows: rows,
						until: 5 * time.Second, open: map[txn.ID]*call{}, done: &done,
					}
				})
			}
			faults := rand.New(rand.NewPCG(seed, 7))
			for range seed % 4 {
				a := faults.IntN(regions)
				b := (a + 1 + faults.IntN(regions-1)) % regions
				from := time.Duration(faults.Int64N(int64(4 * time.Second)))
				s.At(from, func() { s.Cut(geo.Region(a), geo.Region(b)) })
				s.At(from+time.Duration(faults.Int64N(int64(2*time.Second))), func() { s.Heal(geo.Region(a), geo.Region(b)) })
			}
			if seed%3 == 1 && regions > 2 {
				lost := geo.Region(seed) % geo.Region(regions)
				if seed%2 == 1 { // some of the lost region's last messages reach only a few replicas
					for r := range geo.Region(regions) {
						if r != lost && faults.IntN(2) == 0 {
							s.At(2450*time.Millisecond, func() { s.Cut(lost, r) })
						}
					}
				}
				s.At(2500*time.Millisecond, func() {
					for p := range topology.Partitions {
						s.Crash(topology.Node(lost, p, 0))
					}
				})
			}
			s.At(7*time.Second, func() {
				for a := range regions {
					for b := range a {
						s.Heal(geo.Region(a), geo.Region(b))
					}
				}
			})
			s.Run(60 * time.Second)
			if n := s.Pending(); n > 0 {
				t.Errorf("%d transactions are pending on a quiet system", n)
			}
			checkEqual(t, s, topology, seed)
			if len(done) < 5 {
				t.Errorf("only %d transactions", len(done))
			}
			if a, b := cycle(done); a != nil {
				t.Errorf("%+v comes before and after %+v", a, b)
			}
		})
	}
}

// cycle returns two calls that precede each other, directly or indirectly, if there are any.
func cycle(calls []*call) (a, b *call) {
	before := func(x, y *call) bool {
		if x.end < y.start {
			return true
		}
		for row, p := range x.places {
			// A read at position 2n sees the result of the increment at 2n-1. Equal positions are reads of the same value.
			if q, ok := y.places[row]; ok && p < q {
				return true
			}
		}
		return false
	}
	// Remove calls without predecessors until no such call is left.
	in := make([]int, len(calls))
	next := make([][]int, len(calls))
	var free []int
	for i, x := range calls {
		for j, y := range calls {
			if i != j && before(x, y) {
				next[i] = append(next[i], j)
				in[j]++
			}
		}
	}
	for i := range in {
		if in[i] == 0 {
			free = append(free, i)
		}
	}
	left := len(calls)
	for len(free) > 0 {
		i := free[len(free)-1]
		free = free[:len(free)-1]
		left--
		for _, j := range next[i] {
			if in[j]--; in[j] == 0 {
				free = append(free, j)
			}
		}
	}
	if left == 0 {
		return nil, nil
	}
	for i, n := range in {
		for _, j := range next[i] {
			if n > 0 && in[j] > 0 {
				return calls[i], calls[j]
			}
		}
	}
	return nil, nil
}
