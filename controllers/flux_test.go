package controllers_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/config/admission"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
)

// flux is a simulated cluster to which a real kustomize-controller applies the example repository. Geobench's
// controllers are real, too, and use the ServiceAccount to which the admission policies apply. The simulated cluster
// provides pods, nodes, workers and their clock, and gitSource replaces source-controller. Flux works in real time; the
// simulated cluster advances only step by step.
type flux struct {
	*worldtest.World
	*versions
	source     *gitSource
	controller *fluxController
	// childKinds counts, by kind, how often child objects were checked.
	childKinds map[string]int
}

// gitopsFile returns the path of a file or folder in gitops.
func gitopsFile(t *testing.T, path string) string {
	t.Helper()
	return filepath.Join(customizations(t), "..", "..", "..", path)
}

func newFlux(t *testing.T) *flux {
	t.Helper()
	w := worldtest.NewWorld(t)
	definitions := filepath.SplitList(os.Getenv("GEOBENCH_FLUX_CRDS"))
	if len(definitions) == 0 {
		t.Fatal("GEOBENCH_FLUX_CRDS is not set: Flux's kinds are missing; see `make test-gitops`")
	}
	_, err := envtest.InstallCRDs(worldtest.APIServer, envtest.CRDInstallOptions{Paths: definitions, ErrorIfPathMissing: true})
	w.Must(err)
	policies, bindings, err := admission.Policies()
	w.Must(err)
	for _, p := range policies {
		w.Must(w.Client.Create(w.Ctx, p))
	}
	for _, b := range bindings {
		w.Must(w.Client.Create(w.Ctx, b))
	}
	operator := rest.CopyConfig(worldtest.APIServer)
	operator.Impersonate = rest.ImpersonationConfig{UserName: admission.Operator, Groups: []string{"system:masters"}}
	c, err := client.New(operator, client.Options{Scheme: kube.Scheme()})
	w.Must(err)
	w.OperatorClient = func() client.Client { return c }
	w.Must(wait.PollUntilContextTimeout(w.Ctx, 250*time.Millisecond, worldtest.FluxPatience, true, func(ctx context.Context) (bool, error) {
		err := c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "x"}}, client.DryRunAll)
		if apierrors.IsForbidden(err) {
			return true, nil // the policies are active
		}
		return false, err
	}))
	w.Namespace = "bench" // the namespace of the example repository
	w.RestartOperator()

	w.Must(w.Client.Create(w.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: worldtest.FluxNamespace}}))
	apply := func(file string, options ...client.CreateOption) {
		text, err := os.ReadFile(gitopsFile(t, file))
		w.Must(err)
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			u := &unstructured.Unstructured{}
			w.Must(yaml.Unmarshal([]byte(document), &u.Object))
			w.Must(w.Client.Create(w.Ctx, u, options...))
		}
	}
	apply("flux/lab.yaml")
	apply("flux/healthchecks.yaml", client.DryRunAll)
	f := &flux{World: w, childKinds: map[string]int{}, source: newGitSource(w, gitopsFile(t, "repository")), controller: newFluxController(t)}
	f.versions = watch(w, kustomizations, v1alpha1.GroupVersion.WithKind("BenchmarkRun"), v1alpha1.GroupVersion.WithKind("GeoDatabase"),
		v1alpha1.GroupVersion.WithKind("Experiment"))
	f.controller.start()
	return f
}

func (f *flux) exists(name string, obj client.Object) bool {
	f.T.Helper()
	err := f.Client.Get(f.Ctx, types.NamespacedName{Namespace: f.Namespace, Name: name}, obj)
	f.Must(client.IgnoreNotFound(err))
	return err == nil
}

// condition returns a condition of an object, with an empty status if the condition is absent.
func condition(u *unstructured.Unstructured, kind string) (c metav1.Condition) {
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, fields := range all {
		if fields := fields.(map[string]any); fields["type"] == kind {
			_ = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c)
		}
	}
	return c
}

// attempts reports whether this version of a Kustomization shows an attempt to apply the revision.
func attempts(u *unstructured.Unstructured, revision string) bool {
	attempted, _, _ := unstructured.NestedString(u.Object, "status", "lastAttemptedRevision")
	return attempted == revision
}

// waiting reports whether Flux has applied a revision and waits for the health of its objects.
func (f *flux) waiting(name, revision string) bool {
	return slices.ContainsFunc(f.of(kustomizations.Kind, name), func(u *unstructured.Unstructured) bool {
		return attempts(u, revision) && condition(u, "Healthy").Status == metav1.ConditionUnknown
	})
}

// awaitReady waits, without advancing the simulated cluster, until Flux has reported success or failure of a revision.
// It returns the condition Ready.
func (f *flux) awaitReady(name, revision string) metav1.Condition {
	f.T.Helper()
	var ready metav1.Condition
	f.await("Kustomization "+name+" is judged", func() bool {
		all := f.of(kustomizations.Kind, name)
		if len(all) == 0 {
			return false
		}
		last := all[len(all)-1]
		ready = condition(last, "Ready")
		return attempts(last, revision) && ready.Status != metav1.ConditionUnknown && condition(last, "Healthy").Status != metav1.ConditionUnknown &&
			ready.ObservedGeneration == last.GetGeneration()
	})
	return ready
}

// mustBeReady waits until Flux reports a revision as ready.
func (f *flux) mustBeReady(name, revision string) {
	f.T.Helper()
	if ready := f.awaitReady(name, revision); ready.Status != metav1.ConditionTrue {
		f.T.Fatalf("Kustomization %s is not ready: %s: %s", name, ready.Reason, ready.Message)
	}
}

// mustFailHealth waits until Flux reports that applied objects of a revision have failed. Flux must not detect this by
// its timeout, and no version of the Kustomization may report the revision as ready.
func (f *flux) mustFailHealth(name, revision, failed string) {
	f.T.Helper()
	ready := f.awaitReady(name, revision)
	if want := "failed early due to stalled resources: [" + failed + " status: 'Failed']"; ready.Status != metav1.ConditionFalse ||
		ready.Reason != "HealthCheckFailed" || !strings.Contains(ready.Message, want) {
		f.T.Errorf("Kustomization %s is %s, %s: %s; want HealthCheckFailed: %s", name, ready.Status, ready.Reason, ready.Message, want)
	}
	for _, u := range f.of(kustomizations.Kind, name) {
		if attempts(u, revision) && isReady(u) {
			f.T.Errorf("Kustomization %s was ready at resourceVersion %s", name, u.GetResourceVersion())
		}
	}
	f.T.Logf("Kustomization %s: %s", name, ready.Message)
}

// first returns the first version of an object that satisfies the condition. It waits for such a version.
func (f *flux) first(kind, name string, is func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	f.T.Helper()
	var found *unstructured.Unstructured
	f.await(kind+" "+name+" is as wanted", func() bool {
		all := f.of(kind, name)
		i := slices.IndexFunc(all, is)
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

// mustNotPrecede checks that no version of a Kustomization reports the revision as ready before the applied objects
// have finished.
func (f *flux) mustNotPrecede(name, revision string, end *unstructured.Unstructured) {
	f.T.Helper()
	before, after := 0, 0
	for _, u := range f.of(kustomizations.Kind, name) {
		if !attempts(u, revision) {
			continue
		}
		early := resourceVersion(f.World, u) < resourceVersion(f.World, end)
		ready := condition(u, "Ready").Status == metav1.ConditionTrue
		if early {
			before++
		} else {
			after++
		}
		if early && ready {
			f.T.Errorf("Kustomization %s is ready at resourceVersion %s, %s has its end at %s", name, u.GetResourceVersion(), end.GetName(), end.GetResourceVersion())
		}
	}
	if before == 0 || after == 0 {
		f.T.Errorf("Kustomization %s was seen %d times before the end of %s and %d times after it", name, before, end.GetName(), after)
	}
	f.T.Logf("Kustomization %s: %d versions before the end of %s, %d after it", name, before, end.GetName(), after)
}

func hasVerdict(u *unstructured.Unstructured) bool {
	verdict, _, _ := unstructured.NestedString(u.Object, "status", "verdict")
	return verdict != ""
}

func isReady(u *unstructured.Unstructured) bool {
	return condition(u, "Ready").Status == metav1.ConditionTrue
}

// playRun advances the simulated cluster until the run is over. In each stage of the run, it waits until Flux has read
// the run.
func (f *flux) playRun(name string) *v1alpha1.BenchmarkRun {
	f.T.Helper()
	var stages []v1alpha1.Stage
	f.Until("run "+name+" is over", func() bool {
		run := f.GetRun(name)
		if kube.Over(run) {
			return len(run.Finalizers) == 0
		}
		if stage := run.Status.Stage; stage != "" && !slices.Contains(stages, stage) {
			stages = append(stages, stage)
			f.FluxLooks()
		}
		f.lookAtChildren()
		return false
	})
	run := f.GetRun(name)
	f.T.Logf("run %s ended %s (%s) after %v", name, run.Status.Verdict, run.Status.Reason, stages)
	return run
}

// untilAttemptOver advances the simulated cluster until the attempt with this runID is over. Another attempt must
// precede it.
func (f *flux) untilAttemptOver(name, runID string) {
	f.T.Helper()
	f.Until("attempt "+runID+" of run "+name+" is over", func() bool {
		run := f.GetRun(name)
		return run.Status.RunID == runID && run.Status.ObservedGeneration == run.Generation && kube.Over(run) && len(run.Finalizers) == 0
	})
}

// request asks Flux to apply a Kustomization again, as it does after its interval.
func (f *flux) request(name, token string) {
	f.T.Helper()
	k := f.FluxObject(kustomizations, name)
	base := k.DeepCopy()
	k.SetAnnotations(map[string]string{"reconcile.fluxcd.io/requestedAt": token})
	f.Must(f.Client.Patch(f.Ctx, k, client.MergeFrom(base)))
}

// reconcileNow requests a reconciliation, and waits until Flux has finished it, including the health checks of the
// applied objects.
func (f *flux) reconcileNow(name, token string) {
	f.T.Helper()
	f.request(name, token)
	f.first(kustomizations.Kind, name, func(u *unstructured.Unstructured) bool {
		handled, _, _ := unstructured.NestedString(u.Object, "status", "lastHandledReconcileAt")
		return handled == token && condition(u, "Reconciling").Status == ""
	})
}

func (f *flux) hasKustomization(name string) bool {
	f.T.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kustomizations)
	err := f.Client.Get(f.Ctx, types.NamespacedName{Namespace: worldtest.FluxNamespace, Name: name}, u)
	f.Must(client.IgnoreNotFound(err))
	return err == nil
}

// inventory returns the ids of the objects that a Kustomization prunes.
func (f *flux) inventory(name string) (ids []string) {
	f.T.Helper()
	entries, _, _ := unstructured.NestedSlice(f.FluxObject(kustomizations, name).Object, "status", "inventory", "entries")
	for _, e := range entries {
		ids = append(ids, e.(map[string]any)["id"].(string))
	}
	return ids
}

// children returns all objects in the namespace with a controller, by kind and name.
func (f *flux) children() map[string]client.Object {
	f.T.Helper()
	out := map[string]client.Object{}
	for _, list := range []client.ObjectList{&v1alpha1.BenchmarkRunList{}, &v1alpha1.GeoDatabaseList{}, &appsv1.StatefulSetList{}, &batchv1.JobList{},
		&corev1.PodList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{},
		&rbacv1.RoleBindingList{}, &networkingv1.NetworkPolicyList{}} {
		f.Must(f.Client.List(f.Ctx, list, client.InNamespace(f.Namespace)))
		f.Must(meta.EachListItem(list, func(o runtime.Object) error {
			if obj := o.(client.Object); metav1.GetControllerOf(obj) != nil {
				out[kube.KindOf(obj)+"/"+obj.GetName()] = obj
			}
			return nil
		}))
	}
	return out
}

// lookAtChildren checks that no child has a label or annotation by which Flux identifies its objects, and counts the
// kinds of the children.
func (f *flux) lookAtChildren() {
	f.T.Helper()
	for key, child := range f.children() {
		f.childKinds[kube.KindOf(child)]++
		for _, has := range []map[string]string{child.GetLabels(), child.GetAnnotations()} {
			for name := range has {
				if strings.Contains(name, "fluxcd.io/") {
					f.T.Errorf("%s has %s", key, name)
				}
			}
		}
	}
}

// healthCheckExprs returns the health checks in gitops/flux/healthchecks.yaml as lines of a Kustomization's spec.
func healthCheckExprs(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(gitopsFile(t, "flux/healthchecks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, lines, found := strings.Cut(string(text), "  healthCheckExprs:\n")
	if !found {
		t.Fatalf("flux/healthchecks.yaml has no healthCheckExprs:\n%s", text)
	}
	return "  healthCheckExprs:\n" + lines
}

// TestFlux goes through the lifecycle of the example repository. Each part starts in the final state of the previous
// part. It takes minutes and needs a real kustomize-controller, which make test-gitops builds.
func TestFlux(t *testing.T) {
	if os.Getenv(worldtest.FluxVariable) == "" {
		t.Skipf("%s is not set: make test-gitops runs this test", worldtest.FluxVariable)
	}
	f := newFlux(t)
	f.CommittedOn = map[string]int64{"slog": 6000, "calvin": 4000} // throughputs for which the experiment's claims hold
	part := func(name string, play func()) {
		t.Helper()
		start, outer := time.Now(), f.World.T
		ok := t.Run(name, func(t *testing.T) {
			f.World.T = t
			play()
			t.Logf("%s", time.Since(start).Round(time.Second))
		})
		if f.World.T = outer; !ok {
			t.FailNow()
		}
	}
	const kustomization, manifest = "runs/nightly/kustomization.yaml", "runs/nightly/smallbank.yaml"
	const merge = "kustomize.toolkit.fluxcd.io/ssa: Merge"
	var revision string

	part("databases go before runs", func() {
		revision = f.source.commit()
		f.await("Flux has applied the database", func() bool { return f.exists("calvin", &v1alpha1.GeoDatabase{}) })
		f.first(kustomizations.Kind, "nightly", func(u *unstructured.Unstructured) bool { return condition(u, "Ready").Reason == "DependencyNotReady" })
		f.Until("the database is ready", func() bool {
			return worldtest.ConditionIs(f.GetDatabase("calvin").Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue)
		})
		f.mustBeReady("databases", revision)
		f.mustNotPrecede("databases", revision, f.first("GeoDatabase", "calvin", isReady))
		applied := f.first("BenchmarkRun", "smallbank-0a1b2c3d", func(*unstructured.Unstructured) bool { return true })
		ready := f.first(kustomizations.Kind, "databases", isReady)
		if resourceVersion(f.World, applied) < resourceVersion(f.World, ready) {
			t.Errorf("the run was applied at %s, its database was ready at %s", applied.GetResourceVersion(), ready.GetResourceVersion())
		}
	})

	part("a suite is ready when its run has passed", func() {
		if run := f.playRun("smallbank-0a1b2c3d"); run.Status.Verdict != v1alpha1.VerdictPassed {
			t.Fatalf("the run ended %s: %s: %s", run.Status.Verdict, run.Status.Reason, run.Status.Message)
		}
		f.mustBeReady("nightly", revision)
		f.mustNotPrecede("nightly", revision, f.first("BenchmarkRun", "smallbank-0a1b2c3d", hasVerdict))
	})

	part("an experiment is ready when its claims hold", func() {
		f.Until("the experiment has ended", func() bool { return kube.Finished(f.Get("multi-home", &v1alpha1.Experiment{}).(*v1alpha1.Experiment)) })
		f.mustBeReady("multi-home", revision)
		f.mustNotPrecede("multi-home", revision, f.first("Experiment", "multi-home", isReady))
	})

	part("Flux neither marks nor prunes what the operator makes", func() {
		for _, kind := range []string{"BenchmarkRun", "GeoDatabase", "Job", "Pod", "Service", "ConfigMap", "Secret", "StatefulSet", "ServiceAccount", "Role", "NetworkPolicy"} {
			if f.childKinds[kind] == 0 {
				t.Errorf("no child of kind %s was seen: %v", kind, f.childKinds)
			}
		}
		for name, want := range map[string][]string{
			"databases":  {"bench_calvin_geobench.dev_GeoDatabase", "bench_two-coasts_geobench.dev_NetworkProfile"},
			"nightly":    {"bench_smallbank-0a1b2c3d_geobench.dev_BenchmarkRun"},
			"multi-home": {"bench_multi-home_geobench.dev_Experiment"},
		} {
			if got := f.inventory(name); !slices.Equal(got, want) {
				t.Errorf("Kustomization %s has applied %v, want %v", name, got, want)
			}
		}
	})

	part("applying the same again changes nothing", func() {
		objects := []client.Object{f.GetRun("smallbank-0a1b2c3d"), f.GetDatabase("calvin"), f.Get("multi-home", &v1alpha1.Experiment{})}
		children := f.children()
		for _, name := range []string{"databases", "nightly", "multi-home"} {
			f.reconcileNow(name, "again")
			f.mustBeReady(name, revision)
		}
		for _, before := range objects {
			now := f.Get(before.GetName(), before.DeepCopyObject().(client.Object))
			if now.GetResourceVersion() != before.GetResourceVersion() || now.GetGeneration() != before.GetGeneration() {
				t.Errorf("%s %s was changed: %v", kube.KindOf(now), now.GetName(), now.GetManagedFields())
			}
		}
		for range 3 {
			f.Step()
		}
		for key, before := range children {
			if now := f.children()[key]; now == nil || now.GetUID() != before.GetUID() {
				t.Errorf("%s is gone, or was made anew", key)
			}
		}
	})

	// askByHand does the same as `kubectl patch --type merge`. Flux recognises such a change by its field manager.
	askByHand := func(name string) {
		run := f.GetRun(name)
		base := run.DeepCopy()
		run.Spec.RunID = "by-hand"
		f.Must(f.Client.Patch(f.Ctx, run, client.MergeFrom(base), client.FieldOwner("kubectl-patch")))
		f.untilAttemptOver(name, "by-hand")
	}

	part("an attempt that was asked for by hand stays", func() {
		askByHand("smallbank-0a1b2c3d")
		before := f.GetRun("smallbank-0a1b2c3d")
		f.reconcileNow("nightly", "by hand")
		f.mustBeReady("nightly", revision)
		if now := f.GetRun("smallbank-0a1b2c3d"); now.Spec.RunID != "by-hand" || now.ResourceVersion != before.ResourceVersion {
			t.Errorf("runID is %q, resourceVersion %s, was %s", now.Spec.RunID, now.ResourceVersion, before.ResourceVersion)
		}
	})

	part("another commit makes another run and prunes the old one, and one that fails fails the suite", func() {
		f.source.replace(kustomization, "-0a1b2c3d", "-1b2c3d4e")
		f.source.replace(manifest, "{metric: latencyP99, max: 500ms}", "{metric: throughput, min: 1000000}")
		f.source.replace(manifest, "    "+merge+"\n", "")
		f.source.replace("clusters/lab/runs.yaml", "  wait: true\n", "  wait: true\n"+healthCheckExprs(t))
		revision = f.source.commit()
		f.await("there is another run, and the old one is gone", func() bool {
			return f.exists("smallbank-1b2c3d4e", &v1alpha1.BenchmarkRun{}) && !f.exists("smallbank-0a1b2c3d", &v1alpha1.BenchmarkRun{})
		})
		f.Step()
		if f.exists("smallbank-0a1b2c3d-result", &corev1.ConfigMap{}) {
			t.Error("the result of the run that was pruned is still there")
		}
		if run := f.UntilOver("smallbank-1b2c3d4e"); run.Status.Verdict != v1alpha1.VerdictFailed {
			t.Fatalf("the run ended %s: %s", run.Status.Verdict, run.Status.Message)
		}
		f.mustFailHealth("nightly", revision, "BenchmarkRun/bench/smallbank-1b2c3d4e")
		f.mustNotPrecede("nightly", revision, f.first("BenchmarkRun", "smallbank-1b2c3d4e", hasVerdict))
	})

	part("without ssa: Merge Flux takes back what was asked for by hand, and the run begins once more", func() {
		askByHand("smallbank-1b2c3d4e")
		f.request("nightly", "by hand, without Merge")
		f.await("Flux has taken the runID back", func() bool { return f.GetRun("smallbank-1b2c3d4e").Spec.RunID == "" })
		f.untilAttemptOver("smallbank-1b2c3d4e", "")
		f.mustFailHealth("nightly", revision, "BenchmarkRun/bench/smallbank-1b2c3d4e")
		f.source.replace(manifest, "    argocd.argoproj.io/sync-wave: \"1\"\n", "    argocd.argoproj.io/sync-wave: \"1\"\n    "+merge+"\n")
	})

	part("a suspended run holds its suite, and newer commits", func() {
		f.source.replace(kustomization, "-1b2c3d4e", "-2c3d4e5f")
		f.source.replace(manifest, "{metric: throughput, min: 1000000}", "{metric: latencyP99, max: 500ms}")
		f.source.replace(manifest, "spec:\n", "spec:\n  suspend: true\n")
		revision = f.source.commit()
		f.await("Flux has applied the run", func() bool { return f.exists("smallbank-2c3d4e5f", &v1alpha1.BenchmarkRun{}) })
		for range 3 {
			f.Step()
		}
		f.FluxLooks()
		if !f.waiting("nightly", revision) || f.GetRun("smallbank-2c3d4e5f").Status.Stage != "" {
			t.Errorf("Flux does not wait for the run, or the run is in stage %s", f.GetRun("smallbank-2c3d4e5f").Status.Stage)
		}
		f.source.replace(manifest, "  suspend: true\n", "")
		next := f.source.commit()
		f.FluxLooks()
		if f.waiting("nightly", next) || !f.GetRun("smallbank-2c3d4e5f").Spec.Suspend {
			t.Error("Flux has applied a newer commit while it waited: docs/gitops.md says that it does not")
		}
		revision = next
	})

	part("with CancelHealthCheckOnNewRevision it applies newer commits while it waits", func() {
		f.controller.stop()
		f.controller.start("--feature-gates=CancelHealthCheckOnNewRevision=true")
		f.await("the run may begin", func() bool { return !f.GetRun("smallbank-2c3d4e5f").Spec.Suspend })
		f.UntilStage("smallbank-2c3d4e5f", v1alpha1.StageMeasure)
		f.FluxLooks()
		f.source.replace(manifest, "spec:\n", "spec:\n  cancel: true\n")
		revision = f.source.commit()
		f.await("the run is cancelled", func() bool { return f.GetRun("smallbank-2c3d4e5f").Spec.Cancel })
		if run := f.UntilOver("smallbank-2c3d4e5f"); run.Status.Verdict != v1alpha1.VerdictInvalid {
			t.Fatalf("the run ended %s: %s", run.Status.Verdict, run.Status.Message)
		}
		f.mustFailHealth("nightly", revision, "BenchmarkRun/bench/smallbank-2c3d4e5f")
	})

	part("a run that has expired is run again, and its result outlives it", func() {
		f.source.replace(kustomization, "-2c3d4e5f", "-3d4e5f60")
		f.source.replace(manifest, "  cancel: true\n", "  ttlSecondsAfterFinished: {passed: 60}\n")
		revision = f.source.commit()
		const name = "smallbank-3d4e5f60"
		run := &v1alpha1.BenchmarkRun{}
		f.await("Flux has applied the run", func() bool { return f.exists(name, run) })
		expire := func() {
			t.Helper()
			f.UntilOver(name)
			f.mustBeReady("nightly", revision)
			f.Until("the run has expired", func() bool { return !f.exists(name, &v1alpha1.BenchmarkRun{}) })
		}
		expire()
		first := run.UID
		f.request("nightly", "expired")
		f.await("Flux has applied the run again", func() bool { return f.exists(name, run) && run.UID != first })
		expire()
		delete(f.source.files, "clusters/lab/runs.yaml")
		f.source.commit()
		f.await("the suite is gone", func() bool { return !f.hasKustomization("nightly") })
		f.Step()
		result := f.Get(name+"-result", &corev1.ConfigMap{})
		if result.GetLabels()[kube.LabelExpired] != "true" || len(result.GetOwnerReferences()) > 0 {
			t.Errorf("the result has labels %v and owners %v", result.GetLabels(), result.GetOwnerReferences())
		}
	})
}
