package controllers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// tests gives a run functional tests: snapshots, then deadlocks.
func (b *runBuilder) tests() *runBuilder {
	b.Spec.FunctionalTests = []v1alpha1.FunctionalTest{v1alpha1.FunctionalGlobalSnapshot, v1alpha1.FunctionalGlobalDeadlock}
	return b
}

// run returns a BenchmarkRun, or nil when there is none.
func (w *world) maybeRun(name string) *v1alpha1.BenchmarkRun {
	w.t.Helper()
	run := &v1alpha1.BenchmarkRun{}
	err := w.client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, run)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return run
}

// takers steps until the last of some runs is over, and returns who had the database, in this order.
func (w *world) takers(last string) (out []string) {
	w.t.Helper()
	w.until("run "+last+" is over", func() bool {
		if active := w.getDatabase("d").Status.ActiveRun; active != "" && (len(out) == 0 || out[len(out)-1] != active) {
			out = append(out, active)
		}
		run := w.maybeRun(last)
		return run != nil && kube.Over(run) && len(run.Finalizers) == 0
	})
	return out
}

// Functional tests are runs of their own, which come right before the run that asks for them, whoever waits; its result
// names them. That is so for Geobench's own engines, for programs and for databases that run elsewhere.
func TestFunctionalTestsComeBeforeTheRun(t *testing.T) {
	for name, db := range map[string]*v1alpha1.GeoDatabase{
		"native":    makeDatabase("d").partitions(2).obj(),
		"program":   makeDatabase("d").program().client().emulation(v1alpha1.EmulationSidecar).obj(),
		"elsewhere": makeDatabase("d").elsewhere().obj(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(db, makeRun("r").database("d").tests().obj())
			w.step()
			w.create(makeRun("s").database("d").obj(), makeRun("t").database("d").tests().obj())
			w.until("a test measures", func() bool {
				test := w.maybeRun("r-snapshot")
				return test != nil && test.Status.Stage == v1alpha1.StageMeasure
			})
			ready := meta.FindStatusCondition(w.getRun("r").Status.Conditions, v1alpha1.ConditionReconciling)
			if want := "Preflight: BenchmarkRun r-snapshot plays functional test GlobalSnapshot: "; ready == nil || !strings.HasPrefix(ready.Message, want) {
				t.Errorf("the run is said to be %+v, want %q", ready, want)
			}
			if w.maybeRun("r-deadlock") != nil || w.maybeRun("t-snapshot") != nil {
				t.Error("tests are made before it is their turn")
			}
			got := w.takers("t")
			// Those of the same second have their turns by their names.
			want := []string{"r-snapshot", "r-deadlock", "r", "s", "t-snapshot", "t-deadlock", "t"}
			if !slices.Equal(got, want) {
				t.Errorf("the database was used by %v, want %v", got, want)
			}
			st := w.getRun("r").Status
			if st.Verdict != v1alpha1.VerdictPassed {
				t.Fatalf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
			}
			var tests []result.FunctionalTest
			for i, run := range []string{"r-snapshot", "r-deadlock"} {
				tests = append(tests, result.FunctionalTest{Name: w.getRun("r").Spec.FunctionalTests[i], Run: run, Committed: 2 * w.committed})
				test := w.getRun(run)
				if test.Labels[kube.LabelRun] != "r" || test.Labels[kube.LabelRole] != kube.RoleFunctionalTest || !metav1.IsControlledBy(test, w.getRun("r")) ||
					w.document(run).Verdict != v1alpha1.VerdictPassed {
					t.Errorf("test %s has the labels %v and owners %v", run, test.Labels, test.OwnerReferences)
				}
			}
			if got := w.document("r").FunctionalTests; !slices.Equal(got, tests) {
				t.Errorf("the result says of tests %+v, want %+v", got, tests)
			}
			if w.document("r").Workload != "smallbank" || w.document("r-deadlock").Workload != "tpcc" {
				t.Error("tests have another workload than theirs")
			}
			w.ranOnce()
		})
	}
}

// kubectl shows which runs are tests of others.
func TestFunctionalTestsAreShownAsSuch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").tests().obj())
	w.until("there is a test", func() bool { return w.maybeRun("r-snapshot") != nil })
	api, err := rest.HTTPClientFor(apiServer)
	w.must(err)
	list, err := url.JoinPath(apiServer.Host, "apis", v1alpha1.GroupVersion.String(), "namespaces", w.namespace, "benchmarkruns")
	w.must(err)
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, list, nil)
	w.must(err)
	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	resp, err := api.Do(req)
	w.must(err)
	defer resp.Body.Close() //nolint:errcheck // all of it is read
	text, err := io.ReadAll(resp.Body)
	w.must(err)
	var table metav1.Table
	w.must(json.Unmarshal(text, &table))
	column := slices.IndexFunc(table.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == "Test of" })
	shown := map[string]string{}
	for _, row := range table.Rows {
		if column >= 0 {
			shown[fmt.Sprint(row.Cells[0])] = fmt.Sprint(row.Cells[column])
		}
	}
	if len(shown) != 2 || shown["r-snapshot"] != "r" || shown["r"] == "r" {
		t.Errorf("kubectl shows %v in column %d of %+v", shown, column, table.ColumnDefinitions)
	}
}

// A run of which a test has not passed is not begun, and says so as geobench run does. All tests are played all the
// same.
func TestFunctionalTestDoesNotPass(t *testing.T) {
	for name, tc := range map[string]struct {
		world   func(*world)
		message string
	}{
		"an answer is missing": {func(w *world) { w.unknownIn = []string{"r-deadlock"} },
			"BenchmarkRun r was not begun, because not all of spec.functionalTests passed: r-deadlock is Failed: unknownPPM"},
		"nothing is known": {func(w *world) { w.committed = 0 }, "r-snapshot is Invalid: "},
		"data is refused":  {func(w *world) { w.tooMuch = "no room" }, ": no room; r-deadlock is Invalid: node d-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tc.world(w)
			w.create(makeDatabase("d").obj(), makeRun("r").database("d").tests().obj())
			if got, want := w.takers("r"), []string{"r-snapshot", "r-deadlock"}; !slices.Equal(got, want) {
				t.Errorf("the database was used by %v, want %v", got, want)
			}
			st := w.getRun("r").Status
			if st.Stage != v1alpha1.StageFailed || st.Verdict != v1alpha1.VerdictInvalid || st.Reason != result.ReasonTestNotPassed || !strings.Contains(st.Message, tc.message) || st.ReportRef != nil {
				t.Errorf("the run ended %s %s %s: %s", st.Stage, st.Verdict, st.Reason, st.Message)
			}
			if left := w.leftovers("r"); !slices.Equal(left, []string{"BenchmarkRun r-deadlock", "BenchmarkRun r-snapshot"}) {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

// The operator may die after any write, also between a run and its tests.
func TestOperatorDiesAfterEveryWriteOfTests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dieAfterEveryWrite()
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").tests().obj())
	for _, name := range []string{"r-snapshot", "r-deadlock", "r"} {
		w.until(name+" is over", func() bool {
			w.revive()
			run := w.maybeRun(name)
			return run != nil && kube.Over(run) && !controllerutil.ContainsFinalizer(run, kube.Finalizer)
		})
	}
	if st := w.getRun("r").Status; st.Verdict != v1alpha1.VerdictPassed || len(w.document("r").FunctionalTests) != 2 {
		t.Errorf("after %d deaths the run ended %s: %s", w.deaths, st.Verdict, st.Message)
	}
	if w.deaths < 90 || w.loads != 6 {
		t.Errorf("the operator died %d times, and data was loaded %d times into 2 nodes for 3 runs", w.deaths, w.loads)
	}
	w.ranOnce()
}

// inTest steps until the first test of r has reached a stage.
func (w *world) inTest(stage v1alpha1.Stage) {
	w.t.Helper()
	w.until("the test is in "+string(stage), func() bool {
		test := w.maybeRun("r-snapshot")
		return test != nil && (kube.Over(test) || slices.Index(activeStages, test.Status.Stage) >= slices.Index(activeStages, stage))
	})
}

// A run that is deleted leaves nothing of its tests, in whatever stage they are, and the database is free.
func TestDeletionLeavesNoTests(t *testing.T) {
	for _, stage := range append(slices.Clone(activeStages), v1alpha1.StageCompleted) {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(makeDatabase("d").obj(), makeRun("r").database("d").tests().obj())
			if stage == v1alpha1.StageCompleted {
				w.untilOver("r")
			} else {
				w.inTest(stage)
			}
			run := w.getRun("r")
			w.must(w.client.Delete(w.ctx, run))
			w.until("the run and its tests are gone", func() bool {
				return w.maybeRun("r") == nil && w.maybeRun("r-snapshot") == nil && w.maybeRun("r-deadlock") == nil
			})
			w.step()
			for _, name := range []string{"r", "r-snapshot", "r-deadlock"} {
				if left := w.leftovers(name); len(left) > 0 {
					t.Errorf("left over of %s: %v", name, left)
				}
			}
			if db := w.getDatabase("d"); db.Status.ActiveRun != "" {
				t.Errorf("the database still belongs to %q", db.Status.ActiveRun)
			}
		})
	}
}

// changeRun changes the spec of r.
func (w *world) changeRun(change func(*v1alpha1.BenchmarkRunSpec)) {
	w.t.Helper()
	run := w.getRun("r")
	base := run.DeepCopy()
	change(&run.Spec)
	w.must(w.client.Patch(w.ctx, run, client.MergeFrom(base)))
}

// What is said of a run while its tests are played is said of them.
func TestChangesWhileTestsArePlayed(t *testing.T) {
	start := func(t *testing.T, stage v1alpha1.Stage) *world {
		t.Parallel()
		w := newWorld(t)
		w.create(makeDatabase("d").obj(), makeRun("r").database("d").tests().obj())
		w.inTest(stage)
		return w
	}
	t.Run("cancelled", func(t *testing.T) {
		w := start(t, v1alpha1.StageMeasure)
		w.changeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.Cancel = true })
		if st := w.untilOver("r").Status; st.Verdict != v1alpha1.VerdictInvalid || st.Reason != result.ReasonCancelled {
			t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
		}
		if st := w.getRun("r-snapshot").Status; st.Reason != result.ReasonCancelled || w.getDatabase("d").Status.ActiveRun != "" {
			t.Errorf("the test is %s %s: %s", st.Verdict, st.Reason, st.Message)
		}
		w.changeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.Cancel, s.RunID = false, "two" })
		w.until("the second attempt is over", func() bool { return kube.Settled(w.getRun("r")) && w.getRun("r").Status.RunID == "two" })
		if st := w.getRun("r").Status; st.Verdict != v1alpha1.VerdictPassed || w.getRun("r-snapshot").Status.RunID != "two" || w.getRun("r-deadlock").Status.Verdict != v1alpha1.VerdictPassed {
			t.Errorf("the second attempt ended %s %s: %s", st.Verdict, st.Reason, st.Message)
		}
	})
	t.Run("run again", func(t *testing.T) {
		w := start(t, v1alpha1.StageMeasure)
		w.untilOver("r")
		was := w.getRun("r-deadlock").Status.CompletionTime
		w.changeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.RunID = "two" })
		w.until("the second attempt is over", func() bool { return kube.Settled(w.getRun("r")) && w.getRun("r").Status.RunID == "two" })
		test := w.getRun("r-deadlock")
		if test.Status.RunID != "two" || test.Status.CompletionTime.Equal(was) || test.Labels[kube.LabelAttempt] != kube.Attempt(w.getRun("r")) || w.getRun("r").Status.Verdict != v1alpha1.VerdictPassed {
			t.Errorf("the test was not played again: %+v of %v", test.Status, test.Labels)
		}
	})
	t.Run("suspended while it waits", func(t *testing.T) {
		w := newWorld(t)
		t.Parallel()
		w.create(makeDatabase("d").obj(), makeRun("a").database("d").obj())
		w.untilStage("a", v1alpha1.StageMeasure)
		w.create(makeRun("r").database("d").tests().obj())
		w.step()
		w.changeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.Suspend = true })
		w.untilOver("a")
		w.step()
		if c := meta.FindStatusCondition(w.getRun("r").Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != "Suspended" || w.maybeRun("r-snapshot") != nil {
			t.Errorf("the run is %+v", c)
		}
		w.changeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.Suspend = false })
		if st := w.untilOver("r").Status; st.Verdict != v1alpha1.VerdictPassed {
			t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
		}
	})
	t.Run("suspended while its test measures", func(t *testing.T) {
		w := start(t, v1alpha1.StageMeasure)
		w.changeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.Suspend = true })
		w.create(makeRun("other").database("d").obj())
		w.untilOver("other")
		if r, test := w.getRun("r"), w.getRun("r-snapshot"); r.Status.Stage != "" || len(r.Finalizers) > 0 || test.Status.Verdict != v1alpha1.VerdictPassed || w.maybeRun("r-deadlock") != nil {
			t.Errorf("the run is in stage %q, its test %s", r.Status.Stage, test.Status.Verdict)
		}
		was := w.getRun("r-snapshot").Status.CompletionTime
		w.changeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.Suspend = false })
		if st := w.untilOver("r").Status; st.Verdict != v1alpha1.VerdictPassed || !w.getRun("r-snapshot").Status.CompletionTime.Equal(was) {
			t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
		}
	})
	t.Run("the test is deleted", func(t *testing.T) {
		w := start(t, v1alpha1.StageMeasure)
		was := w.getRun("r-snapshot").UID
		w.must(w.client.Delete(w.ctx, w.getRun("r-snapshot")))
		if st := w.untilOver("r").Status; st.Verdict != v1alpha1.VerdictPassed || w.getRun("r-snapshot").UID == was {
			t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
		}
	})
	t.Run("the database is edited", func(t *testing.T) {
		w := start(t, v1alpha1.StageMeasure)
		was := w.getRun("r-snapshot").UID
		db := w.getDatabase("d")
		base := db.DeepCopy()
		db.Spec.Network.Profile.Links[0].RTT = v1alpha1.DurationOf(90 * time.Millisecond)
		w.must(w.client.Patch(w.ctx, db, client.MergeFrom(base)))
		st := w.untilOver("r").Status
		if st.Verdict != v1alpha1.VerdictPassed || w.getRun("r-snapshot").UID == was || w.document("r-snapshot").Manifests.Network.Links[0].RTT.Duration != 90*time.Millisecond {
			t.Errorf("the run ended %s %s: %s; its test was of a database that is no more", st.Verdict, st.Reason, st.Message)
		}
	})
	t.Run("the database is deleted", func(t *testing.T) {
		w := start(t, v1alpha1.StageMeasure)
		w.must(w.client.Delete(w.ctx, w.getDatabase("d")))
		if st := w.untilOver("r").Status; st.Verdict != v1alpha1.VerdictInvalid || st.Reason != "DatabaseNotFound" {
			t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
		}
	})
	t.Run("waiting is no part of the run", func(t *testing.T) {
		w := start(t, v1alpha1.StageMeasure)
		w.workersHang = ptr.To(deploy.StateRunning)
		hour := w.clock.Now().Add(time.Hour)
		w.until("the test is given up", func() bool { return kube.Over(w.getRun("r-snapshot")) })
		w.workersHang = nil
		w.clock.SetTime(hour)
		if st := w.untilOver("r").Status; st.Reason != result.ReasonTestNotPassed || st.StartTime.Before(ptr.To(metav1.NewTime(hour))) {
			t.Errorf("the run of %s ended %s %s: %s", st.StartTime, st.Verdict, st.Reason, st.Message)
		}
	})
}

// Runs that expire leave the results of their tests, too; another run of the name puts its own in their place.
func TestTestsExpireWithTheirRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	expiring := func() *v1alpha1.BenchmarkRun {
		b := makeRun("r").database("d").tests()
		b.Spec.TTLSecondsAfterFinished = &v1alpha1.TTLSecondsAfterFinished{Passed: ptr.To[int32](0)}
		return b.obj()
	}
	w.create(makeDatabase("d").obj(), expiring())
	for range 2 {
		w.until("the run has expired", func() bool {
			return w.maybeRun("r") == nil && w.maybeRun("r-snapshot") == nil && w.maybeRun("r-deadlock") == nil
		})
		for _, name := range []string{"r", "r-snapshot", "r-deadlock"} {
			if left := w.leftovers(name); !slices.Equal(left, []string{"ConfigMap " + name + "-result"}) {
				t.Errorf("left over of %s: %v", name, left)
			}
		}
		w.create(expiring())
	}
}

// A run of somebody else that has the name of a test is left alone.
func TestNameOfATestIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r-snapshot").database("d").obj())
	w.untilOver("r-snapshot")
	w.create(makeRun("r").database("d").tests().obj())
	st := w.untilOver("r").Status
	if st.Verdict != v1alpha1.VerdictInvalid || st.Reason != "NameTaken" || !strings.Contains(st.Message, "BenchmarkRun r-snapshot exists and does not belong to this object") {
		t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
	}
	if w.getRun("r-snapshot").Status.Verdict != v1alpha1.VerdictPassed {
		t.Error("the run that has the name was touched")
	}
}

// A run that plays something else than a functional test does not pass for it, whoever calls himself its owner: the
// test is played in its place, and one that does not say that it is the operator's is left alone.
func TestForgedTestDoesNotCount(t *testing.T) {
	for name, labelled := range map[string]bool{"labelled": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			run := makeRun("r").database("d").tests()
			run.Spec.Suspend = true
			w.create(makeDatabase("d").obj(), run.obj())
			w.step()
			forged := makeRun("r-deadlock").database("d").obj()
			forged.Namespace = w.namespace
			w.must(controllerutil.SetControllerReference(w.getRun("r"), forged, w.client.Scheme()))
			if labelled {
				forged.Labels = kube.RunLabels(w.getRun("r"), kube.RoleFunctionalTest)
			}
			w.create(forged)
			w.untilOver("r-deadlock")
			w.changeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.Suspend = false })
			st := w.untilOver("r").Status
			if !labelled {
				if st.Verdict != v1alpha1.VerdictInvalid || st.Reason != "NameTaken" || w.getRun("r-deadlock").UID != forged.UID {
					t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
				}
				return
			}
			if got := w.document("r-deadlock").Workload; st.Verdict != v1alpha1.VerdictPassed || got != "tpcc" {
				t.Errorf("the run ended %s %s, after a test of workload %s: %s", st.Verdict, st.Reason, got, st.Message)
			}
		})
	}
}

// What is not the operator's it may not delete, whoever it calls its owner: a run must be able to go without.
func TestForgedTestHoldsNothingUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeRun("r").database("d").tests().obj())
	w.inTest(v1alpha1.StageMeasure)
	forged := makeRun("r-deadlock").database("d").obj()
	forged.Namespace = w.namespace
	w.must(controllerutil.SetControllerReference(w.getRun("r"), forged, w.client.Scheme()))
	w.create(forged)
	w.must(w.client.Delete(w.ctx, w.getRun("r")))
	w.until("the run and its test are gone", func() bool { return w.maybeRun("r") == nil && w.maybeRun("r-snapshot") == nil })
	if was := w.maybeRun("r-deadlock"); was == nil || was.DeletionTimestamp != nil || was.Spec.Cancel {
		t.Error("the operator has touched what is not its own")
	}
}
