package run

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/ops/health"
)

// Of the runs in the queue of a database, only the first is woken up, and only while no run uses the database. Runs
// that are not in the queue are always woken up.
func TestWhoIsWokenUp(t *testing.T) {
	created := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	run := func(name string, stage v1alpha1.Stage, reason string) *v1alpha1.BenchmarkRun {
		created = created.Add(time.Second)
		r := &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, CreationTimestamp: metav1.NewTime(created)}}
		r.Spec.DatabaseRef.Name, r.Status.Stage = "d", stage
		if reason != "" {
			r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAccepted, Reason: reason}}
		}
		return r
	}
	over, active := run("over", v1alpha1.StageCompleted, "Possible"), run("active", v1alpha1.StageMeasure, "Possible")
	second, third := run("second", v1alpha1.StagePreflight, health.DatabaseBusy), run("third", v1alpha1.StagePreflight, health.DatabaseBusy)
	probing, fresh := run("probing", v1alpha1.StagePreflight, "Probing"), run("fresh", "", "")
	elsewhere := run("elsewhere", v1alpha1.StageMeasure, "Possible")
	elsewhere.Spec.DatabaseRef.Name = "another"
	reader := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(over, active, second, third, probing, fresh, elsewhere).Build()
	for name, tt := range map[string]struct {
		active string
		want   []string
	}{
		"used": {"active", []string{"active", "probing", "fresh"}},
		"free": {"", []string{"active", "second", "probing", "fresh"}},
	} {
		db := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "d"}}
		db.Status.ActiveRun = tt.active
		var got []string
		for _, req := range (&Reconciler{Client: reader}).wakesUp(t.Context(), db) {
			got = append(got, req.Name)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v are woken up, want %v", name, got, tt.want)
		}
	}
}

// The message of a waiting run names the run ahead of it, and the number of further runs.
func TestQueueSaysWhoIsAhead(t *testing.T) {
	for n, want := range map[int]string{1: "waiting for BenchmarkRun r0, which uses GeoDatabase d or comes first",
		3: "waiting for BenchmarkRun r0, which uses GeoDatabase d or comes first; 2 more come before this run"} {
		s := &scope{
			Reconciler: &Reconciler{Clock: clocktesting.NewFakePassiveClock(time.Now())},
			run:        &v1alpha1.BenchmarkRun{},
			db:         &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: "d"}},
		}
		var ahead []string
		for i := range n {
			ahead = append(ahead, fmt.Sprintf("r%d", i))
		}
		s.queue(ahead)
		if got := s.run.Status.Conditions[0].Message; got != want {
			t.Errorf("%d ahead: %q, want %q", n, got, want)
		}
	}
}

// A functional test is directly ahead of the run that requested it. A run that falsely claims to be a test, of a run
// that is over or has no such test, waits like any other run.
func TestTurnsOfTests(t *testing.T) {
	created := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	run := func(name string, owner *v1alpha1.BenchmarkRun) *v1alpha1.BenchmarkRun {
		created = created.Add(time.Second)
		r := &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(created)}}
		r.Spec.DatabaseRef.Name = "d"
		if owner != nil {
			r.Labels = kube.RunLabels(owner, kube.RoleFunctionalTest)
			r.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1alpha1.GroupVersion.WithKind("BenchmarkRun"))}
		}
		return r
	}
	tests := []v1alpha1.FunctionalTest{v1alpha1.FunctionalGlobalDeadlock}
	over, first, waits := run("over", nil), run("first", nil), run("waits", nil)
	over.Spec.FunctionalTests, first.Spec.FunctionalTests = tests, tests
	over.Status.Stage = v1alpha1.StageCompleted
	reader := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(over, first, waits,
		run("over-deadlock", over), run("cuts-in", first), run("first-deadlock", first)).Build()
	runs, err := contenders(t.Context(), reader, &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "d"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range runs {
		got = append(got, r.Name)
	}
	if want := []string{"first-deadlock", "first", "waits", "over-deadlock", "cuts-in"}; !slices.Equal(got, want) {
		t.Errorf("the turns are %v, want %v", got, want)
	}
}
