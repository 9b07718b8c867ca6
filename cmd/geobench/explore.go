package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/internal/engines"
	"github.com/geobench/geobench/internal/exit"
	"github.com/geobench/geobench/internal/explore"
	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/protocol/broken"
)

// maxShown bounds the failing seeds that are described in full, for each engine.
const maxShown = 5

func newExploreCommand() *cobra.Command {
	var (
		names       []string
		seed, seeds uint64
		level       string
		trace       bool
		wrong       bool
		hostile     bool
		slow        bool
		probes      bool
		core        bool
		shrink      bool
	)
	cmd := &cobra.Command{
		Use:   "explore",
		Short: "Look for seeds with which a protocol gives wrong answers",
		Long: `Explore makes a world from each seed (topology, delays, loss, parameters, clocks, faults, transactions on hot rows), runs it
in the simulator, and checks that the history is what the engine promises, or what --level says, that the copies are equal in the
end and that every transaction was answered. With --hostile a seed makes another world, such as nobody would choose, and with --slow
one in which clients send for ten times as long.
With --core a world goes on when its faults are over: regions are lost for good, and what is left must answer within the protocol's bound.
With --probes it counts the rare places of the protocols that the worlds reach, such as recoveries and elections.
With --broken it does so to databases that are wrong on purpose, each of which must be caught. The same seed gives the same execution.
A failure is described with the command that replays it. With --shrink the least world in which the same goes wrong is looked for, with a
few transactions, faults and regions, and what happens in it is told in the order of time; that takes less than a minute for each seed.`,
		Example: "  geobench explore --seeds 1000\n  geobench explore --broken --seeds 400\n  geobench explore --probes --seeds 10000\n  geobench explore --engine calvin --seed 1234 --trace\n  geobench explore --broken --engine snapshot --seed 2 --shrink",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := engines.All()
			hunted := map[string]broken.Database{}
			if wrong {
				all = nil
				for _, d := range broken.All() {
					all = append(all, d.Engine)
					hunted[d.Name] = d
				}
			}
			var known []string
			table := map[string]*protocol.Engine{}
			for _, e := range all {
				known = append(known, e.Name)
				table[e.Name] = e
			}
			for _, name := range names {
				if table[name] == nil {
					return usageError("--engine: %q is not one of %s", name, strings.Join(known, ", "))
				}
			}
			if len(names) == 0 {
				names = known
			}
			var asked isolation.Level // 0 for what the engine promises
			var err error
			if level != "" {
				asked, err = isolation.Parse(level)
			}
			switch {
			case err != nil:
				return usageError("--level: %v", err)
			case seeds < 1:
				return usageError("--seeds: 0 is not at least 1")
			case (hostile || slow || core) && wrong:
				return usageError("--hostile, --slow, --core: databases that are wrong on purpose are caught in the worlds that suit their mistakes; leave these or --broken out")
			case probes && (wrong || trace):
				return usageError("--probes: it counts what happens in the worlds of engines that are right; leave --broken and --trace out")
			case probes && seeds < 2 && !hostile && !slow:
				return usageError("--seeds: %d is not at least 2 with --probes, which makes hostile worlds of half of them", seeds)
			case trace && (seeds > 1 || len(names) > 1):
				return usageError("--trace: it shows one seed of one engine, for example --engine calvin --seed 1234")
			}
			out, failed := cmd.OutOrStdout(), 0
			reach := explore.NewReach(names)
			for _, name := range names {
				d, isBroken := hunted[name]
				c := explore.Config{Engine: table[name], Hostile: hostile, Slow: slow, Core: core}
				if isBroken {
					c = explore.ConfigOf(d)
				}
				c.Seed, c.Level = seed, asked
				tellLeast := func(r *explore.Result) *explore.Least {
					if !shrink || r.Passed() {
						return nil
					}
					of := c
					of.Seed, of.Hostile = r.Seed, r.Hostile
					l := explore.Shrink(cmd.Context(), of, 0)
					if l != nil {
						fmt.Fprintln(out, l)
					}
					return l
				}
				if isBroken && !trace {
					caught := explore.Hunt(cmd.Context(), d, c, seeds, nil)
					if fmt.Fprintln(out, &caught); caught.First == nil {
						failed++
					} else {
						tellLeast(caught.First)
					}
					continue
				}
				if trace {
					line := func(line string) { fmt.Fprintln(out, line) }
					if !shrink {
						c.Trace = line
					}
					r := explore.Run(c)
					if l := tellLeast(r); l != nil {
						l.Trace(line)
					} else {
						fmt.Fprint(out, r)
					}
					if !r.Passed() {
						failed++
					}
					continue
				}
				var more []string
				shown := 0
				tell := func(r *explore.Result) {
					reach.Add(r)
					if r.Passed() {
						return
					}
					if shown++; shown <= maxShown {
						fmt.Fprintln(out, r)
						tellLeast(r)
					} else {
						more = append(more, fmt.Sprint(r.Seed))
					}
				}
				usual := seeds
				if probes && !hostile && !slow {
					usual = seeds / 2
				}
				sum := explore.Soak(cmd.Context(), c, usual, tell)
				if usual < seeds {
					c.Hostile = true
					sum.Add(explore.Soak(cmd.Context(), c, seeds-usual, tell))
				}
				if len(more) > 0 {
					fmt.Fprintf(out, "%s fails with these seeds, too: %s\n", name, strings.Join(more, " "))
				}
				fmt.Fprintln(out, &sum)
				failed += sum.Failed
				if err := cmd.Context().Err(); err != nil {
					return fmt.Errorf("interrupted: %w", err)
				}
			}
			var unhit []string
			if probes {
				all := len(names) == len(known)
				fmt.Fprint(out, reach.Table(all))
				for _, p := range reach.Unhit(all) {
					unhit = append(unhit, p.Name)
				}
			}
			if failed > 0 && wrong && !trace {
				return &codedError{code: exit.Failed, err: fmt.Errorf("%d broken databases were not caught", failed)}
			}
			if failed > 0 {
				return &codedError{code: exit.Failed, err: fmt.Errorf("%d seeds failed", failed)}
			}
			if len(unhit) > 0 {
				return &codedError{code: exit.Failed, err: fmt.Errorf("%d probes were not hit with %d seeds per engine: %s",
					len(unhit), seeds, strings.Join(unhit, ", "))}
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&names, "engine", nil, "`engines` to explore (default all)")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "the first `seed`")
	cmd.Flags().Uint64Var(&seeds, "seeds", 1, "the `number` of seeds")
	cmd.Flags().StringVar(&level, "level", "", "what histories must be, in place of what the engine promises: "+strings.Join(isolation.Names(), ", "))
	cmd.Flags().BoolVar(&wrong, "broken", false, "hunt the databases that are wrong on purpose, to see that they are caught")
	cmd.Flags().BoolVar(&hostile, "hostile", false, "make worlds that nobody would choose: least durations, five regions, many cuts, two lost regions")
	cmd.Flags().BoolVar(&slow, "slow", false, "make worlds whose clients take their time and whose cuts are long, so that leaders change under load")
	cmd.Flags().BoolVar(&core, "core", false, "add a second phase to the worlds, in which regions that the database survives without are lost for good and the clients of the others must be answered in time")
	cmd.Flags().BoolVar(&probes, "probes", false, "print how often the worlds reach the probes of the protocols, with half of the seeds in hostile worlds, and fail when one is never reached")
	cmd.Flags().BoolVar(&shrink, "shrink", false, "look for the least world in which the same goes wrong as with a failing seed, and tell what happens in it; with --trace show its messages")
	cmd.Flags().BoolVar(&trace, "trace", false, "print everything that happens with the seed")
	_ = cmd.RegisterFlagCompletionFunc("level", cobra.FixedCompletions(isolation.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(engines.Names(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
