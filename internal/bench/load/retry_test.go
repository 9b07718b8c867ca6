package load

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload"
)

var (
	committed  = txn.Outcome{Status: txn.Committed}
	conflict   = txn.Outcome{Status: txn.Aborted, Cause: txn.CauseConflict, Reason: "deadlock"}
	procedural = txn.Outcome{Status: txn.Aborted, Cause: txn.CauseProcedure, Reason: "no-money"}
	overloaded = txn.Outcome{Status: txn.Refused, Cause: txn.CauseNode, Reason: "overloaded"}
	tooLarge   = txn.Outcome{Status: txn.Refused, Cause: txn.CauseClient, Reason: "too-large"}
	lost       = txn.Outcome{Status: txn.Unknown, Cause: txn.CauseNode, Reason: "connection-lost"}
)

// answer is the answer of a scripted database to an attempt, with its delay.
type answer struct {
	o     txn.Outcome
	after time.Duration
}

// scripted is a workload whose requests have keying and think times, and whose footprints may be hints. It records the
// outcomes.
type scripted struct {
	plain
	keying, think time.Duration
	hasty         int // number of initial requests without keying and think times
	inexact       bool
	class         txn.Class

	made       []int // client of each generated transaction
	done, late []txn.Outcome
}

func (s *scripted) NewGenerator(workload.GeneratorConfig) workload.Generator { return s }
func (s *scripted) Next(client int, _ time.Duration, t *txn.Transaction) workload.Request {
	s.made = append(s.made, client)
	t.Proc, t.Args = 99, fmt.Append(nil, "call ", len(s.made))
	t.Accesses, t.Exact = append(t.Accesses, txn.Access{Key: txn.IntKey(0, uint64(client)), Mode: txn.Write}), !s.inexact
	if len(s.made) <= s.hasty {
		return workload.Request{Class: s.class}
	}
	return workload.Request{Class: s.class, Keying: s.keying, Think: s.think}
}
func (s *scripted) Done(_ int, o txn.Outcome) { s.done = append(s.done, o) }
func (s *scripted) Late(o txn.Outcome)        { s.late = append(s.late, o) }
func (s *scripted) Ledger() workload.Ledger   { return workload.Ledger{} }
func (*scripted) Realised() []workload.Count  { return nil }

// submitted is an attempt as received by the database.
type submitted struct {
	at      time.Duration
	id      txn.ID
	attempt uint8
	call    string
	home    uint16
	keys    int
}

// play runs a machine with one client, whose first transaction starts at 0. The attempts get the answers of the script
// in order; further attempts get no answer. play returns the attempts that the database received.
func play(t *testing.T, s *scripted, script []answer, change func(*Config)) ([]submitted, *Machine, *result.Report) {
	t.Helper()
	m := machine(t, func(c *Config) {
		c.Workload, c.Region = s, 3
		// The window covers the whole run.
		c.Schedule = Schedule{Duration: 10 * time.Second, Repetitions: 1, Timeout: time.Second}
		c.Retry = &v1alpha1.Retry{
			Attempts: 3, Backoff: v1alpha1.DurationOf(100 * time.Millisecond), MaxBackoff: v1alpha1.DurationOf(150 * time.Millisecond),
			Causes: []v1alpha1.RetryCause{v1alpha1.RetryConflict, v1alpha1.RetryNode},
		}
		if change != nil {
			change(c)
		}
	})
	var saw []submitted
	w := &world{answer: func(w *world, n int, x *txn.Transaction) (txn.Outcome, time.Duration) {
		saw = append(saw, submitted{w.now, x.ID, x.Attempt, string(x.Args), x.Home, len(x.Accesses)})
		if n < len(script) {
			return script[n].o, script[n].after
		}
		return committed, -1
	}}
	return saw, m, w.run(t, m)
}

// summary returns the counts of transactions and attempts in a run's document.
func summary(t *testing.T, r *result.Report) (all result.Counts, attempts result.Attempts, w result.Window) {
	t.Helper()
	one := &geo.Topology{Regions: []string{"a"}, Partitions: 1, Replicas: 1, Links: [][]geo.Link{{{}}}}
	d, err := result.Build(result.Inputs{Topology: one, Measured: result.Measured{Reports: []*result.Report{r}}})
	if err != nil {
		t.Fatal(err)
	}
	return d.Summary.Counts, d.Summary.Attempts, r.Windows[0]
}

const ms = time.Millisecond

func TestRetry(t *testing.T) {
	onlyNode := func(c *Config) { c.Retry.Causes = []v1alpha1.RetryCause{v1alpha1.RetryNode} }
	for name, tc := range map[string]struct {
		script []answer
		change func(*Config)
		// sent lists the times at which the attempts of the first transaction are sent.
		sent []time.Duration
		// ends is the outcome of the first transaction, and after is the time at which the client receives it.
		ends  txn.Outcome
		after time.Duration
		// late is the number of outcomes that arrive after the client has given up.
		late int
	}{
		"commits at once":       {[]answer{{committed, 5 * ms}}, nil, []time.Duration{0}, committed, 5 * ms, 0},
		"conflict, then commit": {[]answer{{conflict, 5 * ms}, {committed, 5 * ms}}, nil, []time.Duration{0, 105 * ms}, committed, 110 * ms, 0},
		// The second pause is 150 ms (maxBackoff) instead of 200 ms.
		"conflict until the attempts are used up": {[]answer{{conflict, 5 * ms}, {conflict, 5 * ms}, {conflict, 5 * ms}}, nil,
			[]time.Duration{0, 105 * ms, 260 * ms}, conflict, 265 * ms, 0},
		"one attempt":   {[]answer{{conflict, 5 * ms}}, func(c *Config) { c.Retry.Attempts = 1 }, []time.Duration{0}, conflict, 5 * ms, 0},
		"without retry": {[]answer{{conflict, 5 * ms}}, func(c *Config) { c.Retry = nil }, []time.Duration{0}, conflict, 5 * ms, 0},
		"refused, then commit": {[]answer{{overloaded, 5 * ms}, {committed, 5 * ms}}, nil,
			[]time.Duration{0, 105 * ms}, committed, 110 * ms, 0},
		"refused, not asked for": {[]answer{{overloaded, 5 * ms}}, func(c *Config) { c.Retry.Causes = c.Retry.Causes[:1] },
			[]time.Duration{0}, overloaded, 5 * ms, 0},
		"conflict, not asked for":  {[]answer{{conflict, 5 * ms}}, onlyNode, []time.Duration{0}, conflict, 5 * ms, 0},
		"refused by the client":    {[]answer{{tooLarge, 5 * ms}}, nil, []time.Duration{0}, tooLarge, 5 * ms, 0},
		"aborted by the procedure": {[]answer{{procedural, 5 * ms}}, nil, []time.Duration{0}, procedural, 5 * ms, 0},
		"aborted by the procedure the second time": {[]answer{{conflict, 5 * ms}, {procedural, 5 * ms}}, nil,
			[]time.Duration{0, 105 * ms}, procedural, 110 * ms, 0},
		// The transaction may have committed, so it is never retried.
		"unknown for a lost node": {[]answer{{lost, 5 * ms}}, nil, []time.Duration{0}, lost, 5 * ms, 0},
		"unknown the second time": {[]answer{{conflict, 5 * ms}, {lost, 5 * ms}}, nil, []time.Duration{0, 105 * ms}, lost, 110 * ms, 0},
		// 900 ms and a pause of 100 ms use up the timeout of 1 s.
		"no time for another attempt": {[]answer{{conflict, 900 * ms}}, nil, []time.Duration{0}, conflict, 900 * ms, 0},
		"just time for another attempt": {[]answer{{conflict, 899 * ms}, {committed, 0}}, nil,
			[]time.Duration{0, 999 * ms}, committed, 999 * ms, 0},
		"no time for a third attempt": {[]answer{{conflict, 5 * ms}, {conflict, 745 * ms}}, nil,
			[]time.Duration{0, 105 * ms}, conflict, 850 * ms, 0},
		// The timeout covers both attempts: it expires 1 s after the first attempt was sent.
		"patience ends in the second attempt": {[]answer{{conflict, 5 * ms}, {committed, 2 * time.Second}}, nil,
			[]time.Duration{0, 105 * ms}, txn.Outcome{Status: txn.Unknown, Cause: txn.CauseClient, Reason: Timeout}, time.Second, 1},
		"patience ends in the first attempt": {[]answer{{conflict, 2 * time.Second}}, nil,
			[]time.Duration{0}, txn.Outcome{Status: txn.Unknown, Cause: txn.CauseClient, Reason: Timeout}, time.Second, 1},
		"pauses of nothing": {[]answer{{conflict, 5 * ms}, {conflict, 5 * ms}, {committed, 5 * ms}},
			func(c *Config) { c.Retry.Backoff = v1alpha1.Duration{} }, []time.Duration{0, 5 * ms, 10 * ms}, committed, 15 * ms, 0},
	} {
		t.Run(name, func(t *testing.T) {
			// After its first transaction, the client thinks until the end of the test.
			s := &scripted{class: txn.MultiHomeSinglePartition, think: time.Hour}
			saw, _, r := play(t, s, tc.script, tc.change)
			if len(saw) != len(tc.sent) || len(s.done) != 1 {
				t.Fatalf("attempts %+v, want them at %v; the generator was told %+v", saw, tc.sent, s.done)
			}
			for i, x := range saw {
				if x.at != tc.sent[i] || x.attempt != uint8(i) || x.call != "call 1" || x.home != 3 || x.keys != 1 {
					t.Errorf("attempt %d is %+v, want the first call sent at %v", i, x, tc.sent[i])
				}
				if m := txn.MakeID(1, uint64(i+1)); x.id != m {
					t.Errorf("attempt %d has the id %v, want %v", i, x.id, m)
				}
			}
			// The generator receives only the outcome of the last attempt.
			want := tc.ends
			want.ID = saw[len(saw)-1].id
			if got := s.done[0]; got.ID != want.ID || got.Status != want.Status || got.Reason != want.Reason || got.Cause != want.Cause {
				t.Errorf("the generator was told %+v, want %+v", got, want)
			}
			if len(s.late) != tc.late || r.Late != int64(tc.late) {
				t.Fatalf("%d late outcomes reached the generator, %d the report, want %d", len(s.late), r.Late, tc.late)
			}
			for _, o := range s.late {
				if o.ID != want.ID {
					t.Errorf("a late outcome of %v reached the generator, which was told that %v is unknown", o.ID, want.ID)
				}
			}
			all, attempts, w := summary(t, r)
			retries := int64(len(tc.sent) - 1)
			if w.Sent != 1 || w.Unfinished != 0 || attempts.Retried != retries {
				t.Errorf("%d attempts were retries, want %d; window %+v", attempts.Retried, retries, w)
			}
			if n := attempts.Committed + attempts.Aborted + attempts.Refused + attempts.Unknown; n != 1+retries || attempts.Committed != all.Committed {
				t.Errorf("%d attempts ended, want the transaction and %d retries: %+v", n, retries, attempts)
			}
			d, reasons := sum(r, tc.ends.Status)
			if d.Count != 1 || d.SumMicroseconds != tc.after.Microseconds() {
				t.Errorf("%d transactions ended so in %d us, want one, %v after its first attempt was sent", d.Count, d.SumMicroseconds, tc.after)
			}
			if tc.ends.Status != txn.Committed && (reasons[tc.ends.Reason] != 1 || len(reasons) != 1) {
				t.Errorf("reasons %v", reasons)
			}
			if tc.ends.Status == txn.Committed && r.Windows[0].CommittedAfter[len(tc.sent)-1] != 1 {
				t.Errorf("transactions by attempts: %v, want one after %d", r.Windows[0].CommittedAfter, len(tc.sent))
			}
		})
	}
}

// TestRetriesByCause checks that attempts are counted by their own outcomes, and transactions by the outcome of their
// last attempt.
func TestRetriesByCause(t *testing.T) {
	script := []answer{{conflict, ms}, {overloaded, ms}, {committed, ms}, {conflict, ms}, {procedural, ms}, {overloaded, ms}, {conflict, ms}, {conflict, ms}}
	_, _, r := play(t, &scripted{}, script, func(c *Config) { c.Schedule.Timeout = 30 * time.Second })
	all, attempts, _ := summary(t, r)
	// The last transaction has no answer when the window closes.
	if all.Committed != 1 || all.Aborted != 2 || all.Refused+all.Unknown != 0 || all.Causes["procedure"] != 1 || all.Causes["conflict"] != 1 {
		t.Errorf("transactions: %+v", all)
	}
	if attempts.Committed != 1 || attempts.Aborted != 5 || attempts.Refused != 2 || attempts.Retried != 5 ||
		attempts.Causes["conflict"] != 4 || attempts.Causes["procedure"] != 1 || attempts.Causes["node"] != 2 {
		t.Errorf("attempts: %+v", attempts)
	}
	var seconds int64
	for _, s := range r.Timeline {
		seconds += s.Attempts
	}
	if seconds != 8 {
		t.Errorf("the timeline has %d attempts, want 8", seconds)
	}
}

// TestRetryAtTheEdges checks which attempts count in a window from 1 s to 2 s.
func TestRetryAtTheEdges(t *testing.T) {
	edges := func(c *Config) {
		c.Schedule = Schedule{Warmup: time.Second, Duration: time.Second, Repetitions: 2, Timeout: 10 * time.Second}
		c.Clients = 1
	}
	t.Run("carried in", func(t *testing.T) {
		// The transaction starts at 0, conflicts at 0.95 s, is retried at 1.05 s and commits at 1.1 s.
		s := &scripted{}
		_, _, r := play(t, s, []answer{{conflict, 950 * ms}, {committed, 50 * ms}}, edges)
		all, attempts, w := summary(t, r)
		if all.Committed != 0 || w.CarriedIn != 1 || attempts.Committed != 1 || attempts.Aborted != 1 || attempts.Retried != 1 {
			t.Errorf("%+v, attempts %+v, window %+v", all, attempts, w)
		}
		if len(w.CommittedAfter) != 3 || slices.Max(w.CommittedAfter) != 0 {
			t.Errorf("one that was carried in is among those that were due and committed: %v", w.CommittedAfter)
		}
	})
	t.Run("carried in and aborted", func(t *testing.T) {
		_, _, r := play(t, &scripted{}, []answer{{conflict, 950 * ms}, {procedural, 50 * ms}}, edges)
		all, attempts, w := summary(t, r)
		if all.Aborted != 0 || w.CarriedIn != 0 || attempts.Aborted != 2 {
			t.Errorf("%+v, attempts %+v, window %+v", all, attempts, w)
		}
	})
	t.Run("backing off when the window closes", func(t *testing.T) {
		// The first transaction commits at 1 s. The second is due then, conflicts at 1.95 s and would be retried at 2.05 s.
		s := &scripted{}
		saw, m, r := play(t, s, []answer{{committed, time.Second}, {conflict, 950 * ms}, {committed, ms}}, edges)
		w := r.Windows[0]
		if len(s.done) < 2 || s.done[1].Status != txn.Aborted || w.Unfinished != 1 || w.Sent != 1 || w.Retried != 0 {
			t.Errorf("the generator was told %+v, window %+v", s.done, w)
		}
		from, _ := m.Schedule().Window(2)
		for _, x := range saw[2:] {
			if x.attempt != 0 || x.at < from-m.Schedule().Warmup {
				t.Errorf("%+v was sent after the window closed", x)
			}
		}
		if r.Total.Aborted != 1 {
			t.Errorf("%+v: it must count once", r.Total)
		}
	})
	t.Run("answered in the drain", func(t *testing.T) {
		s := &scripted{}
		saw, _, _ := play(t, s, []answer{{committed, time.Second}, {conflict, 1050 * ms}, {committed, ms}}, edges)
		if saw[2].call == saw[1].call || saw[2].attempt != 0 {
			t.Errorf("a transaction was tried again in the drain: %+v", saw[:3])
		}
	})
}

// TestRetryOpenLoop checks that a client with a retried transaction stays busy, and that arrivals wait for this client.
func TestRetryOpenLoop(t *testing.T) {
	s := &scripted{}
	saw, _, r := play(t, s, []answer{{conflict, 10 * ms}, {committed, 10 * ms}, {committed, 10 * ms}, {committed, 10 * ms}}, func(c *Config) {
		c.Arrival, c.RatePerSecond, c.Schedule.Duration = v1alpha1.ArrivalConstant, 20, 150*ms // due at 0, 50 and 100 ms
	})
	// The first transaction is retried at 110 ms and finishes at 120 ms; then the other transactions are sent.
	var at []time.Duration
	for _, x := range saw {
		at = append(at, x.at)
	}
	if want := []time.Duration{0, 110 * ms, 120 * ms, 130 * ms}; !slices.Equal(at, want) {
		t.Errorf("sent at %v, want %v", at, want)
	}
	d, _ := sum(r, txn.Committed)
	// Latencies count from the times at which the transactions were due: 120, 80 and 40 ms.
	if d.Count != 3 || d.SumMicroseconds != 240_000 || d.MaxMicroseconds != 120_000 {
		t.Errorf("latencies %+v", d)
	}
	for _, x := range r.Series {
		if x.Outcome == "committed" && x.Service.SumMicroseconds != 140_000 { // 120, 10 and 10 ms
			t.Errorf("service times %+v, want them from the first attempt on", x.Service)
		}
	}
}

// TestRetryLateTimer checks that a late driver neither sends an attempt after the timeout nor ends the transaction
// twice.
func TestRetryLateTimer(t *testing.T) {
	for name, tc := range map[string]struct {
		clients int // the second client starts at 50 ms
		backoff time.Duration
	}{
		"its own timer is late":            {1, 850 * ms},
		"its patience ends with another's": {2, 920 * ms}, // the timeout timer of the other client fires first
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{}
			m := machine(t, func(c *Config) {
				c.Workload, c.Clients = s, tc.clients
				c.Schedule = Schedule{Warmup: 100 * ms, Duration: 10 * time.Second, Repetitions: 1, Timeout: time.Second}
				c.Retry = &v1alpha1.Retry{Attempts: 3, Backoff: v1alpha1.DurationOf(tc.backoff), MaxBackoff: v1alpha1.DurationOf(time.Second), Causes: []v1alpha1.RetryCause{v1alpha1.RetryConflict}}
			})
			w := &world{answer: taking(-1), ids: map[txn.ID]bool{}}
			m.Attach(w)
			m.Start()
			// until fires the timers that are due by now, each at its due time.
			until := func(now time.Duration) {
				w.now = now
				for at, ok := w.events.Next(); ok && at <= now; at, ok = w.events.Next() {
					e, _ := w.events.PopDue(now)
					m.Fire(e)
				}
			}
			until(50 * ms)
			until(100 * ms)
			last := tc.clients - 1
			o := conflict
			o.ID = m.clients[last].id
			m.Complete(o)
			if m.clients[last].state != backingOff || m.Underway() != tc.clients {
				t.Fatalf("client %d is in state %d, %d under way", last, m.clients[last].state, m.Underway())
			}
			until(1090 * ms)
			if w.count != tc.clients+tc.clients || len(s.done) != tc.clients || s.done[last].Status != txn.Aborted || s.done[last].ID != o.ID {
				t.Errorf("%d attempts were sent; the generator was told %+v", w.count, s.done)
			}
			if n := m.Report().Total; n.Aborted != 1 || n.Failed != int64(last) {
				t.Errorf("%+v", n)
			}
			if r := m.recorder; r.window.Retried != 0 || r.current.Attempts != int64(tc.clients) {
				t.Errorf("%d attempts ended in this second, %d retried", r.current.Attempts, r.window.Retried)
			}
			until(3 * time.Second)
			if n := m.Report().Total; n.Aborted != 1 {
				t.Errorf("it ended again: %+v", n)
			}
		})
	}
}

// TestRetryIDs checks that the client of an attempt can be derived from the attempt's ID, for any number of clients.
func TestRetryIDs(t *testing.T) {
	const clients = 7
	s := &scripted{}
	m := machine(t, func(c *Config) {
		c.Workload, c.Clients = s, clients
		c.Retry = &v1alpha1.Retry{Attempts: 4, Backoff: v1alpha1.DurationOf(ms), MaxBackoff: v1alpha1.DurationOf(4 * ms), Jitter: 100, Causes: []v1alpha1.RetryCause{v1alpha1.RetryConflict}}
	})
	calls := map[string][]int32{}
	w := &world{answer: func(_ *world, n int, x *txn.Transaction) (txn.Outcome, time.Duration) {
		calls[string(x.Args)] = append(calls[string(x.Args)], m.clientOf(x.ID))
		if n%3 > 0 {
			return conflict, ms
		}
		return committed, ms
	}}
	r := w.run(t, m)
	several := 0
	for call, by := range calls {
		if len(by) > 1 {
			several++
		}
		if len(by) > 4 || slices.Max(by) != slices.Min(by) {
			t.Errorf("%s was sent by clients %v", call, by)
		}
	}
	if several < 1000 || len(s.done) != len(s.made) {
		t.Errorf("%d of %d transactions had several attempts; %d ended", several, len(s.made), len(s.done))
	}
	// Total counts attempts in the window and before it.
	if n := r.Total.Committed + r.Total.Aborted + m.Progress().Retried; n != int64(w.count) {
		t.Errorf("%d transactions ended and %d retries, but %d attempts were sent", r.Total.Committed+r.Total.Aborted, m.Progress().Retried, w.count)
	}
}

// TestRetryIsDeterministic checks that runs with the same seed draw the same pauses.
func TestRetryIsDeterministic(t *testing.T) {
	sent := func() []time.Duration {
		m := machine(t, func(c *Config) {
			c.Clients = 20
			c.Retry = &v1alpha1.Retry{Attempts: 5, Backoff: v1alpha1.DurationOf(ms), MaxBackoff: v1alpha1.DurationOf(time.Second), Jitter: 50, Causes: []v1alpha1.RetryCause{v1alpha1.RetryConflict}}
		})
		w := &world{answer: func(_ *world, n int, _ *txn.Transaction) (txn.Outcome, time.Duration) {
			if n%4 > 0 {
				return conflict, time.Duration(n%17) * ms
			}
			return committed, ms
		}}
		w.run(t, m)
		return w.sent
	}
	if one, again := sent(), sent(); !slices.Equal(one, again) {
		t.Error("the same seed sends at other instants")
	}
}

func TestBackoff(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, tc := range map[string]struct {
		b         backoff
		n         uint8
		low, high time.Duration
	}{
		"first":               {backoff{10 * ms, time.Second, 0}, 0, 10 * ms, 10 * ms},
		"doubles":             {backoff{10 * ms, time.Second, 0}, 3, 80 * ms, 80 * ms},
		"bounded":             {backoff{10 * ms, time.Second, 0}, 7, time.Second, time.Second},
		"after a hundred":     {backoff{time.Hour, time.Hour, 0}, 100, time.Hour, time.Hour},
		"half to one and ½":   {backoff{10 * ms, time.Second, 50}, 1, 10 * ms, 30 * ms},
		"nothing to twice":    {backoff{10 * ms, time.Second, 100}, 0, 0, 20 * ms},
		"of nothing, nothing": {backoff{0, time.Second, 100}, 9, 0, 0},
	} {
		low, high := time.Hour*2, time.Duration(0)
		for range 10_000 {
			d := tc.b.pause(tc.n, rng)
			low, high = min(low, d), max(high, d)
		}
		slack := (tc.high - tc.low) / 100
		if low < tc.low || high > tc.high || low > tc.low+slack || high < tc.high-slack {
			t.Errorf("%s: pauses from %v to %v, want %v to %v", name, low, high, tc.low, tc.high)
		}
	}
}

func TestNewRefusesRetry(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.Retry){
		"spec.load.retry.attempts: 0":            func(r *v1alpha1.Retry) { r.Attempts = 0 },
		"spec.load.retry.attempts: -1":           func(r *v1alpha1.Retry) { r.Attempts = -1 },
		"spec.load.retry.attempts: 101":          func(r *v1alpha1.Retry) { r.Attempts = 101 },
		"spec.load.retry.backoff: -1ms":          func(r *v1alpha1.Retry) { r.Backoff = v1alpha1.DurationOf(-ms) },
		"spec.load.retry.maxBackoff: 1ms":        func(r *v1alpha1.Retry) { r.MaxBackoff = v1alpha1.DurationOf(ms) },
		"spec.load.retry.jitter: 101":            func(r *v1alpha1.Retry) { r.Jitter = 101 },
		"spec.load.retry.causes: it is empty":    func(r *v1alpha1.Retry) { r.Causes = nil },
		`spec.load.retry.causes[0]: "Procedure"`: func(r *v1alpha1.Retry) { r.Causes = []v1alpha1.RetryCause{"Procedure"} },
	} {
		r := &v1alpha1.Retry{Attempts: 2, Backoff: v1alpha1.DurationOf(10 * ms), MaxBackoff: v1alpha1.DurationOf(time.Second), Jitter: 50, Causes: []v1alpha1.RetryCause{v1alpha1.RetryConflict}}
		change(r)
		_, err := New(Config{Workload: plain{}, Clients: 1, Arrival: v1alpha1.ArrivalClosed, Retry: r,
			Schedule: Schedule{Duration: time.Second, Repetitions: 1, Timeout: time.Second}})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s ...", err, want)
		}
	}
}

// TestKeyingAndThinking checks that keying precedes a transaction's due time, and that thinking follows its answer.
func TestKeyingAndThinking(t *testing.T) {
	s := &scripted{keying: 300 * ms, think: 200 * ms}
	answers := slices.Repeat([]answer{{committed, 500 * ms}}, 20)
	saw, _, r := play(t, s, answers, nil)
	var at []time.Duration
	for _, x := range saw {
		at = append(at, x.at)
	}
	// 300 ms keying, 500 ms until the answer, and 200 ms thinking.
	for i, a := range at {
		if want := 300*ms + time.Duration(i)*time.Second; a != want {
			t.Errorf("transaction %d is sent at %v, want %v", i, a, want)
		}
	}
	if d, _ := sum(r, txn.Committed); d.Count != 10 || d.MaxMicroseconds != 500_000 {
		t.Errorf("latencies %+v, want 10 of 500 ms", d)
	}
	if len(s.made) != len(s.done) {
		t.Errorf("%d transactions were made, %d ended", len(s.made), len(s.done))
	}

	t.Run("when the window closes", func(t *testing.T) {
		s := &scripted{keying: 300 * ms, think: 200 * ms}
		saw, m, _ := play(t, s, answers, func(c *Config) {
			// The second transaction is being keyed in from 1 s to 1.3 s; the window closes at 1.1 s.
			c.Schedule.Duration, c.Schedule.Repetitions = 1100*ms, 2
		})
		o := s.done[1]
		if o.Status != txn.Refused || o.Reason != ReasonNotSent || o.Cause != txn.CauseClient {
			t.Errorf("the generator was told %+v of the transaction that was never sent", o)
		}
		from, _ := m.Schedule().Window(2)
		if saw[1].at != from+300*ms || saw[1].call != "call 3" {
			t.Errorf("after the first window %+v was sent, want the third call at %v", saw[1], from+300*ms)
		}
		if len(s.made) != len(s.done) {
			t.Errorf("%d transactions were made, %d ended", len(s.made), len(s.done))
		}
	})
	t.Run("beside the load's think time and with retries", func(t *testing.T) {
		s := &scripted{keying: 300 * ms, think: 200 * ms}
		saw, _, r := play(t, s, []answer{{conflict, 50 * ms}, {committed, 50 * ms}, {committed, 50 * ms}}, func(c *Config) { c.ThinkTime = ms })
		// The transaction is keyed in only once: the retry is sent 100 ms after the first answer.
		if d := saw[1].at - saw[0].at; d != 150*ms || saw[1].attempt != 1 {
			t.Errorf("the second attempt %+v comes %v after the first", saw[1], d)
		}
		if d := saw[2].at - saw[1].at; d <= 550*ms || d > 550*ms+maxThink*ms || saw[2].attempt != 0 {
			t.Errorf("the next transaction %+v comes %v after, want 50 ms, both think times and the keying time", saw[2], d)
		}
		if d, _ := sum(r, txn.Committed); d.MaxMicroseconds != 200_000 {
			t.Errorf("latencies %+v, want 200 ms at most", d)
		}
	})
	t.Run("some types take neither", func(t *testing.T) {
		// While the first client's transaction is in flight, the second client becomes the first client with a think time.
		s := &scripted{think: 700 * ms, hasty: 1}
		saw, _, r := play(t, s, slices.Repeat([]answer{{committed, 400 * ms}}, 3), func(c *Config) {
			c.Clients, c.Retry, c.Schedule.Duration = 2, nil, time.Second
		})
		if d, _ := sum(r, txn.Committed); d.Count != 3 || len(saw) != 3 {
			t.Errorf("%d of %d transactions committed, want one of the client that thinks and two of the other", d.Count, len(saw))
		}
	})
	t.Run("open loops have neither", func(t *testing.T) {
		saw, _, _ := play(t, &scripted{keying: 300 * ms, think: 200 * ms}, answers, func(c *Config) {
			c.Arrival, c.RatePerSecond, c.Clients = v1alpha1.ArrivalConstant, 10, 10
		})
		for i, x := range saw {
			if want := time.Duration(i) * 100 * ms; x.at != want {
				t.Fatalf("transaction %d is sent at %v, want %v", i, x.at, want)
			}
		}
	})
}

// TestClassAfterTheFact checks that a transaction whose footprint was a hint counts under the class that the database
// reported last.
func TestClassAfterTheFact(t *testing.T) {
	of := func(o txn.Outcome, c txn.Class) txn.Outcome { o.Class = c; return o }
	mh := txn.MultiHomeSinglePartition
	script := []answer{
		{of(committed, mh), 10 * ms},
		{of(committed, txn.SingleHomeSinglePartition), 10 * ms},
		{of(conflict, txn.MultiHomeMultiPartition), 10 * ms}, // retried once more
		{of(committed, mh), 10 * ms},
		{of(procedural, mh), 10 * ms},
		// The classes of these transactions stay unknown: they count under the class of the hint, and the shares omit them.
		{tooLarge, 10 * ms},
		{of(committed, mh), 5 * time.Second}, // the client has given up
	}
	for name, tc := range map[string]struct {
		inexact               bool
		classified, multiHome int64
		classes               map[string]int64 // of the transactions that were due
	}{
		"hints": {true, 4, 3, map[string]int64{"MH-SP committed": 2, "SH-SP committed": 1, "MH-SP aborted": 1, "SH-MP refused": 1, "SH-MP unknown": 3, "SH-MP unfinished": 1}},
		"exact": {false, 0, 0, map[string]int64{"SH-MP committed": 3, "SH-MP aborted": 1, "SH-MP refused": 1, "SH-MP unknown": 3, "SH-MP unfinished": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, r := play(t, &scripted{inexact: tc.inexact, class: txn.SingleHomeMultiPartition}, script, func(c *Config) {
				c.Schedule.Duration = 4 * time.Second
			})
			w := r.Windows[0]
			if !tc.inexact {
				tc.classified = w.Sent
			}
			if w.Classified != tc.classified || w.MultiHome != tc.multiHome {
				t.Errorf("shares %+v", w)
			}
			got := map[string]int64{}
			for _, s := range r.Series {
				if s.Latency.Count > 0 {
					got[s.Class+" "+s.Outcome] += s.Latency.Count
				}
				if s.Class == "MH-MP" && (s.Outcome != "aborted" || s.Attempts.Count != 1 || s.Attempts.Causes["conflict"] != 1) {
					t.Errorf("the attempt that reached furthest: %+v", s)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(tc.classes) {
				t.Errorf("classes %v, want %v", got, tc.classes)
			}
		})
	}
}

// TestMisclassified checks that a report counts the committed transactions of a history for which the database reported
// a wrong class.
func TestMisclassified(t *testing.T) {
	traced := txn.NewRegistry(history.TraceAll(&txn.Procedure{ID: 99, Name: "call", Declare: func([]byte, *txn.Footprint) error { return nil }})...)
	done := committed
	done.Result = history.AppendTrace(nil, []history.Op{{Key: txn.IntKey(0, 0), Kind: history.Read}, {Key: txn.IntKey(0, 1), Kind: history.Read}})
	right := done
	right.Class = txn.MultiHomeSinglePartition
	for name, tc := range map[string]struct {
		answers []answer
		want    int64
	}{
		"right": {slices.Repeat([]answer{{right, 5 * ms}}, 3), 0},
		"wrong": {[]answer{{right, 5 * ms}, {done, 5 * ms}, {done, 5 * ms}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			_, m, _ := play(t, &scripted{inexact: true}, tc.answers, func(c *Config) {
				c.Placement = geo.Placement{Regions: 2, Partitions: 1}
				c.Trace = &Trace{Procedures: traced, Record: func(*history.Txn) {}}
			})
			m.EndTrace()
			m.EndTrace() // calling it again must count nothing twice
			r := m.Report()
			if r.Misclassified != tc.want || (r.MisclassifiedExample == "") != (tc.want == 0) {
				t.Errorf("%d are misclassified, %q; want %d", r.Misclassified, r.MisclassifiedExample, tc.want)
			}
		})
	}
}

// TestRetryHistory checks that each attempt is a separate transaction of the history, of the same client.
func TestRetryHistory(t *testing.T) {
	traced := txn.NewRegistry(history.TraceAll(&txn.Procedure{ID: 99, Name: "call", Declare: func(_ []byte, f *txn.Footprint) error {
		f.Add(txn.IntKey(0, 0), txn.Write)
		f.Exact = true
		return nil
	}})...)
	var recorded []history.Txn
	saw, _, _ := play(t, &scripted{}, []answer{{conflict, 5 * ms}, {conflict, 5 * ms}, {procedural, 5 * ms}}, func(c *Config) {
		c.FirstClient = 40
		c.Trace = &Trace{Procedures: traced, Record: func(x *history.Txn) { recorded = append(recorded, *x) }}
	})
	if len(recorded) < 3 {
		t.Fatalf("the history is %+v", recorded)
	}
	for i, at := range []time.Duration{0, 105 * ms, 260 * ms} {
		x := &recorded[i]
		if x.ID != saw[i].id || x.Invoked != at || x.Answered != at+5*ms || x.Status != txn.Aborted || x.Client != 40 {
			t.Errorf("transaction %d of the history is %+v, want the attempt that was sent at %v", i, x, at)
		}
		if saw[i].attempt != uint8(i) || saw[i].home != 3 {
			t.Errorf("the tap made attempt %d %+v", i, saw[i])
		}
	}
}
