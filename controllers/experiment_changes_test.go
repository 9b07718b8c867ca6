package controllers

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
	"github.com/geobench/geobench/internal/ops/health"
)

func TestExperimentSuspends(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeExperiment("e", "calvin").obj())
	w.until("the first run measures", func() bool {
		runs := w.runs()
		return len(runs) == 1 && runs[0].Status.Stage == v1alpha1.StageMeasure
	})
	suspend := func(v bool) {
		e := w.getExperiment("e")
		base := e.DeepCopy()
		e.Spec.Suspend = v
		w.must(w.client.Patch(w.ctx, e, client.MergeFrom(base)))
	}
	suspend(true)
	w.until("nothing runs, and nothing is left to run on", func() bool {
		return conditionOf(w.getExperiment("e"), v1alpha1.ConditionProgressing).Reason == "Suspended" && len(w.databases()) == 0
	})
	for range 5 {
		w.step()
	}
	if runs, dbs := w.runs(), w.databases(); len(runs) != 1 || runs[0].Status.Verdict != v1alpha1.VerdictPassed || len(dbs) != 0 {
		t.Errorf("%d runs and %d databases while suspended; the first run ended %q", len(runs), len(dbs), runs[0].Status.Verdict)
	}
	suspend(false)
	if st := w.untilFinished("e", 1).Status; st.Completed != 2 {
		t.Errorf("status is %+v", st)
	}
	w.ranOnce()
}

// TestExperimentChanges: a value that is added is the only one that runs, a claim is judged at once, and what was taken
// out and comes back is not measured again.
func TestExperimentChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeExperiment("e", "calvin").sweep(clients, 10).obj())
	w.untilFinished("e", 1)
	change := func(with *experimentBuilder) v1alpha1.ExperimentStatus {
		e := w.getExperiment("e")
		base := e.DeepCopy()
		e.Spec.Sweep, e.Spec.Claims = with.Spec.Sweep, with.Spec.Claims
		w.must(w.client.Patch(w.ctx, e, client.MergeFrom(base)))
		return w.untilFinished("e", 1).Status
	}
	for i, c := range []struct {
		with    *experimentBuilder
		workers int // that ran so far
		points  int32
	}{
		{makeExperiment("e").sweep(clients, 10, 20), 4, 2},
		{makeExperiment("e").sweep(clients, 10, 20).claim("c", "size(tput('calvin')) == 2"), 4, 2},
		{makeExperiment("e").sweep(clients, 20), 4, 1},
		{makeExperiment("e").sweep(clients, 10, 20, 30), 6, 3},
	} {
		st := change(c.with)
		if st.Points != c.points || st.Completed != c.points || len(w.jobsRun) != c.workers || len(st.Claims) != len(c.with.Spec.Claims) {
			t.Errorf("change %d: %d workers ran in all, want %d; %+v", i, len(w.jobsRun), c.workers, st)
		}
	}
	w.ranOnce()
}

// TestExperimentLosesAPoint: the run of a value that is taken out while it runs goes, and the others go on.
func TestExperimentLosesAPoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeExperiment("e", "calvin").obj())
	w.until("the first run measures", func() bool {
		runs := w.runs()
		return len(runs) == 1 && runs[0].Status.Stage == v1alpha1.StageMeasure
	})
	e := w.getExperiment("e")
	base := e.DeepCopy()
	e.Spec.Sweep = makeExperiment("e").sweep(clients, 20).Spec.Sweep
	w.must(w.client.Patch(w.ctx, e, client.MergeFrom(base)))
	if st := w.untilFinished("e", 1).Status; st.Points != 1 || st.Completed != 1 || len(w.runs()) != 1 {
		t.Errorf("%d runs are left; %+v", len(w.runs()), st)
	}
}

func TestExperimentNamesThatAreTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeExperiment("e", "calvin").sweep(clients, 10).obj())
	w.until("the run is made", func() bool { return len(w.runs()) == 1 })
	run := w.runs()[0]
	w.must(w.client.Delete(w.ctx, w.getExperiment("e"), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	orphan := w.getRun(run.Name)
	base := orphan.DeepCopy()
	orphan.OwnerReferences = nil
	w.must(w.client.Patch(w.ctx, orphan, client.MergeFrom(base)))
	w.until("the experiment is gone", func() bool {
		e := &v1alpha1.Experiment{}
		err := w.client.Get(w.ctx, types.NamespacedName{Namespace: w.namespace, Name: "e"}, e)
		if err == nil {
			e.Finalizers = nil
			w.must(client.IgnoreNotFound(w.client.Update(w.ctx, e)))
		}
		return apierrors.IsNotFound(err)
	})
	w.create(makeExperiment("e", "calvin").sweep(clients, 10).obj())
	w.until("the experiment says whose name it is", func() bool {
		c := conditionOf(w.getExperiment("e"), v1alpha1.ConditionFailed)
		return c.Reason == "NameTaken" && strings.Contains(c.Message, run.Name)
	})
	w.must(w.client.Delete(w.ctx, w.getRun(run.Name)))
	if st := w.untilFinished("e", 1).Status; st.Completed != 1 {
		t.Errorf("status is %+v", st)
	}
}

// A run that has a point's name and plays something else does not count as the point, whoever it calls its owner: the
// point is played in its place, and what does not say that it is the operator's is left alone.
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
			w := newWorld(t)
			mine := makeDatabase("mine").obj()
			mine.Spec.Engine.Name = "slog"
			w.create(mine, makeExperiment("e", "calvin").sweep(clients, 10).obj())
			w.until("the run is made", func() bool { return len(w.runs()) == 1 })
			run := w.runs()[0]
			w.experimentsWait = true
			w.must(w.client.Delete(w.ctx, &run))
			w.until("the run is gone", func() bool { return len(w.runs()) == 0 })
			e := w.getExperiment("e")
			forged := &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Name: run.Name, Namespace: w.namespace, Labels: kube.ExperimentLabels(e, kube.RolePoint)}, Spec: *run.Spec.Fixed()}
			forged.Spec.DatabaseRef.Name = "mine"
			if c.forge(&forged.Spec); !c.labelled {
				delete(forged.Labels, kube.LabelManagedBy)
			}
			w.must(controllerutil.SetControllerReference(e, forged, w.client.Scheme()))
			w.create(forged)
			if st := w.untilOver(run.Name).Status; st.Verdict != v1alpha1.VerdictPassed {
				t.Fatalf("the forged run ended %s: %s", st.Verdict, st.Message)
			}
			w.experimentsWait = false
			if !c.labelled {
				w.until("the experiment says whose name it is", func() bool {
					f := conditionOf(w.getExperiment("e"), v1alpha1.ConditionFailed)
					return f.Reason == health.NameTaken && strings.Contains(f.Message, run.Name)
				})
				if w.getRun(run.Name).UID != forged.UID {
					t.Error("the operator has touched what is not its own")
				}
				return
			}
			w.until("the experiment has finished", func() bool { return kube.Finished(w.getExperiment("e")) })
			doc := w.document(run.Name)
			if st := w.getExperiment("e").Status; st.Completed != 1 || doc.Engine != "calvin" || doc.Spec.Load.ClientsPerRegion != 10 {
				t.Errorf("the point is a run of %s with %d clients; %+v", doc.Engine, doc.Spec.Load.ClientsPerRegion, st)
			}
		})
	}
}

// A point counts on the database of its experiment alone: one that somebody has edited is brought back, and what was
// measured on it meanwhile is measured again.
func TestPointOnAnEditedDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeExperiment("e", "calvin").sweep(clients, 10).claim("c", "size(tput('calvin')) == 1").obj())
	w.until("the run is made", func() bool { return len(w.runs()) == 1 })
	name := w.runs()[0].Name
	w.experimentsWait = true
	db := &w.databases()[0]
	base := db.DeepCopy()
	db.Spec.PartitionsPerRegion = 2
	w.must(w.client.Patch(w.ctx, db, client.MergeFrom(base)))
	if st := w.untilOver(name).Status; st.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("on the edited database the run ended %s: %s", st.Verdict, st.Message)
	}
	w.experimentsWait = false
	st := w.untilFinished("e", 1).Status
	if p := st.Results[0]; p.Attempt != 2 || p.Verdict != v1alpha1.VerdictPassed || st.ClaimsHold != "1/1" {
		t.Errorf("the point ended %+v, claims %s", p, st.ClaimsHold)
	}
	if n := w.document(name).Manifests.Database.PartitionsPerRegion; n != 1 {
		t.Errorf("the point was measured on %d partitions per region", n)
	}
	if told := w.toldOf(); told["Warning PointRetried"] != 1 || told["Warning DatabaseRestored"] != 1 {
		t.Errorf("events: %v", told)
	}
}

// Nothing is made of an experiment whose objects the cluster would write with another spec.
func TestSpecsThatTheClusterChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.operatorClient = func() client.Client {
		return interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if run, ok := obj.(*v1alpha1.BenchmarkRun); ok {
					run.Spec.Load.ClientsPerRegion++
				}
				return c.Create(ctx, obj, opts...)
			},
		})
	}
	w.restartOperator()
	w.create(makeExperiment("e", "calvin").sweep(clients, 10).obj())
	w.until("the experiment is refused", func() bool {
		c := conditionOf(w.getExperiment("e"), v1alpha1.ConditionFailed)
		return c.Reason == "SpecChanged" && strings.Contains(c.Message, "BenchmarkRun e-")
	})
	if n := len(w.runs()); n != 0 {
		t.Errorf("%d runs were made", n)
	}
}
