package experiment_test

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/ops/health"
)

func TestExperimentSuspends(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeExperiment("e", "calvin").Obj())
	w.Until("the first run measures", func() bool {
		runs := w.Runs()
		return len(runs) == 1 && runs[0].Status.Stage == v1alpha1.StageMeasure
	})
	suspend := func(v bool) {
		e := w.GetExperiment("e")
		base := e.DeepCopy()
		e.Spec.Suspend = v
		w.Must(w.Client.Patch(w.Ctx, e, client.MergeFrom(base)))
	}
	suspend(true)
	w.Until("nothing runs, and nothing is left to run on", func() bool {
		return worldtest.ConditionOf(w.GetExperiment("e"), v1alpha1.ConditionProgressing).Reason == "Suspended" && len(w.Databases()) == 0
	})
	for range 5 {
		w.Step()
	}
	if runs, dbs := w.Runs(), w.Databases(); len(runs) != 1 || runs[0].Status.Verdict != v1alpha1.VerdictPassed || len(dbs) != 0 {
		t.Errorf("%d runs and %d databases while suspended; the first run ended %q", len(runs), len(dbs), runs[0].Status.Verdict)
	}
	suspend(false)
	if st := w.UntilFinished("e", 1).Status; st.Completed != 2 {
		t.Errorf("status is %+v", st)
	}
	w.RanOnce()
}

// TestExperimentChanges: if a value is added to the sweep, only the points of this value run. An added claim is
// evaluated immediately. A value that is removed and added again is not measured again.
func TestExperimentChanges(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeExperiment("e", "calvin").Sweep(worldtest.Clients, 10).Obj())
	w.UntilFinished("e", 1)
	change := func(with *worldtest.ExperimentBuilder) v1alpha1.ExperimentStatus {
		e := w.GetExperiment("e")
		base := e.DeepCopy()
		e.Spec.Sweep, e.Spec.Claims = with.Spec.Sweep, with.Spec.Claims
		w.Must(w.Client.Patch(w.Ctx, e, client.MergeFrom(base)))
		return w.UntilFinished("e", 1).Status
	}
	for i, c := range []struct {
		with    *worldtest.ExperimentBuilder
		workers int // workers that have run so far
		points  int32
	}{
		{worldtest.MakeExperiment("e").Sweep(worldtest.Clients, 10, 20), 4, 2},
		{worldtest.MakeExperiment("e").Sweep(worldtest.Clients, 10, 20).Claim("c", "size(tput('calvin')) == 2"), 4, 2},
		{worldtest.MakeExperiment("e").Sweep(worldtest.Clients, 20), 4, 1},
		{worldtest.MakeExperiment("e").Sweep(worldtest.Clients, 10, 20, 30), 6, 3},
	} {
		st := change(c.with)
		if st.Points != c.points || st.Completed != c.points || len(w.JobsRun) != c.workers || len(st.Claims) != len(c.with.Spec.Claims) {
			t.Errorf("change %d: %d workers ran in all, want %d; %+v", i, len(w.JobsRun), c.workers, st)
		}
	}
	w.RanOnce()
}

// TestExperimentLosesAPoint: if a value is removed from the sweep during its run, the run is deleted and the remaining
// runs continue.
func TestExperimentLosesAPoint(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeExperiment("e", "calvin").Obj())
	w.Until("the first run measures", func() bool {
		runs := w.Runs()
		return len(runs) == 1 && runs[0].Status.Stage == v1alpha1.StageMeasure
	})
	e := w.GetExperiment("e")
	base := e.DeepCopy()
	e.Spec.Sweep = worldtest.MakeExperiment("e").Sweep(worldtest.Clients, 20).Spec.Sweep
	w.Must(w.Client.Patch(w.Ctx, e, client.MergeFrom(base)))
	if st := w.UntilFinished("e", 1).Status; st.Points != 1 || st.Completed != 1 || len(w.Runs()) != 1 {
		t.Errorf("%d runs are left; %+v", len(w.Runs()), st)
	}
}

func TestExperimentNamesThatAreTaken(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeExperiment("e", "calvin").Sweep(worldtest.Clients, 10).Obj())
	w.Until("the run is made", func() bool { return len(w.Runs()) == 1 })
	run := w.Runs()[0]
	w.Must(w.Client.Delete(w.Ctx, w.GetExperiment("e"), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	orphan := w.GetRun(run.Name)
	base := orphan.DeepCopy()
	orphan.OwnerReferences = nil
	w.Must(w.Client.Patch(w.Ctx, orphan, client.MergeFrom(base)))
	w.Until("the experiment is gone", func() bool {
		e := &v1alpha1.Experiment{}
		err := w.Client.Get(w.Ctx, types.NamespacedName{Namespace: w.Namespace, Name: "e"}, e)
		if err == nil {
			e.Finalizers = nil
			w.Must(client.IgnoreNotFound(w.Client.Update(w.Ctx, e)))
		}
		return apierrors.IsNotFound(err)
	})
	w.Create(worldtest.MakeExperiment("e", "calvin").Sweep(worldtest.Clients, 10).Obj())
	w.Until("the experiment says whose name it is", func() bool {
		c := worldtest.ConditionOf(w.GetExperiment("e"), v1alpha1.ConditionFailed)
		return c.Reason == "NameTaken" && strings.Contains(c.Message, run.Name)
	})
	w.Must(w.Client.Delete(w.Ctx, w.GetRun(run.Name)))
	if st := w.UntilFinished("e", 1).Status; st.Completed != 1 {
		t.Errorf("status is %+v", st)
	}
}

// A run with a point's name but another spec does not count as the point, whatever owner it names. The operator
// replaces it with a run of the point. If the run does not have the operator's label, the operator leaves it alone.
func TestForgedPointDoesNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		labelled bool
		forge    func(*v1alpha1.BenchmarkRunSpec)
	}{
		"another load":     {true, func(s *v1alpha1.BenchmarkRunSpec) { s.Load.ClientsPerRegion = 99 }},
		"another database": {true, func(*v1alpha1.BenchmarkRunSpec) {}},
		"plain":            {false, func(s *v1alpha1.BenchmarkRunSpec) { s.Load.ClientsPerRegion = 99 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			mine := worldtest.MakeDatabase("mine").Obj()
			mine.Spec.Engine.Name = "slog"
			w.Create(mine, worldtest.MakeExperiment("e", "calvin").Sweep(worldtest.Clients, 10).Obj())
			w.Until("the run is made", func() bool { return len(w.Runs()) == 1 })
			run := w.Runs()[0]
			w.ExperimentsWait = true
			w.Must(w.Client.Delete(w.Ctx, &run))
			w.Until("the run is gone", func() bool { return len(w.Runs()) == 0 })
			e := w.GetExperiment("e")
			forged := &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Name: run.Name, Namespace: w.Namespace, Labels: kube.ExperimentLabels(e, kube.RolePoint)}, Spec: *run.Spec.Fixed()}
			forged.Spec.DatabaseRef.Name = "mine"
			if c.forge(&forged.Spec); !c.labelled {
				delete(forged.Labels, kube.LabelManagedBy)
			}
			w.Must(controllerutil.SetControllerReference(e, forged, w.Client.Scheme()))
			w.Create(forged)
			if st := w.UntilOver(run.Name).Status; st.Verdict != v1alpha1.VerdictPassed {
				t.Fatalf("the forged run ended %s: %s", st.Verdict, st.Message)
			}
			w.ExperimentsWait = false
			if !c.labelled {
				w.Until("the experiment says whose name it is", func() bool {
					f := worldtest.ConditionOf(w.GetExperiment("e"), v1alpha1.ConditionFailed)
					return f.Reason == health.NameTaken && strings.Contains(f.Message, run.Name)
				})
				if w.GetRun(run.Name).UID != forged.UID {
					t.Error("the operator has touched what is not its own")
				}
				return
			}
			w.Until("the experiment has finished", func() bool { return kube.Finished(w.GetExperiment("e")) })
			doc := w.Document(run.Name)
			if st := w.GetExperiment("e").Status; st.Completed != 1 || doc.Engine != "calvin" || doc.Spec.Load.ClientsPerRegion != 10 {
				t.Errorf("the point is a run of %s with %d clients; %+v", doc.Engine, doc.Spec.Load.ClientsPerRegion, st)
			}
		})
	}
}

// A point counts only if it was measured on the unmodified database of its experiment. The operator restores an edited
// database, and repeats the measurements made in the meantime.
func TestPointOnAnEditedDatabase(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeExperiment("e", "calvin").Sweep(worldtest.Clients, 10).Claim("c", "size(tput('calvin')) == 1").Obj())
	w.Until("the run is made", func() bool { return len(w.Runs()) == 1 })
	name := w.Runs()[0].Name
	w.ExperimentsWait = true
	db := &w.Databases()[0]
	base := db.DeepCopy()
	db.Spec.PartitionsPerRegion = 2
	w.Must(w.Client.Patch(w.Ctx, db, client.MergeFrom(base)))
	if st := w.UntilOver(name).Status; st.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("on the edited database the run ended %s: %s", st.Verdict, st.Message)
	}
	w.ExperimentsWait = false
	st := w.UntilFinished("e", 1).Status
	if p := st.Results[0]; p.Attempt != 2 || p.Verdict != v1alpha1.VerdictPassed || st.ClaimsHold != "1/1" {
		t.Errorf("the point ended %+v, claims %s", p, st.ClaimsHold)
	}
	if n := w.Document(name).Manifests.Database.PartitionsPerRegion; n != 1 {
		t.Errorf("the point was measured on %d partitions per region", n)
	}
	if told := w.ToldOf(); told["Warning PointRetried"] != 1 || told["Warning DatabaseRestored"] != 1 {
		t.Errorf("events: %v", told)
	}
}

// An experiment creates no objects if the cluster would store them with another spec.
func TestSpecsThatTheClusterChanges(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.OperatorClient = func() client.Client {
		return interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if run, ok := obj.(*v1alpha1.BenchmarkRun); ok {
					run.Spec.Load.ClientsPerRegion++
				}
				return c.Create(ctx, obj, opts...)
			},
		})
	}
	w.RestartOperator()
	w.Create(worldtest.MakeExperiment("e", "calvin").Sweep(worldtest.Clients, 10).Obj())
	w.Until("the experiment is refused", func() bool {
		c := worldtest.ConditionOf(w.GetExperiment("e"), v1alpha1.ConditionFailed)
		return c.Reason == "SpecChanged" && strings.Contains(c.Message, "BenchmarkRun e-")
	})
	if n := len(w.Runs()); n != 0 {
		t.Errorf("%d runs were made", n)
	}
}
