package primary_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol/primary"
	"github.com/geobench/geobench/internal/protocol/protocoltest"
	"github.com/geobench/geobench/internal/sim"
	"github.com/geobench/geobench/internal/sim/simtest"
)

// Where storage servers apply the log, a region that writes nothing and the storage that ships to it pay for none of that;
// rows and messages are the same.
func TestCopies(t *testing.T) {
	type load struct{ writer, shipper, reader, stored time.Duration }
	run := func(copies string) (l load, traffic sim.Traffic, sum int64) {
		topology := simtest.Topology(1, 3, [][]float64{{0, 5}, {5, 0}})
		p := protocoltest.Params(t, primary.Engine, map[string]string{"reads": "Eventual", "readers": "Instance", "shippedBy": "Storage", "copies": copies})
		s := sim.New(sim.Config{Topology: topology, Engine: primary.Engine, Params: p, Procedures: simtest.Procedures, Costs: sim.DefaultCosts})
		simtest.FillLayout(primary.Engine.Layout(topology, p), 30, 10, s.Store)
		own := func(r *rand.Rand) string { return fmt.Sprintf("a%d+1", r.IntN(30)) }
		simtest.Add(s, 0, 1, simtest.Load{Clients: 20, Next: own, Think: time.Millisecond, Until: time.Second})
		s.Run(2 * time.Second)
		busy := func(n geo.NodeID) time.Duration { return s.Node(n).Busy }
		return load{busy(0), busy(1), busy(3), busy(4)}, s.Traffic(0, 1), simtest.Sum(s.Store(3))
	}
	instance, traffic, sum := run("Instance")
	storage, traffic2, sum2 := run("Storage")
	t.Logf("instance %+v, storage %+v, %+v", instance, storage, traffic)
	if instance.reader < instance.writer/20 {
		t.Errorf("a region pays %v for the writes of another, which pays %v itself", instance.reader, instance.writer)
	}
	if storage.reader > instance.reader/4 || storage.stored > instance.stored/4 {
		t.Errorf("with storage servers the nodes of a region pay %v and %v for the log, %v and %v without", storage.reader, storage.stored,
			instance.reader, instance.stored)
	}
	if storage.shipper >= instance.shipper {
		t.Errorf("the storage's node that ships pays %v, %v if that is its own work", storage.shipper, instance.shipper)
	}
	if sum <= 300 || sum2 <= 300 || traffic.Messages == 0 || traffic2.Messages == 0 {
		t.Errorf("copies were not brought up to date: sums %d and %d, traffic %+v and %+v", sum, sum2, traffic, traffic2)
	}
}
