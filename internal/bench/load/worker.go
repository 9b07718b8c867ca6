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

// WorkerConfig says which clients of a run a worker plays.
type WorkerConfig struct {
	Workload workload.Workload
	Topology *geo.Topology
	Region   geo.Region
	// Index of this worker among the Workers that share the region's clients and rate.
	Index, Workers int
	// Load is the run's spec.load with its defaults filled in.
	Load v1alpha1.Load
	Seed uint64
	// Start of the schedule on the machines' clock: 0 for Drive.
	Start time.Duration
	// Shards is the number of machines; 0 is one per core, GOMAXPROCS.
	Shards int
	// Shared means that other work runs in this process, so that its CPU time is not the worker's: the report then has no
	// Driver figures.
	Shared bool
	// Trace records a history; nil for none.
	Trace *Trace
	// Fine splits the seconds of the timeline into tenths, for runs with faults.
	Fine bool
	// Observer is notified of every transaction that finishes; nil for none.
	Observer Observer
}

// Coordinators is whom the clients of a run's spec.load send their transactions to.
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

// The parts of a stream number: region, worker, shard.
const (
	shardBits  = 13
	workerBits = 6
)

// Machines splits the clients and the rate of a worker among its shards. Simulators ask for one shard.
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
	// Regions whose clients use the rows of one home as their own share them out.
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
			// The region's arrivals go to the workers by turns, and each worker's to its shards.
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

// part is the i-th of n nearly equal parts of total.
func part(total, i, n int) int {
	p := total / n
	if i < total%n {
		p++
	}
	return p
}

// Worker plays a region's clients in real time, with one event loop per shard. Call Connect, then Run, or Close if the
// clients are not played.
type Worker struct {
	cfg      WorkerConfig
	machines []*Machine
	drivers  []*driver // by machine, from Connect on
}

// NewWorker makes a worker. Errors name the manifest's field.
func NewWorker(c WorkerConfig) (*Worker, error) {
	machines, err := Machines(c)
	if err != nil {
		return nil, err
	}
	return &Worker{cfg: c, machines: machines}, nil
}

// Progress sums up all shards; it may be called from any goroutine.
func (w *Worker) Progress() Progress { return Total(w.machines) }

// Total sums the progress of machines. Stage and Repetition are those of the slowest machine.
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

// Connect opens all connections of the worker's clients to their target. It takes as long as the database likes, so the
// start of a run is chosen after it. When it fails, none is left open.
func (w *Worker) Connect(ctx context.Context, t target.Target) error {
	drivers := make([]*driver, len(w.machines))
	var opening errgroup.Group // whose context would end with it
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
		_ = w.Close() // closes the open sessions
	}
	return err
}

// Close ends the connections of clients that do not play after all.
func (w *Worker) Close() error {
	var err error
	for _, d := range w.drivers {
		err = errors.Join(err, d.session.Close())
	}
	w.drivers = nil
	return err
}

// Run plays the whole schedule, whose clock starts at epoch, with the clients that Connect has connected, and returns
// the worker's report. When a shard fails, the others stop; the report then holds the measurements so far and names the
// incident. When the caller cancels, the report holds the measurements until then. All connections are closed when it
// returns.
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
	if !w.cfg.Shared {
		report.Workers[0].Driver = driver
	}
	if err != nil && !errors.Is(caller.Err(), context.Canceled) {
		report.Incidents = append(report.Incidents, result.Incident{Reason: result.Reason{Reason: result.ReasonWorkerLost,
			Message: fmt.Sprintf("a worker in %s stopped early: %v", w.cfg.Topology.Regions[w.cfg.Region], err)}})
	}
	return report, err
}

// ReportOf merges the reports of machines of one run.
func ReportOf(machines []*Machine) (*result.Report, error) {
	var reports []*result.Report
	for _, m := range machines {
		reports = append(reports, m.Report())
	}
	return result.Merge(reports)
}
