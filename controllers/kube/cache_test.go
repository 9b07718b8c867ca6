package kube

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/internal/ops/deploy"
)

// The size of cached objects is bounded, whatever data other users write into them.
func TestCacheKeepsLittle(t *testing.T) {
	large := strings.Repeat("x", 100_000)
	labels := map[string]string{LabelManagedBy: ManagedBy}
	meta := metav1.ObjectMeta{Name: "o", Labels: labels, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: large}},
		Annotations: map[string]string{"geobench.dev/network-generation": "7", "geobench.dev/large": large, "other": large}}
	kept := metav1.ObjectMeta{Name: "o", Labels: labels, Annotations: map[string]string{"geobench.dev/network-generation": "7"}}
	containers := []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "A", Value: large}}}}
	gates := []corev1.PodSchedulingGate{{Name: "g"}}
	for name, c := range map[string]struct {
		strip    cache.TransformFunc
		is, want client.Object
	}{
		"Pod": {
			stripPod,
			&corev1.Pod{ObjectMeta: *meta.DeepCopy(), Spec: corev1.PodSpec{NodeName: "n", SchedulingGates: gates, Containers: containers}, Status: corev1.PodStatus{PodIP: "10.0.0.1"}},
			&corev1.Pod{ObjectMeta: kept, Spec: corev1.PodSpec{NodeName: "n", SchedulingGates: gates}, Status: corev1.PodStatus{PodIP: "10.0.0.1"}},
		},
		"Pod in a mesh": {
			stripPod,
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"ambient.istio.io/redirection": "enabled", "istio.io/rev": "1-30", "istio.io/other": "x"}}},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"ambient.istio.io/redirection": "enabled", "istio.io/rev": "1-30"}}},
		},
		"Job": {
			stripJob,
			&batchv1.Job{ObjectMeta: *meta.DeepCopy(), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: containers}}}, Status: batchv1.JobStatus{Active: 1}},
			&batchv1.Job{ObjectMeta: kept, Status: batchv1.JobStatus{Active: 1}},
		},
		"ConfigMap": {
			stripConfigMap,
			&corev1.ConfigMap{ObjectMeta: *meta.DeepCopy(), Data: map[string]string{deploy.KeyState: deploy.StateReady, "a": large}, BinaryData: map[string][]byte{"b": []byte(large)}},
			&corev1.ConfigMap{ObjectMeta: kept, Data: map[string]string{deploy.KeyState: deploy.StateReady}},
		},
		"ConfigMap with a long state": {
			stripConfigMap,
			&corev1.ConfigMap{ObjectMeta: *meta.DeepCopy(), Data: map[string]string{deploy.KeyState: large}},
			&corev1.ConfigMap{ObjectMeta: kept},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.strip(c.is)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// Watches expire, and their buffers for large objects are released.
func TestWatchesEnd(t *testing.T) {
	var asked metav1.ListOptions
	w := shortWatches{ListerWatcherWithContext: &cache.ListWatch{WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
		asked = o
		return watch.NewFake(), nil
	}}}
	if _, err := w.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "7", TimeoutSeconds: ptr.To[int64](600)}); err != nil {
		t.Fatal(err)
	}
	if want := (metav1.ListOptions{ResourceVersion: "7", TimeoutSeconds: ptr.To[int64](120)}); !cmp.Equal(asked, want) {
		t.Errorf("asked for %+v, want %+v", asked, want)
	}
}
