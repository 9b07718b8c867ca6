package run_test

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

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// Functional tests are separate runs directly before the run that requests them, even if other runs wait. The result of
// that run names its tests. This holds for Geobench's own engines, for programs and for external databases.
func TestFunctionalTestsComeBeforeTheRun(t *testing.T) {
	for name, db := range map[string]*v1alpha1.GeoDatabase{
		"native":    worldtest.MakeDatabase("d").Partitions(2).Obj(),
		"program":   worldtest.MakeDatabase("d").Program().Client().Emulation(v1alpha1.EmulationSidecar).Obj(),
		"elsewhere": worldtest.MakeDatabase("d").Elsewhere().Obj(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(db, worldtest.MakeRun("r").Database("d").Tests().Obj())
			w.Step()
			w.Create(worldtest.MakeRun("s").Database("d").Obj(), worldtest.MakeRun("t").Database("d").Tests().Obj())
			w.Until("a test measures", func() bool {
				test := w.MaybeRun("r-snapshot")
				return test != nil && test.Status.Stage == v1alpha1.StageMeasure
			})
			ready := meta.FindStatusCondition(w.GetRun("r").Status.Conditions, v1alpha1.ConditionReconciling)
			if want := "Preflight: BenchmarkRun r-snapshot plays functional test GlobalSnapshot: "; ready == nil || !strings.HasPrefix(ready.Message, want) {
				t.Errorf("the run is said to be %+v, want %q", ready, want)
			}
			if w.MaybeRun("r-deadlock") != nil || w.MaybeRun("t-snapshot") != nil {
				t.Error("tests are made before it is their turn")
			}
			got := w.Takers("t")
			// Runs created in the same second use the database in the order of their names.
			want := []string{"r-snapshot", "r-deadlock", "r", "s", "t-snapshot", "t-deadlock", "t"}
			if !slices.Equal(got, want) {
				t.Errorf("the database was used by %v, want %v", got, want)
			}
			st := w.GetRun("r").Status
			if st.Verdict != v1alpha1.VerdictPassed {
				t.Fatalf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
			}
			var tests []result.FunctionalTest
			for i, run := range []string{"r-snapshot", "r-deadlock"} {
				tests = append(tests, result.FunctionalTest{Name: w.GetRun("r").Spec.FunctionalTests[i], Run: run, Committed: 2 * w.Committed})
				test := w.GetRun(run)
				if test.Labels[kube.LabelRun] != "r" || test.Labels[kube.LabelRole] != kube.RoleFunctionalTest || !metav1.IsControlledBy(test, w.GetRun("r")) ||
					w.Document(run).Verdict != v1alpha1.VerdictPassed {
					t.Errorf("test %s has the labels %v and owners %v", run, test.Labels, test.OwnerReferences)
				}
			}
			if got := w.Document("r").FunctionalTests; !slices.Equal(got, tests) {
				t.Errorf("the result says of tests %+v, want %+v", got, tests)
			}
			if w.Document("r").Workload != "smallbank" || w.Document("r-deadlock").Workload != "tpcc" {
				t.Error("tests have another workload than theirs")
			}
			w.RanOnce()
		})
	}
}

// kubectl shows which runs are functional tests, and which run requested each test.
func TestFunctionalTestsAreShownAsSuch(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Tests().Obj())
	w.Until("there is a test", func() bool { return w.MaybeRun("r-snapshot") != nil })
	api, err := rest.HTTPClientFor(worldtest.APIServer)
	w.Must(err)
	list, err := url.JoinPath(worldtest.APIServer.Host, "apis", v1alpha1.GroupVersion.String(), "namespaces", w.Namespace, "benchmarkruns")
	w.Must(err)
	req, err := http.NewRequestWithContext(w.Ctx, http.MethodGet, list, nil)
	w.Must(err)
	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	resp, err := api.Do(req)
	w.Must(err)
	defer resp.Body.Close() //nolint:errcheck // it was read completely
	text, err := io.ReadAll(resp.Body)
	w.Must(err)
	var table metav1.Table
	w.Must(json.Unmarshal(text, &table))
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

// A run does not start if one of its tests has not passed, and reports the same message as geobench run. All tests run
// in any case.
func TestFunctionalTestDoesNotPass(t *testing.T) {
	for name, tc := range map[string]struct {
		world   func(*worldtest.World)
		message string
	}{
		"an answer is missing": {func(w *worldtest.World) { w.UnknownIn = []string{"r-deadlock"} },
			"BenchmarkRun r was not begun, because not all of spec.functionalTests passed: r-deadlock is Failed: unknownPPM"},
		"nothing is known": {func(w *worldtest.World) { w.Committed = 0 }, "r-snapshot is Invalid: "},
		"data is refused":  {func(w *worldtest.World) { w.TooMuch = "no room" }, ": no room; r-deadlock is Invalid: node d-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			tc.world(w)
			w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Tests().Obj())
			if got, want := w.Takers("r"), []string{"r-snapshot", "r-deadlock"}; !slices.Equal(got, want) {
				t.Errorf("the database was used by %v, want %v", got, want)
			}
			st := w.GetRun("r").Status
			if st.Stage != v1alpha1.StageFailed || st.Verdict != v1alpha1.VerdictInvalid || st.Reason != result.ReasonTestNotPassed || !strings.Contains(st.Message, tc.message) || st.ReportRef != nil {
				t.Errorf("the run ended %s %s %s: %s", st.Stage, st.Verdict, st.Reason, st.Message)
			}
			if left := w.Leftovers("r"); !slices.Equal(left, []string{"BenchmarkRun r-deadlock", "BenchmarkRun r-snapshot"}) {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

// The operator may die after any write, including writes between a run and its tests.
func TestOperatorDiesAfterEveryWriteOfTests(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.DieAfterEveryWrite()
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Tests().Obj())
	for _, name := range []string{"r-snapshot", "r-deadlock", "r"} {
		w.Until(name+" is over", func() bool {
			w.Revive()
			run := w.MaybeRun(name)
			return run != nil && kube.Over(run) && !controllerutil.ContainsFinalizer(run, kube.Finalizer)
		})
	}
	if st := w.GetRun("r").Status; st.Verdict != v1alpha1.VerdictPassed || len(w.Document("r").FunctionalTests) != 2 {
		t.Errorf("after %d deaths the run ended %s: %s", w.Deaths, st.Verdict, st.Message)
	}
	if w.Deaths < 90 || w.Loads != 6 {
		t.Errorf("the operator died %d times, and data was loaded %d times into 2 nodes for 3 runs", w.Deaths, w.Loads)
	}
	w.RanOnce()
}

// A deleted run leaves no objects of its tests, whatever their stage, and the database is free.
func TestDeletionLeavesNoTests(t *testing.T) {
	for _, stage := range append(slices.Clone(worldtest.ActiveStages), v1alpha1.StageCompleted) {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Tests().Obj())
			if stage == v1alpha1.StageCompleted {
				w.UntilOver("r")
			} else {
				w.InTest(stage)
			}
			run := w.GetRun("r")
			w.Must(w.Client.Delete(w.Ctx, run))
			w.Until("the run and its tests are gone", func() bool {
				return w.MaybeRun("r") == nil && w.MaybeRun("r-snapshot") == nil && w.MaybeRun("r-deadlock") == nil
			})
			w.Step()
			for _, name := range []string{"r", "r-snapshot", "r-deadlock"} {
				if left := w.Leftovers(name); len(left) > 0 {
					t.Errorf("left over of %s: %v", name, left)
				}
			}
			if db := w.GetDatabase("d"); db.Status.ActiveRun != "" {
				t.Errorf("the database still belongs to %q", db.Status.ActiveRun)
			}
		})
	}
}

// A change of a run while its functional tests run applies to the tests.
func TestChangesWhileTestsArePlayed(t *testing.T) {
	start := func(t *testing.T, stage v1alpha1.Stage) *worldtest.World {
		t.Parallel()
		w := worldtest.NewWorld(t)
		w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Tests().Obj())
		w.InTest(stage)
		return w
	}
	t.Run("cancelled", func(t *testing.T) {
		w := start(t, v1alpha1.StageMeasure)
		w.ChangeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.Cancel = true })
		if st := w.UntilOver("r").Status; st.Verdict != v1alpha1.VerdictInvalid || st.Reason != result.ReasonCancelled {
			t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
		}
		if st := w.GetRun("r-snapshot").Status; st.Reason != result.ReasonCancelled || w.GetDatabase("d").Status.ActiveRun != "" {
			t.Errorf("the test is %s %s: %s", st.Verdict, st.Reason, st.Message)
		}
		w.ChangeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.Cancel, s.RunID = false, "two" })
		w.Until("the second attempt is over", func() bool { return kube.Settled(w.GetRun("r")) && w.GetRun("r").Status.RunID == "two" })
		if st := w.GetRun("r").Status; st.Verdict != v1alpha1.VerdictPassed || w.GetRun("r-snapshot").Status.RunID != "two" || w.GetRun("r-deadlock").Status.Verdict != v1alpha1.VerdictPassed {
			t.Errorf("the second attempt ended %s %s: %s", st.Verdict, st.Reason, st.Message)
		}
	})
	t.Run("run again", func(t *testing.T) {
		w := start(t, v1alpha1.StageMeasure)
		w.UntilOver("r")
		was := w.GetRun("r-deadlock").Status.CompletionTime
		w.ChangeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.RunID = "two" })
		w.Until("the second attempt is over", func() bool { return kube.Settled(w.GetRun("r")) && w.GetRun("r").Status.RunID == "two" })
		test := w.GetRun("r-deadlock")
		if test.Status.RunID != "two" || test.Status.CompletionTime.Equal(was) || test.Labels[kube.LabelAttempt] != kube.Attempt(w.GetRun("r")) || w.GetRun("r").Status.Verdict != v1alpha1.VerdictPassed {
			t.Errorf("the test was not played again: %+v of %v", test.Status, test.Labels)
		}
	})
	t.Run("suspended while it waits", func(t *testing.T) {
		w := worldtest.NewWorld(t)
		t.Parallel()
		w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("a").Database("d").Obj())
		w.UntilStage("a", v1alpha1.StageMeasure)
		w.Create(worldtest.MakeRun("r").Database("d").Tests().Obj())
		w.Step()
		w.ChangeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.Suspend = true })
		w.UntilOver("a")
		w.Step()
		if c := meta.FindStatusCondition(w.GetRun("r").Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != "Suspended" || w.MaybeRun("r-snapshot") != nil {
			t.Errorf("the run is %+v", c)
		}
		w.ChangeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.Suspend = false })
		if st := w.UntilOver("r").Status; st.Verdict != v1alpha1.VerdictPassed {
			t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
		}
	})
	t.Run("suspended while its test measures", func(t *testing.T) {
		w := start(t, v1alpha1.StageMeasure)
		w.ChangeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.Suspend = true })
		w.Create(worldtest.MakeRun("other").Database("d").Obj())
		w.UntilOver("other")
		if r, test := w.GetRun("r"), w.GetRun("r-snapshot"); r.Status.Stage != "" || len(r.Finalizers) > 0 || test.Status.Verdict != v1alpha1.VerdictPassed || w.MaybeRun("r-deadlock") != nil {
			t.Errorf("the run is in stage %q, its test %s", r.Status.Stage, test.Status.Verdict)
		}
		was := w.GetRun("r-snapshot").Status.CompletionTime
		w.ChangeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.Suspend = false })
		if st := w.UntilOver("r").Status; st.Verdict != v1alpha1.VerdictPassed || !w.GetRun("r-snapshot").Status.CompletionTime.Equal(was) {
			t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
		}
	})
	t.Run("the test is deleted", func(t *testing.T) {
		w := start(t, v1alpha1.StageMeasure)
		was := w.GetRun("r-snapshot").UID
		w.Must(w.Client.Delete(w.Ctx, w.GetRun("r-snapshot")))
		if st := w.UntilOver("r").Status; st.Verdict != v1alpha1.VerdictPassed || w.GetRun("r-snapshot").UID == was {
			t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
		}
	})
	t.Run("the database is edited", func(t *testing.T) {
		w := start(t, v1alpha1.StageMeasure)
		was := w.GetRun("r-snapshot").UID
		db := w.GetDatabase("d")
		base := db.DeepCopy()
		db.Spec.Network.Profile.Links[0].RTT = v1alpha1.DurationOf(90 * time.Millisecond)
		w.Must(w.Client.Patch(w.Ctx, db, client.MergeFrom(base)))
		st := w.UntilOver("r").Status
		if st.Verdict != v1alpha1.VerdictPassed || w.GetRun("r-snapshot").UID == was || w.Document("r-snapshot").Manifests.Network.Links[0].RTT.Duration != 90*time.Millisecond {
			t.Errorf("the run ended %s %s: %s; its test was of a database that is no more", st.Verdict, st.Reason, st.Message)
		}
	})
	t.Run("the database is deleted", func(t *testing.T) {
		w := start(t, v1alpha1.StageMeasure)
		w.Must(w.Client.Delete(w.Ctx, w.GetDatabase("d")))
		if st := w.UntilOver("r").Status; st.Verdict != v1alpha1.VerdictInvalid || st.Reason != "DatabaseNotFound" {
			t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
		}
	})
	t.Run("waiting is no part of the run", func(t *testing.T) {
		w := start(t, v1alpha1.StageMeasure)
		w.WorkersHang = ptr.To(deploy.StateRunning)
		hour := w.FakeClock.Now().Add(time.Hour)
		w.Until("the test is given up", func() bool { return kube.Over(w.GetRun("r-snapshot")) })
		w.WorkersHang = nil
		w.FakeClock.SetTime(hour)
		if st := w.UntilOver("r").Status; st.Reason != result.ReasonTestNotPassed || st.StartTime.Before(ptr.To(metav1.NewTime(hour))) {
			t.Errorf("the run of %s ended %s %s: %s", st.StartTime, st.Verdict, st.Reason, st.Message)
		}
	})
}

// The results of the tests of an expired run are kept, too. A later run of the same name replaces them.
func TestTestsExpireWithTheirRun(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	expiring := func() *v1alpha1.BenchmarkRun {
		b := worldtest.MakeRun("r").Database("d").Tests()
		b.Spec.TTLSecondsAfterFinished = &v1alpha1.TTLSecondsAfterFinished{Passed: ptr.To[int32](0)}
		return b.Obj()
	}
	w.Create(worldtest.MakeDatabase("d").Obj(), expiring())
	for range 2 {
		w.Until("the run has expired", func() bool {
			return w.MaybeRun("r") == nil && w.MaybeRun("r-snapshot") == nil && w.MaybeRun("r-deadlock") == nil
		})
		for _, name := range []string{"r", "r-snapshot", "r-deadlock"} {
			if left := w.Leftovers(name); !slices.Equal(left, []string{"ConfigMap " + name + "-result"}) {
				t.Errorf("left over of %s: %v", name, left)
			}
		}
		w.Create(expiring())
	}
}

// A foreign run with the name of a test is left alone.
func TestNameOfATestIsTaken(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r-snapshot").Database("d").Obj())
	w.UntilOver("r-snapshot")
	w.Create(worldtest.MakeRun("r").Database("d").Tests().Obj())
	st := w.UntilOver("r").Status
	if st.Verdict != v1alpha1.VerdictInvalid || st.Reason != "NameTaken" || !strings.Contains(st.Message, "BenchmarkRun r-snapshot exists and does not belong to this object") {
		t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
	}
	if w.GetRun("r-snapshot").Status.Verdict != v1alpha1.VerdictPassed {
		t.Error("the run that has the name was touched")
	}
}

// A run with another spec does not count as a functional test, whatever owner it names. The operator replaces it with a
// run of the test. If the run does not have the operator's label, the operator leaves it alone.
func TestForgedTestDoesNotCount(t *testing.T) {
	for name, labelled := range map[string]bool{"labelled": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			run := worldtest.MakeRun("r").Database("d").Tests()
			run.Spec.Suspend = true
			w.Create(worldtest.MakeDatabase("d").Obj(), run.Obj())
			w.Step()
			forged := worldtest.MakeRun("r-deadlock").Database("d").Obj()
			forged.Namespace = w.Namespace
			w.Must(controllerutil.SetControllerReference(w.GetRun("r"), forged, w.Client.Scheme()))
			if labelled {
				forged.Labels = kube.RunLabels(w.GetRun("r"), kube.RoleFunctionalTest)
			}
			w.Create(forged)
			w.UntilOver("r-deadlock")
			w.ChangeRun(func(s *v1alpha1.BenchmarkRunSpec) { s.Suspend = false })
			st := w.UntilOver("r").Status
			if !labelled {
				if st.Verdict != v1alpha1.VerdictInvalid || st.Reason != "NameTaken" || w.GetRun("r-deadlock").UID != forged.UID {
					t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
				}
				return
			}
			if got := w.Document("r-deadlock").Workload; st.Verdict != v1alpha1.VerdictPassed || got != "tpcc" {
				t.Errorf("the run ended %s %s, after a test of workload %s: %s", st.Verdict, st.Reason, got, st.Message)
			}
		})
	}
}

// The operator may not delete foreign objects, whatever owner they name, so a run must be able to continue without
// deleting them.
func TestForgedTestHoldsNothingUp(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Tests().Obj())
	w.InTest(v1alpha1.StageMeasure)
	forged := worldtest.MakeRun("r-deadlock").Database("d").Obj()
	forged.Namespace = w.Namespace
	w.Must(controllerutil.SetControllerReference(w.GetRun("r"), forged, w.Client.Scheme()))
	w.Create(forged)
	w.Must(w.Client.Delete(w.Ctx, w.GetRun("r")))
	w.Until("the run and its test are gone", func() bool { return w.MaybeRun("r") == nil && w.MaybeRun("r-snapshot") == nil })
	if was := w.MaybeRun("r-deadlock"); was == nil || was.DeletionTimestamp != nil || was.Spec.Cancel {
		t.Error("the operator has touched what is not its own")
	}
}
