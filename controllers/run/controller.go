package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
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
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/background"
	"github.com/geobench/geobench/controllers/chaosaudit"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/operatorca"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/health"
)

// Reconciler moves runs through their stages.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	Pods podclient.Clients
	// Choose selects the backend that emulates a database's network.
	Choose database.Chooser
	// Unfit returns the reason why Chaos Mesh cannot inject objects of the given kind, or "" if it can.
	Unfit func(ctx context.Context, db *v1alpha1.GeoDatabase, kind string, qdiscs []string) (string, error)
	// Chaos records the effects of all Chaos Mesh objects on pods, regardless of who created the objects.
	Chaos *chaosaudit.Log
	// Credentials issues the credentials of pods.
	Credentials *operatorca.Keeper
	// Abilities restricts the specs that the checks accept.
	Abilities check.Abilities
	// Jobs runs work that takes longer than a reconciliation. Loads limits the number of runs that load their data
	// concurrently. Memory is the memory budget in bytes that concurrent checks of histories and baselines share.
	Jobs          *background.Runner
	Loads, Memory *background.Budget
	// Image is the image of workers. A run is accepted only for a database whose nodes use the same image.
	Image  string
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Wait blocks for duration d or until ctx is done.
	Wait func(ctx context.Context, d time.Duration) error

	// reading is held while the reports of a run are in memory, so that only one run's reports are in memory at a time.
	// Workers determine the size of their reports, up to a bound. The holder releases the lock once it has merged the
	// reports. No reconciliation blocks on it.
	reading sync.Mutex
	// memory maps the name of a run to its *remembered.
	memory sync.Map
}

// Wait implements Reconciler.Wait in real time.
func Wait(ctx context.Context, d time.Duration) error {
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
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	// When a functional test finishes, the run that requested it must wake up.
	ofTested := kube.ByLabel(kube.LabelRun)
	// A result never needs to wake up its run: only the operator writes results, and a result outlives its run.
	ofRun := kube.ByLabel(kube.LabelRun, func(obj client.Object) bool { return obj.GetLabels()[kube.LabelRole] != kube.RoleResult })
	byDatabase := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		db, ok := obj.(*v1alpha1.GeoDatabase)
		if !ok {
			return nil
		}
		return r.wakesUp(ctx, db)
	})
	next := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		run, ok := obj.(*v1alpha1.BenchmarkRun)
		db := &v1alpha1.GeoDatabase{}
		if !ok || r.Client.Get(ctx, types.NamespacedName{Namespace: run.Namespace, Name: run.Spec.DatabaseRef.Name}, db) != nil {
			return nil
		}
		return r.wakesUp(ctx, db)
	})
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.BenchmarkRun{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&batchv1.Job{}, ofRun).
		Watches(&corev1.Pod{}, ofRun).
		Watches(&corev1.ConfigMap{}, ofRun, builder.WithPredicates(stateChanged{})).
		Watches(&v1alpha1.GeoDatabase{}, byDatabase).
		Watches(&v1alpha1.BenchmarkRun{}, next, builder.WithPredicates(leavesQueue{})).
		Watches(&v1alpha1.BenchmarkRun{}, ofTested, builder.WithPredicates(kube.RunSettles{})).
		WatchesRawSource(source.Channel(r.Jobs.News, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: runsAtOnce,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, failureDelay),
		}).
		Complete(r)
}

// stateChanged passes updates of a worker's state and drops its progress updates, which arrive every few seconds.
type stateChanged struct{ predicate.Funcs }

func (stateChanged) Update(e ctrlevent.UpdateEvent) bool {
	was, ok1 := e.ObjectOld.(*corev1.ConfigMap)
	is, ok2 := e.ObjectNew.(*corev1.ConfigMap)
	return ok1 && ok2 && was.Data[deploy.KeyState] != is.Data[deploy.KeyState]
}

// Reconcile advances one run by one step.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	// A waiting run needs no read from the API server, so a queue of thousands of runs is cheap.
	if waits, result, err := r.waitInQueue(ctx, req.NamespacedName); waits || err != nil {
		return result, err
	}
	run := &v1alpha1.BenchmarkRun{}
	if err := r.Live.Get(ctx, req.NamespacedName, run); err != nil {
		if apierrors.IsNotFound(err) {
			// After the deletion, no later reconciliation would stop the run's jobs.
			r.Jobs.Forget(req.NamespacedName)
			r.memory.Delete(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	// Jobs of an earlier stage or attempt work on outdated state, so their results are discarded.
	r.Jobs.Retain(req.NamespacedName, jobPhase(run))
	s := &scope{Reconciler: r, run: run, before: run.DeepCopy()}
	s.remember()
	err := s.reconcile(ctx)
	var t *trouble
	// A run that is over keeps its verdict, and a run that is being deleted only has to be cleaned up.
	if errors.As(err, &t) && !kube.Over(run) && run.DeletionTimestamp == nil {
		s.fail(t.reason, "in stage %s: %s", run.Status.Stage, t.message)
		err = nil
	}
	return s.record(ctx, err)
}

// record completes a reconciliation that returned err: it sets the health conditions and writes the status if it has
// changed.
func (s *scope) record(ctx context.Context, err error) (reconcile.Result, error) {
	health.Apply(&s.run.Status.Conditions, s.before.Status.Conditions, health.Run(s.run), s.now())
	changed := !s.gone && !equality.Semantic.DeepEqual(s.before.Status, s.run.Status)
	return kube.Conclusion{
		Before: s.before, After: s.run,
		Changed: changed,
		Err:     err,
		Again:   s.again,
		Recorded: func() {
			if changed {
				s.recorded(ctx)
			}
		},
	}.Conclude(ctx, s.Client)
}

func (s *scope) reconcile(ctx context.Context) error {
	run := s.run
	if run.DeletionTimestamp != nil {
		return s.remove(ctx)
	}
	run.Status.ObservedGeneration = run.Generation
	switch {
	// Check this before the final stages, because a new runID also restarts a finished run.
	case run.Status.Stage != "" && (run.Status.RunID != run.Spec.RunID || run.Held()):
		return s.startOver(ctx)
	case kube.Over(run):
		return s.finish(ctx)
	case run.Held():
		return nil
	case run.Status.Stage == "":
		s.begin()
		return nil
	}
	if run.Spec.Cancel {
		s.fail(result.ReasonCancelled, "cancelled by spec.cancel in stage %s; change spec.runID and take spec.cancel back to run it again", run.Status.Stage)
		return nil
	}
	if s.checkDeadlines(); kube.Over(run) {
		return nil
	}
	// checkDatabase sets s.db and s.current, which checkHealth and all steps need. If the stage has changed, write the
	// status before any action of the new stage.
	if err := s.checkDatabase(ctx); err != nil || s.moved() {
		return err
	}
	if err := s.checkHealth(ctx); err != nil || s.moved() {
		return err
	}
	return stageOf(run).step(s, ctx)
}

// trouble is an error that makes the run Invalid, with the reason and the message of the verdict.
type trouble struct{ reason, message string }

func (t *trouble) Error() string { return t.message }

func isTrouble(err error) bool {
	var t *trouble
	return errors.As(err, &t)
}

func troubled(reason, format string, args ...any) *trouble {
	return &trouble{reason, fmt.Sprintf(format, args...)}
}

// begin starts a new run in stage Preflight.
func (s *scope) begin() {
	now := s.now()
	s.run.Status.ObservedGeneration = s.run.Generation
	// A run that was suspended during Preflight keeps its execution, so that its functional tests still count.
	if s.run.Status.Execution == "" || s.run.Status.RunID != s.run.Spec.RunID {
		s.run.Status.RunID, s.run.Status.Execution = s.run.Spec.RunID, kube.NewExecution()
	}
	s.run.Status.StartTime = &now
	s.enter(v1alpha1.StagePreflight)
}

// addFinalizer adds the finalizer. It must be called before the run creates or reserves any object, so that all these
// objects are cleaned up.
func (s *scope) addFinalizer(ctx context.Context) error {
	if controllerutil.ContainsFinalizer(s.run, kube.Finalizer) {
		return nil
	}
	return s.patchFinalizers(ctx, func(run *v1alpha1.BenchmarkRun) { controllerutil.AddFinalizer(run, kube.Finalizer) })
}

// patchFinalizers applies change to the finalizers and writes them immediately, without the pending changes of the
// status.
func (s *scope) patchFinalizers(ctx context.Context, change func(*v1alpha1.BenchmarkRun)) error {
	patched := s.before.DeepCopy()
	change(patched)
	if err := s.Client.Patch(ctx, patched, client.MergeFromWithOptions(s.before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	// Later patches of this reconciliation use the new resource version, or they would conflict with this patch.
	for _, run := range []*v1alpha1.BenchmarkRun{s.before, s.run} {
		run.ResourceVersion, run.Finalizers = patched.ResourceVersion, patched.Finalizers
	}
	return nil
}

// startOver restarts the run for a new spec.runID, once all objects of the last attempt are gone. If the run is
// suspended, it then waits as if it had never started. The write that acknowledges the new spec also removes the
// verdict of the last attempt.
func (s *scope) startOver(ctx context.Context) error {
	st := &s.run.Status
	st.Verdict, st.Reason, st.Message = "", "", ""
	for _, kind := range []string{v1alpha1.ConditionCompleted, v1alpha1.ConditionNotRegressed} {
		meta.RemoveStatusCondition(&st.Conditions, kind)
	}
	// Objects of the last attempt must be gone first, so that they cannot be mistaken for objects of the next attempt.
	if free, err := s.letGo(ctx, false); err != nil || !free {
		return err
	}
	was := *st
	s.run.Status = v1alpha1.BenchmarkRunStatus{ObservedGeneration: s.run.Generation}
	if was.Stage == v1alpha1.StagePreflight && was.RunID == s.run.Spec.RunID && s.run.Held() {
		// Nothing was measured yet, and functional tests that have passed still count when the run resumes.
		s.run.Status.RunID, s.run.Status.Execution = was.RunID, was.Execution
	}
	if !s.run.Held() {
		s.begin()
	}
	return nil
}

// finish cleans up after a finished run, and deletes the run when its TTL expires.
func (s *scope) finish(ctx context.Context) error {
	// A run without the finalizer has already released everything.
	if !controllerutil.ContainsFinalizer(s.run, kube.Finalizer) {
		return s.expire(ctx)
	}
	if free, err := s.letGo(ctx, false); err != nil || !free {
		return err
	}
	return s.expire(ctx)
}

// remove cleans up after a run that is being deleted, whatever its stage.
func (s *scope) remove(ctx context.Context) error {
	if !controllerutil.ContainsFinalizer(s.run, kube.Finalizer) {
		return nil
	}
	var err error
	s.gone, err = s.letGo(ctx, true)
	return err
}

// letGo deletes the run's objects (see cleanUp), releases its database and removes the finalizer, in this order. It
// returns false while objects remain.
func (s *scope) letGo(ctx context.Context, everything bool) (bool, error) {
	clean, err := s.cleanUp(ctx, everything)
	if err != nil || !clean {
		return false, err
	}
	// The next run may start as soon as the database is released, so no object or fault of this run may remain.
	if err := s.release(ctx); err != nil {
		return false, err
	}
	if !controllerutil.ContainsFinalizer(s.run, kube.Finalizer) {
		return true, nil
	}
	return true, client.IgnoreNotFound(s.patchFinalizers(ctx, func(run *v1alpha1.BenchmarkRun) { controllerutil.RemoveFinalizer(run, kube.Finalizer) }))
}
