package protocoltest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

// HomeOnly runs transfers and audits on rows that are stored only in their home regions. It checks that no transaction
// is lost or executed twice, that the existing copies are equal, and that no node stores rows of other shards. Like
// HomeOnlyAnswers, it is for engines whose parameter replication has the value homeOnly.
func HomeOnly(t *testing.T, engine *protocol.Engine, given map[string]string) {
	p := Params(t, engine, with(given, "replication", "homeOnly"))
	oneRegion := shape{"1x2", func() *geo.Topology { return simload.Topology(2, 1, [][]float64{{0}}) }}
	accepted(t, engine, p, append(slices.Clone(severalRegions), oneRegion), func(t *testing.T, makeTopology func() *geo.Topology) {
		for seed := range uint64(2) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				topology := makeTopology()
				// Seed 0 runs without jitter and loss, so that a failure with seed 0 has a simpler cause.
				disturb(topology, 0.1*float64(seed), int64(seed)*2000)
				s := sim.New(sim.Config{
					Topology: topology, Engine: engine, Figures: Figures(t), Procedures: simload.Procedures, Seed: seed, Costs: sim.DefaultCosts, CheckCodec: true, Params: p,
				})
				layout := engine.Layout(topology, p)
				simload.FillLayout(layout, suiteRows, suiteEach, s.Store)
				var loads []*simload.Clients
				var audits []*Auditor
				for r := range topology.Regions {
					loads = append(loads, addLoad(s, geo.Region(r), seed, simload.Load{Clients: 10, Next: Transfers(suiteRows), Until: 4 * time.Second}))
					audits = append(audits, AddAuditor(t, s, geo.Region(r), suiteRows, suiteRows*suiteEach, 4*time.Second))
				}
				// A single region has no link to cut.
				if len(topology.Regions) > 1 {
					s.At(time.Second, func() { s.Cut(0, 1) })
					s.At(1500*time.Millisecond, func() { s.Heal(0, 1) })
				}
				s.Run(40 * time.Second)
				finished(t, s, layout, loads, audits)
			})
		}
	})
}

// HomeOnlyAnswers checks read-only transactions with one key in the client's region and one in another region, and
// transactions whose coordinator holds none of the keys. Their latency must match the latency model of a transaction
// that writes in the client's region.
func HomeOnlyAnswers(t *testing.T, engine *protocol.Engine) {
	topology := simload.TwoRegions(2)
	p := Params(t, engine, map[string]string{"replication": "homeOnly"})
	mustAccept(t, engine, topology, p)
	// Row n belongs to partition n mod 2, and region (n div 2) mod 2 is its home. Clients are in the second region.
	for what, ops := range map[string]string{"reads": "r0 r2", "reads, first elsewhere": "r0 r3", "writes, first elsewhere": "a0+1 a3+1"} {
		s := sim.New(sim.Config{Topology: topology, Engine: engine, Figures: Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts, Params: p})
		simload.FillLayout(engine.Layout(topology, p), 4, 0, s.Store)
		l := simload.Add(s, 1, 1, simload.Load{
			Clients: 1, Think: 50 * time.Millisecond, From: 3 * time.Second, Until: 20 * time.Second, Next: func(*rand.Rand) string { return ops },
		})
		s.Run(22 * time.Second)
		law := engine.Law(topology, p, 1, []geo.Region{0, 1})
		if off := float64(l.Percentile(50))/float64(law) - 1; off > 0.05 || off < -0.05 {
			t.Errorf("%s (%s): median %v, law %v", what, ops, l.Percentile(50), law)
		}
	}
}
