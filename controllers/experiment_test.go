package controllers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
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
	"github.com/geobench/geobench/controllers/results"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/health"
)

// experimentBuilder makes Experiments for tests: calvin and slog with 10 and 20 clients per region.
type experimentBuilder struct{ v1alpha1.Experiment }

const clients = "spec.load.clientsPerRegion"

func makeExperiment(name string, systems ...string) *experimentBuilder {
	b := &experimentBuilder{v1alpha1.Experiment{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	if len(systems) == 0 {
		systems = []string{"calvin", "slog"}
	}
	for _, s := range systems {
		d := makeDatabase(s)
		d.Spec.Engine.Name = s
		b.Spec.Databases = append(b.Spec.Databases, v1alpha1.ExperimentDatabase{Name: s, Template: v1alpha1.DatabaseTemplate{Spec: d.Spec}})
	}
	run := makeRun("template").duration(2 * time.Second)
	run.Spec.Load.Warmup = v1alpha1.DurationOf(time.Second)
	b.Spec.Run.Spec = v1alpha1.RunTemplateSpec{Seed: run.Spec.Seed, Workload: run.Spec.Workload, Load: run.Spec.Load}
	b.Spec.Repetitions, b.Spec.Concurrency = 1, 1
	return b.sweep(clients, 10, 20)
}

func (b *experimentBuilder) sweep(path string, values ...int) *experimentBuilder {
	p := v1alpha1.SweepParameter{Path: path, Values: []v1alpha1.SweepValue{}}
	for _, v := range values {
		p.Values = append(p.Values, intstr.FromInt(v))
	}
	b.Spec.Sweep = []v1alpha1.SweepParameter{p}
	return b
}

func (b *experimentBuilder) claim(id, expression string) *experimentBuilder {
	b.Spec.Claims = append(b.Spec.Claims, v1alpha1.Claim{ID: id, Says: "it is so", Expression: expression})
	return b
}

func (b *experimentBuilder) concurrency(n int32) *experimentBuilder { b.Spec.Concurrency = n; return b }
func (b *experimentBuilder) refs(names ...string) *experimentBuilder {
	for _, n := range names {
		b.Spec.DatabaseRefs = append(b.Spec.DatabaseRefs, v1alpha1.LocalReference{Name: n})
	}
	return b
}

func (b *experimentBuilder) obj() *v1alpha1.Experiment { return &b.Experiment }

func (w *world) getExperiment(name string) *v1alpha1.Experiment {
	w.t.Helper()
	return w.get(name, &v1alpha1.Experiment{}).(*v1alpha1.Experiment)
}

// runs of the namespace, in the order of their names.
func (w *world) runs() []v1alpha1.BenchmarkRun {
	w.t.Helper()
	list := &v1alpha1.BenchmarkRunList{}
	w.must(w.client.List(w.ctx, list, client.InNamespace(w.namespace)))
	return list.Items
}

func (w *world) databases() []v1alpha1.GeoDatabase {
	w.t.Helper()
	list := &v1alpha1.GeoDatabaseList{}
	w.must(w.client.List(w.ctx, list, client.InNamespace(w.namespace)))
	return list.Items
}

// collectOrphans plays the garbage collector for what experiments and databases own, and for results of runs.
func (w *world) collectOrphans() {
	w.t.Helper()
	// Owners are listed last: a manager that runs beside makes them before what they own.
	var dependents []client.Object
	for _, list := range []client.ObjectList{&v1alpha1.BenchmarkRunList{}, &v1alpha1.GeoDatabaseList{}, &appsv1.StatefulSetList{}, &corev1.ServiceList{}, &networkingv1.NetworkPolicyList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceAccountList{}} {
		w.must(w.client.List(w.ctx, list, client.InNamespace(w.namespace)))
		w.must(meta.EachListItem(list, func(o runtime.Object) error {
			dependents = append(dependents, o.(client.Object))
			return nil
		}))
	}
	alive := map[types.UID]client.Object{}
	experiments := &v1alpha1.ExperimentList{}
	w.must(w.client.List(w.ctx, experiments, client.InNamespace(w.namespace)))
	for i := range experiments.Items {
		alive[experiments.Items[i].UID] = &experiments.Items[i]
	}
	databases, runs := w.databases(), w.runs()
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
			continue // a run sees to all else itself
		}
		owner := alive[ref.UID]
		if owner != nil && !controllerutil.ContainsFinalizer(owner, metav1.FinalizerDeleteDependents) {
			continue
		}
		owned[ref.UID]++
		if obj.GetDeletionTimestamp() == nil {
			w.must(client.IgnoreNotFound(w.client.Delete(w.ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground))))
		}
	}
	for i := range databases {
		db := &databases[i]
		pods := &corev1.PodList{}
		w.must(w.client.List(w.ctx, pods, client.InNamespace(w.namespace), client.MatchingLabels{kube.LabelDatabase: db.Name, kube.LabelRole: kube.RoleNode}))
		if db.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(db, metav1.FinalizerDeleteDependents) || owned[db.UID] > 0 || len(pods.Items) > 0 {
			continue
		}
		base := db.DeepCopy()
		controllerutil.RemoveFinalizer(db, metav1.FinalizerDeleteDependents)
		w.must(client.IgnoreNotFound(w.client.Patch(w.ctx, db, client.MergeFrom(base))))
	}
}

// watchExperiment fails the test when more runs or databases are there than allowed.
func (w *world) watchExperiment(most int) {
	w.t.Helper()
	active := 0
	runs := w.runs()
	for i := range runs {
		if !kube.Settled(&runs[i]) {
			active++
		}
	}
	if dbs := w.databases(); active > most || len(dbs) > most {
		w.t.Fatalf("%d runs and %d databases at once, want at most %d", active, len(dbs), most)
	}
}

// untilFinished steps until the experiment has judged its claims.
func (w *world) untilFinished(name string, most int) *v1alpha1.Experiment {
	w.t.Helper()
	w.until("experiment "+name+" has finished", func() bool {
		w.watchExperiment(most)
		return kube.Finished(w.getExperiment(name))
	})
	return w.getExperiment(name)
}

func conditionOf(e *v1alpha1.Experiment, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(e.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func TestExperimentPlaysAllPoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.committedOn = map[string]int64{"slog": 10_000}
	w.create(makeExperiment("e").
		claim("faster", "min(tput('slog')) > 1.9 * max(tput('calvin'))").
		claim("slower", "tput('slog', 20) < tput('calvin', 20)").obj())
	var order []string
	running := map[string]bool{}
	w.until("the experiment has finished", func() bool {
		w.watchExperiment(1)
		e := w.getExperiment("e")
		for _, p := range e.Status.Active {
			if !slices.Contains(order, p.Point) {
				order = append(order, p.Point)
			}
			if c := conditionOf(e, v1alpha1.ConditionProgressing); c.Status == metav1.ConditionTrue && strings.Contains(c.Message, p.Point) {
				running[p.Point] = true
			}
		}
		return kube.Finished(e)
	})
	want := []string{"calvin clientsPerRegion=10", "calvin clientsPerRegion=20", "slog clientsPerRegion=10", "slog clientsPerRegion=20"}
	if !slices.Equal(order, want) || len(running) != 4 {
		t.Errorf("points ran in the order %q (%d told), want %q", order, len(running), want)
	}
	e := w.getExperiment("e")
	st := &e.Status
	if st.Points != 4 || st.Completed != 4 || st.Failed != 0 || len(st.Active) != 0 || len(st.Results) != 4 || st.StartTime == nil || st.CompletionTime == nil {
		t.Errorf("status is %+v", st)
	}
	for i, p := range st.Results {
		n := int64(2 * 2500)
		if i > 1 {
			n = 2 * 5000
		}
		if p.Point != want[i] || p.Verdict != v1alpha1.VerdictPassed || p.Attempt != 1 || p.ThroughputPerSecond == nil || *p.ThroughputPerSecond != n || *p.P50Microseconds != v1alpha1.Observed(1500) {
			t.Errorf("result %d is %+v, want %s with %d/s", i, p, want[i], n)
		}
	}
	if st.ClaimsHold != "1/2" || len(st.Claims) != 2 || !st.Claims[0].Holds || st.Claims[1].Holds || !strings.Contains(st.Claims[1].Message, "10000") {
		t.Errorf("claims %s: %+v", st.ClaimsHold, st.Claims)
	}
	for kind, c := range map[string]struct {
		status metav1.ConditionStatus
		reason string
	}{
		v1alpha1.ConditionAccepted:    {metav1.ConditionTrue, "Possible"},
		v1alpha1.ConditionProgressing: {metav1.ConditionFalse, "Completed"},
		v1alpha1.ConditionCompleted:   {metav1.ConditionTrue, "ClaimsDiffer"},
		v1alpha1.ConditionFailed:      {metav1.ConditionFalse, "ClaimsDiffer"},
	} {
		if got := conditionOf(e, kind); got.Status != c.status || got.Reason != c.reason || got.ObservedGeneration != e.Generation {
			t.Errorf("condition %s is %+v, want %+v", kind, got, c)
		}
	}
	cm := w.get(st.ReportRef.Name, &corev1.ConfigMap{}).(*corev1.ConfigMap)
	for key, text := range map[string]string{results.ReportKey: `"tput":10000`, results.ReportText: "1 of 2 claims hold"} {
		if !strings.Contains(cm.Data[key], text) {
			t.Errorf("%s does not hold %q:\n%s", key, text, cm.Data[key])
		}
	}
	if dbs := w.databases(); len(dbs) != 0 {
		t.Errorf("%d databases are left", len(dbs))
	}
	for _, run := range w.runs() {
		if !metav1.IsControlledBy(&run, e) || run.Status.Verdict != v1alpha1.VerdictPassed {
			t.Errorf("run %s ended %s", run.Name, run.Status.Verdict)
		}
	}
	if ran := w.toldOf(); ran["Normal PointCompleted"] != 4 || ran["Normal ClaimsDiffer"] != 1 {
		t.Errorf("events: %v", ran)
	}
	w.ranOnce()
}

// toldOf counts the events so far by kind and reason.
func (w *world) toldOf() map[string]int {
	out := map[string]int{}
	for {
		select {
		case e := <-w.recorder.Events:
			f := strings.Fields(e)
			out[f[0]+" "+f[1]]++
		default:
			return out
		}
	}
}

// TestExperimentOperatorDiesAfterEveryWrite: no run is repeated or lost, whatever the operator was about to do.
func TestExperimentOperatorDiesAfterEveryWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dieAfterEveryWrite()
	before := 0
	w.create(makeExperiment("e").sweep(clients, 10).claim("all", "size(tput('calvin')) == 1 && size(tput('slog')) == 1").obj())
	for range 2 {
		w.until("points have ended", func() bool { // each step ends with a death
			w.revive()
			w.watchExperiment(1)
			st := w.getExperiment("e").Status
			ended := int(st.Completed + st.Failed)
			if ended > before {
				before = ended
				return true
			}
			return false
		})
	}
	w.until("the experiment has finished", func() bool {
		w.revive()
		return kube.Finished(w.getExperiment("e"))
	})
	if st := w.getExperiment("e").Status; st.Completed != 2 || st.ClaimsHold != "1/1" {
		t.Errorf("after %d deaths: %+v", w.deaths, st)
	}
	if w.deaths < 60 {
		t.Errorf("the operator died only %d times", w.deaths)
	}
	if len(w.jobsRun) != 2*2 {
		t.Errorf("%d workers ran, want those of 2 runs in 2 regions", len(w.jobsRun))
	}
	w.ranOnce()
}

// TestExperimentIsDeleted at each number of runs that there are by then.
func TestExperimentIsDeleted(t *testing.T) {
	for n := range 4 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(makeExperiment("e").sweep(clients, 10).obj())
			if n == 3 {
				w.untilFinished("e", 1)
			} else {
				w.until("enough runs are made", func() bool { return len(w.runs()) >= n })
			}
			w.must(w.client.Delete(w.ctx, w.getExperiment("e"), client.PropagationPolicy(metav1.DeletePropagationBackground)))
			w.until("everything is gone", func() bool {
				var left []string
				for _, list := range []client.ObjectList{&v1alpha1.BenchmarkRunList{}, &v1alpha1.GeoDatabaseList{}, &corev1.ConfigMapList{},
					&corev1.PodList{}, &corev1.ServiceList{}, &appsv1.StatefulSetList{}, &batchv1.JobList{}} {
					w.must(w.client.List(w.ctx, list, client.InNamespace(w.namespace)))
					w.must(meta.EachListItem(list, func(o runtime.Object) error {
						if obj := o.(client.Object); obj.GetName() != "kube-root-ca.crt" {
							left = append(left, kube.KindOf(obj)+" "+obj.GetName())
						}
						return nil
					}))
				}
				return len(left) == 0
			})
		})
	}
}

func TestExperimentTriesInvalidRunsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeExperiment("e", "calvin").claim("c", "min(tput('calvin')) > 1.0").obj())
	failures := map[int]int{}
	var first string
	w.until("the experiment has finished", func() bool {
		w.watchExperiment(1)
		for _, run := range w.runs() {
			if first == "" {
				first = run.Name
			}
			// The first point loses a worker twice and then passes; the second one loses it each time.
			n, most := 0, 2
			if run.Name != first {
				n, most = 1, 99
			}
			if run.Status.Stage == v1alpha1.StageMeasure && failures[n] < most && len(run.Status.Conditions) > 0 {
				failures[n]++
				w.patchReport(run.Name, "us-west-2", map[string]string{deploy.KeyState: deploy.StateFailed, deploy.KeyMessage: "no connection"})
			}
		}
		return kube.Finished(w.getExperiment("e"))
	})
	e := w.getExperiment("e")
	st := &e.Status
	if st.Completed != 1 || st.Failed != 1 || len(st.Results) != 2 {
		t.Fatalf("status is %+v", st)
	}
	if p := st.Results[0]; p.Attempt != 3 || p.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("the first point ended %+v, want its third attempt to pass", p)
	}
	if p := st.Results[1]; p.Attempt != 3 || p.Verdict != v1alpha1.VerdictInvalid || p.Reason != "WorkerFailed" || p.ThroughputPerSecond != nil {
		t.Errorf("the second point ended %+v, want three attempts to be Invalid", p)
	}
	if c := st.Claims[0]; c.Holds || !strings.Contains(c.Message, "clientsPerRegion=20 could not run") {
		t.Errorf("the claim says %+v", c)
	}
	if c := conditionOf(e, v1alpha1.ConditionFailed); c.Status != metav1.ConditionTrue || c.Reason != "PointsFailed" || !strings.Contains(c.Message, "no connection") {
		t.Errorf("condition Failed is %+v", c)
	}
	if told := w.toldOf(); told["Warning PointRetried"] != 4 || told["Warning PointFailed"] != 1 || told["Warning PointsFailed"] != 1 {
		t.Errorf("events: %v", told)
	}
}

func TestExperimentWithoutOtherAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.committed = 0 // Invalid because of NoTransactions, and would be again
	w.create(makeExperiment("e", "calvin").sweep(clients, 10).obj())
	e := w.untilFinished("e", 1)
	if p := e.Status.Results[0]; p.Attempt != 1 || p.Verdict != v1alpha1.VerdictInvalid || e.Status.Completed != 1 {
		t.Errorf("the point ended %+v", p)
	}
	if c := conditionOf(e, v1alpha1.ConditionFailed); c.Status != metav1.ConditionTrue || c.Reason != "PointsInvalid" || !strings.Contains(c.Message, "NoTransactions") {
		t.Errorf("condition Failed of an experiment that claims nothing is %+v", c)
	}
	w.ranOnce()
}

// TestExperimentOverInvalidRuns: what makes a run Invalid leaves claims over it without a result, and the experiment
// has failed, unless the experiment allows the reason, which is told with the claim.
func TestExperimentOverInvalidRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.committed = 0
	gated := func(name string, allow ...string) *v1alpha1.Experiment {
		x := makeExperiment(name, "calvin").sweep(clients, 10).claim("c", "max(tput('calvin')) < 1.0 || true").obj()
		x.Spec.Gate, x.Spec.AllowInvalid = v1alpha1.GateClaims, allow
		return x
	}
	for name, allow := range map[string][]string{"refused": nil, "other": {"DriverBound"}} {
		w.create(gated(name, allow...))
		e := w.untilFinished(name, 1)
		if c := e.Status.Claims[0]; c.Holds || !strings.Contains(c.Message, "is Invalid: NoTransactions") || e.Status.ClaimsHold != "0/1" {
			t.Errorf("%s: the claim says %+v, %s", name, c, e.Status.ClaimsHold)
		}
		if c := conditionOf(e, v1alpha1.ConditionFailed); c.Status != metav1.ConditionTrue || c.Reason != "ClaimsUnanswered" {
			t.Errorf("%s: condition Failed is %+v", name, c)
		}
		if c := conditionOf(e, v1alpha1.ConditionSucceeded); c.Status != metav1.ConditionFalse {
			t.Errorf("%s: condition Succeeded is %+v", name, c)
		}
	}
	w.create(gated("allowed", "NoTransactions"))
	e := w.untilFinished("allowed", 1)
	if c := e.Status.Claims[0]; !c.Holds || !strings.Contains(c.Message, "spec.allowInvalid lets count: NoTransactions") {
		t.Errorf("allowed: the claim says %+v", c)
	}
	if c := conditionOf(e, v1alpha1.ConditionSucceeded); c.Status != metav1.ConditionTrue {
		t.Errorf("allowed: condition Succeeded is %+v", c)
	}
}

func TestExperimentWithConcurrency(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeExperiment("e", "calvin", "slog", "janus").sweep(clients, 10).concurrency(2).obj())
	most := 0
	w.until("the experiment has finished", func() bool {
		w.watchExperiment(2)
		most = max(most, len(w.getExperiment("e").Status.Active))
		return kube.Finished(w.getExperiment("e"))
	})
	if st := w.getExperiment("e").Status; st.Completed != 3 || most != 2 {
		t.Errorf("at most %d runs at once; %+v", most, st)
	}
	w.ranOnce()
}

func TestExperimentOnDatabasesThatAreThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := makeExperiment("e").refs("mine")
	e.Spec.Databases = nil
	w.create(e.claim("c", "size(tput('mine')) == 2").obj())
	w.until("the experiment says what is missing", func() bool {
		c := conditionOf(w.getExperiment("e"), v1alpha1.ConditionAccepted)
		return c.Reason == health.ReferenceNotFound && strings.Contains(c.Message, "there is no GeoDatabase mine in namespace "+w.namespace)
	})
	w.create(makeDatabase("mine").obj())
	if st := w.untilFinished("e", 1).Status; st.Completed != 2 || st.ClaimsHold != "1/1" {
		t.Errorf("status is %+v", st)
	}
	if dbs := w.databases(); len(dbs) != 1 || dbs[0].DeletionTimestamp != nil {
		t.Errorf("the database is not what it was: %+v", dbs)
	}
}

// TestExperimentIsRefused: what the API server cannot know is told in the status, with the field and what would be
// right.
func TestExperimentIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	numbers := func(n int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = i + 1
		}
		return out
	}
	big := makeExperiment("big", "calvin").sweep("spec.load.clientsPerRegion", numbers(1000)...)
	big.Spec.Sweep = append(big.Spec.Sweep, makeExperiment("x").sweep("spec.seed", numbers(11)...).Spec.Sweep...)
	profile := makeExperiment("profile", "calvin")
	profile.Spec.Databases[0].Template.Spec.Network = v1alpha1.Network{Emulation: v1alpha1.EmulationAuto, ProfileRef: &v1alpha1.LocalReference{Name: "nowhere"}}
	for name, tt := range map[string]struct {
		e       *experimentBuilder
		message []string
	}{
		"path":      {makeExperiment("path").sweep("spec.load.clients", 1), []string{"spec.sweep[0].path", "clientsPerRegion"}},
		"value":     {makeExperiment("value").sweep(clients, 10, 0), []string{"spec.sweep[0].values[1]", "clientsPerRegion"}},
		"twice":     {makeExperiment("twice").sweep(clients, 10, 10), []string{"spec.sweep[0].values[1]", "listed twice"}},
		"big":       {big, []string{"spec.sweep", "11000 points", "at most 10000"}},
		"compile":   {makeExperiment("compile").claim("c", "tput('calvin' > 1"), []string{"spec.claims[0].expression", "does not compile"}},
		"system":    {makeExperiment("system").claim("c", "max(tput('calvn')) > 1.0"), []string{"spec.claims[0].expression", "did you mean calvin"}},
		"parameter": {makeExperiment("parameter").claim("c", "tput('calvin', 21) > 1.0"), []string{"spec.claims[0].expression", "10, 20"}},
		"profile":   {profile, []string{"spec.databases[0].template", "nowhere", "namespace"}},
	} {
		w.create(tt.e.obj())
		w.until(name+" is refused", func() bool {
			return conditionOf(w.getExperiment(name), v1alpha1.ConditionAccepted).Status == metav1.ConditionFalse
		})
		e := w.getExperiment(name)
		for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionFailed} {
			c := conditionOf(e, kind)
			for _, part := range tt.message {
				reason := "InvalidSpec"
				if name == "profile" { // it may be applied yet
					reason = health.ReferenceNotFound
				}
				if c.Reason != reason || !strings.Contains(c.Message, part) {
					t.Errorf("%s: condition %s says %s: %s\nwant %s: %q", name, kind, c.Reason, c.Message, reason, part)
				}
			}
		}
		if e.Status.ObservedGeneration != e.Generation {
			t.Errorf("%s: observed generation is %d", name, e.Status.ObservedGeneration)
		}
	}
	if n := len(w.runs()) + len(w.databases()); n != 0 {
		t.Errorf("%d objects were made", n)
	}
	empty := makeExperiment("empty").sweep(clients).obj()
	empty.Namespace = w.namespace
	if err := w.client.Create(w.ctx, empty); err == nil || !strings.Contains(err.Error(), "list at least one value") {
		t.Errorf("an empty product is refused with %v", err)
	}
}

// An operator that ended while it worked on a spec leaves a mark. The next one does that work alone, and when it ends
// as well nobody tries again, until the spec changes: one experiment cannot keep the operator from everything else.
func TestExperimentThatEndedOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeExperiment("e").sweep(clients, 10).claim("all", "1 < 2").obj())
	another := func(attempts int32) {
		t.Helper()
		e := w.getExperiment("e")
		e.Status.Checks[0].Attempts, e.Status.Checks[0].Operator = attempts, "another"
		w.must(w.client.Status().Update(w.ctx, e))
		w.restartOperator()
	}
	accepted := func() *metav1.Condition {
		return meta.FindStatusCondition(w.getExperiment("e").Status.Conditions, v1alpha1.ConditionAccepted)
	}
	w.until("the spec was expanded", func() bool { return accepted() != nil })
	another(1)
	w.step()
	if c := accepted(); c.Status != metav1.ConditionTrue || w.getExperiment("e").Status.Checks[0].Attempts != 0 {
		t.Errorf("after the end of one operator: %+v, %+v", c, w.getExperiment("e").Status.Checks)
	}
	another(2)
	for range 3 { // it stays so
		w.until("the spec is refused", func() bool { return accepted().Status == metav1.ConditionFalse })
		if c := accepted(); c.Reason != "OperatorEnded" || w.getExperiment("e").Status.Checks[0].Attempts != 2 {
			t.Errorf("after the end of two operators: %+v", c)
		}
		w.restartOperator()
		w.step()
	}
	e := w.getExperiment("e")
	e.Spec.Claims[0].Expression = "1 < 3"
	w.must(w.client.Update(w.ctx, e))
	w.until("the new spec was expanded", func() bool { return accepted().Status == metav1.ConditionTrue })
	w.until("the experiment has finished", func() bool { return kube.Finished(w.getExperiment("e")) })
	if st := w.getExperiment("e").Status; st.Checks != nil || st.ClaimsHold != "1/1" {
		t.Errorf("the experiment ended with %+v, %s of its claims", st.Checks, st.ClaimsHold)
	}
}
