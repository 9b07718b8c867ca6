package controllers

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/config/admission"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/operatorca"
)

// TestManagerWithItsOwnRights runs the controllers as the operator does: behind a manager with its small caches and
// watches, in real time, with no more rights than config/rbac gives.
func TestManagerWithItsOwnRights(t *testing.T) {
	w := newWorld(t)
	const user = "system:serviceaccount:geobench-system:geobench-operator"
	w.grant(user)
	config := rest.CopyConfig(apiServer)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  kube.Scheme(),
		Cache:   kube.CacheOptions(""),
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	w.must(err)
	w.holdBack(mgr.GetClient())
	w.must(SetupWithManager(mgr, Options{Namespace: w.namespace, Image: testImage, Around: around, Pods: w, Clock: clock.RealClock{}, Events: w.recorder}))

	w.create(makeDatabase("d").obj(), makeRun("r").database("d").duration(3*time.Second).obj(), makeRun("r2").database("d").duration(3*time.Second).obj(),
		makeExperiment("e", "calvin").sweep(clients, 10).claim("c", "tput('calvin', 10) > 1.0").obj())
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()

	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	// r2 takes its turn without being looked at in the meantime: within PollQueue somebody has to wake it up.
	ended := func(name string) bool { run := w.getRun(name); return kube.Over(run) && len(run.Finalizers) == 0 }
	for !ended("r") || !ended("r2") || !kube.Finished(w.getExperiment("e")) {
		select {
		case err := <-stopped:
			t.Fatalf("the manager stopped: %v\n%s", err, w.describe())
		case now := <-tick.C:
			w.clock.SetTime(now)
			w.playCluster()
		}
	}
	for _, name := range []string{"r", "r2"} {
		if st := w.getRun(name).Status; st.Verdict != v1alpha1.VerdictPassed {
			t.Errorf("run %s ended %s: %s", name, st.Verdict, st.Message)
		}
	}
	if first, second := w.getRun("r").Status, w.getRun("r2").Status; second.StartTime.Before(first.CompletionTime) || second.StartTime.Sub(first.CompletionTime.Time) > 30*time.Second {
		t.Errorf("r ended at %v, and the turn of r2 came at %v", first.CompletionTime, second.StartTime)
	}
	if st := w.getExperiment("e").Status; st.Completed != 1 || st.ClaimsHold != "1/1" {
		t.Errorf("the experiment ended %+v", st)
	}
	w.ranOnce()
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// In its own namespace the operator makes, reads and renews the Secret that all credentials come from, and reads no
// other.
func TestAuthorityWithItsOwnRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, role := w.roles()
	user := "system:serviceaccount:" + w.namespace + ":geobench-operator"
	w.create(role, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "geobench-operator"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "another"}})
	config := rest.CopyConfig(apiServer)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	operator, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	w.must(err)
	now := time.Now()
	for _, step := range []struct {
		what string
		at   time.Time
	}{{"made", now}, {"read", now}, {"renewed", now.Add(3 * 365 * 24 * time.Hour)}} {
		c := &operatorca.Keeper{Client: operator, Live: operator, Namespace: w.namespace, Clock: clocktesting.NewFakePassiveClock(step.at)}
		before := &corev1.Secret{}
		w.must(client.IgnoreNotFound(w.client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: operatorca.SecretName}, before)))
		if _, err := c.Authority(w.ctx); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if changed := w.secret(operatorca.SecretName).ResourceVersion != before.ResourceVersion; changed != (step.what != "read") {
			t.Errorf("%s: the Secret was written: %t", step.what, changed)
		}
	}
	if err := operator.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: "another"}, &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("reading another Secret: %v", err)
	}
	if err := operator.List(w.ctx, &corev1.SecretList{}, client.InNamespace(w.namespace)); !apierrors.IsForbidden(err) {
		t.Errorf("listing Secrets: %v", err)
	}
}

// roles are those in config/rbac: what the operator may do everywhere, and in its own namespace.
func (w *world) roles() (everywhere *rbacv1.ClusterRole, own *rbacv1.Role) {
	w.t.Helper()
	f, err := os.Open(filepath.Join("..", "config", "rbac", "role.yaml"))
	w.must(err)
	defer func() { _ = f.Close() }()
	documents := yaml.NewYAMLOrJSONDecoder(f, 4096)
	everywhere, own = &rbacv1.ClusterRole{}, &rbacv1.Role{}
	w.must(documents.Decode(everywhere))
	w.must(documents.Decode(own))
	return everywhere, own
}

// holdBack puts the admission policies into force that keep the operator from what its roles would let it do, and waits
// until they are.
func (w *world) holdBack(operator client.Client) {
	w.t.Helper()
	policies, bindings, err := admission.Policies()
	w.must(err)
	var objects []client.Object
	for _, p := range policies {
		objects = append(objects, p)
	}
	for _, b := range bindings {
		objects = append(objects, b)
	}
	for _, o := range objects {
		w.must(w.client.Create(w.ctx, o))
		w.t.Cleanup(func() { w.must(w.client.Delete(w.ctx, o)) }) // all requests of other tests would be held against them
	}
	for tick := time.NewTicker(100 * time.Millisecond); ; <-tick.C {
		strange := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "without-a-label"}}
		if err := operator.Create(w.ctx, strange, client.DryRunAll); apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			return
		}
	}
}

// grant binds a user to what the operator may do everywhere.
func (w *world) grant(user string) {
	w.t.Helper()
	role, _ := w.roles()
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	binding.Name = "geobench-operator"
	for _, obj := range []client.Object{role, binding} {
		if err := w.client.Create(w.ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
			w.t.Fatal(err)
		}
	}
}
