package controllers

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
)

// A PostgreSQL that is named by the engine alone is deployed with passwords of chance, in Secrets that go with it, and measured as one in pods of
// the user's. The API server keeps what the user wrote.
func TestRunOnARenderedServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := makeDatabase("d").emulation(v1alpha1.EmulationSidecar)
	db.Spec.Engine = v1alpha1.Engine{Name: "postgres", Parameters: map[string]string{"primary": "ap-northeast-1", "synchronous": "Quorum"}}
	w.create(db.obj(), makeRun("r").database("d").obj())
	run := w.untilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("%s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	if c := w.nodesOf("d").Client; c == nil || c.Steward != "ap-northeast-1" || c.Secret != "d-postgres-login" {
		t.Errorf("clients reach the database by %+v", c)
	}
	kept := w.getDatabase("d")
	if kept.Spec.Pods != nil || kept.Spec.Engine.Parameters["synchronous"] != "Quorum" {
		t.Errorf("the spec was changed: %+v", kept.Spec)
	}
	set := w.get(kube.RegionName(kept, "us-west-2"), &appsv1.StatefulSet{}).(*appsv1.StatefulSet)
	passwords := map[string]bool{}
	for _, name := range []string{"d-postgres-login", "d-postgres-replication"} {
		secret := w.get(name, &corev1.Secret{}).(*corev1.Secret)
		if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != kept.UID {
			t.Errorf("Secret %s belongs to %+v", name, secret.OwnerReferences)
		}
		passwords[string(secret.Data["password"])] = true
	}
	if len(passwords) != 2 || passwords[""] {
		t.Errorf("%d passwords of two users, or one is empty", len(passwords))
	}
	for _, e := range set.Spec.Template.Spec.Containers[0].Env {
		if passwords[e.Value] && e.Value != "" {
			t.Errorf("the password is in the variable %s", e.Name)
		}
	}
}
