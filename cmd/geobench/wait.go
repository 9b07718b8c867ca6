//go:build full

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/ops/health"
)

// waitFormats are the output formats of wait.
var waitFormats = []string{"text", "json"}

// waitFailures is the number of consecutive failed attempts, a second apart, after which wait gives up. An API server
// restarts in less time.
const waitFailures = 60

func newWaitCommand() *cobra.Command {
	var format string
	var timeout time.Duration
	var quiet bool
	cmd := &cobra.Command{
		Use:   "wait NAME...",
		Short: "Wait for the verdicts of BenchmarkRuns and Experiments",
		Long: `Wait returns when each of the BenchmarkRuns and Experiments has come to an end: a run when its verdict is known, an experiment
when its claims are judged or its spec is refused. It is for CI and for pods that wait: progress goes to standard error, and the exit
code says how it ended. A name that a run and an experiment share is told apart as run/NAME and experiment/NAME; what kubectl prints
with -o name is understood too. What is suspended is waited for, and so is a run whose database does not exist yet: the operator ends it
after two minutes.

An experiment whose claims differ has succeeded, unless its spec.gate is Claims.

Exit codes: 0 all succeeded; 1 a run is Failed or Invalid, or an experiment failed or is refused; 2 wrong input; 3 the time is over, one
was deleted before its end, or the cluster does not answer; 130 interrupted.`,
		Example: `  kubectl geobench wait quickstart --timeout 30m
  kubectl create -f run.yaml -o name | xargs kubectl geobench wait -o json`,
		Args:              args(cobra.MinimumNArgs(1)),
		ValidArgsFunction: completeWaited,
		RunE: func(cmd *cobra.Command, names []string) error {
			if !slices.Contains(waitFormats, format) {
				return usageError("--output: %q is not one of %s", format, strings.Join(waitFormats, ", "))
			}
			if timeout < 0 {
				return usageError("--timeout: %s is negative: give the longest that it may take, or leave it out to wait for as long as it takes", timeout)
			}
			c, err := connectFor(cmd)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w of --timeout %s", errTimeIsOver, timeout))
				defer cancel()
			}
			w := &waiter{cluster: c, screen: newScreen(cmd.ErrOrStderr(), quiet), every: followEvery}
			if err := w.find(ctx, names); err != nil {
				return err
			}
			ended := w.wait(ctx)
			if err := w.print(cmd.OutOrStdout(), format); err != nil {
				return err
			}
			return w.verdict(ended)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&format, "output", "o", "text", "`format` of the result on standard output: "+strings.Join(waitFormats, ", "))
	f.DurationVar(&timeout, "timeout", 0, "the longest that it may take, for example 30m (default: as long as it takes)")
	f.BoolVarP(&quiet, "quiet", "q", false, "no progress on standard error")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(waitFormats, cobra.ShellCompDirectiveNoFileComp))
	addClusterFlags(cmd)
	return cmd
}

// completeWaited offers the names of runs and experiments that were not given yet.
func completeWaited(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
	names, directive := completing(func(ctx context.Context, c *cluster) []string {
		return append(c.names(ctx, &v1alpha1.BenchmarkRunList{}), c.names(ctx, &v1alpha1.ExperimentList{})...)
	})(cmd, nil, prefix)
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(given, n) }), directive
}

// errTimeIsOver is the cause of a wait that exceeded --timeout.
var errTimeIsOver = errors.New("the time is over")

// waitedKinds maps the kinds that arguments can name to the kinds of the API.
var waitedKinds = map[string]string{
	"run": "BenchmarkRun", "benchmarkrun": "BenchmarkRun", "benchmarkruns": "BenchmarkRun", "brun": "BenchmarkRun", "br": "BenchmarkRun",
	"experiment": "Experiment", "experiments": "Experiment", "exp": "Experiment",
}

// waited is an object that wait waits for.
type waited struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Outcome is Succeeded, Failed, Deleted, or Underway if the wait ended before the object was finished.
	Outcome health.Outcome `json:"outcome"`
	// Verdict is the verdict of a run; empty for experiments, and for runs without a verdict.
	Verdict v1alpha1.Verdict `json:"verdict,omitempty"`
	// Message has the verdict, the reason and the findings.
	Message string `json:"message"`
	// ResultConfigMap is the ConfigMap with the result document of a run or the report of an experiment.
	ResultConfigMap string `json:"resultConfigMap,omitempty"`

	object client.Object
}

// newWaited returns an empty object of a kind.
func newWaited(kind string) client.Object {
	if kind == "Experiment" {
		return &v1alpha1.Experiment{}
	}
	return &v1alpha1.BenchmarkRun{}
}

// deleted is the outcome of an object that was deleted before it was finished.
const deleted health.Outcome = "Deleted"

func (o *waited) over() bool { return o.Outcome != health.Underway }

// waiter waits for objects.
type waiter struct {
	*cluster
	screen *screen
	// every is the interval between two lookups.
	every   time.Duration
	objects []*waited
}

// find looks up all objects by the given names. A missing object is a usage error.
func (w *waiter) find(ctx context.Context, names []string) error {
	for _, given := range names {
		kind, name, told := strings.Cut(given, "/")
		if !told {
			kind, name = "", given
		}
		// kubectl prints names as benchmarkrun.geobench.dev/NAME.
		short, _, _ := strings.Cut(strings.ToLower(kind), ".")
		if told && waitedKinds[short] == "" {
			return usageError("%s: %s is neither run nor experiment: write run/%s or experiment/%[3]s", given, kind, name)
		}
		var found []*waited
		for _, kind := range []string{"BenchmarkRun", "Experiment"} {
			if told && kind != waitedKinds[short] {
				continue
			}
			o := &waited{Kind: kind, Namespace: w.namespace, Name: name, object: newWaited(kind)}
			err := w.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, o.object)
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			if err == nil {
				// An object that has already ended is not looked up again.
				o.judge()
				found = append(found, o)
			}
		}
		switch {
		case len(found) > 1:
			return usageError("%s is the name of a BenchmarkRun and of an Experiment: write run/%s or experiment/%[1]s", name, name)
		case len(found) == 0:
			return w.notFound(cmp.Or(waitedKinds[short], "BenchmarkRun or Experiment"), name, w.waitable(ctx, waitedKinds[short]))
		}
		// ignore a name that is given twice
		if !slices.ContainsFunc(w.objects, func(o *waited) bool { return o.Kind == found[0].Kind && o.Name == name }) {
			w.objects = append(w.objects, found[0])
		}
	}
	return nil
}

// waitable returns the names of all objects of a kind, or of both kinds if kind is empty.
func (w *waiter) waitable(ctx context.Context, kind string) (names []string) {
	if kind != "Experiment" {
		names = w.names(ctx, &v1alpha1.BenchmarkRunList{})
	}
	if kind != "BenchmarkRun" {
		names = append(names, w.names(ctx, &v1alpha1.ExperimentList{})...)
	}
	return names
}

// wait looks up the objects repeatedly until all have ended. It returns the reason if it stopped earlier.
func (w *waiter) wait(ctx context.Context) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	defer w.screen.close()
	for failures := 0; ; {
		// Objects may have ended before the wait, so check before the first tick.
		if !slices.ContainsFunc(w.objects, func(o *waited) bool { return !o.over() }) {
			return nil
		}
		lines := w.lines()
		w.screen.show(time.Now(), strings.Join(lines, "\n"), lines)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		err := w.look(ctx)
		if err == nil {
			failures = 0
			continue
		}
		// Waiting cannot fix missing rights. Any other error may result from a restart of the API server.
		if failures++; failures == waitFailures || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return err
		}
	}
}

// look looks up each object that has not ended.
func (w *waiter) look(ctx context.Context) error {
	for _, o := range w.objects {
		if o.over() {
			continue
		}
		now := newWaited(o.Kind)
		err := w.Get(ctx, client.ObjectKeyFromObject(o.object), now)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		// Another UID means that the object was deleted and created again between two lookups.
		if err != nil || now.GetUID() != o.object.GetUID() {
			o.Outcome, o.Message = deleted, "it was deleted before it had ended"
			continue
		}
		o.object = now
		o.judge()
	}
	return nil
}

// judge determines the outcome from the object's status.
func (o *waited) judge() {
	var observed int64
	var conditions []metav1.Condition
	var result *v1alpha1.LocalReference
	switch obj := o.object.(type) {
	case *v1alpha1.BenchmarkRun:
		observed, conditions, result = obj.Status.ObservedGeneration, obj.Status.Conditions, obj.Status.ReportRef
	case *v1alpha1.Experiment:
		observed, conditions, result = obj.Status.ObservedGeneration, obj.Status.Conditions, obj.Status.ReportRef
	}
	if o.Outcome, o.Message = health.Judge(o.object.GetGeneration(), observed, conditions); !o.over() {
		return
	}
	if run, ok := o.object.(*v1alpha1.BenchmarkRun); ok {
		o.Verdict = run.Status.Verdict
	}
	if result != nil {
		o.ResultConfigMap = result.Name
	}
}

// lines returns a line with the progress of each object.
func (w *waiter) lines() (out []string) {
	for _, o := range w.objects {
		line := o.Name + ": " + o.Message
		if o.over() {
			line = fmt.Sprintf("%s: %s", o.Name, o.Outcome)
		}
		out = append(out, line)
	}
	return out
}

// print prints the outcomes of the objects, in the order in which they were given.
func (w *waiter) print(to io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(to)
		e.SetIndent("", "  ")
		return e.Encode(w.objects)
	}
	for _, o := range w.objects {
		if _, err := fmt.Fprintf(to, "%s.geobench.dev/%s %s: %s\n", strings.ToLower(o.Kind), o.Name, o.Outcome, o.Message); err != nil {
			return err
		}
	}
	return nil
}

// verdict returns the error for the whole wait: failed objects take precedence over the reason why the wait stopped
// early, except for an interruption.
func (w *waiter) verdict(early error) error {
	var failed, gone, left []string
	for _, o := range w.objects {
		switch o.Outcome {
		case health.Failed:
			failed = append(failed, o.Name)
		case deleted:
			gone = append(gone, o.Name)
		case health.Underway:
			left = append(left, o.Name)
		}
	}
	switch {
	// After an interruption the user no longer waits for a verdict.
	case errors.Is(early, context.Canceled):
		return fmt.Errorf("stopped waiting for %s: %w", strings.Join(left, ", "), early)
	case len(failed) > 0:
		return &codedError{code: exit.Failed, err: fmt.Errorf("%d of %d did not succeed: %s", len(failed), len(w.objects), strings.Join(failed, ", "))}
	case errors.Is(early, errTimeIsOver):
		return &codedError{code: exit.Broken, err: fmt.Errorf("%w: %s goes on", early, strings.Join(left, ", "))}
	case early != nil:
		return fmt.Errorf("gave up waiting for %s: %w", strings.Join(left, ", "), early)
	case len(gone) > 0:
		return &codedError{code: exit.Broken, err: fmt.Errorf("deleted before the end: %s", strings.Join(gone, ", "))}
	}
	return nil
}
