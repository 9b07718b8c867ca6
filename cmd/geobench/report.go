package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/report"
)

func newReportCommand() *cobra.Command {
	var folder, baseline string
	cmd := &cobra.Command{
		Use:   "report RESULT... -o DIR",
		Short: "Make a report: one HTML page with every figure, and CSV, SVG and PNG beside it",
		Long: `Report writes DIR/index.html, one page that needs no network: what was run, the verdict and why, the declared and the
measured network, throughput and latency, bytes and cost, the balance over the nodes, the checks, and for experiments every
figure with its claims. Each figure has its numbers in a table below it, and is in DIR as CSV, SVG and PNG too.

RESULT is a result document, a folder of them, what 'geobench verify --out' wrote, or run/NAME, a BenchmarkRun on the cluster.
With --baseline the page has a comparison too, as 'geobench compare' makes it: of all results as one sample when they differ in
their seeds at most, else of each. A BenchmarkRun on the cluster is compared with its spec.baselineRef without being asked.`,
		Example: `  geobench run -f experiments/quickstart.yaml --save out && geobench report out -o out/report
  geobench verify experiments/smallbank --out out/smallbank && geobench report out/smallbank -o out/report
  geobench report results/branch --baseline results/main -o out/report
  kubectl geobench report quickstart -o report`,
		Args:              args(cobra.MinimumNArgs(1)),
		ValidArgsFunction: completeResults,
		RunE: func(cmd *cobra.Command, results []string) error {
			if folder == "" {
				return usageError("no folder is given: name one with -o, for example -o out/report")
			}
			if info, err := os.Stat(folder); err == nil && !info.IsDir() {
				return usageError("--output: %s is a file: name a folder", folder)
			}
			var in report.Input
			for _, arg := range results {
				if arg == "-" || isRun(arg) {
					docs, err := documents(cmd, arg)
					if err != nil {
						return err
					}
					in.Documents = append(in.Documents, docs...)
					// With several results it would be unclear whose spec.baselineRef applies.
					if baseline == "" && len(results) == 1 {
						in.Baseline = baselineOf(cmd, docs[0])
					}
					continue
				}
				if _, err := os.Stat(arg); err != nil {
					return usageError("%w", notThere(arg, err))
				}
				if err := in.Add(arg); err != nil {
					return usageError("%w", err)
				}
			}
			if baseline != "" {
				docs, err := documents(cmd, baseline)
				if err != nil {
					return fmt.Errorf("--baseline: %w", err)
				}
				if len(in.Documents) == 0 {
					return usageError("--baseline: %s has no result document to compare with it", strings.Join(results, ", "))
				}
				in.Baseline = docs
			}
			page, err := report.Write(folder, in)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), page)
			return err
		},
	}
	cmd.Flags().StringVarP(&folder, "output", "o", "", "`DIR` to write into; it is made if need be")
	_ = cmd.MarkFlagDirname("output")
	cmd.Flags().StringVar(&baseline, "baseline", "", "compare with `RESULT`: a result document, a folder of them, or run/NAME")
	addClusterFlags(cmd)
	return cmd
}

// baselineOf reads the result on the cluster that a run names as its baseline. If that fails, it prints the reason and
// returns nil: the report is useful without the comparison.
func baselineOf(cmd *cobra.Command, d *result.Document) []*result.Document {
	if d.Manifests == nil || d.Manifests.Run == nil || d.Manifests.Run.BaselineRef == nil {
		return nil
	}
	b, err := clusterDocument(cmd, d.Manifests.Run.BaselineRef.Name)
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "no comparison with spec.baselineRef: %v\n", err)
		return nil
	}
	return []*result.Document{b}
}

// isRun reports whether an argument names a run on a cluster.
func isRun(arg string) bool {
	return strings.HasPrefix(arg, "run/") || isPlugin && !exists(arg) && arg != "-"
}
