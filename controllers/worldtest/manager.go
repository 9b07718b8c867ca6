package worldtest

import (
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/config/admission"
)

// Roles returns the operator's rights in config/rbac: the role for all namespaces, and the role for its own namespace.
func (w *World) Roles() (everywhere *rbacv1.ClusterRole, own *rbacv1.Role) {
	w.T.Helper()
	f, err := os.Open(filepath.Join("..", "config", "rbac", "role.yaml"))
	w.Must(err)
	defer func() { _ = f.Close() }()
	documents := yaml.NewYAMLOrJSONDecoder(f, 4096)
	everywhere, own = &rbacv1.ClusterRole{}, &rbacv1.Role{}
	w.Must(documents.Decode(everywhere))
	w.Must(documents.Decode(own))
	return everywhere, own
}

// HoldBack applies the admission policies, which restrict the operator further than its roles, and waits until the
// policies take effect.
func (w *World) HoldBack(operator client.Client) {
	w.T.Helper()
	policies, bindings, err := admission.Policies()
	w.Must(err)
	var objects []client.Object
	for _, p := range policies {
		objects = append(objects, p)
	}
	for _, b := range bindings {
		objects = append(objects, b)
	}
	for _, o := range objects {
		w.Must(w.Client.Create(w.Ctx, o))
		w.T.Cleanup(func() { w.Must(w.Client.Delete(w.Ctx, o)) }) // they would otherwise apply to the requests of other tests
	}
	for tick := time.NewTicker(100 * time.Millisecond); ; <-tick.C {
		strange := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "without-a-label"}}
		if err := operator.Create(w.Ctx, strange, client.DryRunAll); apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			return
		}
	}
}

// Grant binds a user to the operator's rights in all namespaces.
func (w *World) Grant(user string) {
	w.T.Helper()
	role, _ := w.Roles()
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	binding.Name = "geobench-operator"
	for _, obj := range []client.Object{role, binding} {
		if err := w.Client.Create(w.Ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
			w.T.Fatal(err)
		}
	}
}
