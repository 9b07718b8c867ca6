package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/geobench/geobench/api/v1alpha1"
)

// conflictDelay is the pause before a reconciliation that used an outdated object is retried.
const conflictDelay = time.Second

// Conclusion is the outcome of a reconciliation, from which Conclude writes the status.
type Conclusion struct {
	Before, After client.Object
	// Changed is set if the status differs and must be written.
	Changed bool
	// Err is the error of the reconciliation. The status is written even if Err is set, because it may contain the
	// reason.
	Err error
	// Again is the time until the next reconciliation; 0 schedules none.
	Again time.Duration
	// Recorded is called once the status is stored, so that events and metrics report only stored facts.
	Recorded func()
}

// Conclude writes the status. If the object was changed in the meantime, it schedules a retry instead of returning an
// error.
func (c Conclusion) Conclude(ctx context.Context, to client.Client) (reconcile.Result, error) {
	if c.Changed {
		patch := client.MergeFromWithOptions(c.Before, client.MergeFromWithOptimisticLock{})
		// Patch a copy, because the client overwrites it with the response while background jobs read the object.
		after, ok := c.After.DeepCopyObject().(client.Object)
		if !ok {
			return reconcile.Result{}, fmt.Errorf("a copy of a %T is no object", c.After)
		}
		if err := to.Status().Patch(ctx, after, patch); err != nil {
			if apierrors.IsConflict(err) {
				return reconcile.Result{RequeueAfter: conflictDelay}, nil
			}
			// If the object was deleted, there is no status to write.
			return reconcile.Result{}, errors.Join(c.Err, client.IgnoreNotFound(err))
		}
	}
	c.Recorded()
	// A conflict or a terminating namespace is not a failure of the operator, so the retry is not reported as an error.
	if apierrors.IsConflict(c.Err) || namespaceEnds(c.Err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	if c.Err != nil {
		return reconcile.Result{}, c.Err
	}
	return reconcile.Result{RequeueAfter: c.Again}, nil
}

// RunSettles passes an update if a run has finished and released everything, or starts again. It drops all updates in
// between.
type RunSettles struct{ predicate.Funcs }

// Update implements predicate.Predicate.
func (RunSettles) Update(e event.UpdateEvent) bool {
	was, ok1 := e.ObjectOld.(*v1alpha1.BenchmarkRun)
	is, ok2 := e.ObjectNew.(*v1alpha1.BenchmarkRun)
	return ok1 && ok2 && Settled(was) != Settled(is)
}

// ByLabel enqueues the object whose name is in the given label of the observed object. It enqueues nothing if a
// function in counts returns false for the observed object.
func ByLabel(label string, counts ...func(client.Object) bool) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		name := obj.GetLabels()[label]
		if name == "" {
			return nil
		}
		for _, count := range counts {
			if !count(obj) {
				return nil
			}
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
	})
}
