package primary_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol/primary"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/sim"
	"github.com/geobench/geobench/internal/run/explore"
)

// If storage servers apply the log, the node that ships the log pays no CPU time for it. Neither do the nodes of a
// region that only reads. The rows and the messages are the same as if the nodes applied the log.
func TestCopies(t *testing.T) {
	type load struct{ writer, shipper, reader, stored time.Duration }
	run := func(copies string) (l load, traffic geo.Traffic, sum int64) {
		topology := simload.Topology(1, 3, [][]float64{{0, 5}, {5, 0}})
		p := protocoltest.Params(t, primary.Engine, map[string]string{"reads": "Eventual", "readers": "Instance", "shippedBy": "Storage", "copies": copies})
		s := sim.New(sim.Config{Topology: topology, Engine: primary.Engine, Params: p, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Costs: sim.DefaultCosts})
		simload.FillLayout(primary.Engine.Layout(topology, p), 30, 10, s.Store)
		own := func(r *rand.Rand) string { return fmt.Sprintf("a%d+1", r.IntN(30)) }
		simload.Add(s, 0, 1, simload.Load{Clients: 20, Next: own, Think: time.Millisecond, Until: time.Second})
		s.Run(2 * time.Second)
		busy := func(n geo.NodeID) time.Duration { return s.Node(n).Busy }
		return load{busy(0), busy(1), busy(3), busy(4)}, s.Traffic(0, 1), simload.Sum(s.Store(3))
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

// If storage servers apply the log, global reads that wait for the log are still strictly serializable. The node pays
// CPU time for the reads, but not for the log.
func TestGlobalReadsOfStorageCopies(t *testing.T) {
	e := *primary.Engine
	for parameter, value := range map[string]string{"reads": "Global", "shippedBy": "Storage", "copies": "Storage"} {
		e.Parameters = with(e.Parameters, parameter, value)
	}
	for seed := range uint64(30) {
		if r := explore.Run(explore.Config{Engine: &e, Seed: 1 + seed, Level: isolation.StrictSerializable}); !r.Passed() {
			t.Error(r)
		}
	}
	run := func(copies string) (busy time.Duration, waits int64) {
		topology := simload.Topology(1, 3, [][]float64{{0, 5}, {5, 0}})
		p := protocoltest.Params(t, primary.Engine, map[string]string{"reads": "Global", "readers": "Instance", "shippedBy": "Storage", "copies": copies})
		s := sim.New(sim.Config{Topology: topology, Engine: primary.Engine, Params: p, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Costs: sim.DefaultCosts})
		simload.FillLayout(primary.Engine.Layout(topology, p), 30, 10, s.Store)
		for region, ops := range []string{"a%d+1", "r%d"} { // the first region writes, and the second reads
			next := func(r *rand.Rand) string { return fmt.Sprintf(ops, r.IntN(30)) }
			simload.Add(s, geo.Region(region), 1, simload.Load{Clients: 10, Next: next, Think: time.Millisecond, Until: time.Second})
		}
		s.Run(2 * time.Second)
		if s.Pending() > 0 {
			t.Errorf("copies: %s: %d are pending", copies, s.Pending())
		}
		return s.Node(3).Busy, protocoltest.Counter(s, topology, "log_waits")
	}
	instance, waits := run("Instance")
	storage, waits2 := run("Storage")
	t.Logf("a region's instance pays %v itself, and %v with storage servers; %d and %d reads wait for the log", instance, storage, waits, waits2)
	if waits == 0 || waits2 == 0 {
		t.Errorf("%d and %d reads have waited for the log, which shows nothing", waits, waits2)
	}
	if storage >= instance*9/10 {
		t.Errorf("with storage servers a region's instance pays %v, %v without", storage, instance)
	}
}
