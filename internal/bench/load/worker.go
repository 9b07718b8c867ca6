package load

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/workload"
)

// WorkerConfig configures a worker's share of the clients of a run.
type WorkerConfig struct {
	Workload workload.Workload
	Topology *geo.Topology
	Region   geo.Region
	// Index is the number of this worker among the Workers that share the region's clients and rate.
	Index, Workers int
	// Load is the run's spec.load with its defaults filled in.
	Load v1alpha1.Load
	Seed uint64
	// Start is the start of the schedule on the clock of the machines: 0 for a Worker.
	Start time.Duration
	// Shards is the number of machines; 0 means one per core (GOMAXPROCS).
	Shards int
	// Shared is set if this process also does other work, so that not all of its CPU time is used by the worker. The
	// report then has no Driver.
	Shared bool
	// Trace enables the recording of a history; nil for none.
	Trace *Trace
	// Fine splits the seconds of the timeline into tenths, for runs with faults.
	Fine bool
	// Observer is notified of every transaction that finishes; nil for none.
	Observer Observer
}

// Coordinators returns the rule by which clients of this load choose the node for a transaction.
func Coordinators(l *v1alpha1.Load) geo.Coordinators {
	if l.Coordinator == v1alpha1.CoordinatorRoundRobin {
		return geo.RoundRobin
	}
	return geo.FirstKey
}

// PlanOf returns the schedule of a run's spec.load.
func PlanOf(l v1alpha1.Load, start time.Duration) Schedule {
	return Schedule{
		Start: start, Warmup: l.Warmup.Duration, Duration: l.Duration.Duration,
		Repetitions: max(1, int(l.Repetitions)), Timeout: l.RequestTimeout.Duration,
	}
}

// Bits of a stream number, which consists of region, worker and shard.
const (
	shardBits  = 13
	workerBits = 6
)

// Machines splits the clients and the rate of a worker among its shards. Simulators use one shard.
func Machines(c WorkerConfig) ([]*Machine, error) {
	workers := max(1, c.Workers)
	clients := part(int(c.Load.ClientsPerRegion), c.Index, workers)
	shards := c.Shards
	if shards == 0 {
		shards = runtime.GOMAXPROCS(0)
	}
	shards = min(shards, max(1, clients), 1<<shardBits)
	if c.Index < 0 || c.Index >= workers || workers > 1<<workerBits {
		return nil, fmt.Errorf("worker %d of %d: the index must be below the number, which is at most %d", c.Index, workers, 1<<workerBits)
	}
	// Clients of several regions may use the rows of the same home. They are then numbered across these regions.
	home, first, all := c.Topology.HomeOf(c.Region), 0, 0
	for r := range c.Topology.Regions {
		if c.Topology.HomeOf(geo.Region(r)) != home {
			continue
		}
		all += int(c.Load.ClientsPerRegion)
		if geo.Region(r) < c.Region {
			first += int(c.Load.ClientsPerRegion)
		}
	}
	for i := range c.Index {
		first += part(int(c.Load.ClientsPerRegion), i, workers)
	}
	var machines []*Machine
	curve := NewCurve(&c.Load)
	for s := range shards {
		m, err := New(Config{
			FirstClient: first, RegionClients: all, Trace: c.Trace, Placement: c.Topology.Placement(), Fine: c.Fine, Observer: c.Observer,
			Workload: c.Workload, Region: c.Region, RegionName: c.Topology.Regions[c.Region], Home: home, Worker: c.Index,
			Clients: part(clients, s, shards),
			Stream:  uint32(c.Region)<<(shardBits+workerBits) | uint32(c.Index)<<shardBits | uint32(s),
			Seed:    c.Seed, Arrival: c.Load.Arrival, RatePerSecond: c.Load.RatePerSecond,
			// The arrivals of the region are distributed round-robin to the workers, and the arrivals of each worker to its
			// shards.
			Share: s*workers + c.Index, Shares: shards * workers,
			Curve: curve, ClientsPerRegion: int(c.Load.ClientsPerRegion),
			ThinkTime: c.Load.ThinkTime.Duration, Retry: c.Load.Retry, Queue: max(1, DefaultQueue/(shards*workers)),
			Schedule: PlanOf(c.Load, c.Start),
		})
		if err != nil {
			return nil, err
		}
		machines = append(machines, m)
		first += part(clients, s, shards)
	}
	return machines, nil
}

// part returns the size of the i-th of n nearly equal parts of total.
func part(total, i, n int) int {
	p := total / n
	if i < total%n {
		p++
	}
	return p
}

// Worker runs a region's clients in real time, with one event loop per shard. Call Connect, then either Run or Close.
type Worker struct {
	cfg      WorkerConfig
	machines []*Machine
	drivers  []*driver // one per machine, after Connect
}

// NewWorker returns a worker. Errors name the field of the manifest.
func NewWorker(c WorkerConfig) (*Worker, error) {
	machines, err := Machines(c)
	if err != nil {
		return nil, err
	}
	return &Worker{cfg: c, machines: machines}, nil
}

// Progress returns the totals of all shards. It may be called from any goroutine.
func (w *Worker) Progress() Progress { return Total(w.machines) }

// Total sums the progress of machines. Stage and Repetition describe the slowest machine.
func Total(machines []*Machine) Progress {
	var t Progress
	for i, m := range machines {
		p := m.Progress()
		if i == 0 || p.Repetition < t.Repetition || p.Repetition == t.Repetition && p.Stage < t.Stage {
			t.Stage, t.Repetition = p.Stage, p.Repetition
		}
		t.Committed += p.Committed
		t.Aborted += p.Aborted
		t.Failed += p.Failed
		t.Retried += p.Retried
		t.Dropped += p.Dropped
		t.Underway += p.Underway
		t.Latency += p.Latency
	}
	return t
}

// Connect opens all connections of the worker's clients to their target. Connecting may take arbitrarily long, so the
// start of a run is chosen only afterwards. If Connect fails, no connection stays open.
func (w *Worker) Connect(ctx context.Context, t target.Target) error {
	drivers := make([]*driver, len(w.machines))
	var opening errgroup.Group // its own context would be cancelled at the end of Connect
	for i, m := range w.machines {
		opening.Go(func() error {
			d, err := connect(ctx, m, t)
			if err == nil {
				drivers[i] = d
			}
			return err
		})
	}
	err := opening.Wait()
	w.drivers = slices.DeleteFunc(drivers, func(d *driver) bool { return d == nil })
	if err != nil {
		_ = w.Close() // closes the sessions that were opened
	}
	return err
}

// Close closes the connections of clients that will not run.
func (w *Worker) Close() error {
	var err error
	for _, d := range w.drivers {
		err = errors.Join(err, d.session.Close())
	}
	w.drivers = nil
	return err
}

// Run executes the whole schedule with the connected clients and returns the worker's report. The schedule's clock
// starts at epoch. If a shard fails, the other shards stop; the report then holds the measurements so far and an
// incident. If caller is cancelled, the report holds the measurements until then. All connections are closed on return.
func (w *Worker) Run(caller context.Context, epoch time.Time) (*result.Report, error) {
	ctx, cancel := context.WithCancelCause(caller)
	defer cancel(nil)
	meter := make(chan *result.Driver, 1)
	go func() { meter <- MeasureDriver(ctx, w.machines[0].Schedule(), epoch) }()
	var shards sync.WaitGroup
	drivers := w.drivers
	w.drivers = nil
	for _, d := range drivers {
		shards.Go(func() {
			if err := d.play(ctx, epoch); err != nil {
				cancel(err)
			}
		})
	}
	shards.Wait()
	err := context.Cause(ctx)
	cancel(nil)
	driver := <-meter
	report, mergeErr := ReportOf(w.machines)
	if mergeErr != nil {
		return nil, mergeErr
	}
	// The CPU time covers the whole process, so only one shard may report it.
	if !w.cfg.Shared {
		report.Workers[0].Driver = driver
	}
	// A cancellation by the caller is no failure of the worker.
	if err != nil && !errors.Is(caller.Err(), context.Canceled) {
		report.Incidents = append(report.Incidents, result.Incident{Reason: result.Reason{Reason: result.ReasonWorkerLost,
			Message: fmt.Sprintf("a worker in %s stopped early: %v", w.cfg.Topology.Regions[w.cfg.Region], err)}})
	}
	return report, err
}

// ReportOf merges the reports of the machines of a run.
func ReportOf(machines []*Machine) (*result.Report, error) {
	var reports []*result.Report
	for _, m := range machines {
		reports = append(reports, m.Report())
	}
	return result.Merge(reports)
}
