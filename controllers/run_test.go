package controllers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/results"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// activeStages are all stages from which a run goes on.
var activeStages = []v1alpha1.Stage{
	v1alpha1.StagePreflight, v1alpha1.StageProvision, v1alpha1.StageEmulate, v1alpha1.StageLoad, v1alpha1.StageWarmup,
	v1alpha1.StageMeasure, v1alpha1.StageRecover, v1alpha1.StageCollect, v1alpha1.StageEvaluate,
}

func TestRunGoesThroughAllStages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").partitions(2).obj(), makeRun("r").database("d").workers(2).repetitions(2).minThroughput(10).obj())
	var seen []v1alpha1.Stage
	settled := false // what is on its way between regions is waited for before the data is judged
	w.until("the run is over", func() bool {
		run := w.getRun("r")
		if s := run.Status.Stage; s != "" && !slices.Contains(seen, s) {
			seen = append(seen, s)
		}
		c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionDatabaseQuiet)
		settled = settled || c != nil && c.Reason == "Settling"
		return kube.Over(run) && len(run.Finalizers) == 0
	})
	if want := append(slices.Clone(activeStages), v1alpha1.StageCompleted); !slices.Equal(seen, want) {
		// Recover and the like may pass within one step; what was seen must be in order.
		for i := 1; i < len(seen); i++ {
			if slices.Index(want, seen[i]) <= slices.Index(want, seen[i-1]) {
				t.Errorf("stages %v are out of order", seen)
			}
		}
	}
	if !settled {
		t.Error("the data was judged at once")
	}
	run := w.getRun("r")
	st := &run.Status
	if st.Stage != v1alpha1.StageCompleted || st.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s %s: %s %s", st.Stage, st.Verdict, st.Reason, st.Message)
	}
	if st.Summary == nil || st.Summary.Committed != 4*2*w.committed || st.Summary.LatencyMicroseconds.P50.Least() == 0 {
		t.Errorf("summary is %+v, want %d committed", st.Summary, 4*2*w.committed)
	}
	if len(st.Regions) != 2 || len(st.Repetitions) != 2 || len(st.Objectives) != 1 || !st.Objectives[0].Holds || len(st.Checks) == 0 {
		t.Errorf("status lacks parts: %+v", st)
	}
	if !st.MeasureStartTime.Time.Equal(st.WarmupStartTime.Add(2 * time.Second)) {
		t.Errorf("measuring starts at %s, warm-up at %s", st.MeasureStartTime, st.WarmupStartTime)
	}
	for _, c := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionDatabaseReady, v1alpha1.ConditionNetworkVerified,
		v1alpha1.ConditionDataLoaded, v1alpha1.ConditionMeasured, v1alpha1.ConditionCompleted} {
		if !conditionIs(st.Conditions, c, metav1.ConditionTrue) {
			t.Errorf("condition %s is not true", c)
		}
	}
	doc, err := results.Read(run, w.get(st.ReportRef.Name, &corev1.ConfigMap{}).(*corev1.ConfigMap))
	if err != nil {
		t.Fatal(err)
	}
	if doc.Verdict != v1alpha1.VerdictPassed || doc.Engine != "calvin" || len(doc.Nodes) != 4 {
		t.Errorf("the document says %s of %s with %d nodes", doc.Verdict, doc.Engine, len(doc.Nodes))
	}
	if left := w.leftovers("r"); !slices.Equal(left, []string{"ConfigMap r-result"}) {
		t.Errorf("left over: %v", left)
	}
	if db := w.getDatabase("d"); db.Status.ActiveRun != "" {
		t.Errorf("the database still belongs to %q", db.Status.ActiveRun)
	}
	w.ranOnce()
}

// ranOnce checks that every worker ran once and that all were told the same start.
func (w *world) ranOnce() {
	w.t.Helper()
	for job, n := range w.jobsRun {
		if n != 1 {
			w.t.Errorf("worker %s ran %d times", job, n)
		}
	}
	w.startedOnce()
}

// startedOnce tells whether the workers of each run were all told one start.
func (w *world) startedOnce() {
	w.t.Helper()
	for run, starts := range w.starts {
		if len(slices.Compact(slices.Clone(starts))) != 1 {
			w.t.Errorf("workers of run %s were told different starts: %v", run, starts)
		}
	}
}

// TestOperatorDiesAfterEveryWrite lets the operator die after each single write to the API server, wherever it is, and
// go on with an empty memory.
func TestOperatorDiesAfterEveryWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dieAfterEveryWrite()
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").workers(2).obj())
	w.until("the run is over", func() bool {
		w.revive()
		run := w.getRun("r")
		return kube.Over(run) && !controllerutil.ContainsFinalizer(run, kube.Finalizer)
	})
	st := w.getRun("r").Status
	if st.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("after %d deaths the run ended %s: %s", w.deaths, st.Verdict, st.Message)
	}
	if w.deaths < 30 {
		t.Errorf("the operator died only %d times", w.deaths)
	}
	if w.loads != 2 {
		t.Errorf("data was loaded %d times into 2 nodes", w.loads)
	}
	w.ranOnce()
}

// TestOperatorRestartsInEachStage starts a new operator in every stage, after a while without any.
func TestOperatorRestartsInEachStage(t *testing.T) {
	for _, stage := range activeStages {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
			w.untilAtLeast("r", stage)
			w.restartOperator()
			for range 3 { // the cluster goes on without an operator
				w.playCluster()
				w.clock.Step(500 * time.Millisecond)
			}
			run := w.untilOver("r")
			if run.Status.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("the run ended %s: %s", run.Status.Verdict, run.Status.Message)
			}
			w.ranOnce()
		})
	}
}

// untilAtLeast steps until the run has reached a stage; short stages may be over within a step.
func (w *world) untilAtLeast(name string, stage v1alpha1.Stage) *v1alpha1.BenchmarkRun {
	w.t.Helper()
	w.until(fmt.Sprintf("run %s reaches stage %s", name, stage), func() bool {
		run := w.getRun(name)
		return kube.Over(run) || slices.Index(activeStages, run.Status.Stage) >= slices.Index(activeStages, stage)
	})
	return w.getRun(name)
}

func TestDeletionLeavesNothing(t *testing.T) {
	for _, stage := range append(slices.Clone(activeStages), v1alpha1.StageCompleted) {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
			var run *v1alpha1.BenchmarkRun
			if stage == v1alpha1.StageCompleted {
				w.until("the run has completed", func() bool { return kube.Over(w.getRun("r")) })
				run = w.getRun("r")
			} else {
				run = w.untilAtLeast("r", stage)
			}
			w.must(w.client.Delete(w.ctx, run))
			w.until("the run is gone", func() bool {
				return apierrors.IsNotFound(w.client.Get(w.ctx, client.ObjectKeyFromObject(run), &v1alpha1.BenchmarkRun{}))
			})
			if left := w.leftovers("r"); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
			if db := w.getDatabase("d"); db.Status.ActiveRun != "" || db.DeletionTimestamp != nil {
				t.Errorf("the database still belongs to %q", db.Status.ActiveRun)
			}
		})
	}
}

func TestLossesMakeARunInvalid(t *testing.T) {
	tests := map[string]struct {
		stage   v1alpha1.Stage
		lose    func(*world)
		reason  string
		message string
	}{
		"a node's process is replaced while measuring": {v1alpha1.StageMeasure, func(w *world) {
			w.nodes[w.nodePod("d", "us-west-2", 0).Status.PodIP].process = "another"
		}, "NodeLost", "d-us-west-2-0"},
		"a node's process is replaced while warming up": {v1alpha1.StageWarmup, func(w *world) {
			w.until("the start is known", func() bool { return w.getRun("r").Status.WarmupStartTime != nil })
			w.nodes[w.nodePod("d", "us-west-2", 0).Status.PodIP].process = "another"
		}, "NodeLost", "process was replaced"},
		"a node says that its database is broken": {v1alpha1.StageMeasure, func(w *world) {
			w.nodes[w.nodePod("d", "ap-northeast-1", 0).Status.PodIP].broken = true
		}, "NodeLost", "d-ap-northeast-1-0"},
		"a node's container restarts": {v1alpha1.StageMeasure, func(w *world) {
			pod := w.nodePod("d", "us-west-2", 0)
			pod.Status.ContainerStatuses[0].RestartCount = 1
			pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}
			w.must(w.client.Status().Update(w.ctx, pod))
		}, "NodeLost", "OOMKilled, exit code 137"},
		"a node's pod is deleted and made again": {v1alpha1.StageMeasure, func(w *world) {
			w.must(w.client.Delete(w.ctx, w.nodePod("d", "us-west-2", 0), client.GracePeriodSeconds(0)))
			w.playCluster()
		}, "NodeLost", "d-us-west-2-0"},
		"a worker gives up": {v1alpha1.StageMeasure, func(w *world) {
			w.patchReport("r", "us-west-2", map[string]string{deploy.KeyState: deploy.StateFailed, deploy.KeyMessage: "no connection"})
		}, "WorkerFailed", "no connection"},
		"a worker's pod dies": {v1alpha1.StageMeasure, func(w *world) {
			pod := w.workerPod("r", "us-west-2")
			pod.Status.Phase = corev1.PodFailed
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}
			w.must(w.client.Status().Update(w.ctx, pod))
		}, "WorkerFailed", "OOMKilled, exit code 137"},
		"a worker's Job is deleted": {v1alpha1.StageMeasure, func(w *world) {
			job := w.get(kube.WorkerName(w.getRun("r"), "us-west-2"), &batchv1.Job{})
			w.must(w.client.Delete(w.ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		}, "WorkerObjectDeleted", "was deleted"},
		"a worker's ConfigMap is deleted": {v1alpha1.StageMeasure, func(w *world) {
			w.must(w.client.Delete(w.ctx, w.get(kube.ReportName(w.getRun("r"), "us-west-2", 0), &corev1.ConfigMap{})))
		}, "WorkerObjectDeleted", "was deleted"},
		"the database is deleted": {v1alpha1.StageMeasure, func(w *world) {
			w.must(w.client.Delete(w.ctx, w.getDatabase("d")))
		}, "DatabaseDeleted", "GeoDatabase d was deleted"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
			w.untilStage("r", tt.stage)
			tt.lose(w)
			// Whichever controller notices first, the run must not pass.
			w.until("the run is over", func() bool { return kube.Over(w.getRun("r")) })
			run := w.untilOver("r")
			if run.Status.Stage != v1alpha1.StageFailed || run.Status.Verdict != v1alpha1.VerdictInvalid {
				t.Fatalf("the run ended %s %s: %s", run.Status.Stage, run.Status.Verdict, run.Status.Message)
			}
			if reason := run.Status.Reason; reason != tt.reason && !(tt.reason == "NodeLost" && reason == "DatabaseReplaced") {
				t.Errorf("reason is %s, want %s", reason, tt.reason)
			}
			if !strings.Contains(run.Status.Message, tt.message) {
				t.Errorf("message %q does not hold %q", run.Status.Message, tt.message)
			}
			if left := w.leftovers("r"); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
			w.ranOnce()
		})
	}
}

func (w *world) workerPod(run, region string) *corev1.Pod {
	w.t.Helper()
	pods := &corev1.PodList{}
	w.must(w.client.List(w.ctx, pods, client.InNamespace(w.namespace), client.MatchingLabels{kube.LabelRun: run, kube.LabelRegion: region}))
	if len(pods.Items) == 0 {
		w.t.Fatalf("run %s has no worker in %s", run, region)
	}
	return &pods.Items[0]
}

func (w *world) patchReport(run, region string, data map[string]string) {
	w.t.Helper()
	cm := w.get(kube.ReportName(w.getRun(run), region, 0), &corev1.ConfigMap{}).(*corev1.ConfigMap)
	base := cm.DeepCopy()
	for k, v := range data {
		cm.Data[k] = v
	}
	w.must(w.client.Patch(w.ctx, cm, client.MergeFrom(base)))
}

// TestDatabaseIsMadeAnewWhileLoading: nothing was measured yet, so the run goes on with the new nodes.
func TestDatabaseIsMadeAnewWhileLoading(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj())
	w.untilReady("d")
	w.clock.Step(time.Minute)
	w.create(makeRun("r").database("d").obj())
	w.untilStage("r", v1alpha1.StageLoad)
	w.nodes[w.nodePod("d", "us-west-2", 0).Status.PodIP].broken = true
	run := w.untilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("the run ended %s: %s", run.Status.Verdict, run.Status.Message)
	}
	if inc := w.getDatabase("d").Status.Incarnation; !strings.HasSuffix(inc, "-2") || run.Status.DatabaseIncarnation != inc {
		t.Errorf("the run used incarnation %s, the database is %s", run.Status.DatabaseIncarnation, inc)
	}
}

func TestOperatorAwayWhileWorkersWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
	w.until("the start is chosen", func() bool { return w.getRun("r").Status.WarmupStartTime != nil })
	first := w.getRun("r").Status.WarmupStartTime
	w.clock.Step(20 * time.Second) // nobody was told yet
	run := w.untilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed || run.Status.WarmupStartTime.Equal(first) {
		t.Errorf("the run ended %s: %s; start %s was %s", run.Status.Verdict, run.Status.Message, run.Status.WarmupStartTime, first)
	}
	w.ranOnce()
}

// TestStartWaitsForTheNetwork: workers that start keep the machine busy, and round trips that were right a minute ago
// are not.
func TestStartWaitsForTheNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
	w.until("the workers are made", func() bool { return w.getRun("r").Status.Stage == v1alpha1.StageWarmup })
	w.rttOff = 50 * time.Millisecond
	w.until("the run waits for the network", func() bool {
		c := meta.FindStatusCondition(w.getRun("r").Status.Conditions, v1alpha1.ConditionMeasured)
		return c != nil && c.Reason == "WaitingForNetwork"
	})
	if start := w.getRun("r").Status.WarmupStartTime; start != nil {
		t.Errorf("a start was chosen, %s, over a network that is not the declared one", start)
	}
	w.rttOff = 0
	if run := w.untilOver("r"); run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("the run ended %s: %s", run.Status.Verdict, run.Status.Message)
	}
}

func TestOperatorAwayWhenOnlySomeWorkersWereTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
	w.until("the start is chosen", func() bool { return w.getRun("r").Status.WarmupStartTime != nil })
	w.patchReport("r", "us-west-2", map[string]string{deploy.KeyStartAt: w.getRun("r").Status.WarmupStartTime.UTC().Format(time.RFC3339Nano)})
	w.playCluster()
	w.clock.Step(20 * time.Second)
	run := w.untilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictInvalid || run.Status.Reason != "StartMissed" {
		t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
}

// What cannot be told of a database's rows is judged as it is in every place: its run has a result, which is Invalid.
func TestDatabaseWhoseRowsAreNotKnown(t *testing.T) {
	for name, tt := range map[string]struct {
		world           func(*world)
		reason, message string
	}{
		"never quiet": {func(w *world) { w.pending = 3 }, result.ReasonNotQuiet, "not quiet 2m0s after the last answer, with 6 unfinished transactions"},
		"no audit":    {func(w *world) { w.noAudit = errors.New("no memory left") }, result.ReasonNotAudited, "the rows could not be audited: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.world(w)
			w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
			w.until("the run is over", func() bool {
				run := w.getRun("r")
				if since := run.Status.StageStartTime; run.Status.Stage == v1alpha1.StageEvaluate && w.clock.Since(since.Time) > 20*time.Second {
					w.clock.Step(30 * time.Second)
				}
				return kube.Over(run) && len(run.Finalizers) == 0
			})
			st := w.getRun("r").Status
			if st.Stage != v1alpha1.StageCompleted || st.Verdict != v1alpha1.VerdictInvalid || st.Reason != tt.reason || st.ReportRef == nil || !strings.Contains(st.Message, tt.message) {
				t.Errorf("the run ended %s %s %s: %s", st.Stage, st.Verdict, st.Reason, st.Message)
			}
		})
	}
}

func TestDeadlines(t *testing.T) {
	tests := map[string]struct {
		db      func(*databaseBuilder)
		run     func(*runBuilder)
		world   func(*world)
		reason  string
		message string
	}{
		"the whole run": {run: func(r *runBuilder) { r.deadline(30 * time.Second) }, world: func(w *world) { w.rttOff = 50 * time.Millisecond },
			reason: "DeadlineExceeded", message: "stage Emulate"},
		"a network that is never right": {world: func(w *world) { w.rttOff = 50 * time.Millisecond },
			reason: "StageDeadlineExceeded", message: "declared 100ms, measured p50 150"},
		"workers that never get ready": {world: func(w *world) { w.workersHang = ptr.To("") },
			reason: "WorkersNotReady", message: "0 of 2 workers are ready: worker 0 of region us-west-2 has not connected all of its clients yet after 5m"},
		"workers that never report": {world: func(w *world) { w.workersHang = ptr.To(deploy.StateRunning) },
			reason: "StageDeadlineExceeded", message: "0 of 2 workers have reported"},
		"a database that does not exist": {run: func(r *runBuilder) { r.database("other") },
			reason: "DatabaseNotFound", message: `no GeoDatabase "other"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			db, run := makeDatabase("d"), makeRun("r").database("d")
			if tt.run != nil {
				tt.run(run)
			}
			if tt.world != nil {
				tt.world(w)
			}
			w.create(db.obj(), run.obj())
			w.until("the run is over", func() bool {
				run := w.getRun("r")
				if since := run.Status.StageStartTime; since != nil && w.clock.Since(since.Time) > 20*time.Second {
					w.clock.Step(30 * time.Second) // it is stuck
				}
				return kube.Over(run) && len(run.Finalizers) == 0
			})
			st := w.getRun("r").Status
			if st.Stage != v1alpha1.StageFailed || st.Verdict != v1alpha1.VerdictInvalid || st.Reason != tt.reason || !strings.Contains(st.Message, tt.message) {
				t.Errorf("the run ended %s %s %s: %s", st.Stage, st.Verdict, st.Reason, st.Message)
			}
			if left := w.leftovers("r"); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

// A run whose deadline would pass while it measures ends before its load starts.
func TestDeadlineBeforeTheWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").deadline(13*time.Second).obj()) // the load takes 12 s
	st := w.untilOver("r").Status
	if st.Reason != "DeadlineExceeded" || !strings.Contains(st.Message, "spec.deadline") || st.WarmupStartTime != nil {
		t.Errorf("the run ended %s %s %s: %s; it started at %v", st.Stage, st.Verdict, st.Reason, st.Message, st.WarmupStartTime)
	}
}

// A deadline that passes once everything is measured loses no figures: the stages that are left have deadlines of their
// own.
func TestDeadlineAfterTheWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pending = 1 // the database keeps the run in Evaluate
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").deadline(time.Minute).obj())
	w.untilStage("r", v1alpha1.StageEvaluate)
	w.clock.Step(time.Minute)
	w.step()
	w.pending = 0
	if st := w.untilOver("r").Status; st.Stage != v1alpha1.StageCompleted || st.Verdict != v1alpha1.VerdictPassed || st.Summary == nil {
		t.Errorf("the run ended %s %s %s: %s", st.Stage, st.Verdict, st.Reason, st.Message)
	}
}

func TestRunsTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("b").database("d").obj(), makeRun("a").database("d").obj(), makeRun("c").database("d").obj())
	var order []string
	w.until("all runs are over", func() bool {
		runs := &v1alpha1.BenchmarkRunList{}
		w.must(w.client.List(w.ctx, runs, client.InNamespace(w.namespace)))
		active, done := 0, 0
		for i := range runs.Items {
			run := &runs.Items[i]
			if slices.Index(activeStages, run.Status.Stage) > slices.Index(activeStages, v1alpha1.StagePreflight) {
				active++
				if !slices.Contains(order, run.Name) {
					order = append(order, run.Name)
				}
			}
			if kube.Over(run) && len(run.Finalizers) == 0 {
				done++
			}
		}
		if active > 1 {
			t.Fatalf("%d runs use the database at once", active)
		}
		return done == 3
	})
	for _, name := range []string{"a", "b", "c"} {
		if st := w.getRun(name).Status; st.Verdict != v1alpha1.VerdictPassed {
			t.Errorf("run %s ended %s: %s", name, st.Verdict, st.Message)
		}
	}
	// Creation times have a resolution of a second; within one, names decide.
	runs := []client.Object{w.getRun("a"), w.getRun("b"), w.getRun("c")}
	slices.SortFunc(runs, func(a, b client.Object) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), strings.Compare(a.GetName(), b.GetName()))
	})
	want := []string{runs[0].GetName(), runs[1].GetName(), runs[2].GetName()}
	if !slices.Equal(order, want) {
		t.Errorf("the runs went in the order %v, want %v", order, want)
	}
}

func TestQueuedRunSaysForWhom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("first").database("d").duration(time.Minute).obj())
	w.untilAtLeast("first", v1alpha1.StageProvision)
	w.create(makeRun("second").database("d").deadline(50 * time.Second).obj())
	w.until("the second run waits", func() bool {
		for _, c := range w.getRun("second").Status.Conditions {
			if c.Reason == "DatabaseBusy" && strings.Contains(c.Message, "BenchmarkRun first") {
				return true
			}
		}
		return false
	})
	w.untilOver("first")
	// Its deadline counts from its turn, not from its creation.
	if st := w.untilOver("second").Status; st.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("the second run ended %s: %s", st.Verdict, st.Message)
	}
}

func TestAnotherRunIDRunsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").runID("one").obj())
	first := w.untilOver("r")
	base := first.DeepCopy()
	first.Spec.RunID = "two"
	w.must(w.client.Patch(w.ctx, first, client.MergeFrom(base)))
	w.committed = 7000
	w.until("the second attempt is over", func() bool {
		run := w.getRun("r")
		return run.Status.RunID == "two" && kube.Over(run) && len(run.Finalizers) == 0
	})
	run := w.getRun("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed || run.Status.Summary.Committed != 2*7000 {
		t.Errorf("the second attempt ended %s with %+v: %s", run.Status.Verdict, run.Status.Summary, run.Status.Message)
	}
	if len(w.jobsRun) != 4 {
		t.Errorf("%d workers ran in two attempts of two regions", len(w.jobsRun))
	}
	w.loadsAre(4)
}

func (w *world) loadsAre(n int) {
	w.t.Helper()
	if w.loads != n {
		w.t.Errorf("data was loaded %d times, want %d", w.loads, n)
	}
}

func TestPreflightRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj())
	w.untilReady("d")
	tests := map[string]struct {
		run     *runBuilder
		message string
	}{
		"sunflower": {makeRun("sunflower").sunflower("mars"), "sunflower[0].region"},
		"fault":     {makeRun("fault").faults("[{name: slow, at: 1s, duration: 1s, ioDelay: {target: {}, delay: 1ms}}]"), "spec.faults[0].ioDelay"},
		"deadline":  {makeRun("deadline").repetitions(3).deadline(34 * time.Second), "spec.deadline"},
		"too-long":  {makeRun("too-long").duration(7 * time.Hour), "timeline"},
	}
	for name, tt := range tests {
		w.create(tt.run.database("d").obj())
		run := w.untilOver(name)
		if run.Status.Stage != v1alpha1.StageFailed || !strings.Contains(run.Status.Message, tt.message) {
			t.Errorf("%s: the run ended %s %s: %s", name, run.Status.Stage, run.Status.Reason, run.Status.Message)
		}
		if left := w.leftovers(name); len(left) > 0 {
			t.Errorf("%s: left over: %v", name, left)
		}
	}
}

// TestWorkersMayTouchTheirReportsOnly looks at what the API server would allow a worker.
func TestWorkersMayTouchTheirReportsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").workers(2).obj())
	w.untilStage("r", v1alpha1.StageMeasure)
	run := w.getRun("r")
	role := w.get(kube.WorkerName(run, "us-west-2"), &rbacv1.Role{}).(*rbacv1.Role)
	want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "patch", "watch"},
		ResourceNames: []string{kube.ReportName(run, "us-west-2", 0), kube.ReportName(run, "us-west-2", 1)}}}
	if fmt.Sprint(role.Rules) != fmt.Sprint(want) {
		t.Errorf("the role allows %v, want %v", role.Rules, want)
	}
	for _, obj := range w.labelled("r") {
		if _, pod := obj.(*corev1.Pod); !pod && !metav1.IsControlledBy(obj, run) {
			t.Errorf("%s %s does not belong to the run", kube.KindOf(obj), obj.GetName())
		}
	}
}

// TestCancel cancels a run in each stage: it ends, leaves nothing but its status, and gives its database back.
func TestCancel(t *testing.T) {
	for _, stage := range activeStages {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
			run := w.untilAtLeast("r", stage)
			base := run.DeepCopy()
			run.Spec.Cancel = true
			w.must(w.client.Patch(w.ctx, run, client.MergeFrom(base)))
			w.until("the run is over", func() bool {
				run := w.getRun("r")
				return kube.Over(run) && len(run.Finalizers) == 0
			})
			st := w.getRun("r").Status
			if st.Stage == v1alpha1.StageCompleted {
				return // it was quicker
			}
			if st.Stage != v1alpha1.StageFailed || st.Verdict != v1alpha1.VerdictInvalid || st.Reason != "Cancelled" || !strings.Contains(st.Message, "change spec.runID") {
				t.Errorf("the run ended %s %s: %s: %s", st.Stage, st.Verdict, st.Reason, st.Message)
			}
			if left := w.leftovers("r"); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
			if db := w.getDatabase("d"); db.Status.ActiveRun != "" {
				t.Errorf("the database still belongs to %q", db.Status.ActiveRun)
			}
		})
	}
}

func TestBaseline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tests := []struct {
		name, baseline string
		repetitions    int32
		committed      int64
		verdict        v1alpha1.Change
		status         metav1.ConditionStatus
		says           string
	}{
		{"base", "", 5, 1000, "", "", ""},
		{"same", "base", 5, 1000, v1alpha1.ChangeNoDifference, metav1.ConditionTrue, "none of throughput"},
		{"better", "base", 5, 2000, v1alpha1.ChangeImprovement, metav1.ConditionTrue, "better: throughput +100.0%"},
		{"worse", "base", 5, 500, v1alpha1.ChangeRegression, metav1.ConditionFalse, "worse: throughput -50.0%"},
		{"short", "base", 1, 1000, v1alpha1.ChangeUndecided, metav1.ConditionUnknown, "spec.load.repetitions"},
		{"alone", "nobody", 1, 1000, v1alpha1.ChangeUndecided, metav1.ConditionUnknown, `has no BenchmarkRun "nobody"`},
		{"invalid", "base", 5, 0, v1alpha1.ChangeUndecided, metav1.ConditionUnknown, "B, invalid, is Invalid and cannot be compared with: NoTransactions"},
		{"sound", "invalid", 5, 1000, v1alpha1.ChangeUndecided, metav1.ConditionUnknown, "A, invalid, is Invalid and cannot be compared with: NoTransactions"},
	}
	w.create(makeDatabase("d").obj())
	for _, tc := range tests {
		run := makeRun(tc.name).database("d").repetitions(tc.repetitions)
		if tc.baseline != "" {
			run.Spec.BaselineRef = &v1alpha1.LocalReference{Name: tc.baseline}
		}
		w.committed = tc.committed
		w.create(run.obj())
		st := w.untilOver(tc.name).Status
		if (st.Verdict == v1alpha1.VerdictPassed) != (tc.committed > 0) {
			t.Fatalf("%s ended %s: %s", tc.name, st.Verdict, st.Message)
		}
		c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionNotRegressed)
		if tc.baseline == "" {
			if st.Baseline != nil || c != nil {
				t.Errorf("%s has no baseline, but %+v", tc.name, st.Baseline)
			}
			continue
		}
		if st.Baseline == nil || st.Baseline.Name != tc.baseline || st.Baseline.Verdict != tc.verdict || !strings.Contains(st.Baseline.Message, tc.says) ||
			c == nil || c.Status != tc.status || c.Reason != string(tc.verdict) {
			t.Errorf("%s: baseline %+v, condition %+v; want %s with %q", tc.name, st.Baseline, c, tc.verdict, tc.says)
		}
	}
}

// A data set that nodes refuse, since it does not fit, ends the run at once, and says why.
func TestDataIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tooMuch = "spec.workload: 65536 rows fill 750 of the 1000 MiB that the node may use"
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").obj())
	st := w.untilOver("r").Status
	if st.Verdict != v1alpha1.VerdictInvalid || st.Reason != "DataRefused" || !strings.Contains(st.Message, w.tooMuch) {
		t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
	}
	if took := st.CompletionTime.Sub(st.StartTime.Time); took > time.Minute {
		t.Errorf("that took %v", took)
	}
}
