package protocoltest

import (
	"testing"
	"time"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/sim"
	"github.com/geobench/geobench/internal/sim/simtest"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/txn"
)

// RegionLost loses each of three regions in turn, in the middle of a load, while a link of it is cut, so that what it has sent to one of the
// others is lost with it. The others go on, with the rows that call the lost region home, too, and their copies are equal. The engine must survive that
// with these parameters.
func RegionLost(t *testing.T, engine *protocol.Engine, given map[string]string) {
	for seed := range uint64(6) {
		topology := simtest.ThreeRegions(2)
		p := Params(t, engine, given)
		mustAccept(t, engine, topology, p)
		s := sim.New(sim.Config{
			Topology: topology, Engine: engine, Procedures: simtest.Procedures, Seed: seed, Costs: sim.DefaultCosts, Params: p, CheckCodec: true,
		})
		const rows, each = 96, 50
		simtest.Fill(topology, rows, each, s.Store)
		var loads []*simtest.Clients
		for r := range geo.Region(3) {
			loads = append(loads, simtest.Add(s, r, seed, simtest.Load{
				Clients: 10, Think: 50 * time.Millisecond, Next: Transfers(rows), Until: 12 * time.Second,
			}))
		}
		lost := geo.Region(seed % 3)
		held, other := (lost+1)%3, (lost+2)%3
		if seed > 2 {
			held, other = other, held
		}
		s.At(time.Second, func() { s.Cut(min(lost, held), max(lost, held)) })
		s.At(1200*time.Millisecond, func() {
			for q := range topology.Partitions {
				s.Crash(topology.Node(lost, q, 0))
			}
		})
		s.Run(12 * time.Second)
		before := []int{loads[held].Outcomes[txn.Committed], loads[other].Outcomes[txn.Committed]}
		s.Run(30 * time.Second)
		for i, r := range []geo.Region{held, other} {
			if l := loads[r]; l.Open() > 0 || before[i] < 100 {
				t.Errorf("seed %d, region %d: %d of %d transactions have no answer, %d were committed: %v", seed, r, l.Open(), l.Sent(), before[i], l.Outcomes)
			}
		}
		for q := range topology.Partitions {
			a, b := topology.Node(held, q, 0), topology.Node(other, q, 0)
			if store.Digest(s.Store(a)) != store.Digest(s.Store(b)) {
				t.Errorf("seed %d: the copies of partition %d differ", seed, q)
			}
		}
		if n := s.Pending(); n > 0 {
			t.Errorf("seed %d: %d pending", seed, n)
		}
	}
}
