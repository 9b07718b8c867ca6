package run

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/controllers/kube"
)

// expire deletes a finished run once the retention time for its verdict (spec.ttlSecondsAfterFinished) is over. The
// operator first removes the owner reference of the result, so that the garbage collector does not delete the result
// with the run. The run's functional tests are deleted in the same way.
func (s *scope) expire(ctx context.Context) error {
	st := &s.run.Status
	keep, ok := s.run.Spec.TTLSecondsAfterFinished.Of(st.Verdict)
	if !ok {
		return nil
	}
	if left := st.CompletionTime.Add(keep).Sub(s.Clock.Now()); left > 0 {
		s.again = left
		return nil
	}
	// The results of the tests survive only if their owner references are removed before the run is deleted.
	for _, name := range testNames(s.run) {
		test, err := s.ownTest(ctx, name)
		if test != nil && test.DeletionTimestamp == nil {
			err = (&scope{Reconciler: s.Reconciler, run: test, before: test}).leave(ctx)
		}
		if err != nil {
			return err
		}
	}
	return s.leave(ctx)
}

// leave deletes the run but keeps its result.
func (s *scope) leave(ctx context.Context) error {
	cm, err := s.resultObject(ctx)
	if kube.AsRefusal(err) != nil {
		cm = nil // a foreign ConfigMap is left alone
	} else if err != nil {
		return err
	}
	if cm != nil && metav1.IsControlledBy(cm, s.run) {
		base := cm.DeepCopy()
		// The orphaned result gets a label, so that a later run with the same name may replace it.
		cm.OwnerReferences = nil
		cm.Labels = kube.WithLabel(cm.Labels, kube.LabelExpired, "true")
		if err := s.Client.Patch(ctx, cm, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}
	}
	// The precondition prevents the deletion of a run that was changed since it was read, because a new runID would start
	// it again.
	err = s.Client.Delete(ctx, s.run, client.Preconditions{UID: &s.run.UID, ResourceVersion: &s.run.ResourceVersion},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err == nil || apierrors.IsNotFound(err) {
		s.gone = true
		return nil
	}
	return err
}

// isExpired reports whether cm is the result of an expired run with the given name.
func isExpired(cm *corev1.ConfigMap, run string) bool {
	return cm.Labels[kube.LabelExpired] == "true" && cm.Labels[kube.LabelRole] == kube.RoleResult && cm.Labels[kube.LabelRun] == run && metav1.GetControllerOf(cm) == nil
}
