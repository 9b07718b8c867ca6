package run_test

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
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy"
)

func TestRunGoesThroughAllStages(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Partitions(2).Obj(), worldtest.MakeRun("r").Database("d").Workers(2).Repetitions(2).MinThroughput(10).Obj())
	var seen []v1alpha1.Stage
	settled := false // false while the audit waits for messages in flight between regions
	w.Until("the run is over", func() bool {
		run := w.GetRun("r")
		if s := run.Status.Stage; s != "" && !slices.Contains(seen, s) {
			seen = append(seen, s)
		}
		c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionDatabaseQuiet)
		settled = settled || c != nil && c.Reason == "Settling"
		return kube.Over(run) && len(run.Finalizers) == 0
	})
	if want := append(slices.Clone(worldtest.ActiveStages), v1alpha1.StageCompleted); !slices.Equal(seen, want) {
		// Short stages such as Recover may pass within one step, so check only the order of the observed stages.
		for i := 1; i < len(seen); i++ {
			if slices.Index(want, seen[i]) <= slices.Index(want, seen[i-1]) {
				t.Errorf("stages %v are out of order", seen)
			}
		}
	}
	if !settled {
		t.Error("the data was judged at once")
	}
	run := w.GetRun("r")
	st := &run.Status
	if st.Stage != v1alpha1.StageCompleted || st.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the run ended %s %s: %s %s", st.Stage, st.Verdict, st.Reason, st.Message)
	}
	if st.Summary == nil || st.Summary.Committed != 4*2*w.Committed || st.Summary.LatencyMicroseconds.P50.Least() == 0 {
		t.Errorf("summary is %+v, want %d committed", st.Summary, 4*2*w.Committed)
	}
	if len(st.Regions) != 2 || len(st.Repetitions) != 2 || len(st.Objectives) != 1 || !st.Objectives[0].Holds || len(st.Checks) == 0 {
		t.Errorf("status lacks parts: %+v", st)
	}
	if !st.MeasureStartTime.Time.Equal(st.WarmupStartTime.Add(2 * time.Second)) {
		t.Errorf("measuring starts at %s, warm-up at %s", st.MeasureStartTime, st.WarmupStartTime)
	}
	for _, c := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionDatabaseReady, v1alpha1.ConditionNetworkVerified,
		v1alpha1.ConditionDataLoaded, v1alpha1.ConditionMeasured, v1alpha1.ConditionCompleted} {
		if !worldtest.ConditionIs(st.Conditions, c, metav1.ConditionTrue) {
			t.Errorf("condition %s is not true", c)
		}
	}
	doc, err := results.Read(run, w.Get(st.ReportRef.Name, &corev1.ConfigMap{}).(*corev1.ConfigMap))
	if err != nil {
		t.Fatal(err)
	}
	if doc.Verdict != v1alpha1.VerdictPassed || doc.Engine != "calvin" || len(doc.Nodes) != 4 {
		t.Errorf("the document says %s of %s with %d nodes", doc.Verdict, doc.Engine, len(doc.Nodes))
	}
	if left := w.Leftovers("r"); !slices.Equal(left, []string{"ConfigMap r-result"}) {
		t.Errorf("left over: %v", left)
	}
	if db := w.GetDatabase("d"); db.Status.ActiveRun != "" {
		t.Errorf("the database still belongs to %q", db.Status.ActiveRun)
	}
	w.RanOnce()
}

// TestOperatorDiesAfterEveryWrite makes the operator die after each single write to the API server and restart without
// any state in memory.
func TestOperatorDiesAfterEveryWrite(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.DieAfterEveryWrite()
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Workers(2).Obj())
	w.Until("the run is over", func() bool {
		w.Revive()
		run := w.GetRun("r")
		return kube.Over(run) && !controllerutil.ContainsFinalizer(run, kube.Finalizer)
	})
	st := w.GetRun("r").Status
	if st.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("after %d deaths the run ended %s: %s", w.Deaths, st.Verdict, st.Message)
	}
	if w.Deaths < 30 {
		t.Errorf("the operator died only %d times", w.Deaths)
	}
	if w.Loads != 2 {
		t.Errorf("data was loaded %d times into 2 nodes", w.Loads)
	}
	w.RanOnce()
}

// TestOperatorRestartsInEachStage starts a new operator in every stage, after some time without an operator.
func TestOperatorRestartsInEachStage(t *testing.T) {
	for _, stage := range worldtest.ActiveStages {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
			w.UntilAtLeast("r", stage)
			w.RestartOperator()
			for range 3 { // the cluster continues without an operator
				w.PlayCluster()
				w.FakeClock.Step(500 * time.Millisecond)
			}
			run := w.UntilOver("r")
			if run.Status.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("the run ended %s: %s", run.Status.Verdict, run.Status.Message)
			}
			w.RanOnce()
		})
	}
}

func TestDeletionLeavesNothing(t *testing.T) {
	for _, stage := range append(slices.Clone(worldtest.ActiveStages), v1alpha1.StageCompleted) {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
			var run *v1alpha1.BenchmarkRun
			if stage == v1alpha1.StageCompleted {
				w.Until("the run has completed", func() bool { return kube.Over(w.GetRun("r")) })
				run = w.GetRun("r")
			} else {
				run = w.UntilAtLeast("r", stage)
			}
			w.Must(w.Client.Delete(w.Ctx, run))
			w.Until("the run is gone", func() bool {
				return apierrors.IsNotFound(w.Client.Get(w.Ctx, client.ObjectKeyFromObject(run), &v1alpha1.BenchmarkRun{}))
			})
			if left := w.Leftovers("r"); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
			if db := w.GetDatabase("d"); db.Status.ActiveRun != "" || db.DeletionTimestamp != nil {
				t.Errorf("the database still belongs to %q", db.Status.ActiveRun)
			}
		})
	}
}

func TestLossesMakeARunInvalid(t *testing.T) {
	tests := map[string]struct {
		stage   v1alpha1.Stage
		lose    func(*worldtest.World)
		reason  string
		message string
	}{
		"a node's process is replaced while measuring": {v1alpha1.StageMeasure, func(w *worldtest.World) {
			w.PlayedNodes[w.NodePod("d", "us-west-2", 0).Status.PodIP].Process = "another"
		}, "NodeLost", "d-us-west-2-0"},
		"a node's process is replaced while warming up": {v1alpha1.StageWarmup, func(w *worldtest.World) {
			w.Until("the start is known", func() bool { return w.GetRun("r").Status.WarmupStartTime != nil })
			w.PlayedNodes[w.NodePod("d", "us-west-2", 0).Status.PodIP].Process = "another"
		}, "NodeLost", "process was replaced"},
		"a node says that its database is broken": {v1alpha1.StageMeasure, func(w *worldtest.World) {
			w.PlayedNodes[w.NodePod("d", "ap-northeast-1", 0).Status.PodIP].Broken = true
		}, "NodeLost", "d-ap-northeast-1-0"},
		"a node's container restarts": {v1alpha1.StageMeasure, func(w *worldtest.World) {
			pod := w.NodePod("d", "us-west-2", 0)
			pod.Status.ContainerStatuses[0].RestartCount = 1
			pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}
			w.Must(w.Client.Status().Update(w.Ctx, pod))
		}, "NodeLost", "OOMKilled, exit code 137"},
		"a node's pod is deleted and made again": {v1alpha1.StageMeasure, func(w *worldtest.World) {
			w.Must(w.Client.Delete(w.Ctx, w.NodePod("d", "us-west-2", 0), client.GracePeriodSeconds(0)))
			w.PlayCluster()
		}, "NodeLost", "d-us-west-2-0"},
		"a worker gives up": {v1alpha1.StageMeasure, func(w *worldtest.World) {
			w.PatchReport("r", "us-west-2", map[string]string{deploy.KeyState: deploy.StateFailed, deploy.KeyMessage: "no connection"})
		}, "WorkerFailed", "no connection"},
		"a worker's pod dies": {v1alpha1.StageMeasure, func(w *worldtest.World) {
			pod := w.WorkerPod("r", "us-west-2")
			pod.Status.Phase = corev1.PodFailed
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}
			w.Must(w.Client.Status().Update(w.Ctx, pod))
		}, "WorkerFailed", "OOMKilled, exit code 137"},
		"a worker's Job is deleted": {v1alpha1.StageMeasure, func(w *worldtest.World) {
			job := w.Get(kube.WorkerName(w.GetRun("r"), "us-west-2"), &batchv1.Job{})
			w.Must(w.Client.Delete(w.Ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		}, "WorkerObjectDeleted", "was deleted"},
		"a worker's ConfigMap is deleted": {v1alpha1.StageMeasure, func(w *worldtest.World) {
			w.Must(w.Client.Delete(w.Ctx, w.Get(kube.ReportName(w.GetRun("r"), "us-west-2", 0), &corev1.ConfigMap{})))
		}, "WorkerObjectDeleted", "was deleted"},
		"the database is deleted": {v1alpha1.StageMeasure, func(w *worldtest.World) {
			w.Must(w.Client.Delete(w.Ctx, w.GetDatabase("d")))
		}, "DatabaseDeleted", "GeoDatabase d was deleted"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
			w.UntilStage("r", tt.stage)
			tt.lose(w)
			// Whichever controller notices the loss first, the run must not pass.
			w.Until("the run is over", func() bool { return kube.Over(w.GetRun("r")) })
			run := w.UntilOver("r")
			if run.Status.Stage != v1alpha1.StageFailed || run.Status.Verdict != v1alpha1.VerdictInvalid {
				t.Fatalf("the run ended %s %s: %s", run.Status.Stage, run.Status.Verdict, run.Status.Message)
			}
			if reason := run.Status.Reason; reason != tt.reason && !(tt.reason == "NodeLost" && reason == "DatabaseReplaced") {
				t.Errorf("reason is %s, want %s", reason, tt.reason)
			}
			if !strings.Contains(run.Status.Message, tt.message) {
				t.Errorf("message %q does not hold %q", run.Status.Message, tt.message)
			}
			if left := w.Leftovers("r"); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
			w.RanOnce()
		})
	}
}

// TestDatabaseIsMadeAnewWhileLoading: nothing was measured yet, so the run continues with the new nodes.
func TestDatabaseIsMadeAnewWhileLoading(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj())
	w.UntilReady("d")
	w.FakeClock.Step(time.Minute)
	w.Create(worldtest.MakeRun("r").Database("d").Obj())
	w.UntilStage("r", v1alpha1.StageLoad)
	w.PlayedNodes[w.NodePod("d", "us-west-2", 0).Status.PodIP].Broken = true
	run := w.UntilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("the run ended %s: %s", run.Status.Verdict, run.Status.Message)
	}
	if inc := w.GetDatabase("d").Status.Incarnation; !strings.HasSuffix(inc, "-2") || run.Status.DatabaseIncarnation != inc {
		t.Errorf("the run used incarnation %s, the database is %s", run.Status.DatabaseIncarnation, inc)
	}
}

func TestOperatorAwayWhileWorkersWait(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
	w.Until("the start is chosen", func() bool { return w.GetRun("r").Status.WarmupStartTime != nil })
	first := w.GetRun("r").Status.WarmupStartTime
	w.FakeClock.Step(20 * time.Second) // no worker was notified yet
	run := w.UntilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed || run.Status.WarmupStartTime.Equal(first) {
		t.Errorf("the run ended %s: %s; start %s was %s", run.Status.Verdict, run.Status.Message, run.Status.WarmupStartTime, first)
	}
	w.RanOnce()
}

// TestStartWaitsForTheNetwork: starting workers keep the machine busy, so round trips that matched the declared network
// a minute ago may no longer match it.
func TestStartWaitsForTheNetwork(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
	w.Until("the workers are made", func() bool { return w.GetRun("r").Status.Stage == v1alpha1.StageWarmup })
	w.RTTOff = 50 * time.Millisecond
	w.Until("the run waits for the network", func() bool {
		c := meta.FindStatusCondition(w.GetRun("r").Status.Conditions, v1alpha1.ConditionMeasured)
		return c != nil && c.Reason == "WaitingForNetwork"
	})
	if start := w.GetRun("r").Status.WarmupStartTime; start != nil {
		t.Errorf("a start was chosen, %s, over a network that is not the declared one", start)
	}
	w.RTTOff = 0
	if run := w.UntilOver("r"); run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("the run ended %s: %s", run.Status.Verdict, run.Status.Message)
	}
}

func TestOperatorAwayWhenOnlySomeWorkersWereTold(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
	w.Until("the start is chosen", func() bool { return w.GetRun("r").Status.WarmupStartTime != nil })
	w.PatchReport("r", "us-west-2", map[string]string{deploy.KeyStartAt: w.GetRun("r").Status.WarmupStartTime.UTC().Format(time.RFC3339Nano)})
	w.PlayCluster()
	w.FakeClock.Step(20 * time.Second)
	run := w.UntilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictInvalid || run.Status.Reason != "StartMissed" {
		t.Errorf("the run ended %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
}

// If the rows of a database cannot be audited, the run still has a result, which is Invalid.
func TestDatabaseWhoseRowsAreNotKnown(t *testing.T) {
	for name, tt := range map[string]struct {
		world           func(*worldtest.World)
		reason, message string
	}{
		"never quiet": {func(w *worldtest.World) { w.Pending = 3 }, result.ReasonNotQuiet, "not quiet 2m0s after the last answer, with 6 unfinished transactions"},
		"no audit":    {func(w *worldtest.World) { w.NoAudit = errors.New("no memory left") }, result.ReasonNotAudited, "the rows could not be audited: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			tt.world(w)
			w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
			w.Until("the run is over", func() bool {
				run := w.GetRun("r")
				if since := run.Status.StageStartTime; run.Status.Stage == v1alpha1.StageEvaluate && w.FakeClock.Since(since.Time) > 20*time.Second {
					w.FakeClock.Step(30 * time.Second)
				}
				return kube.Over(run) && len(run.Finalizers) == 0
			})
			st := w.GetRun("r").Status
			if st.Stage != v1alpha1.StageCompleted || st.Verdict != v1alpha1.VerdictInvalid || st.Reason != tt.reason || st.ReportRef == nil || !strings.Contains(st.Message, tt.message) {
				t.Errorf("the run ended %s %s %s: %s", st.Stage, st.Verdict, st.Reason, st.Message)
			}
		})
	}
}

func TestDeadlines(t *testing.T) {
	tests := map[string]struct {
		db      func(*worldtest.DatabaseBuilder)
		run     func(*worldtest.RunBuilder)
		world   func(*worldtest.World)
		reason  string
		message string
	}{
		"the whole run": {run: func(r *worldtest.RunBuilder) { r.Deadline(30 * time.Second) }, world: func(w *worldtest.World) { w.RTTOff = 50 * time.Millisecond },
			reason: "DeadlineExceeded", message: "stage Emulate"},
		"a network that is never right": {world: func(w *worldtest.World) { w.RTTOff = 50 * time.Millisecond },
			reason: "StageDeadlineExceeded", message: "declared 100ms, measured p50 150"},
		"workers that never get ready": {world: func(w *worldtest.World) { w.WorkersHang = ptr.To("") },
			reason: "WorkersNotReady", message: "0 of 2 workers are ready: worker 0 of region us-west-2 has not connected all of its clients yet after 5m"},
		"workers that never report": {world: func(w *worldtest.World) { w.WorkersHang = ptr.To(deploy.StateRunning) },
			reason: "StageDeadlineExceeded", message: "0 of 2 workers have reported"},
		"a database that does not exist": {run: func(r *worldtest.RunBuilder) { r.Database("other") },
			reason: "DatabaseNotFound", message: `no GeoDatabase "other"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			db, run := worldtest.MakeDatabase("d"), worldtest.MakeRun("r").Database("d")
			if tt.run != nil {
				tt.run(run)
			}
			if tt.world != nil {
				tt.world(w)
			}
			w.Create(db.Obj(), run.Obj())
			w.Until("the run is over", func() bool {
				run := w.GetRun("r")
				if since := run.Status.StageStartTime; since != nil && w.FakeClock.Since(since.Time) > 20*time.Second {
					w.FakeClock.Step(30 * time.Second) // the run is stuck
				}
				return kube.Over(run) && len(run.Finalizers) == 0
			})
			st := w.GetRun("r").Status
			if st.Stage != v1alpha1.StageFailed || st.Verdict != v1alpha1.VerdictInvalid || st.Reason != tt.reason || !strings.Contains(st.Message, tt.message) {
				t.Errorf("the run ended %s %s %s: %s", st.Stage, st.Verdict, st.Reason, st.Message)
			}
			if left := w.Leftovers("r"); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

// A run that would exceed its deadline during the measurement ends before its load starts.
func TestDeadlineBeforeTheWork(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Deadline(13*time.Second).Obj()) // the load takes 12 s
	st := w.UntilOver("r").Status
	if st.Reason != "DeadlineExceeded" || !strings.Contains(st.Message, "spec.deadline") || st.WarmupStartTime != nil {
		t.Errorf("the run ended %s %s %s: %s; it started at %v", st.Stage, st.Verdict, st.Reason, st.Message, st.WarmupStartTime)
	}
}

// A deadline that passes once everything is measured loses no figures: the remaining stages have their own deadlines.
func TestDeadlineAfterTheWork(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Pending = 1 // pending transactions keep the run in Evaluate
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Deadline(time.Minute).Obj())
	w.UntilStage("r", v1alpha1.StageEvaluate)
	w.FakeClock.Step(time.Minute)
	w.Step()
	w.Pending = 0
	if st := w.UntilOver("r").Status; st.Stage != v1alpha1.StageCompleted || st.Verdict != v1alpha1.VerdictPassed || st.Summary == nil {
		t.Errorf("the run ended %s %s %s: %s", st.Stage, st.Verdict, st.Reason, st.Message)
	}
}

func TestRunsTakeTurns(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("b").Database("d").Obj(), worldtest.MakeRun("a").Database("d").Obj(), worldtest.MakeRun("c").Database("d").Obj())
	var order []string
	w.Until("all runs are over", func() bool {
		runs := &v1alpha1.BenchmarkRunList{}
		w.Must(w.Client.List(w.Ctx, runs, client.InNamespace(w.Namespace)))
		active, done := 0, 0
		for i := range runs.Items {
			run := &runs.Items[i]
			if slices.Index(worldtest.ActiveStages, run.Status.Stage) > slices.Index(worldtest.ActiveStages, v1alpha1.StagePreflight) {
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
		if st := w.GetRun(name).Status; st.Verdict != v1alpha1.VerdictPassed {
			t.Errorf("run %s ended %s: %s", name, st.Verdict, st.Message)
		}
	}
	// Creation times have a resolution of a second. Runs that were created in the same second are ordered by name.
	runs := []client.Object{w.GetRun("a"), w.GetRun("b"), w.GetRun("c")}
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
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("first").Database("d").Duration(time.Minute).Obj())
	w.UntilAtLeast("first", v1alpha1.StageProvision)
	w.Create(worldtest.MakeRun("second").Database("d").Deadline(50 * time.Second).Obj())
	w.Until("the second run waits", func() bool {
		for _, c := range w.GetRun("second").Status.Conditions {
			if c.Reason == "DatabaseBusy" && strings.Contains(c.Message, "BenchmarkRun first") {
				return true
			}
		}
		return false
	})
	w.UntilOver("first")
	// The deadline of the second run starts when the run leaves the queue, not at its creation.
	if st := w.UntilOver("second").Status; st.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("the second run ended %s: %s", st.Verdict, st.Message)
	}
}

func TestAnotherRunIDRunsAgain(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").RunID("one").Obj())
	first := w.UntilOver("r")
	base := first.DeepCopy()
	first.Spec.RunID = "two"
	w.Must(w.Client.Patch(w.Ctx, first, client.MergeFrom(base)))
	w.Committed = 7000
	w.Until("the second attempt is over", func() bool {
		run := w.GetRun("r")
		return run.Status.RunID == "two" && kube.Over(run) && len(run.Finalizers) == 0
	})
	run := w.GetRun("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed || run.Status.Summary.Committed != 2*7000 {
		t.Errorf("the second attempt ended %s with %+v: %s", run.Status.Verdict, run.Status.Summary, run.Status.Message)
	}
	if len(w.JobsRun) != 4 {
		t.Errorf("%d workers ran in two attempts of two regions", len(w.JobsRun))
	}
	w.LoadsAre(4)
}

func TestPreflightRefuses(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj())
	w.UntilReady("d")
	tests := map[string]struct {
		run     *worldtest.RunBuilder
		message string
	}{
		"sunflower": {worldtest.MakeRun("sunflower").Sunflower("mars"), "sunflower[0].region"},
		"fault":     {worldtest.MakeRun("fault").Faults("[{name: slow, at: 1s, duration: 1s, ioDelay: {target: {}, delay: 1ms}}]"), "spec.faults[0].ioDelay"},
		"deadline":  {worldtest.MakeRun("deadline").Repetitions(3).Deadline(34 * time.Second), "spec.deadline"},
		"too-long":  {worldtest.MakeRun("too-long").Duration(7 * time.Hour), "timeline"},
	}
	for name, tt := range tests {
		w.Create(tt.run.Database("d").Obj())
		run := w.UntilOver(name)
		if run.Status.Stage != v1alpha1.StageFailed || !strings.Contains(run.Status.Message, tt.message) {
			t.Errorf("%s: the run ended %s %s: %s", name, run.Status.Stage, run.Status.Reason, run.Status.Message)
		}
		if left := w.Leftovers(name); len(left) > 0 {
			t.Errorf("%s: left over: %v", name, left)
		}
	}
}

// TestWorkersMayTouchTheirReportsOnly checks the API server's permissions for a worker.
func TestWorkersMayTouchTheirReportsOnly(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Workers(2).Obj())
	w.UntilStage("r", v1alpha1.StageMeasure)
	run := w.GetRun("r")
	role := w.Get(kube.WorkerName(run, "us-west-2"), &rbacv1.Role{}).(*rbacv1.Role)
	want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "patch", "watch"},
		ResourceNames: []string{kube.ReportName(run, "us-west-2", 0), kube.ReportName(run, "us-west-2", 1)}}}
	if fmt.Sprint(role.Rules) != fmt.Sprint(want) {
		t.Errorf("the role allows %v, want %v", role.Rules, want)
	}
	for _, obj := range w.Labelled("r") {
		if _, pod := obj.(*corev1.Pod); !pod && !metav1.IsControlledBy(obj, run) {
			t.Errorf("%s %s does not belong to the run", kube.KindOf(obj), obj.GetName())
		}
	}
}

// TestCancel cancels a run in each stage: the run stops, leaves nothing but its status, and releases its database.
func TestCancel(t *testing.T) {
	for _, stage := range worldtest.ActiveStages {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
			run := w.UntilAtLeast("r", stage)
			base := run.DeepCopy()
			run.Spec.Cancel = true
			w.Must(w.Client.Patch(w.Ctx, run, client.MergeFrom(base)))
			w.Until("the run is over", func() bool {
				run := w.GetRun("r")
				return kube.Over(run) && len(run.Finalizers) == 0
			})
			st := w.GetRun("r").Status
			if st.Stage == v1alpha1.StageCompleted {
				return // it had already finished
			}
			if st.Stage != v1alpha1.StageFailed || st.Verdict != v1alpha1.VerdictInvalid || st.Reason != "Cancelled" || !strings.Contains(st.Message, "change spec.runID") {
				t.Errorf("the run ended %s %s: %s: %s", st.Stage, st.Verdict, st.Reason, st.Message)
			}
			if left := w.Leftovers("r"); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
			if db := w.GetDatabase("d"); db.Status.ActiveRun != "" {
				t.Errorf("the database still belongs to %q", db.Status.ActiveRun)
			}
		})
	}
}

func TestBaseline(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
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
	w.Create(worldtest.MakeDatabase("d").Obj())
	for _, tc := range tests {
		run := worldtest.MakeRun(tc.name).Database("d").Repetitions(tc.repetitions)
		if tc.baseline != "" {
			run.Spec.BaselineRef = &v1alpha1.LocalReference{Name: tc.baseline}
		}
		w.Committed = tc.committed
		w.Create(run.Obj())
		st := w.UntilOver(tc.name).Status
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

// If nodes refuse a data set because it does not fit, the run stops immediately and reports the reason.
func TestDataIsRefused(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.TooMuch = "spec.workload: 65536 rows fill 750 of the 1000 MiB that the node may use"
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
	st := w.UntilOver("r").Status
	if st.Verdict != v1alpha1.VerdictInvalid || st.Reason != "DataRefused" || !strings.Contains(st.Message, w.TooMuch) {
		t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
	}
	if took := st.CompletionTime.Sub(st.StartTime.Time); took > time.Minute {
		t.Errorf("that took %v", took)
	}
}
