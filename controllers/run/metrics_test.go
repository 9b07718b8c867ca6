package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
)

func TestMetrics(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ended := func(ago time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-ago)} }
	db := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: "d"}, Spec: v1alpha1.GeoDatabaseSpec{
		Engine: v1alpha1.Engine{Name: "calvin"}, Network: v1alpha1.Network{Profile: &v1alpha1.NetworkProfileSpec{}},
	}}
	run := func(name, database string) *v1alpha1.BenchmarkRun {
		return &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: name},
			Spec: v1alpha1.BenchmarkRunSpec{DatabaseRef: v1alpha1.LocalReference{Name: database}}}
	}
	db.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionNetworkVerified, Status: metav1.ConditionTrue}}
	passed := run("a", "d")
	passed.Status.Stage, passed.Status.Verdict, passed.Status.CompletionTime = v1alpha1.StageCompleted, v1alpha1.VerdictPassed, ended(time.Minute)
	old := run("c", "d")
	old.Status.Stage, old.Status.Verdict, old.Status.CompletionTime = v1alpha1.StageCompleted, v1alpha1.VerdictPassed, ended(time.Hour)
	waiting := run("b", "gone")
	waiting.Status.Stage, waiting.Status.StageStartTime = v1alpha1.StageLoad, ended(10*time.Second)
	limit, rate := intstr.FromString("250ms"), intstr.FromInt32(1000)
	waiting.Spec.Objectives = []v1alpha1.Objective{
		{Metric: v1alpha1.MetricLatencyP99, Region: "eu", Max: &limit}, {Metric: v1alpha1.MetricThroughput, Min: &rate},
	}
	reader := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(db, passed, waiting, old).Build()
	c := NewCollector(reader, clocktesting.NewFakePassiveClock(now))
	expected := fmt.Sprintf(`
# HELP geobench_database_network_verified 1 when the measured network of a database matches the declared network, else 0.
# TYPE geobench_database_network_verified gauge
geobench_database_network_verified{database="d",namespace="test"} 1
# HELP geobench_databases GeoDatabases by engine, and by whether they are ready (true, false).
# TYPE geobench_databases gauge
geobench_databases{engine="calvin",ready="false"} 1
# HELP geobench_run_objective_latency_seconds Limit of an objective on a latency; percentile is p50, p90, p95 or p99, bound is min or max, an empty region or transaction stands for all.
# TYPE geobench_run_objective_latency_seconds gauge
geobench_run_objective_latency_seconds{bound="max",database="gone",namespace="test",percentile="p99",region="eu",run="b",transaction=""} 0.25
# HELP geobench_run_objective_throughput Limit of an objective on committed transactions per second; bound is min or max, an empty region or transaction stands for all.
# TYPE geobench_run_objective_throughput gauge
geobench_run_objective_throughput{bound="min",database="gone",namespace="test",region="",run="b",transaction=""} 1000
# HELP geobench_run_stage 1 for the stage that a run is in. Dashboards draw their bands from it.
# TYPE geobench_run_stage gauge
geobench_run_stage{database="d",namespace="test",run="a",stage="Completed"} 1
geobench_run_stage{database="gone",namespace="test",run="b",stage="Load"} 1
# HELP geobench_run_stage_deadline_timestamp_seconds Time at which the operator gives up on the current stage of a run, in Unix time.
# TYPE geobench_run_stage_deadline_timestamp_seconds gauge
geobench_run_stage_deadline_timestamp_seconds{database="gone",namespace="test",run="b",stage="Load"} %d
# HELP geobench_runs BenchmarkRuns by stage and verdict; the verdict is empty until a run has ended.
# TYPE geobench_runs gauge
geobench_runs{stage="Completed",verdict="Passed"} 2
geobench_runs{stage="Load",verdict=""} 1
`, now.Add(30*time.Minute-10*time.Second).Unix())
	if err := testutil.CollectAndCompare(c, strings.NewReader(expected), "geobench_database_network_verified", "geobench_databases",
		"geobench_run_objective_latency_seconds", "geobench_run_objective_throughput", "geobench_run_stage",
		"geobench_run_stage_deadline_timestamp_seconds", "geobench_runs"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
	if problems, err := testutil.GatherAndLint(metrics.Registry, "geobench_run_stage_duration_seconds"); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
}
