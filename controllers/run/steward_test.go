package run_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// A steward loads and audits a database that is not part of Geobench. Workers with the database's Secret measure it,
// and the run is evaluated like any other run. The result describes the database and contains the links that the probes
// have measured.
func TestRunOnAProgram(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	db := worldtest.MakeDatabase("d").Program().Client().Emulation(v1alpha1.EmulationSidecar)
	db.Spec.Engine.Parameters = map[string]string{"tls": "disable", "connections": "8"}
	w.Create(db.Obj(), worldtest.MakeRun("r").Database("d").Workers(2).Obj())
	w.UntilStage("r", v1alpha1.StageMeasure)

	jobs := &batchv1.JobList{}
	w.Must(w.Client.List(w.Ctx, jobs, client.InNamespace(w.Namespace)))
	var made []string
	for i := range jobs.Items {
		pod := &jobs.Items[i].Spec.Template.Spec
		c := &pod.Containers[0]
		made = append(made, c.Name+" "+jobs.Items[i].Labels[kube.LabelRegion])
		if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == deploy.SecretFolder && m.ReadOnly }) ||
			!slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
				return v.Secret != nil && v.Secret.SecretName == "login" && *v.Secret.Optional
			}) {
			t.Errorf("%s has no Secret: %+v", c.Name, pod.Volumes)
		}
		if c.Name == "steward" && (pod.ServiceAccountName != jobs.Items[i].Name || *pod.AutomountServiceAccountToken) {
			t.Errorf("the steward is ServiceAccount %q, or has its token", pod.ServiceAccountName)
		}
	}
	slices.Sort(made)
	if want := []string{"steward us-west-2", "worker ap-northeast-1", "worker us-west-2"}; !slices.Equal(made, want) {
		t.Errorf("jobs of %q, want %q", made, want)
	}
	d := w.NodesOf("d")
	if c := d.Client; c == nil || len(c.Endpoints) != 2 || c.Endpoints[1].Region != "ap-northeast-1" || c.Endpoints[1].Address != "d-us-west-2-0.d-us-west-2."+w.Namespace+".svc:5432" ||
		c.Steward != "us-west-2" || c.Database != "bench" || d.Parameters["connections"] != "8" || d.Parameters["isolation"] != "Serializable" {
		t.Errorf("what workers are told of the database: %+v of %+v", c, d)
	}

	run := w.UntilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("%s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	if w.Loads != 1 {
		t.Errorf("%d loads, want that of the steward", w.Loads)
	}
	doc := w.Document("r")
	if is := doc.Target; is == nil || is.Server != "PostgreSQL 15.0" || is.Isolation != "serializable" || is.Promises != "serializable" || is.ConnectionsPerRegion != 8 ||
		is.Elections != 1 || is.LeaderAtEnd != "ap-northeast-1" {
		t.Errorf("the result says of the database: %+v", doc.Target)
	}
	if len(doc.Nodes) != 0 || len(doc.Links) != 4 || doc.Links[1].DeclaredRTTMicroseconds != 100_000 || doc.Links[1].Samples == 0 || doc.Links[1].Bytes != 0 {
		t.Errorf("%d nodes, links %+v", len(doc.Nodes), doc.Links)
	}
	if m := doc.Manifests; m == nil || m.Database == nil || m.Database.Pods.Client == nil || m.Network == nil {
		t.Errorf("manifests %+v", doc.Manifests)
	}
	w.Until("nothing is left but the result", func() bool { return slices.Equal(w.Leftovers("r"), []string{"ConfigMap r-result"}) })
}

// An external database is ready as soon as its spec is valid, with nothing deployed. A run on it has a steward, and
// workers that connect to the endpoint of their region. The network is not emulated.
func TestRunOnADatabaseElsewhere(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Elsewhere().Obj(), worldtest.MakeRun("r").Database("d").Workers(2).Obj())
	w.UntilStage("r", v1alpha1.StageMeasure)

	db := w.GetDatabase("d")
	for kind, reason := range map[string]string{v1alpha1.ConditionNodesReady: "RunsElsewhere", v1alpha1.ConditionNetworkVerified: "NotDeclared"} {
		if c := meta.FindStatusCondition(db.Status.Conditions, kind); c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason {
			t.Errorf("condition %s is %+v, not %s", kind, c, reason)
		}
	}
	if db.Status.ReadyNodes != "0/0" || db.Status.Emulation != v1alpha1.EmulationNone {
		t.Errorf("%s nodes are ready, emulation %s", db.Status.ReadyNodes, db.Status.Emulation)
	}
	sets, pods := &appsv1.StatefulSetList{}, &corev1.PodList{}
	w.Must(w.Client.List(w.Ctx, sets, client.InNamespace(w.Namespace)))
	w.Must(w.Client.List(w.Ctx, pods, client.InNamespace(w.Namespace), client.MatchingLabels{kube.LabelRole: kube.RoleNode}))
	if len(sets.Items)+len(pods.Items) > 0 {
		t.Errorf("%d StatefulSets and %d pods of nodes", len(sets.Items), len(pods.Items))
	}
	if c := w.NodesOf("d").Client; c == nil || c.Deployed || c.Steward != "us-west-2" || c.Secret != "login" || len(c.Endpoints) != 2 || c.Endpoints[1].Address != "db.asia.example.com:5432" {
		t.Errorf("what workers are told of the database: %+v", c)
	}

	run := w.UntilOver("r")
	if run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("%s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
	}
	doc := w.Document("r")
	if is := doc.Target; w.Loads != 1 || is == nil || is.Server != "PostgreSQL 15.0" || is.ConnectionsPerRegion != 16 || len(is.Endpoints) != 2 || is.Endpoints[1].RTTMicroseconds != 1234 {
		t.Errorf("%d loads; the result says of the database: %+v", w.Loads, doc.Target)
	}
	if len(doc.Nodes)+len(doc.Links) != 0 || doc.Manifests == nil || doc.Manifests.Database == nil || doc.Manifests.Network != nil {
		t.Errorf("nodes %+v, links %+v, manifests %+v", doc.Nodes, doc.Links, doc.Manifests)
	}
	w.Until("nothing is left but the result", func() bool { return slices.Equal(w.Leftovers("r"), []string{"ConfigMap r-result"}) })
}

// A run on an external database that is cancelled or deleted leaves neither steward nor workers, and the next run can
// use the database.
func TestRunOnADatabaseElsewhereEndsEarly(t *testing.T) {
	cancelled := func(w *worldtest.World, run *v1alpha1.BenchmarkRun) {
		base := run.DeepCopy()
		run.Spec.Cancel = true
		w.Must(w.Client.Patch(w.Ctx, run, client.MergeFrom(base)))
		w.Until("the run is over", func() bool { return kube.Over(w.GetRun("r")) })
		if st := w.GetRun("r").Status; st.Stage != v1alpha1.StageCompleted && st.Reason != "Cancelled" {
			w.T.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
		}
	}
	deleted := func(w *worldtest.World, run *v1alpha1.BenchmarkRun) {
		w.Must(w.Client.Delete(w.Ctx, run))
		w.Until("the run is gone", func() bool {
			return apierrors.IsNotFound(w.Client.Get(w.Ctx, client.ObjectKeyFromObject(run), &v1alpha1.BenchmarkRun{}))
		})
	}
	for name, tc := range map[string]struct {
		stage v1alpha1.Stage
		end   func(*worldtest.World, *v1alpha1.BenchmarkRun)
	}{
		"cancelled in Load":    {v1alpha1.StageLoad, cancelled},
		"deleted in Load":      {v1alpha1.StageLoad, deleted},
		"cancelled in Measure": {v1alpha1.StageMeasure, cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(worldtest.MakeDatabase("d").Elsewhere().Obj(), worldtest.MakeRun("r").Database("d").Workers(2).Obj())
			tc.end(w, w.UntilAtLeast("r", tc.stage))
			w.Until("nothing is left that works", func() bool {
				return !slices.ContainsFunc(w.Leftovers("r"), func(what string) bool { return !strings.HasPrefix(what, "ConfigMap ") })
			})
			w.Create(worldtest.MakeRun("next").Database("d").Obj())
			if st := w.UntilOver("next").Status; st.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("the next run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
			}
		})
	}
}

// If the steward rejects the manifest, the run ends with a message that names the field and its correction, and leaves
// no objects.
func TestStewardRefusesTheManifest(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.TooMuch = "spec.pods.client.secretRef.name: login: there is no such Secret, or it has no key password: make it"
	w.Create(worldtest.MakeDatabase("d").Program().Client().Obj(), worldtest.MakeRun("r").Database("d").Obj())
	st := w.UntilOver("r").Status
	if st.Verdict != v1alpha1.VerdictInvalid || st.Reason != "DataRefused" || !strings.Contains(st.Message, w.TooMuch) {
		t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
	}
	w.Until("nothing is left", func() bool { return len(w.Leftovers("r")) == 0 })
}

// The loss of the steward makes the run Invalid, whenever it happens.
func TestStewardIsLost(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Program().Client().Obj(), worldtest.MakeRun("r").Database("d").Obj())
	run := w.UntilStage("r", v1alpha1.StageMeasure)
	job := &batchv1.Job{}
	w.Must(w.Client.Get(w.Ctx, types.NamespacedName{Namespace: w.Namespace, Name: kube.StewardName(run)}, job))
	if is := job.Spec.Template.Spec.ServiceAccountName; is != job.Name || w.Get(is, &corev1.ServiceAccount{}) == nil {
		t.Errorf("it is ServiceAccount %q", is)
	}
	w.Must(w.Client.Delete(w.Ctx, job, client.PropagationPolicy("Background"), client.GracePeriodSeconds(0)))
	if st := w.UntilOver("r").Status; st.Verdict != v1alpha1.VerdictInvalid || st.Reason != "StewardLost" {
		t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
	}
}

// Manifests with a wrong client are refused before any object is created.
func TestProgramClientIsRefused(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	for name, tc := range map[string]struct {
		db      func(*v1alpha1.GeoDatabaseSpec)
		workers int32
		says    string
	}{
		"engine": {db: func(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Name = "postgress" }, says: "spec.engine.name: no client of postgress is built in (did you mean postgres?)"},
		"isolation": {db: func(s *v1alpha1.GeoDatabaseSpec) {
			s.Engine.Parameters = map[string]string{"isolation": "ReadUncommitted"}
		}, says: "spec.engine.parameters.isolation"},
		"parameter": {db: func(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Parameters = map[string]string{"sslmode": "prefer"} }, says: "spec.engine.parameters.sslmode"},
		"region":    {db: func(s *v1alpha1.GeoDatabaseSpec) { s.Pods.Client.Region = "mars" }, says: "spec.pods.client.region: region mars is not in spec.regions"},
		"workers":   {db: func(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Parameters = map[string]string{"connections": "1"} }, workers: 2, says: "spec.load.workersPerRegion: 2 workers share the 1 connections"},
		"none":      {db: func(s *v1alpha1.GeoDatabaseSpec) { s.Pods.Client = nil }, says: "set its spec.pods.client, for one of"},
	} {
		db := worldtest.MakeDatabase(name).Program().Client()
		tc.db(&db.Spec)
		w.Create(db.Obj(), worldtest.MakeRun("run-"+name).Database(name).Workers(max(1, tc.workers)).Obj())
		if st := w.UntilOver("run-" + name).Status; st.Verdict != v1alpha1.VerdictInvalid || !strings.Contains(st.Message, tc.says) {
			t.Errorf("%s: the run ended %s %s: %s", name, st.Verdict, st.Reason, st.Message)
		}
		if left := w.Leftovers("run-" + name); len(left) > 0 {
			t.Errorf("%s: %v are left", name, left)
		}
	}
}

// A program recovers by itself after its pod is killed: it receives no notification, and the run continues once it is
// ready.
func TestProgramIsKilled(t *testing.T) {
	t.Parallel()
	for name, db := range map[string]*worldtest.DatabaseBuilder{
		"without roles": worldtest.MakeDatabase("d").Program().Client().Emulation(v1alpha1.EmulationSidecar),
		"of a role":     worldtest.MakeDatabase("d").Roles().Measurable().Emulation(v1alpha1.EmulationSidecar),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(db.Obj(), worldtest.MakeRun("r").Database("d").Faults(`
- {name: cut, at: 1s, duration: 1s, networkPartition: {from: {regions: [ap-northeast-1]}}}
- {name: kill, at: 4s, podKill: {target: {regions: [ap-northeast-1]}}}`).Obj())
			run := w.UntilOver("r")
			if run.Status.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("%s %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
			}
			for _, f := range run.Status.Faults {
				if f.State != string(fault.Done) {
					t.Errorf("fault %s is %s: %s", f.Name, f.State, f.Message)
				}
			}
		})
	}
}

// A database whose settings change during the measurement is a different database.
func TestSettingsOfAProgramChange(t *testing.T) {
	for name, changed := range map[string]string{"as before": "on", "changed": "off"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			settings := func(fsync string) []result.Server {
				return []result.Server{{Address: "db:5432", Settings: map[string]result.Setting{"fsync": {Value: fsync, Source: "configuration file"}}}}
			}
			w.Servers = settings("on")
			db := worldtest.MakeDatabase("d").Program().Client().Emulation(v1alpha1.EmulationSidecar)
			db.Spec.Engine.Parameters = map[string]string{"tls": "disable", "connections": "8"}
			w.Create(db.Obj(), worldtest.MakeRun("r").Database("d").Obj())
			w.UntilStage("r", v1alpha1.StageMeasure)
			w.Servers = settings(changed)
			run := w.UntilOver("r")
			if changed == "on" {
				passed(t, run)
			} else {
				invalid(t, run, "SettingsChanged", "fsync of db:5432 was on, and is off")
			}
			if is := w.Document("r").Target; is.Servers[0].Settings["fsync"].Value != "on" || is.ServersAfter[0].Settings["fsync"].Value != changed {
				t.Errorf("the result has %+v, and %+v after", is.Servers, is.ServersAfter)
			}
		})
	}
}
