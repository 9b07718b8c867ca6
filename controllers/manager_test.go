package controllers_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/operatorca"
	"github.com/geobench/geobench/controllers/worldtest"
)

// TestManagerWithItsOwnRights runs the controllers in the same way as the operator: with a manager, its small caches
// and its watches. They run in real time, with only the rights in config/rbac.
func TestManagerWithItsOwnRights(t *testing.T) {
	w := worldtest.NewWorld(t)
	const user = "system:serviceaccount:geobench-system:geobench-operator"
	w.Grant(user)
	config := rest.CopyConfig(worldtest.APIServer)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  kube.Scheme(),
		Cache:   kube.CacheOptions(""),
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	w.Must(err)
	w.HoldBack(mgr.GetClient())
	w.Must(controllers.SetupWithManager(mgr, controllers.Options{Namespace: w.Namespace, Image: worldtest.TestImage, Around: worldtest.Around, Pods: w, Clock: clock.RealClock{}, Events: w.Recorder}))

	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Duration(3*time.Second).Obj(), worldtest.MakeRun("r2").Database("d").Duration(3*time.Second).Obj(),
		worldtest.MakeExperiment("e", "calvin").Sweep(worldtest.Clients, 10).Claim("c", "tput('calvin', 10) > 1.0").Obj())
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()

	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	// While r2 waits in the queue, it is polled only once per PollQueue, so an event must wake it up.
	ended := func(name string) bool { run := w.GetRun(name); return kube.Over(run) && len(run.Finalizers) == 0 }
	for !ended("r") || !ended("r2") || !kube.Finished(w.GetExperiment("e")) {
		select {
		case err := <-stopped:
			t.Fatalf("the manager stopped: %v\n%s", err, w.Describe())
		case now := <-tick.C:
			w.FakeClock.SetTime(now)
			w.PlayCluster()
		}
	}
	for _, name := range []string{"r", "r2"} {
		if st := w.GetRun(name).Status; st.Verdict != v1alpha1.VerdictPassed {
			t.Errorf("run %s ended %s: %s", name, st.Verdict, st.Message)
		}
	}
	if first, second := w.GetRun("r").Status, w.GetRun("r2").Status; second.StartTime.Before(first.CompletionTime) || second.StartTime.Sub(first.CompletionTime.Time) > 30*time.Second {
		t.Errorf("r ended at %v, and the turn of r2 came at %v", first.CompletionTime, second.StartTime)
	}
	if st := w.GetExperiment("e").Status; st.Completed != 1 || st.ClaimsHold != "1/1" {
		t.Errorf("the experiment ended %+v", st)
	}
	w.RanOnce()
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// In its own namespace, the operator can create, read and renew the Secret from which all credentials derive, and can
// read no other Secret.
func TestAuthorityWithItsOwnRights(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	_, role := w.Roles()
	user := "system:serviceaccount:" + w.Namespace + ":geobench-operator"
	w.Create(role, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "geobench-operator"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "another"}})
	config := rest.CopyConfig(worldtest.APIServer)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	operator, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	w.Must(err)
	now := time.Now()
	for _, step := range []struct {
		what string
		at   time.Time
	}{{"made", now}, {"read", now}, {"renewed", now.Add(3 * 365 * 24 * time.Hour)}} {
		c := &operatorca.Keeper{Client: operator, Live: operator, Namespace: w.Namespace, Clock: clocktesting.NewFakePassiveClock(step.at)}
		before := &corev1.Secret{}
		w.Must(client.IgnoreNotFound(w.Client.Get(w.Ctx, client.ObjectKey{Namespace: w.Namespace, Name: operatorca.SecretName}, before)))
		if _, err := c.Authority(w.Ctx); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if changed := w.Secret(operatorca.SecretName).ResourceVersion != before.ResourceVersion; changed != (step.what != "read") {
			t.Errorf("%s: the Secret was written: %t", step.what, changed)
		}
	}
	if err := operator.Get(w.Ctx, client.ObjectKey{Namespace: w.Namespace, Name: "another"}, &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("reading another Secret: %v", err)
	}
	if err := operator.List(w.Ctx, &corev1.SecretList{}, client.InNamespace(w.Namespace)); !apierrors.IsForbidden(err) {
		t.Errorf("listing Secrets: %v", err)
	}
}
