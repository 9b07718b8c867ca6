//go:build full

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/results"
	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/manifest/wrong"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// TestOnACluster uses a fake API server with a run in progress, a run that passed with a result, and a database.
func TestOnACluster(t *testing.T) {
	_, document, _ := geobench(t, wrong.Valid, "simulate", "-q", "-f", "-", "-o", "json")
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "bench"} }
	c := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(
		&v1alpha1.BenchmarkRun{ObjectMeta: meta("underway"), Status: v1alpha1.BenchmarkRunStatus{Stage: v1alpha1.StageMeasure}},
		&v1alpha1.BenchmarkRun{ObjectMeta: meta("done"), Status: v1alpha1.BenchmarkRunStatus{Stage: v1alpha1.StageCompleted,
			Verdict: v1alpha1.VerdictPassed, ReportRef: &v1alpha1.LocalReference{Name: "done-result"},
			Baseline: &v1alpha1.BaselineStatus{Name: "before", Verdict: v1alpha1.ChangeImprovement, Message: "better: throughput"}}},
		&corev1.ConfigMap{ObjectMeta: meta("done-result"), Data: map[string]string{results.Key: document}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "expired-result", Namespace: "bench", Labels: map[string]string{kube.LabelExpired: "true"}},
			Data: map[string]string{results.Key: document}},
		&corev1.ConfigMap{ObjectMeta: meta("nobodys-result"), Data: map[string]string{results.Key: document}},
		&v1alpha1.GeoDatabase{ObjectMeta: meta("calvin"),
			Spec: v1alpha1.GeoDatabaseSpec{Regions: []v1alpha1.Region{{Name: "east"}, {Name: "west"}}},
			Status: v1alpha1.GeoDatabaseStatus{Emulation: v1alpha1.EmulationBuiltIn, Links: []v1alpha1.LinkStatus{
				{From: "east", To: "west", DeclaredRTTMicroseconds: 100_000, MeasuredRTTMicroseconds: v1alpha1.RTTMicroseconds{P50: 100_300}, Samples: 9}}}},
	).Build()
	real := connect
	connect = func(f clusterFlags) (*cluster, error) { return &cluster{c, f.namespace}, nil }
	t.Cleanup(func() { connect = real })
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"show":                   {[]string{"show", "run/done"}, 0, "run: Passed  SIMULATED"},
		"show what is kept":      {[]string{"show", "run/expired"}, 0, "run: Passed  SIMULATED"},
		"show what is not":       {[]string{"show", "run/nobodys"}, exit.Usage, "there is no BenchmarkRun nobodys"},
		"compare":                {[]string{"compare", "run/done", "run/done"}, exit.Broken, "Undecided: 1 and 1"},
		"report":                 {[]string{"report", "run/done", "-o", t.TempDir()}, 0, "index.html"},
		"matrix":                 {[]string{"matrix", "calvin"}, 0, "100.3ms (100.0ms)"},
		"watch one that is over": {[]string{"watch", "done"}, 0, "against before: Improvement: better: throughput"},
		"cancel":                 {[]string{"cancel", "underway"}, 0, "cancelled in stage Measure"},
		"cancel too late":        {[]string{"cancel", "done"}, exit.Usage, "is over already: Completed, Passed"},
		"no result":              {[]string{"show", "run/underway"}, exit.Usage, "kubectl geobench watch underway"},
		"misspelt run":           {[]string{"watch", "underwya"}, exit.Usage, "did you mean underway?"},
		"misspelt database":      {[]string{"matrix", "clavin"}, exit.Usage, "did you mean calvin?"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := geobench(t, "", append(tc.args, "-n", "bench")...)
			if code != tc.code || !strings.Contains(stdout+stderr, tc.want) {
				t.Errorf("exit code %d, want %d with %q: %s%s", code, tc.code, tc.want, stdout, stderr)
			}
		})
	}
	run := &v1alpha1.BenchmarkRun{}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "bench", Name: "underway"}, run); err != nil || !run.Spec.Cancel {
		t.Errorf("spec.cancel is %v, %v", run.Spec.Cancel, err)
	}
}

// The lines of a running run show each region's throughput, its mean latency weighted over its workers, failures, and
// active faults.
func TestLinesOfARun(t *testing.T) {
	report := func(name, region string, before, now load.Progress) *corev1.ConfigMap {
		progress, err := json.Marshal(since(before, now))
		if err != nil {
			t.Fatal(err)
		}
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "bench", Labels: map[string]string{kube.LabelRun: "r", kube.LabelRegion: region}},
			Data:       map[string]string{deploy.KeyProgress: string(progress)},
		}
	}
	interval := int64(progressEvery / time.Second)
	c := &cluster{fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(
		report("a", "east", load.Progress{Committed: 100, Latency: time.Hour}, load.Progress{Committed: 100 + 300*interval, Failed: 7, Latency: time.Hour + time.Duration(300*interval)*10*time.Millisecond}),
		report("b", "east", load.Progress{}, load.Progress{Committed: 100 * interval, Aborted: 2, Retried: 3, Latency: time.Duration(100*interval) * 50 * time.Millisecond}),
		report("c", "west", load.Progress{Committed: 5}, load.Progress{Committed: 5}),
	).Build(), "bench"}
	run := &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "bench"}, Status: v1alpha1.BenchmarkRunStatus{
		Stage: v1alpha1.StageMeasure, Faults: []v1alpha1.FaultStatus{{Name: "slow", State: "Active"}, {Name: "later", State: "Waiting"}}}}
	got := strings.Join(c.lines(t.Context(), run), "\n")
	want := fmt.Sprintf(`r: Measure
  east                  400/s     20.0ms mean  %10d committed  2 aborted  3 retried  7 failed!
  west                    0/s        -                  5 committed  0 aborted
  fault slow`, 100+400*interval)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
