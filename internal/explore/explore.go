package explore

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/audit"
	"github.com/geobench/geobench/internal/buggify"
	"github.com/geobench/geobench/internal/fault/simulated"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/history"
	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/probe"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/sim"
	"github.com/geobench/geobench/internal/sim/simtest"
	"github.com/geobench/geobench/internal/txn"
	"github.com/geobench/geobench/internal/workload"
)

// Config says what to run.
type Config struct {
	Engine *protocol.Engine
	Seed   uint64
	// Level is what histories must be; 0 is what the engine promises with the parameters of the world.
	Level isolation.Level
	// Broken says that the engine is one of package broken's.
	Broken bool
	// Hostile makes other worlds of the seeds, such as nobody would choose: durations among the parameters down to the
	// least that the engine allows, up to five regions, up to three times as many cuts, and two regions lost where the
	// protocol survives that.
	Hostile bool
	// OnePartition makes worlds with one partition and one replica per region, for engines that know no others.
	OnePartition bool
	// Slow makes clients take their time: they send as much over ten times as long, those of every second region only
	// read, and cuts are long, so that leaders change under load.
	Slow bool
	// Core adds a second phase to the worlds of databases that survive the loss of regions: when the faults are over, links lose
	// nothing any more, regions that the database survives without are lost for good, and the clients of the others send again. Each of
	// these transactions must be answered in time: see protocol.Survival.
	Core bool
	// Buggify has replicas do what is rare, at points that the seed switches on, until the last fault is over and the last transaction
	// sent: see package buggify. It changes nothing else about the world.
	Buggify bool
	// Disk makes other worlds of the seeds: nodes have logs wherever that is possible, syncs take time, those that crash lose what they had
	// not synced, and logs cannot be read where the database survives that.
	Disk bool
	// Replace makes other worlds of the seeds, where the engine replaces lost nodes: none has a log, and nodes lose their processes
	// and memory, one after the other or all of a region at once, and empty ones take their places. No region is lost for good.
	Replace bool
	// Runs makes other worlds of the seeds, such as measured runs have: faults are a timeline as spec.faults of a BenchmarkRun is, of every
	// kind that simulations play, and are played by the same injector; half of them have a run's workload, whose invariants are checked,
	// and half an open loop.
	Runs bool
	// Wide makes other worlds of the seeds: parameters have any value that the engine allows, with a uniform logarithm, clients try again what was
	// aborted, rows are more and larger, amounts from which on replicas do something else are small, and a second run with the same ids may follow.
	Wide bool
	// Checkpoints has every node write its state up to ten times. Those with logs start from there when they have crashed, and half of the
	// time a node goes on from what was written. It changes nothing else about a world; a node starts again sooner from a shorter log.
	Checkpoints bool
	// Invariants asks replicas after every step whether what they believe holds, and looks at their rows: what is wrong shows there
	// before it shows in answers. It changes nothing about a world, and takes some times as long.
	Invariants bool
	// MaxEvents bounds the events of a world; 0 is 50 million, which take less than a minute. Worlds that pass have 2
	// million at most. A protocol that goes in a circle, and uses CPU time on the way, would take hours until its
	// patience ends.
	MaxEvents uint64
	// MaxBytes bounds the memory of the process, including concurrent scenarios; 0 is 3 GB.
	MaxBytes uint64
	// Trace, if not nil, gets a line for everything that happens.
	Trace func(line string)

	// observe, if not nil, is told of everything that happens on nodes.
	observe func(sim.Observation)
}

// Result tells how a seed went.
type Result struct {
	Engine                string
	Broken, Hostile, Slow bool
	Core, Buggify, Disk   bool
	Replace, Invariants   bool
	Checkpoints           bool
	Runs, Wide            bool
	Seed                  uint64
	// Level is the Config's.
	Level isolation.Level
	// World describes what the seed made, for a person.
	World string
	// Problems are what is wrong. There is none when the seed passed.
	Problems []Problem
	// Invariant is the name of the first one that did not hold, empty if all did.
	Invariant string
	// Anomaly is that of the history, empty if there is none; Panic is what the protocol panicked with.
	Anomaly history.Anomaly
	Panic   string
	// Premature tells that at some time nothing was pending, unanswered or under way although copies differed: a driver
	// that waits for a quiet database would have compared them then. Only Janus promises not to do that, so it is no
	// problem of its own.
	Premature bool
	// Transactions were sent, Committed of them were committed. Lost tells that a region was lost, Restarted that nodes
	// crashed and started again from their logs.
	Transactions, Committed int
	Lost, Restarted         bool
	// Torn counts the inputs that logs have lost, Unread tells that one could not be read.
	Torn   int
	Unread bool
	// Written counts the checkpoints, and Largest is the size of the largest one of a replica, in bytes.
	Written, Largest int
	// Replaced counts the nodes that were lost and replaced.
	Replaced int
	// Stragglers counts the nodes that lag permanently (protocol.Straggler).
	Stragglers int
	// Mended is the longest time from the coming of a new incarnation until all copies were there again, and counted.
	Mended time.Duration
	// Cored tells that there was a second phase, and Slowest is how long its slowest transaction took.
	Cored   bool
	Slowest time.Duration
	// Virtual is the virtual time that passed, Events how many things happened.
	Virtual time.Duration
	Events  uint64
	// Probes counts those that the world has hit.
	Probes probe.Hits
}

// Problem is something that is wrong with an execution.
type Problem struct {
	Failure Failure
	// Text says it in a few lines.
	Text string
}

// Failure is a way in which executions can be wrong.
type Failure string

const (
	// Unmade is a world that could not be made.
	Unmade Failure = "world"
	// Violated is an invariant that did not hold, the first one. What follows from it is told, too.
	Violated Failure = "invariant"
	// Panicked is a protocol that panicked.
	Panicked Failure = "panic"
	// Endless is a protocol that does things without end: at one instant, or more than Config.MaxEvents.
	Endless Failure = "endless"
	// Bloated is a scenario that uses too much memory, alone or together with concurrent ones.
	Bloated Failure = "memory"
	// Unanswered are transactions that have no answer, or that nodes have pending, long after the last fault.
	Unanswered Failure = "completion"
	// Doubtful are transactions that were refused or have an unknown outcome although no node was lost.
	Doubtful Failure = "outcome"
	// Late are transactions of the second phase that took longer than the protocol promises.
	Late Failure = "core"
	// Restless is a database whose rows change although nothing is pending.
	Restless Failure = "pending"
	// Diverged are copies that differ.
	Diverged Failure = "convergence"
	// Misclassified are committed transactions with a wrong Outcome.Class.
	Misclassified Failure = "class"
	// Unrecorded is a history that could not be recorded to its end.
	Unrecorded Failure = "history"
	// Misreported are figures that are not as the engine declares them: a counter that falls, or a reading that is not declared.
	Misreported Failure = "figures"
	// Unsound is data of a run's workload that is not what it must be.
	Unsound Failure = "workload"
	// Anomalous is a history that is not what it must be.
	Anomalous Failure = "anomaly"
)

// Passed reports whether nothing is wrong.
func (r *Result) Passed() bool { return len(r.Problems) == 0 }

// Has reports whether one of the problems is of this kind.
func (r *Result) Has(f Failure) bool {
	return slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Failure == f })
}

// wrong is the problem that says most: that of the history, or else the first.
func (r *Result) wrong() Failure {
	if r.Has(Anomalous) {
		return Anomalous
	}
	return r.Problems[0].Failure
}

// Incomplete reports whether something had no end, or not in time.
func (r *Result) Incomplete() bool { return r.Has(Endless) || r.Has(Unanswered) || r.Has(Late) }

func (r *Result) problem(f Failure, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{f, fmt.Sprintf(format, args...)})
}

// Replay is the command that runs the seed again and shows everything that happens.
func (r *Result) Replay() string { return r.command() + " --trace" }

func (r *Result) command() string {
	flags := ""
	if r.Broken {
		flags += " --broken"
	}
	if r.Hostile && !r.Broken { // what is broken is hunted in the worlds that suit it
		flags += " --hostile"
	}
	if r.Slow && !r.Broken {
		flags += " --slow"
	}
	if r.Core && !r.Broken {
		flags += " --core"
	}
	if r.Buggify && !r.Broken {
		flags += " --buggify"
	}
	if r.Replace && !r.Broken {
		flags += " --replace"
	}
	if r.Runs {
		flags += " --runs"
	}
	if r.Wide {
		flags += " --wide"
	}
	if r.Invariants {
		flags += " --invariants"
	}
	if r.Checkpoints {
		flags += " --checkpoints"
	}
	if r.Disk && !r.Broken {
		flags += " --disk"
	}
	level := ""
	if r.Level != 0 {
		level = fmt.Sprintf(" --level %v", r.Level)
	}
	return fmt.Sprintf("geobench explore%s --engine %s --seed %d%s", flags, r.Engine, r.Seed, level)
}

// String describes a failure: the world, what is wrong with the execution, and how to see it again.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, seed %d\n%s", r.Engine, r.Seed, indent(r.World))
	for _, p := range buggify.All() {
		if n := r.Probes.Of(p.Probe); n > 0 {
			fmt.Fprintf(&b, "  on purpose: %s, %d times\n", p.Name, n)
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "WRONG: %s\n", strings.TrimSpace(p.Text))
	}
	fmt.Fprintf(&b, "replay: %s\n", r.Replay())
	return b.String()
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") + "\n"
}

const (
	// patience is how long after the last fault and the last transaction everything may take to complete. Janus's parameter
	// recovery is up to 8 s here, and who recovers may fail in turn.
	patience = 5 * time.Minute
	// look is the interval at which it is asked whether everything has.
	look = 50 * time.Millisecond
)

// Run runs the world of a seed and judges it. A panic of the engine is a problem like others, and so is an engine that takes none
// of the topologies that the seed draws.
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

// maxEvents bounds the events of a world unless the Config does.
const maxEvents = 50_000_000

func newResult(c Config) *Result {
	return &Result{Engine: c.Engine.Name, Broken: c.Broken, Hostile: c.Hostile, Slow: c.Slow, Core: c.Core, Buggify: c.Buggify, Disk: c.Disk, Replace: c.Replace, Runs: c.Runs, Wide: c.Wide, Invariants: c.Invariants, Checkpoints: c.Checkpoints, Seed: c.Seed, Level: c.Level}
}

// run runs the world and judges it. What it returns beside the result tells what has happened.
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
	e = newExecution(c, w, &res.Probes)
	defer func() {
		p := recover()
		res.Written, res.Largest = e.written, e.largest
		res.Events, res.Torn, res.Replaced, res.Mended = e.sim.Events(), e.torn, e.replaced, e.mended
		defer func() {
			if b := e.sim.Broken(); b != nil {
				res.Invariant = b.Name
				res.Problems = slices.Insert(res.Problems, 0, Problem{Violated, "invariant: " + b.String()})
			}
		}()
		switch p := p.(type) {
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

// execution is a world at work.
type execution struct {
	*world
	sim     *sim.Sim
	layout  geo.Layout
	taps    history.Taps
	clients []*clients
	// restless says which rows changed although nothing was pending, unanswered or under way; empty for none.
	restless string
	// misreported says which figure was not as declared first; nil for none.
	misreported error
	// submitted are the transactions that were sent, in the order of time, and answers what became of them.
	submitted []call
	answers   map[txn.ID]answer
	// verdict is the history's; nil where it was not judged.
	verdict *history.Verdict
	// pending is what was pending when patience ended, or everything was complete. A quiet group may elect a leader later,
	// which has to find out what the others have.
	pending int
	// injector plays the timeline; nil for none.
	injector *simulated.Injector
	// torn counts the inputs that logs have lost.
	torn int
	// written and largest are those of Result.
	written, largest int
	// replaced counts the nodes that were lost and replaced.
	replaced int
	// away counts those of them whose next incarnations have not come yet.
	away int
	// mended is that of Result.
	mended time.Duration
	// probes counts for Result, and say tells Config.Trace of a fault that begins.
	probes *probe.Hits
	say    func(fault)
	// nextLosses are the nodes that may be lost as soon as all copies are there again, if any; lossChance says for how long.
	nextLosses []nextLoss
	lossChance *rand.Rand
	// second says that the second run has begun.
	second bool
}

func newExecution(c Config, w *world, probes *probe.Hits) *execution {
	procedures := w.load.procedures()
	observe := c.observe
	if c.Trace != nil {
		observe = func(o sim.Observation) { c.Trace(o.String()) }
	}
	e := &execution{world: w, answers: map[txn.ID]answer{}, probes: probes, taps: history.Taps{
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
		Coordinators: w.coordinators, Costs: w.costs, ClockOffsets: w.offsets, CheckCodec: w.codec, Durable: w.durable, Shrink: w.wide.shrink, Buggify: w.rare, Probes: probes,
		Trace: observe, Check: c.Invariants, Figures: func(err error) { e.misreported = cmp.Or(e.misreported, err) },
	})
	e.layout = c.Engine.Layout(w.topology, w.params)
	w.load.fill(e.layout, e.sim)
	w.wide.fill(e.layout, e.sim)
	for r, name := range w.topology.Regions {
		cl := &clients{
			execution: e, region: geo.Region(r), rng: chance(w.seed, uint64(chanceClients+r)), stream: uint32(r) + 1,
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

// run lets time pass until everything is complete, at most to the end of patience or of events.
func (e *execution) run(c Config, res *Result) {
	// Overlapping cuts of a link heal with the first heal: after the last, none is left.
	calm := max(e.calm, e.load.until, e.core.ends, e.lastCall())
	mark := uint64(0)     // events at which the memory is to be looked at
	differed := uint64(0) // events at which copies differed: none happened since, so they still do
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
			// Nothing is promised: see judgeCompletion.
			patient = min(patient, calm+e.patience(c.Engine)/10)
		}
		if e.open() == 0 && e.quiet() && differed != e.sim.Events() {
			if e.converged().Passed {
				break
			}
			differed = e.sim.Events()
			res.Premature = res.Premature || !e.sim.Underway(e.sim.Now()+1)
		}
		e.sim.Run(e.sim.Now() + look)
	}
	res.Virtual, res.Events, e.pending = e.sim.Now(), e.sim.Events(), e.unfinished()
	if e.complete() && !res.Has(Bloated) {
		e.watch(c)
	}
}

// watch notes whether the rows of a quiet database change. What was under way when it became quiet is pending nowhere, so that is
// waited for, with all that follows from it, as drivers do: a call that a lost node has sent may still be carried out, and shipped.
func (e *execution) watch(c Config) {
	patient := e.sim.Now() + e.patience(c.Engine)
	ends := func() bool { return e.sim.Now() >= patient || e.sim.Events() >= c.MaxEvents }
	for followed := true; followed && !ends(); {
		quiet, operations := e.sim.Now()+1, e.sim.Operations()
		for (e.sim.Underway(quiet) || !e.quiet()) && !ends() {
			e.sim.Run(e.sim.Now() + look)
		}
		followed = e.sim.Operations() != operations
	}
	e.restless = simtest.Restless(e.sim, e.topology)
}

// quiet reports whether all nodes that will live do, and have nothing pending.
func (e *execution) quiet() bool { return e.away == 0 && e.played() && e.unfinished() == 0 }

// unfinished sums up the pending work of the nodes that do not lag permanently.
func (e *execution) unfinished() int {
	sum := e.sim.Pending()
	for n := range geo.NodeID(e.topology.Nodes()) {
		if e.lags(n) {
			sum -= e.sim.Node(n).Pending
		}
	}
	return sum
}

// lags reports whether a node lags permanently in a scenario with small amounts (wide.shrink). With the usual amounts
// no scenario lasts long enough for that. There such a node is a failure, because it never finishes.
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

// open counts the transactions that have no answer, and those of scripts that are not sent yet.
func (e *execution) open() (n int) {
	for _, c := range e.clients {
		n += c.open
		for _, left := range c.script {
			n += len(left)
		}
	}
	return n
}

// converged checks that the living nodes' copies are equal.
func (e *execution) converged() workload.Check {
	return audit.Converged(&e.layout, e.audits(func(n geo.NodeID) []audit.Shard {
		return audit.Digests(n, &e.layout, e.sim.Store(n), !e.wide.plain)
	}))
}

// audits sums up what the living nodes have. The others are left out.
func (e *execution) audits(of func(geo.NodeID) []audit.Shard) (a audit.Audits) {
	a.Out = make([]string, e.topology.Nodes())
	for n := range geo.NodeID(e.topology.Nodes()) {
		var held []audit.Shard
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

// judge looks for problems in what has happened.
func (e *execution) judge(c Config, res *Result) {
	e.countReplaced()
	res.Stragglers = e.stragglers()
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
	if check := e.converged(); !check.Passed && (res.Stragglers == 0 || e.complete()) {
		res.problem(Diverged, "convergence: %s%s", check.Message, e.difference())
	}
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

// complete reports whether the nodes that keep up have nothing pending, and every transaction is answered.
func (e *execution) complete() bool { return e.pending == 0 && e.open() == 0 }

// judgeCompletion looks for missing and late answers. Engines promise answers after the loss of nodes and regions, but
// not with nodes that lag permanently. With such nodes only histories are judged, and copies once all is complete.
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

// difference shows the first rows that two copies disagree on.
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
