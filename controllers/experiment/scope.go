package experiment

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/ops/health"
	"github.com/geobench/geobench/internal/run/experiment"
)

// scope is one reconciliation of an Experiment. Steps change experiment in memory; the status is written at the end.
type scope struct {
	*Reconciler
	experiment *v1alpha1.Experiment
	// before is the experiment as it was read from the API server.
	before *v1alpha1.Experiment
	// expanded is set by expand. observe advances the searches of expanded with the outcomes of finished runs, and sets
	// schedule from the existing objects.
	expanded *experiment.Experiment
	schedule *schedule
	// again is the time until the next reconciliation. Watches wake up the experiment earlier.
	again  time.Duration
	events []kube.Event
}

func (s *scope) condition(kind string, value bool, reason, message string) {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: kube.Truncate(message, 4096),
		ObservedGeneration: s.experiment.Generation, LastTransitionTime: metav1.NewTime(s.Clock.Now())}
	if value {
		c.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&s.experiment.Status.Conditions, c)
}

// refused records that the spec cannot be carried out. The experiment is reconciled again when it, or an object to
// which it refers, changes.
func (s *scope) refused(r *kube.Refusal) {
	was := meta.FindStatusCondition(s.experiment.Status.Conditions, v1alpha1.ConditionAccepted)
	if was == nil || was.Status != metav1.ConditionFalse || was.Reason != r.Reason || was.Message != kube.Truncate(r.Message, 4096) {
		s.events = append(s.events, kube.Refused(r))
	}
	s.condition(v1alpha1.ConditionAccepted, false, r.Reason, r.Message)
	s.condition(v1alpha1.ConditionProgressing, false, r.Reason, r.Message)
	s.condition(v1alpha1.ConditionCompleted, false, r.Reason, r.Message)
	s.condition(v1alpha1.ConditionFailed, true, r.Reason, r.Message)
	s.experiment.Status.ObservedGeneration = s.experiment.Generation
	s.again = kube.PollSlow
	if r.Reason == health.NameTaken {
		s.again = kube.PollRun // objects of a deleted experiment of the same name may still be terminating
	}
}

// observe finds the runs and databases of the experiment. It ignores objects with the same names that do not belong to
// the experiment; creating the run or database then fails.
func (s *scope) observe(ctx context.Context) error {
	runs, databases := &v1alpha1.BenchmarkRunList{}, &v1alpha1.GeoDatabaseList{}
	mine := []client.ListOption{client.InNamespace(s.experiment.Namespace), client.MatchingLabels{kube.LabelExperiment: s.experiment.Name}}
	if err := s.Client.List(ctx, runs, mine...); err != nil {
		return err
	}
	if err := s.Client.List(ctx, databases, mine...); err != nil {
		return err
	}
	mineByName := map[string]*v1alpha1.BenchmarkRun{}
	for i := range runs.Items {
		if run := &runs.Items[i]; kube.MadeFor(run, s.experiment) {
			mineByName[run.Name] = run
		}
	}
	s.expanded = s.expanded.Advance(func(run *experiment.Run) (experiment.Ended, bool, error) {
		return endedBy(run, mineByName[run.Run.Name])
	})
	s.schedule = newSchedule(s.experiment, s.expanded)
	for i := range runs.Items {
		if run := &runs.Items[i]; mineByName[run.Name] == run {
			s.schedule.hasRun(run)
		}
	}
	for i := range databases.Items {
		if db := &databases.Items[i]; kube.MadeFor(db, s.experiment) {
			s.schedule.hasDatabase(db)
		}
	}
	s.schedule.settle()
	return nil
}

// endedBy returns the outcome of a run for a search, from the status of its object. The second result is false until
// the run needs no further attempt.
func endedBy(run *experiment.Run, object *v1alpha1.BenchmarkRun) (experiment.Ended, bool, error) {
	p := &point{Run: run, object: object}
	if object == nil || !p.plays() || p.state() != pointDone {
		return experiment.Ended{}, false, nil
	}
	st := &object.Status
	if st.ReportRef == nil || p.isOther() {
		return experiment.Ended{}, true, p.couldNotRun()
	}
	e := experiment.Ended{Verdict: st.Verdict, Reason: st.Reason, Message: st.Message, Wrong: p.failed()}
	if sum := st.Summary; sum != nil {
		e.ThroughputPerSecond, e.OfferedPerSecond, e.Overloaded, e.LeastServed = sum.ThroughputPerSecond, sum.OfferedPerSecond, sum.Overloaded, sum.LeastServed
	}
	return e, true, nil
}

// couldNotRun returns an error with the reason why a finished run has no result for its point.
func (p *point) couldNotRun() error {
	verdict, reason, message := p.ended()
	return fmt.Errorf("%s could not run: %s: %s: %s", p.Label, verdict, reason, message)
}

// ended returns the outcome of a point. It differs from the outcome of its run if the run measured something else.
func (p *point) ended() (verdict v1alpha1.Verdict, reason, message string) {
	if p.isOther() {
		return v1alpha1.VerdictInvalid, reasonOther, fmt.Sprintf("GeoDatabase %s or its network was not as in the experiment when BenchmarkRun %s began",
			p.object.Spec.DatabaseRef.Name, p.object.Name)
	}
	st := &p.object.Status
	return st.Verdict, st.Reason, st.Message
}

// maxResults limits the number of points in a status, and the number of searches.
const maxResults = 100

// describe reports the progress of the experiment in the status.
func (s *scope) describe(context.Context) error {
	st := &s.experiment.Status
	old := map[string]bool{}
	for _, p := range st.Active {
		old[p.Run] = true
	}
	st.Active, st.Results = nil, nil
	st.Points, st.Completed, st.Failed = 0, 0, 0
	for _, p := range s.schedule.all() {
		st.Points++
		switch p.state() {
		case pointUnderway, pointAgain:
			st.Active = append(st.Active, p.status())
		case pointDone:
			if p.failed() {
				st.Failed++
			} else {
				st.Completed++
			}
			// The event is emitted when the point ends, not at every later reconciliation.
			if old[p.Run.Run.Name] {
				s.events = append(s.events, eventPoint(p))
			}
			if len(st.Results) < maxResults {
				st.Results = append(st.Results, p.status())
			}
		}
	}
	if st.StartTime == nil && (len(st.Active) > 0 || st.Completed+st.Failed > 0) {
		now := metav1.NewTime(s.Clock.Now())
		st.StartTime = &now
	}
	st.Searches = nil
	searching := 0
	for _, search := range s.expanded.Searches {
		if search.Next != nil {
			searching++
		}
		if len(st.Searches) < maxResults {
			st.Searches = append(st.Searches, searchStatus(search))
		}
	}
	message := fmt.Sprintf("%d of %d points have ended", st.Completed+st.Failed, st.Points)
	if searching > 0 {
		message = fmt.Sprintf("%d points have ended, and more will follow from %d of %d searches", st.Completed+st.Failed, searching, len(s.expanded.Searches))
	}
	var running []string
	for _, p := range st.Active {
		running = append(running, p.Point)
	}
	if len(running) > 0 {
		message += "; running: " + strings.Join(running, ", ")
	}
	reason := "Running"
	switch {
	case s.schedule.done():
		reason = "Judging"
	case s.experiment.Spec.Suspend && len(running) == 0:
		reason, message = health.Suspended, message+"; spec.suspend holds the others"
	}
	s.condition(v1alpha1.ConditionProgressing, reason != health.Suspended, reason, message)
	s.condition(v1alpha1.ConditionCompleted, false, reason, message)
	s.condition(v1alpha1.ConditionFailed, false, reason, message)
	st.CompletionTime, st.Claims, st.ClaimsHold, st.ReportRef = nil, nil, "", nil
	if reason != health.Suspended { // a suspended experiment is woken up by changes of its spec or its runs
		s.again = kube.PollSlow
	}
	return nil
}

func searchStatus(s *experiment.Search) v1alpha1.SearchStatus {
	message := s.Said()
	switch {
	case s.Message != "" && message != "":
		message = s.Message + "; " + message
	case s.Message != "":
		message = s.Message
	}
	return v1alpha1.SearchStatus{Point: kube.Truncate(s.Label, 1024), Reason: s.Reason, PeakRatePerSecond: s.PeakRatePerSecond, Probes: int32(len(s.Probes)),
		Message: kube.Truncate(message, 4096)}
}

func (p *point) status() v1alpha1.PointStatus {
	out := v1alpha1.PointStatus{Run: p.Run.Run.Name, Point: kube.Truncate(p.Label, 1024), Attempt: int32(attemptOf(p.object))}
	if p.state() != pointDone {
		return out
	}
	out.Verdict, out.Reason, _ = p.ended()
	if sum := p.object.Status.Summary; sum != nil && !p.isOther() {
		out.ThroughputPerSecond, out.AbortPPM = &sum.ThroughputPerSecond, &sum.AbortPPM
		out.P50Microseconds, out.P99Microseconds = &sum.LatencyMicroseconds.P50, &sum.LatencyMicroseconds.P99
	}
	return out
}

func eventPoint(p *point) kube.Event {
	verdict, _, message := p.ended()
	note := fmt.Sprintf("%s: run %s: %s: %s", p.Label, p.object.Name, verdict, message)
	if p.failed() {
		return kube.Warning("PointFailed", "Run", note)
	}
	return kube.Normal("PointCompleted", "Run", note)
}

func eventRetry(p *point) kube.Event {
	_, reason, message := p.ended()
	return kube.Warning("PointRetried", "Run", fmt.Sprintf("%s: run %s was Invalid (%s: %s); attempt %d of %d begins",
		p.Label, p.object.Name, reason, message, attemptOf(p.object)+1, maxAttempts))
}

// attemptPrefix and a number form the spec.runID of an attempt: "", attempt-2, attempt-3.
const attemptPrefix = "attempt-"

// attemptOf returns the number of a run's attempt, from 1.
func attemptOf(run *v1alpha1.BenchmarkRun) int {
	if run == nil {
		return 1
	}
	n, err := strconv.Atoi(strings.TrimPrefix(run.Spec.RunID, attemptPrefix))
	if err != nil || n < 1 {
		return 1
	}
	return min(n, maxAttempts)
}
