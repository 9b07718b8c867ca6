// Command geobench contains all of Geobench in one binary. The commands operator, node and worker run in pods. The
// commands run, simulate, verify, validate, compare and show are for users.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/base/version"
	"github.com/geobench/geobench/internal/bench/manifest/check"
)

// codedError is an error with an exit code of package exit. quiet is set if its message has already been printed.
type codedError struct {
	code  int
	quiet bool
	err   error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return &codedError{code: exit.Usage, err: fmt.Errorf(format, args...)}
}

func main() {
	// Heap profiles of this process are never read, and their records would stay in memory: 15 MB for a long-running
	// operator.
	runtime.MemProfileRate = 0
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal shuts the command down in an orderly way; the next one kills the process.
	context.AfterFunc(ctx, stop)
	root := newRootCommand()
	if isCompletion {
		// kubectl passes only the words after the plugin's name, so add cobra's completion command.
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, os.Args[1:]...))
	}
	os.Exit(execute(ctx, root))
}

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, root *cobra.Command) int {
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	coded := &codedError{code: exit.Broken}
	if !errors.As(err, &coded) {
		coded.err = err
		// A canceled context is an interruption only if the command's own context was canceled.
		if errors.Is(err, context.Canceled) && cmd.Context().Err() != nil {
			coded.code = exit.Interrupted
		}
		// cobra itself returns this usage error, without a type.
		if strings.HasPrefix(err.Error(), "unknown command") {
			coded.code = exit.Usage
		}
	}
	if !coded.quiet {
		fmt.Fprintln(cmd.ErrOrStderr(), "geobench: "+err.Error())
	}
	return coded.code
}

// isCompletion is set if kubectl started this process to complete a command line of the plugin. isPlugin is set if
// kubectl started it for any reason.
var (
	isCompletion = strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl_complete-")
	isPlugin     = isCompletion || strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-")
)

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "geobench",
		Short: "Benchmark geo-distributed databases: the same manifests simulated, on this machine and on Kubernetes",
		Long: `Geobench measures transactional databases that span regions.

Manifests (NetworkProfile, GeoDatabase, BenchmarkRun, Experiment) say what to deploy and what to measure. The same files work
with simulate (virtual time), run (real time, in this process) and kubectl apply (on a cluster with the operator).

Exit codes: 0 passed; 1 a verdict is Failed or Invalid, a claim does not hold, or a run is worse than its baseline; 2 wrong
input or usage; 3 could not run; 130 interrupted.`,
		Example: `  geobench validate -f experiments/quickstart.yaml
  geobench simulate -f experiments/quickstart.yaml
  geobench run -f experiments/quickstart.yaml -o json > result.json
  geobench verify experiments/smallbank
  geobench compare before.json after.json`,
		Version:       version.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	if isPlugin {
		root.Use = "kubectl-geobench"
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl geobench"}
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w%s\nTry '%s --help'", err, nearestFlag(cmd, err), cmd.CommandPath())
	})
	root.AddGroup(&cobra.Group{ID: "people", Title: "Commands:"}, &cobra.Group{ID: "cluster", Title: "On a cluster:"}, &cobra.Group{ID: "pods", Title: "What pods run:"})
	for _, c := range pluginCommands() {
		c.GroupID = "cluster"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{newRunCommand(), newSimulateCommand(), newVerifyCommand(), newValidateCommand(), newCompareCommand(), newReportCommand(), newTraceCommand(), newShowCommand(), newExploreCommand(), newIsolationCommand(), newManCommand()} {
		c.GroupID = "people"
		root.AddCommand(c)
	}
	for _, c := range append(clusterCommands(), newNodeCommand(), newProbeCommand(), newAwaitCommand(), newPingCommand(), newProbeKernelCommand()) {
		c.GroupID = "pods"
		root.AddCommand(c)
	}
	return root
}

// nearestFlag suggests a flag if err is about an unknown flag.
func nearestFlag(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	// A one-letter word would match any single-letter flag.
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near, ok := check.Nearest(unknown.GetSpecifiedName(), names); ok {
		return fmt.Sprintf("; did you mean --%s?", near)
	}
	return ""
}

// args wraps cobra's check of positional arguments, so that wrong arguments exit with exit.Usage.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := check(cmd, given); err != nil {
			return usageError("%s: %w\nTry '%s --help'", cmd.Use, err, cmd.CommandPath())
		}
		return nil
	}
}

// onlyFlags rejects arguments of a command whose manifests are named with -f, and suggests the correct form.
func onlyFlags(cmd *cobra.Command, given []string) error {
	if len(given) == 0 {
		return nil
	}
	return usageError("%s: %q is no flag; manifests are named with -f: %s -f %[2]s", cmd.Name(), given[0], cmd.CommandPath())
}
