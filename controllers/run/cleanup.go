package run

import (
	"cmp"
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
)

// cleanUp deletes the run's objects and reports whether all of them are gone. The result is kept unless everything must
// be deleted. cleanUp finds the objects by the run's label and owner reference, so it does not depend on the run's
// progress.
func (s *scope) cleanUp(ctx context.Context, everything bool) (bool, error) {
	// Faults are reverted first, while the objects that describe them still exist.
	if clean, err := s.endFaults(ctx); err != nil || !clean {
		s.again = kube.PollFast
		return false, err
	}
	left, err := s.endTests(ctx, everything)
	if err != nil {
		return false, err
	}
	for _, list := range cleanupLists() {
		if err := s.Live.List(ctx, list, client.InNamespace(s.run.Namespace), client.MatchingLabels{kube.LabelRun: s.run.Name, kube.LabelManagedBy: kube.ManagedBy}); err != nil {
			return false, err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			obj := item.(client.Object)
			if !s.mayDelete(obj, everything) {
				return nil
			}
			left = fmt.Sprintf("%s %s", kube.KindOf(obj), obj.GetName())
			if obj.GetDeletionTimestamp() != nil {
				return nil
			}
			// The UID ensures that the object that was checked is deleted, not a successor with the same name.
			uid := obj.GetUID()
			err := s.Client.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &uid})
			return client.IgnoreNotFound(err)
		})
		if err != nil {
			return false, err
		}
	}
	credentials, err := s.deleteCredentials(ctx)
	if err != nil {
		return false, err
	}
	if left = cmp.Or(left, credentials); left == "" {
		s.cleanupRecovered()
		return true, nil
	}
	s.again = kube.PollFast
	s.cleanupPending(left)
	return false, nil
}

// deleteCredentials deletes the Secret of the attempt by name, because the operator may not list Secrets. It returns a
// description of the Secret while it remains, else "".
func (s *scope) deleteCredentials(ctx context.Context) (string, error) {
	secret := &corev1.Secret{}
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: s.run.Namespace, Name: kube.RunCredentialsName(s.run)}, secret)
	if err != nil || !metav1.IsControlledBy(secret, s.run) {
		return "", client.IgnoreNotFound(err)
	}
	if secret.DeletionTimestamp == nil {
		err = client.IgnoreNotFound(s.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}))
	}
	return "Secret " + secret.Name, err
}

// cleanupLists returns the kinds of objects that runs create, in the order of their deletion.
func cleanupLists() []client.ObjectList {
	return []client.ObjectList{
		&batchv1.JobList{}, // first, because a Job would replace its pods
		&corev1.PodList{},
		&rbacv1.RoleBindingList{},
		&rbacv1.RoleList{},
		&corev1.ServiceAccountList{},
		&corev1.ConfigMapList{},
	}
}

// mayDelete reports whether the run may delete obj. A run owns pods only through their Job, which may already be
// deleted.
func (s *scope) mayDelete(obj client.Object, everything bool) bool {
	if _, ok := obj.(*corev1.Pod); ok {
		return obj.GetLabels()[kube.LabelRole] == kube.RoleWorker
	}
	if !metav1.IsControlledBy(obj, s.run) {
		return false
	}
	return everything || obj.GetLabels()[kube.LabelRole] != kube.RoleResult
}

// cleanupPending sets the condition CleanupFailed if an object still exists after cleanupPatience. The message
// describes the object by the text in what.
func (s *scope) cleanupPending(what string) {
	since := s.run.Status.CompletionTime
	if s.run.DeletionTimestamp != nil {
		since = s.run.DeletionTimestamp
	}
	if since == nil || s.Clock.Now().Sub(since.Time) < cleanupPatience {
		return
	}
	s.cleanupFailed(fmt.Sprintf("%s has not gone away for %s; see its finalizers and its node", what, v1alpha1.DurationOf(cleanupPatience)))
}

func (s *scope) cleanupFailed(message string) {
	// Report the failure once, not at every reconciliation.
	if s.isTrue(v1alpha1.ConditionCleanupFailed) {
		return
	}
	s.condition(v1alpha1.ConditionCleanupFailed, true, "ObjectRemains", message)
	s.events = append(s.events, kube.CleanupFailed(message))
}

func (s *scope) cleanupRecovered() {
	if s.isTrue(v1alpha1.ConditionCleanupFailed) {
		s.condition(v1alpha1.ConditionCleanupFailed, false, "Clean", "everything is gone")
	}
}
