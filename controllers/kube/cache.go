package kube

import (
	"context"
	"maps"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
)

// resync is the interval at which all objects are reconciled again, in case a watch event was missed.
const resync = time.Hour

// CacheOptions returns options that limit the operator's memory in a large cluster. For kinds that other components use
// too, only the operator's objects are cached, without fields that no code reads. An empty namespace means all
// namespaces.
func CacheOptions(namespace string) cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{LabelManagedBy: ManagedBy})}
	o := cache.Options{
		DefaultTransform: strip,
		NewInformer:      newInformer,
		SyncPeriod:       ptr.To(resync),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}:   {Label: ours.Label, Transform: stripConfigMap},
			&corev1.Pod{}:         {Label: ours.Label, Transform: stripPod},
			&corev1.Service{}:     ours,
			&appsv1.StatefulSet{}: ours,
			&batchv1.Job{}:        {Label: ours.Label, Transform: stripJob},

			&networkingv1.NetworkPolicy{}: ours,
		},
	}
	if namespace != "" {
		o.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	return o
}

// watchLife is the lifetime of a watch before it is replaced; the default would be five to ten minutes. It is short,
// because the decoder of a watch keeps a buffer of the size of the largest object that it has received.
const watchLife = 2 * time.Minute

func newInformer(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(shortWatches{lw, toolscache.ToListerWatcherWithContext(lw)}, obj, resync, indexers)
}

// shortWatches limits the lifetime of watches to watchLife.
type shortWatches struct {
	toolscache.ListerWatcher
	toolscache.ListerWatcherWithContext
}

// WatchWithContext implements toolscache.ListerWatcherWithContext, which informers prefer.
func (w shortWatches) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.TimeoutSeconds = ptr.To(int64(watchLife.Seconds()))
	return w.ListerWatcherWithContext.WatchWithContext(ctx, o)
}

const (
	// ownAnnotations is the prefix of the operator's annotations.
	ownAnnotations = "geobench.dev/"
	// longestAnnotation is an upper bound of the size of such an annotation, in bytes.
	longestAnnotation = 1 << 10
)

// strip removes data that no code reads: managed fields, and annotations of other components. It also removes oversized
// annotations. Users that may write objects can give the objects the operator's label and make them as large as the API
// server accepts.
func strip(obj any) (any, error) {
	if m, ok := obj.(metav1.Object); ok {
		m.SetManagedFields(nil)
		maps.DeleteFunc(m.GetAnnotations(), func(key, value string) bool {
			return !strings.HasPrefix(key, ownAnnotations) && !mesh.Tells(key) || len(value) > longestAnnotation
		})
	}
	return obj, nil
}

// stripPod keeps only the machine, the scheduling gates and the status of a pod.
func stripPod(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, SchedulingGates: pod.Spec.SchedulingGates}
	}
	return strip(obj)
}

// stripJob keeps only the status of a Job.
func stripJob(obj any) (any, error) {
	if job, ok := obj.(*batchv1.Job); ok {
		job.Spec = batchv1.JobSpec{}
	}
	return strip(obj)
}

// longestState is an upper bound of the length of a worker's state, in bytes.
const longestState = 64

// stripConfigMap keeps only a worker's state, whose changes wake up the run. Everything else is read from the API
// server when needed.
func stripConfigMap(obj any) (any, error) {
	if cm, ok := obj.(*corev1.ConfigMap); ok {
		state := cm.Data[deploy.KeyState]
		cm.BinaryData, cm.Data = nil, nil
		if state != "" && len(state) <= longestState {
			cm.Data = map[string]string{deploy.KeyState: state}
		}
	}
	return strip(obj)
}
