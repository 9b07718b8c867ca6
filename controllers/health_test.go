package controllers_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/results"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/ops/health"
	"github.com/geobench/geobench/internal/ops/health/healthtest"
)

var updateObjects = flag.Bool("update", false, "write the objects that gitops/ is tested with")

// customizations returns a path in the folder of Argo CD's health checks, whose test data are the recorded objects.
func customizations(t *testing.T, parts ...string) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return filepath.Join(append([]string{dir, "gitops", "argocd", "resource_customizations", "geobench.dev"}, parts...)...)
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("there is no go.mod above this folder")
	return ""
}

// recorder stores copies of objects at given moments of a simulated cluster.
type recorder struct {
	*worldtest.World
	objects map[string]*unstructured.Unstructured
}

// record stores an object under a name. Only the first call with the same name has an effect.
func (r *recorder) record(as, kind, name string) {
	r.T.Helper()
	key := kind + "/" + as
	if r.objects[key] != nil {
		return
	}
	u := r.AsStored(kind, name)
	for _, field := range [][]string{{"metadata", "managedFields"}, {"metadata", "uid"}, {"metadata", "resourceVersion"}} {
		unstructured.RemoveNestedField(u.Object, field...)
	}
	u.SetNamespace("bench")
	r.objects[key] = u
}

// gist returns the parts of an object that do not depend on the time and place of the recording.
func gist(u *unstructured.Unstructured) string {
	var parts []string
	stage, _, _ := unstructured.NestedString(u.Object, "status", "stage")
	verdict, _, _ := unstructured.NestedString(u.Object, "status", "verdict")
	observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	parts = append(parts, fmt.Sprintf("stage %q, verdict %q, generation %d, observed %d, deleted %t", stage, verdict, u.GetGeneration(), observed, u.GetDeletionTimestamp() != nil))
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		c := c.(map[string]any)
		parts = append(parts, fmt.Sprintf("%s=%s %s", c["type"], c["status"], c["reason"]))
	}
	slices.Sort(parts[1:])
	return strings.Join(parts, "\n")
}

// keep writes the recorded objects, or compares them with the stored files.
func (r *recorder) keep() {
	r.T.Helper()
	for key, u := range r.objects {
		kind, name, _ := strings.Cut(key, "/")
		file := customizations(r.T, kind, "testdata", name+".yaml")
		if *updateObjects {
			text, err := yaml.Marshal(u.Object)
			r.Must(err)
			r.Must(os.MkdirAll(filepath.Dir(file), 0o755))
			r.Must(os.WriteFile(file, text, 0o644))
			continue
		}
		text, err := os.ReadFile(file)
		r.Must(err)
		recorded := &unstructured.Unstructured{}
		r.Must(yaml.Unmarshal(text, &recorded.Object))
		// The conversion to JSON makes the types of numbers equal.
		text, err = json.Marshal(recorded.Object)
		r.Must(err)
		r.Must(recorded.UnmarshalJSON(text))
		if got, want := gist(u), gist(recorded); got != want {
			r.T.Errorf("%s is not what is on record (go test -run TestRecordedObjects -update writes it):\n%s\n\nrecorded:\n%s", key, got, want)
		}
	}
}

// TestRecordedObjects records every state in which a GitOps tool can find an object. For runs, these are every stage
// and verdict, and waiting, suspended, refused and deleted runs. For databases and experiments, these are all states of
// the lifecycle.
func TestRecordedObjects(t *testing.T) {
	t.Parallel()
	r := &recorder{worldtest.NewWorld(t), map[string]*unstructured.Unstructured{}}
	const run, database, experiment = "BenchmarkRun", "GeoDatabase", "Experiment"

	late := worldtest.MakeDatabase("late").ProfileRef("mine").Obj()
	r.Create(late, worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
	r.record("unseen", database, "d")
	r.record("unseen", run, "r")
	r.Step()
	r.record("profile-may-come", database, "late")
	r.RTTOff = 50 * time.Millisecond
	r.Until("the nodes serve", func() bool {
		r.record("nodes-not-ready", database, "d")
		return worldtest.ConditionIs(r.GetDatabase("d").Status.Conditions, v1alpha1.ConditionNodesReady, metav1.ConditionTrue)
	})
	r.Step()
	r.record("network-not-verified", database, "d")
	r.RTTOff = 0
	r.Create(worldtest.MakeRun("second").Database("d").Obj())
	held := worldtest.MakeRun("held").Database("d").Obj()
	held.Spec.Suspend = true
	r.Create(held)
	r.Until("the run is over", func() bool {
		now := r.GetRun("r")
		if now.Status.Stage != "" && !kube.Over(now) {
			r.record("stage-"+strings.ToLower(string(now.Status.Stage)), run, "r")
		}
		if worldtest.ConditionIs(r.GetDatabase("d").Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue) {
			r.record("serving", database, "d")
		}
		if c := meta.FindStatusCondition(r.GetRun("second").Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Reason == health.DatabaseBusy {
			r.record("database-busy", run, "second")
		}
		return kube.Over(now) && len(now.Finalizers) == 0
	})
	r.record("passed", run, "r")
	r.record("suspended", run, "held")

	r.UntilStage("second", v1alpha1.StageMeasure)
	db := r.GetDatabase("d")
	r.PatchSpec(db, func() { db.Spec.PartitionsPerRegion = 2 })
	r.Step()
	r.record("change-waits", database, "d")
	second := r.GetRun("second")
	r.Must(r.Client.Delete(r.Ctx, second, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	r.record("deleted", run, "second")
	r.Until("the second run is gone", func() bool {
		return client.IgnoreNotFound(r.Client.Get(r.Ctx, client.ObjectKeyFromObject(second), second)) == nil && len(r.Runs()) == 2 ||
			forgetForeground(r.World, second)
	})

	r.Create(worldtest.MakeRun("missed").Database("d").MinThroughput(1_000_000).Obj())
	r.UntilOver("missed")
	r.record("failed-objective", run, "missed")
	again := r.GetRun("missed")
	r.PatchSpec(again, func() { again.Spec.RunID = "two" })
	r.record("failed-another-run-id", run, "missed")
	r.Step()
	r.record("starts-again", run, "missed")
	r.PatchSpec(again, func() { again.Spec.Cancel = true })
	r.UntilOver("missed")
	r.record("invalid-cancelled", run, "missed")

	r.Create(worldtest.MakeRun("lost").Database("d").Obj())
	r.UntilStage("lost", v1alpha1.StageMeasure)
	r.Must(r.Client.Delete(r.Ctx, r.NodePod("d", "us-west-2", 0), client.GracePeriodSeconds(0)))
	r.UntilOver("lost")
	r.record("invalid-no-result", run, "lost")

	r.Create(worldtest.MakeRun("refused").Database("d").Sunflower("mars").Obj(), worldtest.MakeRun("alone").Database("nowhere").Obj())
	r.UntilOver("refused")
	r.record("failed-refused", run, "refused")
	r.Step()
	r.record("database-not-found-yet", run, "alone")
	r.UntilOver("alone")
	r.record("failed-database-not-found", run, "alone")

	wrong := worldtest.MakeDatabase("wrong").Obj()
	wrong.Spec.Engine.Name = "calvni"
	r.Create(wrong)
	r.Step()
	r.record("refused", database, "wrong")
	gone := worldtest.MakeDatabase("gone").Obj()
	gone.Finalizers = []string{"example.com/hold"}
	r.Create(gone)
	r.Step()
	r.Must(r.Client.Delete(r.Ctx, gone))
	r.record("deleted", database, "gone")
	r.PatchSpec(gone, func() { gone.Finalizers = nil })

	differs := func(name string) *v1alpha1.Experiment {
		return worldtest.MakeExperiment(name, "calvin").Sweep(worldtest.Clients, 10).Claim("fast", "max(tput('calvin')) > 1000000.0").Claim("slow", "max(tput('calvin')) > 0.0").Obj()
	}
	e := differs("e")
	r.Create(e)
	r.record("unseen", experiment, "e")
	r.Until("the experiment has ended", func() bool {
		if c := worldtest.ConditionOf(r.GetExperiment("e"), v1alpha1.ConditionReady); c.Reason == "Running" {
			r.record("running", experiment, "e")
		}
		return kube.Finished(r.GetExperiment("e"))
	})
	r.record("claims-differ", experiment, "e")
	e = r.GetExperiment("e")
	r.PatchSpec(e, func() { e.Spec.Gate = v1alpha1.GateClaims })
	r.record("another-spec", experiment, "e")
	r.Until("it is judged again", func() bool { return kube.Finished(r.GetExperiment("e")) })
	r.record("claims-differ-gate", experiment, "e")
	e = r.GetExperiment("e")
	r.PatchSpec(e, func() { e.Spec.Gate, e.Spec.Claims = "", e.Spec.Claims[1:] })
	r.Until("it is judged once more", func() bool { return kube.Finished(r.GetExperiment("e")) })
	r.record("claims-hold", experiment, "e")

	still := worldtest.MakeExperiment("still", "calvin").Obj()
	still.Spec.Suspend = true
	r.Create(still, worldtest.MakeExperiment("bad").Sweep("spec.load.clients", 1).Obj(), worldtest.MakeExperiment("early", "calvin").Refs("nowhere").Obj())
	r.Step()
	r.record("suspended", experiment, "still")
	r.record("refused", experiment, "bad")
	r.record("reference-may-come", experiment, "early")
	r.FakeClock.Step(health.Patience)
	r.Step()
	r.record("reference-came-not", experiment, "early")
	r.record("profile-came-not", database, "late")

	hang := ""
	r.WorkersHang = &hang
	fails := worldtest.MakeExperiment("fails", "calvin").Sweep(worldtest.Clients, 10).Obj()
	fails.Finalizers = []string{"example.com/hold"}
	r.Create(fails)
	r.Until("its run waits for workers", func() bool {
		return slices.ContainsFunc(r.Runs(), func(run v1alpha1.BenchmarkRun) bool {
			return run.Labels[kube.LabelExperiment] == "fails" && run.Status.Stage == v1alpha1.StageWarmup
		})
	})
	doomed := worldtest.MakeExperiment("doomed", "calvin").Refs("d").Obj()
	doomed.Spec.Databases, doomed.Finalizers = nil, []string{"example.com/hold"}
	r.Create(doomed)
	r.FakeClock.Step(10 * time.Minute) // longer than workers may take to become ready
	r.Until("the experiment has ended", func() bool { return kube.Finished(r.GetExperiment("fails")) })
	r.record("points-failed", experiment, "fails")
	r.Until("the other one runs", func() bool { return len(r.GetExperiment("doomed").Status.Active) > 0 })
	r.Must(r.Client.Delete(r.Ctx, doomed))
	r.record("deleted", experiment, "doomed")
	r.keep()
	for _, e := range []*v1alpha1.Experiment{r.GetExperiment("fails"), r.GetExperiment("doomed")} {
		r.PatchSpec(e, func() { e.Finalizers = nil })
	}
}

// forgetForeground simulates the garbage collector: it removes an object under foreground deletion once all its
// dependents are gone.
func forgetForeground(w *worldtest.World, obj client.Object) bool {
	if controllerutil.ContainsFinalizer(obj, metav1.FinalizerDeleteDependents) && !controllerutil.ContainsFinalizer(obj, kube.Finalizer) {
		w.PatchSpec(obj, func() { controllerutil.RemoveFinalizer(obj, metav1.FinalizerDeleteDependents) })
	}
	return false
}

// No version of a watched run is ready before the verdict, and the version with the verdict is ready. The same holds
// for the next attempt.
func TestNothingIsReadyBeforeItsVerdict(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	script, err := os.ReadFile(customizations(t, "BenchmarkRun", "health.lua"))
	w.Must(err)
	list := &v1alpha1.BenchmarkRunList{}
	w.Must(w.Client.List(w.Ctx, list, client.InNamespace(w.Namespace)))
	watcher, err := w.Client.(client.WithWatch).Watch(w.Ctx, list, client.InNamespace(w.Namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	w.Must(err)
	defer watcher.Stop()
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
	// The next attempt is requested while objects of the first attempt remain.
	w.Until("the run is over", func() bool { return kube.Over(w.GetRun("r")) })
	run := w.GetRun("r")
	w.PatchSpec(run, func() { run.Spec.RunID = "two" })
	w.Until("the second attempt is over", func() bool {
		run := w.GetRun("r")
		return run.Status.RunID == "two" && kube.Over(run) && len(run.Finalizers) == 0
	})
	last := w.GetRun("r").ResourceVersion
	versions, verdicts := 0, 0
	for event := range watcher.ResultChan() {
		run := event.Object.(*v1alpha1.BenchmarkRun)
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(run)
		w.Must(err)
		u := &unstructured.Unstructured{Object: fields}
		k, err := healthtest.KStatus(u)
		w.Must(err)
		a, err := healthtest.ArgoCD(string(script), u)
		w.Must(err)
		judged := run.Status.Verdict != "" && run.Status.RunID == run.Spec.RunID && run.Status.ObservedGeneration == run.Generation
		want := [2]string{"InProgress", "Progressing"}
		if judged {
			verdicts++
			want = [2]string{"Current", "Healthy"}
		}
		if got := [2]string{k.Status, a.Status}; got != want {
			t.Errorf("resourceVersion %s, generation %d in stage %s with verdict %q of runID %q reads %v, want %v: %+v", run.ResourceVersion, run.Generation,
				run.Status.Stage, run.Status.Verdict, run.Status.RunID, got, want, run.Status.Conditions)
		}
		if run.Status.Verdict != "" && run.Status.ObservedGeneration == run.Generation && run.Status.RunID != run.Spec.RunID {
			t.Errorf("resourceVersion %s has seen runID %q, and still has the verdict of runID %q", run.ResourceVersion, run.Spec.RunID, run.Status.RunID)
		}
		for _, c := range run.Status.Conditions {
			if kind := c.Type; (kind == v1alpha1.ConditionReconciling || kind == v1alpha1.ConditionStalled) && c.Status != metav1.ConditionTrue {
				t.Errorf("resourceVersion %s: %s is %s", run.ResourceVersion, kind, c.Status)
			}
		}
		versions++
		if run.ResourceVersion == last {
			break
		}
	}
	if versions < 30 || verdicts < 2 {
		t.Errorf("only %d versions were seen, %d with a verdict", versions, verdicts)
	}
	t.Logf("%d versions, %d with a verdict", versions, verdicts)
}

// A suspended run does not reserve the database, lets other runs go first, and starts once it is resumed. A run that
// already has its database continues.
func TestSuspendedRuns(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	suspend := func(name string, v bool) {
		run := w.GetRun(name)
		w.PatchSpec(run, func() { run.Spec.Suspend = v })
	}
	held := worldtest.MakeRun("a-held").Database("d").Obj()
	held.Spec.Suspend = true
	w.Create(worldtest.MakeDatabase("d").Obj(), held, worldtest.MakeRun("b-first").Database("d").Obj(), worldtest.MakeRun("c-queued").Database("d").Obj())
	w.UntilStage("b-first", v1alpha1.StageMeasure)
	suspend("b-first", true) // too late: the run has already reserved its database
	suspend("c-queued", true)
	if first := w.UntilOver("b-first"); first.Status.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("the run that had its database ended %s: %s", first.Status.Verdict, first.Status.Message)
	}
	for range 5 {
		w.Step()
	}
	for _, name := range []string{"a-held", "c-queued"} {
		run := w.GetRun(name)
		c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionReady)
		if run.Status.Stage != "" || c == nil || c.Reason != health.Suspended || len(run.Status.Conditions) != 1 {
			t.Errorf("%s is in stage %q: %+v", name, run.Status.Stage, run.Status.Conditions)
		}
		if left := w.Leftovers(name); len(left) > 0 {
			t.Errorf("%s: left over: %v", name, left)
		}
	}
	if active := w.GetDatabase("d").Status.ActiveRun; active != "" {
		t.Errorf("the database is with %s", active)
	}
	suspend("c-queued", false)
	if run := w.UntilOver("c-queued"); run.Status.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("the run that may go on ended %s: %s", run.Status.Verdict, run.Status.Message)
	}
	// A suspended new attempt does not start, and the verdict of the previous attempt is cleared.
	done := w.GetRun("b-first")
	w.PatchSpec(done, func() { done.Spec.RunID = "two" })
	w.Until("the next attempt is held", func() bool {
		c := meta.FindStatusCondition(w.GetRun("b-first").Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Reason == health.Suspended
	})
	if st := w.GetRun("b-first").Status; st.Verdict != "" || st.Stage != "" {
		t.Errorf("it is in stage %q with verdict %q", st.Stage, st.Verdict)
	}
	// A suspended run can be cancelled.
	run := w.GetRun("a-held")
	w.PatchSpec(run, func() { run.Spec.Cancel = true })
	if st := w.UntilOver("a-held").Status; st.Reason != "Cancelled" {
		t.Errorf("the run that was cancelled ended %s: %s", st.Reason, st.Message)
	}
}

// The operator reserves the database in Preflight and dies before it writes the run's status. If the run is then
// suspended, it must release the database.
func TestSuspendedWithItsDatabaseTaken(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj())
	db := w.UntilReady("d")
	w.Create(worldtest.MakeRun("r").Database("d").Obj())
	w.UntilStage("r", v1alpha1.StagePreflight)
	base := db.DeepCopy()
	db.Status.ActiveRun = "r"
	w.Must(w.Client.Status().Patch(w.Ctx, db, client.MergeFrom(base)))
	run := w.GetRun("r")
	if run.Status.Stage != v1alpha1.StagePreflight {
		t.Fatalf("the run is in stage %s already", run.Status.Stage)
	}
	w.PatchSpec(run, func() { run.Spec.Suspend = true })
	w.Until("the run is held", func() bool { return w.GetRun("r").Status.Stage == "" })
	if active := w.GetDatabase("d").Status.ActiveRun; active != "" {
		t.Errorf("the database is with %s", active)
	}
}

// A run is deleted at the end of the retention time for its verdict, to the second. Its result stays, and a later run
// of the same name replaces it.
func TestTimeToLive(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	ttl := func(b *worldtest.RunBuilder, passed, failed *int32) *v1alpha1.BenchmarkRun {
		b.Spec.TTLSecondsAfterFinished = &v1alpha1.TTLSecondsAfterFinished{Passed: passed, Failed: failed}
		return b.Obj()
	}
	isGone := func(name string) bool {
		return client.IgnoreNotFound(w.Client.Get(w.Ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, &v1alpha1.BenchmarkRun{})) == nil &&
			!slices.ContainsFunc(w.Runs(), func(run v1alpha1.BenchmarkRun) bool { return run.Name == name })
	}
	w.Create(worldtest.MakeDatabase("d").Obj(), ttl(worldtest.MakeRun("r").Database("d"), ptr.To[int32](100), ptr.To[int32](0)))
	run := w.UntilOver("r")
	due := run.Status.CompletionTime.Add(100 * time.Second)
	w.RestartOperator()
	w.Until("the run is gone", func() bool {
		if isGone("r") {
			return true
		}
		if left := due.Sub(w.FakeClock.Now()); left < -3*time.Second {
			t.Fatalf("the run is still there %s after its time", -left)
		}
		return false
	})
	if early := due.Sub(w.FakeClock.Now()); early > 0 {
		t.Errorf("the run went %s too early", early)
	}
	for range 3 {
		w.Step() // lets the garbage collector act
	}
	kept := w.Get("r-result", &corev1.ConfigMap{}).(*corev1.ConfigMap)
	if kept.Labels[kube.LabelExpired] != "true" || kept.Labels[kube.LabelRun] != "r" || len(kept.OwnerReferences) != 0 {
		t.Errorf("the result has labels %v and owners %v", kept.Labels, kept.OwnerReferences)
	}
	if _, err := results.Read(run, kept); err != nil {
		t.Errorf("the result that stays: %v", err)
	}
	if left := w.Leftovers("r"); len(left) != 1 {
		t.Errorf("left over: %v", left)
	}
	// The next run of this name replaces the result. A run whose verdict has no retention time stays.
	w.Create(ttl(worldtest.MakeRun("r").Database("d"), nil, ptr.To[int32](0)))
	again := w.UntilOver("r")
	if again.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("the next run ended %s: %s", again.Status.Verdict, again.Status.Message)
	}
	w.FakeClock.Step(time.Hour)
	for range 3 {
		w.Step()
	}
	now := w.Get("r-result", &corev1.ConfigMap{}).(*corev1.ConfigMap)
	if isGone("r") || now.UID == kept.UID || !metav1.IsControlledBy(now, again) || now.Labels[kube.LabelExpired] != "" {
		t.Errorf("gone %t, result %s of %v, labels %v", isGone("r"), now.UID, now.OwnerReferences, now.Labels)
	}
	// A retention time that is set later counts from the end of the run. Deleting a run by hand also deletes its result.
	w.PatchSpec(again, func() { again.Spec.TTLSecondsAfterFinished.Passed = ptr.To[int32](60) })
	w.Until("the second run is gone, too", func() bool { return isGone("r") })
	w.Create(ttl(worldtest.MakeRun("missed").Database("d").MinThroughput(1_000_000), nil, ptr.To[int32](0)))
	w.Until("the run that failed is gone at once", func() bool { return len(w.Runs()) == 0 && isGone("missed") })
}

// Labels and annotations by which GitOps tools identify their objects stay on the applied objects. If the objects that
// the operator creates for them had these labels or annotations, the tools would prune these objects or report them as
// drift.
func TestChildrenHaveNoLabelsOfGitOpsTools(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	labels := map[string]string{"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
		"helm.toolkit.fluxcd.io/name": "apps", "argocd.argoproj.io/instance": "apps", "app.kubernetes.io/instance": "apps", "app.kubernetes.io/managed-by": "Helm"}
	annotations := map[string]string{"argocd.argoproj.io/tracking-id": "apps:geobench.dev/BenchmarkRun:bench/r", "argocd.argoproj.io/sync-wave": "1",
		"argocd.argoproj.io/hook": "PostSync", "kustomize.toolkit.fluxcd.io/prune": "disabled", "kustomize.toolkit.fluxcd.io/force": "Enabled",
		"kubectl.kubernetes.io/last-applied-configuration": "{}", "link.argocd.argoproj.io/external-link": "https://example.com"}
	parents := []client.Object{worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj(), worldtest.MakeExperiment("e", "calvin").Sweep(worldtest.Clients, 10).Obj()}
	for _, p := range parents {
		p.SetLabels(labels)
		p.SetAnnotations(annotations)
	}
	w.Create(parents...)
	seen := map[string]bool{}
	look := func() {
		for _, list := range []client.ObjectList{&v1alpha1.BenchmarkRunList{}, &v1alpha1.GeoDatabaseList{}, &appsv1.StatefulSetList{}, &batchv1.JobList{},
			&corev1.PodList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}} {
			w.Must(w.Client.List(w.Ctx, list, client.InNamespace(w.Namespace)))
			w.Must(meta.EachListItem(list, func(o runtime.Object) error {
				obj := o.(client.Object)
				if metav1.GetControllerOf(obj) == nil {
					return nil
				}
				seen[kube.KindOf(obj)] = true
				for key, value := range obj.GetLabels() {
					if labels[key] == value && value != "" {
						t.Errorf("%s %s has the label %s: %s", kube.KindOf(obj), obj.GetName(), key, value)
					}
				}
				for key := range obj.GetAnnotations() {
					if _, copied := annotations[key]; copied {
						t.Errorf("%s %s has the annotation %s", kube.KindOf(obj), obj.GetName(), key)
					}
				}
				return nil
			}))
		}
	}
	w.Until("all is over", func() bool {
		look()
		return kube.Over(w.GetRun("r")) && kube.Finished(w.GetExperiment("e"))
	})
	for _, kind := range []string{"BenchmarkRun", "GeoDatabase", "Job", "Pod", "Service", "ConfigMap", "Secret", "Role", "ServiceAccount", "StatefulSet"} {
		if !seen[kind] {
			t.Errorf("no child of kind %s was seen: %v", kind, seen)
		}
	}
}
