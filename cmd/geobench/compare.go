package main

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/bench/result"
)

func newCompareCommand() *cobra.Command {
	var format string
	var alpha, threshold float64
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Say whether result B is worse or better than result A",
		Long: `Compare sets the figures of two results side by side, A being the baseline, and says whether B is a regression, an
improvement or no difference. A and B are result documents, or folders of them: all repetitions of all results in a folder
count together, so that several seeds make one sample.

Throughput, p50, p99 and aborts make the verdict: a Mann-Whitney U test over the repetitions, corrected for the four of them
(Holm), must find a difference, and the medians must differ by more than the threshold. With the default --alpha, 5 repetitions
on each side are the least that can show one. Warnings name what else differs, so that a difference may not be what it seems.

Exit codes: 0 no difference or an improvement; 1 a regression; 2 wrong input; 3 undecided, for want of repetitions.`,
		Example: `  geobench compare before.json after.json
  geobench compare --threshold 5 results/main results/branch
  geobench compare run/baseline run/candidate     # two BenchmarkRuns on the cluster`,
		Args:              args(cobra.ExactArgs(2)),
		ValidArgsFunction: completeResults,
		RunE: func(cmd *cobra.Command, files []string) error {
			switch {
			case alpha <= 0 || alpha >= 1:
				return usageError("--alpha: %g is not a probability between 0 and 1, for example 0.05", alpha)
			case threshold < 0:
				return usageError("--threshold: %g is not a change in percent, for example 1", threshold)
			case format != "table" && format != "json":
				return usageError("--output: %q is not one of table, json", format)
			}
			a, err := documents(cmd, files[0])
			if err != nil {
				return err
			}
			b, err := documents(cmd, files[1])
			if err != nil {
				return err
			}
			o := result.CompareOptions{Alpha: alpha, Threshold: threshold / 100}
			// Compare takes 0 for the default threshold, and a negative value for none.
			if threshold == 0 {
				o.Threshold = -1
			}
			c := result.Compare(a, b, o)
			if format == "table" {
				err = c.Table(cmd.OutOrStdout())
			} else {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				err = e.Encode(c)
			}
			if err != nil {
				return err
			}
			switch c.Verdict {
			case result.Regression:
				return &codedError{code: exit.Failed, quiet: true, err: errors.New(c.Message)}
			// Too few repetitions say nothing about B, so this exit code differs from a regression.
			case result.Undecided:
				return &codedError{code: exit.Broken, quiet: true, err: errors.New(c.Message)}
			}
			return nil
		},
	}
	addClusterFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&format, "output", "o", "table", "`format`: table, json")
	f.Float64Var(&alpha, "alpha", 0.05, "`probability` of calling results different that are not")
	f.Float64Var(&threshold, "threshold", 1, "change in `percent` that is too small to matter")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
