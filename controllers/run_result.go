package controllers

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/identity"
	"github.com/geobench/geobench/internal/pack"
	"github.com/geobench/geobench/internal/result"
)

// The keys of a result ConfigMap: the document as JSON, or gzipped where that would not fit.
const (
	ResultKey     = "result.json"
	ResultKeyGzip = "result.json.gz"
)

// plainLimit is up to how many bytes a document is kept as readable text. A ConfigMap holds 1 MiB.
const plainLimit = 900_000

// storeResult keeps the document in the run's result ConfigMap, in place of the one of an earlier attempt. It cannot be changed, and
// its seal says that the operator has made it.
func (s *runScope) storeResult(ctx context.Context, doc *result.Document) error {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: ResultName(s.run), Namespace: s.run.Namespace, Labels: runLabels(s.run, RoleResult)},
		Immutable:  ptr.To(true),
	}
	var text bytes.Buffer
	if err := doc.Write(&text); err != nil {
		return err
	}
	if text.Len() <= plainLimit {
		cm.Data = map[string]string{ResultKey: text.String()}
	} else {
		b, err := pack.Text(text.Bytes())
		if err != nil {
			return err
		}
		cm.BinaryData = map[string][]byte{ResultKeyGzip: b}
	}
	key, err := s.resultKey(ctx)
	if err != nil {
		return err
	}
	cm.Annotations = map[string]string{annotationSeal: identity.Seal(key, text.Bytes())}
	old, err := s.resultObject(ctx)
	if err != nil {
		return err
	}
	if old != nil { // of an earlier attempt, or of an earlier run of this name that has expired
		if err := s.Client.Delete(ctx, old, client.Preconditions{UID: &old.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return ensureCreated(ctx, s.Client, s.Live, s.run, cm)
}

func (s *runScope) resultKey(ctx context.Context) ([]byte, error) {
	a, err := s.Credentials.Authority(ctx)
	if err != nil {
		return nil, err
	}
	return a.Key(keyResult, string(s.run.UID), attempt(s.run)), nil
}

// resultObject returns the ConfigMap that has the name of the run's result; nil when there is none. One that is neither the run's nor
// left by an expired run of its name is a *nameTakenError.
func (s *runScope) resultObject(ctx context.Context) (*corev1.ConfigMap, error) {
	cm := &corev1.ConfigMap{}
	if err := s.Live.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: ResultName(s.run)}, cm); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(cm, s.run) && !isExpired(cm, s.run.Name) {
		return nil, &nameTakenError{"ConfigMap", cm.Name}
	}
	return cm, nil
}

// storedResult returns the document that this attempt has stored, and its digest, or nil. One that the operator has not stored ends
// the run.
func (s *runScope) storedResult(ctx context.Context) (*result.Document, string, error) {
	forged := troubled(result.ReasonResultForged, "ConfigMap %s was made by somebody else: delete it, and run again", ResultName(s.run))
	cm, err := s.resultObject(ctx)
	if taken := (*nameTakenError)(nil); errors.As(err, &taken) {
		return nil, "", forged
	}
	if cm == nil || err != nil || cm.Labels[LabelAttempt] != attempt(s.run) {
		return nil, "", err
	}
	key, err := s.resultKey(ctx)
	if err != nil {
		return nil, "", err
	}
	text, err := resultText(cm)
	if err != nil || !identity.Sealed(cm.Annotations[annotationSeal], key, text) {
		return nil, "", forged
	}
	doc, err := result.Parse(text)
	return doc, identity.Digest(text), err
}

// resultText is the document in a result ConfigMap as it was written.
func resultText(cm *corev1.ConfigMap) ([]byte, error) {
	text := []byte(cm.Data[ResultKey])
	if packed := cm.BinaryData[ResultKeyGzip]; packed != nil {
		var err error
		if text, err = pack.Unpack(packed); err != nil {
			return nil, fmt.Errorf("config map %s: %s: %w", cm.Name, ResultKeyGzip, err)
		}
	}
	if len(text) == 0 {
		return nil, fmt.Errorf("config map %s has neither %s nor %s", cm.Name, ResultKey, ResultKeyGzip)
	}
	return text, nil
}

// ErrOtherResult tells that a result ConfigMap holds another document than the one that the run has left.
var ErrOtherResult = errors.New("it is not the one that its BenchmarkRun has left")

// ReadResult reads the document that a run has left from its result ConfigMap. It fails with ErrOtherResult when the run's status has
// another digest.
func ReadResult(run *v1alpha1.BenchmarkRun, cm *corev1.ConfigMap) (*result.Document, error) {
	text, err := resultText(cm)
	if err != nil {
		return nil, err
	}
	if want := run.Status.ReportDigest; want != "" && identity.Digest(text) != want { // runs of before had none
		return nil, fmt.Errorf("config map %s: %w: its digest is %s, not %s as status.reportDigest of %s says", cm.Name, ErrOtherResult, identity.Digest(text), want, run.Name)
	}
	doc, err := result.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("config map %s: %w", cm.Name, err)
	}
	return doc, nil
}
