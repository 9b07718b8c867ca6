package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/run/report"
)

func newTraceCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "trace RESULT -o FILE",
		Short: "Show in a space-time diagram the transactions whose answers are wrong",
		Long: `Trace writes one HTML page that needs no network: the transactions that show why the history of a run is not what spec.verify
asks for, as bars from their sending to their answer in the regions of their clients, and the dependencies that close the cycle between
them. A slider goes through it moment by moment.

RESULT is a result document whose check of isolation failed, a folder of them, of which the first such is shown, or run/NAME, a
BenchmarkRun on the cluster. What goes wrong in a simulated world of the explorer is shown with all its messages by
'geobench explore --shrink --page'.`,
		Example: `  geobench run -f experiments/quickstart.yaml --save out && geobench trace out -o trace.html
  kubectl geobench trace quickstart -o trace.html`,
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: completeResults,
		RunE: func(cmd *cobra.Command, results []string) error {
			if path == "" {
				return usageError("no file is given: name one with -o, for example -o trace.html")
			}
			docs, err := documents(cmd, results...)
			if err != nil {
				return err
			}
			doc, check, ok := firstCycle(docs)
			if !ok {
				return usageError("%s: no check of isolation failed, so that there is nothing to show; spec.verify asks for one", results[0])
			}
			if err := result.WriteFile(path, func(to io.Writer) error { return report.WriteTrace(to, doc, check) }); err != nil {
				return fmt.Errorf("--output: %w", err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
			return err
		},
	}
	cmd.Flags().StringVarP(&path, "output", "o", "", "`FILE` to write")
	addClusterFlags(cmd)
	return cmd
}

// firstCycle returns the first result with a wrong history, and its first failed check.
func firstCycle(docs []*result.Document) (*result.Document, workload.Check, bool) {
	for _, d := range docs {
		if checks := report.Cycles(d); len(checks) > 0 {
			return d, checks[0], true
		}
	}
	return nil, workload.Check{}, false
}
