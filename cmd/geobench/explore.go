package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/version"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/broken"
	"github.com/geobench/geobench/internal/run/explore"
)

const (
	// maxShown bounds the failing seeds, per engine, that are described in full.
	maxShown = 5
	// saveEvery is the number of seeds between two saves of the progress. Running them takes a few seconds.
	saveEvery = 100
)

// exploration is the state of an explore command, including its flags.
type exploration struct {
	names         []string
	first, count  uint64
	level         string
	shard         string
	state         string
	page          string
	trace, shrink bool
	broken        bool
	hostile, slow bool
	core, probes  bool
	buggify, disk bool
	replace, runs bool
	invariants    bool
	checkpoints   bool
	wide          bool

	ctx    context.Context
	out    io.Writer
	known  []string
	table  map[string]*protocol.Engine
	hunted map[string]broken.Database
	asked  isolation.Level // 0 for the level that the engine promises
	seeds  explore.Seeds   // seeds of the shard
	reach  *explore.Reach
	failed int
	// pageErr is the error from writing the page.
	pageErr error
}

func newExploreCommand() *cobra.Command {
	var x exploration
	cmd := &cobra.Command{
		Use:   "explore",
		Short: "Search for seeds with which a protocol gives wrong answers",
		Long: `Explore generates a scenario from each seed (topology, delays, loss, parameters, clocks, faults, transactions on contended rows), runs
it in the simulator, and checks that the history has the isolation level that the engine promises, or that --level names, that the
copies are equal in the end, and that every transaction was answered. With --hostile a seed generates an extreme scenario, and with
--slow one in which clients send transactions for ten times as long.
With --core a scenario continues after its faults: regions are lost permanently, and the others must answer within the protocol's bound.
With --buggify replicas are forced to take actions that are allowed but rare, at points that the seed selects, as in FoundationDB.
With --disk nodes keep logs on disks that take time to sync, lose unsynced data when their node crashes, and cannot always be read.
With --replace nodes lose their processes and memory, and new incarnations replace them, where the engine supports this.
With --runs scenarios resemble measured runs: their faults are a timeline as in spec.faults of a BenchmarkRun, of every kind that the
simulator supports, from the same injector; half have the workload of a run, whose invariants are checked, and half an open loop.
With --wide parameters have any value that the engine allows, clients retry, rows are more and larger, thresholds are bytes instead of
megabytes, and a second run with the same ids may follow.
With --checkpoints nodes write their states, and half of the time continue from the written state, also after crashes.
With --invariants the invariants of all replicas are checked after every step, which makes a run several times as slow.
With --probes it counts how often the scenarios hit the coverage marks of the protocols, such as recoveries and elections.
With --broken it explores faulty variants of the databases, each of which must be caught. The same seed gives the same execution.
A failure is printed with the command that replays it. With --shrink it searches for the minimal failing scenario, with a few
transactions, faults and regions, and prints its events in time order; that takes less than a minute for each seed.
With --shard I/N it runs every N-th of the seeds, so that N machines share them, and with --state FILE it continues where it stopped.`,
		Example: `  geobench explore --seeds 1000
  geobench explore --broken --seeds 400
  geobench explore --probes --seeds 10000
  geobench explore --engine calvin --seed 1234 --trace
  geobench explore --broken --engine snapshot --seed 2 --shrink
  geobench explore --seeds 1000000 --shard 0/16 --state shard-0.json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			x.ctx, x.out = cmd.Context(), cmd.OutOrStdout()
			if err := x.check(); err != nil {
				return err
			}
			return x.run()
		},
	}
	cmd.Flags().StringSliceVar(&x.names, "engine", nil, "`engines` to explore (default all)")
	cmd.Flags().Uint64Var(&x.first, "seed", 1, "the first `seed`")
	cmd.Flags().Uint64Var(&x.count, "seeds", 1, "the `number` of seeds")
	cmd.Flags().StringVar(&x.shard, "shard", "", "run the seeds of shard `I/N`, from 0/N to N-1/N: every N-th")
	cmd.Flags().StringVar(&x.state, "state", "", "keep the progress in this `file`, and continue from there")
	cmd.Flags().StringVar(&x.level, "level", "", "the isolation `level` of the histories to check for, instead of the one that the engine promises: "+strings.Join(isolation.Names(), ", "))
	cmd.Flags().BoolVar(&x.broken, "broken", false, "explore the faulty variants of the databases, each of which must be caught")
	cmd.Flags().BoolVar(&x.hostile, "hostile", false, "generate extreme scenarios: minimal durations, five regions, many partitions, two lost regions")
	cmd.Flags().BoolVar(&x.slow, "slow", false, "generate scenarios with slow clients and long partitions, so that leaders change under load")
	cmd.Flags().BoolVar(&x.core, "core", false, "add a second phase to the scenarios: regions whose loss the database tolerates are lost permanently, and clients of the others must be answered in time")
	cmd.Flags().BoolVar(&x.buggify, "buggify", false, "force replicas now and then to take actions that are allowed but rare, such as to suspect a node that is only slow")
	cmd.Flags().BoolVar(&x.disk, "disk", false, "generate scenarios with bad disks: nodes that crash lose unsynced data, and logs are unreadable where the database tolerates that")
	cmd.Flags().BoolVar(&x.replace, "replace", false, "generate scenarios in which nodes lose their processes and memory and are replaced, where the engine supports new incarnations")
	cmd.Flags().BoolVar(&x.runs, "runs", false, "generate scenarios that resemble measured runs: a timeline of faults of every kind, workloads with their invariants, open loops")
	cmd.Flags().BoolVar(&x.wide, "wide", false, "generate scenarios with parameters from their whole ranges, clients that retry, more and larger rows, small thresholds, and second runs with the same ids")
	cmd.Flags().BoolVar(&x.checkpoints, "checkpoints", false, "have every node write its state up to ten times, restart from it after a crash, and half of the time continue from the written state")
	cmd.Flags().BoolVar(&x.invariants, "invariants", false, "check the invariants of all replicas after every step, and name the first invariant that does not hold")
	cmd.Flags().BoolVar(&x.probes, "probes", false, "print how often the scenarios hit the coverage marks of the protocols, with half of the seeds in hostile scenarios, and fail if a mark is never hit")
	cmd.Flags().BoolVar(&x.shrink, "shrink", false, "search for the minimal failing scenario of a failing seed, and print its events; with --trace also its messages")
	cmd.Flags().StringVar(&x.page, "page", "", "write the first minimal failing scenario as a page with a space-time diagram to this HTML `file`")
	cmd.Flags().BoolVar(&x.trace, "trace", false, "print all events of the seed")
	_ = cmd.RegisterFlagCompletionFunc("level", cobra.FixedCompletions(isolation.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(engines.Names(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check validates the flags and their combinations.
func (x *exploration) check() (err error) {
	all := engines.All()
	x.hunted, x.table = map[string]broken.Database{}, map[string]*protocol.Engine{}
	if x.broken {
		all = nil
		for _, d := range broken.All() {
			all = append(all, d.Engine)
			x.hunted[d.Name] = d
		}
	}
	for _, e := range all {
		x.known = append(x.known, e.Name)
		x.table[e.Name] = e
	}
	for _, name := range x.names {
		if x.table[name] == nil {
			return usageError("--engine: %q is not one of %s", name, strings.Join(x.known, ", "))
		}
	}
	if len(x.names) == 0 {
		x.names = x.known
	}
	if x.level != "" {
		x.asked, err = isolation.Parse(x.level)
	}
	// Without --shard there is a single shard with all seeds.
	var index, shards uint64 = 0, 1
	if x.shard != "" {
		// The newline makes Sscanf reject trailing characters.
		if n, bad := fmt.Sscanf(x.shard+"\n", "%d/%d\n", &index, &shards); n != 2 || bad != nil || index >= shards {
			return usageError("--shard: %q is not I/N with I from 0 to N-1, for example 0/16", x.shard)
		}
	}
	switch {
	case err != nil:
		return usageError("--level: %v", err)
	case x.count < 1:
		return usageError("--seeds: 0 is not at least 1")
	case index >= x.count:
		return usageError("--shard: %q has none of %d seeds", x.shard, x.count)
	case (x.hostile || x.slow || x.core || x.buggify || x.disk || x.replace) && x.broken:
		return usageError("--hostile, --slow, --core, --buggify, --disk, --replace: each faulty variant has its own kind of scenarios; leave these or --broken out")
	case x.replace && (x.disk || x.core):
		return usageError("--replace: in its scenarios no node has a log and no region is lost permanently; leave it or --disk and --core out")
	case x.wide && x.broken:
		return usageError("--wide: each faulty variant has its own kind of scenarios; leave it or --broken out")
	case x.runs && (x.disk || x.replace):
		return usageError("--runs: its timelines have disks that fail and nodes that are replaced; leave it or --disk and --replace out")
	case x.probes && (x.broken || x.trace):
		return usageError("--probes: it counts the coverage marks in the scenarios of correct engines; leave --broken and --trace out")
	case x.probes && x.count < 2 && !x.hostile && !x.slow:
		return usageError("--seeds: %d is not at least 2 with --probes, which uses half of them for hostile scenarios", x.count)
	case (x.shard != "" || x.state != "") && (x.probes || x.broken || x.trace):
		return usageError("--shard, --state: they are for many seeds of correct engines; leave --probes, --broken and --trace, or these out")
	case x.page != "" && !x.shrink:
		return usageError("--page: it shows the minimal failing scenario of a seed; add --shrink")
	case x.trace && (x.count > 1 || len(x.names) > 1):
		return usageError("--trace: it shows one seed of one engine, for example --engine calvin --seed 1234")
	}
	x.seeds = explore.Seeds{First: x.first, Count: x.count}.Shard(index, shards)
	return nil
}

func (x *exploration) run() error {
	x.reach = explore.NewReach(x.names, x.buggify, x.replace)
	progress, err := x.progress()
	if err != nil {
		return usageError("--state: %v", err)
	}
	for _, name := range x.names {
		c := explore.Config{Engine: x.table[name], Hostile: x.hostile, Slow: x.slow, Core: x.core, Buggify: x.buggify, Disk: x.disk, Replace: x.replace, Runs: x.runs}
		// A faulty variant fails only in scenarios of its own configuration.
		if d, ok := x.hunted[name]; ok {
			c = explore.ConfigOf(d)
			c.Runs = x.runs
		}
		c.Seed, c.Level, c.Invariants, c.Checkpoints = x.first, x.asked, x.invariants, x.checkpoints
		c.Wide = x.wide
		switch {
		case x.trace:
			x.traceSeed(c)
		case x.broken:
			x.hunt(c)
		default:
			if err := x.soak(c, progress); err != nil {
				return err
			}
		}
	}
	return errors.Join(x.pageErr, x.conclude())
}

// progress opens the file of --state. It returns nil without the flag.
func (x *exploration) progress() (*explore.Progress, error) {
	if x.state == "" {
		return nil, nil //nolint:nilnil // not requested
	}
	worlds := fmt.Sprintf("hostile %v, slow %v, core %v, buggify %v, disk %v, replace %v, runs %v, invariants %v, checkpoints %v, wide %v, level %s", x.hostile, x.slow, x.core, x.buggify, x.disk, x.replace, x.runs, x.invariants, x.checkpoints, x.wide, x.level)
	build, err := version.Build()
	if err != nil {
		return nil, err
	}
	return explore.OpenProgress(x.state, build, worlds, x.seeds)
}

// traceSeed prints all events of a seed's scenario or, with --shrink, of its minimal failing scenario.
func (x *exploration) traceSeed(c explore.Config) {
	line := func(line string) { fmt.Fprintln(x.out, line) }
	if !x.shrink {
		c.Trace = line
	}
	r := explore.Run(c)
	// With --shrink, trace the minimal scenario instead of the seed's.
	if l := x.tellLeast(c, r); l != nil {
		l.Trace(line)
	} else {
		fmt.Fprint(x.out, r)
	}
	if !r.Passed() {
		x.failed++
	}
}

// hunt looks for a seed that catches a faulty variant.
func (x *exploration) hunt(c explore.Config) {
	caught := explore.Hunt(x.ctx, x.hunted[c.Engine.Name], c, x.seeds, nil)
	fmt.Fprintln(x.out, &caught)
	if caught.First == nil {
		x.failed++
		return
	}
	x.tellLeast(c, caught.First)
}

// soak runs the seeds of an engine and reports the failing ones.
func (x *exploration) soak(c explore.Config, progress *explore.Progress) error {
	var more []string
	var saveErr error
	shown, told := 0, 0
	tell := func(r *explore.Result) {
		x.reach.Add(r)
		if told++; progress != nil {
			if progress.Add(r); told%saveEvery == 0 {
				saveErr = progress.Save()
			}
		}
		if r.Passed() {
			return
		}
		if shown++; shown > maxShown {
			more = append(more, fmt.Sprint(r.Seed))
			return
		}
		fmt.Fprintln(x.out, r)
		x.tellLeast(c, r)
	}
	sum := &explore.Summary{}
	switch {
	case progress != nil:
		sum = progress.Of(c.Engine.Name)
		if n := sum.Seeds.Count; n > 0 {
			fmt.Fprintf(x.out, "%s: %d of %v have been run before\n", c.Engine.Name, n, x.seeds)
		}
		// Continue after the seeds that the file already counts.
		explore.Soak(x.ctx, c, x.seeds.After(sum.Seeds.Count), tell)
		// Soak may have been interrupted between two saves.
		saveErr = errors.Join(saveErr, progress.Save())
	case x.probes && !x.hostile && !x.slow:
		usual := x.seeds
		usual.Count /= 2
		first := explore.Soak(x.ctx, c, usual, tell)
		fmt.Fprintln(x.out, &first)
		x.failed += first.Failed
		// Some coverage marks can be reached only in hostile scenarios, so explore such scenarios with the second half of the
		// seeds.
		c.Hostile = true
		hostile := x.seeds
		hostile.Count -= usual.Count
		*sum = explore.Soak(x.ctx, c, hostile, tell)
		sum.Engine += ", hostile"
	default:
		*sum = explore.Soak(x.ctx, c, x.seeds, tell)
	}
	if len(more) > 0 {
		fmt.Fprintf(x.out, "%s fails with these seeds, too: %s\n", c.Engine.Name, strings.Join(more, " "))
	}
	fmt.Fprintln(x.out, sum)
	x.failed += sum.Failed
	if saveErr != nil {
		return fmt.Errorf("--state: %w", saveErr)
	}
	// After an interruption the summary above is still correct for the seeds that ran.
	if err := x.ctx.Err(); err != nil {
		return fmt.Errorf("interrupted: %w", err)
	}
	return nil
}

// tellLeast reports the minimal scenario of a failing seed if --shrink is set. It writes the page for the first such
// seed.
func (x *exploration) tellLeast(c explore.Config, r *explore.Result) *explore.Least {
	if !x.shrink || r.Passed() {
		return nil
	}
	// With --probes only half of the scenarios are hostile, so the result decides.
	c.Seed, c.Hostile = r.Seed, r.Hostile
	l := explore.Shrink(x.ctx, c, 0)
	if l == nil {
		return nil
	}
	fmt.Fprintln(x.out, l)
	if x.page != "" {
		if err := result.WriteFile(x.page, l.WritePage); err != nil {
			x.pageErr = fmt.Errorf("--page: %w", err)
		}
		x.page = ""
	}
	return l
}

// conclude prints the table of coverage marks, and returns an error for failed seeds or marks that were not hit.
func (x *exploration) conclude() error {
	var unhit []string
	if x.probes {
		// The marks of shared packages can all be reached only if all engines run.
		all := len(x.names) == len(x.known)
		fmt.Fprint(x.out, x.reach.Table(all))
		for _, p := range x.reach.Unhit(all) {
			unhit = append(unhit, p.Name)
		}
	}
	var err error
	switch {
	case x.failed > 0 && x.broken && !x.trace:
		err = fmt.Errorf("%d faulty variants were not caught", x.failed)
	case x.failed > 0:
		err = fmt.Errorf("%d seeds failed", x.failed)
	case len(unhit) > 0:
		err = fmt.Errorf("%d coverage marks were not hit with %d seeds per engine: %s", len(unhit), x.count, strings.Join(unhit, ", "))
	default:
		return nil
	}
	return &codedError{code: exit.Failed, err: err}
}
