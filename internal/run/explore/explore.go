package explore

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/fault/simulated"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

// Config selects the scenario to run and its checks.
type Config struct {
	Engine *protocol.Engine
	Seed   uint64
	// Level is the isolation level that histories must satisfy. 0 stands for the level that the engine promises with the
	// scenario's parameters.
	Level isolation.Level
	// Broken is set for engines of package broken.
	Broken bool
	// Hostile changes the scenarios of all seeds to unusual ones. Duration parameters go down to the engine's minimum,
	// there are up to five regions and up to three times as many cuts. Two regions are lost if the protocol survives
	// that.
	Hostile bool
	// OnePartition generates scenarios with one partition and one replica per region, for engines that support nothing
	// else.
	OnePartition bool
	// Slow slows clients down: they send the same number of transactions in ten times the time, and the clients of every
	// second region only read. Cuts are long, so that leaders change under load.
	Slow bool
	// Core adds a second phase to the scenarios of databases that survive the loss of regions. After the last fault,
	// links stop losing messages, and regions that the database survives without are lost permanently. The clients of the
	// remaining regions then send again. Each of these transactions must be answered within the time that
	// protocol.Tolerance promises.
	Core bool
	// Buggify makes replicas take rare actions at points that the seed enables (package buggify), until the last fault is
	// over and the last transaction is sent. It changes nothing else about the scenario.
	Buggify bool
	// Disk changes the scenarios of all seeds. Nodes have logs wherever possible, and syncs take time. Nodes that crash
	// lose unsynced data. Logs become unreadable if the database survives that.
	Disk bool
	// Replace changes the scenarios of all seeds if the engine replaces lost nodes. No node has a log. Nodes lose their
	// processes and memory, one after another or all of a region together, and empty nodes replace them. No region is
	// lost permanently.
	Replace bool
	// Runs changes the scenarios of all seeds to resemble measured runs. Faults form a timeline like spec.faults of a
	// BenchmarkRun, with every kind that simulations support, and the same injector plays them. Half of the scenarios use
	// a run's workload, with checks of its invariants, and half an open loop.
	Runs bool
	// Wide changes the scenarios of all seeds. Parameters take any value that the engine allows, with a uniform
	// logarithm. Clients retry aborted transactions, and there are more and larger rows. Thresholds at which replicas
	// change their behavior are small, and a second run with the same ids may follow.
	Wide bool
	// Checkpoints makes every node write its state up to ten times. After a crash, nodes with logs start from a
	// checkpoint. Half of the time a node continues from the state that it has just written. Nothing else about a
	// scenario changes, except that a node restarts sooner from a shorter log.
	Checkpoints bool
	// Invariants checks the replicas' invariants and rows after every step, so that violations show before they reach an
	// answer. It does not change the scenario, but takes several times as long.
	Invariants bool
	// MaxEvents bounds the events of a scenario; 0 stands for 50 million, which take less than a minute. Scenarios that
	// pass have at most 2 million. Without the bound, a protocol that loops would take hours to reach the end of
	// patience.
	MaxEvents uint64
	// MaxBytes bounds the memory of the process, including concurrent scenarios; 0 stands for 3 GB.
	MaxBytes uint64
	// Trace, if not nil, is called with a line for every event.
	Trace func(line string)

	// observe, if not nil, receives all events on nodes.
	observe func(sim.Observation)
}

// Result is the outcome of a seed.
type Result struct {
	Engine                string
	Broken, Hostile, Slow bool
	Core, Buggify, Disk   bool
	Replace, Invariants   bool
	Checkpoints           bool
	Runs, Wide            bool
	Seed                  uint64
	// Level is Config.Level.
	Level isolation.Level
	// World describes the scenario of the seed as text.
	World string
	// Problems are the problems found; empty if the seed passed.
	Problems []Problem
	// Invariant is the name of the first invariant that was violated, or empty.
	Invariant string
	// Anomaly is the anomaly of the history, or empty. Panic is the value with which the protocol panicked, or empty.
	Anomaly history.Anomaly
	Panic   string
	// Premature is set if, at some time, copies differed although nothing was pending, unanswered or in flight. A driver
	// that waits for a quiescent database would have compared the copies then. Only Janus promises to avoid that, so
	// Premature alone is not a problem.
	Premature bool
	// Transactions is the number of transactions sent, Committed the number committed. Lost is set if a region was lost,
	// Restarted if nodes crashed and restarted from their logs.
	Transactions, Committed int
	Lost, Restarted         bool
	// Torn counts the inputs that were lost from logs. Unread is set if a log could not be read.
	Torn   int
	Unread bool
	// Written counts the checkpoints. Largest is the size of the largest checkpoint, in bytes.
	Written, Largest int
	// Replaced counts the nodes that were lost and replaced.
	Replaced int
	// Stragglers counts the nodes that lag permanently (protocol.Straggler).
	Stragglers int
	// Mended is the longest time from the start of a new incarnation until the database was fully replicated again.
	Mended time.Duration
	// Cored is set if there was a second phase (Config.Core). Slowest is the latency of its slowest transaction.
	Cored   bool
	Slowest time.Duration
	// Virtual is the virtual time that passed, Events the number of simulated events.
	Virtual time.Duration
	Events  uint64
	// Marks counts the hits of coverage marks.
	Marks coverage.Hits
}

// Problem is a defect that a check found in an execution.
type Problem struct {
	Failure Failure
	// Text describes the problem in a few lines.
	Text string
}

// Run runs and judges the scenario of a seed. A panic of the engine is reported as a problem, and so is an engine that
// accepts none of the topologies that the seed draws.
func Run(c Config) *Result {
	w, err := newWorld(c)
	if err != nil {
		res := newResult(c)
		res.problem(Unmade, "world: %v", err)
		return res
	}
	res, _ := w.run(c)
	return res
}

// maxEvents is the default of Config.MaxEvents.
const maxEvents = 50_000_000

func newResult(c Config) *Result {
	return &Result{Engine: c.Engine.Name, Broken: c.Broken, Hostile: c.Hostile, Slow: c.Slow, Core: c.Core, Buggify: c.Buggify, Disk: c.Disk, Replace: c.Replace, Runs: c.Runs, Wide: c.Wide, Invariants: c.Invariants, Checkpoints: c.Checkpoints, Seed: c.Seed, Level: c.Level}
}

// run runs and judges the scenario. It also returns the execution.
func (w *world) run(c Config) (res *Result, e *execution) {
	if c.MaxEvents == 0 {
		c.MaxEvents = maxEvents
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = maxBytes
	}
	res = newResult(c)
	res.Unread = slices.ContainsFunc(w.faults, func(f fault) bool { return f.kind == unreadable })
	res.World, res.Lost, res.Restarted, res.Cored = w.String(), len(w.lost())+len(w.core.faults) > 0, w.durable, w.core.begins > 0
	e = newExecution(c, w, &res.Marks)
	defer func() {
		p := recover()
		// Copy the counters before anything else: the caller needs them even if the protocol panicked halfway.
		res.Written, res.Largest = e.written, e.largest
		res.Events, res.Torn, res.Replaced, res.Mended = e.sim.Events(), e.torn, e.replaced, e.mended
		defer func() {
			if b := e.sim.Broken(); b != nil {
				res.Invariant = b.Name
				// Insert the violation first. Later problems, including a panic, are usually its consequences.
				res.Problems = slices.Insert(res.Problems, 0, Problem{Violated, "invariant: " + b.String()})
			}
		}()
		switch p := p.(type) {
		// The simulator panics with a Standstill if events at one instant never end. The protocol is at fault, but did not
		// itself panic.
		case nil:
		case *sim.Standstill:
			res.problem(Endless, "completion: %v", p)
		default:
			res.Panic = fmt.Sprint(p)
			res.problem(Panicked, "panic: %v\n%s", p, debug.Stack())
		}
	}()
	e.run(c, res)
	e.judge(c, res)
	if e.mayRunAgain(res) {
		e.runAgain(c, res)
	}
	if e.misreported != nil {
		res.problem(Misreported, "figures: %v", e.misreported)
	}
	return res, e
}

// execution is a running scenario.
type execution struct {
	*world
	sim     *sim.Sim
	layout  geo.Layout
	taps    history.Taps
	clients []*clients
	// restless describes rows that changed although nothing was pending, unanswered or in flight; empty for none.
	restless string
	// misreported is the first figure that was not as declared; nil for none.
	misreported error
	// submitted are the transactions that were sent, ordered by time; answers maps their IDs to their answers.
	submitted []call
	answers   map[txn.ID]answer
	// verdict is the verdict on the history; nil if the history was not judged.
	verdict *history.Verdict
	// pending is the number of pending transactions when patience ended or everything was complete. It is stored, because
	// an idle group may later elect a leader, which has pending work until it has learned the state of all members.
	pending int
	// injector plays the timeline; nil for none.
	injector *simulated.Injector
	// torn counts the inputs that were lost from logs.
	torn int
	// written and largest are defined as in Result.
	written, largest int
	// replaced counts the nodes that were lost and replaced.
	replaced int
	// away counts lost nodes whose next incarnation has not started yet.
	away int
	// mended is defined as in Result.
	mended time.Duration
	// marks counts coverage marks for Result. say reports the start of a fault to Config.Trace.
	marks *coverage.Hits
	say   func(fault)
	// nextLosses are the nodes that may be lost as soon as all copies exist again; empty for none. lossRNG draws the time
	// until their next incarnations.
	nextLosses []nextLoss
	lossRNG    *rand.Rand
	// second is set once the second run has started.
	second bool
}

func newExecution(c Config, w *world, marks *coverage.Hits) *execution {
	procedures := w.load.procedures()
	observe := c.observe
	if c.Trace != nil {
		observe = func(o sim.Observation) { c.Trace(o.String()) }
	}
	e := &execution{world: w, answers: map[txn.ID]answer{}, marks: marks, taps: history.Taps{
		Placement: w.topology.Placement(), Procedures: procedures, History: history.History{KeyName: w.load.keyName()},
	}}
	e.say = func(f fault) {
		if c.Trace != nil {
			c.Trace(fmt.Sprintf("%11.3fms fault: %s", float64(e.sim.Now())/1e6, f.describe(w.topology)))
		}
	}
	e.loseAtOnce(c)
	e.sim = sim.New(sim.Config{
		Topology: w.topology, Engine: c.Engine, Params: w.params, Procedures: procedures, Seed: w.seed,
		Coordinators: w.coordinators, Costs: w.costs, ClockOffsets: w.offsets, CheckCodec: w.codec, Durable: w.durable, Shrink: w.wide.shrink, Buggify: w.rare, Marks: marks,
		Trace: observe, Check: c.Invariants, Figures: func(err error) { e.misreported = cmp.Or(e.misreported, err) },
	})
	e.layout = c.Engine.Layout(w.topology, w.params)
	w.load.fill(e.layout, e.sim)
	w.wide.fill(e.layout, e.sim)
	for r, name := range w.topology.Regions {
		cl := &clients{
			execution: e, region: geo.Region(r), rng: newRNG(w.seed, uint64(streamClients+r)), stream: uint32(r) + 1,
			sent: make([]uint64, w.load.clients), waits: make([]bool, w.load.clients), tries: make([]*txn.Transaction, w.load.clients), script: w.script(geo.Region(r)),
			generator: w.newGenerator(geo.Region(r)),
		}
		e.clients = append(e.clients, cl)
		client := func(env protocol.ClientEnv) protocol.Client {
			cl.env = env
			return cl
		}
		if !w.wide.plain {
			client = e.taps.Client(name, w.load.clientOf, client)
		}
		e.sim.AddClient(geo.Region(r), client)
	}
	if w.disks.sync > 0 {
		for n := range geo.NodeID(w.topology.Nodes()) {
			e.sim.HoldOutput(n, w.disks.sync, w.disks.share)
		}
	}
	if c.Checkpoints {
		e.writeCheckpoints()
	}
	for _, f := range slices.Concat(w.faults, w.core.faults) {
		e.sim.At(f.at, func() {
			e.say(f)
			e.inject(f)
		})
	}
	e.play(c)
	if e.core.begins > 0 {
		e.sim.At(e.core.breaks, func() { e.sim.SetLinks(e.core.links) })
		e.sim.At(e.core.begins, e.beginCore)
	}
	return e
}

func (e *execution) inject(f fault) {
	switch f.kind {
	case cut:
		e.sim.Cut(f.a, f.b)
	case heal:
		e.sim.Heal(f.a, f.b)
	case crash:
		e.crash(f)
	case restart:
		e.sim.Restart(f.node)
	case jump:
		e.sim.SetClock(f.node, e.offsets[f.node]+f.by)
	case vanish:
		e.vanish(f)
	case lose, unreadable:
		t := e.topology
		for n := range geo.NodeID(t.Nodes()) {
			if t.RegionOf(n) == f.a {
				e.sim.Crash(n)
			}
		}
	}
}

// run advances virtual time until everything is complete, at most to the end of patience or of the event budget.
func (e *execution) run(c Config, res *Result) {
	// Overlapping cuts of a link end with the first heal, so no link is cut after the last heal.
	calm := max(e.calm, e.load.until, e.core.ends, e.lastCall())
	mark := uint64(0)     // event count at which memory is checked next
	differed := uint64(0) // event count at which copies differed; while it is unchanged they still do
	patient := calm + e.patience(c.Engine)
	for e.sim.Now() < patient && e.sim.Events() < c.MaxEvents {
		if e.sim.Events() >= mark {
			mark = e.sim.Events() + memoryEvents
			if bytes, is := bloated(c.MaxBytes); is {
				res.problem(Bloated, "memory: %d MB are used by this scenario and those that run beside it; run it alone", bytes>>20)
				break
			}
		}
		if e.sim.Now() < calm {
			e.sim.Run(min(e.sim.Now()+look, calm))
			continue
		}
		if e.stragglers() > 0 {
			// The engine promises no completion with stragglers, so do not wait for it: see judgeCompletion.
			patient = min(patient, calm+e.patience(c.Engine)/10)
		}
		// Comparing copies is expensive. Without an event since the last comparison, its result cannot have changed.
		if e.open() == 0 && e.quiet() && differed != e.sim.Events() {
			if e.converged().Passed {
				break
			}
			differed = e.sim.Events()
			// Copies may differ while messages are in flight. Only a difference without any is premature.
			res.Premature = res.Premature || !e.sim.Underway(e.sim.Now()+1)
		}
		e.sim.Run(e.sim.Now() + look)
	}
	res.Virtual, res.Events, e.pending = e.sim.Now(), e.sim.Events(), e.unfinished()
	if e.complete() && !res.Has(Bloated) {
		e.watch(c)
	}
}

// watch records whether the rows of a quiescent database change. First it waits for messages that were in flight, and
// for everything that they cause, because such messages are not pending at any node. For example, a call from a lost
// node may still be executed and replicated. Drivers wait in the same way.
func (e *execution) watch(c Config) {
	patient := e.sim.Now() + e.patience(c.Engine)
	ends := func() bool { return e.sim.Now() >= patient || e.sim.Events() >= c.MaxEvents }
	for followed := true; followed && !ends(); {
		// Add 1 to include messages sent at this very instant: Underway counts only earlier ones.
		quiet, operations := e.sim.Now()+1, e.sim.Operations()
		for (e.sim.Underway(quiet) || !e.quiet()) && !ends() {
			e.sim.Run(e.sim.Now() + look)
		}
		// Storage operations during the wait may have caused further messages, so wait for those, too.
		followed = e.sim.Operations() != operations
	}
	e.restless = simload.Restless(e.sim, e.topology)
}

// quiet reports whether all nodes that will still start have started, the timeline is over, and nothing is pending.
func (e *execution) quiet() bool { return e.away == 0 && e.played() && e.unfinished() == 0 }

// unfinished returns the amount of pending work, without nodes that lag permanently.
func (e *execution) unfinished() int {
	sum := e.sim.Pending()
	for n := range geo.NodeID(e.topology.Nodes()) {
		if e.lags(n) {
			sum -= e.sim.Node(n).Pending
		}
	}
	return sum
}

// lags reports whether a node lags permanently in a scenario with small thresholds (wide.shrink). With the usual
// thresholds no scenario is long enough to reach that state. There, a lagging node counts as a failure, because it
// never finishes.
func (e *execution) lags(n geo.NodeID) bool { return e.wide.shrink > 0 && e.sim.Node(n).Lags }

// stragglers counts the nodes that lag permanently.
func (e *execution) stragglers() (count int) {
	for n := range geo.NodeID(e.topology.Nodes()) {
		if e.lags(n) {
			count++
		}
	}
	return count
}

// open counts the transactions without an answer, plus the scripted transactions that have not been sent.
func (e *execution) open() (n int) {
	for _, c := range e.clients {
		n += c.open
		for _, left := range c.script {
			n += len(left)
		}
	}
	return n
}

// converged checks that the copies of all live nodes are equal, except nodes that lag permanently.
func (e *execution) converged() workload.Check {
	return audit.Converged(&e.layout, e.audits(func(n geo.NodeID) []store.ShardSums {
		return audit.Digests(n, &e.layout, e.sim.Store(n), !e.wide.plain)
	}))
}

// audits applies of to every live node that keeps up, and records a reason for each omitted node.
func (e *execution) audits(of func(geo.NodeID) []store.ShardSums) (a audit.Audits) {
	a.Out = make([]string, e.topology.Nodes())
	for n := range geo.NodeID(e.topology.Nodes()) {
		var held []store.ShardSums
		switch {
		case e.sim.Node(n).Dead:
			a.Out[n] = "it is lost"
		case e.lags(n):
			a.Out[n] = "it lags permanently"
		default:
			held = of(n)
		}
		a.Nodes = append(a.Nodes, held)
	}
	return a
}

// judge checks the execution and adds the problems that it finds to res.
func (e *execution) judge(c Config, res *Result) {
	e.countReplaced()
	res.Stragglers = e.stragglers()
	// The execution was cut short for lack of memory. It proves nothing about the protocol.
	if res.Has(Bloated) {
		return
	}
	if res.Events >= c.MaxEvents {
		res.problem(Endless, "completion: %d events have happened by %v, and no end is in sight", res.Events, res.Virtual)
		return
	}
	for _, cl := range e.clients {
		for _, n := range cl.sent {
			res.Transactions += int(n)
		}
		res.Committed += cl.outcomes[txn.Committed]
	}
	if res.Stragglers == 0 {
		e.judgeCompletion(c, res)
	}
	if e.restless != "" {
		res.problem(Restless, "pending: %s", e.restless)
	}
	if err := e.taps.Finish(); err != nil {
		res.problem(Unrecorded, "history: %v", err)
	}
	if n, example := e.taps.Misclassified(); n > 0 {
		res.problem(Misclassified, "class: %d committed transactions have a wrong Outcome.Class: %s", n, example)
	}
	// While a straggler's pending work is incomplete, other copies may differ as well; nothing is promised then.
	if check := e.converged(); !check.Passed && (res.Stragglers == 0 || e.complete()) {
		res.problem(Diverged, "convergence: %s%s", check.Message, e.difference())
	}
	// The history may be wrong by design here, unless the caller demands a level.
	if e.loses(c.Engine) && c.Level == 0 {
		return
	}
	level := c.Level
	if level == 0 {
		level = c.Engine.Promises(e.params)
	}
	e.judgeRun(res, level)
	if e.verdict = history.Check(&e.taps.History, level); !e.verdict.Passed {
		res.Anomaly = e.verdict.Anomaly
		res.problem(Anomalous, "%s", e.verdict.Check().Message)
	}
}

// complete reports whether every transaction is answered, and no node had pending work when the run ended. Nodes that
// lag permanently do not count.
func (e *execution) complete() bool { return e.pending == 0 && e.open() == 0 }

// judgeCompletion looks for missing and late answers. Engines promise answers after the loss of nodes and regions, but
// not if a node lags permanently. With such nodes judge skips this check, and compares copies only if everything
// completed.
func (e *execution) judgeCompletion(c Config, res *Result) {
	if e.pending > 0 {
		res.problem(Unanswered, "completion: the nodes still have %d transactions pending", e.pending)
	}
	doubtful := 0
	for r, cl := range e.clients {
		doubtful += cl.outcomes[txn.Refused] + cl.outcomes[txn.Unknown]
		if cl.open > 0 {
			res.problem(Unanswered, "completion: %d transactions of the clients in %s have no answer %v after "+
				"the last fault and the last transaction", cl.open, e.topology.Regions[r], e.patience(c.Engine))
		}
	}
	// Any loss of a node may lose calls in flight, so refused and unknown outcomes are legitimate then.
	if doubtful > 0 && !res.Lost && !res.Restarted && e.replaced == 0 && !e.loses(c.Engine) {
		res.problem(Doubtful, "completion: %d transactions were refused or ended with an unknown outcome, "+
			"although no node was lost", doubtful)
	}
	e.judgeCore(res)
	if e.injector != nil && !e.injector.Over() {
		res.problem(Unanswered, "completion: the timeline is not over %v after its last fault: %v",
			e.patience(c.Engine), e.injector.Err)
	}
}

// difference returns a text with the first row on which two copies disagree, or an empty text.
func (e *execution) difference() string {
	first := map[int]geo.NodeID{}
	name := e.taps.History.KeyName
	if name == nil {
		name = txn.Key.String
	}
	for n := range geo.NodeID(e.topology.Nodes()) {
		if e.sim.Node(n).Dead || e.lags(n) {
			continue
		}
		for _, shard := range e.layout.ShardsOf(n) {
			a, ok := first[shard]
			if !ok {
				first[shard] = n
				continue
			}
			mine := func(k txn.Key) bool { return !k.Everywhere() && e.layout.Shard(k) == shard }
			for _, d := range history.Differences(e.sim.Store(a), e.sim.Store(n), mine, 1) {
				return fmt.Sprintf("\n%s is %s in %s and %s in %s", name(d.Key), show(d.A.Writer, d.InA), e.topology.NodeName(a),
					show(d.B.Writer, d.InB), e.topology.NodeName(n))
			}
		}
	}
	return ""
}

func show(version txn.ID, there bool) string {
	if !there {
		return "missing"
	}
	return "the version of " + version.String()
}
