package sunstorm_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/protocol/sunstorm"
	"github.com/geobench/geobench/internal/engine/sim"
)

// If writers apply the other regions' logs, a region without writes spends CPU time on the writes of others. If storage
// servers apply the logs, such a region spends almost none, and a writer that ships its log spends less. In both cases,
// the copies receive all writes.
func TestCopies(t *testing.T) {
	type load struct{ shipper, idle time.Duration }
	run := func(copies string) (l load, traffic geo.Traffic, sum int64) {
		topology := simload.ThreeRegions(1)
		p := protocoltest.Params(t, sunstorm.Engine, map[string]string{"copies": copies})
		s := sim.New(sim.Config{
			Topology: topology, Engine: sunstorm.Engine, Params: p, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Costs: sim.DefaultCosts,
		})
		simload.Fill(topology, 30, 10, func(id geo.NodeID) store.Store { return s.Store(id) })
		own := func(r *rand.Rand) string { return fmt.Sprintf("a%d+1", 3*r.IntN(10)) }
		simload.Add(s, 0, 1, simload.Load{Clients: 20, Next: own, Think: time.Millisecond, Until: time.Second})
		s.Run(2 * time.Second)
		return load{s.Node(0).Busy, s.Node(1).Busy}, s.Traffic(0, 1), simload.Sum(s.Store(1))
	}
	writer, traffic, sum := run("writer")
	storage, traffic2, sum2 := run("storage")
	t.Logf("writer %+v, storage %+v, %+v", writer, storage, traffic)
	if writer.idle < writer.shipper/10 {
		t.Errorf("a region pays %v for the writes of another, which pays %v itself", writer.idle, writer.shipper)
	}
	if storage.idle > writer.idle/100 {
		t.Errorf("with storage servers a region pays %v for the writes of another, %v without", storage.idle, writer.idle)
	}
	if storage.shipper >= writer.shipper {
		t.Errorf("a writer whose log is shipped by storage servers pays %v, %v without them", storage.shipper, writer.shipper)
	}
	if sum == 300 || sum2 == 300 || traffic.Messages == 0 || traffic2.Messages == 0 {
		t.Errorf("copies were not brought up to date: sums %d and %d, traffic %+v and %+v", sum, sum2, traffic, traffic2)
	}
}
