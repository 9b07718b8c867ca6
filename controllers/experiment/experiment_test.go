package experiment_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/results"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/health"
)

func TestExperimentPlaysAllPoints(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.CommittedOn = map[string]int64{"slog": 10_000}
	w.Create(worldtest.MakeExperiment("e").
		Claim("faster", "min(tput('slog')) > 1.9 * max(tput('calvin'))").
		Claim("slower", "tput('slog', 20) < tput('calvin', 20)").Obj())
	var order []string
	running := map[string]bool{}
	w.Until("the experiment has finished", func() bool {
		w.WatchExperiment(1)
		e := w.GetExperiment("e")
		for _, p := range e.Status.Active {
			if !slices.Contains(order, p.Point) {
				order = append(order, p.Point)
			}
			if c := worldtest.ConditionOf(e, v1alpha1.ConditionProgressing); c.Status == metav1.ConditionTrue && strings.Contains(c.Message, p.Point) {
				running[p.Point] = true
			}
		}
		return kube.Finished(e)
	})
	want := []string{"calvin clientsPerRegion=10", "calvin clientsPerRegion=20", "slog clientsPerRegion=10", "slog clientsPerRegion=20"}
	if !slices.Equal(order, want) || len(running) != 4 {
		t.Errorf("points ran in the order %q (%d told), want %q", order, len(running), want)
	}
	e := w.GetExperiment("e")
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
		if got := worldtest.ConditionOf(e, kind); got.Status != c.status || got.Reason != c.reason || got.ObservedGeneration != e.Generation {
			t.Errorf("condition %s is %+v, want %+v", kind, got, c)
		}
	}
	cm := w.Get(st.ReportRef.Name, &corev1.ConfigMap{}).(*corev1.ConfigMap)
	for key, text := range map[string]string{results.ReportKey: `"tput":10000`, results.ReportText: "1 of 2 claims hold"} {
		if !strings.Contains(cm.Data[key], text) {
			t.Errorf("%s does not hold %q:\n%s", key, text, cm.Data[key])
		}
	}
	if dbs := w.Databases(); len(dbs) != 0 {
		t.Errorf("%d databases are left", len(dbs))
	}
	for _, run := range w.Runs() {
		if !metav1.IsControlledBy(&run, e) || run.Status.Verdict != v1alpha1.VerdictPassed {
			t.Errorf("run %s ended %s", run.Name, run.Status.Verdict)
		}
	}
	if ran := w.ToldOf(); ran["Normal PointCompleted"] != 4 || ran["Normal ClaimsDiffer"] != 1 {
		t.Errorf("events: %v", ran)
	}
	w.RanOnce()
}

// TestExperimentOperatorDiesAfterEveryWrite: no run is repeated or lost, whatever the operator was about to do.
func TestExperimentOperatorDiesAfterEveryWrite(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.DieAfterEveryWrite()
	before := 0
	w.Create(worldtest.MakeExperiment("e").Sweep(worldtest.Clients, 10).Claim("all", "size(tput('calvin')) == 1 && size(tput('slog')) == 1").Obj())
	for range 2 {
		w.Until("points have ended", func() bool { // each step ends with the operator's death
			w.Revive()
			w.WatchExperiment(1)
			st := w.GetExperiment("e").Status
			ended := int(st.Completed + st.Failed)
			if ended > before {
				before = ended
				return true
			}
			return false
		})
	}
	w.Until("the experiment has finished", func() bool {
		w.Revive()
		return kube.Finished(w.GetExperiment("e"))
	})
	if st := w.GetExperiment("e").Status; st.Completed != 2 || st.ClaimsHold != "1/1" {
		t.Errorf("after %d deaths: %+v", w.Deaths, st)
	}
	if w.Deaths < 60 {
		t.Errorf("the operator died only %d times", w.Deaths)
	}
	if len(w.JobsRun) != 2*2 {
		t.Errorf("%d workers ran, want those of 2 runs in 2 regions", len(w.JobsRun))
	}
	w.RanOnce()
}

// TestExperimentIsDeleted deletes an experiment after each possible number of created runs.
func TestExperimentIsDeleted(t *testing.T) {
	for n := range 4 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Create(worldtest.MakeExperiment("e").Sweep(worldtest.Clients, 10).Obj())
			if n == 3 {
				w.UntilFinished("e", 1)
			} else {
				w.Until("enough runs are made", func() bool { return len(w.Runs()) >= n })
			}
			w.Must(w.Client.Delete(w.Ctx, w.GetExperiment("e"), client.PropagationPolicy(metav1.DeletePropagationBackground)))
			w.Until("everything is gone", func() bool {
				var left []string
				for _, list := range []client.ObjectList{&v1alpha1.BenchmarkRunList{}, &v1alpha1.GeoDatabaseList{}, &corev1.ConfigMapList{},
					&corev1.PodList{}, &corev1.ServiceList{}, &appsv1.StatefulSetList{}, &batchv1.JobList{}} {
					w.Must(w.Client.List(w.Ctx, list, client.InNamespace(w.Namespace)))
					w.Must(meta.EachListItem(list, func(o runtime.Object) error {
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
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeExperiment("e", "calvin").Claim("c", "min(tput('calvin')) > 1.0").Obj())
	failures := map[int]int{}
	var first string
	w.Until("the experiment has finished", func() bool {
		w.WatchExperiment(1)
		for _, run := range w.Runs() {
			if first == "" {
				first = run.Name
			}
			// The first point loses a worker twice and then passes; the second point loses a worker each time.
			n, most := 0, 2
			if run.Name != first {
				n, most = 1, 99
			}
			if run.Status.Stage == v1alpha1.StageMeasure && failures[n] < most && len(run.Status.Conditions) > 0 {
				failures[n]++
				w.PatchReport(run.Name, "us-west-2", map[string]string{deploy.KeyState: deploy.StateFailed, deploy.KeyMessage: "no connection"})
			}
		}
		return kube.Finished(w.GetExperiment("e"))
	})
	e := w.GetExperiment("e")
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
	if c := worldtest.ConditionOf(e, v1alpha1.ConditionFailed); c.Status != metav1.ConditionTrue || c.Reason != "PointsFailed" || !strings.Contains(c.Message, "no connection") {
		t.Errorf("condition Failed is %+v", c)
	}
	if told := w.ToldOf(); told["Warning PointRetried"] != 4 || told["Warning PointFailed"] != 1 || told["Warning PointsFailed"] != 1 {
		t.Errorf("events: %v", told)
	}
}

func TestExperimentWithoutOtherAttempts(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Committed = 0 // Invalid because of NoTransactions, so a retry is useless
	w.Create(worldtest.MakeExperiment("e", "calvin").Sweep(worldtest.Clients, 10).Obj())
	e := w.UntilFinished("e", 1)
	if p := e.Status.Results[0]; p.Attempt != 1 || p.Verdict != v1alpha1.VerdictInvalid || e.Status.Completed != 1 {
		t.Errorf("the point ended %+v", p)
	}
	if c := worldtest.ConditionOf(e, v1alpha1.ConditionFailed); c.Status != metav1.ConditionTrue || c.Reason != "PointsInvalid" || !strings.Contains(c.Message, "NoTransactions") {
		t.Errorf("condition Failed of an experiment that claims nothing is %+v", c)
	}
	w.RanOnce()
}

// TestExperimentOverInvalidRuns: a claim over an Invalid run has no result, and the experiment fails. If the experiment
// allows the reason of the verdict, it does not fail, and the claim's status names the reason.
func TestExperimentOverInvalidRuns(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Committed = 0
	gated := func(name string, allow ...string) *v1alpha1.Experiment {
		x := worldtest.MakeExperiment(name, "calvin").Sweep(worldtest.Clients, 10).Claim("c", "max(tput('calvin')) < 1.0 || true").Obj()
		x.Spec.Gate, x.Spec.AllowInvalid = v1alpha1.GateClaims, allow
		return x
	}
	for name, allow := range map[string][]string{"refused": nil, "other": {"DriverBound"}} {
		w.Create(gated(name, allow...))
		e := w.UntilFinished(name, 1)
		if c := e.Status.Claims[0]; c.Holds || !strings.Contains(c.Message, "is Invalid: NoTransactions") || e.Status.ClaimsHold != "0/1" {
			t.Errorf("%s: the claim says %+v, %s", name, c, e.Status.ClaimsHold)
		}
		if c := worldtest.ConditionOf(e, v1alpha1.ConditionFailed); c.Status != metav1.ConditionTrue || c.Reason != "ClaimsUnanswered" {
			t.Errorf("%s: condition Failed is %+v", name, c)
		}
		if c := worldtest.ConditionOf(e, v1alpha1.ConditionSucceeded); c.Status != metav1.ConditionFalse {
			t.Errorf("%s: condition Succeeded is %+v", name, c)
		}
	}
	w.Create(gated("allowed", "NoTransactions"))
	e := w.UntilFinished("allowed", 1)
	if c := e.Status.Claims[0]; !c.Holds || !strings.Contains(c.Message, "spec.allowInvalid lets count: NoTransactions") {
		t.Errorf("allowed: the claim says %+v", c)
	}
	if c := worldtest.ConditionOf(e, v1alpha1.ConditionSucceeded); c.Status != metav1.ConditionTrue {
		t.Errorf("allowed: condition Succeeded is %+v", c)
	}
}

func TestExperimentWithConcurrency(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeExperiment("e", "calvin", "slog", "janus").Sweep(worldtest.Clients, 10).Concurrency(2).Obj())
	most := 0
	w.Until("the experiment has finished", func() bool {
		w.WatchExperiment(2)
		most = max(most, len(w.GetExperiment("e").Status.Active))
		return kube.Finished(w.GetExperiment("e"))
	})
	if st := w.GetExperiment("e").Status; st.Completed != 3 || most != 2 {
		t.Errorf("at most %d runs at once; %+v", most, st)
	}
	w.RanOnce()
}

func TestExperimentOnDatabasesThatAreThere(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	e := worldtest.MakeExperiment("e").Refs("mine")
	e.Spec.Databases = nil
	w.Create(e.Claim("c", "size(tput('mine')) == 2").Obj())
	w.Until("the experiment says what is missing", func() bool {
		c := worldtest.ConditionOf(w.GetExperiment("e"), v1alpha1.ConditionAccepted)
		return c.Reason == health.ReferenceNotFound && strings.Contains(c.Message, "there is no GeoDatabase mine in namespace "+w.Namespace)
	})
	w.Create(worldtest.MakeDatabase("mine").Obj())
	if st := w.UntilFinished("e", 1).Status; st.Completed != 2 || st.ClaimsHold != "1/1" {
		t.Errorf("status is %+v", st)
	}
	if dbs := w.Databases(); len(dbs) != 1 || dbs[0].DeletionTimestamp != nil {
		t.Errorf("the database is not what it was: %+v", dbs)
	}
}

// TestExperimentIsRefused: the status reports errors that the API server cannot detect, with the field and the right
// value.
func TestExperimentIsRefused(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	numbers := func(n int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = i + 1
		}
		return out
	}
	big := worldtest.MakeExperiment("big", "calvin").Sweep("spec.load.clientsPerRegion", numbers(1000)...)
	big.Spec.Sweep = append(big.Spec.Sweep, worldtest.MakeExperiment("x").Sweep("spec.seed", numbers(11)...).Spec.Sweep...)
	profile := worldtest.MakeExperiment("profile", "calvin")
	profile.Spec.Databases[0].Template.Spec.Network = v1alpha1.Network{Emulation: v1alpha1.EmulationAuto, ProfileRef: &v1alpha1.LocalReference{Name: "nowhere"}}
	for name, tt := range map[string]struct {
		e       *worldtest.ExperimentBuilder
		message []string
	}{
		"path":      {worldtest.MakeExperiment("path").Sweep("spec.load.clients", 1), []string{"spec.sweep[0].path", "clientsPerRegion"}},
		"value":     {worldtest.MakeExperiment("value").Sweep(worldtest.Clients, 10, 0), []string{"spec.sweep[0].values[1]", "clientsPerRegion"}},
		"twice":     {worldtest.MakeExperiment("twice").Sweep(worldtest.Clients, 10, 10), []string{"spec.sweep[0].values[1]", "listed twice"}},
		"big":       {big, []string{"spec.sweep", "11000 points", "at most 10000"}},
		"compile":   {worldtest.MakeExperiment("compile").Claim("c", "tput('calvin' > 1"), []string{"spec.claims[0].expression", "does not compile"}},
		"system":    {worldtest.MakeExperiment("system").Claim("c", "max(tput('calvn')) > 1.0"), []string{"spec.claims[0].expression", "did you mean calvin"}},
		"parameter": {worldtest.MakeExperiment("parameter").Claim("c", "tput('calvin', 21) > 1.0"), []string{"spec.claims[0].expression", "10, 20"}},
		"profile":   {profile, []string{"spec.databases[0].template", "nowhere", "namespace"}},
	} {
		w.Create(tt.e.Obj())
		w.Until(name+" is refused", func() bool {
			return worldtest.ConditionOf(w.GetExperiment(name), v1alpha1.ConditionAccepted).Status == metav1.ConditionFalse
		})
		e := w.GetExperiment(name)
		for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionFailed} {
			c := worldtest.ConditionOf(e, kind)
			for _, part := range tt.message {
				reason := "InvalidSpec"
				if name == "profile" { // the profile may be created later
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
	if n := len(w.Runs()) + len(w.Databases()); n != 0 {
		t.Errorf("%d objects were made", n)
	}
	empty := worldtest.MakeExperiment("empty").Sweep(worldtest.Clients).Obj()
	empty.Namespace = w.Namespace
	if err := w.Client.Create(w.Ctx, empty); err == nil || !strings.Contains(err.Error(), "list at least one value") {
		t.Errorf("an empty product is refused with %v", err)
	}
}

// An operator that exits while it works on a spec leaves a record. The next operator does that work with no other such
// work in progress. If that operator exits as well, the work is not retried until the spec changes. So an experiment
// cannot block all other work of the operator.
func TestExperimentThatEndedOperators(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeExperiment("e").Sweep(worldtest.Clients, 10).Claim("all", "1 < 2").Obj())
	another := func(attempts int32) {
		t.Helper()
		e := w.GetExperiment("e")
		e.Status.Checks[0].Attempts, e.Status.Checks[0].Operator = attempts, "another"
		w.Must(w.Client.Status().Update(w.Ctx, e))
		w.RestartOperator()
	}
	accepted := func() *metav1.Condition {
		return meta.FindStatusCondition(w.GetExperiment("e").Status.Conditions, v1alpha1.ConditionAccepted)
	}
	w.Until("the spec was expanded", func() bool { return accepted() != nil })
	another(1)
	w.Step()
	if c := accepted(); c.Status != metav1.ConditionTrue || w.GetExperiment("e").Status.Checks[0].Attempts != 0 {
		t.Errorf("after the end of one operator: %+v, %+v", c, w.GetExperiment("e").Status.Checks)
	}
	another(2)
	for range 3 { // the refusal is permanent
		w.Until("the spec is refused", func() bool { return accepted().Status == metav1.ConditionFalse })
		if c := accepted(); c.Reason != "OperatorEnded" || w.GetExperiment("e").Status.Checks[0].Attempts != 2 {
			t.Errorf("after the end of two operators: %+v", c)
		}
		w.RestartOperator()
		w.Step()
	}
	e := w.GetExperiment("e")
	e.Spec.Claims[0].Expression = "1 < 3"
	w.Must(w.Client.Update(w.Ctx, e))
	w.Until("the new spec was expanded", func() bool { return accepted().Status == metav1.ConditionTrue })
	w.Until("the experiment has finished", func() bool { return kube.Finished(w.GetExperiment("e")) })
	if st := w.GetExperiment("e").Status; st.Checks != nil || st.ClaimsHold != "1/1" {
		t.Errorf("the experiment ended with %+v, %s of its claims", st.Checks, st.ClaimsHold)
	}
}
