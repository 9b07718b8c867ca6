package controllers

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/internal/result"
)

// The keys of a result ConfigMap: the document as JSON, or gzipped where that would not fit.
const (
	ResultKey     = "result.json"
	ResultKeyGzip = "result.json.gz"
)

// plainLimit is up to how many bytes a document is kept as readable text. A ConfigMap holds 1 MiB.
const plainLimit = 900_000

// storeResult keeps the document in the run's result ConfigMap, in place of the one of an earlier attempt.
func (s *runScope) storeResult(ctx context.Context, doc *result.Document) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ResultName(s.run), Namespace: s.run.Namespace, Labels: runLabels(s.run, RoleResult)}}
	var text bytes.Buffer
	if err := doc.Write(&text); err != nil {
		return err
	}
	if text.Len() <= plainLimit {
		cm.Data = map[string]string{ResultKey: text.String()}
	} else {
		b, err := gzipBytes(text.Bytes())
		if err != nil {
			return err
		}
		cm.BinaryData = map[string][]byte{ResultKeyGzip: b}
	}
	old := &corev1.ConfigMap{}
	err := s.Live.Get(ctx, client.ObjectKeyFromObject(cm), old)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil {
		return ensureCreated(ctx, s.Client, s.Live, s.run, cm)
	}
	if !metav1.IsControlledBy(old, s.run) {
		return &nameTakenError{"ConfigMap", cm.Name}
	}
	base := old.DeepCopy()
	old.Labels, old.Data, old.BinaryData = cm.Labels, cm.Data, cm.BinaryData
	return s.Client.Patch(ctx, old, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}

// storedResult returns the document that this attempt has stored, or nil.
func (s *runScope) storedResult(ctx context.Context) (*result.Document, error) {
	cm := &corev1.ConfigMap{}
	if err := s.Live.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: ResultName(s.run)}, cm); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(cm, s.run) || cm.Labels[LabelAttempt] != attempt(s.run) {
		return nil, nil
	}
	return ReadResult(cm)
}

// ReadResult reads the document from a result ConfigMap.
func ReadResult(cm *corev1.ConfigMap) (*result.Document, error) {
	text := []byte(cm.Data[ResultKey])
	if packed := cm.BinaryData[ResultKeyGzip]; packed != nil {
		var err error
		if text, err = gunzipBytes(packed); err != nil {
			return nil, fmt.Errorf("config map %s: %s: %w", cm.Name, ResultKeyGzip, err)
		}
	}
	if len(text) == 0 {
		return nil, fmt.Errorf("config map %s has neither %s nor %s", cm.Name, ResultKey, ResultKeyGzip)
	}
	doc, err := result.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("config map %s: %w", cm.Name, err)
	}
	return doc, nil
}

func gzipBytes(text []byte) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// maxUnpacked bounds what is unpacked from a ConfigMap, in bytes.
const maxUnpacked = 256 << 20

func gunzipBytes(b []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(z, maxUnpacked))
}

func gzipJSON(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return gzipBytes(text)
}

func gunzipJSON(b []byte, v any) error {
	text, err := gunzipBytes(b)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}
