package controllers

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// conflictDelay is how long a reconciliation waits that worked on an object which has changed since.
const conflictDelay = time.Second

// conclusion is how a reconciliation ends.
type conclusion struct {
	before, after client.Object
	// changed tells that the status differs and is to be written.
	changed bool
	// err is what the reconciliation itself ended with. The status is written all the same: it may say why.
	err error
	// again is when to look again.
	again time.Duration
	// recorded is called once the status is as it should be: what it tells the world is on record.
	recorded func()
}

// conclude writes the status. Who lost a race starts over a little later, without a word: the object has news.
func (c conclusion) conclude(ctx context.Context, to client.Client) (reconcile.Result, error) {
	if c.changed {
		patch := client.MergeFromWithOptions(c.before, client.MergeFromWithOptimisticLock{})
		if err := to.Status().Patch(ctx, c.after, patch); err != nil {
			if apierrors.IsConflict(err) {
				return reconcile.Result{RequeueAfter: conflictDelay}, nil
			}
			return reconcile.Result{}, errors.Join(c.err, client.IgnoreNotFound(err))
		}
	}
	c.recorded()
	if apierrors.IsConflict(c.err) || namespaceEnds(c.err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	if c.err != nil {
		return reconcile.Result{}, c.err
	}
	return reconcile.Result{RequeueAfter: c.again}, nil
}

// byLabel enqueues the object that a label of another names. An object counts unless one of the conditions refuses it.
func byLabel(label string, counts ...func(client.Object) bool) handler.EventHandler {
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
