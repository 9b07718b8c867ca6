package worldtest

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
)

// collectGarbage deletes the pods whose Job or StatefulSet was deleted.
func (w *World) collectGarbage() {
	w.T.Helper()
	pods := &corev1.PodList{}
	w.Must(w.Client.List(w.Ctx, pods, client.InNamespace(w.Namespace)))
	for i := range pods.Items {
		owner := metav1.GetControllerOf(&pods.Items[i])
		// Pods that a database owns directly are kernel probes, which the operator deletes itself.
		if owner.Kind == "GeoDatabase" {
			continue
		}
		var obj client.Object = &appsv1.StatefulSet{}
		if owner.Kind == "Job" {
			obj = &batchv1.Job{}
		}
		err := w.Client.Get(w.Ctx, types.NamespacedName{Namespace: w.Namespace, Name: owner.Name}, obj)
		// An owner with the same name but another UID is a successor, and does not own the pod.
		if apierrors.IsNotFound(err) || err == nil && obj.GetUID() != owner.UID {
			w.Must(client.IgnoreNotFound(w.Client.Delete(w.Ctx, &pods.Items[i], client.GracePeriodSeconds(0))))
		}
	}
}

// DieAfterEveryWrite makes the operator die after its next write to the API server, and again after each restart.
func (w *World) DieAfterEveryWrite() {
	real := w.Client.(client.WithWatch)
	w.dead = true // the current operator counts as dead
	w.OperatorClient = func() client.Client {
		dead := false
		w.dead = false
		live := func(err error) error {
			w.Mu.Lock()
			defer w.Mu.Unlock()
			// A rejected write has changed nothing, so the operator survives it.
			if err == nil {
				w.Deaths++
				dead, w.dead = true, true
			}
			return err
		}
		check := func() error {
			w.Mu.Lock()
			defer w.Mu.Unlock()
			if dead {
				return errKilled
			}
			return nil
		}
		return interceptor.NewClient(real, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if err := check(); err != nil {
					return err
				}
				return c.Get(ctx, key, obj, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if err := check(); err != nil {
					return err
				}
				return c.List(ctx, list, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if err := check(); err != nil {
					return err
				}
				err := c.Create(ctx, obj, opts...)
				if slices.Contains(opts, client.CreateOption(client.DryRunAll)) {
					return err // nothing was written
				}
				return live(err)
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if err := check(); err != nil {
					return err
				}
				return live(c.Patch(ctx, obj, patch, opts...))
			},
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				if err := check(); err != nil {
					return err
				}
				return live(c.Delete(ctx, obj, opts...))
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				if err := check(); err != nil {
					return err
				}
				return live(c.SubResource(sub).Patch(ctx, obj, patch, opts...))
			},
		})
	}
}

// Leftovers returns the names of the objects with a run's label.
func (w *World) Leftovers(run string) []string {
	w.T.Helper()
	var out []string
	for _, obj := range w.Labelled(run) {
		out = append(out, kube.KindOf(obj)+" "+obj.GetName())
	}
	return out
}

// Labelled returns the objects with a run's label, of all kinds that runs create.
func (w *World) Labelled(run string) (out []client.Object) {
	w.T.Helper()
	for _, list := range []client.ObjectList{
		&batchv1.JobList{}, &corev1.PodList{}, &rbacv1.RoleBindingList{}, &rbacv1.RoleList{}, &corev1.ServiceAccountList{},
		&corev1.ConfigMapList{}, &corev1.SecretList{}, &v1alpha1.BenchmarkRunList{},
	} {
		w.Must(w.Client.List(w.Ctx, list, client.InNamespace(w.Namespace), client.MatchingLabels{kube.LabelRun: run}))
		w.Must(meta.EachListItem(list, func(obj runtime.Object) error {
			out = append(out, obj.(client.Object))
			return nil
		}))
	}
	return out
}
