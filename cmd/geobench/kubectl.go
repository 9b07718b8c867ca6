//go:build full

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/results"
	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/health"
)

// clusterFlags select the cluster and namespace, like kubectl's flags.
type clusterFlags struct{ kubeconfig, context, namespace string }

// addClusterFlags adds clusterFlags to a command that can read from a cluster.
func addClusterFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringP("namespace", "n", "", "`namespace` of objects on a cluster (default: the context's)")
	f.String("context", "", "`name` of the kubeconfig context (default: the current one)")
	f.String("kubeconfig", "", "kubeconfig `file` (default: $KUBECONFIG, else ~/.kube/config)")
	_ = cmd.MarkFlagFilename("kubeconfig")
}

func clusterFlagsOf(cmd *cobra.Command) (f clusterFlags) {
	for name, to := range map[string]*string{"kubeconfig": &f.kubeconfig, "context": &f.context, "namespace": &f.namespace} {
		if flag := cmd.Flags().Lookup(name); flag != nil {
			*to = flag.Value.String()
		}
	}
	return f
}

// cluster is a connection to an API server, with the namespace of the objects.
type cluster struct {
	client.Client
	namespace string
}

// connect connects to the cluster that the flags select.
var connect = func(f clusterFlags) (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	// An explicit path takes precedence over $KUBECONFIG.
	rules.ExplicitPath = f.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.context}
	overrides.Context.Namespace = f.namespace
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	rest, err := config.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, usageError("no cluster: there is no kubeconfig: set KUBECONFIG or name a file with --kubeconfig (geobench run and simulate need no cluster)")
	}
	if err != nil {
		return nil, usageError("no cluster: %w; `kubectl config get-contexts` lists those that are known", err)
	}
	namespace, _, err := config.Namespace()
	if err != nil {
		return nil, usageError("no cluster: %w", err)
	}
	c, err := client.New(rest, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("no cluster: %w", err)
	}
	return &cluster{c, namespace}, nil
}

func connectFor(cmd *cobra.Command) (*cluster, error) { return connect(clusterFlagsOf(cmd)) }

// run reads a BenchmarkRun. If it does not exist, the error lists the existing runs.
func (c *cluster) run(ctx context.Context, name string) (*v1alpha1.BenchmarkRun, error) {
	run := &v1alpha1.BenchmarkRun{}
	err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, run)
	if !apierrors.IsNotFound(err) {
		return run, err
	}
	return nil, c.notFound("BenchmarkRun", name, c.names(ctx, &v1alpha1.BenchmarkRunList{}))
}

func (c *cluster) notFound(kind, name string, names []string) error {
	text := fmt.Sprintf("there is no %s %s in namespace %s", kind, name, c.namespace)
	if near, ok := check.Nearest(name, names); ok {
		return usageError("%s; did you mean %s?", text, near)
	}
	if len(names) == 0 {
		return usageError("%s, nor any other; name its namespace with -n", text)
	}
	return usageError("%s (there is %s)", text, strings.Join(names[:min(len(names), 10)], ", "))
}

// document reads the result of a run, even after the run's time to live has expired and the run is deleted.
func (c *cluster) document(ctx context.Context, name string) (*result.Document, error) {
	run, err := c.run(ctx, name)
	if err != nil {
		gone, kept := &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Name: name}}, &corev1.ConfigMap{}
		// Only a result whose run has expired is kept without its run.
		if c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: kube.ResultName(gone)}, kept) == nil && kept.Labels[kube.LabelExpired] == "true" {
			return results.Read(gone, kept)
		}
		return nil, err
	}
	if run.Status.ReportRef == nil {
		message := run.Status.Message
		if message == "" {
			message = "follow it with `kubectl geobench watch " + name + "`"
		}
		return nil, usageError("BenchmarkRun %s has no result: it is in stage %s: %s", name, stageOf(run), message)
	}
	cm := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: run.Status.ReportRef.Name}, cm); err != nil {
		return nil, fmt.Errorf("the result of BenchmarkRun %s: %w", name, err)
	}
	return results.Read(run, cm)
}

func stageOf(run *v1alpha1.BenchmarkRun) string {
	// Before the first stage, only the conditions explain why the run waits.
	if run.Status.Stage == "" {
		_, message := health.Judge(run.Generation, run.Status.ObservedGeneration, run.Status.Conditions)
		return "none: " + message
	}
	return string(run.Status.Stage)
}

// clusterDocument reads the result of a BenchmarkRun.
func clusterDocument(cmd *cobra.Command, name string) (*result.Document, error) {
	c, err := connectFor(cmd)
	if err != nil {
		return nil, err
	}
	return c.document(cmd.Context(), name)
}

// pluginCommands returns the commands that watch, wait for, show and cancel objects in a cluster.
func pluginCommands() []*cobra.Command {
	return []*cobra.Command{newWatchCommand(), newWaitCommand(), newMatrixCommand(), newCancelCommand()}
}

// completionWithin bounds how long a shell completion waits for the cluster.
const completionWithin = 2 * time.Second

// completing returns a completion function that offers object names for the first argument.
func completing(names func(context.Context, *cluster) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := connectFor(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionWithin)
		defer cancel()
		return names(ctx, c), cobra.ShellCompDirectiveNoFileComp
	}
}

var (
	completeRuns      = completing(func(ctx context.Context, c *cluster) []string { return c.names(ctx, &v1alpha1.BenchmarkRunList{}) })
	completeDatabases = completing(func(ctx context.Context, c *cluster) []string { return c.names(ctx, &v1alpha1.GeoDatabaseList{}) })
)

// completeResults offers files and, as a kubectl plugin or after run/, the names of runs.
func completeResults(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
	mark, is := strings.CutPrefix(prefix, "run/")
	// Only the plugin accepts the name of a run without the prefix.
	if !isPlugin && !is {
		return nil, cobra.ShellCompDirectiveDefault
	}
	names, _ := completeRuns(cmd, nil, mark)
	if is {
		for i := range names {
			names[i] = "run/" + names[i]
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// names returns the names of all objects of a kind in the namespace, or nil if the cluster does not answer.
func (c *cluster) names(ctx context.Context, list client.ObjectList) (out []string) {
	if c.List(ctx, list, client.InNamespace(c.namespace)) != nil {
		return nil
	}
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		out = append(out, o.(client.Object).GetName())
		return nil
	})
	return out
}

func newMatrixCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "matrix DATABASE",
		Short: "Show a database's declared and measured round-trip times",
		Long: `Matrix shows, for a GeoDatabase on the cluster, the declared and the measured round trip of every directed link, and whether
the measured network is the declared one.`,
		Example:           "  kubectl geobench matrix calvin",
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: completeDatabases,
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := connectFor(cmd)
			if err != nil {
				return err
			}
			db := &v1alpha1.GeoDatabase{}
			if err := c.Get(cmd.Context(), client.ObjectKey{Namespace: c.namespace, Name: names[0]}, db); apierrors.IsNotFound(err) {
				return c.notFound("GeoDatabase", names[0], c.names(cmd.Context(), &v1alpha1.GeoDatabaseList{}))
			} else if err != nil {
				return err
			}
			return printMatrix(cmd.OutOrStdout(), db)
		},
	}
	addClusterFlags(cmd)
	return cmd
}

// printMatrix prints a row per source region, with the measured round trip, and the declared round trip in parentheses.
func printMatrix(w io.Writer, db *v1alpha1.GeoDatabase) error {
	regions := db.Spec.RegionNames()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "FROM\\TO\t%s\n", strings.Join(regions, "\t"))
	for _, from := range regions {
		cells := []string{from}
		for _, to := range regions {
			cell := "-"
			for i := range db.Status.Links {
				l := &db.Status.Links[i]
				if l.From != from || l.To != to {
					continue
				}
				// A link without samples is declared but not measured yet.
				measured := "?"
				if l.Samples > 0 {
					measured = fmt.Sprintf("%.1fms", float64(l.MeasuredRTTMicroseconds.P50)/1000)
				}
				cell = fmt.Sprintf("%s (%.1fms)", measured, float64(l.DeclaredRTTMicroseconds)/1000)
			}
			cells = append(cells, cell)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	text := "not measured yet"
	if c := meta.FindStatusCondition(db.Status.Conditions, v1alpha1.ConditionNetworkVerified); c != nil {
		text = fmt.Sprintf("%s: %s", c.Reason, c.Message)
	}
	_, err := fmt.Fprintf(w, "measured median (declared); emulation %s; %s\n", db.Status.Emulation, text)
	return err
}

func newCancelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "End a BenchmarkRun that is under way",
		Long: `Cancel sets spec.cancel of a BenchmarkRun: the operator ends it with the verdict Invalid and the reason Cancelled, removes its
workers and gives its database to the next run. To run it again, change spec.runID and take spec.cancel back.`,
		Example:           "  kubectl geobench cancel quickstart",
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: completeRuns,
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := connectFor(cmd)
			if err != nil {
				return err
			}
			run, err := c.run(cmd.Context(), names[0])
			if err != nil {
				return err
			}
			if ended(run) {
				return usageError("BenchmarkRun %s is over already: %s, %s", run.Name, run.Status.Stage, run.Status.Verdict)
			}
			// Patch only spec.cancel, because the operator may change the object at the same time.
			base := run.DeepCopy()
			run.Spec.Cancel = true
			if err := c.Patch(cmd.Context(), run, client.MergeFrom(base)); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "benchmarkrun.geobench.dev/%s cancelled in stage %s\n", run.Name, stageOf(base))
			return err
		},
	}
	addClusterFlags(cmd)
	return cmd
}

func ended(run *v1alpha1.BenchmarkRun) bool {
	// A verdict for an earlier runID does not end the current attempt.
	return run.Status.RunID == run.Spec.RunID && (run.Status.Stage == v1alpha1.StageCompleted || run.Status.Stage == v1alpha1.StageFailed)
}

func newWatchCommand() *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{
		Use:   "watch RUN",
		Short: "Follow a BenchmarkRun to its end and show its result",
		Long: `Watch follows a BenchmarkRun on the cluster: its stage and what it waits for, and while clients run, the throughput of each
region. At the end it shows the result as a table. Ctrl-C ends the watching, not the run; see cancel.

Exit codes: 0 passed; 1 failed or invalid; 2 wrong input; 3 the cluster does not answer; 130 interrupted.`,
		Example:           "  kubectl apply -f experiments/quickstart.yaml && kubectl geobench watch quickstart",
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: completeRuns,
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := connectFor(cmd)
			if err != nil {
				return err
			}
			run, err := c.follow(cmd.Context(), names[0], newScreen(cmd.ErrOrStderr(), quiet))
			if err != nil {
				return err
			}
			// A run that failed early has no result.
			if run.Status.ReportRef != nil {
				d, err := c.document(cmd.Context(), run.Name)
				if err != nil {
					return err
				}
				if err := result.Table(cmd.OutOrStdout(), d, false); err != nil {
					return err
				}
			}
			if b := run.Status.Baseline; b != nil {
				fmt.Fprintf(cmd.OutOrStdout(), "\nagainst %s: %s: %s\n", b.Name, b.Verdict, b.Message)
			}
			if run.Status.Verdict != v1alpha1.VerdictPassed {
				return &codedError{code: exit.Failed, err: fmt.Errorf("BenchmarkRun %s: %s: %s: %s", run.Name, run.Status.Verdict, run.Status.Reason, run.Status.Message)}
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress on standard error")
	addClusterFlags(cmd)
	return cmd
}

// followEvery is the interval at which follow reads a run.
const followEvery = time.Second

// follow shows a run until the run is finished, and returns it.
func (c *cluster) follow(ctx context.Context, name string, s *screen) (*v1alpha1.BenchmarkRun, error) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	defer s.close()
	for {
		run, err := c.run(ctx, name)
		if err != nil {
			return nil, err
		}
		if ended(run) {
			return run, nil
		}
		s.show(time.Now(), stageOf(run), c.lines(ctx, run))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("stopped watching; the run goes on: %w", ctx.Err())
		}
	}
}

// lines returns lines that describe a running run.
func (c *cluster) lines(ctx context.Context, run *v1alpha1.BenchmarkRun) []string {
	st := &run.Status
	head := fmt.Sprintf("%s: %s", run.Name, stageOf(run))
	if st.StageStartTime != nil {
		head += fmt.Sprintf(" for %s", time.Since(st.StageStartTime.Time).Round(time.Second))
	}
	// The end is known once the operator has set the start of the warm-up.
	if st.WarmupStartTime != nil {
		if eta := time.Until(st.WarmupStartTime.Add(load.PlanOf(run.Spec.Load, 0).LastWindow())); eta > 0 {
			head += fmt.Sprintf(", %s to go", eta.Round(time.Second))
		}
	}
	out := []string{head}
	for _, f := range st.Conditions {
		// Completed and Ready would only repeat the stage.
		if f.Status != metav1.ConditionTrue && f.Type != v1alpha1.ConditionCompleted && f.Type != v1alpha1.ConditionReady && f.Message != "" {
			out = append(out, "  "+f.Type+": "+f.Message)
		}
	}
	reports := &corev1.ConfigMapList{}
	if c.List(ctx, reports, client.InNamespace(c.namespace), client.MatchingLabels{kube.LabelRun: run.Name}) != nil {
		return out // the next call may succeed
	}
	type total struct{ perSecond, committed, aborted, failed, retried, weighted int64 }
	byRegion := map[string]*total{}
	for i := range reports.Items {
		var p deploy.Progress
		region := reports.Items[i].Labels[kube.LabelRegion]
		// The run has further ConfigMaps, such as its result, which report no progress.
		if json.Unmarshal([]byte(reports.Items[i].Data[deploy.KeyProgress]), &p) != nil || region == "" {
			continue
		}
		t := byRegion[region]
		if t == nil {
			t = &total{}
			byRegion[region] = t
		}
		t.perSecond += p.ThroughputPerSecond
		t.committed += p.Committed
		t.aborted += p.Aborted
		t.failed += p.Failed
		t.retried += p.Retried
		// Weight means by throughput, so that the region's mean is over transactions, not over workers.
		t.weighted += p.MeanMicroseconds * p.ThroughputPerSecond
	}
	for _, region := range slices.Sorted(maps.Keys(byRegion)) {
		t := byRegion[region]
		mean := fmt.Sprintf("%7s       ", "-")
		if t.perSecond > 0 {
			mean = fmt.Sprintf("%7.1fms mean", float64(t.weighted/t.perSecond)/1000)
		}
		line := fmt.Sprintf("  %-16s %8d/s  %s  %10d committed  %d aborted", region, t.perSecond, mean, t.committed, t.aborted)
		if t.retried > 0 {
			line += fmt.Sprintf("  %d retried", t.retried)
		}
		if t.failed > 0 {
			line += fmt.Sprintf("  %d failed!", t.failed)
		}
		out = append(out, line)
	}
	for _, f := range st.Faults {
		if f.State == string(fault.Active) {
			out = append(out, "  fault "+f.Name)
		}
	}
	return out
}
