package health

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
)

// noon is the last transition time of conditions in the tests.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(noon)}
}

const (
	yes = metav1.ConditionTrue
	no  = metav1.ConditionFalse
)

// says formats conditions as "Ready=False Reconciling=True reason: message".
func says(t *testing.T, conditions []metav1.Condition) string {
	t.Helper()
	var parts []string
	for _, c := range conditions {
		parts = append(parts, c.Type+"="+string(c.Status))
		if c.Reason != conditions[0].Reason || c.Message != conditions[0].Message || c.ObservedGeneration != 3 {
			t.Errorf("conditions differ: %+v", conditions)
		}
	}
	return strings.Join(parts, " ") + " " + conditions[0].Reason + ": " + conditions[0].Message
}

func TestRun(t *testing.T) {
	status := func(stage v1alpha1.Stage, conditions ...metav1.Condition) v1alpha1.BenchmarkRunStatus {
		return v1alpha1.BenchmarkRunStatus{ObservedGeneration: 3, Stage: stage, Conditions: conditions}
	}
	over := func(v v1alpha1.Verdict, reason, message string) v1alpha1.BenchmarkRunStatus {
		st := status(v1alpha1.StageCompleted, condition(v1alpha1.ConditionMeasured, no, "Old", "of before"))
		st.Verdict, st.Reason, st.Message = v, reason, message
		return st
	}
	suspend := v1alpha1.BenchmarkRunSpec{Suspend: true}
	for name, tc := range map[string]struct {
		spec   v1alpha1.BenchmarkRunSpec
		status v1alpha1.BenchmarkRunStatus
		want   string
	}{
		"new":                   {status: status(""), want: "Ready=False Reconciling=True Pending: Pending: the run is about to begin"},
		"suspended":             {spec: suspend, status: status(""), want: "Ready=False Suspended: Suspended: the run begins when spec.suspend is taken back"},
		"suspended, cancelled":  {spec: v1alpha1.BenchmarkRunSpec{Suspend: true, Cancel: true}, status: status(""), want: "Ready=False Reconciling=True Pending: Pending: the run is about to begin"},
		"suspended, under way":  {spec: suspend, status: status(v1alpha1.StageMeasure), want: "Ready=False Reconciling=True Measure: Measure"},
		"suspended, over":       {spec: suspend, status: over(v1alpha1.VerdictPassed, "ObjectivesHold", "all hold"), want: "Ready=True Succeeded=True ObjectivesHold: Passed: ObjectivesHold: all hold"},
		"preflight":             {status: status(v1alpha1.StagePreflight), want: "Ready=False Reconciling=True Preflight: Preflight"},
		"its database is not":   {status: status(v1alpha1.StagePreflight, condition(v1alpha1.ConditionAccepted, no, "DatabaseNotFound", "waiting for d")), want: "Ready=False Reconciling=True Preflight: Preflight: waiting for d"},
		"in the queue":          {status: status(v1alpha1.StagePreflight, condition(v1alpha1.ConditionAccepted, no, DatabaseBusy, "waiting for r")), want: "Ready=False Reconciling=True DatabaseBusy: DatabaseBusy: waiting for r"},
		"what it waits for now": {status: status(v1alpha1.StageEmulate, condition(v1alpha1.ConditionAccepted, yes, "Possible", "mine"), condition(v1alpha1.ConditionNetworkVerified, no, "Measuring", "3 of 10 samples")), want: "Ready=False Reconciling=True Emulate: Emulate: 3 of 10 samples"},
		"passed":                {status: over(v1alpha1.VerdictPassed, "ObjectivesHold", "all hold"), want: "Ready=True Succeeded=True ObjectivesHold: Passed: ObjectivesHold: all hold"},
		"failed":                {status: over(v1alpha1.VerdictFailed, "ObjectiveMissed", "too slow"), want: "Ready=False Stalled=True Succeeded=False ObjectiveMissed: Failed: ObjectiveMissed: too slow"},
		"invalid":               {status: over(v1alpha1.VerdictInvalid, "DriverBound", "busy"), want: "Ready=False Stalled=True Succeeded=False DriverBound: Invalid: DriverBound: busy"},
		"another runID":         {spec: v1alpha1.BenchmarkRunSpec{RunID: "two"}, status: over(v1alpha1.VerdictPassed, "ObjectivesHold", "all hold"), want: `Ready=False Reconciling=True StartingOver: StartingOver: what is left of the attempt with runID "" goes before the next one begins`},
	} {
		t.Run(name, func(t *testing.T) {
			run := &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Spec: tc.spec, Status: tc.status}
			if got := says(t, Run(run)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			run.DeletionTimestamp = &metav1.Time{Time: noon}
			if got := says(t, Run(run)); !strings.HasPrefix(got, "Ready=False Reconciling=True Terminating: ") {
				t.Errorf("when it is deleted: %s", got)
			}
		})
	}
}

func TestExperiment(t *testing.T) {
	accepted := condition(v1alpha1.ConditionAccepted, yes, "Possible", "2 points are valid")
	progressing := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionProgressing, status, reason, message)
	}
	refusal := func(reason string) []metav1.Condition {
		return []metav1.Condition{condition(v1alpha1.ConditionAccepted, no, reason, "why"), condition(v1alpha1.ConditionFailed, yes, reason, "why")}
	}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		later      time.Duration
		want       string
	}{
		"new":                     {nil, 0, "Ready=False Reconciling=True Pending: Pending: the experiment is about to begin"},
		"running":                 {[]metav1.Condition{accepted, progressing(yes, "Running", "0 of 2 points have ended")}, 0, "Ready=False Reconciling=True Running: Running: 0 of 2 points have ended"},
		"suspended":               {[]metav1.Condition{accepted, progressing(no, "Suspended", "1 of 2 points have ended")}, 0, "Ready=False Suspended: Suspended: 1 of 2 points have ended"},
		"refused":                 {refusal("InvalidSpec"), 0, "Ready=False Stalled=True InvalidSpec: InvalidSpec: why"},
		"what it needs may come":  {refusal(ReferenceNotFound), Patience - 1, "Ready=False Reconciling=True ReferenceNotFound: ReferenceNotFound: why"},
		"what it needs came not":  {refusal(ReferenceNotFound), Patience, "Ready=False Stalled=True ReferenceNotFound: ReferenceNotFound: why"},
		"claims differ":           {[]metav1.Condition{accepted, condition(v1alpha1.ConditionCompleted, yes, "ClaimsDiffer", "1 of 2 claims hold"), condition(v1alpha1.ConditionFailed, no, "ClaimsDiffer", "")}, 0, "Ready=True Succeeded=True ClaimsDiffer: Passed: ClaimsDiffer: 1 of 2 claims hold"},
		"claims differ, and gate": {[]metav1.Condition{accepted, condition(v1alpha1.ConditionCompleted, yes, "ClaimsDiffer", "x"), condition(v1alpha1.ConditionFailed, yes, "ClaimsDiffer", "1 of 2 claims hold")}, 0, "Ready=False Stalled=True Succeeded=False ClaimsDiffer: Failed: ClaimsDiffer: 1 of 2 claims hold"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &v1alpha1.Experiment{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Status: v1alpha1.ExperimentStatus{ObservedGeneration: 3, Conditions: tc.conditions}}
			if got := says(t, Experiment(e, noon.Add(tc.later))); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			e.Status.ObservedGeneration = 2
			if got := says(t, Experiment(e, noon)); !strings.HasPrefix(got, "Ready=False Reconciling=True NewGeneration: ") {
				t.Errorf("with another spec: %s", got)
			}
		})
	}
}

func TestDatabase(t *testing.T) {
	accepted, upToDate := condition(v1alpha1.ConditionAccepted, yes, "Possible", ""), condition(v1alpha1.ConditionProgressing, no, "UpToDate", "")
	nodes, verified := condition(v1alpha1.ConditionNodesReady, yes, "NodesReady", "all 2 nodes serve"), condition(v1alpha1.ConditionNetworkVerified, yes, "Verified", "")
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		later      time.Duration
		want       string
	}{
		"new":                {nil, 0, "Ready=False Reconciling=True Deploying: Deploying: the nodes are being deployed"},
		"nodes are starting": {[]metav1.Condition{accepted, upToDate, condition(v1alpha1.ConditionNodesReady, no, "NodesNotReady", "1 of 2")}, 0, "Ready=False Reconciling=True NodesNotReady: NodesNotReady: 1 of 2"},
		"not measured":       {[]metav1.Condition{accepted, upToDate, nodes}, 0, "Ready=False Reconciling=True Deploying: Deploying"},
		"not verified":       {[]metav1.Condition{accepted, upToDate, nodes, condition(v1alpha1.ConditionNetworkVerified, no, "OutOfTolerance", "us -> eu")}, 0, "Ready=False Reconciling=True OutOfTolerance: OutOfTolerance: us -> eu"},
		"serves":             {[]metav1.Condition{accepted, upToDate, nodes, verified}, 0, "Ready=True Serving: Serving: all 2 nodes serve, and the network between them is the declared one"},
		"change waits":       {[]metav1.Condition{accepted, nodes, verified, condition(v1alpha1.ConditionProgressing, no, RunActive, "BenchmarkRun r uses it")}, 0, "Ready=False Reconciling=True RunActive: RunActive: BenchmarkRun r uses it"},
		"is being changed":   {[]metav1.Condition{accepted, nodes, verified, condition(v1alpha1.ConditionProgressing, yes, "Deploying", "the spec changed")}, 0, "Ready=False Reconciling=True Deploying: Deploying: the spec changed"},
		"profile may come":   {[]metav1.Condition{condition(v1alpha1.ConditionAccepted, no, ProfileNotFound, "no aws"), nodes, verified}, Patience - 1, "Ready=False Reconciling=True ProfileNotFound: ProfileNotFound: no aws"},
		"profile came not":   {[]metav1.Condition{condition(v1alpha1.ConditionAccepted, no, ProfileNotFound, "no aws"), nodes, verified}, Patience, "Ready=False Stalled=True ProfileNotFound: ProfileNotFound: no aws"},
		"refused":            {[]metav1.Condition{condition(v1alpha1.ConditionAccepted, no, "InvalidSpec", "no calvni"), nodes, verified}, 0, "Ready=False Stalled=True InvalidSpec: InvalidSpec: no calvni"},
	} {
		t.Run(name, func(t *testing.T) {
			db := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Status: v1alpha1.GeoDatabaseStatus{ObservedGeneration: 3, Conditions: tc.conditions}}
			if got := says(t, Database(db, noon.Add(tc.later))); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// Reconciling and Stalled are removed when they no longer apply. A condition with the same status as in the API server
// keeps its transition time.
func TestApply(t *testing.T) {
	before := []metav1.Condition{condition(v1alpha1.ConditionReady, no, "Measure", ""), condition(v1alpha1.ConditionReconciling, yes, "Measure", ""),
		condition(v1alpha1.ConditionAccepted, no, NameTaken, "")}
	conditions := append([]metav1.Condition(nil), before...)
	later := metav1.NewTime(noon.Add(time.Hour))
	// Simulate a reconciliation in which the object is first accepted and then rejected.
	for _, status := range []metav1.ConditionStatus{yes, no} {
		meta.SetStatusCondition(&conditions, metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: status, Reason: NameTaken, LastTransitionTime: later})
	}
	Apply(&conditions, before, finding{state: bad, reason: "DriverBound", verdict: "Invalid"}.conditions(1), later)
	want := map[string]metav1.Time{v1alpha1.ConditionReady: before[0].LastTransitionTime, v1alpha1.ConditionStalled: later,
		v1alpha1.ConditionSucceeded: later, v1alpha1.ConditionAccepted: before[0].LastTransitionTime}
	if len(conditions) != len(want) {
		t.Errorf("%d conditions, want %d: %+v", len(conditions), len(want), conditions)
	}
	for kind, at := range want {
		if c := meta.FindStatusCondition(conditions, kind); c == nil || !c.LastTransitionTime.Equal(&at) {
			t.Errorf("%s: %+v, want it to have changed at %s", kind, c, at)
		}
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); c.Reason != "DriverBound" {
		t.Errorf("Ready is %+v", c)
	}
}

func TestJudge(t *testing.T) {
	for name, tc := range map[string]struct {
		finding  finding
		observed int64
		want     Outcome
	}{
		"unseen":    {finding{state: good, reason: "Old"}, -1, Underway},
		"working":   {finding{state: working, reason: "Measure"}, 1, Underway},
		"suspended": {finding{state: suspended, reason: Suspended}, 1, Underway},
		"good":      {finding{state: good, reason: "ObjectivesHold"}, 1, Succeeded},
		"bad":       {finding{state: bad, reason: "DriverBound"}, 1, Failed},
	} {
		if got, message := Judge(1, tc.observed, tc.finding.conditions(1)); got != tc.want || message == "" {
			t.Errorf("%s: %s: %s, want %s", name, got, message, tc.want)
		}
	}
	if got, _ := Judge(1, 1, nil); got != Underway {
		t.Errorf("an object without conditions is %s", got)
	}
}
