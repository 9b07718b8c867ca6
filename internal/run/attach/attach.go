// Package attach runs BenchmarkRuns on existing databases. A GeoDatabase with spec.external describes such a database.
// Program also accepts any database for which there is a custom target. It has the flags, outputs and exit codes of
// geobench run, as far as these apply.
package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/acceptance"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// Program runs manifests on a single database.
type Program struct {
	// Engine is the database's name in messages and results.
	Engine string
	// Promises is the isolation level that the database promises. The verification Isolation checks this level.
	Promises isolation.Level
	// Topology contains the regions of the clients, and the number of partitions, which determines how transactions are
	// classified. It has no links, because the links are real.
	Topology geo.Topology
	// Open opens the database for a run. If closeDatabase is not nil, the program calls it after the run, when all clients
	// are closed.
	Open func(ctx context.Context, p *plan.Plan) (db target.Database, closeDatabase func() error, err error)
	// Flags, if set, defines flags of the target, for example for the address of the database. They are parsed before Open
	// is called. It panics if it defines one of the reserved flags: --filename, --output, --save, --quiet and their short
	// forms.
	Flags func(*pflag.FlagSet)
}

// Main runs the program with the arguments of the process, and exits with an exit code of package exit. The first
// interrupt makes the program end the current run and print its result.
func (p *Program) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Restore the default signal handling after the first signal, so that a second interrupt kills the process.
	context.AfterFunc(ctx, stop)
	os.Exit(p.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// flags are the command-line flags of the program.
type flags struct {
	files        []string
	format, save string
	quiet        bool
}

// Run runs the program with these arguments and returns its exit code. It reports all errors in the manifests before
// the first run starts.
func (p *Program) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var f flags
	set := pflag.NewFlagSet(p.Engine, pflag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringArrayVarP(&f.files, "filename", "f", nil, "a `file` or folder of manifests, or - for standard input; may be repeated")
	set.StringVarP(&f.format, "output", "o", "table", "`format` of the result on standard output: "+strings.Join(result.Formats, ", "))
	set.StringVar(&f.save, "save", "", "keep each result document as `DIR`/NAME.json, for geobench report and compare")
	set.BoolVarP(&f.quiet, "quiet", "q", false, "no progress on standard error")
	if p.Flags != nil {
		p.Flags(set)
	}
	fail := func(code int, err error) int {
		fmt.Fprintf(stderr, "%s: %v\n", p.Engine, err)
		return code
	}
	switch err := set.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		return fail(exit.Usage, err)
	}
	plans, err := p.plans(stdin, f, set.Args())
	if err != nil {
		return fail(exit.Usage, err)
	}
	if f.save != "" {
		if err := os.MkdirAll(f.save, 0o755); err != nil {
			return fail(exit.Usage, fmt.Errorf("--save: %w", err))
		}
	}
	code := 0
	var docs []*result.Document
	for _, run := range plans {
		all, err := inprocess.Tested(run, func(one *plan.Plan) (*result.Document, error) { return p.play(ctx, one, f.quiet, stderr) })
		if unfit := (*acceptance.NotPassedError)(nil); errors.As(err, &unfit) {
			fmt.Fprintf(stderr, "%s: %v\n", p.Engine, err)
		} else if err != nil {
			code = fail(exit.Broken, fmt.Errorf("BenchmarkRun %s: %w", run.Run.Name, err))
			// An interrupted run also returns an error, but this is not a failure of the program.
			if ctx.Err() != nil {
				code = exit.Interrupted
			}
		}
		for _, d := range all {
			docs = append(docs, d)
			if f.save != "" {
				if err := result.WriteJSON(filepath.Join(f.save, d.Name+".json"), d); err != nil {
					return fail(exit.Broken, fmt.Errorf("--save: %w", err))
				}
			}
		}
		if code != 0 {
			break
		}
	}
	// Print the documents even after an error: earlier runs and the completed windows of an interrupted run are valid
	// results.
	if len(docs) > 0 {
		if err := result.Print(stdout, docs, f.format); err != nil {
			return fail(exit.Broken, err)
		}
	}
	if code == 0 && slices.ContainsFunc(docs, func(d *result.Document) bool { return d.Verdict != v1alpha1.VerdictPassed }) {
		code = exit.Failed
	}
	return code
}

// plans reads the manifests and plans the runs in them.
func (p *Program) plans(stdin io.Reader, f flags, rest []string) ([]*plan.Plan, error) {
	switch {
	case len(rest) > 0:
		return nil, fmt.Errorf("%q is no flag; manifests are named with -f: -f %[1]s", rest[0])
	case len(f.files) == 0:
		return nil, errors.New("no manifest is given: name one with -f")
	case !slices.Contains(result.Formats, f.format):
		return nil, fmt.Errorf("--output: %q is not one of %s", f.format, strings.Join(result.Formats, ", "))
	}
	documents, err := manifest.Read(stdin, f.files...)
	if err != nil {
		return nil, err
	}
	bundle, problems := manifest.Build(documents)
	problem := func(run *v1alpha1.BenchmarkRun, field, value, message string) {
		problems = append(problems, check.Problem{Object: "BenchmarkRun " + run.Name, Field: field, Value: value, Message: message})
	}
	var plans []*plan.Plan
	for _, run := range bundle.Runs {
		name := run.Spec.DatabaseRef.Name
		if _, deployed := bundle.Databases[name]; deployed {
			problem(run, "spec.databaseRef.name", name, fmt.Sprintf("GeoDatabase %s is in the manifests, but this program deploys none and runs on %s: "+
				"leave the GeoDatabase out, or run the manifests with geobench run", name, p.Engine))
			continue
		}
		if ref := run.Spec.BaselineRef; ref != nil {
			problem(run, "spec.baselineRef.name", ref.Name, "baselines are not compared here: remove baselineRef, keep results with --save, and compare them with geobench compare")
			continue
		}
		planned, err := inprocess.PlanOn(run, p.Engine, p.Promises, p.Topology)
		if found, ok := check.As(err); ok {
			problems = append(problems, found...)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("BenchmarkRun %s: %w", run.Name, err)
		}
		plans = append(plans, planned)
	}
	// The checks do not know in which file an object is, so look it up in the bundle.
	for i, wrong := range problems {
		if kind, name, ok := strings.Cut(wrong.Object, " "); ok && wrong.Source == "" {
			problems[i].Source = bundle.Source(kind, name)
		}
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	if len(plans) == 0 {
		err := fmt.Errorf("%s: there is no BenchmarkRun, so there is nothing to run", strings.Join(f.files, ", "))
		if len(bundle.Experiments) > 0 {
			err = fmt.Errorf("%w: Experiments are not played on targets; write their runs as BenchmarkRuns", err)
		}
		return nil, err
	}
	return plans, nil
}

// play opens the database for a run, plays the run, and closes the database.
func (p *Program) play(ctx context.Context, planned *plan.Plan, quiet bool, stderr io.Writer) (d *result.Document, err error) {
	db, closeDatabase, err := p.Open(ctx, planned)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", p.Engine, err)
	}
	if closeDatabase != nil {
		defer func() { err = errors.Join(err, closeDatabase()) }()
	}
	stage := ""
	return inprocess.On(ctx, planned, db, func(pr inprocess.Progress) {
		if !quiet && pr.Stage != stage {
			stage = pr.Stage
			fmt.Fprintf(stderr, "%s: %s\n", planned.Run.Name, stage)
		}
	})
}
