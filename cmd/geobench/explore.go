package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/internal/engines"
	"github.com/geobench/geobench/internal/explore"
	"github.com/geobench/geobench/internal/history"
	"github.com/geobench/geobench/internal/protocol"
)

// maxShown bounds the failing seeds that are described in full, for each engine.
const maxShown = 5

func newExploreCommand() *cobra.Command {
	var (
		names       []string
		seed, seeds uint64
		level       string
		trace       bool
	)
	levels := map[string]history.Level{}
	for l := history.ReadCommitted; l <= history.StrictSerializable; l++ {
		levels[l.String()] = l
	}
	cmd := &cobra.Command{
		Use:   "explore",
		Short: "Look for seeds with which a protocol gives wrong answers",
		Long: `Explore makes a world from each seed (topology, delays, loss, parameters, clocks, faults, transactions on hot rows), runs it
in the simulator, and checks that the history is strictly serializable, that the copies are equal in the end and that every
transaction was answered. The same seed gives the same execution. A failure is described with the command that replays it.`,
		Example: "  geobench explore --seeds 1000\n  geobench explore --engine calvin --seed 1234 --trace",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var table []*protocol.Engine
			for _, name := range names {
				e, ok := engines.Lookup(name)
				if !ok {
					return usageError("--engine: %q is not one of %s", name, strings.Join(engines.Names(), ", "))
				}
				table = append(table, e)
			}
			if len(names) == 0 {
				table = engines.All()
			}
			promised, ok := levels[level]
			switch {
			case !ok:
				return usageError("--level: %q is not one of read-committed, serializable, strict-serializable", level)
			case seeds < 1:
				return usageError("--seeds: 0 is not at least 1")
			case trace && (seeds > 1 || len(table) > 1):
				return usageError("--trace: it shows one seed of one engine, for example --engine calvin --seed 1234")
			}
			out, failed := cmd.OutOrStdout(), 0
			for _, e := range table {
				c := explore.Config{Engine: e, Seed: seed, Level: promised}
				if trace {
					c.Trace = func(line string) { fmt.Fprintln(out, line) }
					r := explore.Run(c)
					fmt.Fprint(out, r)
					if !r.Passed() {
						failed++
					}
					continue
				}
				var more []string
				shown := 0
				sum := explore.Soak(cmd.Context(), c, seeds, func(r *explore.Result) {
					if r.Passed() {
						return
					}
					if shown++; shown <= maxShown {
						fmt.Fprintln(out, r)
					} else {
						more = append(more, fmt.Sprint(r.Seed))
					}
				})
				if len(more) > 0 {
					fmt.Fprintf(out, "%s fails with these seeds, too: %s\n", e.Name, strings.Join(more, " "))
				}
				fmt.Fprintln(out, &sum)
				failed += sum.Failed
				if err := cmd.Context().Err(); err != nil {
					return fmt.Errorf("interrupted: %w", err)
				}
			}
			if failed > 0 {
				return &codedError{code: exitFailed, err: fmt.Errorf("%d seeds failed", failed)}
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&names, "engine", nil, "`engines` to explore (default all)")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "the first `seed`")
	cmd.Flags().Uint64Var(&seeds, "seeds", 1, "the `number` of seeds")
	cmd.Flags().StringVar(&level, "level", history.StrictSerializable.String(), "what histories must be: read-committed, serializable, strict-serializable")
	cmd.Flags().BoolVar(&trace, "trace", false, "print everything that happens with the seed")
	_ = cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(engines.Names(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
