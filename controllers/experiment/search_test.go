package experiment

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/background"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/results"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/result"
)

const searching = `apiVersion: geobench.dev/v1alpha1
kind: Experiment
metadata: {name: peak, namespace: test, uid: "1"}
spec:
  databases:
    - name: slog
      template:
        spec:
          engine: {name: slog}
          regions: [{name: a}, {name: b}]
          network: {profile: {intraRegion: {rtt: 400us}, links: [{from: a, to: b, rtt: 20ms}]}}
  run:
    spec:
      workload: {micro: {itemsPerPartition: 10000}}
      load: {arrival: Poisson, ratePerSecond: 100, clientsPerRegion: 1000, warmup: 1s, duration: 10s}
      objectives: [{metric: latencyP99, max: 100ms}]
  sweep:
    - {path: spec.workload.micro.globalPercent, values: [0, 50]}
  search: {maxRatePerSecond: 1600, tolerancePercent: 100, peakPercents: [100, 75]}
  claims:
    - {id: c-1, says: locals alone have the higher peak, expression: "offered('slog', {'globalPercent': 0, 'peakPercent': 100}) > offered('slog', {'globalPercent': 50, 'peakPercent': 100})"}
`

// searchWorld is a simulated cluster in which runs finish as soon as they are created, and the operator dies after each
// reconciliation.
type searchWorld struct {
	t      *testing.T
	client client.WithWatch
	jobs   *background.Runner
	// ends returns the final status of a run.
	ends func(*v1alpha1.BenchmarkRun) v1alpha1.BenchmarkRunStatus
	// played lists the runs in the order of their creation.
	played []string
}

func newSearchWorld(t *testing.T, text string, ends func(*v1alpha1.BenchmarkRun) v1alpha1.BenchmarkRunStatus) *searchWorld {
	t.Helper()
	b, err := manifest.Load(strings.NewReader(text), check.Default(nil), "-")
	if err != nil {
		t.Fatal(err)
	}
	e := b.Experiments[0]
	e.Generation, e.Namespace, e.UID = 1, "test", "1"
	c := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithStatusSubresource(&v1alpha1.Experiment{}, &v1alpha1.BenchmarkRun{}).WithObjects(e).Build()
	return &searchWorld{t: t, client: c, jobs: background.NewRunner(), ends: ends}
}

// step reconciles once, and finishes the created runs.
func (w *searchWorld) step() *v1alpha1.Experiment {
	w.t.Helper()
	r := &Reconciler{Client: w.client, Live: w.client, Abilities: check.Default(nil), Jobs: w.jobs, Judgements: background.NewBudget(1),
		Events: events.NewFakeRecorder(1000), Clock: testclock.NewFakePassiveClock(time.Unix(0, 0))}
	name := types.NamespacedName{Namespace: "test", Name: "peak"}
	for range 2 { // the first pass expands the spec
		if _, err := r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: name}); err != nil {
			w.t.Fatal(err)
		}
		w.jobs.Wait()
	}
	runs := &v1alpha1.BenchmarkRunList{}
	w.must(w.client.List(w.t.Context(), runs))
	underway := 0
	for i := range runs.Items {
		run := &runs.Items[i]
		if kube.Over(run) {
			continue
		}
		underway++
		w.played = append(w.played, fmt.Sprintf("%d%% at %d/s seed %d", run.Spec.Workload.Micro.GlobalPercent, run.Spec.Load.RatePerSecond, run.Spec.Seed))
		run.Status = w.ends(run)
		w.must(w.client.Status().Update(w.t.Context(), run))
		w.keep(run)
	}
	if underway > 1 {
		w.t.Errorf("%d runs were under way at once", underway)
	}
	e := &v1alpha1.Experiment{}
	w.must(w.client.Get(w.t.Context(), name, e))
	return e
}

func (w *searchWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// keep stores the result of a run if it has one.
func (w *searchWorld) keep(run *v1alpha1.BenchmarkRun) {
	w.t.Helper()
	if run.Status.ReportRef == nil {
		return
	}
	d := &result.Document{APIVersion: result.APIVersion, Kind: result.Kind, Name: run.Name, Verdict: run.Status.Verdict}
	if run.Status.Reason != "" {
		d.Reasons = []result.Reason{{Reason: run.Status.Reason, Message: run.Status.Message}}
	}
	d.Summary.Committed, d.Summary.ThroughputPerSecond, d.Summary.OfferedPerSecond = 1, run.Status.Summary.ThroughputPerSecond, run.Status.Summary.OfferedPerSecond
	text, err := json.Marshal(d)
	w.must(err)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: run.Status.ReportRef.Name, Namespace: "test", Labels: map[string]string{kube.LabelAttempt: kube.Attempt(run)}},
		Data: map[string]string{results.Key: string(text)}}
	w.must(kube.EnsureCreated(w.t.Context(), w.client, w.client, run, cm))
}

// finish steps until the experiment has finished.
func (w *searchWorld) finish() *v1alpha1.Experiment {
	w.t.Helper()
	for range 100 {
		e := w.step()
		if kube.Finished(e) {
			return e
		}
	}
	w.t.Fatal("the experiment does not finish")
	return nil
}

// ended returns the final status of a run. If the run's rate is above peak, the run misses its objective for p99.
func ended(run *v1alpha1.BenchmarkRun, peak int64) v1alpha1.BenchmarkRunStatus {
	rate := run.Spec.Load.RatePerSecond
	st := v1alpha1.BenchmarkRunStatus{Stage: v1alpha1.StageCompleted, Verdict: v1alpha1.VerdictPassed, ReportRef: &v1alpha1.LocalReference{Name: run.Name + "-result"},
		Summary: &v1alpha1.RunSummary{ThroughputPerSecond: 2 * rate, OfferedPerSecond: 2 * rate}}
	if rate > peak {
		st.Verdict, st.Reason, st.Message = v1alpha1.VerdictFailed, result.ReasonObjectiveMissed, "latencyP99 <= 100ms: measured 2s"
	}
	return st
}

// TestSearchIsPlayed: probes run in order on one database, although each operator knows only the existing objects. Then
// the points run at their shares of the peak.
func TestSearchIsPlayed(t *testing.T) {
	w := newSearchWorld(t, searching, func(run *v1alpha1.BenchmarkRun) v1alpha1.BenchmarkRunStatus {
		return ended(run, map[int32]int64{0: 900, 50: 250}[run.Spec.Workload.Micro.GlobalPercent])
	})
	first := w.step()
	if c := meta.FindStatusCondition(first.Status.Conditions, v1alpha1.ConditionAccepted); c == nil || c.Message != "Valid: 4 points at all rates of 2 searches, and 1 claim" {
		t.Errorf("accepted is %+v", c)
	}
	if st := first.Status; len(st.Searches) != 2 || st.Searches[0].Reason != v1alpha1.SearchGoesOn || st.Searches[0].Point != "slog globalPercent=0" {
		t.Errorf("searches begin as %+v", st.Searches)
	}
	st := w.finish().Status
	for i, s := range []v1alpha1.SearchStatus{
		{Point: "slog globalPercent=0", Reason: v1alpha1.SearchFound, PeakRatePerSecond: 800, Probes: 5,
			Message: "800/s in each region is kept, 1600/s is missed; 400 keeps, 800 keeps, 1600 misses, 800 keeps, 1600 misses"},
		{Point: "slog globalPercent=50", Reason: v1alpha1.SearchFound, PeakRatePerSecond: 200, Probes: 5,
			Message: "200/s in each region is kept, 400/s is missed; 400 misses, 100 keeps, 200 keeps, 200 keeps, 400 misses"},
	} {
		if st.Searches[i] != s {
			t.Errorf("search %d ended as %+v, want %+v", i, st.Searches[i], s)
		}
	}
	for _, p := range []string{"0% at 600/s seed 1", "50% at 150/s seed 1"} {
		if !slices.Contains(w.played[2:], p) {
			t.Errorf("the share of a peak, %s, was not played: %v", p, w.played)
		}
	}
	if len(w.played) != int(st.Points) || st.Completed != st.Points || st.Failed != 0 || st.ClaimsHold != "1/1" {
		t.Errorf("%d runs were made; the status is %+v", len(w.played), st)
	}
	sorted := slices.Sorted(slices.Values(w.played))
	if n := len(slices.Compact(sorted)); n != len(w.played) {
		t.Errorf("runs were repeated: %v", w.played)
	}
	databases := &v1alpha1.GeoDatabaseList{}
	w.must(w.client.List(t.Context(), databases))
	if len(databases.Items) != 0 {
		t.Errorf("%d databases are left", len(databases.Items))
	}
}

// TestSearchWithoutAPeak: an experiment with searches that find no peak fails, and reports the reason.
func TestSearchWithoutAPeak(t *testing.T) {
	for name, c := range map[string]struct {
		ends   func(*v1alpha1.BenchmarkRun) v1alpha1.BenchmarkRunStatus
		reason string // reason of the condition Failed
		search v1alpha1.SearchReason
		says   string
		probes int32
	}{
		"none keeps": {func(run *v1alpha1.BenchmarkRun) v1alpha1.BenchmarkRunStatus { return ended(run, 0) },
			"ClaimsUnanswered", v1alpha1.SearchNoneKeeps, "the least rate, 100/s in each region, is missed", 3},
		"wrong answers": {func(run *v1alpha1.BenchmarkRun) v1alpha1.BenchmarkRunStatus {
			st := ended(run, 0)
			st.Reason, st.Checks = result.ReasonCheckFailed, []v1alpha1.CheckStatus{{Name: "micro-updates"}}
			return st
		}, "PointsFailed", v1alpha1.SearchProbeUnusable, "Failed: CheckFailed", 1},
		"cannot run": {func(run *v1alpha1.BenchmarkRun) v1alpha1.BenchmarkRunStatus {
			return v1alpha1.BenchmarkRunStatus{Stage: v1alpha1.StageFailed, Verdict: v1alpha1.VerdictInvalid, Reason: "Refused", Message: "no room"}
		}, "PointsFailed", v1alpha1.SearchProbeUnusable, "could not run: Invalid: Refused: no room", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSearchWorld(t, searching, c.ends)
			st := w.finish().Status
			failed := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionFailed)
			if failed == nil || failed.Status != metav1.ConditionTrue || failed.Reason != c.reason {
				t.Errorf("failed is %+v, want %s", failed, c.reason)
			}
			for _, s := range st.Searches {
				if s.Reason != c.search || !strings.Contains(s.Message, c.says) || s.Probes != c.probes || s.PeakRatePerSecond != 0 {
					t.Errorf("the search ended as %+v, want %s: %s", s, c.search, c.says)
				}
			}
		})
	}
	w := newSearchWorld(t, searching[:strings.Index(searching, "  claims:")], func(run *v1alpha1.BenchmarkRun) v1alpha1.BenchmarkRunStatus { return ended(run, 0) })
	if c := meta.FindStatusCondition(w.finish().Status.Conditions, v1alpha1.ConditionFailed); c.Reason != "NoPeak" || !strings.Contains(c.Message, "2 of 2 searches found no peak") {
		t.Errorf("without claims, failed is %+v", c)
	}
}
