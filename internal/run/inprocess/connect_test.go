package inprocess

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/ops/admin"
)

// distant is a database that commits everything immediately. Clients of region 1 take the duration takes to connect to
// it.
type distant struct {
	topology *geo.Topology
	takes    time.Duration
}

func (distant) Load(context.Context, target.Dataset) error { return nil }
func (d distant) Clients(r geo.Region) target.Target {
	if r == 1 {
		return slowToConnect{target.NewNoop(nil), d.takes}
	}
	return target.NewNoop(nil)
}
func (distant) Activity(context.Context) (target.Activity, error) { return target.Activity{}, nil }
func (d distant) Layout() geo.Layout                              { return d.topology.Whole(0) }
func (distant) Audit(context.Context, func(geo.NodeID) bool) ([][]store.ShardSums, error) {
	return nil, nil
}
func (distant) Status(context.Context) ([]admin.Status, error) { return nil, nil }

type slowToConnect struct {
	target.Target
	takes time.Duration
}

func (s slowToConnect) Open(ctx context.Context, sink target.Sink) (target.Session, error) {
	if err := pause(ctx, s.takes); err != nil {
		return nil, err
	}
	return s.Target.Open(ctx, sink)
}

// runDistant plans a run on a distant database. It returns a function that plays the run and reports how many
// transactions the clients of each region committed.
func runDistant(t *testing.T) func(context.Context) (east, west int64, err error) {
	t.Helper()
	topology := geo.Topology{Regions: []string{"east", "west"}, Partitions: 1, Replicas: 1}
	run := &v1alpha1.BenchmarkRun{}
	run.Name = "late"
	run.Spec.Workload.RMW = &v1alpha1.RMW{Records: 100, RecordsPerTransaction: 1, WritesPerTransaction: 1, ValueBytes: 8}
	run.Spec.Load = v1alpha1.Load{
		ClientsPerRegion: 4, Arrival: v1alpha1.ArrivalClosed, Repetitions: 1, ThinkTime: v1alpha1.DurationOf(100 * time.Millisecond),
		Warmup: v1alpha1.DurationOf(time.Second), Duration: v1alpha1.DurationOf(5 * time.Second), RequestTimeout: v1alpha1.DurationOf(time.Second),
	}
	p, err := PlanOn(run, "distant", isolation.Serializable, topology)
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) (east, west int64, err error) {
		d, err := On(ctx, p, distant{&p.Topology, 5 * time.Second}, nil)
		if d != nil {
			east, west = d.Regions[0].Committed, d.Regions[1].Committed
		}
		return east, west, err
	}
}

// The clients of all regions are connected before the first warm-up, even if some of them take long to connect. So
// clients of all regions are active during the whole window.
func TestClientsConnectBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := runDistant(t)
		east, west, err := run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if east == 0 || west < east*3/4 {
			t.Errorf("the clients of the region that took 5s to connect committed %d, the others %d", west, east)
		}
	})
}

// A run that is cancelled while its clients connect has no result.
func TestCancelledWhileClientsConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := runDistant(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if east, west, err := run(ctx); !errors.Is(err, context.DeadlineExceeded) || east+west > 0 {
			t.Errorf("%v, %d and %d were committed", err, east, west)
		}
	})
}
