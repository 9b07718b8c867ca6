package run

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/health"
)

// A run may have to wait in the queue, for other runs in the same stage, or for the database. The wait does not count
// toward the deadline, regardless of its outcome.
func TestWaitingIsNoPartOfTheTime(t *testing.T) {
	const waited = time.Hour
	for name, tt := range map[string]struct {
		stage            v1alpha1.Stage
		kind, from, to   string
		stageIs, startIs time.Duration // expected shift of StageStartTime and StartTime
	}{
		"its turn comes":                     {v1alpha1.StagePreflight, v1alpha1.ConditionAccepted, health.DatabaseBusy, "Possible", waited, waited},
		"its turn comes, and a probe is due": {v1alpha1.StagePreflight, v1alpha1.ConditionAccepted, health.DatabaseBusy, "Probing", waited, waited},
		"its database goes":                  {v1alpha1.StagePreflight, v1alpha1.ConditionAccepted, health.DatabaseBusy, "DatabaseNotFound", waited, waited},
		"it goes on waiting":                 {v1alpha1.StagePreflight, v1alpha1.ConditionAccepted, health.DatabaseBusy, health.DatabaseBusy, 0, 0},
		"it loads":                           {v1alpha1.StageLoad, v1alpha1.ConditionDataLoaded, reasonQueued, "Loading", waited, waited},
		"it loads, and fails unseen":         {v1alpha1.StageLoad, v1alpha1.ConditionDataLoaded, reasonQueued, "LoadFailed", waited, waited},
		"it is judged":                       {v1alpha1.StageEvaluate, v1alpha1.ConditionDatabaseQuiet, reasonQueued, "Judging", waited, 0},
		"a history is not read":              {v1alpha1.StageEvaluate, v1alpha1.ConditionDatabaseQuiet, reasonQueued, "HistoryNotRead", waited, 0},
		"it is compared":                     {v1alpha1.StageEvaluate, v1alpha1.ConditionNotRegressed, reasonQueued, "Comparing", waited, 0},
		"it was not queued":                  {v1alpha1.StageLoad, v1alpha1.ConditionDataLoaded, "Loading", "LoadFailed", 0, 0},
	} {
		begun := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
		clock := clocktesting.NewFakePassiveClock(begun)
		start := metav1.NewTime(begun)
		s := &scope{Reconciler: &Reconciler{Clock: clock}, run: &v1alpha1.BenchmarkRun{}}
		s.run.Status = v1alpha1.BenchmarkRunStatus{Stage: tt.stage, StartTime: &start, StageStartTime: &start}
		s.say(tt.kind, metav1.ConditionFalse, tt.from, "")
		clock.SetTime(begun.Add(waited))
		if tt.from == reasonQueued {
			s.run.Spec.Deadline = new(v1alpha1.DurationOf(2 * waited))
			if s.checkDeadlines(); s.run.Status.Verdict != "" {
				t.Errorf("%s: it ended while it waited: %s", name, s.run.Status.Message)
			}
		}
		s.say(tt.kind, metav1.ConditionFalse, tt.to, "")
		if got := s.run.Status.StageStartTime.Sub(begun); got != tt.stageIs {
			t.Errorf("%s: the stage began %v later, want %v", name, got, tt.stageIs)
		}
		if got := s.run.Status.StartTime.Sub(begun); got != tt.startIs {
			t.Errorf("%s: the run began %v later, want %v", name, got, tt.startIs)
		}
	}
}

// The message and the status of a finished run show a lower bound of a latency as a bound.
func TestConclusionShowsLowerBounds(t *testing.T) {
	s := &scope{Reconciler: &Reconciler{Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0))}, run: &v1alpha1.BenchmarkRun{}}
	doc := &result.Document{Verdict: v1alpha1.VerdictPassed}
	bound := v1alpha1.MoreThan(140_000)
	doc.Summary.LatencyMicroseconds = result.Latency{P50: bound, P99: bound}
	s.conclude(doc)
	if st := &s.run.Status; !strings.Contains(st.Message, "p50 > 140.0ms, p99 > 140.0ms") || st.Summary.LatencyMicroseconds.P99 != bound {
		t.Errorf("%s: %+v", st.Message, st.Summary.LatencyMicroseconds)
	}
}
