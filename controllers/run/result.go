package run

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/operatorca"
	"github.com/geobench/geobench/controllers/results"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/identity"
)

// storeResult stores the document in the run's result ConfigMap, and replaces the result of an earlier attempt. The
// ConfigMap is immutable, and its seal proves that the operator created it.
func (s *scope) storeResult(ctx context.Context, doc *result.Document) error {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: kube.ResultName(s.run), Namespace: s.run.Namespace, Labels: kube.RunLabels(s.run, kube.RoleResult)},
		Immutable:  ptr.To(true),
	}
	text, packed, err := doc.Fit(results.PlainLimit)
	if err != nil {
		return err
	}
	if packed == nil {
		cm.Data = map[string]string{results.Key: string(text)}
	} else {
		cm.BinaryData = map[string][]byte{results.KeyGzip: packed}
	}
	key, err := s.resultKey(ctx)
	if err != nil {
		return err
	}
	cm.Annotations = map[string]string{operatorca.AnnotationSeal: identity.Seal(key, text)}
	old, err := s.resultObject(ctx)
	if err != nil {
		return err
	}
	if old != nil { // the result of an earlier attempt, or of an expired run with the same name
		if err := s.Client.Delete(ctx, old, client.Preconditions{UID: &old.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return kube.EnsureCreated(ctx, s.Client, s.Live, s.run, cm)
}

func (s *scope) resultKey(ctx context.Context) ([]byte, error) {
	a, err := s.Credentials.Authority(ctx)
	if err != nil {
		return nil, err
	}
	return a.Key(operatorca.KeyResult, string(s.run.UID), kube.Attempt(s.run)), nil
}

// resultObject returns the ConfigMap with the name of the run's result, or nil if there is none. It returns a
// *kube.NameTakenError if the ConfigMap belongs neither to the run nor to an expired run of the same name.
func (s *scope) resultObject(ctx context.Context) (*corev1.ConfigMap, error) {
	cm := &corev1.ConfigMap{}
	if err := s.Live.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: kube.ResultName(s.run)}, cm); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(cm, s.run) && !isExpired(cm, s.run.Name) {
		return nil, kube.NameTaken(cm)
	}
	return cm, nil
}

// storedResult returns the document that this attempt has stored, and its digest, or nil if there is none. If the
// operator did not store the document, the error ends the run.
func (s *scope) storedResult(ctx context.Context) (*result.Document, string, error) {
	forged := troubled(result.ReasonResultForged, "ConfigMap %s was made by somebody else: delete it, and run again", kube.ResultName(s.run))
	cm, err := s.resultObject(ctx)
	if taken := (*kube.NameTakenError)(nil); errors.As(err, &taken) {
		return nil, "", forged
	}
	// A result of an earlier attempt does not count; storeResult replaces it.
	if cm == nil || err != nil || cm.Labels[kube.LabelAttempt] != kube.Attempt(s.run) {
		return nil, "", err
	}
	key, err := s.resultKey(ctx)
	if err != nil {
		return nil, "", err
	}
	text, err := results.Text(cm)
	if err != nil || !identity.Sealed(cm.Annotations[operatorca.AnnotationSeal], key, text) {
		return nil, "", forged
	}
	doc, err := result.Parse(text)
	if err == nil && !doc.Execution.Same(s.execution()) {
		return nil, "", forged
	}
	return doc, identity.Digest(text), err
}

// execution returns the execution that a result of this run must name. It returns nil for a run that an earlier version
// of the operator started, because results of that version name no execution.
func (s *scope) execution() *result.Execution {
	st := &s.run.Status
	if st.Execution == "" || st.WarmupStartTime == nil {
		return nil
	}
	return load.ExecutionAt(st.Execution, st.WarmupStartTime.Time, load.PlanOf(s.run.Spec.Load, 0))
}
