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

// conflictDelay is how long a reconciliation waits that worked on an object which has changed since.
const conflictDelay = time.Second

// Conclusion is how a reconciliation ends.
type Conclusion struct {
	Before, After client.Object
	// Changed tells that the status differs and is to be written.
	Changed bool
	// Err is what the reconciliation itself ended with. The status is written all the same: it may say why.
	Err error
	// Again is when to look again.
	Again time.Duration
	// Recorded is called once the status is as it should be: what it tells the world is on record.
	Recorded func()
}

// Conclude writes the status. Who lost a race starts over a little later, without a word: the object has news.
func (c Conclusion) Conclude(ctx context.Context, to client.Client) (reconcile.Result, error) {
	if c.Changed {
		patch := client.MergeFromWithOptions(c.Before, client.MergeFromWithOptimisticLock{})
		// A copy takes the answer: what was begun aside reads the object.
		after, ok := c.After.DeepCopyObject().(client.Object)
		if !ok {
			return reconcile.Result{}, fmt.Errorf("a copy of a %T is no object", c.After)
		}
		if err := to.Status().Patch(ctx, after, patch); err != nil {
			if apierrors.IsConflict(err) {
				return reconcile.Result{RequeueAfter: conflictDelay}, nil
			}
			return reconcile.Result{}, errors.Join(c.Err, client.IgnoreNotFound(err))
		}
	}
	c.Recorded()
	if apierrors.IsConflict(c.Err) || namespaceEnds(c.Err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	if c.Err != nil {
		return reconcile.Result{}, c.Err
	}
	return reconcile.Result{RequeueAfter: c.Again}, nil
}

// RunSettles lets through that a run has ended and given everything back, or begins again, not its way there.
type RunSettles struct{ predicate.Funcs }

// Update implements predicate.Predicate.
func (RunSettles) Update(e event.UpdateEvent) bool {
	was, ok1 := e.ObjectOld.(*v1alpha1.BenchmarkRun)
	is, ok2 := e.ObjectNew.(*v1alpha1.BenchmarkRun)
	return ok1 && ok2 && Settled(was) != Settled(is)
}

// ByLabel enqueues the object that a label of another names. An object counts unless one of the conditions refuses it.
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
