package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EnsureAccount creates a ServiceAccount under owner if it does not exist. The account has no rights and issues no
// token; it is only the identity of a pod in a service mesh. It copies the image pull secrets of the namespace's
// default account at its creation.
func EnsureAccount(ctx context.Context, c client.Client, live client.Reader, owner client.Object, meta metav1.ObjectMeta) error {
	account := &corev1.ServiceAccount{}
	err := live.Get(ctx, types.NamespacedName{Namespace: meta.Namespace, Name: meta.Name}, account)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return err
	case err == nil && !MadeFor(account, owner):
		return NameTaken(account)
	case err == nil:
		return nil
	}
	ofNamespace := &corev1.ServiceAccount{}
	if err := live.Get(ctx, types.NamespacedName{Namespace: meta.Namespace, Name: "default"}, ofNamespace); client.IgnoreNotFound(err) != nil {
		return err
	}
	return EnsureCreated(ctx, c, live, owner, &corev1.ServiceAccount{
		ObjectMeta: meta, AutomountServiceAccountToken: ptr.To(false), ImagePullSecrets: ofNamespace.ImagePullSecrets,
	})
}
