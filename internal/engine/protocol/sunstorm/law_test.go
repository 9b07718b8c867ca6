package sunstorm_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/protocol/sunstorm"
	"github.com/geobench/geobench/internal/engine/sim"
)

// With three storage copies the mean latency matches the latency model within 5%. Durable entries are on two nodes of
// the region, and two thirds of the transactions arrive at a node that forwards them to the writer. Hops inside a
// region take 4 ms, so that each write to a storage copy has a visible effect on the latency.
func TestLawOfReplicas(t *testing.T) {
	p := protocoltest.Params(t, sunstorm.Engine, nil)
	shapes := map[string]*geo.Topology{"2 regions": simload.TwoRegions(1), "3 regions": simload.ThreeRegions(1), "8 regions": simload.EightRegions(1)}
	classes := map[string]func(c, n int) []int{
		"single-region": func(c, _ int) []int { return []int{c} },
		"multi-region":  func(c, n int) []int { return []int{c, (c + 1) % n} },
		"elsewhere":     func(c, n int) []int { return []int{(c + 1) % n} },
	}
	for shape, topology := range shapes {
		topology.Replicas = 3
		for r := range topology.Regions {
			topology.Links[r][r].Delay = 2 * time.Millisecond
		}
		for class, homesOf := range classes {
			t.Run(shape+", "+class, func(t *testing.T) {
				const each = 2000 // rows per home
				n := len(topology.Regions)
				s := sim.New(sim.Config{Topology: topology, Engine: sunstorm.Engine, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Seed: 1, Params: p, Costs: sim.DefaultCosts})
				simload.Fill(topology, uint64(each*n), 0, s.Store)
				var loads []*simload.Clients
				for c := range n {
					loads = append(loads, simload.Add(s, geo.Region(c), 1, simload.Load{
						Clients: 3, Think: 200 * time.Millisecond, From: time.Second, Until: 20 * time.Second,
						Next: func(r *rand.Rand) (ops string) {
							for _, h := range homesOf(c, n) {
								ops += fmt.Sprintf(" a%d+1", r.IntN(each)*n+h)
							}
							return ops[1:]
						},
					}))
				}
				s.Run(25 * time.Second)
				for c, l := range loads {
					var homes []geo.Region
					for _, h := range homesOf(c, n) {
						homes = append(homes, geo.Region(h))
					}
					var sum time.Duration
					for _, d := range l.Latencies {
						sum += d
					}
					got, law := sum/time.Duration(max(1, len(l.Latencies))), sunstorm.Engine.Law(topology, p, geo.Region(c), homes)
					if off := 100 * (float64(got)/float64(law) - 1); off > 5 || off < -5 {
						t.Errorf("region %s, homes %v: mean %v of %d, law %v: %+.1f%%", topology.Regions[c], homes, got, len(l.Latencies), law, off)
					}
				}
			})
		}
	}
}
