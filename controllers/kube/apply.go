package kube

import (
	"context"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// NameTakenError means that an object which the operator needs exists but belongs to another owner.
type NameTakenError struct{ kind, name string }

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("%s %s exists and does not belong to this object: delete it, or choose another name", e.kind, e.name)
}

// NameTaken returns the error for an object that has the name of obj but another owner.
func NameTaken(obj client.Object) error { return &NameTakenError{KindOf(obj), obj.GetName()} }

// MadeFor reports whether the operator created obj for owner. The owner reference alone is no proof: any user who may
// write objects can name any owner. The operator may neither change nor delete an object without its label.
func MadeFor(obj, owner client.Object) bool {
	return metav1.IsControlledBy(obj, owner) && obj.GetLabels()[LabelManagedBy] == ManagedBy
}

// EnsureCreated creates obj under owner. It leaves an existing object unchanged if the operator created it for owner,
// and returns a *NameTakenError otherwise. live reads from the API server.
func EnsureCreated(ctx context.Context, c client.Client, live client.Reader, owner, obj client.Object) error {
	if err := controllerutil.SetControllerReference(owner, obj, c.Scheme()); err != nil {
		return err
	}
	err := c.Create(ctx, obj)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	// The object may not be in the cache yet, so it is read from the API server.
	existing := obj.DeepCopyObject().(client.Object)
	if err := live.Get(ctx, client.ObjectKeyFromObject(obj), existing); err != nil {
		return err
	}
	if !MadeFor(existing, owner) {
		return NameTaken(obj)
	}
	return nil
}

// Ensure creates an object under owner, or patches it to the desired state. Fields that desired omits keep the values
// that the API server has set.
func Ensure(ctx context.Context, c client.Client, live client.Reader, owner, desired client.Object) error {
	existing := desired.DeepCopyObject().(client.Object)
	err := c.Get(ctx, client.ObjectKeyFromObject(desired), existing)
	if apierrors.IsNotFound(err) {
		return EnsureCreated(ctx, c, live, owner, desired)
	}
	if err != nil {
		return err
	}
	if !MadeFor(existing, owner) {
		return NameTaken(desired)
	}
	before := existing.DeepCopyObject().(client.Object)
	if !overwrite(existing, desired) {
		return nil
	}
	return c.Patch(ctx, existing, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// overwrite copies desired to existing and reports whether anything changed.
func overwrite(existing, desired client.Object) bool {
	changed := !equality.Semantic.DeepDerivative(desired.GetLabels(), existing.GetLabels())
	if changed {
		existing.SetLabels(desired.GetLabels())
	}
	switch d := desired.(type) {
	case *corev1.Service:
		e := existing.(*corev1.Service)
		// A derivative comparison ignores fields that desired leaves empty, which the API server fills with defaults.
		if !equality.Semantic.DeepDerivative(d.Spec, e.Spec) {
			e.Spec.Ports, e.Spec.Selector = d.Spec.Ports, d.Spec.Selector
			e.Spec.PublishNotReadyAddresses = d.Spec.PublishNotReadyAddresses
			changed = true
		}
	case *appsv1.StatefulSet:
		e := existing.(*appsv1.StatefulSet)
		if !equality.Semantic.DeepDerivative(d.Spec, e.Spec) || podFieldsRemoved(&d.Spec.Template.Spec, &e.Spec.Template.Spec) {
			e.Spec.Replicas, e.Spec.UpdateStrategy, e.Spec.Template = d.Spec.Replicas, d.Spec.UpdateStrategy, d.Spec.Template
			changed = true
		}
	case *corev1.ConfigMap:
		e := existing.(*corev1.ConfigMap)
		if !maps.Equal(d.Data, e.Data) || !equality.Semantic.DeepDerivative(d.Annotations, e.Annotations) {
			e.Data, e.Annotations = d.Data, d.Annotations
			changed = true
		}
	case *networkingv1.NetworkPolicy:
		e := existing.(*networkingv1.NetworkPolicy)
		if !equality.Semantic.DeepEqual(d.Spec, e.Spec) {
			e.Spec = d.Spec
			changed = true
		}
	case *rbacv1.Role:
		e := existing.(*rbacv1.Role)
		if !equality.Semantic.DeepEqual(d.Rules, e.Rules) {
			e.Rules = d.Rules
			changed = true
		}
	}
	return changed
}

// podFieldsRemoved reports whether the user has removed a field of the pod template, which a derivative comparison does
// not detect.
func podFieldsRemoved(d, e *corev1.PodSpec) bool {
	return len(d.InitContainers) != len(e.InitContainers) || len(d.Containers) != len(e.Containers) || len(d.Volumes) != len(e.Volumes) ||
		len(d.SchedulingGates) != len(e.SchedulingGates) ||
		len(d.NodeSelector) != len(e.NodeSelector) || len(d.Tolerations) != len(e.Tolerations) ||
		(d.Affinity == nil) != (e.Affinity == nil) ||
		!equality.Semantic.DeepEqual(d.Containers[0].Resources, e.Containers[0].Resources)
}

// KindOf returns the kind of a typed object from its Go type, because its TypeMeta is empty.
func KindOf(obj client.Object) string {
	_, kind, _ := strings.Cut(fmt.Sprintf("%T", obj), ".")
	return kind
}

// namespaceEnds reports whether err means that the namespace is being deleted, so that no object can be created in it.
// The reconciled object will then be deleted, too.
func namespaceEnds(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
