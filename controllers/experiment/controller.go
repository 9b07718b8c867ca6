package experiment

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/background"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/ops/health"
)

// Reconciler runs experiments: it creates the databases and runs of their points in order, and evaluates their claims.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Abilities restricts the specs that the checks accept.
	Abilities check.Abilities
	// Jobs runs work that takes longer than a reconciliation. Judgements limits the number of experiments whose claims are
	// evaluated concurrently.
	Jobs       *background.Runner
	Judgements *background.Budget
	// Checks and SlowChecks limit the number of experiments that are expanded concurrently. Each expansion is first tried
	// under Checks for at most quickCheck. If that is too short, it is repeated under SlowChecks.
	Checks, SlowChecks *background.Budget
	Events             events.EventRecorder
	Clock              clock.PassiveClock

	expansions expansions
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	ofExperiment := kube.ByLabel(kube.LabelExperiment)
	// Objects to which an experiment refers may be created or changed after the experiment.
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		list := &v1alpha1.ExperimentList{}
		// Objects of an experiment wake up only their own experiment, through ofExperiment.
		if obj.GetLabels()[kube.LabelExperiment] != "" || r.Client.List(ctx, list, client.InNamespace(obj.GetNamespace())) != nil {
			return nil
		}
		var out []reconcile.Request
		for i := range list.Items {
			if !kube.Finished(&list.Items[i]) {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
		}
		return out
	})
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Experiment{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.BenchmarkRun{}, ofExperiment, builder.WithPredicates(kube.RunSettles{})).
		Watches(&v1alpha1.GeoDatabase{}, ofExperiment, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.GeoDatabase{}, all, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.NetworkProfile{}, all, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(r.Jobs.News, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Complete(r)
}

// NewJudgements returns the budget for evaluating claims: two experiments at a time, at most one per namespace.
func NewJudgements() *background.Budget { return background.NewSharedBudget(2, 1) }

// NewChecks returns the budget for the first, short expansions: two at a time, at most one per namespace.
func NewChecks() *background.Budget { return background.NewSharedBudget(2, 1) }

// NewSlowChecks returns the budget for slow expansions: one at a time.
func NewSlowChecks() *background.Budget { return background.NewBudget(1) }

// jobPhase identifies the generation of an experiment to which background jobs belong.
func jobPhase(e *v1alpha1.Experiment) string { return fmt.Sprintf("%s/%d", e.UID, e.Generation) }

// forget drops cached data and jobs of an experiment that has no work left.
func (r *Reconciler) forget(experiment types.NamespacedName) {
	r.expansions.forget(experiment)
	r.Jobs.Forget(experiment)
}

// Reconcile advances one experiment by one step.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &v1alpha1.Experiment{}
	if err := r.Live.Get(ctx, req.NamespacedName, object); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	r.Jobs.Retain(req.NamespacedName, jobPhase(object))
	ended := kube.Finished(object)
	if object.DeletionTimestamp != nil || ended {
		r.forget(req.NamespacedName)
	}
	if object.DeletionTimestamp != nil {
		// The runs, databases and report are owned by the experiment and are deleted with it.
		return reconcile.Result{}, nil
	}
	s := &scope{Reconciler: r, experiment: object, before: object.DeepCopy()}
	var err error
	if !ended { // an experiment that finished under an earlier version of the operator may lack conditions
		err = s.reconcile(ctx)
	}
	now := s.Clock.Now()
	health.Apply(&object.Status.Conditions, s.before.Status.Conditions, health.Experiment(object, now), metav1.NewTime(now))
	result, err := kube.Conclusion{
		Before: s.before, After: object,
		Changed:  !equality.Semantic.DeepEqual(s.before.Status, object.Status),
		Err:      err,
		Again:    s.again,
		Recorded: func() { kube.EmitAll(ctx, s.events, r.Events, object) },
	}.Conclude(ctx, r.Client)
	if err == nil && kube.Finished(object) { // no event will wake it up any more
		r.forget(req.NamespacedName)
	}
	return result, err
}

func (s *scope) reconcile(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		s.expand,
		s.observe,
		s.restore,
		s.sweepUp,
		s.advance,
		s.describe,
		s.judge,
	} {
		err := step(ctx)
		if errors.Is(err, errUnderway) {
			s.again = kube.PollRun // the end of the job wakes it up earlier
			return nil
		}
		if r := kube.AsRefusal(err); r != nil {
			s.refused(r)
			return nil
		}
		if err != nil {
			return err
		}
	}
	s.experiment.Status.ObservedGeneration = s.experiment.Generation
	return nil
}
