package load

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
)

func shortLoad(clients int32) v1alpha1.Load {
	return v1alpha1.Load{
		ClientsPerRegion: clients, Arrival: v1alpha1.ArrivalClosed, Repetitions: 1,
		RequestTimeout: v1alpha1.DurationOf(time.Second), ThinkTime: v1alpha1.DurationOf(time.Millisecond),
		Warmup: v1alpha1.DurationOf(20 * time.Millisecond), Duration: v1alpha1.DurationOf(50 * time.Millisecond),
	}
}

// runOn connects a worker's clients and runs its schedule.
func runOn(ctx context.Context, w *Worker, t target.Target, epoch time.Time) (*result.Report, error) {
	if err := w.Connect(ctx, t); err != nil {
		return nil, err
	}
	return w.Run(ctx, epoch)
}

func TestWorkerRun(t *testing.T) {
	top := twoRegions(2)
	run := func(window time.Duration) (*Worker, *result.Report) {
		l := shortLoad(50)
		l.Duration = v1alpha1.DurationOf(window)
		w, err := NewWorker(WorkerConfig{Workload: smallBank(t, top), Topology: top, Region: 1, Load: l, Shards: 3, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		r, err := runOn(context.Background(), w, target.NewNoop(lookupResult), time.Now().Add(10*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		return w, r
	}
	// A busy machine may miss a short window completely.
	w, r := run(50 * time.Millisecond)
	for window := 100 * time.Millisecond; r.Total.Committed == 0 || len(r.Series) == 0; window *= 2 {
		if window > 10*time.Second {
			t.Fatal("nothing was committed in windows of up to 10 s")
		}
		w, r = run(window)
	}
	if len(r.Workers) != 1 || r.Workers[0].Clients != 50 || r.Workers[0].Region != "b" || len(r.Windows) != 1 {
		t.Errorf("workers %+v, windows %+v", r.Workers, r.Windows)
	}
	d, _ := sum(r, txn.Committed)
	if d.Count == 0 || r.Total.Committed < d.Count {
		t.Errorf("%d committed in the windows, %d at all", d.Count, r.Total.Committed)
	}
	driver := r.Workers[0].Driver
	// On a busy machine, the first reading of the clock in the window is late, which shortens the measured time.
	if driver == nil || driver.MeasuredMicroseconds < 25_000 || driver.AllowanceMilliCPU < 1 {
		t.Errorf("driver: %+v", driver)
	}
	if p := w.Progress(); p.Stage != Done || p.Underway != 0 || p.Committed != r.Total.Committed {
		t.Errorf("progress: %+v", p)
	}
}

// TestClientsThatBeginLate checks that clients that join a window late are reported.
func TestClientsThatBeginLate(t *testing.T) {
	top := twoRegions(1)
	for name, tc := range map[string]struct {
		ago  time.Duration // time since the schedule started
		want string
	}{
		"in time":         {ago: -time.Hour},
		"in the warm-up":  {ago: 0},
		"in the window":   {ago: 2 * time.Minute, want: "clients in a took part in window 1 only from 1m"},
		"after the whole": {ago: time.Hour, want: "clients in a took part in window 1 only from 59m"},
	} {
		t.Run(name, func(t *testing.T) {
			load := shortLoad(4)
			load.Warmup, load.Duration = v1alpha1.DurationOf(time.Minute), v1alpha1.DurationOf(10*time.Minute)
			machines, err := Machines(WorkerConfig{Workload: plain{}, Topology: top, Load: load, Shards: 1})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // play starts and stops immediately
			d, err := connect(ctx, machines[0], target.NewNoop(lookupResult))
			if err == nil {
				err = d.play(ctx, time.Now().Add(-tc.ago))
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			said := ""
			for _, i := range machines[0].Report().Incidents {
				if i.Reason.Reason == result.ReasonStartMissed {
					said = i.Message
				}
			}
			if said == "" != (tc.want == "") || !strings.HasPrefix(said, tc.want) {
				t.Errorf("%q, want %q", said, tc.want)
			}
		})
	}
}

func TestWorkerStops(t *testing.T) {
	top := twoRegions(1)
	load := shortLoad(4)
	load.Duration = v1alpha1.DurationOf(time.Hour)
	w, err := NewWorker(WorkerConfig{Workload: plain{}, Topology: top, Load: load, Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	r, err := runOn(ctx, w, target.NewNoop(nil), time.Now())
	if !errors.Is(err, context.DeadlineExceeded) || r == nil || len(r.Incidents) != 1 {
		t.Errorf("error %v, report %+v", err, r)
	}
}

// silentTarget accepts transactions and never answers.
type silentTarget struct{ closedTarget }

func (silentTarget) Incidents() []result.Incident { return nil }

func (silentTarget) Open(context.Context, target.Sink) (target.Session, error) {
	return silentSession{}, nil
}

type silentSession struct{}

func (silentSession) Submit(*txn.Transaction) {}
func (silentSession) Flush()                  {}
func (silentSession) Close() error            { return nil }

// TestWorkerEndsWithATimeout checks a run whose last event is the timeout of a client, after which nothing would wake
// the worker.
func TestWorkerEndsWithATimeout(t *testing.T) {
	load := shortLoad(1)
	load.RequestTimeout = v1alpha1.DurationOf(200 * time.Millisecond)
	w, err := NewWorker(WorkerConfig{Workload: plain{}, Topology: twoRegions(1), Load: load, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := runOn(ctx, w, silentTarget{}, time.Now())
	if err != nil || r.Total.Failed == 0 {
		t.Errorf("error %v, total %+v", err, r.Total)
	}
}

type closedTarget struct{}

var errDown = errors.New("down")

func (closedTarget) Incidents() []result.Incident { return nil }

func (closedTarget) Open(context.Context, target.Sink) (target.Session, error) { return nil, errDown }
func (closedTarget) Close() error                                              { return nil }

func TestWorkerCannotConnect(t *testing.T) {
	w, err := NewWorker(WorkerConfig{Workload: plain{}, Topology: twoRegions(1), Load: shortLoad(4), Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Connect(context.Background(), closedTarget{}); !errors.Is(err, errDown) {
		t.Errorf("error %v", err)
	}
}

// counted is a target that limits the number of sessions.
type counted struct {
	target.Target
	left, opened, closed *atomic.Int32
}

func (c counted) Open(ctx context.Context, sink target.Sink) (target.Session, error) {
	if c.left.Add(-1) < 0 {
		return nil, errDown
	}
	c.opened.Add(1)
	s, err := c.Target.Open(ctx, sink)
	return countedSession{s, c.closed}, err
}

type countedSession struct {
	target.Session
	closed *atomic.Int32
}

func (c countedSession) Close() error {
	c.closed.Add(1)
	return c.Session.Close()
}

// TestWorkerClosesItsSessions checks that a worker closes each of its sessions exactly once, in every outcome.
func TestWorkerClosesItsSessions(t *testing.T) {
	for name, c := range map[string]struct {
		left int32
		then func(*Worker) error
	}{
		"all connect and play": {2, func(w *Worker) error {
			_, err := w.Run(t.Context(), time.Now())
			return err
		}},
		"all connect and do not play": {2, func(*Worker) error { return nil }},
		"one cannot connect":          {1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := NewWorker(WorkerConfig{Workload: plain{}, Topology: twoRegions(1), Load: shortLoad(4), Shards: 2})
			if err != nil {
				t.Fatal(err)
			}
			to := counted{target.NewNoop(nil), new(atomic.Int32), new(atomic.Int32), new(atomic.Int32)}
			to.left.Store(c.left)
			switch err := w.Connect(t.Context(), to); {
			case c.then == nil && !errors.Is(err, errDown), c.then != nil && err != nil:
				t.Error(err)
			case c.then != nil:
				if err := c.then(w); err != nil {
					t.Error(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if to.opened.Load() != c.left || to.closed.Load() != c.left {
				t.Errorf("%d were opened and %d ended, want %d", to.opened.Load(), to.closed.Load(), c.left)
			}
		})
	}
}

// TestMachines checks that workers and shards together run all clients, with separate streams. A generator must know
// the numbers of its clients and the number of all clients.
func TestMachines(t *testing.T) {
	top := twoRegions(1)
	streams := map[uint32]bool{}
	shares := map[int]bool{}
	clients := 0
	for index := range 3 {
		load := shortLoad(100)
		load.Arrival, load.RatePerSecond = v1alpha1.ArrivalConstant, 7
		machines, err := Machines(WorkerConfig{Workload: plain{}, Topology: top, Region: 1, Index: index, Workers: 3, Load: load, Shards: 4})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range machines {
			if streams[m.cfg.Stream] || shares[m.cfg.Share] || m.cfg.Shares != 12 {
				t.Errorf("stream %d or share %d of %d occurs twice", m.cfg.Stream, m.cfg.Share, m.cfg.Shares)
			}
			streams[m.cfg.Stream], shares[m.cfg.Share] = true, true
			if g := m.generator.(*plainGenerator).config; g.FirstClient != clients || g.Clients != m.cfg.Clients || g.RegionClients != 100 {
				t.Errorf("a generator has the clients from %d on, %d of %d; before it come %d of 100", g.FirstClient, g.Clients, g.RegionClients, clients)
			}
			clients += m.cfg.Clients
		}
	}
	if clients != 100 || len(shares) != 12 {
		t.Errorf("%d clients, %d shares", clients, len(shares))
	}
}

// TestMachinesShareAHome checks that clients of several regions with the same home have distinct numbers.
func TestMachinesShareAHome(t *testing.T) {
	top := twoRegions(1)
	top.Homes, top.Links = 1, [][]geo.Link{{{}, {}}, {{}, {}}}
	for region, first := range []int{0, 100} {
		machines, err := Machines(WorkerConfig{Workload: plain{}, Topology: top, Region: geo.Region(region), Workers: 1, Load: shortLoad(100), Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		if g := machines[0].generator.(*plainGenerator).config; g.Region != 0 || g.FirstClient != first || g.RegionClients != 200 {
			t.Errorf("region %d has the clients from %d on of %d of home %d, want those from %d on of 200 of home 0", region, g.FirstClient, g.RegionClients, g.Region, first)
		}
	}
}

func TestCPUAllowance(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no cgroup":          {nil, 4000},
		"version 2":          {map[string]string{"cpu.max": "150000 100000\n"}, 1500},
		"version 2 no limit": {map[string]string{"cpu.max": "max 100000\n"}, 4000},
		"more than threads":  {map[string]string{"cpu.max": "900000 100000\n"}, 4000},
		"version 1":          {map[string]string{"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 500},
		"version 1 no limit": {map[string]string{"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4000},
	} {
		dir := t.TempDir()
		for f, text := range c.files {
			path := filepath.Join(dir, f)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := CPUAllowance(dir, 4); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestLateness checks that a process without CPU for a while counts as late for all work that was due in that time.
// This must hold even if only a few wake-ups were due in that time.
func TestLateness(t *testing.T) {
	const ms, minute = time.Millisecond, time.Minute
	for name, c := range map[string]struct {
		// late returns the lateness of the sleeper for a wake-up at due.
		late     func(due time.Duration) time.Duration
		begins   time.Duration // delay before the window is first observed
		gone     time.Duration // time at which the context is cancelled; 0 for never
		want     result.Lateness
		complete bool
	}{
		"on time": {late: func(time.Duration) time.Duration { return 0 }, complete: true},
		"always":  {late: func(time.Duration) time.Duration { return 200 * time.Microsecond }, want: result.Lateness{P50: 200, P99: 200, Max: 200}, complete: true},
		// One wake-up is late by 100 ms. The work that was due in that time was late by 50 ms on average.
		"once": {late: func(due time.Duration) time.Duration {
			if due == minute+500*ms {
				return 100 * ms
			}
			return 0
		}, want: result.Lateness{P50: 0, P99: 90_000, Max: 100_000}, complete: true},
		"when the window begins": {late: func(time.Duration) time.Duration { return 0 }, begins: 105 * ms, want: result.Lateness{P50: 0, P99: 90_000, Max: 100_000}, complete: true},
		"until it is cancelled":  {late: func(time.Duration) time.Duration { return 3 * ms }, gone: minute + 300*ms, want: result.Lateness{P50: 3000, P99: 3000, Max: 3000}},
	} {
		t.Run(name, func(t *testing.T) {
			at := minute + c.begins
			got, complete := lateness(minute, minute+time.Second, func() time.Duration { return at }, func(until time.Duration) bool {
				at = max(at, until) + c.late(until)
				return c.gone == 0 || at < c.gone
			})
			near := func(got, want int64) bool { return got >= want*99/100 && got <= want*101/100 }
			if complete != c.complete || !near(got.P50, c.want.P50) || !near(got.P99, c.want.P99) || !near(got.Max, c.want.Max) {
				t.Errorf("%+v, complete %v; want %+v, %v", got, complete, c.want, c.complete)
			}
		})
	}
}

// TestTheBusiestWindowCounts checks that BusiestPPM is not diluted by idle windows.
func TestTheBusiestWindowCounts(t *testing.T) {
	d := &result.Driver{AllowanceMilliCPU: 2000}
	at := usage{cpu: 5 * time.Second, periods: 100, throttled: 7}
	for i, w := range []usage{{time.Second, 10, 0}, {19 * time.Second, 90, 30}, {2 * time.Second, 20, 1}} {
		next := usage{at.cpu + w.cpu, at.periods + w.periods, at.throttled + w.throttled}
		addWindow(d, at, next, 10*time.Second, []result.Lateness{{P50: 80, P99: 900, Max: 4000}, {P50: 300, P99: 700, Max: 900}, {P50: 70, P99: 100, Max: 5000}}[i])
		at = next
	}
	if late := *d.LateMicroseconds; late != (result.Lateness{P50: 300, P99: 900, Max: 5000}) {
		t.Errorf("late by %+v", late)
	}
	d.LateMicroseconds = nil
	want := result.Driver{CPUMicroseconds: 22_000_000, MeasuredMicroseconds: 30_000_000, AllowanceMilliCPU: 2000, BusiestPPM: 950_000, Periods: 120, ThrottledPeriods: 31}
	if *d != want {
		t.Errorf("%+v, not %+v", *d, want)
	}
}

// TestStandstill checks machines that stood still, whose wall clock then jumps ahead, and machines whose clock was set.
func TestStandstill(t *testing.T) {
	for name, c := range map[string]struct {
		wall, elapsed time.Duration
		want          string
	}{
		"clocks agree":           {wall: time.Minute + 3*time.Millisecond, elapsed: time.Minute},
		"as far as is allowed":   {wall: time.Minute - result.MaxClockOffset, elapsed: time.Minute},
		"it stood still":         {wall: 64 * time.Second, elapsed: time.Minute, want: "while a worker in eu measured for 1m0s, the clock of its machine went on by 1m4s: it was set, or the machine stood still"},
		"its clock was set back": {wall: 59 * time.Second, elapsed: time.Minute, want: "while a worker in eu measured for 1m0s, the clock of its machine went on by 59s: it was set, or the machine stood still"},
	} {
		said := ""
		for _, i := range Standstill("eu", c.wall, c.elapsed) {
			if i.Reason.Reason != result.ReasonClocksApart {
				t.Errorf("%s: %s", name, i.Reason.Reason)
			}
			said += i.Message
		}
		if said != c.want {
			t.Errorf("%s: %q, want %q", name, said, c.want)
		}
	}
}
