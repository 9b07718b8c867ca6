package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/experiment"
	"github.com/geobench/geobench/internal/run/experiment/play"
	"github.com/geobench/geobench/internal/run/experiment/plot"
)

// expand expands all experiments of a bundle. It returns a usage error that lists all their errors.
func expand(ctx context.Context, bundle *manifest.Bundle, abilities check.Abilities) ([]*experiment.Experiment, error) {
	var out []*experiment.Experiment
	var ps manifest.Problems
	for _, object := range bundle.Experiments {
		e, err := experiment.New(ctx, bundle, object, abilities)
		// Collect the problems of all experiments before failing.
		if problems, ok := check.As(err); ok {
			ps = append(ps, problems...)
			continue
		} else if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	if len(ps) > 0 {
		return nil, &codedError{code: exit.Usage, err: ps}
	}
	return out, nil
}

var verifyFormats = []string{"table", "json", "yaml"}

func newVerifyCommand() *cobra.Command {
	var simulate, realTime, quiet bool
	var format, results, out string
	var parallel int
	cmd := &cobra.Command{
		Use:   "verify DIR|FILE...",
		Short: "Run experiments and say which of their claims hold",
		Long: `Verify runs every Experiment of the files and folders (simulated, unless --run is given), evaluates their claims over the
results, and prints each claim beside what was measured. A run whose result is in the folder of results already is not
run again, so an interrupted experiment goes on where it was, and a changed claim is judged at once.

Exit codes: 0 every claim holds; 1 a claim differs or has no result, or a run failed; 2 wrong input; 3 could not run.`,
		Example: "  geobench verify experiments/smallbank\n  geobench verify experiments/smallbank/baseline.yaml --out out/baseline\n  geobench verify --run experiments/quick -o json",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, files []string) error {
			switch {
			case simulate && realTime:
				return usageError("--simulate and --run are both set: keep one of them")
			case !slices.Contains(verifyFormats, format):
				return usageError("--output: %q is not one of %s", format, strings.Join(verifyFormats, ", "))
			case parallel < 0:
				return usageError("--parallel: %d is not a number of simulations: write 1 or more, or 0 for one per CPU", parallel)
			}
			abilities := check.Simulator(nil)
			if realTime {
				abilities = check.OnThisMachine(check.Process(nil))
			}
			bundle, err := loadManifests(cmd, abilities, files)
			if err != nil {
				return err
			}
			experiments, err := expand(cmd.Context(), bundle, abilities)
			if err != nil {
				return err
			}
			if len(experiments) == 0 {
				return usageError("%s: there is no Experiment, so there is nothing to verify", strings.Join(files, ", "))
			}
			folder, err := resultsFolder(results, out)
			if err != nil {
				return err
			}
			view := newExperimentView(cmd.ErrOrStderr(), quiet)
			played, err := play.Play(cmd.Context(), experiments,
				play.Options{RealTime: realTime, Parallel: parallel, Folder: folder, Report: view.show})
			view.close()
			if err != nil {
				// Finished runs are kept, so an interruption loses only the runs in progress.
				if cmd.Context().Err() != nil {
					return &codedError{code: exit.Interrupted, err: fmt.Errorf("interrupted: %d of %d runs are kept in %s, and the same command goes on from there",
						view.last.Done, view.last.Total, folder)}
				}
				return err
			}
			// With searches, the runs of the points are known only now.
			for i, e := range experiments {
				experiments[i] = e.With(played)
			}
			report := experiment.NewReport(cmd.Context(), experiments, played)
			if out != "" {
				if err := writeReport(out, report, experiments, played); err != nil {
					return err
				}
			}
			if err := printReport(cmd.OutOrStdout(), format, report); err != nil {
				return err
			}
			if err := report.Err(); err != nil {
				return &codedError{code: exit.Failed, quiet: format == "table", err: err}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&simulate, "simulate", false, "run in virtual time (the default)")
	f.BoolVar(&realTime, "run", false, "run in real time in this process, one run after the other")
	f.StringVarP(&format, "output", "o", "table", "`format` on standard output: "+strings.Join(verifyFormats, ", "))
	f.StringVar(&results, "results", "", "keep one result document per run in `DIR` (default: results in --out's folder, else geobench/results in the user's cache)")
	f.StringVar(&out, "out", "", "write plots (SVG and PNG), tables (Markdown) and report.json into `DIR`")
	f.IntVar(&parallel, "parallel", 0, "`number` of simulations at the same time (0: one per CPU); it changes no result")
	f.BoolVarP(&quiet, "quiet", "q", false, "no progress on standard error")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(verifyFormats, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// resultsFolder returns the folder of the result documents.
func resultsFolder(results, out string) (string, error) {
	switch {
	case results != "":
		return results, nil
	case out != "":
		return filepath.Join(out, "results"), nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", usageError("there is no cache folder to keep results in (%w): name a folder with --results", err)
	}
	return filepath.Join(cache, "geobench", "results"), nil
}

// writeReport writes the plots and the report.
func writeReport(folder string, report *experiment.Report, experiments []*experiment.Experiment, played *experiment.Results) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, e := range experiments {
		if _, err := plot.Draw(e, played, folder); err != nil {
			return fmt.Errorf("plots of experiment %s: %w", e.Name, err)
		}
	}
	for _, e := range report.Experiments {
		for _, t := range e.Tables {
			// The tables are readable by everyone, like the plots.
			if err := os.WriteFile(filepath.Join(folder, e.Name+"-"+t.Name+".md"), []byte(t.Markdown(report.Simulated)), 0o644); err != nil { //nolint:gosec
				return err
			}
		}
	}
	return result.WriteJSON(filepath.Join(folder, "report.json"), report)
}

func printReport(w io.Writer, format string, report *experiment.Report) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(report)
	case "yaml":
		b, err := yaml.Marshal(report)
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	}
	return report.Table(w)
}
