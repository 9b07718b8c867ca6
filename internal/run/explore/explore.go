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
	// Level is the isolation level that histories must satisfy. 0 selects the level that the engine promises for the
	// parameters of the scenario.
	Level isolation.Level
	// Broken is set for engines of package broken.
	Broken bool
	// Hostile makes the scenarios of all seeds more extreme. Duration parameters go down to the engine's minimum. There
	// are up to five regions, and up to three times as many cuts. Two regions are lost if the protocol tolerates that.
	Hostile bool
	// OnePartition restricts scenarios to one partition and one replica per region, for engines that support nothing else.
	OnePartition bool
	// Slow prolongs the load: clients send the same number of transactions in ten times the time, and the clients of every
	// second region only read. Cuts are long, so that leaders change under load.
	Slow bool
	// Core adds a second phase to the scenarios of databases that tolerate the loss of regions. After the last fault,
	// links stop losing messages, and as many regions as the database tolerates may be lost permanently. The clients of
	// the remaining regions then send again. Each of these transactions must be answered within the time that
	// protocol.Tolerance promises.
	Core bool
	// Buggify makes replicas take rare actions at points that the seed enables (package buggify). The actions stop
	// when the last fault has ended and the last transaction was sent. The rest of the scenario is unchanged.
	Buggify bool
	// Disk changes the scenarios of all seeds. Nodes have logs wherever possible, and syncs take time. Crashing nodes lose
	// unsynced data. If the database tolerates the loss of a region, logs may also become unreadable.
	Disk bool
	// Replace changes the scenarios of all seeds if the engine replaces lost nodes. No node has a log. Nodes lose their
	// processes and memory, one at a time or a whole region together, and empty nodes replace them. No region is lost
	// permanently.
	Replace bool
	// Runs makes the scenarios of all seeds resemble measured runs. The faults form a timeline like spec.faults of a
	// BenchmarkRun, with every kind of fault that simulations support. The injector of simulated runs injects them. Half
	// of the scenarios use a workload of runs and check its invariants. Half of them have an open loop.
	Runs bool
	// Wide changes the scenarios of all seeds. Parameters take any value that the engine allows, drawn from a log-uniform
	// distribution. Clients retry aborted transactions. There are more and larger rows. Thresholds at which replicas
	// change their behavior are small. A second run with the same transaction IDs may follow.
	Wide bool
	// Checkpoints makes every node write its state up to ten times. After a crash, a node with a log starts from its last
	// checkpoint. In half of the cases, a node continues from the state that it has just written. The only other change to
	// the scenario is that restarts are faster, because the logs are shorter.
	Checkpoints bool
	// Invariants checks the invariants of replicas and rows after every step, so that a violation is found before it
	// affects an answer. The scenario stays the same, but its execution takes several times as long.
	Invariants bool
	// MaxEvents is the maximum number of events in a scenario; 0 selects 200 million, which take a few minutes.
	// Scenarios that pass have at most 2 million. Without this limit, an endless loop in a protocol would run for hours,
	// until the explorer's patience ends.
	MaxEvents uint64
	// MaxBytes is the maximum heap size of the process, including concurrent scenarios; 0 selects 3 GB.
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
	// Level is the value of Config.Level.
	Level isolation.Level
	// World describes the scenario of the seed as text.
	World string
	// Problems are the problems that the checks found; empty if the seed passed.
	Problems []Problem
	// Invariant is the name of the first invariant that was violated, or empty.
	Invariant string
	// Anomaly is the anomaly in the history, or empty. Panic is the text of the protocol's panic, or empty.
	Anomaly history.Anomaly
	Panic   string
	// Premature is set if, at some time, copies differed although no transaction was pending or unanswered and no message
	// was in flight. A driver that waits for a quiescent database would have compared the copies at that time. Only Janus
	// rules this out, so Premature alone is not a problem.
	Premature bool
	// Transactions is the number of transactions that clients sent, and Committed the number that committed. Lost is set
	// if a region was lost. Restarted is set if nodes crashed and restarted from their logs.
	Transactions, Committed int
	Lost, Restarted         bool
	// Torn is the number of inputs that were lost from logs. Unread is set if a log could not be read.
	Torn   int
	Unread bool
	// Written is the number of checkpoints. Largest is the size of the largest one, in bytes.
	Written, Largest int
	// Replaced is the number of nodes that were lost and replaced.
	Replaced int
	// Stragglers is the number of nodes that lag permanently (protocol.Straggler).
	Stragglers int
	// Mended is the longest time that the database took to become fully replicated again after a new incarnation had
	// started.
	Mended time.Duration
	// Cored is set if there was a second phase (Config.Core). Slowest is the latency of the slowest transaction in that
	// phase.
	Cored   bool
	Slowest time.Duration
	// Virtual is the virtual time at the end, and Events the number of simulated events.
	Virtual time.Duration
	Events  uint64
	// Marks contains the number of hits of each coverage mark.
	Marks coverage.Hits
}

// Problem is a defect that a check found in an execution.
type Problem struct {
	Failure Failure
	// Text describes the problem in a few lines.
	Text string
}

// Run runs the scenario of a seed and checks the execution. It reports a panic of the engine as a problem. It also
// reports a problem if the engine rejects all topologies that the seed draws.
func Run(c Config) *Result {
	w, err := newWorld(c)
	if err != nil {
		res := newResult(c)
		res.problem(Unmade, "scenario: %v", err)
		return res
	}
	res, _ := w.run(c)
	return res
}

// maxEvents is the default value of Config.MaxEvents. A sound scenario has had 70 million: its failure timeout was three
// minutes, its gossip interval a millisecond.
const maxEvents = 200_000_000

func newResult(c Config) *Result {
	return &Result{Engine: c.Engine.Name, Broken: c.Broken, Hostile: c.Hostile, Slow: c.Slow, Core: c.Core, Buggify: c.Buggify, Disk: c.Disk, Replace: c.Replace, Runs: c.Runs, Wide: c.Wide, Invariants: c.Invariants, Checkpoints: c.Checkpoints, Seed: c.Seed, Level: c.Level}
}

// run runs the scenario and checks the execution, which it also returns.
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
		// Copy the counters first, because the caller needs them even if the protocol panicked.
		res.Written, res.Largest = e.written, e.largest
		res.Events, res.Torn, res.Replaced, res.Mended = e.sim.Events(), e.torn, e.replaced, e.mended
		defer func() {
			if b := e.sim.Broken(); b != nil {
				res.Invariant = b.Name
				// Insert the violation first, because later problems, including a panic, are usually its consequences.
				res.Problems = slices.Insert(res.Problems, 0, Problem{Violated, "invariant: " + b.String()})
			}
		}()
		switch p := p.(type) {
		// The simulator panics with a Standstill if virtual time stops because events of a single instant never end. The
		// protocol is the cause, but this is not a panic of the protocol.
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

// execution is a scenario during its execution.
type execution struct {
	*world
	sim     *sim.Sim
	layout  geo.Layout
	taps    history.Taps
	clients []*clients
	// restless describes a change of rows that happened although no transaction was pending or unanswered and no message
	// was in flight; empty for none.
	restless string
	// misreported is the first error about a figure that contradicts its declaration; nil for none.
	misreported error
	// submitted contains the transactions that clients sent, ordered by time. answers maps transaction IDs to answers.
	submitted []call
	answers   map[txn.ID]answer
	// verdict is the result of the history check; nil if the history was not checked.
	verdict *history.Verdict
	// pending is the number of transactions pending at nodes when everything was complete or patience had ended. It is
	// stored at that time because the number may grow again. An idle group may elect a leader, which has pending work
	// until it knows the state of all members.
	pending int
	// injector injects the faults of the timeline; nil without a timeline.
	injector *simulated.Injector
	// torn is the number of inputs that were lost from logs.
	torn int
	// written and largest are defined as in Result.
	written, largest int
	// replaced is the number of nodes that were lost and replaced.
	replaced int
	// away is the number of lost nodes whose next incarnation has not started yet.
	away int
	// mended is defined as in Result.
	mended time.Duration
	// marks counts the hits of coverage marks. say reports the start of a fault to Config.Trace.
	marks *coverage.Hits
	say   func(fault)
	// nextLosses are losses that may follow as soon as all copies exist again; empty for none. lossRNG draws the time
	// between a loss and the start of the next incarnation.
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

// run advances virtual time until everything is complete, patience has ended, or the event limit is reached.
func (e *execution) run(c Config, res *Result) {
	// The first heal of a link ends all of its cuts, so no link is cut after the last heal.
	calm := max(e.calm, e.load.until, e.core.ends, e.lastCall())
	mark := uint64(0)     // event count at which to check the memory next
	differed := uint64(0) // event count at which copies differed; the result holds until the next event
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
			// The engine does not promise completion with stragglers, so shorten the wait: see judgeCompletion.
			patient = min(patient, calm+e.patience(c.Engine)/10)
		}
		// A comparison of copies is expensive. Without an event since the last comparison, the result cannot have changed.
		if e.open() == 0 && e.quiet() && differed != e.sim.Events() {
			if e.converged().Passed {
				break
			}
			differed = e.sim.Events()
			// Copies may differ while messages are in flight, so only a difference without any message in flight is premature.
			res.Premature = res.Premature || !e.sim.Underway(e.sim.Now()+1)
		}
		e.sim.Run(e.sim.Now() + look)
	}
	res.Virtual, res.Events, e.pending = e.sim.Now(), e.sim.Events(), e.unfinished()
	if e.complete() && !res.Has(Bloated) {
		e.watch(c)
	}
}

// watch records whether rows of a quiescent database change. It first waits for messages in flight and for all their
// effects, because no node counts such messages as pending. For example, a message from a lost node may still be
// executed and replicated. Drivers also wait in this way.
func (e *execution) watch(c Config) {
	patient := e.sim.Now() + e.patience(c.Engine)
	ends := func() bool { return e.sim.Now() >= patient || e.sim.Events() >= c.MaxEvents }
	for followed := true; followed && !ends(); {
		// Underway counts messages sent before the given time, so add 1 to include messages sent at this instant.
		quiet, operations := e.sim.Now()+1, e.sim.Operations()
		for (e.sim.Underway(quiet) || !e.quiet()) && !ends() {
			e.sim.Run(e.sim.Now() + look)
		}
		// Operations on rows during the wait may have sent further messages, so wait for these as well.
		followed = e.sim.Operations() != operations
	}
	e.restless = simload.Restless(e.sim, e.topology)
}

// quiet reports whether every new incarnation has started, the timeline is over, and no node has pending work.
func (e *execution) quiet() bool { return e.away == 0 && e.played() && e.unfinished() == 0 }

// unfinished returns the number of pending transactions at all nodes except nodes that lag permanently.
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
// thresholds, no scenario is long enough for this. If a node lags nevertheless, the scenario fails, because the node
// never completes its pending work.
func (e *execution) lags(n geo.NodeID) bool { return e.wide.shrink > 0 && e.sim.Node(n).Lags }

// stragglers returns the number of nodes that lag permanently.
func (e *execution) stragglers() (count int) {
	for n := range geo.NodeID(e.topology.Nodes()) {
		if e.lags(n) {
			count++
		}
	}
	return count
}

// open returns the number of transactions without an answer, plus the scripted transactions that clients have not sent.
func (e *execution) open() (n int) {
	for _, c := range e.clients {
		n += c.open
		for _, left := range c.script {
			n += len(left)
		}
	}
	return n
}

// converged checks that the copies of all live nodes are equal. It ignores nodes that lag permanently.
func (e *execution) converged() workload.Check {
	return audit.Converged(&e.layout, e.audits(func(n geo.NodeID) []store.ShardSums {
		return audit.Digests(n, &e.layout, e.sim.Store(n), !e.wide.plain)
	}))
}

// audits calls of for every live node that does not lag, and records for each other node why it is omitted.
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
	// The execution was stopped because it used too much memory. This shows nothing about the protocol.
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
	// While a straggler has pending work, the copies at other nodes may differ as well. The engine promises nothing in
	// that case.
	if check := e.converged(); !check.Passed && (res.Stragglers == 0 || e.complete()) {
		res.problem(Diverged, "convergence: %s%s", check.Message, e.difference())
	}
	// If the database may lose acknowledged transactions by design, skip the history unless the caller requires a level.
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

// complete reports whether every transaction was answered and no node had pending work at the end. Nodes that lag
// permanently are ignored.
func (e *execution) complete() bool { return e.pending == 0 && e.open() == 0 }

// judgeCompletion checks for missing and late answers. Engines promise answers despite lost nodes and regions, but not
// if a node lags permanently. In that case judge skips this check, and compares copies only if everything completed.
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
	// The loss of a node may lose transactions in flight, so refused and unknown outcomes are legitimate in that case.
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

// difference describes the first row on which two copies disagree; empty if there is none.
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
