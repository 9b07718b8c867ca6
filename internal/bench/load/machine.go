// Package load generates the load of a run. A Machine runs many clients and is a deterministic state machine
// (protocol.Client). The simulator drives a Machine in virtual time, and a Worker drives it in real time against any
// target, with the same code. A client takes a few dozen bytes and no goroutine.
//
// In a closed loop, a client sends its next transaction after the answer to the previous transaction and a think time.
// In an open loop (constant gaps or Poisson), transactions are due at times that do not depend on the database. Latency
// is measured from the time at which a transaction was due. A stalled database therefore cannot hide the stall by
// delaying requests (coordinated omission; G. Tene, "How NOT to Measure Latency", 2013). Service time is measured from
// the time of sending.
//
// A transaction may be retried (spec.load.retry) if its last attempt certainly had no effect. To the database, each
// attempt is a separate transaction with a separate ID. To the client, all attempts are one transaction, which counts
// once, with the outcome of its last attempt. Its latency starts with the first attempt, and its timeout covers all
// attempts and pauses. No attempt starts after the timeout, or after the window has closed.
//
// A curve (spec.load.curve) varies the rate of an open loop, or the number of clients of a closed loop, over the
// window. A client that the curve removes stops after its next answer. Every load generator computes the curve from the
// schedule.
//
// A repetition's window is [from, to). A transaction is recorded if it was due and finished in the window. A
// transaction that is in flight when the window closes is recorded as unfinished, with its waiting time. The window
// also counts transactions that were due but never sent. Package result includes unfinished and unsent transactions in
// its percentiles.
//
// A transaction that was due before the window is not recorded. If it commits in the window, it counts as carried in,
// so that the throughput, (committed + carried in) / window, is unbiased.
//
// Attempts count in the window in which they finish, regardless of when their transactions were due. A retried attempt
// counts when the next attempt is sent.
package load

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/base/version"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Config configures a Machine.
type Config struct {
	Workload workload.Workload
	// Region is the region of the clients, and RegionName is the region's name in reports. Worker is the index of this
	// worker among the region's workers, from 0.
	Region     geo.Region
	RegionName string
	Worker     int
	// Home is the home region of the rows that the clients use as their own.
	Home geo.Region
	// Clients is the number of clients. In an open loop, it is the maximum number of transactions in flight.
	Clients int
	// Stream is unique among the machines of a run, which makes transaction IDs and random numbers distinct. It has at
	// most 24 bits.
	Stream uint32
	Seed   uint64
	// Arrival is Closed, Constant or Poisson.
	Arrival v1alpha1.Arrival
	// RatePerSecond is the rate of the whole region in an open loop. This machine generates one of Shares equal parts of
	// it; Share is the index of this part, from 0.
	RatePerSecond int64
	Share, Shares int
	// Curve varies the load over the window; nil for a constant load. In a closed loop it applies to the ClientsPerRegion
	// clients of the region. Client i of this machine has number i x Shares + Share in the region.
	Curve            *Curve
	ClientsPerRegion int
	// ThinkTime is the mean time between an answer and the client's next transaction in a closed loop.
	ThinkTime time.Duration
	// Retry configures which transactions are retried; nil for none.
	Retry *v1alpha1.Retry
	// FirstClient is the number of the machine's first client among all clients with this Home. RegionClients is the
	// number of these clients, in all regions, workers and shards.
	FirstClient, RegionClients int
	// Trace enables the recording of a history; nil for none. Placement is the placement of rows, which determines the
	// classes of the transactions in the history.
	Trace     *Trace
	Placement geo.Placement
	// Observer is notified of every transaction that finishes; nil for none.
	Observer Observer
	// Queue is the maximum number of transactions of an open loop that are due and wait for a free client; 0 means
	// DefaultQueue.
	Queue    int
	Schedule Schedule
	// Fine splits the seconds of the timeline into tenths.
	Fine bool
}

// Trace configures a machine to record the history of its transactions, from the first warm-up to the last answer. The
// machine then calls the traced forms of its workload's procedures: see package history.
type Trace struct {
	// Procedures contains the traced procedures: catalog.Procedures.
	Procedures *txn.Registry
	// Record receives each transaction once its outcome is known. It must not retain t or its operations. The shards of a
	// worker call it concurrently.
	Record func(t *history.Txn)
}

// Observer is notified when transactions finish during a run; live metrics use it.
type Observer interface {
	// Ended is called when a client receives the outcome of a transaction or gives up on it, including warm-ups. latency
	// counts from the time at which the transaction was due, and now from the start of the machine's environment. The
	// shards of a worker call Ended concurrently and wait for it. Ended must not retain o.
	Ended(typ uint8, class txn.Class, o *txn.Outcome, latency, now time.Duration)
	// Retried is called when a client retries a transaction whose last attempt finished with o.
	Retried(typ uint8, class txn.Class, o *txn.Outcome)
}

// DefaultQueue is the default of Config.Queue.
const DefaultQueue = 10_000

// Kinds of timers. Arg of timerRamp and timerArrival is the repetition.
const (
	timerSchedule uint8 = iota + 1
	timerRamp
	timerArrival
	timerTimeout
	timerClient  // Arg is the client
	timerAttempt // Arg is the ID of the last attempt, or of the first attempt if no attempt has been sent yet
	timerCurve   // Arg is the repetition
)

// States of a client.
const (
	idle   uint8 = iota
	keying       // the transaction exists but is not due; a timer will send it
	underway
	backingOff // the transaction is in progress without an attempt in flight; a timer will send the next attempt
	resting    // the client thinks or backs off; a timer will start its next transaction
)

const none = -1

// client is the machine's state of one client.
type client struct {
	id         txn.ID        // of the last attempt
	due, sent  time.Duration // of the first attempt of the transaction in flight
	count      uint32        // attempts so far, of all transactions
	prev, next int32         // in the list of transactions in flight, by age
	state      uint8
	typ        uint8
	traits     traits
	refusals   uint8 // consecutive refusals
}

const (
	classBits = traits(txn.NumClasses - 1)
	// inexact is set if the footprint, and therefore the class, is only a hint.
	inexact = traits(txn.NumClasses)
)

// held is the retained state of a client's transaction. It is needed if transactions are retried, or have keying or
// think times.
type held struct {
	t     *txn.Transaction // the last attempt
	last  *txn.Outcome     // of the last attempt, while the client backs off
	think time.Duration    // think time after the answer
}

// slot is a transaction with room for the accesses of a typical transaction.
type slot struct {
	t        txn.Transaction
	accesses [3]txn.Access
}

// Machine is one shard of a load generator: a protocol.Client that runs many clients.
type Machine struct {
	cfg       Config
	env       protocol.ClientEnv
	tap       *history.Tap // nil when no history is recorded
	generator workload.Generator
	// gaps is the random generator of the times between arrivals, and pauses is the random generator of everything that
	// depends on answers. With a single generator, answers would influence when later transactions are due.
	gaps, pauses *rand.Rand
	retry        retry
	clients      []client
	held         []held // by client; nil until needed
	slots        []slot
	oldest       int32 // of the transactions in flight, or none
	newest       int32
	underway     int
	// answered is the time at which the database last committed or aborted a transaction. If no transaction was in flight
	// then, it is the time at which the next transaction was sent. Timeouts and refusals do not count as answers.
	answered time.Duration
	// quiet is set if the last answer left no transaction in flight and no transaction has been sent since then.
	quiet     bool
	outcome   txn.Outcome   // the current outcome; local variables would escape to the heap
	timeoutAt time.Duration // time at which the timeout timer fires; 0 if it is not set
	idle      []int32       // clients without a transaction, in an open loop
	queue     ring

	stage      Stage
	repetition int
	begun      int           // last repetition that has started to send transactions
	from, to   time.Duration // the repetition's window
	change     time.Duration // end of the current stage
	ramped     int           // number of clients that this repetition has started
	due        time.Duration // the next arrival
	arrivals   uint64
	poisson    float64 // time of the next arrival since the start of the repetition, in nanoseconds at full load
	active     int     // number of active clients of a closed loop; the first clients are active
	slice      int     // current slice of the curve
	counted    int64   // milliseconds of the window that volume covers
	volume     volume

	recorder *recorder
	report   *result.Report
	progress progress
}

// progress is read by other goroutines, hence the atomics.
type progress struct {
	_          [64]byte // keeps the counters of machines on separate cache lines
	stage      atomic.Int32
	repetition atomic.Int32
	committed  atomic.Int64
	aborted    atomic.Int64
	failed     atomic.Int64
	retried    atomic.Int64
	dropped    atomic.Int64
	underway   atomic.Int64
	latency    atomic.Int64 // in nanoseconds, summed over the committed transactions
	_          [64]byte
}

// New returns a machine. Errors name the field of the manifest.
func New(cfg Config) (*Machine, error) {
	s := cfg.Schedule
	switch {
	case cfg.Clients < 1:
		return nil, fmt.Errorf("spec.load.clientsPerRegion: %d is not at least 1 for each worker", cfg.Clients)
	case cfg.Clients > 1<<24:
		return nil, fmt.Errorf("spec.load.clientsPerRegion: %d for one worker is more than %d; add workers", cfg.Clients, 1<<24)
	case s.Repetitions < 1:
		return nil, fmt.Errorf("spec.load.repetitions: %d is not at least 1", s.Repetitions)
	case s.Warmup < 0 || s.Duration <= 0:
		return nil, fmt.Errorf("spec.load: warmup %v must be 0s or more, duration %v longer than 0s", s.Warmup, s.Duration)
	case s.Timeout <= 0:
		return nil, fmt.Errorf("spec.load.requestTimeout: %v is not longer than 0s", s.Timeout)
	case cfg.ThinkTime < 0:
		return nil, fmt.Errorf("spec.load.thinkTime: %v is negative", cfg.ThinkTime)
	case cfg.Stream >= 1<<24:
		return nil, fmt.Errorf("stream %d has more than 24 bits", cfg.Stream)
	}
	switch cfg.Arrival {
	case v1alpha1.ArrivalClosed:
	case v1alpha1.ArrivalConstant, v1alpha1.ArrivalPoisson:
		if cfg.RatePerSecond < 1 {
			return nil, fmt.Errorf("spec.load.ratePerSecond: %d is not at least 1, which arrival %s needs", cfg.RatePerSecond, cfg.Arrival)
		}
		if cfg.Shares < 1 || cfg.Share < 0 || cfg.Share >= cfg.Shares {
			return nil, fmt.Errorf("share %d of %d of the region's rate", cfg.Share, cfg.Shares)
		}
	default:
		return nil, fmt.Errorf("spec.load.arrival: %q is not one of Closed, Constant, Poisson", cfg.Arrival)
	}
	if cfg.Curve != nil && (cfg.Shares < 1 || cfg.Share < 0 || cfg.Share >= cfg.Shares) {
		return nil, fmt.Errorf("share %d of %d of the region's load", cfg.Share, cfg.Shares)
	}
	if cfg.Queue == 0 {
		cfg.Queue = DefaultQueue
	}
	retry, err := newRetry(cfg.Retry)
	if err != nil {
		return nil, err
	}
	m := &Machine{
		cfg:   cfg,
		retry: retry,
		generator: cfg.Workload.NewGenerator(workload.GeneratorConfig{
			Region: cfg.Home, Clients: cfg.Clients, FirstClient: cfg.FirstClient, RegionClients: cfg.RegionClients,
			Stream: cfg.Stream, Measured: s.Duration,
		}),
		pauses:  rand.New(rand.NewPCG(cfg.Seed^0x6c6f6164, uint64(cfg.Stream))),
		clients: make([]client, cfg.Clients), active: cfg.Clients,
		oldest: none, newest: none, quiet: true,
		report: &result.Report{
			Kind: result.ReportKind, Version: result.ReportVersion, Build: version.String(),
			Workload: cfg.Workload.Name(), Types: cfg.Workload.Types(), Arrival: string(cfg.Arrival),
			DurationMicroseconds: s.Duration.Microseconds(), Repetitions: s.Repetitions,
			Workers: []result.LoadGenerator{{Region: cfg.RegionName, Index: cfg.Worker, Clients: cfg.Clients}},
		},
	}
	if cfg.Retry != nil {
		m.held = make([]held, cfg.Clients)
	}
	if m.open() {
		m.gaps, m.pauses = m.pauses, rand.New(rand.NewPCG(cfg.Seed^0x7061757365, uint64(cfg.Stream)))
		// Clients are taken from the end of idle, so the order is reversed to start with client 0.
		m.idle = make([]int32, cfg.Clients)
		for i := range m.idle {
			m.idle[i] = int32(cfg.Clients - 1 - i)
		}
	}
	return m, nil
}

// Attach sets the machine's environment; it must be called before Start. It returns the client to which Start and all
// later calls must go: the machine, or the tap that records its history.
func (m *Machine) Attach(env protocol.ClientEnv) protocol.Client { return m.attach(env, env.Now) }

// attach is Attach for an environment whose Now may lag. clock returns the time without this lag.
func (m *Machine) attach(env protocol.ClientEnv, clock func() time.Duration) protocol.Client {
	m.env = env
	if m.cfg.Trace == nil {
		return m
	}
	m.tap = history.NewTap(env, history.TapConfig{
		Placement: m.cfg.Placement, Procedures: m.cfg.Trace.Procedures, Record: m.cfg.Trace.Record, Clock: clock,
		Client: func(id txn.ID) uint32 { return uint32(m.cfg.FirstClient) + uint32(m.clientOf(id)) },
	})
	m.env = m.tap
	return m.tap.Attach(m)
}

// EndTrace finishes the history, if there is one: transactions without an answer are recorded as unknown. If the
// history is incomplete, the report gets an incident. EndTrace also reports the number of transactions with a wrong
// class.
func (m *Machine) EndTrace() {
	if m.tap == nil {
		return
	}
	if err := m.tap.Finish(); err != nil {
		m.report.Incidents = append(m.report.Incidents, result.Incident{Reason: result.Reason{Reason: result.ReasonHistoryLost,
			Message: fmt.Sprintf("the history of a load generator in %s is incomplete: %v", m.cfg.RegionName, err)}})
	}
	m.report.Misclassified, m.report.MisclassifiedExample = m.tap.Misclassified()
}

// clientOf returns the client that sent the transaction with this ID: the inverse of nextID.
func (m *Machine) clientOf(id txn.ID) int32 {
	return int32((uint64(id)&(1<<40-1) - 1) % uint64(len(m.clients)))
}

// Schedule returns the machine's schedule.
func (m *Machine) Schedule() Schedule { return m.cfg.Schedule }

// startTolerance is the share of a window that clients may miss at its start.
const startTolerance = 0.01

// opened reports an incident if the clients join a window too late. The figures omit the part of the window before at.
func (m *Machine) opened(at time.Duration) {
	if late := at - m.from; !ignoreLateness && float64(late) > startTolerance*float64(m.to-m.from) {
		m.report.Incidents = append(m.report.Incidents, result.Incident{Reason: result.Reason{Reason: result.ReasonStartMissed,
			Message: fmt.Sprintf("clients in %s took part in window %d only from %v after its beginning: their process was stopped, or waited for the CPU",
				m.cfg.RegionName, m.repetition, late.Round(time.Millisecond))}})
	}
}

func (m *Machine) open() bool { return m.cfg.Arrival != v1alpha1.ArrivalClosed }

// running reports whether transactions may be sent.
func (m *Machine) running() bool { return m.stage == Warmup || m.stage == Measure }

// Start starts the machine, which then waits for the start of its schedule.
func (m *Machine) Start() {
	m.change = m.cfg.Schedule.Start
	now := m.env.Now()
	m.advance(now)
	if m.stage == Waiting {
		m.wake(now)
	}
}

// wake sets a timer for the next change of stage.
func (m *Machine) wake(now time.Duration) {
	m.env.After(max(0, m.change-now), protocol.Timer{Kind: timerSchedule})
}

// nextID returns the ID of the next attempt of c, which is client i.
func (m *Machine) nextID(i int32, c *client) txn.ID {
	// Client i uses the numbers i+1 modulo the number of clients, so that clientOf needs no table.
	n := uint64(c.count)*uint64(len(m.clients)) + uint64(i) + 1
	c.count++
	return txn.MakeID(m.cfg.Stream, n)
}

// begin sends client i's next transaction, which is due at due: the transaction that the client has keyed in, or else a
// new transaction. A new transaction with a keying time is generated now and sent later.
func (m *Machine) begin(i int32, due, now time.Duration) {
	c := &m.clients[i]
	var t *txn.Transaction
	if c.state == keying {
		t = m.held[i].t
	} else {
		if len(m.slots) == 0 {
			// Transactions are allocated in batches, because a separate allocation for each would be the largest cost of
			// sending. A batch uses its whole allocation, which the allocator rounds up to an eighth more than 16 transactions.
			m.slots = slices.Grow([]slot(nil), min(16, len(m.clients)))
			m.slots = m.slots[:cap(m.slots)]
		}
		s := &m.slots[0]
		m.slots = m.slots[1:]
		t = &s.t
		t.Accesses = s.accesses[:0]
		t.ID, t.Home = m.nextID(i, c), uint16(m.cfg.Region)
		r := m.generator.Next(int(i), now-m.from, t)
		c.id, c.typ, c.traits = t.ID, r.Type, traitsOf(r.Class, t.Exact)
		if m.held != nil || r.Keying|r.Think != 0 {
			if m.hold(i, t, r.Keying, r.Think); c.state == keying {
				return
			}
		}
	}
	c.due, c.sent, c.state = due, now, underway
	// In an open loop, a transaction that arrived before the window may be sent in it, but was not due in it.
	if m.recorder != nil && due >= m.from {
		m.recorder.window.Sent++
		if !m.open() { // an open loop counts it at its arrival
			m.recorder.window.Due++
		}
		if c.traits&inexact == 0 {
			m.recorder.classified(txn.Class(c.traits & classBits))
		}
	}
	m.link(i)
	m.underway++
	// The silence of the database starts when there is a transaction to answer.
	if m.quiet {
		m.answered, m.quiet = now, false
	}
	// If the timer is set, it is for an older transaction in flight, and its handler sets the timer again.
	if m.timeoutAt == 0 {
		m.timeoutAt = now + m.cfg.Schedule.Timeout
		m.env.After(m.cfg.Schedule.Timeout, protocol.Timer{Kind: timerTimeout})
	}
	m.env.Submit(t)
}

// Complete handles the outcome of an attempt. If the client has already given up on the transaction, the outcome is
// only counted as late and entered in the generator's ledger. A transaction has at most one attempt in flight, so any
// other outcome finishes or retries the transaction.
func (m *Machine) Complete(o txn.Outcome) {
	now := m.env.Now()
	m.advance(now)
	// Ignore the outcomes of other machines' transactions.
	if o.ID.Stream() != m.cfg.Stream {
		return
	}
	i := m.clientOf(o.ID)
	if c := &m.clients[i]; c.state != underway || c.id != o.ID {
		m.report.Late++
		m.generator.Late(o)
		return
	}
	m.outcome = o
	if m.retry.attempts == 0 || !m.backOff(i, &m.outcome, now) {
		m.end(i, &m.outcome, now)
	}
}

// Timeout is the reason of transactions on which the client gave up.
const Timeout = "timeout"

// end finishes client i's transaction and starts the client's next transaction. No outcome stops a client permanently.
func (m *Machine) end(i int32, o *txn.Outcome, now time.Duration) {
	c := &m.clients[i]
	m.unlink(i)
	m.underway--
	if o.Status == txn.Committed || o.Status == txn.Aborted {
		m.heard(now)
	}
	c.state = idle
	m.progress.underway.Store(int64(m.underway))
	switch o.Status {
	case txn.Committed:
		m.report.Total.Committed++
		m.progress.committed.Store(m.report.Total.Committed)
		m.progress.latency.Add(int64(now - c.due)) // an atomic add takes a few ns, and only this goroutine writes
	case txn.Aborted:
		m.report.Total.Aborted++
		m.progress.aborted.Store(m.report.Total.Aborted)
	default:
		m.report.Total.Failed++
		m.progress.failed.Store(m.report.Total.Failed)
	}
	class := c.traits.classAfter(o)
	// The end of the window is exclusive; a transaction that finishes exactly then is unfinished.
	if m.recorder != nil && now < m.to {
		if c.due >= m.from {
			m.recorder.ended(c.typ, class, o, now-c.due, now-c.sent, now)
			if m.retry.attempts > 0 {
				m.recorder.committedAfter(o, m.held[i].t.Attempt)
			}
			if c.traits.learns(o) {
				m.recorder.classified(class)
			}
		} else {
			m.recorder.carriedIn(c.typ, class, o, now)
		}
	}
	if m.cfg.Observer != nil {
		m.cfg.Observer.Ended(c.typ, class, o, now-c.due, now)
	}
	// Notify the generator before begin, because it may need this outcome for the client's next transaction.
	m.generator.Done(int(i), *o)

	rest := m.think()
	if m.held != nil {
		rest += m.held[i].think
		m.held[i] = held{}
	}
	if o.Status == txn.Refused || o.Status == txn.Unknown && o.Reason != Timeout {
		rest = max(rest, refusalBackoff.pause(c.refusals, m.pauses))
		c.refusals = min(c.refusals+1, 30)
	} else {
		c.refusals = 0
	}
	switch {
	case m.open():
		// In an open loop, the arrival rate itself limits retries after refusals.
		if due, ok := m.queue.pop(); ok {
			m.begin(i, due, now)
		} else {
			m.idle = append(m.idle, i)
		}
	// The client stays idle: nothing is sent after the window, or the curve removed the client.
	case !m.running() || int(i) >= m.active:
	case rest > 0:
		m.rest(i, rest)
	default:
		m.begin(i, now, now)
	}
}

// heard records an answer of the database and the silence before the answer.
func (m *Machine) heard(now time.Duration) {
	if m.recorder != nil {
		m.silence(min(now, m.to))
	}
	m.answered, m.quiet = now, m.underway == 0
}

// silence returns the part of the window between the last answer and at. It also records this silence if it lasted at
// least result.MinSilence.
func (m *Machine) silence(at time.Duration) time.Duration {
	// Only silence within the window counts.
	since := max(m.from, min(m.answered, at))
	if at-since >= result.MinSilence {
		m.recorder.window.AddSilence(since-m.from, at-m.from)
	}
	return at - since
}

// maxThink is the maximum think time, in multiples of the mean.
const maxThink = 10

// think draws a think time from an exponential distribution that is limited to ten times the mean, as in clause 5.2.5.4
// of TPC-C. With constant think times, clients would stay synchronised, and so would the phases of their transactions.
func (m *Machine) think() time.Duration {
	if m.cfg.ThinkTime == 0 {
		return 0
	}
	return time.Duration(min(m.pauses.ExpFloat64(), maxThink) * float64(m.cfg.ThinkTime))
}

// rest lets client i send its next transaction after d.
func (m *Machine) rest(i int32, d time.Duration) {
	m.clients[i].state = resting
	m.env.After(d, protocol.Timer{Kind: timerClient, Arg: uint64(i)})
}

// Fire handles a timer.
func (m *Machine) Fire(t protocol.Timer) {
	now := m.env.Now()
	m.advance(now)
	switch t.Kind {
	case timerRamp:
		// A timer of an earlier repetition must not start clients of the current repetition.
		if m.running() && t.Arg == uint64(m.repetition) {
			m.ramp(now)
		}
	case timerArrival:
		if m.running() && t.Arg == uint64(m.repetition) {
			m.arrive(now)
			m.awaitArrival(now)
		}
	case timerClient:
		m.clients[t.Arg].state = idle
		if m.running() && int(t.Arg) < m.active {
			m.begin(int32(t.Arg), now, now)
		}
	case timerCurve:
		if m.stage == Measure && t.Arg == uint64(m.repetition) {
			m.follow(now)
		}
	case timerAttempt:
		m.attempt(txn.ID(t.Arg), now)
	case timerTimeout:
		m.expire(now)
	}
}

// Stop ends the schedule early and closes the open window. The window's counts are correct, but the window is shorter
// than scheduled.
func (m *Machine) Stop() {
	if m.recorder != nil {
		m.closeWindow(m.env.Now())
	}
	m.stage = Done
	m.progress.stage.Store(int32(Done))
}

// Finished reports whether the schedule is over and no transaction is in flight.
func (m *Machine) Finished() bool { return m.stage == Done && m.underway == 0 }

// Underway returns the number of transactions in flight.
func (m *Machine) Underway() int { return m.underway }

// Report returns the measurements in all completed repetitions, and the ledger and shares so far. The caller must not
// modify it.
func (m *Machine) Report() *result.Report {
	m.report.Ledger, m.report.Shares = m.generator.Ledger(), m.generator.Realised()
	if c := m.cfg.Curve; c != nil {
		m.report.Shares = slices.Concat(m.report.Shares, m.volume.counts(c))
	}
	return m.report
}

// Progress holds running totals of one or more machines, for observers of a run.
type Progress struct {
	Stage      Stage
	Repetition int
	// Committed, Aborted and Failed (refused or unknown) count all transactions so far, including warm-ups. Retried counts
	// attempts, except the first attempt of each transaction.
	Committed, Aborted, Failed, Retried int64
	// Dropped counts the dropped arrivals of an open loop, and Underway the transactions in flight.
	Dropped, Underway int64
	// Latency is the sum of the latencies of all committed transactions.
	Latency time.Duration
}

// Progress returns the machine's totals. It may be called from any goroutine.
func (m *Machine) Progress() Progress {
	p := &m.progress
	return Progress{
		Stage: Stage(p.stage.Load()), Repetition: int(p.repetition.Load()),
		Committed: p.committed.Load(), Aborted: p.aborted.Load(), Failed: p.failed.Load(), Retried: p.retried.Load(),
		Dropped: p.dropped.Load(), Underway: p.underway.Load(), Latency: time.Duration(p.latency.Load()),
	}
}
