package database_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
)

// A vendor's database with several kinds of servers is selected by the name of its engine alone, and initialised by its
// steps. One of its settings is the longest round trip of the network. Its status marks the deployment as untested. The
// API server keeps the user's spec.
func TestRenderedRoles(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	db := worldtest.MakeDatabase("d").Emulation(v1alpha1.EmulationSidecar)
	db.Spec.Engine = v1alpha1.Engine{Name: "yugabytedb"}
	db.Spec.Network.Profile.Links[0].RTT = v1alpha1.DurationOf(400 * time.Millisecond)
	citus := worldtest.MakeDatabase("c").Emulation(v1alpha1.EmulationSidecar)
	citus.Spec.Engine = v1alpha1.Engine{Name: "citus"}
	w.Create(db.Obj(), citus.Obj())
	kept := w.UntilServing("d")
	if len(kept.Spec.Roles) > 0 || kept.Status.ReadyNodes != "3/3" || w.Steps()["placement"] == nil {
		t.Errorf("%s nodes, spec %+v, steps %v", kept.Status.ReadyNodes, kept.Spec, w.Steps())
	}
	if c := meta.FindStatusCondition(kept.Status.Conditions, v1alpha1.ConditionAccepted); !strings.Contains(c.Message, "untested: nobody has run YugabyteDB") {
		t.Errorf("accepted: %s", c.Message)
	}
	if c := meta.FindStatusCondition(kept.Status.Conditions, v1alpha1.ConditionAuthenticated); c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "5433") {
		t.Errorf("of who gets in without a password it says %+v", c)
	}
	tserver := w.Get("d-ap-northeast-1-tserver", &appsv1.StatefulSet{}).(*appsv1.StatefulSet)
	if args := tserver.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--raft_heartbeat_interval_ms=1200") {
		t.Errorf("with round trips of 400 ms it is started with %v", args)
	}
	w.UntilServing("c")
	if c := meta.FindStatusCondition(w.GetDatabase("c").Status.Conditions, v1alpha1.ConditionAuthenticated); c != nil {
		t.Errorf("Citus, which has passwords, says %+v", c)
	}
	password := string(w.Get("c-citus-login", &corev1.Secret{}).(*corev1.Secret).Data["password"])
	step := w.Steps()["nodes"].Spec.Template.Spec.Containers[0]
	if i := slices.IndexFunc(step.Env, func(e corev1.EnvVar) bool { return e.Name == "POSTGRES_PASSWORD" }); password == "" || i < 0 || step.Env[i].ValueFrom.SecretKeyRef.Name != "c-citus-login" {
		t.Errorf("the step logs in by %+v", step.Env)
	}
	// The clients of all regions connect to the coordinator of Citus.
	w.Create(worldtest.MakeRun("r").Database("c").Obj())
	if run := w.UntilOver("r"); run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("a run on Citus: %s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	if c := w.NodesOf("c").Client; c.Secret != "c-citus-login" || len(c.Endpoints) != 2 || c.Endpoints[1].Address != "c-us-west-2-coord-0.c-us-west-2-coord."+w.Namespace+".svc:5432" || c.Steward != "us-west-2" {
		t.Errorf("clients reach Citus by %+v", c)
	}
	// A longer link requires a new incarnation.
	db.Spec.Network.Profile.Links[0].RTT = v1alpha1.DurationOf(500 * time.Millisecond)
	now := w.GetDatabase("d")
	now.Spec.Network = db.Spec.Network
	w.Must(w.Client.Update(w.Ctx, now))
	w.Until("the servers are told", func() bool {
		set := w.Get("d-us-west-2-master", &appsv1.StatefulSet{}).(*appsv1.StatefulSet)
		return slices.Contains(set.Spec.Template.Spec.Containers[0].Args, "--raft_heartbeat_interval_ms=1500")
	})
}

// A PostgreSQL that is selected by the name of its engine alone gets random passwords, in Secrets that are deleted with
// it. The database is measured like a PostgreSQL in a user's pods. The API server keeps the user's spec.
func TestRunOnARenderedServer(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	db := worldtest.MakeDatabase("d").Emulation(v1alpha1.EmulationSidecar)
	db.Spec.Engine = v1alpha1.Engine{Name: "postgres", Parameters: map[string]string{"primary": "ap-northeast-1", "synchronous": "Quorum"}}
	w.Create(db.Obj(), worldtest.MakeRun("r").Database("d").Obj())
	run := w.UntilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("%s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	if c := w.NodesOf("d").Client; c == nil || c.Steward != "ap-northeast-1" || c.Secret != "d-postgres-login" {
		t.Errorf("clients reach the database by %+v", c)
	}
	kept := w.GetDatabase("d")
	if kept.Spec.Pods != nil || kept.Spec.Engine.Parameters["synchronous"] != "Quorum" {
		t.Errorf("the spec was changed: %+v", kept.Spec)
	}
	set := w.Get(kube.RegionName(kept, "us-west-2"), &appsv1.StatefulSet{}).(*appsv1.StatefulSet)
	passwords := map[string]bool{}
	for _, name := range []string{"d-postgres-login", "d-postgres-replication"} {
		secret := w.Get(name, &corev1.Secret{}).(*corev1.Secret)
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
