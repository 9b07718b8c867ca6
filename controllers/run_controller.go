package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/deploy"
	"github.com/geobench/geobench/internal/health"
	"github.com/geobench/geobench/internal/manifest/check"
	"github.com/geobench/geobench/internal/result"
)

// Finalizer is on a run while it may hold a database or have something to clean up.
const Finalizer = "geobench.dev/cleanup"

// BenchmarkRunReconciler leads runs through their stages.
type BenchmarkRunReconciler struct {
	Client client.Client
	// Live reads from the API server itself.
	Live client.Reader
	Pods PodClients
	// Choose picks the backend that emulates a database's network.
	Choose chooser
	// Unfit says why Chaos Mesh cannot inject objects of a kind, empty when it can.
	Unfit func(ctx context.Context, db *v1alpha1.GeoDatabase, kind string, qdiscs []string) (string, error)
	// Credentials give pods theirs.
	Credentials *Credentials
	// Abilities say what the checks may let through.
	Abilities check.Abilities
	// HistoryMemory is what checking a run's history may take, in bytes.
	HistoryMemory int64
	// Image of workers, and of the nodes of the databases that runs are checked against.
	Image  string
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Wait waits for a part of a second.
	Wait func(ctx context.Context, d time.Duration) error
}

// wait is Wait where time is what it is.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SetupWithManager registers the controller.
func (r *BenchmarkRunReconciler) SetupWithManager(mgr ctrl.Manager) error {
	ofRun := byLabel(LabelRun, func(obj client.Object) bool { return obj.GetLabels()[LabelRole] != RoleResult })
	byDatabase := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		list := &v1alpha1.BenchmarkRunList{}
		if err := r.Client.List(ctx, list, client.InNamespace(obj.GetNamespace())); err != nil {
			return nil
		}
		var out []reconcile.Request
		for i := range list.Items {
			if run := &list.Items[i]; run.Spec.DatabaseRef.Name == obj.GetName() && !over(run) {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(run)})
			}
		}
		return out
	})
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.BenchmarkRun{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&batchv1.Job{}, ofRun).
		Watches(&corev1.Pod{}, ofRun).
		Watches(&corev1.ConfigMap{}, ofRun, builder.WithPredicates(stateChanged{})).
		Watches(&v1alpha1.GeoDatabase{}, byDatabase).
		WithOptions(controller.Options{MaxConcurrentReconciles: runsAtOnce}).
		Complete(r)
}

// stateChanged lets through a worker's change of state, not its progress of every few seconds.
type stateChanged struct{ predicate.Funcs }

func (stateChanged) Update(e ctrlevent.UpdateEvent) bool {
	was, ok1 := e.ObjectOld.(*corev1.ConfigMap)
	is, ok2 := e.ObjectNew.(*corev1.ConfigMap)
	return ok1 && ok2 && was.Data[deploy.KeyState] != is.Data[deploy.KeyState]
}

// stages are what is done in each stage. A stage leaves the scope in the same stage, in the next, or failed.
var stages = map[v1alpha1.Stage]func(*runScope, context.Context) error{
	v1alpha1.StagePreflight: (*runScope).preflight,
	v1alpha1.StageProvision: (*runScope).provision,
	v1alpha1.StageEmulate:   (*runScope).emulate,
	v1alpha1.StageLoad:      (*runScope).load,
	v1alpha1.StageWarmup:    (*runScope).warmup,
	v1alpha1.StageMeasure:   (*runScope).measure,
	v1alpha1.StageRecover:   (*runScope).recover,
	v1alpha1.StageCollect:   (*runScope).collect,
	v1alpha1.StageEvaluate:  (*runScope).evaluate,
}

// Reconcile leads one run a step further.
func (r *BenchmarkRunReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	run := &v1alpha1.BenchmarkRun{}
	if err := r.Live.Get(ctx, req.NamespacedName, run); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	s := &runScope{BenchmarkRunReconciler: r, run: run, before: run.DeepCopy()}
	err := s.reconcile(ctx)
	var t *trouble
	if errors.As(err, &t) && !over(run) && run.DeletionTimestamp == nil {
		s.invalidate(t.reason, "in stage %s: %s", run.Status.Stage, t.message)
		err = nil
	}
	health.Apply(&run.Status.Conditions, s.before.Status.Conditions, health.Run(run), s.now())
	changed := !s.gone && !equality.Semantic.DeepEqual(s.before.Status, run.Status)
	return conclusion{
		before: s.before, after: run,
		changed: changed,
		err:     err,
		again:   s.again,
		recorded: func() {
			if changed {
				s.recorded()
			}
		},
	}.conclude(ctx, r.Client)
}

func (s *runScope) reconcile(ctx context.Context) error {
	run := s.run
	if run.DeletionTimestamp != nil {
		return s.remove(ctx)
	}
	run.Status.ObservedGeneration = run.Generation
	switch {
	case run.Status.Stage != "" && (run.Status.RunID != run.Spec.RunID || run.Held()):
		return s.startOver(ctx)
	case over(run):
		return s.finish(ctx)
	case run.Held():
		return nil
	case run.Status.Stage == "":
		return s.begin(ctx)
	}
	if run.Spec.Cancel {
		s.invalidate(result.ReasonCancelled, "cancelled by spec.cancel in stage %s; change spec.runID and take spec.cancel back to run it again", run.Status.Stage)
		return nil
	}
	if s.checkDeadlines(); over(run) {
		return nil
	}
	if err := s.checkDatabase(ctx); err != nil || s.moved() {
		return err
	}
	if err := s.checkHealth(ctx); err != nil || s.moved() {
		return err
	}
	return stages[run.Status.Stage](s, ctx)
}

// trouble is why what a run measured, or would measure, cannot be trusted: a reason of a verdict, and a sentence.
type trouble struct{ reason, message string }

func (t *trouble) Error() string { return t.message }

func isTrouble(err error) bool {
	var t *trouble
	return errors.As(err, &t)
}

func troubled(reason, format string, args ...any) *trouble {
	return &trouble{reason, fmt.Sprintf(format, args...)}
}

// begin takes a new run in. The finalizer comes first: nothing is made without it.
func (s *runScope) begin(ctx context.Context) error {
	if err := s.addFinalizer(ctx); err != nil {
		return err
	}
	now := s.now()
	s.run.Status.RunID = s.run.Spec.RunID
	s.run.Status.StartTime = &now
	s.enter(v1alpha1.StagePreflight)
	return nil
}

func (s *runScope) addFinalizer(ctx context.Context) error {
	if controllerutil.ContainsFinalizer(s.run, Finalizer) {
		return nil
	}
	return s.patchFinalizers(ctx, func(run *v1alpha1.BenchmarkRun) { controllerutil.AddFinalizer(run, Finalizer) })
}

// patchFinalizers writes a change of the finalizers at once and leaves the status that is being worked on alone.
func (s *runScope) patchFinalizers(ctx context.Context, change func(*v1alpha1.BenchmarkRun)) error {
	patched := s.before.DeepCopy()
	change(patched)
	if err := s.Client.Patch(ctx, patched, client.MergeFromWithOptions(s.before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	for _, run := range []*v1alpha1.BenchmarkRun{s.before, s.run} {
		run.ResourceVersion, run.Finalizers = patched.ResourceVersion, patched.Finalizers
	}
	return nil
}

// startOver runs the same object again for another spec.runID, once nothing of the last attempt is left; a run that is held then waits
// as if it had never begun. The verdict of the last attempt goes in the write that tells that the new spec was seen.
func (s *runScope) startOver(ctx context.Context) error {
	st := &s.run.Status
	st.Verdict, st.Reason, st.Message = "", "", ""
	for _, kind := range []string{v1alpha1.ConditionCompleted, v1alpha1.ConditionNotRegressed} {
		meta.RemoveStatusCondition(&st.Conditions, kind)
	}
	clean, err := s.cleanUp(ctx, false)
	if err != nil || !clean {
		return err
	}
	if err := s.release(ctx); err != nil {
		return err
	}
	s.run.Status = v1alpha1.BenchmarkRunStatus{ObservedGeneration: s.run.Generation}
	if s.run.Held() {
		return nil
	}
	return s.begin(ctx)
}

// finish cleans up after a run that is over, gives its database back and lets go of the run, which goes when its time has come.
func (s *runScope) finish(ctx context.Context) error {
	if !controllerutil.ContainsFinalizer(s.run, Finalizer) {
		return s.expire(ctx)
	}
	clean, err := s.cleanUp(ctx, false)
	if err != nil || !clean {
		return err
	}
	if err := s.release(ctx); err != nil {
		return err
	}
	if err := s.removeFinalizer(ctx); err != nil {
		return err
	}
	return s.expire(ctx)
}

// remove cleans up after a run that is being deleted, at whatever stage.
func (s *runScope) remove(ctx context.Context) error {
	if !controllerutil.ContainsFinalizer(s.run, Finalizer) {
		return nil
	}
	clean, err := s.cleanUp(ctx, true)
	if err != nil || !clean {
		return err
	}
	if err := s.release(ctx); err != nil {
		return err
	}
	s.gone = true
	return s.removeFinalizer(ctx)
}

func (s *runScope) removeFinalizer(ctx context.Context) error {
	return client.IgnoreNotFound(s.patchFinalizers(ctx, func(run *v1alpha1.BenchmarkRun) { controllerutil.RemoveFinalizer(run, Finalizer) }))
}
