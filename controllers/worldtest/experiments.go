package worldtest

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
)

// ExperimentBuilder builds Experiments for tests. By default, they compare calvin and slog with 10 and 20 clients per
// region.
type ExperimentBuilder struct{ v1alpha1.Experiment }

const Clients = "spec.load.clientsPerRegion"

func MakeExperiment(name string, systems ...string) *ExperimentBuilder {
	b := &ExperimentBuilder{v1alpha1.Experiment{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	if len(systems) == 0 {
		systems = []string{"calvin", "slog"}
	}
	for _, s := range systems {
		d := MakeDatabase(s)
		d.Spec.Engine.Name = s
		b.Spec.Databases = append(b.Spec.Databases, v1alpha1.ExperimentDatabase{Name: s, Template: v1alpha1.DatabaseTemplate{Spec: d.Spec}})
	}
	run := MakeRun("template").Duration(2 * time.Second)
	run.Spec.Load.Warmup = v1alpha1.DurationOf(time.Second)
	b.Spec.Run.Spec = v1alpha1.RunTemplateSpec{Seed: run.Spec.Seed, Workload: run.Spec.Workload, Load: run.Spec.Load}
	b.Spec.Repetitions, b.Spec.Concurrency = 1, 1
	return b.Sweep(Clients, 10, 20)
}

func (b *ExperimentBuilder) Sweep(path string, values ...int) *ExperimentBuilder {
	p := v1alpha1.SweepParameter{Path: path, Values: []v1alpha1.SweepValue{}}
	for _, v := range values {
		p.Values = append(p.Values, intstr.FromInt(v))
	}
	b.Spec.Sweep = []v1alpha1.SweepParameter{p}
	return b
}

func (b *ExperimentBuilder) Claim(id, expression string) *ExperimentBuilder {
	b.Spec.Claims = append(b.Spec.Claims, v1alpha1.Claim{ID: id, Says: "it is so", Expression: expression})
	return b
}

func (b *ExperimentBuilder) Concurrency(n int32) *ExperimentBuilder { b.Spec.Concurrency = n; return b }

func (b *ExperimentBuilder) Refs(names ...string) *ExperimentBuilder {
	for _, n := range names {
		b.Spec.DatabaseRefs = append(b.Spec.DatabaseRefs, v1alpha1.LocalReference{Name: n})
	}
	return b
}

func (b *ExperimentBuilder) Obj() *v1alpha1.Experiment { return &b.Experiment }

func (w *World) GetExperiment(name string) *v1alpha1.Experiment {
	w.T.Helper()
	return w.Get(name, &v1alpha1.Experiment{}).(*v1alpha1.Experiment)
}

// Runs returns the runs of the namespace, sorted by name.
func (w *World) Runs() []v1alpha1.BenchmarkRun {
	w.T.Helper()
	list := &v1alpha1.BenchmarkRunList{}
	w.Must(w.Client.List(w.Ctx, list, client.InNamespace(w.Namespace)))
	return list.Items
}

func (w *World) Databases() []v1alpha1.GeoDatabase {
	w.T.Helper()
	list := &v1alpha1.GeoDatabaseList{}
	w.Must(w.Client.List(w.Ctx, list, client.InNamespace(w.Namespace)))
	return list.Items
}

// collectOrphans simulates the garbage collector for objects that experiments and databases own, and for results of
// runs.
func (w *World) collectOrphans() {
	w.T.Helper()
	// List owners last: a concurrent manager creates them before the objects that they own.
	var dependents []client.Object
	for _, list := range []client.ObjectList{&v1alpha1.BenchmarkRunList{}, &v1alpha1.GeoDatabaseList{}, &appsv1.StatefulSetList{}, &corev1.ServiceList{}, &networkingv1.NetworkPolicyList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceAccountList{}} {
		w.Must(w.Client.List(w.Ctx, list, client.InNamespace(w.Namespace)))
		w.Must(meta.EachListItem(list, func(o runtime.Object) error {
			dependents = append(dependents, o.(client.Object))
			return nil
		}))
	}
	alive := map[types.UID]client.Object{}
	experiments := &v1alpha1.ExperimentList{}
	w.Must(w.Client.List(w.Ctx, experiments, client.InNamespace(w.Namespace)))
	for i := range experiments.Items {
		alive[experiments.Items[i].UID] = &experiments.Items[i]
	}
	databases, runs := w.Databases(), w.Runs()
	for i := range databases {
		alive[databases[i].UID] = &databases[i]
	}
	for i := range runs {
		alive[runs[i].UID] = &runs[i]
	}
	owned := map[types.UID]int{}
	for _, obj := range dependents {
		ref := metav1.GetControllerOf(obj)
		if ref == nil || ref.Kind != "Experiment" && ref.Kind != "GeoDatabase" && !slices.Contains([]string{kube.RoleResult, kube.RoleFunctionalTest}, obj.GetLabels()[kube.LabelRole]) {
			continue // a run deletes its other objects itself
		}
		owner := alive[ref.UID]
		if owner != nil && !controllerutil.ContainsFinalizer(owner, metav1.FinalizerDeleteDependents) {
			continue
		}
		owned[ref.UID]++
		if obj.GetDeletionTimestamp() == nil {
			w.Must(client.IgnoreNotFound(w.Client.Delete(w.Ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground))))
		}
	}
	for i := range databases {
		db := &databases[i]
		pods := &corev1.PodList{}
		w.Must(w.Client.List(w.Ctx, pods, client.InNamespace(w.Namespace), client.MatchingLabels{kube.LabelDatabase: db.Name, kube.LabelRole: kube.RoleNode}))
		if db.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(db, metav1.FinalizerDeleteDependents) || owned[db.UID] > 0 || len(pods.Items) > 0 {
			continue
		}
		base := db.DeepCopy()
		controllerutil.RemoveFinalizer(db, metav1.FinalizerDeleteDependents)
		w.Must(client.IgnoreNotFound(w.Client.Patch(w.Ctx, db, client.MergeFrom(base))))
	}
}

// WatchExperiment fails the test if more than most runs are active or more than most databases exist.
func (w *World) WatchExperiment(most int) {
	w.T.Helper()
	active := 0
	runs := w.Runs()
	for i := range runs {
		if !kube.Settled(&runs[i]) {
			active++
		}
	}
	if dbs := w.Databases(); active > most || len(dbs) > most {
		w.T.Fatalf("%d runs and %d databases at once, want at most %d", active, len(dbs), most)
	}
}

// UntilFinished steps until the experiment has evaluated its claims.
func (w *World) UntilFinished(name string, most int) *v1alpha1.Experiment {
	w.T.Helper()
	w.Until("experiment "+name+" has finished", func() bool {
		w.WatchExperiment(most)
		return kube.Finished(w.GetExperiment(name))
	})
	return w.GetExperiment(name)
}

func ConditionOf(e *v1alpha1.Experiment, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(e.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// ToldOf returns the number of events since the last call, by kind and reason.
func (w *World) ToldOf() map[string]int {
	out := map[string]int{}
	for {
		select {
		case e := <-w.Recorder.Events:
			f := strings.Fields(e)
			out[f[0]+" "+f[1]]++
		default:
			return out
		}
	}
}
