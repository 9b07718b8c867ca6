package load

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/timers"
)

// world simulates the clock, and a database with scripted answers and delays.
type world struct {
	m       *Machine
	now     time.Duration
	events  timers.Queue
	answers map[uint64]txn.Outcome
	sent    []time.Duration
	ids     map[txn.ID]bool
	// answer returns the outcome of the n-th transaction (from 0) and its delay; with a negative delay, the outcome never
	// arrives.
	answer func(w *world, n int, t *txn.Transaction) (txn.Outcome, time.Duration)
	count  int
}

const answerKind = 255

func (w *world) Now() time.Duration { return w.now }

func (w *world) After(d time.Duration, t protocol.Timer) { w.events.Push(w.now+d, t) }

func (w *world) Submit(t *txn.Transaction) {
	o, d := w.answer(w, w.count, t)
	o.ID = t.ID
	if w.ids[t.ID] {
		panic("an id is used twice: " + t.ID.String())
	}
	w.ids[t.ID] = true
	w.sent = append(w.sent, w.now)
	w.count++
	if d >= 0 {
		w.answers[uint64(w.count)] = o
		w.events.Push(w.now+d, protocol.Timer{Kind: answerKind, Arg: uint64(w.count)})
	}
}

// run drives m through its whole schedule and returns the report.
func (w *world) run(t *testing.T, m *Machine) *result.Report {
	t.Helper()
	w.m, w.answers, w.ids = m, map[uint64]txn.Outcome{}, map[txn.ID]bool{}
	c := m.Attach(w)
	c.Start()
	for !m.Finished() || len(w.answers) > 0 {
		at, ok := w.events.Next()
		if !ok {
			break
		}
		w.now = at
		e, _ := w.events.PopDue(w.now)
		if e.Kind == answerKind {
			o := w.answers[e.Arg]
			delete(w.answers, e.Arg)
			c.Complete(o)
		} else {
			c.Fire(e)
		}
	}
	if !m.Finished() {
		t.Fatalf("at %v the machine is in stage %v with %d transactions under way and no event left", w.now, m.stage, m.Underway())
	}
	r := m.Report()
	var b []byte
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := result.DecodeReport(b, math.MaxInt); err != nil {
		t.Fatal(err)
	}
	return r
}

// taking returns a database that commits every transaction after d.
func taking(d time.Duration) func(*world, int, *txn.Transaction) (txn.Outcome, time.Duration) {
	return func(*world, int, *txn.Transaction) (txn.Outcome, time.Duration) {
		return txn.Outcome{Status: txn.Committed}, d
	}
}

// plain is a workload with a single type and no data.
type plain struct{ workload.Workload }

func (plain) Name() string    { return "plain" }
func (plain) Types() []string { return []string{"plain"} }
func (plain) NewGenerator(c workload.GeneratorConfig) workload.Generator {
	return &plainGenerator{config: c}
}

type plainGenerator struct {
	config     workload.GeneratorConfig
	done, late int
}

func (g *plainGenerator) Next(_ int, _ time.Duration, t *txn.Transaction) workload.Request {
	t.Proc = 99
	return workload.Request{}
}
func (g *plainGenerator) Done(int, txn.Outcome) { g.done++ }
func (g *plainGenerator) Late(txn.Outcome)      { g.late++ }
func (g *plainGenerator) Ledger() workload.Ledger {
	return workload.Ledger{"late": {Low: int64(g.late), High: int64(g.late)}}
}
func (g *plainGenerator) Realised() []workload.Count { return nil }

func machine(t *testing.T, change func(*Config)) *Machine {
	t.Helper()
	c := Config{
		Workload: plain{}, RegionName: "a", Clients: 1, Stream: 1, Seed: 1, Arrival: v1alpha1.ArrivalClosed, Shares: 1,
		Schedule: Schedule{Warmup: time.Second, Duration: 10 * time.Second, Repetitions: 1, Timeout: 30 * time.Second},
	}
	change(&c)
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sum returns the total of the series with the given outcome, and the number of failures by reason.
func sum(r *result.Report, outcome txn.Status) (d result.Distribution, reasons map[string]int64) {
	reasons = map[string]int64{}
	for _, s := range r.Series {
		if s.Outcome == outcome.String() {
			d.Count += s.Latency.Count
			d.SumMicroseconds += s.Latency.SumMicroseconds
			d.MaxMicroseconds = max(d.MaxMicroseconds, s.Latency.MaxMicroseconds)
			d.Histogram = s.Latency.Histogram
			for reason, n := range s.Reasons {
				reasons[reason] += n
			}
		}
	}
	return d, reasons
}

func percentile(t *testing.T, d result.Distribution, p float64) time.Duration {
	t.Helper()
	h, err := result.DecodeHistogram(d.Histogram)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(h.ValueAtPercentile(p)) * time.Microsecond
}

func TestClosedLoop(t *testing.T) {
	for name, c := range map[string]struct {
		clients       int
		takes, thinks time.Duration
		committed     int64 // exact number of commits in the window
	}{
		"one client":             {1, 100 * time.Millisecond, 0, 100},
		"a hundred clients":      {100, 100 * time.Millisecond, 0, 10_000},
		"with a pause between":   {10, 60 * time.Millisecond, 40 * time.Millisecond, 1000},
		"slower than the second": {4, 2500 * time.Millisecond, 0, 16},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine(t, func(x *Config) { x.Clients, x.ThinkTime = c.clients, c.thinks })
			r := (&world{answer: taking(c.takes)}).run(t, m)
			d, _ := sum(r, txn.Committed)
			w := r.Windows[0]
			off := int64(c.clients)
			if c.thinks > 0 {
				off += 50 // four standard deviations of a thousand exponential think times
			}
			if got := d.Count + w.CarriedIn; got < c.committed-off || got > c.committed+off {
				t.Errorf("%d commits in the window, want %d", got, c.committed)
			}
			if d.MaxMicroseconds != c.takes.Microseconds() || d.SumMicroseconds != d.Count*c.takes.Microseconds() {
				t.Errorf("the latencies are %+v, want %v each", d, c.takes)
			}
			if w.Sent != d.Count+w.Unfinished {
				t.Errorf("%d sent, %d ended, %d unfinished", w.Sent, d.Count, w.Unfinished)
			}
			var seconds int64
			for _, s := range r.Timeline {
				seconds += s.Committed
			}
			if seconds != d.Count+w.CarriedIn {
				t.Errorf("the timeline has %d commits, the window %d", seconds, d.Count+w.CarriedIn)
			}
		})
	}
}

// TestThinkingClientsAreNotInStep checks that every second has the same load, although think times are much longer than
// the warm-up.
func TestThinkingClientsAreNotInStep(t *testing.T) {
	const clients, perSecond = 20_000, 1000
	m := machine(t, func(x *Config) { x.Clients, x.ThinkTime = clients, clients/perSecond*time.Second })
	r := (&world{answer: taking(time.Millisecond)}).run(t, m)
	for _, s := range r.Timeline {
		if s.Committed < perSecond-130 || s.Committed > perSecond+130 { // four standard deviations
			t.Errorf("second %d has %d commits, want about %d", s.Second, s.Committed, perSecond)
		}
	}
	if len(r.Timeline) == 0 {
		t.Error("no timeline")
	}
}

// TestWindowEdges checks which transactions count, with one client, 300 ms per transaction, and a window from 1 s to 2
// s.
func TestWindowEdges(t *testing.T) {
	m := machine(t, func(c *Config) { c.Schedule.Duration = time.Second })
	r := (&world{answer: taking(300 * time.Millisecond)}).run(t, m)
	// Sent at 0, 0.3, 0.6, 0.9 (carried in, ends at 1.2), 1.2, 1.5 (recorded) and 1.8 (unfinished at 2).
	d, _ := sum(r, txn.Committed)
	if w := r.Windows[0]; d.Count != 2 || w.CarriedIn != 1 || w.Unfinished != 1 || w.Sent != 3 {
		t.Errorf("recorded %d, window %+v", d.Count, w)
	}
}

// TestNoWarmup checks that a transaction sent when the window opens counts as sent in the window.
func TestNoWarmup(t *testing.T) {
	for _, arrival := range []v1alpha1.Arrival{v1alpha1.ArrivalClosed, v1alpha1.ArrivalConstant} {
		m := machine(t, func(c *Config) {
			c.Schedule.Warmup, c.Schedule.Duration, c.Schedule.Repetitions = 0, time.Second, 2
			if c.Arrival = arrival; arrival != v1alpha1.ArrivalClosed {
				c.RatePerSecond, c.Clients = 4, 2
			}
		})
		r := (&world{answer: taking(250 * time.Millisecond)}).run(t, m)
		// Sent at 0, 0.25, 0.5 and 0.75 s; the last is in flight when the window closes.
		for _, w := range r.Windows {
			if w.Sent != 4 || w.Unfinished != 1 || w.CarriedIn != 0 {
				t.Errorf("%s: window %+v, want 4 sent and 1 unfinished", arrival, w)
			}
		}
	}
}

func TestOpenLoopRate(t *testing.T) {
	for _, arrival := range []v1alpha1.Arrival{v1alpha1.ArrivalConstant, v1alpha1.ArrivalPoisson} {
		t.Run(string(arrival), func(t *testing.T) {
			var arrivals []time.Duration
			for share := range 3 {
				m := machine(t, func(c *Config) {
					c.Arrival, c.RatePerSecond, c.Clients, c.Share, c.Shares, c.Stream = arrival, 1000, 100, share, 3, uint32(share)
				})
				w := &world{answer: taking(10 * time.Millisecond)}
				w.run(t, m)
				arrivals = append(arrivals, w.sent...)
			}
			n, want := float64(len(arrivals)), 11_000.0 // including the second of the warm-up
			off := 3.0
			if arrival == v1alpha1.ArrivalPoisson {
				off = 4 * math.Sqrt(want)
			}
			if math.Abs(n-want) > off {
				t.Errorf("%v arrivals, want %v", n, want)
			}
			if arrival == v1alpha1.ArrivalConstant {
				seen := map[time.Duration]int{}
				for _, a := range arrivals {
					seen[a]++
				}
				for i := range 11_000 {
					if at := time.Duration(i) * time.Millisecond; seen[at] != 1 {
						t.Fatalf("%d arrivals at %v, want one", seen[at], at)
					}
				}
			}
		})
	}
}

// TestArrivalsDoNotDependOnOutcomes checks that the transactions of an open loop are due at the same times, whatever
// the database answers. This must hold even if clients draw random pauses before retries.
func TestArrivalsDoNotDependOnOutcomes(t *testing.T) {
	outcomes := []txn.Outcome{
		{Status: txn.Committed},
		{Status: txn.Aborted, Cause: txn.CauseConflict},
		{Status: txn.Refused, Cause: txn.CauseNode, Reason: "overloaded"},
		{Status: txn.Unknown, Cause: txn.CauseNode, Reason: "connection"},
	}
	pause := v1alpha1.Duration{Duration: 100 * time.Millisecond}
	retries := &v1alpha1.Retry{
		Attempts: 3, Backoff: pause, MaxBackoff: pause, Jitter: 50, Causes: []v1alpha1.RetryCause{v1alpha1.RetryConflict, v1alpha1.RetryNode},
	}
	// dueOf returns the times at which transactions are due if all of them end with o.
	dueOf := func(arrival v1alpha1.Arrival, retry *v1alpha1.Retry, shape v1alpha1.LoadShape, o txn.Outcome) (due []time.Duration) {
		m := machine(t, func(c *Config) {
			c.Clients, c.Arrival, c.RatePerSecond, c.Retry, c.ThinkTime = 1000, arrival, 50, retry, 20*time.Millisecond
			if shape != "" {
				l := curved(arrival, v1alpha1.LoadCurve{Shape: shape})
				c.Curve = NewCurve(&l)
			}
		})
		w := &world{answer: func(w *world, _ int, x *txn.Transaction) (txn.Outcome, time.Duration) {
			if x.Attempt == 0 {
				due = append(due, w.now)
			}
			return o, time.Duration(o.Status) * 7 * time.Millisecond
		}}
		w.run(t, m)
		return due
	}
	for _, arrival := range []v1alpha1.Arrival{v1alpha1.ArrivalConstant, v1alpha1.ArrivalPoisson} {
		for _, retry := range []*v1alpha1.Retry{nil, retries} {
			for _, shape := range []v1alpha1.LoadShape{"", v1alpha1.LoadGaussian} {
				want := dueOf(arrival, retry, shape, outcomes[0])
				for _, o := range outcomes[1:] {
					if due := dueOf(arrival, retry, shape, o); !slices.Equal(due, want) {
						t.Errorf("%s, retries %t, curve %q: %d transactions are due where all are %s; want the %d that are due where all are committed",
							arrival, retry != nil, shape, len(due), o.Status, len(want))
					}
				}
			}
		}
	}
}

// TestCoordinatedOmission stalls the database for two seconds in the middle of the window. In an open loop, the
// percentiles must show the wait of the transactions that were due during the stall. Service times and a closed loop
// hide this wait.
func TestCoordinatedOmission(t *testing.T) {
	const stallFrom, stallTo = 5 * time.Second, 7 * time.Second
	stalling := func(w *world, _ int, _ *txn.Transaction) (txn.Outcome, time.Duration) {
		d := time.Millisecond
		if w.now >= stallFrom && w.now < stallTo {
			d = stallTo - w.now
		}
		return txn.Outcome{Status: txn.Committed}, d
	}
	open := (&world{answer: stalling}).run(t, machine(t, func(c *Config) {
		c.Arrival, c.RatePerSecond, c.Clients = v1alpha1.ArrivalConstant, 100, 1
	}))
	closed := (&world{answer: stalling}).run(t, machine(t, func(c *Config) { c.Clients = 1 }))

	// With one client and 100 arrivals per second, 200 of 1000 arrivals fall into the stall and wait evenly up to 2 s.
	d, _ := sum(open, txn.Committed)
	for _, c := range []struct {
		p    float64
		want time.Duration
	}{{50, time.Millisecond}, {90, time.Second}, {99, 1900 * time.Millisecond}} {
		if got := percentile(t, d, c.p); math.Abs(float64(got-c.want)) > 0.15*float64(c.want)+float64(2*time.Millisecond) {
			t.Errorf("open loop: p%v is %v, want about %v", c.p, got, c.want)
		}
	}
	for _, s := range open.Series {
		if got := percentile(t, *s.Service, 99); got > 2*time.Millisecond {
			t.Errorf("the service time's p99 is %v", got)
		}
	}
	d, _ = sum(closed, txn.Committed)
	if got := percentile(t, d, 99); got > 2*time.Millisecond {
		t.Errorf("closed loop: p99 is %v; the client did not ask during the stall", got)
	}
}

func TestQueueAndDrops(t *testing.T) {
	// 100 transactions arrive per second, but the clients complete only 2 x 10 per second.
	m := machine(t, func(c *Config) {
		c.Arrival, c.RatePerSecond, c.Clients, c.Queue = v1alpha1.ArrivalConstant, 100, 2, 50
	})
	r := (&world{answer: taking(100 * time.Millisecond)}).run(t, m)
	w := r.Windows[0]
	d, _ := sum(r, txn.Committed)
	if w.Discarded != 50 || w.Backlog != 50 {
		t.Errorf("%d discarded after the warm-up and %d left at the end, want the whole queue of 50 each", w.Discarded, w.Backlog)
	}
	if due := w.Sent + w.Dropped + w.Backlog; due != 1000 {
		t.Errorf("%d sent + %d dropped + %d left = %d, but 1000 were due", w.Sent, w.Dropped, w.Backlog, due)
	}
	if d.Count < 190 || d.Count > 200 {
		t.Errorf("%d committed, want nearly 200", d.Count)
	}
	// A full queue of 50 takes 2.5 s to serve.
	if got := percentile(t, d, 90); got < 2300*time.Millisecond || got > 2700*time.Millisecond {
		t.Errorf("p90 is %v, want 2.5s", got)
	}
}

func TestTimeout(t *testing.T) {
	// Every fifth transaction takes 3 s; the timeout is 1 s.
	m := machine(t, func(c *Config) { c.Clients, c.Schedule.Timeout = 5, time.Second })
	w := &world{answer: func(_ *world, n int, _ *txn.Transaction) (txn.Outcome, time.Duration) {
		if n%5 == 4 {
			return txn.Outcome{Status: txn.Committed}, 3 * time.Second
		}
		return txn.Outcome{Status: txn.Committed}, 10 * time.Millisecond
	}}
	r := w.run(t, m)
	d, reasons := sum(r, txn.Unknown)
	if reasons[Timeout] != d.Count || d.Count == 0 {
		t.Errorf("%d unknown outcomes, %v", d.Count, reasons)
	}
	if d.MaxMicroseconds != 1_000_000 || d.SumMicroseconds != 1_000_000*d.Count {
		t.Errorf("timeouts are noticed late: %+v", d)
	}
	late := r.Ledger["late"].Low
	if total := r.Total.Failed; late != total || r.Late != total {
		t.Errorf("%d timeouts, of which the ledger learned %d and the report %d", total, late, r.Late)
	}
	if c, _ := sum(r, txn.Committed); c.MaxMicroseconds != 10_000 {
		t.Errorf("a late outcome completed the client's next transaction: the slowest commit took %d us", c.MaxMicroseconds)
	}
}

// TestErrors checks that no outcome stops a client permanently, and that refusals slow the client down.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		outcome  txn.Outcome
		from, to int // range of the number of transactions of one client in 11 s, at 1 ms each
	}{
		"aborted":         {txn.Outcome{Status: txn.Aborted, Reason: "deadlock"}, 10_900, 11_001},
		"refused":         {txn.Outcome{Status: txn.Refused, Reason: "overloaded"}, 11, 30},
		"connection lost": {txn.Outcome{Status: txn.Unknown, Reason: "connection"}, 11, 30},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{answer: func(*world, int, *txn.Transaction) (txn.Outcome, time.Duration) { return c.outcome, time.Millisecond }}
			r := w.run(t, machine(t, func(*Config) {}))
			if w.count < c.from || w.count > c.to {
				t.Errorf("%d transactions, want %d to %d", w.count, c.from, c.to)
			}
			d, reasons := sum(r, c.outcome.Status)
			if d.Count == 0 || reasons[c.outcome.Reason] != d.Count {
				t.Errorf("%d recorded, by reason %v", d.Count, reasons)
			}
		})
	}
	t.Run("recovers at full speed", func(t *testing.T) {
		w := &world{answer: func(w *world, _ int, _ *txn.Transaction) (txn.Outcome, time.Duration) {
			if w.now < 4*time.Second {
				return txn.Outcome{Status: txn.Refused}, time.Millisecond
			}
			return txn.Outcome{Status: txn.Committed}, time.Millisecond
		}}
		r := w.run(t, machine(t, func(c *Config) { c.Clients = 20 }))
		last := r.Timeline[len(r.Timeline)-1]
		if last.Second != 9 || last.Committed < 19_900 {
			t.Errorf("in second %d, %d commits of 20 clients of 1 ms", last.Second, last.Committed)
		}
	})
}

func TestManyReasons(t *testing.T) {
	w := &world{answer: func(_ *world, n int, _ *txn.Transaction) (txn.Outcome, time.Duration) {
		return txn.Outcome{Status: txn.Aborted, Reason: string(rune('a' + n%100))}, time.Millisecond
	}}
	_, reasons := sum(w.run(t, machine(t, func(*Config) {})), txn.Aborted)
	if len(reasons) > maxReasons+1 || reasons[otherReason] == 0 {
		t.Errorf("%d reasons are kept apart", len(reasons))
	}
}

func TestRepetitions(t *testing.T) {
	m := machine(t, func(c *Config) { c.Clients, c.Schedule.Repetitions, c.ThinkTime = 10, 3, 7*time.Millisecond })
	w := &world{answer: taking(93 * time.Millisecond)}
	r := w.run(t, m)
	if len(r.Windows) != 3 {
		t.Fatalf("%d windows, want 3", len(r.Windows))
	}
	for i, x := range r.Windows {
		if n := x.Sent; x.Repetition != i+1 || n < 980 || n > 1010 {
			t.Errorf("repetition %d: %d sent, want about 1000", x.Repetition, n)
		}
	}
	s := m.Schedule()
	for _, at := range w.sent {
		for rep := 1; rep <= 3; rep++ {
			if _, to := s.Window(rep); at >= to && at < to+drain {
				t.Fatalf("a transaction was sent at %v, in the drain of repetition %d", at, rep)
			}
		}
	}
	if from, to := s.Window(3); from != 27*time.Second || to != 37*time.Second || s.End() != 67*time.Second {
		t.Errorf("window 3 is %v to %v, the end %v", from, to, s.End())
	}
}

// TestLateTimers drives a machine with a clock that jumps over the whole schedule.
func TestLateTimers(t *testing.T) {
	for _, arrival := range []v1alpha1.Arrival{v1alpha1.ArrivalClosed, v1alpha1.ArrivalConstant} {
		m := machine(t, func(c *Config) {
			c.Arrival, c.Clients = arrival, 3
			if arrival != v1alpha1.ArrivalClosed {
				c.RatePerSecond = 10
			}
		})
		w := &world{answer: taking(-1), answers: map[uint64]txn.Outcome{}, ids: map[txn.ID]bool{}}
		m.Attach(w)
		m.Start()
		w.now = time.Hour
		for at, ok := w.events.Next(); ok; at, ok = w.events.Next() {
			w.now = max(w.now, at)
			e, _ := w.events.PopDue(w.now)
			m.Fire(e)
		}
		if !m.Finished() {
			t.Errorf("%s: after an hour, stage %v and %d under way", arrival, m.stage, m.Underway())
		}
		if d, _ := sum(m.Report(), txn.Committed); d.Count != 0 {
			t.Errorf("%s: %d transactions are recorded outside the window", arrival, d.Count)
		}
	}
}

// TestPhases runs SmallBank, whose second phase depends on the answer to the first phase.
func TestPhases(t *testing.T) {
	top := twoRegions(2)
	m := machine(t, func(c *Config) { c.Workload, c.Clients = smallBank(t, top), 50 })
	r := (&world{answer: func(_ *world, _ int, tx *txn.Transaction) (txn.Outcome, time.Duration) {
		return txn.Outcome{Status: txn.Committed, Result: lookupResult(tx)}, 5 * time.Millisecond
	}}).run(t, m)
	for i, s := range m.cfg.Workload.Shares() {
		c := r.Shares[i]
		if share := float64(c.Of) / float64(r.Windows[0].Sent); math.Abs(share-1/2.05) > 0.01 {
			t.Errorf("%.3f of the transactions are final phases, want 1/2.05", share)
		}
		if share := float64(c.Hits) / float64(c.Of); math.Abs(share-0.25) > 0.01 {
			t.Errorf("%.3f of the %s are %s, want 0.25", share, s.Of, s.Name)
		}
	}
}

func TestDeterministic(t *testing.T) {
	report := func() string {
		m := machine(t, func(c *Config) {
			c.Workload, c.Clients, c.Arrival, c.RatePerSecond = smallBank(t, twoRegions(2)), 50, v1alpha1.ArrivalPoisson, 2000
		})
		r := (&world{answer: func(_ *world, n int, tx *txn.Transaction) (txn.Outcome, time.Duration) {
			return txn.Outcome{Status: txn.Committed, Result: lookupResult(tx)}, time.Duration(n%17) * time.Millisecond
		}}).run(t, m)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if one, again := report(), report(); one != again {
		t.Error("the same seed gives another report")
	}
}

// TestManyClients measures the memory per client while every client has a transaction in flight.
func TestManyClients(t *testing.T) {
	const n = 100_000
	top := twoRegions(2)
	w := smallBank(t, top)
	w.NewGenerator(workload.GeneratorConfig{Clients: 1}) // builds the index that all machines share
	heap := func() int64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	perClient := func(retry *v1alpha1.Retry) int64 {
		before := heap()
		m := machine(t, func(c *Config) { c.Workload, c.Clients, c.Retry = w, n, retry })
		keep := make([]*txn.Transaction, 0, n)
		before += int64(cap(keep)) * 8
		e := &world{answers: map[uint64]txn.Outcome{}, ids: map[txn.ID]bool{}}
		m.Attach(submitOnly{e, &keep})
		m.Start()
		e.now = 999 * time.Millisecond
		for m.Underway() < n {
			m.Fire(protocol.Timer{Kind: timerRamp, Arg: 1})
		}
		used := (heap() - before) / n
		runtime.KeepAlive(m)
		runtime.KeepAlive(keep)
		return used
	}
	without := perClient(nil)
	with := perClient(&v1alpha1.Retry{Attempts: 3, Causes: []v1alpha1.RetryCause{v1alpha1.RetryConflict}})
	t.Logf("%d bytes per client with a transaction under way, %d if it may be tried again", without, with)
	if without > 600 {
		t.Errorf("%d bytes per client are more than 600", without)
	}
	if with > without+32 {
		t.Errorf("%d bytes per client whose transactions may be tried again are more than 32 beside %d", with, without)
	}
	if size := unsafe.Sizeof(client{}); size > 40 {
		t.Errorf("a client takes %d bytes, more than 40", size)
	}
}

type submitOnly struct {
	*world
	keep *[]*txn.Transaction
}

func (s submitOnly) Submit(t *txn.Transaction)           { *s.keep = append(*s.keep, t) }
func (s submitOnly) After(time.Duration, protocol.Timer) {}

func TestNewRefuses(t *testing.T) {
	good := Config{Workload: plain{}, Clients: 1, Arrival: v1alpha1.ArrivalClosed,
		Schedule: Schedule{Duration: time.Second, Repetitions: 1, Timeout: time.Second}}
	for name, change := range map[string]func(*Config){
		"no client":   func(c *Config) { c.Clients = 0 },
		"no time":     func(c *Config) { c.Schedule.Duration = 0 },
		"no patience": func(c *Config) { c.Schedule.Timeout = 0 },
		"no rate":     func(c *Config) { c.Arrival, c.Shares = v1alpha1.ArrivalPoisson, 1 },
		"no arrival":  func(c *Config) { c.Arrival = "Sometimes" },
		"wide stream": func(c *Config) { c.Stream = 1 << 24 },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestManyReasonsHideNoMistake checks that reasons of wrong procedures, which make a run Invalid, are reported even if
// there are many other reasons.
func TestManyReasonsHideNoMistake(t *testing.T) {
	var f failures
	for i := range 2 * maxReasons {
		f.count(&txn.Outcome{Status: txn.Aborted, Cause: txn.CauseProcedure, Reason: fmt.Sprint("order ", i, " is gone")})
	}
	mistakes := []string{txn.ReasonInvalid, txn.ReasonUndeclared, txn.ReasonProcedure}
	for _, reason := range mistakes {
		f.count(&txn.Outcome{Status: txn.Aborted, Cause: txn.CauseProcedure, Reason: reason})
	}
	got := f.export().Reasons
	for _, reason := range mistakes {
		if got[reason] != 1 {
			t.Errorf("%s is counted %d times, not once", reason, got[reason])
		}
	}
	if want := maxReasons + 1 + len(mistakes); got[otherReason] != maxReasons || len(got) != want {
		t.Errorf("%d reasons, of which %d attempts are of others; not %d and %d", len(got), got[otherReason], want, maxReasons)
	}
}
