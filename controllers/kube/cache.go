package kube

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/internal/deploy"
)

// resync finds what a missed watch event hid.
const resync = time.Hour

// CacheOptions keep the operator small in a big cluster: of the kinds that others make too, only what the operator made
// is cached, and of that nothing that nobody reads. An empty namespace is all of them.
func CacheOptions(namespace string) cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{LabelManagedBy: ManagedBy})}
	o := cache.Options{
		DefaultTransform: stripManagedFields,
		SyncPeriod:       ptr.To(resync),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}:   {Label: ours.Label, Transform: stripConfigMap},
			&corev1.Pod{}:         ours,
			&corev1.Service{}:     ours,
			&appsv1.StatefulSet{}: ours,
			&batchv1.Job{}:        ours,

			&networkingv1.NetworkPolicy{}: ours,
		},
	}
	if namespace != "" {
		o.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	return o
}

func stripManagedFields(obj any) (any, error) {
	if m, ok := obj.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return obj, nil
}

// stripConfigMap keeps a worker's state, which wakes its run up. Everything else is read from the API server when needed.
func stripConfigMap(obj any) (any, error) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return obj, nil
	}
	state := cm.Data[deploy.KeyState]
	cm.ManagedFields, cm.BinaryData, cm.Data = nil, nil, nil
	if state != "" {
		cm.Data = map[string]string{deploy.KeyState: state}
	}
	return cm, nil
}
