package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/bench/acceptance"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/attach"
	"github.com/geobench/geobench/internal/run/experiment"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// output contains the flags of commands that print results.
type output struct {
	format string
	quiet  bool
}

func (o *output) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", "table", "`format` of the result on standard output: "+strings.Join(result.Formats, ", "))
	cmd.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "no progress on standard error")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(result.Formats, cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) check() error {
	if !slices.Contains(result.Formats, o.format) {
		return usageError("--output: %q is not one of %s", o.format, strings.Join(result.Formats, ", "))
	}
	return nil
}

// print prints one or more documents.
func (o *output) print(w io.Writer, docs []*result.Document) error {
	return result.Print(w, docs, o.format)
}

func newSimulateCommand() *cobra.Command {
	return newPlanCommand(&cobra.Command{
		Use:   "simulate -f FILE...",
		Short: "Run manifests in virtual time: seconds, and the same bytes every time",
		Long: `Simulate runs every BenchmarkRun of the manifests in virtual time: the real protocol code over a simulated network and CPU.
The same manifests, seed and version give the same result, byte for byte. Results are marked as simulated.`,
		Example: "  geobench simulate -f experiments/quickstart.yaml\n  geobench simulate -f experiments/quickstart.yaml -o json | sha256sum",
	}, check.Simulator(nil), inprocess.Simulate)
}

func newRunCommand() *cobra.Command {
	var address, secrets string
	cmd := newPlanCommand(&cobra.Command{
		Use:   "run -f FILE...",
		Short: "Run manifests in real time: all nodes in this process, or a database that runs already",
		Long: `Run runs every BenchmarkRun of the manifests in real time: all nodes of the database in this process, TCP on the loopback
interface between them, links delayed as the network profile declares. It does not start to measure before the measured
network is the declared one. Where the GeoDatabase has spec.external, the database is one that runs already: all load generators
are in this process, its links are real, and its round trips are measured. Ctrl-C ends it early: what was measured until then is printed and kept as usual, marked as Invalid
with the reason Cancelled, and the exit code is 130.`,
		Example: "  geobench run -f experiments/quickstart.yaml\n  geobench run -f experiments/quickstart.yaml -o json > result.json\n" +
			"  geobench run -f experiments/own-postgres.yaml    # your own PostgreSQL, with PGUSER and PGPASSWORD\n" +
			"  geobench run -f experiments/own-mysql.yaml       # your own MySQL, MariaDB or Galera, with MYSQL_USER and MYSQL_PWD",
	}, check.OnThisMachine(check.Process(nil)), func(ctx context.Context, p *plan.Plan, report inprocess.Report) (*result.Document, error) {
		if p.Database.Spec.External != nil {
			return runExternal(ctx, address, secrets, p, report)
		}
		return runObserved(ctx, address, p, report)
	})
	cmd.Flags().StringVar(&address, "metrics-address", "", "serve Prometheus metrics while it runs, on this `host:port`, for example 127.0.0.1:9464")
	cmd.Flags().StringVar(&secrets, "secrets", "", "`folder` in which NAME/username, NAME/password and NAME/ca.crt are the keys of the Secret NAME of spec.external.secretRef")
	_ = cmd.MarkFlagDirname("secrets")
	return cmd
}

// runExternal runs a plan on an existing database. Errors in the GeoDatabase are usage errors.
func runExternal(ctx context.Context, address, secrets string, p *plan.Plan, report inprocess.Report) (*result.Document, error) {
	if address != "" {
		return nil, usageError("--metrics-address: there are no live metrics of a database that runs already (GeoDatabase %s): leave the flag out", p.Database.Name)
	}
	d, err := attach.Play(ctx, p, secrets, report)
	if problems, ok := check.As(err); ok {
		err = &codedError{code: exit.Usage, err: problems}
	}
	return d, err
}

func newPlanCommand(cmd *cobra.Command, abilities check.Abilities, play func(context.Context, *plan.Plan, inprocess.Report) (*result.Document, error)) *cobra.Command {
	var files []string
	var out output
	var save, baseline string
	cmd.Args = onlyFlags
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		plans, _, err := loadPlans(cmd, abilities, files)
		if err != nil {
			return err
		}
		if len(plans) == 0 {
			return usageError("%s: there is no BenchmarkRun, so there is nothing to run", strings.Join(files, ", "))
		}
		against, err := baselines(cmd, plans, baseline, save)
		if err != nil {
			return err
		}
		// Create the folder now: an unusable folder must not waste the runs.
		if save != "" {
			if info, err := os.Stat(save); err == nil && !info.IsDir() {
				return usageError("--save: %s is a file: name a folder", save)
			}
			if err := os.MkdirAll(save, 0o755); err != nil {
				return usageError("--save: %w", err)
			}
		}
		var docs []*result.Document
		var interrupted error
		var unfit []string
		for i, p := range plans {
			var last *result.Document // document of the last executed run; nil if it has none
			all, err := inprocess.Tested(p, func(one *plan.Plan) (_ *result.Document, err error) {
				view := newView(cmd.ErrOrStderr(), one, i, len(plans), out.quiet)
				defer view.end()
				last, err = play(cmd.Context(), one, view.show)
				return last, err
			})
			for _, d := range all {
				docs = append(docs, d)
				// Save each result immediately, so that a later failure does not lose it.
				if save != "" {
					if err := result.WriteJSON(filepath.Join(save, d.Name+".json"), d); err != nil {
						return fmt.Errorf("--save: %w", err)
					}
				}
			}
			// A functional test that does not pass prevents only its own run. Later runs continue.
			if notPassed := (*acceptance.NotPassedError)(nil); errors.As(err, &notPassed) {
				unfit = append(unfit, err.Error())
			} else if err != nil {
				err = fmt.Errorf("BenchmarkRun %s: %w", p.Run.Name, err)
				// Continue only after an interruption, so that the partial results are printed before the command exits.
				if cmd.Context().Err() == nil {
					return err
				}
				interrupted = interruption(p, last, len(plans)-i-1)
			}
			if interrupted != nil {
				break
			}
		}
		if len(docs) > 0 {
			if err := out.print(cmd.OutOrStdout(), docs); err != nil {
				return err
			}
		}
		// An interruption takes precedence over verdicts and comparisons, which partial results would distort.
		if interrupted != nil {
			return interrupted
		}
		regressed, err := against.compare(cmd, docs, out.format)
		if err != nil {
			return err
		}
		if len(unfit) > 0 {
			return &codedError{code: exit.Failed, err: errors.New(strings.Join(unfit, "\n"))}
		}
		for _, d := range docs {
			// The tables already show the verdict, so the error need not be printed again.
			if d.Verdict != v1alpha1.VerdictPassed {
				return &codedError{code: exit.Failed, quiet: out.format == "table" || out.format == "wide",
					err: fmt.Errorf("BenchmarkRun %s: verdict %s", d.Name, d.Verdict)}
			}
		}
		return regressed
	}
	addFiles(cmd, &files)
	out.addTo(cmd)
	cmd.Flags().StringVar(&save, "save", "", "keep each result document as `DIR`/NAME.json, for report and compare")
	_ = cmd.MarkFlagDirname("save")
	cmd.Flags().StringVar(&baseline, "baseline", "", "compare each run with `RESULT`, a result document or a folder of them, instead of with what spec.baselineRef names")
	return cmd
}

// interruption returns the error for an interrupted command: the partial result, the number of remaining runs, and how
// to continue.
func interruption(p *plan.Plan, d *result.Document, left int) error {
	text := fmt.Sprintf("interrupted: BenchmarkRun %s had measured nothing yet", p.Run.Name)
	if d != nil {
		text = fmt.Sprintf("interrupted: the partial result of BenchmarkRun %s is marked as %s, with the reason %s", d.Name, d.Verdict, result.ReasonCancelled)
	}
	if left > 0 {
		text += fmt.Sprintf("; %s not begun", experiment.Counted(left, "run"))
	}
	return &codedError{code: exit.Interrupted, err: errors.New(text + ". The same command runs it again")}
}

func newShowCommand() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "show RESULT...",
		Short: "Print result documents as tables",
		Long: `Show prints result documents (what run and simulate print with -o json or keep with --save) as tables. RESULT is a file, a
folder of results, - for standard input, or run/NAME, a BenchmarkRun on the cluster.`,
		Example: `  geobench show result.json
  geobench show run/quickstart -o wide     # a BenchmarkRun on the cluster`,
		Args:              args(cobra.MinimumNArgs(1)),
		ValidArgsFunction: completeResults,
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := out.check(); err != nil {
				return err
			}
			docs, err := documents(cmd, files...)
			if err != nil {
				return err
			}
			return out.print(cmd.OutOrStdout(), docs)
		},
	}
	out.addTo(cmd)
	addClusterFlags(cmd)
	return cmd
}
