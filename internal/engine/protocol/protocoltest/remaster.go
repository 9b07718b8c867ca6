package protocoltest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

// severalRegions are the shapes for suites about the homes of rows.
var severalRegions = []shape{
	{"2x1", func() *geo.Topology { return simload.TwoRegions(1) }},
	{"3x2", func() *geo.Topology { return simload.ThreeRegions(2) }},
	{"2x2x2", func() *geo.Topology { return simload.Topology(2, 2, [][]float64{{0, 20}, {20, 0}}) }},
}

// with returns a copy of given with one more parameter. If given already sets that parameter, given takes precedence.
func with(given map[string]string, name, value string) map[string]string {
	all := map[string]string{name: value}
	maps.Copy(all, given)
	return all
}

// Remastering runs transfers and audits on contended rows whose homes move constantly, because of the engine's
// parameter remaster. The copies stay equal, no transaction is lost or executed twice, and all nodes see the same
// moves.
func Remastering(t *testing.T, engine *protocol.Engine, given map[string]string) {
	for _, after := range []string{"1", "3"} {
		t.Run(after, func(t *testing.T) {
			p := Params(t, engine, with(given, "remaster", after))
			accepted(t, engine, p, severalRegions, func(t *testing.T, makeTopology func() *geo.Topology) {
				topology := makeTopology()
				disturb(topology, 0.1, 2000)
				s := sim.New(sim.Config{
					Topology: topology, Engine: engine, Figures: Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts, CheckCodec: true,
					Params: p,
				})
				simload.Fill(topology, suiteRows, suiteEach, s.Store)
				var loads []*simload.Clients
				var audits []*Auditor
				// An audit of all rows is sent again as long as one of the rows has just moved, so audits run longer than the
				// transfers.
				for r := range topology.Regions {
					loads = append(loads, addLoad(s, geo.Region(r), 1, simload.Load{Clients: 10, Next: Transfers(suiteRows), Until: 4 * time.Second}))
					audits = append(audits, AddAuditor(t, s, geo.Region(r), suiteRows, suiteRows*suiteEach, 8*time.Second))
				}
				s.At(time.Second, func() { s.Cut(0, 1) })
				s.At(1500*time.Millisecond, func() { s.Heal(0, 1) })
				s.Run(40 * time.Second)
				finished(t, s, topology.Full(), loads, audits)
				moved, restarts := Counter(s, topology, "remasterings"), Counter(s, topology, "restarts")
				t.Logf("%d moves, %d restarts", moved/int64(topology.Nodes()), restarts)
				// Every node counts every move, so moved is the number of moves times the number of nodes.
				if moved < 10*int64(topology.Nodes()) || restarts < 10 {
					t.Errorf("rows moved %d times, with %d restarts", moved/int64(topology.Nodes()), restarts)
				}
				for n := range topology.Nodes() {
					for _, c := range s.Readings(geo.NodeID(n)) {
						if c.Name == "remasterings" && c.Value*int64(topology.Nodes()) != moved {
							t.Errorf("node %s has seen %d moves, all have seen %d", topology.NodeName(geo.NodeID(n)), c.Value, moved)
						}
					}
				}
			})
		})
	}
}

// RemasteringPays makes the clients of one region use rows whose home is another region. Before the rows move, the
// latency matches the latency model for a home in another region. After the rows have moved, it matches the latency
// model for a home in the client's region.
func RemasteringPays(t *testing.T, engine *protocol.Engine) {
	topology := simload.TwoRegions(1)
	p := Params(t, engine, map[string]string{"remaster": "3"})
	mustAccept(t, engine, topology, p)
	s := sim.New(sim.Config{Topology: topology, Engine: engine, Figures: Figures(t), Procedures: simload.Procedures, Seed: 1, Costs: sim.DefaultCosts, Params: p})
	simload.Fill(topology, 20, 0, s.Store)
	add := func(from, until time.Duration) *simload.Clients {
		return simload.Add(s, 1, uint64(from)+1, simload.Load{
			Clients: 1, Think: 20 * time.Millisecond, From: from, Until: until,
			// Even rows have region 0 as their home, and the clients are in region 1.
			Next: func(r *rand.Rand) string { return fmt.Sprintf("a%d+1", 2*r.IntN(10)) },
		})
	}
	all := add(0, 60*time.Second)
	s.Run(20 * time.Second)
	first := all.Percentile(100)
	s.Run(70 * time.Second)
	for what, c := range map[string]struct{ got, law time.Duration }{
		"the slowest, before its row has moved": {first, engine.Law(topology, p, 1, []geo.Region{0})},
		"the median, with most rows moved":      {all.Percentile(50), engine.Law(topology, p, 1, []geo.Region{1})},
	} {
		if off := float64(c.got)/float64(c.law) - 1; off > 0.25 || off < -0.05 {
			t.Errorf("%s: %v, the law says %v", what, c.got, c.law)
		}
		t.Logf("%s: %v, the law says %v", what, c.got, c.law)
	}
	if open := all.Open(); open > 0 {
		t.Errorf("%d transactions have no answer", open)
	}
}
